/*
 * largs.h - the userdata perfev.args: a tracepoint's payload, r.args in a sample callback.
 */
#pragma once

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
	const char *kind;      /* identifies this userdata type */
	const struct l_args_place *places; /* hash table of mask + 1 entries, behind this struct */
	uintptr_t mask;
	const struct pev_tracepoint *tp;
	enum pev_field from;   /* the sample's field with the payload: PEV_F_RAW or registers */
	const unsigned char *raw;
	uint32_t len;          /* bytes at raw */
	const uint64_t *now;   /* borrowed, must outlive the view */
	uint64_t gen;
	unsigned process;      /* as in struct l_view */
	char *text;            /* room for L_ARGS_TEXT_MAX bytes of a field's text */
};

enum { L_ARGS_TEXT_MAX = 1024 };

/*
 * Pushes a new, closed view for tp, which must outlive it. User value 1 keeps the fields'
 * names; the caller can set user value 2 to keep the owner of tp.
 */
struct l_args *l_args_push(lua_State *L, const struct pev_tracepoint *tp, const uint64_t *now);

/*
 * Pushes a plain table of all but the common fields. The caller has checked that the
 * view is open. A field outside the payload is absent.
 */
void l_args_push_table(lua_State *L, const struct l_args *args);

/* Pushes the field's value; nil if it is outside the payload. Raises if memory runs out. */
void l_args_push_value(lua_State *L, const struct l_args *args, const struct pev_tp_field *field);
/* The same for the field's text. */
void l_args_push_text(lua_State *L, const struct l_args *args, const struct pev_tp_field *field);
