/*
 * ltext_line.c - the userdata perfev.line; see ltext_line.h.
 *
 * lua/perfev/aggregate/text_line.lua parses the format: a line is a list of columns, each a
 * constant text, and a name and a conversion. The last one is only a text, with the newline.
 */
#define _GNU_SOURCE
#include "lua/record/ltext_line.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/record/lrecord_value.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.line"
#define OUTPUT "_IO_output" /* registry key of io.output() (liolib.c) */

enum { COLUMNS_MAX = 64, LINE_CAP = 2048, SPEC_MAX = 64 };

/* The kinds of columns. */
enum kind { NOTHING, FIELD, SECONDS, TASK, TRACEPOINT, LATENCY, TEXT };

struct column {
	enum kind kind;
	bool has_letter;            /* the spec has a conversion letter for numbers */
	uint8_t decimals;           /* SECONDS */
	struct l_field field, more; /* FIELD, SECONDS, TASK; LATENCY: flags, preempt_count */
	struct pev_conversion conversion, whole; /* whole: of a time's seconds */
	const char *literal;        /* the text before, borrowed from the list */
	size_t len;
	char brief[PEV_TEXT_SHORT]; /* a copy of literal, if it fits */
};

struct l_text_line {
	const struct pev_tracepoint *tp; /* of the last lookup */
	const struct pev_plan *plan;     /* of the last lookup; NULL: not of a sample */
	const char *event;               /* the event's name, stored behind the columns */
	const char *name;                /* its part after system:, without modifiers */
	size_t name_len;
	const luaL_Stream *output;       /* io.output() of the last lookup */
	uint64_t looked_up;              /* when: the views' count of callbacks */
	uint32_t nr;
	struct column columns[];
};

enum { UV_LIST = 1, UV_NR = UV_LIST };

const struct l_text_line *l_text_line_test(lua_State *L, int idx)
{
	return luaL_testudata(L, idx, TYPENAME);
}

/* ---- construction ---- */

static const struct {
	const char *name;
	enum kind kind;
} kinds[] = {
	{ "task", TASK }, { "tracepoint", TRACEPOINT }, { "latency", LATENCY }, { "text", TEXT },
};

/* Parses spec, as in "-16" or "08x", of the column's table on top. Numbers have 64 bits. */
static void take_conversion(lua_State *L, struct column *column)
{
	const char *spec;
	char text[SPEC_MAX];
	int len;

	lua_getfield(L, -1, "spec");
	spec = luaL_optstring(L, -1, "");
	column->has_letter = *spec && strchr("diuxXo", spec[strlen(spec) - 1]);
	len = snprintf(text, sizeof(text), "%%%s%s", spec, column->has_letter ? "" : "d");
	if (len >= (int)sizeof(text) ||
	    pev_conversion_read(&column->conversion, text, text + len) != (size_t)len)
		luaL_error(L, "'%s' is no conversion", spec);
	column->conversion.above = 0;
	lua_pop(L, 1);
}

/* Prepares a time in seconds. The column's width includes the decimals. */
static void take_seconds(struct column *column)
{
	const struct pev_conversion *c = &column->conversion;
	int decimals = c->precision < 9 ? c->precision : 9;
	int width = c->width - (decimals ? decimals + 1 : 0);
	char text[SPEC_MAX];
	int len = snprintf(text, sizeof(text), "%%%s%dllu", c->zero ? "0" : "",
			   width > 0 ? width : 0);

	column->kind = SECONDS;
	column->decimals = (uint8_t)decimals;
	pev_conversion_read(&column->whole, text, text + len);
}

