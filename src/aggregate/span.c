/*
 * span.c - the table of starts that wait for their stops; see span.h.
 */
#include "aggregate/span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/aggregator.h"

#define FIRST_CAP 64
#define KEY_ROOM 16  /* minimal bytes: a number or a short name fits */
#define MOST_ROOM 256 /* largest room that a new start gets in advance */

struct pev_begun {
	struct pev_begun *next;          /* in its hash chain, or in the list of spare ones */
	struct pev_begun *older, *newer;
	uint64_t hash, time;
	size_t len, start, via;          /* bytes of the key, and of the kept data behind it */
	size_t room;                     /* bytes allocated for the three */
	bool passed;
	unsigned char key[];
};

int pev_spans_init(struct pev_spans *spans, uint32_t most)
{
	*spans = (struct pev_spans){ .most = most, .cap = FIRST_CAP };
	pev_key_salt(spans->salt);
	spans->room = KEY_ROOM;
	spans->chains = calloc(FIRST_CAP, sizeof(struct pev_begun *));
	return spans->chains ? 0 : -ENOMEM;
}

void pev_spans_free(struct pev_spans *spans)
{
	struct pev_begun *next;

	for (; spans->oldest; spans->oldest = next) {
		next = spans->oldest->newer;
		free(spans->oldest);
	}
	for (; spans->spare; spans->spare = next) {
		next = spans->spare->next;
		free(spans->spare);
	}
	free(spans->chains);
	*spans = (struct pev_spans){ 0 };
}

/* Returns the pointer to the start in its chain, or the NULL at the end. */
static struct pev_begun **find_start(const struct pev_spans *spans, uint64_t hash,
				     const void *key, size_t len)
{
	struct pev_begun **at = &spans->chains[hash & (spans->cap - 1)];

	while (*at && !((*at)->hash == hash && (*at)->len == len &&
			pev_key_same((*at)->key, key, len)))
		at = &(*at)->next;
	return at;
}

static void unlink_age(struct pev_spans *spans, const struct pev_begun *one)
{
	*(one->older ? &one->older->newer : &spans->oldest) = one->newer;
	*(one->newer ? &one->newer->older : &spans->newest) = one->older;
}

static void link_age(struct pev_spans *spans, struct pev_begun *one)
{
	one->newer = NULL;
	one->older = spans->newest;
	*(spans->newest ? &spans->newest->newer : &spans->oldest) = one;
	spans->newest = one;
}

static void remove_start(struct pev_spans *spans, struct pev_begun **at)
{
	struct pev_begun *one = *at;

	*at = one->next;
	unlink_age(spans, one);
	one->next = spans->spare;
	spans->spare = one;
	spans->nr--;
}

static void grow_chains(struct pev_spans *spans)
{
	uint32_t cap = spans->cap * 2;
	struct pev_begun **chains = calloc(cap, sizeof(struct pev_begun *));

	/* Without memory the chains stay longer. */
	if (!chains)
		return;
	for (struct pev_begun *one = spans->oldest; one; one = one->newer) {
		one->next = chains[one->hash & (cap - 1)];
		chains[one->hash & (cap - 1)] = one;
	}
	free(spans->chains);
	spans->chains = chains;
	spans->cap = cap;
}

static void remove_oldest(struct pev_spans *spans)
{
	const struct pev_begun *one = spans->oldest;

	remove_start(spans, find_start(spans, one->hash, one->key, one->len));
}

void pev_spans_clear(struct pev_spans *spans)
{
	while (spans->oldest)
		remove_oldest(spans);
	spans->unstarted = spans->restarted = spans->dropped = spans->cancelled = 0;
}

static void make_room(struct pev_spans *spans)
{
	if (spans->nr >= spans->most) {
		remove_oldest(spans);
		spans->dropped++;
	}
	if (spans->nr >= spans->cap)
		grow_chains(spans);
}

/* Returns a start with room for len bytes: reuses one that has ended, if there is one. */
static struct pev_begun *new_one(struct pev_spans *spans, size_t len)
{
	struct pev_begun *one = spans->spare;

