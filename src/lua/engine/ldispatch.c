/* ldispatch.c - calls callbacks with records; see ldispatch.h. */
#include "lua/engine/ldispatch.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>

#include "lua/base/lerror.h"
#include "lua/hooks/lhooks.h"
#include "lua/symbol/lstack_table.h"

/* Stack offsets from d->first. */
enum {
	AT_HANDLER,
	AT_CALLBACKS,
	AT_CONTEXT,
	AT_HANDLERS,
	AT_KEPT, /* sample callbacks of the first slots: cheaper than those in AT_CALLBACKS */
	AT_VIEWS = AT_KEPT + L_DISPATCH_KEPT
};

void l_dispatch_init(lua_State *L, struct l_dispatch *d, int idx,
		     const char *(*comm)(void *ctx, int tid), void *ctx)
{
	idx = lua_absindex(L, idx);
	lua_newtable(L);
	lua_setiuservalue(L, idx, L_UV_CALLBACKS);
	lua_newtable(L); /* context */
	/* A kept view points to d->now: its context keeps the userdata alive. */
	lua_pushvalue(L, idx);
	lua_rawseti(L, -2, 0);
	l_stack_table_push(L);
	lua_setfield(L, -2, "stacks");
	lua_pushvalue(L, -1);
	lua_setiuservalue(L, idx, L_UV_CONTEXT);
	lua_createtable(L, L_DISPATCH_VIEWS + 1, 0);
	for (int i = 0; i <= L_DISPATCH_VIEWS; i++) {
		d->views[i] = l_view_push(L, -2, &d->now);
		d->views[i]->comm = comm;
		d->views[i]->ctx = ctx;
		lua_rawseti(L, -2, i + 1);
	}
	lua_setiuservalue(L, idx, L_UV_VIEWS);
	lua_pop(L, 1);
}

struct pev_budget *l_dispatch_budget(lua_State *L, int idx)
{
	struct pev_budget *budget;

	lua_getiuservalue(L, idx, L_UV_CONTEXT);
	lua_getfield(L, -1, "stacks");
	budget = l_stack_table_budget(L, -1);
	lua_pop(L, 2);
	return budget;
}

void l_dispatch_set_tasks(struct l_dispatch *d, struct pev_tasks *tasks)
{
	for (int i = 0; i <= L_DISPATCH_VIEWS; i++)
		d->views[i]->tasks = tasks;
}

void l_dispatch_free(struct l_dispatch *d)
{
	free(d->slots);
	d->slots = NULL;
	d->nr_slots = 0;
	d->now++; /* payload views compare with it */
}

/* Makes room for all slots up to this one; new ones are empty. Returns 0 or -ENOMEM. */
static int make_room(struct l_dispatch *d, uint32_t slot)
{
	struct l_dispatch_slot *slots;

	if (slot < d->nr_slots)
		return 0;
	slots = realloc(d->slots, sizeof(*slots) * (slot + (size_t)1));
	if (!slots)
		return -ENOMEM;
	d->slots = slots;
	while (d->nr_slots <= slot)
		slots[d->nr_slots++] = (struct l_dispatch_slot){ 0 };
	return 0;
}

/* Clears the slot: an event that failed to open may have used it. */
static void clear_slot(lua_State *L, struct l_dispatch *d, uint32_t slot)
{
	if (make_room(d, slot) < 0) {
		luaL_error(L, "no memory for an event");
		__builtin_unreachable(); /* it raises */
	}
	d->slots[slot] = (struct l_dispatch_slot){ .args = d->slots[slot].args };
}

/* Pushes the name of the event of the spec at 2. */
static const char *push_name(lua_State *L)
{
	const char *name;

	lua_getfield(L, 2, "event");
	if (lua_istable(L, -1))
		lua_getfield(L, -1, "name");
	name = lua_tostring(L, -1);
	return name ? name : "?";
}

/* Sets the slot's condition. The list of callbacks keeps it alive. */
static void set_guard(lua_State *L, struct l_dispatch *d, uint32_t slot, int list)
{
	int top = lua_gettop(L);
	bool all;

	if (lua_getfield(L, 2, "where") != LUA_TNIL) {
		lua_getfield(L, 2, "where_all");
		all = lua_toboolean(L, -1);
		d->slots[slot].guard = l_event_condition_push(L, top + 1, push_name(L), all);
		lua_rawsetp(L, list, d->slots[slot].guard);
	}
	lua_settop(L, top);
}

