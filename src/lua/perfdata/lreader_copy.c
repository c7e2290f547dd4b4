/*
 * lreader_copy.c - copies selected records of a recording to a new one; see lreader_copy.h.
 */
#include "lua/perfdata/lreader_copy.h"

#include <lauxlib.h>
#include <stdint.h>

#include "lua/base/lerror.h"
#include "lua/base/loption.h"
#include "lua/perfdata/lreader_state.h"
#include "lua/perfdata/lwriter.h"
#include "lua/record/lrecord_filter.h"

#define COPY "perfev.core.record_copy"
#define RECORDS_AT_ONCE 4096

/* Indices on the stack of l_copy_step(); its upvalues are the same and the state. */
enum { READER = 1, WRITER, EDIT, EVENTS, TOOLS_LEFT_OUT, STATE };

struct record_copy {
	struct pev_record_filter wanted;
	uint64_t edited;     /* types that edit() gets: bit n of type n */
	uint64_t news;       /* the reader's, when the caller learned of them */
	bool begun;          /* the first sample was read */
	bool is_pending;     /* the reader's current record was not copied yet */
	bool with_bytes;
	uint64_t records, samples, first, last;
};

#define BIT(type) (UINT64_C(1) << (type))

/* Records that describe what later records refer to. */
static const uint64_t side_band =
	BIT(PERF_RECORD_MMAP) | BIT(PERF_RECORD_MMAP2) | BIT(PERF_RECORD_COMM) |
	BIT(PERF_RECORD_FORK) | BIT(PERF_RECORD_EXIT) | BIT(PERF_RECORD_NAMESPACES) |
	BIT(PERF_RECORD_KSYMBOL) | BIT(PERF_RECORD_BPF_EVENT) | BIT(PERF_RECORD_CGROUP) |
	BIT(PERF_RECORD_TEXT_POKE);
static const uint64_t losses = BIT(PERF_RECORD_LOST) | BIT(PERF_RECORD_LOST_SAMPLES);

static bool has_type(uint64_t types, uint32_t type)
{
	return type < 64 && types >> type & 1;
}

/* ---- selection ---- */

/* Relative limits count from the first sample, as in a replay. */
static void begin_time(struct record_copy *copy, const struct pev_source_record *source)
{
	if (copy->begun || source->type != PERF_RECORD_SAMPLE || !source->time)
		return;
	copy->begun = true;
	pev_record_filter_begin(&copy->wanted, source->time);
}

static bool is_in_time(const struct record_copy *copy, const struct pev_source_record *source)
{
	bool is_before = copy->wanted.to_first || source->time <= copy->wanted.to;

	if (has_type(side_band, source->type))
		return is_before;
	return is_before && !copy->wanted.from_first && source->time >= copy->wanted.from;
}

static bool is_of_selected_event(lua_State *L, const struct pev_source_record *source)
{
	bool yes;

	if (lua_isnil(L, EVENTS) || has_type(losses, source->type))
		return true;
	if (source->event == PEV_NO_EVENT)
		return false;
	lua_rawgeti(L, EVENTS, (lua_Integer)source->event + 1);
	yes = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return yes;
}

static bool is_selected(lua_State *L, struct l_reader *self, struct record_copy *copy)
{
	const struct pev_source_record *source = self->source;

	begin_time(copy, source);
	if (!is_in_time(copy, source))
		return false;
	if (has_type(side_band, source->type))
		return true;
	return is_of_selected_event(L, source) &&
	       (!pev_record_filter_asks(&copy->wanted) ||
		pev_record_filter_has(&copy->wanted, &self->rec, &self->tasks));
}

/* ---- copying ---- */

static void put_record(struct pev_writer *writer, struct record_copy *copy,
		       const struct pev_source_record *source, const void *bytes, size_t len)
{
	if (pev_writer_append(writer, bytes, len) < 0)
		return;
	copy->records++;
	if (source->type != PERF_RECORD_SAMPLE)
		return;
	copy->samples++;
	if (!copy->first)
		copy->first = source->time;
	if (source->time > copy->last)
		copy->last = source->time;
}

/* Copies what an edit function returned: a record, true for this one, or nothing. Pops it. */
static void put_result(lua_State *L, struct pev_writer *writer, struct record_copy *copy,
		       const struct pev_source_record *source)
{
	const char *bytes;
	size_t len;

	bytes = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
	if (bytes) {
		luaL_argcheck(L, len >= 8 && len <= UINT16_MAX, 1, "edit: not a record");
		put_record(writer, copy, source, bytes, len);
	} else if (lua_toboolean(L, -1)) {
		put_record(writer, copy, source, source->bytes, source->size);
	}
	lua_pop(L, 1);
}

/* Calls edit() and copies what it returns. */
static void put_edited(lua_State *L, struct l_reader *self, struct pev_writer *writer,
		       struct record_copy *copy)
{
	const struct pev_source_record *source = self->source;

