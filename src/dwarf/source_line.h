/*
 * source_line.h - finds the source line of an address, and the functions inlined there.
 */
#pragma once

#include "dwarf/debug_info.h"

/* One of the functions at an address, the innermost first. Borrowed until close. */
struct pev_source_place {
	const char *function; /* may be mangled; NULL for the last: ask the symbol table */
	const char *file;     /* NULL: unknown */
	int line;             /* from 1; 0: unknown */
};

/*
 * Finds at most max places of a linker's address. Each function was inlined into the
 * next one; the last one was called. Returns how many there are.
 */
int pev_source_places_at(const struct pev_debug_info *info, uint64_t address,
			 struct pev_source_place *places, int max);
