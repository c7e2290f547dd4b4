/*
 * largs.h - a tracepoint's payload as a sample callback sees it.
 */
#ifndef PEV_LARGS_H
#define PEV_LARGS_H

#include <lua.h>
#include <stdint.h>

#include "record/record.h"
#include "tracepoint/tracepoint.h"

/*
 * The view, one per event and used again for each of its samples. It is open
 * while gen == *now: the session points raw at a payload, sets gen, and counts
 * *now up when the callback has returned. Any access to a closed one raises.
 */
struct l_args_place {
	const void *name;      /* of a field: its string's address by lua_topointer(); or NULL */
	const struct pev_tp_field *field;
};

struct l_args {
	const char *kind;      /* tells it from any other userdata */
	const struct l_args_place *places; /* open addressing; mask + 1 of them, behind this */
	uintptr_t mask;
	const struct pev_tracepoint *tp;
	enum pev_field from;   /* where it lies in a sample: PEV_F_RAW, or a field of registers */
	const unsigned char *raw;
	uint32_t len;          /* bytes at raw */
	const uint64_t *now;   /* borrowed, must outlive the view */
	uint64_t gen;
	unsigned process;      /* as in struct l_view */
};

/* Make the metatable "perfev.args"; adds payload() to the table on top of the stack. */
void l_args_register(lua_State *L);

/*
 * Push a new, closed view for tp; its user value 1 keeps the fields' names.
 * tp must outlive it. User value 2 is free for an owner to be kept.
 */
struct l_args *l_args_push(lua_State *L, const struct pev_tracepoint *tp, const uint64_t *now);

/*
 * Push a plain table of all but the common fields. Does not ask whether the
 * view is open: that is the record's to know. A field outside the payload is absent.
 */
void l_args_table(lua_State *L, const struct l_args *args);

/* Push a field of its tp's, nil when it leads outside the payload. Raises for want of memory. */
void l_args_get(lua_State *L, const struct l_args *args, const struct pev_tp_field *field);

#endif
