/*
 * lstack_tree.c - the userdata perfev.stack_tree; see lstack_tree.h.
 *
 * lua/perfev/profile/init.lua decides what a frame is called and which stacks are added.
 */
#include "lua/profile/lstack_tree.h"

#include <lauxlib.h>
#include <string.h>

#include "lua/base/lclass.h"
#include "lua/symbol/lstack.h"
#include "lua/symbol/lsymtab.h"
#include "profile/folded.h"
#include "profile/stack_tree.h"

#define TYPENAME "perfev.core.stack_tree"
#define NAMES_MAX 128 /* of one recorded frame: functions inlined into each other */

struct l_stack_tree {
	struct pev_stack_tree tree;
	struct pev_folded *folded; /* owned; NULL: no text is being made */
	uint32_t unmapped[PEV_IN_OTHER + 1]; /* by context: the frame outside all files, or 0 */
};

enum {
	TREE_UV_HOME = 1, /* of the stacks that have names */
	TREE_UV_SYMBOLS,  /* list of perfev.symtab, which name the frames of files */
	TREE_UV_NR = TREE_UV_SYMBOLS
};

/* In the place of a function's start: the number of the file's perfev.symtab in the list. */
#define START_OF_FILE (UINT64_MAX - 1)
#define START_UNKNOWN UINT64_MAX

/* Functions in which threads begin: a stack that reaches one is complete. */
static const char *const starts[] = {
	"_start",  "_dl_start", "start_thread", "clone", "clone3", "__clone",
	"__clone3", "thread_start", "__thread_start",
};

static struct l_stack_tree *check_self(lua_State *L) { return luaL_checkudata(L, 1, TYPENAME); }

static struct pev_stack_tree *check_tree(lua_State *L) { return &check_self(L)->tree; }

static uint32_t check_node(lua_State *L, const struct pev_stack_tree *tree, int arg)
{
	const lua_Integer node = luaL_checkinteger(L, arg);

	luaL_argcheck(L, node >= 0 && node < (lua_Integer)tree->nr_nodes, arg, "not a node");
	return (uint32_t)node;
}

static uint32_t check_frame(lua_State *L, const struct pev_stack_tree *tree, int arg)
{
	const lua_Integer frame = luaL_checkinteger(L, arg);

	luaL_argcheck(L, frame >= 0 && frame <= (lua_Integer)tree->nr_frames, arg,
		      "not a frame");
	return (uint32_t)frame;
}

static void raise_no_memory(lua_State *L, int rc)
{
	if (rc < 0)
		luaL_error(L, "no memory for a profile");
}

/* core.stack_tree(nr_values, room) -> tree; room: bytes that it may take */
static int l_stack_tree(lua_State *L)
{
	const lua_Integer nr_values = luaL_checkinteger(L, 1), room = luaL_checkinteger(L, 2);
	struct l_stack_tree *self;

	luaL_argcheck(L, nr_values > 0 && nr_values <= 1024, 1, "too many value types");
	self = lua_newuserdatauv(L, sizeof(*self), TREE_UV_NR);
	memset(self, 0, sizeof(*self));
	luaL_setmetatable(L, TYPENAME);
	raise_no_memory(L, pev_stack_tree_init(&self->tree, (uint32_t)nr_values, room));
	return 1;
}

static int l_gc(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);

	pev_folded_close(self->folded);
	self->folded = NULL;
	pev_stack_tree_free(&self->tree);
	return 0;
}

/* ---- frames ---- */

static bool is_start(const char *name)
{
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (strcmp(name, starts[i]) == 0)
			return true;
	return false;
}

/* t:intern(name, module, file, line, kernel, inlined) -> id; 0: the tree is full */
static int l_intern(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);
	const bool kernel = lua_toboolean(L, 6), inlined = lua_toboolean(L, 7);
	const char *name = luaL_checkstring(L, 2);
	size_t module = 0;
	luaL_Buffer key;
	uint32_t id, flags = kernel ? PEV_TREE_KERNEL : 0;

	lua_settop(L, 5);
	luaL_optlstring(L, 3, "", &module);
	luaL_buffinit(L, &key);
	for (int arg = 2; arg <= 5; arg++) {
		if (!lua_isnoneornil(L, arg)) {
			lua_pushvalue(L, arg);
			luaL_addvalue(&key);
		}
		luaL_addchar(&key, '\0');
	}
	luaL_addstring(&key, kernel ? "k" : "");
	luaL_addchar(&key, '\0');
	luaL_addstring(&key, inlined ? "i" : "");
	flags |= inlined ? PEV_TREE_INLINED : 0;
	flags |= module ? PEV_TREE_MODULE : 0;
	flags |= is_start(name) ? PEV_TREE_START : 0;
	raise_no_memory(L, pev_stack_tree_intern(tree, luaL_buffaddr(&key), luaL_bufflen(&key),
						 flags, &id));
	lua_pushinteger(L, id);
	return 1;
}

