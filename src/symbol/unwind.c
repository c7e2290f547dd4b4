/*
 * unwind.c - finds callers from registers and a copy of the stack; see unwind.h.
 *
 * Where a file has no rule, the frame pointer is used: code that is generated at run time mostly
 * keeps one. Every step must lead up the stack, so that a walk ends whatever the rules are.
 * Contract: perf_output_sample_ustack() in kernel/events/core.c;
 * arch/{x86,arm64}/include/uapi/asm/perf_regs.h; the ABIs' DWARF register numbers.
 */
#include "symbol/unwind.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	CALLS_MAX = 4096,
	FILES_MAX = 4096,
	LEVEL_MAX = 2,      /* steps that stay level: a function without a frame, a signal */
	ROWS_BITS = 15,     /* 2 MB of cached rows */
	NO_REG = 255
};

_Static_assert(sizeof(struct pev_cached_row) == 64, "one cache line");

#define BYTES_MAX (UINT64_C(256) << 20) /* of all rules; those of libLLVM take 8 MB */
#define REGS_ABI_64 2u

struct machine {
	uint16_t elf;       /* EM_* */
	uint8_t ip, sp;     /* bits of the sample's mask */
	uint8_t dwarf_sp, dwarf_fp;
	uint8_t nr;
	uint8_t dwarf[33];  /* bit of the mask -> number in DWARF */
	uint64_t pc_bits;   /* of an address; pointer authentication uses the other bits */
};

static const struct machine machines[] = {
	{ EM_X86_64, 8, 7, 7, 6, 24,
	  { 0, 3, 2, 1, 4, 5, 6, 7, 16, NO_REG, NO_REG, NO_REG, NO_REG, NO_REG, NO_REG, NO_REG,
	    8, 9, 10, 11, 12, 13, 14, 15 },
	  UINT64_MAX },
	{ EM_AARCH64, 32, 31, 31, 29, 33,
	  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
	    23, 24, 25, 26, 27, 28, 29, 30, 31, NO_REG },
	  (UINT64_C(1) << 48) - 1 },
};

/*
 * Finds the machine by the mask: x86 has no registers above bit 23, and an arm64 sample is
 * useless without its pc, bit 32. Other machines are not supported.
 */
static const struct machine *find_machine(uint64_t mask)
{
	const struct machine *machine = mask >> 24 ? &machines[1] : &machines[0];
	uint64_t needs = UINT64_C(1) << machine->ip | UINT64_C(1) << machine->sp;

	return (mask & needs) == needs ? machine : NULL;
}

/* ---- samples ---- */

