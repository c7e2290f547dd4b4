/*
 * variable.h - the variables in scope at an address: where they are, and their types.
 *
 * Strings are borrowed until pev_debug_info_close().
 */
#pragma once

#include "dwarf/debug_info.h"
#include "dwarf/location.h"

/* Names a type for pev_type_read(); 0: none. */
typedef uint64_t pev_type_ref;

struct pev_variable {
	const char *name;
	pev_type_ref type;
	struct pev_location location;
	bool is_declared;       /* only: another unit defines it */
};

/* A function, and the variables in it that are in scope at an address. */
struct pev_scope {
	const char *function;   /* may be mangled; NULL: unknown */
	uint64_t entry;         /* its first instruction */
	uint64_t after_frame;   /* the first one after it has set up its frame; 0: unknown */
	pev_type_ref returns;
	struct pev_variable *variables; /* owned; the innermost block first */
	size_t nr;
	uint32_t cap;
};

/* Returns 0, -ENOENT without a function at the address, or -ENOMEM. */
int pev_scope_find(const struct pev_debug_info *info, uint64_t address, struct pev_scope *scope);
void pev_scope_free(struct pev_scope *scope);
/* Finds a variable outside of functions, in the unit of the address first. */
bool pev_variable_find_global(const struct pev_debug_info *info, uint64_t address,
			      const char *name, struct pev_variable *variable);

enum pev_type_kind {
	PEV_TYPE_OTHER,         /* void, functions and what is not known */
	PEV_TYPE_NUMBER,        /* an integer, a character, a Boolean, an enumeration */
	PEV_TYPE_FLOAT,
	PEV_TYPE_POINTER,       /* also a reference */
	PEV_TYPE_RECORD,        /* a structure, a union, a class */
	PEV_TYPE_ARRAY
};

#define PEV_TYPE_DIMENSIONS 4

/* A type without its typedefs and qualifiers. */
struct pev_type {
	enum pev_type_kind kind;
	const char *name;       /* of the type itself, NULL: it has none */
	uint64_t size;          /* bytes; 0: unknown */
	bool is_signed, is_reference;
	pev_type_ref target;    /* of a pointer; of an array's elements */
	uint64_t counts[PEV_TYPE_DIMENSIONS]; /* of an array; 0: unknown */
	uint8_t nr_counts;
};

void pev_type_read(const struct pev_debug_info *info, pev_type_ref ref, struct pev_type *type);

struct pev_member {
	const char *name;       /* NULL: a structure or union without a name, or a base class */
	pev_type_ref type;
	uint64_t offset;        /* bytes */
	bool is_bitfield;
};

struct pev_members {
	struct pev_member *list; /* owned */
	size_t nr;
	uint32_t cap;
};

/* Lists the members at known offsets. Returns 0 or -ENOMEM. */
int pev_type_members(const struct pev_debug_info *info, pev_type_ref ref,
		     struct pev_members *members);
void pev_members_free(struct pev_members *members);
