/*
 * lstack.c - the userdata perfev.stack; see lstack.h.
 *
 * C takes a stack when its record arrives: addresses, and the files mapped there.
 * lua/perfev/symbol/stack.lua finds the names when a script reads them.
 */
#include "lua/symbol/lstack.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "symbol/stack.h"
#include "lua/symbol/lcfi.h"
#include "lua/symbol/ljit_dump.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lhooks.h"
#include "lua/symbol/lstack_table.h"

#define TYPENAME "perfev.stack"
#define NAMED_MAX (1u << 16) /* frames of a session that keep their tables, about 450 bytes each */

struct l_stack {
	const struct pev_stack *stack; /* borrowed from the stack table in user value 1 */
};

enum { STACK_UV_STACKS = 1, STACK_UV_WORLD, STACK_UV_NR = STACK_UV_WORLD };

static const char class_key; /* registry key of the argument of l_stack_class() */

static void push_method(lua_State *L, const char *name)
{
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &class_key) != LUA_TTABLE)
		luaL_error(L, "perfev.stack is not loaded");
	lua_getfield(L, -1, name);
	lua_remove(L, -2);
}

/* ---- frames as Lua tables ---- */

static void set_string(lua_State *L, const char *name, const void *value, size_t len)
{
	lua_pushlstring(L, value, len);
	lua_setfield(L, -2, name);
}

static void push_dso(lua_State *L, const struct pev_dso *dso)
{
	set_string(L, "path", dso->path, strlen(dso->path));
	lua_pushinteger(L, dso->pid);
	lua_setfield(L, -2, "pid");
	if (dso->build_id_len)
		set_string(L, "build_id", dso->build_id, dso->build_id_len);
	if (dso->ino) {
		lua_pushinteger(L, (lua_Integer)dso->ino);
		lua_setfield(L, -2, "ino");
		lua_pushinteger(L, (lua_Integer)makedev(dso->maj, dso->min));
		lua_setfield(L, -2, "dev");
		lua_pushinteger(L, (lua_Integer)dso->generation);
		lua_setfield(L, -2, "generation");
	}
	lua_pushboolean(L, dso->memory);
	lua_setfield(L, -2, "memory");
	if (dso->jit.load) {
		lua_pushinteger(L, (lua_Integer)dso->jit.time);
		lua_setfield(L, -2, "jit");
		lua_pushinteger(L, (lua_Integer)dso->jit.load);
		lua_setfield(L, -2, "jit_load");
	}
	if (dso->jit.lines) {
		lua_pushinteger(L, (lua_Integer)dso->jit.lines);
		lua_setfield(L, -2, "jit_lines");
	}
	if (dso->ksymbol) {
		lua_pushinteger(L, dso->ksymbol);
		lua_setfield(L, -2, "ksymbol");
	}
}

void l_stack_push_sampled(lua_State *L, const struct pev_sampled *sampled)
{
	lua_createtable(L, 0, 9);
	push_dso(L, sampled->dso);
	lua_pushinteger(L, sampled->pid);
	lua_setfield(L, -2, "pid");
	lua_pushinteger(L, (lua_Integer)sampled->start);
	lua_setfield(L, -2, "start");
	lua_pushinteger(L, (lua_Integer)sampled->end);
	lua_setfield(L, -2, "stop");
}

/*
 * { ip=, returns=, unwound=, context=, offset=, path=, pid=, build_id=, ino=, dev=, generation=,
 * memory=, ksymbol=, jit=, jit_load=, jit_lines= }; jit: the time when the function path
 * was loaded
 */
static void push_frame(lua_State *L, const struct pev_frame *frame)
{
	static const char *const contexts[] = { "user", "kernel", "other" };

	lua_createtable(L, 0, 16);
	lua_pushinteger(L, (lua_Integer)frame->ip);
	lua_setfield(L, -2, "ip");
	lua_pushboolean(L, frame->returns);
	lua_setfield(L, -2, "returns");
	lua_pushboolean(L, frame->unwound);
	lua_setfield(L, -2, "unwound");
	lua_pushstring(L, contexts[frame->context]);
	lua_setfield(L, -2, "context");
	if (!frame->dso)
		return;
	lua_pushinteger(L, (lua_Integer)frame->offset);
	lua_setfield(L, -2, "offset");
	push_dso(L, frame->dso);
}

