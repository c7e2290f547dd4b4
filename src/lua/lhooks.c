/*
 * lhooks.c - Lua functions in the place of system calls; see lhooks.h.
 *
 * A hook gets the call's arguments as Lua values and returns what the call
 * would: a number >= 0 (or true for 0), bytes or names where the call gives some,
 * or nil and an errno. An error it raises never jumps across C frames, nor does what
 * we do around it when memory runs out: it is kept, the call returns -ECANCELED, and
 * the binding raises it again.
 */
#include "lhooks.h"

#include <errno.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "../err.h"
#include "../rights.h"
#include "lattr.h"
#include "lclass.h"
#include "lcore.h"
#include "lmemory.h"
#include "lreal.h"

#define HOOKS_TYPE "perfev.hooks"
#define STACK_KEY "perfev.hooks.stack"     /* registry: list of hook sets */

/* Registry: what a hook raised; the key itself while there is nothing, so that it stays there. */
static const char pending_key;
/* Registry: the names of all hooks, for none to be made anew when there is no memory. */
static const char names_key;

struct l_hooks {
	struct pev_sys sys;
	const struct pev_sys *under; /* Linux, or below a log what was in force before */
	lua_State *L;        /* of the binding that runs now */
	/*
	 * Registry references, not user values: a session that is collected closes
	 * through its hooks, when these are garbage as well.
	 */
	int functions, log, below;
	int memory;          /* list: what mmap hooks gave; false, or true while one is asked */
};

/* ---- calling Lua ---- */

enum way { WAY_REAL, WAY_LUA, WAY_ERROR };

static void *none(void)
{
	return (void *)(uintptr_t)&pending_key;
}

void l_keep_error(lua_State *L)
{
	/* The first one is what went wrong; what it causes is not. */
	lua_rawgetp(L, LUA_REGISTRYINDEX, &pending_key);
	if (lua_touserdata(L, -1) != none()) {
		lua_pop(L, 2);
		return;
	}
	lua_pop(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
}

void l_raise_pending(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &pending_key);
	if (lua_touserdata(L, -1) == none()) {
		lua_pop(L, 1);
		return;
	}
	lua_pushlightuserdata(L, none());
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
	lua_error(L);
}

static void push_ref(struct l_hooks *h, int ref)
{
	lua_rawgeti(h->L, LUA_REGISTRYINDEX, ref);
}

/* Push the Lua function for this call, if there is one. */
static enum way begin(struct l_hooks *h, const char *name)
{
	lua_State *L = h->L;
	bool strict;

	if (!lua_checkstack(L, LUA_MINSTACK))
		return WAY_REAL;
	push_ref(h, h->functions);
	lua_getfield(L, -1, "strict");
	strict = lua_toboolean(L, -1);
	lua_pop(L, 1);
	if (lua_getfield(L, -1, name) != LUA_TNIL) {
		lua_remove(L, -2);
		return WAY_LUA;
	}
	lua_pop(L, 2);
	if (!strict)
		return WAY_REAL;
	lua_pushfstring(L, "hook '%s' is called, but the hook table has none and is strict", name);
	l_keep_error(L);
	return WAY_ERROR;
}

static int64_t bad_answer(struct l_hooks *h, const char *name, const char *wanted)
{
	lua_State *L = h->L;

	lua_pushfstring(L, "hook '%s' returned %s; %s or nil and an errno was expected", name,
			luaL_typename(L, -2), wanted);
	lua_insert(L, -3);
	lua_pop(L, 2);
	l_keep_error(L);
	return -ECANCELED;
}

/* Call what begin pushed. -errno with nothing on the stack, or 0 with two results there. */
static int64_t call(struct l_hooks *h, const char *name, int nargs)
{
	lua_State *L = h->L;
	int rc = lua_pcall(L, nargs, 2, 0);
	lua_Integer code;

	h->L = L; /* a hook may have used the library from a coroutine */
	if (rc != LUA_OK) {
		l_keep_error(L);
		return -ECANCELED;
	}
	if (!lua_isnil(L, -2))
		return 0;
	code = lua_tointeger(L, -1);
	if (code <= 0)
		return bad_answer(h, name, "a result");
	lua_pop(L, 2);
	return -code;
}

/* The same for a call that gives a number. */
static int64_t call_number(struct l_hooks *h, const char *name, int nargs)
{
	int64_t rc = call(h, name, nargs);
	int is_number;
	lua_Integer n;

	if (rc < 0)
		return rc;
	if (lua_isboolean(h->L, -2)) {
		lua_pop(h->L, 2);
		return 0;
	}
	n = lua_tointegerx(h->L, -2, &is_number);
	if (!is_number)
		return bad_answer(h, name, "a number");
	lua_pop(h->L, 2);
	return n;
}

/* The same for one that gives all of 64 bits. */
static int call_u64(struct l_hooks *h, const char *name, int nargs, uint64_t *value)
{
	int64_t rc = call(h, name, nargs);
	int is_number;

	if (rc < 0)
		return (int)rc;
	*value = (uint64_t)lua_tointegerx(h->L, -2, &is_number);
	if (!is_number)
		return (int)bad_answer(h, name, "a number");
	lua_pop(h->L, 2);
	return 0;
}

/* Tell the log what was called and what came of it, the way strace writes it. */
static int64_t logged(struct l_hooks *h, int64_t rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* (log, text): log(text) */
static int l_log_line(lua_State *L)
{
	lua_pushstring(L, lua_touserdata(L, 2));
	lua_replace(L, 2);
	lua_call(L, 1, 0);
	return 0;
}

static int64_t logged(struct l_hooks *h, int64_t rc, const char *format, ...)
{
	lua_State *L = h->L;
	char text[1536];
	va_list args;
	int n;

	if (h->log == LUA_NOREF)
		return rc;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(text)) {
		if (rc < 0)
			snprintf(text + n, sizeof(text) - (size_t)n, " = -1 %s",
				 pev_errno_name((int)rc));
		else
			snprintf(text + n, sizeof(text) - (size_t)n, " = %" PRId64, rc);
	}
	/* In protected mode: the call is made, and its result is not to be lost. */
	lua_pushcfunction(L, l_log_line);
	push_ref(h, h->log);
	lua_pushlightuserdata(L, text);
	if (lua_pcall(L, 2, 0, 0) != LUA_OK)
		l_keep_error(L);
	h->L = L;
	return rc;
}

