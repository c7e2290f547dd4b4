/*
 * perfl.c - the runner's main: a Lua state, the embedded Lua sources, nothing else.
 *
 * The program is lua/perfl/main.lua. This file has only functions that Lua lacks: signals, a
 * standard output that reports lost writes, checks of open files, and the refusal to run as a
 * set-uid interpreter.
 *
 * Signals: the first SIGINT, SIGTERM, SIGHUP or SIGQUIT makes a descriptor readable that the
 * session polls, and the session ends normally. If the session has not seen it after GRACE_NS, a
 * count hook raises "interrupted!" in the running Lua code, and an alarm interrupts a blocking
 * system call, such as a write to a pipe that nothing reads. The second signal has its default
 * effect, at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "gen/embed.h"
#include "lua/base/lallocator.h"
#include "base/rights.h"
#include "perfl_child.h"
#include "perfl_sink.h"

int luaopen_perfev_core(lua_State *L);

/* Separate shared objects; a static perfl has them linked in. */
#define LINKED(name) __attribute__((weak)) int luaopen_perfev_##name(lua_State *L)
LINKED(cfi);
LINKED(disassembler);
LINKED(elf);
LINKED(frame);
LINKED(pfm);
LINKED(seccomp);
LINKED(symtab);
LINKED(zstd);

enum {
	EXIT_SCRIPT = 1,
	EXIT_PANIC = 70,   /* sysexits: an internal software error */
	EXIT_REFUSED = 77, /* sysexits: permission denied */
	HOOK_EVERY = 10000, /* Lua instructions between two looks at the clock */
	GC_AFTER_KIB = 1024,
};

#define GRACE_NS 700000000
#define GRACE_S 1 /* for alarm(2), which counts in seconds */
/* timeout(1) and a closing terminal send two signals for one event. */
#define ECHO_NS 50000000

