/*
 * lsession.c - the userdata perfev.core.session: creation, waiting, delivery, totals, end; see
 * lsession.h.
 *
 * A callback can close the recording, the session or the Lua state, and can raise. So the engine
 * is never on the stack below a callback: each round is a loop here over pev_engine_next().
 */
#include "lua/engine/lsession.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/loption.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lhooks.h"
#include "lua/record/ltask.h"
#include "lua/symbol/lstack_table.h"

#define TYPENAME "perfev.core.session"
#define MAX_READY 64
/* Of a recording: calls of Lua, and records read, between two checks for signals. */
#define ROUND_CALLS 512
#define ROUND_READS 8192

struct l_session *l_session_check_any(lua_State *L)
{
	struct l_session *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->sys)
		l_hooks_enter(L, self->sys);
	self->d.L = L;
	return self;
}

struct l_session *l_session_check(lua_State *L)
{
	struct l_session *self = l_session_check_any(L);

	if (!self->s)
		luaL_error(L, "the session is closed");
	if (!pev_session_is_ours(self->s))
		luaL_error(L, "the session is the parent's: this process was forked since");
	return self;
}

struct l_session *l_session_check_live(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	luaL_argcheck(L, !self->file, 1, "a live session expected");
	return self;
}

uint32_t l_session_check_slot(lua_State *L, struct l_session *self, int arg)
{
	lua_Integer slot = luaL_checkinteger(L, arg);

	luaL_argcheck(L, slot >= 0 && slot < (lua_Integer)self->engine.nr_listeners, arg,
		      "no such event");
	return (uint32_t)slot;
}

/*
 * Prepares for a call that reads records, with the recording (or nil) at idx. Called again after
 * each callback, which may have closed the session or the recording: then it returns false.
 */
static bool enter(lua_State *L, struct l_session *self, int idx)
{
	self->d.L = L;
	if (!self->s || self->closing)
		return false;
	if (self->file)
		return l_reader_enter(self->file, L, idx) != NULL;
	l_hooks_enter(L, self->sys);
	return true;
}

static void note(void *ctx, const struct pev_err *what)
{
	const struct l_session *self = ctx;

	l_note(self->d.L, 1, L_UV_HANDLERS, what);
}

static const char *view_comm(void *ctx, int tid)
{
	struct l_session *self = ctx;

	return pev_tasks_name(self->engine.source->tasks, tid);
}

/* ---- creation ---- */

/*
 * session{ring_bytes=, max_lifted=, clockid=, exclude_pid=, unordered=, max_bytes=, note=,
 * on_error=, news=, reader=,
 * wanted= {from=, to=, from_first=, to_first=, cpus=, pids=, tids=, comms=}}
 * -> session | nil, message, errno; reader: replays the records that it has not returned yet, and
 * calls news() when it finds new events
 */
static int l_session(lua_State *L)
{
	struct pev_session_config config = { 0 };
	struct l_session *self;
	struct pev_err err;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	config.ring_bytes = (size_t)l_option_integer(L, 1, "ring_bytes", 0);
	config.max_lifted = (size_t)l_option_integer(L, 1, "max_lifted", 0);
	config.clockid = (int)l_option_integer(L, 1, "clockid", CLOCK_MONOTONIC);
	config.unordered = l_option_bool(L, 1, "unordered");
	/* The userdata comes first: if the open fails, its metatable frees it. */
	self = lua_newuserdatauv(L, sizeof(*self), L_SESSION_UV_FILE);
	*self = (struct l_session){ .d = { .L = L } };
	pev_engine_init(&self->engine);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, 2, L_UV_HANDLERS);
	l_dispatch_init(L, &self->d, 2, view_comm, self);
	l_dispatch_budget(L, 2)->limit = (uint64_t)l_option_integer(L, 1, "max_bytes", -1);
	self->sys = l_hooks_push(L);
	lua_setiuservalue(L, 2, L_UV_HOOKS);
	config.note = note;
	config.note_ctx = self;
	self->engine.exclude_pid = (int)l_option_integer(L, 1, "exclude_pid", 0);
	l_session_read_wanted(L, self);
	config.names_tasks = self->engine.exclude_pid || self->engine.wanted.nr_comms;
	rc = pev_session_open(&self->s, self->sys, &config, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	pev_engine_set_source(&self->engine, l_session_take_recording(L, self) ?
				&self->recording.source : pev_session_source(self->s));
	l_dispatch_set_tasks(&self->d, self->engine.source->tasks);
	pev_tasks_set_budget(self->engine.source->tasks, l_dispatch_budget(L, 2));
	lua_getiuservalue(L, 2, L_UV_CONTEXT);
	lua_getfield(L, -1, "stacks");
	l_stack_table_watch(L, -1);
	lua_settop(L, 2);
	lua_replace(L, 1); /* methods have the session at 1 */
	return 1;
}

