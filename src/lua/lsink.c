/*
 * lsink.c - from a record to an aggregator's cell; see lsink.h.
 */
#include "lsink.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "lline.h"
#include "lsource.h"
#include "lspan.h"
#include "lstacks.h"
#include "lwhere.h"

#define COUNTED_MAX 64 /* numbers that are counted in one go */

/* ---- once per event ---- */

/* Add it to the list at 2 when it is a payload's; false: nil and why it is no field are pushed. */
static bool check_source(lua_State *L, const char *name)
{
	struct l_field source = l_source_find(name);

	if (!l_source_is(&source)) {
		l_source_refuse(L, name);
		return false;
	}
	if (source.payload) {
		lua_pushstring(L, source.payload);
		lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
	}
	return true;
}

int l_sink_check(lua_State *L)
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

/* The aggregator keeps them, and what their addresses are looked up in. */
static struct pev_stacks *keep_stacks(lua_State *L, int idx, int context)
{
	struct pev_stacks *stacks;

	lua_createtable(L, 0, 2);
	lua_getfield(L, context, "world");
	lua_setfield(L, -2, "world");
	lua_getfield(L, context, "stacks");
	stacks = l_stacks_check(L, -1);
	lua_setfield(L, -2, "stacks");
	l_agg_keep(L, idx, stacks);
	return stacks;
}

static uint32_t count_tests(const struct l_where *where)
{
	return where ? where->program.nr : 0;
}

static struct l_field *find_names(struct l_field *at, const char *const *names, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		*at++ = l_source_find(names[i]);
	return at;
}

static struct l_field *find_tests(struct l_field *at, const struct l_where *where)
{
	return where ? find_names(at, where->names, where->program.nr) : at;
}

bool l_sink_is(lua_State *L, int idx) { return l_agg_test(L, idx) || l_line_test(L, idx); }

static struct l_sink *push_of_line(lua_State *L, int idx, const char *event)
{
	struct l_sink *sink = lua_newuserdatauv(L, sizeof(*sink), 1);

	*sink = (struct l_sink){ .line = l_line_push(L, idx, event) };
	lua_setiuservalue(L, -2, 1);
	return sink;
}

static struct l_sink *push_of_aggregator(lua_State *L, int idx, int context, const char *event)
{
	struct l_agg *agg = l_agg_test(L, idx);
	const struct l_where *into = agg->span && agg->stops ? agg->span->into->where : NULL;
	uint32_t nr = 1 + agg->nr_by + count_tests(agg->where) + count_tests(into);
	size_t bytes = sizeof(struct l_sink) + nr * sizeof(struct l_field);
	struct l_sink *sink = lua_newuserdatauv(L, bytes + strlen(event) + 1, 0);

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
	for (uint32_t i = 0; i < agg->nr_by && !sink->stacks; i++)
		if (l_source_is_stack(&sink->by[i]))
			sink->stacks = keep_stacks(L, idx, context);
	return sink;
}

struct l_sink *l_sink_push(lua_State *L, int idx, int context, const char *event)
{
	if (l_line_test(L, idx))
		return push_of_line(L, idx, event);
	return push_of_aggregator(L, idx, context, event);
}

/* ---- once per record ---- */

static void find_fields(struct l_sink *sink, const struct pev_record *rec,
			const struct l_args *args)
{
	sink->tp = args ? args->tp : sink->tp;
	sink->plan = rec->plan;
	for (uint32_t i = 0; i < sink->nr; i++) {
		if (args)
			l_field_of(&sink->fields[i], args->tp);
		if (rec->type == PERF_RECORD_SAMPLE)
			l_field_in(&sink->fields[i], rec->plan, args);
	}
	sink->counts = sink->counts_one && rec->type == PERF_RECORD_SAMPLE &&
		       (!sink->agg->nr_by || sink->by->place.at);
}

static int put(struct pev_key *key, const struct pev_key_part *part)
{
	if (part->type == PEV_KEY_POINTER && !part->pointer)
		return -ENOMEM;
	return pev_key_part(key, part);
}

/* One more column of a key; false: the record has none, or no memory, which is counted. */
static __attribute__((noinline)) bool take_any(const struct l_sink *sink,
					       const struct l_shown *shown, uint32_t i,
					       struct pev_key *key)
{
	struct pev_key_part column = l_source_read(&sink->by[i], shown);
	struct l_agg *agg = sink->agg;
	int rc;

	if (column.type == PEV_KEY_END && !agg->lacking) {
		agg->absent[i + 1]++;
		return false;
	}
	rc = column.type == PEV_KEY_END ? pev_key_bool(key, false) : put(key, &column);
	agg->no_memory += rc < 0;
	return rc == 0;
}

/* The same, of a number at once. */
static inline bool take_column(const struct l_sink *sink, const struct l_shown *shown, uint32_t i,
			       struct pev_key *key)
{
	struct l_agg *agg = sink->agg;
	int64_t number;

	if (!l_source_number(&sink->by[i], shown, &number))
		return take_any(sink, shown, i, key);
	if (pev_key_integer(key, l_agg_time(agg, i, number)) == 0)
		return true;
	agg->no_memory++;
	return false;
}