/* Sets the value on top as the slot's sink for a type. The list of callbacks keeps it alive. */
static void set_sink(lua_State *L, struct l_dispatch *d, uint32_t slot, int type, int list,
		     int context)
{
	lua_Integer at = (lua_Integer)slot * PEV_RECORD_NR + type;
	int top = lua_gettop(L);
	const char *event = push_name(L);
	struct l_sink *sink = l_sink_push(L, top, context, event);

	lua_rawseti(L, list, -at - 1);
	d->slots[slot].sinks[type] = sink;
	lua_settop(L, top);
}

#define PULLED (UINT32_C(1) << PERF_RECORD_SAMPLE) /* wanted types while fields are pulled */

/*
 * Sets the fields of the slot's samples from the names
 * on top. The list of callbacks keeps them alive.
 */
static void set_fields(lua_State *L, struct l_dispatch *d, uint32_t slot, int list)
{
	d->slots[slot].fields = l_fields_push(L, -1);
	lua_rawsetp(L, list, d->slots[slot].fields);
}

static void set_sample_fields(lua_State *L, struct l_dispatch *d, uint32_t slot, int list)
{
	if (d->pulls)
		lua_rawgeti(L, list, 0);
	else
		lua_getfield(L, 2, "fields");
	if (lua_istable(L, -1))
		set_fields(L, d, slot, list);
	lua_pop(L, 1);
}

uint32_t l_dispatch_pull_fields(lua_State *L, int idx, int names, struct l_dispatch *d)
{
	int top = lua_gettop(L), list = top + 1;

	names = lua_absindex(L, names);
	if (!lua_istable(L, names))
		return 0;
	lua_getiuservalue(L, idx, L_UV_CALLBACKS);
	lua_pushvalue(L, names);
	lua_rawseti(L, list, 0);
	lua_pushvalue(L, names);
	for (uint32_t slot = 0; slot < d->nr_slots; slot++)
		set_fields(L, d, slot, list);
	d->pulls = true;
	lua_settop(L, top);
	return PULLED;
}

uint32_t l_dispatch_set_callbacks(lua_State *L, int idx, struct l_dispatch *d, uint32_t slot,
				  uint32_t *named)
{
	lua_Integer base = (lua_Integer)slot * PEV_RECORD_NR + 1;
	int top = lua_gettop(L), list = top + 1;
	uint32_t wanted_types = 0;

	*named = 0;
	d->nr_kept = 0;
	clear_slot(L, d, slot);
	lua_getiuservalue(L, idx, L_UV_CALLBACKS);
	lua_getiuservalue(L, idx, L_UV_CONTEXT);
	set_sample_fields(L, d, slot, list);
	set_guard(L, d, slot, list);
	if (lua_getfield(L, 2, "callbacks") != LUA_TTABLE) {
		lua_settop(L, top);
		return d->pulls ? PULLED : 0;
	}
	for (int type = 0; type < PEV_RECORD_NR; type++) {
		if (lua_getfield(L, -1, pev_layouts[type].callback) != LUA_TNIL) {
			*named |= UINT32_C(1) << type;
		} else {
			lua_pop(L, 1);
			lua_getfield(L, -1, "record");
		}
		if (lua_isnil(L, -1)) {
			lua_pop(L, 1);
			continue;
		}
		wanted_types |= UINT32_C(1) << type;
		if (l_sink_is(L, -1))
			set_sink(L, d, slot, type, list, top + 2);
		lua_rawseti(L, list, base + type);
	}
	lua_settop(L, top);
	return d->pulls ? PULLED : wanted_types;
}

int l_dispatch_reserve_slot(struct l_dispatch *d, uint32_t slot)
{
	if (make_room(d, slot) < 0)
		return -ENOMEM;
	d->slots[slot].args = NULL;
	return 0;
}

/* For a uprobe without tracefs: gets the user registers that hold its arguments. */
static __attribute__((noinline)) bool has_registers(const struct l_args *args,
						    const struct pev_record *rec,
						    const unsigned char **raw, uint32_t *len)
{
	struct pev_value value;

	if (!pev_record_get(rec, args->from, &value) || value.extra != PERF_SAMPLE_REGS_ABI_64)
		return false;
	*raw = value.p;
	*len = value.len;
	return true;
}

/* Gets the record's payload if the slot's event has a readable one. */
static inline bool has_payload(const struct l_args *args, const struct pev_record *rec,
			       const unsigned char **raw, uint32_t *len)
{
	if (!args || rec->type != PERF_RECORD_SAMPLE)
		return false;
	if (args->from == PEV_F_RAW)
		return pev_record_raw(rec, raw, len);
	return has_registers(args, rec, raw, len);
}