/* ---- events ---- */

static int switch_event(lua_State *L, bool on, const char *verb)
{
	struct l_session *self = l_session_check(L);
	uint32_t index = l_session_check_slot(L, self, 2);
	struct pev_slot *slot;
	struct pev_err err;
	int rc = 0;

	if (self->file) {
		pev_engine_switch(&self->engine, index, on);
		return l_result(L, rc, NULL);
	}
	slot = pev_session_slot(self->s, index);
	rc = pev_session_switch_slot(slot, on);
	if (rc < 0)
		pev_fail(&err, rc, "cannot %s %s", verb, slot->event.name);
	return l_result(L, rc, &err);
}

/* s:enable_event(slot), s:disable_event(slot) -> 0 | nil, message, errno */
static int l_session_enable_event(lua_State *L)
{
	return switch_event(L, true, "enable");
}

static int l_session_disable_event(lua_State *L)
{
	return switch_event(L, false, "disable");
}

/* s:enable() -> 0 | nil, message, errno: enables all events and starts the tick */
static int l_session_enable(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	struct pev_err err;

	return l_result(L, self->file ? 0 : pev_session_enable(self->s, &err), &err);
}

static int l_session_disable(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	return l_result(L, self->file ? 0 : pev_session_disable(self->s), NULL);
}

/* s:comm(tid) -> name */
static int l_session_comm(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	lua_pushstring(L, view_comm(self, (int)luaL_checkinteger(L, 2)));
	return 1;
}

/* s:task(tid) -> table | nil */
static int l_session_task(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	return l_task_push(L, self->engine.source->tasks, luaL_checkinteger(L, 2));
}

/* ---- the poll set ---- */

/* s:fd() -> descriptor: always readable for a recording */
static int l_session_fd(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	if (self->file)
		pev_session_wake(self->s);
	lua_pushinteger(L, pev_session_fd(self->s));
	return 1;
}

/*
 * s:watch(fd) -> 0 | nil, message, errno: wait() returns fd when it is readable; not closed by us
 */
static int l_session_watch(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	int fd = (int)luaL_checkinteger(L, 2), rc = pev_session_watch(self->s, fd);
	struct pev_err err;

	if (rc < 0) {
		pev_fail(&err, rc, "cannot watch descriptor %d", fd);
		pev_err_set(&err, PEV_OP_WATCH, -1, -1, 0);
	}
	return l_result(L, rc, &err);
}

/* s:unwatch(fd) -> 0 | nil, message, errno */
static int l_session_unwatch(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	return l_result(L, pev_session_unwatch(self->s, (int)luaL_checkinteger(L, 2)), NULL);
}

/* s:again() -> 0 | nil, message, errno: makes fd() readable until the next wait() */
static int l_session_again(lua_State *L)
{
	return l_result(L, pev_session_wake(l_session_check(L)->s), NULL);
}

static int watch_owned(lua_State *L, struct l_session *self, int fd, const char *what)
{
	int *fds = fd < 0 ? NULL : realloc(self->fds, sizeof(*fds) * (size_t)(self->nr_fds + 1));
	struct pev_err err;
	int rc = fd;

	if (fds) {
		self->fds = fds;
		rc = pev_session_watch(self->s, fd);
		if (rc == 0) {
			fds[self->nr_fds++] = fd;
			lua_pushinteger(L, fd);
			return 1;
		}
	} else if (fd >= 0) {
		rc = -ENOMEM;
	}
	if (fd >= 0)
		self->sys->close(self->sys->ctx, fd);
	return l_result(L, pev_fail(&err, rc, "cannot make a %s", what), &err);
}

