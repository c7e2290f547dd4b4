/*
 * pack.c - an aggregator's cells as bytes; see pack.h.
 */
#include "aggregate/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t pev_pack_sum(const void *bytes, size_t len, uint64_t sum)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* ---- writing ---- */

void pev_pack_number(const struct pev_pack_out *out, uint64_t n)
{
	unsigned char bytes[10];
	size_t len = 0;

	do {
		bytes[len++] = (unsigned char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
		n >>= 7;
	} while (n);
	out->write(out->ctx, bytes, len);
}

static void put_integer(const struct pev_pack_out *out, uint64_t n)
{
	unsigned char bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(n >> 8 * i);
	out->write(out->ctx, bytes, sizeof(bytes));
}

static void put_string(const struct pev_pack_out *out, const void *p, size_t len)
{
	pev_pack_number(out, PEV_KEY_STRING);
	pev_pack_number(out, len);
	out->write(out->ctx, p, len);
}

static void put_key(const struct pev_pack_out *out, const unsigned char *key, size_t len)
{
	size_t at = 0;

	for (;;) {
		struct pev_key_part part = pev_key_next(key, len, &at);
		const char *text;
		size_t text_len;

		switch (part.type) {
		case PEV_KEY_END:
			return;
		case PEV_KEY_STRING:
			put_string(out, part.p, part.len);
			break;
		case PEV_KEY_POINTER:
			text = out->text(out->ctx, part.pointer, &text_len);
			put_string(out, text, text_len);
			break;
		default:
			pev_pack_number(out, part.type);
			if (part.type == PEV_KEY_INTEGER)
				put_integer(out, (uint64_t)part.integer);
		}
	}
}

/* For each bucket in use the gap before it and its count; a count of 0 ends the list. */
static void put_buckets(const struct pev_pack_out *out, const struct pev_buckets *buckets)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < buckets->nr; i++) {
		if (!buckets->n[i])
			continue;
		pev_pack_number(out, buckets->n[i]);
		pev_pack_number(out, buckets->first + i - next);
		next = buckets->first + i + 1;
	}
	pev_pack_number(out, 0);
}

static void put_cell(const struct pev_pack_out *out, enum pev_agg_kind kind,
		     const struct pev_cell *cell)
{
	pev_pack_number(out, cell->n);
	if (kind == PEV_AGG_COUNT)
		return;
	put_integer(out, cell->sum_low);
	put_integer(out, kind == PEV_AGG_TOP ? 0 : (uint64_t)cell->sum_high); /* 0: heap index */
	if (kind < PEV_AGG_MIN)
		return;
	put_integer(out, (uint64_t)cell->min);
	put_integer(out, (uint64_t)cell->max);
	if (kind < PEV_AGG_HIST)
		return;
	put_buckets(out, &cell->up);
	put_buckets(out, &cell->down);
}

void pev_agg_pack(const struct pev_agg *agg, uint32_t first, uint32_t last,
		  const struct pev_pack_out *out)
{
	static const struct pev_cell none = { 0 };

	pev_pack_number(out, last - first + 1);
	for (uint32_t i = first - 1; i < last; i++) {
		const struct pev_cell *cell = agg->cells[i];

		put_key(out, pev_agg_key(agg, cell), cell->key_len);
		put_cell(out, agg->config.kind, cell);
	}
	put_cell(out, agg->config.kind, last == agg->nr ? &agg->other : &none);
}

/* ---- reading ---- */

int pev_unpack_number(struct pev_pack_in *in, uint64_t *n)
{
	*n = 0;
	for (int shift = 0; in->p < in->end && shift < 64; shift += 7) {
		uint64_t byte = *in->p++;

		if (shift == 63 && byte > 1)
			return -EBADMSG;
		*n |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return 0;
	}
	return -EBADMSG;
}

static int take_integer(struct pev_pack_in *in, uint64_t *n)
{
	if (in->end - in->p < 8)
		return -EBADMSG;
	*n = 0;
	for (int i = 0; i < 8; i++)
		*n |= (uint64_t)in->p[i] << 8 * i;
	in->p += 8;
	return 0;
}

