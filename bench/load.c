/*
 * load.c - a system call in a loop, so many times; what that took of the CPU goes to a file.
 * load NR FILE
 *
 * For what reads a traced command: its own CPU is all, less what is in the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int argc, char **argv)
{
	struct rusage usage;
	FILE *file;

	if (argc != 3)
		return 2;
	for (long i = strtol(argv[1], NULL, 0); i > 0; i--)
		syscall(SYS_getppid);
	getrusage(RUSAGE_SELF, &usage);
	file = fopen(argv[2], "w");
	if (!file)
		return 1;
	fprintf(file, "%.6f\n", seconds(usage.ru_utime) + seconds(usage.ru_stime));
	return fclose(file) != 0;
}