/*
 * s:timer(first_ns, every_ns) -> fd | nil, message, errno: watched, closed with the session. Of a
 * recording: a timer on the records' clock, whose number is negative.
 */
static int l_session_timer(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	uint64_t first = (uint64_t)luaL_checkinteger(L, 2);
	uint64_t every = (uint64_t)luaL_checkinteger(L, 3);
	int timer;

	if (self->file) {
		timer = pev_engine_add_timer(&self->engine, first, every);
		if (timer < 0)
			return l_result(L, timer, NULL);
		lua_pushinteger(L, -1 - (lua_Integer)timer);
		return 1;
	}
	return watch_owned(L, self, self->sys->timerfd(self->sys->ctx, first, every), "timer");
}

/*
 * s:signals(set) -> fd | nil, message, errno: a signalfd (bit n-1: signal
 * n), watched, closed with the session; the signals are blocked until then
 */
static int l_session_signals(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	uint64_t set = (uint64_t)luaL_checkinteger(L, 2), changed = 0;
	struct pev_err err;
	int rc = self->sys->sigblock(self->sys->ctx, set, 1, &changed);

	if (rc < 0)
		return l_result(L, pev_fail(&err, rc, "cannot block signals"), &err);
	self->blocked |= changed;
	return watch_owned(L, self, self->sys->signalfd(self->sys->ctx, set), "signal descriptor");
}

/*
 * s:read(fd, len) -> bytes | nil, message, errno. A timer of a recording: "", and its clock goes
 * on; nil: it has not expired
 */
static int l_session_read(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	int fd = (int)luaL_checkinteger(L, 2);
	char buf[512];
	lua_Integer len = luaL_checkinteger(L, 3);
	struct pev_err err;
	int64_t n;

	luaL_argcheck(L, len > 0 && len <= (lua_Integer)sizeof(buf), 3, "1 .. 512 bytes");
	if (fd < 0) {
		lua_pushstring(L, pev_engine_read_timer(&self->engine, (uint32_t)(-1 - fd)) ? "" :
											      NULL);
		return 1;
	}
	n = self->sys->read(self->sys->ctx, fd, buf, (size_t)len);
	if (n < 0)
		return l_result(L, pev_fail(&err, (int)n, "cannot read descriptor %d", fd), &err);
	lua_pushlstring(L, buf, (size_t)n);
	return 1;
}

/*
 * s:wait(timeout_ms) -> watched descriptors that are ready, and the timer of a recording that has
 * expired ... | nil, message, errno
 */
static int l_session_wait(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	int timeout_ms = (int)luaL_checkinteger(L, 2), ready[MAX_READY];
	struct pev_err err;
	int nr = pev_session_wait(self->s, self->file ? 0 : timeout_ms, ready, MAX_READY);

	/* A signal: its handler has run; the caller checks for its effect and waits again. */
	if (nr == -EINTR)
		return 0;
	if (nr < 0)
		return l_result(L, pev_fail(&err, nr, "cannot wait for events"), &err);
	l_raise_pending(L);
	luaL_checkstack(L, nr + 1, "ready descriptors");
	for (int i = 0; i < nr; i++)
		lua_pushinteger(L, ready[i]);
	if (self->engine.has_expired)
		lua_pushinteger(L, -1 - (lua_Integer)self->engine.timer);
	return nr + self->engine.has_expired;
}

/* s:over() -> true when no target or record is left; why reading ended early, or nil */
static int l_session_over(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	lua_pushboolean(L, self->file ? self->engine.ended : pev_session_is_over(self->s));
	lua_pushstring(L, self->damage.code ? self->damage.text : NULL);
	return 2;
}

/* ---- records ---- */

/* Points the next view at the record. Returns the view's number. */
static unsigned point_view(struct l_session *self)
{
	const struct pev_record *rec = &self->engine.rec;
	unsigned process = self->file ? 0 : pev_sys_process();
	unsigned turn = l_dispatch_point_view(&self->d, self->engine.slot, rec, process);
	struct l_view *view = self->d.views[turn];

	view->synthesised = self->engine.from->synthesised;
	view->has_aux = self->d.area && pev_session_aux(self->s, rec, &self->d.area->aux);
	if (view->has_aux) {
		self->d.area->gen = self->d.now;
		self->d.area->process = process;
	}
	return turn;
}

