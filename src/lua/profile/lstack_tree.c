/*
 * lstack_tree.c - the userdata perfev.stack_tree: the stacks of a profile.
 *
 * lua/perfev/profile/init.lua decides what a frame is called and which stacks are added.
 */
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "lua/aggregate/laggregator_keys.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/profile/lstack_tree.h"
#include "lua/symbol/lstack.h"
#include "lua/symbol/lsymtab.h"
#include "profile/folded.h"

#define NAMES_MAX 128 /* of one recorded frame: functions inlined into each other */
#define VALUES_MAX 1024

/* In the place of a function's start: the number of the file's perfev.symtab in the list. */
#define START_OF_FILE (UINT64_MAX - 1)
#define START_UNKNOWN UINT64_MAX

/* Functions in which threads begin: a stack that reaches one is complete. */
static const char *const starts[] = {
	"_start",  "_dl_start", "start_thread", "clone", "clone3", "__clone",
	"__clone3", "thread_start", "__thread_start",
};

static struct l_stack_tree *check_self(lua_State *L)
{
	return luaL_checkudata(L, 1, L_STACK_TREE_TYPENAME);
}

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

	luaL_argcheck(L, nr_values > 0 && nr_values <= VALUES_MAX, 1, "too many value types");
	self = lua_newuserdatauv(L, sizeof(*self), TREE_UV_NR);
	memset(self, 0, sizeof(*self));
	luaL_setmetatable(L, L_STACK_TREE_TYPENAME);
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

static void push_value(lua_State *L, const struct pev_tree_value *value)
{
	if (value->is_float)
		lua_pushnumber(L, value->number);
	else
		lua_pushinteger(L, value->integer);
}

/* ---- recorded stacks ---- */

/* What names the frames of recorded stacks; indices of the Lua stack. */
struct namer {
	lua_State *L;
	struct l_stack_tree *self;
	int function;            /* f(frame, world): see l_add_stack() */
	int world;
	int symbols;             /* list of perfev.symtab */
};

/* The function of a frame in a file whose perfev.symtab is known. */
struct function {
	const struct l_symtab *symbols;
	const char *name;        /* as in the file; NULL: unknown */
	uint64_t start;          /* or START_UNKNOWN */
};

/*
 * Finds the function that a frame is in, which has a dso. False: only the Lua module can name the
 * frame.
 */
static bool find_function(const struct namer *namer, const struct pev_frame *frame,
			  struct function *function)
{
	lua_State *L = namer->L;
	const struct l_symtab *symbols;
	struct pev_symtab_place place;
	uint32_t file = 0;

	if (frame->context == PEV_IN_USER)
		file = pev_stack_tree_function(&namer->self->tree, frame->dso, START_OF_FILE);
	if (!file)
		return false;
	lua_rawgeti(L, namer->symbols, file);
	symbols = lua_touserdata(L, -1);
	lua_pop(L, 1);
	if (!symbols->table)
		return false;
	*function = (struct function){ .symbols = symbols, .start = START_UNKNOWN };
	if (symbols->find_frame(symbols->table, frame->offset, frame->returns, frame->unwound,
				&place) &&
	    place.name) {
		function->name = place.name;
		function->start = place.start;
	}
	return function->name || !symbols->is_partial;
}

