/*
 * lnats.h - shared by the files of the module perfev.nats.
 */
#pragma once

#include <lua.h>

#include "fleet/nats_client.h"

#define L_NATS_CONNECTION "perfev.nats.connection"

/* Raises an error if the connection is closed. */
struct pev_nats *l_nats_check(lua_State *L, int idx);

/* Pushes nil, message, errno. */
int l_nats_failure(lua_State *L, int rc, const struct pev_err *err);

/* Pushes { subject =, data =, reply =, headers = } and destroys the message; NULL: nil. */
void l_nats_push_message(lua_State *L, natsMsg *msg);

/* The metatables of the other files, and methods of the connection that they define. */
void l_nats_subscription_register(lua_State *L);
void l_nats_consumer_register(lua_State *L);
int l_nats_subscribe(lua_State *L);
int l_nats_pull(lua_State *L);

/* Methods of the connection in lnats_stream.c. */
int l_nats_stream_add(lua_State *L);
int l_nats_stream_info(lua_State *L);
int l_nats_stream_purge(lua_State *L);
int l_nats_stream_delete(lua_State *L);
