/*
 * cfi.c - call frame information; see cfi.h.
 *
 * libdw finds the rules of an instruction; what they say is computed here, over registers
 * and a copy of the stack. libdwfl has that part too, for processes that it opens itself:
 * here files come through the hooks, are open once for all processes, and nothing
 * outside of what was copied is read. Contract: DWARF 5, section 6.4 and 2.5.
 */
#include "cfi.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

enum {
	SEGMENTS_MAX = 1024,
	DEPTH_MAX = 64,       /* words that an expression stacks up */
	OPS_MAX = 1000        /* that it takes, jumps back included */
};

struct segment {
	uint64_t offset, filesz, vaddr;
};

struct file {
	struct pev_cfi cfi;   /* the first: what others see of it */
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *eh, *debug;
	struct segment *segments;
	size_t nr_segments;
};

/* ---- expressions ---- */

struct machine {
	const struct pev_activation *act;
	const struct pev_memory *memory;
	uint64_t cfa, bias;   /* bias: of where it runs to where the linker put it */
	uint64_t stack[DEPTH_MAX];
	unsigned depth;
};

static bool push(struct machine *m, uint64_t word)
{
	if (m->depth == DEPTH_MAX)
		return false;
	m->stack[m->depth++] = word;
	return true;
}

static int push_register(struct machine *m, uint64_t reg, uint64_t offset)
{
	if (reg >= PEV_UNWIND_REGS || !(m->act->known >> reg & 1))
		return -ENODATA;
	return push(m, m->act->regs[reg] + offset) ? 0 : -EBADMSG;
}

static int load(struct machine *m, uint64_t bytes)
{
	uint64_t *top = &m->stack[m->depth - 1];

	if (bytes == 0 || bytes > 8)
		return -EBADMSG;
	if (!pev_memory_word(m->memory, *top, top))
		return -EFAULT;
	if (bytes < 8)
		*top &= (UINT64_C(1) << 8 * bytes) - 1;
	return 0;
}

static bool shift(uint8_t atom, uint64_t *a, uint64_t by)
{
	if (atom == DW_OP_shl)
		*a = by < 64 ? *a << by : 0;
	else if (atom == DW_OP_shr)
		*a = by < 64 ? *a >> by : 0;
	else
		*a = (uint64_t)((int64_t)*a >> (by < 63 ? by : 62) >> (by < 63 ? 0 : 1));
	return true;
}

/* What takes two words and leaves one. False: it is none of these. */
static bool combine(uint8_t atom, uint64_t *a, uint64_t b)
{
	int64_t x = (int64_t)*a, y = (int64_t)b;

	switch (atom) {
	case DW_OP_plus: *a += b; return true;
	case DW_OP_minus: *a -= b; return true;
	case DW_OP_mul: *a *= b; return true;
	case DW_OP_and: *a &= b; return true;
	case DW_OP_or: *a |= b; return true;
	case DW_OP_xor: *a ^= b; return true;
	case DW_OP_ge: *a = x >= y; return true;
	case DW_OP_gt: *a = x > y; return true;
	case DW_OP_le: *a = x <= y; return true;
	case DW_OP_lt: *a = x < y; return true;
	case DW_OP_eq: *a = x == y; return true;
	case DW_OP_ne: *a = x != y; return true;
	case DW_OP_shl:
	case DW_OP_shr:
	case DW_OP_shra: return shift(atom, a, b);
	default: return false;
	}
}

/* What changes the word on top. False: it is none of these. */
static bool change(const Dwarf_Op *op, uint64_t *top)
{
	switch (op->atom) {
	case DW_OP_plus_uconst: *top += op->number; return true;
	case DW_OP_neg: *top = -*top; return true;
	case DW_OP_not: *top = ~*top; return true;
	case DW_OP_abs: *top = (int64_t)*top < 0 ? -*top : *top; return true;
	default: return false;
	}
}

/* What begins with nothing. False: it is none of these, or there is no room. */
static bool constant(struct machine *m, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(m, op->atom - DW_OP_lit0);
	switch (op->atom) {
	case DW_OP_addr:
		return push(m, op->number + m->bias);
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push(m, op->number);
	case DW_OP_call_frame_cfa:
		return push(m, m->cfa);
	default:
		return false;
	}
}

