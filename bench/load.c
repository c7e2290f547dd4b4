/*
 * load.c - makes NR system calls and writes the CPU time they took to a file.
 * load NR FILE
 *
 * For readers of a traced command: their own CPU time is the total minus that in the file.
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
