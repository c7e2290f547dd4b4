/*
 * number_field.h - the position of a number in samples: computed once per plan, then read.
 *
 * All samples of a plan have one answer to the checks that reading a number needs: which field,
 * its size, sign, byte order, and whether it is inside the sample.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tracepoint/format.h"
#include "record/record.h"

/* Zeroed: no such number. */
struct pev_number_field {
	uint64_t mask;        /* of an unsigned number's bits */
	uint32_t least;       /* of a payload field: bytes the payload must have */
	uint16_t raw;         /* of a payload field: offset of the payload's size */
	uint16_t at;          /* offset of the 8 bytes that end with the number; 0: none */
	uint8_t left, right;  /* shifts that isolate the number */
	bool swap;
};

#define PEV_ROW_MAX 8

/* Numbers that are read together from samples of a plan. */
struct pev_number_row {
	const struct pev_plan *plan; /* NULL: none */
	uint32_t least;              /* bytes the payload must have; 0: any number */
	uint16_t raw;                /* offset of the payload's size */
	uint16_t nr;
	struct pev_number_field places[PEV_ROW_MAX];
};

/* The position of a field that is a number at one offset in all samples; else a zeroed one. */
struct pev_number_field pev_number_field_of(const struct pev_plan *plan, enum pev_field field);
/* The same for a field of the payload of tracepoint tp. */
struct pev_number_field pev_number_field_of_payload(const struct pev_plan *plan,
						    const struct pev_tracepoint *tp,
						    const struct pev_tp_field *field);

/* Reads the number in a located sample whose payload has it; swap is the field's. */
static inline int64_t pev_number_field_bits(const struct pev_number_field *place,
					    const unsigned char *sample, bool swap)
{
	uint64_t bits = pev_load64(sample + place->at, swap) << place->left;

	return (int64_t)bits >> place->right & (int64_t)place->mask;
}

/* Reads the number in a located sample; equals pev_record_number() and pev_tp_integer(). */
static inline bool pev_number_field_read(const struct pev_number_field *place,
					 const unsigned char *sample,
					 int64_t *number)
{
	if (place->least && pev_load32(sample + place->raw, place->swap) < place->least)
		return false;
	*number = pev_number_field_bits(place, sample, place->swap);
	return true;
}

/* Reads all numbers of a sample, which fits its plan. False if its payload lacks one. */
static inline bool pev_number_row_read(const struct pev_number_row *row,
				       const unsigned char *sample, int64_t *numbers)
{
	bool swap = row->plan->swap;

	if (row->least && pev_load32(sample + row->raw, swap) < row->least)
		return false;
	for (unsigned i = 0; i < row->nr; i++)
		numbers[i] = pev_number_field_bits(&row->places[i], sample, swap);
	return true;
}
