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
/* The same of a text like that file's, len bytes, which are copied. */
int pev_symbols_text(struct pev_symbols **symbols, const char *text, size_t len,
		     struct pev_err *err);
void pev_symbols_free(struct pev_symbols *symbols);

/* The symbol at or below addr and where it begins, or NULL. Borrowed from symbols. */
const char *pev_symbols_find(const struct pev_symbols *symbols, uint64_t addr, uint64_t *start);
/* Where the symbol of that name is; 0: nowhere. Looks at them all. */
uint64_t pev_symbols_address(const struct pev_symbols *symbols, const char *name);

#endif
