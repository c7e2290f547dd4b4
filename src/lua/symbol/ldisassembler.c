/*
 * ldisassembler.c - perfev.disassembler: machine code as text.
 *
 * A shared object of its own, loaded on first use, so that only its users need libcapstone.
 */
#include <lauxlib.h>
#include <lua.h>

#include "symbol/disassembler.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"

#define TYPENAME "perfev.disassembler"

int luaopen_perfev_disassembler(lua_State *L);

struct l_disassembler {
	struct pev_disassembler *disassembler; /* owned; NULL once closed */
};

static void push_instruction(lua_State *L, const struct pev_instruction *instruction)
{
	lua_createtable(L, 0, 4);
	lua_pushinteger(L, (lua_Integer)instruction->address);
	lua_setfield(L, -2, "address");
	lua_pushinteger(L, instruction->size);
	lua_setfield(L, -2, "size");
	lua_pushstring(L, instruction->text);
	lua_setfield(L, -2, "text");
	if (instruction->has_target) {
		lua_pushinteger(L, (lua_Integer)instruction->target);
		lua_setfield(L, -2, "target");
	}
}

/*
 * list(machine, bytes, address) -> { { address=, size=, text=, target= }, ... } | nil, why, errno.
 * machine: the number in the ELF header; address: of the first byte
 */
static int l_list(lua_State *L)
{
	const lua_Integer machine = luaL_checkinteger(L, 1);
	struct pev_instruction instruction;
	struct l_disassembler *self;
	struct pev_err err;
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	const uint64_t address = (uint64_t)luaL_checkinteger(L, 3);
	int rc;

	luaL_argcheck(L, machine >= 0 && machine <= UINT16_MAX, 1, "an ELF machine number");
	self = lua_newuserdatauv(L, sizeof(*self), 0);
	self->disassembler = NULL;
	luaL_setmetatable(L, TYPENAME);
	rc = pev_disassembler_open(&self->disassembler, (uint32_t)machine, &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	pev_disassembler_begin(self->disassembler, bytes, len, address);
	lua_newtable(L);
	for (lua_Integer n = 1; pev_disassembler_next(self->disassembler, &instruction); n++) {
		push_instruction(L, &instruction);
		lua_rawseti(L, -2, n);
	}
	return 1;
}

static int l_close(lua_State *L)
{
	struct l_disassembler *self = luaL_checkudata(L, 1, TYPENAME);

	pev_disassembler_close(self->disassembler);
	self->disassembler = NULL;
	return 0;
}

static const luaL_Reg functions[] = {
	{ "list", l_list },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_disassembler(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_close);
	luaL_newlib(L, functions);
	return 1;
}