static bool is_printable(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

/*
 * Names a function as name_user() in lua/perfev/symbol/init.lua does. Returns its frame, 0: the
 * Lua module has to name it.
 */
static uint32_t intern_function(const struct namer *namer, const struct function *function,
				const struct pev_dso *dso)
{
	char *demangled = function->symbols->demangle(function->name), *key;
	const char *name = demangled ? demangled : function->name;
	const size_t name_size = strlen(name) + 1, path_len = strlen(dso->path);
	const size_t size = name_size + path_len + 4;
	uint32_t flags = PEV_TREE_MODULE | (is_start(name) ? PEV_TREE_START : 0), id = 0;
	int rc = 0;

	key = is_printable(name) && is_printable(dso->path) ? calloc(size, 1) : NULL;
	if (key) {
		memcpy(key, name, name_size);
		memcpy(key + name_size, dso->path, path_len);
		rc = pev_stack_tree_intern(&namer->self->tree, key, size, flags, &id);
	}
	free(key);
	free(demangled);
	raise_no_memory(namer->L, rc);
	return id;
}

/* Keeps the perfev.symtab on top for the other frames of a file; an older one may be closed. */
static void keep_symbols(const struct namer *namer, const struct pev_dso *dso)
{
	struct pev_stack_tree *tree = &namer->self->tree;
	lua_State *L = namer->L;
	const uint32_t known = pev_stack_tree_function(tree, dso, START_OF_FILE);
	const lua_Unsigned file = known ? known : lua_rawlen(L, namer->symbols) + 1;

	luaL_checkudata(L, -1, L_SYMTAB_TYPENAME);
	lua_pushvalue(L, -1);
	lua_rawseti(L, namer->symbols, (lua_Integer)file);
	raise_no_memory(L, pev_stack_tree_keep_function(tree, dso, START_OF_FILE, (uint32_t)file));
}

/*
 * Names the i-th frame of a stack with the namer's function. Returns the name if the frame keeps
 * it and has no other one, or 0.
 */
static uint32_t call_namer(const struct namer *namer, const struct pev_stack *stack, uint32_t i)
{
	struct pev_stack_tree *tree = &namer->self->tree;
	lua_State *L = namer->L;
	const struct pev_frame *frame;
	uint32_t names[NAMES_MAX] = { 0 };
	int nr, top = lua_gettop(L);
	struct function function;
	bool is_kept;

	lua_pushvalue(L, namer->function);
	l_stack_push_frame(L, stack, i);
	lua_pushvalue(L, namer->world);
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
		keep_symbols(namer, frame->dso);
		if (find_function(namer, frame, &function))
			raise_no_memory(L, pev_stack_tree_keep_function(
						   tree, frame->dso, function.start, names[0]));
	}
	lua_settop(L, top);
	return is_kept && nr == 1 ? names[0] : 0;
}

/* Finds or makes the name of a frame of a file whose symbols are known. 0: call_namer() does. */
static uint32_t find_name(const struct namer *namer, const struct pev_frame *frame)
{
	struct pev_stack_tree *tree = &namer->self->tree;
	struct function function;
	uint32_t name;

	if (!frame->dso || !find_function(namer, frame, &function))
		return 0;
	name = pev_stack_tree_function(tree, frame->dso, function.start);
	if (name || !function.name)
		return name;
	name = intern_function(namer, &function, frame->dso);
	if (name)
		raise_no_memory(namer->L, pev_stack_tree_keep_function(tree, frame->dso,
								       function.start, name));
	return name;
}

