/*
 * stack_tree_merge.h - adds the values of one tree of stacks to another.
 */
#pragma once

#include "profile/stack_tree.h"

/* The values of a tree that were read before. A zeroed one has none. */
struct pev_tree_seen {
	struct pev_tree_value *values; /* a row for each of the tree's, without its first */
	uint32_t nr_rows, cap_rows;
	struct pev_tree_value user_stacks, short_stacks;
};
void pev_tree_seen_free(struct pev_tree_seen *seen);

struct pev_tree_change {
	const struct pev_stack_tree *from;
	const uint32_t *values; /* for each value type of from: that of the other tree */
	struct pev_tree_seen *seen; /* not NULL: adds what has changed since, and sees it */
	bool subtract;
};

/*
 * Adds the values to tree, which may be from. The time depends on the nodes of from alone. A stack
 * that has no room in tree is added to (other). Returns 0, or -ENOMEM: nothing has changed.
 */
int pev_stack_tree_merge(struct pev_stack_tree *tree, const struct pev_tree_change *change);
