/*
 * perf_map.c - functions by address, of perf-PID.map; see perf_map.h.
 *
 * Read once and sorted: a look-up is a binary search. Functions may lie over one another, as
 * memory is used again and nobody says so.
 */
#include "symbol/perf_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 4096 /* of one; what is longer is cut */
#define OVERLAID_MAX 64 /* older functions that a newer one may lie over */

struct function {
	uint64_t start, end;  /* end: the first byte that is not its */
	const char *name;
	size_t len;
};

struct pev_perf_map {
	struct function *sorted;  /* owned */
	size_t nr;
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A number in hex and the space behind it; what comes then, NULL: it is none of 64 bits. */
static const char *take_number(const char *at, const char *end, uint64_t *value)
{
	const char *first;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	*value = 0;
	for (first = at; at < end && digit_of(*at) >= 0; at++) {
		if (*value >> 60)
			return NULL;
		*value = *value << 4 | (unsigned)digit_of(*at);
	}
	return at > first && at < end && *at == ' ' ? at + 1 : NULL;
}

static bool parse_line(const char *line, const char *end, struct function *out)
{
	uint64_t size;
	const char *at = take_number(line, end, &out->start);

	at = at ? take_number(at, end, &size) : NULL;
	if (!at || at == end || size == 0)
		return false;
	out->end = out->start + size < size ? UINT64_MAX : out->start + size;
	out->name = at;
	out->len = end - at < NAME_BYTES ? (size_t)(end - at) : NAME_BYTES;
	return true;
}

/* Of two at one place the later one is the newer. */
static int compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static int add(struct pev_perf_map *map, size_t *room, const struct function *function)
{
	struct function *sorted;

	if (map->nr == PEV_JITMAP_MAX)
		return -EFBIG;
	if (map->nr == *room) {
		*room = *room ? *room * 2 : 256;
		sorted = realloc(map->sorted, sizeof(*sorted) * *room);
		if (!sorted)
			return -ENOMEM;
		map->sorted = sorted;
	}
	map->sorted[map->nr++] = *function;
	return 0;
}

static int parse(struct pev_perf_map *map, const char *text, const char *end)
{
	size_t room = 0;
	int rc;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		struct function function;

		if (!stop)
			stop = end;
		rc = parse_line(text, stop, &function) ? add(map, &room, &function) : 0;
		if (rc < 0)
			return rc;
		text = stop + 1;
	}
	if (map->nr)
		qsort(map->sorted, map->nr, sizeof(*map->sorted), compare);
	return 0;
}

int pev_perf_map_parse(struct pev_perf_map **out, const char *text, size_t len)
{
	struct pev_perf_map *map = calloc(1, sizeof(*map));
	int rc;

	if (!map)
		return -ENOMEM;
	rc = parse(map, text, text + len);
	if (rc < 0) {
		pev_perf_map_free(map);
		return rc;
	}
	*out = map;
	return 0;
}

void pev_perf_map_free(struct pev_perf_map *map)
{
	if (!map)
		return;
	free(map->sorted);
	free(map);
}

/* How many begin at or below addr. */
static size_t nr_below(const struct pev_perf_map *map, uint64_t addr)
{
	size_t low = 0, high = map->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (map->sorted[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool pev_perf_map_find(const struct pev_perf_map *map, uint64_t addr,
		       struct pev_perf_map_function *out)
{
	size_t at = nr_below(map, addr), last = at > OVERLAID_MAX ? at - OVERLAID_MAX : 0;
	const struct function *newest = NULL;

	/* Memory is used again, for one that is longer as well. */
	while (at-- > last) {
		const struct function *function = &map->sorted[at];

		if (addr < function->end && (!newest || function->name > newest->name))
			newest = function;
	}
	if (newest)
		*out = (struct pev_perf_map_function){ newest->start, newest->name, newest->len };
	return newest;
}