static bool has_user_part(const struct pev_record *rec)
{
	bool user = (rec->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	struct pev_value chain;

	if (!pev_record_get(rec, PEV_F_CALLCHAIN, &chain))
		return false;
	for (uint32_t i = 0; i < chain.nr; i++) {
		uint64_t ip = pev_load64(chain.p + 8 * (size_t)i, rec->plan->swap);

		if (ip >= PEV_CONTEXT_MAX)
			user = (int64_t)ip == -512; /* PERF_CONTEXT_USER */
		else if (user)
			return true;
	}
	return false;
}

bool pev_unwind_wanted(const struct pev_record *rec)
{
	struct pev_value regs, stack;

	return !rec->plan->stack.no_user && pev_record_get(rec, PEV_F_STACK_USER, &stack) &&
	       pev_record_get(rec, PEV_F_REGS_USER, &regs) && regs.extra == REGS_ABI_64 &&
	       find_machine(rec->plan->regs_user) && !has_user_part(rec);
}

static void read_registers(const struct machine *machine, const struct pev_record *rec,
			   struct pev_memory *memory, struct pev_activation *act)
{
	uint64_t mask = rec->plan->regs_user;
	struct pev_value regs, stack;
	uint32_t n = 0;

	*act = (struct pev_activation){ 0 };
	pev_record_get(rec, PEV_F_REGS_USER, &regs);
	pev_record_get(rec, PEV_F_STACK_USER, &stack);
	for (unsigned bit = 0; bit < machine->nr && n < regs.nr; bit++) {
		uint64_t value;

		if (!(mask >> bit & 1))
			continue;
		value = pev_load64(regs.p + 8 * (size_t)n++, rec->plan->swap);
		if (bit == machine->ip)
			act->pc = value;
		if (machine->dwarf[bit] == NO_REG)
			continue;
		act->regs[machine->dwarf[bit]] = value;
		act->known |= UINT64_C(1) << machine->dwarf[bit];
	}
	*memory = (struct pev_memory){ stack.p, act->regs[machine->dwarf_sp], stack.len,
				       rec->plan->swap };
}

/* ---- files ---- */

static void forget_rows(struct pev_unwind *unwind)
{
	free(unwind->rows);
	unwind->rows = NULL;
}

static void forget_files(struct pev_unwind *unwind)
{
	forget_rows(unwind);
	for (uint32_t i = 0; i < unwind->cap_files; i++)
		pev_dso_put(unwind->files[i].dso);
	free(unwind->files);
	unwind->files = NULL;
	unwind->nr_files = unwind->cap_files = 0;
	unwind->bytes = 0;
	if (unwind->forget)
		unwind->forget(unwind->ctx);
}

static struct pev_unwind_file *find_slot(const struct pev_unwind *unwind, const struct pev_dso *dso)
{
	uint32_t at = (uint32_t)((uintptr_t)dso >> 4) & (unwind->cap_files - 1);

	while (unwind->files[at].dso && unwind->files[at].dso != dso)
		at = (at + 1) & (unwind->cap_files - 1);
	return &unwind->files[at];
}

static bool grow_files(struct pev_unwind *unwind)
{
	uint32_t was = unwind->cap_files;
	struct pev_unwind_file *old = unwind->files;
	struct pev_unwind_file *files = calloc(was ? was * 2 : 64, sizeof(*files));

	if (!files)
		return false;
	unwind->files = files;
	unwind->cap_files = was ? was * 2 : 64;
	for (uint32_t i = 0; i < was; i++)
		if (old[i].dso)
			*find_slot(unwind, old[i].dso) = old[i];
	free(old);
	return true;
}

/* Returns NULL if it is not a file, or without memory. */
static struct pev_unwind_file *find_file(struct pev_unwind *unwind, struct pev_dso *dso,
					 uint64_t offset)
{
	struct pev_unwind_file *file;

	if (dso->memory)
		return NULL;
	if (unwind->nr_files >= FILES_MAX || unwind->bytes > BYTES_MAX)
		forget_files(unwind);
	if (2 * unwind->nr_files >= unwind->cap_files && !grow_files(unwind))
		return NULL;
	file = find_slot(unwind, dso);
	if (!file->dso) {
		*file = (struct pev_unwind_file){
			.dso = pev_dso_get(dso),
			.cfi = unwind->find(unwind->ctx, dso, offset),
		};
		unwind->nr_files++;
		unwind->bytes += file->cfi ? file->cfi->bytes : 0;
	}
	return file;
}

static void report_broken(struct pev_unwind *unwind, struct pev_unwind_file *file)
{
	if (!file->reported)
		unwind->broken(unwind->ctx, file->dso);
	file->reported = true;
}

void pev_unwind_free(struct pev_unwind *unwind)
{
	unwind->forget = NULL;
	forget_files(unwind);
	free(unwind->calls);
	*unwind = (struct pev_unwind){ 0 };
}

/* ---- the walk ---- */

/* The frame pointer points to the caller's, which the return address follows. */
static int step_frame(const struct machine *machine, const struct pev_memory *memory,
		      struct pev_activation *act)
{
	uint64_t fp = act->regs[machine->dwarf_fp], next, pc;
	uint64_t both = UINT64_C(1) << machine->dwarf_fp | UINT64_C(1) << machine->dwarf_sp;

	if (!(act->known >> machine->dwarf_fp & 1) || fp < act->regs[machine->dwarf_sp] ||
	    !pev_memory_word(memory, fp, &next) || !pev_memory_word(memory, fp + 8, &pc))
		return -ENOENT;
	act->regs[machine->dwarf_fp] = next;
	act->regs[machine->dwarf_sp] = fp + 16;
	act->known = both;
	act->pc = pc;
	act->returns = true;
	return 0;
}

static bool is_known(const struct pev_activation *act, unsigned reg)
{
	return act->known >> reg & 1;
}

int pev_unwind_apply(const struct pev_unwind_row *row, unsigned sp,
		     const struct pev_memory *memory, struct pev_activation *act)
{
	uint64_t cfa, known = act->known & row->same, saved = row->saved;

	if (!is_known(act, row->cfa_reg))
		return -ENODATA;
	cfa = act->regs[row->cfa_reg] + (uint64_t)(int64_t)row->cfa_offset;
	if (row->ra_saved &&
	    !pev_memory_word(memory, cfa + (uint64_t)(int64_t)row->ra_offset, &act->pc))
		return -EFAULT;
	if (!row->ra_saved && !is_known(act, row->ra))
		return -ENODATA;
	if (!row->ra_saved)
		act->pc = act->regs[row->ra];
	/* Another register may be unknown: perhaps no rule needs it. */
	for (int n = 0; saved; n++, saved &= saved - 1) {
		unsigned reg = (unsigned)__builtin_ctzll(saved);
		uint64_t address = cfa + (uint64_t)(int64_t)row->offsets[n];

		if (pev_memory_word(memory, address, &act->regs[reg]))
			known |= UINT64_C(1) << reg;
	}
	act->regs[sp] = cfa;
	act->regs[row->ra] = act->pc;
	act->known = known | UINT64_C(1) << sp | UINT64_C(1) << row->ra;
	act->returns = !row->signal;
	return 0;
}

/* A walk up one stack. */
struct walk {
	struct pev_unwind *unwind;
	struct pev_tasks *tasks;
	const struct machine *machine;
	const struct pev_map *map; /* of the last pc; NULL: none */
	struct pev_memory memory;
	struct pev_activation act;
	struct pev_unwind_row spare;   /* a row without memory for the cache */
	int pid;
};

static const struct pev_map *find_map(struct walk *walk, uint64_t address)
{
	const struct pev_map *map = walk->map;

	if (!map || address < map->start || address >= map->end)
		walk->map = pev_tasks_map(walk->tasks, walk->pid, address);
	return walk->map;
}

/* Returns the file of the last pc if its rules are of the sample's machine, or NULL. */
static struct pev_unwind_file *find_rules(struct walk *walk, uint64_t offset)
{
	struct pev_unwind_file *file = find_file(walk->unwind, walk->map->dso, offset);

	return file && file->cfi && file->cfi->machine == walk->machine->elf ? file : NULL;
}

/* Returns the place of a row in the cache, which may have another row; NULL: no memory. */
static struct pev_cached_row *place_row(struct pev_unwind *unwind, const struct pev_dso *dso,
					uint64_t offset)
{
	uint64_t hash = (offset ^ (uint64_t)(uintptr_t)dso << 16) * UINT64_C(0x9e3779b97f4a7c15);

	if (!unwind->rows)
		unwind->rows = calloc((size_t)1 << ROWS_BITS, sizeof(*unwind->rows));
	return unwind->rows ? &unwind->rows[hash >> (64 - ROWS_BITS)] : NULL;
}

/* Returns the row of an instruction in the file of the last pc. */
static const struct pev_unwind_row *find_row(struct walk *walk, uint64_t offset)
{
	struct pev_dso *dso = walk->map->dso;
	struct pev_cached_row *place = place_row(walk->unwind, dso, offset);
	struct pev_unwind_file *file;
	struct pev_unwind_row *row;

	if (place && place->dso == dso && place->offset == offset)
		return &place->row;
	file = find_rules(walk, offset);
	/* Rows may have been forgotten to make room for the file. */
	place = place_row(walk->unwind, dso, offset);
	row = place ? &place->row : &walk->spare;
	if (place)
		*place = (struct pev_cached_row){ .dso = dso, .offset = offset };
	row->kind = PEV_UNWIND_MISSING;
	if (file)
		file->cfi->compile(file->cfi, offset, row);
	return row;
}

static int step_by_file(struct walk *walk, uint64_t offset)
{
	struct pev_unwind_file *file = find_rules(walk, offset);
	int rc = file ? file->cfi->step(file->cfi, offset, &walk->memory, &walk->act) : -ENOENT;

	if (rc == -EBADMSG)
		report_broken(walk->unwind, file);
	return rc;
}

static int find_caller(struct walk *walk)
{
	struct pev_activation *act = &walk->act;
	const struct pev_map *map = find_map(walk, act->pc - act->returns);
	const struct pev_unwind_row *row;
	uint64_t offset;
	int rc = -ENOENT;

	if (map && !map->dso->memory) {
		offset = act->pc - map->start + map->pgoff;
		row = find_row(walk, offset - act->returns);
		if (row->kind == PEV_UNWIND_OFFSETS)
			return pev_unwind_apply(row, walk->machine->dwarf_sp, &walk->memory, act);
		if (row->kind == PEV_UNWIND_OUTERMOST)
			return -ENODATA;
		if (row->kind == PEV_UNWIND_COMPUTED)
			rc = step_by_file(walk, offset);
	}
	return rc == -ENOENT ? step_frame(walk->machine, &walk->memory, act) : rc;
}

static int add_call(struct pev_unwind *unwind, const struct pev_activation *act)
{
	if (!pev_list_reserve(&unwind->calls, &unwind->room, unwind->nr + 1,
			      sizeof(*unwind->calls)))
		return -ENOMEM;
	unwind->calls[unwind->nr++] = (struct pev_call){ act->pc, act->returns };
	return 0;
}

int pev_unwind_walk(struct pev_unwind *unwind, struct pev_tasks *tasks,
		    const struct pev_record *rec)
{
	const struct machine *machine = find_machine(rec->plan->regs_user);
	struct walk walk = { .unwind = unwind, .tasks = tasks, .machine = machine };
	struct pev_activation *act = &walk.act;
	const uint64_t *sp;
	struct pev_value pid;
	int level = 0;

	unwind->nr = 0;
	if (!machine || !pev_record_get(rec, PEV_F_PID, &pid))
		return 0;
	walk.pid = (int)(int64_t)pid.u;
	sp = &act->regs[machine->dwarf_sp];
	if (unwind->machine != machine->elf)
		forget_rows(unwind);
	unwind->machine = machine->elf;
	read_registers(machine, rec, &walk.memory, act);
	while (act->pc && unwind->nr < CALLS_MAX && level <= LEVEL_MAX) {
		uint64_t was = *sp;

		if (add_call(unwind, act) < 0)
			return -ENOMEM;
		if (find_caller(&walk) < 0 || *sp < was)
			break;
		/* A signal handler has no caller: the kernel wrote its return address. */
		if (!act->returns)
			unwind->calls[unwind->nr - 1].returns = false;
		level = *sp == was ? level + 1 : 0;
		act->pc &= machine->pc_bits;
	}
	return 0;
}
