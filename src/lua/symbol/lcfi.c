/*
 * lcfi.c - perfev.cfi: the unwind rules of a file.
 *
 * A shared object of its own, loaded when the first stack is unwound, because it needs libelf.
 * The core (lstack.c) applies the rules; it knows the userdata by its name. The image comes from
 * the core, through the hooks.
 */
#include "lua/symbol/lcfi.h"

#include <lauxlib.h>
#include <lua.h>

#include "symbol/cfi.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/limage.h"

int luaopen_perfev_cfi(lua_State *L);

/* read(image or bytes) -> perfev.cfi | nil, why, errno. The argument is kept. */
static int l_read(lua_State *L)
{
	struct pev_file_image whole, *image = l_image_check(L, 1, &whole);
	struct l_cfi *self = lua_newuserdatauv(L, sizeof(*self), 1);
	struct pev_err err;
	int rc;

	self->cfi = NULL;
	luaL_setmetatable(L, L_CFI_TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	rc = pev_cfi_open(&self->cfi, image, &err);
	return rc < 0 ? l_fail(L, rc, &err) : 1;
}

/*
 * rules:frame(offset) -> register, bytes: the canonical frame address of the instruction at that
 * byte of the file is the register + bytes; nil: no rule, or another one
 */
static int l_frame(lua_State *L)
{
	const struct l_cfi *self = luaL_checkudata(L, 1, L_CFI_TYPENAME);
	struct pev_unwind_row row;

	luaL_argcheck(L, self->cfi, 1, "the rules are closed");
	self->cfi->compile(self->cfi, (uint64_t)luaL_checkinteger(L, 2), &row);
	if (row.kind != PEV_UNWIND_OFFSETS)
		return 0;
	lua_pushinteger(L, row.cfa_reg);
	lua_pushinteger(L, row.cfa_offset);
	return 2;
}

static int l_cfi_gc(lua_State *L)
{
	struct l_cfi *self = luaL_checkudata(L, 1, L_CFI_TYPENAME);

	pev_cfi_close(self->cfi);
	self->cfi = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "frame", l_frame },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "read", l_read },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_cfi(lua_State *L)
{
	l_class(L, L_CFI_TYPENAME, methods, l_cfi_gc);
	luaL_newlib(L, functions);
	return 1;
}
