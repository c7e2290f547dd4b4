/*
 * lsyscall_parameters.c - each kind of parameter of a system call in Lua; see lsyscall.h.
 */
#define _GNU_SOURCE /* F_SETSIG */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "lua/event/lattr.h"
#include "lua/base/lblock.h"
#include "lua/hooks/lmemory.h"
#include "lua/hooks/lsyscall.h"

#define READ_MAX (1 << 20) /* no read of perfev asks for more at once */

/* ---- numbers ---- */

/* A number cut to 32 bits would name another descriptor, process or flag. */
static int check_int(lua_State *L, int idx)
{
	lua_Integer value = luaL_checkinteger(L, idx);

	luaL_argcheck(L, value >= INT_MIN && value <= INT_MAX, idx, "not in 32 bits");
	return (int)value;
}

/* 0 when it is missing. */
static int check_optional_int(lua_State *L, int idx)
{
	return lua_isnoneornil(L, idx) ? 0 : check_int(L, idx);
}

static lua_Integer check_length(lua_State *L, int idx)
{
	lua_Integer len = luaL_checkinteger(L, idx);

	luaL_argcheck(L, len > 0, idx, "no length");
	return len;
}

/* A kind of number: how it is checked, and how it is shown as which type. */
#define NUMBER(kind, check, format, shown)                                                         \
	static void push_##kind(lua_State *L, void *args, int i)                                   \
	{                                                                                          \
		lua_pushinteger(L, (lua_Integer)L_SYS_ARG(PEV_SYS_TYPE_##kind, args, i));          \
	}                                                                                          \
	static void set_##kind(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)  \
	{                                                                                          \
		(void)room;                                                                        \
		L_SYS_ARG(PEV_SYS_TYPE_##kind, args, i) = (PEV_SYS_TYPE_##kind)check(L, idx);      \
	}                                                                                          \
	static int show_##kind(char *text, size_t size, void *args, int i)                         \
	{                                                                                          \
		return snprintf(text, size, format, L_SYS_ARG(shown, args, i));                    \
	}                                                                                          \
	const struct l_sys_kind l_sys_kind_##kind = { push_##kind, set_##kind, show_##kind }

NUMBER(int, check_int, "%d", int);
NUMBER(flag, check_optional_int, "%d", int);
NUMBER(hex, check_optional_int, "0x%x", unsigned);
NUMBER(ms, check_int, "%d ms", int);
NUMBER(mask, luaL_checkinteger, "0x%x", unsigned);
NUMBER(u64, luaL_checkinteger, "%" PRIu64, uint64_t);
NUMBER(ns, luaL_checkinteger, "%" PRIu64 " ns", uint64_t);
NUMBER(set, luaL_checkinteger, "0x%" PRIx64, uint64_t);
NUMBER(flags, luaL_checkinteger, "0x%lx", unsigned long);
NUMBER(size, check_length, "%zu", size_t);

const struct l_sys_kind l_sys_kind_tag = { push_u64, set_u64, NULL };

static int show_epoll_op(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "%s",
			L_SYS_ARG(int, args, i) == EPOLL_CTL_ADD ? "ADD" : "DEL");
}

const struct l_sys_kind l_sys_kind_epoll_op = { push_int, set_int, show_epoll_op };

static void set_counter(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	lua_Integer counter = luaL_checkinteger(L, idx);

	/* Refused here: the processor's answer would be a fault. */
	if (!l_memory_allows_counter(L, counter))
		room->refused = -EACCES;
	L_SYS_ARG(uint32_t, args, i) = (uint32_t)counter;
}

const struct l_sys_kind l_sys_kind_counter = { push_mask, set_counter, NULL };

/* Set together with the memory of that length. */
const struct l_sys_kind l_sys_kind_mapped_len = { push_size, NULL, show_size };

/* ---- text and bytes ---- */

static void push_text(lua_State *L, void *args, int i)
{
	lua_pushstring(L, L_SYS_ARG(const char *, args, i));
}

static void set_text(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	(void)room;
	L_SYS_ARG(const char *, args, i) = luaL_checkstring(L, idx);
}

static int show_text(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "\"%s\"", L_SYS_ARG(const char *, args, i));
}

const struct l_sys_kind l_sys_kind_text = { push_text, set_text, show_text };

static void push_words(lua_State *L, void *args, int i)
{
	char *const *words = L_SYS_ARG(char *const *, args, i);

	lua_newtable(L);
	for (int nr = 0; words[nr]; nr++) {
		lua_pushstring(L, words[nr]);
		lua_rawseti(L, -2, nr + 1);
	}
}

static void set_words(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	lua_Integer nr;
	char **words;

	(void)room;
	luaL_checktype(L, idx, LUA_TTABLE);
	nr = (lua_Integer)lua_rawlen(L, idx);
	luaL_argcheck(L, nr > 0 && nr < 1 << 16, idx, "no command");
	words = lua_newuserdatauv(L, sizeof(*words) * (size_t)(nr + 1), 0);
	luaL_checkstack(L, (int)nr, "too many words");
	for (lua_Integer n = 1; n <= nr; n++) {
		lua_rawgeti(L, idx, n);
		words[n - 1] = (char *)(uintptr_t)luaL_checkstring(L, -1);
	}
	words[nr] = NULL;
	L_SYS_ARG(char *const *, args, i) = words;
}

static int show_words(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "\"%.200s\"", L_SYS_ARG(char *const *, args, i)[0]);
}

