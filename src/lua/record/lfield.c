/*
 * lfield.c - field names of records; see lfield.h.
 */
#include "lua/record/lfield.h"
#include "lua/base/lregister.h"

#include <lauxlib.h>
#include <string.h>

#define ARGS_PREFIX "args."
#define TEXT_SUFFIX ":text"

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), end = strlen(suffix);

	return len > end && strcmp(name + len - end, suffix) == 0;
}

struct l_field l_field_find(const char *name)
{
	const size_t prefix = strlen(ARGS_PREFIX);

	if (strncmp(name, ARGS_PREFIX, prefix) == 0)
		return (struct l_field){ .code = L_CODE_ARGS, .payload = name + prefix,
					 .is_text = ends_with(name + prefix, TEXT_SUFFIX) };
	return (struct l_field){ .code = l_view_field_code(name) };
}

static struct pev_span payload_name(const struct l_field *field)
{
	size_t suffix = field->is_text ? strlen(TEXT_SUFFIX) : 0;

	return (struct pev_span){ field->payload,
				  field->payload + strlen(field->payload) - suffix };
}

void l_field_push_payload_name(lua_State *L, const struct l_field *field)
{
	if (field->payload)
		lua_pushlstring(L, field->payload, pev_span_len(payload_name(field)));
	else
		lua_pushnil(L);
}

void l_field_find_in_payload(struct l_field *field, const struct pev_tracepoint *tp)
{
	if (field->payload)
		field->field = pev_tp_find(tp, payload_name(field));
}

void l_field_find_offset(struct l_field *field, const struct pev_plan *plan,
			 const struct l_args *args)
{
	field->place = (struct pev_number_field){ 0 };
	if (!field->payload && field->code < PEV_F_NR)
		field->place = pev_number_field_of(plan, (enum pev_field)field->code);
	else if (field->payload && !field->is_text && field->field && args &&
		 args->from == PEV_F_RAW)
		field->place = pev_number_field_of_payload(plan, args->tp, field->field);
}

const char *l_field_nearest(const char *word, bool (*is_wanted)(int code))
{
	const char *names[L_CODE_NR];
	size_t nr = 0;

	for (int code = 1; code < L_CODE_NR; code++)
		if (l_view_field_name(code) && is_wanted(code))
			names[nr++] = l_view_field_name(code);
	return pev_nearest(word, names, nr);
}

/* ---- fields of samples: once per event ---- */

static const struct pev_row *sample_row(int code)
{
	const struct pev_row *row = pev_layouts[PERF_RECORD_SAMPLE].rows;

	while (row->field && row->field != code)
		row++;
	return row->field ? row : NULL;
}

/* Returns the sample_type bits that the field requires; for weight, those of its old form. */
static uint64_t sample_bits(int code)
{
	const struct pev_row *row = sample_row(code);

	switch (code) {
	case PEV_F_COMM:
	case L_CODE_TASK:
		return PERF_SAMPLE_TID;
	case L_CODE_WALLTIME:
		return PERF_SAMPLE_TIME;
	case PEV_F_WEIGHT:
		return PERF_SAMPLE_WEIGHT;
	case L_CODE_STACK:
		return PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN;
	case L_CODE_SYMBOL:
		return PERF_SAMPLE_TID | PERF_SAMPLE_IP;
	default:
		return row ? row->bit : 0;
	}
}

static bool is_of_samples(int code)
{
	if (code >= L_CODE_FLAG)
		return pev_miscs[code - L_CODE_FLAG].types >> PERF_RECORD_SAMPLE & 1;
	if (code < PEV_F_NR)
		return code == PEV_F_COMM || sample_row(code);
	return code != L_CODE_COPY && code != L_CODE_PMU_FORMAT;
}

/* sample_field(name) -> the required sample_type, NAME of args.NAME or nil | nil, reason */
static int l_sample_field(lua_State *L)
{
	const char *name = luaL_checkstring(L, 1);
	struct l_field field = l_field_find(name);
	const char *near;

	if (field.code && is_of_samples(field.code)) {
		lua_pushinteger(L, (lua_Integer)sample_bits(field.code));
		if (field.code == L_CODE_ARGS && !field.payload)
			lua_pushliteral(L, "");
		else
			l_field_push_payload_name(L, &field);
		return 2;
	}
	lua_pushnil(L);
	near = l_field_nearest(name, is_of_samples);
	if (near)
		lua_pushfstring(L, "no sample has a field '%s' (did you mean '%s'?)", name, near);
	else
		lua_pushfstring(L, "no sample has a field '%s' (a payload's are args.NAME)", name);
	return 2;
}

void l_field_register(lua_State *L)
{
	lua_pushcfunction(L, l_sample_field);
	lua_setfield(L, -2, "sample_field");
}

struct l_fields *l_fields_push(lua_State *L, int idx)
{
	unsigned nr = (unsigned)lua_rawlen(L, idx);
	struct l_fields *fields;

