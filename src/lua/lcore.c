/*
 * lcore.c - luaopen_perfev_core: the parts, named in one list, and what reads a file.
 *
 * Opening the module opens nothing else, prints nothing, sets no global.
 */
#include "lcore.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../rights.h"
#include "../sys.h"
#include "lagg.h"
#include "larea.h"
#include "largs.h"
#include "lattr.h"
#include "lblock.h"
#include "lchild.h"
#include "lcounter.h"
#include "ldatafile.h"
#include "ldecoder.h"
#include "lexit.h"
#include "lfield.h"
#include "lfile.h"
#include "lhooks.h"
#include "ljitmap.h"
#include "lkallsyms.h"
#include "lline.h"
#include "lrecorder.h"
#include "lreplay.h"
#include "lsession.h"
#include "lspan.h"
#include "lstack.h"
#include "lstacks.h"
#include "lview.h"
#include "lwhere.h"

#define NAMES_MAX 65536 /* of a list to find the nearest in */

int luaopen_perfev_core(lua_State *L);

/* Push { operation=, pid=, cpu=, bytes=, cause=, remedy= }, what of it is set; 0: nothing is. */
static int push_fields(lua_State *L, const struct pev_err *err)
{
	static const char *const operations[] = {
		[PEV_OP_OPEN] = "open event", [PEV_OP_MAP_RING] = "map ring",
		[PEV_OP_MAP_AUX] = "map AUX area", [PEV_OP_WATCH] = "watch descriptor",
	};

	if (err->operation == PEV_OP_OTHER && !err->remedy)
		return 0;
	lua_newtable(L);
	if (err->remedy) {
		lua_pushlstring(L, err->text, err->remedy - 2); /* "; " */
		lua_setfield(L, -2, "cause");
		lua_pushstring(L, err->text + err->remedy);
		lua_setfield(L, -2, "remedy");
	}
	if (err->operation == PEV_OP_OTHER)
		return 1;
	lua_pushstring(L, operations[err->operation]);
	lua_setfield(L, -2, "operation");
	lua_pushinteger(L, err->pid);
	lua_setfield(L, -2, "pid");
	lua_pushinteger(L, err->cpu);
	lua_setfield(L, -2, "cpu");
	lua_pushinteger(L, (lua_Integer)err->bytes);
	lua_setfield(L, -2, "bytes");
	return 1;
}

int l_result(lua_State *L, long long rc, const struct pev_err *err)
{
	l_raise_pending(L);
	if (rc >= 0) {
		lua_pushinteger(L, rc);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, err && err->text[0] ? err->text : pev_errno_name((int)rc));
	lua_pushinteger(L, -rc);
	return 3 + (err ? push_fields(L, err) : 0);
}

static const char traceback_key; /* of the registry: where the last error object was raised */

int l_traceback(lua_State *L)
{
	bool is_string = lua_type(L, 1) == LUA_TSTRING;
	const char *text = is_string ? lua_tostring(L, 1) : NULL;

	/* nil and false would read as "no error" wherever the object goes. */
	if (!is_string && !lua_toboolean(L, 1))
		text = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
	luaL_traceback(L, L, text, 1);
	if (text)
		return 1;
	lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
	lua_settop(L, 1);
	return 1;
}

/* take_traceback() -> where the last error object was raised, once | nil */
static int l_take_traceback(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &traceback_key);
	lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
	return 1;
}

/* (handlers, err): handlers.note(message, fields) */
static int l_tell_note(lua_State *L)
{
	const struct pev_err *what = lua_touserdata(L, 2);

	if (lua_getfield(L, 1, "note") != LUA_TFUNCTION)
		return 0;
	lua_pushstring(L, what->text);
	lua_call(L, 1 + push_fields(L, what), 0);
	return 0;
}

