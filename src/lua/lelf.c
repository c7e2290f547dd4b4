/*
 * lelf.c - perfev.elf: a program's file as the userdata perfev.elf.
 *
 * A shared object of its own, loaded when a symbol is asked for, so that nobody
 * else needs libelf. It reads no file: the bytes come from core.slurp, and with
 * them the hooks.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "../elffile.h"
#include "lclass.h"
#include "lfail.h"

#define TYPENAME "perfev.elf"

int luaopen_perfev_elf(lua_State *L);

struct l_elf {
	struct pev_elf *elf; /* NULL once closed; its bytes are user value 1 */
};

static struct pev_elf *check_elf(lua_State *L)
{
	struct l_elf *self = luaL_checkudata(L, 1, TYPENAME);

	if (!self->elf)
		luaL_error(L, "the ELF file is closed");
	return self->elf;
}

/* read(bytes) -> elf | nil, why, errno */
static int l_read(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 1, &len);
	struct l_elf *self = lua_newuserdatauv(L, sizeof(*self), 1);
	struct pev_err err;
	int rc;

	self->elf = NULL;
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	rc = pev_elf_open(&self->elf, bytes, len, &err);
	return rc < 0 ? l_fail(L, rc, &err) : 1;
}

static void set_address(lua_State *L, const char *name, uint64_t value)
{
	if (value == PEV_ELF_NONE)
		return;
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value)
{
	lua_pushstring(L, value);
	lua_setfield(L, -2, name);
}

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[0] = "notype", [1] = "object", [2] = "func", [6] = "tls", [10] = "ifunc",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "other";
}

/* e:symbol(name) -> {name=, value=, size=, offset=, type=, others=} | nil */
static int l_symbol(lua_State *L)
{
	struct pev_elf *elf = check_elf(L);
	struct pev_elf_symbol symbol;

	if (pev_elf_find(elf, luaL_checkstring(L, 2), &symbol) < 0)
		return 0;
	lua_createtable(L, 0, 6);
	set_string(L, "name", symbol.name);
	set_string(L, "type", type_name(symbol.type));
	lua_pushinteger(L, (lua_Integer)symbol.value);
	lua_setfield(L, -2, "value");
	lua_pushinteger(L, (lua_Integer)symbol.size);
	lua_setfield(L, -2, "size");
	lua_pushinteger(L, symbol.others);
	lua_setfield(L, -2, "others");
	set_address(L, "offset", symbol.offset);
	return 1;
}

/* e:nearest(name) -> the symbol's name that was meant, or nil */
static int l_nearest(lua_State *L)
{
	lua_pushstring(L, pev_elf_nearest(check_elf(L), luaL_checkstring(L, 2)));
	return 1;
}

static int push_address(lua_State *L, uint64_t value)
{
	if (value == PEV_ELF_NONE)
		return 0;
	lua_pushinteger(L, (lua_Integer)value);
	return 1;
}

/* e:offset(address) -> bytes from the file's start, or nil */
static int l_offset(lua_State *L)
{
	return push_address(L, pev_elf_offset(check_elf(L), (uint64_t)luaL_checkinteger(L, 2)));
}

/* e:mapped(pgoff, page) -> the linker's address of code mapped from pgoff on, or nil */
static int l_mapped(lua_State *L)
{
	uint64_t pgoff = (uint64_t)luaL_checkinteger(L, 2);
	lua_Integer page = luaL_checkinteger(L, 3);

	luaL_argcheck(L, page > 0 && (page & (page - 1)) == 0, 3, "a power of two expected");
	return push_address(L, pev_elf_mapped(check_elf(L), pgoff, (uint64_t)page));
}

/* e:runs(offset) -> is that byte mapped to be run? */
static int l_runs(lua_State *L)
{
	lua_pushboolean(L, pev_elf_runs(check_elf(L), (uint64_t)luaL_checkinteger(L, 2)));
	return 1;
}

/* e:probes() -> { {provider=, name=, args=, pc=, offset=, semaphore=, ref_ctr_offset=}, ... } */
static int l_probes(lua_State *L)
{
	struct pev_elf *elf = check_elf(L);
	struct pev_elf_probe probe;
	size_t at = 0;

	lua_newtable(L);
	for (lua_Integer n = 1; pev_elf_probe(elf, &at, &probe); n++) {
		lua_createtable(L, 0, 7);
		set_string(L, "provider", probe.provider);
		set_string(L, "name", probe.name);
		set_string(L, "args", probe.args);
		set_address(L, "pc", probe.pc);
		set_address(L, "offset", probe.offset);
		if (probe.semaphore) {
			set_address(L, "semaphore", probe.semaphore);
			set_address(L, "ref_ctr_offset", probe.ref_ctr_offset);
		}
		lua_rawseti(L, -2, n);
	}
	return 1;
}

/* e:facts() -> {fixed=, symtab=, dynsym=, bits=, machine=, build_id=} */
static int l_facts(lua_State *L)
{
	struct pev_elf_facts facts;

	pev_elf_facts(check_elf(L), &facts);
	lua_createtable(L, 0, 6);
	lua_pushboolean(L, facts.fixed);
	lua_setfield(L, -2, "fixed");
	lua_pushboolean(L, facts.symtab);
	lua_setfield(L, -2, "symtab");
	lua_pushboolean(L, facts.dynsym);
	lua_setfield(L, -2, "dynsym");
	lua_pushinteger(L, facts.bits);
	lua_setfield(L, -2, "bits");
	lua_pushinteger(L, facts.machine);
	lua_setfield(L, -2, "machine");
	lua_pushlstring(L, (const char *)facts.build_id, facts.build_id_len);
	lua_setfield(L, -2, "build_id");
	return 1;
}

static int l_close(lua_State *L)
{
	struct l_elf *self = luaL_checkudata(L, 1, TYPENAME);

	pev_elf_close(self->elf);
	self->elf = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "symbol", l_symbol },
	{ "nearest", l_nearest },
	{ "offset", l_offset },
	{ "mapped", l_mapped },
	{ "runs", l_runs },
	{ "probes", l_probes },
	{ "facts", l_facts },
	{ "close", l_close },
	{ "__close", l_close },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "read", l_read },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_elf(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	luaL_newlib(L, functions);
	return 1;
}
