/*
 * pack.c - libFuzzer: packed values of aggregators and of profiles.
 *
 * The first byte is the kind of the aggregator, or that of a profile; the second the number of
 * columns, or of value types. What is read is packed again, which must read back to the same, merged
 * into an aggregator or a tree that has values, and visited.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/pack.h"
#include "profile/stack_tree_merge.h"
#include "profile/stack_tree_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 20, PROFILE = PEV_AGG_QUANTILE + 1 };

struct bytes {
	unsigned char *p;
	size_t len, cap;
};

static void write_bytes(void *ctx, const void *bytes, size_t len)
{
	struct bytes *out = ctx;

	if (out->cap - out->len < len) {
		out->cap = 2 * (out->len + len);
		out->p = realloc(out->p, out->cap);
		if (!out->p)
			abort();
	}
	if (len)
		memcpy(out->p + out->len, bytes, len);
	out->len += len;
}

static void check(bool is_right)
{
	if (!is_right)
		abort();
}

/* ---- aggregators ---- */

static struct bytes pack_aggregator(const struct pev_agg *agg)
{
	struct bytes bytes = { 0 };
	const struct pev_pack_out out = { .ctx = &bytes, .write = write_bytes };

	pev_agg_pack(agg, 1, agg->nr, &out);
	return bytes;
}

static int read_aggregator(struct pev_agg *agg, const struct pev_agg_config *config,
			   const unsigned char *p, size_t len, uint32_t columns)
{
	struct pev_pack_in in = { p, p + len };
	struct pev_err err = { 0 };

	check(pev_agg_init(agg, config, &err) == 0);
	return pev_agg_unpack(agg, &in, columns, MOST, &err);
}

static void merge_twice(struct pev_agg *agg, const struct pev_agg_config *config)
{
	struct pev_budget budget = { .limit = MOST };
	struct pev_err err = { 0 };
	struct pev_agg sum;

	check(pev_agg_init(&sum, config, &err) == 0);
	pev_agg_budget(&sum, &budget);
	pev_agg_add_integer(&sum, 5, 7);
	check(pev_agg_merge(&sum, agg, &err) == 0 && pev_agg_merge(&sum, &sum, &err) == 0);
	check(sum.nr <= sum.config.max_keys && budget.used == pev_agg_bytes(&sum));
	for (uint32_t i = 0; i < sum.nr; i++) {
		const struct pev_cell *cell = sum.cells[i];

		check(pev_agg_find(&sum, pev_agg_key(&sum, cell), cell->key_len) == cell);
		if (config->kind == PEV_AGG_QUANTILE)
			pev_agg_quantile(cell, 0.99);
	}
	pev_agg_free(&sum);
	check(budget.used == 0);
}

static void read_as_aggregator(enum pev_agg_kind kind, uint32_t columns, const unsigned char *p,
			       size_t len)
{
	const struct pev_agg_config config = { .kind = kind, .max_keys = 100, .low = -5, .high = 90,
					       .step = 7 };
	struct pev_agg agg, again;
	struct bytes packed, repacked;

	if (read_aggregator(&agg, &config, p, len, columns) == 0) {
		packed = pack_aggregator(&agg);
		check(read_aggregator(&again, &config, packed.p, packed.len, columns) == 0);
		repacked = pack_aggregator(&again);
		check(packed.len == repacked.len && memcmp(packed.p, repacked.p, packed.len) == 0);
		free(packed.p);
		free(repacked.p);
		pev_agg_free(&again);
		merge_twice(&agg, &config);
	}
	pev_agg_free(&agg);
}

/* ---- profiles ---- */

static bool is_safe(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	return len && text[0] != '\x1b';
}

static const struct pev_tree_texts texts = { NULL, is_safe };

static struct bytes pack_tree(const struct pev_stack_tree *tree)
{
	struct bytes bytes = { 0 };
	const struct pev_pack_out out = { .ctx = &bytes, .write = write_bytes };
	uint32_t *work = calloc(1, pev_stack_tree_pack_bytes(tree));

	check(work);
	pev_stack_tree_pack(tree, 1, tree->nr_rows, work, &out);
	free(work);
	return bytes;
}

static int read_tree(struct pev_stack_tree *tree, uint32_t nr_values, const unsigned char *p,
		     size_t len)
{
	struct pev_pack_in in = { p, p + len };
	struct pev_err err = { 0 };

	check(pev_stack_tree_init(tree, nr_values, MOST) == 0);
	return pev_stack_tree_unpack(tree, &in, &texts, &err);
}

static void visit(struct pev_stack_tree *tree)
{
	uint32_t depth = 0, nr = 0, node = 0;

	check(pev_stack_tree_sort(tree) == 0);
	while ((node = pev_stack_tree_next(tree, node, &depth)) != 0)
		nr += depth > 0;
	check(nr == tree->nr_nodes - 1);
}

/* Merges into a tree with little room, and what has changed after that into another one. */
static void merge_tree(const struct pev_stack_tree *from)
{
	struct pev_stack_tree sum, rest;
	struct pev_tree_seen seen = { 0 };
	uint32_t *values = calloc(from->nr_values, sizeof(*values));
	struct pev_tree_change change = { .from = from, .values = values };

	check(values && pev_stack_tree_init(&sum, from->nr_values, 4096) == 0);
	check(pev_stack_tree_init(&rest, from->nr_values, MOST) == 0);
	for (uint32_t i = 0; i < from->nr_values; i++)
		values[i] = i;
	check(pev_stack_tree_merge(&sum, &change) == 0);
	change.seen = &seen;
	check(pev_stack_tree_merge(&rest, &change) == 0);
	check(rest.nr_rows == from->nr_rows && seen.nr_rows == from->nr_rows);
	check(pev_stack_tree_merge(&rest, &change) == 0); /* nothing has changed */
	check(rest.nr_rows == from->nr_rows);
	change = (struct pev_tree_change){ .from = &sum, .values = values, .subtract = true };
	check(pev_stack_tree_merge(&sum, &change) == 0);
	visit(&sum);
	visit(&rest);
	pev_stack_tree_free(&sum);
	pev_stack_tree_free(&rest);
	pev_tree_seen_free(&seen);
	free(values);
}

static void read_as_profile(uint32_t nr_values, const unsigned char *p, size_t len)
{
	struct pev_stack_tree tree, again;
	struct bytes packed, repacked;

	if (read_tree(&tree, nr_values, p, len) == 0) {
		packed = pack_tree(&tree);
		check(read_tree(&again, nr_values, packed.p, packed.len) == 0);
		repacked = pack_tree(&again);
		check(packed.len == repacked.len && memcmp(packed.p, repacked.p, packed.len) == 0);
		free(packed.p);
		free(repacked.p);
		pev_stack_tree_free(&again);
		merge_tree(&tree);
		visit(&tree);
	}
	pev_stack_tree_free(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy;

	if (size < 2)
		return 0;
	/* A copy of exact size, so that a sanitizer sees an access behind it. */
	copy = malloc(size - 2 + 1);
	if (!copy)
		abort();
	memcpy(copy, data + 2, size - 2);
	if (data[0] % (PROFILE + 1) == PROFILE)
		read_as_profile(data[1] % 4 + 1, copy, size - 2);
	else
		read_as_aggregator((enum pev_agg_kind)(data[0] % (PROFILE + 1)), data[1] % 4, copy,
				   size - 2);
	free(copy);
	return 0;
}