void l_note(lua_State *L, int idx, int uv, const struct pev_err *what)
{
	if (!lua_checkstack(L, 4))
		return;
	idx = lua_absindex(L, idx);
	/* The string needs memory, and the core is in the middle of something. */
	lua_pushcfunction(L, l_tell_note);
	lua_getiuservalue(L, idx, uv);
	lua_pushlightuserdata(L, (void *)(uintptr_t)what);
	if (lua_pcall(L, 2, 0, 0) != LUA_OK)
		lua_pop(L, 1);
}

/*
 * protect(f, ...) -> true, results... | false, error. As xpcall, but a
 * callback cannot yield through it: the session would be left in the middle.
 */
static int l_protect(lua_State *L)
{
	bool ok;

	luaL_checkany(L, 1);
	lua_pushcfunction(L, l_traceback);
	lua_insert(L, 1);
	ok = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1) == LUA_OK;
	lua_pushboolean(L, ok);
	lua_replace(L, 1);
	return lua_gettop(L);
}

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

/* append(path, text) -> 0 | nil, path, errno; what is written is one write(2) */
static int l_append(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1), *text = luaL_checkstring(L, 2);
	const struct pev_sys *sys;
	int rc;

	luaL_argcheck(L, strlen(path) == lua_rawlen(L, 1), 1, "a NUL in it");
	luaL_argcheck(L, strlen(text) == lua_rawlen(L, 2), 2, "a NUL in it");
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