/* What a call that the set does not name goes to. */
#define UNDER(h, call, ...) ((h)->under->call((h)->under->ctx, ##__VA_ARGS__))

/* One call with number arguments and a number as its result. */
#define HOOK_NUMBER(h, name, real, push, ...)                                                      \
	({                                                                                         \
		int64_t hook_rc_;                                                                  \
		switch (begin(h, name)) {                                                          \
		case WAY_REAL:                                                                     \
			hook_rc_ = (real);                                                         \
			break;                                                                     \
		case WAY_LUA:                                                                      \
			hook_rc_ = call_number(h, name, push);                                     \
			break;                                                                     \
		default:                                                                           \
			hook_rc_ = -ECANCELED;                                                     \
		}                                                                                  \
		logged(h, hook_rc_, __VA_ARGS__);                                                  \
	})

static int push_ints(lua_State *L, int nr, ...)
{
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < nr; i++)
		lua_pushinteger(L, va_arg(args, int64_t));
	va_end(args);
	return nr;
}
#define INTS1(h, a) push_ints((h)->L, 1, (int64_t)(a))
#define INTS2(h, a, b) push_ints((h)->L, 2, (int64_t)(a), (int64_t)(b))
#define INTS3(h, a, b, c) push_ints((h)->L, 3, (int64_t)(a), (int64_t)(b), (int64_t)(c))
#define INTS5(h, a, b, c, d, e)                                                                    \
	push_ints((h)->L, 5, (int64_t)(a), (int64_t)(b), (int64_t)(c), (int64_t)(d), (int64_t)(e))

/* ---- the calls ---- */

#define ATTR_TEXT 1024 /* about what a line of a terminal's window can bear */

/* The words that are set, under the kernel's names: "type=1, size=136, sample_type=0x10087". */
static const char *attr_text(const struct pev_attr *attr, char *text)
{
	int n = snprintf(text, ATTR_TEXT, "type=%u, size=%u, config=0x%" PRIx64, attr->type,
			 attr->size, attr->config);

	for (const struct pev_attr_field *f = pev_attr_fields; f->name && n < ATTR_TEXT; f++) {
		long long value = pev_attr_get(attr, f);

		if (!value || !pev_attr_speaks(attr, f) || strcmp(f->name, "type") == 0 ||
		    strcmp(f->name, "config") == 0)
			continue;
		n += snprintf(text + n, (size_t)(ATTR_TEXT - n), f->bits ? ", %s=0x%llx" :
			      ", %s=%lld", f->name, value);
	}
	return text;
}

/*
 * perf_event_open(attr, pid, cpu, group_fd, flags) -> fd; attr may be changed by the
 * hook, its size as well, which is how the kernel tells its own with E2BIG.
 */
static int hook_perf_event_open(void *ctx, struct pev_attr *attr, int pid, int cpu, int group_fd,
				unsigned long flags)
{
	struct l_hooks *h = ctx;
	char text[ATTR_TEXT];
	int64_t rc;

	attr_text(attr, text); /* as it was asked for */
	switch (begin(h, "perf_event_open")) {
	case WAY_REAL:
		rc = UNDER(h, perf_event_open, attr, pid, cpu, group_fd, flags);
		break;
	case WAY_LUA: {
		struct pev_attr *seen;

		l_attr_push(h->L, attr);
		/* Kept below the function, to be read after the call. */
		lua_pushvalue(h->L, -1);
		lua_insert(h->L, -3);
		push_ints(h->L, 4, (int64_t)pid, (int64_t)cpu, (int64_t)group_fd, (int64_t)flags);
		rc = call_number(h, "perf_event_open", 5);
		seen = l_attr_check(h->L, -1);
		*attr = *seen;
		lua_pop(h->L, 1);
		break;
	}
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "perf_event_open({%s}, pid=%d, cpu=%d, group_fd=%d, flags=0x%lx)",
			   text, pid, cpu, group_fd, flags);
}

/* Push the argument as the request has it. */
static void push_ioctl_arg(lua_State *L, unsigned long request, uintptr_t arg)
{
	switch (request) {
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

/*
 * QUERY_BPF's hook gives { ids }, and how many programs there are where that is
 * more than it lists. As the kernel does it: what has no room is counted, not copied.
 */
static int64_t query_bpf(struct l_hooks *h, struct perf_event_query_bpf *query)
{
	lua_State *L = h->L;
	int64_t rc = call(h, "ioctl", 3);
	lua_Integer nr;

	if (rc < 0)
		return rc;
	if (!lua_istable(L, -2))
		return bad_answer(h, "ioctl", "a list of program ids");
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

static int64_t log_ioctl(struct l_hooks *h, int64_t rc, int fd, unsigned long request,
			 uintptr_t arg)
{
	const char *name = l_ioctl_name(request);

	switch (request) {
	case PERF_EVENT_IOC_SET_FILTER:
		return logged(h, rc, "ioctl(%d, %s, \"%.200s\")", fd, name, (const char *)arg);
	case PERF_EVENT_IOC_ID:
	case PERF_EVENT_IOC_PERIOD:
		return logged(h, rc, "ioctl(%d, %s, [%" PRIu64 "])", fd, name,
			      *(const uint64_t *)arg);
	case PERF_EVENT_IOC_QUERY_BPF: {
		const struct perf_event_query_bpf *query = (const void *)arg;

		return logged(h, rc, "ioctl(%d, %s, {ids_len=%u, prog_cnt=%u})", fd, name,
			      query->ids_len, query->prog_cnt);
	}
	case PERF_EVENT_IOC_MODIFY_ATTRIBUTES: {
		char text[ATTR_TEXT];

		return logged(h, rc, "ioctl(%d, %s, {%s})", fd, name,
			      attr_text((const struct pev_attr *)arg, text));
	}
	default:
		return logged(h, rc, "ioctl(%d, %s, %ld)", fd, name, (long)arg);
	}
}

/* ioctl(fd, name, arg) -> number; ID's result is the id, QUERY_BPF's the list of ids. */
static int hook_ioctl(void *ctx, int fd, unsigned long request, uintptr_t arg)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "ioctl")) {
	case WAY_REAL:
		rc = UNDER(h, ioctl, fd, request, arg);
		break;
	case WAY_LUA:
		lua_pushinteger(h->L, fd);
		lua_pushstring(h->L, l_ioctl_name(request));
		push_ioctl_arg(h->L, request, arg);
		if (request == PERF_EVENT_IOC_QUERY_BPF) {
			rc = query_bpf(h, (struct perf_event_query_bpf *)arg);
			break;
		}
		rc = call_number(h, "ioctl", 3);
		if (rc >= 0 && request == PERF_EVENT_IOC_ID) {
			*(uint64_t *)arg = (uint64_t)rc;
			rc = 0;
		}
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)log_ioctl(h, rc, fd, request, arg);
}

