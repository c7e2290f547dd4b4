/*
 * lsyscall_answers.c - each kind of result of a system call in Lua; see lsyscall.h.
 */
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "lua/event/lattr.h"
#include "lua/base/lblock.h"
#include "lua/base/lerror.h"
#include "lua/hooks/lsyscall.h"
#include "lua/base/lset.h"

/* The place of the last parameter, to which most calls write their output. */
static int last_parameter(const struct l_sys_call *call)
{
	int last = 0;

	while (call->parameters[last + 1].kind)
		last++;
	return last;
}

/* ---- numbers ---- */

/* Call the hook below nr arguments; it returns a number, or true for 0. */
static int64_t ask_number_of(struct l_hooks *h, const struct l_sys_call *call, int nr)
{
	int64_t rc = l_sys_ask(h, call, nr);
	int is_number;
	lua_Integer n;

	if (rc < 0)
		return rc;
	n = lua_tointegerx(h->L, -2, &is_number);
	if (!is_number && !lua_isboolean(h->L, -2))
		return l_sys_bad_answer(h, call, "a number");
	lua_pop(h->L, 2);
	return n;
}

static int64_t ask_number(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	return ask_number_of(h, call, l_sys_push_parameters(h->L, call, args));
}

static int give_number(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	(void)room;
	lua_pushinteger(L, rc);
	return 1;
}

const struct l_sys_answer l_sys_answer_number = { .ask = ask_number, .give = give_number };

/* A power of two. */
static int64_t ask_page_size(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t bytes = ask_number(h, call, args);

	return bytes > 0 && bytes <= INT_MAX && !(bytes & (bytes - 1)) ? bytes : -EINVAL;
}

const struct l_sys_answer l_sys_answer_page_size = { .ask = ask_page_size, .give = give_number,
						     .unlogged = true, .must_succeed = true };

/* A number of 64 bits, which is not the result. */
static int64_t ask_value(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);
	int is_number;
	lua_Integer n;

	if (rc < 0)
		return rc;
	n = lua_tointegerx(h->L, -2, &is_number);
	if (!is_number && !lua_isboolean(h->L, -2))
		return l_sys_bad_answer(h, call, "a number");
	lua_pop(h->L, 2);
	*L_SYS_ARG(uint64_t *, args, last_parameter(call)) = (uint64_t)n;
	return 0;
}

static int give_value(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	(void)rc;
	lua_pushinteger(L, (lua_Integer)room->value);
	return 1;
}

const struct l_sys_answer l_sys_answer_changed = { .ask = ask_value, .give = give_value };
/* Read in user space. */
const struct l_sys_answer l_sys_answer_reading = { .ask = ask_value, .give = give_value,
						   .unlogged = true };

/* A hook cannot have written more than it was given. */
static int64_t ask_written(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int nr = l_sys_push_parameters(h->L, call, args);
	size_t len = lua_rawlen(h->L, 1 - nr); /* of the bytes, after fd */
	int64_t rc = ask_number_of(h, call, nr);

	if (rc < 0 || (size_t)rc <= len)
		return rc;
	lua_pushfstring(h->L, "hook '%s' returned more bytes than it was given", call->name);
	l_keep_error(h->L);
	return -ECANCELED;
}

const struct l_sys_answer l_sys_answer_written = { .ask = ask_written, .give = give_number };

/* ---- bytes and names ---- */

/* Into (buffer, len), after fd. */
static int64_t ask_bytes(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);
	const char *bytes;
	size_t len;

	if (rc < 0)
		return rc;
	bytes = lua_tolstring(h->L, -2, &len);
	if (!bytes || len > L_SYS_ARG(size_t, args, 2))
		return l_sys_bad_answer(h, call, "at most as many bytes as were asked for");
	memcpy(L_SYS_ARG(void *, args, 1), bytes, len);
	lua_pop(h->L, 2);
	return (int64_t)len;
}

static int give_bytes(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	lua_pushlstring(L, room->buffer, (size_t)rc);
	return 1;
}

const struct l_sys_answer l_sys_answer_bytes = { .ask = ask_bytes, .give = give_bytes };

/* Into (buffer, cap), after a path; a longer one is cut, as readlink(2) does. */
static int64_t ask_link(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);
	size_t cap = L_SYS_ARG(size_t, args, 2), len;
	const char *target;

	if (rc < 0)
		return rc;
	target = lua_tolstring(h->L, -2, &len);
	if (!target)
		return l_sys_bad_answer(h, call, "a string");
	rc = (int64_t)(len < cap ? len : cap);
	memcpy(L_SYS_ARG(char *, args, 1), target, (size_t)rc);
	lua_pop(h->L, 2);
	return rc;
}

static int give_link(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	lua_pushlstring(L, room->path, (size_t)rc);
	return 1;
}

const struct l_sys_answer l_sys_answer_link = { .ask = ask_link, .give = give_link };

