/*
 * lsymtab.c - perfev.symtab: finds functions and lines by addresses of a file; demangles names.
 *
 * A shared object of its own, loaded on first use, so that only its users need elfutils, liblzma
 * and libstdc++. It opens no file: the bytes come from the core, through the hooks.
 */
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "dwarf/source_line.h"
#include "symbol/demangle.h"
#include "symbol/elf.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/limage.h"
#include "lua/symbol/lsymtab.h"

#define TYPENAME L_SYMTAB_TYPENAME

int luaopen_perfev_symtab(lua_State *L);

#define PLACES_MAX 64

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
	struct l_symtab *self = lua_newuserdatauv(L, sizeof(*self), 2);
	struct pev_err err;
	int rc;

	*self = (struct l_symtab){ .find_frame = pev_symtab_find_frame,
				     .demangle = pev_demangle };
	luaL_setmetatable(L, TYPENAME);
	rc = pev_symtab_open(&self->table, image, &err);
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
	struct l_symtab *self = check_any(L);

	pev_debug_info_close(self->debug_info);
	pev_symtab_free(self->table);
	*self = (struct l_symtab){ .find_frame = pev_symtab_find_frame,
				     .demangle = pev_demangle };
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
