/*
 * child.h - a command that is held before exec until everything is armed.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/sys.h"

struct pev_child {
	const struct pev_sys *sys; /* borrowed */
	char *name;                /* argv[0], owned; for messages */
	unsigned process;          /* the parent process: pev_sys_process() */
	int pid;                   /* 0: no child, or reaped */
	int gate;                  /* -1 once released */
	int pidfd;                 /* readable when it has ended; -1 on kernels before 5.3 */
	int status;                /* from wait(2), once reaped */
	bool reaped;
	bool taken;                /* reaped elsewhere, status lost (wait(2), ECHILD) */
	bool stopped;              /* after its exec, until resumed */
};

/*
 * Forks and holds the command. unblock: signals (bit n-1) to unblock in the command.
 */
int pev_child_spawn(struct pev_child *child, const struct pev_sys *sys, char *const *argv,
		    uint64_t unblock, struct pev_err *err);

/*
 * Releases the command to exec. Returns -errno of the exec, with the command's name in err.
 * stop: the command is stopped before its first instruction, its image mapped, until resumed.
 */
int pev_child_release(struct pev_child *child, bool stop, struct pev_err *err);

/* Resumes a command that was released with stop; does nothing if it is not stopped. */
int pev_child_resume(struct pev_child *child, struct pev_err *err);

/* Returns 1 if the command has ended and child->status is set, else 0. */
int pev_child_reap(struct pev_child *child, bool block);

/* Sends the signal if the command still runs. */
int pev_child_kill(struct pev_child *child, int sig);

/* False in a forked process: the child is the parent's, and can only be closed. */
bool pev_child_is_ours(const struct pev_child *child);

/*
 * Kills and reaps a running command and closes its descriptors; a parent's child is only closed.
 * Safe on a half-made object, and twice.
 */
void pev_child_close(struct pev_child *child);
