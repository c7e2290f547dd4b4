/*
 * line_address.h - finds the code of a source line.
 */
#pragma once

#include "dwarf/debug_info.h"

/*
 * The first address of a line in one function. A function that was inlined is as many functions
 * as it has copies. Strings are borrowed until pev_debug_info_close().
 */
struct pev_line_address {
	uint64_t address;       /* the linker's */
	uint64_t function_die;  /* identifies the function or the inlined copy; 0: unknown */
	uint64_t outer_die;     /* the function out of line that contains it; 0: unknown */
	const char *function;   /* may be mangled; NULL: unknown */
	const char *file;       /* its path, as the compiler wrote it */
	bool is_own;            /* the line is in the source of this function */
	bool is_kept;           /* used by the search */
	bool is_statement;      /* a statement begins here */
};

struct pev_line_addresses {
	struct pev_line_address *list; /* owned; one for each function */
	size_t nr;
	uint32_t cap;
	bool is_known;          /* a source file has the name */
	int before, after;      /* the nearest lines of it with code; 0: none */
	const char *nearest;    /* if no source file has the name: the nearest one, or NULL */
};

/*
 * Finds the code of a line. A source file has the name if its path is the name or ends with
 * a slash and the name. Returns 0, or -ENOMEM.
 */
int pev_line_addresses_find(const struct pev_debug_info *info, const char *file, int line,
			    struct pev_line_addresses *addresses);
void pev_line_addresses_free(struct pev_line_addresses *addresses);

struct pev_function_line {
	const char *file;       /* NULL: no function of that name is declared with a line */
	int line;
	uint32_t others;        /* functions of the same name that are declared at other lines */
};

/* Finds where a function is declared; name: of the source or of the linker. */
void pev_function_line_find(const struct pev_debug_info *info, const char *name,
			    struct pev_function_line *found);
