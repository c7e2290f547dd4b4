/*
 * lreader_pass.c - reads a recording to its end without Lua: counts its records, or prints them.
 */
#include "lua/perfdata/lreader_pass.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "lua/base/lset.h"
#include "lua/perfdata/lreader_state.h"
#include "record/record_text.h"
#include "task/record_counts.h"

#define COUNTS "perfev.core.record_counts"
#define OUTPUT "_IO_output" /* registry key of io.output() (liolib.c) */

enum {
	CHECK_EVERY = 1024, /* records between two calls of keep_going() */
	BUFFER = 1 << 16    /* bytes of text between two writes */
};

/* Calls the function at index: false ends the pass. */
static bool may_continue(lua_State *L, int keep_going)
{
	bool yes;

	lua_pushvalue(L, keep_going);
	lua_call(L, 0, 1);
	yes = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return yes;
}

/* ---- count ---- */

static int l_counts_gc(lua_State *L)
{
	pev_record_counts_free(luaL_checkudata(L, 1, COUNTS));
	return 0;
}

/* Pushes { [type] = n } without zeros. */
static void push_types(lua_State *L, const uint64_t *types)
{
	lua_newtable(L);
	for (int type = 0; type < PEV_COUNTED_TYPES; type++) {
		if (!types[type])
			continue;
		lua_pushinteger(L, (lua_Integer)types[type]);
		lua_rawseti(L, -2, type);
	}
}

