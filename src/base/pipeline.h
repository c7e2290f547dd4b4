/*
 * pipeline.h - a thread that fills slots before the caller empties them, in order.
 *
 * The thread calls fill() for one slot after the other. What fill() uses belongs to the thread
 * while it runs, and to the caller while it is stopped or paused. The thread stops when fill()
 * returns 0: the caller empties the filled slots, does what fill() left to it, and resumes the
 * thread. A forked child has no thread: take() returns -ECHILD there.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

#define PEV_PIPELINE_SLOTS 64u

/* Starts a thread that blocks all signals: they stay with the caller. Returns 0 or -errno. */
int pev_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

/* Fills the slot. Returns the bytes that its content has in memory, or 0 to stop the thread. */
typedef size_t (*pev_pipeline_fill_fn)(void *ctx, unsigned slot);

struct pev_pipeline;

/* Starts the thread, stopped. NULL: no memory or no thread. */
struct pev_pipeline *pev_pipeline_open(pev_pipeline_fill_fn fill, void *ctx);
/* Ends the thread. The slots' contents stay. NULL is ignored. */
void pev_pipeline_close(struct pev_pipeline *pipeline);
/*
 * Returns the slot before to the thread, and then the next filled slot. Waits for the thread,
 * which continues if it was paused. -EAGAIN: it has stopped, and no slot is filled.
 */
int pev_pipeline_take(struct pev_pipeline *pipeline);
/* Lets a stopped thread continue. */
void pev_pipeline_resume(struct pev_pipeline *pipeline);
/* Waits until the thread does not run, up to the next take(). NULL is ignored. */
void pev_pipeline_pause(struct pev_pipeline *pipeline);