/* Names the i-th frame of a stack; see l_add_stack(). */
static void name_frame(const struct namer *namer, const struct pev_stack *stack, uint32_t i)
{
	struct l_stack_tree *self = namer->self;
	const struct pev_frame *frame = pev_stack_frame(stack, i);
	const bool unmapped = !frame->dso && frame->context != PEV_IN_KERNEL;
	const uint32_t context = frame->context;
	uint32_t name = unmapped ? self->unmapped[context] : find_name(namer, frame);

	if (name) {
		raise_no_memory(namer->L, pev_stack_tree_name(&self->tree, stack->frames[i], &name,
							      1, true));
		return;
	}
	name = call_namer(namer, stack, i);
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

/* Makes the namer for the stacks that the tree names now, with the function at this index. */
static struct namer make_namer(lua_State *L, struct l_stack_tree *self, int function)
{
	const struct namer namer = { L, self, function, lua_gettop(L) + 1, lua_gettop(L) + 2 };

	if (lua_getiuservalue(L, 1, TREE_UV_HOME) == LUA_TTABLE)
		lua_getfield(L, -1, "world");
	else
		lua_pushnil(L);
	lua_replace(L, namer.world);
	lua_settop(L, namer.world);
	lua_getiuservalue(L, 1, TREE_UV_SYMBOLS);
	return namer;
}

/* Names the frames of stacks of the home on top from now on, and pops it. */
static void change_home(lua_State *L, struct l_stack_tree *self, const struct pev_stack *stack)
{
	forget_names(L, self, NULL);
	lua_setiuservalue(L, 1, TREE_UV_HOME);
	self->tree.owner = stack->owner;
}

/*
 * Adds values to a stack below root, NULL: an unknown one. It adds all or raises. Returns the node
 * of the innermost frame.
 */
static uint32_t add_recorded(const struct namer *namer, uint32_t root,
			     const struct pev_stack *stack, const struct pev_tree_value *values,
			     uint32_t nr, uint32_t counted)
{
	struct pev_stack_tree *tree = &namer->self->tree;
	uint32_t end = 0;

	for (uint32_t i = 0; stack && i < stack->nr && !tree->exhausted; i++)
		if (pev_stack_tree_needs_name(tree, stack->frames[i]))
			name_frame(namer, stack, i);
	raise_no_memory(namer->L,
			pev_stack_tree_add_stack(tree, root, stack, values, nr, counted, &end));
	return end;
}

/* Reads the numbers from this argument on, one for each value type at most. */
static uint32_t read_values(lua_State *L, const struct pev_stack_tree *tree, int arg,
			    struct pev_tree_value *values)
{
	const int nr = lua_gettop(L) - arg + 1;

	luaL_argcheck(L, nr <= (int)tree->nr_values, arg, "too many values");
	for (int i = 0; i < nr; i++) {
		values[i] = (struct pev_tree_value){ .is_float = !lua_isinteger(L, arg + i) };
		if (values[i].is_float)
			values[i].number = luaL_checknumber(L, arg + i);
		else
			values[i].integer = lua_tointeger(L, arg + i);
	}
	return nr > 0 ? (uint32_t)nr : 0;
}

/* Returns the index of a value type, an argument. */
static uint32_t check_value_type(lua_State *L, const struct pev_stack_tree *tree, int arg)
{
	const lua_Integer value = luaL_checkinteger(L, arg);

	luaL_argcheck(L, value > 0 && value <= (lua_Integer)tree->nr_values, arg,
		      "not a value type");
	return (uint32_t)value - 1;
}

/*
 * t:add_stack(root, stack, f, counted, value, ...) -> the node of the innermost frame
 * counted: the value type that counts samples
 * f(frame, world) -> keep, id of a frame, ...: the functions inlined there, and itself. Not keep:
 * f is called again for the next stack. If keep is a perfev.symtab, it names the other frames in
 * this file: f is called for those without a name, once. Addresses of user space outside all files
 * have one name, too.
 */
static int l_add_stack(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);
	struct pev_stack_tree *tree = &self->tree;
	const uint32_t root = check_node(L, tree, 2), counted = check_value_type(L, tree, 5);
	const struct pev_stack *stack = l_stack_test(L, 3);
	struct pev_tree_value values[VALUES_MAX];
	const uint32_t nr = read_values(L, tree, 6, values);
	struct namer namer;

	luaL_argcheck(L, stack, 3, "not a stack");
	if (tree->owner != stack->owner) {
		l_stack_push_home(L, 3);
		change_home(L, self, stack);
	}
	namer = make_namer(L, self, 4);
	tree->full = tree->room < 0;
	lua_pushinteger(L, add_recorded(&namer, root, stack, values, nr, counted));
	return 1;
}

/*
 * Returns the node of the frames that a key has before its stack, and the stack, which may be
 * NULL. Names are ids of frames by values; f makes them. The homes of stacks are on top.
 */
