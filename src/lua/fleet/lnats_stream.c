/*
 * lnats_stream.c - streams of JetStream: methods of a connection.
 */
#include <lauxlib.h>

#include "lua/base/lset.h"
#include "lua/fleet/lnats.h"

enum {
	MOST_SUBJECTS = 32,
	NS_PER_S = 1000000000,
	PURGE_TEXT = 3,
};

static lua_Integer integer_field(lua_State *L, const char *name, lua_Integer otherwise)
{
	lua_Integer value;

	lua_getfield(L, 2, name);
	value = luaL_optinteger(L, -1, otherwise);
	lua_pop(L, 1);
	return value;
}

/* The texts stay on the stack. */
static int read_subjects(lua_State *L, const char **subjects)
{
	int nr;

	lua_getfield(L, 2, "subjects");
	luaL_argcheck(L, lua_istable(L, -1), 2, "subjects: a list expected");
	nr = (int)lua_rawlen(L, -1);
	luaL_argcheck(L, nr > 0 && nr <= MOST_SUBJECTS, 2, "subjects: 1 to 32 expected");
	luaL_checkstack(L, nr, "subjects");
	for (int i = 0; i < nr; i++) {
		lua_rawgeti(L, -1 - i, i + 1);
		subjects[i] = luaL_checkstring(L, -1);
	}
	return nr;
}

static int push_stream_failure(lua_State *L, natsStatus s, const char *name)
{
	struct pev_err err;

	return l_nats_failure(L, pev_nats_fail(&err, s, name), &err);
}

/*
 * c:stream_add{ name =, subjects =, storage = "file" or "memory", replicas =, max_age_s =,
 * max_bytes =, max_messages =, max_per_subject =, max_message_bytes =, duplicate_window_s =,
 * discard = "old" or "new" } -> true | nil, message, errno. A stream that exists with the same
 * settings is no error.
 */
int l_nats_stream_add(lua_State *L)
{
	static const char *const storages[] = { "file", "memory", NULL };
	static const char *const discards[] = { "old", "new", NULL };
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *subjects[MOST_SUBJECTS];
	jsStreamConfig config;
	struct pev_err err;
	natsStatus s;
	jsCtx *js;
	int rc;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	jsStreamConfig_Init(&config);
	lua_getfield(L, 2, "name");
	config.Name = luaL_checkstring(L, -1);
	lua_getfield(L, 2, "storage");
	config.Storage = luaL_checkoption(L, -1, "file", storages) ? js_MemoryStorage :
								     js_FileStorage;
	lua_getfield(L, 2, "discard");
	config.Discard = luaL_checkoption(L, -1, "old", discards) ? js_DiscardNew : js_DiscardOld;
	config.SubjectsLen = read_subjects(L, subjects);
	config.Subjects = subjects;
	config.Replicas = integer_field(L, "replicas", 1);
	config.MaxAge = integer_field(L, "max_age_s", 0) * NS_PER_S;
	config.MaxBytes = integer_field(L, "max_bytes", -1);
	config.MaxMsgs = integer_field(L, "max_messages", -1);
	config.MaxMsgsPerSubject = integer_field(L, "max_per_subject", -1);
	config.MaxMsgSize = (int32_t)integer_field(L, "max_message_bytes", -1);
	config.Duplicates = integer_field(L, "duplicate_window_s", 120) * NS_PER_S;
	rc = pev_nats_stream_context(nats, &js, &err);
	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	pev_nats_hold_signals();
	s = js_AddStream(NULL, js, &config, NULL, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK)
		return push_stream_failure(L, s, config.Name);
	lua_pushboolean(L, true);
	return 1;
}

static void push_info(lua_State *L, const jsStreamInfo *info)
{
	lua_createtable(L, 0, 12);
	l_set_string(L, "name", info->Config->Name);
	l_set_u64(L, "messages", info->State.Msgs);
	l_set_u64(L, "bytes", info->State.Bytes);
	l_set_u64(L, "first", info->State.FirstSeq);
	l_set_u64(L, "last", info->State.LastSeq);
	l_set_integer(L, "first_time", info->State.FirstTime);
	l_set_integer(L, "last_time", info->State.LastTime);
	l_set_integer(L, "subjects", info->State.NumSubjects);
	l_set_integer(L, "consumers", info->State.Consumers);
	l_set_integer(L, "replicas", info->Config->Replicas);
	l_set_integer(L, "max_age_s", info->Config->MaxAge / NS_PER_S);
	l_set_string(L, "leader", info->Cluster ? info->Cluster->Leader : NULL);
}

/*
 * c:stream_info(name) -> { name =, messages =, bytes =, first =, last =, first_time =, last_time =,
 * subjects =, consumers =, replicas =, max_age_s =, leader = } | nil, message, errno
 */
int l_nats_stream_info(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *name = luaL_checkstring(L, 2);
	jsStreamInfo *info = NULL;
	struct pev_err err;
	natsStatus s;
	jsCtx *js;
	int rc = pev_nats_stream_context(nats, &js, &err);

	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	pev_nats_hold_signals();
	s = js_GetStreamInfo(&info, js, name, NULL, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK)
		return push_stream_failure(L, s, name);
	push_info(L, info);
	jsStreamInfo_Destroy(info);
	return 1;
}

/* c:stream_purge(name [, subject]) -> true | nil, message, errno; removes the messages */
int l_nats_stream_purge(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *name = luaL_checkstring(L, 2);
	struct pev_err err;
	jsOptions options;
	natsStatus s;
	jsCtx *js;
	int rc = pev_nats_stream_context(nats, &js, &err);

	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	jsOptions_Init(&options);
	options.Stream.Purge.Subject = luaL_optstring(L, PURGE_TEXT, NULL);
	pev_nats_hold_signals();
	s = js_PurgeStream(js, name, &options, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK)
		return push_stream_failure(L, s, name);
	lua_pushboolean(L, true);
	return 1;
}

/* c:stream_delete(name) -> true | nil, message, errno */
int l_nats_stream_delete(lua_State *L)
{
	struct pev_nats *nats = l_nats_check(L, 1);
	const char *name = luaL_checkstring(L, 2);
	struct pev_err err;
	natsStatus s;
	jsCtx *js;
	int rc = pev_nats_stream_context(nats, &js, &err);

	if (rc < 0)
		return l_nats_failure(L, rc, &err);
	pev_nats_hold_signals();
	s = js_DeleteStream(js, name, NULL, NULL);
	pev_nats_release_signals();
	if (s != NATS_OK)
		return push_stream_failure(L, s, name);
	lua_pushboolean(L, true);
	return 1;
}
