/*
 * lview.h - a record as Lua sees it: one reused view, read where it lies.
 *
 * A view is good while view->gen equals *view->now, which the session counts up
 * after each callback; then any access raises. Views take turns, so that one
 * kept from an earlier callback is found out in the next.
 */
#ifndef PEV_LVIEW_H
#define PEV_LVIEW_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "../record.h"
#include "../task.h"

struct l_view {
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

#endif