/* Fills the column from the table on top: { literal =, name =, spec = } */
static void take_column(lua_State *L, struct column *column)
{
	const char *name;

	*column = (struct column){ .kind = NOTHING };
	lua_getfield(L, -1, "literal");
	column->literal = luaL_checklstring(L, -1, &column->len);
	if (column->len <= sizeof(column->brief))
		memcpy(column->brief, column->literal, column->len);
	lua_getfield(L, -2, "name");
	name = luaL_optstring(L, -1, NULL);
	lua_pop(L, 2);
	if (!name)
		return;
	column->kind = FIELD;
	column->field = l_value_find(strcmp(name, "task") == 0 ? "comm" : name);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			column->kind = kinds[i].kind;
	if (column->kind == LATENCY) {
		column->field = l_value_find("args.common_flags");
		column->more = l_value_find("args.common_preempt_count");
	}
	take_conversion(L, column);
	if (strcmp(name, "time") == 0 && column->conversion.precision >= 0)
		take_seconds(column);
}

/* line{ { literal =, name =, spec = }, … } -> line; keeps the list */
static int l_line(lua_State *L)
{
	lua_Unsigned nr;
	struct l_text_line *line;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	nr = lua_rawlen(L, 1);
	if (nr > COLUMNS_MAX)
		return luaL_error(L, "more than %d columns and texts between them", COLUMNS_MAX);
	line = lua_newuserdatauv(L, sizeof(*line) + nr * sizeof(line->columns[0]), UV_NR);
	*line = (struct l_text_line){ .event = "?", .name = "?", .name_len = 1,
				      .nr = (uint32_t)nr };
	for (uint32_t i = 0; i < line->nr; i++) {
		lua_rawgeti(L, 1, (lua_Integer)i + 1);
		take_column(L, &line->columns[i]);
		lua_pop(L, 1);
	}
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, UV_LIST);
	return 1;
}

/* "sched:sched_switch:u" or "sched/sched_switch/…" -> "sched_switch"; other names unchanged. */
static void name_event(struct l_text_line *line, const char *event)
{
	size_t system = strcspn(event, ":/");
	const char *name = event[system] ? event + system + 1 : event;

	line->event = event;
	line->name_len = strcspn(name, ":/");
	line->name = line->name_len && system ? name : event;
	if (line->name == event)
		line->name_len = strlen(event);
}

struct l_text_line *l_text_line_push(lua_State *L, int idx, const char *event)
{
	const struct l_text_line *of = l_text_line_test(L, idx);
	size_t bytes = sizeof(*of) + of->nr * sizeof(of->columns[0]);
	struct l_text_line *line = lua_newuserdatauv(L, bytes + strlen(event) + 1, 0);

	memcpy(line, of, bytes);
	line->tp = NULL;
	line->plan = NULL;
	line->output = NULL;
	name_event(line, memcpy((char *)line + bytes, event, strlen(event) + 1));
	return line;
}

/* ---- one line ---- */

static const struct pev_plan *plan_of_sample(const struct pev_record *rec)
{
	return rec->type == PERF_RECORD_SAMPLE ? rec->plan : NULL;
}

static void find_field(struct l_field *field, const struct pev_record *rec,
		       const struct l_args *args)
{
	if (args)
		l_field_find_in_payload(field, args->tp);
	if (plan_of_sample(rec))
		l_field_find_offset(field, rec->plan, args);
	else
		field->place = (struct pev_number_field){ 0 };
}

static void find_fields(struct l_text_line *line, const struct pev_record *rec,
			const struct l_args *args)
{
	line->tp = args ? args->tp : line->tp;
	line->plan = plan_of_sample(rec);
	for (uint32_t i = 0; i < line->nr; i++) {
		find_field(&line->columns[i].field, rec, args);
		find_field(&line->columns[i].more, rec, args);
	}
}

/* Puts a string with bytes that are not safe to show. */
static __attribute__((noinline)) void put_unsafe(struct pev_text *out,
						 const struct pev_conversion *conversion,
						 const char *bytes, size_t len)
{
	char safe[256];
	struct pev_text text = { .buf = safe, .cap = sizeof(safe) };

	pev_text_escaped(&text, bytes, len);
	if (text.len <= sizeof(safe))
		pev_text_string(out, conversion, safe, text.len);
	else
		pev_text_escaped(out, bytes, len); /* no width is as long */
}

