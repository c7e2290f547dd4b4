/*
 * lsystem.c - files, clocks and facts of the system for Lua, through the hooks in force.
 */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/rights.h"
#include "base/sys.h"
#include "lua/base/lblock.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/event/lattr.h"
#include "lua/hooks/lhooks.h"
#include "lua/hooks/lsyscall.h"
#include "lua/base/lset.h"

static int path_result(lua_State *L, int rc, const char *path)
{
	struct pev_err err;

	return l_result(L, pev_fail(&err, rc, "%s", path), &err);
}

/* slurp(path) -> the whole of a file | nil, path, errno */
static int l_slurp(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	void **text = l_block_push(L);
	const struct pev_sys *sys = l_hooks_push(L);
	size_t len;
	int rc = sys->slurp(sys->ctx, path, (char **)text, &len);

	if (rc < 0)
		return path_result(L, rc, path);
	lua_pushlstring(L, *text, len);
	l_block_free(text);
	l_raise_pending(L);
	return 1;
}

/* append(path, text) -> 0 | nil, path, errno; with one write(2) */
static int l_append(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1), *text = luaL_checkstring(L, 2);
	const struct pev_sys *sys;
	int rc;

	luaL_argcheck(L, strlen(path) == lua_rawlen(L, 1), 1, "contains a NUL byte");
	luaL_argcheck(L, strlen(text) == lua_rawlen(L, 2), 2, "contains a NUL byte");
	sys = l_hooks_push(L);
	rc = sys->append(sys->ctx, path, text);
	if (rc < 0)
		return path_result(L, rc, path);
	return l_result(L, rc, NULL);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* list(path) -> sorted names in a directory | nil, path, errno */
static int l_list(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	void **block = l_block_push(L);
	const struct pev_sys *sys = l_hooks_push(L);
	const char **sorted, *names;
	size_t len, nr = 0;
	int rc = sys->list(sys->ctx, path, (char **)block, &len);

	if (rc < 0)
		return path_result(L, rc, path);
	names = *block;
	/* A name is at least one byte and its NUL. */
	sorted = lua_newuserdatauv(L, sizeof(*sorted) * (len / 2 + 1), 0);
	for (size_t i = 0; i < len; i += strlen(names + i) + 1)
		sorted[nr++] = names + i;
	qsort(sorted, nr, sizeof(*sorted), compare_names);
	lua_createtable(L, (int)nr, 0);
	for (size_t i = 0; i < nr; i++) {
		lua_pushstring(L, sorted[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	l_block_free(block);
	l_raise_pending(L);
	return 1;
}

/* readlink(path) -> where it points | nil, path, errno */
static int l_readlink(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	const struct pev_sys *sys = l_hooks_push(L);
	char target[PATH_MAX];
	int n = sys->readlink(sys->ctx, path, target, sizeof(target));

	if (n < 0)
		return path_result(L, n, path);
	lua_pushlstring(L, target, (size_t)n);
	l_raise_pending(L);
	return 1;
}

/* stat(path) -> { dev=, ino=, mode=, uid=, size= } of the file it leads to | nil, path, errno */
static int l_stat(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	const struct pev_sys *sys = l_hooks_push(L);
	struct pev_stat st;
	int rc = sys->stat(sys->ctx, path, &st);

	if (rc < 0)
		return path_result(L, rc, path);
	l_stat_push(L, &st);
	l_raise_pending(L);
	return 1;
}

#define PART_MAX (1u << 20)

/* part(path, offset, len) -> so many bytes of a file, fewer at its end | nil, path, errno */
static int l_part(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	lua_Integer offset = luaL_checkinteger(L, 2), len = luaL_checkinteger(L, 3);
	const struct pev_sys *sys;
	luaL_Buffer buffer;
	int64_t n;
	char *room;
	int fd;

	luaL_argcheck(L, offset >= 0, 2, "not an offset in a file");
	luaL_argcheck(L, len >= 0 && len <= PART_MAX, 3, "longer than a part may be");
	room = luaL_buffinitsize(L, &buffer, (size_t)len);
	sys = l_hooks_push(L);
	/* The file is not trusted: do not block on a FIFO, do not take over a terminal. */
	fd = sys->open(sys->ctx, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return path_result(L, fd, path);
	n = sys->pread(sys->ctx, fd, room, (size_t)len, (uint64_t)offset);
	sys->close(sys->ctx, fd);
	lua_pop(L, 1); /* the set of hooks: the buffer's room is on top again */
	if (n < 0)
		return path_result(L, (int)n, path);
	luaL_pushresultsize(&buffer, (size_t)n);
	l_raise_pending(L);
	return 1;
}

/* clock(clockid) -> ns */
static int l_clock(lua_State *L)
{
	int id = (int)luaL_checkinteger(L, 1);
	const struct pev_sys *sys = l_hooks_push(L);
	struct pev_err err;
	uint64_t ns = 0;
	int rc = sys->clock(sys->ctx, id, &ns);

	if (rc < 0)
		return l_result(L, pev_fail(&err, rc, "cannot read clock %d", id), &err);
	lua_pushinteger(L, (lua_Integer)ns);
	return 1;
}

/* Pushes the list of nr numbers in the block, and frees it. Returns 1. */
static int push_numbers(lua_State *L, void **block, int nr)
{
	const int *numbers = *block;

	lua_createtable(L, nr, 0);
	for (int i = 0; i < nr; i++) {
		lua_pushinteger(L, numbers[i]);
		lua_rawseti(L, -2, i + 1);
	}
	l_block_free(block);
	l_raise_pending(L);
	return 1;
}

/* cpus() -> { online CPUs } | nil, message, errno */
static int l_cpus(lua_State *L)
{
	void **block = l_block_push(L);
	int nr = pev_sys_cpus(l_hooks_push(L), (int **)block);

	return nr < 0 ? path_result(L, nr, "/sys/devices/system/cpu/online")
		      : push_numbers(L, block, nr);
}

/* threads(pid) -> { tids } | nil, message, errno */
static int l_threads(lua_State *L)
{
	int pid = (int)luaL_checkinteger(L, 1);
	void **block = l_block_push(L);
	int nr = pev_sys_threads(l_hooks_push(L), pid, (int **)block);
	struct pev_err err;

	return nr < 0 ? l_result(L, pev_fail(&err, nr, "pid %d", pid), &err)
		      : push_numbers(L, block, nr);
}

/* raise_nofile() -> the limit of open files, raised as far as it goes */
static int l_raise_nofile(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->raise_nofile(sys->ctx), NULL);
}

/* pid() -> of this process */
static int l_pid(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->getpid(sys->ctx), NULL);
}

/* process() -> a number that differs in a forked process */
static int l_process(lua_State *L)
{
	lua_pushinteger(L, pev_sys_process());
	return 1;
}

/* exe() -> the path of the running program, or nil */
static int l_exe(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);
	char path[PATH_MAX];
	int n = sys->readlink(sys->ctx, "/proc/self/exe", path, sizeof(path));

	l_raise_pending(L);
	if (n <= 0 || (size_t)n == sizeof(path))
		return 0;
	lua_pushlstring(L, path, (size_t)n);
	return 1;
}

/*
 * probe(attr, pid, cpu[, flags]) -> true | nil, errno, size: would the kernel open this? Closes
 * the descriptor at once; size is attr.size as the kernel left it, its own with E2BIG.
 */
static int l_probe(lua_State *L)
{
	struct pev_attr attr = *l_attr_check(L, 1);
	int pid = (int)luaL_checkinteger(L, 2), cpu = (int)luaL_checkinteger(L, 3);
	unsigned long flags = (unsigned long)luaL_optinteger(L, 4, 0);
	const struct pev_sys *sys = l_hooks_push(L);
	int fd;

	pev_attr_seal(&attr);
	fd = sys->perf_event_open(sys->ctx, &attr, pid, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		sys->close(sys->ctx, fd);
	l_raise_pending(L);
	if (fd >= 0) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushnil(L);
	lua_pushinteger(L, -fd);
	lua_pushinteger(L, attr.size);
	return 3;
}

/* capset(keep) -> true | nil, what, errno: drops what the caller lacks, except keep */
static int l_capset(lua_State *L)
{
	uint64_t keep = (uint64_t)luaL_checkinteger(L, 1);
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->capset(sys->ctx, keep), NULL);
}

/* held_capabilities() -> those that single calls raise, those dropped: bit n for n */
static int l_held_capabilities(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pev_rights_held());
	lua_pushinteger(L, (lua_Integer)pev_rights_dropped());
	return 2;
}

