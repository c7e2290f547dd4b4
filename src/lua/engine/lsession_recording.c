/* lsession_recording.c - the events of a recording that a session replays; see lsession.h. */
#include "lua/engine/lsession.h"

#include "lua/base/lerror.h"
#include "lua/base/loption.h"
#include "lua/hooks/lhooks.h"
#include "lua/record/lrecord_filter.h"

/* ---- creation ---- */

void l_session_read_wanted(lua_State *L, struct l_session *self)
{
	lua_getfield(L, 1, "wanted");
	if (!lua_isnil(L, -1))
		l_record_filter_read(L, -1, &self->engine.wanted);
	lua_pop(L, 1);
}

bool l_session_take_recording(lua_State *L, struct l_session *self)
{
	struct pev_reader *reader;

	if (lua_getfield(L, 1, "reader") == LUA_TNIL) {
		lua_pop(L, 1);
		return false;
	}
	self->file = l_reader_check(L, -1);
	reader = l_reader_enter(self->file, L, -1);
	luaL_argcheck(L, reader, 1, "the recording is closed");
	pev_recording_source_init(&self->recording, reader, l_reader_tasks(self->file));
	l_reader_shown(self->file, &self->d.now);
	lua_setiuservalue(L, 2, L_SESSION_UV_FILE);
	l_hooks_enter(L, self->sys);
	return true;
}

void l_session_add_totals(struct l_session *self, struct pev_totals *totals)
{
	const struct pev_reader_totals *read = pev_reader_totals(self->recording.reader);

	totals->records = read->records;
	totals->lost = read->lost;
	totals->lost_own = self->recording.lost_own;
	totals->lost_samples = read->lost_samples;
	totals->late = read->late;
	totals->malformed = read->malformed;
	totals->unknown_id = read->unknown_id;
	totals->throttled = read->types[PERF_RECORD_THROTTLE];
}

/* ---- events ---- */

static struct l_session *check_recording(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	luaL_argcheck(L, self->file, 1, "a session of a recording expected");
	return self;
}

/* Returns the number, from 0, of the event at arg, which counts from 1. */
static uint32_t check_event(lua_State *L, const struct l_session *self, int arg)
{
	lua_Integer n = luaL_checkinteger(L, arg);

	luaL_argcheck(L, n >= 1 && n <= pev_reader_count_events(self->recording.reader), arg,
		      "no such event");
	return (uint32_t)n - 1;
}

/* s:know(name, table): adds a table that views use, e.g. the recorder's registers by mask bit */
static int l_session_know(lua_State *L)
{
	const char *name = luaL_checkstring(L, 2);

	luaL_checktype(L, 3, LUA_TTABLE);
	l_session_check(L);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_pushvalue(L, 3);
	lua_setfield(L, -2, name);
	return 0;
}

/*
 * s:listen{callbacks=, event=, fields=, where=, where_all=, recorded= (number of the recorded
 * event from 1; nil: side-band records of all), declaration=, takes_others=} -> slot
 */
static int l_session_listen(lua_State *L)
{
	struct l_session *self = check_recording(L);
	struct pev_listener listener = { .event = PEV_NO_EVENT };
	uint32_t slot = self->engine.nr_listeners;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	if (lua_getfield(L, 2, "recorded") != LUA_TNIL)
		listener.event = check_event(L, self, 3);
	listener.declaration = (uint32_t)l_option_integer(L, 2, "declaration", 0);
	listener.takes_others = l_option_bool(L, 2, "takes_others");
	if (l_dispatch_reserve_slot(&self->d, slot) < 0)
		return luaL_error(L, "no memory for an event");
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_getfield(L, 2, "event");
	lua_rawseti(L, -2, 2 * (lua_Integer)slot + 1);
	listener.wanted_types =
		l_dispatch_set_callbacks(L, 1, &self->d, slot, &listener.named_types);
	if (pev_engine_add_listener(&self->engine, &listener) < 0)
		return luaL_error(L, "no memory for an event");
	lua_pushinteger(L, slot);
	return 1;
}

/* Makes the payload view expire with our records. The view keeps its former owner and us alive. */
static void adopt_payload(lua_State *L, struct l_session *self, int idx, struct l_args *args)
{
	if (args->now == &self->d.now)
		return;
	lua_createtable(L, 2, 0);
	lua_getiuservalue(L, idx, L_ARGS_UV_OWNER);
	lua_rawseti(L, -2, 1);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 2);
	lua_setiuservalue(L, idx, L_ARGS_UV_OWNER);
	args->now = &self->d.now;
	args->gen = self->d.now - 1;
}

/* s:payload(slot, payload): sets the payload view of the slot's samples */
static int l_session_payload(lua_State *L)
{
	struct l_args *args = luaL_checkudata(L, 3, "perfev.args");
	struct l_session *self = check_recording(L);
	uint32_t slot = l_session_check_slot(L, self, 2);

	lua_settop(L, 3);
	adopt_payload(L, self, 3, args);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_pushvalue(L, 3);
	lua_rawseti(L, -2, 2 * (lua_Integer)slot + 2);
	self->d.slots[slot].args = args;
	return 0;
}

/* s:exclude(pid): leaves out the records of this process; 0: none */
static int l_session_exclude(lua_State *L)
{
	struct l_session *self = check_recording(L);

	pev_engine_exclude_pid(&self->engine, (int)luaL_checkinteger(L, 2));
	return 0;
}

/* s:keep(n): delivers records of the n-th event, from 1, also of the excluded process */
static int l_session_keep(lua_State *L)
{
	struct l_session *self = check_recording(L);

	return l_result(L, pev_engine_keep_excluded(&self->engine, check_event(L, self, 2)), NULL);
}

/* s:lost_own(n): sets how many records of hidden events were lost */
static int l_session_lost_own(lua_State *L)
{
	check_recording(L)->recording.lost_own = (uint64_t)luaL_checkinteger(L, 2);
	return 0;
}

/*
 * s:stacks(n, { no_user=, no_kernel=, of_ip= }): sets the form of the n-th event's stacks; from 1
 */
static int l_session_stacks(lua_State *L)
{
	struct l_session *self = check_recording(L);
	uint32_t event = check_event(L, self, 2);
	struct pev_stack_form form = {
		.no_user = l_option_bool(L, 3, "no_user"),
		.no_kernel = l_option_bool(L, 3, "no_kernel"),
		.of_ip = l_option_bool(L, 3, "of_ip"),
	};

	pev_reader_set_stack_form(self->recording.reader, event, &form);
	return 0;
}

const luaL_Reg l_session_recording_methods[] = {
	{ "know", l_session_know },
	{ "listen", l_session_listen },
	{ "payload", l_session_payload },
	{ "exclude", l_session_exclude },
	{ "keep", l_session_keep },
	{ "lost_own", l_session_lost_own },
	{ "stacks", l_session_stacks },
	{ NULL, NULL },
};
