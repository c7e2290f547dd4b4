/*
 * cfi.c - call frame information; see cfi.h.
 *
 * fde.c computes the rules of an address; this file applies them to registers and a copy of the
 * stack. libdw can do both, but only for processes that it opens itself. Here files come through
 * the hooks, are open once for all processes, and only the copy is read. libdw also allocates
 * every register below the highest that a rule names, which in a hostile file may be number
 * 4294967295. Contract: DWARF 5, sections 6.4 and 2.5.
 */
#include "symbol/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/elf.h"
#include "symbol/fde.h"

enum {
	DEPTH_MAX = 64,       /* words on an expression's stack */
	OPS_MAX = 1000        /* operations executed, jumps back included */
};

_Static_assert(PEV_FDE_REGS == PEV_UNWIND_REGS, "a rule for each register");

/* The ABI's rules for registers without a rule in the file. */
struct abi {
	uint16_t machine;
	uint64_t kept;            /* bit n: a called function keeps register n */
	int sp;                   /* its value in the caller is the CFA */
};

static const struct abi abis[] = {
	{ EM_X86_64, UINT64_C(0xf048), 7 }, /* rbx, rbp, r12 to r15 */
	{ EM_AARCH64, UINT64_C(0x7ff80000), 31 }, /* x19 to x30 */
};

struct file {
	struct pev_cfi cfi;   /* first: callers have a pointer to it */
	struct pev_elf *elf;
	struct pev_fdes eh, debug;
	const struct abi *abi;
};

/* ---- expressions ---- */

struct machine {
	const struct pev_activation *act;
	const struct pev_memory *memory;
	uint64_t cfa, bias;   /* bias: the address in the process less the linker's */
	uint64_t stack[DEPTH_MAX];
	unsigned depth;
};

static bool push_word(struct machine *m, uint64_t word)
{
	if (m->depth == DEPTH_MAX)
		return false;
	m->stack[m->depth++] = word;
	return true;
}

static int find_value(const struct machine *m, uint64_t reg, uint64_t *value)
{
	if (reg >= PEV_UNWIND_REGS || !(m->act->known >> reg & 1))
		return -ENODATA;
	*value = m->act->regs[reg];
	return 0;
}

static int push_register(struct machine *m, uint64_t reg, int64_t offset)
{
	uint64_t value;
	int rc = find_value(m, reg, &value);

	if (rc < 0)
		return rc;
	return push_word(m, value + (uint64_t)offset) ? 0 : -EBADMSG;
}

static int load_word(struct machine *m, uint64_t bytes)
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

static bool shift_word(uint8_t atom, uint64_t *a, uint64_t by)
{
	if (atom == DW_OP_shl)
		*a = by < 64 ? *a << by : 0;
	else if (atom == DW_OP_shr)
		*a = by < 64 ? *a >> by : 0;
	else
		*a = (uint64_t)((int64_t)*a >> (by < 63 ? by : 62) >> (by < 63 ? 0 : 1));
	return true;
}

/* Combines two words into one. Returns false for another operation. */
static bool combine_words(uint8_t atom, uint64_t *a, uint64_t b)
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
	case DW_OP_shra: return shift_word(atom, a, b);
	default: return false;
	}
}

/* Changes the word on top. Returns false for another operation. */
static bool change_top(uint8_t atom, struct pev_bytes *b, uint64_t *top)
{
	switch (atom) {
	case DW_OP_plus_uconst: *top += pev_bytes_uleb(b); return true;
	case DW_OP_neg: *top = -*top; return true;
	case DW_OP_not: *top = ~*top; return true;
	case DW_OP_abs: *top = (int64_t)*top < 0 ? -*top : *top; return true;
	default: return false;
	}
}

