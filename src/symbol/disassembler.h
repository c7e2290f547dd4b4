/*
 * disassembler.h - machine code as text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_disassembler; /* opaque */

enum { PEV_INSTRUCTION_TEXT = 200 };

struct pev_instruction {
	uint64_t address;
	uint64_t target;    /* of a direct jump or call, if has_target is set */
	uint32_t size;      /* bytes */
	bool has_target;
	char text[PEV_INSTRUCTION_TEXT];
};

/*
 * Opens a disassembler for an ELF machine number: EM_X86_64, EM_386 or EM_AARCH64. Returns -ENOSYS
 * for another machine, or -ENOMEM.
 */
int pev_disassembler_open(struct pev_disassembler **disassembler, uint32_t machine,
			  struct pev_err *err);
void pev_disassembler_close(struct pev_disassembler *disassembler);
/* Starts at the first of len bytes, which are borrowed until the next call. */
void pev_disassembler_begin(struct pev_disassembler *disassembler, const void *bytes, size_t len,
			    uint64_t address);
/*
 * Reads the next instruction. Bytes that are not an instruction become a ".byte". Returns false at
 * the end.
 */
bool pev_disassembler_next(struct pev_disassembler *disassembler,
			   struct pev_instruction *instruction);
