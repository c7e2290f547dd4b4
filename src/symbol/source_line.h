/*
 * source_line.h - where in its source an address of a file was written, and what was inlined there.
 */
#ifndef PEV_SOURCE_LINE_H
#define PEV_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_source_lines; /* opaque; borrows the file's bytes */

/* One function that an address is in, the innermost first. Borrowed until close. */
struct pev_source_place {
	const char *function; /* mangled where it is; NULL for the last: the symbol table knows */
	const char *file;     /* NULL: not known */
	int line;             /* from 1; 0: not known */
};

/*
 * The DWARF of a program or of its debug file. The bytes are kept by the caller until
 * pev_source_lines_close(). -ENOEXEC: there is none, -ENOMEM.
 */
int pev_source_lines_open(struct pev_source_lines **source, const void *image, size_t len,
			  struct pev_err *err);
void pev_source_lines_close(struct pev_source_lines *source);

/* The file that dwz(1) moved what several debug files share into (DWARF 5, section 7.3.6). */
struct pev_supplement {
	const char *name;     /* a path, from the file's own directory on where it is relative */
	const void *build_id;
	size_t build_id_len;
};

/* Is there one that has not been supplied? Borrowed until close. */
bool pev_source_lines_supplement(const struct pev_source_lines *source,
				 struct pev_supplement *supplement);
/* image stays the caller's until pev_source_lines_close(). Once. -ENOEXEC, -EEXIST, -ENOMEM. */
int pev_source_lines_supply(struct pev_source_lines *source, const void *image, size_t len,
			    struct pev_err *err);

/*
 * The places of an address by the linker: at most max, of which the last is the function
 * that was called and those before it were inlined into the one behind. How many; 0: none.
 */
int pev_source_lines_at(struct pev_source_lines *source, uint64_t address,
			struct pev_source_place *places, int max);

#endif
