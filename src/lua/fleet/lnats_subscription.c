/*
 * lnats_subscription.c - the userdata perfev.nats.subscription: a bounded queue of messages.
 *
 * It keeps its connection alive, and ends with it.
 */
#include <lauxlib.h>

#include "lua/base/lclass.h"
#include "lua/base/lset.h"
#include "lua/fleet/lnats.h"

#define TYPENAME "perfev.nats.subscription"

enum {
	MOST_MESSAGES = 65536,
	MOST_BYTES = 256 << 20,
	UV_CONNECTION = 1,
};

static struct pev_nats_subscription **check_subscription(lua_State *L)
{
	return luaL_checkudata(L, 1, TYPENAME);
}

/* True unless it or its connection was closed. */
static bool is_open(lua_State *L, struct pev_nats_subscription *const *subscription)
{
	struct pev_nats **nats;

	lua_getiuservalue(L, 1, UV_CONNECTION);
	nats = lua_touserdata(L, -1);
	lua_pop(L, 1);
	return *subscription && nats && *nats;
}

/*
 * c:subscribe(subject [, queue [, { messages =, bytes = }]]) -> subscription | nil, message, errno.
 * Messages beyond the limits are dropped: s:dropped().
 */
int l_nats_subscribe(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *subject = luaL_checkstring(L, 2);
	const char *queue = luaL_optstring(L, 3, NULL);
	lua_Integer messages = MOST_MESSAGES, bytes = MOST_BYTES;
	struct pev_nats_subscription **subscription;
	struct pev_err err;
	int rc;

	if (!lua_isnoneornil(L, 4)) {
		lua_getfield(L, 4, "messages");
		messages = luaL_optinteger(L, -1, MOST_MESSAGES);
		lua_getfield(L, 4, "bytes");
		bytes = luaL_optinteger(L, -1, MOST_BYTES);
	}
	luaL_argcheck(L, messages > 0 && bytes > 0, 4, "limits above 0 expected");
	subscription = lua_newuserdatauv(L, sizeof(*subscription), 1);
	*subscription = NULL;
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, UV_CONNECTION);
	rc = pev_nats_subscribe(nats, subject, queue, (size_t)messages, (size_t)bytes,
				subscription, &err);
	return rc < 0 ? l_nats_failure(L, rc, &err) : 1;
}

/* s:next() -> { subject =, data =, reply =, headers = } | nil: none waits */
static int l_next(lua_State *L)
{
	struct pev_nats_subscription **subscription = check_subscription(L);

	l_nats_push_message(L, is_open(L, subscription) ? pev_nats_take_message(*subscription) :
							  NULL);
	return 1;
}

/* s:dropped() -> number of messages that were dropped because the queue was full */
static int l_dropped(lua_State *L)
{
	struct pev_nats_subscription **subscription = check_subscription(L);

	lua_pushinteger(L, is_open(L, subscription) ? (lua_Integer)pev_nats_dropped(*subscription) :
						      0);
	return 1;
}

/* s:close(); collected, it is closed, too */
static int l_close(lua_State *L)
{
	struct pev_nats_subscription **subscription = check_subscription(L);

	if (is_open(L, subscription))
		pev_nats_unsubscribe(*subscription);
	*subscription = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "close", l_close },
	{ "dropped", l_dropped },
	{ "next", l_next },
	{ "__close", l_close },
	{ NULL, NULL },
};

void l_nats_subscription_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
}
