/*
 * stack.h - call chains as values: each frame has the file that was mapped at its address.
 *
 * A stack is made when a sample is delivered, because the tasks then know the maps. It is
 * interned: equal frames in the same files are the same stack, in every process. Frames are
 * interned, too: a stack is a list of frame ids, and names are stored once for each id.
 * Frames and stacks live until pev_stacks_free() frees all, so that an id never changes its
 * meaning. Names are looked up later, for printing.
 */
#pragma once

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
	PEV_IN_OTHER     /* in a guest or a hypervisor: the code is unknown */
};

struct pev_frame {
	uint64_t ip;
	uint64_t offset;      /* bytes into dso, if there is one */
	struct pev_dso *dso;  /* counted; NULL: no file is known at ip */
	uint32_t context;     /* enum pev_context */
	bool returns;         /* ip is a return address: the call is before it */
	bool unwound;         /* found by unwind rules: returns is certain */
};

struct pev_stack {
	uint64_t id;          /* from 1; 0: pev_stacks.other */
	uint64_t hash;
	struct pev_stack *next;
	uint32_t nr;
	const struct pev_stacks *owner; /* in which it is interned */
	struct pev_stack *user;        /* the part of user space; NULL: not made yet */
	uint32_t frames[];             /* ids, the innermost first; see pev_stack_frame() */
};

/* A frame's dso, with the process and the map in which it was sampled. */
struct pev_sampled {
	struct pev_dso *dso;     /* counted */
	int pid;
	uint64_t start, end;     /* the map's addresses */
};

/*
 * Hash of a callchain and of all else that its stack depends on. Two chains have the same hash
 * with a probability of 2^-128; the salt keeps a watched process from choosing such chains.
 */
struct pev_chain_hash {
	uint64_t low, high;
};

/* A callchain that was seen before, and its stack; NULL: free. */
struct pev_known_chain {
	struct pev_chain_hash hash;
	const struct pev_stack *stack;
};

/* The chains with the same low bits of their hashes, the newest first: as many as a cache line. */
enum { PEV_KNOWN_EACH = 2 };
struct pev_known_set {
	struct pev_known_chain chains[PEV_KNOWN_EACH];
	uint64_t unused[2];
};

/* The id of an address's frame in a process, while its maps stay as they are. */
struct pev_known_address {
	uint64_t ip, maps;
	uint32_t loads;          /* functions that a JIT compiler had loaded */
	int pid;
	uint32_t mode;           /* the frame's context, returns and unwound */
	uint32_t id;
};

struct pev_stacks {
	struct pev_stack **chains;
	uint32_t nr, cap;
	struct pev_frame *frames; /* by id */
	uint32_t nr_frames, cap_frames;
	uint32_t *slots;         /* hash table of 1 + id, twice as large as frames; 0: free */
	struct pev_known_address *addresses; /* by the low bits of ip; NULL: none yet */
	/*
	 * Borrowed; NULL: no limit. A new stack without room in the budget or in memory becomes
	 * other, which has no frames.
	 */
	struct pev_budget *budget;
	uint64_t bytes;          /* taken from the budget */
	struct pev_stack *other;
	uint32_t *scratch;       /* ids of the frames of the stack that is being made */
	uint32_t room;           /* of scratch */
	bool unfit;              /* one of these frames had no room */
	struct pev_known_set *known; /* NULL: none yet */
	uint64_t salt[2];
	/*
	 * If watched is set: user-space dsos that were sampled, for the caller to keep what names
	 * their functions, because the process and its files may be gone when names are looked up.
	 * A dso is listed at its 1st, 2nd, 4th, 8th ... frame until the caller sets dso->kept.
	 */
	bool watched;
	struct pev_sampled *sampled;
	uint32_t nr_sampled, cap_sampled;
};

/* Returns the i-th frame of a stack. Borrowed until the next frame is interned. */
static inline const struct pev_frame *pev_stack_frame(const struct pev_stack *stack, uint32_t i)
{
	return &stack->owner->frames[stack->frames[i]];
}

int pev_stacks_init(struct pev_stacks *stacks);
void pev_stacks_free(struct pev_stacks *stacks);

/* Empties stacks->sampled. */
void pev_stacks_forget_sampled(struct pev_stacks *stacks);

/*
 * True if a dump of a JIT compiler is to be read before the stack of that record is taken: see
 * pev_jit_dumps_next().
 */
bool pev_stacks_want_dumps(struct pev_tasks *tasks, const struct pev_record *rec);
/*
 * Finds the stack of a record's callchain, with the contexts that its plan's stack selects; *out
 * is NULL without a callchain. unwind has walked the user part, or is NULL if the callchain has it.
 * Borrowed until pev_stacks_free(). Returns 0 or -ENOMEM.
 */
int pev_stacks_take(struct pev_stacks *stacks, struct pev_tasks *tasks,
		    const struct pev_record *rec, const struct pev_unwind *unwind,
		    const struct pev_stack **out);
/*
 * The same for the kernel's part of the callchain, which needs no unwinding. tasks may be NULL: the
 * frames then have no files, and threads with a table each can call it at the same time.
 */
int pev_stacks_kernel(struct pev_stacks *stacks, struct pev_tasks *tasks,
		      const struct pev_record *rec, const struct pev_stack **out);
/*
 * Returns the stack of its frames of user space, which may have no frames. Borrowed like stack.
 * NULL: no memory.
 */
const struct pev_stack *pev_stacks_user(struct pev_stacks *stacks, const struct pev_stack *stack);
/*
 * Returns the stack with the frames of pev_stacks_kernel() of another table, and with the kernel's
 * files that tasks (or NULL) knows. NULL: no memory here or there.
 */
const struct pev_stack *pev_stacks_adopt(struct pev_stacks *stacks, struct pev_tasks *tasks,
					 const struct pev_stack *stack);
/* Compares by addresses, from the innermost frame on; equal ones by the order first seen. */
bool pev_stack_is_before(const struct pev_stack *a, const struct pev_stack *b);
/* Finds the stack of a record's ip alone; *out is NULL without an ip. Returns 0 or -ENOMEM. */
int pev_stacks_ip(struct pev_stacks *stacks, struct pev_tasks *tasks, const struct pev_record *rec,
		  const struct pev_stack **out);
/* Fills in the frame of a record's ip. Borrows dso until the next call. False: no ip. */
bool pev_stack_ip(struct pev_tasks *tasks, const struct pev_record *rec, struct pev_frame *frame);
