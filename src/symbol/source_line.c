/*
 * source_line.c - lines and inlined functions by DWARF; see source_line.h.
 *
 * libdw reads it. The compile unit of an address is found by the units' own ranges, because not
 * every compiler writes .debug_aranges. Contract: DWARF 5, section 3.3.8 (inlined
 * subroutines) and 6.2 (lines).
 */
#include "symbol/source_line.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	UNITS_MAX = 1 << 20,
	RANGES_MAX = 1 << 22,
	SCOPES_MAX = 256,
	SPACES_MAX = 64,
	DIES_MAX = 1 << 22,
};

struct range {
	uint64_t start, end;
	Dwarf_Off unit;         /* of its DIE */
};

struct pev_source_lines {
	Elf *elf;
	Dwarf *dwarf;
	Elf *shared_elf;        /* the supplement; empty_file unless supplied is set */
	Dwarf *shared;
	bool supplied;
	struct range *ranges;   /* sorted by start */
	size_t nr;
	uint32_t cap;
};

/* ---- the supplement ---- */

/* An ELF file with one debug section of one byte, which is not valid DWARF. */
struct empty_file {
	Elf64_Ehdr header;
	Elf64_Shdr sections[3];
	char names[24];
};

static const struct empty_file empty = {
	.header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
			     __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? ELFDATA2MSB : ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_REL,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shoff = offsetof(struct empty_file, sections),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 1,
	},
	.sections[1] = { .sh_name = 1, .sh_type = SHT_STRTAB, .sh_addralign = 1,
			 .sh_offset = offsetof(struct empty_file, names), .sh_size = 24 },
	.sections[2] = { .sh_name = 11, .sh_type = SHT_PROGBITS, .sh_addralign = 1,
			 .sh_offset = offsetof(struct empty_file, names), .sh_size = 1 },
	.names = "\0.shstrtab\0.debug_line",
};

static int open_supplement(struct pev_source_lines *source, const void *image, size_t len)
{
	Elf *elf = elf_memory((char *)(uintptr_t)image, len);
	Dwarf *dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;

	if (!dwarf) {
		elf_end(elf);
		return -ENOEXEC;
	}
	dwarf_setalt(source->dwarf, dwarf);
	dwarf_end(source->shared);
	elf_end(source->shared_elf);
	source->shared_elf = elf;
	source->shared = dwarf;
	return 0;
}

/*
 * Without a supplement libdw opens the file that .gnu_debugaltlink names (dwarf_getalt.c,
 * find_debug_altlink()) without a check: a FIFO blocks it for ever. The caller decides which file
 * is read; until then the supplement is an empty file.
 */
static int forbid_opening(struct pev_source_lines *source)
{
	return open_supplement(source, &empty, sizeof(empty));
}

/* ---- units ---- */

static int add_range(struct pev_source_lines *source, uint64_t start, uint64_t end, Dwarf_Off unit)
{
	if (end <= start || source->nr >= RANGES_MAX)
		return 0;
	if (!pev_list_reserve(&source->ranges, &source->cap, source->nr + 1,
			      sizeof(*source->ranges)))
		return -ENOMEM;
	source->ranges[source->nr++] = (struct range){ start, end, unit };
	return 0;
}

static int add_unit_ranges(struct pev_source_lines *source, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0)
		if (add_range(source, start, end, dwarf_dieoffset(unit)) < 0)
			return -ENOMEM;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int add_units(struct pev_source_lines *source)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	for (int n = 0; n < UNITS_MAX; n++) {
		if (dwarf_get_units(source->dwarf, cu, &cu, NULL, NULL, &unit, NULL) != 0)
			break;
		if (add_unit_ranges(source, &unit) < 0)
			return -ENOMEM;
	}
	if (source->nr)
		qsort(source->ranges, source->nr, sizeof(*source->ranges), compare_ranges);
	return 0;
}

int pev_source_lines_open(struct pev_source_lines **out, const void *image, size_t len,
			  struct pev_err *err)
{
	struct pev_source_lines *source = calloc(1, sizeof(*source));
	int rc;

	if (!source)
		return pev_fail(err, -ENOMEM, "no memory for its lines");
	elf_version(EV_CURRENT);
	source->elf = elf_memory((char *)(uintptr_t)image, len);
	if (source->elf)
		source->dwarf = dwarf_begin_elf(source->elf, DWARF_C_READ, NULL);
	rc = source->dwarf ? forbid_opening(source) : -ENOEXEC;
	if (rc == 0)
		rc = add_units(source);
	if (rc < 0) {
		pev_source_lines_close(source);
		return pev_fail(err, rc, "it has no readable DWARF");
	}
	*out = source;
	return 0;
}

void pev_source_lines_close(struct pev_source_lines *source)
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

