/*
 * lstack_tree.h - the userdata perfev.stack_tree: the stacks of a profile.
 */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "profile/stack_tree.h"

#define L_STACK_TREE_TYPENAME "perfev.core.stack_tree"

struct l_stack_tree {
	struct pev_stack_tree tree;
	struct pev_folded *folded; /* owned; NULL: no text is being made */
	uint32_t taken; /* keys of the aggregator that t:take() reads */
	uint32_t unmapped[PEV_IN_OTHER + 1]; /* by context: the frame outside all files, or 0 */
};

enum {
	TREE_UV_HOME = 1, /* of the stacks that have names */
	TREE_UV_SYMBOLS, /* list of perfev.symtab, which name the frames of files */
	TREE_UV_NR = TREE_UV_SYMBOLS
};
