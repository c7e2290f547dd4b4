/*
 * event_ids.h - the events of a recording, and whose a record is.
 *
 * An id tells: the first word of a sample and the last of all others where all
 * events have IDENTIFIER, else wherever all have their ID, if that is at one offset.
 * Nothing is guessed: of several events, a record that cannot be told apart is no
 * event's, and is counted.
 */
#ifndef PEV_EVENT_IDS_H
#define PEV_EVENT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "perfdata/blocks.h"
#include "record/record.h"

#define PEV_NO_EVENT UINT32_MAX

/* An event that was recorded. Owned by the reader; stays where it is. */
struct pev_file_event {
	struct pev_attr attr;
	struct pev_plan plan; /* to locate its records by */
	uint64_t *ids;
	uint32_t nr_ids;
	char *name;           /* from EVENT_UPDATE, or NULL */
};

struct pev_id_slot {
	uint64_t id;
	uint32_t event;       /* its number + 1; 0: free */
};

/* A zeroed one, with swap set in it and in plain, is empty. */
struct pev_event_ids {
	bool swap, narrow;
	struct pev_file_event **events;
	uint32_t nr, cap;
	struct pev_id_slot *ids;          /* open addressing */
	uint32_t nr_ids, cap_ids;
	uint64_t salt;                    /* of their places; unknown to who writes recordings */
	struct pev_plan plain;            /* no fields, no trailer: of records of tools */
	uint16_t sample_id_off;           /* from the start; 0: none in common */
	uint16_t other_id_off;            /* from the end, likewise */
	bool same_samples, same_trailers;
	uint64_t shared_ids, unknown_id, ambiguous; /* counted: see struct pev_reader_totals */
};

void pev_event_ids_free(struct pev_event_ids *of);

/* An event by its attr's bytes; -EBADMSG when they are none, which the caller can go on from. */
int pev_event_ids_add(struct pev_event_ids *of, const unsigned char *bytes, size_t len,
		      struct pev_file_event **out, struct pev_err *err);
/* An id of the event of that number. The first that claims it has it. -ENOMEM. */
int pev_event_ids_id(struct pev_event_ids *of, struct pev_file_event *event, uint32_t number,
		     uint64_t id);
/* The event of an id; the only one there is whatever the id; or NULL. */
struct pev_file_event *pev_event_ids_find(const struct pev_event_ids *of, uint64_t id);
/* The number of the event that has the id, or PEV_NO_EVENT; nothing is counted. */
uint32_t pev_event_ids_number(const struct pev_event_ids *of, uint64_t id);
/* Cuts a record whose size is too large to the bytes that the kernel wrote. */
void pev_event_ids_trim(const struct pev_event_ids *of, struct pev_piece *piece);
/* The number of the event whose the record is; PEV_NO_EVENT, counted, where that cannot be told. */
uint32_t pev_event_ids_choose(struct pev_event_ids *of, const struct pev_piece *piece);
/* The plan for a record whose event is not known: what all have in common, or plain. */
const struct pev_plan *pev_event_ids_plan(const struct pev_event_ids *of, uint32_t type);
/* When the record was written, by its event's plan; 0: it has no time. */
uint64_t pev_event_ids_time(const struct pev_plan *plan, const struct pev_piece *piece);
/* Whether a record without a time is the recorder's, of what was there before it began. */
bool pev_event_ids_synthesised(const struct pev_event_ids *of, const struct pev_plan *plan,
			       const struct pev_piece *piece);
/* The recorder's kernel has 32 bits, or has not. */
void pev_event_ids_narrow(struct pev_event_ids *of, bool narrow);

#endif