bool l_dispatch_has_payload(const struct l_args *args, const struct pev_record *rec,
			    const unsigned char **raw, uint32_t *len)
{
	return has_payload(args, rec, raw, len);
}

unsigned l_dispatch_point_view(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
			       unsigned process)
{
	unsigned turn = d->turn++ % L_DISPATCH_VIEWS;
	struct l_view *view = d->views[turn];
	struct l_args *args = d->slots[slot].args;
	const unsigned char *raw;
	uint32_t len;

	d->now++;
	view->rec = rec;
	view->slot = slot;
	view->gen = d->now;
	view->process = process;
	view->has_aux = false;
	view->has_args = has_payload(args, rec, &raw, &len);
	if (view->has_args) {
		args->raw = raw;
		args->len = len;
		args->gen = d->now;
		args->process = process;
	}
	return turn;
}

int l_dispatch_push_pulled(lua_State *L, struct l_dispatch *d, uint32_t slot, unsigned turn, int at)
{
	const struct l_view *view = d->views[turn];
	struct l_fields *fields = d->pulls ? d->slots[slot].fields : NULL;
	const struct l_args *args = view->has_args ? d->slots[slot].args : NULL;

	d->left--;
	if (fields)
		return l_fields_push_for_loop(L, at, fields, view, args);
	lua_pushvalue(L, at);
	return 1;
}

int l_dispatch_push_pulled_numbers(lua_State *L, struct l_dispatch *d, uint32_t slot,
				   const struct pev_record *rec)
{
	d->left--;
	return l_fields_push_numbers_for_loop(L, d->slots[slot].fields, rec);
}

void l_dispatch_set_limit(lua_State *L, struct l_dispatch *d, int idx)
{
	lua_Integer left = luaL_optinteger(L, idx, -1);

	d->left = left < 0 ? UINT64_MAX : (uint64_t)left;
}

void l_dispatch_prepare_stack(lua_State *L, struct l_dispatch *d)
{
	luaL_checkstack(L, AT_VIEWS + L_DISPATCH_VIEWS + L_FIELDS_MAX + LUA_MINSTACK,
			"dispatch");
	d->first = lua_gettop(L) + 1;
	lua_pushcfunction(L, l_traceback);
	lua_getiuservalue(L, 1, L_UV_CALLBACKS);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_getiuservalue(L, 1, L_UV_HANDLERS);
	for (int i = 0; i < L_DISPATCH_KEPT; i++)
		lua_rawgeti(L, d->first + AT_CALLBACKS,
			    (lua_Integer)i * PEV_RECORD_NR + PERF_RECORD_SAMPLE + 1);
	d->nr_kept = L_DISPATCH_KEPT;
	lua_getiuservalue(L, 1, L_UV_VIEWS);
	for (int i = 0; i < L_DISPATCH_VIEWS; i++)
		lua_rawgeti(L, d->first + AT_VIEWS, i + 1);
	/* Removes the list of views, below the views. */
	lua_remove(L, d->first + AT_VIEWS);
}

void l_dispatch_push_views(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	luaL_checkstack(L, L_DISPATCH_VIEWS + 1, "views");
	lua_getiuservalue(L, idx, L_UV_VIEWS);
	for (int i = 0; i < L_DISPATCH_VIEWS; i++)
		lua_rawgeti(L, -1 - i, i + 1);
	lua_remove(L, -1 - L_DISPATCH_VIEWS);
}

/* (handlers, message, callback, event) -> handlers.on_error(message, callback, event) */
static int l_report_error(lua_State *L)
{
	if (lua_getfield(L, 1, "on_error") != LUA_TFUNCTION)
		return 0;
	lua_pushvalue(L, 2);
	lua_pushstring(L, lua_touserdata(L, 3));
	lua_pushvalue(L, 4);
	lua_call(L, 3, 1);
	return 1;
}

/* Calls the error handler with the message and traceback on top. Returns 1 to end the dispatch. */
static int call_error_handler(struct l_dispatch *d, uint32_t slot, uint32_t type)
{
	lua_State *L = d->L;
	int rc, stop, before;

	d->raised++;
	lua_pushcfunction(L, l_report_error);
	lua_pushvalue(L, d->first + AT_HANDLERS);
	lua_pushvalue(L, -3);
	lua_pushlightuserdata(L, (void *)(uintptr_t)pev_layouts[type].callback);
	lua_rawgeti(L, d->first + AT_CONTEXT, 2 * (lua_Integer)slot + 1);
	before = l_limit_enter(L_LIMIT_CALLBACK);
	rc = lua_pcall(L, 4, 1, 0);
	l_limit_leave(before);
	stop = rc == LUA_OK ? lua_toboolean(L, -1) : rc == LUA_ERRMEM;
	/* The handler was not called: dispatch raises the error when the core is done. */
	if (rc == LUA_ERRMEM)
		l_keep_error(L);
	else
		lua_pop(L, 1);
	lua_pop(L, 1);
	return stop;
}

