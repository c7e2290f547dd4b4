/*
 * lseccomp.c - the module perfev.seccomp: the system calls that a confined perfl may make.
 */
#include <lauxlib.h>

#include "lua/base/lerror.h"
#include "sandbox/seccomp_filter.h"

int luaopen_perfev_seccomp(lua_State *L);

/*
 * confine(command, accepts) -> true | nil, message, errno: the pid of the command, or nil; true
 * for a server
 */
static int l_confine(lua_State *L)
{
	const struct pev_seccomp_options options = {
		.command = (int)luaL_optinteger(L, 1, 0),
		.accepts = lua_toboolean(L, 2),
	};
	struct pev_err err;
	int rc = pev_seccomp_confine(&options, &err);

	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_pushboolean(L, 1);
	return 1;
}

__attribute__((visibility("default"))) int luaopen_perfev_seccomp(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "confine", l_confine },
		{ NULL, NULL },
	};

	luaL_newlib(L, functions);
	return 1;
}
