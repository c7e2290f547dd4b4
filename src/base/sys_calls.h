/*
 * sys_calls.h - the list of all calls through which perfev reaches the world outside.
 *
 * Where to add a system call: one row in this list, and linux_NAME() in sys.c. These are made
 * from the row: the member of struct pev_sys, the Linux table, the hook of that name with its
 * line in hooks.log, hooks.real, the names that hooks.set accepts, and the table in
 * doc/reference.md. A simulated kernel answers the call in lua/perfev/sim/calls.lua.
 *
 *	CALL(type, name, answer, returns, text, nr, parameters...)
 *
 * type        of the result: >= 0, or -errno
 * answer      converts between a hook's answer in Lua and the results in C (lsyscall_answers.c)
 * returns     a hook's results in words; "" when the number 0 is all it returns
 * text        one sentence for the documentation
 * nr          of the parameters
 * parameters  of the C function after ctx, each as (kind, name). The kind names a C type
 *             (PEV_SYS_TYPE_kind, below) and for its form in Lua (lsyscall_parameters.c)
 *
 * A parameter or an answer of a new form gets a new kind: one converter in the file named above,
 * in src/lua/hooks/.
 *
 * This file is included several times, each time with another CALL, which it undefines.
 */
/* clang-format off */
#ifndef PEV_SYS_CALLS_H
#define PEV_SYS_CALLS_H

/* Numbers: a kind says how hooks.log writes them, too. */
#define PEV_SYS_TYPE_int int
#define PEV_SYS_TYPE_flag int                   /* 0 or 1 */
#define PEV_SYS_TYPE_hex int
#define PEV_SYS_TYPE_ms int
#define PEV_SYS_TYPE_epoll_op int               /* EPOLL_CTL_ADD or _DEL */
#define PEV_SYS_TYPE_fcntl_command int          /* F_* whose argument is an int */
#define PEV_SYS_TYPE_mask uint32_t
#define PEV_SYS_TYPE_counter uint32_t           /* index - 1 of the mapped page */
#define PEV_SYS_TYPE_u64 uint64_t
#define PEV_SYS_TYPE_tag uint64_t               /* hooks.log leaves it out */
#define PEV_SYS_TYPE_ns uint64_t
#define PEV_SYS_TYPE_set uint64_t               /* of bits */
#define PEV_SYS_TYPE_flags unsigned long
#define PEV_SYS_TYPE_size size_t
#define PEV_SYS_TYPE_request unsigned long      /* PERF_EVENT_IOC_*, with */
#define PEV_SYS_TYPE_request_arg uintptr_t      /* a number or a pointer, by the request */
/* Input. */
#define PEV_SYS_TYPE_text const char *
#define PEV_SYS_TYPE_words char *const *        /* ends with NULL */
#define PEV_SYS_TYPE_bytes const void *         /* with */
#define PEV_SYS_TYPE_bytes_len size_t
#define PEV_SYS_TYPE_pieces const struct iovec * /* with */
#define PEV_SYS_TYPE_nr_pieces int
#define PEV_SYS_TYPE_attr struct pev_attr *     /* E2BIG changes attr->size */
#define PEV_SYS_TYPE_mapped void *              /* the result of mmap, with */
#define PEV_SYS_TYPE_mapped_len size_t
/* Output: valid when the result is >= 0. */
#define PEV_SYS_TYPE_mapping void **
#define PEV_SYS_TYPE_buffer void *              /* with */
#define PEV_SYS_TYPE_buffer_len size_t
#define PEV_SYS_TYPE_path_buffer char *         /* without a NUL, with */
#define PEV_SYS_TYPE_path_buffer_len size_t
#define PEV_SYS_TYPE_block char **              /* the caller's to free, with */
#define PEV_SYS_TYPE_block_len size_t *
#define PEV_SYS_TYPE_stat struct pev_stat *
#define PEV_SYS_TYPE_value uint64_t *
#define PEV_SYS_TYPE_status int *
#define PEV_SYS_TYPE_spawned struct pev_spawned *
#define PEV_SYS_TYPE_events struct epoll_event * /* with */
#define PEV_SYS_TYPE_max_events int

/* PEV_SYS_EACH(macro, nr, parameters): macro(kind, name) of each of nr parameters, in order. */
#define PEV_SYS_EACH(macro, nr, ...) PEV_SYS_EXPAND(PEV_SYS_EACH_##nr(macro, ##__VA_ARGS__))
#define PEV_SYS_EXPAND(...) __VA_ARGS__
#define PEV_SYS_EACH_0(macro)
#define PEV_SYS_EACH_1(macro, a) macro a
#define PEV_SYS_EACH_2(macro, a, b) macro a macro b
#define PEV_SYS_EACH_3(macro, a, b, c) macro a macro b macro c
#define PEV_SYS_EACH_4(macro, a, b, c, d) macro a macro b macro c macro d
#define PEV_SYS_EACH_5(macro, a, b, c, d, e) macro a macro b macro c macro d macro e