/* Pushes the part of a key, or nil if it is empty, and returns the next part. */
static const char *push_part(lua_State *L, const char *part)
{
	if (*part)
		lua_pushstring(L, part);
	else
		lua_pushnil(L);
	return part + strlen(part) + 1;
}

/* t:frame(id) -> its key, name, module, file, line, kernel, inlined */
static int l_frame(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);
	const struct pev_tree_frame *frame = &tree->frames[check_frame(L, tree, 2)];
	const char *part = tree->keys + frame->key;

	luaL_argcheck(L, frame != tree->frames, 2, "not a frame");
	lua_pushlstring(L, part, frame->len);
	for (int i = 0; i < 4; i++)
		part = push_part(L, part);
	if (!lua_isnil(L, -1)) {
		lua_pushinteger(L, lua_tointeger(L, -1));
		lua_replace(L, -2);
	}
	lua_pushboolean(L, frame->flags & PEV_TREE_KERNEL);
	lua_pushboolean(L, frame->flags & PEV_TREE_INLINED);
	return 7;
}

/* ---- nodes ---- */

/* t:child(parent, frame, root) -> node, true if it is (other) for lack of room */
static int l_child(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);
	uint32_t node;
	int rc = pev_stack_tree_child(tree, check_node(L, tree, 2), check_frame(L, tree, 3),
				      check_node(L, tree, 4), &node);

	raise_no_memory(L, rc);
	lua_pushinteger(L, node);
	lua_pushboolean(L, rc > 0);
	return 2;
}

/* t:other(root) -> the node of (other) below root */
static int l_other(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);
	uint32_t node;

	raise_no_memory(L, pev_stack_tree_other(tree, check_node(L, tree, 2), &node));
	lua_pushinteger(L, node);
	return 1;
}

/*
 * Finds the start of the function that a frame is in by the perfev.symtab of its file. False: only
 * the Lua module can name the frame. The list of perfev.symtab is at 6.
 */
static bool find_start(lua_State *L, const struct pev_stack_tree *tree,
		       const struct pev_frame *frame, uint64_t *start)
{
	const struct l_symtab *symbols;
	struct pev_symtab_place place;
	uint32_t file = 0;

	if (frame->dso && frame->context == PEV_IN_USER)
		file = pev_stack_tree_function(tree, frame->dso, START_OF_FILE);
	if (!file)
		return false;
	lua_rawgeti(L, 6, file);
	symbols = luaL_checkudata(L, -1, L_SYMTAB_TYPENAME);
	lua_pop(L, 1);
	if (!symbols->table)
		return false;
	*start = START_UNKNOWN;
	if (symbols->find_frame(symbols->table, frame->offset, frame->returns, frame->unwound,
				&place) &&
	    place.name)
		*start = place.start;
	return true;
}

/* Keeps the perfev.symtab on top for the other frames of a file. */
static void keep_symbols(lua_State *L, struct pev_stack_tree *tree, const struct pev_dso *dso)
{
	const lua_Unsigned file = lua_rawlen(L, 6) + 1;

	if (pev_stack_tree_function(tree, dso, START_OF_FILE))
		return;
	lua_pushvalue(L, -1);
	lua_rawseti(L, 6, (lua_Integer)file);
	raise_no_memory(L, pev_stack_tree_keep_function(tree, dso, START_OF_FILE, (uint32_t)file));
}

/*
 * Names the i-th frame of the stack at 3 with the function at 4, and the home's world at 5. Returns
 * the name if the frame keeps it and has no other one, or 0.
 */