static const int endings[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

#define NR(array) (sizeof(array) / sizeof((array)[0]))

/* Shared by the handler and the hook. One per process, like signals. */
static struct {
	volatile sig_atomic_t number; /* of the first signal; 0 before it */
	int64_t came_ns;              /* used by the handler alone */
	int64_t hurried_ns;           /* used by the hook alone, 0: not yet */
	int fd;                       /* readable from the first signal on */
	lua_State *volatile L;        /* the state with interruptible Lua code, or NULL */
} caught;

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- signals ---- */

static void raise_if_unseen(lua_State *L, lua_Debug *ar)
{
	int64_t now = clock_ns();

	(void)ar;
	if (!caught.hurried_ns)
		caught.hurried_ns = now;
	if (now - caught.hurried_ns < GRACE_NS)
		return;
	lua_sethook(L, NULL, 0, 0);
	luaL_where(L, 0); /* a hook has no frame of its own: level 0 is the interrupted function */
	lua_pushliteral(L, "interrupted!");
	lua_concat(L, 2);
	lua_error(L);
}

static void catch_signal(int number)
{
	const int saved = errno;
	const uint64_t one = 1;
	const int64_t now = clock_ns();

	if (!caught.number) {
		caught.came_ns = now;
		caught.number = number;
		/* A signal handler may set a hook (lua.c, laction). */
		if (caught.L)
			lua_sethook(caught.L, raise_if_unseen, LUA_MASKCOUNT, HOOK_EVERY);
		if (write(caught.fd, &one, sizeof(one)) < 0)
			caught.came_ns = 0; /* cannot happen: the counter is 0 */
		alarm(GRACE_S);
	} else if (now - caught.came_ns >= ECHO_NS) {
		signal(number, SIG_DFL);
		raise(number); /* blocked until we return */
	}
	errno = saved;
}

/* Without SA_RESTART: a system call that blocks ends with EINTR. */
static void interrupt_call(int number)
{
	(void)number;
}

static int catch_signals(lua_State *L)
{
	struct sigaction catch = { .sa_handler = catch_signal, .sa_flags = SA_RESTART };
	const struct sigaction interrupt = { .sa_handler = interrupt_call };
	struct sigaction old;

	caught.L = L;
	caught.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (caught.fd < 0)
		return -errno;
	for (size_t i = 0; i < NR(endings); i++)
		sigaddset(&catch.sa_mask, endings[i]);
	for (size_t i = 0; i < NR(endings); i++) {
		/*
		 * nohup(1) ignores SIGHUP, and that stays. A shell without job control ignores
		 * SIGINT and SIGQUIT for its background commands; a kill -INT must still work.
		 */
		if (endings[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 &&
		    old.sa_handler == SIG_IGN)
			continue;
		sigaction(endings[i], &catch, NULL);
	}
	sigaction(SIGALRM, &interrupt, NULL);
	/* If SIGCHLD is ignored, as in daemons, a command's status is lost: wait(2). */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	/* Beyond RLIMIT_FSIZE a write then fails with EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
	return 0;
}

/* Ends by the signal's default effect, so that the shell sees the signal. */
static void die_of(int number)
{
	sigset_t set;

	fflush(NULL); /* the kernel does not flush */
	prctl(PR_SET_DUMPABLE, 0); /* SIGQUIT was handled: write no core */
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
}

static bool has_signal(void) { return caught.number != 0; }

/* Opens closed descriptors 0 to 2, so that a perf event never becomes a standard output. */
static void fill_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* ---- perfl.core: the C functions of lua/perfl ---- */

/* signal_fd() -> a descriptor that is readable once a signal came */
static int l_signal_fd(lua_State *L)
{
	lua_pushinteger(L, caught.fd);
	return 1;
}

/* signal() -> number of the signal that came | nil */
static int l_signal(lua_State *L)
{
	if (!caught.number)
		return 0;
	lua_pushinteger(L, caught.number);
	return 1;
}

/* wait_signal(ms): sleeps until a signal comes or the time is over */
static int l_wait_signal(lua_State *L)
{
	struct pollfd signals = { .fd = caught.fd, .events = POLLIN };

	if (poll(&signals, 1, (int)luaL_checkinteger(L, 1)) < 0) {
		/* EINTR: a signal came. */
	}
	return 0;
}

/* heed(): the loop has seen the signal; nothing is interrupted any more */
static int l_heed(lua_State *L)
{
	uint64_t count;

	lua_sethook(caught.L, NULL, 0, 0);
	alarm(0);
	lua_pushboolean(L, read(caught.fd, &count, sizeof(count)) > 0);
	return 1;
}

/* cpu_time() -> seconds this process has computed, without its children */
static int l_cpu_time(lua_State *L)
{
	struct rusage used;
	double seconds;

	getrusage(RUSAGE_SELF, &used);
	seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
	seconds += (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	lua_pushnumber(L, seconds);
	return 1;
}

static lua_Integer ns_of(const struct timeval *time)
{
	return ((lua_Integer)time->tv_sec * 1000000 + time->tv_usec) * 1000;
}

/* children_time() -> ns in user space, ns in the kernel: of all children that were waited for */
static int l_children_time(lua_State *L)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	lua_pushinteger(L, ns_of(&used.ru_utime));
	lua_pushinteger(L, ns_of(&used.ru_stime));
	return 2;
}

/* flush(file) -> true | nil, message, errno; reports an earlier failed write, too */
static int l_flush(lua_State *L)
{
	const luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
	int code = 0;

	if (!stream->closef)
		return luaL_error(L, "flush of a closed file");
	if (fflush(stream->f) != 0)
		code = errno;
	else if (ferror(stream->f))
		code = EIO;
	if (code && perfl_sink_error(stream->f))
		code = perfl_sink_error(stream->f);
	errno = code;
	return luaL_fileresult(L, code == 0, NULL);
}

static int close_file(lua_State *L)
{
	luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);

	return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

/* Makes file, which reads or writes fd, the open stream -> 1. Without one: nil, message, errno. */
static int set_stream(lua_State *L, luaL_Stream *stream, int fd, FILE *file, const char *path)
{
	int code = errno;

	if (file) {
		stream->f = file;
		stream->closef = close_file;
		return 1;
	}
	close(fd);
	errno = code;
	return luaL_fileresult(L, 0, path);
}

static luaL_Stream *push_closed_file(lua_State *L)
{
	luaL_Stream *stream = lua_newuserdatauv(L, sizeof(*stream), 0);

	stream->closef = NULL;
	luaL_setmetatable(L, LUA_FILEHANDLE);
	return stream;
}

/*
 * take_stdout("recording") -> descriptor | nil, message; take_stdout("frames" | "text") -> file.
 * What the script and the command write to standard output goes to standard error from here on.
 */
static int l_take_stdout(lua_State *L)
{
	static const char *const contents[] = { "recording", "frames", "text", NULL };
	int content = luaL_checkoption(L, 1, NULL, contents);
	luaL_Stream *stream = push_closed_file(L);
	int fd;

	if (content < 2 && isatty(STDOUT_FILENO)) {
		lua_pushnil(L);
		lua_pushfstring(L, "standard output is a terminal, and %s binary\n"
				   "try: a file, or a pipe",
				content ? "frames without --armor are" : "a recording is");
		return 2;
	}
	fflush(stdout);
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return luaL_fileresult(L, 0, "standard output");
	if (content > 0)
		return set_stream(L, stream, fd, perfl_sink_open(fd), "standard output");
	lua_pushinteger(L, fd);
	return 1;
}

/*
 * Output may contain addresses and command lines, so root follows no symbolic link. The caller
 * checks the owner and then calls truncate(). ENXIO: a FIFO without a reader.
 */
static int open_output(const char *path)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

	if (geteuid() == 0)
		flags |= O_NOFOLLOW;
	return open(path, flags, 0600);
}

/* truncate(file) -> true | nil, message, errno: empties the file of open(path, "w") */
static int l_truncate(lua_State *L)
{
	const luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
	int fd = stream->closef ? perfl_sink_fd(stream->f) : -1;
	struct stat st;

	if (fd < 0)
		return luaL_error(L, "truncate: not a file of open()");
	if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0) ||
	    fcntl(fd, F_SETFL, O_WRONLY) < 0) /* no longer O_NONBLOCK */
		return luaL_fileresult(L, 0, NULL);
	lua_pushboolean(L, 1);
	return 1;
}

