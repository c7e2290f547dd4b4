/* pipeline.c - a thread that fills slots ahead of its caller; see pipeline.h. */
#include "base/pipeline.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/sys.h"

#define SLOTS_HALF (PEV_PIPELINE_SLOTS / 2)
#define BYTES_MAX ((size_t)1 << 20) /* of filled slots: the thread fills no more */

struct pev_pipeline {
	pev_pipeline_fill_fn fill;
	void *ctx;
	unsigned process;
	pthread_t thread;
	pthread_mutex_t mutex; /* for the fields below */
	pthread_cond_t changed;
	size_t sizes[PEV_PIPELINE_SLOTS], bytes;
	unsigned first, nr;    /* the filled slots; the caller may hold the first */
	bool is_held, is_running, is_stopped, is_paused, is_closed;
	bool is_full;
};

/* True if the thread may fill a slot. When the slots are full, it waits until half are empty. */
static bool can_fill(struct pev_pipeline *p)
{
	if (p->is_stopped || p->is_paused)
		return false;
	if (p->is_full)
		p->is_full = p->nr > 1 && (p->nr > SLOTS_HALF || p->bytes > BYTES_MAX / 2);
	else
		p->is_full = p->nr == PEV_PIPELINE_SLOTS || (p->nr > 1 && p->bytes > BYTES_MAX);
	return !p->is_full;
}

static void *run_thread(void *ctx)
{
	struct pev_pipeline *p = ctx;

	pthread_mutex_lock(&p->mutex);
	while (!p->is_closed) {
		unsigned slot = (p->first + p->nr) % PEV_PIPELINE_SLOTS;
		size_t size;

		p->is_running = can_fill(p);
		if (!p->is_running || p->nr == SLOTS_HALF)
			pthread_cond_signal(&p->changed);
		if (!p->is_running) {
			pthread_cond_wait(&p->changed, &p->mutex);
			continue;
		}
		pthread_mutex_unlock(&p->mutex);
		size = p->fill(p->ctx, slot);
		pthread_mutex_lock(&p->mutex);
		p->is_stopped = !size;
		p->nr += !p->is_stopped;
		p->sizes[slot] = size;
		p->bytes += size;
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

int pev_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

struct pev_pipeline *pev_pipeline_open(pev_pipeline_fill_fn fill, void *ctx)
{
	struct pev_pipeline *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fill = fill;
	p->ctx = ctx;
	p->process = pev_sys_process();
	p->is_stopped = true;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, NULL);
	if (pev_thread_start(&p->thread, run_thread, p) == 0)
		return p;
	free(p);
	return NULL;
}

void pev_pipeline_close(struct pev_pipeline *p)
{
	if (p && pev_sys_is_process(p->process)) {
		pthread_mutex_lock(&p->mutex);
		p->is_closed = true;
		pthread_cond_signal(&p->changed);
		pthread_mutex_unlock(&p->mutex);
		pthread_join(p->thread, NULL);
	}
	free(p);
}

static void release_held(struct pev_pipeline *p)
{
	if (!p->is_held)
		return;
	p->is_held = false;
	p->bytes -= p->sizes[p->first];
	p->first = (p->first + 1) % PEV_PIPELINE_SLOTS;
	p->nr--;
}

int pev_pipeline_take(struct pev_pipeline *p)
{
	bool is_empty;
	int slot;

	if (!pev_sys_is_process(p->process))
		return -ECHILD;
	pthread_mutex_lock(&p->mutex);
	release_held(p);
	is_empty = !p->nr;
	p->is_paused = false;
	if (!p->is_running && can_fill(p))
		pthread_cond_signal(&p->changed);
	/* Both threads wait for half of the slots: they wake each other up rarely. */
	while (is_empty && !p->is_stopped && !p->is_full && p->nr < SLOTS_HALF)
		pthread_cond_wait(&p->changed, &p->mutex);
	p->is_held = p->nr > 0;
	slot = p->nr ? (int)p->first : -EAGAIN;
	pthread_mutex_unlock(&p->mutex);
	return slot;
}

void pev_pipeline_resume(struct pev_pipeline *p)
{
	if (!pev_sys_is_process(p->process))
		return;
	pthread_mutex_lock(&p->mutex);
	p->is_stopped = false;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->mutex);
}

void pev_pipeline_pause(struct pev_pipeline *p)
{
	if (!p || !pev_sys_is_process(p->process))
		return;
	pthread_mutex_lock(&p->mutex);
	p->is_paused = true;
	while (p->is_running)
		pthread_cond_wait(&p->changed, &p->mutex);
	pthread_mutex_unlock(&p->mutex);
}
