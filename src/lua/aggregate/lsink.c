/*
 * lsink.c - feeds records to aggregators; see lsink.h.
 */
#include "lua/aggregate/lsink.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/record/ltext_line.h"
#include "lua/record/lrecord_value.h"
#include "lua/aggregate/lspan.h"
#include "lua/symbol/lstack_table.h"
#include "lua/aggregate/lcondition.h"
#include "lua/base/llimit.h"
#include "lua/base/lregister.h"

#define COUNTED_MAX 64 /* numbers counted at once */

/* ---- once per event ---- */

/* Appends a payload field to the list at 2. False if name is invalid: pushes nil and the reason. */
static bool check_source(lua_State *L, const char *name)
{
	struct l_field source = l_value_find(name);

	if (!l_value_is_valid(&source)) {
		l_value_push_refusal(L, name);
		return false;
	}
	if (source.payload) {
		l_field_push_payload_name(L, &source);
		lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
	}
	return true;
}

/*
 * aggregator_fields(aggregator) -> names of the payload fields that it reads | nil, the reason
 * why it cannot be a callback | nil if the value is not an aggregator
 */
static int l_aggregator_fields(lua_State *L)
{
	const struct l_agg *agg = l_agg_test(L, 1);

	lua_settop(L, 1);
	if (!agg)
		return 0;
	if (!agg->value && agg->all.config.kind > PEV_AGG_TOP) {
		lua_pushnil(L);
		lua_pushliteral(L, "it needs a value = FIELD");
		return 2;
	}
	lua_newtable(L);
	if (agg->value && !check_source(L, agg->value))
		return 2;
	for (uint32_t i = 0; i < agg->nr_by; i++)
		if (!check_source(L, agg->by[i]))
			return 2;
	for (uint32_t i = 0; agg->where && i < agg->where->program.nr; i++)
		if (!check_source(L, agg->where->names[i]))
			return 2;
	return 1;
}

/* The aggregator keeps the stack table and the world of its addresses. */
static struct pev_stacks *keep_stacks(lua_State *L, int idx, int context)
{
	struct pev_stacks *stacks;

	lua_createtable(L, 0, 2);
	lua_getfield(L, context, "world");
	lua_setfield(L, -2, "world");
	lua_getfield(L, context, "stacks");
	stacks = l_stack_table_check(L, -1);
	lua_setfield(L, -2, "stacks");
	l_agg_keep(L, idx, stacks);
	return stacks;
}

static uint32_t count_tests(const struct l_condition *where)
{
	return where ? where->program.nr : 0;
}

static struct l_field *find_names(struct l_field *at, const char *const *names, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		*at++ = l_value_find(names[i]);
	return at;
}

static struct l_field *find_tests(struct l_field *at, const struct l_condition *where)
{
	return where ? find_names(at, where->names, where->program.nr) : at;
}

static bool is_aggregator_or_line(lua_State *L, int idx)
{
	return l_agg_test(L, idx) || l_text_line_test(L, idx);
}

bool l_sink_is(lua_State *L, int idx)
{
	lua_Integer nr = lua_istable(L, idx) ? (lua_Integer)lua_rawlen(L, idx) : 0;
	bool is = nr > 0;

	if (!nr)
		return is_aggregator_or_line(L, idx);
	for (lua_Integer i = 1; i <= nr && is; i++) {
		lua_rawgeti(L, idx, i);
		is = is_aggregator_or_line(L, -1);
		lua_pop(L, 1);
	}
	return is;
}

/* User values of a sink. */
enum { UV_NEXT = 1, UV_LINE, UV_NR = UV_LINE };

static struct l_sink *push_of_line(lua_State *L, int idx, const char *event)
{
	struct l_sink *sink = lua_newuserdatauv(L, sizeof(*sink), UV_NR);

	*sink = (struct l_sink){ .line = l_text_line_push(L, idx, event) };
	lua_setiuservalue(L, -2, UV_LINE);
	return sink;
}