/* Puts a string with the column's width, in bytes as in string.format(). */
static void put_string(struct pev_text *out, const struct pev_conversion *conversion,
		       const char *bytes, size_t len)
{
	if (pev_text_is_safe(bytes, len))
		pev_text_string(out, conversion, bytes, len);
	else
		put_unsafe(out, conversion, bytes, len);
}

/* Puts a number that its tracepoint prints in hexadecimal. */
static __attribute__((noinline)) void put_address(struct pev_text *out, const struct column *column,
						  int64_t number)
{
	const struct pev_tp_field *field = column->field.field;
	char digits[20];
	struct pev_text hex = { .buf = digits, .cap = sizeof(digits) };

	if (!(field->flags & PEV_TP_ARRAY) && field->elem < sizeof(number))
		number &= (int64_t)((UINT64_C(1) << 8 * field->elem) - 1);
	pev_text_hex(&hex, (uint64_t)number);
	pev_text_string(out, &column->conversion, digits, hex.len);
}

static inline void put_number(struct pev_text *out, const struct column *column, int64_t number)
{
	const struct pev_tp_field *field = column->field.payload ? column->field.field : NULL;

	if (column->has_letter || !field || !(field->flags & PEV_TP_HEX))
		pev_text_number(out, &column->conversion, (uint64_t)number);
	else
		put_address(out, column, number);
}

static void put_field(struct pev_text *out, const struct column *column,
		      const struct l_current *current)
{
	struct pev_key_part part;
	int64_t number;

	if (l_value_read_number(&column->field, current, &number)) {
		put_number(out, column, number);
		return;
	}
	part = l_value_read(&column->field, current);
	if (part.type == PEV_KEY_INTEGER)
		put_number(out, column, part.integer);
	else if (part.type == PEV_KEY_STRING)
		put_string(out, &column->conversion, (const char *)part.p, part.len);
	else if (part.type == PEV_KEY_TRUE)
		put_string(out, &column->conversion, "true", 4);
	else if (part.type == PEV_KEY_FALSE)
		put_string(out, &column->conversion, "false", 5);
	else
		put_string(out, &column->conversion, "-", 1);
}

/* Puts ns as seconds, rounded to the column's decimals. */
static void put_seconds(struct pev_text *out, const struct column *column, uint64_t ns)
{
	static const uint32_t powers[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000,
					   100000000, 1000000000 };
	uint32_t unit = powers[9 - column->decimals];
	uint64_t seconds = ns / 1000000000;
	/* Divided in 32 bits, which takes less than half of the time. */
	uint32_t below = (uint32_t)(ns % 1000000000), value = below / unit;

	value += below % unit * UINT64_C(2) >= unit && unit > 1;
	if (value == powers[column->decimals]) {
		seconds++;
		value = 0;
	}
	pev_text_number(out, &column->whole, seconds);
	if (column->decimals) {
		pev_text_char(out, '.');
		pev_text_digits(out, value, column->decimals);
	}
}

/* Puts a task's name as ftrace does: "<idle>" for tid 0, "<...>" for an unknown task. */
static void put_task(struct pev_text *out, const struct column *column,
		     const struct l_current *current)
{
	const struct l_view *view = current->view;
	uint64_t tid;
	const char *comm = NULL;

	if (pev_record_number(view->rec, PEV_F_TID, &tid)) {
		if ((int32_t)tid == 0)
			comm = "<idle>";
		else if (view->comm)
			comm = view->comm(view->ctx, (int)(int64_t)tid);
	}
	if (!comm)
		comm = "<...>";
	put_string(out, &column->conversion, comm, strlen(comm));
}

