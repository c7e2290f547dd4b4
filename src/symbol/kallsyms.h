/*
 * kallsyms.h - kernel address -> name, from /proc/kallsyms.
 */
#ifndef PEV_KALLSYMS_H
#define PEV_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sys.h"

struct pev_kallsyms; /* opaque; owns the text it points into */

/*
 * Read the running kernel's symbols, functions and data, modules included.
 * -EACCES when the kernel shows every address as 0 (kernel.kptr_restrict).
 */
int pev_kallsyms_kernel(struct pev_kallsyms **symbols, const struct pev_sys *sys,
			struct pev_err *err);
/* The same from text that somebody else has read, as perf keeps it with a recording; copied. */
int pev_kallsyms_parse(struct pev_kallsyms **symbols, const char *text, size_t len,
		       struct pev_err *err);
void pev_kallsyms_free(struct pev_kallsyms *symbols);

/*
 * The function that addr is in, where it begins and its module, NULL for the kernel itself;
 * or NULL: below all, behind data, or far behind a module's last. Borrowed from symbols.
 */
const char *pev_kallsyms_function(const struct pev_kallsyms *symbols, uint64_t addr,
				  uint64_t *start, const char **module);
/* Where a symbol is, the first of that name; 0: there is none. Looks at them all. */
uint64_t pev_kallsyms_address(const struct pev_kallsyms *symbols, const char *name);

/* The symbol at or below addr and where it begins, or NULL. Borrowed from symbols. */
const char *pev_kallsyms_find(const struct pev_kallsyms *symbols, uint64_t addr, uint64_t *start);

#endif
