/*
 * event_ids.c - the events of a recording; see event_ids.h.
 */
#include "perfdata/event_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/growing_list.h"

#define EVENTS_MAX 65536u
#define TOOLS_MIN 64 /* first type of user-space records */

/*
 * murmur3's finalizer, with a salt: otherwise a recording with
 * colliding ids would cost time quadratic in their number.
 */
static uint32_t hash_id(const struct pev_event_ids *table, uint64_t id)
{
	id = (id ^ table->salt) * UINT64_C(0xff51afd7ed558ccd);
	id = (id ^ id >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return (uint32_t)(id >> 32) & (table->cap_ids - 1);
}

/*
 * Returns a salt for this process: AT_RANDOM points to 16 bytes that the kernel gives each process.
 */
static uint64_t new_salt(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	return random ? pev_load64(random, false) | 1 : 1;
}

static struct pev_id_slot *find_id(const struct pev_event_ids *table, uint64_t id)
{
	uint32_t i = hash_id(table, id);

	while (table->ids[i].event && table->ids[i].id != id)
		i = (i + 1) & (table->cap_ids - 1);
	return &table->ids[i];
}

static int grow_ids(struct pev_event_ids *table)
{
	struct pev_id_slot *old = table->ids;
	uint32_t cap = table->cap_ids;

	if (!table->salt)
		table->salt = new_salt();
	table->cap_ids = cap ? 2 * cap : 64;
	table->ids = calloc(table->cap_ids, sizeof(*table->ids));
	if (!table->ids) {
		table->ids = old;
		table->cap_ids = cap;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].event)
			*find_id(table, old[i].id) = old[i];
	free(old);
	return 0;
}

int pev_event_ids_add_id(struct pev_event_ids *table, struct pev_file_event *event, uint32_t number,
			 uint64_t id)
{
	struct pev_id_slot *slot;

	/* The capacity is the next power of two: grow when nr_ids is one. */
	if ((event->nr_ids & (event->nr_ids - 1)) == 0) {
		uint64_t *ids = realloc(
			event->ids, sizeof(*ids) * (event->nr_ids ? 2 * (size_t)event->nr_ids : 1));

		if (!ids)
			return -ENOMEM;
		event->ids = ids;
	}
	event->ids[event->nr_ids++] = id;
	if (2 * (table->nr_ids + 1) > table->cap_ids && grow_ids(table) < 0)
		return -ENOMEM;
	slot = find_id(table, id);
	if (slot->event) {
		table->shared_ids += slot->event != number + 1;
		return 0;
	}
	*slot = (struct pev_id_slot){ .id = id, .event = number + 1 };
	table->nr_ids++;
	return 0;
}

static bool has_same_samples(const struct pev_plan *a, const struct pev_plan *b)
{
	return a->sample_type == b->sample_type && a->read_format == b->read_format &&
	       a->branch_sample_type == b->branch_sample_type && a->regs_user == b->regs_user &&
	       a->regs_intr == b->regs_intr;
}

static bool has_same_trailers(const struct pev_plan *a, const struct pev_plan *b)
{
	return a->trailer == b->trailer &&
	       memcmp(a->from_end, b->from_end, sizeof(a->from_end)) == 0;
}

/* Updates the offsets and layouts that all events have in common. */
static void compare_event(struct pev_event_ids *table, const struct pev_plan *plan)
{
	const struct pev_plan *first = &table->events[0]->plan;

	if (table->nr == 1) {
		table->sample_id_off = pev_plan_id_from_start(plan);
		table->other_id_off = pev_plan_id_from_end(plan);
		table->same_samples = table->same_trailers = true;
		return;
	}
	if (pev_plan_id_from_start(plan) != table->sample_id_off)
		table->sample_id_off = 0;
	if (pev_plan_id_from_end(plan) != table->other_id_off)
		table->other_id_off = 0;
	table->same_samples = table->same_samples && has_same_samples(plan, first);
	table->same_trailers = table->same_trailers && has_same_trailers(plan, first);
}

int pev_event_ids_add(struct pev_event_ids *table, const unsigned char *bytes, size_t len,
		      struct pev_file_event **out, struct pev_err *err)
{
	struct pev_file_event *event;
	int rc;

	if (table->nr == EVENTS_MAX)
		return pev_fail(err, -EBADMSG, "more than %u events", EVENTS_MAX);
	if (!pev_list_reserve(&table->events, &table->cap, table->nr + 1, sizeof(*out)))
		return -ENOMEM;
	event = calloc(1, sizeof(*event));
	if (!event)
		return -ENOMEM;
	rc = pev_attr_parse(&event->attr, bytes, len, table->swap, err);
	if (rc < 0) {
		free(event);
		return rc;
	}
	pev_plan_init(&event->plan, &event->attr, table->swap);
	event->plan.narrow = table->narrow;
	table->events[table->nr++] = event;
	compare_event(table, &event->plan);
	*out = event;
	return 0;
}