static int on_stack(struct machine *m, const Dwarf_Op *op)
{
	uint64_t *top;

	if (m->depth < 1)
		return -EBADMSG;
	top = &m->stack[m->depth - 1];
	if (change(op, top))
		return 0;
	switch (op->atom) {
	case DW_OP_deref:
		return load(m, 8);
	case DW_OP_deref_size:
		return load(m, op->number);
	case DW_OP_dup:
		return push(m, *top) ? 0 : -EBADMSG;
	case DW_OP_drop:
		m->depth--;
		return 0;
	default:
		break;
	}
	if (m->depth < 2 || !combine(op->atom, top - 1, *top))
		return -EBADMSG;
	m->depth--;
	return 0;
}

static int compute(struct machine *m, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(m, op->atom - DW_OP_breg0, op->number);
	if (op->atom == DW_OP_bregx)
		return push_register(m, op->number, op->number2);
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		return push_register(m, op->atom - DW_OP_reg0, 0);
	if (op->atom == DW_OP_regx)
		return push_register(m, op->number, 0);
	if (op->atom == DW_OP_nop)
		return 0;
	return constant(m, op) ? 0 : on_stack(m, op);
}

static bool is_register(uint8_t atom)
{
	return (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) || atom == DW_OP_regx;
}

/* The operation that a jump leads to, as an index; nr: the end. */
static size_t target(const Dwarf_Op *ops, size_t nr, size_t from)
{
	uint64_t offset = ops[from].offset + 3 + (uint64_t)(int16_t)ops[from].number;
	size_t at = 0;

	while (at < nr && ops[at].offset != offset)
		at++;
	return at;
}

/* *value: what the operations leave; *is_value: it is that itself, not where it lies. */
static int run(struct machine *m, const Dwarf_Op *ops, size_t nr, uint64_t *value, bool *is_value)
{
	size_t at = 0;

	m->depth = 0;
	*is_value = false;
	for (int n = 0; at < nr; n++) {
		const Dwarf_Op *op = &ops[at];
		bool jumps = op->atom == DW_OP_skip;
		int rc = 0;

		if (n >= OPS_MAX || (op->atom == DW_OP_bra && m->depth < 1))
			return -EBADMSG;
		if (op->atom == DW_OP_bra)
			jumps = m->stack[--m->depth] != 0;
		else if (op->atom == DW_OP_stack_value || is_register(op->atom))
			*is_value = true;
		if (op->atom != DW_OP_bra && op->atom != DW_OP_skip &&
		    op->atom != DW_OP_stack_value)
			rc = compute(m, op);
		if (rc < 0)
			return rc;
		at = jumps ? target(ops, nr, at) : at + 1;
	}
	if (m->depth < 1)
		return -EBADMSG;
	*value = m->stack[m->depth - 1];
	return 0;
}

/* ---- a step ---- */

static int find_cfa(Dwarf_Frame *frame, struct machine *m)
{
	Dwarf_Op *ops;
	size_t nr;
	bool is_value;

	if (dwarf_frame_cfa(frame, &ops, &nr) != 0 || nr == 0)
		return -EBADMSG;
	return run(m, ops, nr, &m->cfa, &is_value);
}

/* The caller's value of a register; -ENODATA: it has none that is known. */
static int find_register(Dwarf_Frame *frame, struct machine *m, int reg, uint64_t *value)
{
	Dwarf_Op room[3], *ops;
	bool is_value;
	size_t nr;
	int rc;

	if (dwarf_frame_register(frame, reg, room, &ops, &nr) != 0)
		return -EBADMSG;
	if (nr == 0 && ops == room)
		return -ENODATA;
	if (nr == 0) {
		*value = m->act->regs[reg];
		return m->act->known >> reg & 1 ? 0 : -ENODATA;
	}
	rc = run(m, ops, nr, value, &is_value);
	if (rc == 0 && !is_value && !pev_memory_word(m->memory, *value, value))
		return -EFAULT;
	return rc;
}

