/*
 * laggregator_pack.h - the end of packed bytes.
 */
#pragma once

#include <lauxlib.h>

/* Adds the checksum of the bytes so far. */
void l_pack_add_sum(luaL_Buffer *buffer);