/*
 * A place in the list of what is mapped, which holds on to it until munmap,
 * whatever the script keeps. Made before the hook is asked: it may need memory.
 */
static lua_Integer reserve_memory(struct l_hooks *h)
{
	lua_State *L = h->L;
	lua_Integer i = 1, nr;
	bool is_free = false;

	push_ref(h, h->memory);
	nr = (lua_Integer)lua_rawlen(L, -1);
	for (; i <= nr && !is_free; i += !is_free) {
		lua_rawgeti(L, -1, i);
		is_free = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	lua_pushboolean(L, 1);
	lua_rawseti(L, -2, i);
	lua_pop(L, 1);
	return i;
}

/* Put the value on top into that place. */
static void set_memory(struct l_hooks *h, lua_Integer at)
{
	push_ref(h, h->memory);
	lua_insert(h->L, -2);
	lua_rawseti(h->L, -2, at);
	lua_pop(h->L, 1);
}

/* What a mmap hook gave at that address: pushed, and where it stands; or 0. */
static lua_Integer push_memory(struct l_hooks *h, const void *addr)
{
	lua_State *L = h->L;
	lua_Integer nr;

	push_ref(h, h->memory);
	nr = (lua_Integer)lua_rawlen(L, -1);
	for (lua_Integer i = 1; i <= nr; i++) {
		const struct l_memory *memory;

		lua_rawgeti(L, -1, i);
		memory = l_memory_test(L, -1);
		if (memory && memory->bytes == addr) {
			lua_remove(L, -2);
			return i;
		}
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return 0;
}

/* mmap(len, prot, fd, offset) -> a hooks.memory of at least len bytes */
static int hook_mmap(void *ctx, size_t len, int prot, int fd, uint64_t offset, void **addr)
{
	struct l_hooks *h = ctx;
	struct l_memory *memory;
	lua_Integer at;
	int64_t rc;

	switch (begin(h, "mmap")) {
	case WAY_REAL:
		rc = UNDER(h, mmap, len, prot, fd, offset, addr);
		break;
	case WAY_LUA:
		at = reserve_memory(h);
		push_ints(h->L, 4, (int64_t)len, (int64_t)prot, (int64_t)fd, (int64_t)offset);
		rc = call(h, "mmap", 4);
		if (rc == 0) {
			lua_pop(h->L, 1);
			memory = l_memory_test(h->L, -1);
			if (memory && memory->len >= len) {
				*addr = memory->bytes;
				set_memory(h, at);
				break;
			}
			lua_pushnil(h->L);
			rc = bad_answer(h, "mmap", "a memory of that length");
		}
		lua_pushboolean(h->L, 0);
		set_memory(h, at);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "mmap(%zu, prot=%d, fd=%d, offset=%" PRIu64 ")", len, prot, fd,
			   offset);
}

static int hook_munmap(void *ctx, void *addr, size_t len)
{
	struct l_hooks *h = ctx;
	lua_Integer at = push_memory(h, addr);
	struct l_memory *memory;
	int64_t rc;

	if (!at)
		return (int)logged(h, UNDER(h, munmap, addr, len), "munmap(%zu)", len);
	memory = l_memory_test(h->L, -1);
	if (begin(h, "munmap") == WAY_LUA) {
		lua_pushvalue(h->L, -2);
		lua_pushinteger(h->L, (lua_Integer)len);
		rc = call_number(h, "munmap", 2);
	} else {
		/* A hook that mapped for real and leaves the rest to us. */
		rc = memory->mapped ? UNDER(h, munmap, addr, len) : 0;
		if (memory->mapped)
			*memory = (struct l_memory){ 0 };
	}
	lua_pushboolean(h->L, 0);
	set_memory(h, at);
	lua_pop(h->L, 1);
	return (int)logged(h, rc, "munmap(%zu)", len);
}

/* open(path, flags) -> fd */
static int hook_open(void *ctx, const char *path, int flags)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "open")) {
	case WAY_REAL:
		rc = UNDER(h, open, path, flags);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		lua_pushinteger(h->L, flags);
		rc = call_number(h, "open", 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "open(\"%s\", 0x%x)", path, (unsigned)flags);
}

/* The bytes that read(fd, len) or pread(fd, len, offset) gave, at most len of them. */
static int64_t take_bytes(struct l_hooks *h, const char *name, int nargs, void *buf, size_t len)
{
	int64_t rc = call(h, name, nargs);
	const char *bytes;
	size_t got;

	if (rc < 0)
		return rc;
	bytes = lua_tolstring(h->L, -2, &got);
	if (!bytes || got > len)
		return bad_answer(h, name, "at most so many bytes");
	memcpy(buf, bytes, got);
	lua_pop(h->L, 2);
	return (int64_t)got;
}

/* read(fd, len) -> bytes */
static int64_t hook_read(void *ctx, int fd, void *buf, size_t len)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "read")) {
	case WAY_REAL:
		rc = UNDER(h, read, fd, buf, len);
		break;
	case WAY_LUA:
		rc = take_bytes(h, "read", INTS2(h, fd, len), buf, len);
		break;
	default:
		rc = -ECANCELED;
	}
	return logged(h, rc, "read(%d, %zu)", fd, len);
}

/* pread(fd, len, offset) -> bytes */
static int64_t hook_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "pread")) {
	case WAY_REAL:
		rc = UNDER(h, pread, fd, buf, len, offset);
		break;
	case WAY_LUA:
		rc = take_bytes(h, "pread", INTS3(h, fd, len, offset), buf, len);
		break;
	default:
		rc = -ECANCELED;
	}
	return logged(h, rc, "pread(%d, %zu, %" PRIu64 ")", fd, len, offset);
}