void l_stack_push_frame(lua_State *L, const struct pev_stack *stack, uint32_t i)
{
	push_frame(L, pev_stack_frame(stack, i));
}

/* ---- stacks ---- */

/* Pushes the userdata of a stack in the place of its stack table, which is on top. */
static void push_stack(lua_State *L, int idx, const struct pev_stack *stack)
{
	struct l_stack *self;
	int stacks = lua_gettop(L);

	lua_getiuservalue(L, stacks, L_STACK_TABLE_UV_SEEN);
	if (lua_rawgeti(L, -1, (lua_Integer)stack->id) != LUA_TUSERDATA) {
		lua_pop(L, 1);
		self = lua_newuserdatauv(L, sizeof(*self), STACK_UV_NR);
		self->stack = stack;
		luaL_setmetatable(L, TYPENAME);
		lua_pushvalue(L, stacks);
		lua_setiuservalue(L, -2, STACK_UV_STACKS);
		lua_getfield(L, idx, "world");
		lua_setiuservalue(L, -2, STACK_UV_WORLD);
		lua_pushvalue(L, -1);
		lua_rawseti(L, -3, (lua_Integer)stack->id);
	}
	lua_replace(L, stacks);
	lua_settop(L, stacks);
}

/* ---- unwinding ---- */

/* The context of the unwinder's callbacks. */
struct finder {
	lua_State *L;
	int stacks, world; /* stack indices */
	int error;         /* stack index of an error that a callback raised; 0: no error */
};

static void forget_cfis(void *ctx)
{
	struct finder *finder = ctx;

	lua_newtable(finder->L);
	lua_setiuservalue(finder->L, finder->stacks, L_STACK_TABLE_UV_CFIS);
	/* The collector does not see how large the images of the files are. */
	lua_gc(finder->L, LUA_GCCOLLECT);
}

/* (frame as light userdata, world) -> perfev.cfi of the frame's file, or nil */
static int l_find_cfi(lua_State *L)
{
	push_method(L, "cfi");
	push_frame(L, lua_touserdata(L, 1));
	lua_pushvalue(L, 2);
	lua_call(L, 2, 1);
	return 1;
}

/* (frame as light userdata, world): reports the frame's file to the Lua module */
static int l_report_broken(lua_State *L)
{
	push_method(L, "broken");
	push_frame(L, lua_touserdata(L, 1));
	lua_pushvalue(L, 2);
	lua_call(L, 2, 0);
	return 0;
}

static void report_broken(void *ctx, const struct pev_dso *dso)
{
	struct finder *finder = ctx;
	struct pev_frame frame = { .dso = (struct pev_dso *)(uintptr_t)dso,
				   .context = PEV_IN_USER };

	if (finder->error)
		return;
	lua_pushcfunction(finder->L, l_report_broken);
	lua_pushlightuserdata(finder->L, &frame);
	lua_pushvalue(finder->L, finder->world);
	if (lua_pcall(finder->L, 2, 0, 0) != LUA_OK)
		finder->error = lua_gettop(finder->L);
}

/* The stack table keeps the perfev.cfi on top, for later walks through its file. */
static struct pev_cfi *keep_cfi(lua_State *L, int stacks)
{
	const struct l_cfi *cfi = luaL_testudata(L, -1, L_CFI_TYPENAME);

	if (!cfi)
		return NULL;
	if (lua_getiuservalue(L, stacks, L_STACK_TABLE_UV_CFIS) != LUA_TTABLE) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushvalue(L, -1);
		lua_setiuservalue(L, stacks, L_STACK_TABLE_UV_CFIS);
	}
	lua_pushvalue(L, -2);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	lua_pop(L, 1);
	return cfi->cfi;
}

