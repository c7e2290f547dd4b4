/* lreader.h - the userdata perfev.core.reader: a recording that is being read. */
#pragma once

#include <lua.h>
#include <stdint.h>

#define L_READER "perfev.core.reader"

#include "perfdata/reader.h"
#include "task/task.h"

struct l_reader;

/* Returns the recording at idx; raises on any other value. */
struct l_reader *l_reader_check(lua_State *L, int idx);
/*
 * Returns its reader, or NULL if it is closed, for a call that has the userdata at
 * idx. Call it again after a call into Lua, which may have closed the recording.
 */
struct pev_reader *l_reader_enter(struct l_reader *self, lua_State *L, int idx);
/*
 * Sets a counter that closing increments, so that views of its records become
 * invalid. Borrowed until the next call; NULL: only its own views show its records.
 */
void l_reader_shown(struct l_reader *self, uint64_t *now);
/* Passes a note for the user to its owner. Never raises. */
void l_reader_note(const struct l_reader *self, const char *text);
/* Returns the tasks of the recording. */
struct pev_tasks *l_reader_tasks(struct l_reader *self);
/*
 * A pev_symbol_fn for symbols of the recorder's kernel, as set by d:kernel(); ctx is the userdata.
 */
const char *l_reader_symbol(void *ctx, uint64_t addr, uint64_t *start);
