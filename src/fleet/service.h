/*
 * service.h - for a program that runs for ever: workers behind pipes, messages to systemd.
 */
#pragma once

#include "base/err.h"

struct pev_worker {
	int pid;
	int out; /* non-blocking read ends of its standard output and error */
	int err;
};

/*
 * Runs a program, found in PATH, with standard input from the file input (NULL: /dev/null), no
 * other descriptor and no blocked signal, in a process group of its own. It gets SIGTERM when the
 * calling thread ends. The exit status is 127 if the program cannot be executed. The caller reaps
 * it and closes the descriptors.
 */
int pev_worker_start(struct pev_worker *worker, char *const *argv, const char *input,
		     struct pev_err *err);

/* Sends a text of sd_notify(3) to $NOTIFY_SOCKET. Returns 0 if it is sent, 1 without a socket. */
int pev_service_notify(const char *text, struct pev_err *err);
