/*
 * lhttp.c - perfev.http: an HTTP server in the loop of a session, on a TCP port or a Unix socket.
 *
 * A shared object of its own, loaded on first use, so that only its users need libmicrohttpd.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>

#include "http/server.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.http"

int luaopen_perfev_http(lua_State *L);

struct l_http {
	struct pev_http *http; /* owned; NULL once closed */
	lua_State *L; /* the caller's, during a call into the server */
};

/* The function that answers requests, during a turn; { [id] = body's function and last piece }. */
enum { UV_HANDLER = 1,
       UV_BODIES,
       UV_NR = UV_BODIES };

/*
 * libmicrohttpd's frames are between the server and its callbacks, so these run protected. The
 * userdata is argument 1 of the call into the server.
 */
static bool call_protected(lua_State *L, lua_CFunction f, void *argument)
{
	bool done;

	if (!lua_checkstack(L, 4))
		return false;
	lua_pushcfunction(L, f);
	lua_pushvalue(L, 1);
	lua_pushlightuserdata(L, argument);
	done = lua_pcall(L, 2, 0, 0) == LUA_OK;
	if (!done)
		lua_pop(L, 1);
	return done;
}

/* ---- requests ---- */

static void set_pair(void *ctx, const char *name, const char *value)
{
	lua_State *L = ctx;

	lua_pushstring(L, value ? value : "");
	lua_setfield(L, -2, name);
}

/* { id =, method =, path =, headers = { [name] = value }, query = { [name] = value } } */
static void push_request(lua_State *L, const struct pev_http_exchange *exchange)
{
	lua_createtable(L, 0, 5);
	l_set_u64(L, "id", pev_http_id(exchange));
	l_set_string(L, "method", pev_http_method(exchange));
	l_set_string(L, "path", pev_http_path(exchange));
	lua_newtable(L);
	pev_http_each_header(exchange, set_pair, L);
	lua_setfield(L, -2, "headers");
	lua_newtable(L);
	pev_http_each_argument(exchange, set_pair, L);
	lua_setfield(L, -2, "query");
}

/* Keeps the function at idx as the body of the exchange. */
static void keep_body(lua_State *L, const struct pev_http_exchange *exchange, int idx)
{
	lua_getiuservalue(L, 1, UV_BODIES);
	lua_createtable(L, 2, 0);
	lua_pushvalue(L, idx);
	lua_rawseti(L, -2, 1);
	lua_rawseti(L, -2, (lua_Integer)pev_http_id(exchange));
	lua_pop(L, 1);
}

/* The body at idx: a string, a function that returns its next piece, or true for a stream. */
static int reply(lua_State *L, struct pev_http_exchange *exchange, unsigned status, int idx)
{
	const char *bytes;
	size_t len;

	if (lua_type(L, idx) == LUA_TFUNCTION) {
		keep_body(L, exchange, idx);
		return pev_http_reply(exchange, status, PEV_HTTP_PIECES, NULL, 0);
	}
	if (lua_isboolean(L, idx))
		return pev_http_reply(exchange, status, PEV_HTTP_STREAM, NULL, 0);
	bytes = luaL_checklstring(L, idx, &len);
	return pev_http_reply(exchange, status, PEV_HTTP_WHOLE, bytes, len);
}

/* (server, exchange): calls handler(request) -> status, { name, value, ... }, body */
static int answer(lua_State *L)
{
	struct pev_http_exchange *exchange = lua_touserdata(L, 2);
	lua_Integer status;
	int rc;

	lua_getiuservalue(L, 1, UV_HANDLER);
	push_request(L, exchange);
	lua_call(L, 1, 3); /* 3, 4, 5 */
	status = luaL_checkinteger(L, 3);
	luaL_checktype(L, 4, LUA_TTABLE);
	rc = reply(L, exchange, (unsigned)status, 5);
	for (lua_Integer i = 1; rc == 0 && lua_rawgeti(L, 4, i) == LUA_TSTRING; i += 2) {
		lua_rawgeti(L, 4, i + 1);
		rc = pev_http_header(exchange, lua_tostring(L, -2), luaL_checkstring(L, -1));
		lua_pop(L, 2);
	}
	if (rc < 0)
		return luaL_error(L, "the answer is not valid");
	return 0;
}

static void on_request(void *ctx, struct pev_http_exchange *exchange)
{
	const struct l_http *self = ctx;

	if (!call_protected(self->L, answer, exchange))
		pev_http_fail(exchange);
}

/* ---- bodies in pieces ---- */

struct piece {
	struct pev_http_exchange *exchange;
	const char *bytes;
	size_t len;
	bool is_end;
};

/* (server, struct piece *): the table of the body keeps the string */
static int take_piece(lua_State *L)
{
	struct piece *piece = lua_touserdata(L, 2);

	lua_getiuservalue(L, 1, UV_BODIES);
	lua_rawgeti(L, -1, (lua_Integer)pev_http_id(piece->exchange));
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_rawgeti(L, -1, 1);
	lua_call(L, 0, 1);
	piece->is_end = lua_isnil(L, -1);
	if (piece->is_end)
		return 0;
	piece->bytes = luaL_checklstring(L, -1, &piece->len);
	lua_rawseti(L, -2, 2);
	return 0;
}

static int on_piece(void *ctx, struct pev_http_exchange *exchange, const char **bytes, size_t *len)
{
	const struct l_http *self = ctx;
	struct piece piece = { .exchange = exchange };

	if (!call_protected(self->L, take_piece, &piece))
		return -ECANCELED;
	*bytes = piece.bytes;
	*len = piece.len;
	return !piece.is_end;
}

