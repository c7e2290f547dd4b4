/*
 * number_field.h - where samples have a number: found once for all that one plan is of, then read.
 *
 * What is asked for each number of each sample otherwise - which field, how wide, with a sign,
 * whose byte order, is it inside of what is there - has one answer for all samples of a plan.
 */
#ifndef PEV_NUMBER_FIELD_H
#define PEV_NUMBER_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "tracepoint/format.h"
#include "record/record.h"

/* A zeroed one is no place. */
struct pev_number_field {
	uint64_t mask;        /* of the bits that a number without a sign has */
	uint32_t least;       /* of a payload: so many bytes it has to have */
	uint16_t raw;         /* where it says how many it has */
	uint16_t at;          /* of the eight bytes that end with the number; 0: no place */
	uint8_t left, right;  /* by how many bits they are shifted, so that nothing else is left */
	bool swap;
};

/* Of a field that is at one offset in all samples, and a number; else no place. */
struct pev_number_field pev_number_field_of(const struct pev_plan *plan, enum pev_field field);
/* The same of a field of their payloads, which are that tracepoint's. */
struct pev_number_field pev_number_field_of_payload(const struct pev_plan *plan,
						    const struct pev_tracepoint *tp,
						    const struct pev_tp_field *field);

/* What a located sample has there, as pev_record_number() and pev_tp_integer() have it. */
static inline bool pev_number_field_read(const struct pev_number_field *place,
					 const unsigned char *sample,
					 int64_t *number)
{
	uint64_t bits;

	if (place->least && pev_load32(sample + place->raw, place->swap) < place->least)
		return false;
	bits = pev_load64(sample + place->at, place->swap) << place->left;
	*number = (int64_t)bits >> place->right & (int64_t)place->mask;
	return true;
}

#endif