static int follow(Dwarf_Frame *frame, struct machine *m, struct pev_activation *caller)
{
	bool signal;
	int back = dwarf_frame_info(frame, NULL, NULL, &signal), rc = find_cfa(frame, m);

	if (rc < 0)
		return rc;
	if (back < 0 || back >= PEV_UNWIND_REGS)
		return -EBADMSG;
	*caller = (struct pev_activation){ .returns = !signal };
	rc = find_register(frame, m, back, &caller->pc);
	if (rc < 0)
		return rc;
	/* Of the others each is needed or not: that one is not known ends nothing yet. */
	for (int reg = 0; reg < PEV_UNWIND_REGS; reg++)
		if (reg == back || find_register(frame, m, reg, &caller->regs[reg]) == 0)
			caller->known |= UINT64_C(1) << reg;
	caller->regs[back] = caller->pc;
	return 0;
}

static uint64_t address_of(const struct file *file, uint64_t offset)
{
	for (size_t i = 0; i < file->nr_segments; i++) {
		const struct segment *segment = &file->segments[i];

		if (offset >= segment->offset && offset - segment->offset < segment->filesz)
			return offset - segment->offset + segment->vaddr;
	}
	return UINT64_MAX;
}

static bool find_frame(const struct file *file, uint64_t address, Dwarf_Frame **frame)
{
	return (file->eh && dwarf_cfi_addrframe(file->eh, address, frame) == 0) ||
	       (file->debug && dwarf_cfi_addrframe(file->debug, address, frame) == 0);
}

static int step(struct pev_cfi *cfi, uint64_t offset, const struct pev_memory *memory,
		struct pev_activation *act)
{
	struct file *file = (struct file *)cfi;
	/* A call may be a function's last instruction: its rules are those before it. */
	uint64_t address = address_of(file, offset - act->returns);
	struct machine m = { .act = act, .memory = memory };
	struct pev_activation caller;
	Dwarf_Frame *frame;
	int rc;

	if (address == UINT64_MAX || !find_frame(file, address, &frame))
		return -ENOENT;
	m.bias = act->pc - act->returns - address;
	rc = follow(frame, &m, &caller);
	free(frame);
	if (rc == 0)
		*act = caller;
	return rc;
}

/* ---- opening ---- */

static int take_segments(struct file *file)
{
	size_t nr;

	if (elf_getphdrnum(file->elf, &nr) < 0 || nr > SEGMENTS_MAX)
		return -ENOEXEC;
	file->segments = calloc(nr + 1, sizeof(*file->segments));
	if (!file->segments)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr phdr;

		/* An instruction's place is asked for: others may be of the same bytes. */
		if (!gelf_getphdr(file->elf, (int)i, &phdr) || phdr.p_type != PT_LOAD ||
		    !(phdr.p_flags & PF_X))
			continue;
		file->segments[file->nr_segments++] =
			(struct segment){ phdr.p_offset, phdr.p_filesz, phdr.p_vaddr };
	}
	return 0;
}

static int take_rules(struct file *file, const void *image, size_t len)
{
	GElf_Ehdr header;

	file->elf = elf_memory((char *)(uintptr_t)image, len);
	if (!file->elf || !gelf_getehdr(file->elf, &header) ||
	    gelf_getclass(file->elf) != ELFCLASS64)
		return -ENOEXEC;
	file->cfi = (struct pev_cfi){ header.e_machine, len, step };
	file->eh = dwarf_getcfi_elf(file->elf);
	file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (file->dwarf)
		file->debug = dwarf_getcfi(file->dwarf);
	return file->eh || file->debug ? take_segments(file) : -ENOEXEC;
}

int pev_cfi_open(struct pev_cfi **out, const void *image, size_t len, struct pev_err *err)
{
	struct file *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return pev_fail(err, -ENOMEM, "no memory for its unwind tables");
	elf_version(EV_CURRENT);
	rc = take_rules(file, image, len);
	if (rc < 0) {
		pev_cfi_close(&file->cfi);
		return pev_fail(err, rc, "it has no unwind tables that can be read");
	}
	*out = &file->cfi;
	return 0;
}

void pev_cfi_close(struct pev_cfi *cfi)
{
	struct file *file = (struct file *)cfi;

	if (!file)
		return;
	if (file->eh)
		dwarf_cfi_end(file->eh);
	if (file->dwarf)
		dwarf_end(file->dwarf);
	if (file->elf)
		elf_end(file->elf);
	free(file->segments);
	free(file);
}
