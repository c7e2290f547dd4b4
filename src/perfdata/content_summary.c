/*
 * content_summary.c - samples counted, files that were mapped; see content_summary.h.
 */
#include "perfdata/content_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"

#define WRAP_BYTES 65536u
#define MAPS_MAX 65536u
#define NAME_MAX_BYTES 4096u
#define USER 2 /* PERF_RECORD_MISC_CPUMODE_*: kernel 1, user 2; those of guests are beyond */

void pev_content_summary_free(struct pev_content_summary *survey)
{
	for (uint32_t i = 0; i < survey->nr_maps; i++)
		free(survey->maps[i].filename);
	free(survey->maps);
	free(survey->names);
	free(survey->events);
	free(survey->wrap);
	free(survey->leaks);
	*survey = (struct pev_content_summary){ 0 };
}

/* ---- events ---- */

static struct pev_content_summary_event *find_event(const struct pev_content_summary *survey,
						    uint64_t id)
{
	uint64_t i = (id * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	while (survey->events[i & (survey->cap_events - 1)].id &&
	       survey->events[i & (survey->cap_events - 1)].id != id)
		i++;
	return &survey->events[i & (survey->cap_events - 1)];
}

static int grow_events(struct pev_content_summary *survey)
{
	struct pev_content_summary_event *old = survey->events;
	uint32_t cap = survey->cap_events;

	survey->events = calloc(cap ? 2 * (size_t)cap : 64, sizeof(*old));
	if (!survey->events) {
		survey->events = old;
		return -ENOMEM;
	}
	survey->cap_events = cap ? 2 * cap : 64;
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].id)
			*find_event(survey, old[i].id) = old[i];
	free(old);
	return 0;
}

int pev_content_summary_event(struct pev_content_summary *survey, uint64_t id,
			      const struct pev_plan *plan)
{
	struct pev_content_summary_event *event;

	survey->latest = NULL;
	if (!id)
		return 0;
	if (2 * (survey->nr_events + 1) > survey->cap_events && grow_events(survey) < 0)
		return -ENOMEM;
	event = find_event(survey, id);
	survey->nr_events += !event->id;
	*event = (struct pev_content_summary_event){ .id = id, .plan = plan };
	return 0;
}

static const struct pev_plan *plan_of(struct pev_content_summary *survey,
				      const unsigned char *bytes,
				      uint16_t size)
{
	uint64_t id = pev_record_identifier(bytes, size, false);

	if (!survey->latest || survey->latest->id != id) {
		survey->latest = id && survey->cap_events ? find_event(survey, id) : NULL;
		if (survey->latest && !survey->latest->id)
			survey->latest = NULL;
	}
	return survey->latest ? survey->latest->plan : NULL;
}

/* ---- maps ---- */

static uint32_t *find_name(const struct pev_content_summary *survey, const char *name, size_t len)
{
	uint64_t i = UINT64_C(0xcbf29ce484222325);
	uint32_t *at;

	for (size_t k = 0; k < len; k++)
		i = (i ^ (unsigned char)name[k]) * UINT64_C(0x100000001b3);
	for (;; i++) {
		at = &survey->names[i & (survey->cap_names - 1)];
		if (!*at || (strncmp(survey->maps[*at - 1].filename, name, len) == 0 &&
			     survey->maps[*at - 1].filename[len] == '\0'))
			return at;
	}
}