/* Into (block, len), after a path; with a NUL behind them. */
static int64_t ask_text(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);
	const char *bytes;
	char *block;
	size_t len;

	if (rc < 0)
		return rc;
	bytes = lua_tolstring(h->L, -2, &len);
	if (!bytes)
		return l_sys_bad_answer(h, call, "a string");
	block = malloc(len + 1);
	if (block) {
		memcpy(block, bytes, len + 1);
		*L_SYS_ARG(char **, args, 1) = block;
		*L_SYS_ARG(size_t *, args, 2) = len;
	}
	lua_pop(h->L, 2);
	return block ? 0 : -ENOMEM;
}

static int give_text(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	(void)rc;
	lua_pushlstring(L, *room->block, room->len);
	l_block_free(room->block);
	return 1;
}

const struct l_sys_answer l_sys_answer_text = { .ask = ask_text, .give = give_text };

/* The names of the list at idx in one block, each with its NUL. */
static int64_t join_names(lua_State *L, int idx, char **names, size_t *len)
{
	lua_Integer nr = (lua_Integer)lua_rawlen(L, idx);
	size_t used = 0;
	char *buf = malloc(1);

	for (lua_Integer i = 1; buf && i <= nr; i++) {
		size_t one;
		const char *name;
		char *more;

		lua_rawgeti(L, idx, i);
		/* A number would be made into a string, which needs memory. */
		name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &one) : NULL;
		more = name ? realloc(buf, used + one + 1) : NULL;
		if (!more) {
			lua_pop(L, 1);
			free(buf);
			return -ENOMEM;
		}
		buf = more;
		memcpy(buf + used, name, one + 1);
		used += one + 1;
		lua_pop(L, 1);
	}
	if (!buf)
		return -ENOMEM;
	*names = buf;
	*len = used;
	return 0;
}

static int64_t ask_names(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);

	if (rc < 0)
		return rc;
	if (!lua_istable(h->L, -2))
		return l_sys_bad_answer(h, call, "a list of names");
	rc = join_names(h->L, lua_gettop(h->L) - 1, L_SYS_ARG(char **, args, 1),
			L_SYS_ARG(size_t *, args, 2));
	lua_pop(h->L, 2);
	return rc;
}

static int give_names(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	const char *names;
	lua_Integer nr = 0;

	(void)rc;
	names = *room->block;
	lua_newtable(L);
	for (size_t i = 0; i < room->len; i += strlen(names + i) + 1) {
		lua_pushstring(L, names + i);
		lua_rawseti(L, -2, ++nr);
	}
	l_block_free(room->block);
	return 1;
}

const struct l_sys_answer l_sys_answer_names = { .ask = ask_names, .give = give_names };

/* ---- tables and pairs ---- */

/* The field of the table on top; 0 when it is missing. */
static uint64_t get_stat_field(lua_State *L, const char *name)
{
	uint64_t value;

	lua_pushstring(L, name);
	lua_rawget(L, -2);
	value = (uint64_t)lua_tointeger(L, -1);
	lua_pop(L, 1);
	return value;
}

/* { dev =, ino =, mode =, uid =, size = } */
static int64_t ask_stat(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);
	lua_State *L = h->L;

	if (rc < 0)
		return rc;
	if (!lua_istable(L, -2))
		return l_sys_bad_answer(h, call, "a table");
	lua_pop(L, 1);
	*L_SYS_ARG(struct pev_stat *, args, last_parameter(call)) = (struct pev_stat){
		.dev = get_stat_field(L, "dev"),
		.ino = get_stat_field(L, "ino"),
		.mode = (uint32_t)get_stat_field(L, "mode"),
		.uid = (uint32_t)get_stat_field(L, "uid"),
		.size = get_stat_field(L, "size"),
	};
	lua_pop(L, 1);
	return 0;
}

void l_stat_push(lua_State *L, const struct pev_stat *st)
{
	lua_createtable(L, 0, 5);
	l_set_u64(L, "dev", st->dev);
	l_set_u64(L, "ino", st->ino);
	l_set_integer(L, "mode", st->mode);
	l_set_integer(L, "uid", st->uid);
	l_set_u64(L, "size", st->size);
}

static int give_stat(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	(void)rc;
	l_stat_push(L, &room->stat);
	return 1;
}

const struct l_sys_answer l_sys_answer_stat = { .ask = ask_stat, .give = give_stat };

/* A list of {events, tag} into (events, max), after epfd. */
static int64_t ask_events(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	struct epoll_event *events = L_SYS_ARG(struct epoll_event *, args, 1);
	int64_t rc = l_sys_ask_hook(h, call, args);
	int max = L_SYS_ARG(int, args, 2), nr = 0;
	lua_State *L = h->L;

	if (rc < 0)
		return rc;
	if (!lua_istable(L, -2))
		return l_sys_bad_answer(h, call, "a list of {events, tag}");
	for (; nr < max && lua_rawgeti(L, -2, nr + 1) == LUA_TTABLE; nr++) {
		lua_rawgeti(L, -1, 1);
		lua_rawgeti(L, -2, 2);
		events[nr].events = (uint32_t)lua_tointeger(L, -2);
		events[nr].data.u64 = (uint64_t)lua_tointeger(L, -1);
		lua_pop(L, 3);
	}
	lua_pop(L, nr < max ? 3 : 2);
	return nr;
}