/*
 * open(path, "r" | "w") -> file, mode, uid, mtime (s), gid | nil, message, errno
 * Mode, owner and time are those of the file that is open, not of the path a moment ago.
 */
static int l_open(lua_State *L)
{
	static const char *const modes[] = { "r", "w", NULL };
	const char *path = luaL_checkstring(L, 1);
	int mode = luaL_checkoption(L, 2, NULL, modes);
	luaL_Stream *stream = push_closed_file(L);
	FILE *file = NULL;
	struct stat st;
	int fd, nr;

	fd = mode == 1 ? open_output(path) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return luaL_fileresult(L, 0, path);
	if (fstat(fd, &st) == 0)
		file = mode == 1 ? perfl_sink_open(fd) : fdopen(fd, "r");
	nr = set_stream(L, stream, fd, file, path);
	if (nr > 1)
		return nr;
	lua_pushinteger(L, st.st_mode);
	lua_pushinteger(L, st.st_uid);
	lua_pushinteger(L, st.st_mtime);
	lua_pushinteger(L, st.st_gid);
	return 5;
}

/* exists(path) -> true if it exists and is not a directory */
static int l_exists(lua_State *L)
{
	struct stat st;

	lua_pushboolean(L, stat(luaL_checkstring(L, 1), &st) == 0 && !S_ISDIR(st.st_mode));
	return 1;
}

/* realpath(path) -> absolute path | nil, message, errno */
static int l_realpath(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	char *buffer = lua_newuserdatauv(L, PATH_MAX, 0);

	if (!realpath(path, buffer))
		return luaL_fileresult(L, 0, path);
	lua_pushstring(L, buffer);
	return 1;
}

/* The name of an embedded script; NULL for a module. */
static const char *script_name(const struct pev_chunk *chunk)
{
	static const char folder[] = "scripts/";
	const size_t len = sizeof(folder) - 1;

	return strncmp(chunk->name, folder, len) == 0 ? chunk->name + len : NULL;
}

