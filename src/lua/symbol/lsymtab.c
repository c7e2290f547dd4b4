/*
 * lsymtab.c - perfev.symtab: finds functions and lines by addresses of a file, and addresses by
 * lines; reads variables and types; demangles names.
 *
 * A shared object of its own, loaded on first use, so that only its users need elfutils, liblzma
 * and libstdc++. It opens no file: the bytes come from the core, through the hooks.
 */
#include <errno.h>
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "dwarf/line_address.h"
#include "dwarf/source_line.h"
#include "dwarf/variable.h"
#include "symbol/demangle.h"
#include "symbol/elf.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/limage.h"
#include "lua/symbol/lsymtab.h"

#define TYPENAME L_SYMTAB_TYPENAME

int luaopen_perfev_symtab(lua_State *L);

#define PLACES_MAX 64

/* The userdata: what the core knows of it, and the last results, so that an error leaks none. */
struct whole_symtab {
	struct l_symtab symtab;
	struct pev_line_addresses lines;
	struct pev_scope scope;
	struct pev_members members;
};

static struct l_symtab *check_any(lua_State *L)
{
	return luaL_checkudata(L, 1, TYPENAME);
}

static struct pev_symtab *check_symtab(lua_State *L)
{
	struct l_symtab *self = check_any(L);

	if (!self->table)
		luaL_error(L, "the symbol table is closed");
	return self->table;
}

/* read(image or bytes) -> symtab | nil, why, errno. The argument is not kept. */
static int l_read(lua_State *L)
{
	struct pev_file_image whole, *image = l_image_check(L, 1, &whole);
	struct whole_symtab *self = lua_newuserdatauv(L, sizeof(*self), 2);
	struct pev_err err;
	int rc;

	*self = (struct whole_symtab){ .symtab = { .find_frame = pev_symtab_find_frame,
						   .demangle = pev_demangle } };
	luaL_setmetatable(L, TYPENAME);
	rc = pev_symtab_open(&self->symtab.table, image, &err);
	return rc < 0 ? l_fail(L, rc, &err) : 1;
}

/* t:add(image or bytes) -> true | nil, why, errno. Adds the symbols of its debug file. */
static int l_add(lua_State *L)
{
	struct pev_symtab *table = check_symtab(L);
	struct pev_file_image whole, *image = l_image_check(L, 2, &whole);
	struct pev_err err;
	int rc = pev_symtab_add(table, image, &err);

	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_pushboolean(L, 1);
	return 1;
}

/* t:set_partial(): others may have names that the table lacks */
static int l_set_partial(lua_State *L)
{
	check_any(L)->is_partial = true;
	return 0;
}

/* t:address(offset) -> the linker's address of that byte of the file, or nil */
static int l_address(lua_State *L)
{
	uint64_t address = pev_symtab_address(check_symtab(L), (uint64_t)luaL_checkinteger(L, 2));

	if (address == PEV_SYMTAB_NONE)
		return 0;
	lua_pushinteger(L, (lua_Integer)address);
	return 1;
}

/* t:find(address) -> name as in the file, start, length in bytes | nil */
static int l_find(lua_State *L)
{
	struct pev_symtab *table = check_symtab(L);
	uint64_t address = (uint64_t)luaL_checkinteger(L, 2), start;
	const char *name = pev_symtab_find(table, address, &start);

	if (!name)
		return 0;
	lua_pushstring(L, name);
	lua_pushinteger(L, (lua_Integer)start);
	lua_pushinteger(L, (lua_Integer)pev_symtab_len(table, address));
	return 3;
}

/*
 * t:find_frame(offset, returns, unwound) -> address, the address that was looked up, name, start
 * of the function; nil if no segment has that byte of the file
 */
static int l_find_frame(lua_State *L)
{
	struct pev_symtab_place place;

	if (!pev_symtab_find_frame(check_symtab(L), (uint64_t)luaL_checkinteger(L, 2),
				   lua_toboolean(L, 3), lua_toboolean(L, 4), &place))
		return 0;
	lua_pushinteger(L, (lua_Integer)place.address);
	lua_pushinteger(L, (lua_Integer)place.call);
	if (!place.name)
		return 2;
	lua_pushstring(L, place.name);
	lua_pushinteger(L, (lua_Integer)place.start);
	return 4;
}