static struct pev_cfi *find_cfi(void *ctx, const struct pev_dso *dso, uint64_t offset)
{
	struct finder *finder = ctx;
	lua_State *L = finder->L;
	struct pev_frame frame = { .offset = offset, .dso = (struct pev_dso *)(uintptr_t)dso,
				   .context = PEV_IN_USER };
	struct pev_cfi *cfi = NULL;

	if (finder->error)
		return NULL;
	lua_pushcfunction(L, l_find_cfi);
	lua_pushlightuserdata(L, &frame);
	lua_pushvalue(L, finder->world);
	if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
		finder->error = lua_gettop(L);
		return NULL;
	}
	cfi = keep_cfi(L, finder->stacks);
	lua_pop(L, 1);
	return cfi;
}

/* Unwinds a record, whose stack table is on top. NULL: its callchain has the user part. */
static const struct pev_unwind *unwind_record(lua_State *L, int idx, struct pev_tasks *tasks,
					      const struct pev_record *rec)
{
	struct finder finder = { .L = L, .stacks = lua_gettop(L), .world = lua_gettop(L) + 1 };
	struct pev_unwind *unwind;
	int rc;

	if (!pev_unwind_wanted(rec))
		return NULL;
	unwind = l_stack_table_unwind(L, finder.stacks);
	lua_getfield(L, idx, "world");
	unwind->find = find_cfi;
	unwind->broken = report_broken;
	unwind->forget = forget_cfis;
	unwind->ctx = &finder;
	rc = pev_unwind_walk(unwind, tasks, rec);
	unwind->ctx = NULL;
	l_raise_pending(L);
	if (finder.error) {
		lua_settop(L, finder.error);
		lua_error(L);
	}
	if (rc < 0)
		luaL_error(L, "no memory for a stack");
	lua_settop(L, finder.stacks);
	return unwind;
}

/* ---- dumps of JIT compilers ---- */

/* Calls the Lua module for each wanted dump, with the world of the table at idx. */
static void read_dumps(lua_State *L, int idx, struct pev_jit_dumps *dumps)
{
	while (dumps->wanted) {
		push_method(L, "jit_dump");
		l_jit_dump_push_wanted(L, dumps);
		lua_getfield(L, idx, "world");
		lua_call(L, 2, 0);
	}
}

/* (the views' table, struct pev_jit_dumps *) */
static int l_read_dumps(lua_State *L)
{
	read_dumps(L, 1, lua_touserdata(L, 2));
	return 0;
}

int l_stack_read_dumps(lua_State *L, int idx, struct pev_tasks *tasks,
		       const struct pev_record *rec)
{
	if (!pev_stacks_want_dumps(tasks, rec))
		return 0;
	lua_pushcfunction(L, l_read_dumps);
	lua_pushvalue(L, idx);
	lua_pushlightuserdata(L, &tasks->dsos.dumps);
	if (lua_pcall(L, 2, 0, 0) == LUA_OK)
		return 0;
	l_keep_error(L);
	return -ECANCELED;
}

/* Returns the record's stack or NULL. Leaves the stack table, of the table at idx, on top. */
static const struct pev_stack *take_stack(lua_State *L, int idx, struct pev_tasks *tasks,
					  const struct pev_record *rec)
{
	const struct pev_unwind *unwind;
	const struct pev_stack *stack;
	struct pev_stacks *stacks;
	int rc;

	luaL_checkstack(L, 12, "stack");
	if (pev_stacks_want_dumps(tasks, rec))
		read_dumps(L, idx, &tasks->dsos.dumps);
	lua_getfield(L, idx, "stacks");
	stacks = l_stack_table_check(L, -1);
	unwind = unwind_record(L, idx, tasks, rec);
	rc = pev_stacks_take(stacks, tasks, rec, unwind, &stack);
	l_raise_pending(L);
	if (rc < 0)
		luaL_error(L, "no memory for a stack");
	return stack;
}

/* The argument and result of l_take(). */
struct taking {
	struct pev_tasks *tasks;
	const struct pev_record *rec;
	const struct pev_stack *stack;
};