/* script_names() -> list of the scripts that perfl carries, sorted */
static int l_script_names(lua_State *L)
{
	lua_newtable(L);
	for (const struct pev_chunk *chunk = pev_chunks; chunk->name; chunk++) {
		if (!script_name(chunk))
			continue;
		lua_pushstring(L, script_name(chunk));
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	}
	return 1;
}

/* script(name) -> its text | nil: perfl carries no such script */
static int l_script(lua_State *L)
{
	const char *name = luaL_checkstring(L, 1);

	for (const struct pev_chunk *chunk = pev_chunks; chunk->name; chunk++) {
		if (!script_name(chunk) || strcmp(script_name(chunk), name) != 0)
			continue;
		lua_pushlstring(L, (const char *)chunk->text, chunk->len);
		return 1;
	}
	return 0;
}

/* The user's name, to be freed, if that is their primary group and no other user's; or NULL. */
static char *name_by_primary_group(uid_t uid, gid_t gid)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *user;
	bool is_shared = false;
	char *name = NULL;

	/* cppcheck-suppress fgetpwentCalled ; perfl has one thread */
	while (file && (user = fgetpwent(file))) {
		if (user->pw_gid != gid)
			continue;
		is_shared = is_shared || user->pw_uid != uid;
		if (!name)
			name = strdup(user->pw_name);
	}
	if (file)
		fclose(file);
	if (!is_shared)
		return name;
	free(name);
	return NULL;
}

static bool has_only_member(gid_t gid, const char *name)
{
	FILE *file = fopen("/etc/group", "re");
	struct group *group;
	bool only = file != NULL;

	/* cppcheck-suppress fgetgrentCalled ; perfl has one thread */
	while (only && (group = fgetgrent(file)))
		for (char **member = group->gr_mem; group->gr_gid == gid && *member; member++)
			only = only && strcmp(*member, name) == 0;
	if (file)
		fclose(file);
	return only;
}

/*
 * is_private_group(uid, gid) -> true if it is that user's primary group and has no other member, by
 * /etc/passwd and /etc/group alone: a static perfl cannot load other name services.
 */
static int l_is_private_group(lua_State *L)
{
	uid_t uid = (uid_t)luaL_checkinteger(L, 1);
	gid_t gid = (gid_t)luaL_checkinteger(L, 2);
	char *name = name_by_primary_group(uid, gid);

	lua_pushboolean(L, name && has_only_member(gid, name));
	free(name);
	return 1;
}

/* terminal(fd) -> its columns | nil: not a terminal */
static int l_terminal(lua_State *L)
{
	int fd = (int)luaL_checkinteger(L, 1);
	struct winsize size;

	if (ioctl(fd, TIOCGWINSZ, &size) < 0)
		return 0;
	lua_pushinteger(L, size.ws_col ? size.ws_col : 80);
	return 1;
}

/* is_pipe(fd) -> true if a process may be reading it */
static int l_is_pipe(lua_State *L)
{
	struct stat st;
	int rc = fstat((int)luaL_checkinteger(L, 1), &st);

	lua_pushboolean(L, rc == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)));
	return 1;
}

static int l_run_child(lua_State *L) { return perfl_run_child(L, caught.fd); }

static const luaL_Reg functions[] = {
	{ "children_time", l_children_time },
	{ "cpu_time",  l_cpu_time },
	{ "exec_self", perfl_exec_self },
	{ "exists",    l_exists },
	{ "finish_child", perfl_finish_child },
	{ "flush",     l_flush },
	{ "heed",      l_heed },
	{ "is_pipe",   l_is_pipe },
	{ "open",      l_open },
	{ "is_private_group", l_is_private_group },
	{ "raise",     perfl_raise },
	{ "realpath",  l_realpath },
	{ "run_child", l_run_child },
	{ "script",    l_script },
	{ "script_names", l_script_names },
	{ "take_stdout", l_take_stdout },
	{ "signal",    l_signal },
	{ "signal_fd", l_signal_fd },
	{ "terminal",  l_terminal },
	{ "truncate",  l_truncate },
	{ "wait_signal", l_wait_signal },
	{ NULL,        NULL },
};