const struct pev_plan *pev_event_ids_common_plan(const struct pev_event_ids *table, uint32_t type)
{
	bool same = type == PERF_RECORD_SAMPLE ? table->same_samples : table->same_trailers;

	return same && type < TOOLS_MIN ? &table->events[0]->plan : &table->plain;
}

uint32_t pev_event_ids_number_of_id(const struct pev_event_ids *table, uint64_t id)
{
	return table->cap_ids ? find_id(table, id)->event - 1 : PEV_NO_EVENT;
}

void pev_event_ids_trim_record(const struct pev_event_ids *table, struct pev_piece *piece)
{
	uint16_t body = pev_record_body_end(piece->bytes, piece->size, table->swap);

	for (uint32_t i = 0; body && i < table->nr; i++) {
		const struct pev_plan *plan = &table->events[i]->plan;
		uint32_t end = body + (uint32_t)plan->trailer, off = pev_plan_id_from_end(plan);

		if (end <= piece->size &&
		    (table->nr == 1 ||
		     (off && pev_event_ids_number_of_id(table, pev_load64(piece->bytes + end - off,
									  table->swap)) == i))) {
			piece->size = (uint16_t)end;
			return;
		}
	}
}

uint32_t pev_event_ids_event_of_record(struct pev_event_ids *table, const struct pev_piece *piece)
{
	bool sample = piece->type == PERF_RECORD_SAMPLE;
	uint32_t off = sample ? table->sample_id_off : table->other_id_off;
	uint32_t number;
	uint64_t id;

	if (table->nr <= 1)
		return table->nr ? 0 : PEV_NO_EVENT;
	if (!off || off + (sample ? 8u : 0u) > piece->size || !table->cap_ids) {
		table->ambiguous += sample;
		return PEV_NO_EVENT;
	}
	id = pev_load64(sample ? piece->bytes + off : piece->bytes + piece->size - off,
			table->swap);
	number = pev_event_ids_number_of_id(table, id);
	if (number != PEV_NO_EVENT)
		return number;
	/* Records that the recorder made about the state before it began have no id. */
	table->unknown_id += sample || id;
	return PEV_NO_EVENT;
}

uint64_t pev_event_ids_record_time(const struct pev_plan *plan, const struct pev_piece *piece)
{
	uint16_t off = piece->type == PERF_RECORD_SAMPLE ? plan->fixed[PEV_F_TIME]
							 : plan->from_end[PEV_F_TIME];
	uint64_t time;

	if (!off || piece->size < 16)
		return 0;
	if (piece->type != PERF_RECORD_SAMPLE)
		off = off <= piece->size - 8 ? (uint16_t)(piece->size - off) : UINT16_MAX;
	if (off > piece->size - 8)
		return 0;
	time = pev_load64(piece->bytes + off, plan->swap);
	return time == UINT64_MAX ? 0 : time;
}

/*
 * The kernel writes time and id into the trailer of its own records if the attr asks for
 * them; a recorder writes zeros (machine->id_hdr_size in perf_event__synthesize_*()). If
 * the trailers of the events differ, only the id's offset may be known.
 */
bool pev_event_ids_is_synthesised(const struct pev_event_ids *table, const struct pev_plan *plan,
				  const struct pev_piece *piece)
{
	uint16_t off = table->other_id_off;

	if (piece->type == PERF_RECORD_SAMPLE)
		return false;
	if (plan->from_end[PEV_F_TIME])
		return true;
	/* This record has an id: perf_record__read_lost_samples(). */
	if (piece->type == PERF_RECORD_LOST_SAMPLES && plan->read_format & PEV_FORMAT_LOST)
		return true;
	return off && off + 8u <= piece->size &&
	       pev_load64(piece->bytes + piece->size - off, table->swap) == 0;
}

struct pev_file_event *pev_event_ids_event_of_id(const struct pev_event_ids *table, uint64_t id)
{
	const struct pev_id_slot *slot = table->cap_ids ? find_id(table, id) : NULL;

	if (slot && slot->event)
		return table->events[slot->event - 1];
	return table->nr == 1 ? table->events[0] : NULL;
}

void pev_event_ids_set_narrow(struct pev_event_ids *table, bool narrow)
{
	table->narrow = narrow;
	for (uint32_t i = 0; i < table->nr; i++)
		table->events[i]->plan.narrow = narrow;
}

void pev_event_ids_free(struct pev_event_ids *table)
{
	for (uint32_t i = 0; i < table->nr; i++) {
		free(table->events[i]->ids);
		free(table->events[i]->name);
		free(table->events[i]);
	}
	free(table->events);
	free(table->ids);
}