const struct l_sys_kind l_sys_kind_words = { push_words, set_words, show_words };

static void push_bytes(lua_State *L, void *args, int i)
{
	lua_pushlstring(L, L_SYS_ARG(const void *, args, i), L_SYS_ARG(size_t, args, i + 1));
}

static void set_bytes(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	(void)room;
	L_SYS_ARG(const void *, args, i) =
		luaL_checklstring(L, idx, &L_SYS_ARG(size_t, args, i + 1));
}

const struct l_sys_kind l_sys_kind_bytes = { push_bytes, set_bytes, NULL };
const struct l_sys_kind l_sys_kind_bytes_len = { NULL, NULL, show_size };

/* All pieces as one string. */
static void push_pieces(lua_State *L, void *args, int i)
{
	const struct iovec *pieces = L_SYS_ARG(const struct iovec *, args, i);
	luaL_Buffer bytes;

	luaL_buffinit(L, &bytes);
	for (int n = 0; n < L_SYS_ARG(int, args, i + 1); n++)
		luaL_addlstring(&bytes, pieces[n].iov_base, pieces[n].iov_len);
	luaL_pushresult(&bytes);
}

static void set_pieces(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	const char *bytes = luaL_checklstring(L, idx, &room->piece.iov_len);

	room->piece.iov_base = (void *)(uintptr_t)bytes;
	L_SYS_ARG(const struct iovec *, args, i) = &room->piece;
	L_SYS_ARG(int, args, i + 1) = 1;
}

static int show_nr_pieces(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "%d pieces", L_SYS_ARG(int, args, i));
}

const struct l_sys_kind l_sys_kind_pieces = { push_pieces, set_pieces, NULL };
const struct l_sys_kind l_sys_kind_nr_pieces = { NULL, NULL, show_nr_pieces };

/* ---- events ---- */

#define ATTR_TEXT_SIZE 1024 /* a few lines of a terminal */

/* Fields that are set, by the kernel's names: "{type=1, size=136, sample_type=0x10087}". */
static int show_fields(char *text, size_t size, const struct pev_attr *attr)
{
	size_t room = size < ATTR_TEXT_SIZE ? size : ATTR_TEXT_SIZE;
	int n = snprintf(text, room, "{type=%u, size=%u, config=0x%" PRIx64, attr->type,
			 attr->size, attr->config);

	for (const struct pev_attr_field *f = pev_attr_fields; f->name && n < (int)room; f++) {
		long long value = pev_attr_get(attr, f);

		if (!value || !pev_attr_applies(attr, f) || strcmp(f->name, "type") == 0 ||
		    strcmp(f->name, "config") == 0)
			continue;
		n += snprintf(text + n, room - (size_t)n, f->bits ? ", %s=0x%llx" : ", %s=%lld",
			      f->name, value);
	}
	if (n > (int)room - 1)
		n = (int)room - 1;
	return n + snprintf(text + n, size - (size_t)n, "}");
}

static void push_attr(lua_State *L, void *args, int i)
{
	l_attr_push(L, L_SYS_ARG(struct pev_attr *, args, i));
}

/* A copy; an attr that no session has opened gets the size that the kernel asks for. */
static void set_attr(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	room->attr = *l_attr_check(L, idx);
	if (!room->attr.size)
		pev_attr_seal(&room->attr);
	L_SYS_ARG(struct pev_attr *, args, i) = &room->attr;
}

static int show_attr(char *text, size_t size, void *args, int i)
{
	return show_fields(text, size, L_SYS_ARG(struct pev_attr *, args, i));
}

const struct l_sys_kind l_sys_kind_attr = { push_attr, set_attr, show_attr };

