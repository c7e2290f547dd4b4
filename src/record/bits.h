/*
 * bits.h - words whose bits have names: data_src, transaction, a sample's
 * weight, the flags of a branch.
 *
 * One row per field, from the lowest bit. Shifts are those of a little-endian
 * compiler; a comment marks each word that a big-endian compiler lays out from the
 * other end. Source: include/uapi/linux/perf_event.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum pev_bits_kind {
	PEV_B_NUMBER = 1,
	PEV_B_FLAG,       /* one bit: true or false */
	PEV_B_ENUM,       /* the value has a name, if it is known */
	PEV_B_SET         /* each bit has a name, if it is known */
};

struct pev_bits_field {
	const char *name;
	uint8_t shift, width;
	uint8_t kind;               /* enum pev_bits_kind */
	bool extended;              /* valid only if type is extend_abi (new_type) */
	const char *const *names;   /* of values or bits from 0 on; NULL: no name */
	uint8_t nr;                 /* length of names */
};

struct pev_bits {
	const char *name;                    /* "data_src" */
	const struct pev_bits_field *fields; /* ends with a NULL name */
};

extern const struct pev_bits pev_data_src_bits;
extern const struct pev_bits pev_transaction_bits;
extern const struct pev_bits pev_weight_bits; /* of WEIGHT_STRUCT */
extern const struct pev_bits pev_branch_bits;

static inline uint64_t pev_bits_get(uint64_t word, const struct pev_bits_field *field)
{
	return word >> field->shift & (~UINT64_C(0) >> (64 - field->width));
}

/*
 * Converts a branch's flags from big-endian to little-endian bit-field order. Needed because
 * struct perf_branch_entry declares one order only; union perf_mem_data_src and union
 * perf_sample_weight declare both.
 */
uint64_t pev_branch_unmirror(uint64_t word);
