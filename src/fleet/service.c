/*
 * service.c - see service.h.
 */
#define _GNU_SOURCE
#include "fleet/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_OTHER_FD 3

/* In the child of a program with threads: only async-signal-safe functions. */
__attribute__((noreturn)) static void become_worker(char *const *argv, const char *input,
						    int parent, int out, int err)
{
	sigset_t none;
	int in = open(input, O_RDONLY);

	sigemptyset(&none);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		_exit(127);
	close_range(FIRST_OTHER_FD, ~0U, 0);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent) /* it ended before prctl() */
		_exit(127);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	_exit(127);
}

/* The read end is non-blocking. */
static int make_pipe(int pair[2])
{
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0) {
		int rc = -errno;

		close(pair[0]);
		close(pair[1]);
		return rc;
	}
	return 0;
}

static void close_pipe(const int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

int pev_worker_start(struct pev_worker *worker, char *const *argv, const char *input,
		     struct pev_err *err)
{
	int out[2], errors[2], parent = getpid(), rc = make_pipe(out);

	if (rc < 0)
		return pev_fail(err, rc, "cannot run '%s': no pipe", argv[0]);
	rc = make_pipe(errors);
	if (rc < 0) {
		close_pipe(out);
		return pev_fail(err, rc, "cannot run '%s': no pipe", argv[0]);
	}
	worker->pid = fork();
	if (worker->pid == 0)
		become_worker(argv, input ? input : "/dev/null", parent, out[1], errors[1]);
	rc = -errno;
	if (worker->pid < 0) {
		close_pipe(out);
		close_pipe(errors);
		return pev_fail(err, rc, "cannot run '%s': no process", argv[0]);
	}
	close(out[1]);
	close(errors[1]);
	worker->out = out[0];
	worker->err = errors[0];
	return 0;
}

int pev_service_notify(const char *text, struct pev_err *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	ssize_t sent;
	int fd, rc;

	if (!len)
		return 1;
	if (len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
		return pev_fail(err, -EINVAL, "NOTIFY_SOCKET '%s': not a socket's name", path);
	memcpy(address.sun_path, path, len);
	if (path[0] == '@') /* abstract: unix(7) */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return pev_fail(err, -errno, "NOTIFY_SOCKET: no socket");
	sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	rc = sent < 0 ? -errno : 0;
	close(fd);
	return rc < 0 ? pev_fail(err, rc, "NOTIFY_SOCKET '%s': cannot send", path) : 0;
}