bool l_dispatch_report_error(struct l_dispatch *d, uint32_t slot, uint32_t type)
{
	int stop;

	d->now++;
	stop = call_error_handler(d, slot, type < PEV_RECORD_NR ? type : 0);
	d->now++;
	return stop;
}

/* Points the internal view at the record. *payload: the record's payload, or NULL. */
static inline struct l_view *point_inner_view(struct l_dispatch *d, uint32_t slot,
					      const struct pev_record *rec, struct l_args **payload)
{
	struct l_args *args = d->slots[slot].args;
	struct l_view *view = d->views[L_DISPATCH_VIEWS];

	view->rec = rec;
	*payload = args && has_payload(args, rec, &args->raw, &args->len) ? args : NULL;
	return view;
}

bool l_dispatch_meets_condition(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec)
{
	struct l_args *args;
	struct l_view *view = point_inner_view(d, slot, rec, &args);

	return l_event_condition_holds(d->slots[slot].guard, view, args, &d->undecided);
}

void l_dispatch_feed_sink(struct l_dispatch *d, uint32_t slot, struct l_sink *sink,
			  const struct pev_record *rec)
{
	struct l_args *args;
	struct l_view *view;

	if (l_sink_counts(sink, rec->plan, d->slots[slot].args) && l_sink_count_one(sink, rec))
		return;
	view = point_inner_view(d, slot, rec, &args);
	l_sink_feed(sink, d->L, d->first + AT_CONTEXT, view, args);
}

void l_dispatch_count(const struct l_dispatch *d, uint32_t slot, uint64_t nr)
{
	struct l_sink *sink = d->slots[slot].sinks[PERF_RECORD_SAMPLE];

	for (; sink; sink = sink->next)
		l_agg_count(sink->agg, nr);
}

uint32_t l_dispatch_count_run(struct l_dispatch *d, uint32_t slot,
			      const struct pev_source_record *from, uint32_t nr)
{
	return l_sink_count(d->slots[slot].sinks[PERF_RECORD_SAMPLE], from, nr);
}

static inline void push_callback(const struct l_dispatch *d, lua_State *L, uint32_t slot,
				 uint32_t type)
{
	if (slot < d->nr_kept && type == PERF_RECORD_SAMPLE)
		lua_pushvalue(L, d->first + AT_KEPT + (int)slot);
	else
		lua_rawgeti(L, d->first + AT_CALLBACKS,
			    (lua_Integer)slot * PEV_RECORD_NR + (lua_Integer)type + 1);
}

void l_dispatch_push_callback(lua_State *L, const struct l_dispatch *d, uint32_t slot)
{
	push_callback(d, L, slot, PERF_RECORD_SAMPLE);
}

bool l_dispatch_call_with_numbers(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec)
{
	const struct l_fields *fields = d->slots[slot].fields;
	lua_State *L = d->L;
	int function = lua_gettop(L) + 1;

	push_callback(d, L, slot, PERF_RECORD_SAMPLE);
	l_fields_push_numbers(L, fields, rec);
	return l_dispatch_call_function(L, d, function, (int)fields->nr);
}

bool l_dispatch_call_callback(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
			      unsigned turn)
{
	uint32_t type = rec->type < PEV_RECORD_NR ? rec->type : 0;
	struct l_fields *fields = type == PERF_RECORD_SAMPLE ? d->slots[slot].fields : NULL;
	const struct l_view *view = d->views[turn];
	int at = d->first + AT_VIEWS + (int)turn, nargs = 1;
	lua_State *L = d->L;
	int function = lua_gettop(L) + 1;

	push_callback(d, L, slot, type);
	if (fields) {
		const struct l_args *args = view->has_args ? d->slots[slot].args : NULL;

		l_fields_update(fields, rec, args);
		l_fields_push_values(L, at, fields, view, args);
		return l_dispatch_call_function(L, d, function, (int)fields->nr);
	}
	lua_pushvalue(L, at);
	if (view->has_args || view->has_aux) {
		lua_rawgeti(L, d->first + AT_CONTEXT, 2 * (lua_Integer)slot + 2);
		nargs = 2;
	}
	return l_dispatch_call_function(L, d, function, nargs);
}