static enum pev_drain check_drain(lua_State *L, int arg)
{
	static const char *const names[] = { "round", "round_all", "rest", "rest_all", "discard",
					     "snapshot", NULL };

	return (enum pev_drain)luaL_checkoption(L, arg, "round", names);
}

static void free_rest(struct l_session *self)
{
	uint64_t changed;

	if (self->blocked)
		self->sys->sigblock(self->sys->ctx, self->blocked, 0, &changed);
	self->blocked = 0;
	for (int i = 0; i < self->nr_fds; i++)
		self->sys->close(self->sys->ctx, self->fds[i]);
	free(self->fds);
	self->fds = NULL;
	self->nr_fds = 0;
	l_unordered_close(self->unordered);
	self->unordered = NULL;
	l_dispatch_free(&self->d);
	pev_engine_free(&self->engine);
	if (self->file) {
		pev_tasks_set_budget(l_reader_tasks(self->file), NULL);
		l_reader_shown(self->file, NULL);
	}
	self->file = NULL;
	pev_tracepoints_free(self->tps);
	pev_kallsyms_free(self->symbols);
	self->tps = NULL;
	self->symbols = NULL;
}

/* Begins a round. The records of a recording end with its rounds: there is no rest. */
static int begin_round(struct l_session *self, enum pev_drain drain)
{
	uint64_t of_recording = drain <= PEV_DRAIN_ROUND_ALL ? ROUND_READS : 0;

	self->engine.budget = self->file ? of_recording : PEV_EVERY_RECORD;
	return pev_engine_begin(&self->engine, drain);
}

static void close_source(struct l_session *self)
{
	if (!self->s)
		return;
	/* A thread of the parent process may have been feeding it: it cannot be freed. */
	if (pev_session_feeds(self->s) && !pev_session_is_ours(self->s))
		self->unordered = NULL;
	pev_session_close(self->s);
	self->s = NULL;
}

static void close_all(struct l_session *self)
{
	close_source(self);
	free_rest(self);
}

enum { AT_FILE = 4 }; /* the recording, in the calls of a round */

/* Counts following samples like the current one, if that is all they are for. Returns how many. */
static uint32_t count_run(struct l_session *self, uint64_t most)
{
	struct pev_engine *e = &self->engine;
	uint32_t nr;

	if (!l_dispatch_can_count_run(&self->d, e->slot, &e->rec))
		return 0;
	nr = l_dispatch_count_run(&self->d, e->slot, e->source->run->at,
				  pev_engine_count_run(e, most));
	pev_engine_skip_run(e, nr);
	return nr;
}

/* After a callback. One that has forked leaves the remaining records to the parent. */
static bool may_continue(lua_State *L, struct l_session *self)
{
	return enter(L, self, AT_FILE) && pev_session_is_ours(self->s);
}

/* Calls the callback. Returns true if it ends the round. */
static bool call_callback(struct l_session *self)
{
	uint32_t slot = self->engine.slot;
	const struct pev_record *rec = &self->engine.rec;

	if (l_session_takes_numbers(self))
		return l_dispatch_call_with_numbers(&self->d, slot, rec);
	return l_dispatch_call_callback(&self->d, slot, rec, point_view(self));
}

/* Delivers records until the round is over. */
static void call_callbacks(lua_State *L, struct l_session *self, struct l_delivery *delivery)
{
	struct pev_engine *e = &self->engine;

	while (delivery->nr < delivery->most && delivery->calls && !self->d.stop) {
		if (e->source->run->rows && l_session_call_with_rows(L, self, delivery)) {
			self->d.stop = self->d.stop || !may_continue(L, self);
			continue;
		}
		delivery->rc = pev_engine_next(e, &delivery->err);
		if (delivery->rc <= 0)
			return;
		if (!l_dispatch_is_wanted(&self->d, e->slot, &e->rec))
			continue;
		delivery->nr++;
		self->delivered++;
		if (l_dispatch_feed_slot(&self->d, e->slot, &e->rec)) {
			uint32_t more = count_run(self, delivery->most - delivery->nr);

			delivery->nr += more;
			self->delivered += more;
			continue;
		}
		delivery->calls--;
		if (call_callback(self) || !may_continue(L, self))
			self->d.stop = true;
	}
	delivery->rc = 0;
}