/* Names for the numbers of ioctl's requests and fcntl's commands. */
struct number_name {
	unsigned long number;
	const char *name;
};

static const struct number_name request_names[] = {
	{ PERF_EVENT_IOC_ENABLE, "ENABLE" },
	{ PERF_EVENT_IOC_DISABLE, "DISABLE" },
	{ PERF_EVENT_IOC_REFRESH, "REFRESH" },
	{ PERF_EVENT_IOC_RESET, "RESET" },
	{ PERF_EVENT_IOC_PERIOD, "PERIOD" },
	{ PERF_EVENT_IOC_SET_OUTPUT, "SET_OUTPUT" },
	{ PERF_EVENT_IOC_SET_FILTER, "SET_FILTER" },
	{ PERF_EVENT_IOC_ID, "ID" },
	{ PERF_EVENT_IOC_SET_BPF, "SET_BPF" },
	{ PERF_EVENT_IOC_PAUSE_OUTPUT, "PAUSE_OUTPUT" },
	{ PERF_EVENT_IOC_QUERY_BPF, "QUERY_BPF" },
	{ PERF_EVENT_IOC_MODIFY_ATTRIBUTES, "MODIFY_ATTRIBUTES" },
	{ 0, NULL },
};

static const struct number_name command_names[] = {
	{ F_GETFL, "GETFL" },
	{ F_SETFL, "SETFL" },
	{ F_GETOWN, "GETOWN" },
	{ F_SETOWN, "SETOWN" },
	{ F_GETSIG, "GETSIG" },
	{ F_SETSIG, "SETSIG" },
	{ 0, NULL },
};

static const char *name_of(const struct number_name *names, unsigned long number)
{
	for (; names->name; names++)
		if (names->number == number)
			return names->name;
	return "?";
}

static unsigned long check_name(lua_State *L, int idx, const struct number_name *names,
				const char *refusal)
{
	const char *name = luaL_checkstring(L, idx);

	for (; names->name; names++)
		if (strcmp(names->name, name) == 0)
			return names->number;
	return (unsigned long)luaL_argerror(L, idx, refusal);
}

static void push_fcntl_command(lua_State *L, void *args, int i)
{
	lua_pushstring(L, name_of(command_names, L_SYS_ARG(unsigned, args, i)));
}

static void set_fcntl_command(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	(void)room;
	L_SYS_ARG(int, args, i) = (int)check_name(L, idx, command_names, "no such command");
}

static int show_fcntl_command(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "F_%s",
			name_of(command_names, L_SYS_ARG(unsigned, args, i)));
}

const struct l_sys_kind l_sys_kind_fcntl_command = { push_fcntl_command, set_fcntl_command,
						     show_fcntl_command };

static void push_request(lua_State *L, void *args, int i)
{
	lua_pushstring(L, name_of(request_names, L_SYS_ARG(unsigned long, args, i)));
}

static void set_request(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	room->request = check_name(L, idx, request_names, "no such request");
	L_SYS_ARG(unsigned long, args, i) = room->request;
}

static int show_request(char *text, size_t size, void *args, int i)
{
	return snprintf(text, size, "%s",
			name_of(request_names, L_SYS_ARG(unsigned long, args, i)));
}

const struct l_sys_kind l_sys_kind_request = { push_request, set_request, show_request };

static void push_request_arg(lua_State *L, void *args, int i)
{
	uintptr_t arg = L_SYS_ARG(uintptr_t, args, i);

	switch (L_SYS_ARG(unsigned long, args, i - 1)) {
	case PERF_EVENT_IOC_SET_FILTER:
		lua_pushstring(L, (const char *)arg);
		break;
	case PERF_EVENT_IOC_PERIOD:
		lua_pushinteger(L, (lua_Integer) * (const uint64_t *)arg);
		break;
	case PERF_EVENT_IOC_ID:
		lua_pushnil(L);
		break;
	case PERF_EVENT_IOC_QUERY_BPF:
		lua_pushinteger(L, ((const struct perf_event_query_bpf *)arg)->ids_len);
		break;
	case PERF_EVENT_IOC_MODIFY_ATTRIBUTES:
		l_attr_push(L, (const struct pev_attr *)arg);
		break;
	case PERF_EVENT_IOC_REFRESH:
	case PERF_EVENT_IOC_PAUSE_OUTPUT:
	case PERF_EVENT_IOC_SET_BPF:
		/* The kernel takes 32 bits of these. */
		lua_pushinteger(L, (int)arg);
		break;
	default:
		lua_pushinteger(L, (lua_Integer)arg);
	}
}

