/*
 * line_address.c - the code of a source line; see line_address.h.
 *
 * The compiler spreads a line over several ranges: a loop's head has one before the loop and one at
 * its end, and optimized code is interleaved. Only the first address in each function becomes a
 * place, as in gdb. Code of an inlined function may also lie beside its range, in the caller's;
 * there its variables are out of scope, so the function that the line is in comes first.
 * Contract: DWARF 5, section 6.2.
 */
#include "dwarf/line_address.h"

#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "dwarf/die.h"

enum {
	UNITS_MAX = 1 << 20,
	ADDRESSES_MAX = 1 << 12,
	NAMES_MAX = 1 << 16, /* compared to find the nearest name */
	SCOPES_MAX = 256,
	SPACES_MAX = 64,
	ROWS_MAX = 1 << 30, /* visited rows and files: units can share them */
};

/* ---- names of files ---- */

/* A longer path is not one that a compiler has opened. */
static bool has_name(const char *path, const char *name)
{
	const size_t path_len = strnlen(path, PATH_MAX), len = strlen(name);

	return len && path_len >= len && path_len < PATH_MAX &&
	       strcmp(path + path_len - len, name) == 0 &&
	       (path_len == len || path[path_len - len - 1] == '/');
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- the rows of a unit ---- */

struct search {
	const struct pev_debug_info *info;
	const char *file;
	int line;
	struct pev_line_addresses *out;
	const char *owner_file; /* in which owner_line was searched */
	int owner_line; /* where the function that the line is in begins; 0: unknown */
	uint32_t left; /* DIEs to visit */
	uint32_t rows_left;
	const char **names; /* of source files */
	size_t nr_names;
};

/* True if the source of the function begins at that line of the file. */
static bool is_declared_at(Dwarf_Die *function, const char *file, int line)
{
	const char *own = pev_die_file(function, DW_AT_decl_file);
	int number;

	return own && dwarf_decl_line(function, &number) == 0 && number == line &&
	       strcmp(own, file) == 0;
}

/* The function or inlined copy at an address; left as it is if it is unknown. */
static void find_instance(struct search *search, Dwarf_Die *unit, struct pev_line_address *place)
{
	Dwarf_Die function, scopes[SCOPES_MAX];
	int nr;

	if (!pev_die_find_function(unit, place->address, &function, &search->left))
		return;
	place->outer_die = dwarf_dieoffset(&function);
	nr = pev_die_find_scopes(&function, place->address, scopes, SCOPES_MAX, &search->left);
	while (nr-- > 0) {
		if (dwarf_tag(&scopes[nr]) == DW_TAG_inlined_subroutine) {
			function = scopes[nr];
			break;
		}
	}
	place->function_die = dwarf_dieoffset(&function);
	place->function = pev_die_linkage_name(&function);
	place->is_own = is_declared_at(&function, place->file, search->owner_line);
}

/* A row in the function that the line is in is better, then one that starts a statement. */
static int rank_place(const struct pev_line_address *place)
{
	return 2 * place->is_own + place->is_statement;
}

static int add_address(struct search *search, const struct pev_line_address *place)
{
	struct pev_line_addresses *out = search->out;

	for (size_t i = 0; i < out->nr; i++) {
		struct pev_line_address *known = &out->list[i];
		const int better = rank_place(place) - rank_place(known);

		if (known->address != place->address &&
		    (!place->function_die || known->function_die != place->function_die))
			continue;
		if (better > 0 || (better == 0 && place->address < known->address))
			*known = *place;
		return 0;
	}
	if (out->nr == ADDRESSES_MAX)
		return 0;
	if (!pev_list_reserve(&out->list, &out->cap, out->nr + 1, sizeof(*out->list)))
		return -ENOMEM;
	out->list[out->nr++] = *place;
	return 0;
}

/* True if the function out of line, or a copy in it, has code of its own at the line. */
static bool has_own_code(const struct pev_line_addresses *out, uint64_t outer_die)
{
	for (size_t i = 0; i < out->nr; i++)
		if (out->list[i].is_own && out->list[i].outer_die == outer_die)
			return true;
	return false;
}

/* Keeps the places in the function that the line is in; elsewhere what starts a statement. */
static void drop_others(struct pev_line_addresses *out)
{
	size_t nr = 0;

	for (size_t i = 0; i < out->nr; i++) {
		struct pev_line_address *one = &out->list[i];

		one->is_kept = one->is_own ||
			       (one->is_statement && !has_own_code(out, one->outer_die));
	}
	for (size_t i = 0; i < out->nr; i++)
		if (out->list[i].is_kept)
			out->list[nr++] = out->list[i];
	out->nr = nr;
}

/* Finds the line of the last function that is declared at or before the wanted line. */
static void find_owner(struct search *search, Dwarf_Die *parent, const char *file, int depth)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die), line;

	for (; more == 0 && search->left > 0; more = pev_die_next(&die), --search->left) {
		const int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram && dwarf_decl_line(&die, &line) == 0 &&
		    line > search->owner_line && line <= search->line &&
		    is_declared_at(&die, file, line))
			search->owner_line = line;
		else if ((pev_die_is_space(&die) || tag == DW_TAG_class_type ||
			  tag == DW_TAG_structure_type) &&
			 depth < SPACES_MAX)
			find_owner(search, &die, file, depth + 1);
	}
}

static void note_near_line(struct pev_line_addresses *out, int wanted, int line)
{
	if (line < wanted && line > out->before)
		out->before = line;
	if (line > wanted && (out->after == 0 || line < out->after))
		out->after = line;
}

