/*
 * die.h - walks over DWARF's entries (DIEs).
 *
 * In a damaged file an entry can be both a child and a sibling of another. Each walk goes forward
 * in the file, and counts the visited entries down from a budget.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "dwarf/debug_info.h"

#define PEV_DIES_MAX (UINT32_C(1) << 22) /* the budget for a unit */
#define PEV_FILE_DIES_MAX (UINT32_C(1) << 26) /* the budget for all units of a file */

/* dwarf_siblingof(), forward only: 0, or another value at the end. */
int pev_die_next(Dwarf_Die *die);
/*
 * Returns the path of the source file whose number an attribute has (DW_AT_decl_file,
 * DW_AT_call_file), or NULL.
 */
const char *pev_die_file(Dwarf_Die *die, unsigned attribute);
/* Returns the linkage name of a function, which may be mangled, or its name, or NULL. */
const char *pev_die_linkage_name(Dwarf_Die *die);
/* Reads the value of a constant (DW_AT_const_value). False if it is not a number. */
bool pev_die_constant(Dwarf_Attribute *attribute, int64_t *value);
/* True for the parts of a program whose children have names of their own: namespaces, modules. */
bool pev_die_is_space(Dwarf_Die *die);
/* Finds the function, out of line, that contains the address. */
bool pev_die_find_function(Dwarf_Die *unit, uint64_t address, Dwarf_Die *function, uint32_t *left);
/* Finds the blocks and inlined functions at the address, the outermost first. Returns how many. */
int pev_die_find_scopes(const Dwarf_Die *function, uint64_t address, Dwarf_Die *scopes, int max,
			uint32_t *left);
/* Finds the unit with code at the address. */
bool pev_die_find_unit(const struct pev_debug_info *info, uint64_t address, Dwarf_Die *unit);
