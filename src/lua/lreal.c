/*
 * lreal.c - hooks.real: what Linux does, for a hook that delegates; see lreal.h.
 *
 * Each takes what its hook was given and returns what the hook is to return, so
 * that `hooks.set { read = hooks.real.read }` changes nothing.
 */
#define _GNU_SOURCE /* F_SETSIG */
#include "lreal.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "../sys.h"
#include "lattr.h"
#include "lblock.h"
#include "lcore.h"
#include "lmemory.h"

#define REAL pev_sys_linux
#define READ_MAX (1 << 20) /* no descriptor of ours gives more at once */

static const struct {
	unsigned long request;
	const char *name;
} ioctls[] = {
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
};
#define NR_IOCTLS (sizeof(ioctls) / sizeof(ioctls[0]))

const char *l_ioctl_name(unsigned long request)
{
	for (size_t i = 0; i < NR_IOCTLS; i++)
		if (ioctls[i].request == request)
			return ioctls[i].name;
	return "?";
}

/* Those whose argument is an int. */
static const struct {
	int cmd;
	const char *name;
} fcntls[] = {
	{ F_GETFL, "GETFL" },
	{ F_SETFL, "SETFL" },
	{ F_GETOWN, "GETOWN" },
	{ F_SETOWN, "SETOWN" },
	{ F_GETSIG, "GETSIG" },
	{ F_SETSIG, "SETSIG" },
};
#define NR_FCNTLS (sizeof(fcntls) / sizeof(fcntls[0]))

const char *l_fcntl_name(int cmd)
{
	for (size_t i = 0; i < NR_FCNTLS; i++)
		if (fcntls[i].cmd == cmd)
			return fcntls[i].name;
	return "?";
}

static unsigned long check_request(lua_State *L, int arg)
{
	const char *name = luaL_checkstring(L, arg);

	for (size_t i = 0; i < NR_IOCTLS; i++)
		if (strcmp(ioctls[i].name, name) == 0)
			return ioctls[i].request;
	return (unsigned long)luaL_argerror(L, arg, "no such request");
}

static int push_errno(lua_State *L, int64_t rc)
{
	lua_pushnil(L);
	lua_pushinteger(L, -rc);
	return 2;
}

static int push_number(lua_State *L, int64_t rc)
{
	if (rc < 0)
		return push_errno(L, rc);
	lua_pushinteger(L, rc);
	return 1;
}

/* Narrowed unseen it would be another descriptor, pid or flag. */
static int check_int(lua_State *L, int n)
{
	lua_Integer value = luaL_checkinteger(L, n);

	luaL_argcheck(L, value >= INT_MIN && value <= INT_MAX, n, "not in 32 bits");
	return (int)value;
}

static int l_perf_event_open(lua_State *L)
{
	struct pev_attr *attr = l_attr_check(L, 1), copy = *attr;
	int rc;

	/* One that no session has opened has no size yet, which the kernel takes for the first. */
	if (!copy.size)
		pev_attr_seal(&copy);
	rc = REAL.perf_event_open(NULL, &copy, check_int(L, 2), check_int(L, 3), check_int(L, 4),
				  (unsigned long)luaL_checkinteger(L, 5));
	if (attr->size || rc == -E2BIG)
		attr->size = copy.size; /* the kernel's own, with E2BIG */
	return push_number(L, rc);
}

