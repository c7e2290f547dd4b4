/*
 * laux.h - the userdata perfev.aux: the bytes of an AUX area that a record refers to.
 */
#pragma once

#include <lua.h>
#include <stdint.h>

#include "live/ring.h"

/*
 * A session has one view for all AUX areas. It is valid while gen == *now, in the process that
 * mapped the area.
 */
struct l_aux {
	struct pev_aux aux;
	const uint64_t *now;   /* borrowed, must outlive the view */
	uint64_t gen;
	unsigned process;      /* pev_sys_process() */
};

/* Pushes a new view, closed. */
struct l_aux *l_aux_push(lua_State *L, const uint64_t *now);
