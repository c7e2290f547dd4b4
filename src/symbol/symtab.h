/*
 * symtab.h - finds the function at an address of a program or a library.
 *
 * The table is made from .symtab, or .dynsym if that was stripped; the table in .gnu_debugdata
 * (MiniDebugInfo); the stubs of the PLT, named after the functions they jump to; and the symbols
 * of a separate debug file. It keeps the string tables of these files as they are, and 16 bytes
 * for each symbol. The bytes may be hostile. Threads may find functions at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file_image.h"

#define PEV_SYMTAB_NONE UINT64_MAX /* no such address */

struct pev_symtab; /* opaque; owns its symbols and names */

struct pev_symtab_facts {
	const unsigned char *build_id;
	uint32_t build_id_len;   /* bytes; 0: a file without build-id */
	const char *debuglink;   /* the name of its debug file, or NULL */
	uint32_t debuglink_crc;
	bool symtab;             /* has .symtab: no other file has more names */
	bool minidebug;          /* has .gnu_debugdata, which was read */
	bool debug_info;         /* has .debug_info, for src/dwarf/ */
	uint32_t machine;        /* EM_..., for disassembler.h */
	uint64_t symbols;
	uint64_t bytes;          /* of memory that the symbols and names take */
};

/*
 * Loads what it needs of the image. Returns -ENOEXEC if that is not an ELF file, or -ENOMEM. A
 * file may have no symbols.
 */
int pev_symtab_open(struct pev_symtab **table, struct pev_file_image *image,
		    struct pev_err *err);
void pev_symtab_free(struct pev_symtab *table);
/* Adds the symbols of its separate debug file. On the same errors the table stays as it was. */
int pev_symtab_add(struct pev_symtab *table, struct pev_file_image *image, struct pev_err *err);
void pev_symtab_facts(const struct pev_symtab *table, struct pev_symtab_facts *facts);

/* Returns the linker's address of a byte of the file that is mapped, or PEV_SYMTAB_NONE. */
uint64_t pev_symtab_address(const struct pev_symtab *table, uint64_t offset);
/* Returns the name of the symbol at an address, and its start; or NULL. Borrowed. */
const char *pev_symtab_find(const struct pev_symtab *table, uint64_t address, uint64_t *start);
/* Returns the length of that symbol in bytes, or 0. */
uint64_t pev_symtab_len(const struct pev_symtab *table, uint64_t address);

/* The function of a frame. */
struct pev_symtab_place {
	uint64_t address;        /* of the frame */
	uint64_t call;           /* the address that was looked up: it, or the byte before */
	const char *name;        /* borrowed; NULL: unknown */
	uint64_t start;
};

/*
 * Finds the function of a frame by a byte of the file. A return address may be beyond the end of
 * the calling function, so the byte before it is looked up. An address that is a function's first
 * byte is looked up itself: chains without frame pointers end in words that are not return
 * addresses. In a chain that was unwound by rules, every return address is certain. Returns false
 * if no segment has that byte.
 */
bool pev_symtab_find_frame(const struct pev_symtab *table, uint64_t offset, bool returns,
			   bool unwound, struct pev_symtab_place *place);