/* (arguments and recording of the caller, delivery) */
static int l_deliver(lua_State *L)
{
	struct l_delivery *delivery = lua_touserdata(L, -1);

	lua_pop(L, 1);
	call_callbacks(L, delivery->self, delivery);
	return 0;
}

/*
 * One protected call covers many callbacks, because it costs half as much as a
 * callback. After an error the loop continues behind the callback that raised it.
 */
static void call_callbacks_protected(lua_State *L, struct l_delivery *delivery)
{
	struct l_session *self = delivery->self;
	int top = lua_gettop(L), rc;

	do {
		lua_pushcfunction(L, l_deliver);
		for (int i = 1; i <= top; i++)
			lua_pushvalue(L, i);
		lua_pushlightuserdata(L, delivery);
		rc = lua_pcall(L, top + 1, 0, self->d.first);
		self->d.L = L;
		l_limit_scale = 0; /* a callback that raised did not */
		if (rc == LUA_OK)
			break;
		delivery->rc = 0;
		if (l_dispatch_report_error(&self->d, self->engine.slot, self->engine.rec.type))
			self->d.stop = true;
	} while (may_continue(L, self));
}

/* Calls the handler "news" if the recording has new events. True if it did. Keeps its error. */
static bool call_news(lua_State *L, struct l_session *self, int file)
{
	if (!self->s || !self->engine.has_news)
		return false;
	self->engine.has_news = false;
	lua_getiuservalue(L, 1, L_UV_HANDLERS);
	lua_getfield(L, -1, "news");
	lua_remove(L, -2);
	if (lua_pcall(L, 0, 0, 0) == LUA_OK)
		return enter(L, self, file);
	l_keep_error(L);
	lua_pop(L, 1);
	return false;
}

/* s:dispatch(drain, max) -> delivered, stopped | nil, message, errno; max 0: no limit */
static int l_session_dispatch(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	enum pev_drain drain = check_drain(L, 2);
	lua_Integer max = luaL_optinteger(L, 3, 0);
	struct l_delivery delivery = {
		.self = self,
		.most = max ? (uint64_t)max : UINT64_MAX,
		.calls = self->file ? ROUND_CALLS : UINT64_MAX,
	};
	int before;

	luaL_argcheck(L, max >= 0, 3, "negative");
	if (self->d.dispatching)
		return luaL_error(L, "dispatch() called from a callback of the same session");
	lua_settop(L, 3);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	if (!enter(L, self, AT_FILE))
		return luaL_error(L, "the recording is closed");
	l_dispatch_prepare_stack(L, &self->d);
	luaL_checkstack(L, 2 * lua_gettop(L) + LUA_MINSTACK, "dispatch");
	if (max)
		pev_session_stop_feed(self->s);
	self->d.dispatching = true;
	self->d.stop = false;
	self->d.now++; /* Lua ran since the last round */
	before = l_limit_enter(0);
	delivery.rc = begin_round(self, drain);
	if (delivery.rc < 0) {
		l_limit_leave(before);
		self->d.dispatching = false;
		return l_result(L, delivery.rc, NULL);
	}
	delivery.nr = l_session_count_fed(self);
	do {
		call_callbacks_protected(L, &delivery);
	} while (delivery.rc == 0 && call_news(L, self, AT_FILE));
	l_limit_leave(before);
	self->d.dispatching = false;
	if (delivery.rc < 0)
		self->damage = delivery.err;
	delivery.rc = self->s ? pev_engine_end(&self->engine) : 0;
	if (self->closing)
		close_all(self);
	if (delivery.rc < 0)
		return l_result(L, pev_fail(&delivery.err, delivery.rc,
					    "cannot resume the output of a backward ring"),
				&delivery.err);
	l_raise_pending(L);
	lua_pushinteger(L, (lua_Integer)delivery.nr);
	lua_pushboolean(L, self->d.stop);
	return 2;
}

/* s:halt(): called by a callback, ends the dispatch after this record */
static int l_session_halt(lua_State *L)
{
	l_session_check_any(L)->d.stop = true;
	return 0;
}

/* s:dispatching() -> true inside a callback */
static int l_session_dispatching(lua_State *L)
{
	lua_pushboolean(L, l_session_check_any(L)->d.dispatching);
	return 1;
}