/* Pushes a constant. Returns false for another operation, or when the stack is full. */
static bool push_constant(struct machine *m, uint8_t atom, struct pev_bytes *b)
{
	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
		return push_word(m, atom - DW_OP_lit0);
	switch (atom) {
	case DW_OP_addr: return push_word(m, pev_bytes_word(b, 8) + m->bias);
	case DW_OP_const1u: return push_word(m, pev_bytes_word(b, 1));
	case DW_OP_const1s: return push_word(m, (uint64_t)pev_bytes_signed(b, 1));
	case DW_OP_const2u: return push_word(m, pev_bytes_word(b, 2));
	case DW_OP_const2s: return push_word(m, (uint64_t)pev_bytes_signed(b, 2));
	case DW_OP_const4u: return push_word(m, pev_bytes_word(b, 4));
	case DW_OP_const4s: return push_word(m, (uint64_t)pev_bytes_signed(b, 4));
	case DW_OP_const8u:
	case DW_OP_const8s: return push_word(m, pev_bytes_word(b, 8));
	case DW_OP_constu: return push_word(m, pev_bytes_uleb(b));
	case DW_OP_consts: return push_word(m, (uint64_t)pev_bytes_sleb(b));
	case DW_OP_call_frame_cfa: return push_word(m, m->cfa);
	default: return false;
	}
}

static int execute_on_stack(struct machine *m, uint8_t atom, struct pev_bytes *b)
{
	uint64_t *top;

	if (m->depth < 1)
		return -EBADMSG;
	top = &m->stack[m->depth - 1];
	if (change_top(atom, b, top))
		return 0;
	switch (atom) {
	case DW_OP_deref: return load_word(m, 8);
	case DW_OP_deref_size: return load_word(m, pev_bytes_word(b, 1));
	case DW_OP_dup: return push_word(m, *top) ? 0 : -EBADMSG;
	case DW_OP_drop: m->depth--; return 0;
	default: break;
	}
	if (m->depth < 2 || !combine_words(atom, top - 1, *top))
		return -EBADMSG;
	m->depth--;
	return 0;
}

static int execute_operation(struct machine *m, uint8_t atom, struct pev_bytes *b)
{
	uint64_t reg;

	if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
		return push_register(m, atom - DW_OP_breg0, pev_bytes_sleb(b));
	if (atom == DW_OP_bregx) {
		reg = pev_bytes_uleb(b);
		return push_register(m, reg, pev_bytes_sleb(b));
	}
	if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31)
		return push_register(m, atom - DW_OP_reg0, 0);
	if (atom == DW_OP_regx)
		return push_register(m, pev_bytes_uleb(b), 0);
	if (atom == DW_OP_nop)
		return 0;
	return push_constant(m, atom, b) ? 0 : execute_on_stack(m, atom, b);
}

static bool is_register_op(uint8_t atom)
{
	return (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) || atom == DW_OP_regx;
}

/* Moves the cursor to the target of a jump. */
static int follow_jump(struct machine *m, uint8_t atom, const unsigned char *first,
		       struct pev_bytes *b)
{
	int64_t by = pev_bytes_signed(b, 2);

	if (atom == DW_OP_bra && m->depth < 1)
		return -EBADMSG;
	if (atom == DW_OP_bra && m->stack[--m->depth] == 0)
		return 0;
	if (by < first - b->at || by > b->end - b->at)
		return -EBADMSG;
	b->at += by;
	return 0;
}

/* *value: the result of the operations; *is_value: it is the value, not its address. */
static int run_ops(struct machine *m, const struct pev_rule *rule, uint64_t *value, bool *is_value)
{
	struct pev_bytes b = { rule->ops, rule->ops + rule->len, false };

	*is_value = false;
	for (int n = 0; b.at < b.end; n++) {
		uint8_t atom = (uint8_t)pev_bytes_word(&b, 1);
		int rc = 0;

		if (atom == DW_OP_skip || atom == DW_OP_bra)
			rc = follow_jump(m, atom, rule->ops, &b);
		else if (atom != DW_OP_stack_value)
			rc = execute_operation(m, atom, &b);
		if (n >= OPS_MAX || b.bad)
			return -EBADMSG;
		if (rc < 0)
			return rc;
		if (atom == DW_OP_stack_value || is_register_op(atom))
			*is_value = true;
	}
	if (m->depth < 1)
		return -EBADMSG;
	*value = m->stack[m->depth - 1];
	return 0;
}