/* The record's columns first .. end - 1 as a key. */
static inline bool take_columns(const struct l_sink *sink, const struct l_shown *shown,
				uint32_t first, uint32_t end, struct pev_key *key)
{
	key->len = 0;
	for (uint32_t i = first; i < end; i++)
		if (!take_column(sink, shown, i, key))
			return false;
	return true;
}

/* Is the record one of those it is for? One that cannot be told is counted. */
static bool is_wanted(struct l_agg *agg, const struct l_field *sources,
		      const struct l_shown *shown)
{
	bool blind = false, wanted;

	if (!agg->where)
		return true;
	wanted = l_where_holds(agg->where, sources, shown, &blind);
	agg->untold += blind && !wanted;
	return wanted;
}

/* One value more for the key of the record's columns from first on. */
static void feed_cell(const struct l_sink *sink, const struct l_shown *shown, struct l_agg *to,
		      uint32_t first, int64_t value)
{
	struct l_agg *agg = sink->agg;
	int64_t number;
	int rc;

	if (agg->nr_by == first + 1 && l_source_number(&sink->by[first], shown, &number))
		rc = l_agg_add_integer(to, l_agg_time(agg, first, number), value);
	else if (take_columns(sink, shown, first, agg->nr_by, &to->key))
		rc = l_agg_add(to, value);
	else
		return;
	to->no_memory += rc < 0;
}

static void feed_start(struct l_agg *end, uint64_t time)
{
	if (pev_spans_start(&end->span->spans, end->key.bytes, end->key.len, time) < 0)
		end->no_memory++;
}

static void feed_stop(const struct l_sink *sink, const struct l_shown *shown, uint64_t time)
{
	struct l_agg *end = sink->agg;
	struct l_span *span = end->span;
	uint64_t took;

	if (!pev_spans_stop(&span->spans, end->key.bytes, end->key.len, time, &took))
		return;
	if (is_wanted(span->into, sink->into_when, shown))
		feed_cell(sink, shown, span->into, span->nr_by, (int64_t)(took / span->unit));
}

static bool take_value(const struct l_sink *sink, const struct l_shown *shown, int64_t *value)
{
	struct pev_key_part part;

	if (l_source_number(sink->value, shown, value))
		return true;
	part = l_source_read(sink->value, shown);
	*value = part.integer;
	return part.type == PEV_KEY_INTEGER;
}

static void note_time(struct l_agg *agg, const struct pev_record *rec)
{
	uint64_t time;

	if (!pev_record_number(rec, PEV_F_TIME, &time))
		return;
	agg->first = agg->timed_any ? agg->first : time;
	agg->last = time;
	agg->timed_any = true;
}

static void feed(const struct l_sink *sink, const struct l_shown *shown)
{
	struct l_agg *agg = sink->agg;
	int64_t value = 1;

	if (agg->keeps_times)
		note_time(agg, shown->view->rec);
	if (!is_wanted(agg, sink->when, shown))
		return;
	if (sink->value->code && !take_value(sink, shown, &value) && !agg->lacking) {
		agg->absent[0]++;
		return;
	}
	if (!agg->span) {
		feed_cell(sink, shown, agg, 0, value);
		return;
	}
	if (!take_columns(sink, shown, 0, agg->span->nr_by, &agg->key))
		return;
	if (agg->stops) {
		feed_stop(sink, shown, (uint64_t)value);
	} else {
		feed_start(agg, (uint64_t)value);
	}
}

bool l_sink_count_one(struct l_sink *sink, const struct pev_record *rec)
{
	struct l_agg *agg = sink->agg;
	int64_t number;

	if (agg->nr_by && !pev_place_read(&sink->by->place, rec->bytes, &number))
		return false;
	if (agg->nr_by)
		l_agg_count_integers(agg, &number, 1);
	else
		l_agg_count(agg, 1);
	return true;
}

uint32_t l_sink_count(struct l_sink *sink, const struct pev_file_record *from, uint32_t nr)
{
	const struct pev_place *place = &sink->by->place;
	int64_t numbers[COUNTED_MAX];
	uint32_t taken = 0;

	nr = nr < COUNTED_MAX ? nr : COUNTED_MAX;
	while (taken < nr && pev_sample_fits(sink->plan, from[taken].bytes, from[taken].size) &&
	       (!sink->agg->nr_by || pev_place_read(place, from[taken].bytes, &numbers[taken])))
		taken++;
	if (sink->agg->nr_by)
		l_agg_count_integers(sink->agg, numbers, taken);
	else
		l_agg_count(sink->agg, taken);
	return taken;
}

void l_sink_feed(struct l_sink *sink, lua_State *L, int context, const struct l_view *view,
		 const struct l_args *args)
{
	struct l_shown shown = { view, args, sink->stacks, sink->event, L, context };

	if (sink->line) {
		l_line_feed(sink->line, L, view, args);
		return;
	}
	if (view->rec->plan != sink->plan || (args && args->tp != sink->tp))
		find_fields(sink, view->rec, args);
	feed(sink, &shown);
}