/* Puts the function of the value of the span that the aggregator at idx ends into the context. */
static void keep_function(lua_State *L, int idx, int context, const struct l_span *span)
{
	lua_getiuservalue(L, idx, L_AGG_UV_SPAN);
	lua_getiuservalue(L, -1, L_SPAN_UV_FUNCTION);
	lua_rawsetp(L, context, span);
	lua_pop(L, 1);
}

static struct l_sink *push_of_aggregator(lua_State *L, int idx, int context, const char *event)
{
	struct l_agg *agg = l_agg_test(L, idx);
	const struct l_span *ended = agg->end == L_SPAN_STOP ? agg->span : NULL;
	const struct l_condition *into = ended ? ended->into->where : NULL;
	uint32_t nr = 1 + agg->nr_by + count_tests(agg->where) + count_tests(into);
	size_t bytes = sizeof(struct l_sink) + nr * sizeof(struct l_field);
	struct l_sink *sink;

	lua_getfield(L, context, "stacks");
	l_agg_budget(L, idx, l_stack_table_budget(L, -1));
	sink = lua_newuserdatauv(L, bytes + strlen(event) + 1, UV_NR);
	*sink = (struct l_sink){ .agg = agg, .nr = nr };
	sink->event = memcpy((char *)sink + bytes, event, strlen(event) + 1);
	sink->value = sink->fields;
	sink->by = sink->fields + 1;
	*sink->value = (struct l_field){ 0 };
	find_names(sink->value, &agg->value, agg->value ? 1 : 0);
	sink->when = find_names(sink->by, agg->by, agg->nr_by);
	sink->into_when = find_tests(sink->when, agg->where);
	find_tests(sink->into_when, into);
	sink->counts_one = agg->nr_by <= 1 && !agg->timed && !agg->value && !agg->span &&
			   !agg->where && !agg->keeps_times;
	if (ended && ended->calls)
		keep_function(L, idx, context, ended);
	for (uint32_t i = 0; i < agg->nr_by && !sink->stacks; i++)
		if (l_value_is_stack(&sink->by[i]))
			sink->stacks = keep_stacks(L, idx, context);
	return sink;
}

static struct l_sink *push_one(lua_State *L, int idx, int context, const char *event)
{
	if (l_text_line_test(L, idx))
		return push_of_line(L, idx, event);
	return push_of_aggregator(L, idx, context, event);
}

/* Each sink keeps the next one. */
static struct l_sink *push_list(lua_State *L, int idx, int context, const char *event)
{
	struct l_sink *next = NULL;

	lua_pushnil(L);
	for (lua_Integer i = (lua_Integer)lua_rawlen(L, idx); i > 0; i--) {
		struct l_sink *sink;

		lua_rawgeti(L, idx, i);
		sink = push_one(L, lua_gettop(L), context, event);
		sink->next = next;
		sink->counts_one = sink->counts_one && !next;
		next = sink;
		lua_insert(L, -3);
		lua_pop(L, 1);
		lua_setiuservalue(L, -2, UV_NEXT);
	}
	return next;
}

struct l_sink *l_sink_push(lua_State *L, int idx, int context, const char *event)
{
	return lua_istable(L, idx) ? push_list(L, idx, context, event)
				   : push_one(L, idx, context, event);
}

struct l_sink *l_sink_copy(const struct l_sink *sink, struct l_agg *agg)
{
	size_t bytes = sizeof(*sink) + sink->nr * sizeof(struct l_field);
	struct l_sink *copy = malloc(bytes);

	if (!copy)
		return NULL;
	memcpy(copy, sink, bytes);
	copy->next = NULL;
	copy->agg = agg;
	copy->value = copy->fields;
	copy->by = copy->fields + (sink->by - sink->fields);
	copy->when = copy->fields + (sink->when - sink->fields);
	copy->into_when = copy->fields + (sink->into_when - sink->fields);
	return copy;
}

/* ---- once per record ---- */

