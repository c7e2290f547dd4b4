/*
 * symtab.h - which function is at an address of a program's or a library's file.
 *
 * Made from the file's bytes, which are not needed any more then: .symtab, or .dynsym
 * where that was stripped; the table that .gnu_debugdata holds (MiniDebugInfo); the PLT's
 * stubs by the names that they jump to; and what a separate debug file adds. The
 * bytes are anybody's: what they say is believed as far as they go.
 */
#ifndef PEV_SYMTAB_H
#define PEV_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PEV_SYMTAB_NONE UINT64_MAX /* no such address */

struct pev_symtab; /* opaque; owns what it has */

struct pev_symtab_facts {
	const unsigned char *build_id;
	uint32_t build_id_len;   /* bytes; 0: it has none */
	const char *debuglink;   /* the name of its debug file, or NULL */
	uint32_t debuglink_crc;
	bool symtab;             /* .symtab is in it: no other file knows more names */
	bool minidebug;          /* .gnu_debugdata is, and was read */
	bool debug_info;         /* .debug_info is: source() finds lines in it */
	uint64_t symbols;
};

/* -ENOEXEC: it is no ELF file; -ENOMEM. A file without symbols is one with none. */
int pev_symtab_open(struct pev_symtab **table, const void *image, size_t len,
		    struct pev_err *err);
void pev_symtab_free(struct pev_symtab *table);
/* The symbols of its separate debug file as well. The same errors; the table stays good. */
int pev_symtab_add(struct pev_symtab *table, const void *image, size_t len, struct pev_err *err);
void pev_symtab_facts(const struct pev_symtab *table, struct pev_symtab_facts *facts);

/* Returns the linker's address of a byte of the file that is mapped, or PEV_SYMTAB_NONE. */
uint64_t pev_symtab_address(const struct pev_symtab *table, uint64_t offset);
/* The symbol that an address lies in and where it begins, or NULL. Borrowed from the table. */
const char *pev_symtab_find(struct pev_symtab *table, uint64_t address, uint64_t *start);

/* The checksum of .gnu_debuglink. */
uint32_t pev_symtab_crc(const void *bytes, size_t len);

#endif
