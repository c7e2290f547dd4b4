/*
 * variable.c - variables in scope, and types; see variable.h.
 *
 * Contract: DWARF 5, sections 4.1 (variables) and 5 (types).
 */
#include "dwarf/variable.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "dwarf/die.h"
#include "dwarf/location.h"

enum {
	UNITS_MAX = 1 << 20,
	SCOPES_MAX = 256,
	SPACES_MAX = 64,
	VARIABLES_MAX = 1 << 14,
	MEMBERS_MAX = 1 << 16,
	PEELS_MAX = 64,         /* typedefs and qualifiers around a type */
};

/* ---- references to types ---- */

/* Of the DIE's offset; the bits above it name the section. */
#define IN_SUPPLEMENT (UINT64_C(1) << 63)
#define IN_DEBUG_TYPES (UINT64_C(1) << 62)

static pev_type_ref make_ref(const struct pev_debug_info *info, Dwarf_Die *type)
{
	uint64_t flags = 0;
	Dwarf_Half version;
	uint8_t unit_type;

	if (dwarf_cu_getdwarf(type->cu) != pev_debug_info_dwarf(info))
		flags = IN_SUPPLEMENT;
	/* Before DWARF 5 type units had a section of their own. */
	else if (dwarf_cu_info(type->cu, &version, &unit_type, NULL, NULL, NULL, NULL, NULL) == 0 &&
		 unit_type == DW_UT_type && version < 5)
		flags = IN_DEBUG_TYPES;
	return dwarf_dieoffset(type) | flags;
}

static bool find_type(const struct pev_debug_info *info, pev_type_ref ref, Dwarf_Die *type)
{
	const uint64_t offset = ref & ~(IN_SUPPLEMENT | IN_DEBUG_TYPES);
	Dwarf *dwarf = pev_debug_info_dwarf(info);

	if (ref & IN_SUPPLEMENT)
		dwarf = dwarf_getalt(dwarf);
	if (ref == 0 || !dwarf)
		return false;
	return (ref & IN_DEBUG_TYPES ? dwarf_offdie_types : dwarf_offdie)(dwarf, offset, type) !=
	       NULL;
}

static bool read_type(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) != NULL &&
	       dwarf_formref_die(&attribute, type) != NULL;
}

static pev_type_ref type_of(const struct pev_debug_info *info, Dwarf_Die *die)
{
	Dwarf_Die type;

	return read_type(die, &type) ? make_ref(info, &type) : 0;
}

/* ---- variables ---- */

static bool is_variable(Dwarf_Die *die)
{
	const int tag = dwarf_tag(die);

	return tag == DW_TAG_formal_parameter || tag == DW_TAG_variable;
}

static void read_variable(const struct pev_debug_info *info, Dwarf_Die *die, Dwarf_Die *function,
			  uint64_t address, struct pev_variable *variable)
{
	*variable = (struct pev_variable){
		.name = dwarf_diename(die), .type = type_of(info, die),
		.is_declared = dwarf_hasattr(die, DW_AT_declaration),
	};
	pev_location_read(die, function, address, &variable->location);
}

static int add_variables(const struct pev_debug_info *info, Dwarf_Die *parent, Dwarf_Die *function,
			 uint64_t address, struct pev_scope *scope)
{
	struct pev_variable variable;
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && scope->nr < VARIABLES_MAX; more = pev_die_next(&die)) {
		if (!is_variable(&die))
			continue;
		read_variable(info, &die, function, address, &variable);
		if (!variable.name)
			continue;
		if (!pev_list_reserve(&scope->variables, &scope->cap, scope->nr + 1,
				      sizeof(*scope->variables)))
			return -ENOMEM;
		scope->variables[scope->nr++] = variable;
	}
	return 0;
}

/*
 * Finds the first instruction after the frame is set up: a row that says so, or the second row of
 * the function, as gdb does.
 */
static uint64_t find_after_frame(Dwarf_Die *unit, Dwarf_Die *function, uint64_t entry)
{
	uint64_t second = 0;
	Dwarf_Lines *rows;
	Dwarf_Addr end;
	size_t nr;

	if (dwarf_highpc(function, &end) != 0 || dwarf_getsrclines(unit, &rows, &nr) != 0)
		return 0;
	for (size_t i = 0; i < nr; i++) {
		Dwarf_Line *row = dwarf_onesrcline(rows, i);
		bool is_end, is_after;
		Dwarf_Addr address;

		if (!row || dwarf_lineaddr(row, &address) != 0 || address < entry ||
		    address >= end || dwarf_lineendsequence(row, &is_end) != 0 || is_end)
			continue;
		if (dwarf_lineprologueend(row, &is_after) == 0 && is_after)
			return address;
		if (address > entry && (!second || address < second))
			second = address;
	}
	return second;
}

