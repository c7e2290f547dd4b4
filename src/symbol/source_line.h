/*
 * source_line.h - finds the source line of an address, and the functions inlined there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_source_lines; /* opaque; borrows the file's bytes */

/* One of the functions at an address, the innermost first. Borrowed until close. */
struct pev_source_place {
	const char *function; /* may be mangled; NULL for the last: ask the symbol table */
	const char *file;     /* NULL: unknown */
	int line;             /* from 1; 0: unknown */
};

/*
 * Reads the DWARF of a program or of its debug file. The caller keeps the bytes until
 * pev_source_lines_close(). Returns -ENOEXEC if the file has no DWARF, or -ENOMEM.
 */
int pev_source_lines_open(struct pev_source_lines **source, const void *image, size_t len,
			  struct pev_err *err);
void pev_source_lines_close(struct pev_source_lines *source);

/* A file to which dwz(1) moved the parts that debug files share (DWARF 5, section 7.3.6). */
struct pev_supplement {
	const char *name;     /* a path; a relative one starts at the file's own directory */
	const void *build_id;
	size_t build_id_len;
};

/* True if the file needs a supplement that was not supplied. Borrowed until close. */
bool pev_source_lines_supplement(const struct pev_source_lines *source,
				 struct pev_supplement *supplement);
/*
 * Supplies its bytes, once; the caller keeps them until pev_source_lines_close(). Returns
 * -ENOEXEC, -EEXIST or -ENOMEM.
 */
int pev_source_lines_supply(struct pev_source_lines *source, const void *image, size_t len,
			    struct pev_err *err);

/*
 * Finds at most max places of a linker's address. Each function was inlined into the
 * next one; the last one was called. Returns how many there are.
 */
int pev_source_lines_at(struct pev_source_lines *source, uint64_t address,
			struct pev_source_place *places, int max);
