/*
 * ldatafile.h - a recording as userdata.
 */
#ifndef PEV_LDATAFILE_H
#define PEV_LDATAFILE_H

#include <lua.h>
#include <stdint.h>

#define L_DATAFILE "perfev.datafile"

/* Add datafile(path, options) to the table on top of the stack. */
void l_datafile_register(lua_State *L);

/* A pev_symbol_fn; ctx is that userdata: names of the recorder's kernel, as d:kernel() has it. */
const char *l_datafile_symbol(void *ctx, uint64_t addr, uint64_t *start);

#endif