bool pev_source_lines_supplement(const struct pev_source_lines *source,
				 struct pev_supplement *supplement)
{
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(source->dwarf, &supplement->name,
						   &supplement->build_id);

	supplement->build_id_len = len > 0 ? (size_t)len : 0;
	return len > 0 && !source->supplied;
}

int pev_source_lines_supply(struct pev_source_lines *source, const void *image, size_t len,
			    struct pev_err *err)
{
	if (source->supplied)
		return pev_fail(err, -EEXIST, "it already has its supplement");
	if (open_supplement(source, image, len) < 0)
		return pev_fail(err, -ENOEXEC, "it has no readable DWARF");
	source->supplied = true;
	return 0;
}

static bool find_unit(const struct pev_source_lines *source, uint64_t address, Dwarf_Die *unit)
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

/*
 * Reads where an inlined function was called. Since DWARF 5 number 0 is the first file, and clang
 * uses it; before, it meant no file, which libdw calls "???".
 */
static void read_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct pev_source_place *place)
{
	int file = read_number(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t nr;

	place->line = read_number(inlined, DW_AT_call_line);
	if (!dwarf_hasattr(inlined, DW_AT_call_file) ||
	    dwarf_getsrcfiles(unit, &files, &nr) != 0 || (size_t)file >= nr)
		return;
	place->file = dwarf_filesrc(files, (size_t)file, NULL, NULL);
	if (place->file && strcmp(place->file, "???") == 0)
		place->file = NULL;
}

static const char *find_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return dwarf_diename(die);
}

/* dwarf_siblingof(); in a damaged file the next sibling may lie before this one. */
static int next_sibling(Dwarf_Die *die)
{
	Dwarf_Off at = dwarf_dieoffset(die);
	int more = dwarf_siblingof(die, die);

	return more == 0 && dwarf_dieoffset(die) <= at ? -1 : more;
}

/*
 * Finds the function that contains an address. clang and rustc put functions into namespaces,
 * which dwarf_getscopes() skips because they have no addresses. *left limits how many DIEs are
 * visited: in a damaged file a DIE can be both a child and a sibling of another.
 */
static bool find_function(Dwarf_Die *parent, uint64_t address, Dwarf_Die *function, int depth,
			  uint32_t *left)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && *left > 0; more = next_sibling(&die), --*left) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram && dwarf_haspc(&die, address) > 0) {
			*function = die;
			return true;
		}
		if ((tag == DW_TAG_namespace || tag == DW_TAG_module) && depth < SPACES_MAX &&
		    find_function(&die, address, function, depth + 1, left))
			return true;
	}
	return false;
}

/* Finds the part of a scope that contains the address: an inlined function, or a block. */
static bool find_scope(Dwarf_Die *parent, uint64_t address, Dwarf_Die *scope)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0; more = next_sibling(&die)) {
		if (dwarf_tag(&die) != DW_TAG_subprogram && dwarf_haspc(&die, address) > 0) {
			*scope = die;
			return true;
		}
	}
	return false;
}

/* Finds the functions inlined at the address, the outermost first. Returns how many. */
static int find_inlined(const Dwarf_Die *function, uint64_t address, Dwarf_Die *inlined)
{
	Dwarf_Die scope = *function, inner;
	int nr = 0;

	for (int n = 0; n < SCOPES_MAX && find_scope(&scope, address, &inner); n++) {
		scope = inner;
		if (dwarf_tag(&scope) == DW_TAG_inlined_subroutine)
			inlined[nr++] = scope;
	}
	return nr;
}

/* Fills in places: each has the line at which the one before it was called. */
static int list_places(Dwarf_Die *unit, Dwarf_Die *inlined, int nr, struct pev_source_place *places,
		       int max)
{
	int n = 0;

	while (nr-- > 0 && n + 1 < max) {
		places[n].function = find_name(&inlined[nr]);
		if (!places[n].function)
			places[n].function = "[inlined]";
		n++;
		places[n] = (struct pev_source_place){ 0 };
		read_call(unit, &inlined[nr], &places[n]);
	}
	return n + 1;
}

int pev_source_lines_at(struct pev_source_lines *source, uint64_t address,
			struct pev_source_place *places, int max)
{
	Dwarf_Die unit, function, inlined[SCOPES_MAX];
	uint32_t left = DIES_MAX;

	if (max < 1 || !find_unit(source, address, &unit))
		return 0;
	places[0] = (struct pev_source_place){ 0 };
	read_line(&unit, address, &places[0]);
	if (!find_function(&unit, address, &function, 0, &left))
		return places[0].file ? 1 : 0;
	return list_places(&unit, inlined, find_inlined(&function, address, inlined), places, max);
}