/*
 * s:begin(drain): starts a round; then call the iterator of s:puller() until nil, then s:finish()
 */
static int l_session_begin(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	if (self->d.dispatching)
		return luaL_error(L, "records() called from a callback of the same session");
	self->d.now++;
	pev_session_stop_feed(self->s);
	return l_result(L, begin_round(self, check_drain(L, 2)), NULL);
}

/*
 * s:pull(names): the iterator of puller() returns these fields of samples; nil: it gets no records
 */
static int l_session_pull(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	uint32_t wanted_types;

	lua_settop(L, 2);
	wanted_types = l_dispatch_pull_fields(L, 1, 2, &self->d);
	for (uint32_t slot = 0; slot < self->engine.nr_listeners; slot++)
		pev_engine_want(&self->engine, slot, wanted_types,
				self->engine.listeners[slot].hidden);
	return 0;
}

/* The iterator's upvalues: saves a method's lookups at each call. */
enum { PULL_SESSION = 1, PULL_FILE, PULL_VIEWS, PULL_GO_ON = PULL_VIEWS + L_DISPATCH_VIEWS };

/*
 * Takes the round's next record. Returns as pev_engine_next(). *nr: the
 * values that were pushed for it; 0: call push_pulled().
 */
static int next_pulled(lua_State *L, struct l_session *self, int *nr)
{
	struct pev_err err;
	int before, rc;

	/* The loop may have closed the session or the recording. */
	if (!enter(L, self, lua_upvalueindex(PULL_FILE)))
		return 0;
	if (!pev_session_is_ours(self->s))
		luaL_error(L, "the session is closed");
	self->d.now++;
	if (l_dispatch_is_at_limit(&self->d))
		return 0;
	*nr = self->d.pulls ? l_session_push_row(L, self) : 0;
	if (*nr)
		return 1;
	before = l_limit_enter(0);
	do {
		rc = pev_engine_next(&self->engine, &err);
	} while (rc > 0 && !l_dispatch_is_wanted(&self->d, self->engine.slot, &self->engine.rec));
	l_limit_leave(before);
	if (rc < 0)
		self->damage = err;
	return rc;
}

static int push_pulled(lua_State *L, struct l_session *self)
{
	const struct pev_record *rec = &self->engine.rec;
	unsigned turn;

	pev_engine_skip_listeners(&self->engine);
	self->delivered++;
	if (self->d.pulls && l_session_takes_numbers(self))
		return l_dispatch_push_pulled_numbers(L, &self->d, self->engine.slot, rec);
	turn = point_view(self);
	return l_dispatch_push_pulled(L, &self->d, self->engine.slot, turn,
				      lua_upvalueindex(PULL_VIEWS + (int)turn));
}

/* The iterator. Returns a view or fields. Calls go_on at the end of a round. */
static int l_pull(lua_State *L)
{
	struct l_session *self = lua_touserdata(L, lua_upvalueindex(PULL_SESSION));
	int nr;

	do {
		lua_settop(L, 0);
		if (next_pulled(L, self, &nr) > 0)
			return nr ? nr : push_pulled(L, self);
		l_raise_pending(L);
		if (self->s && self->engine.has_news) {
			lua_pushvalue(L, lua_upvalueindex(PULL_SESSION));
			call_news(L, self, lua_upvalueindex(PULL_FILE));
			l_raise_pending(L);
			lua_pushboolean(L, true);
			continue;
		}
		lua_pushvalue(L, lua_upvalueindex(PULL_GO_ON));
		lua_call(L, 0, 1);
	} while (lua_toboolean(L, -1));
	return 0;
}

/*
 * s:puller(go_on, max) -> next() -> view or fields ... | nil. The
 * iterator covers the round that begin() starts. It calls go_on() ->
 * boolean at the end of the round and after max records; nil: no limit.
 */
static int l_session_puller(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 3);
	l_dispatch_set_limit(L, &self->d, 3);
	lua_pushvalue(L, 1);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	l_dispatch_push_views(L, 1);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_pull, PULL_GO_ON);
	return 1;
}

static int l_session_finish(lua_State *L)
{
	struct l_session *self = l_session_check(L);

	self->d.now++;
	pev_engine_end(&self->engine);
	return 0;
}

