/*
 * lattr.c - a struct pev_attr as the userdata perfev.attr.
 *
 * Fields have the kernel's names. u64 are Lua's 64-bit integers, wrapped. A float is
 * accepted if it is exactly an integer. Fields of one bit are booleans. sample_type
 * and similar fields also accept a list of names. kprobe_func and uprobe_path accept
 * a string, which the attr keeps, because the field holds its address.
 * Tables of the caller are read raw, so no metamethod runs.
 */
#include "lua/event/lattr.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define ATTR_TYPE "perfev.attr"
#define DUMP_MAX 8192 /* about 80 lines of at most 80 columns */

struct pev_attr *l_attr_check(lua_State *L, int idx)
{
	return luaL_checkudata(L, idx, ATTR_TYPE);
}

void l_attr_push(lua_State *L, const struct pev_attr *attr)
{
	struct pev_attr *copy = lua_newuserdatauv(L, sizeof(*copy), 1);

	*copy = *attr;
	luaL_setmetatable(L, ATTR_TYPE);
}

/* Pushes an attr of zeros. */
static struct pev_attr *push_empty(lua_State *L)
{
	l_attr_push(L, &(struct pev_attr){ 0 });
	return lua_touserdata(L, -1);
}

/* Writes the user's value for a message. Never calls __tostring or __name. */
static const char *describe_value(lua_State *L, int idx, char *buf, size_t cap)
{
	switch (lua_type(L, idx)) {
	case LUA_TSTRING:
		snprintf(buf, cap, "'%.40s'", lua_tostring(L, idx));
		return buf;
	case LUA_TNUMBER:
		if (lua_isinteger(L, idx))
			snprintf(buf, cap, "%" PRId64, (int64_t)lua_tointeger(L, idx));
		else
			snprintf(buf, cap, "%.17g", lua_tonumber(L, idx));
		return buf;
	case LUA_TBOOLEAN:
		return lua_toboolean(L, idx) ? "true" : "false";
	case LUA_TTABLE:
		return "a table";
	case LUA_TNIL:
		return "nil";
	default:
		snprintf(buf, cap, "a %s", lua_typename(L, lua_type(L, idx)));
		return buf;
	}
}

static const char *accepted_values(const struct pev_attr_field *field)
{
	if (field->bits)
		return "an integer or a list of names";
	return field->width == 1 ? "true or false (or 1 or 0)" : "an integer";
}

static int raise_value(lua_State *L, const struct pev_attr_field *field, int idx)
{
	char buf[64];

	return luaL_error(L, "%s = %s: must be %s", field->name,
			  describe_value(L, idx, buf, sizeof(buf)), accepted_values(field));
}

/* Returns the bits of the list of names at idx; the list may be empty. */
static int64_t check_names(lua_State *L, const struct pev_attr_field *field, int idx)
{
	struct pev_err err;
	uint64_t value = 0;
	char buf[64];

	for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
		int bit;

		if (!lua_isinteger(L, -2))
			return luaL_error(L, "%s: must be a list of names, but has the key %s",
					  field->name, describe_value(L, -2, buf, sizeof(buf)));
		if (lua_type(L, -1) != LUA_TSTRING)
			return luaL_error(L, "%s: its list of names holds %s", field->name,
					  describe_value(L, -1, buf, sizeof(buf)));
		bit = pev_attr_bit(field, lua_tostring(L, -1), &err);
		if (bit < 0)
			return luaL_error(L, "%s", err.text);
		value |= UINT64_C(1) << bit;
	}
	return (int64_t)value;
}

static int64_t check_value(lua_State *L, const struct pev_attr_field *field, int idx)
{
	int exact = 0;
	int64_t value;

	switch (lua_type(L, idx)) {
	case LUA_TBOOLEAN:
		if (field->width != 1)
			return raise_value(L, field, idx);
		return lua_toboolean(L, idx);
	case LUA_TTABLE:
		if (!field->bits)
			return raise_value(L, field, idx);
		return check_names(L, field, idx);
	case LUA_TNUMBER:
		value = lua_tointegerx(L, idx, &exact);
		if (exact)
			return value;
		return raise_value(L, field, idx);
	default:
		return raise_value(L, field, idx);
	}
}

static bool takes_string(const struct pev_attr_field *field)
{
	return strcmp(field->name, "kprobe_func") == 0 || strcmp(field->name, "uprobe_path") == 0;
}

/* The attr at self keeps the string at idx. Lua does not move strings. */
static int64_t keep_string(lua_State *L, const struct pev_attr_field *field, int self, int idx)
{
	const char *text = lua_tostring(L, idx);

	if (strlen(text) != lua_rawlen(L, idx))
		luaL_error(L, "%s: contains a NUL byte", field->name);
	lua_pushvalue(L, idx);
	lua_setiuservalue(L, self, 1);
	return (int64_t)(uintptr_t)text;
}

