/*
 * lsession.h - the userdata perfev.core.session: an engine, its callbacks, and the descriptors
 * that its loop waits for.
 *
 * lsession.c has what live sessions and replayed recordings share, lsession_live.c the events and
 * rings of a live session, and lsession_recording.c the events of a recording. Internal: users see
 * lua/perfev/live/session.lua. ldispatch.h calls the callbacks.
 */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "live/session.h"
#include "perfdata/recording_source.h"
#include "symbol/kallsyms.h"
#include "tracepoint/tracepoint.h"
#include "lua/engine/ldispatch.h"
#include "lua/engine/lunordered.h"
#include "lua/perfdata/lreader.h"

/* Further user values: a perfev.core.writer or nil, and a perfev.core.reader or nil. */
enum { L_SESSION_UV_RECORDER = L_UV_NR + 1, L_SESSION_UV_FILE };

enum { L_ARGS_UV_OWNER = 2 }; /* user value of a payload view: see l_args_push() */

struct l_session {
	struct pev_session *s;       /* owned; NULL once closed. Of a recording: only waits */
	const struct pev_sys *sys;
	struct l_reader *file;       /* the recording; NULL: live */
	struct pev_recording_source recording;
	struct pev_engine engine;
	struct l_dispatch d;
	struct l_unordered *unordered; /* NULL: records are delivered in the order of time */
	uint64_t delivered;
	uint64_t fed;                /* part of delivered: samples that bypassed dispatch */
	struct pev_err damage;       /* why reading the recording ended early; code 0: it did not */
	struct pev_tracepoints *tps; /* owned */
	struct pev_kallsyms *symbols; /* owned; read when the first address is printed */
	bool no_symbols;             /* the kernel's symbols could not be read */
	int *fds;                    /* timers and signals, owned and watched */
	int nr_fds;
	uint64_t blocked;            /* signals blocked by us, bit n-1: signal n */
	bool closing;
};

extern const luaL_Reg l_session_live_methods[], l_session_recording_methods[],
	l_session_unordered_methods[];

/* Returns the session at 1, which may be closed or the parent's. */
struct l_session *l_session_check_any(lua_State *L);
/* The same; raises if it is closed or the parent's. */
struct l_session *l_session_check(lua_State *L);
/* The same; raises for a recording, which has no such method. */
struct l_session *l_session_check_live(lua_State *L);
/* Returns the slot at arg; raises if no event has it. */
uint32_t l_session_check_slot(lua_State *L, struct l_session *self, int arg);

/* Reads the field "wanted" of the options at 1: the records that the engine delivers. Raises. */
void l_session_read_wanted(lua_State *L, struct l_session *self);
/*
 * Takes the recording in the field "reader" of the options at 1 for the session at 2. False
 * without one. Raises.
 */
bool l_session_take_recording(lua_State *L, struct l_session *self);
/* Adds the counts of the samples that a live session fed. Returns how many since the last call. */
uint64_t l_session_count_fed(struct l_session *self);
/* Sets the totals that a recording has in place of rings. */
void l_session_add_totals(struct l_session *self, struct pev_totals *totals);

/* ---- rows: lsession_rows.c ---- */

/*
 * True if the current record is for a consumer of numbers only. From then on, rows of its event
 * are read ahead.
 */
bool l_session_takes_numbers(struct l_session *self);
/* Takes the next record and pushes its row, for a loop, if it was read ahead. Returns how many. */
int l_session_push_row(lua_State *L, struct l_session *self);
/* A round, outside of the protected call, so that it survives an error. */
struct l_delivery {
	struct l_session *self;
	uint64_t most, nr; /* limit and number of delivered records */
	uint64_t calls;    /* calls of Lua that are left */
	int rc;            /* of pev_engine_next() */
	struct pev_err err;
};

/*
 * Calls a callback with the following rows of one event. False if there are none. Raises, like the
 * callback. d.stop: it ends the dispatch.
 */
bool l_session_call_with_rows(lua_State *L, struct l_session *self, struct l_delivery *delivery);
