/*
 * disassembler.c - machine code as text, by libcapstone; see disassembler.h.
 *
 * x86 has the syntax of the GNU assembler, as in the output of objdump and perf.
 */
#include "symbol/disassembler.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct pev_disassembler {
	csh capstone;
	cs_insn *instruction;
	uint32_t machine;
	const uint8_t *bytes;
	size_t len;
	uint64_t address;
};

static const struct machine {
	uint32_t number;        /* EM_... */
	cs_arch arch;
	cs_mode mode;
} machines[] = {
	{ EM_X86_64, CS_ARCH_X86, CS_MODE_64 },
	{ EM_386, CS_ARCH_X86, CS_MODE_32 },
	{ EM_AARCH64, CS_ARCH_ARM64, CS_MODE_ARM },
};

static const struct machine *find_machine(uint32_t number)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].number == number)
			return &machines[i];
	return NULL;
}

int pev_disassembler_open(struct pev_disassembler **out, uint32_t number, struct pev_err *err)
{
	const struct machine *machine = find_machine(number);
	struct pev_disassembler *self;

	if (!machine)
		return pev_fail(err, -ENOSYS,
				"the code is for another machine (ELF machine %u): "
				"only x86 and arm64 are disassembled", number);
	self = calloc(1, sizeof(*self));
	if (!self)
		return pev_fail(err, -ENOMEM, "no memory for a disassembler");
	self->machine = number;
	if (cs_open(machine->arch, machine->mode, &self->capstone) != CS_ERR_OK) {
		free(self);
		return pev_fail(err, -ENOMEM, "no memory for a disassembler");
	}
	cs_option(self->capstone, CS_OPT_DETAIL, CS_OPT_ON);
	cs_option(self->capstone, CS_OPT_SKIPDATA, CS_OPT_ON);
	if (machine->arch == CS_ARCH_X86)
		cs_option(self->capstone, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	self->instruction = cs_malloc(self->capstone);
	if (!self->instruction) {
		pev_disassembler_close(self);
		return pev_fail(err, -ENOMEM, "no memory for a disassembler");
	}
	*out = self;
	return 0;
}

void pev_disassembler_close(struct pev_disassembler *self)
{
	if (!self)
		return;
	if (self->instruction)
		cs_free(self->instruction, 1);
	cs_close(&self->capstone);
	free(self);
}

void pev_disassembler_begin(struct pev_disassembler *self, const void *bytes, size_t len,
			    uint64_t address)
{
	self->bytes = bytes;
	self->len = len;
	self->address = address;
}

/* The last operand of a direct jump or call is its target. */
static bool find_target(const struct pev_disassembler *self, uint64_t *target)
{
	const cs_detail *detail = self->instruction->detail;

	if (self->instruction->id == 0 ||
	    (!cs_insn_group(self->capstone, self->instruction, CS_GRP_JUMP) &&
	     !cs_insn_group(self->capstone, self->instruction, CS_GRP_CALL)))
		return false;
	if (self->machine == EM_AARCH64) {
		const cs_arm64 *arm64 = &detail->arm64;

		if (!arm64->op_count || arm64->operands[arm64->op_count - 1].type != ARM64_OP_IMM)
			return false;
		*target = (uint64_t)arm64->operands[arm64->op_count - 1].imm;
		return true;
	}
	if (detail->x86.op_count != 1 || detail->x86.operands[0].type != X86_OP_IMM)
		return false;
	*target = (uint64_t)detail->x86.operands[0].imm;
	return true;
}

bool pev_disassembler_next(struct pev_disassembler *self, struct pev_instruction *instruction)
{
	const uint64_t address = self->address;

	if (!self->len || !cs_disasm_iter(self->capstone, &self->bytes, &self->len,
					  &self->address, self->instruction))
		return false;
	instruction->address = address;
	instruction->size = self->instruction->size;
	instruction->has_target = find_target(self, &instruction->target);
	snprintf(instruction->text, sizeof(instruction->text), "%s%s%s",
		 self->instruction->mnemonic, *self->instruction->op_str ? " " : "",
		 self->instruction->op_str);
	return true;
}
