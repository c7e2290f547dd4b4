/*
 * kallsyms.h - finds the kernel's symbol at an address, from /proc/kallsyms.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sys.h"

struct pev_kallsyms; /* opaque; owns its text */

/*
 * Reads the running kernel's symbols: functions and data, modules included.
 * Returns -EACCES if the kernel shows every address as 0 (kernel.kptr_restrict or
 * perf_event_paranoid; lua/perfev/base/host_rights.lua finds out which).
 */
int pev_kallsyms_kernel(struct pev_kallsyms **symbols, const struct pev_sys *sys,
			struct pev_err *err);
/* The same from a text, such as the copy that perf keeps with a recording. Copies the text. */
int pev_kallsyms_parse(struct pev_kallsyms **symbols, const char *text, size_t len,
		       struct pev_err *err);
void pev_kallsyms_free(struct pev_kallsyms *symbols);

/*
 * Returns the name of the function at addr, its start and its module (NULL: the kernel itself).
 * Returns NULL if addr is below all functions, in data, or far beyond the last function of a
 * module. Borrowed from symbols.
 */
const char *pev_kallsyms_function(const struct pev_kallsyms *symbols, uint64_t addr,
				  uint64_t *start, const char **module);
/* Returns the address of the first symbol of that name, or 0. Searches linearly. */
uint64_t pev_kallsyms_address(const struct pev_kallsyms *symbols, const char *name);

/* Returns the name of the symbol at or below addr, and its start; or NULL. Borrowed. */
const char *pev_kallsyms_find(const struct pev_kallsyms *symbols, uint64_t addr, uint64_t *start);
