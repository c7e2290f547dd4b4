/*
 * lsink.c - from a record to an aggregator's cell; see lsink.h.
 */
#include "lsink.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "../unwind.h"
#include "lfield.h"
#include "lspan.h"
#include "lstacks.h"

/* What only a key can be, beside lview.h's codes. */
enum { CODE_USTACK = L_CODE_NR, CODE_KSTACK };

/* Of tables, which are no key and no number. */
static const enum pev_field composite[] = {
	PEV_F_READ, PEV_F_CALLCHAIN, PEV_F_BRANCH_STACK, PEV_F_REGS_USER, PEV_F_REGS_INTR,
	PEV_F_NAMESPACES, PEV_F_DATA_SRC, PEV_F_TRANSACTION,
};

struct l_sink {
	struct l_agg *agg;
	const struct pev_tracepoint *tp; /* whose fields were looked up */
	struct pev_stacks *stacks;       /* NULL: no column is a stack */
	struct l_field value, by[L_AGG_COLUMNS];
	char event[];
};

static bool is_composite(int code)
{
	for (size_t i = 0; i < sizeof(composite) / sizeof(composite[0]); i++)
		if ((int)composite[i] == code)
			return true;
	return false;
}

static bool is_stack(const struct l_field *source)
{
	return source->code == L_CODE_STACK || source->code >= L_CODE_NR;
}

static struct l_field find_source(const char *name)
{
	if (strcmp(name, "ustack") == 0)
		return (struct l_field){ .code = CODE_USTACK };
	if (strcmp(name, "kstack") == 0)
		return (struct l_field){ .code = CODE_KSTACK };
	return l_field_find(name);
}

/* Can a key hold it, or a value be of it? */
static bool is_source(int code)
{
	switch (code) {
	case L_CODE_TYPE:
	case L_CODE_NUMBER:
	case L_CODE_SIZE:
	case L_CODE_MISC:
	case L_CODE_CPUMODE:
	case L_CODE_EVENT:
	case L_CODE_STACK:
		return true;
	default:
		return (code > 0 && code < PEV_F_NR && !is_composite(code)) || code >= L_CODE_FLAG;
	}
}

/* ---- once per event ---- */

static int refuse(lua_State *L, const char *name)
{
	const char *near = l_field_nearest(name, is_source);

	lua_pushnil(L);
	if (is_composite(l_view_code(name)))
		lua_pushfstring(L, "'%s' is neither a number nor a string", name);
	else if (near)
		lua_pushfstring(L, "no record has a field '%s' (did you mean '%s'?)", name, near);
	else
		lua_pushfstring(L, "no record has a field '%s' (a payload's are args.NAME)", name);
	return 2;
}

