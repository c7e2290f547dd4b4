/*
 * folded.h - writes a tree of stacks as folded text: "outermost;...;leaf value" for each stack, in
 * the order of the lines' bytes. All lines can be many times larger than the tree, so the text is
 * made in pieces.
 */
#pragma once

#include "profile/stack_tree.h"

struct pev_folded; /* opaque; borrows the tree; what is added to it later is left out */

/*
 * value: the number of the value that is written. annotate: with the suffixes of
 * stackcollapse-perf.pl --all, _[k] and _[i]. Returns 0 or -ENOMEM.
 */
int pev_folded_open(struct pev_folded **out, const struct pev_stack_tree *tree, uint32_t value,
		    bool annotate);
void pev_folded_close(struct pev_folded *folded);
/*
 * Makes the next piece, which has whole lines; borrowed until the next call. Its length is 0 at
 * the end. Returns 0 or -ENOMEM.
 */
int pev_folded_next(struct pev_folded *folded, const char **text, size_t *len);
