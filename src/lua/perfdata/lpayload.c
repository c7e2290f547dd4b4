/*
 * lpayload.c - decodes a payload from bytes and a format text, without a session.
 *
 * The bytes are a Lua string, read in place. A userdata, the owner of the view, keeps the
 * string, the formats and the names of symbols alive.
 */
#include <lauxlib.h>
#include <stdbool.h>

#include "lua/record/largs.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/perfdata/lreader.h"
#include "lua/base/lset.h"

#define FORMAT "perfev.format"

enum {
	UV_BYTES = 1,
	UV_NAMES = 2,
	ARGS_UV_OWNER = 2, /* user value of a payload view: see l_args_push() */
	SYMBOLS_MAX = 8
};

/* Replaces the session of a payload: its formats, and a generation that never changes. */
struct format {
	struct pev_tracepoints *tps;
	uint64_t now;
	struct {
		uint64_t start;
		const char *name;
	} symbols[SYMBOLS_MAX];
	int nr_symbols;
};

static int l_format_gc(lua_State *L)
{
	struct format *format = luaL_checkudata(L, 1, FORMAT);

	pev_tracepoints_free(format->tps);
	format->tps = NULL;
	return 0;
}

static struct format *push_format(lua_State *L, bool big_endian, int long_size)
{
	struct format *format = lua_newuserdatauv(L, sizeof(*format), 2);

	*format = (struct format){ 0 };
	luaL_setmetatable(L, FORMAT);
	format->tps = pev_tracepoints_new(big_endian, long_size);
	if (!format->tps)
		luaL_error(L, "payload: out of memory");
	return format;
}

static bool option_flag(lua_State *L, const char *name, bool fallback)
{
	return lua_getfield(L, 4, name) == LUA_TNIL ? fallback : lua_toboolean(L, -1);
}

static int option_long_size(lua_State *L)
{
	lua_Integer value = sizeof(long);

	if (lua_getfield(L, 4, "long_size") != LUA_TNIL)
		value = luaL_checkinteger(L, -1);
	luaL_argcheck(L, value == 4 || value == 8, 4, "long_size is 4 or 8");
	return (int)value;
}

static const char *find_symbol(void *ctx, uint64_t addr, uint64_t *start)
{
	const struct format *format = ctx;
	const char *name = NULL;

	for (int i = 0; i < format->nr_symbols; i++) {
		uint64_t at = format->symbols[i].start;

		if (at > addr || (name && at < *start))
			continue;
		*start = at;
		name = format->symbols[i].name;
	}
	return name;
}

/*
 * symbols = { [address] = "name" }, or a recording; the format keeps it, and so the names, alive.
 */
static void option_symbols(lua_State *L, struct format *format, int at)
{
	if (lua_getfield(L, 4, "symbols") == LUA_TNIL)
		return;
	lua_pushvalue(L, -1);
	lua_setiuservalue(L, at, UV_NAMES);
	if (luaL_testudata(L, -1, L_READER)) {
		pev_tracepoints_symbols(format->tps, l_reader_symbol, lua_touserdata(L, -1));
		return;
	}
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		luaL_argcheck(L, format->nr_symbols < SYMBOLS_MAX, 4, "too many symbols");
		luaL_argcheck(L, lua_isinteger(L, -2) && lua_type(L, -1) == LUA_TSTRING, 4,
			      "symbols are { [address] = \"name\" }");
		format->symbols[format->nr_symbols].start = (uint64_t)lua_tointeger(L, -2);
		format->symbols[format->nr_symbols++].name = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	pev_tracepoints_symbols(format->tps, find_symbol, format);
}

static void option_strings(lua_State *L, struct format *format)
{
	size_t len;
	const char *text;

	if (lua_getfield(L, 4, "strings") == LUA_TNIL)
		return;
	text = luaL_checklstring(L, -1, &len);
	if (pev_tracepoints_strings(format->tps, text, len) < 0)
		luaL_error(L, "payload: out of memory");
}