static int give_events(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	lua_createtable(L, (int)rc, 0);
	for (int i = 0; i < rc; i++) {
		lua_createtable(L, 2, 0);
		lua_pushinteger(L, room->events[i].events);
		lua_rawseti(L, -2, 1);
		lua_pushinteger(L, (lua_Integer)room->events[i].data.u64);
		lua_rawseti(L, -2, 2);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

const struct l_sys_answer l_sys_answer_events = { .ask = ask_events, .give = give_events };

/* pid, gate */
static int64_t ask_spawned(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);

	if (rc < 0)
		return rc;
	*L_SYS_ARG(struct pev_spawned *, args, last_parameter(call)) = (struct pev_spawned){
		.pid = (int)lua_tointeger(h->L, -2),
		.gate = (int)lua_tointeger(h->L, -1),
	};
	lua_pop(h->L, 2);
	return 0;
}

static int give_spawned(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	(void)rc;
	lua_pushinteger(L, room->spawned.pid);
	lua_pushinteger(L, room->spawned.gate);
	return 2;
}

const struct l_sys_answer l_sys_answer_spawned = { .ask = ask_spawned, .give = give_spawned };

/* The status, or false while the child runs. */
static int64_t ask_child_status(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int64_t rc = l_sys_ask_hook(h, call, args);

	if (rc < 0)
		return rc;
	rc = lua_toboolean(h->L, -2) ? L_SYS_ARG(int, args, 0) : 0;
	*L_SYS_ARG(int *, args, last_parameter(call)) = (int)lua_tointeger(h->L, -2);
	lua_pop(h->L, 2);
	return rc;
}

static int give_child_status(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	if (rc == 0)
		lua_pushboolean(L, 0);
	else
		lua_pushinteger(L, room->status);
	return 1;
}

const struct l_sys_answer l_sys_answer_child_status = { .ask = ask_child_status,
							.give = give_child_status };

/* ---- events ---- */

/* A descriptor; the hook may have changed the attr, which is read back after the call. */
static int64_t ask_opened(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	int nr = l_sys_push_parameters(h->L, call, args);
	int64_t rc;

	lua_pushvalue(h->L, -nr);
	lua_insert(h->L, -nr - 2); /* below the function */
	rc = ask_number_of(h, call, nr);
	*L_SYS_ARG(struct pev_attr *, args, 0) = *l_attr_check(h->L, -1);
	lua_pop(h->L, 1);
	return rc;
}

/* E2BIG sets the attr's size to the kernel's own. */
static void set_kernel_size(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	if (rc == -E2BIG)
		l_attr_check(L, 1)->size = room->attr.size;
}

const struct l_sys_answer l_sys_answer_opened = { .ask = ask_opened, .give = give_number,
						  .fail = set_kernel_size };

/*
 * QUERY_BPF's hook returns a list of ids, and the number of programs when that is greater. As
 * in the kernel, an id without room is counted, not copied.
 */
static int64_t ask_query(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	struct perf_event_query_bpf *query = (void *)L_SYS_ARG(uintptr_t, args, 2);
	int64_t rc = l_sys_ask_hook(h, call, args);
	lua_State *L = h->L;
	lua_Integer nr;

	if (rc < 0)
		return rc;
	if (!lua_istable(L, -2))
		return l_sys_bad_answer(h, call, "a list of program ids");
	nr = (lua_Integer)lua_rawlen(L, -2);
	for (lua_Integer i = 0; i < nr && i < (lua_Integer)query->ids_len; i++) {
		lua_rawgeti(L, -2, i + 1);
		query->ids[i] = (uint32_t)lua_tointeger(L, -1);
		lua_pop(L, 1);
	}
	query->prog_cnt = (uint32_t)(lua_isinteger(L, -1) ? lua_tointeger(L, -1) : nr);
	lua_pop(L, 2);
	return query->ids_len && query->prog_cnt > query->ids_len ? -ENOSPC : 0;
}

/* A number; (fd, request, arg) decide on its meaning. */
static int64_t ask_requested(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	unsigned long request = L_SYS_ARG(unsigned long, args, 1);
	int64_t rc;

	if (request == PERF_EVENT_IOC_QUERY_BPF)
		return ask_query(h, call, args);
	rc = ask_number(h, call, args);
	if (rc < 0 || request != PERF_EVENT_IOC_ID)
		return rc;
	*(uint64_t *)L_SYS_ARG(uintptr_t, args, 2) = (uint64_t)rc;
	return 0;
}

static int give_requested(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	const struct perf_event_query_bpf *query = room->query;

	if (room->request == PERF_EVENT_IOC_ID)
		return give_value(L, room, rc);
	if (room->request != PERF_EVENT_IOC_QUERY_BPF)
		return give_number(L, room, rc);
	lua_newtable(L);
	for (uint32_t i = 0; i < query->prog_cnt && i < query->ids_len; i++) {
		lua_pushinteger(L, query->ids[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_pushinteger(L, query->prog_cnt);
	return 2;
}

const struct l_sys_answer l_sys_answer_requested = { .ask = ask_requested, .give = give_requested,
						     .logged_after = true };