/* trace_print_lat_fmt() in kernel/trace/trace_output.c; bits of enum trace_flag_type. */
static void put_latency(struct pev_text *out, const struct column *column,
			const struct l_current *current)
{
	static const char resched[64] = { [0x02] = 'l', [0x04] = 'n', [0x06] = 'b', [0x20] = 'p',
					  [0x22] = 'L', [0x24] = 'N', [0x26] = 'B' };
	static const char interrupt[] = ".hsHzZzZ"; /* by hard, soft, NMI */
	static const char digits[] = ".123456789abcdef";
	int64_t flags, preempt;
	char text[5];
	int64_t deep;

	if (!l_value_read_number(&column->field, current, &flags) ||
	    !l_value_read_number(&column->more, current, &preempt)) {
		put_string(out, &column->conversion, "-", 1);
		return;
	}
	/* Without the level that the tracepoint itself adds (6.18). */
	deep = (preempt & 0xf) > 1 ? (preempt & 0xf) - 1 : 0;
	text[0] = ".dbD"[(flags & 1) | (flags >> 6 & 2)];
	text[1] = resched[flags & 0x26] ? resched[flags & 0x26] : '.';
	text[2] = interrupt[(flags >> 3 & 3) | (flags >> 4 & 4)];
	text[3] = digits[deep];
	text[4] = digits[preempt >> 4 & 0xf];
	pev_text_string(out, &column->conversion, text, sizeof(text));
}

/* False: the buffer is too small; the caller tries again with a larger one. */
static bool put_payload(struct pev_text *out, const struct l_args *args)
{
	size_t room = out->len < out->cap ? out->cap - out->len : 0, len;
	struct pev_text safe = *out;
	char *copy;

	if (!args) {
		pev_text_char(out, '-');
		return true;
	}
	len = pev_tp_print(args->tp, args->raw, args->len, out->buf + out->len, room);
	if (len >= room)
		return false;
	if (pev_text_is_safe(out->buf + out->len, len)) {
		out->len += len;
		return true;
	}
	copy = malloc(len);
	if (!copy)
		return false;
	memcpy(copy, out->buf + out->len, len);
	pev_text_escaped(&safe, copy, len);
	free(copy);
	*out = safe;
	return true;
}

static bool put_column(struct pev_text *out, const struct l_text_line *line,
		       const struct column *column, const struct l_current *current)
{
	bool is_brief = column->len <= sizeof(column->brief);
	uint64_t time;

	pev_text_put_short(out, is_brief ? column->brief : column->literal, column->len);
	switch (column->kind) {
	case NOTHING:
		return true;
	case TASK:
		put_task(out, column, current);
		return true;
	case TRACEPOINT:
		put_string(out, &column->conversion, line->name, line->name_len);
		return true;
	case LATENCY:
		put_latency(out, column, current);
		return true;
	case TEXT:
		return put_payload(out, current->args);
	case SECONDS:
		if (pev_record_number(current->view->rec, PEV_F_TIME, &time)) {
			put_seconds(out, column, time);
			return true;
		}
		/* fall through */
	default:
		put_field(out, column, current);
		return true;
	}
}

/* Returns false if the buffer is too small. */
static bool put_line(struct pev_text *out, const struct l_text_line *line,
		     const struct l_current *current)
{
	for (uint32_t i = 0; i < line->nr; i++)
		if (!put_column(out, line, &line->columns[i], current))
			return false;
	return out->len <= out->cap;
}

/* Returns the line in buf, or in a larger block that the caller frees. NULL: out of memory. */
static char *make_line(struct l_text_line *line, const struct l_view *view,
		       const struct l_args *args, char *buf, size_t cap, size_t *len)
{
	struct l_current current = { .view = view, .args = args, .event = line->event };
	struct pev_text out = { .buf = buf, .cap = cap };

	if ((args && args->tp != line->tp) || plan_of_sample(view->rec) != line->plan)
		find_fields(line, view->rec, args);
	while (!put_line(&out, line, &current)) {
		if (out.buf != buf)
			free(out.buf);
		/* Ends: a payload has at most 65535 bytes, each shown in at most 4. */
		cap *= 4;
		out = (struct pev_text){ .buf = cap < (1 << 24) ? malloc(cap) : NULL, .cap = cap };
		if (!out.buf)
			return NULL;
	}
	*len = out.len;
	return out.buf;
}