/*
 * payload(system, format_text, bytes [, options]) -> view | nil, message, errno
 * A view that stays valid, for specs and for payloads kept elsewhere. Options describe the
 * recording machine: big_endian, long_size (4 or 8), symbols ({ [address] = name }, up to 8,
 * or a recording's userdata), strings (the text of its printk_formats).
 */
static int l_payload(lua_State *L)
{
	const char *system = luaL_checkstring(L, 1);
	size_t text_len, len;
	const char *text = luaL_checklstring(L, 2, &text_len);
	const char *bytes = luaL_checklstring(L, 3, &len);
	const struct pev_tracepoint *tp;
	struct pev_err err = { 0 };
	struct format *format;
	struct l_args *args;
	int at, rc;

	luaL_argcheck(L, len <= UINT32_MAX, 3, "payload too long");
	lua_settop(L, 4);
	if (lua_isnil(L, 4)) {
		lua_newtable(L);
		lua_replace(L, 4);
	}
	luaL_checktype(L, 4, LUA_TTABLE);
	format = push_format(L, option_flag(L, "big_endian",
					    __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
			     option_long_size(L));
	at = lua_gettop(L);
	option_symbols(L, format, at);
	option_strings(L, format);
	rc = pev_tracepoints_add(format->tps, system, text, text_len, &tp, &err);
	if (rc < 0) {
		lua_pushnil(L);
		lua_pushstring(L, err.text);
		lua_pushinteger(L, -rc);
		return 3;
	}
	lua_pushvalue(L, 3);
	lua_setiuservalue(L, at, UV_BYTES);
	args = l_args_push(L, tp, &format->now);
	lua_pushvalue(L, at);
	lua_setiuservalue(L, -2, ARGS_UV_OWNER);
	args->raw = (const unsigned char *)bytes;
	args->len = (uint32_t)len;
	args->gen = format->now;
	return 1;
}

/* ---- types of fields ---- */

/* A field's name, a span of the text, and its form. */
struct form_row {
	struct pev_span name;
	struct pev_tp_form form;
};

/*
 * Pushes a userdata with the rows of a text, because creating a table may raise. Returns how many.
 */
static uint32_t push_rows(lua_State *L, const char *text, size_t len)
{
	struct form_row *rows = lua_newuserdatauv(L, PEV_FIELDS_MAX * sizeof(*rows), 0);
	struct pev_err err = { 0 };
	struct pev_format format;
	uint32_t nr;

	if (pev_format_read(&format, "", text, len, &err) < 0)
		return 0;
	nr = format.nr;
	for (uint32_t i = 0; i < nr; i++)
		rows[i] = (struct form_row){ format.lines[i].name,
					     pev_format_form(&format, &format.lines[i]) };
	pev_format_free(&format);
	return nr;
}

/*
 * payload_forms(format_text) -> { [field] = { bytes =,
 * signed =, hex = } }, empty if the text is invalid
 */
static int l_payload_forms(lua_State *L)
{
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);
	const struct form_row *rows;
	uint32_t nr;

	lua_settop(L, 1);
	nr = push_rows(L, text, len);
	rows = lua_touserdata(L, 2);
	lua_newtable(L);
	for (uint32_t i = 0; i < nr; i++) {
		lua_pushlstring(L, rows[i].name.p, pev_span_len(rows[i].name));
		lua_createtable(L, 0, 3);
		l_set_integer(L, "bytes", rows[i].form.bytes);
		l_set_boolean(L, "signed", rows[i].form.flags & PEV_TP_SIGNED);
		l_set_boolean(L, "hex", rows[i].form.flags & PEV_TP_HEX);
		lua_rawset(L, 3);
	}
	return 1;
}

void l_payload_register(lua_State *L)
{
	l_class(L, FORMAT, NULL, l_format_gc);
	l_set_function(L, "payload_forms", l_payload_forms);
	l_set_function(L, "payload", l_payload);
}
