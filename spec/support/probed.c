/*
 * probed.c - calls functions with known arguments N times, for specs of probes: probed N [wait]
 *
 * For i below N: work(i, "text-i", -3 * i), which returns 2 * i - 3; the static probe
 * perfev:step with i and a pointer to the text, where its semaphore is up; counter = i. On x86_64
 * work() has the static probe perfev:count with the counter, in memory.
 * With "wait" it prints its pid first, starts when its standard input has a line or ends, and
 * prints the sum of work()'s results and how often the static probe was enabled.
 * The static probe is <sys/sdt.h>'s, written down here, so that no package is needed.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel increments it when a probe is attached (ref_ctr_offset). */
__attribute__((section(".probes"), used)) volatile unsigned short perfev_step_semaphore;

volatile long counter;
volatile char flags[3];

/* clang-format off */
#if defined(__x86_64__)
#define OPERANDS "-4@%%edi 8@%%rsi"
#elif defined(__aarch64__)
#define OPERANDS "-4@x0 8@x1"
#endif

/* A nop, and a note with its address, like STAP_PROBE2(perfev, step, i, text). */
__attribute__((noinline, noclone)) void step(int i, const char *text)
{
#ifdef OPERANDS
	__asm__ volatile(
		"990: nop\n"
		".pushsection .note.stapsdt,\"\",\"note\"\n"
		".balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n"
		"992: .balign 4\n"
		"993: .8byte 990b\n"
		".8byte _.stapsdt.base\n"
		".8byte perfev_step_semaphore\n"
		".asciz \"perfev\"\n"
		".asciz \"step\"\n"
		".asciz \"" OPERANDS "\"\n"
		"994: .balign 4\n"
		".popsection\n"
		".ifndef _.stapsdt.base\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		".weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n"
		"_.stapsdt.base: .space 1\n"
		".size _.stapsdt.base, 1\n"
		".popsection\n"
		".endif\n"
		: : "r"(i), "r"(text) : "memory");
#else
	__asm__ volatile("" : : "r"(i), "r"(text) : "memory");
#endif
}

__attribute__((noinline, noclone)) long work(int n, const char *text, long more)
{
	__asm__ volatile("" : : "r"(text) : "memory");
#ifdef __x86_64__
	__asm__ volatile(
		"990: nop\n"
		".pushsection .note.stapsdt,\"\",\"note\"\n"
		".balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n"
		"992: .balign 4\n"
		"993: .8byte 990b, _.stapsdt.base, 0\n"
		".asciz \"perfev\"\n"
		".asciz \"count\"\n"
		".asciz \"-8@counter(%%rip)\"\n"
		"994: .balign 4\n"
		".popsection\n"
		: : : "memory");
#endif
	return 5L * n + more - 3;
}
/* clang-format on */

int main(int argc, char **argv)
{
	const int waits = argc > 2 && strcmp(argv[2], "wait") == 0;
	int times = argc > 1 ? atoi(argv[1]) : 1;
	long steps = 0, sum = 0;
	char text[32];

	if (waits) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
		if (!fgets(text, sizeof(text), stdin))
			clearerr(stdin);
	}
	for (int i = 0; i < times; i++) {
		snprintf(text, sizeof(text), "text-%d", i);
		sum += work(i, text, -3L * i);
		if (perfev_step_semaphore) {
			step(i, text);
			steps++;
		}
		counter = i;
	}
	if (waits)
		printf("%ld %ld\n", sum, steps);
	return sum == LONG_MIN;
}
