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

static int l_cfi_gc(lua_State *L)
{
	struct l_cfi *self = luaL_checkudata(L, 1, L_CFI_TYPENAME);

	pev_cfi_close(self->cfi);
	self->cfi = NULL;
	return 0;
}

static const luaL_Reg functions[] = {
	{ "read", l_read },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_cfi(lua_State *L)
{
	l_class(L, L_CFI_TYPENAME, NULL, l_cfi_gc);
	luaL_newlib(L, functions);
	return 1;
}