int pev_scope_find(const struct pev_debug_info *info, uint64_t address, struct pev_scope *scope)
{
	Dwarf_Die unit, function, scopes[SCOPES_MAX];
	uint32_t left = PEV_DIES_MAX;
	int nr, rc = 0;

	*scope = (struct pev_scope){ .variables = NULL };
	if (!pev_die_find_unit(info, address, &unit) ||
	    !pev_die_find_function(&unit, address, &function, &left))
		return -ENOENT;
	scope->function = pev_die_linkage_name(&function);
	scope->returns = type_of(info, &function);
	if (dwarf_entrypc(&function, &scope->entry) != 0)
		scope->entry = 0;
	scope->after_frame = find_after_frame(&unit, &function, scope->entry);
	nr = pev_die_find_scopes(&function, address, scopes, SCOPES_MAX, &left);
	while (rc == 0 && nr-- > 0)
		rc = add_variables(info, &scopes[nr], &function, address, scope);
	if (rc == 0)
		rc = add_variables(info, &function, &function, address, scope);
	if (rc < 0)
		pev_scope_free(scope);
	return rc;
}

void pev_scope_free(struct pev_scope *scope)
{
	free(scope->variables);
	*scope = (struct pev_scope){ .variables = NULL };
}

/* Finds a variable of a unit, with its location if any of that name has one. */
static void search_variables(const struct pev_debug_info *info, Dwarf_Die *parent, const char *name,
			     int depth, uint32_t *left, struct pev_variable *variable)
{
	Dwarf_Die die;
	int more = dwarf_child(parent, &die);

	for (; more == 0 && *left > 0 && !variable->location.nr;
	     more = pev_die_next(&die), --*left) {
		const char *own = is_variable(&die) ? dwarf_diename(&die) : NULL;

		if (own && strcmp(own, name) == 0)
			read_variable(info, &die, NULL, 0, variable);
		else if (pev_die_is_space(&die) && depth < SPACES_MAX)
			search_variables(info, &die, name, depth + 1, left, variable);
	}
}

bool pev_variable_find_global(const struct pev_debug_info *info, uint64_t address,
			      const char *name, struct pev_variable *variable)
{
	uint32_t left = PEV_FILE_DIES_MAX;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	*variable = (struct pev_variable){ .name = NULL };
	if (pev_die_find_unit(info, address, &unit))
		search_variables(info, &unit, name, 0, &left, variable);
	/* A variable that this unit only declares is defined by another one. */
	for (int n = 0; n < UNITS_MAX && left > 0 && !variable->location.nr; n++) {
		if (dwarf_get_units(pev_debug_info_dwarf(info), cu, &cu, NULL, NULL, &unit,
				    NULL) != 0)
			break;
		search_variables(info, &unit, name, 0, &left, variable);
	}
	return variable->name != NULL;
}

/* ---- types ---- */

static bool is_around_type(int tag)
{
	switch (tag) {
	case DW_TAG_typedef:
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
	case DW_TAG_immutable_type:
	case DW_TAG_packed_type:
	case DW_TAG_shared_type:
		return true;
	default:
		return false;
	}
}

/* A type that is only declared may have its definition in a unit of its own, by a signature. */
static bool find_definition(Dwarf_Die *declared, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(declared, DW_AT_signature, &attribute) != NULL &&
	       dwarf_formref_die(&attribute, type) != NULL;
}

/* Removes typedefs and qualifiers. */
static bool peel(Dwarf_Die *type)
{
	for (int n = 0; n < PEELS_MAX; n++) {
		Dwarf_Die inner;

		if (!find_definition(type, &inner)) {
			if (!is_around_type(dwarf_tag(type)))
				return true;
			if (!read_type(type, &inner))
				return false;
		}
		*type = inner;
	}
	return false;
}

static bool read_number(Dwarf_Die *die, unsigned name, uint64_t *value)
{
	Dwarf_Attribute attribute;
	Dwarf_Word word;

	if (!dwarf_attr_integrate(die, name, &attribute) ||
	    dwarf_formudata(&attribute, &word) != 0)
		return false;
	*value = word;
	return true;
}

static void read_base_type(Dwarf_Die *die, struct pev_type *type)
{
	uint64_t encoding = 0;

	read_number(die, DW_AT_encoding, &encoding);
	switch (encoding) {
	case DW_ATE_signed:
	case DW_ATE_signed_char:
		type->is_signed = true;
		type->kind = PEV_TYPE_NUMBER;
		break;
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_boolean:
	case DW_ATE_UTF:
	case DW_ATE_address:
		type->kind = PEV_TYPE_NUMBER;
		break;
	case DW_ATE_float:
	case DW_ATE_decimal_float:
		type->kind = PEV_TYPE_FLOAT;
		break;
	default:
		break;
	}
}