static uint32_t find_root(const struct namer *namer, const struct pev_agg *agg,
			  const struct pev_cell *cell, int names, int f,
			  const struct pev_stack **stack)
{
	struct pev_stack_tree *tree = &namer->self->tree;
	lua_State *L = namer->L;
	const unsigned char *key = pev_agg_key(agg, cell);
	const int homes = lua_gettop(L);
	struct pev_key_part part, next;
	uint32_t node = 0;
	size_t at = 0;
	int rc;

	part = pev_key_next(key, cell->key_len, &at);
	for (; part.type != PEV_KEY_END; part = next) {
		next = pev_key_next(key, cell->key_len, &at);
		if (next.type == PEV_KEY_END)
			break;
		l_agg_push_part(L, homes, &part);
		lua_pushvalue(L, -1);
		if (lua_rawget(L, names) != LUA_TNUMBER) {
			lua_pushvalue(L, f);
			lua_pushvalue(L, homes + 1);
			lua_call(L, 1, 1);
		}
		rc = pev_stack_tree_child(tree, node, check_frame(L, tree, -1), 0, &node);
		raise_no_memory(L, rc);
		tree->spilled += rc > 0;
		lua_settop(L, homes);
	}
	*stack = part.type == PEV_KEY_POINTER ? part.pointer : NULL;
	return node;
}

/* Reads the values of a cell: a count, a sum, or both. */
static uint32_t read_cell(const struct pev_agg *agg, const struct pev_stack_tree *tree,
			  const struct pev_cell *cell, struct pev_tree_value *values)
{
	const bool counts = agg->config.kind == PEV_AGG_COUNT || tree->nr_values > 1;
	uint32_t nr = 0;

	if (counts)
		values[nr++] = (struct pev_tree_value){ .integer = (int64_t)cell->n };
	if (agg->config.kind != PEV_AGG_COUNT)
		values[nr++] = (struct pev_tree_value){ .integer = pev_cell_sum(cell) };
	return nr;
}

static const struct pev_agg *check_values(lua_State *L, int arg)
{
	struct l_agg *agg = l_agg_check(L, arg);

	l_agg_check_passed(L, agg);
	return &agg->all;
}

/*
 * t:take(aggregator, f, counted, names, g, max) -> number of keys that were added, at most max; 0
 * at the end, when (other) is added. The last part of a key is a stack; f and counted as for
 * t:add_stack(). The parts before it are frames around it: g(part) makes the id of one, if the
 * table names does not have it. If it raises, the next call goes on with the same key.
 */
static int l_take(lua_State *L)
{
	struct l_stack_tree *self = check_self(L);
	struct pev_stack_tree *tree = &self->tree;
	const struct pev_agg *agg = check_values(L, 2);
	const uint32_t counted = check_value_type(L, tree, 4), first = self->taken;
	const uint32_t most = (uint32_t)luaL_checkinteger(L, 7);
	struct pev_tree_value values[2];
	const struct pev_stack *stack;
	struct namer namer = make_namer(L, self, 3);
	uint32_t root, nr;

	luaL_checktype(L, 5, LUA_TTABLE);
	lua_getiuservalue(L, 2, L_AGG_UV_HOMES);
	for (; self->taken < agg->nr && self->taken - first < most; self->taken++) {
		const struct pev_cell *cell = agg->cells[self->taken];

		tree->full = tree->room < 0;
		root = find_root(&namer, agg, cell, 5, 6, &stack);
		if (stack && stack->owner != tree->owner) {
			lua_rawgetp(L, -1, stack->owner);
			change_home(L, self, stack);
			lua_settop(L, 7);
			namer = make_namer(L, self, 3);
			lua_getiuservalue(L, 2, L_AGG_UV_HOMES);
		}
		nr = read_cell(agg, tree, cell, values);
		add_recorded(&namer, root, stack, values, nr, counted);
	}
	lua_pushinteger(L, self->taken - first);
	if (self->taken > first)
		return 1;
	if (agg->other.n && agg->config.kind != PEV_AGG_TOP) {
		nr = read_cell(agg, tree, &agg->other, values);
		raise_no_memory(L, pev_stack_tree_other(tree, 0, &root));
		raise_no_memory(L, pev_stack_tree_add(tree, root, values, nr));
	}
	self->taken = 0;
	return 1;
}

