/*
 * deferred_callchain.c - holds samples until the user part of their call chain arrives.
 *
 * A thread returns to user space once for each time that it left it, and a cookie names one such
 * stay in the kernel: all samples of a stay share it. A record with the cookie of a later stay
 * means that the earlier samples get no user part. Contract: perf_callchain() and
 * perf_unwind_deferred_callback() in kernel/events, kernel/unwind/deferred.c; 6.19.
 */
#include "record/deferred_callchain.h"

#include <stdlib.h>

enum {
	CHAINS = 1024,                 /* a power of two */
	HELD_MAX = 4096,               /* sleeping threads wait long; task.c keeps 4096 exits */
	RECORD_MAX = 65528             /* bytes: header.size has 16 bits, multiple of 8 */
};
#define BYTES_MAX (UINT64_C(16) << 20)
#define CONTEXT_USER ((uint64_t)-512)

struct pev_held {
	struct pev_held *next;         /* in its hash chain, oldest first; or in the ready list */
	struct pev_held *older, *younger;
	struct pev_held_of of;
	uint64_t cookie;
	int tid;
	uint16_t size, chain;          /* bytes; offset of the call chain's nr */
	uint32_t nr;                   /* chain entries without marker and cookie */
	bool swap;
	unsigned char bytes[];
};

static void store64(unsigned char *p, uint64_t value, bool swap)
{
	value = swap ? __builtin_bswap64(value) : value;
	memcpy(p, &value, sizeof(value));
}

static int tid_of(const struct pev_record *rec)
{
	uint64_t tid;

	return pev_record_number(rec, PEV_F_TID, &tid) ? (int)(int64_t)tid : -1;
}

static struct pev_held **chain_of(const struct pev_deferred *d, int tid)
{
	return &d->chains[(uint32_t)tid & (CHAINS - 1)];
}

/* ---- held samples ---- */

static void make_ready(struct pev_deferred *d, struct pev_held *held)
{
	held->next = NULL;
	if (d->last)
		d->last->next = held;
	else
		d->ready = held;
	d->last = held;
}

/* *link is the pointer to the sample in its hash chain. */
static struct pev_held *remove_held(struct pev_deferred *d, struct pev_held **link)
{
	struct pev_held *held = *link;

	*link = held->next;
	if (held->older)
		held->older->younger = held->younger;
	else
		d->oldest = held->younger;
	if (held->younger)
		held->younger->older = held->older;
	else
		d->newest = held->older;
	d->nr--;
	d->bytes -= held->size;
	return held;
}

static void release_oldest(struct pev_deferred *d)
{
	struct pev_held **link = chain_of(d, d->oldest->tid);

	while (*link != d->oldest)
		link = &(*link)->next;
	make_ready(d, remove_held(d, link));
	d->unjoined++;
}

static void add_held(struct pev_deferred *d, struct pev_held *held)
{
	struct pev_held **link = chain_of(d, held->tid);

	while (*link)
		link = &(*link)->next;
	*link = held;
	held->older = d->newest;
	if (d->newest)
		d->newest->younger = held;
	else
		d->oldest = held;
	d->newest = held;
	d->nr++;
	d->bytes += held->size;
}

bool pev_deferred_hold(struct pev_deferred *d, const struct pev_record *rec,
		       const struct pev_held_of *of)
{
	struct pev_value chain;
	struct pev_held *held;

	if (!pev_record_get(rec, PEV_F_CALLCHAIN, &chain) || chain.nr < 2 ||
	    pev_load64(chain.p + 8 * (size_t)(chain.nr - 2), rec->plan->swap) !=
		    PEV_CONTEXT_USER_DEFERRED)
		return false;
	if (!d->chains)
		d->chains = calloc(CHAINS, sizeof(struct pev_held *));
	held = d->chains ? malloc(sizeof(*held) + rec->size) : NULL;
	if (!held)
		return false;
	*held = (struct pev_held){
		.of = *of,
		.cookie = pev_load64(chain.p + 8 * (size_t)(chain.nr - 1), rec->plan->swap),
		.tid = tid_of(rec),
		.size = rec->size,
		.chain = (uint16_t)(chain.p - 8 - rec->bytes),
		.nr = chain.nr - 2,
		.swap = rec->plan->swap,
	};
	memcpy(held->bytes, rec->bytes, rec->size);
	add_held(d, held);
	while (d->nr > HELD_MAX || d->bytes > BYTES_MAX)
		release_oldest(d);
	return true;
}

