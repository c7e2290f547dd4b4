/*
 * file_tables.c - the tables of the file format; see file_tables.h.
 */
#include "perfdata/file_tables.h"

#include <errno.h>
#include <fcntl.h>
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

/* ---- a finished file ---- */

/* Writes all bytes at an offset. Returns 0 or -errno. */
static int write_all(const struct pev_sys *sys, int fd, const void *bytes, size_t len,
		     uint64_t offset)
{
	const unsigned char *left = bytes;

	while (len) {
		int64_t n = sys->pwrite(sys->ctx, fd, left, len, offset);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		left += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* Finds the table's entry of a section. Returns its offset, 0 if there is none. */
static uint64_t find_entry(const uint64_t head[PEV_FILE_HEAD / 8], uint32_t id, uint64_t size)
{
	uint64_t rank = 0, offset;

	if (!(head[9 + id / 64] >> id % 64 & 1))
		return 0;
	for (uint32_t i = 0; i < id; i++)
		rank += head[9 + i / 64] >> i % 64 & 1;
	if (head[5] > size || head[6] > size - head[5])
		return 0;
	offset = head[5] + head[6] + 16 * rank;
	return offset <= size && size - offset >= 16 ? offset : 0;
}

static int replace_section(const struct pev_sys *sys, int fd, uint32_t id, const void *bytes,
			   size_t len)
{
	unsigned char raw[PEV_FILE_HEAD];
	uint64_t head[PEV_FILE_HEAD / 8], entry[2], offset;
	struct pev_stat st;
	bool swap;
	int rc = sys->fstat(sys->ctx, fd, &st);

	if (rc < 0)
		return rc;
	if (sys->pread(sys->ctx, fd, raw, sizeof(raw), 0) != sizeof(raw))
		return -EBADMSG;
	swap = pev_load64(raw, false) != PEV_FILE_MAGIC;
	for (size_t i = 0; i < PEV_FILE_HEAD / 8; i++)
		head[i] = pev_load64(raw + 8 * i, swap);
	if (head[0] != PEV_FILE_MAGIC || head[1] != PEV_FILE_HEAD)
		return -EBADMSG;
	offset = find_entry(head, id, st.size);
	if (!offset)
		return -EBADMSG;
	entry[0] = swap ? __builtin_bswap64(st.size) : st.size;
	entry[1] = swap ? __builtin_bswap64(len) : len;
	rc = write_all(sys, fd, bytes, len, st.size);
	return rc < 0 ? rc : write_all(sys, fd, entry, sizeof(entry), offset);
}

int pev_file_replace_section(const struct pev_sys *sys, const char *path, uint32_t id,
			     const void *bytes, size_t len, struct pev_err *err)
{
	int fd = sys->open(sys->ctx, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int rc = fd < 0 ? fd : replace_section(sys, fd, id, bytes, len);

	if (fd >= 0)
		sys->close(sys->ctx, fd);
	if (rc == -EBADMSG)
		return pev_fail(err, rc, "cannot change %s: it has no table with that section",
				path);
	return rc < 0 ? pev_fail(err, rc, "cannot change %s: %s", path, strerror(-rc)) : 0;
}
