/*
 * file_tables.c - the tables of the file format; see file_tables.h.
 */
#include "perfdata/file_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pev_recorded_section *pev_description_section(struct pev_description *description,
						     uint32_t id)
{
	uint32_t i = 0;

	while (i < description->nr_sections && description->sections[i].id != id)
		i++;
	if (i == description->nr_sections)
		description->nr_sections++;
	free(description->sections[i].bytes);
	description->sections[i] = (struct pev_recorded_section){ .id = id };
	return &description->sections[i];
}

void pev_description_free(struct pev_description *description)
{
	for (uint32_t i = 0; i < description->nr_events; i++) {
		free(description->events[i].ids);
		free(description->events[i].plan);
	}
	for (uint32_t i = 0; i < description->nr_sections; i++)
		free(description->sections[i].bytes);
	free(description->events);
}

static int compare_ids(const void *a, const void *b)
{
	const struct pev_recorded_section *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static uint64_t tables_end(const struct pev_file_tables *tables)
{
	return tables->base + tables->len;
}

static void add_bytes(struct pev_file_tables *tables, const void *bytes, size_t len)
{
	if (len)
		memcpy(tables->bytes + tables->len, bytes, len);
	tables->len += len;
}

static uint32_t attr_size(const struct pev_description *description)
{
	uint32_t size = PERF_ATTR_SIZE_VER0;

	for (uint32_t i = 0; i < description->nr_events; i++)
		if (description->events[i].attr.size > size)
			size = description->events[i].attr.size;
	return size;
}

static size_t tables_size(const struct pev_description *description)
{
	size_t size = (size_t)description->nr_sections * 16;

	size += (size_t)description->nr_events * (attr_size(description) + 16);
	for (uint32_t i = 0; i < description->nr_sections; i++)
		if (description->sections[i].bytes)
			size += (size_t)description->sections[i].size;
	for (uint32_t i = 0; i < description->nr_events; i++)
		size += (size_t)description->events[i].nr_ids * 8;
	return size;
}

/* Adds the table of sections, and those sections that are not in the stream. */
static void add_sections(struct pev_description *description, struct pev_file_tables *tables)
{
	uint64_t at = tables->base + (uint64_t)description->nr_sections * 16;

	qsort(description->sections, description->nr_sections,
	      sizeof(description->sections[0]), compare_ids);
	for (uint32_t i = 0; i < description->nr_sections; i++) {
		struct pev_recorded_section *section = &description->sections[i];

		if (section->bytes) {
			section->offset = at;
			at += section->size;
		}
		add_bytes(tables, &section->offset, 8);
		add_bytes(tables, &section->size, 8);
	}
	for (uint32_t i = 0; i < description->nr_sections; i++)
		if (description->sections[i].bytes)
			add_bytes(tables, description->sections[i].bytes,
				  (size_t)description->sections[i].size);
}

/* Adds { attr, offset and size of its ids } of one size for all events; then the ids. */
static void add_events(const struct pev_description *description, struct pev_file_tables *tables)
{
	uint32_t size = attr_size(description);
	uint64_t at = tables_end(tables) + (uint64_t)description->nr_events * (size + 16);

	for (uint32_t i = 0; i < description->nr_events; i++) {
		struct pev_attr attr = description->events[i].attr;
		uint64_t len = (uint64_t)description->events[i].nr_ids * 8;

		attr.size = size;
		add_bytes(tables, &attr, size);
		add_bytes(tables, &at, 8);
		add_bytes(tables, &len, 8);
		at += len;
	}
	for (uint32_t i = 0; i < description->nr_events; i++)
		add_bytes(tables, description->events[i].ids,
			  (size_t)description->events[i].nr_ids * 8);
}

int pev_file_tables_build(struct pev_file_tables *tables, struct pev_description *description,
			  uint64_t base)
{
	*tables = (struct pev_file_tables){ .bytes = malloc(tables_size(description)),
					    .base = base };
	if (!tables->bytes)
		return -ENOMEM;
	add_sections(description, tables);
	tables->attrs = tables_end(tables);
	add_events(description, tables);
	return 0;
}

void pev_file_tables_head(const struct pev_file_tables *tables,
			  const struct pev_description *description, uint64_t data,
			  uint64_t head[PEV_FILE_HEAD / 8])
{
	const uint64_t stride = attr_size(description) + 16;

	memset(head, 0, PEV_FILE_HEAD);
	head[0] = PEV_FILE_MAGIC;
	head[1] = PEV_FILE_HEAD;
	head[2] = stride;
	head[3] = tables->attrs;
	head[4] = stride * description->nr_events;
	head[5] = data;
	head[6] = tables->base - data;
	for (uint32_t i = 0; i < description->nr_sections; i++) {
		uint32_t id = description->sections[i].id;

		head[9 + id / 64] |= UINT64_C(1) << id % 64;
	}
}
