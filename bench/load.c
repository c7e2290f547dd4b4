/*
 * load.c - makes NR system calls in each of TASKS tasks, and writes their CPU time to a file.
 * load NR FILE [TASKS]
 *
 * For readers of a traced command: their own CPU time is the total minus that in the file. Several
 * tasks run on a CPU each.
 */
#define _GNU_SOURCE 1
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double cpu_time(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/* A function of its own for tools that measure functions. */
__attribute__((noinline)) static void make_call(void) { syscall(SYS_getppid); }

static void make_calls(long nr)
{
	for (; nr > 0; nr--)
		make_call();
}

static void make_calls_on(int cpu, long nr)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	make_calls(nr);
}

int main(int argc, char **argv)
{
	long nr = argc > 2 ? strtol(argv[1], NULL, 0) : 0;
	long tasks = argc > 3 ? strtol(argv[3], NULL, 0) : 1;
	FILE *file;

	if (argc < 3 || argc > 4)
		return 2;
	for (int cpu = 0; tasks > 1 && cpu < tasks; cpu++)
		if (fork() == 0) {
			make_calls_on(cpu, nr);
			_exit(0);
		}
	if (tasks == 1)
		make_calls(nr);
	while (wait(NULL) > 0)
		;
	file = fopen(argv[2], "w");
	if (!file)
		return 1;
	fprintf(file, "%.6f\n", cpu_time(RUSAGE_SELF) + cpu_time(RUSAGE_CHILDREN));
	return fclose(file) != 0;
}