/* pagesize() -> bytes */
static int l_pagesize(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->pagesize(sys->ctx), NULL);
}

static const luaL_Reg functions[] = {
	{ "slurp", l_slurp },
	{ "list", l_list },
	{ "append", l_append },
	{ "readlink", l_readlink },
	{ "stat", l_stat },
	{ "part", l_part },
	{ "clock", l_clock },
	{ "cpus", l_cpus },
	{ "threads", l_threads },
	{ "raise_nofile", l_raise_nofile },
	{ "pid", l_pid },
	{ "process", l_process },
	{ "exe", l_exe },
	{ "capset", l_capset },
	{ "held_capabilities", l_held_capabilities },
	{ "pagesize", l_pagesize },
	{ "probe", l_probe },
	{ NULL, NULL },
};

/* core.signals: name without SIG -> number. */
static void push_signals(lua_State *L)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {
		{ "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT }, { "USR1", SIGUSR1 },
		{ "USR2", SIGUSR2 }, { "PIPE", SIGPIPE }, { "ALRM", SIGALRM }, { "TERM", SIGTERM },
		{ "CHLD", SIGCHLD }, { "CONT", SIGCONT }, { "TSTP", SIGTSTP }, { "TTIN", SIGTTIN },
		{ "TTOU", SIGTTOU }, { "IO", SIGIO }, { "WINCH", SIGWINCH }, { "PWR", SIGPWR },
		{ "KILL", SIGKILL },
	};

	lua_createtable(L, 0, sizeof(signals) / sizeof(signals[0]) + 2);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		l_set_integer(L, signals[i].name, signals[i].number);
	}
	/* Real-time signals that the C library leaves free: queued, not merged. */
	l_set_integer(L, "RTMIN", SIGRTMIN);
	l_set_integer(L, "RTMAX", SIGRTMAX);
}

void l_system_register(lua_State *L)
{
	luaL_setfuncs(L, functions, 0);
	push_signals(L);
	lua_setfield(L, -2, "signals");
	l_set_u64(L, "caps_of_names", PEV_CAPS_NAMES);
}
