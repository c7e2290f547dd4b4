/*
 * child.h - a command that is held before exec until everything is armed.
 */
#ifndef PEV_CHILD_H
#define PEV_CHILD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/sys.h"

struct pev_child {
	const struct pev_sys *sys; /* borrowed */
	char *name;                /* argv[0], owned; for messages */
	unsigned process;          /* whose child it is: pev_sys_process() */
	int pid;                   /* 0 when there is none (any more) */
	int gate;                  /* -1 once released */
	int pidfd;                 /* readable when it has ended; -1 on kernels before 5.3 */
	int status;                /* as wait(2) gives it, once reaped */
	bool reaped;
	bool taken;                /* by somebody else, and its status with it (wait(2), ECHILD) */
	bool stopped;              /* behind its exec, until resumed */
};

/*
 * Fork and hold. unblock: signals (bit n-1) that we block and the command must not.
 */
int pev_child_spawn(struct pev_child *child, const struct pev_sys *sys, char *const *argv,
		    uint64_t unblock, struct pev_err *err);

/*
 * Let it exec. -errno of the exec, with the command's name in err. stop: when this
 * returns it stands before its first instruction, its image mapped, until resumed.
 */
int pev_child_release(struct pev_child *child, bool stop, struct pev_err *err);

/* Let one go on that was released with stop; nothing where it has not stopped. */
int pev_child_resume(struct pev_child *child, struct pev_err *err);

/* 1 once it has ended and child->status is set, else 0. */
int pev_child_reap(struct pev_child *child, bool block);

/* Ask it to end (sig), as far as it still runs. */
int pev_child_kill(struct pev_child *child, int sig);

/* False in a process that was forked since: it is the parent's, and only close is left. */
bool pev_child_is_ours(const struct pev_child *child);

/*
 * Kill what still runs, reap it, close; what is not ours is closed only. Safe on a half-made
 * one, and twice.
 */
void pev_child_close(struct pev_child *child);

#endif