/* The pieces as one string: false where there is no memory for it. */
static size_t push_pieces(lua_State *L, const struct iovec *pieces, int nr)
{
	luaL_Buffer bytes;
	size_t len = 0;

	luaL_buffinit(L, &bytes);
	for (int i = 0; i < nr; i++) {
		luaL_addlstring(&bytes, pieces[i].iov_base, pieces[i].iov_len);
		len += pieces[i].iov_len;
	}
	luaL_pushresult(&bytes);
	return len;
}

/* A hook cannot have written more than it was given. */
static int64_t call_write(struct l_hooks *h, const char *name, int nargs, size_t len)
{
	int64_t rc = call_number(h, name, nargs);

	if (rc < 0 || (size_t)rc <= len)
		return rc;
	lua_pushfstring(h->L, "hook '%s' returned more bytes than it was given", name);
	l_keep_error(h->L);
	return -ECANCELED;
}

/* writev(fd, bytes) -> how many */
static int64_t hook_writev(void *ctx, int fd, const struct iovec *pieces, int nr)
{
	struct l_hooks *h = ctx;
	size_t len = 0;
	int64_t rc;

	switch (begin(h, "writev")) {
	case WAY_REAL:
		rc = UNDER(h, writev, fd, pieces, nr);
		break;
	case WAY_LUA:
		lua_pushinteger(h->L, fd);
		len = push_pieces(h->L, pieces, nr);
		rc = call_write(h, "writev", 2, len);
		break;
	default:
		rc = -ECANCELED;
	}
	return logged(h, rc, "writev(%d, %d pieces)", fd, nr);
}

/* pwrite(fd, bytes, offset) -> how many */
static int64_t hook_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "pwrite")) {
	case WAY_REAL:
		rc = UNDER(h, pwrite, fd, buf, len, offset);
		break;
	case WAY_LUA:
		lua_pushinteger(h->L, fd);
		lua_pushlstring(h->L, buf, len);
		lua_pushinteger(h->L, (lua_Integer)offset);
		rc = call_write(h, "pwrite", 3, len);
		break;
	default:
		rc = -ECANCELED;
	}
	return logged(h, rc, "pwrite(%d, %zu, %" PRIu64 ")", fd, len, offset);
}

/* ftruncate(fd, length) */
static int hook_ftruncate(void *ctx, int fd, uint64_t len)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "ftruncate", UNDER(h, ftruncate, fd, len), INTS2(h, fd, len),
				"ftruncate(%d, %" PRIu64 ")", fd, len);
}

/* The field of the table on top, of a hook's; 0 where it has none. */
static uint64_t stat_field(lua_State *L, const char *name)
{
	uint64_t value;

	lua_pushstring(L, name);
	lua_rawget(L, -2);
	value = (uint64_t)lua_tointeger(L, -1);
	lua_pop(L, 1);
	return value;
}

/* The { dev=, ino=, mode=, uid=, size= } that stat(path) or fstat(fd) gave. */
static int64_t take_stat(struct l_hooks *h, const char *name, struct pev_stat *out)
{
	lua_State *L = h->L;
	int64_t rc = call(h, name, 1);

	if (rc < 0)
		return rc;
	if (!lua_istable(L, -2))
		return bad_answer(h, name, "a table");
	lua_pop(L, 1);
	*out = (struct pev_stat){ .dev = stat_field(L, "dev"),
				  .ino = stat_field(L, "ino"),
				  .mode = (uint32_t)stat_field(L, "mode"),
				  .uid = (uint32_t)stat_field(L, "uid"),
				  .size = stat_field(L, "size") };
	lua_pop(L, 1);
	return 0;
}

/* fstat(fd) -> { dev=, ino=, mode=, uid=, size= } */
static int hook_fstat(void *ctx, int fd, struct pev_stat *out)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "fstat")) {
	case WAY_REAL:
		rc = UNDER(h, fstat, fd, out);
		break;
	case WAY_LUA:
		lua_pushinteger(h->L, fd);
		rc = take_stat(h, "fstat", out);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "fstat(%d)", fd);
}

static int push_paths(struct l_hooks *h, const char *from, const char *to)
{
	lua_pushstring(h->L, from);
	lua_pushstring(h->L, to);
	return 2;
}

/* rename(from, to) */
static int hook_rename(void *ctx, const char *from, const char *to)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "rename", UNDER(h, rename, from, to), push_paths(h, from, to),
				"rename(\"%s\", \"%s\")", from, to);
}

/* unlink(path) */
static int hook_unlink(void *ctx, const char *path)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "unlink")) {
	case WAY_REAL:
		rc = UNDER(h, unlink, path);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		rc = call_number(h, "unlink", 1);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "unlink(\"%s\")", path);
}

static int hook_close(void *ctx, int fd)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "close", UNDER(h, close, fd), INTS1(h, fd), "close(%d)", fd);
}

/* fcntl(fd, name, arg) -> number */
static int hook_fcntl(void *ctx, int fd, int cmd, int arg)
{
	struct l_hooks *h = ctx;
	const char *name = l_fcntl_name(cmd);
	int64_t rc;

	switch (begin(h, "fcntl")) {
	case WAY_REAL:
		rc = UNDER(h, fcntl, fd, cmd, arg);
		break;
	case WAY_LUA:
		lua_pushinteger(h->L, fd);
		lua_pushstring(h->L, name);
		lua_pushinteger(h->L, arg);
		rc = call_number(h, "fcntl", 3);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "fcntl(%d, F_%s, 0x%x)", fd, name, (unsigned)arg);
}

static int hook_epoll_create(void *ctx)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "epoll_create", UNDER(h, epoll_create), 0, "epoll_create1()");
}

static int hook_epoll_ctl(void *ctx, int epfd, int op, int fd, uint32_t events, uint64_t tag)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "epoll_ctl", UNDER(h, epoll_ctl, epfd, op, fd, events, tag),
				INTS5(h, epfd, op, fd, events, tag),
				"epoll_ctl(%d, %s, %d, 0x%x)", epfd,
				op == EPOLL_CTL_ADD ? "ADD" : "DEL", fd, events);
}