/* The attr is the userdata at self. */
static void assign_field(lua_State *L, int self, const struct pev_attr_field *field, int idx)
{
	struct pev_attr *attr = lua_touserdata(L, self);
	struct pev_err err;
	int64_t value;

	if (takes_string(field) && lua_type(L, idx) == LUA_TSTRING)
		value = keep_string(L, field, self, idx);
	else
		value = check_value(L, field, idx);
	if (pev_attr_set_field(attr, field, value, &err) < 0)
		luaL_error(L, "%s", err.text);
}

/* Assigns a field. An attr with a size gets the size that its fields now need. */
static void assign_sealed(lua_State *L, int self, const struct pev_attr_field *field, int idx)
{
	struct pev_attr *attr = lua_touserdata(L, self);
	bool sealed = attr->size != 0;

	assign_field(L, self, field, idx);
	if (sealed)
		pev_attr_seal(attr);
}

/* Returns the field of the key at idx. Raises, with the nearest name, if it is unknown. */
static const struct pev_attr_field *check_field(lua_State *L, int idx)
{
	const struct pev_attr_field *field;
	struct pev_attr scratch = { 0 };
	struct pev_err err;
	char buf[64];

	if (lua_type(L, idx) != LUA_TSTRING)
		luaL_error(L, "%s is not a field of perf_event_attr",
			   describe_value(L, idx, buf, sizeof(buf)));
	field = pev_attr_field(lua_tostring(L, idx));
	if (!field) {
		pev_attr_set(&scratch, lua_tostring(L, idx), 0, &err);
		luaL_error(L, "%s", err.text);
	}
	return field;
}

static void push_value(lua_State *L, const struct pev_attr *attr,
		       const struct pev_attr_field *field)
{
	int64_t value = pev_attr_get(attr, field);

	if (field->width == 1)
		lua_pushboolean(L, value != 0);
	else
		lua_pushinteger(L, value);
}

static int l_new(lua_State *L)
{
	const struct pev_attr_field *last = NULL;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	push_empty(L);
	for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
		check_field(L, 3);
	/* In the kernel's order, not the hash's, so that the result is deterministic. */
	for (const struct pev_attr_field *f = pev_attr_fields; f->name; f++) {
		lua_pushstring(L, f->name);
		if (lua_rawget(L, 1) != LUA_TNIL) {
			if (last && last->off == f->off && !f->width)
				return luaL_error(L, "%s and %s are two names of one word; set one "
						     "of them",
						  last->name, f->name);
			assign_field(L, 2, f, 3);
			last = f;
		}
		lua_settop(L, 2);
	}
	return 1;
}

static int l_parse(lua_State *L)
{
	static const char *const orders[] = { "little", "big", NULL };
	int native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1;
	struct pev_err err;
	size_t len;
	const char *bytes;
	bool swap;

	luaL_checktype(L, 1, LUA_TSTRING);
	bytes = lua_tolstring(L, 1, &len);
	swap = luaL_checkoption(L, 2, orders[native], orders) != native;
	if (pev_attr_parse(push_empty(L), bytes, len, swap, &err) < 0)
		return l_result(L, err.code, &err);
	return 1;
}

/* Pushes the names of the bits, or the kernel versions that introduced them. */
static void push_bits(lua_State *L, const struct pev_attr_bits *bits, bool since)
{
	lua_newtable(L);
	for (lua_Integer i = 1; bits->name; bits++, i++) {
		lua_pushstring(L, since ? bits->since : bits->name);
		lua_rawseti(L, -2, i);
	}
}

static int l_fields(lua_State *L)
{
	lua_newtable(L);
	for (const struct pev_attr_field *f = pev_attr_fields; f->name; f++) {
		lua_createtable(L, 0, 4);
		l_set_string(L, "name", f->name);
		l_set_string(L, "since", f->since);
		l_set_integer(L, "width", f->width ? f->width : f->size * 8);
		if (f->bits) {
			push_bits(L, f->bits, false);
			lua_setfield(L, -2, "bits");
			push_bits(L, f->bits, true);
			lua_setfield(L, -2, "bits_since");
		}
		lua_rawseti(L, -2, f - pev_attr_fields + 1);
	}
	return 1;
}

/* is_attr_field(name) -> true if an attr has a field of that name */
static int l_is_field(lua_State *L)
{
	lua_pushboolean(L, lua_type(L, 1) == LUA_TSTRING && pev_attr_field(lua_tostring(L, 1)));
	return 1;
}

/* Returns the string that the attr at idx keeps, if the field still points to it. */
static bool push_kept(lua_State *L, int idx, const struct pev_attr *attr,
		      const struct pev_attr_field *field)
{
	const char *text;

	if (!takes_string(field))
		return false;
	lua_getiuservalue(L, idx, 1);
	text = lua_tostring(L, -1);
	if (text && attr->config1 == (uintptr_t)text)
		return true;
	lua_pop(L, 1);
	return false;
}

