/*
 * lnats_consumer.c - the userdata perfev.nats.consumer: fetches the messages of a stream.
 *
 * It keeps its connection alive. A durable consumer stays on the server when it is closed.
 */
#include <lauxlib.h>
#include <string.h>

#include "lua/base/lclass.h"
#include "lua/base/lset.h"
#include "lua/fleet/lnats.h"

#define TYPENAME "perfev.nats.consumer"

enum {
	MOST_FETCHED = 10000,
	UV_CONNECTION = 1,
	NS_PER_S = 1000000000,
};

static natsSubscription **check_consumer(lua_State *L)
{
	return luaL_checkudata(L, 1, TYPENAME);
}

/* from: "all", "new", "last" (of each subject), a sequence number; time: ns since 1970 */
static void read_start(lua_State *L, int idx, jsConsumerConfig *config)
{
	static const char *const names[] = { "all", "new", "last", NULL };
	static const jsDeliverPolicy policies[] = { js_DeliverAll, js_DeliverNew,
						    js_DeliverLastPerSubject };

	if (lua_getfield(L, idx, "from") == LUA_TNUMBER) {
		config->DeliverPolicy = js_DeliverByStartSequence;
		config->OptStartSeq = (uint64_t)luaL_checkinteger(L, -1);
	} else {
		config->DeliverPolicy = policies[luaL_checkoption(L, -1, "all", names)];
	}
	if (lua_getfield(L, idx, "time") != LUA_TNIL) {
		config->DeliverPolicy = js_DeliverByStartTime;
		/* libnats 3.4.1 writes .031 s as .31: whole seconds have no such part. */
		config->OptStartTime = luaL_checkinteger(L, -1) / NS_PER_S * NS_PER_S;
	}
	lua_pop(L, 2);
}

/* A durable consumer that exists keeps its start: libnats refuses to ask for another one. */
static void keep_start(jsCtx *js, const char *stream, const char *durable, jsConsumerConfig *config)
{
	jsConsumerInfo *info = NULL;

	if (js_GetConsumerInfo(&info, js, stream, durable, NULL, NULL) != NATS_OK)
		return;
	config->DeliverPolicy = info->Config->DeliverPolicy;
	config->OptStartSeq = info->Config->OptStartSeq;
	config->OptStartTime = info->Config->OptStartTime;
	jsConsumerInfo_Destroy(info);
}

/*
 * c:pull(stream, durable or nil [, { filter =, from =, time =, ack_wait_s =, unacknowledged = }])
 * -> consumer | nil, message, errno
 */
int l_nats_pull(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *stream = luaL_checkstring(L, 2);
	const char *durable = luaL_optstring(L, 3, NULL);
	const char *filter = ">";
	natsSubscription **consumer;
	jsSubOptions options;
	struct pev_err err;
	natsStatus s;
	jsCtx *js;
	int rc;

	jsSubOptions_Init(&options);
	options.Stream = stream;
	lua_settop(L, 4);
	if (!lua_isnil(L, 4)) {
		read_start(L, 4, &options.Config);
		lua_getfield(L, 4, "ack_wait_s");
		options.Config.AckWait = luaL_optinteger(L, -1, 0) * NS_PER_S;
		lua_getfield(L, 4, "unacknowledged");
		options.Config.MaxAckPending = luaL_optinteger(L, -1, 0);
		lua_getfield(L, 4, "filter");
		filter = luaL_optstring(L, -1, ">");
	}
	consumer = lua_newuserdatauv(L, sizeof(*consumer), 1);
	*consumer = NULL;
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, UV_CONNECTION);
	rc = pev_nats_stream_context(nats, &js, &err);
	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	pev_nats_hold_signals();
	if (durable)
		keep_start(js, stream, durable, &options.Config);
	s = js_PullSubscribe(consumer, js, filter, durable, NULL, &options, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK)
		return l_nats_failure(L, pev_nats_fail(&err, s, stream), &err);
	return 1;
}

static void set_place(lua_State *L, const jsMsgMetaData *place)
{
	l_set_u64(L, "seq", place->Sequence.Stream);
	l_set_u64(L, "pending", place->NumPending); /* messages behind it */
	l_set_u64(L, "deliveries", place->NumDelivered);
	l_set_integer(L, "time", place->Timestamp);
}

static void push_list(lua_State *L, natsMsgList *list)
{
	lua_createtable(L, list->Count, 0);
	for (int i = 0; i < list->Count; i++) {
		natsMsg *msg = list->Msgs[i];
		jsMsgMetaData *place = NULL;

		list->Msgs[i] = NULL;
		if (natsMsg_GetMetaData(&place, msg) != NATS_OK)
			place = NULL;
		l_nats_push_message(L, msg);
		if (place)
			set_place(L, place);
		jsMsgMetaData_Destroy(place);
		lua_rawseti(L, -2, i + 1);
	}
}

/*
 * k:fetch(n, timeout_ms) -> list of messages with seq, time (ns), pending and deliveries, empty
 * after the timeout | nil, message, errno; blocks
 */
static int l_fetch(lua_State *L)
{
	natsSubscription **consumer = check_consumer(L);
	lua_Integer nr = luaL_checkinteger(L, 2);
	int64_t timeout_ms = luaL_checkinteger(L, 3);
	natsMsgList list = { 0 };
	struct pev_err err;
	natsStatus s;

	luaL_argcheck(L, *consumer, 1, "the consumer is closed");
	luaL_argcheck(L, nr > 0 && nr <= MOST_FETCHED, 2, "1 to 10000 expected");
	luaL_argcheck(L, timeout_ms > 0, 3, "a time above 0 expected");
	pev_nats_hold_signals();
	s = natsSubscription_Fetch(&list, *consumer, (int)nr, timeout_ms, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK && s != NATS_TIMEOUT)
		return l_nats_failure(L, pev_nats_fail(&err, s, "fetch"), &err);
	push_list(L, &list);
	natsMsgList_Destroy(&list);
	return 1;
}

/* k:ack(message) -> true | nil, message, errno */
static int l_ack(lua_State *L)
{
	struct pev_err err;
	const char *reply;
	int rc;

	check_consumer(L);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_getiuservalue(L, 1, UV_CONNECTION);
	lua_getfield(L, 2, "reply");
	reply = luaL_checkstring(L, -1);
	rc = pev_nats_publish(l_nats_check(L, -2), reply, NULL, "+ACK", 4, &err);
	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	lua_pushboolean(L, true);
	return 1;
}

/* k:close(); collected, it is closed, too */
static int l_close(lua_State *L)
{
	natsSubscription **consumer = check_consumer(L);

	natsSubscription_Destroy(*consumer);
	*consumer = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "ack", l_ack },
	{ "close", l_close },
	{ "fetch", l_fetch },
	{ "__close", l_close },
	{ NULL, NULL },
};

void l_nats_consumer_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
}
