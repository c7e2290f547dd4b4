/*
 * jitted.c - a JIT compiler for specs: writes jit-PID.dump, and runs two functions one after the
 * other at one address, and one that it moves.
 *
 * jitted DIRECTORY [late]: with "late" the dump is written at the end, as V8 does.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* mov edi, TURNS; 1: dec edi; jnz 1b; ret */
static const unsigned char code[] = { 0xbf, 0, 0, 0, 0x08, 0xff, 0xcf, 0x75, 0xfc, 0xc3 };

static FILE *dump;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void put32(uint32_t n) { fwrite(&n, sizeof(n), 1, dump); }
static void put64(uint64_t n) { fwrite(&n, sizeof(n), 1, dump); }

static void begin(const char *directory)
{
	char path[4096];
	void *marker;

	snprintf(path, sizeof(path), "%s/jit-%d.dump", directory, (int)getpid());
	dump = fopen(path, "w+");
	if (!dump)
		exit(1);
	marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
	if (marker == MAP_FAILED)
		exit(1);
	setvbuf(dump, NULL, _IOFBF, 1 << 20);
	put32(0x4a695444);
	put32(1);
	put32(40);
	put32(62); /* EM_X86_64 */
	put32(0);
	put32((uint32_t)getpid());
	put64(now());
	put64(0);
}

static void put_load(const void *at, const char *name, uint64_t index)
{
	put32(0);
	put32((uint32_t)(56 + strlen(name) + 1 + sizeof(code)));
	put64(now());
	put32((uint32_t)getpid());
	put32((uint32_t)getpid());
	put64((uint64_t)(uintptr_t)at);
	put64((uint64_t)(uintptr_t)at);
	put64(sizeof(code));
	put64(index);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(code, sizeof(code), 1, dump);
}

static void put_move(const void *from, const void *to, uint64_t index)
{
	put32(1);
	put32(64);
	put64(now());
	put32((uint32_t)getpid());
	put32((uint32_t)getpid());
	put64((uint64_t)(uintptr_t)to);
	put64((uint64_t)(uintptr_t)from);
	put64((uint64_t)(uintptr_t)to);
	put64(sizeof(code));
	put64(index);
}

static void run(unsigned char *at, int is_late)
{
	void (*function)(void);

	if (!is_late)
		fflush(dump);
	memcpy(at, code, sizeof(code));
	memcpy(&function, &at, sizeof(function));
	function();
}

int main(int argc, char **argv)
{
	int is_late = argc > 2 && strcmp(argv[2], "late") == 0;
	unsigned char *page;

	/* cppcheck-suppress invalidFunctionArg ; -1 is no file, and MAP_ANONYMOUS needs none */
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (argc < 2 || page == MAP_FAILED)
		return 1;
	begin(argv[1]);
	put_load(page, "first", 1);
	run(page, is_late);
	put_load(page, "second", 2);
	run(page, is_late);
	put_load(page, "third", 3);
	put_move(page, page + 256, 3);
	run(page + 256, is_late);
	return fclose(dump);
}
