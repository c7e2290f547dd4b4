/*
 * lrecord_value.h - reads a record's value by name, without Lua, for aggregators and conditions.
 *
 * Values are numbers, strings, flags and stacks. A field that is a table is not a value.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "aggregate/aggregator.h"
#include "symbol/stack.h"
#include "lua/record/lfield.h"

/*
 * Codes that only keys use, in addition to enum l_code. A line is kept as a symbol is, a caller as
 * a stack; both are named when they are read. A cgroup is its path, not its id.
 */
enum {
	L_VALUE_CGROUP = L_CODE_NR,
	L_VALUE_USTACK,
	L_VALUE_KSTACK,
	L_VALUE_LINE,
	L_VALUE_CALLER
};

/* As l_field_find(), with the codes above. */
struct l_field l_value_find(const char *name);
bool l_value_is_stack(const struct l_field *source);
/* True if the record has the value itself: not a stack, nor the name of a task. */
bool l_value_is_of_record(const struct l_field *source);
/* True if a key or a value can use the field. For args.NAME always: its format decides later. */
bool l_value_is_valid(const struct l_field *source);
/* True if the field is an unsigned number of 64 bits. */
bool l_value_is_unsigned(const struct l_field *source);
/* Pushes nil and the reason why the name is not valid. Returns 2. */
int l_value_push_refusal(lua_State *L, const char *name);

/* The current record and its context. */
struct l_current {
	const struct l_view *view;
	const struct l_args *args;  /* NULL: no payload */
	struct pev_stacks *stacks;  /* NULL: no name is a stack */
	const char *event;
	lua_State *L;               /* for unwinding, which finds files in Lua */
	int context;                /* stack index of the views' table (l_view_push()) */
};

/*
 * Returns the record's value as a part of a key; strings are borrowed. PEV_KEY_END: the record
 * lacks it. PEV_KEY_POINTER to NULL: out of memory.
 */
struct pev_key_part l_value_read(const struct l_field *source, const struct l_current *current);

/* Fast path of l_value_read() for numbers. False: not a number, or the record lacks it. */
static inline __attribute__((always_inline)) bool
l_value_read_number(const struct l_field *source, const struct l_current *current, int64_t *value)
{
	const struct pev_record *rec = current->view->rec;
	const struct l_args *args = current->args;

	if (source->place.at)
		return pev_number_field_read(&source->place, rec->bytes, value);
	if (source->payload)
		return args && source->field && !source->is_text &&
		       pev_tp_integer(args->tp, source->field, args->raw, args->len, value);
	return source->code < PEV_F_NR &&
	       pev_record_number(rec, (enum pev_field)source->code, (uint64_t *)value);
}

/*
 * value_kind(name) -> "number", "string", "boolean", "stack", or "payload" and
 * NAME for args.NAME; "string" and NAME for args.NAME:text | nil, reason
 */
int l_value_kind(lua_State *L);