/* gcc and clang write the type of the values; else a negative value makes them signed. */
static void read_enumeration(Dwarf_Die *die, struct pev_type *type)
{
	Dwarf_Die inner, value;
	int more;

	type->kind = PEV_TYPE_NUMBER;
	if (read_type(die, &inner) && peel(&inner)) {
		struct pev_type base = { .kind = PEV_TYPE_OTHER };

		read_base_type(&inner, &base);
		type->is_signed = base.is_signed;
		return;
	}
	more = dwarf_child(die, &value);
	for (; more == 0; more = pev_die_next(&value)) {
		Dwarf_Attribute attribute;
		int64_t number;

		if (dwarf_attr(&value, DW_AT_const_value, &attribute) &&
		    pev_die_constant(&attribute, &number) && number < 0)
			type->is_signed = true;
	}
}

static void read_dimensions(Dwarf_Die *die, struct pev_type *type)
{
	Dwarf_Die range;
	int more = dwarf_child(die, &range);

	type->kind = PEV_TYPE_ARRAY;
	for (; more == 0; more = pev_die_next(&range)) {
		uint64_t count = 0;

		if (dwarf_tag(&range) != DW_TAG_subrange_type)
			continue;
		if (type->nr_counts == PEV_TYPE_DIMENSIONS) {
			type->kind = PEV_TYPE_OTHER;
			return;
		}
		if (!read_number(&range, DW_AT_count, &count) &&
		    read_number(&range, DW_AT_upper_bound, &count))
			count++;
		type->counts[type->nr_counts++] = count;
	}
}

void pev_type_read(const struct pev_debug_info *info, pev_type_ref ref, struct pev_type *type)
{
	Dwarf_Die die;

	*type = (struct pev_type){ .kind = PEV_TYPE_OTHER };
	if (!find_type(info, ref, &die) || !peel(&die))
		return;
	type->name = dwarf_diename(&die);
	read_number(&die, DW_AT_byte_size, &type->size);
	switch (dwarf_tag(&die)) {
	case DW_TAG_base_type:
		read_base_type(&die, type);
		break;
	case DW_TAG_enumeration_type:
		read_enumeration(&die, type);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		type->kind = PEV_TYPE_POINTER;
		type->is_reference = dwarf_tag(&die) != DW_TAG_pointer_type;
		type->target = type_of(info, &die);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_class_type:
		type->kind = PEV_TYPE_RECORD;
		break;
	case DW_TAG_array_type:
		type->target = type_of(info, &die);
		read_dimensions(&die, type);
		break;
	default:
		break;
	}
}

/* ---- members ---- */

static bool read_offset(Dwarf_Die *die, uint64_t *offset)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t nr;

	*offset = 0;
	if (!dwarf_attr_integrate(die, DW_AT_data_member_location, &attribute))
		return true; /* of a union */
	if (read_number(die, DW_AT_data_member_location, offset))
		return true;
	if (dwarf_getlocation(&attribute, &ops, &nr) != 0 || nr != 1 ||
	    ops[0].atom != DW_OP_plus_uconst)
		return false;
	*offset = ops[0].number;
	return true;
}

static bool read_member(const struct pev_debug_info *info, Dwarf_Die *die,
			struct pev_member *member)
{
	const int tag = dwarf_tag(die);

	/* A static member of a class is declared only. */
	if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
	    dwarf_hasattr(die, DW_AT_declaration))
		return false;
	*member = (struct pev_member){
		.name = tag == DW_TAG_member ? dwarf_diename(die) : NULL,
		.type = type_of(info, die), .is_bitfield = dwarf_hasattr(die, DW_AT_bit_size),
	};
	return read_offset(die, &member->offset) || member->is_bitfield;
}

int pev_type_members(const struct pev_debug_info *info, pev_type_ref ref,
		     struct pev_members *members)
{
	struct pev_member member;
	Dwarf_Die type, die;
	int more;

	*members = (struct pev_members){ .list = NULL };
	if (!find_type(info, ref, &type) || !peel(&type))
		return 0;
	more = dwarf_child(&type, &die);
	for (; more == 0 && members->nr < MEMBERS_MAX; more = pev_die_next(&die)) {
		if (!read_member(info, &die, &member))
			continue;
		if (!pev_list_reserve(&members->list, &members->cap, members->nr + 1,
				      sizeof(*members->list))) {
			pev_members_free(members);
			return -ENOMEM;
		}
		members->list[members->nr++] = member;
	}
	return 0;
}

void pev_members_free(struct pev_members *members)
{
	free(members->list);
	*members = (struct pev_members){ .list = NULL };
}
