/*
 * lstack_tree_pack.c - trees of stacks as bytes, and merged: t:pack(), t:unpack(), t:merge().
 */
#include <errno.h>
#include <string.h>

#include "aggregate/pack.h"
#include "lua/aggregate/laggregator_pack.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/profile/lstack_tree.h"
#include "profile/stack_tree_merge.h"
#include "profile/stack_tree_pack.h"

#define SEEN_TYPENAME "perfev.core.stack_tree_seen"

static struct pev_stack_tree *check_tree(lua_State *L, int arg)
{
	return &((struct l_stack_tree *)luaL_checkudata(L, arg, L_STACK_TREE_TYPENAME))->tree;
}

/* ---- merging ---- */

/* core.stack_tree_seen() -> what a reader of a tree has seen, nothing at first */
static int l_seen(lua_State *L)
{
	struct pev_tree_seen *seen = lua_newuserdatauv(L, sizeof(*seen), 0);

	*seen = (struct pev_tree_seen){ 0 };
	luaL_setmetatable(L, SEEN_TYPENAME);
	return 1;
}

static int l_seen_gc(lua_State *L)
{
	pev_tree_seen_free(luaL_checkudata(L, 1, SEEN_TYPENAME));
	return 0;
}

/* Reads the list at arg: for each value type of from that of tree. Pushes a block with them. */
static const uint32_t *check_value_types(lua_State *L, int arg, const struct pev_stack_tree *tree,
					 const struct pev_stack_tree *from)
{
	uint32_t *values = lua_newuserdatauv(L, sizeof(*values) * from->nr_values, 0);

	luaL_checktype(L, arg, LUA_TTABLE);
	for (uint32_t i = 0; i < from->nr_values; i++) {
		lua_Integer to;

		lua_rawgeti(L, arg, (lua_Integer)i + 1);
		to = lua_tointeger(L, -1);
		luaL_argcheck(L, to > 0 && to <= (lua_Integer)tree->nr_values, arg,
			      "not a value type");
		values[i] = (uint32_t)to - 1;
		lua_pop(L, 1);
	}
	return values;
}

/*
 * t:merge(from, values, subtract, seen): adds the values of another tree, or subtracts them.
 * values: for each value type of from its number in t. seen: adds what has changed in from since
 * the last call with it. Adds all or raises.
 */
static int l_merge(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L, 1), *from = check_tree(L, 2);
	struct pev_tree_change change = { .from = from, .subtract = lua_toboolean(L, 4) };

	if (!lua_isnoneornil(L, 5))
		change.seen = luaL_checkudata(L, 5, SEEN_TYPENAME);
	change.values = check_value_types(L, 3, tree, from);
	if (pev_stack_tree_merge(tree, &change) < 0)
		return luaL_error(L, "no memory for a profile");
	return 0;
}

/* ---- packing ---- */

static void pack_bytes(void *ctx, const void *bytes, size_t len)
{
	luaL_addlstring(ctx, bytes, len);
}

/* t:pack(head, first, last) -> bytes: head, the stacks first to last, a checksum */
static int l_pack(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L, 1);
	const lua_Integer first = luaL_checkinteger(L, 3), last = luaL_checkinteger(L, 4);
	const size_t bytes = pev_stack_tree_pack_bytes(tree);
	luaL_Buffer buffer;
	struct pev_pack_out out = { .ctx = &buffer, .write = pack_bytes };
	void *work;

	luaL_checkstring(L, 2);
	luaL_argcheck(L, first > 0 && first <= (lua_Integer)tree->nr_rows + 1, 3, "not a stack");
	luaL_argcheck(L, last >= 0 && last <= (lua_Integer)tree->nr_rows, 4, "not a stack");
	work = memset(lua_newuserdatauv(L, bytes, 0), 0, bytes);
	luaL_buffinit(L, &buffer);
	lua_pushvalue(L, 2);
	luaL_addvalue(&buffer);
	pev_stack_tree_pack(tree, (uint32_t)first, (uint32_t)last, work, &out);
	l_pack_add_sum(&buffer);
	luaL_pushresult(&buffer);
	return 1;
}

struct reading {
	lua_State *L;
	int is_safe; /* index of the function */
};

static bool is_safe(void *ctx, const char *text, size_t len)
{
	const struct reading *reading = ctx;
	lua_State *L = reading->L;
	bool safe;

	lua_pushvalue(L, reading->is_safe);
	lua_pushlightuserdata(L, (void *)text);
	lua_pushinteger(L, (lua_Integer)len);
	safe = lua_pcall(L, 2, 1, 0) == LUA_OK && lua_toboolean(L, -1);
	lua_pop(L, 1);
	return safe;
}

/* Calls the function of upvalue 1 with the text at (address, length). */
static int l_call_is_safe(lua_State *L)
{
	const char *text = lua_touserdata(L, 1);

	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushlstring(L, text, (size_t)lua_tointeger(L, 2));
	lua_call(L, 1, 1);
	return 1;
}

/*
 * t:unpack(bytes, at, is_safe) -> true | nil, message, errno. Reads the bytes after the head, until
 * the checksum; the tree is empty, and its room is the memory that it may take. is_safe(text) ->
 * true: a text that is not ASCII may be shown.
 */
static int l_unpack(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	const lua_Integer at = luaL_checkinteger(L, 3);
	struct reading reading = { L, 4 };
	const struct pev_tree_texts texts = { &reading, is_safe };
	struct pev_pack_in in;
	struct pev_err err = { 0 };
	int rc;

	luaL_checktype(L, 4, LUA_TFUNCTION);
	lua_settop(L, 4);
	lua_pushcclosure(L, l_call_is_safe, 1);
	luaL_argcheck(L, len >= 8 && at > 0 && (size_t)at - 1 <= len - 8, 3,
		      "not a position in the bytes");
	luaL_argcheck(L, tree->nr_nodes == 1 && tree->nr_frames == 0, 1, "the tree is not empty");
	luaL_checkstack(L, 8, "texts");
	in.p = (const unsigned char *)bytes + at - 1;
	in.end = (const unsigned char *)bytes + len - 8;
	rc = pev_stack_tree_unpack(tree, &in, &texts, &err);
	if (rc == 0 && in.p != in.end)
		rc = pev_fail(&err, -EBADMSG, "it does not end after its last value");
	return l_result(L, rc, &err);
}

/* #t: the number of stacks that have values */
static int l_len(lua_State *L)
{
	lua_pushinteger(L, check_tree(L, 1)->nr_rows);
	return 1;
}

static const luaL_Reg methods[] = {
	{ "merge", l_merge },
	{ "pack", l_pack },
	{ "unpack", l_unpack },
	{ "__len", l_len },
	{ NULL, NULL },
};

void l_stack_tree_pack_register(lua_State *L)
{
	luaL_getmetatable(L, L_STACK_TREE_TYPENAME);
	luaL_setfuncs(L, methods, 0);
	lua_pop(L, 1);
	l_class(L, SEEN_TYPENAME, NULL, l_seen_gc);
	lua_pushcfunction(L, l_seen);
	lua_setfield(L, -2, "stack_tree_seen");
}