/* epoll_wait(epfd, max, timeout_ms) -> { {events, tag}, ... } */
static int hook_epoll_wait(void *ctx, int epfd, struct epoll_event *events, int max,
			   int timeout_ms)
{
	struct l_hooks *h = ctx;
	int64_t rc;
	int nr = 0;

	switch (begin(h, "epoll_wait")) {
	case WAY_REAL:
		rc = UNDER(h, epoll_wait, epfd, events, max, timeout_ms);
		break;
	case WAY_LUA:
		rc = call(h, "epoll_wait", INTS3(h, epfd, max, timeout_ms));
		if (rc < 0)
			break;
		while (lua_istable(h->L, -2) && nr < max &&
		       lua_rawgeti(h->L, -2, nr + 1) == LUA_TTABLE) {
			lua_rawgeti(h->L, -1, 1);
			lua_rawgeti(h->L, -2, 2);
			events[nr].events = (uint32_t)lua_tointeger(h->L, -2);
			events[nr].data.u64 = (uint64_t)lua_tointeger(h->L, -1);
			lua_pop(h->L, 3);
			nr++;
		}
		if (lua_istable(h->L, -2) && nr == max) {
			lua_pop(h->L, 2);
		} else if (lua_istable(h->L, -3)) {
			lua_pop(h->L, 3);
		} else {
			rc = bad_answer(h, "epoll_wait", "a list of {events, tag}");
			break;
		}
		rc = nr;
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "epoll_wait(%d, %d ms)", epfd, timeout_ms);
}

/* clock(clockid) -> ns */
static int hook_clock(void *ctx, int clockid, uint64_t *ns)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "clock")) {
	case WAY_REAL:
		/* Not logged: it is read through the vdso, without a system call. */
		return UNDER(h, clock, clockid, ns);
	case WAY_LUA:
		rc = call_number(h, "clock", INTS1(h, clockid));
		if (rc < 0)
			return (int)rc;
		*ns = (uint64_t)rc;
		return 0;
	default:
		return -ECANCELED;
	}
}

static int hook_timerfd(void *ctx, uint64_t first_ns, uint64_t every_ns)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "timerfd", UNDER(h, timerfd, first_ns, every_ns),
				INTS2(h, first_ns, every_ns),
				"timerfd(%" PRIu64 " ns, every %" PRIu64 " ns)", first_ns,
				every_ns);
}

static int hook_signalfd(void *ctx, uint64_t signals)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "signalfd", UNDER(h, signalfd, signals), INTS1(h, signals),
				"signalfd(0x%" PRIx64 ")", signals);
}

/* sigblock(signals, block) -> the signals whose state changed */
static int hook_sigblock(void *ctx, uint64_t signals, int block, uint64_t *changed)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	*changed = 0;
	switch (begin(h, "sigblock")) {
	case WAY_REAL:
		rc = UNDER(h, sigblock, signals, block, changed);
		break;
	case WAY_LUA:
		rc = call_number(h, "sigblock", INTS2(h, signals, block));
		if (rc >= 0)
			*changed = (uint64_t)rc;
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc < 0 ? rc : 0, "sigblock(0x%" PRIx64 ", %d)", signals, block);
}

/* spawn({argv...}, signals to unblock in it) -> pid, gate */
static int hook_spawn(void *ctx, const struct pev_spawn *spawn, struct pev_spawned *out)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "spawn")) {
	case WAY_REAL:
		rc = UNDER(h, spawn, spawn, out);
		break;
	case WAY_LUA:
		lua_newtable(h->L);
		for (int i = 0; spawn->argv[i]; i++) {
			lua_pushstring(h->L, spawn->argv[i]);
			lua_rawseti(h->L, -2, i + 1);
		}
		lua_pushinteger(h->L, (lua_Integer)spawn->unblock);
		rc = call(h, "spawn", 2);
		if (rc < 0)
			break;
		out->pid = (int)lua_tointeger(h->L, -2);
		out->gate = (int)lua_tointeger(h->L, -1);
		lua_pop(h->L, 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "spawn(\"%.200s\")%s", spawn->argv[0], rc < 0 ? "" : " held");
}

static int hook_release(void *ctx, int gate, int stop)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "release", UNDER(h, release, gate, stop), INTS2(h, gate, stop),
				"release(%d, %d)", gate, stop);
}

static int hook_resume(void *ctx, int pid)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "resume", UNDER(h, resume, pid), INTS1(h, pid), "resume(%d)",
				pid);
}

static int hook_pidfd_open(void *ctx, int pid)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "pidfd_open", UNDER(h, pidfd_open, pid), INTS1(h, pid),
				"pidfd_open(%d)", pid);
}

/* wait(pid, block) -> status when it ended, false while it runs */
static int hook_wait(void *ctx, int pid, int block, int *status)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "wait")) {
	case WAY_REAL:
		rc = UNDER(h, wait, pid, block, status);
		break;
	case WAY_LUA:
		rc = call(h, "wait", INTS2(h, pid, block));
		if (rc < 0)
			break;
		rc = lua_toboolean(h->L, -2) ? pid : 0;
		*status = (int)lua_tointeger(h->L, -2);
		lua_pop(h->L, 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "waitpid(%d, %s)", pid, block ? "0" : "WNOHANG");
}

static int hook_kill(void *ctx, int pid, int sig)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "kill", UNDER(h, kill, pid, sig), INTS2(h, pid, sig),
				"kill(%d, %d)", pid, sig);
}

/* slurp(path) -> the file's bytes */
static int hook_slurp(void *ctx, const char *path, char **text, size_t *len)
{
	struct l_hooks *h = ctx;
	const char *bytes;
	int64_t rc;

	switch (begin(h, "slurp")) {
	case WAY_REAL:
		rc = UNDER(h, slurp, path, text, len);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		rc = call(h, "slurp", 1);
		if (rc < 0)
			break;
		bytes = lua_tolstring(h->L, -2, len);
		if (!bytes) {
			rc = bad_answer(h, "slurp", "a string");
			break;
		}
		*text = malloc(*len + 1);
		if (*text)
			memcpy(*text, bytes, *len + 1);
		else
			rc = -ENOMEM;
		lua_pop(h->L, 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "slurp(\"%s\")", path);
}

/* Names of the list at idx, each with its NUL. */
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

/* list(path) -> { names } */
static int hook_list(void *ctx, const char *path, char **names, size_t *len)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "list")) {
	case WAY_REAL:
		rc = UNDER(h, list, path, names, len);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		rc = call(h, "list", 1);
		if (rc < 0)
			break;
		if (!lua_istable(h->L, -2)) {
			rc = bad_answer(h, "list", "a list of names");
			break;
		}
		rc = join_names(h->L, lua_gettop(h->L) - 1, names, len);
		lua_pop(h->L, 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "list(\"%s\")", path);
}