static int take_part(struct pev_pack_in *in, struct pev_key *key)
{
	uint64_t type, n;

	if (pev_unpack_number(in, &type) < 0)
		return -EBADMSG;
	switch (type) {
	case PEV_KEY_INTEGER:
		return take_integer(in, &n) < 0 ? -EBADMSG : pev_key_integer(key, (int64_t)n);
	case PEV_KEY_STRING:
		if (pev_unpack_number(in, &n) < 0 || n > (uint64_t)(in->end - in->p))
			return -EBADMSG;
		in->p += n;
		return pev_key_string(key, in->p - n, n);
	case PEV_KEY_FALSE:
	case PEV_KEY_TRUE:
		return pev_key_bool(key, type == PEV_KEY_TRUE);
	default:
		return -EBADMSG;
	}
}

/* *sum: of all counts, modulo 2^64. */
static int take_buckets(struct pev_pack_in *in, struct pev_buckets *buckets, uint32_t most,
			uint64_t *sum)
{
	uint64_t count, gap, next = 0;
	int rc;

	for (;;) {
		if (pev_unpack_number(in, &count) < 0)
			return -EBADMSG;
		if (count == 0)
			return 0;
		if (pev_unpack_number(in, &gap) < 0 || gap >= most - next)
			return -EBADMSG;
		rc = pev_buckets_add(buckets, (uint32_t)(next + gap), count);
		if (rc < 0)
			return rc;
		*sum += count;
		next += gap + 1;
	}
}

static int take_values(struct pev_pack_in *in, const struct pev_agg_config *config,
		       struct pev_cell *cell)
{
	uint64_t high, min, max, sum = 0;
	uint32_t most = pev_agg_buckets(config);
	int rc;

	if (pev_unpack_number(in, &cell->n) < 0)
		return -EBADMSG;
	if (config->kind == PEV_AGG_COUNT)
		return 0;
	if (take_integer(in, &cell->sum_low) < 0 || take_integer(in, &high) < 0)
		return -EBADMSG;
	cell->sum_high = (int64_t)high;
	if (config->kind == PEV_AGG_TOP && cell->sum_low > cell->n)
		return -EBADMSG;
	if (config->kind < PEV_AGG_MIN)
		return 0;
	if (take_integer(in, &min) < 0 || take_integer(in, &max) < 0)
		return -EBADMSG;
	cell->min = (int64_t)min;
	cell->max = (int64_t)max;
	if (cell->min > cell->max)
		return -EBADMSG;
	if (config->kind < PEV_AGG_HIST)
		return 0;
	rc = take_buckets(in, &cell->up, most, &sum);
	if (rc == 0)
		rc = take_buckets(in, &cell->down, config->kind == PEV_AGG_QUANTILE ? most : 0,
				  &sum);
	return rc == 0 && sum != cell->n ? -EBADMSG : rc;
}

/* columns 0 and is_other: the cell of all other keys */
static int take_cell(struct pev_agg *agg, struct pev_pack_in *in, uint32_t columns, bool is_other)
{
	struct pev_key key = { 0 };
	struct pev_cell cell = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < columns && rc == 0; i++)
		rc = take_part(in, &key);
	if (rc == 0)
		rc = take_values(in, &agg->config, &cell);
	if (rc == 0)
		rc = is_other ? pev_agg_put_other(agg, &cell) :
				pev_agg_put(agg, key.bytes, key.len, &cell);
	free(cell.up.n);
	free(cell.down.n);
	pev_key_free(&key);
	return rc;
}

int pev_agg_unpack(struct pev_agg *agg, struct pev_pack_in *in, uint32_t columns, uint64_t most,
		   struct pev_err *err)
{
	uint64_t nr, i;
	int rc = pev_unpack_number(in, &nr);

	if (rc < 0)
		return pev_fail(err, rc, "the bytes end before the first key");
	for (i = 0; i < nr && rc == 0; i++) {
		rc = take_cell(agg, in, columns, false);
		if (rc == 0 && pev_agg_bytes(agg) > most)
			return pev_fail(err, -E2BIG, "the keys take more than %llu bytes of memory",
					(unsigned long long)most);
	}
	if (rc == 0)
		rc = take_cell(agg, in, 0, true);
	if (rc == -ENOMEM)
		return pev_fail(err, rc, "no memory for it");
	if (rc < 0)
		return pev_fail(err, rc, "value %llu of %llu is invalid",
				(unsigned long long)i, (unsigned long long)nr);
	return 0;
}
