/*
 * attacks.c - a Lua module of system calls that a confined perfl must not make: each function
 * returns 0 if the call succeeded, or its errno. For spec/live/sandbox_spec.lua.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int luaopen_attacks(lua_State *L);

static int result(lua_State *L, long rc)
{
	lua_pushinteger(L, rc < 0 ? errno : 0);
	return 1;
}

/* A file named by the argument. */
static int l_write(lua_State *L)
{
	return result(L, open(luaL_checkstring(L, 1), O_WRONLY));
}

static int l_create(lua_State *L)
{
	return result(L, open(luaL_checkstring(L, 1), O_RDONLY | O_CREAT, 0600));
}

static int l_truncate(lua_State *L)
{
	return result(L, truncate(luaL_checkstring(L, 1), 0));
}

static int l_unlink(lua_State *L)
{
	return result(L, unlink(luaL_checkstring(L, 1)));
}

static int l_rename(lua_State *L)
{
	return result(L, rename(luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
}

static int l_chmod(lua_State *L)
{
	return result(L, chmod(luaL_checkstring(L, 1), 0777));
}

static int l_mkdir(lua_State *L)
{
	return result(L, mkdir(luaL_checkstring(L, 1), 0700));
}

static int l_read(lua_State *L)
{
	return result(L, open(luaL_checkstring(L, 1), O_RDONLY));
}

static int l_openat2(lua_State *L)
{
	const uint64_t how[3] = { O_WRONLY, 0, 0 };

	return result(L, syscall(SYS_openat2, AT_FDCWD, luaL_checkstring(L, 1), how, sizeof(how)));
}

static int l_execve(lua_State *L)
{
	char *const words[] = { (char *)"true", NULL };
	int pid = fork();

	if (pid == 0) {
		execve("/bin/true", words, NULL);
		_exit(1);
	}
	if (pid < 0) /* nothing was made that could execute it: try in place */
		return result(L, execve("/bin/true", words, NULL));
	waitpid(pid, NULL, 0);
	return result(L, 0);
}

static int l_fork(lua_State *L)
{
	int pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return result(L, pid);
}

static int l_socket(lua_State *L)
{
	return result(L, socket(AF_INET, SOCK_STREAM, 0));
}

static int l_socketpair(lua_State *L)
{
	int pair[2];

	return result(L, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static int l_ptrace(lua_State *L)
{
	long rc = ptrace(PTRACE_SEIZE, (int)luaL_checkinteger(L, 1), NULL, NULL);

	return result(L, rc);
}

static int l_readv(lua_State *L)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { &byte, 1 };

	/* Of this process's own address there: EFAULT if it may. */
	long rc = process_vm_readv((int)luaL_checkinteger(L, 1), &here, 1, &there, 1, 0);

	return result(L, rc < 0 && errno == EFAULT ? 0 : rc);
}

static int l_kill(lua_State *L)
{
	return result(L, kill((int)luaL_checkinteger(L, 1), 0));
}

static int l_perf_event_open(lua_State *L)
{
	uint64_t attr[16] = { 1 | UINT64_C(128) << 32, 0 }; /* a software event, of 128 bytes */

	return result(L, syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
}

static int l_execute_memory(lua_State *L)
{
	static _Alignas(4096) char page[4096];

	return result(L, mprotect(page, sizeof(page), PROT_READ | PROT_EXEC));
}

static int l_map_code(lua_State *L)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	/* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS needs no descriptor */
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, flags, -1, 0);
	int rc = result(L, p == MAP_FAILED ? -1 : 0);

	if (p != MAP_FAILED)
		munmap(p, 4096);
	return rc;
}

static int l_memfd(lua_State *L)
{
	return result(L, memfd_create("x", 0));
}

static int l_io_uring(lua_State *L)
{
	char parameters[120] = { 0 };

	return result(L, syscall(SYS_io_uring_setup, 1, parameters));
}

static int l_bpf(lua_State *L)
{
	char attr[64] = { 0 };
	long rc = syscall(SYS_bpf, 11 /* BPF_PROG_GET_NEXT_ID */, attr, sizeof(attr));

	return result(L, rc < 0 && errno == ENOENT ? 0 : rc);
}

static int l_unshare(lua_State *L)
{
	return result(L, unshare(CLONE_FS));
}

static int l_chroot(lua_State *L)
{
	return result(L, chroot("/"));
}

static int l_steal_signal(lua_State *L)
{
	return result(L, prctl(PR_SET_PDEATHSIG, 0));
}

__attribute__((visibility("default"))) int luaopen_attacks(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "write", l_write }, { "create", l_create }, { "truncate", l_truncate },
		{ "unlink", l_unlink }, { "rename", l_rename }, { "chmod", l_chmod },
		{ "mkdir", l_mkdir }, { "read", l_read }, { "openat2", l_openat2 },
		{ "execve", l_execve }, { "fork", l_fork }, { "socket", l_socket },
		{ "socketpair", l_socketpair }, { "ptrace", l_ptrace }, { "readv", l_readv },
		{ "kill", l_kill }, { "perf_event_open", l_perf_event_open },
		{ "execute_memory", l_execute_memory }, { "map_code", l_map_code },
		{ "memfd", l_memfd }, { "io_uring", l_io_uring }, { "bpf", l_bpf },
		{ "unshare", l_unshare }, { "chroot", l_chroot },
		{ "steal_signal", l_steal_signal }, { NULL, NULL },
	};

	luaL_newlib(L, functions);
	return 1;
}
