/*
 * lfield.h - field names of records, looked up once and read for each record.
 *
 * Used by aggregators, and by sample callbacks that take fields as arguments instead
 * of a view.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "record/number_field.h"
#include "lua/record/largs.h"
#include "lua/record/lrecord.h"

#define L_FIELDS_MAX 32 /* arguments that a callback may have */

struct l_field {
	int code;                         /* enum l_code; 0: no such field */
	const char *payload;              /* the NAME of args.NAME, borrowed; else NULL */
	bool is_text;                     /* args.NAME:text; payload has the suffix, too */
	const struct pev_tp_field *field; /* the payload field; NULL: the payload lacks it */
	struct pev_number_field place;    /* of a number: its offset in samples of the plan */
};

/* Looks up a field. Borrows name. args.NAME has the code of args. */
struct l_field l_field_find(const char *name);
/* Pushes the NAME of args.NAME; nil if the field is not of the payload. */
void l_field_push_payload_name(lua_State *L, const struct l_field *field);
/* Looks up a payload field in the tracepoint. */
void l_field_find_in_payload(struct l_field *field, const struct pev_tracepoint *tp);
/* Finds the offset of a number in samples of the plan. args is NULL without a payload. */
void l_field_find_offset(struct l_field *field, const struct pev_plan *plan,
			 const struct l_args *args);
/* Returns the field name nearest to word for which is_wanted(code) is true, or NULL. */
const char *l_field_nearest(const char *word, bool (*is_wanted)(int code));

/* The arguments of a sample callback, in order. */
struct l_fields {
	const struct pev_tracepoint *tp;  /* the tracepoint of the last lookup */
	const struct pev_plan *plan;      /* the plan of the last lookup */
	unsigned nr;
	const struct pev_plan *placed;    /* the plan, if all are numbers at known offsets */
	unsigned least, raw;              /* then: least size of the payload, offset of its size */
	bool asked_row, has_row;          /* the recording was asked to read them ahead; it does */
	struct l_field list[];
};

/* Pushes a userdata with the fields of the list at idx, whose names are valid. */
struct l_fields *l_fields_push(lua_State *L, int idx);
/* Looks up the fields again, for the record's plan and payload. */
void l_fields_look_up(struct l_fields *fields, const struct pev_record *rec,
		      const struct l_args *args);
/* Call before each record: looks up the fields if the plan or the tracepoint has changed. */
static inline void l_fields_update(struct l_fields *fields, const struct pev_record *rec,
				   const struct l_args *args)
{
	if (rec->plan != fields->plan || (args && args->tp != fields->tp))
		l_fields_look_up(fields, rec, args);
}
/* Sets the row of a sample of the plan placed. False if it has too many numbers. */
bool l_fields_get_row(const struct l_fields *fields, struct pev_number_row *row);
/* Pushes the values of a sample of the plan placed, from its bytes alone. */
void l_fields_push_numbers(lua_State *L, const struct l_fields *fields,
			   const struct pev_record *rec);
/*
 * Pushes all values; nil for a field that the record lacks. Its view is at index at. The stack
 * must have room. Raises if memory runs out.
 */
void l_fields_push_values(lua_State *L, int at, const struct l_fields *fields,
			  const struct l_view *view, const struct l_args *args);
/*
 * Pushes all values for a loop and returns how many. The first value is false instead of nil,
 * which would end the loop. Raises.
 */
int l_fields_push_for_loop(lua_State *L, int at, struct l_fields *fields, const struct l_view *view,
			   const struct l_args *args);
/* The same for a sample of the plan placed. */
int l_fields_push_numbers_for_loop(lua_State *L, const struct l_fields *fields,
				   const struct pev_record *rec);
