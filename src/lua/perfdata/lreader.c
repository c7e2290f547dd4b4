/*
 * lreader.c - the userdata perfev.core.reader: a recording that is being read.
 *
 * Internal: users see lua/perfev/perfdata/reader.lua. The same views as in a session show its
 * records. The decompressor is loaded by name, so only a compressed recording loads perfev.zstd.
 */
#include "lua/perfdata/lreader.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/reader.h"
#include "symbol/kallsyms.h"
#include "task/task.h"
#include "lua/record/largs.h"
#include "lua/event/lattr.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/record/lfield.h"
#include "lua/perfdata/lreader_copy.h"
#include "lua/perfdata/lreader_pass.h"
#include "lua/perfdata/lreader_state.h"
#include "lua/hooks/lhooks.h"
#include "lua/symbol/lstack_table.h"
#include "lua/record/ltask.h"
#include "lua/record/lrecord.h"
#include "lua/base/lset.h"

#define TYPENAME L_READER
#define SECTION_MAX ((uint64_t)256 << 20)
#define NEWS_AT_ONCE 64

struct pev_reader *l_reader_enter(struct l_reader *self, lua_State *L, int idx)
{
	if (self->sys)
		l_hooks_enter(L, self->sys);
	self->L = L;
	self->at = idx > 0 ? idx : lua_absindex(L, idx);
	return self->reader;
}

struct l_reader *l_reader_check(lua_State *L, int idx)
{
	return luaL_checkudata(L, idx, TYPENAME);
}

void l_reader_shown(struct l_reader *self, uint64_t *now) { self->replay_now = now; }

struct pev_tasks *l_reader_tasks(struct l_reader *self) { return &self->tasks; }

static struct l_reader *check_any(lua_State *L)
{
	struct l_reader *self = l_reader_check(L, 1);

	l_reader_enter(self, L, 1);
	return self;
}

struct l_reader *l_reader_check_open(lua_State *L)
{
	struct l_reader *self = check_any(L);

	if (!self->reader)
		luaL_error(L, "the recording is closed");
	return self;
}

/* ---- callbacks of the reader ---- */

void l_reader_note(const struct l_reader *self, const char *text)
{
	struct pev_err what;

	pev_fail(&what, 0, "%s", text);
	l_note(self->L, self->at, L_READER_UV_OPTIONS, &what);
}

static void note(void *ctx, const char *text) { l_reader_note(ctx, text); }

/* () -> perfev.zstd's decompressor | nothing */
static int l_find_inflate(lua_State *L)
{
	lua_getglobal(L, "require");
	lua_pushliteral(L, "perfev.zstd");
	lua_call(L, 1, 1);
	if (!lua_istable(L, -1))
		return 0;
	lua_getfield(L, -1, "inflate");
	return 1;
}

static const struct pev_inflate *find_inflate(void *ctx, struct pev_err *err)
{
	const struct l_reader *self = ctx;
	const struct pev_inflate *inflate = NULL;
	lua_State *L = self->L;
	int rc;

	if (!lua_checkstack(L, 2))
		return NULL;
	/* Protected, because it loads a module in the middle of a read. */
	lua_pushcfunction(L, l_find_inflate);
	rc = lua_pcall(L, 0, 1, 0);
	if (rc == LUA_OK)
		inflate = lua_touserdata(L, -1);
	lua_pop(L, 1);
	if (rc == LUA_ERRMEM)
		pev_fail(err, -ENOMEM, "no memory to load perfev.zstd");
	else if (!inflate)
		pev_fail(err, -ENOSYS,
			 "perfev.zstd is not installed (make install puts it beside "
			 "perfev's core)");
	return inflate;
}

/* Returns NULL for an unknown task: dump and report show only names from the file. */
static const char *view_comm(void *ctx, int tid)
{
	struct l_reader *self = ctx;

	return pev_tasks_comm(&self->tasks, tid);
}

/*
 * Uses this machine's symbols if the kernel has the same address as the recorder's: the same boot.
 */