/* (the views' table, struct taking *) */
static int l_take(lua_State *L)
{
	struct taking *taking = lua_touserdata(L, 2);

	taking->stack = take_stack(L, 1, taking->tasks, taking->rec);
	return 0;
}

int l_stack_take(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec,
		 const struct pev_stack **stack)
{
	struct taking taking = { tasks, rec, NULL };

	lua_pushcfunction(L, l_take);
	lua_pushvalue(L, idx);
	lua_pushlightuserdata(L, &taking);
	*stack = NULL;
	/* The core is running: dispatch raises the error when the core has returned. */
	if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
		l_keep_error(L);
		return -ECANCELED;
	}
	*stack = taking.stack;
	return 0;
}

void l_stack_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec)
{
	const struct pev_stack *stack;

	idx = lua_absindex(L, idx);
	stack = take_stack(L, idx, tasks, rec);
	if (stack) {
		push_stack(L, idx, stack);
		return;
	}
	lua_pop(L, 1);
	lua_pushnil(L);
}

void l_stack_push_taken(lua_State *L, int idx, const struct pev_stack *stack)
{
	idx = lua_absindex(L, idx);
	luaL_checkstack(L, 8, "stack");
	lua_getfield(L, idx, "stacks");
	push_stack(L, idx, stack);
}

const struct pev_stack *l_stack_test(lua_State *L, int idx)
{
	const struct l_stack *self = luaL_testudata(L, idx, TYPENAME);

	return self ? self->stack : NULL;
}

void l_stack_push_home(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	lua_createtable(L, 0, 2);
	lua_getiuservalue(L, idx, STACK_UV_STACKS);
	lua_setfield(L, -2, "stacks");
	lua_getiuservalue(L, idx, STACK_UV_WORLD);
	lua_setfield(L, -2, "world");
}

/* ---- maps ---- */

static int l_push_frame(lua_State *L)
{
	push_frame(L, lua_touserdata(L, 1));
	return 1;
}

/* core.stack_frames(stack) -> list of frames, world | nil */
static int l_stack_frames(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);

	lua_createtable(L, (int)self->stack->nr, 0);
	for (uint32_t i = 0; i < self->stack->nr; i++) {
		push_frame(L, pev_stack_frame(self->stack, i));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_getiuservalue(L, 1, STACK_UV_WORLD);
	return 2;
}

/* core.stack_is_before(stack, stack) -> true if the first is smaller; see pev_stack_is_before() */
static int l_stack_is_before(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);
	const struct l_stack *other = luaL_checkudata(L, 2, TYPENAME);

	lua_pushboolean(L, pev_stack_is_before(self->stack, other->stack));
	return 1;
}

/* Pushes the lists of named frames, by id, that were made while changes was the value at 3. */
static void push_named(lua_State *L)
{
	lua_getiuservalue(L, 1, STACK_UV_STACKS);
	if (lua_getiuservalue(L, -1, L_STACK_TABLE_UV_NAMED) == LUA_TTABLE) {
		lua_getfield(L, -1, "changes");
		if (lua_rawequal(L, -1, 3)) {
			lua_pop(L, 1);
			lua_remove(L, -2);
			return;
		}
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	lua_createtable(L, 0, 1);
	lua_pushvalue(L, 3);
	lua_setfield(L, -2, "changes");
	lua_pushvalue(L, -1);
	lua_setiuservalue(L, -3, L_STACK_TABLE_UV_NAMED);
	lua_remove(L, -2);
}

/* Pushes the list that f at 2 makes of the i-th frame; keeps it in the table at 6 if f says so. */
static void name_frame(lua_State *L, const struct pev_stack *stack, uint32_t i)
{
	lua_createtable(L, 1, 0);
	lua_pushvalue(L, 2);
	lua_pushvalue(L, -2);
	push_frame(L, pev_stack_frame(stack, i));
	lua_pushvalue(L, 4);
	lua_call(L, 3, 1);
	if (lua_toboolean(L, -1) && stack->frames[i] < NAMED_MAX) {
		lua_pushvalue(L, -2);
		lua_rawseti(L, 6, stack->frames[i]);
	}
	lua_pop(L, 1);
}

/* Pops a list and appends its items to the list at idx. */
static void append_list(lua_State *L, int idx)
{
	const lua_Integer nr = (lua_Integer)lua_rawlen(L, -1);
	lua_Integer end = (lua_Integer)lua_rawlen(L, idx);

	for (lua_Integer i = 1; i <= nr; i++) {
		lua_rawgeti(L, -1, i);
		lua_rawseti(L, idx, ++end);
	}
	lua_pop(L, 1);
}

/*
 * core.stack_names(stack, f, changes) -> list: what f(list, frame, world) appends for each frame,
 * innermost first. If f returns true, it is not called again for that frame, in any stack, while
 * changes stays equal.
 */
static int l_stack_names(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);
	const struct pev_stack *stack = self->stack;

	lua_settop(L, 3);
	lua_getiuservalue(L, 1, STACK_UV_WORLD);
	lua_createtable(L, (int)stack->nr, 0);
	push_named(L);
	for (uint32_t i = 0; i < stack->nr; i++) {
		if (lua_rawgeti(L, 6, stack->frames[i]) != LUA_TTABLE) {
			lua_pop(L, 1);
			name_frame(L, stack, i);
		}
		append_list(L, 5);
	}
	lua_settop(L, 5);
	return 1;
}

