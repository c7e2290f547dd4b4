/*
 * unwound.c - a program without frame pointers and with deep call chains, for specs of unwinding.
 *
 * unwound TIMES: 25 calls deep, with frames of all sizes; below a function of the C
 * library that calls back; and below a signal.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned long sink;

__attribute__((noinline, noipa)) unsigned long down(int depth, unsigned long n);

__attribute__((noinline, noipa)) static unsigned long spin(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i * i;
	return sink;
}

/* A frame of variable size. */
__attribute__((noinline, noipa)) static unsigned long odd(int depth, unsigned long n)
{
	char room[depth * 8 + 8];

	memset(room, depth, sizeof(room));
	__asm__ volatile("" ::"r"(room)
			 : "memory");
	return down(depth - 1, n) + (unsigned char)room[3];
}

unsigned long down(int depth, unsigned long n)
{
	char room[40];

	memset(room, depth, sizeof(room));
	__asm__ volatile("" ::"r"(room)
			 : "memory");
	return (depth ? odd(depth, n) : spin(n)) + (unsigned char)room[2];
}

static int compare(const void *a, const void *b)
{
	spin(50);
	return *(const int *)a - *(const int *)b;
}

static void handler(int number)
{
	sink += down(5, 200000) + (unsigned long)number;
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	static int list[2000];

	signal(SIGUSR1, handler);
	for (int i = 0; i < times; i++) {
		down(25, 200000);
		for (size_t j = 0; j < 2000; j++)
			list[j] = rand();
		qsort(list, 2000, sizeof(list[0]), compare);
		raise(SIGUSR1);
	}
	return 0;
}