	self->now++;
	lua_pushvalue(L, EDIT);
	lua_getiuservalue(L, READER, L_READER_UV_VIEWS);
	lua_rawgeti(L, -1, l_reader_point_view(self) + 1);
	lua_replace(L, -2);
	if (source->event == PEV_NO_EVENT)
		lua_pushnil(L);
	else
		lua_pushinteger(L, (lua_Integer)source->event + 1);
	if (copy->with_bytes)
		lua_pushlstring(L, (const char *)source->bytes, source->size);
	else
		lua_pushnil(L);
	lua_call(L, 3, 1);
	put_result(L, writer, copy, source);
}

static void copy_tool_record(lua_State *L, const struct l_reader *self, struct pev_writer *writer,
			     struct record_copy *copy)
{
	const struct pev_source_record *source = self->source;

	lua_geti(L, TOOLS_LEFT_OUT, (lua_Integer)source->type);
	if (lua_isfunction(L, -1)) {
		lua_pushlstring(L, (const char *)source->bytes, source->size);
		lua_call(L, 1, 1);
		put_result(L, writer, copy, source);
		return;
	}
	if (!lua_toboolean(L, -1))
		put_record(writer, copy, source, source->bytes, source->size);
	lua_pop(L, 1);
}

static void copy_record(lua_State *L, struct l_reader *self, struct pev_writer *writer,
			struct record_copy *copy)
{
	const struct pev_source_record *source = self->source;

	if (source->type >= PEV_USER_ATTR)
		copy_tool_record(L, self, writer, copy);
	else if (!is_selected(L, self, copy))
		return;
	else if (has_type(copy->edited, source->type))
		put_edited(L, self, writer, copy);
	else
		put_record(writer, copy, source, source->bytes, source->size);
}

/* Reads a record. False at the end. */
static bool read_record(lua_State *L, struct l_reader *self, struct record_copy *copy)
{
	copy->is_pending = copy->is_pending || l_reader_next(L, self) != L_READER_END;
	return copy->is_pending;
}

static int push_progress(lua_State *L, const struct record_copy *copy)
{
	lua_pushinteger(L, (lua_Integer)copy->records);
	lua_pushinteger(L, (lua_Integer)copy->samples);
	if (!copy->last)
		return 3;
	lua_pushinteger(L, (lua_Integer)copy->first);
	lua_pushinteger(L, (lua_Integer)copy->last);
	return 5;
}

static int l_copy_step(lua_State *L)
{
	uint64_t limit = (uint64_t)luaL_checkinteger(L, 1), time = 0;
	struct record_copy *copy = lua_touserdata(L, lua_upvalueindex(STATE));
	struct pev_writer *writer;
	struct l_reader *self;

	lua_settop(L, 0);
	for (int i = READER; i < STATE; i++)
		lua_pushvalue(L, lua_upvalueindex(i));
	self = l_reader_check_open(L);
	writer = l_writer_enter(L, WRITER);
	for (int left = RECORDS_AT_ONCE; left && !pev_writer_failure(writer); left--) {
		if (!read_record(L, self, copy)) {
			l_raise_pending(L);
			lua_pushnil(L);
			return push_progress(L, copy);
		}
		time = self->source->time;
		if (time > limit || copy->news != self->news)
			break;
		copy->is_pending = false;
		copy_record(L, self, writer, copy);
	}
	copy->news = self->news;
	l_raise_pending(L);
	lua_pushinteger(L, (lua_Integer)time);
	return push_progress(L, copy);
}

static int l_copy_gc(lua_State *L)
{
	struct record_copy *copy = luaL_checkudata(L, 1, COPY);

	pev_record_filter_free(&copy->wanted);
	return 0;
}

int l_reader_copier(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	struct record_copy *copy;

	luaL_checktype(L, 3, LUA_TTABLE);
	lua_settop(L, 3);
	l_writer_enter(L, WRITER);
	copy = lua_newuserdatauv(L, sizeof(*copy), 0);
	*copy = (struct record_copy){ .wanted = { .to = UINT64_MAX }, .news = self->news };
	if (luaL_newmetatable(L, COPY)) {
		lua_pushcfunction(L, l_copy_gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_setmetatable(L, 4);
	copy->edited = (uint64_t)l_option_integer(L, 3, "edited", 0);
	copy->with_bytes = l_option_bool(L, 3, "with_bytes");
	if (lua_getfield(L, 3, "wanted") == LUA_TTABLE)
		l_record_filter_read(L, -1, &copy->wanted);
	lua_settop(L, 4);
	self->types = UINT64_MAX;
	lua_pushvalue(L, READER);
	lua_pushvalue(L, WRITER);
	lua_getfield(L, 3, "edit");
	lua_getfield(L, 3, "events");
	lua_getfield(L, 3, "tools_left_out");
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_pushvalue(L, 4);
	lua_pushcclosure(L, l_copy_step, STATE);
	return 1;
}
