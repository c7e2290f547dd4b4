/* lpayload.h - decodes a payload from bytes and a format text, without a session. */
#ifndef PEV_LPAYLOAD_H
#define PEV_LPAYLOAD_H

#include <lua.h>

/* Adds payload() to the table on top of the stack. The metatable of views must exist. */
void l_payload_register(lua_State *L);

#endif
