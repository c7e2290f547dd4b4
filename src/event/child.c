/*
 * child.c - spawn, hold, release, reap; see child.h.
 */
#include "event/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int pev_child_spawn(struct pev_child *child, const struct pev_sys *sys, char *const *argv,
		    uint64_t unblock, struct pev_err *err)
{
	struct pev_spawned spawned;
	int rc;

	*child = (struct pev_child){ .sys = sys, .gate = -1, .pidfd = -1,
				     .process = pev_sys_process() };
	child->name = strdup(argv[0]);
	if (!child->name)
		return pev_fail(err, -ENOMEM, "cannot run '%s'", argv[0]);
	rc = sys->spawn(sys->ctx, argv, unblock, &spawned);
	if (rc < 0) {
		pev_fail(err, rc, "cannot run '%s'", argv[0]);
		pev_child_close(child);
		return rc;
	}
	child->pid = spawned.pid;
	child->gate = spawned.gate;
	/* Without a pidfd (kernels before 5.3) the session polls for its end. */
	rc = sys->pidfd_open(sys->ctx, child->pid);
	child->pidfd = rc < 0 ? -1 : rc;
	return 0;
}

/* Waits for the stop after exec. Returns 0, or -ECHILD if the command ended first. */
static int await_stop(struct pev_child *child)
{
	int rc = child->sys->wait(child->sys->ctx, child->pid, 1, &child->status);

	if (rc < 0)
		return rc;
	child->stopped = WIFSTOPPED(child->status);
	child->reaped = !child->stopped;
	return child->stopped ? 0 : -ECHILD;
}

int pev_child_release(struct pev_child *child, bool stop, struct pev_err *err)
{
	int gate = child->gate;
	int rc;

	if (gate < 0)
		return 0;
	child->gate = -1;
	rc = child->sys->release(child->sys->ctx, gate, stop);
	if (rc >= 0 && stop)
		rc = await_stop(child);
	if (rc == -ECHILD)
		return pev_fail(err, rc, "'%s' ended before it could be started", child->name);
	if (rc < 0)
		return pev_fail(err, rc, "cannot run '%s'", child->name);
	return 0;
}

int pev_child_resume(struct pev_child *child, struct pev_err *err)
{
	int rc;

	if (!child->stopped)
		return 0;
	child->stopped = false;
	rc = child->sys->resume(child->sys->ctx, child->pid);
	return rc < 0 ? pev_fail(err, rc, "cannot resume '%s'", child->name) : 0;
}

int pev_child_reap(struct pev_child *child, bool block)
{
	int rc;

	if (child->reaped || !child->pid)
		return 1;
	do {
		rc = child->sys->wait(child->sys->ctx, child->pid, block, &child->status);
	} while (rc > 0 && WIFSTOPPED(child->status));
	if (rc == 0)
		return 0;
	/* -ECHILD: it was reaped elsewhere (SIGCHLD ignored); the status is lost. */
	child->taken = rc < 0;
	child->reaped = true;
	return 1;
}

int pev_child_kill(struct pev_child *child, int sig)
{
	if (child->reaped || !child->pid)
		return 0;
	return child->sys->kill(child->sys->ctx, child->pid, sig);
}

bool pev_child_is_ours(const struct pev_child *child)
{
	return child->process == pev_sys_process();
}

void pev_child_close(struct pev_child *child)
{
	if (!child->sys)
		return;
	if (!pev_child_is_ours(child))
		child->pid = 0;
	/* Closing the gate may not end a held child: a later child may have a copy of the gate. */
	pev_child_kill(child, SIGKILL);
	if (child->gate >= 0)
		child->sys->close(child->sys->ctx, child->gate);
	if (child->pid)
		pev_child_reap(child, true);
	if (child->pidfd >= 0)
		child->sys->close(child->sys->ctx, child->pidfd);
	free(child->name);
	*child = (struct pev_child){ .gate = -1, .pidfd = -1, .status = child->status,
				     .reaped = child->reaped };
}
