/*
 * lrecord.h - a record as Lua sees it: one reused view, read where it lies.
 *
 * A view is good while view->gen equals *view->now, which the session counts up
 * after each callback; then any access raises. Views take turns, so that one
 * kept from an earlier callback is found out in the next.
 */
#ifndef PEV_LRECORD_H
#define PEV_LRECORD_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "task/task.h"

struct l_view_place;

struct l_view {
	const char *kind;          /* tells it from any other userdata */
	const struct l_view_place *places; /* of all names; the registry's */
	const struct pev_record *rec;
	const uint64_t *now;       /* the owner's count of callbacks */
	uint64_t gen;
	/* What is no field of the record; may be NULL. */
	const char *(*comm)(void *ctx, int tid);
	void *ctx;
	struct pev_tasks *tasks;   /* what its addresses meant; may be NULL */
	unsigned process;          /* whose ring it lies in: pev_sys_process(); 0: in memory */
	bool has_args;             /* this record has a payload that can be read */
	bool has_aux;              /* it tells of bytes of an AUX area */
	bool synthesised;          /* a recorder wrote it, of what was there before */
	uint32_t slot;             /* user value 1: [2n + 1] event, [2n + 2] payload or AUX bytes */
};

/*
 * What a record is asked for, by code: a field of the layout tables (enum pev_field), what
 * every record has, or L_CODE_FLAG + its index in pev_miscs.
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
	L_CODE_END,
	L_CODE_FLAG = 128,
	L_CODE_NR = 192
};

/* The name that Lua has for a code from 1 to below L_CODE_NR; NULL where there is none. */
const char *l_view_name(int code);
/* The code of a name, or 0. It looks at all of them: once per name, not per record. */
int l_view_code(const char *name);

/* By header.misc & PERF_RECORD_MISC_CPUMODE_MASK. */
extern const char *const l_cpumodes[];

/*
 * Make the metatable perfev.record, and add record_tostring and record_registers
 * to the table on top of the stack.
 */
void l_view_register(lua_State *L);

/*
 * Push a new view, closed. The table at idx becomes user value 1; its field
 * registers, if it has one, names registers by mask bit, and its field stacks is
 * where stacks are interned (lstacks.h).
 */
struct l_view *l_view_push(lua_State *L, int idx, const uint64_t *now);

/* The view at that argument, open; raises what any use of it would. */
const struct l_view *l_view_check(lua_State *L, int arg);

/*
 * Push what the shown record has by that code, nil for nothing; the view is at the index at.
 * May raise for want of memory, but not for numbers, flags, the event and the payload view.
 */
void l_view_get(lua_State *L, int at, const struct l_view *view, int code);

#endif
