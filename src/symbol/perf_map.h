/*
 * perf_map.h - functions that were made in memory: which one is at an address, by perf-PID.map.
 *
 * A compiler that makes code writes a line for each function, "start size name", the numbers
 * in hex: tools/perf/Documentation/jit-interface.txt. Whoever may write to /tmp writes it:
 * what is no such line is passed over.
 */
#ifndef PEV_PERF_MAP_H
#define PEV_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pev_perf_map; /* opaque */

struct pev_perf_map_function {
	uint64_t start;
	const char *name;   /* not terminated; in the text */
	size_t len;         /* bytes of it, 1 to 4096 */
};

#define PEV_JITMAP_MAX (2u << 20) /* functions; each takes 32 bytes beside the text */

/*
 * Parses a map. The text is borrowed until pev_perf_map_free(). -EFBIG: the map has more than
 * PEV_JITMAP_MAX functions and is refused as a whole, because without its last lines older
 * functions would be shown in the place of newer ones. -ENOMEM.
 */
int pev_perf_map_parse(struct pev_perf_map **map, const char *text, size_t len);
void pev_perf_map_free(struct pev_perf_map *map);

/* The function at an address; of several the newest. */
bool pev_perf_map_find(const struct pev_perf_map *map, uint64_t addr,
		       struct pev_perf_map_function *out);

#endif