/* ---- a step ---- */

static int find_cfa(const struct pev_rules *row, struct machine *m)
{
	uint64_t value = 0;
	bool is_value;
	int rc;

	if (row->cfa.kind == PEV_RULE_EXPRESSION) {
		m->depth = 0;
		return run_ops(m, &row->cfa, &m->cfa, &is_value);
	}
	if (row->cfa.kind != PEV_RULE_VAL_OFFSET)
		return -EBADMSG;
	rc = find_value(m, row->cfa_reg, &value);
	m->cfa = value + (uint64_t)row->cfa.value;
	return rc;
}

static int read_word(const struct machine *m, uint64_t address, uint64_t *value)
{
	return pev_memory_word(m->memory, address, value) ? 0 : -EFAULT;
}

/* Computes a register by an expression, which starts with the CFA on its stack. */
static int compute_register(struct machine *m, const struct pev_rule *rule, uint64_t *value)
{
	bool is_value;
	int rc;

	m->depth = 0;
	push_word(m, m->cfa);
	rc = run_ops(m, rule, value, &is_value);
	if (rc == 0 && !is_value && rule->kind == PEV_RULE_EXPRESSION)
		rc = read_word(m, *value, value);
	return rc;
}

static struct pev_rule find_rule(const struct abi *abi, const struct pev_rules *row, int reg)
{
	struct pev_rule rule = row->regs[reg];

	if (rule.kind != PEV_RULE_UNSPECIFIED)
		return rule;
	if (reg == abi->sp)
		return (struct pev_rule){ .kind = PEV_RULE_VAL_OFFSET };
	rule.kind = abi->kept >> reg & 1 ? PEV_RULE_SAME : PEV_RULE_UNDEFINED;
	return rule;
}

/* Finds the caller's value of a register. Returns -ENODATA if it is unknown. */
static int find_register(const struct abi *abi, const struct pev_rules *row, struct machine *m,
			 int reg, uint64_t *value)
{
	struct pev_rule rule = find_rule(abi, row, reg);
	uint64_t at = m->cfa + (uint64_t)rule.value;

	switch (rule.kind) {
	case PEV_RULE_SAME: return find_value(m, (uint64_t)reg, value);
	case PEV_RULE_REGISTER: return find_value(m, (uint64_t)rule.value, value);
	case PEV_RULE_OFFSET: return read_word(m, at, value);
	case PEV_RULE_VAL_OFFSET: *value = at; return 0;
	case PEV_RULE_EXPRESSION:
	case PEV_RULE_VAL_EXPRESSION: return compute_register(m, &rule, value);
	default: return -ENODATA;
	}
}

static int unwind_frame(const struct abi *abi, const struct pev_rules *row, struct machine *m,
			struct pev_activation *caller)
{
	int back = (int)row->ra, rc = find_cfa(row, m);

	if (rc < 0)
		return rc;
	if (row->ra >= PEV_UNWIND_REGS)
		return -EBADMSG;
	*caller = (struct pev_activation){ .returns = !row->signal };
	rc = find_register(abi, row, m, back, &caller->pc);
	if (rc < 0)
		return rc;
	/* Another register may be unknown: perhaps no rule needs it. */
	for (int reg = 0; reg < PEV_UNWIND_REGS; reg++)
		if (reg == back || find_register(abi, row, m, reg, &caller->regs[reg]) == 0)
			caller->known |= UINT64_C(1) << reg;
	caller->regs[back] = caller->pc;
	return 0;
}

static int find_row(const struct file *file, uint64_t address, struct pev_rules *row)
{
	int rc = pev_fdes_row(&file->eh, address, row);

	return rc == -ENOENT ? pev_fdes_row(&file->debug, address, row) : rc;
}

/* Finds the row of the instruction at offset in the file, and its address by the linker. */
static int find_row_at(const struct file *file, uint64_t offset, uint64_t *address,
		       struct pev_rules *row)
{
	*address = pev_elf_find_address(file->elf->segments, file->elf->nr_segments, offset);
	return *address == PEV_ELF_NONE ? -ENOENT : find_row(file, *address, row);
}

