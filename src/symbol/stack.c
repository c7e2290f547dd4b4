/*
 * stack.c - call chains as values; see stack.h.
 *
 * Contract: perf_callchain() in kernel/events/callchain.c: addresses, the innermost first, with
 * markers (PERF_CONTEXT_*) where another context begins.
 */
#include "symbol/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregate/key.h"
#include "base/growing_list.h"

/* kernel.perf_event_max_stack is 127 by default; a record has room for 8,191 words. */
#define FRAMES_MAX 8192u
#define KNOWN (1u << 15)                /* sets of known chains */
#define ADDRESSES (1u << 14)            /* limit of known addresses */
#define FRAMES_FIRST 256u               /* frames with room at first; a power of two */
/* Bytes of a frame and of its place in the hash table, in tables that are half full. */
#define FRAME_BYTES (2 * sizeof(struct pev_frame) + 4 * sizeof(uint32_t))
#define BRANCH_BYTES 24 /* struct perf_branch_entry: from, to, flags */

int pev_stacks_init(struct pev_stacks *stacks)
{
	*stacks = (struct pev_stacks){ .cap = 256, .room = 256 };
	stacks->chains = calloc(stacks->cap, sizeof(struct pev_stack *));
	stacks->scratch = malloc(sizeof(*stacks->scratch) * stacks->room);
	stacks->other = calloc(1, sizeof(*stacks->other));
	if (stacks->chains && stacks->scratch && stacks->other) {
		stacks->other->owner = stacks;
		return 0;
	}
	pev_stacks_free(stacks);
	return -ENOMEM;
}

void pev_stacks_free(struct pev_stacks *stacks)
{
	for (uint32_t i = 0; stacks->chains && i < stacks->cap; i++) {
		for (struct pev_stack *stack = stacks->chains[i], *next; stack; stack = next) {
			next = stack->next;
			free(stack);
		}
	}
	for (uint32_t i = 0; i < stacks->nr_frames; i++)
		pev_dso_put(stacks->frames[i].dso);
	free(stacks->frames);
	free(stacks->slots);
	free(stacks->addresses);
	free(stacks->chains);
	free(stacks->scratch);
	free(stacks->other);
	pev_budget_return(stacks->budget, stacks->bytes);
	free(stacks->known);
	pev_stacks_forget_sampled(stacks);
	free(stacks->sampled);
	*stacks = (struct pev_stacks){ 0 };
}

void pev_stacks_forget_sampled(struct pev_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->nr_sampled; i++)
		pev_dso_put(stacks->sampled[i].dso);
	stacks->nr_sampled = 0;
}

/* ---- from a record ---- */

static int read_number(const struct pev_record *rec, enum pev_field name)
{
	struct pev_value value;

	return pev_record_get(rec, name, &value) ? (int)(int64_t)value.u : 0;
}

static enum pev_context find_context(uint64_t marker)
{
	switch ((int64_t)marker) {
	case -128: /* PERF_CONTEXT_KERNEL */
		return PEV_IN_KERNEL;
	case -512: /* PERF_CONTEXT_USER */
		return PEV_IN_USER;
	default:
		return PEV_IN_OTHER;
	}
}

/* The context of an address with no marker before it is that of the sample. */
static enum pev_context find_mode_context(uint16_t misc)
{
	switch (misc & PERF_RECORD_MISC_CPUMODE_MASK) {
	case PERF_RECORD_MISC_KERNEL:
		return PEV_IN_KERNEL;
	case PERF_RECORD_MISC_USER:
	case PERF_RECORD_MISC_CPUMODE_UNKNOWN:
		return PEV_IN_USER;
	default:
		return PEV_IN_OTHER;
	}
}

/* The address that is looked up: a return address may be the first byte behind its function. */
static uint64_t find_address(const struct pev_frame *frame) { return frame->ip - frame->returns; }

