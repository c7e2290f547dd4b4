/* route.h - which listeners receive the records of an event and a type. */
#pragma once

#include "engine/engine.h"

/*
 * Returns the route of an event, or of PEV_NO_EVENT, and a type below PEV_RECORD_NR; NULL without
 * memory. Valid until the next call.
 */
struct pev_route *pev_route_find(struct pev_engine *engine, uint32_t event, uint32_t type);
/* Forgets all routes: listeners or events have changed. */
void pev_route_clear(struct pev_engine *engine);
