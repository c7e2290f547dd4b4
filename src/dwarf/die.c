/*
 * die.c - walks over DWARF's entries; see die.h.
 */
#include "dwarf/die.h"

#include <dwarf.h>
#include <string.h>

enum { SPACES_MAX = 64 };

int pev_die_next(Dwarf_Die *die)
{
	Dwarf_Off at = dwarf_dieoffset(die);
	int more = dwarf_siblingof(die, die);

	return more == 0 && dwarf_dieoffset(die) <= at ? -1 : more;
}

/*
 * Since DWARF 5 number 0 is the first file, and clang uses it; before, it meant no file, which
 * libdw calls "???". dwarf_decl_file() takes it for no file in both (elfutils 0.188).
 */
const char *pev_die_file(Dwarf_Die *die, unsigned attribute)
{
	Dwarf_Attribute number;
	Dwarf_Files *files;
	Dwarf_Die unit;
	Dwarf_Word n;
	const char *path;
	size_t nr;

	/* The number is of the unit of the attribute, which may be inherited from another one. */
	if (!dwarf_attr_integrate(die, attribute, &number) || dwarf_formudata(&number, &n) != 0 ||
	    !dwarf_cu_die(number.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
	    dwarf_getsrcfiles(&unit, &files, &nr) != 0 || n >= nr)
		return NULL;
	path = dwarf_filesrc(files, (size_t)n, NULL, NULL);
	return path && strcmp(path, "???") != 0 ? path : NULL;
}

const char *pev_die_linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return dwarf_diename(die);
}

/*
 * Bytes of a fixed number have no sign in themselves (DWARF 5, section 7.5.5): gcc writes 200 as
 * DW_FORM_data1, and negative numbers as DW_FORM_sdata. dwarf_formsdata() extends the sign of both.
 */
bool pev_die_constant(Dwarf_Attribute *attribute, int64_t *value)
{
	const unsigned form = dwarf_whatform(attribute);
	Dwarf_Sword with_sign;
	Dwarf_Word number;

	if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
		if (dwarf_formsdata(attribute, &with_sign) != 0)
			return false;
		*value = with_sign;
		return true;
	}
	if (dwarf_formudata(attribute, &number) != 0)
		return false;
	*value = (int64_t)number;
	return true;
}

bool pev_die_is_space(Dwarf_Die *die)
{
	const int tag = dwarf_tag(die);

	return tag == DW_TAG_namespace || tag == DW_TAG_module;
}

/*
 * clang and rustc put functions into namespaces, which dwarf_getscopes() skips because they have
 * no addresses.
 */
static bool find_function(Dwarf_Die *parent, uint64_t address, Dwarf_Die *function, int depth,
			  uint32_t *left)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && *left > 0; more = pev_die_next(&die), --*left) {
		if (dwarf_tag(&die) == DW_TAG_subprogram && dwarf_haspc(&die, address) > 0) {
			*function = die;
			return true;
		}
		if (pev_die_is_space(&die) && depth < SPACES_MAX &&
		    find_function(&die, address, function, depth + 1, left))
			return true;
	}
	return false;
}

bool pev_die_find_function(Dwarf_Die *unit, uint64_t address, Dwarf_Die *function, uint32_t *left)
{
	return find_function(unit, address, function, 0, left);
}

/* Finds the part of a scope that contains the address: an inlined function, or a block. */
static bool find_scope(Dwarf_Die *parent, uint64_t address, Dwarf_Die *scope, uint32_t *left)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && *left > 0; more = pev_die_next(&die), --*left) {
		if (dwarf_tag(&die) != DW_TAG_subprogram && dwarf_haspc(&die, address) > 0) {
			*scope = die;
			return true;
		}
	}
	return false;
}

int pev_die_find_scopes(const Dwarf_Die *function, uint64_t address, Dwarf_Die *scopes, int max,
			uint32_t *left)
{
	Dwarf_Die scope = *function;
	int nr = 0;

	while (nr < max && find_scope(&scope, address, &scopes[nr], left))
		scope = scopes[nr++];
	return nr;
}

bool pev_die_find_unit(const struct pev_debug_info *info, uint64_t address, Dwarf_Die *unit)
{
	uint64_t offset;

	return pev_debug_info_find_unit(info, address, &offset) &&
	       dwarf_offdie(pev_debug_info_dwarf(info), offset, unit) != NULL;
}
