/*
 * pack.h - an aggregator's cells as bytes that another process, or machine, reads.
 *
 * Integers of keys and values have 8 bytes, little-endian; counts and lengths 7 bits to a byte,
 * the lowest first, the eighth says that more follow. Buckets that are empty are left out. What is
 * read was written by anybody: it is held against its end, its own counts and a bound on memory.
 */
#ifndef PEV_PACK_H
#define PEV_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "base/err.h"

struct pev_pack_out {
	void *ctx;
	void (*write)(void *ctx, const void *bytes, size_t len);
	/* What stands for a pointer in a key: a string, borrowed until the next call. */
	const char *(*text)(void *ctx, const void *pointer, size_t *len);
};
void pev_pack_number(const struct pev_pack_out *out, uint64_t n);
void pev_agg_pack(const struct pev_agg *agg, const struct pev_pack_out *out);

/* Bytes that are read from p on. */
struct pev_pack_in {
	const unsigned char *p, *end;
};
/* -EBADMSG when it is cut off, or has more than 64 bits. */
int pev_unpack_number(struct pev_pack_in *in, uint64_t *n);
/*
 * Into agg, which is new and of the kind that was packed, with keys of so many parts. At most
 * so many bytes of memory are held: -E2BIG. -EBADMSG with what is wrong; -ENOMEM. Then it has
 * what was read until there, and is to be freed.
 */
int pev_agg_unpack(struct pev_agg *agg, struct pev_pack_in *in, uint32_t columns, uint64_t most,
		   struct pev_err *err);

/* FNV-1a of 64 bits: that they are the bytes which were written. */
uint64_t pev_pack_sum(const void *bytes, size_t len, uint64_t sum);
#define PEV_PACK_SUM UINT64_C(0xcbf29ce484222325) /* of none */

#endif