static uint32_t call_namer(lua_State *L, struct pev_stack_tree *tree,
			   const struct pev_stack *stack, uint32_t i)
{
	const struct pev_frame *frame;
	uint32_t names[NAMES_MAX] = { 0 };
	int nr, top = lua_gettop(L);
	uint64_t start;
	bool is_kept;

	lua_pushvalue(L, 4);
	l_stack_push_frame(L, stack, i);
	lua_pushvalue(L, 5);
	lua_call(L, 2, LUA_MULTRET);
	nr = lua_gettop(L) - top - 1;
	if (nr < 1 || nr > NAMES_MAX)
		luaL_error(L, "a frame has %d names", nr);
	for (int n = 0; n < nr; n++)
		names[n] = check_frame(L, tree, top + 2 + n);
	is_kept = lua_toboolean(L, top + 1);
	raise_no_memory(L, pev_stack_tree_name(tree, stack->frames[i], names, (uint32_t)nr,
					       is_kept));
	lua_settop(L, top + 1);
	frame = pev_stack_frame(stack, i);
	if (lua_isuserdata(L, top + 1) && frame->dso) {
		keep_symbols(L, tree, frame->dso);
		if (find_start(L, tree, frame, &start))
			raise_no_memory(L, pev_stack_tree_keep_function(tree, frame->dso, start,
									names[0]));
	}
	lua_settop(L, top);
	return is_kept && nr == 1 ? names[0] : 0;
}

/* Names the i-th frame of the stack at 3; see l_add_stack(). */
static void name_frame(lua_State *L, struct l_stack_tree *self, const struct pev_stack *stack,
		       uint32_t i)
{
	struct pev_stack_tree *tree = &self->tree;
	const struct pev_frame *frame = pev_stack_frame(stack, i);
	const bool unmapped = !frame->dso && frame->context != PEV_IN_KERNEL;
	uint32_t name = 0, context = frame->context;
	uint64_t start;

	if (unmapped)
		name = self->unmapped[context];
	else if (find_start(L, tree, frame, &start))
		name = pev_stack_tree_function(tree, frame->dso, start);
	if (name) {
		raise_no_memory(L, pev_stack_tree_name(tree, stack->frames[i], &name, 1, true));
		return;
	}
	name = call_namer(L, tree, stack, i);
	if (unmapped)
		self->unmapped[context] = name;
}

static void forget_names(lua_State *L, struct l_stack_tree *self, const struct pev_stacks *owner)
{
	pev_stack_tree_forget(&self->tree, owner);
	memset(self->unmapped, 0, sizeof(self->unmapped));
	lua_newtable(L);
	lua_setiuservalue(L, 1, TREE_UV_SYMBOLS);
}

/*
 * t:add_stack(root, stack, f) -> node, true if it is (other) for lack of room, false if the stack
 * has callers; true if it is short; nil: it is not of user space.
 * f(frame, world) -> keep, id of a frame, ...: the functions inlined there, and itself. Not keep:
 * f is called again for the next stack. If keep is a perfev.symtab, the frame has one name, and so
 * have all addresses of its function in this file. Addresses of user space outside all files have
 * one name, too.
 */
static int l_add_stack(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);
	struct pev_stack_tree *tree = &self->tree;
	const uint32_t root = check_node(L, tree, 2);
	const struct pev_stack *stack = l_stack_test(L, 3);
	enum pev_tree_depth depth;
	uint32_t node;
	int rc;

	luaL_argcheck(L, stack, 3, "not a stack");
	lua_settop(L, 4);
	if (tree->owner != stack->owner) {
		forget_names(L, self, NULL);
		l_stack_push_home(L, 3);
		lua_setiuservalue(L, 1, TREE_UV_HOME);
		tree->owner = stack->owner;
	}
	lua_getiuservalue(L, 1, TREE_UV_HOME);
	lua_getfield(L, -1, "world");
	lua_replace(L, 5);
	lua_getiuservalue(L, 1, TREE_UV_SYMBOLS);
	for (uint32_t i = 0; i < stack->nr; i++)
		if (pev_stack_tree_needs_name(tree, stack->frames[i]))
			name_frame(L, self, stack, i);
	rc = pev_stack_tree_add_stack(tree, root, stack, &node, &depth);
	raise_no_memory(L, rc);
	lua_pushinteger(L, node);
	lua_pushboolean(L, rc > 0);
	if (depth == PEV_TREE_NO_USER)
		lua_pushnil(L);
	else
		lua_pushboolean(L, depth == PEV_TREE_SHORT);
	return 3;
}

/* t:forget(): names of stacks are looked up again */
static int l_forget(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);

	forget_names(L, self, self->tree.owner);
	return 0;
}

/* ---- room ---- */

/* t:room(bytes) -> the bytes that are left, with so many more */
static int l_room(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);

	tree->room += luaL_optinteger(L, 2, 0);
	lua_pushinteger(L, tree->room);
	return 1;
}