static int push_path(struct l_hooks *h, const char *path)
{
	lua_pushstring(h->L, path);
	return 1;
}

/* directory(path) -> fd */
static int hook_directory(void *ctx, const char *path)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "directory", UNDER(h, directory, path), push_path(h, path),
				"directory(\"%s\")", path);
}

static int push_append(struct l_hooks *h, const char *path, const char *text)
{
	lua_pushstring(h->L, path);
	lua_pushstring(h->L, text);
	return 2;
}

/* append(path, text) */
static int hook_append(void *ctx, const char *path, const char *text)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "append", UNDER(h, append, path, text),
				push_append(h, path, text), "append(\"%s\", \"%s\")", path, text);
}

static int hook_raise_nofile(void *ctx)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "raise_nofile", UNDER(h, raise_nofile), 0, "raise_nofile()");
}

static int hook_getpid(void *ctx)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "getpid", UNDER(h, getpid), 0, "getpid()");
}

/* capset(keep) -> 0; keep: bit n for capability n */
static int hook_capset(void *ctx, uint64_t keep)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "capset", UNDER(h, capset, keep), INTS1(h, keep),
				"capset(0x%" PRIx64 ")", keep);
}

/* prctl(option) -> 0; 31 disables, 32 enables the task's events */
static int hook_prctl(void *ctx, int option)
{
	struct l_hooks *h = ctx;

	return (int)HOOK_NUMBER(h, "prctl", UNDER(h, prctl, option), INTS1(h, option), "prctl(%d)",
				option);
}

/* readlink(path) -> where it points */
static int hook_readlink(void *ctx, const char *path, char *buf, size_t cap)
{
	struct l_hooks *h = ctx;
	const char *target;
	size_t len;
	int64_t rc;

	switch (begin(h, "readlink")) {
	case WAY_REAL:
		rc = UNDER(h, readlink, path, buf, cap);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		rc = call(h, "readlink", 1);
		if (rc < 0)
			break;
		target = lua_tolstring(h->L, -2, &len);
		if (!target) {
			rc = bad_answer(h, "readlink", "a string");
			break;
		}
		rc = (int64_t)(len < cap ? len : cap);
		memcpy(buf, target, (size_t)rc);
		lua_pop(h->L, 2);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "readlink(\"%s\")", path);
}

/* stat(path) -> { dev=, ino=, mode=, uid=, size= } */
static int hook_stat(void *ctx, const char *path, struct pev_stat *out)
{
	struct l_hooks *h = ctx;
	int64_t rc;

	switch (begin(h, "stat")) {
	case WAY_REAL:
		rc = UNDER(h, stat, path, out);
		break;
	case WAY_LUA:
		lua_pushstring(h->L, path);
		rc = take_stat(h, "stat", out);
		break;
	default:
		rc = -ECANCELED;
	}
	return (int)logged(h, rc, "stat(\"%s\")", path);
}

/* pagesize() -> bytes, a power of two; not logged, it is no system call. */
static int hook_pagesize(void *ctx)
{
	struct l_hooks *h = ctx;
	int64_t rc = 0;

	if (begin(h, "pagesize") == WAY_LUA)
		rc = call_number(h, "pagesize", 0);
	return rc > 0 && rc <= INT_MAX && !(rc & (rc - 1)) ? (int)rc : -EINVAL;
}

/* rdpmc(counter) -> value */
static int hook_rdpmc(void *ctx, uint32_t counter, uint64_t *value)
{
	struct l_hooks *h = ctx;

	switch (begin(h, "rdpmc")) {
	case WAY_REAL:
		return UNDER(h, rdpmc, counter, value);
	case WAY_LUA:
		return call_u64(h, "rdpmc", INTS1(h, counter), value);
	default:
		return -ECANCELED;
	}
}

/* rdtsc() -> cycles */
static int hook_rdtsc(void *ctx, uint64_t *cycles)
{
	struct l_hooks *h = ctx;

	switch (begin(h, "rdtsc")) {
	case WAY_REAL:
		return UNDER(h, rdtsc, cycles);
	case WAY_LUA:
		return call_u64(h, "rdtsc", 0, cycles);
	default:
		return -ECANCELED;
	}
}

/* ---- all of them in protected mode ---- */

static void guard(struct l_hooks *h, lua_CFunction f, void *call)
{
	lua_State *L = h->L;

	if (!lua_checkstack(L, LUA_MINSTACK))
		return;
	lua_pushcfunction(L, f);
	lua_pushlightuserdata(L, call);
	if (lua_pcall(L, 1, 0, 0) != LUA_OK)
		l_keep_error(L);
	h->L = L;
}