static void find_fields(struct l_sink *sink, const struct pev_record *rec,
			const struct l_args *args)
{
	sink->tp = args ? args->tp : sink->tp;
	sink->plan = rec->plan;
	for (uint32_t i = 0; i < sink->nr; i++) {
		if (args)
			l_field_find_in_payload(&sink->fields[i], args->tp);
		if (rec->type == PERF_RECORD_SAMPLE)
			l_field_find_offset(&sink->fields[i], rec->plan, args);
	}
	sink->counts = sink->counts_one && rec->type == PERF_RECORD_SAMPLE &&
		       (!sink->agg->nr_by || sink->by->place.at);
}

static int add_key_part(struct pev_key *key, const struct pev_key_part *part)
{
	if (part->type == PEV_KEY_POINTER && !part->pointer)
		return -ENOMEM;
	return pev_key_part(key, part);
}

/* Adds a column to the key; false, counted: the record lacks it, or memory ran out. */
static __attribute__((noinline)) bool take_any_column(const struct l_sink *sink,
						      const struct l_current *current, uint32_t i,
						      struct pev_key *key)
{
	struct pev_key_part column = l_value_read(&sink->by[i], current);
	struct l_agg *agg = sink->agg;
	int rc;

	/* A missing column cannot join a span's ends. */
	if (column.type == PEV_KEY_END && (!agg->lacking || (agg->span && i < agg->span->nr_by))) {
		agg->uncounted.absent[i + 1]++;
		return false;
	}
	rc = column.type == PEV_KEY_END ? pev_key_bool(key, false) : add_key_part(key, &column);
	agg->uncounted.no_memory += rc < 0;
	return rc == 0;
}

/* As put_column(), with a shortcut for a number. */
static inline bool take_column(const struct l_sink *sink, const struct l_current *current,
			       uint32_t i, struct pev_key *key)
{
	struct l_agg *agg = sink->agg;
	int64_t number;

	if (!l_value_read_number(&sink->by[i], current, &number))
		return take_any_column(sink, current, i, key);
	if (pev_key_integer(key, l_agg_time(agg, i, number)) == 0)
		return true;
	agg->uncounted.no_memory++;
	return false;
}

/* Makes a key of the record's columns first .. end - 1. */
static inline bool take_columns(const struct l_sink *sink, const struct l_current *current,
				uint32_t first, uint32_t end, struct pev_key *key)
{
	key->len = 0;
	for (uint32_t i = first; i < end; i++)
		if (!take_column(sink, current, i, key))
			return false;
	return true;
}

/* True if the record meets the aggregator's condition. Counts records that lack a field. */
static bool is_wanted(struct l_agg *agg, const struct l_field *sources,
		      const struct l_current *current)
{
	bool blind = false, wanted;

	if (!agg->where)
		return true;
	wanted = l_condition_holds(agg->where, sources, current, &blind);
	agg->uncounted.undecided += blind && !wanted;
	return wanted;
}

/* Adds a value for the key of the record's columns from first on. */
static void feed_cell(const struct l_sink *sink, const struct l_current *current, struct l_agg *to,
		      uint32_t first, int64_t value)
{
	struct l_agg *agg = sink->agg;
	int64_t number;
	int rc;

	if (agg->nr_by == first + 1 && l_value_read_number(&sink->by[first], current, &number))
		rc = l_agg_add_integer(to, l_agg_time(agg, first, number), value);
	else if (take_columns(sink, current, first, agg->nr_by, &to->key))
		rc = l_agg_add(to, value);
	else
		return;
	to->uncounted.no_memory += rc < 0;
}

/* Reads the columns behind the key of the span's end, which into uses. */
static bool take_kept(const struct l_sink *sink, const struct l_current *current,
		      struct pev_kept *kept)
{
	const struct l_agg *end = sink->agg;
	struct pev_key *key = &end->span->into->key;

	if (!take_columns(sink, current, end->span->nr_by, end->nr_by, key))
		return false;
	*kept = (struct pev_kept){ key->bytes, key->len };
	return true;
}

