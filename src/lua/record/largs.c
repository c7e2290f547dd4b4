/*
 * largs.c - the userdata perfev.args; see largs.h.
 *
 * args.next_pid is one lookup by the address of the name's string (see lrecord.c) and
 * one bounded load from the payload in place. A field outside the payload is nil in Lua
 * and <bad> in tostring(), because a corrupt recording must not end a script.
 */
#include "lua/record/largs.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "lua/base/lregister.h"

#define ARGS "perfev.args"

enum {
	UV_NAMES = 1,
	TEXT_CAP = 1024   /* bytes of the first buffer for printed text */
};

/* Identifies this type: no other userdata begins with this address. */
static const char is_args = 0;

/* luaL_checkudata() would take three times as long. */
static struct l_args *check_args(lua_State *L)
{
	struct l_args *args = lua_touserdata(L, 1);

	if (!args || lua_rawlen(L, 1) < sizeof(*args) || args->kind != &is_args) {
		luaL_typeerror(L, 1, ARGS);
		__builtin_unreachable(); /* luaL_typeerror() raises */
	}
	if (args->gen != *args->now)
		luaL_error(L, "record used after its callback; keep r:copy()");
	if (args->process && args->process != pev_sys_process())
		luaL_error(L, "record used in a process forked since; fork with r:copy()");
	return args;
}

static const struct l_args_place *place_of(const struct l_args *args, const void *name)
{
	uintptr_t at = (uintptr_t)name >> 4 ^ (uintptr_t)name >> 10;

	while (args->places[at & args->mask].name && args->places[at & args->mask].name != name)
		at++;
	return &args->places[at & args->mask];
}

static void push_elements(lua_State *L, const struct l_args *args,
			  const struct pev_tp_field *field, const struct pev_tp_value *value)
{
	uint32_t nr = value->len / field->elem;

	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		lua_pushinteger(L, pev_tp_element(args->tp, field, value, i));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

void l_args_push_value(lua_State *L, const struct l_args *args, const struct pev_tp_field *field)
{
	struct pev_tp_value value;

	luaL_checkstack(L, 3, "payload field");
	if (pev_tp_get(args->tp, field, args->raw, args->len, &value) < 0)
		lua_pushnil(L);
	else if (!(field->flags & PEV_TP_ARRAY))
		lua_pushinteger(L, value.i);
	else if (field->elem == 1)
		lua_pushlstring(L, (const char *)value.p, value.len);
	else
		push_elements(L, args, field, &value);
}

static const char *nearest_field(lua_State *L, const struct pev_tracepoint *tp, const char *word)
{
	const char **names = lua_newuserdatauv(L, tp->nr * sizeof(*names), 0);

	for (uint32_t i = 0; i < tp->nr; i++)
		names[i] = tp->fields[i].name;
	return pev_nearest(word, names, tp->nr);
}

static int no_field(lua_State *L, const struct pev_tracepoint *tp)
{
	const char *word = luaL_tolstring(L, 2, NULL);
	const char *near = nearest_field(L, tp, word);

	if (near)
		return luaL_error(L, "%s:%s has no field '%s' (did you mean '%s'?)",
				  tp->system, tp->name, word, near);
	return luaL_error(L, "%s:%s has no field '%s' (pairs(args) walks those it has)",
			  tp->system, tp->name, word);
}

/* Lua does not intern strings over 40 bytes: compare the name instead. */
static const struct pev_tp_field *find_long(lua_State *L, const struct pev_tracepoint *tp)
{
	struct pev_span name = { NULL, NULL };
	size_t len;

	if (lua_type(L, 2) != LUA_TSTRING)
		return NULL;
	name.p = lua_tolstring(L, 2, &len);
	name.end = name.p + len;
	return pev_tp_find(tp, name);
}

void l_args_push_text(lua_State *L, const struct l_args *args, const struct pev_tp_field *field)
{
	luaL_Buffer buffer;
	size_t len;

	luaL_checkstack(L, 3, "payload field");
	if (!pev_tp_print_field(args->tp, field, args->raw, args->len, args->text, L_ARGS_TEXT_MAX,
				&len)) {
		lua_pushnil(L);
	} else if (len < L_ARGS_TEXT_MAX) {
		lua_pushlstring(L, args->text, len);
	} else {
		pev_tp_print_field(args->tp, field, args->raw, args->len,
				   luaL_buffinitsize(L, &buffer, len + 1), len + 1, &len);
		luaL_pushresultsize(&buffer, len);
	}
}

/* args:text(name) -> the field's text | nil: it is outside the payload */
static int l_args_text(lua_State *L)
{
	const struct l_args *args = check_args(L);
	const struct pev_tp_field *field;

	luaL_checkstring(L, 2);
	field = find_long(L, args->tp);
	if (!field)
		return no_field(L, args->tp);
	l_args_push_text(L, args, field);
	return 1;
}

static bool is_text_method(lua_State *L)
{
	return lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "text") == 0;
}