static int luaopen_perfl_core(lua_State *L)
{
	luaL_newlib(L, functions);
	lua_pushboolean(L, pev_rights_elevated());
	lua_setfield(L, -2, "elevated"); /* runs with capabilities its caller lacks */
	lua_pushinteger(L, geteuid());
	lua_setfield(L, -2, "euid");
	lua_pushinteger(L, getuid());
	lua_setfield(L, -2, "uid");
	lua_pushboolean(L, luaopen_perfev_symtab != NULL);
	lua_setfield(L, -2, "static"); /* everything is linked in; modules in C cannot be loaded */
	return 1;
}

/* ---- the Lua state ---- */

/* Loads bytecode, which is faster, if this release of Lua compiled it; else the source. */
static int load_chunk(lua_State *L, const struct pev_chunk *chunk, const char *chunkname)
{
	if (strstr(lua_ident, LUA_RELEASE " ") &&
	    luaL_loadbufferx(L, (const char *)chunk->code, chunk->code_len, chunkname, "b") ==
		    LUA_OK)
		return LUA_OK;
	return luaL_loadbufferx(L, (const char *)chunk->text, chunk->len, chunkname, "t");
}

static int load_embedded(lua_State *L)
{
	const struct pev_chunk *chunk = lua_touserdata(L, lua_upvalueindex(1));
	const char *chunkname = lua_pushfstring(L, "@%s", chunk->path);

	if (load_chunk(L, chunk, chunkname) != LUA_OK)
		return lua_error(L);
	lua_pushstring(L, chunk->name);
	lua_call(L, 1, 1);
	return 1;
}

static void preload_linked(lua_State *L)
{
	const luaL_Reg linked[] = {
		{ "perfev.cfi",          luaopen_perfev_cfi },
		{ "perfev.disassembler", luaopen_perfev_disassembler },
		{ "perfev.elf",          luaopen_perfev_elf },
		{ "perfev.frame",        luaopen_perfev_frame },
		{ "perfev.pfm",          luaopen_perfev_pfm },
		{ "perfev.seccomp",      luaopen_perfev_seccomp },
		{ "perfev.symtab",       luaopen_perfev_symtab },
		{ "perfev.zstd",         luaopen_perfev_zstd },
	};

	for (size_t i = 0; i < NR(linked); i++) {
		if (!linked[i].func)
			continue;
		lua_pushcfunction(L, linked[i].func);
		lua_setfield(L, -2, linked[i].name);
	}
}

static void preload_modules(lua_State *L)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	for (const struct pev_chunk *chunk = pev_chunks; chunk->name; chunk++) {
		if (script_name(chunk))
			continue;
		lua_pushlightuserdata(L, (void *)(uintptr_t)chunk);
		lua_pushcclosure(L, load_embedded, 1);
		lua_setfield(L, -2, chunk->name);
	}
	lua_pushcfunction(L, luaopen_perfev_core);
	lua_setfield(L, -2, "perfev.core");
	lua_pushcfunction(L, luaopen_perfl_core);
	lua_setfield(L, -2, "perfl.core");
	preload_linked(L);
	lua_pop(L, 1);
}

static void open_libraries(lua_State *L)
{
	/* The caller sets LUA_PATH and LUA_CPATH, and must not get our capabilities. */
	if (pev_rights_elevated()) {
		lua_pushboolean(L, 1);
		lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
	}
	luaL_openlibs(L);
	preload_modules(L);
}

static void push_words(lua_State *L, int argc, char **argv)
{
	lua_createtable(L, argc, 1);
	for (int i = 0; i < argc; i++) {
		lua_pushstring(L, argv[i]);
		lua_rawseti(L, -2, i);
	}
}

/* The end of the process, once it is decided. */
static struct {
	int known;
	int status;
	int number; /* of the signal to die of, or 0 */
} ending;

__attribute__((noreturn)) static void end_process(void)
{
	if (ending.number)
		die_of(ending.number);
	exit(ending.status);
}

