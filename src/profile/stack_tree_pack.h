/*
 * stack_tree_pack.h - a tree of stacks as bytes that another process, or machine, reads.
 *
 * Numbers as in aggregate/pack.h. The reader does not trust its input.
 */
#pragma once

#include "aggregate/pack.h"
#include "profile/stack_tree.h"

/*
 * Packs the stacks with the numbers first .. last, from 1 in the order of their first values; the
 * counts of depths are with the last one. work: pev_stack_tree_pack_bytes() zeros. write() may
 * jump out of this function.
 */
void pev_stack_tree_pack(const struct pev_stack_tree *tree, uint32_t first, uint32_t last,
			 uint32_t *work, const struct pev_pack_out *out);
size_t pev_stack_tree_pack_bytes(const struct pev_stack_tree *tree);

struct pev_tree_texts {
	void *ctx;
	/* True if a text of a frame that is not ASCII may be shown. */
	bool (*is_safe)(void *ctx, const char *text, size_t len);
};
/*
 * Reads into tree, which is new and has so many bytes of room. -E2BIG: needs more. -EBADMSG with
 * the reason; -ENOMEM. On failure the tree has what was read so far; the caller frees it.
 */
int pev_stack_tree_unpack(struct pev_stack_tree *tree, struct pev_pack_in *in,
			  const struct pev_tree_texts *texts, struct pev_err *err);
