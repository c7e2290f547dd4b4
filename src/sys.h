/*
 * sys.h - every way perfev touches the kernel, as one table of functions.
 *
 * Each returns a value >= 0 or -errno; nobody above this table reads errno.
 * An object keeps the table it was opened with, so a fake descriptor never
 * reaches the real close. pev_sys_linux is the real one; specs and the Lua
 * hooks put another in its place.
 */
#ifndef PEV_SYS_H
#define PEV_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

struct epoll_event;
struct iovec;

/* A command to start, held before exec until its gate is released. */
struct pev_spawn {
	char *const *argv;   /* argv[0] is looked up in PATH; ends with NULL */
	uint64_t unblock;    /* bit n-1: signal n, to be unblocked in the child */
};

struct pev_spawned {
	int pid;
	int gate;            /* socket; release() lets the command exec */
};

/* Which file it is: two paths with the same dev and ino lead to one file. */
struct pev_stat {
	uint64_t dev;        /* as the kernel's records have it: new_encode_dev() */
	uint64_t ino;
	uint32_t mode;       /* S_IF* and permissions */
	uint32_t uid;        /* owner */
	uint64_t size;       /* of a regular file, bytes */
};

struct pev_sys {
	void *ctx;           /* first argument of every function */

	/* attr may be changed: E2BIG writes the kernel's own size into attr->size. */
	int (*perf_event_open)(void *ctx, struct pev_attr *attr, int pid, int cpu,
			       int group_fd, unsigned long flags);
	/* arg: a number or a pointer, as the request has it. */
	int (*ioctl)(void *ctx, int fd, unsigned long request, uintptr_t arg);
	/* MAP_SHARED; *addr is set on success. */
	int (*mmap)(void *ctx, size_t len, int prot, int fd, uint64_t offset, void **addr);
	int (*munmap)(void *ctx, void *addr, size_t len);
	/* O_CLOEXEC is added; a file that O_CREAT makes is its owner's alone, 0600. */
	int (*open)(void *ctx, const char *path, int flags);
	int64_t (*read)(void *ctx, int fd, void *buf, size_t len);
	/* -ESPIPE where there is no place to read from, as in a pipe. */
	int64_t (*pread)(void *ctx, int fd, void *buf, size_t len, uint64_t offset);
	/* Pieces one after the other at the file's place; how many bytes, which can be fewer. */
	int64_t (*writev)(void *ctx, int fd, const struct iovec *pieces, int nr);
	int64_t (*pwrite)(void *ctx, int fd, const void *buf, size_t len, uint64_t offset);
	int (*ftruncate)(void *ctx, int fd, uint64_t len);
	/* Works on every kind of descriptor. */
	int (*fstat)(void *ctx, int fd, struct pev_stat *out);
	int (*rename)(void *ctx, const char *from, const char *to);
	int (*unlink)(void *ctx, const char *path);
	int (*close)(void *ctx, int fd);
	/* F_GETFL and F_SETFL, F_SETOWN, F_SETSIG: commands whose argument is an int. */
	int (*fcntl)(void *ctx, int fd, int cmd, int arg);

	int (*epoll_create)(void *ctx);
	int (*epoll_ctl)(void *ctx, int epfd, int op, int fd, uint32_t events, uint64_t tag);
	/* timeout_ms: -1 waits for ever. An interrupting signal gives -EINTR. */
	int (*epoll_wait)(void *ctx, int epfd, struct epoll_event *events, int max,
			  int timeout_ms);

	int (*clock)(void *ctx, int clockid, uint64_t *ns);
	/* A timer on CLOCK_MONOTONIC; every_ns 0 fires once. */
	int (*timerfd)(void *ctx, uint64_t first_ns, uint64_t every_ns);
	/* Readable while one of the signals is pending; they must be blocked first. */
	int (*signalfd)(void *ctx, uint64_t signals);
	/* Block or unblock; *changed gets those whose state did change. */
	int (*sigblock)(void *ctx, uint64_t signals, int block, uint64_t *changed);

	int (*spawn)(void *ctx, const struct pev_spawn *spawn, struct pev_spawned *out);
	/*
	 * 0 once the command runs, -errno of its exec, -ECHILD when it died before. Closes gate.
	 * stop: it stops behind its exec, before an instruction of its own; wait tells when.
	 */
	int (*release)(void *ctx, int gate, int stop);
	/* A command that has stopped so goes on. */
	int (*resume)(void *ctx, int pid);
	int (*pidfd_open)(void *ctx, int pid);
	/* pid when it was reaped or has stopped, 0 when it still runs and block is 0. */
	int (*wait)(void *ctx, int pid, int block, int *status);
	int (*kill)(void *ctx, int pid, int sig);

	/* The whole of a file of sysfs, procfs or tracefs; *text is the caller's to free. */
	int (*slurp)(void *ctx, const char *path, char **text, size_t *len);
	/* A descriptor of a directory, for perf_event_open() to have a cgroup by. */
	int (*directory)(void *ctx, const char *path);
	/* Names in a directory but "." and "..", each with its NUL; the caller's to free. */
	int (*list)(void *ctx, const char *path, char **names, size_t *len);
	/* One write(2) at the end of a file that is there: how tracefs takes a definition. */
	int (*append)(void *ctx, const char *path, const char *text);
	/* Raise the soft limit of open files to the hard one; gives the limit. */
	int (*raise_nofile)(void *ctx);
	int (*getpid)(void *ctx);
	/* PR_TASK_PERF_EVENTS_ENABLE or _DISABLE. */
	int (*prctl)(void *ctx, int option);
	/* Drop, for good, what this process has beyond its caller's rights but keep; rights.h. */
	int (*capset)(void *ctx, uint64_t keep);
	/* Where a symbolic link points, at most cap bytes of it without a NUL; how many. */
	int (*readlink)(void *ctx, const char *path, char *buf, size_t cap);
	/* Which file a path leads to, links followed. */
	int (*stat)(void *ctx, const char *path, struct pev_stat *out);
	int (*pagesize)(void *ctx);

	/*
	 * What is read in user space, without the kernel: a hardware counter by its
	 * number (index - 1 of the mapped page), and the clock that the page's
	 * time_cycles counts. -EOPNOTSUPP where the processor has no such thing for us.
	 */
	int (*rdpmc)(void *ctx, uint32_t counter, uint64_t *value);
	int (*rdtsc)(void *ctx, uint64_t *cycles);
};

extern const struct pev_sys pev_sys_linux;

/* The kernel's online CPUs in order: how many, and *cpus (the caller's to free). */
int pev_sys_cpus(const struct pev_sys *sys, int **cpus);
/* The threads of a process in order; -ESRCH when there is none. */
int pev_sys_threads(const struct pev_sys *sys, int pid, int **tids);
/*
 * A number that a process and those it forks do not share. What was opened under another
 * number than today's is a parent's: its rings are not mapped here, and what is
 * asked of its descriptors happens to the parent.
 */
unsigned pev_sys_process(void);
/* Is that still this process? Of a number that pev_sys_process() gave. */
extern unsigned pev_sys_this_process;
static inline bool pev_sys_is_process(unsigned process)
{
	return process == pev_sys_this_process;
}
/*
 * Have the kernel send this process a signal each time the descriptor has news
 * (O_ASYNC, F_SETSIG); 0: no longer.
 */
int pev_sys_signal(const struct pev_sys *sys, int fd, int signal);
/* The number that a one-line file holds, or -errno. */
int64_t pev_sys_number(const struct pev_sys *sys, const char *path);

#endif