/* Fills in dso (borrowed) and offset, and returns the map, or NULL. */
static const struct pev_map *find_dso(struct pev_tasks *tasks, int pid, struct pev_frame *frame)
{
	uint64_t at = find_address(frame);
	const struct pev_map *map = NULL;

	if (frame->context == PEV_IN_KERNEL)
		map = pev_tasks_map(tasks, -1, at);
	else if (frame->context == PEV_IN_USER)
		map = pev_tasks_map(tasks, pid, at);
	frame->dso = map ? map->dso : NULL;
	frame->offset = map ? frame->ip - map->start + map->pgoff : 0;
	return map;
}

/* Makes room for a stack of nr frames, and forgets those of the stack before. */
static bool reserve_frames(struct pev_stacks *stacks, uint32_t nr)
{
	stacks->unfit = false;
	return pev_list_reserve(&stacks->scratch, &stacks->room, nr, sizeof(*stacks->scratch));
}

static uint64_t read_address(const struct pev_record *rec, const struct pev_value *chain,
			     uint32_t i)
{
	uint64_t ip = pev_load64(chain->p + 8 * (size_t)i, rec->plan->swap);

	/* Tools of a 32-bit recorder may keep only the low half of a marker. */
	if (rec->plan->narrow && ip >> 32 == 0 && (uint32_t)ip >= (uint32_t)PEV_CONTEXT_MAX)
		ip = (uint64_t)(int64_t)(int32_t)ip;
	return ip;
}

/* Without memory, a later frame of the dso is listed instead. */
static void list_sampled(struct pev_stacks *stacks, struct pev_dso *dso, int pid,
			 const struct pev_map *map)
{
	if (pev_list_reserve(&stacks->sampled, &stacks->cap_sampled, stacks->nr_sampled + 1,
			     sizeof(*stacks->sampled)))
		stacks->sampled[stacks->nr_sampled++] =
			(struct pev_sampled){ pev_dso_get(dso), pid, map->start, map->end };
}