/*
 * core.stack_new_frames(stack, seen, f): calls f(frame, world) for each frame whose id is not in
 * seen, and adds its id
 */
static int l_stack_new_frames(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);
	const struct pev_stack *stack = self->stack;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 3);
	lua_getiuservalue(L, 1, STACK_UV_WORLD);
	for (uint32_t i = 0; i < stack->nr; i++) {
		if (lua_rawgeti(L, 2, stack->frames[i]) == LUA_TNIL) {
			lua_pushboolean(L, 1);
			lua_rawseti(L, 2, stack->frames[i]);
			lua_pushvalue(L, 3);
			push_frame(L, pev_stack_frame(stack, i));
			lua_pushvalue(L, 4);
			lua_call(L, 2, 0);
		}
		lua_settop(L, 4);
	}
	return 0;
}

/* core.stack_length(stack) -> number of its frames, without names */
static int l_stack_length(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);

	lua_pushinteger(L, self->stack->nr);
	return 1;
}

static void find_place(const struct pev_sys *sys, struct pev_dsos *dsos, struct pev_space **space,
		       struct pev_frame *frame, int pid)
{
	const struct pev_map *map;
	char path[32], *text;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (sys->slurp(sys->ctx, path, &text, &len) < 0)
		return;
	pev_space_parse(space, dsos, pid, text);
	free(text);
	map = pev_space_find(*space, frame->ip);
	if (!map)
		return;
	frame->dso = map->dso;
	frame->offset = frame->ip - map->start + map->pgoff;
}

/* core.map_at(pid, address) -> the current mapping of that address, as a frame */
static int l_map_at(lua_State *L)
{
	int pid = (int)luaL_checkinteger(L, 1);
	struct pev_frame frame = { .ip = (uint64_t)luaL_checkinteger(L, 2) };
	const struct pev_sys *sys = l_hooks_push(L);
	struct pev_space *space = NULL;
	struct pev_dsos dsos;

	l_hooks_enter(L, sys);
	if (pev_dsos_init(&dsos) < 0)
		return luaL_error(L, "no memory for maps");
	find_place(sys, &dsos, &space, &frame, pid);
	pev_dso_get(frame.dso);
	pev_space_put(space);
	pev_dsos_free(&dsos);
	lua_pushcfunction(L, l_push_frame);
	lua_pushlightuserdata(L, &frame);
	/* Freed by Lua, also if an error is raised. */
	pid = lua_pcall(L, 1, 1, 0);
	pev_dso_put(frame.dso);
	l_raise_pending(L);
	return pid == LUA_OK ? 1 : lua_error(L);
}

/* ---- methods ---- */

