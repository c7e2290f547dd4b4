/*
 * landlock.h - confines this process to reading some files, by Landlock.
 *
 * No file is written, made, removed, renamed, truncated or executed, no directory outside is
 * listed, no device is controlled (ABI 5), no TCP port is bound or connected (ABI 4), no abstract
 * socket is connected, and no other process gets a signal (ABI 6). A confined process also does
 * not trace others, nor read their memory: hook_ptrace_access_check() of the kernel. Descriptors
 * that are open stay usable. Landlock acts on the calling thread and on those that it starts.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/sys.h"

/*
 * Confines the calling thread to reading these files and everything below these directories,
 * each named by an open descriptor. `signals`: it may signal other processes. The process needs
 * no_new_privs. Returns the ABI's version, or -errno: ENOSYS or EOPNOTSUPP if the kernel has no
 * Landlock.
 */
int pev_landlock_restrict(const struct pev_sys *sys, const int *fds, int nr, bool signals,
			  struct pev_err *err);