/* t:debug(image or bytes) -> true | nil, why, errno. Reads lines from these bytes; keeps them. */
static int l_debug(lua_State *L)
{
	struct l_symtab *self = check_any(L);
	struct pev_file_image whole, *image = l_image_check_whole(L, 2, &whole);
	struct pev_err err;
	int rc;

	check_symtab(L);
	pev_debug_info_close(self->debug_info);
	self->debug_info = NULL;
	lua_settop(L, 2);
	lua_setiuservalue(L, 1, 1);
	rc = pev_debug_info_open(&self->debug_info, image->bytes, image->len, &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_pushboolean(L, 1);
	return 1;
}

/* t:supplement() -> name, build-id of another file that its lines need | nil */
static int l_supplement(lua_State *L)
{
	const struct l_symtab *self = check_any(L);
	struct pev_supplement supplement;

	check_symtab(L);
	if (!self->debug_info || !pev_debug_info_supplement(self->debug_info, &supplement))
		return 0;
	lua_pushstring(L, supplement.name);
	lua_pushlstring(L, supplement.build_id, supplement.build_id_len);
	return 2;
}

/* t:supply(image or bytes) -> true | nil, why, errno. That file, which is kept. */
static int l_supply(lua_State *L)
{
	struct l_symtab *self = check_any(L);
	struct pev_file_image whole, *image = l_image_check_whole(L, 2, &whole);
	struct pev_err err;
	int rc;

	check_symtab(L);
	luaL_argcheck(L, self->debug_info, 1, "it has no lines yet");
	rc = pev_debug_info_supply(self->debug_info, image->bytes, image->len, &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_settop(L, 2);
	lua_setiuservalue(L, 1, 2);
	lua_pushboolean(L, 1);
	return 1;
}

static void push_place(lua_State *L, const struct pev_source_place *place)
{
	lua_createtable(L, 0, 3);
	lua_pushstring(L, place->function);
	lua_setfield(L, -2, "symbol");
	lua_pushstring(L, place->file);
	lua_setfield(L, -2, "file");
	if (place->line) {
		lua_pushinteger(L, place->line);
		lua_setfield(L, -2, "line");
	}
}

/* t:lines(address) -> { { symbol =, file =, line = }, ... }, innermost inlined function first */
static int l_lines(lua_State *L)
{
	struct l_symtab *self = check_any(L);
	uint64_t address = (uint64_t)luaL_checkinteger(L, 2);
	struct pev_source_place places[PLACES_MAX];
	int nr = 0;

	check_symtab(L);
	if (self->debug_info)
		nr = pev_source_places_at(self->debug_info, address, places, PLACES_MAX);
	lua_createtable(L, nr, 0);
	for (int i = 0; i < nr; i++) {
		push_place(L, &places[i]);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

static void set_boolean(lua_State *L, const char *name, bool value)
{
	lua_pushboolean(L, value);
	lua_setfield(L, -2, name);
}

/* ---- code of a line, variables and types, in the DWARF ---- */

static struct whole_symtab *check_debug_info(lua_State *L, const struct pev_debug_info **info)
{
	struct whole_symtab *self = luaL_checkudata(L, 1, TYPENAME);

	check_symtab(L);
	luaL_argcheck(L, self->symtab.debug_info, 1, "it has no DWARF yet");
	*info = self->symtab.debug_info;
	return self;
}

static int fail_without_memory(lua_State *L)
{
	struct pev_err err;

	return l_fail(L, pev_fail(&err, -ENOMEM, "no memory for what its DWARF has"), &err);
}

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value)
{
	lua_pushstring(L, value);
	lua_setfield(L, -2, name);
}

/*
 * t:addresses(file, line) -> { { address =, symbol =, file = }, ..., known = is there a source
 * file of that name?, nearest = name of another one, before =, after = nearest lines with code }
 */
static int l_addresses(lua_State *L)
{
	const struct pev_debug_info *info;
	struct whole_symtab *self = check_debug_info(L, &info);
	const char *file = luaL_checkstring(L, 2);
	const lua_Integer line = luaL_checkinteger(L, 3);
	struct pev_line_addresses *lines = &self->lines;

	luaL_argcheck(L, line > 0 && line <= INT32_MAX, 3, "a line expected");
	pev_line_addresses_free(lines);
	if (pev_line_addresses_find(info, file, (int)line, lines) < 0)
		return fail_without_memory(L);
	lua_createtable(L, (int)lines->nr, 4);
	set_boolean(L, "known", lines->is_known);
	set_string(L, "nearest", lines->nearest);
	if (lines->before)
		set_integer(L, "before", (uint64_t)lines->before);
	if (lines->after)
		set_integer(L, "after", (uint64_t)lines->after);
	for (size_t i = 0; i < lines->nr; i++) {
		lua_createtable(L, 0, 3);
		set_integer(L, "address", lines->list[i].address);
		set_string(L, "symbol", lines->list[i].function);
		set_string(L, "file", lines->list[i].file);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* t:function_line(name) -> file, line, how many others of that name are at other lines | nil */
static int l_function_line(lua_State *L)
{
	const struct pev_debug_info *info;
	struct pev_function_line found;

	check_debug_info(L, &info);
	pev_function_line_find(info, luaL_checkstring(L, 2), &found);
	if (!found.file)
		return 0;
	lua_pushstring(L, found.file);
	lua_pushinteger(L, found.line);
	lua_pushinteger(L, found.others);
	return 3;
}

static void push_location(lua_State *L, const struct pev_location *location)
{
	static const char *const starts[] = {
		[PEV_LOCATION_NOWHERE] = "nowhere",   [PEV_LOCATION_REGISTER] = "register",
		[PEV_LOCATION_FRAME] = "frame",       [PEV_LOCATION_ADDRESS] = "address",
		[PEV_LOCATION_CONSTANT] = "constant", [PEV_LOCATION_SPLIT] = "split",
		[PEV_LOCATION_THREAD] = "thread",     [PEV_LOCATION_COMPUTED] = "computed",
	};

	lua_createtable(L, location->nr, 4);
	set_string(L, "start", starts[location->start]);
	set_integer(L, "register", location->reg);
	set_boolean(L, "is_value", location->is_value);
	set_boolean(L, "needs_frame", location->needs_frame);
	for (int i = 0; i < location->nr; i++) {
		lua_pushinteger(L, location->offsets[i]);
		lua_rawseti(L, -2, i + 1);
	}
}

static void push_variable(lua_State *L, const struct pev_variable *variable)
{
	lua_createtable(L, 0, 4);
	set_string(L, "name", variable->name);
	set_integer(L, "type", variable->type);
	set_boolean(L, "is_declared", variable->is_declared);
	push_location(L, &variable->location);
	lua_setfield(L, -2, "location");
}

/*
 * t:scope(address) -> { variable, ..., symbol =, entry =, after_frame =, returns = a type } | nil.
 * A variable: { name =, type =, is_declared =, location = { start =, register =, is_value =,
 * needs_frame =, offset, ... } }. The innermost block comes first.
 */
static int l_scope(lua_State *L)
{
	const struct pev_debug_info *info;
	struct whole_symtab *self = check_debug_info(L, &info);
	const uint64_t address = (uint64_t)luaL_checkinteger(L, 2);
	struct pev_scope *scope = &self->scope;
	int rc;

	pev_scope_free(scope);
	rc = pev_scope_find(info, address, scope);
	if (rc < 0)
		return rc == -ENOMEM ? fail_without_memory(L) : 0;
	lua_createtable(L, (int)scope->nr, 4);
	set_string(L, "symbol", scope->function);
	set_integer(L, "entry", scope->entry);
	set_integer(L, "returns", scope->returns);
	if (scope->after_frame)
		set_integer(L, "after_frame", scope->after_frame);
	for (size_t i = 0; i < scope->nr; i++) {
		push_variable(L, &scope->variables[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* t:global(address, name) -> a variable outside of functions | nil */
static int l_global(lua_State *L)
{
	const uint64_t address = (uint64_t)luaL_checkinteger(L, 2);
	const struct pev_debug_info *info;
	struct pev_variable variable;

	check_debug_info(L, &info);
	if (!pev_variable_find_global(info, address, luaL_checkstring(L, 3), &variable))
		return 0;
	push_variable(L, &variable);
	return 1;
}

/*
 * t:type(type) -> { kind =, name =, size =, is_signed =, is_reference =, target = a type, count of
 * each dimension, ... }
 */
static int l_type(lua_State *L)
{
	static const char *const kinds[] = {
		[PEV_TYPE_OTHER] = "other",     [PEV_TYPE_NUMBER] = "number",
		[PEV_TYPE_FLOAT] = "float",     [PEV_TYPE_POINTER] = "pointer",
		[PEV_TYPE_RECORD] = "record",   [PEV_TYPE_ARRAY] = "array",
	};
	const struct pev_debug_info *info;
	struct pev_type type;

	check_debug_info(L, &info);
	pev_type_read(info, (pev_type_ref)luaL_checkinteger(L, 2), &type);
	lua_createtable(L, type.nr_counts, 6);
	set_string(L, "kind", kinds[type.kind]);
	set_string(L, "name", type.name);
	set_integer(L, "size", type.size);
	set_integer(L, "target", type.target);
	set_boolean(L, "is_signed", type.is_signed);
	set_boolean(L, "is_reference", type.is_reference);
	for (int i = 0; i < type.nr_counts; i++) {
		lua_pushinteger(L, (lua_Integer)type.counts[i]);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

/* t:members(type) -> { { name = nil for an unnamed one, type =, offset =, is_bitfield = }, ... } */
static int l_members(lua_State *L)
{
	const struct pev_debug_info *info;
	struct whole_symtab *self = check_debug_info(L, &info);
	const pev_type_ref type = (pev_type_ref)luaL_checkinteger(L, 2);
	struct pev_members *members = &self->members;

	pev_members_free(members);
	if (pev_type_members(info, type, members) < 0)
		return fail_without_memory(L);
	lua_createtable(L, (int)members->nr, 0);
	for (size_t i = 0; i < members->nr; i++) {
		lua_createtable(L, 0, 4);
		set_string(L, "name", members->list[i].name);
		set_integer(L, "type", members->list[i].type);
		set_integer(L, "offset", members->list[i].offset);
		set_boolean(L, "is_bitfield", members->list[i].is_bitfield);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/*
 * t:facts() -> { build_id=, debuglink=, crc=, symtab=, minidebug=, debug_info=, machine=, symbols=,
 * bytes= }
 */
static int l_facts(lua_State *L)
{
	struct pev_symtab_facts facts;

	pev_symtab_facts(check_symtab(L), &facts);
	lua_createtable(L, 0, 9);
	if (facts.build_id_len) {
		lua_pushlstring(L, (const char *)facts.build_id, facts.build_id_len);
		lua_setfield(L, -2, "build_id");
	}
	if (facts.debuglink) {
		lua_pushstring(L, facts.debuglink);
		lua_setfield(L, -2, "debuglink");
		lua_pushinteger(L, facts.debuglink_crc);
		lua_setfield(L, -2, "crc");
	}
	set_boolean(L, "symtab", facts.symtab);
	set_boolean(L, "minidebug", facts.minidebug);
	set_boolean(L, "debug_info", facts.debug_info);
	lua_pushinteger(L, facts.machine);
	lua_setfield(L, -2, "machine");
	lua_pushinteger(L, (lua_Integer)facts.symbols);
	lua_setfield(L, -2, "symbols");
	lua_pushinteger(L, (lua_Integer)facts.bytes);
	lua_setfield(L, -2, "bytes");
	return 1;
}

static int l_close(lua_State *L)
{
	struct whole_symtab *self = luaL_checkudata(L, 1, TYPENAME);

	pev_line_addresses_free(&self->lines);
	pev_scope_free(&self->scope);
	pev_members_free(&self->members);
	pev_debug_info_close(self->symtab.debug_info);
	pev_symtab_free(self->symtab.table);
	*self = (struct whole_symtab){ .symtab = { .find_frame = pev_symtab_find_frame,
						   .demangle = pev_demangle } };
	return 0;
}

/* demangle(name) -> name; the same if it is not mangled */
static int l_demangle(lua_State *L)
{
	const char *name = luaL_checkstring(L, 1);
	char *text = pev_demangle(name);

	if (!text) {
		lua_settop(L, 1);
		return 1;
	}
	lua_pushstring(L, text);
	free(text);
	return 1;
}

/* build_id(image or bytes) -> bytes | nil. Reads no symbols. */
static int l_build_id(lua_State *L)
{
	struct pev_file_image whole, *image = l_image_check(L, 1, &whole);
	struct pev_note note;
	struct pev_elf *elf;
	bool found;

	if (pev_elf_open_image(&elf, image, NULL) < 0)
		return 0;
	found = pev_elf_find_build_id(elf, &note);
	if (found)
		lua_pushlstring(L, (const char *)note.content, note.len);
	pev_elf_close(elf);
	return found;
}

/* vdso() -> the bytes of the code that the kernel maps into every process, or nil */
static int l_vdso(lua_State *L)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: address */

	if (!header)
		return 0;
	/* The section headers are its last part. */
	lua_pushlstring(L, (const char *)header,
			header->e_shoff + (size_t)header->e_shentsize * header->e_shnum);
	return 1;
}

static const luaL_Reg methods[] = {
	{ "add", l_add },
	{ "address", l_address },
	{ "find", l_find },
	{ "find_frame", l_find_frame },
	{ "debug", l_debug },
	{ "supplement", l_supplement },
	{ "supply", l_supply },
	{ "lines", l_lines },
	{ "addresses", l_addresses },
	{ "function_line", l_function_line },
	{ "scope", l_scope },
	{ "global", l_global },
	{ "type", l_type },
	{ "members", l_members },
	{ "facts", l_facts },
	{ "set_partial", l_set_partial },
	{ "close", l_close },
	{ "__close", l_close },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "read", l_read },
	{ "demangle", l_demangle },
	{ "build_id", l_build_id },
	{ "vdso", l_vdso },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_symtab(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	luaL_newlib(L, functions);
	return 1;
}