static int forget_body(lua_State *L)
{
	struct pev_http_exchange *exchange = lua_touserdata(L, 2);

	lua_getiuservalue(L, 1, UV_BODIES);
	lua_pushnil(L);
	lua_rawseti(L, -2, (lua_Integer)pev_http_id(exchange));
	return 0;
}

static void on_over(void *ctx, struct pev_http_exchange *exchange)
{
	const struct l_http *self = ctx;

	call_protected(self->L, forget_body, exchange);
}

/* ---- the server ---- */

static struct l_http *check_open(lua_State *L)
{
	struct l_http *self = luaL_checkudata(L, 1, TYPENAME);

	if (!self->http)
		luaL_error(L, "the server is closed");
	return self;
}

static lua_Integer number_of(lua_State *L, const char *name)
{
	lua_Integer value;

	lua_getfield(L, 1, name);
	value = luaL_optinteger(L, -1, 0);
	luaL_argcheck(L, value >= 0 && value <= UINT16_MAX, 1, name);
	lua_pop(L, 1);
	return value;
}

/*
 * listen{ host =, port = } or listen{ path = }, and request_seconds =, answer_seconds = (see
 * server.h) -> server | nil, why, errno
 */
static int l_listen(lua_State *L)
{
	struct pev_http_calls calls = { .request = on_request, .piece = on_piece, .over = on_over };
	struct pev_http_listener listener;
	struct l_http *self;
	struct pev_err err;
	const lua_Integer request_s = (luaL_checktype(L, 1, LUA_TTABLE),
				       number_of(L, "request_seconds"));
	const lua_Integer answer_s = number_of(L, "answer_seconds");
	int rc;

	lua_settop(L, 1);
	lua_getfield(L, 1, "path"); /* 2 */
	lua_getfield(L, 1, "host"); /* 3 */
	self = lua_newuserdatauv(L, sizeof(*self), UV_NR);
	*self = (struct l_http){ 0 };
	luaL_setmetatable(L, TYPENAME);
	lua_newtable(L);
	lua_setiuservalue(L, -2, UV_BODIES);
	if (lua_isnil(L, 2))
		rc = pev_http_listen(&listener, luaL_checkstring(L, 3),
				     (uint16_t)number_of(L, "port"), &err);
	else
		rc = pev_http_listen_at(&listener, luaL_checkstring(L, 2), &err);
	calls.ctx = self;
	if (rc == 0)
		rc = pev_http_open(&self->http, &listener, &calls, (unsigned)request_s,
				   (unsigned)answer_s, &err);
	return rc < 0 ? l_fail(L, rc, &err) : 1;
}

/* server:fd(): readable when a turn is due */
static int l_fd(lua_State *L)
{
	lua_pushinteger(L, pev_http_fd(check_open(L)->http));
	return 1;
}

/* server:port() -> the TCP port, 0 for a Unix socket */
static int l_port(lua_State *L)
{
	lua_pushinteger(L, pev_http_listener_of(check_open(L)->http)->port);
	return 1;
}

/* server:turn(handler): does what is due */
static int l_turn(lua_State *L)
{
	struct l_http *self = check_open(L);

	luaL_checktype(L, 2, LUA_TFUNCTION);
	if (pev_http_is_in_turn(self->http)) /* the turn goes on with its own state and handler */
		return 0;
	lua_settop(L, 2);
	lua_setiuservalue(L, 1, UV_HANDLER);
	self->L = L;
	pev_http_turn(self->http);
	return 0;
}

/* server:wake(ns): the next turn is due after ns at the latest */
static int l_wake(lua_State *L)
{
	struct l_http *self = check_open(L);
	const lua_Integer ns = luaL_checkinteger(L, 2);

	pev_http_wake(self->http, ns > 0 ? (uint64_t)ns : 0);
	return 0;
}

/*
 * server:send(id, text) -> true | false, errno: on the stream that answers this request; ENOENT:
 * its client is gone, or the server is closed; ENOBUFS: the client is too slow
 */
static int l_send(lua_State *L)
{
	const struct l_http *self = luaL_checkudata(L, 1, TYPENAME);
	const uint64_t id = (uint64_t)luaL_checkinteger(L, 2);
	size_t len;
	const char *text = luaL_checklstring(L, 3, &len);
	const int rc = self->http ? pev_http_send(self->http, id, text, len) : -ENOENT;

	lua_pushboolean(L, rc == 0);
	if (rc == 0)
		return 1;
	lua_pushinteger(L, -rc);
	return 2;
}

/* server:finish(id): ends the stream */
static int l_finish(lua_State *L)
{
	const struct l_http *self = luaL_checkudata(L, 1, TYPENAME);
	const uint64_t id = (uint64_t)luaL_checkinteger(L, 2);

	if (self->http)
		pev_http_finish(self->http, id);
	return 0;
}

/* server:connections() -> open ones, those refused so far */
static int l_connections(lua_State *L)
{
	const struct l_http *self = check_open(L);

	lua_pushinteger(L, pev_http_connections(self->http));
	lua_pushinteger(L, (lua_Integer)pev_http_refused(self->http));
	return 2;
}

/* server:close(); can be called twice, but not by a function that answers a request */
static int l_close(lua_State *L)
{
	struct l_http *self = luaL_checkudata(L, 1, TYPENAME);
	struct pev_http *http = self->http;

	if (http && pev_http_is_in_turn(http))
		return luaL_error(L, "the server answers a request");
	lua_settop(L, 1);
	self->L = L;
	self->http = NULL;
	pev_http_close(http);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "fd", l_fd },
	{ "port", l_port },
	{ "turn", l_turn },
	{ "wake", l_wake },
	{ "send", l_send },
	{ "finish", l_finish },
	{ "connections", l_connections },
	{ "close", l_close },
	{ "__close", l_close },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "listen", l_listen },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_http(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	luaL_newlib(L, functions);
	return 1;
}
