/*
 * stack_tree_merge.c - adds one tree of stacks to another; see stack_tree_merge.h.
 *
 * First each frame and node of the source is looked up in the other tree. Then memory is taken for
 * those that are missing. From there on nothing can fail.
 */
#include "profile/stack_tree_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

/* In the place of a node: it is missing; it is missing, and gets a node; it goes to (other). */
enum { MISSING = UINT32_MAX,
       PLANNED = UINT32_MAX - 1,
       SPILLED = UINT32_MAX - 2 };

struct merge {
	struct pev_stack_tree *tree;
	const struct pev_tree_change *change;
	uint32_t *frames; /* of the source: their ids in tree; 0: not there, or not used */
	uint32_t *nodes;
	uint32_t nr; /* nodes of the source */
	struct pev_tree_need need;
	int64_t room;
	uint64_t spilled;
};

void pev_tree_seen_free(struct pev_tree_seen *seen)
{
	free(seen->values);
	*seen = (struct pev_tree_seen){ 0 };
}

static struct pev_tree_value subtracted(const struct pev_tree_value *a,
					const struct pev_tree_value *b)
{
	struct pev_tree_value difference = *b;

	if (b->is_float)
		difference.number = -b->number;
	else
		difference.integer = (int64_t) - (uint64_t)b->integer;
	pev_tree_value_add(&difference, a);
	return difference;
}

static bool is_same(const struct pev_tree_value *a, const struct pev_tree_value *b)
{
	return a->is_float == b->is_float && a->integer == b->integer;
}

/* ---- what has changed ---- */

/* The values of a row that were read before; NULL: none. */
static const struct pev_tree_value *seen_row(const struct pev_tree_change *change, uint32_t row)
{
	const struct pev_tree_seen *seen = change->seen;

	if (!seen || row > seen->nr_rows)
		return NULL;
	return &seen->values[(size_t)(row - 1) * change->from->nr_values];
}

/* True if the source's node has values to add. */
static bool has_values(const struct pev_tree_change *change, uint32_t node)
{
	const struct pev_tree_value *values = pev_stack_tree_values(change->from, node);
	const struct pev_tree_value *before;

	if (!values)
		return false;
	before = seen_row(change, change->from->nodes[node].row);
	for (uint32_t i = 0; before && i < change->from->nr_values; i++)
		if (!is_same(&values[i], &before[i]))
			return true;
	return !before;
}

static int reserve_seen(const struct pev_tree_change *change)
{
	struct pev_tree_seen *seen = change->seen;
	const size_t each = sizeof(*seen->values) * change->from->nr_values;

	return !seen || pev_list_reserve(&seen->values, &seen->cap_rows, change->from->nr_rows,
					 each)
		       ? 0
		       : -ENOMEM;
}

static void see(const struct pev_tree_change *change)
{
	const struct pev_stack_tree *from = change->from;
	struct pev_tree_seen *seen = change->seen;

	if (!seen)
		return;
	seen->nr_rows = from->nr_rows;
	seen->user_stacks = from->user_stacks;
	seen->short_stacks = from->short_stacks;
	if (seen->nr_rows)
		memcpy(seen->values, from->values + from->nr_values,
		       sizeof(*seen->values) * from->nr_values * seen->nr_rows);
}

/* ---- looking up ---- */

static void find_frames(struct merge *merge)
{
	const struct pev_stack_tree *from = merge->change->from;

	for (uint32_t i = 1; i <= from->nr_frames; i++) {
		const struct pev_tree_frame *frame = &from->frames[i];

		merge->frames[i] = pev_stack_tree_find_frame(merge->tree, from->keys + frame->key,
							     frame->len);
	}
}

/* A node comes after its parent. */
static void find_nodes(struct merge *merge)
{
	const struct pev_stack_tree *from = merge->change->from;

	merge->nodes[0] = 0;
	for (uint32_t n = 1; n < merge->nr; n++) {
		const struct pev_tree_node *node = &from->nodes[n];
		uint32_t parent = merge->nodes[node->parent], frame = merge->frames[node->frame];
		uint32_t found = 0;

		if (parent != MISSING && frame)
			found = pev_stack_tree_find(merge->tree, parent, frame);
		merge->nodes[n] = found ? found : MISSING;
	}
}

static void plan_frame(struct merge *merge, uint32_t frame, bool *is_planned)
{
	if (merge->frames[frame] || is_planned[frame])
		return;
	is_planned[frame] = true;
	merge->need.frames++;
	merge->need.key_bytes += merge->change->from->frames[frame].len + UINT64_C(1);
}

/* Plans the nodes that a stack lacks, all or none. */
static void plan_stack(struct merge *merge, uint32_t node, bool *is_planned)
{
	const struct pev_stack_tree *from = merge->change->from;

	if (merge->nodes[node] == MISSING &&
	    merge->room < pev_stack_tree_bytes(merge->tree, &merge->need)) {
		merge->nodes[node] = SPILLED;
		merge->spilled++;
		return;
	}
	for (; merge->nodes[node] == MISSING; node = from->nodes[node].parent) {
		merge->nodes[node] = PLANNED;
		merge->need.nodes++;
		plan_frame(merge, from->nodes[node].frame, is_planned);
	}
}