static uint64_t mix_hash(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint32_t hash_frame(const struct pev_frame *frame)
{
	const uint64_t hash = mix_hash(mix_hash(frame->context, frame->ip),
				       (uint64_t)(uintptr_t)frame->dso);

	return (uint32_t)(hash >> 8);
}

static bool is_same_frame(const struct pev_frame *a, const struct pev_frame *b)
{
	return a->ip == b->ip && a->dso == b->dso && a->offset == b->offset &&
	       a->context == b->context && a->returns == b->returns && a->unwound == b->unwound;
}

static bool grow_frames(struct pev_stacks *stacks)
{
	uint32_t cap = stacks->cap_frames ? stacks->cap_frames * 2 : FRAMES_FIRST;
	uint32_t mask = 2 * cap - 1, *slots = calloc(mask + 1, sizeof(*slots));
	struct pev_frame *frames = realloc(stacks->frames, sizeof(*frames) * cap);

	if (frames)
		stacks->frames = frames;
	if (!slots || !frames) {
		free(slots);
		pev_budget_fail(stacks->budget);
		return false;
	}
	for (uint32_t i = 0, at; i < stacks->nr_frames; i++) {
		for (at = hash_frame(&frames[i]) & mask; slots[at]; at = (at + 1) & mask)
			;
		slots[at] = 1 + i;
	}
	free(stacks->slots);
	stacks->slots = slots;
	stacks->cap_frames = cap;
	return true;
}

/* Finds the id of a frame, or adds the frame, which gets a reference to its dso. False: no room. */
static bool intern_frame(struct pev_stacks *stacks, const struct pev_frame *frame, uint32_t *id)
{
	uint32_t mask, at;

	if (stacks->nr_frames == stacks->cap_frames && !grow_frames(stacks))
		return false;
	mask = 2 * stacks->cap_frames - 1;
	for (at = hash_frame(frame) & mask; stacks->slots[at]; at = (at + 1) & mask) {
		*id = stacks->slots[at] - 1;
		if (is_same_frame(&stacks->frames[*id], frame))
			return true;
	}
	if (!pev_budget_has_room(stacks->budget, FRAME_BYTES))
		return false;
	pev_budget_use(stacks->budget, FRAME_BYTES);
	stacks->bytes += FRAME_BYTES;
	*id = stacks->nr_frames++;
	stacks->frames[*id] = *frame;
	pev_dso_get(frame->dso);
	stacks->slots[at] = 1 + *id;
	return true;
}

/* Counts a frame of a dso whose symbols are not kept yet. */
static void note_sampled(struct pev_stacks *stacks, struct pev_dso *dso, int pid,
			 const struct pev_map *map)
{
	dso->met++;
	if ((dso->met & (dso->met - 1)) == 0)
		list_sampled(stacks, dso, pid, map);
}

/* The process of a record and its maps: the same for all frames of a stack. */
struct chain_owner {
	struct pev_tasks *tasks; /* NULL: no frame has a file */
	int pid;
	bool only_kernel;        /* only frames of the kernel are read */
	uint64_t maps[2];        /* versions, by enum pev_context */
	struct pev_jit_dump *jit; /* NULL: none */
	uint64_t time;           /* of the record, for jit */
	uint32_t loads;          /* functions of jit at that time */
};

/* The times of a dump are of CLOCK_MONOTONIC. */
static uint64_t read_jit_time(const struct pev_record *rec)
{
	uint64_t time;

	if (rec->plan->clock == CLOCK_MONOTONIC && pev_record_number(rec, PEV_F_TIME, &time))
		return time;
	return PEV_JIT_NEWEST;
}

bool pev_stacks_want_dumps(struct pev_tasks *tasks, const struct pev_record *rec)
{
	struct pev_jit_dumps *dumps = &tasks->dsos.dumps;
	struct pev_jit_dump *dump =
		dumps->nr ? pev_tasks_jit_dump(tasks, read_number(rec, PEV_F_PID)) : NULL;

	if (dump)
		pev_jit_dump_want(dump, read_jit_time(rec));
	return dumps->wanted;
}

/* Finds the dump of the process's JIT compiler. */
static void find_jit_dump(struct chain_owner *owner, const struct pev_record *rec)
{
	if (owner->tasks->dsos.dumps.nr)
		owner->jit = pev_tasks_jit_dump(owner->tasks, owner->pid);
	if (!owner->jit)
		return;
	owner->time = read_jit_time(rec);
	owner->loads = pev_jit_dump_loads(owner->jit, owner->time);
}

static struct chain_owner find_owner(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int pid = read_number(rec, PEV_F_PID);
	struct chain_owner owner = {
		.tasks = tasks, .pid = pid,
		.maps = { pev_tasks_maps(tasks, pid), pev_tasks_maps(tasks, -1) },
	};

	find_jit_dump(&owner, rec);
	return owner;
}

/* The same for frames of the kernel, which are the same in each process. */
static struct chain_owner own_kernel(struct pev_tasks *tasks)
{
	return (struct chain_owner){
		.tasks = tasks, .pid = -1, .only_kernel = true,
		.maps = { 0, tasks ? pev_tasks_maps(tasks, -1) : 0 },
	};
}

static bool is_watched(const struct pev_stacks *stacks, const struct pev_frame *frame)
{
	return stacks->watched && frame->context == PEV_IN_USER && frame->dso &&
	       !frame->dso->kept;
}

static struct pev_known_address describe_address(const struct chain_owner *owner,
						 const struct pev_frame *frame)
{
	return (struct pev_known_address){
		.ip = frame->ip,
		.maps = owner->maps[frame->context],
		.loads = owner->loads,
		.pid = owner->pid,
		.mode = 1u << 8 | frame->context << 2 | (uint32_t)frame->returns << 1 |
			frame->unwound, /* not 0, which is that of a free place */
	};
}

/* Returns the place of a known address, which may have another one; NULL: not in a map. */
static struct pev_known_address *place_address(struct pev_stacks *stacks,
					       const struct pev_frame *frame)
{
	if (!stacks->addresses)
		stacks->addresses = calloc(ADDRESSES, sizeof(*stacks->addresses));
	if (!stacks->addresses || frame->context == PEV_IN_OTHER)
		return NULL;
	return &stacks->addresses[mix_hash(frame->context, frame->ip) >> 20 & (ADDRESSES - 1)];
}

static bool is_same_address(const struct pev_known_address *a, const struct pev_known_address *b)
{
	return a->ip == b->ip && a->maps == b->maps && a->loads == b->loads && a->pid == b->pid &&
	       a->mode == b->mode;
}

/*
 * Returns a reference to the dso of the function that the process's JIT compiler had at the
 * frame's address, and sets the offset; or NULL.
 */
static struct pev_dso *find_jit_function(const struct chain_owner *owner, struct pev_frame *frame)
{
	struct pev_jit_function function;
	struct pev_dso *dso;

	if (!pev_jit_dump_find(owner->jit, find_address(frame), owner->time, &function))
		return NULL;
	/* A forked process shares the dump, which Lua knows by the process that wrote it. */
	dso = pev_dso_function(&owner->tasks->dsos, pev_jit_dump_pid(owner->jit), &function);
	if (dso)
		frame->offset = frame->ip - function.start;
	return dso;
}

/* Finds what is at the frame's address. Returns a reference to its dso, or NULL. */
static struct pev_dso *find_code(struct pev_stacks *stacks, const struct chain_owner *owner,
				 struct pev_frame *frame)
{
	const struct pev_map *map =
		owner->tasks ? find_dso(owner->tasks, owner->pid, frame) : NULL;
	struct pev_dso *dso = NULL;

	if (owner->jit && frame->context == PEV_IN_USER && (!map || map->dso->memory))
		dso = find_jit_function(owner, frame);
	if (dso || !map)
		return dso;
	frame->dso = pev_dso_of(map->dso, owner->pid);
	if (is_watched(stacks, frame))
		note_sampled(stacks, frame->dso, owner->pid, map);
	return frame->dso;
}

/* Finds the frame's dso, and makes the frame the n-th of the stack in scratch. */
static void add_frame(struct pev_stacks *stacks, const struct chain_owner *owner,
		      struct pev_frame *frame, uint32_t n)
{
	struct pev_known_address *known = place_address(stacks, frame), address;

	if (known) {
		address = describe_address(owner, frame);
		if (is_same_address(known, &address) &&
		    !is_watched(stacks, &stacks->frames[known->id])) {
			stacks->scratch[n] = known->id;
			return;
		}
	}
	frame->dso = find_code(stacks, owner, frame);
	if (!intern_frame(stacks, frame, &stacks->scratch[n])) {
		stacks->unfit = true;
	} else if (known) {
		*known = address;
		known->id = stacks->scratch[n];
	}
	pev_dso_put(frame->dso);
}

/* Finds the user-space calls that the CPU recorded (LBR). False: the event did not request them. */
static bool get_calls(const struct pev_record *rec, struct pev_value *calls)
{
	return rec->plan->branch_sample_type & PEV_BRANCH_CALL_STACK &&
	       pev_record_get(rec, PEV_F_BRANCH_STACK, calls) && calls->nr > 0;
}

/*
 * Appends the callers that the CPU recorded. Each address is of the call itself, not a return
 * address. lbr_callchain_add_lbr_ip() in tools/perf/util/machine.c does the same.
 */
static uint32_t read_branches(struct pev_stacks *stacks, const struct chain_owner *owner,
			      const struct pev_record *rec, const struct pev_value *calls,
			      uint32_t nr)
{
	for (uint32_t i = 0; i < calls->nr && nr < stacks->room; i++, nr++) {
		struct pev_frame frame = {
			.ip = pev_load64(calls->p + BRANCH_BYTES * (size_t)i, rec->plan->swap),
			.context = PEV_IN_USER,
		};

		add_frame(stacks, owner, &frame, nr);
	}
	return nr;
}

/* A cursor over the addresses of a callchain. */
struct chain_walk {
	const struct pev_record *rec;
	const struct pev_value *chain;
	enum pev_context context;
	bool only_kernel;
	bool first;  /* of its context: not a return address */
	uint32_t at;
};

static struct chain_walk begin_walk(const struct chain_owner *owner, const struct pev_record *rec,
				    const struct pev_value *chain)
{
	return (struct chain_walk){ .rec = rec, .chain = chain, .first = true,
				    .only_kernel = owner->only_kernel,
				    .context = find_mode_context(rec->misc) };
}

/* True if frames of that context are not wanted, or if the plan leaves them out. */
static bool is_left_out(const struct pev_record *rec, enum pev_context context, bool only_kernel)
{
	const struct pev_stack_form *form = &rec->plan->stack;

	if (only_kernel && context != PEV_IN_KERNEL)
		return true;
	return context == PEV_IN_USER ? form->no_user : context == PEV_IN_KERNEL && form->no_kernel;
}

/* Reads the next frame, without its dso. Returns false at the end. */
static bool next_frame(struct chain_walk *walk, struct pev_frame *frame)
{
	while (walk->at < walk->chain->nr) {
		uint64_t ip = read_address(walk->rec, walk->chain, walk->at++);

		if (ip < PEV_CONTEXT_MAX) {
			if (is_left_out(walk->rec, walk->context, walk->only_kernel))
				continue;
			*frame = (struct pev_frame){ .ip = ip, .context = walk->context,
						     .returns = !walk->first };
			walk->first = false;
			return true;
		}
		walk->context = find_context(ip);
		walk->first = true;
		/* A deferred chain: its cookie follows, not an address. */
		walk->at += (int64_t)ip == -640;
	}
	return false;
}

/*
 * Reads the frames into scratch; if calls are known, only the innermost one of user space. Returns
 * how many there are.
 */
static uint32_t read_chain(struct pev_stacks *stacks, const struct chain_owner *owner,
			   const struct pev_record *rec, const struct pev_value *chain,
			   const struct pev_value *calls)
{
	struct chain_walk walk = begin_walk(owner, rec, chain);
	struct pev_frame frame;
	uint32_t nr = 0;

	while (nr < stacks->room && next_frame(&walk, &frame)) {
		bool known = calls && frame.context == PEV_IN_USER;

		if (known && frame.returns)
			continue;
		add_frame(stacks, owner, &frame, nr++);
		if (known)
			nr = read_branches(stacks, owner, rec, calls, nr);
	}
	return nr;
}

/* Appends the calls that unwind found. */
static uint32_t read_calls(struct pev_stacks *stacks, const struct chain_owner *owner,
			   const struct pev_unwind *unwind, uint32_t nr)
{
	for (uint32_t i = 0; i < unwind->nr && nr < stacks->room; i++, nr++) {
		const struct pev_call *call = &unwind->calls[i];
		struct pev_frame frame = { .ip = call->pc, .context = PEV_IN_USER,
					   .returns = call->returns, .unwound = true };

		add_frame(stacks, owner, &frame, nr);
	}
	return nr;
}

/* ---- interning ---- */

static uint64_t hash_frames(const uint32_t *frames, uint32_t nr)
{
	uint64_t hash = nr;

	for (uint32_t i = 0; i < nr; i++)
		hash = mix_hash(hash, frames[i]);
	return hash;
}

static void grow_table(struct pev_stacks *stacks)
{
	uint32_t cap = stacks->cap * 2;
	struct pev_stack **chains = calloc(cap, sizeof(struct pev_stack *));

	/* Without memory the hash chains get longer. */
	if (!chains)
		return;
	for (uint32_t i = 0; i < stacks->cap; i++) {
		for (struct pev_stack *stack = stacks->chains[i], *next; stack; stack = next) {
			next = stack->next;
			stack->next = chains[stack->hash & (cap - 1)];
			chains[stack->hash & (cap - 1)] = stack;
		}
	}
	free(stacks->chains);
	stacks->chains = chains;
	stacks->cap = cap;
}

static struct pev_stack *find_stack(const struct pev_stacks *stacks, uint64_t hash, uint32_t nr)
{
	struct pev_stack *stack = stacks->chains[hash & (stacks->cap - 1)];

	while (stack && !(stack->hash == hash && stack->nr == nr &&
			  memcmp(stack->frames, stacks->scratch, nr * sizeof(uint32_t)) == 0))
		stack = stack->next;
	return stack;
}

/* Overhead of a stack: malloc()'s header, and its slot in chains. */
#define BESIDE (2 * sizeof(size_t) + 2 * sizeof(struct pev_stack *))

/* Adds a stack of the frames in scratch. NULL: no room in the budget, or no memory. */
static struct pev_stack *add_stack(struct pev_stacks *stacks, uint64_t hash, uint32_t nr)
{
	struct pev_stack *stack, **chain;
	size_t bytes = sizeof(*stack) + sizeof(stack->frames[0]) * nr;

	if (!pev_budget_has_room(stacks->budget, bytes + BESIDE))
		return NULL;
	if (stacks->nr >= stacks->cap)
		grow_table(stacks);
	stack = malloc(bytes);
	if (!stack) {
		pev_budget_fail(stacks->budget);
		return NULL;
	}
	pev_budget_use(stacks->budget, bytes + BESIDE);
	stacks->bytes += bytes + BESIDE;
	chain = &stacks->chains[hash & (stacks->cap - 1)];
	*stack = (struct pev_stack){ .id = ++stacks->nr, .hash = hash, .next = *chain, .nr = nr,
				     .owner = stacks };
	memcpy(stack->frames, stacks->scratch, sizeof(stack->frames[0]) * nr);
	*chain = stack;
	return stack;
}

/* Interns the stack of the frames in scratch. */
static struct pev_stack *intern_stack(struct pev_stacks *stacks, uint32_t nr)
{
	uint64_t hash = hash_frames(stacks->scratch, nr);
	struct pev_stack *stack = stacks->unfit ? NULL : find_stack(stacks, hash, nr);

	if (!stack && !stacks->unfit)
		stack = add_stack(stacks, hash, nr);
	if (stack)
		return stack;
	pev_budget_refuse(stacks->budget);
	return stacks->other;
}

/* ---- known chains ---- */

static struct pev_chain_hash mix_chain(const struct pev_stacks *stacks, struct pev_chain_hash hash,
				       uint64_t a, uint64_t b)
{
	return (struct pev_chain_hash){
		.low = pev_key_fold_product(a ^ stacks->salt[0], b ^ hash.low),
		.high = pev_key_fold_product(b ^ stacks->salt[1], a ^ hash.high),
	};
}

/* Chains of a hash have equal addresses, process, maps, context of the first one and byte order. */
static struct pev_chain_hash hash_chain(const struct pev_stacks *stacks,
					const struct chain_owner *owner,
					const struct pev_record *rec,
					const struct pev_value *chain)
{
	const uint32_t mode = find_mode_context(rec->misc) | (uint32_t)rec->plan->swap << 8 |
			      (uint32_t)rec->plan->narrow << 9 |
			      (uint32_t)rec->plan->stack.no_user << 10 |
			      (uint32_t)rec->plan->stack.no_kernel << 11 |
			      (uint32_t)owner->only_kernel << 12;
	struct pev_chain_hash hash = { chain->nr, mode };
	uint64_t words[2] = { 0 };
	uint32_t i = 0;

	hash = mix_chain(stacks, hash, owner->maps[PEV_IN_USER], owner->maps[PEV_IN_KERNEL]);
	hash = mix_chain(stacks, hash, (uint64_t)owner->pid, mode | (uint64_t)owner->loads << 32);
	for (; i + 2 <= chain->nr; i += 2) {
		memcpy(words, chain->p + 8 * (size_t)i, sizeof(words));
		hash = mix_chain(stacks, hash, words[0], words[1]);
	}
	if (i < chain->nr)
		memcpy(words, chain->p + 8 * (size_t)i, sizeof(words[0]));
	return mix_chain(stacks, hash, words[0], words[1]);
}

static struct pev_known_chain *find_known(struct pev_known_chain *set, struct pev_chain_hash hash)
{
	for (uint32_t i = 0; i < PEV_KNOWN_EACH; i++)
		if (set[i].hash.low == hash.low && set[i].hash.high == hash.high && set[i].stack)
			return &set[i];
	return NULL;
}

/* Finds the stack of a chain that needs no unwinding. */
static int find_chain_stack(struct pev_stacks *stacks, const struct chain_owner *owner,
			    const struct pev_record *rec, const struct pev_value *chain,
			    const struct pev_stack **out)
{
	struct pev_known_chain *known, *set;
	struct pev_chain_hash hash;

	if (!stacks->known) {
		stacks->known = calloc(KNOWN, sizeof(*stacks->known));
		pev_key_salt(stacks->salt);
	}
	hash = hash_chain(stacks, owner, rec, chain);
	set = stacks->known ? stacks->known[hash.low & (KNOWN - 1)].chains : NULL;
	known = set ? find_known(set, hash) : NULL;
	if (known) {
		*out = known->stack;
		return 0;
	}
	if (!reserve_frames(stacks, chain->nr < FRAMES_MAX ? chain->nr : FRAMES_MAX))
		return -ENOMEM;
	*out = intern_stack(stacks, read_chain(stacks, owner, rec, chain, NULL));
	/* stacks->other is not remembered, so that each use is counted. */
	if (set && *out != stacks->other) {
		memmove(&set[1], &set[0], sizeof(*set) * (PEV_KNOWN_EACH - 1));
		set[0] = (struct pev_known_chain){ hash, *out };
	}
	return 0;
}

static int find_ip_stack(struct pev_stacks *stacks, const struct chain_owner *owner,
			 const struct pev_record *rec, const struct pev_stack **out)
{
	struct pev_frame frame = { .context = find_mode_context(rec->misc) };
	struct pev_value ip;

	*out = NULL;
	if (!pev_record_get(rec, PEV_F_IP, &ip))
		return 0;
	if (!reserve_frames(stacks, 1))
		return -ENOMEM;
	frame.ip = ip.u;
	add_frame(stacks, owner, &frame, 0);
	*out = intern_stack(stacks, 1);
	return 0;
}

int pev_stacks_ip(struct pev_stacks *stacks, struct pev_tasks *tasks, const struct pev_record *rec,
		  const struct pev_stack **out)
{
	const struct chain_owner owner = find_owner(tasks, rec);

	return find_ip_stack(stacks, &owner, rec, out);
}

/* Finds the stack of a sample's ip, if events without call chains have such stacks. */
static int find_stack_without_chain(struct pev_stacks *stacks, const struct chain_owner *owner,
				    const struct pev_record *rec, const struct pev_stack **out)
{
	if (!rec->plan->stack.of_ip)
		return 0;
	if (!is_left_out(rec, find_mode_context(rec->misc), owner->only_kernel))
		return find_ip_stack(stacks, owner, rec, out);
	if (!reserve_frames(stacks, 0))
		return -ENOMEM;
	*out = intern_stack(stacks, 0);
	return 0;
}

int pev_stacks_take(struct pev_stacks *stacks, struct pev_tasks *tasks,
		    const struct pev_record *rec, const struct pev_unwind *unwind,
		    const struct pev_stack **out)
{
	const struct chain_owner owner = find_owner(tasks, rec);
	struct pev_value chain, calls;
	bool kept = get_calls(rec, &calls);
	uint32_t nr;

	*out = NULL;
	if (!pev_record_get(rec, PEV_F_CALLCHAIN, &chain))
		return find_stack_without_chain(stacks, &owner, rec, out);
	if (!unwind && !kept)
		return find_chain_stack(stacks, &owner, rec, &chain, out);
	nr = chain.nr + (unwind ? unwind->nr : 0) + (kept ? calls.nr : 0);
	if (!reserve_frames(stacks, nr < FRAMES_MAX ? nr : FRAMES_MAX))
		return -ENOMEM;
	nr = read_chain(stacks, &owner, rec, &chain, kept ? &calls : NULL);
	if (unwind)
		nr = read_calls(stacks, &owner, unwind, nr);
	*out = intern_stack(stacks, nr);
	return 0;
}

/* ---- parts of a stack ---- */

/* The kernel writes its own addresses first: get_perf_callchain() in kernel/events/callchain.c. */
static uint32_t count_kernel_words(const struct pev_record *rec, const struct pev_value *chain)
{
	uint32_t nr = 0;

	while (nr < chain->nr && find_context(read_address(rec, chain, nr)) != PEV_IN_USER)
		nr++;
	return nr;
}

int pev_stacks_kernel(struct pev_stacks *stacks, struct pev_tasks *tasks,
		      const struct pev_record *rec, const struct pev_stack **out)
{
	const struct chain_owner owner = own_kernel(tasks);
	struct pev_value chain;

	*out = NULL;
	if (!pev_record_get(rec, PEV_F_CALLCHAIN, &chain))
		return find_stack_without_chain(stacks, &owner, rec, out);
	chain.nr = count_kernel_words(rec, &chain);
	return find_chain_stack(stacks, &owner, rec, &chain, out);
}

const struct pev_stack *pev_stacks_user(struct pev_stacks *stacks, const struct pev_stack *stack)
{
	/* Interned stacks are owned here; borrowers do not write to them. */
	struct pev_stack *whole = (struct pev_stack *)(uintptr_t)stack;
	uint32_t nr = 0;

	if (stack == stacks->other)
		return stack;
	if (whole->user)
		return whole->user;
	if (!reserve_frames(stacks, stack->nr))
		return NULL;
	for (uint32_t i = 0; i < stack->nr; i++)
		if (pev_stack_frame(stack, i)->context == PEV_IN_USER)
			stacks->scratch[nr++] = stack->frames[i];
	whole->user = intern_stack(stacks, nr);
	return whole->user;
}

const struct pev_stack *pev_stacks_adopt(struct pev_stacks *stacks, struct pev_tasks *tasks,
					 const struct pev_stack *stack)
{
	const struct chain_owner owner = own_kernel(tasks);

	if (stack == stack->owner->other || !reserve_frames(stacks, stack->nr))
		return NULL;
	for (uint32_t i = 0; i < stack->nr; i++) {
		struct pev_frame frame = *pev_stack_frame(stack, i);

		add_frame(stacks, &owner, &frame, i);
	}
	return intern_stack(stacks, stack->nr);
}

bool pev_stack_is_before(const struct pev_stack *a, const struct pev_stack *b)
{
	for (uint32_t i = 0; i < a->nr && i < b->nr; i++) {
		uint64_t ip = pev_stack_frame(a, i)->ip, other = pev_stack_frame(b, i)->ip;

		if (ip != other)
			return ip < other;
	}
	return a->nr != b->nr ? a->nr < b->nr : a->id < b->id;
}

bool pev_stack_ip(struct pev_tasks *tasks, const struct pev_record *rec, struct pev_frame *frame)
{
	struct pev_value ip;

	if (!pev_record_get(rec, PEV_F_IP, &ip))
		return false;
	*frame = (struct pev_frame){ .ip = ip.u, .context = find_mode_context(rec->misc) };
	find_dso(tasks, read_number(rec, PEV_F_PID), frame);
	return true;
}
