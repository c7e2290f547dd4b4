/*
 * laggregator_pack.h - an aggregator as portable bytes.
 */
#ifndef PEV_LAGGREGATOR_PACK_H
#define PEV_LAGGREGATOR_PACK_H

#include <lua.h>

/*
 * Adds the methods to the aggregators' class, and pack_sum() to the
 * table on top of the stack. Comes after l_agg_register().
 */
void l_agg_pack_register(lua_State *L);

#endif