/* t:sums(aggregator) -> value, ...: the sums of what t:take() would add */
static int l_sums(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);
	const struct pev_agg *agg = check_values(L, 2);
	struct pev_tree_value sums[2], values[2];
	uint32_t nr = read_cell(agg, tree, &agg->other, sums);

	for (uint32_t i = 0; i < agg->nr; i++) {
		read_cell(agg, tree, agg->cells[i], values);
		for (uint32_t n = 0; n < nr; n++)
			pev_tree_value_add(&sums[n], &values[n]);
	}
	for (uint32_t n = 0; n < nr; n++)
		push_value(L, &sums[n]);
	return (int)nr;
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

/* t:give_up(): memory ran out; recorded stacks are added to (other) from now on */
static int l_give_up(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);

	tree->exhausted = true;
	tree->room = INT64_MIN / 2;
	return 0;
}

/* t:spilled() -> number of recorded stacks that had no room, since the last call */
static int l_spilled(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);

	lua_pushinteger(L, (lua_Integer)tree->spilled);
	tree->spilled = 0;
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

/* t:add(node, value, ...): adds to the first values of a node, or to all */
static int l_add(lua_State *L)
{
	struct pev_stack_tree *tree = check_tree(L);
	struct pev_tree_value values[VALUES_MAX];
	const uint32_t nr = read_values(L, tree, 3, values);

	raise_no_memory(L, pev_stack_tree_add(tree, check_node(L, tree, 2), values, nr));
	return 0;
}

/* t:total(i) -> the sum of the i-th value of all nodes */
static int l_total(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);

	push_value(L, &tree->values[check_value_type(L, tree, 2)]);
	return 1;
}

/* t:depths() -> samples of stacks with user frames, of those with only one or two */
static int l_depths(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);

	push_value(L, &tree->user_stacks);
	push_value(L, &tree->short_stacks);
	return 2;
}

/* t:values(node) -> value, ...; nothing if none were added */
static int l_values(lua_State *L)
{
	const struct pev_stack_tree *tree = check_tree(L);
	const struct pev_tree_value *values = pev_stack_tree_values(tree, check_node(L, tree, 2));

	if (!values)
		return 0;
	luaL_checkstack(L, (int)tree->nr_values, "values");
	for (uint32_t i = 0; i < tree->nr_values; i++)
		push_value(L, &values[i]);
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
	const uint32_t value = check_value_type(L, &self->tree, 2);

	pev_folded_close(self->folded);
	self->folded = NULL;
	raise_no_memory(L, pev_stack_tree_sort(&self->tree));
	raise_no_memory(L, pev_folded_open(&self->folded, &self->tree, value, lua_toboolean(L, 3)));
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
	{ "add_stack", l_add_stack },
	{ "take", l_take },
	{ "sums", l_sums },
	{ "forget", l_forget },
	{ "room", l_room },
	{ "begin_stack", l_begin_stack },
	{ "give_up", l_give_up },
	{ "spilled", l_spilled },
	{ "is_full", l_is_full },
	{ "size", l_size },
	{ "add", l_add },
	{ "values", l_values },
	{ "total", l_total },
	{ "depths", l_depths },
	{ "next", l_next },
	{ "sort", l_sort },
	{ "fold", l_fold },
	{ "fold_next", l_fold_next },
	{ NULL, NULL },
};

void l_stack_tree_register(lua_State *L)
{
	l_class(L, L_STACK_TREE_TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_stack_tree);
	lua_setfield(L, -2, "stack_tree");
}