/* Calls the Lua module's function with the first nargs arguments; the stack is one of them. */
static int call_method(lua_State *L, const char *name, int nargs)
{
	lua_settop(L, nargs);
	push_method(L, name);
	lua_insert(L, 1);
	lua_call(L, nargs, 1);
	return 1;
}

static int l_stack_index(lua_State *L)
{
	const struct l_stack *self = luaL_checkudata(L, 1, TYPENAME);

	if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "id") == 0) {
		lua_pushinteger(L, (lua_Integer)self->stack->id);
		return 1;
	}
	return call_method(L, "index", 2);
}

static int l_stack_len(lua_State *L)
{
	luaL_checkudata(L, 1, TYPENAME);
	return call_method(L, "len", 1);
}

static int l_stack_tostring(lua_State *L)
{
	luaL_checkudata(L, 1, TYPENAME);
	return call_method(L, "text", 1);
}

static int l_stack_newindex(lua_State *L) { return luaL_error(L, "a stack cannot be changed"); }

/* Fills in the frame of the record's ip. False: no ip. */
static bool find_ip(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec,
		    struct pev_frame *frame)
{
	const struct pev_stack *stack;
	struct pev_value pid;

	/* The functions of a JIT compiler belong to a stack. */
	if (tasks->dsos.dumps.nr && pev_record_get(rec, PEV_F_PID, &pid) &&
	    pev_tasks_jit_dump(tasks, (int)(int64_t)pid.u)) {
		if (pev_stacks_want_dumps(tasks, rec))
			read_dumps(L, idx, &tasks->dsos.dumps);
		lua_getfield(L, idx, "stacks");
		if (pev_stacks_ip(l_stack_table_check(L, -1), tasks, rec, &stack) < 0)
			luaL_error(L, "no memory for a stack");
		lua_pop(L, 1);
		if (stack && stack->nr) {
			*frame = *pev_stack_frame(stack, 0);
			return true;
		}
	}
	return pev_stack_ip(tasks, rec, frame);
}

void l_symbol_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec)
{
	struct pev_frame frame;
	struct pev_value pid;

	idx = lua_absindex(L, idx);
	luaL_checkstack(L, 8, "symbol");
	if (!find_ip(L, idx, tasks, rec, &frame)) {
		lua_pushnil(L);
		return;
	}
	l_raise_pending(L);
	push_method(L, "symbol");
	push_frame(L, &frame);
	if (frame.dso && frame.dso->memory && pev_record_get(rec, PEV_F_PID, &pid)) {
		lua_pushinteger(L, (lua_Integer)pid.u);
		lua_setfield(L, -2, "pid");
	}
	lua_getfield(L, idx, "world");
	lua_call(L, 2, 1);
}

/*
 * core.stack_class{index=, len=, text=, symbol=, cfi=, broken=, jit_dump=}: sets the functions of
 * the Lua module that implement a stack's metamethods and find its files.
 */
static int l_stack_class(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &class_key);
	return 0;
}

static const luaL_Reg metamethods[] = {
	{ "__index", l_stack_index },
	{ "__newindex", l_stack_newindex },
	{ "__len", l_stack_len },
	{ "__tostring", l_stack_tostring },
	{ NULL, NULL },
};

void l_stack_register(lua_State *L)
{
	luaL_newmetatable(L, TYPENAME);
	luaL_setfuncs(L, metamethods, 0);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
	lua_pushcfunction(L, l_stack_class);
	lua_setfield(L, -2, "stack_class");
	lua_pushcfunction(L, l_stack_frames);
	lua_setfield(L, -2, "stack_frames");
	lua_pushcfunction(L, l_stack_is_before);
	lua_setfield(L, -2, "stack_is_before");
	lua_pushcfunction(L, l_stack_names);
	lua_setfield(L, -2, "stack_names");
	lua_pushcfunction(L, l_stack_new_frames);
	lua_setfield(L, -2, "stack_new_frames");
	lua_pushcfunction(L, l_stack_length);
	lua_setfield(L, -2, "stack_length");
	lua_pushcfunction(L, l_map_at);
	lua_setfield(L, -2, "map_at");
}