/* clang-format off */
/* guarded_NAME(ctx, ...): what hook_NAME returns, or -ECANCELED where it could not go on. */
#define GUARD(type, name, fields, params, given, values)                                           \
	struct name##_call {                                                                       \
		void *ctx;                                                                         \
		type rc;                                                                           \
		fields                                                                             \
	};                                                                                         \
	static int run_##name(lua_State *L)                                                        \
	{                                                                                          \
		struct name##_call *call = lua_touserdata(L, 1);                                   \
		call->rc = hook_##name given;                                                      \
		return 0;                                                                          \
	}                                                                                          \
	static type guarded_##name params                                                          \
	{                                                                                          \
		struct name##_call call = values;                                                  \
		guard(ctx, run_##name, &call);                                                     \
		return call.rc;                                                                    \
	}
#define LIST(...) __VA_ARGS__
#define VALUES(...) { ctx, -ECANCELED, ##__VA_ARGS__ }
#define GUARD0(type, name) GUARD(type, name, , (void *ctx), (call->ctx), VALUES())
#define GUARD1(type, name, t1)                                                                     \
	GUARD(type, name, t1 a;, (void *ctx, t1 a), (call->ctx, call->a), VALUES(a))
#define GUARD2(type, name, t1, t2)                                                                 \
	GUARD(type, name, t1 a; t2 b;, LIST((void *ctx, t1 a, t2 b)),                              \
	      LIST((call->ctx, call->a, call->b)), VALUES(a, b))
#define GUARD3(type, name, t1, t2, t3)                                                             \
	GUARD(type, name, t1 a; t2 b; t3 c;, LIST((void *ctx, t1 a, t2 b, t3 c)),                  \
	      LIST((call->ctx, call->a, call->b, call->c)), VALUES(a, b, c))
#define GUARD4(type, name, t1, t2, t3, t4)                                                         \
	GUARD(type, name, t1 a; t2 b; t3 c; t4 d;,                                                 \
	      LIST((void *ctx, t1 a, t2 b, t3 c, t4 d)),                                           \
	      LIST((call->ctx, call->a, call->b, call->c, call->d)), VALUES(a, b, c, d))
#define GUARD5(type, name, t1, t2, t3, t4, t5)                                                     \
	GUARD(type, name, t1 a; t2 b; t3 c; t4 d; t5 e;,                                           \
	      LIST((void *ctx, t1 a, t2 b, t3 c, t4 d, t5 e)),                                     \
	      LIST((call->ctx, call->a, call->b, call->c, call->d, call->e)),                      \
	      VALUES(a, b, c, d, e))
/* clang-format on */

GUARD5(int, perf_event_open, struct pev_attr *, int, int, int, unsigned long)
GUARD3(int, ioctl, int, unsigned long, uintptr_t)
GUARD5(int, mmap, size_t, int, int, uint64_t, void **)
GUARD2(int, munmap, void *, size_t)
GUARD2(int, open, const char *, int)
GUARD3(int64_t, read, int, void *, size_t)
GUARD4(int64_t, pread, int, void *, size_t, uint64_t)
GUARD3(int64_t, writev, int, const struct iovec *, int)
GUARD4(int64_t, pwrite, int, const void *, size_t, uint64_t)
GUARD2(int, ftruncate, int, uint64_t)
GUARD2(int, fstat, int, struct pev_stat *)
GUARD2(int, rename, const char *, const char *)
GUARD1(int, unlink, const char *)
GUARD1(int, close, int)
GUARD3(int, fcntl, int, int, int)
GUARD0(int, epoll_create)
GUARD5(int, epoll_ctl, int, int, int, uint32_t, uint64_t)
GUARD4(int, epoll_wait, int, struct epoll_event *, int, int)
GUARD2(int, clock, int, uint64_t *)
GUARD2(int, timerfd, uint64_t, uint64_t)
GUARD1(int, signalfd, uint64_t)
GUARD3(int, sigblock, uint64_t, int, uint64_t *)
GUARD2(int, spawn, const struct pev_spawn *, struct pev_spawned *)
GUARD2(int, release, int, int)
GUARD1(int, resume, int)
GUARD1(int, pidfd_open, int)
GUARD3(int, wait, int, int, int *)
GUARD2(int, kill, int, int)
GUARD3(int, slurp, const char *, char **, size_t *)
GUARD1(int, directory, const char *)
GUARD3(int, list, const char *, char **, size_t *)
GUARD2(int, append, const char *, const char *)
GUARD0(int, raise_nofile)
GUARD0(int, getpid)
GUARD1(int, prctl, int)
GUARD1(int, capset, uint64_t)
GUARD3(int, readlink, const char *, char *, size_t)
GUARD2(int, stat, const char *, struct pev_stat *)
GUARD0(int, pagesize)
GUARD2(int, rdpmc, uint32_t, uint64_t *)
GUARD1(int, rdtsc, uint64_t *)

/* Nobody above can do without one. */
static int any_pagesize(void *ctx)
{
	struct l_hooks *h = ctx;
	int bytes = guarded_pagesize(ctx);

	return bytes > 0 ? bytes : UNDER(h, pagesize);
}

static const struct pev_sys hooked = {
	.perf_event_open = guarded_perf_event_open,
	.ioctl = guarded_ioctl,
	.mmap = guarded_mmap,
	.munmap = guarded_munmap,
	.open = guarded_open,
	.read = guarded_read,
	.pread = guarded_pread,
	.writev = guarded_writev,
	.pwrite = guarded_pwrite,
	.ftruncate = guarded_ftruncate,
	.fstat = guarded_fstat,
	.rename = guarded_rename,
	.unlink = guarded_unlink,
	.close = guarded_close,
	.fcntl = guarded_fcntl,
	.epoll_create = guarded_epoll_create,
	.epoll_ctl = guarded_epoll_ctl,
	.epoll_wait = guarded_epoll_wait,
	.clock = guarded_clock,
	.timerfd = guarded_timerfd,
	.signalfd = guarded_signalfd,
	.sigblock = guarded_sigblock,
	.spawn = guarded_spawn,
	.release = guarded_release,
	.resume = guarded_resume,
	.pidfd_open = guarded_pidfd_open,
	.wait = guarded_wait,
	.kill = guarded_kill,
	.slurp = guarded_slurp,
	.directory = guarded_directory,
	.list = guarded_list,
	.append = guarded_append,
	.raise_nofile = guarded_raise_nofile,
	.getpid = guarded_getpid,
	.prctl = guarded_prctl,
	.capset = guarded_capset,
	.readlink = guarded_readlink,
	.stat = guarded_stat,
	.pagesize = any_pagesize,
	.rdpmc = guarded_rdpmc,
	.rdtsc = guarded_rdtsc,
};

static const char *const hook_names[] = {
	"perf_event_open", "ioctl", "mmap", "munmap", "open", "read", "pread", "writev", "pwrite",
	"ftruncate", "fstat", "rename", "unlink", "close", "epoll_create",
	"epoll_ctl", "epoll_wait", "clock", "timerfd", "signalfd", "sigblock", "spawn",
	"release", "resume", "pidfd_open", "wait", "kill", "slurp", "directory", "list", "append",
	"raise_nofile", "getpid", "readlink", "stat", "pagesize", "rdpmc", "rdtsc", "prctl",
	"fcntl", "capset", "strict",
};
#define NR_HOOK_NAMES (sizeof(hook_names) / sizeof(hook_names[0]))

/* ---- the stack of sets ---- */

const struct pev_sys *l_hooks_push(lua_State *L)
{
	const struct pev_sys *sys = &pev_sys_linux;

	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_rawgeti(L, -1, (lua_Integer)lua_rawlen(L, -1));
	lua_remove(L, -2);
	if (!lua_isnil(L, -1))
		sys = &((struct l_hooks *)lua_touserdata(L, -1))->sys;
	l_hooks_enter(L, sys);
	return sys;
}

void l_hooks_push_deciding(lua_State *L)
{
	const struct l_hooks *h;

	l_hooks_push(L);
	for (h = lua_touserdata(L, -1); h && h->log != LUA_NOREF; h = lua_touserdata(L, -1)) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, h->below);
		lua_replace(L, -2);
	}
}