static void push_counted_events(lua_State *L, const struct pev_record_counts *counts)
{
	lua_newtable(L);
	for (uint32_t i = 0; i < counts->nr_events; i++) {
		const struct pev_event_counts *event = &counts->events[i];

		lua_createtable(L, 0, 3);
		l_set_u64(L, "samples", event->samples);
		l_set_u64(L, "periods", event->periods);
		push_types(L, event->types);
		lua_setfield(L, -2, "types");
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

static void push_comms(lua_State *L, const struct pev_agg *comms)
{
	lua_newtable(L);
	for (uint32_t i = 0; i < comms->nr; i++) {
		const char *comm = (const char *)pev_agg_key(comms, comms->cells[i]);

		lua_pushlstring(L, comm, strnlen(comm, PEV_COMM_LEN));
		lua_pushinteger(L, (lua_Integer)comms->cells[i]->n);
		lua_rawset(L, -3);
	}
}

static void push_counts(lua_State *L, const struct pev_record_counts *counts)
{
	const struct pev_time_span *span = counts->sampled.last ? &counts->sampled :
								  &counts->others;

	lua_createtable(L, 0, 6);
	l_set_u64(L, "samples", counts->samples);
	push_counted_events(L, counts);
	lua_setfield(L, -2, "events");
	push_comms(L, &counts->comms);
	lua_setfield(L, -2, "comms");
	push_types(L, counts->synthesised);
	lua_setfield(L, -2, "synthesised");
	if (!span->last)
		return;
	l_set_u64(L, "first", span->first);
	l_set_u64(L, "last", span->last);
}

static int count_record(struct l_reader *self, struct pev_record_counts *counts)
{
	const struct pev_source_record *source = self->source;
	const struct pev_file_event *event = pev_reader_event(self->reader, source->event);
	const struct pev_record *rec = &self->rec;

	if (rec->type == PERF_RECORD_SAMPLE)
		return pev_record_counts_add_sample(counts, &self->tasks, rec, source->event,
						    event ? event->attr.sample_period : 0);
	return pev_record_counts_add(counts, rec, source->event, source->synthesised);
}

int l_reader_count(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	struct pev_record_counts *counts;
	enum l_reader_turn turn;
	uint32_t left = CHECK_EVERY;

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 2);
	counts = lua_newuserdatauv(L, sizeof(*counts), 0);
	if (pev_record_counts_init(counts) < 0)
		return luaL_error(L, "no memory to count records");
	if (luaL_newmetatable(L, COUNTS)) {
		lua_pushcfunction(L, l_counts_gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_setmetatable(L, 3);
	self->types = UINT64_MAX;
	self->now++;
	while ((turn = l_reader_next(L, self)) != L_READER_END) {
		if (turn == L_READER_RECORD && count_record(self, counts) < 0)
			return luaL_error(L, "no memory to count records");
		if (--left > 0)
			continue;
		left = CHECK_EVERY;
		if (!may_continue(L, 2))
			break;
	}
	if (pev_record_counts_finish(counts) < 0)
		return luaL_error(L, "no memory to count records");
	push_counts(L, counts);
	return 1;
}

/* ---- print ---- */

/* An event as records show it. The table EVENT_NAMES keeps the name. */
struct shown_event {
	const char *name;
	size_t len;
	bool known, is_selected;
};

/* Indices on the stack of l_reader_print(). */
enum {
	READER = 1, OPTIONS, DESCRIBE, TOOL, KEEP_GOING, STATE, BUFFER_BLOCK, EVENT_NAMES, EVENTS
};

struct printing {
	struct l_reader *self;
	struct pev_record_form form;
	struct pev_text out;          /* in the userdata BUFFER_BLOCK */
	struct shown_event *events;   /* in the userdata EVENTS */
	uint32_t nr_events;
	uint64_t news;                /* the reader's when events were described */
	uint64_t types;               /* of the kernel's records */
	uint64_t left;                /* records to print */
	uint32_t until_check;
	bool every_event;
	bool flushes;                 /* at the end of each round */
};

static void write_out(lua_State *L, struct printing *print)
{
	const luaL_Stream *to;

	lua_getfield(L, LUA_REGISTRYINDEX, OUTPUT);
	to = lua_touserdata(L, -1);
	lua_pop(L, 1);
	if (to && to->closef)
		fwrite_unlocked(print->out.buf, 1, print->out.len, to->f);
	print->out.len = 0;
}

/* Replaces the buffer, whose text was written, by one of this size. */
static void set_buffer(lua_State *L, struct printing *print, size_t size)
{
	print->out = (struct pev_text){ .buf = lua_newuserdatauv(L, size, 0), .cap = size };
	lua_replace(L, BUFFER_BLOCK);
}

/* The names of registers can change when the reader finds new sections. */
static void read_register_names(lua_State *L, struct pev_register_names *registers)
{
	*registers = (struct pev_register_names){ 0 };
	lua_getiuservalue(L, READER, L_READER_UV_CONTEXT);
	if (lua_getfield(L, -1, "registers") == LUA_TTABLE)
		for (int bit = 0; bit < 64; bit++) {
			if (lua_rawgeti(L, -1, bit) == LUA_TSTRING)
				registers->names[bit] = lua_tostring(L, -1);
			lua_pop(L, 1);
		}
	lua_pop(L, 2);
	pev_register_names_sort(registers);
}

/* Forgets what is known of events and registers. */
static void take_news(lua_State *L, struct printing *print)
{
	uint32_t nr = pev_reader_count_events(print->self->reader);

	print->news = print->self->news;
	print->events = lua_newuserdatauv(L, nr * sizeof(*print->events) + 1, 0);
	print->nr_events = nr;
	memset(print->events, 0, nr * sizeof(*print->events));
	lua_replace(L, EVENTS);
	read_register_names(L, &print->form.registers);
}

/* Calls describe(n), n from 1, for the event's name and whether its records are printed. */
static void describe_event(lua_State *L, struct shown_event *event, uint32_t n)
{
	lua_pushvalue(L, DESCRIBE);
	lua_pushinteger(L, (lua_Integer)n + 1);
	lua_call(L, 1, 2);
	event->is_selected = lua_toboolean(L, -1);
	lua_pop(L, 1);
	event->name = luaL_checklstring(L, -1, &event->len);
	lua_rawseti(L, EVENT_NAMES, (lua_Integer)n + 1);
	event->known = true;
}

static const struct shown_event *find_event(lua_State *L, struct printing *print)
{
	static const struct shown_event none = { 0 };
	uint32_t n = print->self->source->event;

	if (n >= print->nr_events)
		return &none;
	if (!print->events[n].known)
		describe_event(L, &print->events[n], n);
	return &print->events[n];
}

/* The name of the record's task, if the record does not have it. */
static const char *find_comm(struct l_reader *self)
{
	uint64_t tid;

	return pev_record_number(&self->rec, PEV_F_TID, &tid) ?
		       pev_tasks_comm(&self->tasks, (int)(int64_t)tid) :
		       NULL;
}

static void print_line(struct printing *print, const struct pev_shown_record *shown)
{
	pev_record_put(&print->out, &print->form, shown);
	pev_text_char(&print->out, '\n');
}

static void print_record(lua_State *L, struct printing *print)
{
	struct l_reader *self = print->self;
	const struct shown_event *event;
	struct pev_shown_record shown;
	const struct l_args *args;
	struct pev_value raw;
	size_t before = print->out.len;

	if (!(print->types >> self->rec.type & 1))
		return;
	event = find_event(L, print);
	if (!print->every_event && !event->is_selected)
		return;
	args = l_reader_payload(self, &raw);
	shown = (struct pev_shown_record){
		.rec = &self->rec, .offset = self->source->offset, .event = event->name,
		.event_len = event->len, .comm = find_comm(self), .tp = args ? args->tp : NULL,
		.synthesised = self->source->synthesised,
	};
	print->left--;
	print_line(print, &shown);
	if (print->out.len <= print->out.cap)
		return;
	print->out.len = before;
	write_out(L, print);
	print_line(print, &shown);
	if (print->out.len <= print->out.cap)
		return;
	set_buffer(L, print, print->out.len + BUFFER);
	print_line(print, &shown);
}

/* Prints what tool(number, bytes, offset) returns for a tool's record. */
static void print_tool_record(lua_State *L, struct printing *print)
{
	const struct pev_source_record *source = print->self->source;
	const char *text;
	size_t len;

	lua_pushvalue(L, TOOL);
	lua_pushinteger(L, source->type);
	lua_pushlstring(L, (const char *)source->bytes, source->size);
	lua_pushinteger(L, (lua_Integer)source->offset);
	lua_call(L, 3, 1);
	text = lua_tolstring(L, -1, &len);
	if (text) {
		print->left--;
		if (print->out.len + len + 2 > print->out.cap) {
			write_out(L, print);
			set_buffer(L, print, len + BUFFER);
		}
		pev_text_put(&print->out, text, len);
		pev_text_char(&print->out, '\n');
	}
	lua_pop(L, 1);
}

/* Returns false if the pass has to end. */
static bool check_printing(lua_State *L, struct printing *print, enum l_reader_turn turn)
{
	bool ends_round = print->flushes && turn == L_READER_TOOL &&
			  print->self->source->type == PEV_USER_FINISHED_ROUND;

	if (!print->left)
		return false;
	if (--print->until_check && !ends_round)
		return true;
	print->until_check = CHECK_EVERY;
	write_out(L, print);
	return may_continue(L, KEEP_GOING);
}

static bool option_flag(lua_State *L, const char *name)
{
	bool yes;

	lua_getfield(L, OPTIONS, name);
	yes = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return yes;
}

static uint64_t option_integer(lua_State *L, const char *name, uint64_t missing)
{
	uint64_t value;

	lua_getfield(L, OPTIONS, name);
	value = (uint64_t)luaL_optinteger(L, -1, (lua_Integer)missing);
	lua_pop(L, 1);
	return value;
}

int l_reader_print(lua_State *L)
{
	struct l_reader *self = l_reader_check_open(L);
	struct printing *print;
	enum l_reader_turn turn;

	luaL_checktype(L, OPTIONS, LUA_TTABLE);
	lua_settop(L, OPTIONS);
	lua_getfield(L, OPTIONS, "describe");
	lua_getfield(L, OPTIONS, "tool");
	lua_getfield(L, OPTIONS, "keep_going");
	print = lua_newuserdatauv(L, sizeof(*print), 0);
	*print = (struct printing){ .self = self, .until_check = CHECK_EVERY };
	lua_pushnil(L);
	lua_newtable(L);
	lua_pushnil(L);
	print->form.json = option_flag(L, "json");
	print->form.with_bytes = option_flag(L, "with_bytes");
	print->every_event = !option_flag(L, "selects_events");
	print->flushes = option_flag(L, "flushes");
	print->types = option_integer(L, "types", UINT64_MAX);
	print->left = option_integer(L, "count", UINT64_MAX);
	set_buffer(L, print, BUFFER);
	take_news(L, print);
	self->types = UINT64_MAX;
	self->now++;
	do {
		turn = l_reader_next(L, self);
		if (print->news != self->news)
			take_news(L, print);
		if (turn == L_READER_RECORD)
			print_record(L, print);
		else if (turn == L_READER_TOOL)
			print_tool_record(L, print);
	} while (turn != L_READER_END && check_printing(L, print, turn));
	write_out(L, print);
	return 0;
}