static int grow_maps(struct pev_content_summary *survey)
{
	uint32_t cap = survey->cap_maps ? 2 * survey->cap_maps : 256;
	struct pev_content_summary_map *maps = realloc(survey->maps, sizeof(*maps) * cap);
	uint32_t *names = calloc(2 * (size_t)cap, sizeof(*names));

	if (maps)
		survey->maps = maps;
	if (!maps || !names) {
		free(names);
		return -ENOMEM;
	}
	free(survey->names);
	survey->names = names;
	survey->cap_maps = cap;
	survey->cap_names = 2 * cap;
	for (uint32_t i = 0; i < survey->nr_maps; i++)
		*find_name(survey, maps[i].filename, strlen(maps[i].filename)) = i + 1;
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

static void take_map(struct pev_content_summary *survey, const unsigned char *bytes, uint16_t size)
{
	const struct pev_plan *plan = plan_of(survey, bytes, size);
	struct pev_record rec;
	struct pev_value name;
	uint32_t *at;

	if (!plan || pev_record_locate(&rec, plan, bytes, size, NULL) < 0 ||
	    !pev_record_get(&rec, PEV_F_FILENAME, &name) || name.len > NAME_MAX_BYTES ||
	    (rec.misc & PERF_RECORD_MISC_CPUMODE_MASK) > USER || survey->nr_maps == MAPS_MAX)
		return;
	if (survey->nr_maps == survey->cap_maps && grow_maps(survey) < 0)
		return;
	at = find_name(survey, (const char *)name.p, name.len);
	if (*at)
		return;
	survey->maps[survey->nr_maps] = (struct pev_content_summary_map){
		.filename = strndup((const char *)name.p, name.len),
	};
	if (!survey->maps[survey->nr_maps].filename)
		return;
	fill_map(&survey->maps[survey->nr_maps], &rec);
	*at = ++survey->nr_maps;
}

/* ---- records ---- */

static void take_sample(struct pev_content_summary *survey, const unsigned char *bytes,
			uint16_t size)
{
	const struct pev_plan *plan = plan_of(survey, bytes, size);
	uint16_t off = plan ? plan->fixed[PEV_F_TIME] : 0;
	uint64_t time;

	survey->samples++;
	if (!off || off + 8u > size)
		return;
	time = pev_load64(bytes + off, false);
	if (!survey->last || time < survey->first)
		survey->first = time;
	if (time > survey->last)
		survey->last = time;
}

static void take(struct pev_content_summary *survey, const unsigned char *bytes, uint16_t size)
{
	uint32_t type = pev_load32(bytes, false);

	if (type == PERF_RECORD_SAMPLE)
		take_sample(survey, bytes, size);
	else if (type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2)
		take_map(survey, bytes, size);
}

/*
 * An event that did not ask for build ids can get the bit of one that did, of whichever session,
 * with the inode layout: has_build_id(), record.c.
 */
static void note_leak(struct pev_content_summary *survey, const unsigned char *bytes, uint16_t size,
		      size_t at)
{
	uint16_t misc = pev_load16(bytes + offsetof(struct perf_event_header, misc), false);
	const struct pev_plan *plan;

	if (pev_load32(bytes, false) != PERF_RECORD_MMAP2 || !(misc & PEV_MISC_MMAP_BUILD_ID))
		return;
	plan = plan_of(survey, bytes, size);
	if (plan && plan->build_id)
		return;
	if (survey->nr_leaks == survey->cap_leaks) {
		uint32_t cap = survey->cap_leaks ? 2 * survey->cap_leaks : 64;
		size_t *leaks = realloc(survey->leaks, sizeof(*leaks) * cap);

		if (!leaks)
			return;
		survey->leaks = leaks;
		survey->cap_leaks = cap;
	}
	survey->leaks[survey->nr_leaks++] = at;
}

/* A record whose rest is in the next piece: how much of that it is; 0: it is not. */
static size_t take_wrapped(struct pev_content_summary *survey, const unsigned char *bytes,
			   size_t here,
			   const struct iovec *next, size_t begin)
{
	uint16_t size = pev_load16(bytes + offsetof(struct perf_event_header, size), false);

	if (size < here || size - here > next->iov_len)
		return 0;
	if (!survey->wrap)
		survey->wrap = malloc(WRAP_BYTES);
	if (survey->wrap) {
		memcpy(survey->wrap, bytes, here);
		memcpy(survey->wrap + here, next->iov_base, size - here);
		take(survey, survey->wrap, size);
		note_leak(survey, survey->wrap, size, begin);
	}
	return size - here;
}

void pev_content_summary_take(struct pev_content_summary *survey, const struct iovec *pieces,
			      int nr)
{
	size_t at = 0, before = 0; /* bytes of the pieces before */

	survey->nr_leaks = 0;
	for (int i = 0; i < nr; i++) {
		const unsigned char *bytes = pieces[i].iov_base;
		size_t len = pieces[i].iov_len;

		while (len - at >= sizeof(struct perf_event_header)) {
			uint16_t size = pev_load16(
				bytes + at + offsetof(struct perf_event_header, size), false);

			if (size < sizeof(struct perf_event_header) || size > len - at)
				break;
			take(survey, bytes + at, size);
			note_leak(survey, bytes + at, size, before + at);
			at += size;
		}
		if (len - at >= sizeof(struct perf_event_header) && i + 1 < nr)
			at = take_wrapped(survey, bytes + at, len - at, &pieces[i + 1],
					  before + at);
		else
			at = 0;
		before += len;
	}
}
