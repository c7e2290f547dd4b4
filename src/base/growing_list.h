/*
 * growing_list.h - arrays that double when they are full.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for nr items of `each` bytes in an array that has room for *cap of them; list is the
 * address of the pointer to it. False without memory or beyond 2^31 items: nothing has changed.
 */
static inline bool pev_list_reserve(void *list, uint32_t *cap, uint64_t nr, size_t each)
{
	uint64_t more = *cap ? *cap : 16;
	void *items, *grown;

	if (nr <= *cap)
		return true;
	while (more < nr)
		more *= 2;
	memcpy(&items, list, sizeof(items));
	if (more > UINT32_C(1) << 31 || more > SIZE_MAX / each)
		return false;
	grown = realloc(items, (size_t)more * each);
	if (!grown)
		return false;
	memcpy(list, &grown, sizeof(grown));
	*cap = (uint32_t)more;
	return true;
}