static void read_symbols(struct l_reader *self)
{
	const struct pev_reader_facts *facts = pev_reader_facts(self->reader);

	if (!facts->kernel_symbol[0])
		return;
	self->on_this_machine = false;
	if (pev_kallsyms_kernel(&self->symbols, self->sys, NULL) == 0 &&
	    pev_kallsyms_address(self->symbols, facts->kernel_symbol) == facts->kernel_addr)
		return;
	pev_kallsyms_free(self->symbols);
	self->symbols = NULL;
}

const char *l_reader_symbol(void *ctx, uint64_t addr, uint64_t *start)
{
	struct l_reader *self = ctx;

	if (!self->reader)
		return NULL;
	if (!self->symbols && self->on_this_machine)
		read_symbols(self);
	return self->symbols ? pev_kallsyms_find(self->symbols, addr, start) : NULL;
}

static int no_slurp(void *ctx, const char *path, char **text, size_t *len)
{
	(void)ctx, (void)path, (void)text, (void)len;
	return -ENOENT;
}

static int no_link(void *ctx, const char *path, char *buf, size_t cap)
{
	(void)ctx, (void)path, (void)buf, (void)cap;
	return -ENOENT;
}

static int no_list(void *ctx, const char *path, char **names, size_t *len)
{
	(void)ctx, (void)path, (void)names, (void)len;
	return -ENOENT;
}

/* ---- opening ---- */

static void make_views(lua_State *L, struct l_reader *self, int idx)
{
	lua_newtable(L);
	lua_pushvalue(L, idx);
	lua_setfield(L, -2, "recording"); /* views keep it alive */
	l_stack_table_push(L);
	lua_setfield(L, -2, "stacks");
	lua_pushvalue(L, -1);
	lua_setiuservalue(L, idx, L_READER_UV_CONTEXT);
	lua_createtable(L, L_READER_VIEWS, 0);
	for (int i = 0; i < L_READER_VIEWS; i++) {
		self->views[i] = l_view_push(L, -2, &self->now);
		self->views[i]->comm = view_comm;
		self->views[i]->ctx = self;
		self->views[i]->tasks = &self->tasks;
		lua_rawseti(L, -2, i + 1);
	}
	lua_setiuservalue(L, idx, L_READER_UV_VIEWS);
	lua_pop(L, 1);
}

/* reader(path, {fd=, unordered=, window=, note=f(text), news=f()}) -> d | nil, message, errno */
static int l_reader(lua_State *L)
{
	struct pev_reader_config config = { .note = note, .inflate = find_inflate };
	const char *path = luaL_checkstring(L, 1);
	struct l_reader *self;
	struct pev_err err = { 0 };
	lua_Integer fd = -1, window = 0;
	int rc;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	lua_getfield(L, 2, "unordered");
	config.unordered = lua_toboolean(L, 3);
	if (lua_getfield(L, 2, "window") != LUA_TNIL)
		window = luaL_checkinteger(L, 4);
	if (lua_getfield(L, 2, "fd") != LUA_TNIL)
		fd = luaL_checkinteger(L, 5);
	luaL_argcheck(L, window >= 0 && window <= INT32_MAX, 2, "window: 0 to 2147483647 bytes");
	luaL_argcheck(L, fd >= -1 && fd <= INT32_MAX, 2, "fd: a descriptor");
	config.window = (size_t)window;
	lua_settop(L, 2);
	self = lua_newuserdatauv(L, sizeof(*self), L_READER_UV_NR);
	*self = (struct l_reader){
		.L = L, .at = 1,
		.nowhere = { .slurp = no_slurp, .readlink = no_link, .list = no_list },
	};
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, 3, L_READER_UV_OPTIONS);
	make_views(L, self, 3);
	self->sys = l_hooks_push(L);
	lua_setiuservalue(L, 3, L_READER_UV_HOOKS);
	lua_pushvalue(L, 1); /* the path stays, and methods have the userdata at 1 */
	lua_insert(L, 2);
	lua_copy(L, 4, 1);
	config.ctx = self;
	rc = pev_tasks_init(&self->tasks, &self->nowhere);
	if (rc == 0)
		rc = pev_reader_open(&self->reader, self->sys, path, (int)fd, &config, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	self->run = pev_reader_run(self->reader);
	l_raise_pending(L);
	lua_settop(L, 1);
	return 1;
}

