/*
 * lfollower.h - followers of an aggregator: each reads the values since it read last.
 *
 * The userdata perfev.core.follower. a:delta() of the script has one, and each exporter has its
 * own, so that they do not take values from each other. A follower keeps its aggregator.
 */
#pragma once

#include "lua/aggregate/laggregator.h"

/* Pushes a follower of the aggregator at idx. Its first delta has all values. */
struct l_follower *l_follower_push(lua_State *L, int idx, bool keeps_cleared);

/* Pushes an aggregator with the values since the last delta. The aggregator is at idx. */
void l_follower_push_delta(lua_State *L, struct l_follower *follower, int idx);

/*
 * Called when the script clears argument 1: its followers keep what they have not read. Raises
 * without memory, before anything has changed.
 */
void l_follower_clear(lua_State *L, struct l_agg *self);