static int l_args_index(lua_State *L)
{
	const struct l_args *args = check_args(L);
	const struct pev_tp_field *field = place_of(args, lua_topointer(L, 2))->field;
	int64_t number;

	if (!field)
		field = find_long(L, args->tp);
	if (!field && is_text_method(L)) {
		lua_pushcfunction(L, l_args_text);
		return 1;
	}
	if (!field)
		return no_field(L, args->tp);
	if (pev_tp_integer(args->tp, field, args->raw, args->len, &number))
		lua_pushinteger(L, number);
	else
		l_args_push_value(L, args, field);
	return 1;
}

static int l_args_newindex(lua_State *L)
{
	check_args(L);
	return luaL_error(L, "a payload is read-only; keep a table of your own, or r:copy()");
}

/* Upvalue 1: the number of fields already visited. */
static int l_args_next(lua_State *L)
{
	const struct l_args *args = check_args(L);
	lua_Integer i = lua_tointeger(L, lua_upvalueindex(1));

	while (i < args->tp->nr && args->tp->fields[i].flags & PEV_TP_COMMON)
		i++;
	lua_pushinteger(L, i + 1);
	lua_replace(L, lua_upvalueindex(1));
	if (i >= args->tp->nr)
		return 0;
	lua_pushstring(L, args->tp->fields[i].name);
	l_args_push_value(L, args, &args->tp->fields[i]);
	return 2;
}

static int l_args_pairs(lua_State *L)
{
	check_args(L);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_args_next, 1);
	lua_pushvalue(L, 1);
	return 2;
}

static int l_args_tostring(lua_State *L)
{
	const struct l_args *args = check_args(L);
	char text[TEXT_CAP];
	size_t len = pev_tp_print(args->tp, args->raw, args->len, text, sizeof(text));
	luaL_Buffer buffer;

	if (len < sizeof(text)) {
		lua_pushlstring(L, text, len);
		return 1;
	}
	pev_tp_print(args->tp, args->raw, args->len, luaL_buffinitsize(L, &buffer, len + 1),
		     len + 1);
	luaL_pushresultsize(&buffer, len);
	return 1;
}

/* The table on top keeps the names. Of two fields with one name, the first is found. */
static void take_names(lua_State *L, struct l_args *args, struct l_args_place *places)
{
	const struct pev_tracepoint *tp = args->tp;

	for (uint32_t i = 0; i < tp->nr; i++) {
		const struct l_args_place *place;
		const void *name;

		lua_pushstring(L, tp->fields[i].name);
		name = lua_topointer(L, -1);
		place = place_of(args, name);
		if (!place->name)
			places[place - places] = (struct l_args_place){ name, &tp->fields[i] };
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

struct l_args *l_args_push(lua_State *L, const struct pev_tracepoint *tp, const uint64_t *now)
{
	struct l_args_place *places;
	struct l_args *args;
	size_t nr = 8;

	while (nr < 2 * (size_t)tp->nr)
		nr *= 2;
	luaL_checkstack(L, 4, "payload view");
	args = lua_newuserdatauv(L, sizeof(*args) + nr * sizeof(*places) + L_ARGS_TEXT_MAX, 2);
	places = (struct l_args_place *)(args + 1);
	memset(places, 0, nr * sizeof(*places));
	*args = (struct l_args){ .kind = &is_args, .places = places, .mask = nr - 1, .tp = tp,
				 .from = PEV_F_RAW, .now = now, .gen = *now - 1,
				 .text = (char *)(places + nr) };
	luaL_setmetatable(L, ARGS);
	lua_createtable(L, (int)tp->nr, 0);
	take_names(L, args, places);
	lua_setiuservalue(L, -2, UV_NAMES);
	return args;
}

void l_args_push_table(lua_State *L, const struct l_args *args)
{
	luaL_checkstack(L, 5, "payload copy");
	lua_createtable(L, 0, (int)args->tp->nr);
	for (uint32_t i = args->tp->nr; i > 0; i--) {
		const struct pev_tp_field *field = &args->tp->fields[i - 1];

		if (field->flags & PEV_TP_COMMON)
			continue;
		l_args_push_value(L, args, field);
		lua_setfield(L, -2, field->name);
	}
}

static const luaL_Reg args_meta[] = {
	{ "__index",    l_args_index },
	{ "__newindex", l_args_newindex },
	{ "__pairs",    l_args_pairs },
	{ "__tostring", l_args_tostring },
	{ NULL, NULL }
};

void l_args_register(lua_State *L)
{
	luaL_newmetatable(L, ARGS); /* sets __name too */
	luaL_setfuncs(L, args_meta, 0);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
}