	luaL_argcheck(L, nr <= L_FIELDS_MAX, idx, "too many fields");
	idx = lua_absindex(L, idx);
	fields = lua_newuserdatauv(L, sizeof(*fields) + nr * sizeof(fields->list[0]), 1);
	*fields = (struct l_fields){ .nr = nr };
	lua_createtable(L, (int)nr, 0); /* keeps the names */
	for (unsigned i = 0; i < nr; i++) {
		lua_rawgeti(L, idx, (lua_Integer)i + 1);
		fields->list[i] = l_field_find(luaL_checkstring(L, -1));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setiuservalue(L, -2, 1);
	return fields;
}

/* ---- once per record ---- */

void l_fields_look_up(struct l_fields *fields, const struct pev_record *rec,
		      const struct l_args *args)
{
	fields->plan = fields->placed = rec->plan;
	fields->least = 0;
	fields->asked_row = fields->has_row = false;
	fields->tp = args ? args->tp : NULL;
	for (unsigned i = 0; i < fields->nr; i++) {
		struct l_field *field = &fields->list[i];

		if (args)
			l_field_find_in_payload(field, args->tp);
		l_field_find_offset(field, rec->plan, args);
		if (!field->place.at)
			fields->placed = NULL;
		if (field->place.least > fields->least) {
			fields->least = field->place.least;
			fields->raw = field->place.raw;
		}
	}
}

bool l_fields_get_row(const struct l_fields *fields, struct pev_number_row *row)
{
	*row = (struct pev_number_row){ .plan = fields->placed, .least = fields->least,
					.raw = (uint16_t)fields->raw, .nr = (uint16_t)fields->nr };
	for (unsigned i = 0; i < fields->nr && i < PEV_ROW_MAX; i++)
		row->places[i] = fields->list[i].place;
	return fields->nr <= PEV_ROW_MAX;
}

static void push_number(lua_State *L, const struct pev_number_field *place,
			const struct pev_record *rec)
{
	int64_t number;

	if (pev_number_field_read(place, rec->bytes, &number))
		lua_pushinteger(L, number);
	else
		lua_pushnil(L);
}

void l_fields_push_numbers(lua_State *L, const struct l_fields *fields,
			   const struct pev_record *rec)
{
	const struct l_field *field = fields->list, *end = field + fields->nr;
	const unsigned char *sample = rec->bytes;
	bool swap = rec->plan->swap;

	if (fields->least && pev_load32(sample + fields->raw, swap) < fields->least) {
		for (; field < end; field++)
			push_number(L, &field->place, rec);
		return;
	}
	for (; field < end; field++)
		lua_pushinteger(L, pev_number_field_bits(&field->place, sample, swap));
}

static void push_field_value(lua_State *L, int at, const struct l_field *field,
			     const struct l_view *view, const struct l_args *args)
{
	uint64_t number;
	int64_t of_payload;

	if (field->place.at)
		push_number(L, &field->place, view->rec);
	else if (field->is_text && args && field->field)
		l_args_push_text(L, args, field->field);
	else if (field->payload && args && field->field &&
		 pev_tp_integer(args->tp, field->field, args->raw, args->len, &of_payload))
		lua_pushinteger(L, of_payload);
	else if (field->payload && args && field->field)
		l_args_push_value(L, args, field->field);
	else if (field->payload)
		lua_pushnil(L);
	else if (field->code < PEV_F_NR &&
		 pev_record_number(view->rec, (enum pev_field)field->code, &number))
		lua_pushinteger(L, (lua_Integer)number);
	else
		l_view_push_value(L, at, view, field->code);
}

void l_fields_push_values(lua_State *L, int at, const struct l_fields *fields,
			  const struct l_view *view, const struct l_args *args)
{
	for (unsigned i = 0; i < fields->nr; i++)
		push_field_value(L, at, &fields->list[i], view, args);
}

/* Reserves the stack for nr values. Returns the index of the first. */
static int begin_loop_values(lua_State *L, int nr)
{
	if (nr > LUA_MINSTACK / 2)
		luaL_checkstack(L, nr + LUA_MINSTACK, "fields");
	return lua_gettop(L) + 1;
}

static int end_loop_values(lua_State *L, int nr, int first)
{
	if (lua_isnil(L, first)) {
		lua_pushboolean(L, false);
		lua_replace(L, first);
	}
	return nr;
}

int l_fields_push_numbers_for_loop(lua_State *L, const struct l_fields *fields,
				   const struct pev_record *rec)
{
	int nr = (int)fields->nr, first = begin_loop_values(L, nr);

	l_fields_push_numbers(L, fields, rec);
	return end_loop_values(L, nr, first);
}

int l_fields_push_for_loop(lua_State *L, int at, struct l_fields *fields, const struct l_view *view,
			   const struct l_args *args)
{
	int nr = (int)fields->nr, first;

	at = lua_absindex(L, at);
	first = begin_loop_values(L, nr);
	l_fields_update(fields, view->rec, args);
	l_fields_push_values(L, at, fields, view, args);
	return end_loop_values(L, nr, first);
}