/* Returns the line of a row, 0 if it has no code. */
static int read_row(Dwarf_Line *row, struct pev_line_address *place)
{
	bool is_end = true;
	Dwarf_Addr address;
	int number;

	*place = (struct pev_line_address){ .address = 0 };
	if (!row || dwarf_lineendsequence(row, &is_end) != 0 || is_end ||
	    dwarf_linebeginstatement(row, &place->is_statement) != 0 ||
	    dwarf_lineno(row, &number) != 0 || number <= 0 || dwarf_lineaddr(row, &address) != 0)
		return 0;
	place->address = address;
	place->file = dwarf_linesrc(row, NULL, NULL);
	return place->file ? number : 0;
}

static int search_rows(struct search *search, Dwarf_Die *unit)
{
	const char *file = NULL;
	bool is_wanted = false;
	Dwarf_Lines *rows;
	size_t nr;

	if (dwarf_getsrclines(unit, &rows, &nr) != 0)
		return 0;
	search->owner_file = NULL;
	for (size_t i = 0; i < nr && search->left > 0 && search->rows_left > 0; i++) {
		struct pev_line_address place;
		const int number = read_row(dwarf_onesrcline(rows, i), &place);

		search->rows_left--;
		if (!number)
			continue;
		if (place.file != file) {
			file = place.file;
			is_wanted = has_name(file, search->file);
		}
		if (is_wanted && place.is_statement)
			note_near_line(search->out, search->line, number);
		if (!is_wanted || number != search->line)
			continue;
		if (file != search->owner_file) {
			search->owner_file = file;
			search->owner_line = 0;
			find_owner(search, unit, file, 0);
		}
		find_instance(search, unit, &place);
		if (add_address(search, &place) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Looks at the names of a unit's files. Returns true if one is wanted. */
static bool search_files(struct search *search, Dwarf_Die *unit)
{
	bool is_wanted = false;
	Dwarf_Files *files;
	size_t nr;

	if (dwarf_getsrcfiles(unit, &files, &nr) != 0)
		return false;
	for (size_t i = 0; i < nr && search->rows_left > 0; i++, search->rows_left--) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);

		if (!path)
			continue;
		is_wanted = is_wanted || has_name(path, search->file);
		if (search->names && search->nr_names < NAMES_MAX)
			search->names[search->nr_names++] = last_part(path);
	}
	return is_wanted;
}

static int search_units(struct search *search)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	for (int n = 0; n < UNITS_MAX && search->rows_left > 0; n++) {
		if (dwarf_get_units(pev_debug_info_dwarf(search->info), cu, &cu, NULL, NULL, &unit,
				    NULL) != 0)
			break;
		/* A unit of a type has the lines of a unit with code, and no functions. */
		if (dwarf_tag(&unit) == DW_TAG_type_unit || !search_files(search, &unit))
			continue;
		search->out->is_known = true;
		if (search_rows(search, &unit) < 0)
			return -ENOMEM;
	}
	return 0;
}

int pev_line_addresses_find(const struct pev_debug_info *info, const char *file, int line,
			    struct pev_line_addresses *addresses)
{
	struct search search = {
		.info = info,
		.file = file,
		.line = line,
		.out = addresses,
		.left = PEV_FILE_DIES_MAX,
		.rows_left = ROWS_MAX,
		.names = malloc(sizeof(*search.names) * NAMES_MAX),
	};
	int rc;

	*addresses = (struct pev_line_addresses){ .list = NULL };
	rc = search_units(&search);
	if (!addresses->is_known && search.names)
		addresses->nearest = pev_nearest(last_part(file), search.names, search.nr_names);
	free(search.names);
	if (rc < 0)
		pev_line_addresses_free(addresses);
	else
		drop_others(addresses);
	return rc;
}

void pev_line_addresses_free(struct pev_line_addresses *addresses)
{
	free(addresses->list);
	*addresses = (struct pev_line_addresses){ .list = NULL };
}

/* ---- the line of a function ---- */

static bool is_named(Dwarf_Die *die, const char *name)
{
	const char *own = dwarf_diename(die), *linked;

	if (own && strcmp(own, name) == 0)
		return true;
	linked = pev_die_linkage_name(die);
	return linked && strcmp(linked, name) == 0;
}

/* Keeps the line of a function that is defined here. */
static void note_function(Dwarf_Die *die, const char *name, struct pev_function_line *found)
{
	const char *file;
	int line;

	if (dwarf_hasattr(die, DW_AT_declaration) || !is_named(die, name))
		return;
	file = pev_die_file(die, DW_AT_decl_file);
	if (!file || dwarf_decl_line(die, &line) != 0 || line <= 0)
		return;
	if (!found->file) {
		found->file = file;
		found->line = line;
	} else if (found->line != line || strcmp(found->file, file) != 0) {
		found->others++;
	}
}

static void search_functions(Dwarf_Die *parent, const char *name, int depth, uint32_t *left,
			     struct pev_function_line *found)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && *left > 0; more = pev_die_next(&die), --*left) {
		if (dwarf_tag(&die) == DW_TAG_subprogram)
			note_function(&die, name, found);
		else if (pev_die_is_space(&die) && depth < SPACES_MAX)
			search_functions(&die, name, depth + 1, left, found);
	}
}

void pev_function_line_find(const struct pev_debug_info *info, const char *name,
			    struct pev_function_line *found)
{
	uint32_t left = PEV_FILE_DIES_MAX;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	*found = (struct pev_function_line){ .file = NULL };
	for (int n = 0; n < UNITS_MAX && left > 0; n++) {
		if (dwarf_get_units(pev_debug_info_dwarf(info), cu, &cu, NULL, NULL, &unit, NULL))
			break;
		search_functions(&unit, name, 0, &left, found);
	}
}
