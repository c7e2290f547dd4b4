/*
 * lnats.c - the module perfev.nats: connections to NATS through libnats.
 *
 * A shared object of its own, loaded by the verbs that talk to many machines. Its userdata is a
 * connection. Lua runs only on the caller's thread: libnats' threads fill queues.
 */
#include "lua/fleet/lnats.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lset.h"

int luaopen_perfev_nats(lua_State *L);

enum {
	MOST_URLS = 32,
	CONNECT_MS = 5000,
	ACK_MS = 5000,
};

int l_nats_failure(lua_State *L, int rc, const struct pev_err *err)
{
	return l_fail(L, rc, err);
}

struct pev_nats *l_nats_check(lua_State *L, int idx)
{
	struct pev_nats **nats = luaL_checkudata(L, idx, L_NATS_CONNECTION);

	if (!*nats)
		luaL_error(L, "the connection is closed");
	return *nats;
}

/* ---- messages ---- */

static void push_headers(lua_State *L, natsMsg *msg)
{
	const char **names = NULL, *value;
	int nr = 0;

	if (natsMsgHeader_Keys(msg, &names, &nr) != NATS_OK)
		return;
	lua_createtable(L, 0, nr);
	for (int i = 0; i < nr; i++) {
		if (natsMsgHeader_Get(msg, names[i], &value) == NATS_OK)
			l_set_string(L, names[i], value);
	}
	free(names);
	lua_setfield(L, -2, "headers");
}

void l_nats_push_message(lua_State *L, natsMsg *msg)
{
	if (!msg) {
		lua_pushnil(L);
		return;
	}
	lua_createtable(L, 0, 4);
	l_set_string(L, "subject", natsMsg_GetSubject(msg));
	l_set_string(L, "reply", natsMsg_GetReply(msg));
	lua_pushlstring(L, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
	lua_setfield(L, -2, "data");
	push_headers(L, msg);
	natsMsg_Destroy(msg);
}

/* ---- connecting ---- */

static const char *text_field(lua_State *L, const char *name)
{
	const char *text;

	lua_getfield(L, 1, name); /* stays on the stack, so that the text stays valid */
	text = luaL_optstring(L, -1, NULL);
	return text;
}

static int read_urls(lua_State *L, const char **urls)
{
	lua_Integer nr;

	lua_getfield(L, 1, "url");
	if (lua_type(L, -1) == LUA_TSTRING) {
		urls[0] = lua_tostring(L, -1);
		return 1;
	}
	luaL_argcheck(L, lua_istable(L, -1), 1, "url: a text or a list of texts expected");
	nr = (lua_Integer)lua_rawlen(L, -1);
	luaL_argcheck(L, nr > 0 && nr <= MOST_URLS, 1, "url: 1 to 32 servers expected");
	luaL_checkstack(L, (int)nr, "url");
	for (int i = 0; i < nr; i++) {
		lua_rawgeti(L, -1 - i, i + 1);
		luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, 1, "url: texts expected");
		urls[i] = lua_tostring(L, -1);
	}
	return (int)nr;
}

static int int_field(lua_State *L, const char *name, int otherwise)
{
	int value;

	lua_getfield(L, 1, name);
	value = (int)luaL_optinteger(L, -1, otherwise);
	lua_pop(L, 1);
	return value;
}

static bool bool_field(lua_State *L, const char *name)
{
	bool value;

	lua_getfield(L, 1, name);
	value = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return value;
}

/*
 * connect{ url = text or list, tls_ca =, tls_cert =, tls_key =, name =, user =, password =,
 * token =, creds =, inbox =, timeout_ms =, retry = } -> connection | nil, message, errno
 */
