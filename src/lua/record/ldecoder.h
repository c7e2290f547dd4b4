/*
 * ldecoder.h - the userdata perfev.decoder: decodes bytes of records without a session.
 */
#ifndef PEV_LDECODER_H
#define PEV_LDECODER_H

#include <lua.h>

/* Adds decoder(attrs, opts), layouts() and machine to the table on top of the stack. */
void l_decoder_register(lua_State *L);

#endif
