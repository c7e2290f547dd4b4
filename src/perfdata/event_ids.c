/*
 * event_ids.c - the events of a recording; see event_ids.h.
 */
#include "perfdata/event_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define EVENTS_MAX 65536u
#define TOOLS_MIN 64 /* types from here on are no kernel's */

static uint16_t id_from_start(const struct pev_plan *plan)
{
	uint16_t off = plan->fixed[PEV_F_IDENTIFIER];

	return off ? off : plan->fixed[PEV_F_ID];
}

static uint16_t id_from_end(const struct pev_plan *plan)
{
	uint16_t off = plan->from_end[PEV_F_IDENTIFIER];

	return off ? off : plan->from_end[PEV_F_ID];
}

/* murmur3's last step, salted: ids made to collide would cost their number squared. */
static uint32_t hash(const struct pev_event_ids *of, uint64_t id)
{
	id = (id ^ of->salt) * UINT64_C(0xff51afd7ed558ccd);
	id = (id ^ id >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return (uint32_t)(id >> 32) & (of->cap_ids - 1);
}

/* Of this run of the program: AT_RANDOM, 16 bytes that the kernel gives to each. */
static uint64_t new_salt(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	return random ? pev_load64(random, false) | 1 : 1;
}

static struct pev_id_slot *find_id(const struct pev_event_ids *of, uint64_t id)
{
	uint32_t i = hash(of, id);

	while (of->ids[i].event && of->ids[i].id != id)
		i = (i + 1) & (of->cap_ids - 1);
	return &of->ids[i];
}

static int grow_ids(struct pev_event_ids *of)
{
	struct pev_id_slot *old = of->ids;
	uint32_t cap = of->cap_ids;

	if (!of->salt)
		of->salt = new_salt();
	of->cap_ids = cap ? 2 * cap : 64;
	of->ids = calloc(of->cap_ids, sizeof(*of->ids));
	if (!of->ids) {
		of->ids = old;
		of->cap_ids = cap;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].event)
			*find_id(of, old[i].id) = old[i];
	free(old);
	return 0;
}

int pev_event_ids_id(struct pev_event_ids *of, struct pev_file_event *event, uint32_t number,
		     uint64_t id)
{
	struct pev_id_slot *slot;

	/* In doubles, as the count has it: a power of two is where more is needed. */
	if ((event->nr_ids & (event->nr_ids - 1)) == 0) {
		uint64_t *ids = realloc(
			event->ids, sizeof(*ids) * (event->nr_ids ? 2 * (size_t)event->nr_ids : 1));

		if (!ids)
			return -ENOMEM;
		event->ids = ids;
	}
	event->ids[event->nr_ids++] = id;
	if (2 * (of->nr_ids + 1) > of->cap_ids && grow_ids(of) < 0)
		return -ENOMEM;
	slot = find_id(of, id);
	if (slot->event) {
		of->shared_ids += slot->event != number + 1;
		return 0;
	}
	*slot = (struct pev_id_slot){ .id = id, .event = number + 1 };
	of->nr_ids++;
	return 0;
}

static bool like_samples(const struct pev_plan *a, const struct pev_plan *b)
{
	return a->sample_type == b->sample_type && a->read_format == b->read_format &&
	       a->branch_sample_type == b->branch_sample_type && a->regs_user == b->regs_user &&
	       a->regs_intr == b->regs_intr;
}

static bool like_trailers(const struct pev_plan *a, const struct pev_plan *b)
{
	return a->trailer == b->trailer &&
	       memcmp(a->from_end, b->from_end, sizeof(a->from_end)) == 0;
}

/* What the events have in common, so that a record can be told before it is known whose it is. */
static void compare_event(struct pev_event_ids *of, const struct pev_plan *plan)
{
	const struct pev_plan *first = &of->events[0]->plan;

	if (of->nr == 1) {
		of->sample_id_off = id_from_start(plan);
		of->other_id_off = id_from_end(plan);
		of->same_samples = of->same_trailers = true;
		return;
	}
	if (id_from_start(plan) != of->sample_id_off)
		of->sample_id_off = 0;
	if (id_from_end(plan) != of->other_id_off)
		of->other_id_off = 0;
	of->same_samples = of->same_samples && like_samples(plan, first);
	of->same_trailers = of->same_trailers && like_trailers(plan, first);
}

/* An event by its attr's bytes; -EBADMSG when they are none, which the caller can go on from. */
int pev_event_ids_add(struct pev_event_ids *of, const unsigned char *bytes, size_t len,
		      struct pev_file_event **out, struct pev_err *err)
{
	struct pev_file_event *event;
	int rc;

