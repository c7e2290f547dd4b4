/*
 * lreader.h - a recording as userdata.
 */
#ifndef PEV_LREADER_H
#define PEV_LREADER_H

#include <lua.h>
#include <stdint.h>

#define L_READER "perfev.core.reader"

#include "perfdata/reader.h"
#include "task/task.h"

struct l_reader;

/* Add reader(path, options) to the table on top of the stack. */
void l_reader_register(lua_State *L);

/* The recording at idx; raises on anything else. */
struct l_reader *l_reader_check(lua_State *L, int idx);
/*
 * What reads it, for a call in which it is at idx, or NULL once it is closed. Said
 * again after Lua was called, which may have used it.
 */
struct pev_reader *l_reader_enter(struct l_reader *self, lua_State *L, int idx);
/*
 * What counts up once it is closed: views that compare with it, and show its records, are
 * stale then. Borrowed until it is said again; NULL: there are none but its own.
 */
void l_reader_shown(struct l_reader *self, uint64_t *now);
/* Tell its owner something that a user should know. Never raises. */
void l_reader_note(const struct l_reader *self, const char *text);
/* Who is who in it. */
struct pev_tasks *l_reader_tasks(struct l_reader *self);
/* A pev_symbol_fn; ctx is that userdata: names of the recorder's kernel, as d:kernel() has it. */
const char *l_reader_symbol(void *ctx, uint64_t addr, uint64_t *start);

#endif
