/*
 * span.c - what has begun and not ended; see span.h.
 */
#include "span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agg.h"

#define FIRST_CAP 64
#define KEY_ROOM 16 /* bytes at least: of a number, or of a short name */

struct pev_begun {
	struct pev_begun *next;          /* of its chain, or of the spare ones */
	struct pev_begun *older, *newer;
	uint64_t hash, time;
	size_t len, room;                /* bytes of its key, and that there are for one */
	unsigned char key[];
};

int pev_spans_init(struct pev_spans *spans, uint32_t most)
{
	*spans = (struct pev_spans){ .most = most, .cap = FIRST_CAP };
	pev_key_salt(spans->salt);
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

/* Where the pointer to it stands, or to none. */
static struct pev_begun **find(const struct pev_spans *spans, uint64_t hash, const void *key,
			       size_t len)
{
	struct pev_begun **at = &spans->chains[hash & (spans->cap - 1)];

	while (*at && !((*at)->hash == hash && (*at)->len == len &&
			pev_key_same((*at)->key, key, len)))
		at = &(*at)->next;
	return at;
}

static void age_out(struct pev_spans *spans, const struct pev_begun *one)
{
	*(one->older ? &one->older->newer : &spans->oldest) = one->newer;
	*(one->newer ? &one->newer->older : &spans->newest) = one->older;
}

static void age_in(struct pev_spans *spans, struct pev_begun *one)
{
	one->newer = NULL;
	one->older = spans->newest;
	*(spans->newest ? &spans->newest->newer : &spans->oldest) = one;
	spans->newest = one;
}

static void take_out(struct pev_spans *spans, struct pev_begun **at)
{
	struct pev_begun *one = *at;

	*at = one->next;
	age_out(spans, one);
	one->next = spans->spare;
	spans->spare = one;
	spans->nr--;
}

static void grow(struct pev_spans *spans)
{
	uint32_t cap = spans->cap * 2;
	struct pev_begun **chains = calloc(cap, sizeof(struct pev_begun *));

	/* Without: the chains are longer. */
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

static void make_room(struct pev_spans *spans)
{
	const struct pev_begun *one = spans->oldest;

	if (spans->nr >= spans->most) {
		take_out(spans, find(spans, one->hash, one->key, one->len));
		spans->dropped++;
	}
	if (spans->nr >= spans->cap)
		grow(spans);
}

/* One with room for such a key: what has ended leaves its own, as many as waited at one time. */
static struct pev_begun *new_one(struct pev_spans *spans, size_t len)
{
	struct pev_begun *one = spans->spare;
	size_t room = len < KEY_ROOM ? KEY_ROOM : len;

	if (one) {
		spans->spare = one->next;
		if (one->room >= len)
			return one;
		free(one);
	}
	one = malloc(sizeof(*one) + room);
	if (one)
		one->room = room;
	return one;
}

int pev_spans_start(struct pev_spans *spans, const void *key, size_t len, uint64_t time)
{
	uint64_t hash = pev_key_hash(spans->salt, key, len);
	struct pev_begun *one = *find(spans, hash, key, len), **chain;

	if (one) {
		spans->restarted++;
		one->time = time;
		age_out(spans, one);
		age_in(spans, one);
		return 0;
	}
	one = new_one(spans, len);
	if (!one)
		return -ENOMEM;
	make_room(spans);
	chain = &spans->chains[hash & (spans->cap - 1)];
	one->next = *chain;
	one->hash = hash;
	one->time = time;
	one->len = len;
	if (len)
		memcpy(one->key, key, len);
	*chain = one;
	age_in(spans, one);
	spans->nr++;
	return 0;
}

bool pev_spans_stop(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    uint64_t *took)
{
	struct pev_begun **at = find(spans, pev_key_hash(spans->salt, key, len), key, len);

	if (!*at || (*at)->time > time) {
		spans->unstarted++;
		return false;
	}
	*took = time - (*at)->time;
	take_out(spans, at);
	return true;
}