	if (of->nr == EVENTS_MAX)
		return pev_fail(err, -EBADMSG, "more than %u events", EVENTS_MAX);
	if (of->nr == of->cap) {
		uint32_t cap = of->cap ? 2 * of->cap : 8;
		struct pev_file_event **events = realloc(of->events, sizeof(*out) * cap);

		if (!events)
			return -ENOMEM;
		of->events = events;
		of->cap = cap;
	}
	event = calloc(1, sizeof(*event));
	if (!event)
		return -ENOMEM;
	rc = pev_attr_parse(&event->attr, bytes, len, of->swap, err);
	if (rc < 0) {
		free(event);
		return rc;
	}
	pev_plan_init(&event->plan, &event->attr, of->swap);
	event->plan.narrow = of->narrow;
	of->events[of->nr++] = event;
	compare_event(of, &event->plan);
	*out = event;
	return 0;
}

/* The plan for a record whose event is not known. */
const struct pev_plan *pev_event_ids_plan(const struct pev_event_ids *of, uint32_t type)
{
	bool same = type == PERF_RECORD_SAMPLE ? of->same_samples : of->same_trailers;

	return same && type < TOOLS_MIN ? &of->events[0]->plan : &of->plain;
}

uint32_t pev_event_ids_number(const struct pev_event_ids *of, uint64_t id)
{
	return of->cap_ids ? find_id(of, id)->event - 1 : PEV_NO_EVENT;
}

void pev_event_ids_trim(const struct pev_event_ids *of, struct pev_piece *piece)
{
	uint16_t body = pev_record_body_end(piece->bytes, piece->size, of->swap);

	for (uint32_t i = 0; body && i < of->nr; i++) {
		const struct pev_plan *plan = &of->events[i]->plan;
		uint32_t end = body + (uint32_t)plan->trailer, off = id_from_end(plan);

		if (end <= piece->size &&
		    (of->nr == 1 ||
		     (off && pev_event_ids_number(of, pev_load64(piece->bytes + end - off,
								 of->swap)) == i))) {
			piece->size = (uint16_t)end;
			return;
		}
	}
}

/* Whose the record is; PEV_NO_EVENT where that cannot be told, and then it is counted. */
uint32_t pev_event_ids_choose(struct pev_event_ids *of, const struct pev_piece *piece)
{
	bool sample = piece->type == PERF_RECORD_SAMPLE;
	uint32_t off = sample ? of->sample_id_off : of->other_id_off;
	uint32_t number;
	uint64_t id;

	if (of->nr <= 1)
		return of->nr ? 0 : PEV_NO_EVENT;
	if (!off || off + (sample ? 8u : 0u) > piece->size || !of->cap_ids) {
		of->ambiguous += sample;
		return PEV_NO_EVENT;
	}
	id = pev_load64(sample ? piece->bytes + off : piece->bytes + piece->size - off, of->swap);
	number = pev_event_ids_number(of, id);
	if (number != PEV_NO_EVENT)
		return number;
	/* A recorder's own records of what was there before have no id. */
	of->unknown_id += sample || id;
	return PEV_NO_EVENT;
}

uint64_t pev_event_ids_time(const struct pev_plan *plan, const struct pev_piece *piece)
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
 * The kernel puts the time and the event's id into the trailer of its own records, where the
 * attr asks for them; a recorder writes zeros. Of trailers that differ only the id's place may
 * be known (machine->id_hdr_size in perf_event__synthesize_*()).
 */
bool pev_event_ids_synthesised(const struct pev_event_ids *of, const struct pev_plan *plan,
			       const struct pev_piece *piece)
{
	uint16_t off = of->other_id_off;

	if (piece->type == PERF_RECORD_SAMPLE)
		return false;
	if (plan->from_end[PEV_F_TIME])
		return true;
	/* It has an id: perf_record__read_lost_samples(). */
	if (piece->type == PERF_RECORD_LOST_SAMPLES && plan->read_format & PEV_FORMAT_LOST)
		return true;
	return off && off + 8u <= piece->size &&
	       pev_load64(piece->bytes + piece->size - off, of->swap) == 0;
}

struct pev_file_event *pev_event_ids_find(const struct pev_event_ids *of, uint64_t id)
{
	const struct pev_id_slot *slot = of->cap_ids ? find_id(of, id) : NULL;

	if (slot && slot->event)
		return of->events[slot->event - 1];
	return of->nr == 1 ? of->events[0] : NULL;
}

void pev_event_ids_narrow(struct pev_event_ids *of, bool narrow)
{
	of->narrow = narrow;
	for (uint32_t i = 0; i < of->nr; i++)
		of->events[i]->plan.narrow = narrow;
}

void pev_event_ids_free(struct pev_event_ids *of)
{
	for (uint32_t i = 0; i < of->nr; i++) {
		free(of->events[i]->ids);
		free(of->events[i]->name);
		free(of->events[i]);
	}
	free(of->events);
	free(of->ids);
}