void l_hooks_enter(lua_State *L, const struct pev_sys *sys)
{
	while (sys->ctx) {
		struct l_hooks *h = sys->ctx;

		h->L = L;
		sys = h->under;
	}
}

static void check_names(lua_State *L, int idx)
{
	lua_pushnil(L);
	while (lua_next(L, idx)) {
		const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
		const char *near = pev_nearest(name, hook_names, NR_HOOK_NAMES);

		if (!near || strcmp(near, name) != 0)
			luaL_error(L, near ? "no hook is called '%s' (did you mean '%s'?)" :
				   "no hook is called '%s'", name, near);
		if (!lua_isfunction(L, -1) && strcmp(name, "strict") != 0)
			luaL_error(L, "hook '%s': a function expected, not a %s", name,
				   luaL_typename(L, -1));
		lua_pop(L, 1);
	}
}

/*
 * Push onto the stack of sets: the functions at idx, above Linux, or the log at
 * idx, above what is in force.
 */
static void push_set(lua_State *L, int idx, bool log)
{
	struct l_hooks *h = lua_newuserdatauv(L, sizeof(*h), 0);

	*h = (struct l_hooks){ .sys = hooked, .under = &pev_sys_linux, .L = L,
			       .functions = LUA_NOREF, .log = LUA_NOREF, .below = LUA_NOREF,
			       .memory = LUA_NOREF };
	h->sys.ctx = h;
	luaL_setmetatable(L, HOOKS_TYPE);
	if (log) {
		h->under = l_hooks_push(L);
		h->below = luaL_ref(L, LUA_REGISTRYINDEX);
		lua_newtable(L);
		h->functions = luaL_ref(L, LUA_REGISTRYINDEX);
		lua_pushvalue(L, idx);
		h->log = luaL_ref(L, LUA_REGISTRYINDEX);
	} else {
		lua_pushvalue(L, idx);
		h->functions = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	lua_newtable(L);
	h->memory = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_insert(L, -2);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	lua_pop(L, 1);
}

static int l_hooks_gc(lua_State *L)
{
	struct l_hooks *h = luaL_checkudata(L, 1, HOOKS_TYPE);

	luaL_unref(L, LUA_REGISTRYINDEX, h->functions);
	luaL_unref(L, LUA_REGISTRYINDEX, h->log);
	luaL_unref(L, LUA_REGISTRYINDEX, h->below);
	luaL_unref(L, LUA_REGISTRYINDEX, h->memory);
	h->functions = h->log = h->below = h->memory = LUA_NOREF;
	return 0;
}

static void pop_set(lua_State *L, lua_Integer down_to)
{
	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	for (lua_Integer n = (lua_Integer)lua_rawlen(L, -1); n > down_to; n--) {
		lua_pushnil(L);
		lua_rawseti(L, -2, n);
	}
	lua_pop(L, 1);
}

static lua_Integer depth(lua_State *L)
{
	lua_Integer n;

	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	n = (lua_Integer)lua_rawlen(L, -1);
	lua_pop(L, 1);
	return n;
}

/* Hooks are for tests. A script that has our capabilities gets no way to answer for the kernel. */
static void refuse_when_elevated(lua_State *L, const char *verb)
{
	if (pev_rights_held())
		luaL_error(L, "hooks.%s: not available while perfl has file capabilities\n"
			   "  try: a copy of perfl without them, or perfl --sim", verb);
}

/* hooks.set(t): t's functions stand for the kernel from here on, above what was set before. */
static int l_set(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	refuse_when_elevated(L, "set");
	check_names(L, 1);
	push_set(L, 1, false);
	return 0;
}

/* hooks.clear(): Linux again; objects keep the table they were opened with. */
static int l_clear(lua_State *L)
{
	pop_set(L, 0);
	return 0;
}

/* hooks.with(t, f, ...): f's results, with t in force while it runs; undone on error too. */
static int l_with(lua_State *L)
{
	lua_Integer before;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checkany(L, 2);
	refuse_when_elevated(L, "with");
	check_names(L, 1);
	before = depth(L);
	push_set(L, 1, false);
	rc = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
	pop_set(L, before);
	if (rc != LUA_OK)
		return lua_error(L);
	return lua_gettop(L) - 1;
}

/* hooks.log(f): f(text) after each call, "close(5) = 0"; hooks.log(nil) ends it. */
static int l_log(lua_State *L)
{
	if (lua_isnoneornil(L, 1)) {
		pop_set(L, depth(L) - 1);
		return 0;
	}
	luaL_checktype(L, 1, LUA_TFUNCTION);
	push_set(L, 1, true);
	return 0;
}

static const luaL_Reg functions[] = {
	{ "set", l_set },
	{ "clear", l_clear },
	{ "with", l_with },
	{ "log", l_log },
	{ NULL, NULL },
};

void l_hooks_register(lua_State *L)
{
	l_class(L, HOOKS_TYPE, NULL, l_hooks_gc);
	lua_newtable(L);
	lua_setfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_pushlightuserdata(L, none());
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
	lua_createtable(L, NR_HOOK_NAMES, 0);
	for (size_t i = 0; i < NR_HOOK_NAMES; i++) {
		lua_pushstring(L, hook_names[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_rawsetp(L, LUA_REGISTRYINDEX, &names_key);
	luaL_newlib(L, functions);
	l_memory_register(L);
	l_real_push(L);
	lua_setfield(L, -2, "real");
	lua_setfield(L, -2, "hooks");
}