/* ---- joining both parts ---- */

/*
 * Returns the record with the user part in the place of marker and cookie, cut to the largest
 * record size. NULL without memory.
 */
static struct pev_held *join_parts(const struct pev_held *held, const struct pev_record *rec,
			       const struct pev_value *user)
{
	size_t head = held->chain + 8 * (1 + (size_t)held->nr), tail = head + 16;
	size_t room = (RECORD_MAX + 16u - held->size) / 8, nr = user->nr;
	struct pev_held *whole;
	unsigned char *to;
	uint16_t size;

	/* Tools may put the marker before the addresses; the kernel leaves it out. */
	bool marked = nr && pev_load64(user->p, rec->plan->swap) == CONTEXT_USER;

	nr = nr - marked < room ? nr - marked : room - 1;
	size = (uint16_t)(held->size - 16 + 8 * (1 + nr));
	whole = malloc(sizeof(*whole) + size);
	if (!whole)
		return NULL;
	*whole = *held;
	whole->size = size;
	memcpy(whole->bytes, held->bytes, head);
	to = whole->bytes + head;
	store64(to, CONTEXT_USER, held->swap);
	for (size_t i = 0; i < nr; i++) {
		to += 8;
		store64(to, pev_load64(user->p + 8 * (i + marked), rec->plan->swap), held->swap);
	}
	memcpy(to + 8, held->bytes + tail, held->size - tail);
	store64(whole->bytes + held->chain, held->nr + 1 + nr, held->swap);
	size = held->swap ? __builtin_bswap16(size) : size;
	memcpy(whole->bytes + 6, &size, sizeof(size));
	return whole;
}

void pev_deferred_join(struct pev_deferred *d, const struct pev_record *rec)
{
	struct pev_value cookie, user;
	int tid = tid_of(rec);
	struct pev_held **link;

	if (!d->nr || !pev_record_get(rec, PEV_F_COOKIE, &cookie) ||
	    !pev_record_get(rec, PEV_F_CALLCHAIN, &user))
		return;
	link = chain_of(d, tid);
	while (*link) {
		struct pev_held *held = *link, *whole = NULL;

		if (held->tid != tid) {
			link = &held->next;
			continue;
		}
		remove_held(d, link);
		if (held->cookie == cookie.u)
			whole = join_parts(held, rec, &user);
		d->unjoined += !whole;
		make_ready(d, whole ? whole : held);
		if (whole)
			free(held);
	}
}

void pev_deferred_release_all(struct pev_deferred *d)
{
	while (d->nr)
		release_oldest(d);
}

const unsigned char *pev_deferred_next(struct pev_deferred *d, struct pev_held_of *of,
				       uint16_t *size)
{
	free(d->given);
	d->given = d->ready;
	if (!d->given)
		return NULL;
	d->ready = d->given->next;
	if (!d->ready)
		d->last = NULL;
	*of = d->given->of;
	*size = d->given->size;
	return d->given->bytes;
}

static void free_list(struct pev_held *held)
{
	for (struct pev_held *next; held; held = next) {
		next = held->next;
		free(held);
	}
}

void pev_deferred_free(struct pev_deferred *d)
{
	const uint64_t unjoined = d->unjoined;

	pev_deferred_release_all(d);
	free_list(d->ready);
	free(d->given);
	free(d->chains);
	*d = (struct pev_deferred){ .unjoined = unjoined };
}
