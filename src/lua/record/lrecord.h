/*
 * lrecord.h - a record's view in Lua: a reused userdata that reads the record in place.
 *
 * A view is valid while view->gen equals *view->now. The session increments *now after
 * each callback; from then on every access raises. Views are used in turn, so that the next
 * callback detects a view kept from an earlier one.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "task/task.h"

struct l_view_place;

struct l_view {
	const char *kind;          /* identifies this userdata type */
	const struct l_view_place *places; /* hash table of names; owned by the registry */
	const struct pev_record *rec;
	const uint64_t *now;       /* the owner's count of callbacks */
	uint64_t gen;
	/* Returns a task's name; may be NULL. */
	const char *(*comm)(void *ctx, int tid);
	void *ctx;
	struct pev_tasks *tasks;   /* resolves its addresses; may be NULL */
	unsigned process;          /* pev_sys_process() of the ring's owner; 0: not in a ring */
	bool has_args;             /* the record has a readable payload */
	bool has_aux;              /* the record refers to bytes of an AUX area */
	bool synthesised;          /* a recorder wrote it for something that existed before */
	uint32_t slot;             /* user value 1: [2n + 1] event, [2n + 2] payload or AUX bytes */
};

/*
 * The code of a name: a field of the layout tables (enum pev_field), a name of every record,
 * or L_CODE_FLAG + its index in pev_miscs.
 */
enum l_code {
	L_CODE_TYPE = PEV_F_NR,
	L_CODE_NUMBER,
	L_CODE_SIZE,
	L_CODE_MISC,
	L_CODE_CPUMODE,
	L_CODE_BYTES,
	L_CODE_SAMPLE_ID,
	L_CODE_EVENT,
	L_CODE_ARGS,
	L_CODE_COPY,
	L_CODE_PMU_FORMAT,
	L_CODE_SYNTHESISED,
	L_CODE_STACK,
	L_CODE_SYMBOL,
	L_CODE_TASK,
	L_CODE_WALLTIME,
	L_CODE_END,
	L_CODE_FLAG = 128,
	L_CODE_NR = 192
};

/* Returns the Lua name of a code, 1 to L_CODE_NR - 1, or NULL. */
const char *l_view_field_name(int code);
/* Returns the code of a name, or 0. Compares all names: call once per name, not per record. */
int l_view_field_code(const char *name);

/* Returns the field that users of perf, bpftrace and bcc mean by this name, or NULL. */
const char *l_view_field_of_other_tools(const char *name);

/*
 * Pushes a new view, closed. The table at idx becomes user value 1. Its field
 * registers, if set, names registers by mask bit; its field stacks is the
 * perfev.stack_table of the session or recording (lstack_table.h). Its field
 * wall_offsets, if set, is a table: clockid -> ns from this clock to the time of day.
 */
struct l_view *l_view_push(lua_State *L, int idx, const uint64_t *now);

/* Returns the view at that argument. Raises unless it is a valid view. */
const struct l_view *l_view_check(lua_State *L, int arg);

/*
 * Pushes the value of that code, or nil. The view is at index at. Raises if memory runs
 * out; numbers, flags, the event and the payload view need none.
 */
void l_view_push_value(lua_State *L, int at, const struct l_view *view, int code);
