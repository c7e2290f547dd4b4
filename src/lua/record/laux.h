/*
 * laux.h - the bytes of an AUX area that a record tells of, as its callback sees them.
 */
#ifndef PEV_LAUX_H
#define PEV_LAUX_H

#include <lua.h>
#include <stdint.h>

#include "live/ring.h"

/*
 * One view for all of a session, open as those of payloads are (largs.h): while
 * gen == *now, and in the process that mapped the area.
 */
struct l_aux {
	struct pev_aux aux;
	const uint64_t *now;   /* borrowed, must outlive the view */
	uint64_t gen;
	unsigned process;      /* pev_sys_process() */
};

/* Make the metatable "perfev.aux". */
void l_aux_register(lua_State *L);

/* Push a new view, closed. */
struct l_aux *l_aux_push(lua_State *L, const uint64_t *now);

#endif
