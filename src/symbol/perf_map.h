/*
 * perf_map.h - finds the function at an address of code generated at run time, by perf-PID.map.
 *
 * A just-in-time compiler writes a line for each function, "start size name", the numbers in hex:
 * tools/perf/Documentation/jit-interface.txt. Every user who may write to /tmp can write such a
 * file. Malformed lines are skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pev_perf_map; /* opaque */

struct pev_perf_map_function {
	uint64_t start;
	const char *name;   /* in the text, not terminated */
	size_t len;         /* bytes of the name, 1 to 4096 */
};

#define PEV_PERF_MAP_MAX (2u << 20) /* functions; each takes 32 bytes beside the text */

/*
 * Parses a map. The text is borrowed until pev_perf_map_free(). Returns -ENOMEM, or -EFBIG if the
 * map has more than PEV_PERF_MAP_MAX functions: it is refused as a whole, because without its
 * last lines older functions would be shown in the place of newer ones.
 */
int pev_perf_map_parse(struct pev_perf_map **map, const char *text, size_t len);
void pev_perf_map_free(struct pev_perf_map *map);

/* Finds the function at an address; of several the newest. */
bool pev_perf_map_find(const struct pev_perf_map *map, uint64_t addr,
		       struct pev_perf_map_function *out);