/* The ids of the programs; room for as many as the caller of the hook has. */
static int query_bpf(lua_State *L, int fd)
{
	lua_Integer room = luaL_checkinteger(L, 3);
	struct perf_event_query_bpf *query;
	int rc;

	luaL_argcheck(L, room >= 0 && room <= 1 << 16, 3, "out of range");
	query = lua_newuserdatauv(L, sizeof(*query) + sizeof(query->ids[0]) * (size_t)room, 0);
	query->ids_len = (uint32_t)room;
	query->prog_cnt = 0;
	rc = REAL.ioctl(NULL, fd, PERF_EVENT_IOC_QUERY_BPF, (uintptr_t)query);
	if (rc < 0)
		return push_errno(L, rc);
	lua_newtable(L);
	for (uint32_t i = 0; i < query->prog_cnt && i < query->ids_len; i++) {
		lua_pushinteger(L, query->ids[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_pushinteger(L, query->prog_cnt);
	return 2;
}

static int l_ioctl(lua_State *L)
{
	int fd = check_int(L, 1);
	unsigned long request = check_request(L, 2);
	struct pev_attr attr;
	uint64_t number = 0;
	uintptr_t arg;
	int rc;

	if (request == PERF_EVENT_IOC_QUERY_BPF)
		return query_bpf(L, fd);
	if (request == PERF_EVENT_IOC_SET_FILTER) {
		arg = (uintptr_t)luaL_checkstring(L, 3);
	} else if (request == PERF_EVENT_IOC_MODIFY_ATTRIBUTES) {
		attr = *l_attr_check(L, 3);
		if (!attr.size)
			pev_attr_seal(&attr);
		arg = (uintptr_t)&attr;
	} else {
		number = (uint64_t)luaL_optinteger(L, 3, 0);
		arg = request == PERF_EVENT_IOC_ID || request == PERF_EVENT_IOC_PERIOD ?
			      (uintptr_t)&number : (uintptr_t)number;
	}
	rc = REAL.ioctl(NULL, fd, request, arg);
	return push_number(L, rc == 0 && request == PERF_EVENT_IOC_ID ? (int64_t)number : rc);
}

/* Pages that the kernel mapped, as weak keys: rdpmc asks them what it may do. */
static const char pages_key;

/* The memory on top of the stack. */
static void keep_page(lua_State *L)
{
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pages_key) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_createtable(L, 0, 1);
		lua_pushliteral(L, "k");
		lua_setfield(L, -2, "__mode");
		lua_setmetatable(L, -2);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &pages_key);
	}
	lua_pushvalue(L, -2);
	lua_pushinteger(L, pev_sys_process());
	lua_rawset(L, -3);
	lua_pop(L, 1);
}

/* Whether user space may read that counter now: a page of an event that is on it says so (4.11). */
static bool may_rdpmc(lua_State *L, lua_Integer counter)
{
	bool may = false;

	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pages_key) == LUA_TNIL)
		return false;
	for (lua_pushnil(L); !may && lua_next(L, -2); lua_pop(L, 1)) {
		const struct l_memory *memory = l_memory_test(L, -2);
		const volatile struct perf_event_mmap_page *page;

		/* Given back, or left to the process that forked us. */
		if (!memory->bytes || lua_tointeger(L, -1) != pev_sys_process())
			continue;
		page = (const void *)memory->bytes;
		may = page->cap_user_rdpmc && page->index != 0 && page->index - 1 == counter;
	}
	return may;
}

static int l_mmap(lua_State *L)
{
	lua_Integer len = luaL_checkinteger(L, 1);
	int prot = check_int(L, 2), fd = check_int(L, 3), rc;
	uint64_t offset = (uint64_t)luaL_checkinteger(L, 4);
	struct l_memory *memory;
	void *addr;

	luaL_argcheck(L, len > 0, 1, "no length");
	/* All that can raise comes before what would stay mapped. */
	l_memory_push_mapped(L, NULL, 0);
	memory = l_memory_test(L, -1);
	if (prot & PROT_READ && offset == 0)
		keep_page(L);
	rc = REAL.mmap(NULL, (size_t)len, prot, fd, offset, &addr);
	if (rc < 0)
		return push_errno(L, rc);
	memory->bytes = addr;
	memory->len = (size_t)len;
	return 1;
}

static int l_munmap(lua_State *L)
{
	struct l_memory *memory = l_memory_test(L, 1);
	int rc;

	luaL_argcheck(L, memory && memory->mapped, 1, "not what hooks.real.mmap gave");
	rc = REAL.munmap(NULL, memory->bytes, memory->len);
	memory->bytes = NULL;
	memory->len = 0;
	return push_number(L, rc);
}

