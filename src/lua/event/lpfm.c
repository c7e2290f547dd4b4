/*
 * lpfm.c - perfev.pfm: the vendors' event names.
 *
 * A shared object of its own, loaded when no other name matches, so that only its users need
 * libpfm4.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>

#include "event/pfm.h"
#include "lua/base/lerror.h"
#include "lua/base/lset.h"

int luaopen_perfev_pfm(lua_State *L);

static void push_event(lua_State *L, const struct pev_pfm_event *event)
{
	lua_createtable(L, 0, 13);
	l_set_u64(L, "type", event->type);
	l_set_u64(L, "config", event->config);
	l_set_u64(L, "config1", event->config1);
	l_set_u64(L, "config2", event->config2);
	l_set_u64(L, "precise_ip", (uint64_t)event->precise_ip);
	l_set_boolean(L, "exclude_user", event->exclude_user);
	l_set_boolean(L, "exclude_kernel", event->exclude_kernel);
	l_set_boolean(L, "exclude_hv", event->exclude_hv);
	l_set_boolean(L, "exclude_host", event->exclude_host);
	l_set_boolean(L, "exclude_guest", event->exclude_guest);
	l_set_boolean(L, "pinned", event->pinned);
	l_set_boolean(L, "exclusive", event->exclusive);
}

/* encode(text) -> { type =, config =, …, full = } | nil, why, errno */
static int l_encode(lua_State *L)
{
	const char *text = luaL_checkstring(L, 1);
	struct pev_pfm_event event;
	struct pev_err err;
	int rc = pev_pfm_encode(text, &event, &err);

	if (rc < 0)
		return l_fail(L, rc, &err);
	push_event(L, &event); /* raises only if memory runs out; then event.full leaks */
	lua_pushstring(L, event.full ? event.full : text);
	free(event.full);
	lua_setfield(L, -2, "full");
	return 1;
}

/* pmus() -> { { id =, name =, about =, events = (how many), here = }, … } */
static int l_pmus(lua_State *L)
{
	struct pev_pfm_pmu pmu;
	lua_Integer nr = 0;

	lua_newtable(L);
	for (int i = 0, rc; (rc = pev_pfm_pmu(i, &pmu)) >= 0; i++) {
		if (rc == 0)
			continue;
		lua_createtable(L, 0, 5);
		l_set_u64(L, "id", (uint64_t)i);
		l_set_u64(L, "events", (uint64_t)pmu.nr);
		l_set_boolean(L, "here", pmu.here);
		l_set_string(L, "name", pmu.name);
		l_set_string(L, "about", pmu.about);
		lua_rawseti(L, -2, ++nr);
	}
	return 1;
}

/* name(id, event [, attribute]) -> name, about | nothing after the last; indices start at 0 */
static int l_name(lua_State *L)
{
	const char *name, *about;

	if (pev_pfm_name((int)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 2),
			 (int)luaL_optinteger(L, 3, -1), &name, &about) < 0)
		return 0;
	lua_pushstring(L, name);
	lua_pushstring(L, about);
	return 2;
}

static const luaL_Reg functions[] = {
	{ "encode", l_encode },
	{ "pmus", l_pmus },
	{ "name", l_name },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_pfm(lua_State *L)
{
	struct pev_err err;

	if (pev_pfm_init(&err) < 0)
		return luaL_error(L, "%s", err.text);
	luaL_newlib(L, functions);
	return 1;
}
