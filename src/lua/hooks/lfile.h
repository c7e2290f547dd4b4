/*
 * lfile.h - core.file(): opens a file that may have been planted; see ../file.h.
 */
#ifndef PEV_LFILE_H
#define PEV_LFILE_H

#include <lua.h>

/* Make the metatable perfev.core.file, and add file to the table on top. */
void l_file_register(lua_State *L);

#endif