/* Room for as many ids as the hook's caller has. */
static struct perf_event_query_bpf *push_query(lua_State *L, int idx)
{
	lua_Integer nr = luaL_checkinteger(L, idx);
	struct perf_event_query_bpf *query;

	luaL_argcheck(L, nr >= 0 && nr <= 1 << 16, idx, "out of range");
	query = lua_newuserdatauv(L, sizeof(*query) + sizeof(query->ids[0]) * (size_t)nr, 0);
	query->ids_len = (uint32_t)nr;
	query->prog_cnt = 0;
	return query;
}

static void set_request_arg(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	uintptr_t arg;

	switch (L_SYS_ARG(unsigned long, args, i - 1)) {
	case PERF_EVENT_IOC_SET_FILTER:
		arg = (uintptr_t)luaL_checkstring(L, idx);
		break;
	case PERF_EVENT_IOC_QUERY_BPF:
		room->query = push_query(L, idx);
		arg = (uintptr_t)room->query;
		break;
	case PERF_EVENT_IOC_MODIFY_ATTRIBUTES:
		set_attr(L, idx, args, i, room);
		return;
	case PERF_EVENT_IOC_ID:
	case PERF_EVENT_IOC_PERIOD:
		room->value = (uint64_t)luaL_optinteger(L, idx, 0);
		arg = (uintptr_t)&room->value;
		break;
	default:
		arg = (uintptr_t)luaL_optinteger(L, idx, 0);
	}
	L_SYS_ARG(uintptr_t, args, i) = arg;
}

static int show_request_arg(char *text, size_t size, void *args, int i)
{
	uintptr_t arg = L_SYS_ARG(uintptr_t, args, i);
	const struct perf_event_query_bpf *query = (const void *)arg;

	switch (L_SYS_ARG(unsigned long, args, i - 1)) {
	case PERF_EVENT_IOC_SET_FILTER:
		return snprintf(text, size, "\"%.200s\"", (const char *)arg);
	case PERF_EVENT_IOC_ID:
	case PERF_EVENT_IOC_PERIOD:
		return snprintf(text, size, "[%" PRIu64 "]", *(const uint64_t *)arg);
	case PERF_EVENT_IOC_QUERY_BPF:
		return snprintf(text, size, "{ids_len=%u, prog_cnt=%u}", query->ids_len,
				query->prog_cnt);
	case PERF_EVENT_IOC_MODIFY_ATTRIBUTES:
		return show_fields(text, size, (const struct pev_attr *)arg);
	default:
		return snprintf(text, size, "%ld", (long)arg);
	}
}

const struct l_sys_kind l_sys_kind_request_arg = { push_request_arg, set_request_arg,
						   show_request_arg };

/* ---- room for output ---- */

const struct l_sys_kind l_sys_kind_buffer = { NULL, NULL, NULL };

static void set_buffer_len(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	lua_Integer len = luaL_checkinteger(L, idx);

	luaL_argcheck(L, len >= 0 && len <= READ_MAX, idx, "out of range");
	room->buffer = lua_newuserdatauv(L, (size_t)len, 0);
	L_SYS_ARG(void *, args, i - 1) = room->buffer;
	L_SYS_ARG(size_t, args, i) = (size_t)len;
}

const struct l_sys_kind l_sys_kind_buffer_len = { push_size, set_buffer_len, show_size };

static void set_max_events(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	int max = check_int(L, idx);

	(void)room;
	luaL_argcheck(L, max > 0, idx, "no room");
	L_SYS_ARG(int, args, i) = max < L_SYS_MAX_EVENTS ? max : L_SYS_MAX_EVENTS;
}

const struct l_sys_kind l_sys_kind_max_events = { push_int, set_max_events, NULL };

/* Output with a place in the room. */
#define PLACE(name, type, place)                                                                   \
	static void set_##name(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)  \
	{                                                                                          \
		(void)L;                                                                           \
		(void)idx;                                                                         \
		(void)room;                                                                        \
		L_SYS_ARG(type, args, i) = (place);                                                \
	}                                                                                          \
	const struct l_sys_kind l_sys_kind_##name = { NULL, set_##name, NULL }

PLACE(events, struct epoll_event *, room->events);
PLACE(stat, struct pev_stat *, &room->stat);
PLACE(value, uint64_t *, &room->value);
PLACE(status, int *, &room->status);
PLACE(spawned, struct pev_spawned *, &room->spawned);
PLACE(path_buffer, char *, room->path);
PLACE(path_buffer_len, size_t, sizeof(room->path));
PLACE(block, char **, (char **)(room->block = l_block_push(L)));
PLACE(block_len, size_t *, &room->len);
