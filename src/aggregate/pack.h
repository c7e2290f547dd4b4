/*
 * pack.h - an aggregator's cells as bytes that another process, or machine, reads.
 *
 * Integers of keys and values have 8 bytes, little-endian; counts and lengths have 7 bits a byte,
 * lowest first, and bit 7 is set if more follow. Empty buckets are left out. The reader does not
 * trust its input: it checks lengths and counts, and bounds memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "base/err.h"

struct pev_pack_out {
	void *ctx;
	void (*write)(void *ctx, const void *bytes, size_t len);
	/* The string to write for a pointer in a key; valid until the next call. */
	const char *(*text)(void *ctx, const void *pointer, size_t *len);
};
void pev_pack_number(const struct pev_pack_out *out, uint64_t n);
/*
 * Packs the keys with the numbers first .. last, from 1 in the order of their first values; all
 * other keys are with the last key, so that the merge of all ranges has them once.
 */
void pev_agg_pack(const struct pev_agg *agg, uint32_t first, uint32_t last,
		  const struct pev_pack_out *out);

/* The bytes to read, from p. */
struct pev_pack_in {
	const unsigned char *p, *end;
};
/* -EBADMSG if the number is truncated or has more than 64 bits. */
int pev_unpack_number(struct pev_pack_in *in, uint64_t *n);
/*
 * Reads into agg, which is new and of the packed kind; columns is the number of parts of a key.
 * -E2BIG: needs more than most bytes of memory. -EBADMSG with the reason; -ENOMEM. On failure agg
 * has the cells read so far; the caller frees it.
 */
int pev_agg_unpack(struct pev_agg *agg, struct pev_pack_in *in, uint32_t columns, uint64_t most,
		   struct pev_err *err);

/* FNV-1a of 64 bits, to detect changed bytes. */
uint64_t pev_pack_sum(const void *bytes, size_t len, uint64_t sum);
#define PEV_PACK_SUM UINT64_C(0xcbf29ce484222325) /* of no bytes */
