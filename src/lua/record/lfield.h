/*
 * lfield.h - a name that a script has for something that records have: found once, read often.
 *
 * Aggregators have such names, and a sample callback that gets its fields as arguments:
 * what stands for a record there is not a view, but the values themselves.
 */
#ifndef PEV_LFIELD_H
#define PEV_LFIELD_H

#include <lua.h>
#include <stdbool.h>

#include "record/number_field.h"
#include "lua/record/largs.h"
#include "lua/record/lrecord.h"

#define L_FIELDS_MAX 32 /* arguments that a callback may have */

struct l_field {
	int code;                         /* of lview.h; 0: no record has it */
	const char *payload;              /* of args.NAME the NAME, borrowed; else NULL */
	const struct pev_tp_field *field; /* of that name; NULL: the payload has none such */
	struct pev_number_field place; /* of the samples at hand, if it is one of a number */
};

/* The name borrowed; args.NAME has the code of args. */
struct l_field l_field_find(const char *name);
/* Whose payload comes from here on. */
void l_field_of(struct l_field *field, const struct pev_tracepoint *tp);
/* Of which plan samples come from here on; args is NULL where they have no payload. */
void l_field_in(struct l_field *field, const struct pev_plan *plan, const struct l_args *args);
/* The name nearest to word, of those whose code is wanted; NULL: none is near. */
const char *l_field_nearest(const char *word, bool (*is_wanted)(int code));

/* What a sample callback gets, in order. */
struct l_fields {
	const struct pev_tracepoint *tp;  /* whose fields were looked up */
	const struct pev_plan *plan;      /* where they were found */
	unsigned nr;
	bool plain;                       /* nothing that is pushed can raise */
	bool placed;                      /* all are numbers that have a place */
	struct l_field list[];
};

/* Push those of the list of names at idx, which were checked; they live as long as the block. */
struct l_fields *l_fields_push(lua_State *L, int idx);
/* Their payload's is another from here on, or their plan, or both are the first. */
void l_fields_look_up(struct l_fields *fields, const struct pev_record *rec,
		      const struct l_args *args);
/* Before each record; args is NULL where it has no payload. */
static inline void l_fields_of(struct l_fields *fields, const struct pev_record *rec,
			       const struct l_args *args)
{
	if (rec->plan != fields->plan || (args && args->tp != fields->tp))
		l_fields_look_up(fields, rec, args);
}
/* The same of those that are placed, of a sample that was looked up: it is all they are read of. */
void l_fields_numbers(lua_State *L, const struct l_fields *fields, const struct pev_record *rec);
/*
 * Push all of them, nil for what the record has not; its view is at the index at. The stack
 * must have room. May raise for want of memory, unless they are plain.
 */
void l_fields_get(lua_State *L, int at, const struct l_fields *fields, const struct l_view *view,
		  const struct l_args *args);
/*
 * The same for a loop, how many: the first is false in the place of nil, which would end it.
 * Raises.
 */
int l_fields_pull(lua_State *L, int at, struct l_fields *fields, const struct l_view *view,
		  const struct l_args *args);

/* Add sample_field() to the table on top of the stack. */
void l_field_register(lua_State *L);

#endif