	if (len > spans->room && len <= MOST_ROOM)
		spans->room = len;
	if (one) {
		spans->spare = one->next;
		if (one->room >= len)
			return one;
		free(one);
	}
	len = len > spans->room ? len : spans->room;
	one = malloc(sizeof(*one) + len);
	if (one)
		one->room = len;
	return one;
}

/* Makes room for len bytes in *at, which may move. -ENOMEM. */
static int make_wider(struct pev_spans *spans, struct pev_begun **at, size_t len)
{
	struct pev_begun *old = *at, *one;
	size_t room;

	if (old->room >= len)
		return 0;
	one = new_one(spans, len);
	if (!one)
		return -ENOMEM;
	room = one->room;
	memcpy(one, old, sizeof(*old) + old->len + old->start + old->via);
	one->room = room;
	*at = one;
	*(one->older ? &one->older->newer : &spans->oldest) = one;
	*(one->newer ? &one->newer->older : &spans->newest) = one;
	free(old);
	return 0;
}

static void put_bytes(struct pev_begun *one, size_t at, const void *bytes, size_t len)
{
	if (len)
		memcpy(one->key + at, bytes, len);
}

static void set_start(struct pev_begun *one, uint64_t time, struct pev_kept kept)
{
	one->time = time;
	one->start = kept.len;
	one->via = 0;
	one->passed = false;
	put_bytes(one, one->len, kept.bytes, kept.len);
}

static int restart_span(struct pev_spans *spans, struct pev_begun **at, uint64_t time,
		   struct pev_kept kept)
{
	int rc = make_wider(spans, at, (*at)->len + kept.len);

	if (rc < 0)
		return rc;
	spans->restarted++;
	set_start(*at, time, kept);
	unlink_age(spans, *at);
	link_age(spans, *at);
	return 0;
}

int pev_spans_start(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_kept kept)
{
	uint64_t hash = pev_key_hash(spans->salt, key, len);
	struct pev_begun **at = find_start(spans, hash, key, len), *one;

	if (*at)
		return restart_span(spans, at, time, kept);
	one = new_one(spans, len + kept.len);
	if (!one)
		return -ENOMEM;
	make_room(spans);
	at = &spans->chains[hash & (spans->cap - 1)];
	one->next = *at;
	one->hash = hash;
	one->len = len;
	put_bytes(one, 0, key, len);
	set_start(one, time, kept);
	*at = one;
	link_age(spans, one);
	spans->nr++;
	return 0;
}

static struct pev_begun **find_key(const struct pev_spans *spans, const void *key, size_t len)
{
	return find_start(spans, pev_key_hash(spans->salt, key, len), key, len);
}

int pev_spans_pass(struct pev_spans *spans, const void *key, size_t len, struct pev_kept kept)
{
	struct pev_begun **at = find_key(spans, key, len), *one = *at;
	int rc;

	if (!one || one->passed)
		return 0;
	rc = make_wider(spans, at, one->len + one->start + kept.len);
	if (rc < 0)
		return rc;
	one = *at;
	one->passed = true;
	one->via = kept.len;
	put_bytes(one, one->len + one->start, kept.bytes, kept.len);
	return 0;
}

bool pev_spans_stop(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_spanned *ended)
{
	struct pev_begun **at = find_key(spans, key, len), *one = *at;

	if (!one || one->time > time) {
		spans->unstarted++;
		return false;
	}
	*ended = (struct pev_spanned){
		.took = time - one->time,
		.start = { one->key + one->len, one->start },
		.via = { one->key + one->len + one->start, one->via },
		.passed = one->passed,
	};
	remove_start(spans, at);
	return true;
}

void pev_spans_cancel(struct pev_spans *spans, const void *key, size_t len)
{
	struct pev_begun **at = find_key(spans, key, len);

	if (!*at)
		return;
	remove_start(spans, at);
	spans->cancelled++;
}