static void feed_start(const struct l_sink *sink, const struct l_current *current, uint64_t time)
{
	struct l_agg *end = sink->agg;
	struct pev_kept kept;

	if (take_kept(sink, current, &kept) &&
	    pev_spans_start(&end->span->spans, end->key.bytes, end->key.len, time, kept) < 0)
		end->uncounted.no_memory++;
}

static void feed_via(const struct l_sink *sink, const struct l_current *current)
{
	struct l_agg *end = sink->agg;
	struct pev_kept kept;

	if (take_kept(sink, current, &kept) &&
	    pev_spans_pass(&end->span->spans, end->key.bytes, end->key.len, kept) < 0)
		end->uncounted.no_memory++;
}

/* Reads the columns of a pair: those of into, then the fields of the value. */
struct pair_cursor {
	const struct pev_spanned *ended;
	size_t at[L_SPAN_NR]; /* in the bytes that start and via keep */
	uint32_t own;         /* the next column of the stop */
};

static struct pev_key_part next_kept(struct pair_cursor *pair, int from)
{
	const struct pev_spanned *ended = pair->ended;
	const struct pev_kept *kept = from == L_SPAN_START ? &ended->start : &ended->via;

	return pev_key_next(kept->bytes, kept->len, &pair->at[from]);
}

/* Makes the key of into: each column comes from its end of the span. */
static bool take_joined(const struct l_sink *sink, const struct l_current *current,
			struct pair_cursor *pair)
{
	const struct l_span *span = sink->agg->span;
	struct pev_key *key = &span->into->key;

	key->len = 0;
	for (uint32_t i = 0; i < span->into->nr_by; i++) {
		enum l_span_end from = span->from[i];
		struct pev_key_part part;

		if (from == L_SPAN_STOP) {
			if (!take_column(sink, current, pair->own++, key))
				return false;
			continue;
		}
		part = next_kept(pair, (int)from);
		if (add_key_part(key, &part) < 0) {
			span->into->uncounted.no_memory++;
			return false;
		}
	}
	return true;
}

static struct pev_key_part next_field(const struct l_sink *sink, const struct l_current *current,
				      struct pair_cursor *pair, int from)
{
	if (from == L_SPAN_TOOK)
		return (struct pev_key_part){ .type = PEV_KEY_INTEGER,
					      .integer = (int64_t)pair->ended->took };
	if (from == L_SPAN_STOP)
		return l_value_read(&sink->by[pair->own++], current);
	return next_kept(pair, from);
}

static void push_field(lua_State *L, const struct pev_key_part *part)
{
	switch (part->type) {
	case PEV_KEY_INTEGER:
		lua_pushinteger(L, (lua_Integer)part->integer);
		break;
	case PEV_KEY_STRING:
		lua_pushlstring(L, (const char *)part->p, part->len);
		break;
	case PEV_KEY_FALSE:
	case PEV_KEY_TRUE:
		lua_pushboolean(L, part->type == PEV_KEY_TRUE);
		break;
	default:
		lua_pushnil(L);
	}
}

/* (fields, number of them, function) -> its result. Pushing a string can raise. */
static int l_call_with_fields(lua_State *L)
{
	const struct pev_key_part *fields = lua_touserdata(L, 1);
	int nr = (int)lua_tointeger(L, 2);

	luaL_checkstack(L, nr, "fields of a span");
	for (int i = 0; i < nr; i++)
		push_field(L, &fields[i]);
	lua_call(L, nr, 1);
	return 1;
}

/* Calls the function of the value. It returns an integer, or nil: the pair does not count. */
static bool call_function(struct l_span *span, const struct l_current *current,
			  struct pev_key_part *fields, int64_t *value)
{
	lua_State *L = current->L;
	int is_integer = 0, before, rc;