static bool needs_row(const struct merge *merge, uint32_t node)
{
	const uint32_t to = merge->nodes[node];

	return to == PLANNED || (to != SPILLED && !merge->tree->nodes[to].row);
}

static int plan(struct merge *merge)
{
	bool *is_planned = calloc(merge->change->from->nr_frames + (size_t)1, 1);

	if (!is_planned)
		return -ENOMEM;
	find_frames(merge);
	find_nodes(merge);
	for (uint32_t n = 0; n < merge->nr; n++) {
		if (!has_values(merge->change, n))
			continue;
		plan_stack(merge, n, is_planned);
		merge->need.rows += needs_row(merge, n);
	}
	free(is_planned);
	if (merge->spilled) { /* (other) */
		merge->need.frames++;
		merge->need.key_bytes += sizeof("(other)") + 8;
		merge->need.nodes++;
		merge->need.rows++;
	}
	return 0;
}

/* ---- adding ---- */

/* Cannot fail: there is room. */
static uint32_t frame_in_tree(struct merge *merge, uint32_t frame)
{
	const struct pev_stack_tree *from = merge->change->from;
	const struct pev_tree_frame *one = &from->frames[frame];

	if (!merge->frames[frame])
		pev_stack_tree_intern(merge->tree, from->keys + one->key, one->len, one->flags,
				      &merge->frames[frame]);
	return merge->frames[frame];
}

static uint32_t node_in_tree(struct merge *merge, uint32_t n)
{
	const struct pev_tree_node *node = &merge->change->from->nodes[n];
	uint32_t found = merge->nodes[n];

	if (found == SPILLED)
		pev_stack_tree_other(merge->tree, 0, &found);
	else if (found == PLANNED)
		pev_stack_tree_child(merge->tree, merge->nodes[node->parent],
				     frame_in_tree(merge, node->frame), 0, &found);
	return found;
}

static void add_row(struct merge *merge, uint32_t n, uint32_t to, struct pev_tree_value *sums)
{
	const struct pev_tree_change *change = merge->change;
	const struct pev_tree_value *values = pev_stack_tree_values(change->from, n);
	const struct pev_tree_value *before = seen_row(change, change->from->nodes[n].row);
	const struct pev_tree_value zero = { 0 };

	memset(sums, 0, sizeof(*sums) * merge->tree->nr_values);
	for (uint32_t i = 0; i < change->from->nr_values; i++) {
		struct pev_tree_value value =
			before ? subtracted(&values[i], &before[i]) : values[i];

		if (change->subtract)
			value = subtracted(&zero, &value);
		pev_tree_value_add(&sums[change->values[i]], &value);
	}
	pev_stack_tree_add(merge->tree, to, sums, merge->tree->nr_values);
}

static void add_depths(struct merge *merge)
{
	const struct pev_tree_change *change = merge->change;
	struct pev_tree_value user = change->from->user_stacks;
	struct pev_tree_value few = change->from->short_stacks;

	if (change->subtract)
		return;
	if (change->seen) {
		user = subtracted(&user, &change->seen->user_stacks);
		few = subtracted(&few, &change->seen->short_stacks);
	}
	pev_tree_value_add(&merge->tree->user_stacks, &user);
	pev_tree_value_add(&merge->tree->short_stacks, &few);
}

static void add(struct merge *merge, struct pev_tree_value *sums)
{
	merge->tree->full = false;
	for (uint32_t n = 0; n < merge->nr; n++) {
		uint32_t to = merge->nodes[n];

		if (to == MISSING)
			continue;
		to = node_in_tree(merge, n);
		if (merge->nodes[n] != SPILLED)
			merge->nodes[n] = to;
		if (has_values(merge->change, n))
			add_row(merge, n, to, sums);
	}
	add_depths(merge);
	merge->tree->spilled += merge->spilled;
	see(merge->change);
}

int pev_stack_tree_merge(struct pev_stack_tree *tree, const struct pev_tree_change *change)
{
	const struct pev_stack_tree *from = change->from;
	struct merge merge = { .tree = tree, .change = change, .nr = from->nr_nodes,
			       .room = tree->room };
	struct pev_tree_value *sums = calloc(tree->nr_values, sizeof(*sums));
	int rc = -ENOMEM;

	merge.frames = calloc(from->nr_frames + (size_t)1, sizeof(*merge.frames));
	merge.nodes = calloc(from->nr_nodes, sizeof(*merge.nodes));
	if (sums && merge.frames && merge.nodes)
		rc = plan(&merge);
	if (rc == 0)
		rc = reserve_seen(change);
	if (rc == 0)
		rc = pev_stack_tree_reserve(tree, &merge.need);
	if (rc == 0)
		add(&merge, sums);
	free(sums);
	free(merge.frames);
	free(merge.nodes);
	return rc;
}
