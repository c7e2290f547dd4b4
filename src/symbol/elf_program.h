/*
 * elf_program.h - the places in a program or a library that probes and watchpoints name: symbols
 * by their names, and static probes.
 */
#pragma once

#include "symbol/elf.h"

/* Returns -ENOEXEC when the file is neither a program nor a library. */
int pev_elf_check_program(const struct pev_elf *elf, struct pev_err *err);

struct pev_elf_symbol {
	const char *name;      /* as in the table, which may add "@VERSION" to the name asked for */
	uint64_t value;        /* the linker's address */
	uint64_t size;         /* bytes; 0: unknown */
	uint64_t offset;       /* in the file, PEV_ELF_NONE in .bss */
	uint8_t type;          /* STT_* */
	uint32_t others;       /* symbols of the same name and rank at other addresses */
};

/*
 * Finds a defined symbol. It prefers a global one, then a weak one, then a version that is kept
 * for old programs, then a local one. Returns -ENOENT if the file does not define the name.
 */
int pev_elf_find_symbol(const struct pev_elf *elf, const char *name, struct pev_elf_symbol *symbol);

/*
 * The functions of .symtab, or of .dynsym if the file has no .symtab, in the table's order, with
 * those that choose another one (STT_GNU_IFUNC).
 */
struct pev_elf_functions {
	const struct pev_elf *elf;
	struct pev_elf_section section;
	bool is_empty;
	int n;                 /* of the next symbol */
};

struct pev_elf_functions pev_elf_open_functions(const struct pev_elf *elf);
/* Reads the next function; *others is 0. Returns false at the end. */
bool pev_elf_next_function(struct pev_elf_functions *functions, struct pev_elf_symbol *function);

/* Returns the name of the defined symbol with the nearest spelling, or NULL. */
const char *pev_elf_nearest_symbol(const struct pev_elf *elf, const char *name);

/* A static probe: <sys/sdt.h>, version 3 of the note. */
struct pev_elf_probe {
	const char *provider, *name;
	const char *args;        /* "-4@%edi 8@-8(%rbp)" */
	uint64_t pc, offset;     /* its address, moved as .stapsdt.base was; in the file */
	uint64_t semaphore;      /* its address, or 0 */
	uint64_t ref_ctr_offset; /* in the file, or 0 */
};

struct pev_elf_probes {
	const struct pev_elf *elf;
	struct pev_notes notes;
	uint64_t base;           /* address of .stapsdt.base, or 0 */
};

struct pev_elf_probes pev_elf_open_probes(const struct pev_elf *elf);
/* Reads the next probe, and skips damaged ones. Returns false at the end. */
bool pev_elf_next_probe(struct pev_elf_probes *probes, struct pev_elf_probe *probe);