/* A parameter of a function, after its first. */
#define PEV_SYS_PARAMETER(kind, name) , PEV_SYS_TYPE_##kind name

#endif

/* ---- events ---- */

	CALL(int, perf_event_open, opened, "descriptor",
	     "opens an event; the caller sees the changes that the hook makes to attr",
	     5, (attr, attr), (int, pid), (int, cpu), (int, group_fd), (flags, flags))
	CALL(int, ioctl, requested,
	     "number; for `ID` the id; for `QUERY_BPF` a list of ids, and their number if it is "
	     "greater",
	     "`request` is `\"ENABLE\"`, `\"DISABLE\"`, `\"RESET\"`, `\"REFRESH\"`, `\"PERIOD\"` "
	     "(the period), `\"SET_OUTPUT\"`, `\"SET_FILTER\"` (its text), `\"ID\"`, "
	     "`\"SET_BPF\"`, `\"PAUSE_OUTPUT\"`, `\"QUERY_BPF\"` (room for so many ids) or "
	     "`\"MODIFY_ATTRIBUTES\"` (an attr)",
	     3, (int, fd), (request, request), (request_arg, arg))
	/* MAP_SHARED */
	CALL(int, mmap, mapped, "memory",
	     "maps a ring",
	     5, (size, length), (int, prot), (int, fd), (u64, offset), (mapping, memory))
	CALL(int, munmap, unmapped, "",
	     "unmaps it",
	     2, (mapped, memory), (mapped_len, length))
	CALL(int, prctl, number, "",
	     "disables (31) or enables (32) all events of the calling task",
	     1, (int, option))
	/* -EOPNOTSUPP where the processor has no such counter for user space. */
	CALL(int, rdpmc, reading, "value",
	     "reads a hardware counter in user space; `hooks.real.rdpmc` fails with EACCES unless "
	     "a page that it mapped allows that counter now",
	     2, (counter, counter), (value, value))
	CALL(int, rdtsc, reading, "cycles",
	     "reads the processor's clock in user space",
	     1, (value, cycles))

/* ---- descriptors ---- */

	/* With O_CLOEXEC; a file that O_CREAT makes has mode 0600. */
	CALL(int, open, number, "descriptor",
	     "opens a file with the flags of open(2)",
	     2, (text, path), (hex, flags))
	CALL(int64_t, read, bytes, "bytes",
	     "reads up to `length` bytes",
	     3, (int, fd), (buffer, buffer), (buffer_len, length))
	/* -ESPIPE for a pipe. */
	CALL(int64_t, pread, bytes, "bytes",
	     "reads from an offset",
	     4, (int, fd), (buffer, buffer), (buffer_len, length), (u64, offset))
	CALL(int64_t, writev, written, "number of bytes written",
	     "writes at the file's position",
	     3, (int, fd), (pieces, bytes), (nr_pieces, nr))
	CALL(int64_t, pwrite, written, "number of bytes written",
	     "writes at an offset",
	     4, (int, fd), (bytes, bytes), (bytes_len, length), (u64, offset))
	CALL(int, ftruncate, number, "",
	     "sets the file's length",
	     2, (int, fd), (u64, length))
	CALL(int, fstat, stat, "as `stat`",
	     "describes an open file of any kind",
	     2, (int, fd), (stat, out))
	CALL(int, fcntl, number, "number",
	     "`command` is `\"GETFL\"`, `\"SETFL\"`, `\"GETOWN\"`, `\"SETOWN\"`, `\"GETSIG\"` or "
	     "`\"SETSIG\"`",
	     3, (int, fd), (fcntl_command, command), (hex, number))
	CALL(int, close, number, "",
	     "closes a descriptor",
	     1, (int, fd))