static int l_index(lua_State *L)
{
	const struct pev_attr_field *field;
	struct pev_attr *attr = l_attr_check(L, 1);
	struct pev_attr sealed = *attr;

	lua_settop(L, 2);
	lua_pushvalue(L, 2);
	if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
		return 1;
	/* The size of the last perf_event_open(), or before it, the size it will have. */
	if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "size") == 0) {
		lua_pushinteger(L, attr->size ? attr->size : pev_attr_seal(&sealed));
		return 1;
	}
	field = check_field(L, 2);
	if (!push_kept(L, 1, attr, field))
		push_value(L, attr, field);
	return 1;
}

static int l_newindex(lua_State *L)
{
	struct pev_attr *attr = l_attr_check(L, 1);

	/* A perf_event_open hook may write the kernel's own size, as E2BIG does. */
	if (attr->size && lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "size") == 0)
		attr->size = (uint32_t)luaL_checkinteger(L, 3);
	else
		assign_sealed(L, 1, check_field(L, 2), 3);
	return 0;
}

static int l_bytes(lua_State *L)
{
	struct pev_attr sealed = *l_attr_check(L, 1);

	lua_pushlstring(L, (const char *)&sealed, pev_attr_seal(&sealed));
	return 1;
}

static int l_dump(lua_State *L)
{
	struct pev_attr sealed = *l_attr_check(L, 1);
	char text[DUMP_MAX];

	pev_attr_seal(&sealed);
	pev_attr_dump(&sealed, text, sizeof(text));
	lua_pushstring(L, text);
	return 1;
}

static int l_tostring(lua_State *L)
{
	size_t len;
	const char *dump;

	l_dump(L);
	dump = lua_tolstring(L, -1, &len);
	lua_pushliteral(L, "perf_event_attr:\n");
	lua_pushlstring(L, dump, len - 1); /* print() adds the last newline */
	lua_concat(L, 2);
	return 1;
}

static int check_int(lua_State *L, int arg, int absent)
{
	lua_Integer value = luaL_optinteger(L, arg, absent);

	luaL_argcheck(L, value >= INT_MIN && value <= INT_MAX, arg, "out of range");
	return (int)value;
}

static int l_validate(lua_State *L)
{
	struct pev_attr *attr = l_attr_check(L, 1);
	int pid = check_int(L, 2, 0);
	int cpu = check_int(L, 3, -1);
	struct pev_err err;

	if (pev_attr_check(attr, pid, cpu, &err) < 0)
		return l_result(L, err.code, &err);
	lua_pushboolean(L, 1);
	return 1;
}

static int l_copy(lua_State *L)
{
	l_attr_push(L, l_attr_check(L, 1));
	lua_getiuservalue(L, 1, 1);
	lua_setiuservalue(L, -2, 1);
	return 1;
}

/* next(attr, name): the non-zero field after that of this name, in the kernel's order. */
static int l_next(lua_State *L)
{
	struct pev_attr *attr = l_attr_check(L, 1);
	const struct pev_attr_field *f = pev_attr_fields;

	if (!lua_isnoneornil(L, 2))
		f = check_field(L, 2) + 1;
	while (f->name && !(pev_attr_get(attr, f) && pev_attr_applies(attr, f)))
		f++;
	if (!f->name) {
		lua_pushnil(L);
		return 1;
	}
	lua_pushstring(L, f->name);
	push_value(L, attr, f);
	return 2;
}

static int l_pairs(lua_State *L)
{
	l_attr_check(L, 1);
	lua_pushcfunction(L, l_next);
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

/* clang-format off */
static const luaL_Reg functions[] = {
	{ "attr_new",      l_new },
	{ "attr_parse",    l_parse },
	{ "attr_fields",   l_fields },
	{ "is_attr_field", l_is_field },
	{ NULL,            NULL },
};

static const luaL_Reg methods[] = {
	{ "bytes",    l_bytes },
	{ "dump",     l_dump },
	{ "validate", l_validate },
	{ "copy",     l_copy },
	{ NULL,       NULL },
};

static const luaL_Reg metamethods[] = {
	{ "__newindex", l_newindex },
	{ "__pairs",    l_pairs },
	{ "__tostring", l_tostring },
	{ NULL,         NULL },
};
/* clang-format on */

void l_attr_register(lua_State *L)
{
	luaL_newmetatable(L, ATTR_TYPE);
	luaL_setfuncs(L, metamethods, 0);
	luaL_newlib(L, methods);
	lua_pushcclosure(L, l_index, 1);
	lua_setfield(L, -2, "__index");
	l_set_boolean(L, "__metatable", 0);
	lua_pop(L, 1);
	luaL_setfuncs(L, functions, 0);
}
