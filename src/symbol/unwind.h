/*
 * unwind.h - finds the callers in user space, from a sample's registers and its copy of the stack.
 *
 * A file of code without frame pointers has rules that restore the caller's registers at each
 * instruction (call frame information, DWARF 5 section 6.4). The walk finds the file at the
 * instruction, applies its rules, and goes on with the caller's registers. cfi.c reads the
 * rules, in a module of its own because it needs libelf.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "task/maps.h"
#include "record/record.h"
#include "task/task.h"

#define PEV_UNWIND_REGS 33 /* registers that an ABI saves have numbers below this */

/* A function that has not returned yet. Registers have their DWARF numbers. */
struct pev_activation {
	uint64_t regs[PEV_UNWIND_REGS];
	uint64_t known;         /* bit n: regs[n] is known */
	uint64_t pc;
	bool returns;           /* pc is a return address; else it was interrupted there */
};

/* The sample's copy of the stack; borrowed from the record. */
struct pev_memory {
	const unsigned char *bytes;
	uint64_t start;         /* address of the first byte */
	uint32_t len;
	bool swap;
};

/* Reads the word at an address. Returns false if it was not copied. */
static inline bool pev_memory_word(const struct pev_memory *memory, uint64_t address,
				   uint64_t *word)
{
	uint64_t at = address - memory->start;

	if (address < memory->start || memory->len < 8 || at > memory->len - 8)
		return false;
	*word = pev_load64(memory->bytes + at, memory->swap);
	return true;
}

enum pev_unwind_row_kind {
	PEV_UNWIND_OFFSETS,     /* the offsets in the row find the caller */
	PEV_UNWIND_MISSING,     /* the file has no rule */
	PEV_UNWIND_OUTERMOST,   /* the function has no caller */
	PEV_UNWIND_COMPUTED     /* only step() applies the rule: an expression, or damaged */
};

#define PEV_UNWIND_SAVED 11 /* registers that a row restores beside the return address */

/* The rule at one pc, compiled. The members after kind are valid for PEV_UNWIND_OFFSETS. */
struct pev_unwind_row {
	uint64_t same;          /* bit n: the caller's register n is the callee's */
	uint64_t saved;         /* bit n: register n is stored at the CFA + its offset */
	int32_t cfa_offset;     /* the CFA, which is the caller's sp: this + register cfa_reg */
	uint8_t kind;           /* enum pev_unwind_row_kind */
	uint8_t cfa_reg, ra;    /* ra: register of the return address */
	bool signal : 1;        /* the kernel called the function */
	bool ra_saved : 1;      /* the return address is at the CFA + ra_offset; else in ra */
	int16_t ra_offset;
	int16_t offsets[PEV_UNWIND_SAVED]; /* of the registers in saved, the lowest first */
};

/*
 * Replaces act by its caller by such a row; sp: the number of the stack pointer. Returns -ENODATA
 * or -EFAULT like pev_cfi.step.
 */
int pev_unwind_apply(const struct pev_unwind_row *row, unsigned sp,
		     const struct pev_memory *memory, struct pev_activation *act);

/* The rules of one file. */
struct pev_cfi {
	uint16_t machine;       /* EM_* */
	uint64_t bytes;         /* of memory that it uses */
	/* Compiles the rule of the instruction at offset in the file. */
	void (*compile)(struct pev_cfi *cfi, uint64_t offset, struct pev_unwind_row *row);
	/*
	 * Replaces act by its caller; offset is the pc in the file. On error act stays as it
	 * was: -ENOENT: the file has no rule for the pc; -ENODATA: it has no caller;
	 * -EFAULT: the stack was not copied that far; -EBADMSG: the rule is damaged.
	 */
	int (*step)(struct pev_cfi *cfi, uint64_t offset, const struct pev_memory *memory,
		    struct pev_activation *act);
};

struct pev_call {
	uint64_t pc;
	bool returns;
};

struct pev_unwind_file {
	struct pev_dso *dso;    /* counted; NULL: the slot is free */
	struct pev_cfi *cfi;    /* borrowed; NULL: it has no rules */
	bool reported;          /* broken() was called */
};

/* A compiled rule, by the file and the offset of the instruction that it is for. */
struct pev_cached_row {
	const struct pev_dso *dso; /* of a file in files; NULL: free */
	uint64_t offset;
	struct pev_unwind_row row;
};

struct pev_unwind {
	struct pev_call *calls; /* of the last walk, the innermost first */
	uint32_t nr, room;
	struct pev_cached_row *rows; /* by hash; NULL: none yet */
	uint16_t machine;       /* EM_* of rows */
	struct pev_unwind_file *files; /* open addressing */
	uint32_t nr_files, cap_files;
	uint64_t bytes;         /* of all files */
	/*
	 * find() opens the rules of a file, which are kept until forget(), or returns NULL.
	 * broken() reports, once, a file with a damaged rule. forget() frees all files.
	 */
	struct pev_cfi *(*find)(void *ctx, const struct pev_dso *dso, uint64_t offset);
	void (*broken)(void *ctx, const struct pev_dso *dso);
	void (*forget)(void *ctx);
	void *ctx;
};

void pev_unwind_free(struct pev_unwind *unwind);

/* True if the record has registers and a stack, and its callchain has no user part. */
bool pev_unwind_wanted(const struct pev_record *rec);
/*
 * Fills calls from such a record: its pc, then callers as far as the rules and the copied stack
 * reach. Returns 0 or -ENOMEM.
 */
int pev_unwind_walk(struct pev_unwind *unwind, struct pev_tasks *tasks,
		    const struct pev_record *rec);
