/*
 * delay.c - prints how many ms pass between a system call and the line that a tool prints for it.
 * delay NR COMMAND
 *
 * The shell command watches getppid(2) of the process $PID, which is this one, and writes to a terminal
 * of its own, so that it prints as it does for a person. The result is the median of NR calls.
 */
#define _GNU_SOURCE 1
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 20000 /* the longest time until the tool prints its first line */
#define QUIET_MS 300 /* no output for so long: the lines of earlier calls are read */

static double clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Reads what the tool prints within some ms; false if it prints nothing. */
static int read_output(int terminal, int ms)
{
	struct pollfd waiting = { .fd = terminal, .events = POLLIN };
	char text[4096];

	return poll(&waiting, 1, ms) > 0 && read(terminal, text, sizeof(text)) > 0;
}

static void drain(int terminal, int ms)
{
	while (read_output(terminal, ms))
		;
}

/* One call -> ms until its line, or -1. */
static double measure_call(int terminal, int ms)
{
	double began = clock_ms();

	syscall(SYS_getppid);
	return read_output(terminal, ms) ? clock_ms() - began : -1;
}

/* The tool prints headings before it watches: a line counts once a call after it has one, too. */
static int wait_for_tool(int terminal)
{
	double end = clock_ms() + START_MS;
	int answers = 0;

	while (answers < 2 && clock_ms() < end) {
		drain(terminal, 2 * QUIET_MS);
		answers = measure_call(terminal, 2000) >= 0 ? answers + 1 : 0;
	}
	return answers == 2;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int nr = argc == 3 ? atoi(argv[1]) : 0, terminal, seen = 0;
	double delays[100];
	char self[16];
	pid_t tool;

	if (nr < 1 || nr > 100)
		return 2;
	snprintf(self, sizeof(self), "%d", (int)getpid());
	setenv("PID", self, 1);
	tool = forkpty(&terminal, NULL, NULL, NULL);
	if (tool == 0) {
		execl("/bin/sh", "sh", "-c", argv[2], (char *)NULL);
		_exit(127);
	}
	if (tool < 0)
		return 1;
	if (wait_for_tool(terminal))
		for (int i = 0; i < nr; i++) {
			drain(terminal, QUIET_MS + 7 * i); /* each call at another time of the tool's round */
			delays[seen] = measure_call(terminal, 5000);
			seen += delays[seen] >= 0;
		}
	kill(-tool, SIGINT);
	drain(terminal, 2000);
	kill(-tool, SIGKILL);
	waitpid(tool, NULL, 0);
	if (seen < nr) {
		fprintf(stderr, "the tool printed lines for %d of %d calls\n", seen, nr);
		return 1;
	}
	qsort(delays, (size_t)nr, sizeof(delays[0]), compare);
	printf("%.3f\n", delays[nr / 2]);
	return 0;
}
