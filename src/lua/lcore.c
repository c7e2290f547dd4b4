/*
 * lcore.c - luaopen_perfev_core: registers every class and function of the core.
 *
 * Opening the module opens nothing else, prints nothing, sets no global.
 */
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

int luaopen_perfev_core(lua_State *L);

__attribute__((visibility("default"))) int luaopen_perfev_core(lua_State *L)
{
	lua_newtable(L);
	l_set_string(L, "version", PEV_VERSION);
#define REGISTER(part) l_##part##_register(L);
	L_PARTS(REGISTER)
	return 1;
}
