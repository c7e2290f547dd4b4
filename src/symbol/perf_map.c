/*
 * perf_map.c - finds a function by its address, from perf-PID.map; see perf_map.h.
 *
 * The map is sorted once: a look-up is a binary search. Functions may overlap, because memory is
 * reused and the map does not record when a function is freed.
 */
#include "symbol/perf_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

#define NAME_BYTES 4096 /* a longer name is cut */
#define OVERLAP_MAX 64  /* functions at or below the address that are searched */

struct function {
	uint64_t start, end;  /* end is exclusive */
	const char *name;
	size_t len;
};

struct pev_perf_map {
	struct function *sorted;  /* owned */
	size_t nr;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/*
 * Reads a hexadecimal number and the space after it. Returns the rest of the line, or NULL if the
 * line does not start with a number of at most 64 bits.
 */
static const char *read_number(const char *at, const char *end, uint64_t *value)
{
	const char *first;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	*value = 0;
	for (first = at; at < end && hex_digit(*at) >= 0; at++) {
		if (*value >> 60)
			return NULL;
		*value = *value << 4 | (unsigned)hex_digit(*at);
	}
	return at > first && at < end && *at == ' ' ? at + 1 : NULL;
}

static bool parse_line(const char *line, const char *end, struct function *out)
{
	uint64_t size;
	const char *at = read_number(line, end, &out->start);

	at = at ? read_number(at, end, &size) : NULL;
	if (!at || at == end || size == 0)
		return false;
	out->end = out->start + size < size ? UINT64_MAX : out->start + size;
	out->name = at;
	out->len = end - at < NAME_BYTES ? (size_t)(end - at) : NAME_BYTES;
	return true;
}

/* Of two functions at one address, the later line is the newer one. */
static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static int append_function(struct pev_perf_map *map, uint32_t *cap, const struct function *function)
{
	if (map->nr == PEV_PERF_MAP_MAX)
		return -EFBIG;
	if (!pev_list_reserve(&map->sorted, cap, map->nr + 1, sizeof(*map->sorted)))
		return -ENOMEM;
	map->sorted[map->nr++] = *function;
	return 0;
}

static int parse_lines(struct pev_perf_map *map, const char *text, const char *end)
{
	uint32_t cap = 0;
	int rc;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		struct function function;

		if (!stop)
			stop = end;
		rc = parse_line(text, stop, &function) ? append_function(map, &cap, &function) : 0;
		if (rc < 0)
			return rc;
		text = stop + 1;
	}
	if (map->nr)
		qsort(map->sorted, map->nr, sizeof(*map->sorted), compare_functions);
	return 0;
}

int pev_perf_map_parse(struct pev_perf_map **out, const char *text, size_t len)
{
	struct pev_perf_map *map = calloc(1, sizeof(*map));
	int rc;

	if (!map)
		return -ENOMEM;
	rc = parse_lines(map, text, text + len);
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

/* Counts the functions that start at or below addr. */
static size_t count_below(const struct pev_perf_map *map, uint64_t addr)
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
	size_t at = count_below(map, addr), last = at > OVERLAP_MAX ? at - OVERLAP_MAX : 0;
	const struct function *newest = NULL;

	/* An older function may start at a higher address than a newer, longer one. */
	while (at-- > last) {
		const struct function *function = &map->sorted[at];

		if (addr < function->end && (!newest || function->name > newest->name))
			newest = function;
	}
	if (newest)
		*out = (struct pev_perf_map_function){ newest->start, newest->name, newest->len };
	return newest;
}