int l_sink_check(lua_State *L)
{
	const struct l_agg *agg = l_agg_test(L, 1);

	lua_settop(L, 1);
	if (!agg)
		return 0;
	if (!agg->value && agg->all.config.kind != PEV_AGG_COUNT) {
		lua_pushnil(L);
		lua_pushliteral(L, "it needs a value = FIELD");
		return 2;
	}
	lua_newtable(L);
	for (uint32_t i = 0; i <= agg->nr_by; i++) {
		const char *name = i ? agg->by[i - 1] : agg->value;
		struct l_field source;

		if (!name)
			continue;
		source = find_source(name);
		if (!source.payload && !is_source(source.code))
			return refuse(L, name);
		if (!source.payload)
			continue;
		lua_pushstring(L, source.payload);
		lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
	}
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

struct l_sink *l_sink_push(lua_State *L, int idx, int context, const char *event)
{
	struct l_agg *agg = l_agg_test(L, idx);
	struct l_sink *sink = lua_newuserdatauv(L, sizeof(*sink) + strlen(event) + 1, 0);

	*sink = (struct l_sink){ .agg = agg };
	memcpy(sink->event, event, strlen(event) + 1);
	if (agg->value)
		sink->value = find_source(agg->value);
	for (uint32_t i = 0; i < agg->nr_by; i++)
		sink->by[i] = find_source(agg->by[i]);
	for (uint32_t i = 0; i < agg->nr_by && !sink->stacks; i++)
		if (is_stack(&sink->by[i]))
			sink->stacks = keep_stacks(L, idx, context);
	return sink;
}

/* ---- once per record ---- */

static void find_fields(struct l_sink *sink, const struct pev_tracepoint *tp)
{
	sink->tp = tp;
	l_field_of(&sink->value, tp);
	for (uint32_t i = 0; i < sink->agg->nr_by; i++)
		l_field_of(&sink->by[i], tp);
}

/* What a source has of the record: as part of a key, of which strings are borrowed. */
static struct pev_key_part integer(uint64_t value)
{
	return (struct pev_key_part){ .type = PEV_KEY_INTEGER, .integer = (int64_t)value };
}

static struct pev_key_part text(const char *p)
{
	return (struct pev_key_part){ .type = PEV_KEY_STRING,
				      .p = (const unsigned char *)p,
				      .len = (uint32_t)strlen(p) };
}

static const struct pev_key_part absent = { .type = PEV_KEY_END };
/* There is one, but no room for it. */
static const struct pev_key_part no_memory = { .type = PEV_KEY_POINTER };

static struct pev_key_part of_value(const struct pev_record *rec, enum pev_field field)
{
	struct pev_value value;
	bool is_number;

	if (!pev_record_get(rec, field, &value))
		return absent;
	is_number = value.kind == PEV_K_U64 || value.kind == PEV_K_S32;
	/* WEIGHT is one number, WEIGHT_STRUCT is three. */
	if (value.kind == PEV_K_BITS)
		is_number = !(rec->plan->sample_type & PEV_SAMPLE_WEIGHT_STRUCT);
	if (is_number)
		return integer(value.u);
	if (value.kind != PEV_K_STRING && value.kind != PEV_K_BYTES && value.kind != PEV_K_STACK)
		return absent;
	return (struct pev_key_part){ .type = PEV_KEY_STRING, .p = value.p, .len = value.len };
}

static struct pev_key_part of_field(const struct l_view *view, enum pev_field field)
{
	struct pev_key_part part;
	struct pev_value tid;
	uint64_t number;

	if (pev_record_number(view->rec, field, &number))
		return integer(number);
	part = of_value(view->rec, field);
	if (part.type != PEV_KEY_END || field != PEV_F_COMM || !view->comm)
		return part;
	if (!pev_record_get(view->rec, PEV_F_TID, &tid))
		return absent;
	return text(view->comm(view->ctx, (int)(int64_t)tid.u));
}

static struct pev_key_part of_flag(const struct pev_record *rec, const struct pev_misc *flag)
{
	if (rec->type >= 32 || !(flag->types >> rec->type & 1))
		return absent;
	return (struct pev_key_part){ .type = pev_record_flag(rec, flag) ? PEV_KEY_TRUE :
									    PEV_KEY_FALSE };
}

static struct pev_key_part of_payload(const struct pev_tp_field *field, const struct l_args *args)
{
	struct pev_tp_value value;

	if (!field || pev_tp_get(args->tp, field, args->raw, args->len, &value) < 0)
		return absent;
	if (field->elem != 1)
		return absent;
	return (struct pev_key_part){ .type = PEV_KEY_STRING, .p = value.p, .len = value.len };
}

static struct pev_key_part of_stack(struct pev_stacks *stacks, const struct l_view *view,
				    int code)
{
	const struct pev_stack *stack;

	/* What is to be unwound needs files, which are found in Lua. */
	if (!view->tasks || !stacks || pev_unwind_wanted(view->rec))
		return absent;
	if (pev_stacks_take(stacks, view->tasks, view->rec, NULL, &stack) < 0)
		return no_memory;
	if (!stack)
		return absent;
	if (code != L_CODE_STACK)
		stack = pev_stacks_part(stacks, stack,
					code == CODE_USTACK ? PEV_IN_USER : PEV_IN_KERNEL);
	return stack ? (struct pev_key_part){ .type = PEV_KEY_POINTER, .pointer = stack } :
		       no_memory;
}

static struct pev_key_part read_source(const struct l_sink *sink, const struct l_field *source,
				       const struct l_view *view, const struct l_args *args)
{
	const struct pev_record *rec = view->rec;

	if (source->payload)
		return args ? of_payload(source->field, args) : absent;
	if (is_stack(source))
		return of_stack(sink->stacks, view, source->code);
	if (source->code < PEV_F_NR)
		return of_field(view, (enum pev_field)source->code);
	if (source->code >= L_CODE_FLAG)
		return of_flag(rec, &pev_miscs[source->code - L_CODE_FLAG]);
	switch (source->code) {
	case L_CODE_TYPE:
		return text(pev_layouts[rec->type < PEV_RECORD_NR ? rec->type : 0].name);
	case L_CODE_NUMBER:
		return integer(rec->type);
	case L_CODE_SIZE:
		return integer(rec->size);
	case L_CODE_MISC:
		return integer(rec->misc);
	case L_CODE_CPUMODE:
		return text(l_cpumodes[rec->misc & PERF_RECORD_MISC_CPUMODE_MASK]);
	case L_CODE_EVENT:
		return text(sink->event);
	default:
		return absent;
	}
}

/* A number, which is what most columns are: what other columns need is not set up for it. */
static bool read_integer(const struct l_field *source, const struct l_view *view,
			 const struct l_args *args, int64_t *value)
{
	if (source->payload)
		return args && source->field &&
		       pev_tp_integer(args->tp, source->field, args->raw, args->len, value);
	return source->code < PEV_F_NR &&
	       pev_record_number(view->rec, (enum pev_field)source->code, (uint64_t *)value);
}

static int put(struct pev_key *key, const struct pev_key_part *part)
{
	if (part->type == PEV_KEY_INTEGER)
		return pev_key_integer(key, part->integer);
	if (part->type == PEV_KEY_STRING)
		return pev_key_string(key, part->p, part->len);
	if (part->type == PEV_KEY_POINTER)
		return part->pointer ? pev_key_pointer(key, part->pointer) : -ENOMEM;
	return pev_key_bool(key, part->type == PEV_KEY_TRUE);
}

/* The record's columns first .. end - 1 as a key; false: there is none, and that was counted. */
static bool take_columns(const struct l_sink *sink, const struct l_view *view,
			 const struct l_args *args, uint32_t first, uint32_t end,
			 struct pev_key *key)
{
	struct l_agg *agg = sink->agg;

	key->len = 0;
	for (uint32_t i = first; i < end; i++) {
		struct pev_key_part column;
		int64_t number;

		if (read_integer(&sink->by[i], view, args, &number)) {
			if (pev_key_integer(key, number) == 0)
				continue;
			agg->no_memory++;
			return false;
		}
		column = read_source(sink, &sink->by[i], view, args);
		if (column.type == PEV_KEY_END) {
			agg->absent[i + 1]++;
			return false;
		}
		if (put(key, &column) < 0) {
			agg->no_memory++;
			return false;
		}
	}
	return true;
}

static void feed_start(struct l_agg *end, uint64_t time)
{
	if (pev_spans_start(&end->span->spans, end->key.bytes, end->key.len, time) < 0)
		end->no_memory++;
}

static void feed_stop(const struct l_sink *sink, const struct l_view *view,
		      const struct l_args *args, uint64_t time)
{
	struct l_agg *end = sink->agg;
	struct l_span *span = end->span;
	uint64_t took;

	if (!pev_spans_stop(&span->spans, end->key.bytes, end->key.len, time, &took))
		return;
	if (take_columns(sink, view, args, span->nr_by, end->nr_by, &span->into->key) &&
	    l_agg_add(span->into, (int64_t)(took / span->unit)) < 0)
		span->into->no_memory++;
}

static bool read_value(const struct l_sink *sink, const struct l_view *view,
		       const struct l_args *args, int64_t *value)
{
	struct pev_key_part part;

	if (read_integer(&sink->value, view, args, value))
		return true;
	part = read_source(sink, &sink->value, view, args);
	*value = part.integer;
	return part.type == PEV_KEY_INTEGER;
}

void l_sink_feed(struct l_sink *sink, const struct l_view *view, const struct l_args *args)
{
	struct l_agg *agg = sink->agg;
	int64_t value = 1;

	if (args && args->tp != sink->tp)
		find_fields(sink, args->tp);
	if (sink->value.code && !read_value(sink, view, args, &value)) {
		agg->absent[0]++;
		return;
	}
	if (!take_columns(sink, view, args, 0, agg->span ? agg->span->nr_by : agg->nr_by,
			  &agg->key))
		return;
	if (!agg->span) {
		if (l_agg_add(agg, value) < 0)
			agg->no_memory++;
	} else if (agg->stops) {
		feed_stop(sink, view, args, (uint64_t)value);
	} else {
		feed_start(agg, (uint64_t)value);
	}
}
