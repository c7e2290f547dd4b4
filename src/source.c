/*
 * source.c - lines and inlined functions by DWARF; see source.h.
 *
 * libdw reads it. Which compile unit an address is in comes from the units' own ranges:
 * not every compiler writes .debug_aranges. Contract: DWARF 5, section 3.3.8 (inlined
 * subroutines) and 6.2 (lines).
 */
#include "source.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	UNITS_MAX = 1 << 20,
	RANGES_MAX = 1 << 22,
	SCOPES_MAX = 256,
};

struct range {
	uint64_t start, end;
	Dwarf_Off unit;         /* its DIE */
};

struct pev_source {
	Elf *elf;
	Dwarf *dwarf;
	Elf *shared_elf;        /* of the supplement; NULL: none was supplied */
	Dwarf *shared;
	struct range *ranges;   /* sorted by start */
	size_t nr, cap;
};

/* ---- units ---- */

static int add_range(struct pev_source *source, uint64_t start, uint64_t end, Dwarf_Off unit)
{
	struct range *more;
	size_t cap = source->cap ? source->cap * 2 : 256;

	if (end <= start || source->nr >= RANGES_MAX)
		return 0;
	if (source->nr == source->cap) {
		more = realloc(source->ranges, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		source->ranges = more;
		source->cap = cap;
	}
	source->ranges[source->nr++] = (struct range){ start, end, unit };
	return 0;
}

static int take_unit(struct pev_source *source, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0)
		if (add_range(source, start, end, dwarf_dieoffset(unit)) < 0)
			return -ENOMEM;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int take_units(struct pev_source *source)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	for (int n = 0; n < UNITS_MAX; n++) {
		if (dwarf_get_units(source->dwarf, cu, &cu, NULL, NULL, &unit, NULL) != 0)
			break;
		if (take_unit(source, &unit) < 0)
			return -ENOMEM;
	}
	if (source->nr)
		qsort(source->ranges, source->nr, sizeof(*source->ranges), compare);
	return 0;
}

int pev_source_open(struct pev_source **out, const void *image, size_t len, struct pev_err *err)
{
	struct pev_source *source = calloc(1, sizeof(*source));
	int rc;

	if (!source)
		return pev_fail(err, -ENOMEM, "no memory for its lines");
	elf_version(EV_CURRENT);
	source->elf = elf_memory((char *)(uintptr_t)image, len);
	if (source->elf)
		source->dwarf = dwarf_begin_elf(source->elf, DWARF_C_READ, NULL);
	rc = source->dwarf ? take_units(source) : -ENOEXEC;
	if (rc < 0) {
		pev_source_close(source);
		return pev_fail(err, rc, "it has no DWARF that can be read");
	}
	*out = source;
	return 0;
}

void pev_source_close(struct pev_source *source)
{
	if (!source)
		return;
	if (source->dwarf)
		dwarf_end(source->dwarf);
	if (source->shared)
		dwarf_end(source->shared);
	if (source->shared_elf)
		elf_end(source->shared_elf);
	if (source->elf)
		elf_end(source->elf);
	free(source->ranges);
	free(source);
}

bool pev_source_supplement(const struct pev_source *source, struct pev_supplement *supplement)
{
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(source->dwarf, &supplement->name,
						   &supplement->build_id);

	supplement->build_id_len = len > 0 ? (size_t)len : 0;
	return len > 0 && !source->shared;
}

int pev_source_supply(struct pev_source *source, const void *image, size_t len,
		      struct pev_err *err)
{
	Elf *elf;

	if (source->shared)
		return pev_fail(err, -EEXIST, "it has its supplement");
	elf = elf_memory((char *)(uintptr_t)image, len);
	if (elf)
		source->shared = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!source->shared) {
		elf_end(elf);
		return pev_fail(err, -ENOEXEC, "it has no DWARF that can be read");
	}
	source->shared_elf = elf;
	dwarf_setalt(source->dwarf, source->shared);
	return 0;
}

static bool find_unit(const struct pev_source *source, uint64_t address, Dwarf_Die *unit)
{
	size_t low = 0, high = source->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (source->ranges[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || address >= source->ranges[low - 1].end)
		return false;
	return dwarf_offdie(source->dwarf, source->ranges[low - 1].unit, unit) != NULL;
}

/* ---- places ---- */

static void take_line(Dwarf_Die *unit, uint64_t address, struct pev_place *place)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);

	if (!line)
		return;
	place->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &place->line) != 0 || place->line < 0)
		place->line = 0;
}

static int number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
	    value > INT32_MAX)
		return 0;
	return (int)value;
}

/* Where an inlined function was called. */
static void take_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct pev_place *place)
{
	int file = number(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t nr;

	place->line = number(inlined, DW_AT_call_line);
	if (file > 0 && dwarf_getsrcfiles(unit, &files, &nr) == 0 && (size_t)file < nr)
		place->file = dwarf_filesrc(files, (size_t)file, NULL, NULL);
}

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return dwarf_diename(die);
}

/* From the innermost scope outwards, as it stands in the function's own code. */
static int walk(Dwarf_Die *unit, Dwarf_Die *scopes, int nr, struct pev_place *places, int max)
{
	int n = 0;

	for (int i = 0; i < nr && i < SCOPES_MAX && n + 1 < max; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag == DW_TAG_subprogram)
			break;
		if (tag != DW_TAG_inlined_subroutine)
			continue;
		places[n].function = name_of(&scopes[i]);
		if (!places[n].function)
			places[n].function = "[inlined]";
		n++;
		places[n] = (struct pev_place){ 0 };
		take_call(unit, &scopes[i], &places[n]);
	}
	return n + 1;
}

int pev_source_at(struct pev_source *source, uint64_t address, struct pev_place *places, int max)
{
	Dwarf_Die unit, *scopes, *own;
	int nr;

	if (max < 1 || !find_unit(source, address, &unit))
		return 0;
	places[0] = (struct pev_place){ 0 };
	take_line(&unit, address, &places[0]);
	nr = dwarf_getscopes(&unit, address, &scopes);
	if (nr <= 0)
		return places[0].file ? 1 : 0;
	/* Behind an inlined one they are those of where it was written, not of where it is. */
	nr = dwarf_getscopes_die(&scopes[0], &own);
	free(scopes);
	if (nr <= 0)
		return 1;
	nr = walk(&unit, own, nr, places, max);
	free(own);
	return nr;
}
