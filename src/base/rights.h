/*
 * rights.h - capabilities that this process has and its caller has not.
 *
 * A program with file capabilities (setcap(8)) that runs scripts of its caller must not
 * lend them out. pev_rights_hold() moves them out of the effective set: every ordinary
 * system call then has the rights of an ordinary user. The few calls that need more raise
 * a capability, and lower it again before they return (sys.c). What was never held stays
 * as it is: in a program of root's, or one that got its capabilities from its caller, all
 * of these functions do nothing.
 *
 * capset(2) acts on the calling thread: hold before a second one starts.
 */
#ifndef PEV_RIGHTS_H
#define PEV_RIGHTS_H

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

/* Has this process rights that its caller lacks? AT_SECURE, or capabilities of a file. */
bool pev_rights_elevated(void);

/*
 * Empty the effective set, and drop from the permitted set what no call raises. The process
 * can no longer be dumped, and so not be written to through /proc/self/mem either.
 * 0 also where there is nothing to hold; -errno.
 */
int pev_rights_hold(void);

/* Put these into the effective set, as far as they are held. lower() empties it and keeps errno. */
void pev_rights_raise(uint64_t capabilities);
void pev_rights_lower(void);

/* Drop all held capabilities but these, for good. 0 or -errno. */
int pev_rights_keep(uint64_t capabilities);

/* Those that pev_rights_raise() can raise now, and those that pev_rights_keep() has dropped. */
uint64_t pev_rights_held(void);
uint64_t pev_rights_dropped(void);

/*
 * What has to be raised to open, read, list or look at this path: 0 but for files of /proc that
 * names are made of. Never for mem, environ, fd or anything else of another process.
 */
uint64_t pev_rights_of_path(const char *path);

#endif