static int l_close(lua_State *L)
{
	struct l_reader *self = check_any(L);

	pev_reader_close(self->reader);
	self->reader = NULL;
	if (self->nowhere.slurp)
		pev_tasks_free(&self->tasks);
	self->nowhere.slurp = NULL;
	free(self->args);
	self->args = NULL;
	self->nr_args = 0;
	pev_kallsyms_free(self->symbols);
	self->symbols = NULL;
	self->now++;
	if (self->replay_now)
		++*self->replay_now;
	return 0;
}

/* ---- records ---- */

/* Calls user(number, bytes, offset) for a tools' record. True if it returned a value, on top. */
static bool push_user(lua_State *L, const struct l_reader *self, int user)
{
	if (!lua_toboolean(L, user))
		return false;
	lua_pushvalue(L, user);
	lua_pushinteger(L, self->source->type);
	lua_pushlstring(L, (const char *)self->source->bytes, self->source->size);
	lua_pushinteger(L, (lua_Integer)self->source->offset);
	lua_call(L, 3, 1);
	if (!lua_isnil(L, -1))
		return true;
	lua_pop(L, 1);
	return false;
}

/* Estimates how many bytes the Lua half reads again after news. */
static uint64_t cost_of_news(const struct l_reader *self)
{
	uint64_t cost = (uint64_t)pev_reader_count_events(self->reader) * sizeof(struct pev_attr);

	for (uint32_t i = 0; i < pev_reader_count_sections(self->reader); i++)
		cost += pev_reader_section_at(self->reader, i)->size;
	return cost;
}

/*
 * Reports new events or features to the Lua half before a record shows them. If
 * there are more than any recorder writes, reports are limited by the bytes read
 * in between; otherwise each one would cost as much as all before it.
 */
static void report_news(lua_State *L, struct l_reader *self)
{
	uint64_t news = pev_reader_changes(self->reader);

	if (news == self->news ||
	    (self->nr_reports >= NEWS_AT_ONCE && self->source->offset < self->report_after))
		return;
	self->news = news;
	self->nr_reports++;
	self->report_after = self->source->offset + cost_of_news(self);
	lua_getiuservalue(L, 1, L_READER_UV_OPTIONS);
	if (lua_getfield(L, -1, "news") == LUA_TFUNCTION)
		lua_call(L, 0, 0);
	else
		lua_pop(L, 1);
	lua_pop(L, 1);
}

struct l_args *l_reader_payload(struct l_reader *self, struct pev_value *raw)
{
	struct l_args *args =
		self->source->event < self->nr_args ? self->args[self->source->event] : NULL;
	bool has_args = args && self->rec.type == PERF_RECORD_SAMPLE &&
			pev_record_get(&self->rec, PEV_F_RAW, raw);

	return has_args ? args : NULL;
}

static void show_payload(struct l_reader *self, struct l_view *view)
{
	struct pev_value raw;
	struct l_args *args = l_reader_payload(self, &raw);

	view->has_args = args != NULL;
	if (!args)
		return;
	args->raw = raw.p;
	args->len = raw.len;
	args->gen = self->now;
}

int l_reader_point_view(struct l_reader *self)
{
	struct l_view *view = self->views[self->turn ^= 1];

	view->rec = &self->rec;
	view->slot = self->source->event == PEV_NO_EVENT ? INT32_MAX : self->source->event;
	view->gen = self->now;
	view->synthesised = self->source->synthesised;
	show_payload(self, view);
	return (int)self->turn;
}

static bool is_shown(const struct l_reader *self)
{
	return self->types >> self->source->type & 1;
}

/* These records update the tasks even if they are not shown: names change over time. */
static bool updates_tasks(uint32_t type)
{
	return type == PERF_RECORD_COMM || type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT;
}

/*
 * Returns the fields of the event's samples from the list at the index: { names =, [slot + 1] = }
 */
static struct l_fields *get_fields(lua_State *L, int list, uint32_t slot)
{
	struct l_fields *fields;

	if (lua_rawgeti(L, list, (lua_Integer)slot + 1) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_getfield(L, list, "names");
		l_fields_push(L, -1);
		lua_pushvalue(L, -1);
		lua_rawseti(L, list, (lua_Integer)slot + 1);
		lua_remove(L, -2);
	}
	fields = lua_touserdata(L, -1);
	lua_pop(L, 1);
	return fields;
}