static int l_read(lua_State *L)
{
	lua_Integer len = luaL_checkinteger(L, 2);
	int64_t n;
	void *buf;

	luaL_argcheck(L, len >= 0 && len <= READ_MAX, 2, "out of range");
	buf = lua_newuserdatauv(L, (size_t)len, 0);
	n = REAL.read(NULL, check_int(L, 1), buf, (size_t)len);
	if (n < 0)
		return push_errno(L, n);
	lua_pushlstring(L, buf, (size_t)n);
	return 1;
}

static int l_open(lua_State *L)
{
	return push_number(L, REAL.open(NULL, luaL_checkstring(L, 1), check_int(L, 2)));
}

static int l_pread(lua_State *L)
{
	lua_Integer len = luaL_checkinteger(L, 2);
	int64_t n;
	void *buf;

	luaL_argcheck(L, len >= 0 && len <= READ_MAX, 2, "out of range");
	buf = lua_newuserdatauv(L, (size_t)len, 0);
	n = REAL.pread(NULL, check_int(L, 1), buf, (size_t)len,
		       (uint64_t)luaL_checkinteger(L, 3));
	if (n < 0)
		return push_errno(L, n);
	lua_pushlstring(L, buf, (size_t)n);
	return 1;
}

static int l_writev(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	struct iovec piece = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };

	return push_number(L, REAL.writev(NULL, check_int(L, 1), &piece, 1));
}

static int l_pwrite(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);

	return push_number(L, REAL.pwrite(NULL, check_int(L, 1), bytes, len,
					  (uint64_t)luaL_checkinteger(L, 3)));
}

static int l_ftruncate(lua_State *L)
{
	return push_number(L, REAL.ftruncate(NULL, check_int(L, 1),
					     (uint64_t)luaL_checkinteger(L, 2)));
}

static int push_stat(lua_State *L, int rc, const struct pev_stat *st)
{
	if (rc < 0)
		return push_errno(L, rc);
	l_stat_push(L, st);
	return 1;
}

static int l_fstat(lua_State *L)
{
	struct pev_stat st;

	return push_stat(L, REAL.fstat(NULL, check_int(L, 1), &st), &st);
}

