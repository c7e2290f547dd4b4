/* content_summary.c - counts samples and lists mapped files; see content_summary.h. */
#include "perfdata/content_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "base/abi.h"

#define WRAP_BYTES 65536u
#define MAPS_MAX 65536u
#define NAME_MAX_BYTES 4096u
#define USER 2 /* PERF_RECORD_MISC_CPUMODE_*: kernel 1, user 2; larger ones are of guests */

void pev_content_summary_free(struct pev_content_summary *summary)
{
	for (uint32_t i = 0; i < summary->nr_maps; i++)
		free(summary->maps[i].filename);
	free(summary->maps);
	free(summary->names);
	free(summary->events);
	free(summary->wrap);
	free(summary->false_build_ids);
	*summary = (struct pev_content_summary){ 0 };
}

/* ---- events ---- */

static struct pev_content_summary_event *find_event(const struct pev_content_summary *summary,
						    uint64_t id)
{
	uint64_t i = (id * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	while (summary->events[i & (summary->cap_events - 1)].id &&
	       summary->events[i & (summary->cap_events - 1)].id != id)
		i++;
	return &summary->events[i & (summary->cap_events - 1)];
}

static int grow_events(struct pev_content_summary *summary)
{
	struct pev_content_summary_event *old = summary->events;
	uint32_t cap = summary->cap_events;

	summary->events = calloc(cap ? 2 * (size_t)cap : 64, sizeof(*old));
	if (!summary->events) {
		summary->events = old;
		return -ENOMEM;
	}
	summary->cap_events = cap ? 2 * cap : 64;
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].id)
			*find_event(summary, old[i].id) = old[i];
	free(old);
	return 0;
}

int pev_content_summary_add_event(struct pev_content_summary *summary, uint64_t id,
				  const struct pev_plan *plan)
{
	struct pev_content_summary_event *event;

	summary->latest = NULL;
	if (!id)
		return 0;
	if (2 * (summary->nr_events + 1) > summary->cap_events && grow_events(summary) < 0)
		return -ENOMEM;
	event = find_event(summary, id);
	summary->nr_events += !event->id;
	*event = (struct pev_content_summary_event){ .id = id, .plan = plan };
	return 0;
}

static const struct pev_plan *plan_of(struct pev_content_summary *summary,
				      const unsigned char *bytes,
				      uint16_t size)
{
	uint64_t id = pev_record_identifier(bytes, size, false);

	if (!summary->latest || summary->latest->id != id) {
		summary->latest = id && summary->cap_events ? find_event(summary, id) : NULL;
		if (summary->latest && !summary->latest->id)
			summary->latest = NULL;
	}
	return summary->latest ? summary->latest->plan : NULL;
}

/* ---- maps ---- */

static uint32_t *find_name(const struct pev_content_summary *summary, const char *name, size_t len)
{
	uint64_t i = UINT64_C(0xcbf29ce484222325);
	uint32_t *offset;

	for (size_t k = 0; k < len; k++)
		i = (i ^ (unsigned char)name[k]) * UINT64_C(0x100000001b3);
	for (;; i++) {
		offset = &summary->names[i & (summary->cap_names - 1)];
		if (!*offset || (strncmp(summary->maps[*offset - 1].filename, name, len) == 0 &&
				 summary->maps[*offset - 1].filename[len] == '\0'))
			return offset;
	}
}

static int grow_maps(struct pev_content_summary *summary)
{
	uint32_t cap = summary->cap_maps ? 2 * summary->cap_maps : 256;
	struct pev_content_summary_map *maps = realloc(summary->maps, sizeof(*maps) * cap);
	uint32_t *names = calloc(2 * (size_t)cap, sizeof(*names));

	if (maps)
		summary->maps = maps;
	if (!maps || !names) {
		free(names);
		return -ENOMEM;
	}
	free(summary->names);
	summary->names = names;
	summary->cap_maps = cap;
	summary->cap_names = 2 * cap;
	for (uint32_t i = 0; i < summary->nr_maps; i++)
		*find_name(summary, maps[i].filename, strlen(maps[i].filename)) = i + 1;
	return 0;
}

static void fill_map(struct pev_content_summary_map *map, const struct pev_record *rec)
{
	struct pev_value value;

	map->misc = rec->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	if (pev_record_get(rec, PEV_F_PID, &value))
		map->pid = (int)value.u;
	map->has_ino = pev_record_get(rec, PEV_F_INO, &value);
	if (map->has_ino)
		map->ino = value.u;
	if (pev_record_get(rec, PEV_F_BUILD_ID, &value) && value.len <= sizeof(map->build_id)) {
		memcpy(map->build_id, value.p, value.len);
		map->build_id_len = (uint8_t)value.len;
	}
}

