/*
 * laggregator_values.h - values of an aggregator: add, merge, delta, get, pairs and more.
 */
#ifndef PEV_LAGGREGATOR_VALUES_H
#define PEV_LAGGREGATOR_VALUES_H

#include <lua.h>

/* Adds the methods to the aggregators' class. Comes after l_agg_register(). */
void l_agg_values_register(lua_State *L);

#endif
