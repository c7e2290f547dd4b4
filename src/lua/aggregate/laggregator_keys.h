/*
 * laggregator_keys.h - keys of an aggregator: made from arguments, named, pushed as values.
 */
#pragma once

#include "lua/aggregate/laggregator.h"

/* Makes the key from the arguments from first on. */
void l_agg_take_key(lua_State *L, struct l_agg *self, int first);

/*
 * Names the symbols of argument 1 before it is read, and merges keys of the same name. Values
 * added later have addresses until the next call. An aggregator of kind "top" keeps the
 * addresses too: otherwise a named symbol that comes again would count as a new key, take the
 * place of another and inherit its error.
 */
const struct pev_agg *l_agg_settle(lua_State *L, struct l_agg *self);

/*
 * Adds f(stack, column, spec) to the table at texts, by the stack's address, for each stack in one
 * of these columns. The aggregator is argument 1.
 */
void l_agg_add_texts(lua_State *L, const struct pev_agg *agg, uint32_t columns, int f, int texts);

/* Pushes a part of a key as a value. homes is L_AGG_UV_HOMES. */
void l_agg_push_part(lua_State *L, int homes, const struct pev_key_part *part);
/* Pushes the parts of a key, each as a value. homes is L_AGG_UV_HOMES. Returns how many. */
int l_agg_push_key(lua_State *L, int homes, const struct pev_agg *agg,
		   const struct pev_cell *cell);