static int l_rename(lua_State *L)
{
	return push_number(L, REAL.rename(NULL, luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
}

static int l_unlink(lua_State *L)
{
	return push_number(L, REAL.unlink(NULL, luaL_checkstring(L, 1)));
}

static int l_close(lua_State *L)
{
	return push_number(L, REAL.close(NULL, check_int(L, 1)));
}

static int l_fcntl(lua_State *L)
{
	const char *name = luaL_checkstring(L, 2);

	for (size_t i = 0; i < NR_FCNTLS; i++)
		if (strcmp(fcntls[i].name, name) == 0)
			return push_number(L, REAL.fcntl(NULL, check_int(L, 1), fcntls[i].cmd,
							 lua_isnoneornil(L, 3) ? 0 :
							 check_int(L, 3)));
	return luaL_argerror(L, 2, "no such command");
}

static int l_epoll_create(lua_State *L)
{
	return push_number(L, REAL.epoll_create(NULL));
}

static int l_epoll_ctl(lua_State *L)
{
	return push_number(L, REAL.epoll_ctl(NULL, check_int(L, 1), check_int(L, 2),
					     check_int(L, 3), (uint32_t)luaL_checkinteger(L, 4),
					     (uint64_t)luaL_checkinteger(L, 5)));
}

static int l_epoll_wait(lua_State *L)
{
	struct epoll_event events[64];
	int max = check_int(L, 2), nr;

	luaL_argcheck(L, max > 0, 2, "no room");
	nr = REAL.epoll_wait(NULL, check_int(L, 1), events, max < 64 ? max : 64, check_int(L, 3));
	if (nr < 0)
		return push_errno(L, nr);
	lua_createtable(L, nr, 0);
	for (int i = 0; i < nr; i++) {
		lua_createtable(L, 2, 0);
		lua_pushinteger(L, events[i].events);
		lua_rawseti(L, -2, 1);
		lua_pushinteger(L, (lua_Integer)events[i].data.u64);
		lua_rawseti(L, -2, 2);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

static int l_clock(lua_State *L)
{
	uint64_t ns = 0;
	int rc = REAL.clock(NULL, check_int(L, 1), &ns);

	return push_number(L, rc < 0 ? rc : (int64_t)ns);
}

static int l_timerfd(lua_State *L)
{
	return push_number(L, REAL.timerfd(NULL, (uint64_t)luaL_checkinteger(L, 1),
					   (uint64_t)luaL_checkinteger(L, 2)));
}

static int l_signalfd(lua_State *L)
{
	return push_number(L, REAL.signalfd(NULL, (uint64_t)luaL_checkinteger(L, 1)));
}

static int l_sigblock(lua_State *L)
{
	uint64_t changed = 0;
	int rc = REAL.sigblock(NULL, (uint64_t)luaL_checkinteger(L, 1), check_int(L, 2), &changed);

	if (rc < 0)
		return push_errno(L, rc);
	lua_pushinteger(L, (lua_Integer)changed);
	return 1;
}

/* spawn({argv...}, signals to unblock) */
static int l_spawn(lua_State *L)
{
	struct pev_spawned spawned;
	struct pev_spawn spawn;
	lua_Integer nr;
	char **argv;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	nr = (lua_Integer)lua_rawlen(L, 1);
	luaL_argcheck(L, nr > 0 && nr < 1 << 16, 1, "no command");
	argv = lua_newuserdatauv(L, sizeof(*argv) * (size_t)(nr + 1), 0);
	luaL_checkstack(L, (int)nr, "too many words");
	for (lua_Integer i = 1; i <= nr; i++) {
		lua_rawgeti(L, 1, i);
		argv[i - 1] = (char *)(uintptr_t)luaL_checkstring(L, -1);
	}
	argv[nr] = NULL;
	spawn = (struct pev_spawn){ .argv = argv, .unblock = (uint64_t)luaL_optinteger(L, 2, 0) };
	rc = REAL.spawn(NULL, &spawn, &spawned);
	if (rc < 0)
		return push_errno(L, rc);
	lua_pushinteger(L, spawned.pid);
	lua_pushinteger(L, spawned.gate);
	return 2;
}

static int l_release(lua_State *L)
{
	return push_number(L, REAL.release(NULL, check_int(L, 1), (int)luaL_optinteger(L, 2, 0)));
}

static int l_resume(lua_State *L)
{
	return push_number(L, REAL.resume(NULL, check_int(L, 1)));
}

static int l_pidfd_open(lua_State *L)
{
	return push_number(L, REAL.pidfd_open(NULL, check_int(L, 1)));
}

static int l_wait(lua_State *L)
{
	int status, rc = REAL.wait(NULL, check_int(L, 1), (int)luaL_optinteger(L, 2, 0), &status);

	if (rc < 0)
		return push_errno(L, rc);
	if (rc == 0)
		lua_pushboolean(L, 0);
	else
		lua_pushinteger(L, status);
	return 1;
}

static int l_kill(lua_State *L)
{
	return push_number(L, REAL.kill(NULL, check_int(L, 1), check_int(L, 2)));
}

static int l_slurp(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	void **text = l_block_push(L);
	size_t len;
	int rc = REAL.slurp(NULL, path, (char **)text, &len);

	if (rc < 0)
		return push_errno(L, rc);
	lua_pushlstring(L, *text, len);
	l_block_free(text);
	return 1;
}

static int l_list(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1), *names;
	void **block = l_block_push(L);
	size_t len;
	lua_Integer nr = 0;
	int rc = REAL.list(NULL, path, (char **)block, &len);

	if (rc < 0)
		return push_errno(L, rc);
	names = *block;
	lua_newtable(L);
	for (size_t i = 0; i < len; i += strlen(names + i) + 1) {
		lua_pushstring(L, names + i);
		lua_rawseti(L, -2, ++nr);
	}
	l_block_free(block);
	return 1;
}

static int l_directory(lua_State *L)
{
	return push_number(L, REAL.directory(NULL, luaL_checkstring(L, 1)));
}

static int l_append(lua_State *L)
{
	return push_number(L, REAL.append(NULL, luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
}

static int l_raise_nofile(lua_State *L)
{
	return push_number(L, REAL.raise_nofile(NULL));
}

static int l_getpid(lua_State *L)
{
	return push_number(L, REAL.getpid(NULL));
}

static int l_prctl(lua_State *L)
{
	return push_number(L, REAL.prctl(NULL, check_int(L, 1)));
}

static int l_capset(lua_State *L)
{
	return push_number(L, REAL.capset(NULL, (uint64_t)luaL_checkinteger(L, 1)));
}

static int l_readlink(lua_State *L)
{
	char path[PATH_MAX];
	int n = REAL.readlink(NULL, luaL_checkstring(L, 1), path, sizeof(path));

	if (n < 0)
		return push_errno(L, n);
	lua_pushlstring(L, path, (size_t)n);
	return 1;
}

static int l_stat(lua_State *L)
{
	struct pev_stat st;

	return push_stat(L, REAL.stat(NULL, luaL_checkstring(L, 1), &st), &st);
}

static int l_pagesize(lua_State *L)
{
	return push_number(L, REAL.pagesize(NULL));
}

static int l_rdpmc(lua_State *L)
{
	lua_Integer counter = luaL_checkinteger(L, 1);
	uint64_t value;
	int rc;

	/* Not to be tried: the processor's answer is a fault. */
	if (!may_rdpmc(L, counter))
		return push_errno(L, -EACCES);
	rc = REAL.rdpmc(NULL, (uint32_t)counter, &value);
	if (rc < 0)
		return push_errno(L, rc);
	lua_pushinteger(L, (lua_Integer)value);
	return 1;
}

static int l_rdtsc(lua_State *L)
{
	uint64_t cycles;
	int rc = REAL.rdtsc(NULL, &cycles);

	if (rc < 0)
		return push_errno(L, rc);
	lua_pushinteger(L, (lua_Integer)cycles);
	return 1;
}

/* clang-format off */
static const luaL_Reg functions[] = {
	{ "perf_event_open", l_perf_event_open },
	{ "ioctl",           l_ioctl },
	{ "mmap",            l_mmap },
	{ "munmap",          l_munmap },
	{ "open",            l_open },
	{ "read",            l_read },
	{ "pread",           l_pread },
	{ "writev",          l_writev },
	{ "pwrite",          l_pwrite },
	{ "ftruncate",       l_ftruncate },
	{ "fstat",           l_fstat },
	{ "rename",          l_rename },
	{ "unlink",          l_unlink },
	{ "close",           l_close },
	{ "fcntl",           l_fcntl },
	{ "epoll_create",    l_epoll_create },
	{ "epoll_ctl",       l_epoll_ctl },
	{ "epoll_wait",      l_epoll_wait },
	{ "clock",           l_clock },
	{ "timerfd",         l_timerfd },
	{ "signalfd",        l_signalfd },
	{ "sigblock",        l_sigblock },
	{ "spawn",           l_spawn },
	{ "release",         l_release },
	{ "resume",          l_resume },
	{ "pidfd_open",      l_pidfd_open },
	{ "wait",            l_wait },
	{ "kill",            l_kill },
	{ "slurp",           l_slurp },
	{ "directory",       l_directory },
	{ "list",            l_list },
	{ "append",          l_append },
	{ "raise_nofile",    l_raise_nofile },
	{ "getpid",          l_getpid },
	{ "prctl",           l_prctl },
	{ "capset",          l_capset },
	{ "readlink",        l_readlink },
	{ "stat",            l_stat },
	{ "pagesize",        l_pagesize },
	{ "rdpmc",           l_rdpmc },
	{ "rdtsc",           l_rdtsc },
	{ NULL,              NULL },
};
/* clang-format on */

void l_real_push(lua_State *L)
{
	luaL_newlib(L, functions);
}