/* nearest(word, names) -> the one that was meant, or nil */
static int l_nearest(lua_State *L)
{
	const char *word = luaL_checkstring(L, 1), *near;
	const char **names;
	size_t nr;

	luaL_checktype(L, 2, LUA_TTABLE);
	nr = lua_rawlen(L, 2);
	luaL_argcheck(L, nr <= NAMES_MAX, 2, "too many names");
	names = lua_newuserdatauv(L, sizeof(*names) * (nr + 1), 0);
	for (size_t i = 0; i < nr; i++) {
		/* Anchored by the table: a string found there is not converted. */
		if (lua_rawgeti(L, 2, (lua_Integer)i + 1) != LUA_TSTRING)
			return luaL_argerror(L, 2, "a list of names expected");
		names[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	near = pev_nearest(word, names, nr);
	if (near)
		lua_pushstring(L, near);
	else
		lua_pushnil(L);
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

/* cpus() -> { online CPUs } | nil, message, errno */
static int l_cpus(lua_State *L)
{
	void **block = l_block_push(L);
	const struct pev_sys *sys = l_hooks_push(L);
	int *cpus, nr = pev_sys_cpus(sys, (int **)block);

	if (nr < 0)
		return path_result(L, nr, "/sys/devices/system/cpu/online");
	cpus = *block;
	lua_createtable(L, nr, 0);
	for (int i = 0; i < nr; i++) {
		lua_pushinteger(L, cpus[i]);
		lua_rawseti(L, -2, i + 1);
	}
	l_block_free(block);
	l_raise_pending(L);
	return 1;
}

/* threads(pid) -> { tids } | nil, message, errno */
static int l_threads(lua_State *L)
{
	int pid = (int)luaL_checkinteger(L, 1);
	void **block = l_block_push(L);
	const struct pev_sys *sys = l_hooks_push(L);
	struct pev_err err;
	int *tids, nr = pev_sys_threads(sys, pid, (int **)block);

	if (nr < 0)
		return l_result(L, pev_fail(&err, nr, "pid %d", pid), &err);
	tids = *block;
	lua_createtable(L, nr, 0);
	for (int i = 0; i < nr; i++) {
		lua_pushinteger(L, tids[i]);
		lua_rawseti(L, -2, i + 1);
	}
	l_block_free(block);
	l_raise_pending(L);
	return 1;
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

/* process() -> a number that is another one in a process forked from this */
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
 * probe(attr, pid, cpu[, flags]) -> true | nil, errno, size: would the kernel open this? What
 * it opens is closed at once; size is what it left in attr.size, its own with E2BIG.
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

void l_stat_push(lua_State *L, const struct pev_stat *st)
{
	lua_createtable(L, 0, 5);
	lua_pushinteger(L, (lua_Integer)st->dev);
	lua_setfield(L, -2, "dev");
	lua_pushinteger(L, (lua_Integer)st->ino);
	lua_setfield(L, -2, "ino");
	lua_pushinteger(L, st->mode);
	lua_setfield(L, -2, "mode");
	lua_pushinteger(L, st->uid);
	lua_setfield(L, -2, "uid");
	lua_pushinteger(L, (lua_Integer)st->size);
	lua_setfield(L, -2, "size");
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

	luaL_argcheck(L, offset >= 0, 2, "no place in a file");
	luaL_argcheck(L, len >= 0 && len <= PART_MAX, 3, "more than a part");
	room = luaL_buffinitsize(L, &buffer, (size_t)len);
	sys = l_hooks_push(L);
	/* Who made the file is not known: a pipe is not to be waited for, nor a terminal taken. */
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

/* capset(keep) -> true | nil, what, errno: drop what perfl has beyond its caller, but keep */
static int l_capset(lua_State *L)
{
	uint64_t keep = (uint64_t)luaL_checkinteger(L, 1);
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->capset(sys->ctx, keep), NULL);
}

/* held_capabilities() -> those that calls which need them get, those dropped: bit n for n */
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
	{ "nearest", l_nearest },
	{ "protect", l_protect },
	{ "take_traceback", l_take_traceback },
	{ "clock", l_clock },
	{ "cpus", l_cpus },
	{ "threads", l_threads },
	{ "raise_nofile", l_raise_nofile },
	{ "pid", l_pid },
	{ "process", l_process },
	{ "exe", l_exe },
	{ "readlink", l_readlink },
	{ "stat", l_stat },
	{ "part", l_part },
	{ "capset", l_capset },
	{ "held_capabilities", l_held_capabilities },
	{ "pagesize", l_pagesize },
	{ "probe", l_probe },
	{ NULL, NULL },
};

/* core.errno: both ways, errno.EACCES = 13 and errno[13] = "EACCES". */
static void push_errno(lua_State *L)
{
	lua_newtable(L);
	for (int code = 1; code < 134; code++) {
		const char *name = pev_errno_name(code);

		if (name[1] == '?')
			continue;
		lua_pushinteger(L, code);
		lua_setfield(L, -2, name);
		lua_pushstring(L, name);
		lua_rawseti(L, -2, code);
	}
}

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
		lua_pushinteger(L, signals[i].number);
		lua_setfield(L, -2, signals[i].name);
	}
	/* Of real time, where the C library leaves them: these are queued, not merged. */
	lua_pushinteger(L, SIGRTMIN);
	lua_setfield(L, -2, "RTMIN");
	lua_pushinteger(L, SIGRTMAX);
	lua_setfield(L, -2, "RTMAX");
}

/* core.strerror: errno -> the C library's words. */
static int l_strerror(lua_State *L)
{
	lua_pushstring(L, strerror((int)luaL_checkinteger(L, 1)));
	return 1;
}

__attribute__((visibility("default"))) int luaopen_perfev_core(lua_State *L)
{
	luaL_newlib(L, functions);
	push_errno(L);
	lua_setfield(L, -2, "errno");
	push_signals(L);
	lua_setfield(L, -2, "signals");
	lua_pushcfunction(L, l_strerror);
	lua_setfield(L, -2, "strerror");
	lua_pushliteral(L, PEV_VERSION);
	lua_setfield(L, -2, "version");
	l_block_register(L);
	l_attr_register(L);
	l_hooks_register(L);
	l_args_register(L);
	l_agg_register(L);
	l_span_register(L);
	l_line_register(L);
	l_where_register(L);
	l_area_register(L);
	l_kallsyms_register(L);
	l_jitmap_register(L);
	l_file_register(L);
	l_stacks_register(L);
	l_stack_register(L);
	l_field_register(L);
	l_view_register(L);
	l_decoder_register(L);
	l_child_register(L);
	l_counter_register(L);
	l_datafile_register(L);
	l_recorder_register(L);
	l_replay_register(L);
	l_session_register(L);
	l_exit_register(L);
	return 1;
}
