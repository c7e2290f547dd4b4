/*
 * perfl_child.c - calls a Lua function in a child process, and returns what it printed.
 *
 * The child is a fork of perfl with all its modules loaded, so it costs 1 ms instead of the 10 ms
 * of a new program, and whatever it does to Lua's state is gone with it. Its output goes into
 * files in memory. The kernel ends it after its CPU time, and when perfl ends.
 */
#define _GNU_SOURCE
#include "perfl_child.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT,
       ERRORS,
       RESULT,
       NR_FILES };
enum {
	FILE_MAX = 64 << 20, /* bytes that a child may write to a file */
	EXIT_UNFINISHED = 125, /* f returned or raised instead of finish_child() */
};

static int result_fd = -1; /* in the child */

static void close_all(const int *fds)
{
	for (int i = 0; i < NR_FILES; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool make_files(int *fds)
{
	for (int i = 0; i < NR_FILES; i++)
		fds[i] = -1;
	for (int i = 0; i < NR_FILES; i++) {
		fds[i] = memfd_create("perfl", MFD_CLOEXEC);
		if (fds[i] < 0)
			return false;
	}
	return true;
}

static bool set_limit(int which, rlim_t soft, rlim_t hard)
{
	const struct rlimit limit = { .rlim_cur = soft, .rlim_max = hard };

	return setrlimit(which, &limit) == 0;
}

/* A pipe whose reader has closed it: a write fails with EPIPE. */
static bool close_output(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	close(ends[0]);
	return dup2(ends[1], STDOUT_FILENO) >= 0;
}

static bool become_child(const int *fds, pid_t parent, int seconds, bool closed, int signal_fd)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int signals = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool ok;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || nothing < 0 || signals < 0)
		return false;
	ok = dup2(nothing, STDIN_FILENO) >= 0 && dup2(fds[OUTPUT], STDOUT_FILENO) >= 0;
	ok = ok && dup2(fds[ERRORS], STDERR_FILENO) >= 0;
	ok = ok && dup3(signals, signal_fd, O_CLOEXEC) >= 0;
	ok = ok && (!closed || close_output());
	ok = ok && set_limit(RLIMIT_CPU, (rlim_t)seconds, (rlim_t)seconds + 1);
	ok = ok && set_limit(RLIMIT_FSIZE, FILE_MAX, FILE_MAX) && set_limit(RLIMIT_CORE, 0, 0);
	result_fd = fds[RESULT];
	return ok;
}

__attribute__((noreturn)) static void call_function(lua_State *L)
{
	lua_pushvalue(L, 1);
	if (lua_pcall(L, 0, 0, 0) != LUA_OK)
		fprintf(stderr, "perfl: %s\n", luaL_tolstring(L, -1, NULL));
	fflush(NULL);
	_exit(EXIT_UNFINISHED);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
		/* perfl's signals do not interrupt the child: it has got them, too */
	}
	return status;
}

static void set_content(lua_State *L, int fd, const char *name)
{
	luaL_Buffer text;
	off_t at = 0;

	luaL_buffinit(L, &text);
	for (;;) {
		char *room = luaL_prepbuffer(&text);
		ssize_t len = pread(fd, room, LUAL_BUFFERSIZE, at);

		if (len <= 0)
			break;
		luaL_addsize(&text, (size_t)len);
		at += len;
	}
	luaL_pushresult(&text);
	lua_setfield(L, -2, name);
}

/*
 * run_child(f, seconds [, closed]) -> { output =, errors =, result =, exit = | signal = }
 * | nil, message, errno. f ends with finish_child(). closed: standard output is a closed pipe.
 */
int perfl_run_child(lua_State *L, int signal_fd)
{
	int seconds = (int)luaL_checkinteger(L, 2), fds[NR_FILES], status;
	bool closed = lua_toboolean(L, 3);
	pid_t pid = -1, parent = getpid();

	luaL_checktype(L, 1, LUA_TFUNCTION);
	fflush(NULL);
	if (make_files(fds))
		pid = fork();
	if (pid == 0) {
		if (become_child(fds, parent, seconds, closed, signal_fd))
			call_function(L);
		_exit(EXIT_UNFINISHED);
	}
	if (pid < 0) {
		int code = errno;

		close_all(fds);
		errno = code;
		return luaL_fileresult(L, 0, "a child process");
	}
	status = wait_for(pid);
	lua_createtable(L, 0, 4);
	set_content(L, fds[OUTPUT], "output");
	set_content(L, fds[ERRORS], "errors");
	set_content(L, fds[RESULT], "result");
	close_all(fds);
	lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	lua_setfield(L, -2, WIFEXITED(status) ? "exit" : "signal");
	return 1;
}

int perfl_finish_child(lua_State *L)
{
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);

	fflush(NULL);
	while (len > 0) {
		ssize_t written = write(result_fd, text, len);

		if (written < 0)
			_exit(EXIT_UNFINISHED);
		text += written;
		len -= (size_t)written;
	}
	_exit(0);
}

int perfl_raise(lua_State *L)
{
	lua_pushboolean(L, raise((int)luaL_checkinteger(L, 1)) == 0);
	return 1;
}

enum { WORDS_MAX = 256 };

/* exec_self({ word, ... }): replaces a child by a new perfl, which has another hash seed in Lua */
int perfl_exec_self(lua_State *L)
{
	const char *words[WORDS_MAX + 2] = { "perfl" };
	lua_Integer nr = luaL_len(L, 1);

	luaL_argcheck(L, nr <= WORDS_MAX, 1, "too many words");
	for (int i = 1; i <= nr; i++) {
		lua_geti(L, 1, i);
		words[i] = luaL_checkstring(L, -1); /* the table keeps it */
		lua_pop(L, 1);
	}
	execv("/proc/self/exe", (char *const *)(uintptr_t)words);
	return luaL_fileresult(L, 0, "/proc/self/exe");
}