static int l_connect(lua_State *L)
{
	const char *urls[MOST_URLS];
	struct pev_nats_options options = { .urls = urls };
	struct pev_nats **nats;
	struct pev_err err;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	nats = lua_newuserdatauv(L, sizeof(*nats), 0);
	*nats = NULL;
	luaL_setmetatable(L, L_NATS_CONNECTION);
	options.nr_urls = read_urls(L, urls);
	options.authority = text_field(L, "tls_ca");
	options.certificate = text_field(L, "tls_cert");
	options.key = text_field(L, "tls_key");
	options.name = text_field(L, "name");
	options.user = text_field(L, "user");
	options.password = text_field(L, "password");
	options.token = text_field(L, "token");
	options.credentials = text_field(L, "creds");
	options.inbox = text_field(L, "inbox");
	options.timeout_ms = int_field(L, "timeout_ms", CONNECT_MS);
	options.retry = bool_field(L, "retry");
	rc = pev_nats_open(nats, &options, &err);
	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	lua_pushvalue(L, 2);
	return 1;
}

/* c:close(); collected, it is closed, too */
static int l_close(lua_State *L)
{
	struct pev_nats **nats = luaL_checkudata(L, 1, L_NATS_CONNECTION);

	if (*nats)
		pev_nats_close(*nats);
	*nats = NULL;
	return 0;
}

/* c:fd() -> a descriptor that is readable while something waits */
static int l_fd(lua_State *L)
{
	lua_pushinteger(L, pev_nats_fd(l_nats_check(L, 1)));
	return 1;
}

/* c:status() -> "connected", "connecting" or "closed" */
static int l_status(lua_State *L)
{
	static const char *const names[] = {
		[PEV_NATS_CLOSED] = "closed",
		[PEV_NATS_CONNECTING] = "connecting",
		[PEV_NATS_CONNECTED] = "connected",
	};
	struct pev_nats **nats = luaL_checkudata(L, 1, L_NATS_CONNECTION);

	lua_pushstring(L, *nats ? names[pev_nats_state(*nats)] : "closed");
	return 1;
}

/* c:notes() -> list of { kind =, text = }; the kinds are those of struct pev_nats_note */
static int l_notes(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	struct pev_nats_note *note;

	lua_newtable(L);
	while ((note = pev_nats_take_note(nats))) {
		lua_createtable(L, 0, 2);
		l_set_string(L, "kind", note->kind);
		l_set_string(L, "text", note->text);
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
		pev_nats_note_free(note);
	}
	return 1;
}

/* c:last_error() -> text | nil */
static int l_last_error(lua_State *L)
{
	natsConnection *connection = pev_nats_connection(l_nats_check(L, 1));
	const char *text = NULL;
	natsStatus s = natsConnection_GetLastError(connection, &text);

	if (s == NATS_OK)
		return 0;
	lua_pushstring(L, text && *text ? text : natsStatus_GetText(s));
	return 1;
}

/* c:max_payload() -> bytes that the server accepts in a message */
static int l_max_payload(lua_State *L)
{
	natsConnection *connection = pev_nats_connection(l_nats_check(L, 1));

	lua_pushinteger(L, natsConnection_GetMaxPayload(connection));
	return 1;
}

/* ---- publishing ---- */

/* true | nil, message, errno */
static int push_result(lua_State *L, int rc, const struct pev_err *err)
{
	if (rc < 0)
		return l_nats_failure(L, rc, err);
	lua_pushboolean(L, true);
	return 1;
}

/* c:publish(subject, bytes [, reply]) -> true | nil, message, errno */
static int l_publish(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *subject = luaL_checkstring(L, 2);
	size_t len;
	const char *bytes = luaL_checklstring(L, 3, &len);
	const char *reply = luaL_optstring(L, 4, NULL);
	struct pev_err err;

	return push_result(L, pev_nats_publish(nats, subject, reply, bytes, len, &err), &err);
}

/* c:request(subject, bytes, timeout_ms) -> message | nil, message, errno; blocks */
static int l_request(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *subject = luaL_checkstring(L, 2);
	size_t len;
	const char *bytes = luaL_checklstring(L, 3, &len);
	int timeout_ms = (int)luaL_checkinteger(L, 4);
	struct pev_err err;
	natsMsg *msg;
	int rc = pev_nats_request(nats, subject, bytes, len, timeout_ms, &msg, &err);

	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	l_nats_push_message(L, msg);
	return 1;
}

