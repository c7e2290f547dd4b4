/* waits.c - planted causes that wait for other threads: locks, a reply, time, a CPU */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "causes.h"

/* ---- lock ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hold_lock(unsigned us)
{
	pthread_mutex_lock(&lock);
	helper_is_ready();
	nap(us);
	pthread_mutex_unlock(&lock);
}

SEPARATE static void reserve_seat(void)
{
	pthread_mutex_lock(&lock);
	burn(50);
	pthread_mutex_unlock(&lock);
}

/* Some fast calls wait for the lock, too. */
static void serve_lock(bool slow)
{
	if (slow || random_below(4) == 0)
		start_helper(slow ? SLOW_US : 300);
	reserve_seat();
}

static void prepare_lock(void) { make_helper(hold_lock); }

/* ---- convoy: four clients, and the lock takes a while for each ---- */

SEPARATE static void append_entry(void)
{
	pthread_mutex_lock(&lock);
	burn(100);
	pthread_mutex_unlock(&lock);
}

static void serve_convoy(bool slow)
{
	if (slow)
		start_helper(SLOW_US);
	append_entry();
}

/* ---- rwlock ---- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void hold_rwlock(unsigned us)
{
	pthread_rwlock_rdlock(&rwlock);
	helper_is_ready();
	nap(us);
	pthread_rwlock_unlock(&rwlock);
}

SEPARATE static void update_routes(void)
{
	pthread_rwlock_wrlock(&rwlock);
	burn(50);
	pthread_rwlock_unlock(&rwlock);
}

/* The fast calls read beside the reader, and take other locks. */
static void serve_rwlock(bool slow)
{
	start_helper(slow ? SLOW_US : 200);
	pthread_rwlock_rdlock(&rwlock);
	burn(20);
	pthread_rwlock_unlock(&rwlock);
	update_routes();
}

static void prepare_rwlock(void) { make_helper(hold_rwlock); }

/* ---- condition ---- */

static pthread_cond_t replied = PTHREAD_COND_INITIALIZER;
static bool is_done;

static void reply(unsigned us)
{
	helper_is_ready();
	nap(us);
	pthread_mutex_lock(&lock);
	is_done = true;
	pthread_cond_signal(&replied);
	pthread_mutex_unlock(&lock);
}

SEPARATE static void await_reply(void)
{
	pthread_mutex_lock(&lock);
	while (!is_done)
		pthread_cond_wait(&replied, &lock);
	pthread_mutex_unlock(&lock);
}

static void serve_condition(bool slow)
{
	is_done = false;
	start_helper(slow ? SLOW_US : 200);
	await_reply();
}

static void prepare_condition(void) { make_helper(reply); }

/* ---- sleep ---- */

SEPARATE static void back_off(bool slow) { nap(slow ? SLOW_US : random_below(500)); }

static void serve_sleep(bool slow) { back_off(slow); }

/* ---- flock ---- */

static int spool, spool_of_helper;

static void hold_file(unsigned us)
{
	flock(spool_of_helper, LOCK_EX);
	helper_is_ready();
	nap(us);
	flock(spool_of_helper, LOCK_UN);
}

SEPARATE static void lock_spool(void)
{
	while (flock(spool, LOCK_EX) < 0 && errno == EINTR)
		;
	burn(50);
	flock(spool, LOCK_UN);
}

static void serve_flock(bool slow)
{
	if (slow || random_below(4) == 0)
		start_helper(slow ? SLOW_US : 300);
	lock_spool();
}

static void prepare_flock(void)
{
	spool = open_file("spool.lock", O_RDWR | O_CREAT);
	spool_of_helper = open_file("spool.lock", O_RDWR);
	make_helper(hold_file);
}

/* ---- scheduler: threads of a higher priority on the CPU of the call ---- */

enum { RIVALS = 6 };
static sem_t begin;

static void *be_rival(void *arg)
{
	struct sched_param priority = { .sched_priority = 20 };

	(void)arg;
	pthread_setname_np(pthread_self(), "indexer");
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
	for (;;) {
		sem_wait(&begin);
		burn(SLOW_US / RIVALS);
	}
	return NULL;
}

/* The fast calls compute as long. */
static void serve_scheduler(bool slow)
{
	if (slow)
		for (int i = 0; i < RIVALS; i++)
			sem_post(&begin);
	burn(2 * MS);
}

static void prepare_scheduler(void)
{
	cpu_set_t allowed, one;
	pthread_t thread;
	int cpu = 0;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	sem_init(&begin, 0, 0);
	for (int i = 0; i < RIVALS; i++)
		pthread_create(&thread, NULL, be_rival, NULL);
}

const struct cause waits[] = {
	{ "lock", prepare_lock, serve_lock },
	{ "convoy", prepare_lock, serve_convoy },
	{ "rwlock", prepare_rwlock, serve_rwlock },
	{ "condition", prepare_condition, serve_condition },
	{ "sleep", NULL, serve_sleep },
	{ "flock", prepare_flock, serve_flock },
	{ "scheduler", prepare_scheduler, serve_scheduler },
	{ 0 },
};
