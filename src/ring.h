/*
 * ring.h - one mapped perf buffer, from the consumer's side.
 */
#ifndef PEV_RING_H
#define PEV_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys.h"

struct pev_ring {
	const struct pev_sys *sys;        /* borrowed */
	struct perf_event_mmap_page *page; /* NULL when not mapped */
	const unsigned char *data;
	size_t mapped;                     /* bytes, the control page included */
	uint64_t size;                     /* data bytes, a power of two */
	uint64_t head;                     /* the kernel's, as of the last refresh */
	uint64_t tail;                     /* ours: everything before it was read */
	uint64_t published;                /* the tail the kernel has been told */
	uint64_t corrupt;                  /* resynchronised so often */
	unsigned char *wrap;               /* a record that wraps, made whole: 64 KiB */
	/*
	 * A backward ring is overwritten from its end to its beginning, for ever: what
	 * was in it when it was last looked at, newest first. NULL in a normal ring.
	 */
	uint64_t *found;
	uint64_t nr_found;
};

/*
 * Map the ring of fd: data_bytes must be a power of two of pages.
 * On failure nothing stays mapped. -EPERM: over the mlock budget.
 */
int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes);

/*
 * The same for an event with write_backward: mapped read-only, so that the
 * kernel overwrites what is oldest. Refresh while its output is paused
 * (PERF_EVENT_IOC_PAUSE_OUTPUT); then peek and pop go from the oldest record that is
 * whole to the newest.
 */
int pev_ring_map_backward(struct pev_ring *ring, const struct pev_sys *sys, int fd,
			  size_t data_bytes);

/* Safe on one that is not mapped. */
void pev_ring_unmap(struct pev_ring *ring);

/* See what the kernel has written by now; returns the unread bytes (backward: all there are). */
uint64_t pev_ring_refresh(struct pev_ring *ring);

/*
 * Next unread record as of the last refresh, or NULL when there is none.
 *
 * Borrowed: good until pev_ring_pop() or _unmap(). Its size, 8 <= size <= 65528
 * and a multiple of 8, is *size, read once. A header that breaks this cannot be
 * skipped: the ring is moved to head and ring->corrupt goes up by one.
 */
const unsigned char *pev_ring_peek(struct pev_ring *ring, uint16_t *size);

/* Done with the record of that size that peek gave. The kernel is not told yet. */
void pev_ring_pop(struct pev_ring *ring, uint16_t size);

/* Give what was read back to the kernel: one store a batch. */
void pev_ring_publish(struct pev_ring *ring);

#endif
