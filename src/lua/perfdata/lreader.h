/*
 * lreader.h - a recording as userdata.
 */
#ifndef PEV_LREADER_H
#define PEV_LREADER_H

#include <lua.h>
#include <stdint.h>

#define L_DATAFILE "perfev.core.datafile"

#include "perfdata/reader.h"
#include "task/task.h"

struct l_datafile;

/* Add datafile(path, options) to the table on top of the stack. */
void l_datafile_register(lua_State *L);

/* The recording at idx; raises on anything else. */
struct l_datafile *l_datafile_check(lua_State *L, int idx);
/*
 * What reads it, for a call in which it is at idx, or NULL once it is closed. Said
 * again after Lua was called, which may have used it.
 */
struct pev_reader *l_datafile_enter(struct l_datafile *self, lua_State *L, int idx);
/*
 * What counts up once it is closed: views that compare with it, and show its records, are
 * stale then. Borrowed until it is said again; NULL: there are none but its own.
 */
void l_datafile_shown(struct l_datafile *self, uint64_t *now);
/* Tell its owner something that a user should know. Never raises. */
void l_datafile_note(const struct l_datafile *self, const char *text);
/* Who is who in it. */
struct pev_tasks *l_datafile_tasks(struct l_datafile *self);
/* A pev_symbol_fn; ctx is that userdata: names of the recorder's kernel, as d:kernel() has it. */
const char *l_datafile_symbol(void *ctx, uint64_t addr, uint64_t *start);

#endif