/* Pushes the current record's view, offset and whether it was synthesised; or its fields. */
static int push_record(lua_State *L, struct l_reader *self, int pulled)
{
	int turn = l_reader_point_view(self);
	const struct l_view *view = self->views[turn];

	lua_pushvalue(L, lua_upvalueindex(2 + turn));
	if (lua_toboolean(L, pulled))
		return l_fields_push_for_loop(L, -1, get_fields(L, pulled, view->slot), view,
					      view->has_args ? self->args[view->slot] : NULL);
	lua_pushinteger(L, (lua_Integer)self->source->offset);
	lua_pushboolean(L, self->source->synthesised);
	return 3;
}

/* Reads records, and what they changed. False at the end of the recording. */
static bool fill_run(lua_State *L, struct l_reader *self)
{
	if (pev_reader_fill_run(self->reader, &self->end) <= 0) {
		l_raise_pending(L);
		return false;
	}
	self->source = self->run->at;
	report_news(L, self);
	return true;
}

enum l_reader_turn l_reader_next(lua_State *L, struct l_reader *self)
{
	struct pev_err err;

	for (;;) {
		if (self->run->at == self->run->end && !fill_run(L, self))
			return L_READER_END;
		self->source = self->run->at++;
		if (self->source->type >= PEV_USER_ATTR)
			return L_READER_TOOL;
		if (!is_shown(self) && !updates_tasks(self->source->type))
			continue;
		if (pev_reader_locate(self->reader, self->source, &self->rec, &err) < 0) {
			note(self, err.text);
			continue;
		}
		if (self->source->type != PERF_RECORD_SAMPLE &&
		    pev_tasks_feed(&self->tasks, &self->rec) < 0)
			luaL_error(L, "no memory for the tasks of the recording");
		if (is_shown(self))
			return L_READER_RECORD;
	}
}

/*
 * The iterator of d:records(). Upvalues: the reader, its views, the
 * handler of tools' records and the fields. Returns a view or the handler's
 * value, its offset, whether it was synthesised; or the fields.
 */
static int l_next_record(lua_State *L)
{
	enum l_reader_turn turn;
	struct l_reader *self;

	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	self = check_any(L);
	if (!self->reader)
		return 0; /* closed by its loop */
	self->now++;
	do {
		turn = l_reader_next(L, self);
	} while (turn == L_READER_TOOL && !push_user(L, self, lua_upvalueindex(4)));
	if (turn == L_READER_END)
		return 0;
	if (turn == L_READER_RECORD)
		return push_record(L, self, lua_upvalueindex(3 + L_READER_VIEWS));
	lua_pushinteger(L, (lua_Integer)self->source->offset);
	return 2;
}

/*
 * d:records(user, types, names) -> iterator; types: a set of
 * bits, default all; names: fields to return instead of views
 */
static int l_records(lua_State *L)
{
	l_reader_check_open(L)->types = (uint64_t)luaL_optinteger(L, 3, -1);
	lua_settop(L, 4);
	lua_getiuservalue(L, 1, L_READER_UV_VIEWS);
	lua_pushvalue(L, 1);
	for (int i = 1; i <= L_READER_VIEWS; i++)
		lua_rawgeti(L, 5, i);
	lua_pushvalue(L, 2);
	lua_pushnil(L);
	if (lua_istable(L, 4)) {
		lua_createtable(L, 1, 1);
		lua_pushvalue(L, 4);
		lua_setfield(L, -2, "names");
		lua_replace(L, -2);
	}
	lua_pushcclosure(L, l_next_record, 3 + L_READER_VIEWS);
	return 1;
}

/* d:failure() -> why reading ended early, errno | nil */
static int l_failure(lua_State *L)
{
	struct l_reader *self = check_any(L);

	if (!self->end.code)
		return 0;
	lua_pushstring(L, self->end.text);
	lua_pushinteger(L, -self->end.code);
	return 2;
}

/* ---- context of records ---- */

/*
 * d:context(n, event, payload | nil): sets r.event and r.args of the n-th event's records, from 1
 */
