/*
 * cost.c - runs a command and prints its cost as the last line of standard error:
 * seconds of CPU, seconds by the clock, peak KiB of anonymous memory, exit status.
 *
 * CPU includes the children that the command waited for. Memory is sampled every few
 * milliseconds, because the kernel's own peak includes pages of mapped files.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 5000000

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long anonymous_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/* Waits until the command ends; returns its peak of anonymous memory in KiB. */
static long watch_memory(pid_t pid, const sigset_t *child)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	siginfo_t info = { 0 };
	long most = 0, kib;

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid) {
		kib = anonymous_kib(pid);
		most = kib > most ? kib : most;
		sigtimedwait(child, NULL, &look);
	}
	return most;
}

int main(int argc, char **argv)
{
	double began = clock_seconds();
	struct rusage usage;
	sigset_t child, before;
	int status = 0;
	long kib;
	pid_t pid;

	if (argc < 2)
		return 2;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0)
		return 1;
	kib = watch_memory(pid, &child);
	if (wait4(pid, &status, 0, &usage) < 0)
		return 1;
	fprintf(stderr, "%.6f %.6f %ld %d\n", seconds(usage.ru_utime) + seconds(usage.ru_stime),
		clock_seconds() - began, kib, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
	return 0;
}
