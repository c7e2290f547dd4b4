/*
 * elffile.h - what a program's file says of its functions, variables and probes.
 *
 * Read-only, from the file's bytes: symbols of .symtab and .dynsym, where they lie
 * in the file by the program headers, and the notes that DTRACE_PROBE leaves. The
 * bytes are anybody's, so every name, offset and count is held against their length.
 */
#ifndef PEV_ELFFILE_H
#define PEV_ELFFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define PEV_ELF_NONE UINT64_MAX /* an address that is not in the file */

struct pev_elf; /* opaque; borrows the bytes it was opened on */

struct pev_elf_facts {
	bool fixed;            /* ET_EXEC: addresses are those of the process */
	bool symtab, dynsym;   /* a stripped file has the second at most */
	bool swap;             /* of the other byte order */
	uint8_t bits;          /* 32 or 64 */
	uint16_t machine;      /* EM_* */
	const unsigned char *build_id;
	uint32_t build_id_len; /* bytes */
};

struct pev_elf_symbol {
	const char *name;      /* as the table has it; cut at '@' it is the one asked for */
	uint64_t value;        /* the linker's address */
	uint64_t size;         /* bytes, 0 where the table does not tell */
	uint64_t offset;       /* bytes from the file's start, PEV_ELF_NONE in .bss */
	uint8_t type;          /* STT_*: FUNC 2, OBJECT 1, TLS 6, GNU_IFUNC 10 */
	uint8_t bind;          /* STB_*: LOCAL 0, GLOBAL 1, WEAK 2 */
	uint32_t others;       /* ones like it of the same name at other addresses */
};

/* A static probe: <sys/sdt.h>, version 3 of the note. */
struct pev_elf_probe {
	const char *provider, *name;
	const char *args;        /* "-4@%edi 8@-8(%rbp)" */
	uint64_t pc, offset;     /* address, moved as .stapsdt.base was; bytes in the file */
	uint64_t semaphore;      /* its address, or 0 */
	uint64_t ref_ctr_offset; /* bytes in the file, or 0 */
};

/*
 * image is kept by the caller until pev_elf_close(), and not written. -ENOEXEC when
 * it is no ELF file of a kind that is run, -ENOMEM.
 */
int pev_elf_open(struct pev_elf **elf, const void *image, size_t len, struct pev_err *err);
void pev_elf_close(struct pev_elf *elf);
void pev_elf_facts(const struct pev_elf *elf, struct pev_elf_facts *facts);

/*
 * A symbol that is defined here: a global one before a weak one before a version kept for
 * old programs before a local one. Borrowed names. -ENOENT when there is none of that name.
 */
int pev_elf_find(const struct pev_elf *elf, const char *name, struct pev_elf_symbol *symbol);

/* The defined name that was meant, a function's or a variable's, or NULL. Borrowed. */
const char *pev_elf_nearest(const struct pev_elf *elf, const char *name);

/* The linker's address -> bytes from the file's start, or PEV_ELF_NONE. */
uint64_t pev_elf_offset(const struct pev_elf *elf, uint64_t address);
/*
 * The linker's address of the page of code that a process has mapped from pgoff on,
 * as /proc/PID/maps tells it, or PEV_ELF_NONE: what it lies at there, less this, is how
 * far the whole file was moved.
 */
uint64_t pev_elf_mapped(const struct pev_elf *elf, uint64_t pgoff, uint64_t page);
/* Does the byte at that offset lie in what is mapped to be run? */
bool pev_elf_runs(const struct pev_elf *elf, uint64_t offset);

/*
 * The file's probes, in the notes' order: *at is 0 before the first, and is moved.
 * 1: *probe is filled in, 0: there are no more. A note that is cut is skipped.
 */
int pev_elf_probe(const struct pev_elf *elf, size_t *at, struct pev_elf_probe *probe);

#endif
