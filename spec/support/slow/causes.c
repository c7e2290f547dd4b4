/*
 * causes.c - calls handle() 200 times; 14 of them, chosen by the seed, are slow for a planted cause
 *
 *   causes CAUSE DIRECTORY [SEED [normal]]
 *
 * It runs with real-time priority if it may, so that the load of the machine is not the cause;
 * "normal": without. Without arguments it prints the causes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "causes.h"

enum { CALLS = 200, SLOW_CALLS = 14, CLIENTS = 4 };

const char *directory;
static unsigned state = 1;
static unsigned rounds_per_us;
static const struct cause *cause;
static bool is_slow[CALLS];
volatile unsigned sink;

/* Only the main thread calls it. */
unsigned random_below(unsigned limit)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % limit;
}

static void compute(unsigned rounds)
{
	unsigned x = 1;

	for (unsigned i = 0; i < rounds; i++)
		x = x * 1664525 + 1013904223;
	sink = x;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void calibrate(void)
{
	double start = now_us();

	compute(5000000);
	rounds_per_us = (unsigned)(5000000 / (now_us() - start)) + 1;
}

__attribute__((always_inline)) inline void burn(unsigned us) { compute(us * rounds_per_us); }

void nap(unsigned us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000L };

	nanosleep(&t, NULL);
}

int open_file(const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, flags, 0600);
	if (fd < 0) {
		fprintf(stderr, "causes: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	return fd;
}

void *map_memory(size_t size)
{
	/* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS needs no descriptor */
	return check(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		     "mmap");
}

void *check(void *p, const char *what)
{
	if (!p || p == MAP_FAILED) {
		perror(what);
		exit(2);
	}
	return p;
}

/* ---- a thread beside ---- */

static sem_t wanted, ready;
static unsigned hold_us;

static void *help(void *hold)
{
	for (;;) {
		sem_wait(&wanted);
		((void (*)(unsigned))hold)(hold_us);
	}
	return NULL;
}

void make_helper(void (*hold)(unsigned us))
{
	pthread_t thread;

	sem_init(&wanted, 0, 0);
	sem_init(&ready, 0, 0);
	pthread_create(&thread, NULL, help, (void *)hold);
}

void start_helper(unsigned us)
{
	hold_us = us;
	sem_post(&wanted);
	sem_wait(&ready);
}

void helper_is_ready(void) { sem_post(&ready); }

/* ---- calls ---- */

static pthread_mutex_t stats_lock = PTHREAD_MUTEX_INITIALIZER;
static int stats_file;

SEPARATE static void touch_memory(size_t pages)
{
	char *p = map_memory(pages * 4096);

	for (size_t i = 0; i < pages; i++)
		p[i * 4096] = 1;
	munmap(p, pages * 4096);
}

/* What every call does, at random: a little of each cause, up to 1 ms. */
SEPARATE static void do_usual_work(int i)
{
	void *blocks[64];

	pthread_mutex_lock(&stats_lock);
	burn(30);
	for (size_t k = 0; k < 64; k++)
		blocks[k] = malloc(k * 16);
	for (size_t k = 0; k < 64; k++)
		free(blocks[k]);
	if (i % 5 == 0 && pwrite(stats_file, &i, sizeof(i), 0) < 0)
		perror("pwrite");
	pthread_mutex_unlock(&stats_lock);
	touch_memory(8 + i * 7 % 60);
	if (i % 11 == 0)
		nap(i * 13 % 700);
	if (i % 13 == 0)
		burn(i * 17 % 900);
}

SEPARATE void handle(int i)
{
	do_usual_work(i);
	cause->serve(is_slow[i]);
}

static void *be_client(void *first)
{
	for (int i = (int)(long)first; i < CALLS; i += CLIENTS)
		handle(i);
	return NULL;
}

static void choose_slow_calls(int nr, int step)
{
	while (nr > 0) {
		bool *slow = &is_slow[(size_t)step * random_below(CALLS / step)];

		nr -= !*slow;
		*slow = true;
	}
}

static void run_in_clients(void)
{
	pthread_t clients[CLIENTS];

	choose_slow_calls(SLOW_CALLS / CLIENTS, CLIENTS);
	for (long i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, be_client, (void *)i);
	for (long i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
}

static const struct cause *find_cause(const char *name)
{
	static const struct cause *const tables[] = { waits, peers, files, code };

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct cause *c = tables[i]; c->name; c++) {
			if (!name)
				puts(c->name);
			else if (!strcmp(c->name, name))
				return c;
		}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = 10 };

	cause = find_cause(argc > 2 ? argv[1] : NULL);
	if (!cause)
		return argc > 1 ? 2 : 0;
	directory = argv[2];
	state = argc > 3 ? (unsigned)atoi(argv[3]) * 2654435761u | 1 : 1;
	if (argc < 5)
		sched_setscheduler(0, SCHED_FIFO, &priority);
	calibrate();
	stats_file = open_file("stats", O_RDWR | O_CREAT);
	if (cause->prepare)
		cause->prepare();
	if (!strcmp(cause->name, "convoy")) {
		run_in_clients();
		return 0;
	}
	choose_slow_calls(SLOW_CALLS, 1);
	for (int i = 0; i < CALLS; i++)
		handle(i);
	return 0;
}