	if (!lua_checkstack(L, 4)) {
		span->failed++;
		return false;
	}
	lua_pushcfunction(L, l_call_with_fields);
	lua_pushlightuserdata(L, fields);
	lua_pushinteger(L, span->nr_values);
	lua_rawgetp(L, current->context, span);
	before = l_limit_enter(L_LIMIT_CALLBACK);
	rc = lua_pcall(L, 3, 1, 0);
	l_limit_leave(before);
	if (rc == LUA_OK) {
		if (lua_type(L, -1) == LUA_TNUMBER) /* not a string of digits */
			*value = (int64_t)lua_tointegerx(L, -1, &is_integer);
		span->valueless += !is_integer && !lua_isnil(L, -1);
	} else if (!span->failed++) {
		const char *why = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "?";

		snprintf(span->error, sizeof(span->error), "%s", why);
	}
	lua_pop(L, 1);
	return is_integer;
}

/* Computes the value of a pair: a field of an end, a difference of two, or a function of some. */
static bool compute_value(const struct l_sink *sink, const struct l_current *current,
			  struct pair_cursor *pair, int64_t *value)
{
	struct l_span *span = sink->agg->span;
	struct pev_key_part fields[L_SPAN_VALUES];
	bool is_integer = true;

	for (uint32_t i = 0; i < span->nr_values; i++) {
		fields[i] = next_field(sink, current, pair, span->value_from[i]);
		is_integer &= fields[i].type == PEV_KEY_INTEGER;
	}
	if (span->calls)
		return call_function(span, current, fields, value);
	if (!is_integer) {
		span->valueless++;
		return false;
	}
	*value = fields[0].integer;
	if (span->nr_values == 2)
		*value = (int64_t)((uint64_t)*value - (uint64_t)fields[1].integer);
	return true;
}

static void feed_joined(const struct l_sink *sink, const struct l_current *current,
			const struct pev_spanned *ended, int64_t value)
{
	struct l_span *span = sink->agg->span;
	struct pair_cursor pair = { .ended = ended, .own = span->nr_by };

	if (!take_joined(sink, current, &pair))
		return;
	if (span->nr_values && !compute_value(sink, current, &pair, &value))
		return;
	if (span->calls) { /* the function may have added to into, whose key this is */
		pair = (struct pair_cursor){ .ended = ended, .own = span->nr_by };
		if (!take_joined(sink, current, &pair))
			return;
	}
	if (l_agg_add(span->into, value) < 0)
		span->into->uncounted.no_memory++;
}

static void note_pair(struct l_span *span, uint64_t time)
{
	struct l_time_range *times = &span->into->times;

	if (!span->into->keeps_times || !span->begun.any)
		return;
	times->first = times->any ? times->first : span->begun.first;
	times->last = time;
	times->any = true;
}

static void feed_stop(const struct l_sink *sink, const struct l_current *current, uint64_t time)
{
	struct l_agg *end = sink->agg;
	struct l_span *span = end->span;
	struct pev_spanned ended;
	int64_t value;

	if (!pev_spans_stop(&span->spans, end->key.bytes, end->key.len, time, &ended))
		return;
	note_pair(span, time);
	if (span->passes && !ended.passed) {
		span->bypassed++;
		return;
	}
	if (ended.took < span->least || !is_wanted(span->into, sink->into_when, current))
		return;
	value = (int64_t)(ended.took / span->unit);
	if (span->joins)
		feed_joined(sink, current, &ended, value);
	else
		feed_cell(sink, current, span->into, span->nr_by, value);
}

static void feed_end(const struct l_sink *sink, const struct l_current *current, uint64_t time)
{
	struct l_agg *end = sink->agg;

	if (!take_columns(sink, current, 0, end->span->nr_by, &end->key))
		return;
	switch (end->end) {
	case L_SPAN_START:
		feed_start(sink, current, time);
		break;
	case L_SPAN_VIA:
		feed_via(sink, current);
		break;
	case L_SPAN_STOP:
		feed_stop(sink, current, time);
		break;
	default:
		pev_spans_cancel(&end->span->spans, end->key.bytes, end->key.len);
	}
}

static bool take_value(const struct l_sink *sink, const struct l_current *current, int64_t *value)
{
	struct pev_key_part part;

	if (l_value_read_number(sink->value, current, value))
		return true;
	part = l_value_read(sink->value, current);
	*value = part.integer;
	return part.type == PEV_KEY_INTEGER;
}