static int l_context(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	lua_Integer n = luaL_checkinteger(L, 2);
	struct l_args *args = lua_isnoneornil(L, 4) ? NULL : luaL_checkudata(L, 4, "perfev.args");
	struct l_args **list;

	luaL_argcheck(L, n >= 1 && n <= pev_reader_count_events(self->reader), 2, "no such event");
	lua_settop(L, 4);
	if ((uint32_t)n > self->nr_args) {
		list = realloc(self->args, sizeof(struct l_args *) * (size_t)n);
		if (!list)
			return luaL_error(L, "no memory for %d events", (int)n);
		memset(&list[self->nr_args], 0,
		       sizeof(struct l_args *) * ((size_t)n - self->nr_args));
		self->args = list;
		self->nr_args = (uint32_t)n;
	}
	lua_getiuservalue(L, 1, L_READER_UV_CONTEXT);
	lua_pushvalue(L, 3);
	lua_rawseti(L, -2, 2 * n - 1);
	lua_pushvalue(L, 4);
	lua_rawseti(L, -2, 2 * n);
	self->args[n - 1] = args;
	if (!args)
		return 0;
	/*
	 * Makes the payload view expire with our records. The
	 * view keeps its former owner and us alive.
	 */
	args->now = &self->now;
	args->gen = self->now - 1;
	lua_createtable(L, 2, 0);
	lua_getiuservalue(L, 4, 2);
	lua_rawseti(L, -2, 1);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 2);
	lua_setiuservalue(L, 4, 2);
	return 0;
}

/* d:machine(registers, narrow): sets the recorder's register names, and whether it has 32 bits */
static int l_machine(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);

	luaL_checktype(L, 2, LUA_TTABLE);
	pev_reader_set_32bit(self->reader, lua_toboolean(L, 3));
	lua_getiuservalue(L, 1, L_READER_UV_CONTEXT);
	lua_pushvalue(L, 2);
	lua_setfield(L, -2, "registers");
	return 0;
}

/* d:kernel(text | at_home): sets the symbols of the recorder's kernel: a text, or /proc/kallsyms */
static int l_kernel(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	size_t len;
	const char *text = lua_isboolean(L, 2) ? NULL : luaL_checklstring(L, 2, &len);

	self->on_this_machine = lua_toboolean(L, 2) && !text;
	if (!text || self->symbols)
		return 0;
	return l_result(L, pev_kallsyms_parse(&self->symbols, text, len, NULL), NULL);
}

/* d:world(table): sets the symbol tables for its stacks; see lua/perfev/symbol/init.lua */
static int l_world(lua_State *L)
{
	l_reader_check_open(L);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_READER_UV_CONTEXT);
	lua_insert(L, 2);
	lua_setfield(L, 2, "world");
	return 0;
}

/* d:kernel_map(n) -> path, start, pgoff | nil: the n-th map of the recorded kernel, from 1 */
static int l_kernel_map(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	lua_Integer n = luaL_checkinteger(L, 2);
	const struct pev_map *map =
		n < 1 || n > UINT32_MAX ? NULL :
					  pev_tasks_map_at(&self->tasks, -1, (uint32_t)n - 1);

	if (!map)
		return 0;
	lua_pushstring(L, map->dso->path);
	lua_pushinteger(L, (lua_Integer)map->start);
	lua_pushinteger(L, (lua_Integer)map->pgoff);
	return 3;
}

/* ---- facts ---- */

/* d:facts() -> { pipe=, big=, version=, size=, files=, data=, data_end=, attr_size=, damage= } */
static int l_facts(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	const struct pev_reader_facts *facts = pev_reader_facts(self->reader);

	lua_createtable(L, 0, 9);
	l_set_boolean(L, "pipe", facts->pipe);
	l_set_boolean(L, "big", facts->big_endian);
	l_set_u64(L, "version", (uint64_t)facts->version);
	l_set_u64(L, "size", facts->size);
	l_set_u64(L, "files", facts->files);
	l_set_u64(L, "data", facts->data);
	l_set_u64(L, "data_end", facts->data_end);
	l_set_u64(L, "attr_size", facts->attr_size);
	l_set_string(L, "damage", pev_reader_damage(self->reader));
	return 1;
}