/* t:begin_stack(): looks if there is room for the nodes of one more */
static int l_begin_stack(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);

	tree->full = tree->room < 0;
	return 0;
}

/* t:is_full() -> true if the last stack had no room for new nodes */
static int l_is_full(lua_State *L)
{
	lua_pushboolean(L, check_tree(L)->full);
	return 1;
}

/* t:size() -> number of nodes, of frames */
static int l_size(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);

	lua_pushinteger(L, (lua_Integer)tree->nr_nodes - 1);
	lua_pushinteger(L, tree->nr_frames);
	return 2;
}

/* ---- values ---- */

static void read_value(lua_State *L, int arg, struct pev_tree_value *value)
{
	*value = (struct pev_tree_value){ .is_float = !lua_isinteger(L, arg) };
	if (value->is_float)
		value->number = luaL_checknumber(L, arg);
	else
		value->integer = lua_tointeger(L, arg);
}

/* t:add(node, value, ...): adds to the first values of a node, or to all */
static int l_add(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);
	const int nr = lua_gettop(L) - 2;
	struct pev_tree_value *values, value;

	luaL_argcheck(L, nr <= (int)tree->nr_values, 3, "too many values");
	values = pev_stack_tree_make_values(tree, check_node(L, tree, 2));
	if (!values)
		raise_no_memory(L, -1);
	for (int i = 0; i < nr; i++) {
		read_value(L, 3 + i, &value);
		pev_tree_value_add(&values[i], &value);
	}
	return 0;
}

/* t:values(node) -> value, ...; nothing if none were added */
static int l_values(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);
	const struct pev_tree_value *values = pev_stack_tree_values(tree, check_node(L, tree, 2));

	if (!values)
		return 0;
	luaL_checkstack(L, (int)tree->nr_values, "values");
	for (uint32_t i = 0; i < tree->nr_values; i++) {
		if (values[i].is_float)
			lua_pushnumber(L, values[i].number);
		else
			lua_pushinteger(L, values[i].integer);
	}
	return (int)tree->nr_values;
}

/* ---- reading ---- */

/* t:next(node, depth) -> node, depth, frame: parents first, by t:sort(); nil at the end */
static int l_next(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);
	uint32_t depth = (uint32_t)luaL_checkinteger(L, 3);
	const uint32_t node = pev_stack_tree_next(tree, check_node(L, tree, 2), &depth);

	if (!node)
		return 0;
	lua_pushinteger(L, node);
	lua_pushinteger(L, depth);
	lua_pushinteger(L, tree->nodes[node].frame);
	return 3;
}

/* t:sort(): siblings are in the order of their frames' keys, until a node is added */
static int l_sort(lua_State *L)
{
	raise_no_memory(L, pev_stack_tree_sort(check_tree(L)));
	return 0;
}

/* t:fold(value, annotate): begins folded text */
static int l_fold(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);
	const lua_Integer value = luaL_checkinteger(L, 2);

	luaL_argcheck(L, value > 0 && value <= (lua_Integer)self->tree.nr_values, 2,
		      "not a value type");
	pev_folded_close(self->folded);
	self->folded = NULL;
	raise_no_memory(L, pev_stack_tree_sort(&self->tree));
	raise_no_memory(L, pev_folded_open(&self->folded, &self->tree, (uint32_t)value - 1,
					   lua_toboolean(L, 3)));
	return 0;
}

/* t:fold_next() -> some lines, or nil at the end */
static int l_fold_next(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);
	const char *text;
	size_t len;

	if (!self->folded)
		return 0;
	raise_no_memory(L, pev_folded_next(self->folded, &text, &len));
	if (len) {
		lua_pushlstring(L, text, len);
		return 1;
	}
	pev_folded_close(self->folded);
	self->folded = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "intern", l_intern },
	{ "frame", l_frame },
	{ "child", l_child },
	{ "other", l_other },
	{ "add_stack", l_add_stack },
	{ "forget", l_forget },
	{ "room", l_room },
	{ "begin_stack", l_begin_stack },
	{ "is_full", l_is_full },
	{ "size", l_size },
	{ "add", l_add },
	{ "values", l_values },
	{ "next", l_next },
	{ "sort", l_sort },
	{ "fold", l_fold },
	{ "fold_next", l_fold_next },
	{ NULL, NULL },
};

void l_stack_tree_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_stack_tree);
	lua_setfield(L, -2, "stack_tree");
}
