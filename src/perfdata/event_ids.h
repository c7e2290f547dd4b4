/*
 * event_ids.h - the events of a recording, and the event that a record belongs to.
 *
 * An id decides. If all events have IDENTIFIER, it is the first word of a sample and the
 * last word of other records. Otherwise it is their ID, if that has the same offset for
 * all events. There is no guessing: if a recording has several events and a record has
 * no id, the record belongs to no event, and is counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "perfdata/blocks.h"
#include "record/record.h"
#include "record/source.h"

/* A recorded event. Owned by the reader; its address stays the same. */
struct pev_file_event {
	struct pev_attr attr;
	struct pev_plan plan; /* layout of its records */
	uint64_t *ids;
	uint32_t nr_ids;
	char *name;           /* from EVENT_UPDATE, or NULL */
};

struct pev_id_slot {
	uint64_t id;
	uint32_t event;       /* number of the event + 1; 0: free */
};

/* Zeroed, with swap set here and in plain: empty. */
struct pev_event_ids {
	bool swap, narrow;
	struct pev_file_event **events;
	uint32_t nr, cap;
	struct pev_id_slot *ids;          /* open addressing */
	uint32_t nr_ids, cap_ids;
	uint64_t salt;                    /* of the hash; unknown to authors of recordings */
	struct pev_plan plain;            /* no fields, no trailer: for records of tools */
	uint16_t sample_id_off;           /* offset of the id from the start; 0: differs */
	uint16_t other_id_off;            /* offset of the id from the end; 0: differs */
	bool same_samples, same_trailers;
	uint64_t shared_ids, unknown_id, ambiguous; /* counts, see struct pev_reader_totals */
};

void pev_event_ids_free(struct pev_event_ids *table);

/*
 * Adds an event from the bytes of its attr. Returns -EBADMSG
 * if they are invalid; the table is unchanged then.
 */
int pev_event_ids_add(struct pev_event_ids *table, const unsigned char *bytes, size_t len,
		      struct pev_file_event **out, struct pev_err *err);
/*
 * Adds an id to the event of that number. If two events
 * have the id, the first keeps it. Returns 0 or -ENOMEM.
 */
int pev_event_ids_add_id(struct pev_event_ids *table, struct pev_file_event *event, uint32_t number,
			 uint64_t id);
/* Returns the event of an id, or NULL. A single event matches every id. */
struct pev_file_event *pev_event_ids_event_of_id(const struct pev_event_ids *table, uint64_t id);
/* Returns the number of the event that has the id, or PEV_NO_EVENT. Counts nothing. */
uint32_t pev_event_ids_number_of_id(const struct pev_event_ids *table, uint64_t id);
/* Cuts a record whose size is too large to the bytes that the kernel wrote. */
void pev_event_ids_trim_record(const struct pev_event_ids *table, struct pev_piece *piece);
/* Returns the number of the record's event. If it is unknown: counts it, returns PEV_NO_EVENT. */
uint32_t pev_event_ids_event_of_record(struct pev_event_ids *table, const struct pev_piece *piece);
/* Returns the plan of a record whose event is unknown: the common one of all events, or plain. */
const struct pev_plan *pev_event_ids_common_plan(const struct pev_event_ids *table, uint32_t type);
/* Returns the record's time by its event's plan; 0: it has no time. */
uint64_t pev_event_ids_record_time(const struct pev_plan *plan, const struct pev_piece *piece);
/* True for a record without a time that the recorder made about the state before it began. */
bool pev_event_ids_is_synthesised(const struct pev_event_ids *table, const struct pev_plan *plan,
				  const struct pev_piece *piece);
/* Sets whether the recorder's kernel has 32 bits. */
void pev_event_ids_set_narrow(struct pev_event_ids *table, bool narrow);
