/*
 * source_line.c - lines and inlined functions of an address by DWARF; see source_line.h.
 *
 * Contract: DWARF 5, section 3.3.8 (inlined subroutines) and 6.2 (lines).
 */
#include "dwarf/source_line.h"

#include <dwarf.h>

#include "dwarf/die.h"

enum { SCOPES_MAX = 256 };

static void read_line(Dwarf_Die *unit, uint64_t address, struct pev_source_place *place)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);

	if (!line)
		return;
	place->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &place->line) != 0 || place->line < 0)
		place->line = 0;
}

static int read_number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
	    value > INT32_MAX)
		return 0;
	return (int)value;
}

/* Reads where an inlined function was called. */
static void read_call(Dwarf_Die *inlined, struct pev_source_place *place)
{
	place->line = read_number(inlined, DW_AT_call_line);
	place->file = pev_die_file(inlined, DW_AT_call_file);
}

/* Finds the functions inlined at the address, the outermost first. Returns how many. */
static int find_inlined(const Dwarf_Die *function, uint64_t address, Dwarf_Die *inlined,
			uint32_t *left)
{
	int nr = 0, scopes = pev_die_find_scopes(function, address, inlined, SCOPES_MAX, left);

	for (int i = 0; i < scopes; i++)
		if (dwarf_tag(&inlined[i]) == DW_TAG_inlined_subroutine)
			inlined[nr++] = inlined[i];
	return nr;
}

/* Fills in places: each has the line at which the one before it was called. */
static int list_places(Dwarf_Die *inlined, int nr, struct pev_source_place *places, int max)
{
	int n = 0;

	while (nr-- > 0 && n + 1 < max) {
		places[n].function = pev_die_linkage_name(&inlined[nr]);
		if (!places[n].function)
			places[n].function = "[inlined]";
		n++;
		places[n] = (struct pev_source_place){ 0 };
		read_call(&inlined[nr], &places[n]);
	}
	return n + 1;
}

int pev_source_places_at(const struct pev_debug_info *info, uint64_t address,
			 struct pev_source_place *places, int max)
{
	Dwarf_Die unit, function, inlined[SCOPES_MAX];
	uint32_t left = PEV_DIES_MAX;

	if (max < 1 || !pev_die_find_unit(info, address, &unit))
		return 0;
	places[0] = (struct pev_source_place){ 0 };
	read_line(&unit, address, &places[0]);
	if (!pev_die_find_function(&unit, address, &function, &left))
		return places[0].file ? 1 : 0;
	return list_places(inlined, find_inlined(&function, address, inlined, &left), places, max);
}