/* ---- files ---- */

	CALL(int, rename, number, "",
	     "renames a file",
	     2, (text, from), (text, to))
	CALL(int, unlink, number, "",
	     "removes a file",
	     1, (text, path))
	CALL(int, slurp, text, "bytes",
	     "reads a whole file of sysfs, procfs or tracefs",
	     3, (text, path), (block, text), (block_len, length))
	/* One write(2): tracefs takes a definition whole. */
	CALL(int, append, number, "",
	     "writes at the end of a file that exists",
	     2, (text, path), (text, text))
	/* For perf_event_open(), which names a cgroup by a descriptor. */
	CALL(int, directory, number, "descriptor",
	     "opens a directory",
	     1, (text, path))
	/* Names without "." and "..", each with its NUL. */
	CALL(int, list, names, "list of names",
	     "lists a directory",
	     3, (text, path), (block, names), (block_len, length))
	CALL(int, readlink, link, "path",
	     "reads a symbolic link",
	     3, (text, path), (path_buffer, buffer), (path_buffer_len, cap))
	CALL(int, stat, stat, "`{ dev =, ino =, mode =, uid =, size = }`",
	     "describes a file, links followed",
	     2, (text, path), (stat, out))

/* ---- waiting ---- */

	CALL(int, epoll_create, number, "descriptor",
	     "creates an epoll instance",
	     0)
	CALL(int, epoll_ctl, number, "",
	     "adds (`op` 1) or removes (`op` 2) a descriptor",
	     5, (int, epfd), (epoll_op, op), (int, fd), (mask, events), (tag, tag))
	/* timeout_ms -1 waits for ever; -EINTR when a signal interrupts. */
	CALL(int, epoll_wait, events, "list of `{ events, tag }`",
	     "waits for descriptors",
	     4, (int, epfd), (events, events), (max_events, max), (ms, timeout_ms))
	CALL(int, clock, reading, "ns",
	     "reads a clock",
	     2, (int, clockid), (value, ns))
	/* On CLOCK_MONOTONIC. */
	CALL(int, timerfd, number, "descriptor",
	     "starts a timer; with `interval` 0 it fires once",
	     2, (ns, first), (ns, interval))
	/* The signals must be blocked first. */
	CALL(int, signalfd, number, "descriptor",
	     "is readable while a signal of the set is pending: bit n-1 for signal n",
	     1, (set, signals))
	CALL(int, sigblock, changed, "the set of signals whose state changed",
	     "blocks or unblocks a set of signals",
	     3, (set, signals), (flag, block), (value, changed))

/* ---- processes ---- */

	/* argv[0] is looked up in PATH; the gate is a socket. */
	CALL(int, spawn, spawned, "pid, gate",
	     "starts a command with that set of signals unblocked; its exec waits for `release`",
	     3, (words, argv), (set, unblock), (spawned, out))
	/* -errno of the exec, -ECHILD when the command died before. Closes the gate. */
	CALL(int, release, number, "",
	     "lets the command run; with `stop` it stops after its exec, before its first "
	     "instruction",
	     2, (int, gate), (flag, stop))
	CALL(int, resume, number, "",
	     "continues a command that `release` stopped",
	     1, (int, pid))
	CALL(int, pidfd_open, number, "descriptor",
	     "opens a descriptor that is readable when the process has ended",
	     1, (int, pid))
	/* The pid when the child has ended or stopped, 0 while it runs and block is 0. */
	CALL(int, wait, child_status, "status, or `false` while it runs",
	     "waits for a child to end or to stop",
	     3, (int, pid), (flag, block), (status, status))
	CALL(int, kill, number, "",
	     "sends a signal",
	     2, (int, pid), (int, signal))
	CALL(int, getpid, number, "pid",
	     "returns this process",
	     0)
	CALL(int, raise_nofile, number, "limit",
	     "raises the soft limit of open files to the hard one",
	     0)
	/* rights.h */
	CALL(int, capset, number, "",
	     "drops for good all capabilities that the caller lacks, except this set: bit n for "
	     "capability n",
	     1, (set, keep))
	CALL(int, drop_rights, number, "",
	     "drops for good all capabilities of this process",
	     0)
	CALL(int, no_new_privs, number, "",
	     "no program that this process executes gets more rights from its file",
	     0)
	CALL(int, landlock_abi, number, "version",
	     "returns the version of the kernel's Landlock",
	     0)
	CALL(int, landlock_ruleset, number, "descriptor",
	     "makes a Landlock ruleset that handles these accesses to files, to the network, and "
	     "these scopes",
	     3, (set, files), (set, network), (set, scopes))
	CALL(int, landlock_allow, number, "",
	     "allows these accesses to an open file or below an open directory",
	     3, (int, ruleset), (int, fd), (set, accesses))
	CALL(int, landlock_restrict, number, "",
	     "confines this thread by the ruleset, and threads that it starts",
	     1, (int, ruleset))
	CALL(int, pagesize, page_size, "bytes",
	     "returns the size of a page",
	     0)

#undef CALL
/* clang-format on */
