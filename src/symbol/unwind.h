/*
 * unwind.h - who called whom in user space, by a sample's registers and its copy of the stack.
 *
 * Code without frame pointers says in its file how to get from each of its instructions
 * to the caller (call frame information, DWARF 5 section 6.4). This walks: what lies at
 * the instruction, the file's rules, the caller's registers, and again. The rules
 * themselves are read by cfi.c, in a module of its own, because libelf opens the file.
 */
#ifndef PEV_UNWIND_H
#define PEV_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "task/maps.h"
#include "record/record.h"
#include "task/task.h"

#define PEV_UNWIND_REGS 33 /* numbers that an ABI gives to the registers it saves */

/* A function that has not returned yet. Registers have the numbers of DWARF. */
struct pev_activation {
	uint64_t regs[PEV_UNWIND_REGS];
	uint64_t known;         /* bit n: regs[n] is known */
	uint64_t pc;
	bool returns;           /* pc is where a call returns to; else it was interrupted there */
};

/* What the sample has of the thread's stack; borrowed of the record. */
struct pev_memory {
	const unsigned char *bytes;
	uint64_t start;         /* address of the first */
	uint32_t len;
	bool swap;
};

/* The word at an address; false where it was not copied. */
static inline bool pev_memory_word(const struct pev_memory *memory, uint64_t address,
				   uint64_t *word)
{
	uint64_t at = address - memory->start;

	if (address < memory->start || memory->len < 8 || at > memory->len - 8)
		return false;
	*word = pev_load64(memory->bytes + at, memory->swap);
	return true;
}

/* The rules of one file. */
struct pev_cfi {
	uint16_t machine;       /* EM_* */
	uint64_t bytes;         /* that it keeps in memory */
	/*
	 * To the caller of act, whose pc is at offset in the file. -ENOENT: no rule is for
	 * that place; -ENODATA: it has no caller; -EFAULT: the stack was not copied that
	 * far; -EBADMSG: the rule is none that can be followed. act is the same then.
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
	bool told;              /* that its rules are broken */
};

struct pev_unwind {
	struct pev_call *calls; /* of the last walk, the innermost first */
	uint32_t nr, room;
	struct pev_unwind_file *files; /* open addressing */
	uint32_t nr_files, cap_files;
	uint64_t bytes;         /* of all files */
	/*
	 * The rules of a file that was not met yet, kept until forget(); NULL: none. broken()
	 * tells, once, of a file one of whose rules cannot be followed. forget() says that no
	 * file is needed any more.
	 */
	struct pev_cfi *(*find)(void *ctx, const struct pev_dso *dso, uint64_t offset);
	void (*broken)(void *ctx, const struct pev_dso *dso);
	void (*forget)(void *ctx);
	void *ctx;
};

void pev_unwind_free(struct pev_unwind *unwind);

/* Does the record have what is needed, and its callchain no user part of its own? */
bool pev_unwind_wanted(const struct pev_record *rec);
/*
 * Fill calls from a record that is wanted: at least where it was, further as far as rules
 * and the copied stack go. -ENOMEM.
 */
int pev_unwind_walk(struct pev_unwind *unwind, struct pev_tasks *tasks,
		    const struct pev_record *rec);

#endif
