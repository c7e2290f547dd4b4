/*
 * hot.c - a program that spends its time in known functions, for specs of symbols.
 *
 * hot TIMES [lib.so | jit]: runs middle() and its callees, system calls, and lib_work() of a
 * library that it loads, or code that it writes into memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long (*work_fn)(unsigned long n);

static volatile unsigned long sink;
static volatile unsigned long rounds; /* written once in each */

__attribute__((noinline)) static unsigned long spin(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i * i;
	return sink;
}

__attribute__((noinline)) static unsigned long leaf(unsigned long n)
{
	rounds++;
	return spin(n) + 1;
}

__attribute__((noinline)) static unsigned long middle(unsigned long n)
{
	return leaf(n) + spin(n) + 1;
}

__attribute__((noinline)) static unsigned long calls(unsigned long n)
{
	static char bytes[4096];
	unsigned long sum = 0;
	int fd = open("/dev/zero", O_RDONLY);

	for (unsigned long i = 0; i < n; i++)
		sum += (unsigned long)read(fd, bytes, sizeof(bytes));
	close(fd);
	return sum;
}

#ifdef __x86_64__
/* Makes code that counts down from n, and writes a perf map as a JIT compiler does. */
static work_fn make_code(void)
{
	/* mov %rdi, %rcx; dec %rcx; jnz -5; ret */
	static const unsigned char code[] = {
		0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3,
	};
	static unsigned char *page;
	char path[64];
	FILE *map;

	/* cppcheck-suppress invalidFunctionArg ; -1 is no file, and MAP_ANONYMOUS needs none */
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	if (page == MAP_FAILED || !map)
		return NULL;
	memcpy(page + 64, code, sizeof(code));
	fprintf(map, "%lx %zx made in memory\n", (unsigned long)(page + 64), sizeof(code));
	fclose(map);
	return (work_fn)(void *)(page + 64);
}
#else
static work_fn make_code(void)
{
	return NULL;
}
#endif

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	work_fn work = NULL;

	if (argc > 2 && strcmp(argv[2], "jit") == 0) {
		work = make_code();
	} else if (argc > 2) {
		static void *lib;

		lib = dlopen(argv[2], RTLD_NOW);
		work = lib ? (work_fn)dlsym(lib, "lib_work") : NULL;
	}
	if (argc > 2 && !work)
		return 1;
	for (int i = 0; i < times; i++) {
		middle(200000);
		calls(1000);
		if (work)
			work(200000);
	}
	return 0;
}