static int l_end(lua_State *L)
{
	(void)L;
	if (ending.known) /* else os.exit(), which has its own status */
		end_process();
	return 0;
}

/*
 * Finalizers are called in reverse order. The first object's is called when everything is closed,
 * and ends the process: only memory is left, which exit(2) frees.
 */
__attribute__((unused)) static void set_last_finalizer(lua_State *L)
{
	lua_newtable(L);
	lua_newtable(L);
	lua_pushcfunction(L, l_end);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &ending);
}

/* (argc, argv) -> status [, signal]: require("perfl.main").main(argv) */
static int run_program(lua_State *L)
{
	int argc = (int)lua_tointeger(L, 1);
	char **argv = lua_touserdata(L, 2);

	/*
	 * Loaded code is not garbage: the collector starts after GC_AFTER_KIB more are
	 * allocated. (A step counts its KiB, also negative, as allocated: lapi.c, lua_gc().)
	 */
	lua_gc(L, LUA_GCSTOP);
#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer needs everything freed */
	set_last_finalizer(L);
#endif
	open_libraries(L);
	lua_getglobal(L, "require");
	lua_pushliteral(L, "perfl.main");
	lua_call(L, 1, 1);
	lua_gc(L, LUA_GCRESTART);
	lua_gc(L, LUA_GCSTEP, -GC_AFTER_KIB);
	lua_getfield(L, -1, "main");
	push_words(L, argc, argv);
	lua_call(L, 1, 2);
	return 2;
}

static int add_traceback(lua_State *L)
{
	luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
	return 1;
}

static int panic(lua_State *L)
{
	const char *text = lua_tostring(L, -1);

	fprintf(stderr, "perfl: %s\n", text ? text : "out of memory");
	_exit(EXIT_PANIC);
}

/* The program's status; *number is the signal to die of, or 0. */
static int run_state(lua_State *L, int argc, char **argv, int *number)
{
	int status;

	lua_atpanic(L, panic);
	lua_pushcfunction(L, add_traceback);
	lua_pushcfunction(L, run_program);
	lua_pushinteger(L, argc);
	lua_pushlightuserdata(L, argv);
	if (lua_pcall(L, 2, 2, 1) != LUA_OK) {
		fprintf(stderr, "perfl: %s\n", lua_tostring(L, -1));
		*number = caught.number;
		return EXIT_SCRIPT;
	}
	status = (int)lua_tointeger(L, -2);
	*number = (int)lua_tointeger(L, -1);
	return status;
}

static int print_failure(const char *what, int code)
{
	fprintf(stderr, "perfl: %s: %s\n", what, strerror(code));
	return EXIT_SCRIPT;
}

int main(int argc, char **argv)
{
	lua_State *L;
	int rc;

	if (getuid() != geteuid() || getgid() != getegid()) {
		fputs("perfl: refuses to run set-uid or set-gid: a script would have those rights\n"
		      "  try: file capabilities for a group of users, see perfl(1)\n",
		      stderr);
		return EXIT_REFUSED;
	}
	rc = pev_rights_hold();
	if (rc < 0) {
		fprintf(stderr, "perfl: cannot hold back its file capabilities: %s\n",
			strerror(-rc));
		return EXIT_REFUSED;
	}
	fill_standard_fds();
	rc = perfl_sink_open_stdout(has_signal);
	if (rc < 0)
		return print_failure("standard output", -rc);
	L = luaL_newstate();
	if (!L)
		return print_failure("cannot make a Lua state", ENOMEM);
#ifndef __SANITIZE_ADDRESS__ /* it checks blocks of malloc() only */
	l_allocator_use_room(L);
#endif
	rc = catch_signals(L);
	if (rc < 0) {
		lua_close(L);
		return print_failure("cannot wait for signals", -rc);
	}
	ending.status = run_state(L, argc, argv, &ending.number);
	ending.known = 1;

	/* Closing is not interrupted; a second signal still ends the process. */
	caught.L = NULL;
	lua_sethook(L, NULL, 0, 0);
	lua_close(L);
	end_process();
}