static void note_time(struct l_time_range *times, const struct pev_record *rec)
{
	uint64_t time;

	if (!pev_record_number(rec, PEV_F_TIME, &time))
		return;
	times->first = times->any && times->first < time ? times->first : time;
	times->last = times->any && times->last > time ? times->last : time;
	times->any = true;
}

static void feed_aggregator(const struct l_sink *sink, const struct l_current *current)
{
	struct l_agg *agg = sink->agg;
	int64_t value = 1;

	if (agg->keeps_times)
		note_time(agg->span ? &agg->span->begun : &agg->times, current->view->rec);
	if (!is_wanted(agg, sink->when, current))
		return;
	if (sink->value->code && !take_value(sink, current, &value) &&
	    (agg->span || !agg->lacking)) {
		agg->uncounted.absent[0]++;
		return;
	}
	if (agg->span)
		feed_end(sink, current, (uint64_t)value);
	else
		feed_cell(sink, current, agg, 0, value);
}

bool l_sink_count_one(struct l_sink *sink, const struct pev_record *rec)
{
	struct l_agg *agg = sink->agg;
	int64_t number;

	if (agg->nr_by && !pev_number_field_read(&sink->by->place, rec->bytes, &number))
		return false;
	if (agg->nr_by)
		l_agg_count_integers(agg, &number, 1);
	else
		l_agg_count(agg, 1);
	return true;
}

uint32_t l_sink_count(struct l_sink *sink, const struct pev_source_record *from, uint32_t nr)
{
	const unsigned char *samples[COUNTED_MAX];
	uint32_t fit = 0;

	nr = nr < COUNTED_MAX ? nr : COUNTED_MAX;
	for (; fit < nr && pev_sample_fits(sink->plan, from[fit].bytes, from[fit].size); fit++)
		samples[fit] = from[fit].bytes;
	return l_sink_count_fitting(sink, samples, fit);
}

/* Reads the number of each sample up to the first one without. Returns how many it read. */
static inline __attribute__((always_inline)) uint32_t
read_numbers(struct pev_number_field place, const unsigned char *const *samples, uint32_t nr,
	     int64_t *numbers)
{
	uint32_t taken = 0;

	while (taken < nr && pev_number_field_read(&place, samples[taken], &numbers[taken]))
		taken++;
	return taken;
}

uint32_t l_sink_count_fitting(struct l_sink *sink, const unsigned char *const *samples, uint32_t nr)
{
	struct pev_number_field place;
	int64_t numbers[COUNTED_MAX];

	nr = nr < COUNTED_MAX ? nr : COUNTED_MAX;
	if (!sink->agg->nr_by) {
		l_agg_count(sink->agg, nr);
		return nr;
	}
	place = sink->by->place;
	if (place.swap)
		nr = read_numbers(place, samples, nr, numbers);
	else {
		place.swap = false; /* a constant in that copy of the loop */
		nr = read_numbers(place, samples, nr, numbers);
	}
	l_agg_count_integers(sink->agg, numbers, nr);
	return nr;
}

static inline void feed_one(struct l_sink *sink, lua_State *L, int context,
			    const struct l_view *view, const struct l_args *args)
{
	struct l_current current = { view, args, sink->stacks, sink->event, L, context };

	if (sink->line) {
		l_text_line_feed(sink->line, L, context, view, args);
		return;
	}
	if (view->rec->plan != sink->plan || (args && args->tp != sink->tp))
		find_fields(sink, view->rec, args);
	feed_aggregator(sink, &current);
}

void l_sink_feed(struct l_sink *sink, lua_State *L, int context, const struct l_view *view,
		 const struct l_args *args)
{
	for (; sink; sink = sink->next)
		feed_one(sink, L, context, view, args);
}

void l_sink_register(lua_State *L)
{
	lua_pushcfunction(L, l_aggregator_fields);
	lua_setfield(L, -2, "aggregator_fields");
}
