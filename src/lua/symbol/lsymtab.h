/*
 * lsymtab.h - the userdata perfev.symtab. lsymtab.c is a shared object of its own, whose functions
 * the core cannot call by their names; the userdata has their addresses.
 */
#pragma once

#include <stdbool.h>

#include "dwarf/debug_info.h"
#include "symbol/symtab.h"

#define L_SYMTAB_TYPENAME "perfev.symtab"

struct l_symtab {
	struct pev_symtab *table;        /* owned; NULL once closed */
	struct pev_debug_info *debug_info; /* owned; user values 1 and 2: its bytes, a supplement */
	/* pev_symtab_find_frame() */
	bool (*find_frame)(const struct pev_symtab *table, uint64_t offset, bool returns,
			   bool unwound, struct pev_symtab_place *place);
	char *(*demangle)(const char *name); /* pev_demangle() */
	bool is_partial; /* the Lua module may find names that the table lacks */
};
