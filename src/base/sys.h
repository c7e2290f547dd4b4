/*
 * sys.h - every way perfev touches the kernel, as one table of functions.
 *
 * Each returns a value >= 0 or -errno; no other file reads errno. An object
 * keeps the table it was opened with, so a simulated descriptor never reaches
 * the real close(). pev_sys_linux calls Linux; specs and Lua hooks replace it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/abi.h"

struct epoll_event;
struct iovec;

/* A command that waits before its exec until its gate is released. */
struct pev_spawned {
	int pid;
	int gate;            /* socket */
};

/* Identity and kind of a file: two paths with the same dev and ino lead to one file. */
struct pev_stat {
	uint64_t dev;        /* encoded as in the kernel's records: new_encode_dev() */
	uint64_t ino;
	uint32_t mode;       /* S_IF* and permissions */
	uint32_t uid;        /* owner */
	uint64_t size;       /* of a regular file, bytes */
};

/* One function for each call in sys_calls.h. */
struct pev_sys {
	void *ctx;           /* first argument of every function */
#define CALL(type, name, answer, returns, text, ...) \
	/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */ \
	type (*name)(void *ctx PEV_SYS_EACH(PEV_SYS_PARAMETER, __VA_ARGS__));
#include "base/sys_calls.h"
};

extern const struct pev_sys pev_sys_linux;

/*
 * The table that hooks stand in front of: pev_sys_linux, or a guard that refuses some calls
 * (sandbox/guard.h). One for the process; set before any object is opened.
 */
extern const struct pev_sys *pev_sys_real;

/* Returns the number of online CPUs and sets *cpus to their sorted list; the caller frees it. */
int pev_sys_cpus(const struct pev_sys *sys, int **cpus);
/* The same for the threads of a process; -ESRCH if the process does not exist. */
int pev_sys_threads(const struct pev_sys *sys, int pid, int **tids);
/*
 * A number that changes in a forked child. An object opened under another number belongs to a
 * parent process: its rings are not mapped here, and calls on its descriptors act on the parent.
 */
unsigned pev_sys_process(void);
/* True if pev_sys_process() returned this number in this process, not in a parent. */
extern unsigned pev_sys_this_process;
static inline bool pev_sys_is_process(unsigned process)
{
	return process == pev_sys_this_process;
}
/*
 * Makes the kernel send this process a signal each time the descriptor becomes readable
 * (O_ASYNC, F_SETSIG); signal 0 ends that.
 */
int pev_sys_signal(const struct pev_sys *sys, int fd, int signal);
/* Returns the number in a one-line file, or -errno. */
int64_t pev_sys_number(const struct pev_sys *sys, const char *path);
