/*
 * symbol.h - kernel address -> name, from /proc/kallsyms.
 */
#ifndef PEV_SYMBOL_H
#define PEV_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "sys.h"

struct pev_symbols; /* opaque; owns the text it points into */

/*
 * Read the running kernel's symbols, functions and data, modules included.
 * -EACCES when the kernel shows every address as 0 (kernel.kptr_restrict).
 */
int pev_symbols_kernel(struct pev_symbols **symbols, const struct pev_sys *sys,
		       struct pev_err *err);
/* The same from text that somebody else has read, as perf keeps it with a recording; copied. */
int pev_symbols_parse(struct pev_symbols **symbols, const char *text, size_t len,
		      struct pev_err *err);
void pev_symbols_free(struct pev_symbols *symbols);

/*
 * The function that addr is in, where it begins and its module, NULL for the kernel itself;
 * or NULL: below all, behind data, or far behind a module's last. Borrowed from symbols.
 */
const char *pev_symbols_function(const struct pev_symbols *symbols, uint64_t addr,
				 uint64_t *start, const char **module);
/* Where a symbol is, the first of that name; 0: there is none. Looks at them all. */
uint64_t pev_symbols_address(const struct pev_symbols *symbols, const char *name);

/* The symbol at or below addr and where it begins, or NULL. Borrowed from symbols. */
const char *pev_symbols_find(const struct pev_symbols *symbols, uint64_t addr, uint64_t *start);

#endif