/* Looks up io.output(), which the views' table keeps: a script may have changed it. */
static void find_output(struct l_text_line *line, lua_State *L, int context, uint64_t now)
{
	lua_getfield(L, LUA_REGISTRYINDEX, OUTPUT);
	line->output = lua_touserdata(L, -1);
	line->looked_up = now;
	lua_rawsetp(L, context, line);
}

void l_text_line_feed(struct l_text_line *line, lua_State *L, int context,
		      const struct l_view *view, const struct l_args *args)
{
	char buf[LINE_CAP], *text;
	size_t len;

	if (!line->output || line->looked_up != *view->now)
		find_output(line, L, context, *view->now);
	if (!line->output || !line->output->closef)
		return;
	text = make_line(line, view, args, buf, sizeof(buf), &len);
	if (text)
		fwrite_unlocked(text, 1, len, line->output->f);
	if (text != buf)
		free(text);
}

/* ---- from Lua ---- */

/* line:text(r) -> its line, without the newline */
static int l_text_line_text(lua_State *L)
{
	struct l_text_line *line = luaL_checkudata(L, 1, TYPENAME);
	const struct l_view *view = l_view_check(L, 2);
	const struct l_args *args = NULL;
	char buf[LINE_CAP], *text;
	const char *event = NULL;
	size_t len;

	lua_settop(L, 2);
	l_view_push_value(L, 2, view, L_CODE_ARGS);
	args = lua_touserdata(L, 3);
	l_view_push_value(L, 2, view, L_CODE_EVENT);
	if (!lua_isnil(L, 4) && lua_getfield(L, 4, "name") == LUA_TSTRING)
		event = lua_tostring(L, -1);
	name_event(line, event ? event : "?");
	text = make_line(line, view, args, buf, sizeof(buf), &len);
	name_event(line, "?");
	if (!text)
		return luaL_error(L, "no memory for a line");
	lua_pushlstring(L, text, len - 1);
	if (text != buf)
		free(text);
	return 1;
}

/* line(r): prints the record's line */
static int l_line_call(lua_State *L)
{
	luaL_Stream *to;
	size_t len;
	const char *text;

	lua_settop(L, 2);
	l_text_line_text(L);
	text = lua_tolstring(L, -1, &len);
	lua_getfield(L, LUA_REGISTRYINDEX, OUTPUT);
	to = lua_touserdata(L, -1);
	if (!to || !to->closef)
		return luaL_error(L, "default output file is closed");
	fwrite_unlocked(text, 1, len, to->f);
	putc_unlocked('\n', to->f);
	return 0;
}

/*
 * line_fields(line) -> the names of the payload fields that it reads, whether it needs a payload;
 * nothing if the value is not a line
 */
static int l_line_fields(lua_State *L)
{
	const struct l_text_line *line = l_text_line_test(L, 1);
	bool payload = false;

	if (!line)
		return 0;
	lua_newtable(L);
	for (uint32_t i = 0; i < line->nr; i++) {
		const struct column *column = &line->columns[i];
		const struct l_field *fields[] = { &column->field, &column->more };

		payload = payload || column->kind == TEXT;
		for (int n = 0; n < 2; n++) {
			if (!fields[n]->payload)
				continue;
			l_field_push_payload_name(L, fields[n]);
			lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
			payload = true;
		}
	}
	lua_pushboolean(L, payload);
	return 2;
}

static const luaL_Reg methods[] = {
	{ "text", l_text_line_text },
	{ NULL, NULL },
};

void l_text_line_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, NULL);
	luaL_getmetatable(L, TYPENAME);
	l_set_function(L, "__call", l_line_call);
	lua_pop(L, 1);
	l_set_function(L, "line", l_line);
	l_set_function(L, "line_fields", l_line_fields);
}