static int step_to_caller(struct pev_cfi *cfi, uint64_t offset, const struct pev_memory *memory,
		struct pev_activation *act)
{
	const struct file *file = (const struct file *)cfi;
	struct machine m = { .act = act, .memory = memory };
	struct pev_activation caller;
	struct pev_rules row;
	uint64_t address;
	/* A call may be a function's last instruction, so the byte before decides. */
	int rc = find_row_at(file, offset - act->returns, &address, &row);

	if (rc < 0)
		return rc;
	m.bias = act->pc - act->returns - address;
	rc = unwind_frame(file->abi, &row, &m, &caller);
	if (rc == 0)
		*act = caller;
	return rc;
}

/* ---- compiling ---- */

/* Returns the kind of the compiled row. */
static enum pev_unwind_row_kind compile_ra(const struct abi *abi, const struct pev_rules *rules,
				    struct pev_unwind_row *row)
{
	struct pev_rule rule;

	if (rules->ra >= PEV_UNWIND_REGS || (int)rules->ra == abi->sp)
		return PEV_UNWIND_COMPUTED;
	rule = find_rule(abi, rules, (int)rules->ra);
	row->ra = (uint8_t)rules->ra;
	row->ra_saved = rule.kind == PEV_RULE_OFFSET;
	row->ra_offset = (int16_t)rule.value;
	if (rule.kind == PEV_RULE_UNDEFINED)
		return PEV_UNWIND_OUTERMOST;
	if (rule.kind == PEV_RULE_SAME || (row->ra_saved && rule.value == row->ra_offset))
		return PEV_UNWIND_OFFSETS;
	return PEV_UNWIND_COMPUTED;
}

/* Adds the rule of a register beside the return address, the lowest register first. */
static bool compile_register(const struct abi *abi, struct pev_rule rule, int reg, int *nr,
			     struct pev_unwind_row *row)
{
	switch (rule.kind) {
	case PEV_RULE_UNDEFINED:
		return reg != abi->sp;
	case PEV_RULE_SAME:
		row->same |= UINT64_C(1) << reg;
		return reg != abi->sp;
	case PEV_RULE_VAL_OFFSET:
		return reg == abi->sp && rule.value == 0;
	case PEV_RULE_OFFSET:
		if (reg == abi->sp || *nr == PEV_UNWIND_SAVED || rule.value != (int16_t)rule.value)
			return false;
		row->saved |= UINT64_C(1) << reg;
		row->offsets[(*nr)++] = (int16_t)rule.value;
		return true;
	default:
		return false;
	}
}

static enum pev_unwind_row_kind compile_rules(const struct abi *abi, const struct pev_rules *rules,
				       struct pev_unwind_row *row)
{
	enum pev_unwind_row_kind kind;
	int nr = 0;

	*row = (struct pev_unwind_row){ .cfa_offset = (int32_t)rules->cfa.value,
				 .cfa_reg = (uint8_t)rules->cfa_reg, .signal = rules->signal };
	if (rules->cfa.kind != PEV_RULE_VAL_OFFSET || rules->cfa_reg >= PEV_UNWIND_REGS ||
	    rules->cfa.value != row->cfa_offset)
		return PEV_UNWIND_COMPUTED;
	kind = compile_ra(abi, rules, row);
	for (int reg = 0; reg < PEV_UNWIND_REGS && kind == PEV_UNWIND_OFFSETS; reg++)
		if (reg != row->ra &&
		    !compile_register(abi, find_rule(abi, rules, reg), reg, &nr, row))
			kind = PEV_UNWIND_COMPUTED;
	return kind;
}

static void compile_row(struct pev_cfi *cfi, uint64_t offset, struct pev_unwind_row *row)
{
	const struct file *file = (const struct file *)cfi;
	struct pev_rules rules;
	uint64_t address;
	int rc = find_row_at(file, offset, &address, &rules);

	if (rc == 0)
		row->kind = (uint8_t)compile_rules(file->abi, &rules, row);
	else
		row->kind = rc == -ENOENT ? PEV_UNWIND_MISSING : PEV_UNWIND_COMPUTED;
}