/* ---- the end ---- */

static void set_count(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

/* s:totals() -> totals by name */
static int l_session_totals(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	struct pev_totals totals;

	pev_session_totals(self->s, &totals);
	if (self->file)
		l_session_add_totals(self, &totals);
	lua_createtable(L, 0, 24);
	set_count(L, "records", totals.records);
	set_count(L, "delivered", self->delivered);
	set_count(L, "lost", totals.lost);
	set_count(L, "lost_own", totals.lost_own);
	set_count(L, "lost_samples", totals.lost_samples);
	set_count(L, "late", totals.late);
	set_count(L, "malformed", totals.malformed);
	set_count(L, "corrupt", totals.corrupt);
	set_count(L, "unknown_id", totals.unknown_id);
	set_count(L, "throttled", totals.throttled);
	set_count(L, "unjoined", self->engine.deferred.unjoined);
	set_count(L, "excluded", self->engine.excluded);
	set_count(L, "undecided", self->d.undecided);
	set_count(L, "aux_bytes", totals.aux_bytes);
	set_count(L, "aux_skipped", totals.aux_skipped);
	set_count(L, "aux_truncated", totals.aux_truncated);
	set_count(L, "callback_errors", self->d.raised);
	set_count(L, "wakeups", totals.wakeups);
	set_count(L, "rings", totals.rings);
	set_count(L, "ring_bytes", totals.ring_bytes);
	set_count(L, "ring_peak", totals.ring_peak);
	set_count(L, "lost_waiting", totals.lost_waiting);
	set_count(L, "moved_peak", totals.moved_peak);
	set_count(L, "beyond_memory", l_dispatch_budget(L, 1)->refused);
	set_count(L, "no_memory", l_dispatch_budget(L, 1)->failed);
	set_count(L, "unknown_tasks", l_dispatch_budget(L, 1)->tasks);
	return 1;
}

/* s:close(): frees everything; called by a callback, after its return. Also __gc and __close. */
static int l_session_close(lua_State *L)
{
	struct l_session *self = l_session_check_any(L);

	if (!self->s)
		return 0;
	self->closing = self->d.stop = true;
	if (self->d.dispatching)
		return 0;
	close_all(self);
	l_raise_pending(L);
	return 0;
}

/* s:abandon(): the process ends: returns the kernel's resources at once */
static int l_session_abandon(lua_State *L)
{
	struct l_session *self = l_session_check_any(L);

	self->d.now++; /* views become invalid */
	close_source(self);
	return 0;
}

static int l_session_gc(lua_State *L)
{
	struct l_session *self = l_session_check_any(L);

	/* Collected in a callback: the state is being closed, as by os.exit(true, true). */
	close_source(self);
	if (self->sys)
		free_rest(self);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "enable_event", l_session_enable_event },
	{ "disable_event", l_session_disable_event },
	{ "enable", l_session_enable },
	{ "disable", l_session_disable },
	{ "comm", l_session_comm },
	{ "task", l_session_task },
	{ "fd", l_session_fd },
	{ "watch", l_session_watch },
	{ "unwatch", l_session_unwatch },
	{ "again", l_session_again },
	{ "timer", l_session_timer },
	{ "signals", l_session_signals },
	{ "read", l_session_read },
	{ "wait", l_session_wait },
	{ "over", l_session_over },
	{ "dispatch", l_session_dispatch },
	{ "halt", l_session_halt },
	{ "dispatching", l_session_dispatching },
	{ "begin", l_session_begin },
	{ "pull", l_session_pull },
	{ "puller", l_session_puller },
	{ "finish", l_session_finish },
	{ "totals", l_session_totals },
	{ "close", l_session_close },
	{ "abandon", l_session_abandon },
	{ "__close", l_session_close },
	{ NULL, NULL },
};

void l_session_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_session_gc);
	luaL_getmetatable(L, TYPENAME);
	luaL_setfuncs(L, l_session_live_methods, 0);
	luaL_setfuncs(L, l_session_recording_methods, 0);
	luaL_setfuncs(L, l_session_unordered_methods, 0);
	lua_pop(L, 1);
	lua_pushcfunction(L, l_session);
	lua_setfield(L, -2, "session");
}
