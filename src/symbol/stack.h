/*
 * stack.h - call chains as values: each frame with what lay at its address then.
 *
 * A stack is taken from a sample in delivery, when tasks say what was mapped; it is
 * interned, so that the same frames in the same files are the same stack, whoever was
 * there. Stacks stay until all of them are given up: a table keyed by their number
 * never means another one. Names are looked up later, by those who print.
 */
#ifndef PEV_STACK_H
#define PEV_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory_budget.h"
#include "task/maps.h"
#include "record/record.h"
#include "task/task.h"
#include "symbol/unwind.h"

enum pev_context {
	PEV_IN_USER,
	PEV_IN_KERNEL,
	PEV_IN_OTHER     /* a guest's, a hypervisor's: whose code that is cannot be told */
};

struct pev_frame {
	uint64_t ip;
	uint64_t offset;      /* bytes into dso, where there is one */
	struct pev_dso *dso;  /* counted; NULL: nothing is known to lie there */
	uint32_t context;     /* enum pev_context */
	bool returns;         /* ip is where a call returns to: the call is before it */
	bool unwound;         /* by rules: that it returns there is no guess */
};

struct pev_stack {
	uint64_t id;          /* from 1; 0: pev_stacks.other */
	uint64_t hash;
	struct pev_stack *next;
	uint32_t nr;
	const struct pev_stacks *of;   /* where it is interned */
	struct pev_stack *parts[2];    /* of user space, of the kernel; NULL: not asked yet */
	struct pev_frame frames[];     /* the innermost first */
};

/* A frame's dso, with the process and the map in which it was sampled. */
struct pev_sampled {
	struct pev_dso *dso;     /* counted */
	int pid;
	uint64_t start, end;     /* the map's addresses */
};

/* What, beside its bytes, a callchain's stack comes of: whose it is, and what they map now. */
struct pev_chain_of {
	uint64_t user, kernel;   /* maps */
	int pid;
	uint32_t mode;           /* whose its first address is, and how its bytes are to be read */
};

/* The stack of a callchain that came before, and its bytes. */
struct pev_known {
	struct pev_chain_of of;
	const struct pev_stack *stack;
	uint32_t len, room;
	unsigned char chain[];
};

struct pev_stacks {
	struct pev_stack **chains;
	uint32_t nr, cap;
	/*
	 * Borrowed; NULL: no limit. A new stack that does not fit, or for which there is no memory,
	 * is other, which has no frames.
	 */
	struct pev_budget *budget;
	uint64_t bytes;          /* taken from the budget */
	struct pev_stack *other;
	struct pev_frame *scratch;
	uint32_t room;           /* frames of scratch */
	struct pev_known **known; /* by their hashes' low bits; NULL: none yet */
	size_t known_bytes;
	/*
	 * If watched is set: user-space dsos that were sampled, for the caller to keep what names
	 * their functions, because the process and its files may be gone when names are looked up.
	 * A dso is listed at its 1st, 2nd, 4th, 8th ... frame until the caller sets dso->kept.
	 */
	bool watched;
	struct pev_sampled *sampled;
	uint32_t nr_sampled, cap_sampled;
};

int pev_stacks_init(struct pev_stacks *stacks);
void pev_stacks_free(struct pev_stacks *stacks);

/* Empties stacks->sampled. */
void pev_stacks_forget_sampled(struct pev_stacks *stacks);

/*
 * The stack of a record with a callchain, as its plan's stack says; *out is NULL for one
 * without. unwind has walked its user part, or is NULL: then all is in the callchain.
 * Borrowed until pev_stacks_free(). -ENOMEM.
 */
int pev_stacks_take(struct pev_stacks *stacks, struct pev_tasks *tasks,
		    const struct pev_record *rec, const struct pev_unwind *unwind,
		    const struct pev_stack **out);
/*
 * Its frames of that context alone, PEV_IN_USER or PEV_IN_KERNEL, as a stack of their own; that
 * of no frame where it has none. Borrowed like it. NULL: no memory.
 */
const struct pev_stack *pev_stacks_part(struct pev_stacks *stacks, const struct pev_stack *stack,
					enum pev_context context);
/* That of a record's ip alone; *out is NULL for one without. Borrowed like it. -ENOMEM. */
int pev_stacks_ip(struct pev_stacks *stacks, struct pev_tasks *tasks, const struct pev_record *rec,
		  const struct pev_stack **out);
/* What lies at a record's ip: frame->dso is borrowed until the next. False for one without ip. */
bool pev_stack_ip(struct pev_tasks *tasks, const struct pev_record *rec, struct pev_frame *frame);

#endif