/* ---- opening ---- */

/* Loads .eh_frame_hdr. Without it the header has no bytes. */
static struct pev_fde_header read_header(const struct file *file)
{
	const GElf_Phdr *segment = file->elf->segments, *end = segment + file->elf->nr_segments;
	struct pev_file_image *image = file->elf->image;
	const unsigned char *first;

	while (segment < end && segment->p_type != PT_GNU_EH_FRAME)
		segment++;
	if (segment == end || segment->p_offset > image->len ||
	    segment->p_filesz > image->len - segment->p_offset)
		return (struct pev_fde_header){ { NULL, NULL, false }, 0 };
	pev_file_image_load(image, segment->p_offset, segment->p_filesz);
	first = image->bytes + segment->p_offset;
	return (struct pev_fde_header){ { first, first + segment->p_filesz, false },
					segment->p_vaddr };
}

static int read_section(struct file *file, const char *name, struct pev_fdes *fdes,
			const struct pev_fde_header *header)
{
	struct pev_elf_section section;
	const unsigned char *bytes = NULL;
	size_t len;

	if (pev_elf_find_section(file->elf, SHT_NULL, name, &section))
		bytes = pev_elf_inflate_section(&section, &len);
	if (!bytes)
		return 0;
	return pev_fdes_open(fdes, bytes, len, section.header.sh_addr, header);
}

/* Finds .eh_frame without section headers: its header has its address. Its length is unknown. */
static int read_segment(struct file *file, const struct pev_fde_header *header)
{
	struct pev_file_image *image = file->elf->image;
	int64_t target = pev_fde_header_target(header);
	uint64_t at;

	if (!target)
		return 0;
	at = (uint64_t)(header->bytes.at - image->bytes) + (uint64_t)target;
	if (at >= image->len)
		return 0;
	pev_file_image_load(image, at, image->len - at);
	return pev_fdes_open(&file->eh, image->bytes + at, image->len - at,
			     header->address + (uint64_t)target, header);
}

static const struct abi *find_abi(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(abis) / sizeof(abis[0]); i++)
		if (abis[i].machine == machine)
			return &abis[i];
	return NULL;
}

static int read_rules(struct file *file, struct pev_file_image *image, struct pev_err *err)
{
	int rc = pev_elf_open_image(&file->elf, image, err);
	struct pev_fde_header search;
	const GElf_Ehdr *header;

	if (rc < 0)
		return rc;
	header = &file->elf->header;
	if (header->e_ident[EI_CLASS] == ELFCLASS64 && !pev_elf_is_big_endian(file->elf))
		file->abi = find_abi(header->e_machine);
	if (!file->abi)
		return -ENOEXEC;
	search = read_header(file);
	rc = read_section(file, ".eh_frame", &file->eh, &search);
	if (rc == 0)
		rc = read_section(file, ".debug_frame", &file->debug, NULL);
	if (rc == 0 && !file->eh.bytes)
		rc = read_segment(file, &search);
	if (rc < 0)
		return rc;
	file->cfi = (struct pev_cfi){ header->e_machine, image->used, compile_row,
				      step_to_caller };
	file->cfi.bytes += (file->eh.nr + file->debug.nr) * sizeof(struct pev_fde);
	return file->eh.nr || file->debug.nr ? 0 : -ENOEXEC;
}

int pev_cfi_open(struct pev_cfi **out, struct pev_file_image *image, struct pev_err *err)
{
	struct file *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return pev_fail(err, -ENOMEM, "no memory for its unwind tables");
	rc = read_rules(file, image, err);
	if (rc < 0) {
		pev_cfi_close(&file->cfi);
		return pev_fail(err, rc, "it has no readable unwind tables");
	}
	*out = &file->cfi;
	return 0;
}

void pev_cfi_close(struct pev_cfi *cfi)
{
	struct file *file = (struct file *)cfi;

	if (!file)
		return;
	pev_fdes_close(&file->eh);
	pev_fdes_close(&file->debug);
	pev_elf_close(file->elf);
	free(file);
}
