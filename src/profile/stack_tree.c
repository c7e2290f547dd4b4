/*
 * stack_tree.c - stacks with values, as a tree of frames; see stack_tree.h.
 */
#define _GNU_SOURCE /* qsort_r */

#include "profile/stack_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	NODE_BYTES = 48,     /* of a node and its place in the hash table, half of them in use */
	FRAME_BYTES = 64,    /* the same of a frame, without its key */
	FEW = 2,             /* a stack of as many user frames probably lacks callers */
};
#define FIRST UINT32_C(64) /* nodes and frames with room at first; a power of two */
#define INDEX_MAX (UINT32_C(1) << 28)

/* A name of a recorded frame: a frame's id, or a place in lists. */
enum { NAMED = 1, FOR_ONE_STACK = 2, IN_LIST = 4, NAME_SHIFT = 3 };

/* ---- tables ---- */

static bool grow(void *list, uint32_t *cap, size_t each)
{
	return *cap < INDEX_MAX && pev_list_reserve(list, cap, *cap + 1, each);
}

static uint32_t hash_key(const char *key, size_t len)
{
	uint64_t hash = len, word;

	for (; len >= sizeof(word); key += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	word = 0;
	memcpy(&word, key, len);
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(hash >> 32);
}

static uint32_t hash_node(uint32_t parent, uint32_t frame)
{
	return (uint32_t)(((uint64_t)parent << 32 | frame) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Puts a number into a hash table whose size is mask + 1. */
static void put(uint32_t *slots, uint32_t mask, uint32_t hash, uint32_t number)
{
	uint32_t at = hash & mask;

	while (slots[at])
		at = (at + 1) & mask;
	slots[at] = number;
}

int pev_stack_tree_init(struct pev_stack_tree *tree, uint32_t nr_values, int64_t room)
{
	*tree = (struct pev_stack_tree){ .nr_values = nr_values, .room = room, .nr_nodes = 1 };
	tree->nodes = calloc(FIRST, sizeof(*tree->nodes));
	tree->node_slots = calloc((size_t)2 * FIRST, sizeof(*tree->node_slots));
	tree->frames = calloc(FIRST, sizeof(*tree->frames));
	tree->frame_slots = calloc((size_t)2 * FIRST, sizeof(*tree->frame_slots));
	tree->values = calloc(FIRST * (size_t)nr_values, sizeof(*tree->values));
	tree->cap_nodes = tree->cap_frames = tree->cap_rows = FIRST;
	if (tree->nodes && tree->node_slots && tree->frames && tree->frame_slots && tree->values)
		return 0;
	pev_stack_tree_free(tree);
	return -ENOMEM;
}

void pev_stack_tree_free(struct pev_stack_tree *tree)
{
	free(tree->keys);
	free(tree->frames);
	free(tree->frame_slots);
	free(tree->nodes);
	free(tree->node_slots);
	free(tree->values);
	free(tree->names);
	free(tree->lists);
	free(tree->functions);
	*tree = (struct pev_stack_tree){ 0 };
}

/* ---- frames ---- */

static bool grow_frames(struct pev_stack_tree *tree)
{
	uint32_t mask = 4 * tree->cap_frames - 1, *slots = calloc(mask + 1, sizeof(*slots));

	if (!slots || !grow(&tree->frames, &tree->cap_frames, sizeof(*tree->frames))) {
		free(slots);
		return false;
	}
	for (uint32_t id = 1; id <= tree->nr_frames; id++)
		put(slots, mask, tree->frames[id].hash, id);
	free(tree->frame_slots);
	tree->frame_slots = slots;
	return true;
}

static uint32_t find_frame(const struct pev_stack_tree *tree, uint32_t hash, const char *key,
			   size_t len)
{
	const uint32_t mask = 2 * tree->cap_frames - 1;

	for (uint32_t at = hash & mask; tree->frame_slots[at]; at = (at + 1) & mask) {
		const struct pev_tree_frame *frame = &tree->frames[tree->frame_slots[at]];

		if (frame->hash == hash && frame->len == len &&
		    memcmp(tree->keys + frame->key, key, len) == 0)
			return tree->frame_slots[at];
	}
	return 0;
}

uint32_t pev_stack_tree_find_frame(const struct pev_stack_tree *tree, const char *key, size_t len)
{
	return find_frame(tree, hash_key(key, len), key, len);
}

int pev_stack_tree_intern(struct pev_stack_tree *tree, const char *key, size_t len,
			  uint32_t flags, uint32_t *id)
{
	const uint32_t hash = hash_key(key, len);

	*id = find_frame(tree, hash, key, len);
	if (*id || tree->full)
		return 0;
	if (!pev_list_reserve(&tree->keys, &tree->keys_cap, tree->keys_len + len + 1, 1) ||
	    (tree->nr_frames + 1 == tree->cap_frames && !grow_frames(tree)))
		return -ENOMEM;
	tree->room -= FRAME_BYTES + 2 * (int64_t)len;
	*id = ++tree->nr_frames;
	tree->frames[*id] = (struct pev_tree_frame){ (uint32_t)tree->keys_len, (uint32_t)len, hash,
						     flags };
	memcpy(tree->keys + tree->keys_len, key, len);
	tree->keys[tree->keys_len + len] = '\0';
	tree->keys_len += len + 1;
	put(tree->frame_slots, 2 * tree->cap_frames - 1, hash, *id);
	return 0;
}

/* ---- nodes ---- */

static bool grow_nodes(struct pev_stack_tree *tree)
{
	uint32_t mask = 4 * tree->cap_nodes - 1, *slots = calloc(mask + 1, sizeof(*slots));

	if (!slots || !grow(&tree->nodes, &tree->cap_nodes, sizeof(*tree->nodes))) {
		free(slots);
		return false;
	}
	for (uint32_t n = 1; n < tree->nr_nodes; n++)
		put(slots, mask, hash_node(tree->nodes[n].parent, tree->nodes[n].frame), n);
	free(tree->node_slots);
	tree->node_slots = slots;
	return true;
}

static uint32_t find_node(const struct pev_stack_tree *tree, uint32_t parent, uint32_t frame)
{
	const uint32_t mask = 2 * tree->cap_nodes - 1;
	uint32_t at = hash_node(parent, frame) & mask, node;

	for (; (node = tree->node_slots[at]) != 0; at = (at + 1) & mask)
		if (tree->nodes[node].parent == parent && tree->nodes[node].frame == frame)
			break;
	return node;
}

uint32_t pev_stack_tree_find(const struct pev_stack_tree *tree, uint32_t parent, uint32_t frame)
{
	return find_node(tree, parent, frame);
}

static int add_node(struct pev_stack_tree *tree, uint32_t parent, uint32_t frame, uint32_t *node)
{
	if (tree->nr_nodes == tree->cap_nodes && !grow_nodes(tree))
		return -ENOMEM;
	tree->room -= NODE_BYTES;
	*node = tree->nr_nodes++;
	tree->nodes[*node] = (struct pev_tree_node){ .parent = parent, .frame = frame,
						     .brother = tree->nodes[parent].first };
	tree->nodes[parent].first = *node;
	tree->sorted = false;
	put(tree->node_slots, 2 * tree->cap_nodes - 1, hash_node(parent, frame), *node);
	return 0;
}

int pev_stack_tree_other(struct pev_stack_tree *tree, uint32_t root, uint32_t *node)
{
	static const char key[] = "(other)\0\0\0\0";
	const bool full = tree->full;
	int rc;

	if (!tree->other) {
		tree->full = false;
		rc = pev_stack_tree_intern(tree, key, sizeof(key), 0, &tree->other);
		tree->full = full;
		if (rc < 0)
			return rc;
	}
	*node = tree->nodes[root].frame == tree->other ? root
						       : find_node(tree, root, tree->other);
	return *node ? 0 : add_node(tree, root, tree->other, node);
}

int pev_stack_tree_child(struct pev_stack_tree *tree, uint32_t parent, uint32_t frame,
			 uint32_t root, uint32_t *node)
{
	int rc;

	*node = find_node(tree, parent, frame);
	if (*node)
		return 0;
	if (!tree->full)
		return add_node(tree, parent, frame, node);
	*node = parent;
	if (tree->other && tree->nodes[parent].frame == tree->other)
		return 0;
	rc = pev_stack_tree_other(tree, root, node);
	return rc < 0 ? rc : 1;
}

/* ---- room ---- */

int64_t pev_stack_tree_bytes(const struct pev_stack_tree *tree, const struct pev_tree_need *need)
{
	return (int64_t)(need->frames * FRAME_BYTES + 2 * need->key_bytes +
			 need->nodes * NODE_BYTES +
			 need->rows * sizeof(*tree->values) * tree->nr_values);
}

int pev_stack_tree_reserve(struct pev_stack_tree *tree, const struct pev_tree_need *need)
{
	const size_t each = sizeof(*tree->values) * tree->nr_values;

	if (!pev_list_reserve(&tree->keys, &tree->keys_cap, tree->keys_len + need->key_bytes, 1))
		return -ENOMEM;
	while (tree->cap_frames < tree->nr_frames + need->frames + 1)
		if (!grow_frames(tree))
			return -ENOMEM;
	while (tree->cap_nodes < tree->nr_nodes + need->nodes)
		if (!grow_nodes(tree))
			return -ENOMEM;
	while (tree->cap_rows <= tree->nr_rows + need->rows)
		if (!grow(&tree->values, &tree->cap_rows, each))
			return -ENOMEM;
	return 0;
}

/* ---- values ---- */

struct pev_tree_value *pev_stack_tree_values(const struct pev_stack_tree *tree, uint32_t node)
{
	const uint32_t row = tree->nodes[node].row;

	return row ? &tree->values[(size_t)row * tree->nr_values] : NULL;
}

void pev_tree_value_add(struct pev_tree_value *sum, const struct pev_tree_value *value)
{
	if (!sum->is_float && !value->is_float) {
		sum->integer = (int64_t)((uint64_t)sum->integer + (uint64_t)value->integer);
		return;
	}
	if (!sum->is_float)
		sum->number = (double)sum->integer;
	sum->number += value->is_float ? value->number : (double)value->integer;
	sum->is_float = true;
}

int pev_stack_tree_add(struct pev_stack_tree *tree, uint32_t node,
		       const struct pev_tree_value *values, uint32_t nr)
{
	struct pev_tree_node *at = &tree->nodes[node];
	const size_t each = sizeof(*tree->values) * tree->nr_values;
	struct pev_tree_value *sums;

	if (!at->row) {
		if (tree->nr_rows + 1 >= tree->cap_rows &&
		    !grow(&tree->values, &tree->cap_rows, each))
			return -ENOMEM;
		at->row = ++tree->nr_rows;
		memset(pev_stack_tree_values(tree, node), 0, each);
		tree->room -= (int64_t)each;
	}
	sums = pev_stack_tree_values(tree, node);
	for (uint32_t i = 0; i < nr; i++) {
		pev_tree_value_add(&sums[i], &values[i]);
		pev_tree_value_add(&tree->values[i], &values[i]);
	}
	return 0;
}

bool pev_tree_value_is_zero(const struct pev_tree_value *value)
{
	return value->is_float ? value->number == 0 : value->integer == 0;
}

/* ---- recorded stacks ---- */

void pev_stack_tree_forget(struct pev_stack_tree *tree, const struct pev_stacks *owner)
{
	if (tree->names)
		memset(tree->names, 0, sizeof(*tree->names) * tree->cap_names);
	tree->nr_lists = 0;
	free(tree->functions);
	tree->functions = NULL;
	tree->nr_functions = tree->cap_functions = 0;
	tree->owner = owner;
}

bool pev_stack_tree_needs_name(const struct pev_stack_tree *tree, uint32_t id)
{
	return id >= tree->cap_names || (tree->names[id] & (NAMED | FOR_ONE_STACK)) != NAMED;
}

/* Returns the place of a list, or -ENOMEM. */
static int64_t add_list(struct pev_stack_tree *tree, const uint32_t *frames, uint32_t nr)
{
	uint32_t place = tree->nr_lists;

	while (tree->cap_lists - place <= nr)
		if (!grow(&tree->lists, &tree->cap_lists, sizeof(*tree->lists)))
			return -ENOMEM;
	tree->lists[place] = nr;
	memcpy(&tree->lists[place + 1], frames, sizeof(*frames) * nr);
	tree->nr_lists += 1 + nr;
	return place;
}

int pev_stack_tree_name(struct pev_stack_tree *tree, uint32_t id, const uint32_t *frames,
			uint32_t nr, bool keep)
{
	uint32_t before = tree->cap_names, flags = NAMED | (keep ? 0 : FOR_ONE_STACK);
	int64_t place;

	while (id >= tree->cap_names)
		if (!grow(&tree->names, &tree->cap_names, sizeof(*tree->names)))
			return -ENOMEM;
	if (before < tree->cap_names)
		memset(tree->names + before, 0, sizeof(*tree->names) * (tree->cap_names - before));
	if (nr == 1) {
		tree->names[id] = frames[0] << NAME_SHIFT | flags;
		return 0;
	}
	place = add_list(tree, frames, nr);
	if (place < 0)
		return (int)place;
	tree->names[id] = (uint32_t)place << NAME_SHIFT | IN_LIST | flags;
	return 0;
}

static struct pev_tree_function *find_slot(struct pev_tree_function *functions, uint32_t cap,
					   const struct pev_dso *dso, uint64_t start)
{
	const uint64_t key = start * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)dso >> 4;
	uint32_t at = (uint32_t)(key >> 16) & (cap - 1);

	while (functions[at].dso && (functions[at].dso != dso || functions[at].start != start))
		at = (at + 1) & (cap - 1);
	return &functions[at];
}

uint32_t pev_stack_tree_function(const struct pev_stack_tree *tree, const struct pev_dso *dso,
				 uint64_t start)
{
	if (!tree->functions)
		return 0;
	return find_slot(tree->functions, tree->cap_functions, dso, start)->number;
}

int pev_stack_tree_keep_function(struct pev_stack_tree *tree, const struct pev_dso *dso,
				 uint64_t start, uint32_t number)
{
	const uint32_t cap = tree->cap_functions ? tree->cap_functions * 2 : FIRST;
	struct pev_tree_function *slot, *functions;

	if (2 * tree->nr_functions >= tree->cap_functions) {
		functions = cap <= INDEX_MAX ? calloc(cap, sizeof(*functions)) : NULL;
		if (!functions)
			return -ENOMEM;
		for (uint32_t i = 0; i < tree->cap_functions; i++) {
			slot = &tree->functions[i];
			if (slot->dso)
				*find_slot(functions, cap, slot->dso, slot->start) = *slot;
		}
		free(tree->functions);
		tree->functions = functions;
		tree->cap_functions = cap;
	}
	slot = find_slot(tree->functions, tree->cap_functions, dso, start);
	tree->nr_functions += !slot->dso;
	*slot = (struct pev_tree_function){ dso, start, number };
	return 0;
}

/* Returns the names of a recorded frame, the innermost first. */
static const uint32_t *find_names(const struct pev_stack_tree *tree, uint32_t id, uint32_t *one,
				  uint32_t *nr)
{
	const uint32_t name = tree->names[id], *list = &tree->lists[name >> NAME_SHIFT];

	if (name & IN_LIST) {
		*nr = list[0];
		return list + 1;
	}
	*one = name >> NAME_SHIFT;
	*nr = 1;
	return one;
}

/* The user-space functions of a stack that were called, without inlined ones. */
struct user_part {
	uint32_t all, user;
	uint32_t outermost;      /* flags */
};

static void count_frame(struct user_part *part, const struct pev_stack_tree *tree, uint32_t frame)
{
	const uint32_t flags = tree->frames[frame].flags;

	part->all++;
	if (frame && !(flags & (PEV_TREE_KERNEL | PEV_TREE_INLINED)) && part->user++ == 0)
		part->outermost = flags;
}

/* What a stack's user-space frames show about its callers. */
enum depth { NO_USER, SHORT, COMPLETE };

static enum depth find_depth(const struct user_part *part)
{
	const bool unknown = part->all == 1 && !(part->outermost & PEV_TREE_MODULE);

	if (part->user == 0 || unknown)
		return NO_USER;
	return part->user <= FEW && !(part->outermost & PEV_TREE_START) ? SHORT
									: COMPLETE;
}

/* Finds or adds the node of a stack of owner. Returns as pev_stack_tree_child(). */
static int find_stack_node(struct pev_stack_tree *tree, uint32_t root,
			   const struct pev_stack *stack, uint32_t *node, struct user_part *part)
{
	int rc = 0, spilled = 0;

	*node = root;
	for (uint32_t i = stack->nr; i-- > 0 && rc >= 0;) {
		uint32_t one, nr;
		const uint32_t *names = find_names(tree, stack->frames[i], &one, &nr);

		while (nr-- > 0 && rc >= 0) {
			count_frame(part, tree, names[nr]);
			rc = pev_stack_tree_child(tree, *node, names[nr], root, node);
			spilled |= rc > 0;
		}
	}
	return rc < 0 ? rc : spilled;
}

/* Finds or adds the node of a stack without frames, or of none. */
static int find_unknown(struct pev_stack_tree *tree, uint32_t root, uint32_t *node)
{
	static const char key[] = "[unknown]\0\0\0\0";
	uint32_t frame;
	int rc = pev_stack_tree_intern(tree, key, sizeof(key), 0, &frame);

	return rc < 0 ? rc : pev_stack_tree_child(tree, root, frame, root, node);
}

int pev_stack_tree_add_stack(struct pev_stack_tree *tree, uint32_t root,
			     const struct pev_stack *stack, const struct pev_tree_value *values,
			     uint32_t nr, uint32_t counted, uint32_t *end)
{
	struct user_part part = { 0 };
	enum depth depth;
	uint32_t node = root;
	int rc = 0;

	if (tree->exhausted || (stack && stack->id == 0))
		rc = pev_stack_tree_other(tree, root, &node);
	else if (stack && stack->nr)
		rc = find_stack_node(tree, root, stack, &node, &part);
	else if (stack || root == 0)
		rc = find_unknown(tree, root, &node);
	if (rc < 0 || pev_stack_tree_add(tree, node, values, nr) < 0)
		return -ENOMEM;
	*end = node;
	tree->spilled += rc > 0 || (tree->exhausted && node != root);
	depth = find_depth(&part);
	if (depth != NO_USER && counted < nr)
		pev_tree_value_add(&tree->user_stacks, &values[counted]);
	if (depth == SHORT && counted < nr)
		pev_tree_value_add(&tree->short_stacks, &values[counted]);
	return 0;
}

/* ---- order ---- */

static int compare_keys(const void *a, const void *b, void *ctx)
{
	const struct pev_stack_tree *tree = ctx;
	const struct pev_tree_frame *x = &tree->frames[*(const uint32_t *)a];
	const struct pev_tree_frame *y = &tree->frames[*(const uint32_t *)b];
	/* The zero after a key is less than any byte. */
	const size_t least = x->len < y->len ? x->len : y->len;

	return memcmp(tree->keys + x->key, tree->keys + y->key, least + 1);
}

/* A child and the rank of its frame. */
struct ranked {
	uint32_t rank, node;
};

static int compare_ranks(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void sort_children(struct pev_stack_tree *tree, uint32_t parent, const uint32_t *ranks,
			  struct ranked *list)
{
	uint32_t nr = 0, *link = &tree->nodes[parent].first;

	for (uint32_t n = *link; n; n = tree->nodes[n].brother)
		list[nr++] = (struct ranked){ ranks[tree->nodes[n].frame], n };
	if (nr > 1)
		qsort(list, nr, sizeof(*list), compare_ranks);
	for (uint32_t i = 0; i < nr; i++) {
		*link = list[i].node;
		link = &tree->nodes[list[i].node].brother;
	}
	*link = 0;
}

int pev_stack_tree_sort(struct pev_stack_tree *tree)
{
	uint32_t *ids, *ranks;
	struct ranked *list;

	if (tree->sorted)
		return 0;
	ids = malloc(sizeof(*ids) * (tree->nr_frames + 1));
	ranks = malloc(sizeof(*ranks) * (tree->nr_frames + 1));
	list = malloc(sizeof(*list) * (tree->nr_frames + 1));
	if (ids && ranks && list) {
		for (uint32_t i = 0; i < tree->nr_frames; i++)
			ids[i] = i + 1;
		qsort_r(ids, tree->nr_frames, sizeof(*ids), compare_keys, tree);
		for (uint32_t i = 0; i < tree->nr_frames; i++)
			ranks[ids[i]] = i;
		/* Each child has another frame, so a list has room for them. */
		for (uint32_t n = 0; n < tree->nr_nodes; n++)
			if (tree->nodes[n].first)
				sort_children(tree, n, ranks, list);
		tree->sorted = true;
	}
	free(ids);
	free(ranks);
	free(list);
	return tree->sorted ? 0 : -ENOMEM;
}

uint32_t pev_stack_tree_next(const struct pev_stack_tree *tree, uint32_t node, uint32_t *depth)
{
	if (tree->nodes[node].first) {
		++*depth;
		return tree->nodes[node].first;
	}
	while (node && !tree->nodes[node].brother) {
		node = tree->nodes[node].parent;
		--*depth;
	}
	return tree->nodes[node].brother;
}
