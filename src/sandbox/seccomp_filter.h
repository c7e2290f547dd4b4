/*
 * seccomp_filter.h - the system calls that a confined perfl may make, by libseccomp.
 *
 * The filter lists the allowed system calls; all others fail with EPERM. Descriptors that are
 * open can be read, written, mapped and waited for; files can be opened for reading. No program
 * is executed, no process is made (only threads), no socket or event is opened, and nothing is
 * traced.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct pev_seccomp_options {
	int command;   /* pid that may get signals, or 0 */
	bool accepts;  /* connections on sockets that listen already */
};

/*
 * Installs the filter for all threads of the process. It needs no_new_privs. Returns 0 or -errno.
 */
int pev_seccomp_confine(const struct pev_seccomp_options *options, struct pev_err *err);
