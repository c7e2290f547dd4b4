/*
 * lkallsyms.c - the userdata perfev.core.kallsyms: finds kernel functions by address. Also reads
 * build-ids from the kernel's notes.
 */
#include <lauxlib.h>

#include "symbol/elf_note.h"
#include "symbol/kallsyms.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lhooks.h"

#define TYPENAME "perfev.core.kallsyms"

struct l_kallsyms {
	struct pev_kallsyms *symbols; /* owned */
};

static struct pev_kallsyms *check_kallsyms(lua_State *L)
{
	struct l_kallsyms *self = luaL_checkudata(L, 1, TYPENAME);

	return self->symbols;
}

/* core.build_id(notes) -> bytes | nil; notes: the bytes of /sys/kernel/notes or of a module's */
static int l_build_id(lua_State *L)
{
	struct pev_notes notes = { .at = 0 };
	struct pev_note note;

	notes.bytes = (const unsigned char *)luaL_checklstring(L, 1, &notes.len);
	if (!pev_notes_find_build_id(&notes, &note))
		return 0;
	lua_pushlstring(L, (const char *)note.content, note.len);
	return 1;
}

/* core.kallsyms([text]) -> k | nil, message, errno; without text: of the running kernel */
static int l_kallsyms(lua_State *L)
{
	size_t len;
	const char *text = luaL_optlstring(L, 1, NULL, &len);
	struct l_kallsyms *self = lua_newuserdatauv(L, sizeof(*self), 0);
	const struct pev_sys *sys;
	struct pev_err err;
	int rc;

	self->symbols = NULL;
	luaL_setmetatable(L, TYPENAME);
	if (text) {
		rc = pev_kallsyms_parse(&self->symbols, text, len, &err);
	} else {
		sys = l_hooks_push(L);
		l_hooks_enter(L, sys);
		rc = pev_kallsyms_kernel(&self->symbols, sys, &err);
		l_raise_pending(L);
		lua_pop(L, 1);
	}
	return rc < 0 ? l_result(L, rc, &err) : 1;
}

/* k:find(address) -> name, start address, module | nil */
static int l_find(lua_State *L)
{
	const struct pev_kallsyms *symbols = check_kallsyms(L);
	const char *name, *module;
	uint64_t start;

	name = pev_kallsyms_function(symbols, (uint64_t)luaL_checkinteger(L, 2), &start, &module);
	if (!name)
		return 0;
	lua_pushstring(L, name);
	lua_pushinteger(L, (lua_Integer)start);
	lua_pushstring(L, module);
	return 3;
}

/* k:address(name) -> address of the first symbol of that name, or nil */
static int l_address(lua_State *L)
{
	uint64_t address = pev_kallsyms_address(check_kallsyms(L), luaL_checkstring(L, 2));

	if (!address)
		return 0;
	lua_pushinteger(L, (lua_Integer)address);
	return 1;
}

static int l_gc(lua_State *L)
{
	struct l_kallsyms *self = luaL_checkudata(L, 1, TYPENAME);

	pev_kallsyms_free(self->symbols);
	self->symbols = NULL;
	return 0;
}

/* core.hooked() -> a value that identifies the hooks in force, nil for Linux; logs do not count */
static int l_hooked(lua_State *L)
{
	l_hooks_push_deciding(L);
	return 1;
}

static const luaL_Reg methods[] = {
	{ "find", l_find },
	{ "address", l_address },
	{ NULL, NULL },
};

void l_kallsyms_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_kallsyms);
	lua_setfield(L, -2, "kallsyms");
	lua_pushcfunction(L, l_hooked);
	lua_setfield(L, -2, "hooked");
	lua_pushcfunction(L, l_build_id);
	lua_setfield(L, -2, "build_id");
}
