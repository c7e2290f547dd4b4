/*
 * stack_tree.h - stacks with values, as a tree of frames that have names.
 *
 * A frame is a function, module, file and line, kernel or user, inlined or not. Frames are
 * interned: a node of the tree has the id of its frame, and texts exist once. The frames of
 * recorded stacks (symbol/stack.h) are named once each, by their ids. The tree grows with the
 * number of distinct stacks; without room for a new node, a stack is added to (other).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/stack.h"

/* An integer or a float, as in Lua: the sum of an integer and a float is a float. */
struct pev_tree_value {
	union {
		int64_t integer;
		double number;
	};
	bool is_float;
};

enum { PEV_TREE_KERNEL = 1, PEV_TREE_INLINED = 2, PEV_TREE_MODULE = 4, PEV_TREE_START = 8 };

struct pev_tree_frame {
	uint32_t key, len;       /* its bytes in keys; a zero follows */
	uint32_t hash;
	uint32_t flags;          /* PEV_TREE_*; START: a thread begins in this function */
};

struct pev_tree_node {
	uint32_t parent, frame;
	uint32_t first, brother; /* its children's list; 0: none */
	uint32_t row;            /* its values are values[row * nr_values]; 0: none yet */
};

/* A number for a function of a file, such as its frame's id. */
struct pev_tree_function {
	const struct pev_dso *dso; /* borrowed from owner; NULL: a free slot */
	uint64_t start;
	uint32_t number;
};

struct pev_stack_tree {
	char *keys;              /* of the frames: name, module, file, line, "k", "i", by zeros */
	size_t keys_len;
	uint32_t keys_cap;
	struct pev_tree_frame *frames;   /* by id, from 1 */
	uint32_t nr_frames, cap_frames;
	uint32_t *frame_slots;   /* hash table, twice as large as frames; 0: free */
	struct pev_tree_node *nodes;     /* 0: the root, which has no frame */
	uint32_t nr_nodes, cap_nodes;
	uint32_t *node_slots;
	struct pev_tree_value *values;   /* the first row: the sums of all nodes */
	uint32_t nr_values;      /* of a node */
	uint32_t nr_rows, cap_rows;
	int64_t room;            /* bytes; below 0: no new node */
	bool full;               /* the stack that is being added gets no new node */
	bool sorted;             /* children are in the order of their keys */
	bool exhausted;          /* no memory: all stacks are added to (other) */
	uint64_t spilled;        /* stacks that had no room */
	/* Samples of stacks with user frames, and of those with only one or two. */
	struct pev_tree_value user_stacks, short_stacks;
	uint32_t other;          /* the frame "(other)"; 0: none yet */
	/* The frames of the stacks of owner by their ids, see pev_stack_tree_name(). */
	const struct pev_stacks *owner;  /* borrowed */
	uint32_t *names;
	uint32_t cap_names;
	uint32_t *lists;         /* of frames with inlined functions: how many, then their ids */
	uint32_t nr_lists, cap_lists;
	struct pev_tree_function *functions; /* hash table, at most half full */
	uint32_t nr_functions, cap_functions;
};

/* Returns 0 or -ENOMEM. */
int pev_stack_tree_init(struct pev_stack_tree *tree, uint32_t nr_values, int64_t room);
void pev_stack_tree_free(struct pev_stack_tree *tree);

/*
 * Finds the id of a frame by its key, or adds the frame. The calls below that can add a frame or
 * node return -ENOMEM without memory, and leave the tree usable. *id is 0 if the tree is full.
 */
int pev_stack_tree_intern(struct pev_stack_tree *tree, const char *key, size_t len,
			  uint32_t flags, uint32_t *id);
/*
 * Finds the node of a frame below parent, or adds it. If the tree is full, *node is that of
 * (other) below root, and the result 1 if parent is another one.
 */
int pev_stack_tree_child(struct pev_stack_tree *tree, uint32_t parent, uint32_t frame,
			 uint32_t root, uint32_t *node);
/* Finds or adds the node of (other) below root. */
int pev_stack_tree_other(struct pev_stack_tree *tree, uint32_t root, uint32_t *node);

/* The same without adding: 0 if it does not exist. */
uint32_t pev_stack_tree_find_frame(const struct pev_stack_tree *tree, const char *key, size_t len);
uint32_t pev_stack_tree_find(const struct pev_stack_tree *tree, uint32_t parent, uint32_t frame);

/* Memory for more frames, with so many bytes of keys, nodes and rows of values. */
struct pev_tree_need {
	uint64_t frames, key_bytes, nodes, rows;
};
/* Makes room: until it is used up, adding cannot fail. -ENOMEM: nothing has changed. */
int pev_stack_tree_reserve(struct pev_stack_tree *tree, const struct pev_tree_need *need);
/* Counts against tree->room. */
int64_t pev_stack_tree_bytes(const struct pev_stack_tree *tree, const struct pev_tree_need *need);

/* Forgets the names of recorded frames. owner: the stacks whose frames get names now. */
void pev_stack_tree_forget(struct pev_stack_tree *tree, const struct pev_stacks *owner);
/* True if the frame of owner with that id needs a name. */
bool pev_stack_tree_needs_name(const struct pev_stack_tree *tree, uint32_t id);
/*
 * Names a frame of owner: the frames inlined there, the innermost first, and itself. keep: also
 * for the stacks that come later. Returns 0 or -ENOMEM.
 */
int pev_stack_tree_name(struct pev_stack_tree *tree, uint32_t id, const uint32_t *frames,
			uint32_t nr, bool keep);

/* Returns the number that was kept for a function of a dso of owner, or 0. */
uint32_t pev_stack_tree_function(const struct pev_stack_tree *tree, const struct pev_dso *dso,
				 uint64_t start);
/* Keeps a number, which is not 0. Returns 0 or -ENOMEM. */
int pev_stack_tree_keep_function(struct pev_stack_tree *tree, const struct pev_dso *dso,
				 uint64_t start, uint32_t number);

/*
 * Adds values to the stack of owner below root; its frames have names. NULL: an unknown stack.
 * counted: the index of the value that is the number of samples. Returns 0 and *end, the node of
 * the innermost frame; or -ENOMEM: no value was added.
 */
int pev_stack_tree_add_stack(struct pev_stack_tree *tree, uint32_t root,
			     const struct pev_stack *stack, const struct pev_tree_value *values,
			     uint32_t nr, uint32_t counted, uint32_t *end);

/* Adds to the first values of a node. Returns 0, or -ENOMEM: no value was added. */
int pev_stack_tree_add(struct pev_stack_tree *tree, uint32_t node,
		       const struct pev_tree_value *values, uint32_t nr);
/* Returns the values of a node, NULL if none were added. */
struct pev_tree_value *pev_stack_tree_values(const struct pev_stack_tree *tree, uint32_t node);
void pev_tree_value_add(struct pev_tree_value *sum, const struct pev_tree_value *value);
bool pev_tree_value_is_zero(const struct pev_tree_value *value);

/* Sorts all children by their frames' keys. Returns 0 or -ENOMEM. */
int pev_stack_tree_sort(struct pev_stack_tree *tree);
/*
 * Returns the node after one, parents first; 0: none. The depth of the root is 0, and is updated.
 */
uint32_t pev_stack_tree_next(const struct pev_stack_tree *tree, uint32_t node, uint32_t *depth);