/* c:inbox() -> a subject that no other client uses */
static int l_inbox(lua_State *L)
{
	char *inbox = NULL;
	natsStatus s = natsInbox_Create(&inbox);
	struct pev_err err;

	l_nats_check(L, 1);
	if (s != NATS_OK)
		return l_nats_failure(L, pev_nats_fail(&err, s, "inbox"), &err);
	lua_pushstring(L, inbox);
	natsInbox_Destroy(inbox);
	return 1;
}

/* c:flush(timeout_ms) -> true once the server has read everything | nil, message, errno */
static int l_flush(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	int64_t timeout_ms = luaL_checkinteger(L, 2);
	natsStatus s = natsConnection_FlushTimeout(pev_nats_connection(nats), timeout_ms);
	struct pev_err err;

	return push_result(L, s == NATS_OK ? 0 : pev_nats_fail(&err, s, "flush"), &err);
}

/*
 * c:js_publish(subject, bytes, id [, timeout_ms]) -> true | nil, message, errno; asynchronous. Each
 * call that returned true gives one entry of acks().
 */
static int l_js_publish(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *subject = luaL_checkstring(L, 2);
	size_t len;
	const char *bytes = luaL_checklstring(L, 3, &len);
	const char *id = luaL_checkstring(L, 4);
	int timeout_ms = (int)luaL_optinteger(L, 5, ACK_MS);
	struct pev_err err;

	return push_result(L, pev_nats_publish_stream(nats, subject, bytes, len, id, timeout_ms,
						      &err), &err);
}

/* c:acks() -> list of { id =, ok =, duplicate =, stream =, seq =, error =, code = } */
static int l_acks(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	struct pev_nats_ack *ack;

	lua_newtable(L);
	while ((ack = pev_nats_take_ack(nats))) {
		lua_createtable(L, 0, 7);
		l_set_string(L, "id", ack->id);
		l_set_boolean(L, "ok", !ack->error);
		l_set_boolean(L, "duplicate", ack->duplicate);
		l_set_string(L, "stream", ack->stream);
		l_set_u64(L, "seq", ack->sequence);
		l_set_string(L, "error", ack->error);
		l_set_integer(L, "code", ack->code);
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
		pev_nats_ack_free(ack);
	}
	return 1;
}

static const luaL_Reg methods[] = {
	{ "acks", l_acks },
	{ "close", l_close },
	{ "fd", l_fd },
	{ "flush", l_flush },
	{ "inbox", l_inbox },
	{ "js_publish", l_js_publish },
	{ "last_error", l_last_error },
	{ "max_payload", l_max_payload },
	{ "notes", l_notes },
	{ "publish", l_publish },
	{ "pull", l_nats_pull },
	{ "request", l_request },
	{ "status", l_status },
	{ "stream_add", l_nats_stream_add },
	{ "stream_delete", l_nats_stream_delete },
	{ "stream_info", l_nats_stream_info },
	{ "stream_purge", l_nats_stream_purge },
	{ "subscribe", l_nats_subscribe },
	{ "__close", l_close },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "connect", l_connect },
	{ NULL, NULL },
};

static int l_end(lua_State *L)
{
	(void)L;
	pev_nats_end();
	return 0;
}

/*
 * Finalizers run in reverse order: this one after those of all connections. A module that is
 * loaded again keeps the first one.
 */
static void set_end(lua_State *L)
{
	bool is_set = lua_getfield(L, LUA_REGISTRYINDEX, "perfev.nats.end") != LUA_TNIL;

	lua_pop(L, 1);
	if (is_set)
		return;
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, l_end);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -2);
	lua_setfield(L, LUA_REGISTRYINDEX, "perfev.nats.end");
}

__attribute__((visibility("default"))) int luaopen_perfev_nats(lua_State *L)
{
	set_end(L);
	l_class(L, L_NATS_CONNECTION, methods, l_close);
	l_nats_subscription_register(L);
	l_nats_consumer_register(L);
	luaL_newlib(L, functions);
	return 1;
}
