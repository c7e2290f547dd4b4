/*
 * lrecord_value.h - what a record has by a name, as a value that can be kept, counted or compared.
 *
 * Of a record's fields those that are a number, a string or a flag, and its stacks. The names
 * of keys, values and conditions are of these; read without Lua.
 */
#ifndef PEV_LRECORD_VALUE_H
#define PEV_LRECORD_VALUE_H

#include <lua.h>
#include <stdbool.h>

#include "aggregate/aggregator.h"
#include "symbol/stack.h"
#include "lua/record/lfield.h"

/* What only a key can be, beside lview.h's codes. */
enum { L_VALUE_USTACK = L_CODE_NR, L_VALUE_KSTACK };

/* As l_field_find(), and these. */
struct l_field l_value_find(const char *name);
bool l_value_is_stack(const struct l_field *source);
/* Can a key hold it, or a value be of it? Of a payload: that is for its format to say. */
bool l_value_is_valid(const struct l_field *source);
/* Its numbers are 64 bits without a sign. */
bool l_value_is_unsigned(const struct l_field *source);
/* Push nil and why that name is none. 2. */
int l_value_push_refusal(lua_State *L, const char *name);

/* The record at hand, and what is not in its bytes. */
struct l_current {
	const struct l_view *view;
	const struct l_args *args;  /* NULL: no payload */
	struct pev_stacks *stacks;  /* NULL: nobody asks for a stack */
	const char *event;
	lua_State *L;               /* where what is to be unwound asks for files, of the */
	int context;                /* table of the views (lview.h) at that index */
};

/*
 * What the record has, as a part of a key, of which strings are borrowed. PEV_KEY_END: nothing;
 * PEV_KEY_POINTER to NULL: no memory for it.
 */
struct pev_key_part l_value_read(const struct l_field *source, const struct l_current *current);

/* A number, which is what most are, without what others need; false: it is none, or not there. */
static inline __attribute__((always_inline)) bool
l_value_read_number(const struct l_field *source, const struct l_current *current, int64_t *value)
{
	const struct pev_record *rec = current->view->rec;
	const struct l_args *args = current->args;

	if (source->place.at)
		return pev_number_field_read(&source->place, rec->bytes, value);
	if (source->payload)
		return args && source->field &&
		       pev_tp_integer(args->tp, source->field, args->raw, args->len, value);
	return source->code < PEV_F_NR &&
	       pev_record_number(rec, (enum pev_field)source->code, (uint64_t *)value);
}

/*
 * source_kind(name) -> "number", "string", "boolean", "stack", or "payload" of args.NAME and
 * the NAME | nil, why not
 */
int l_value_kind(lua_State *L);

#endif