/* d:totals() -> { bytes=, records=, ..., types = { [number] = n } } */
static int l_totals(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	const struct pev_reader_totals *totals = pev_reader_totals(self->reader);

	lua_createtable(L, 0, 20);
	l_set_u64(L, "bytes", totals->bytes);
	l_set_u64(L, "records", totals->records);
	l_set_u64(L, "rounds", totals->rounds);
	l_set_u64(L, "forced", totals->forced);
	l_set_u64(L, "late", totals->late);
	l_set_u64(L, "unknown_id", totals->unknown_id);
	l_set_u64(L, "ambiguous", totals->ambiguous);
	l_set_u64(L, "shared_ids", totals->shared_ids);
	l_set_u64(L, "malformed", totals->malformed);
	l_set_u64(L, "lost", totals->lost);
	l_set_u64(L, "lost_samples", totals->lost_samples);
	l_set_u64(L, "compressed", totals->compressed);
	l_set_u64(L, "inflated", totals->inflated);
	l_set_u64(L, "auxtrace", totals->auxtrace);
	l_set_u64(L, "memory", totals->blocks);
	l_set_u64(L, "other_types", totals->other_types);
	lua_newtable(L);
	for (size_t i = 0; i < sizeof(totals->types) / sizeof(totals->types[0]); i++) {
		if (!totals->types[i])
			continue;
		lua_pushinteger(L, (lua_Integer)totals->types[i]);
		lua_rawseti(L, -2, (lua_Integer)i);
	}
	lua_setfield(L, -2, "types");
	return 1;
}

/* d:event(n) -> attr, ids, name | nil, from 1 */
static int l_event(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	lua_Integer n = luaL_checkinteger(L, 2);
	const struct pev_file_event *event =
		n < 1 || n > UINT32_MAX ? NULL : pev_reader_event(self->reader, (uint32_t)n - 1);

	if (!event)
		return 0;
	l_attr_push(L, &event->attr);
	lua_createtable(L, (int)event->nr_ids, 0);
	for (uint32_t i = 0; i < event->nr_ids; i++) {
		lua_pushinteger(L, (lua_Integer)event->ids[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_pushstring(L, event->name);
	return 3;
}

/* d:sections() -> { { id=, offset=, size= }, ... } */
static int l_sections(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	uint32_t nr = pev_reader_count_sections(self->reader);

	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		const struct pev_file_section *section = pev_reader_section_at(self->reader, i);

		lua_createtable(L, 0, 3);
		l_set_u64(L, "id", section->id);
		l_set_u64(L, "offset", section->offset);
		l_set_u64(L, "size", section->size);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* d:section(n) -> its bytes, as far as present | nil, message, errno; from 1 */
static int l_section(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	lua_Integer n = luaL_checkinteger(L, 2);
	luaL_Buffer buffer;
	uint64_t off = 0;

	luaL_argcheck(L, n >= 1 && n <= pev_reader_count_sections(self->reader), 2,
		      "no such section");
	luaL_buffinit(L, &buffer);
	while (off < SECTION_MAX) {
		char *p = luaL_prepbuffsize(&buffer, 65536);
		int64_t got = pev_reader_read_section(self->reader, (uint32_t)n - 1, off, p, 65536);

		if (got < 0)
			return l_result(L, got, NULL);
		if (got == 0)
			break;
		luaL_addsize(&buffer, (size_t)got);
		off += (uint64_t)got;
	}
	luaL_pushresult(&buffer);
	l_raise_pending(L);
	return 1;
}

/* d:task(tid) -> table | nil: from the records read so far */
static int l_task(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);

	return l_task_push(L, &self->tasks, luaL_checkinteger(L, 2));
}

/* clang-format off */
static const luaL_Reg methods[] = {
	{ "records",  l_records },
	{ "count",    l_reader_count },
	{ "print",    l_reader_print },
	{ "copier",   l_reader_copier },
	{ "failure",  l_failure },
	{ "context",  l_context },
	{ "machine",  l_machine },
	{ "kernel",   l_kernel },
	{ "world",    l_world },
	{ "kernel_map", l_kernel_map },
	{ "task",     l_task },
	{ "facts",    l_facts },
	{ "totals",   l_totals },
	{ "event",    l_event },
	{ "sections", l_sections },
	{ "section",  l_section },
	{ "close",    l_close },
	{ "__close",  l_close },
	{ NULL,       NULL },
};
/* clang-format on */

void l_reader_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	l_set_function(L, "reader", l_reader);
}
