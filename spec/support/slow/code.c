/* code.c - planted causes on the CPU: one function, memory, a signal, a recursion, another thread */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "causes.h"

/* ---- function ---- */

SEPARATE static void score(unsigned us) { burn(us); }

static void serve_function(bool slow) { score(slow ? SLOW_US : 300); }

/* ---- sibling: of two functions with the same caller, the one that is usually the faster ---- */

SEPARATE static void parse(unsigned us) { burn(us); }

SEPARATE static void render(unsigned us) { burn(us); }

static void serve_sibling(bool slow)
{
	parse(2 * MS);
	render(slow ? SLOW_US : 200);
}

/* ---- callers: each slow call reaches the function by another one ---- */

SEPARATE static void encode(unsigned us) { burn(us); }

SEPARATE static void send_page(unsigned us) { encode(us); }

SEPARATE static void send_image(unsigned us) { encode(us); }

SEPARATE static void send_script(unsigned us) { encode(us); }

static void serve_callers(bool slow)
{
	static void (*const senders[])(unsigned us) = { send_page, send_image, send_script };

	senders[random_below(3)](slow ? SLOW_US : 300);
}

/* ---- allocation ---- */

enum { BLOCKS = 8192 };

SEPARATE static void copy_tree(unsigned times)
{
	static void *blocks[BLOCKS];

	for (unsigned i = 0; i < times; i++) {
		for (unsigned k = 0; k < BLOCKS; k++)
			blocks[k] = malloc(16 + k * 2654435761u % 700);
		for (unsigned k = 0; k < BLOCKS; k++)
			free(blocks[k * 4099 % BLOCKS]);
	}
}

static void serve_allocation(bool slow)
{
	if (slow || random_below(10) == 0)
		copy_tree(slow ? 60 : 1);
}

/* ---- cache: the same number of steps, in memory that no cache holds ---- */

enum { TABLE = 1 << 26, WALKED = 200000 };
static unsigned *table;

static void prepare_cache(void)
{
	table = map_memory(TABLE * sizeof(*table));
	for (unsigned i = 0; i < TABLE; i++)
		table[i] = i * 7;
}

SEPARATE static unsigned look_up(unsigned mask)
{
	unsigned at = 1;

	for (unsigned i = 0; i < WALKED; i++)
		at = (table[at & mask] + at * 1664525 + 1013904223) >> 3;
	return at;
}

static void serve_cache(bool slow) { look_up(slow ? TABLE - 1 : 1023); }

/* ---- zeroing ---- */

enum { ARENA = 512 << 20 };
static char *arena;

static void prepare_zeroing(void)
{
	arena = check(malloc(ARENA), "malloc");
	memset(arena, 1, ARENA);
}

SEPARATE static void clear_arena(size_t size) { memset(arena, 0, size); }

static void serve_zeroing(bool slow) { clear_arena(slow ? ARENA : 1 << 20); }

/* ---- signal: its handler interrupts whatever the call does ---- */

static pthread_t target;

static void rotate_keys(int number)
{
	(void)number;
	burn(SLOW_US);
}

static void send_signal(unsigned us)
{
	(void)us;
	pthread_kill(target, SIGUSR1);
	helper_is_ready();
}

static void prepare_signal(void)
{
	struct sigaction action = { .sa_handler = rotate_keys, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &action, NULL);
	target = pthread_self();
	make_helper(send_signal);
}

SEPARATE static void digest(void) { burn(1 * MS); }

static void serve_signal(bool slow)
{
	if (slow)
		start_helper(0);
	digest();
}

/* ---- recursion: a pattern that backtracks ---- */

SEPARATE static bool match_here(const char *pattern, const char *text)
{
	if (!*pattern)
		return !*text;
	if (pattern[1] == '*') {
		do {
			if (match_here(pattern + 2, text))
				return true;
		} while (*text && *text++ == *pattern);
		return false;
	}
	return *text == *pattern && match_here(pattern + 1, text + 1);
}

static void serve_recursion(bool slow)
{
	match_here("a*a*a*a*a*a*b", slow ? "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac" : "aaaaaaaac");
}

/* ---- handover: a request is begun by one thread and ended by another ---- */

static sem_t queued, finished;
static int request;
static bool request_is_slow;

SEPARATE void begin_request(int id)
{
	request = id;
	sem_post(&queued);
}

SEPARATE void end_request(int id)
{
	request = -id;
	sem_post(&finished);
}

SEPARATE static void compress_page(unsigned us) { burn(us); }

static void *work(void *arg)
{
	(void)arg;
	for (;;) {
		sem_wait(&queued);
		compress_page(request_is_slow ? SLOW_US : 300);
		end_request(request);
	}
	return NULL;
}

static void prepare_handover(void)
{
	pthread_t thread;

	sem_init(&queued, 0, 0);
	sem_init(&finished, 0, 0);
	pthread_create(&thread, NULL, work, NULL);
}

static void serve_handover(bool slow)
{
	static int id = 7000;

	request_is_slow = slow;
	begin_request(id++);
	sem_wait(&finished);
}

const struct cause code[] = {
	{ "function", NULL, serve_function },
	{ "sibling", NULL, serve_sibling },
	{ "callers", NULL, serve_callers },
	{ "allocation", NULL, serve_allocation },
	{ "cache", prepare_cache, serve_cache },
	{ "zeroing", prepare_zeroing, serve_zeroing },
	{ "signal", prepare_signal, serve_signal },
	{ "recursion", NULL, serve_recursion },
	{ "handover", prepare_handover, serve_handover },
	{ 0 },
};
