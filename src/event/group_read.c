/*
 * group_read.c - the samples of a group's members; see group_read.h.
 */
#include "event/group_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "base/abi.h"

#define SAMPLE_BYTES 65536u

void pev_group_read_free(struct pev_group_read *group)
{
	free(group->counts);
	free(group->parts);
	free(group->bytes);
	*group = (struct pev_group_read){ 0 };
}

bool pev_group_read_splits(const struct pev_attr *attr)
{
	const uint64_t format = PERF_FORMAT_GROUP | PERF_FORMAT_ID;

	return attr->sample_type & PERF_SAMPLE_READ && !(attr->sample_type & PERF_SAMPLE_RAW) &&
	       (attr->read_format & format) == format;
}

static struct pev_last_count *find_count(const struct pev_group_read *group, uint64_t id,
					 uint32_t tid)
{
	uint64_t i = ((id ^ (uint64_t)tid << 32) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	struct pev_last_count *count;

	for (;; i++) {
		count = &group->counts[i & (group->cap_counts - 1)];
		if (!count->used || (count->id == id && count->tid == tid))
			return count;
	}
}

static int grow_counts(struct pev_group_read *group)
{
	struct pev_last_count *old = group->counts;
	uint32_t cap = group->cap_counts;

	group->counts = calloc(cap ? 2 * (size_t)cap : 64, sizeof(*old));
	if (!group->counts) {
		group->counts = old;
		return -ENOMEM;
	}
	group->cap_counts = cap ? 2 * cap : 64;
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].used)
			*find_count(group, old[i].id, old[i].tid) = old[i];
	free(old);
	return 0;
}

/* Sets *more to the difference from the count at the last sample. */
static int update_count(struct pev_group_read *group, const struct pev_read_value *value,
			uint32_t tid, uint64_t *more)
{
	struct pev_last_count *count;

	if (2 * (group->nr_counts + 1) > group->cap_counts && grow_counts(group) < 0)
		return -ENOMEM;
	count = find_count(group, value->id, tid);
	group->nr_counts += !count->used;
	/* Less than before: another thread with a reused tid. */
	*more = value->value - (value->value < count->value ? 0 : count->value);
	*count = (struct pev_last_count){ value->id, value->value, tid, true };
	return 0;
}

static int add_part(struct pev_group_read *group, uint32_t event, uint64_t period)
{
	if (!pev_list_reserve(&group->parts, &group->cap_parts, group->nr_parts + 1,
			      sizeof(*group->parts)))
		return -ENOMEM;
	group->parts[group->nr_parts++] = (struct pev_group_part){ event, period };
	return 0;
}

int pev_group_read_split(struct pev_group_read *group, const struct pev_record *rec, bool inherit,
			 pev_number_fn number, const void *ctx)
{
	const struct pev_plan *plan = rec->plan;
	struct pev_value value, tid = { 0 };
	struct pev_read read;
	bool known = false;
	int rc = 0;

	group->at = group->nr_parts = 0;
	if (!pev_record_get(rec, PEV_F_READ, &value) ||
	    pev_read_parse(&read, plan->read_format, plan->swap, value.p, value.len) < 0)
		return 0;
	/* Since 6.12 the kernel reads an inherited group for each thread. */
	if (inherit)
		pev_record_get(rec, PEV_F_TID, &tid);
	if (!group->bytes)
		group->bytes = malloc(SAMPLE_BYTES);
	if (!group->bytes)
		return -ENOMEM;
	for (uint64_t i = 0; rc == 0 && i < read.nr; i++) {
		struct pev_read_value one = pev_read_at(&read, i);
		uint32_t event = number(ctx, one.id);
		uint64_t more;

		if (event == UINT32_MAX)
			continue;
		known = true;
		rc = update_count(group, &one, (uint32_t)tid.u, &more);
		if (rc == 0 && more)
			rc = add_part(group, event, more);
	}
	memcpy(group->bytes, rec->bytes, rec->size);
	group->plan = *plan;
	group->size = rec->size;
	return rc < 0 ? rc : known;
}

const struct pev_group_part *pev_group_read_next(struct pev_group_read *group)
{
	uint16_t off = group->plan.fixed[PEV_F_PERIOD];
	const struct pev_group_part *part;
	uint64_t period;

	if (group->at == group->nr_parts)
		return NULL;
	part = &group->parts[group->at++];
	group->plan.period = part->period;
	period = group->plan.swap ? __builtin_bswap64(part->period) : part->period;
	if (off)
		memcpy(group->bytes + off, &period, sizeof(period));
	return part;
}
