/*
 * rights.h - capabilities that this process has and its caller lacks.
 *
 * A program with file capabilities (setcap(8)) that runs its caller's scripts must not
 * lend the capabilities to them. pev_rights_hold() moves them out of the effective set:
 * ordinary system calls then have the rights of an ordinary user. The few calls that need
 * more raise a capability and lower it before they return (sys.c). These functions do
 * nothing in a program that root runs, or that got its capabilities from its caller.
 *
 * capset(2) acts on the calling thread: call pev_rights_hold() before a second thread starts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Numbers of capabilities, as in capability.h of the newest kernel. */
enum {
	PEV_CAP_IPC_LOCK = 14,
	PEV_CAP_SYS_PTRACE = 19,
	PEV_CAP_SYS_ADMIN = 21,
	PEV_CAP_SYSLOG = 34,
	PEV_CAP_PERFMON = 38,
	PEV_CAP_CHECKPOINT_RESTORE = 40,
};
#define PEV_CAP(number) (UINT64_C(1) << PEV_CAP_##number)

/* Opening an event and mapping its ring: perfmon_capable() and perf_mmap() of the kernel. */
#define PEV_CAPS_EVENT (PEV_CAP(PERFMON) | PEV_CAP(SYS_ADMIN) | PEV_CAP(SYS_PTRACE) | \
			PEV_CAP(IPC_LOCK))
/*
 * Names of addresses: /proc/PID/maps of others (ptrace_may_access()), kernel addresses in
 * /proc/kallsyms (kallsyms_show_value()), /proc/PID/map_files (proc_map_files_get_link()).
 */
#define PEV_CAPS_NAMES (PEV_CAP(SYS_PTRACE) | PEV_CAP(SYSLOG) | PEV_CAP(CHECKPOINT_RESTORE))

/* True if this process has rights that its caller lacks: AT_SECURE, or file capabilities. */
bool pev_rights_elevated(void);

/*
 * Empties the effective set, and drops from the permitted set the capabilities that no call
 * raises. The process can no longer be dumped, so /proc/self/mem cannot be written either.
 * Returns 0, also if there is nothing to hold, or -errno.
 */
int pev_rights_hold(void);

/* Raises those that are held into the effective set. lower() empties it and keeps errno. */
void pev_rights_raise(uint64_t capabilities);
void pev_rights_lower(void);

/* Drops all held capabilities except these, permanently. Returns 0 or -errno. */
int pev_rights_keep(uint64_t capabilities);

/*
 * Calls of struct pev_sys that give up rights; ctx is not used. drop() drops all capabilities of
 * the calling thread, also those of root. Landlock's calls act on the calling thread and on
 * those that it starts; capget(2) and landlock(7) describe them. Each returns >= 0 or -errno.
 */
int pev_rights_drop(void *ctx);
int pev_rights_no_new_privs(void *ctx);
int pev_rights_landlock_abi(void *ctx);
int pev_rights_landlock_ruleset(void *ctx, uint64_t files, uint64_t network, uint64_t scopes);
int pev_rights_landlock_allow(void *ctx, int ruleset, int fd, uint64_t accesses);
int pev_rights_landlock_restrict(void *ctx, int ruleset);

/* The set that pev_rights_raise() can raise now; the set that pev_rights_keep() dropped. */
uint64_t pev_rights_held(void);
uint64_t pev_rights_dropped(void);

/*
 * Returns the capabilities to raise for opening, reading, listing or stat(2) of this path: 0
 * except for the files of /proc from which symbols are read. Never for mem, environ, fd or
 * other files of another process.
 */
uint64_t pev_rights_of_path(const char *path);