static void add_map(struct pev_content_summary *summary, const unsigned char *bytes, uint16_t size)
{
	const struct pev_plan *plan = plan_of(summary, bytes, size);
	struct pev_record rec;
	struct pev_value name;
	uint32_t *offset;

	if (!plan || pev_record_locate(&rec, plan, bytes, size, NULL) < 0 ||
	    !pev_record_get(&rec, PEV_F_FILENAME, &name) || name.len > NAME_MAX_BYTES ||
	    (rec.misc & PERF_RECORD_MISC_CPUMODE_MASK) > USER || summary->nr_maps == MAPS_MAX)
		return;
	if (summary->nr_maps == summary->cap_maps && grow_maps(summary) < 0)
		return;
	offset = find_name(summary, (const char *)name.p, name.len);
	if (*offset)
		return;
	summary->maps[summary->nr_maps] = (struct pev_content_summary_map){
		.filename = strndup((const char *)name.p, name.len),
	};
	if (!summary->maps[summary->nr_maps].filename)
		return;
	fill_map(&summary->maps[summary->nr_maps], &rec);
	*offset = ++summary->nr_maps;
}

/* ---- records ---- */

static void add_sample(struct pev_content_summary *summary, const unsigned char *bytes,
		       uint16_t size)
{
	const struct pev_plan *plan = plan_of(summary, bytes, size);
	uint16_t off = plan ? plan->fixed[PEV_F_TIME] : 0;
	uint64_t time;

	summary->samples++;
	if (!off || off + 8u > size)
		return;
	time = pev_load64(bytes + off, false);
	if (!summary->last || time < summary->first)
		summary->first = time;
	if (time > summary->last)
		summary->last = time;
}

static void add_record(struct pev_content_summary *summary, const unsigned char *bytes,
		       uint16_t size)
{
	uint32_t type = pev_load32(bytes, false);

	if (type == PERF_RECORD_SAMPLE)
		add_sample(summary, bytes, size);
	else if (type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2)
		add_map(summary, bytes, size);
}

/*
 * An event without build ids can get the bit of another session's event that has
 * them, but the record has the inode layout: see has_build_id() in record.c.
 */
static void note_false_build_id(struct pev_content_summary *summary, const unsigned char *bytes,
				uint16_t size, size_t offset)
{
	uint16_t misc = pev_load16(bytes + offsetof(struct perf_event_header, misc), false);
	const struct pev_plan *plan;

	if (pev_load32(bytes, false) != PERF_RECORD_MMAP2 || !(misc & PEV_MISC_MMAP_BUILD_ID))
		return;
	plan = plan_of(summary, bytes, size);
	if (plan && plan->build_id)
		return;
	if (pev_list_reserve(&summary->false_build_ids, &summary->cap_false_build_ids,
			     summary->nr_false_build_ids + 1, sizeof(*summary->false_build_ids)))
		summary->false_build_ids[summary->nr_false_build_ids++] = offset;
}

/* Adds a record that ends in the next piece. Returns its bytes there, 0 if it is not a record. */
static size_t add_split_record(struct pev_content_summary *summary, const unsigned char *bytes,
			       size_t here,
			       const struct iovec *next, size_t begin)
{
	uint16_t size = pev_load16(bytes + offsetof(struct perf_event_header, size), false);

	if (size < here || size - here > next->iov_len)
		return 0;
	if (!summary->wrap)
		summary->wrap = malloc(WRAP_BYTES);
	if (summary->wrap) {
		memcpy(summary->wrap, bytes, here);
		memcpy(summary->wrap + here, next->iov_base, size - here);
		add_record(summary, summary->wrap, size);
		note_false_build_id(summary, summary->wrap, size, begin);
	}
	return size - here;
}

void pev_content_summary_add_records(struct pev_content_summary *summary,
				     const struct iovec *pieces, int nr)
{
	size_t offset = 0, before = 0; /* before: bytes of earlier pieces */

	summary->nr_false_build_ids = 0;
	for (int i = 0; i < nr; i++) {
		const unsigned char *bytes = pieces[i].iov_base;
		size_t len = pieces[i].iov_len;

		while (len - offset >= sizeof(struct perf_event_header)) {
			uint16_t size = pev_load16(
				bytes + offset + offsetof(struct perf_event_header, size), false);

			if (size < sizeof(struct perf_event_header) || size > len - offset)
				break;
			add_record(summary, bytes + offset, size);
			note_false_build_id(summary, bytes + offset, size, before + offset);
			offset += size;
		}
		if (len - offset >= sizeof(struct perf_event_header) && i + 1 < nr)
			offset = add_split_record(summary, bytes + offset, len - offset,
						  &pieces[i + 1], before + offset);
		else
			offset = 0;
		before += len;
	}
}
