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

/* kernel.perf_event_max_stack is 127 by default; a record has room for 8,191 words. */
#define FRAMES_MAX 8192u
#define KNOWN (1u << 15)                /* limit of known chains, */
#define KNOWN_BYTES ((size_t)8 << 20)   /* and of their bytes */
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

static void free_stack(struct pev_stack *stack)
{
	for (uint32_t i = 0; i < stack->nr; i++)
		pev_dso_put(stack->frames[i].dso);
	free(stack);
}

void pev_stacks_free(struct pev_stacks *stacks)
{
	for (uint32_t i = 0; stacks->chains && i < stacks->cap; i++) {
		for (struct pev_stack *stack = stacks->chains[i], *next; stack; stack = next) {
			next = stack->next;
			free_stack(stack);
		}
	}
	free(stacks->chains);
	free(stacks->scratch);
	free(stacks->other);
	pev_budget_return(stacks->budget, stacks->bytes);
	for (uint32_t i = 0; stacks->known && i < KNOWN; i++)
		free(stacks->known[i]);
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

/*
 * Fills in dso (borrowed) and offset, and returns the map, or NULL. A return address may be the
 * next function's first byte, or the next map's.
 */
static const struct pev_map *find_dso(struct pev_tasks *tasks, int pid, struct pev_frame *frame)
{
	uint64_t at = frame->ip - frame->returns;
	const struct pev_map *map = NULL;

	if (frame->context == PEV_IN_KERNEL)
		map = pev_tasks_map(tasks, -1, at);
	else if (frame->context == PEV_IN_USER)
		map = pev_tasks_map(tasks, pid, at);
	frame->dso = map ? map->dso : NULL;
	frame->offset = map ? frame->ip - map->start + map->pgoff : 0;
	return map;
}

static bool reserve_frames(struct pev_stacks *stacks, uint32_t nr)
{
	struct pev_frame *scratch;

	if (nr <= stacks->room)
		return true;
	scratch = realloc(stacks->scratch, sizeof(*scratch) * nr);
	if (!scratch)
		return false;
	stacks->scratch = scratch;
	stacks->room = nr;
	return true;
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
	uint32_t cap = stacks->cap_sampled ? stacks->cap_sampled * 2 : 16;
	struct pev_sampled *more;

	if (stacks->nr_sampled == stacks->cap_sampled) {
		more = realloc(stacks->sampled, sizeof(*more) * cap);
		if (!more)
			return;
		stacks->sampled = more;
		stacks->cap_sampled = cap;
	}
	stacks->sampled[stacks->nr_sampled++] =
		(struct pev_sampled){ pev_dso_get(dso), pid, map->start, map->end };
}

/* Gives the frame its own reference to the dso. */
static void own_frame(struct pev_stacks *stacks, struct pev_tasks *tasks, int pid,
		      struct pev_frame *frame)
{
	const struct pev_map *map = find_dso(tasks, pid, frame);
	struct pev_dso *dso = map ? pev_dso_of(map->dso, pid) : NULL;

	frame->dso = dso;
	if (!dso || dso->kept || !stacks->watched || frame->context != PEV_IN_USER)
		return;
	dso->met++;
	if ((dso->met & (dso->met - 1)) == 0)
		list_sampled(stacks, dso, pid, map);
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
static uint32_t read_branches(struct pev_stacks *stacks, struct pev_tasks *tasks,
			      const struct pev_record *rec, const struct pev_value *calls,
			      uint32_t nr)
{
	int pid = read_number(rec, PEV_F_PID);

	for (uint32_t i = 0; i < calls->nr && nr < stacks->room; i++, nr++) {
		struct pev_frame *frame = &stacks->scratch[nr];

		*frame = (struct pev_frame){
			.ip = pev_load64(calls->p + BRANCH_BYTES * (size_t)i, rec->plan->swap),
			.context = PEV_IN_USER,
		};
		own_frame(stacks, tasks, pid, frame);
	}
	return nr;
}

/* A cursor over the addresses of a callchain. */
struct chain_walk {
	const struct pev_record *rec;
	const struct pev_value *chain;
	enum pev_context context;
	bool first;  /* of its context: not a return address */
	uint32_t at;
};

static struct chain_walk begin_walk(const struct pev_record *rec, const struct pev_value *chain)
{
	return (struct chain_walk){ .rec = rec, .chain = chain, .first = true,
				    .context = find_mode_context(rec->misc) };
}

/* True if the plan leaves out frames of that context. */
static bool is_left_out(const struct pev_record *rec, enum pev_context context)
{
	const struct pev_stack_form *form = &rec->plan->stack;

	return context == PEV_IN_USER ? form->no_user : context == PEV_IN_KERNEL && form->no_kernel;
}

/* Reads the next frame, without its dso. Returns false at the end. */
static bool next_frame(struct chain_walk *walk, struct pev_frame *frame)
{
	while (walk->at < walk->chain->nr) {
		uint64_t ip = read_address(walk->rec, walk->chain, walk->at++);

		if (ip < PEV_CONTEXT_MAX) {
			if (is_left_out(walk->rec, walk->context))
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
static uint32_t read_chain(struct pev_stacks *stacks, struct pev_tasks *tasks,
			   const struct pev_record *rec, const struct pev_value *chain,
			   const struct pev_value *calls)
{
	struct chain_walk walk = begin_walk(rec, chain);
	int pid = read_number(rec, PEV_F_PID);
	struct pev_frame frame;
	uint32_t nr = 0;

	while (nr < stacks->room && next_frame(&walk, &frame)) {
		bool known = calls && frame.context == PEV_IN_USER;

		if (known && frame.returns)
			continue;
		own_frame(stacks, tasks, pid, &frame);
		stacks->scratch[nr++] = frame;
		if (known)
			nr = read_branches(stacks, tasks, rec, calls, nr);
	}
	return nr;
}

/* Appends the calls that unwind found. */
static uint32_t read_calls(struct pev_stacks *stacks, struct pev_tasks *tasks,
			   const struct pev_record *rec, const struct pev_unwind *unwind,
			   uint32_t nr)
{
	int pid = read_number(rec, PEV_F_PID);

	for (uint32_t i = 0; i < unwind->nr && nr < stacks->room; i++, nr++) {
		const struct pev_call *call = &unwind->calls[i];
		struct pev_frame *frame = &stacks->scratch[nr];

		*frame = (struct pev_frame){ .ip = call->pc, .context = PEV_IN_USER,
					     .returns = call->returns, .unwound = true };
		own_frame(stacks, tasks, pid, frame);
	}
	return nr;
}

/* ---- interning ---- */

static uint64_t mix_hash(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t hash_frames(const struct pev_frame *frames, uint32_t nr)
{
	uint64_t hash = nr;

	for (uint32_t i = 0; i < nr; i++) {
		hash = mix_hash(hash, frames[i].ip);
		hash = mix_hash(hash, (uint64_t)(uintptr_t)frames[i].dso ^ frames[i].context);
	}
	return hash;
}

static bool are_same(const struct pev_frame *a, const struct pev_frame *b, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (a[i].ip != b[i].ip || a[i].dso != b[i].dso || a[i].offset != b[i].offset ||
		    a[i].context != b[i].context || a[i].unwound != b[i].unwound)
			return false;
	return true;
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
			  are_same(stack->frames, stacks->scratch, nr)))
		stack = stack->next;
	return stack;
}

/* Overhead of a stack: malloc()'s header, and its slot in chains. */
#define BESIDE (2 * sizeof(size_t) + 2 * sizeof(struct pev_stack *))

/* A quarter of the budget is left for the keys of aggregators. */
static bool has_room(const struct pev_stacks *stacks, size_t bytes)
{
	const struct pev_budget *budget = stacks->budget;

	return !budget || pev_budget_fits(budget, bytes + budget->limit / 4);
}

/* Adds a stack of the frames in scratch. NULL: no room in the budget, or no memory. */
static struct pev_stack *add_stack(struct pev_stacks *stacks, uint64_t hash, uint32_t nr)
{
	struct pev_stack *stack, **chain;
	size_t bytes = sizeof(*stack) + sizeof(stack->frames[0]) * nr;

	if (!has_room(stacks, bytes + BESIDE))
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

/* Interns the frames in scratch. Their references go to the stack, or are dropped. */
static struct pev_stack *intern_frames(struct pev_stacks *stacks, uint32_t nr)
{
	uint64_t hash = hash_frames(stacks->scratch, nr);
	struct pev_stack *stack = find_stack(stacks, hash, nr);

	if (!stack) {
		stack = add_stack(stacks, hash, nr);
		if (stack)
			return stack;
		pev_budget_refuse(stacks->budget);
		stack = stacks->other;
	}
	for (uint32_t i = 0; i < nr; i++)
		pev_dso_put(stacks->scratch[i].dso);
	return stack;
}

/* ---- known chains ---- */

static struct pev_chain_key describe_chain(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int pid = read_number(rec, PEV_F_PID);

	return (struct pev_chain_key){
		.user = pev_tasks_maps(tasks, pid),
		.kernel = pev_tasks_maps(tasks, -1),
		.pid = pid,
		.mode = find_mode_context(rec->misc) | (uint32_t)rec->plan->swap << 8 |
			(uint32_t)rec->plan->narrow << 9 |
			(uint32_t)rec->plan->stack.no_user << 10 |
			(uint32_t)rec->plan->stack.no_kernel << 11,
	};
}

static uint32_t hash_chain(const struct pev_chain_key *key, const struct pev_value *chain)
{
	uint64_t hash = mix_hash((uint64_t)key->pid, chain->nr), word;

	for (uint32_t i = 0; i < chain->nr; i++) {
		memcpy(&word, chain->p + 8 * (size_t)i, sizeof(word));
		hash = mix_hash(hash, word);
	}
	return (uint32_t)hash & (KNOWN - 1);
}

/* Equal addresses with the same maps give equal frames. */
static bool is_known(const struct pev_known_chain *known, const struct pev_chain_key *key,
		     const struct pev_value *chain)
{
	return known && known->len == 8 * chain->nr && known->key.pid == key->pid &&
	       known->key.mode == key->mode && known->key.user == key->user &&
	       known->key.kernel == key->kernel && memcmp(known->chain, chain->p, known->len) == 0;
}

/* Replaces an older known chain. Without room, the chain is read again next time. */
static void remember_chain(struct pev_stacks *stacks, struct pev_known_chain **slot,
			   const struct pev_chain_key *key, const struct pev_value *chain,
			   const struct pev_stack *stack)
{
	uint32_t len = 8 * chain->nr, room = *slot ? (*slot)->room : 0;
	struct pev_known_chain *known = *slot;

	if (!known || room < len) {
		if (stacks->known_bytes + (len - room) > KNOWN_BYTES)
			return;
		known = realloc(known, sizeof(*known) + len);
		if (!known)
			return;
		stacks->known_bytes += len - room;
		known->room = len;
		*slot = known;
	}
	known->key = *key;
	known->stack = stack;
	known->len = len;
	if (len)
		memcpy(known->chain, chain->p, len);
}

/* Finds the stack of a chain that needs no unwinding. */
static int find_chain_stack(struct pev_stacks *stacks, struct pev_tasks *tasks,
			    const struct pev_record *rec, const struct pev_value *chain,
			    const struct pev_stack **out)
{
	const struct pev_chain_key key = describe_chain(tasks, rec);
	struct pev_known_chain **slot;

	if (!stacks->known)
		stacks->known = calloc(KNOWN, sizeof(struct pev_known_chain *));
	slot = stacks->known ? &stacks->known[hash_chain(&key, chain)] : NULL;
	if (slot && is_known(*slot, &key, chain)) {
		*out = (*slot)->stack;
		return 0;
	}
	if (!reserve_frames(stacks, chain->nr < FRAMES_MAX ? chain->nr : FRAMES_MAX))
		return -ENOMEM;
	*out = intern_frames(stacks, read_chain(stacks, tasks, rec, chain, NULL));
	/* stacks->other is not remembered, so that each use is counted. */
	if (slot && *out != stacks->other)
		remember_chain(stacks, slot, &key, chain, *out);
	return 0;
}

/* Finds the stack of a sample's ip. */
static int find_ip_stack(struct pev_stacks *stacks, struct pev_tasks *tasks,
			 const struct pev_record *rec, const struct pev_stack **out)
{
	if (!is_left_out(rec, find_mode_context(rec->misc)))
		return pev_stacks_ip(stacks, tasks, rec, out);
	*out = intern_frames(stacks, 0);
	return 0;
}

int pev_stacks_take(struct pev_stacks *stacks, struct pev_tasks *tasks,
		    const struct pev_record *rec, const struct pev_unwind *unwind,
		    const struct pev_stack **out)
{
	struct pev_value chain, calls;
	bool kept = get_calls(rec, &calls);
	uint32_t nr;

	*out = NULL;
	if (!pev_record_get(rec, PEV_F_CALLCHAIN, &chain))
		return rec->plan->stack.of_ip ? find_ip_stack(stacks, tasks, rec, out) : 0;
	if (!unwind && !kept)
		return find_chain_stack(stacks, tasks, rec, &chain, out);
	nr = chain.nr + (unwind ? unwind->nr : 0) + (kept ? calls.nr : 0);
	if (!reserve_frames(stacks, nr < FRAMES_MAX ? nr : FRAMES_MAX))
		return -ENOMEM;
	nr = read_chain(stacks, tasks, rec, &chain, kept ? &calls : NULL);
	if (unwind)
		nr = read_calls(stacks, tasks, rec, unwind, nr);
	*out = intern_frames(stacks, nr);
	return 0;
}

const struct pev_stack *pev_stacks_part(struct pev_stacks *stacks, const struct pev_stack *stack,
					enum pev_context context)
{
	/* Interned stacks are owned here; borrowers do not write to them. */
	struct pev_stack *whole = (struct pev_stack *)(uintptr_t)stack;
	uint32_t nr = 0;

	if (stack == stacks->other)
		return stack;
	if (whole->parts[context])
		return whole->parts[context];
	if (!reserve_frames(stacks, stack->nr))
		return NULL;
	for (uint32_t i = 0; i < stack->nr; i++) {
		if (stack->frames[i].context != context)
			continue;
		stacks->scratch[nr] = stack->frames[i];
		pev_dso_get(stacks->scratch[nr++].dso);
	}
	whole->parts[context] = intern_frames(stacks, nr);
	return whole->parts[context];
}

int pev_stacks_ip(struct pev_stacks *stacks, struct pev_tasks *tasks, const struct pev_record *rec,
		  const struct pev_stack **out)
{
	struct pev_value ip;

	*out = NULL;
	if (!pev_record_get(rec, PEV_F_IP, &ip))
		return 0;
	if (!reserve_frames(stacks, 1))
		return -ENOMEM;
	stacks->scratch[0] =
		(struct pev_frame){ .ip = ip.u, .context = find_mode_context(rec->misc) };
	own_frame(stacks, tasks, read_number(rec, PEV_F_PID), &stacks->scratch[0]);
	*out = intern_frames(stacks, 1);
	return 0;
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
