/*
 * lreader_state.h - the userdata perfev.core.reader, for the files that implement its methods.
 */
#pragma once

#include <stdbool.h>

#include "lua/record/largs.h"
#include "lua/record/lrecord.h"
#include "perfdata/reader.h"
#include "symbol/kallsyms.h"
#include "task/task.h"

#define L_READER_VIEWS 2 /* used in turn to detect a kept view; see lrecord.h */

enum {
	L_READER_UV_HOOKS = 1, /* keeps sys alive */
	L_READER_UV_CONTEXT, /* user value 1 of the views; see lrecord.h */
	L_READER_UV_OPTIONS, /* { note = f(text), news = f() } */
	L_READER_UV_VIEWS,
	L_READER_UV_NR = L_READER_UV_VIEWS
};

struct l_reader {
	struct pev_reader *reader; /* owned; NULL once closed */
	const struct pev_sys *sys;
	struct pev_sys nowhere; /* for tasks: finds no task that is not in the recording */
	struct pev_tasks tasks;
	struct pev_source_run *run;  /* the reader's */
	const struct pev_source_record *source; /* the current record, in the run */
	struct pev_record rec;
	uint64_t types; /* record types of the kernel that are shown: bit n of type n */
	struct l_view *views[L_READER_VIEWS];
	struct l_args **args; /* by event; NULL without payload */
	uint32_t nr_args;
	unsigned turn;
	uint64_t now, news;
	uint64_t *replay_now; /* counter of views that belong to a replay; borrowed */
	struct pev_kallsyms *symbols; /* owned; read when the first address is printed */
	bool on_this_machine;      /* /proc/kallsyms may have them */
	uint32_t nr_reports;       /* number of calls of news() */
	uint64_t report_after; /* no call before a record at this offset */
	lua_State *L; /* of the current call */
	int at; /* stack index of the userdata in L */
	struct pev_err end; /* why reading ended */
};

/* What l_reader_next() found. */
enum l_reader_turn {
	L_READER_END,
	L_READER_TOOL,  /* a tool's record: self->source */
	L_READER_RECORD /* a record of the kernel, located: self->rec; the tasks are up to date */
};

/*
 * Reads the next record of self->types, or of a tool, for a method that has the userdata at 1.
 * Raises if memory runs out.
 */
enum l_reader_turn l_reader_next(lua_State *L, struct l_reader *self);
/* Points the next view at the current record. Returns its index in L_READER_UV_VIEWS, from 0. */
int l_reader_point_view(struct l_reader *self);
/* Returns the open reader at 1; raises if it is closed. */
struct l_reader *l_reader_check_open(lua_State *L);
/* Returns the payload's tracepoint if the current record is a sample with a readable payload. */
struct l_args *l_reader_payload(struct l_reader *self, struct pev_value *raw);
