/*
 * lrecord.c - the userdata perfev.record; see lrecord.h.
 *
 * Each name has a code: enum l_code. The hash table of names is keyed by the address of the
 * name's string, from lua_topointer(), because Lua interns short strings. The registry keeps
 * the strings alive.
 */
#include "lua/record/lrecord.h"

#include <lauxlib.h>
#include <string.h>

#include "record/bits.h"
#include "base/sys.h"
#include "lua/record/largs.h"
#include "lua/symbol/lstack.h"
#include "lua/record/ltask.h"
#include "record/callchain.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.record"

/* clang-format off */
static const char *const generic_names[] = {
	[L_CODE_TYPE - PEV_F_NR] = "type",
	[L_CODE_NUMBER - PEV_F_NR] = "number",
	[L_CODE_SIZE - PEV_F_NR] = "size",
	[L_CODE_MISC - PEV_F_NR] = "misc",
	[L_CODE_CPUMODE - PEV_F_NR] = "cpumode",
	[L_CODE_BYTES - PEV_F_NR] = "bytes",
	[L_CODE_SAMPLE_ID - PEV_F_NR] = "sample_id",
	[L_CODE_EVENT - PEV_F_NR] = "event",
	[L_CODE_ARGS - PEV_F_NR] = "args",
	[L_CODE_COPY - PEV_F_NR] = "copy",
	[L_CODE_PMU_FORMAT - PEV_F_NR] = "pmu_format",
	[L_CODE_SYNTHESISED - PEV_F_NR] = "synthesised",
	[L_CODE_STACK - PEV_F_NR] = "stack",
	[L_CODE_SYMBOL - PEV_F_NR] = "symbol",
	[L_CODE_TASK - PEV_F_NR] = "task",
	[L_CODE_WALLTIME - PEV_F_NR] = "walltime",
};
/* clang-format on */

const char *l_view_field_name(int code)
{
	for (int flag = 0; code >= L_CODE_FLAG && pev_miscs[flag].name; flag++)
		if (flag == code - L_CODE_FLAG)
			return pev_miscs[flag].name;
	if (code >= PEV_F_NR && code < L_CODE_END)
		return generic_names[code - PEV_F_NR];
	return code > 0 && code < PEV_F_NR ? pev_field_names[code] : NULL;
}

int l_view_field_code(const char *name)
{
	for (int code = 1; code < L_CODE_NR; code++) {
		const char *known = l_view_field_name(code);

		if (known && strcmp(known, name) == 0)
			return code;
	}
	return 0;
}

/* Hash table: address of a name's string -> code. Open addressing, mostly free. */
#define PLACES 512u
struct l_view_place {
	const void *name; /* NULL: free */
	int code;
};
static const char places_key; /* registry key of that table */

static const struct l_view_place *place_of(const struct l_view_place *places, const void *name)
{
	uintptr_t at = (uintptr_t)name >> 4 ^ (uintptr_t)name >> 12;

	while (places[at % PLACES].name && places[at % PLACES].name != name)
		at++;
	return &places[at % PLACES];
}

/* Identifies a view: no other userdata of this size begins with this address. */
static const char is_view = 0;

/* Raises the reason why the value at arg is not a valid view. */
static __attribute__((noinline, noreturn)) void raise_invalid(lua_State *L, int arg,
							      const struct l_view *view)
{
	if (!view)
		luaL_typeerror(L, arg, TYPENAME);
	else if (view->gen != *view->now)
		luaL_error(L, "record used after its callback; keep r:copy()");
	else
		luaL_error(L, "record used in a process forked since; fork with r:copy()");
	__builtin_unreachable(); /* they raise */
}

/* Returns the valid view at arg. luaL_checkudata() would take three times as long. */
static inline struct l_view *check_at(lua_State *L, int arg)
{
	struct l_view *view = lua_touserdata(L, arg);

	if (!view || lua_rawlen(L, arg) != sizeof(*view) || view->kind != &is_view)
		raise_invalid(L, arg, NULL);
	if (view->gen != *view->now || (view->process && view->process != pev_sys_process()))
		raise_invalid(L, arg, view);
	return view;
}

static inline struct l_view *check_view(lua_State *L) { return check_at(L, 1); }

const struct l_view *l_view_check(lua_State *L, int arg) { return check_at(L, arg); }

static void push_u64_list(lua_State *L, const unsigned char *p, uint32_t nr, bool swap)
{
	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		lua_pushinteger(L, (lua_Integer)pev_load64(p + 8 * (size_t)i, swap));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

/* Pushes the list of that name from the table on top; creates it if missing. Returns its length. */
static int push_list(lua_State *L, const char *name)
{
	if (lua_getfield(L, -1, name) == LUA_TTABLE)
		return (int)lua_rawlen(L, -1);
	lua_pop(L, 1);
	lua_newtable(L);
	lua_pushvalue(L, -1);
	lua_setfield(L, -3, name);
	return 0;
}

/* Pushes { kernel = {ip...}, user = {ip...}, ..., raw = {every u64}[, cookie =] }. */
static void push_chain(lua_State *L, const struct pev_value *value, const struct pev_plan *plan)
{
	struct pev_chain chain = { .p = value->p, .nr = value->nr, .swap = plan->swap,
				   .narrow = plan->narrow };
	enum pev_chain_context context = PEV_CHAIN_NONE; /* whose list is on top */
	int top, nr = 0;

	lua_createtable(L, 0, 3);
	push_u64_list(L, value->p, value->nr, plan->swap);
	lua_setfield(L, -2, "raw");
	top = lua_gettop(L);
	while (pev_chain_next(&chain)) {
		if (chain.context != context) {
			lua_settop(L, top);
			context = chain.context;
			if (context != PEV_CHAIN_DEFERRED)
				nr = push_list(L, pev_chain_contexts[context]);
		}
		if (chain.is_marker)
			continue;
		lua_pushinteger(L, (lua_Integer)chain.ip);
		if (context == PEV_CHAIN_DEFERRED)
			lua_setfield(L, top, "cookie");
		else
			lua_rawseti(L, -2, ++nr);
	}
	lua_settop(L, top);
}

static void push_read_value(lua_State *L, const struct pev_read *read, uint64_t i)
{
	struct pev_read_value v = pev_read_at(read, i);

	lua_createtable(L, 0, 5);
	l_set_u64(L, "value", v.value);
	if (read->format & PERF_FORMAT_ID)
		l_set_u64(L, "id", v.id);
	if (read->format & PEV_FORMAT_LOST)
		l_set_u64(L, "lost", v.lost);
}

static void push_read(lua_State *L, const struct pev_record *rec, const struct pev_value *value)
{
	struct pev_read read;

	/* Cannot fail: the record was located. */
	pev_read_parse(&read, rec->plan->read_format, rec->plan->swap, value->p, value->len);
	if (read.format & PERF_FORMAT_GROUP) {
		lua_createtable(L, 0, 3);
		lua_createtable(L, (int)read.nr, 0);
		for (uint64_t i = 0; i < read.nr; i++) {
			push_read_value(L, &read, i);
			lua_rawseti(L, -2, (lua_Integer)i + 1);
		}
		lua_setfield(L, -2, "values");
	} else {
		push_read_value(L, &read, 0);
	}
	if (read.format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		l_set_u64(L, "time_enabled", read.time_enabled);
	if (read.format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		l_set_u64(L, "time_running", read.time_running);
}

static void push_bit_names(lua_State *L, const struct pev_bits_field *field, uint64_t v)
{
	lua_newtable(L);
	for (unsigned bit = 0; bit < field->nr; bit++) {
		if (!(v >> bit & 1))
			continue;
		l_set_boolean(L, field->names[bit], 1);
	}
}

static void push_bits_field(lua_State *L, const struct pev_bits_field *field, uint64_t v)
{
	switch (field->kind) {
	case PEV_B_FLAG:
		lua_pushboolean(L, v != 0);
		break;
	case PEV_B_SET:
		push_bit_names(L, field, v);
		break;
	case PEV_B_ENUM:
		if (v < field->nr && field->names[v]) {
			lua_pushstring(L, field->names[v]);
			break;
		}
		/* fall through */
	default:
		lua_pushinteger(L, (lua_Integer)v);
	}
}

/* Sets, in the table on top, every field of the word by its name, and raw to the word. */
static void set_bits(lua_State *L, const struct pev_bits_field *field, uint64_t word)
{
	const char *type = NULL;

	l_set_u64(L, "raw", word);
	for (; field->name; field++) {
		uint64_t v = pev_bits_get(word, field);

		if (field->extended && !(type && strcmp(type, "extend_abi") == 0))
			continue;
		if (strcmp(field->name, "type") == 0)
			type = field->names[v];
		push_bits_field(L, field, v);
		lua_setfield(L, -2, field->name);
	}
}

static void push_bits(lua_State *L, const struct pev_record *rec, enum pev_field field,
		      uint64_t word)
{
	const struct pev_bits *bits = &pev_weight_bits;

	if (field == PEV_F_DATA_SRC)
		bits = &pev_data_src_bits;
	else if (field == PEV_F_TRANSACTION)
		bits = &pev_transaction_bits;
	/* WEIGHT is one number, WEIGHT_STRUCT is three. */
	if (field == PEV_F_WEIGHT && !(rec->plan->sample_type & PEV_SAMPLE_WEIGHT_STRUCT)) {
		lua_pushinteger(L, (lua_Integer)word);
		return;
	}
	lua_createtable(L, 0, 12);
	set_bits(L, bits->fields, word);
}

static void push_branches(lua_State *L, const struct pev_value *value, bool swap)
{
	/* True if the writer was big-endian, whose bit fields are mirrored. */
	bool mirrored = swap == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	lua_createtable(L, (int)value->nr, 1);
	for (uint32_t i = 0; i < value->nr; i++) {
		const unsigned char *p = value->p + 24 * (size_t)i;
		uint64_t flags = pev_load64(p + 16, swap);

		lua_createtable(L, 0, 13);
		l_set_u64(L, "from", pev_load64(p, swap));
		l_set_u64(L, "to", pev_load64(p + 8, swap));
		set_bits(L, pev_branch_bits.fields, mirrored ? pev_branch_unmirror(flags) : flags);
		if (value->counters)
			l_set_u64(L, "counters", pev_load64(value->counters + 8 * (size_t)i, swap));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	if (value->hw_idx)
		l_set_u64(L, "hw_idx", value->extra);
}

/* Registry key of this machine's register names; before their first use, of a function. */
static const char registers_key;

/* Pushes the register names by mask bit: the view's own, or this machine's. */
static void push_register_names(lua_State *L, int at)
{
	if (lua_getiuservalue(L, at, 1) == LUA_TTABLE) {
		lua_getfield(L, -1, "registers");
		lua_remove(L, -2);
		if (lua_istable(L, -1))
			return;
	}
	lua_pop(L, 1);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &registers_key);
	if (lua_istable(L, -1))
		return;
	if (lua_isfunction(L, -1))
		lua_call(L, 0, 1);
	if (!lua_istable(L, -1)) {
		lua_pop(L, 1);
		lua_newtable(L);
	}
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &registers_key);
}

/* Pushes { abi = 2, ax = value, ... }. The key of an unnamed register is its bit number. */
static void push_regs(lua_State *L, int at, const struct pev_value *value, bool swap)
{
	uint32_t n = 0;

	push_register_names(L, at);
	lua_createtable(L, 0, (int)value->nr + 1);
	l_set_u64(L, "abi", value->extra);
	for (int bit = 0; bit < 64 && n < value->nr; bit++) {
		if (!(value->u >> bit & 1))
			continue;
		if (lua_rawgeti(L, -2, bit) == LUA_TNIL) {
			lua_pop(L, 1);
			lua_pushinteger(L, bit);
		}
		lua_pushinteger(L, (lua_Integer)pev_load64(value->p + 8 * (size_t)n++, swap));
		lua_rawset(L, -3);
	}
	lua_remove(L, -2);
}

static void push_namespaces(lua_State *L, const struct pev_value *value, bool swap)
{
	lua_createtable(L, 0, (int)value->nr);
	for (uint32_t i = 0; i < value->nr; i++) {
		lua_createtable(L, 0, 2);
		l_set_u64(L, "dev", pev_load64(value->p + 16 * (size_t)i, swap));
		l_set_u64(L, "inode", pev_load64(value->p + 16 * (size_t)i + 8, swap));
		if (i < PEV_NAMESPACES_NR)
			lua_setfield(L, -2, pev_namespace_names[i]);
		else
			lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

static void push_value(lua_State *L, int at, const struct pev_record *rec, enum pev_field field,
		       const struct pev_value *value)
{
	bool swap = rec->plan->swap;

	luaL_checkstack(L, 8, "record field");
	switch (value->kind) {
	case PEV_K_STRING:
	case PEV_K_BYTES:
	case PEV_K_STACK:
		lua_pushlstring(L, (const char *)value->p, value->len);
		break;
	case PEV_K_READ:
		push_read(L, rec, value);
		break;
	case PEV_K_CHAIN:
		push_chain(L, value, rec->plan);
		break;
	case PEV_K_BRANCH:
		push_branches(L, value, swap);
		break;
	case PEV_K_REGS:
		push_regs(L, at, value, swap);
		break;
	case PEV_K_NAMESPACES:
		push_namespaces(L, value, swap);
		break;
	case PEV_K_BITS:
		push_bits(L, rec, field, value->u);
		break;
	default:
		lua_pushinteger(L, (lua_Integer)value->u);
	}
}

static void push_sample_id(lua_State *L, int at, const struct pev_record *rec)
{
	struct pev_value value;

	lua_createtable(L, 0, 6);
	for (int f = PEV_F_IDENTIFIER; f <= PEV_F_CPU; f++) {
		if (!pev_record_trailer(rec, (enum pev_field)f, &value))
			continue;
		push_value(L, at, rec, (enum pev_field)f, &value);
		lua_setfield(L, -2, pev_field_names[f]);
	}
}

/* Pushes the task's name at the time of a record without a comm field. */
static void push_comm(lua_State *L, const struct l_view *view)
{
	struct pev_value tid;

	if (view->comm && pev_record_get(view->rec, PEV_F_TID, &tid))
		lua_pushstring(L, view->comm(view->ctx, (int)(int64_t)tid.u));
	else
		lua_pushnil(L);
}

static void push_body(lua_State *L, const struct pev_record *rec)
{
	if (rec->type == PERF_RECORD_SAMPLE)
		lua_pushnil(L);
	else
		lua_pushlstring(L, (const char *)rec->bytes + 8, rec->size - 8u);
}

static void push_slot_value(lua_State *L, int at, const struct l_view *view, int which)
{
	lua_getiuservalue(L, at, 1);
	lua_rawgeti(L, -1, 2 * (lua_Integer)view->slot + which);
	lua_remove(L, -2);
}

static void push_field(lua_State *L, int at, const struct l_view *view, enum pev_field field)
{
	struct pev_value value;
	uint64_t number;

	if (pev_record_number(view->rec, field, &number))
		lua_pushinteger(L, (lua_Integer)number);
	else if (pev_record_get(view->rec, field, &value))
		push_value(L, at, view->rec, field, &value);
	else if (field == PEV_F_COMM)
		push_comm(L, view);
	else if (field == PEV_F_PERIOD && pev_record_fixed_period(view->rec, &number))
		lua_pushinteger(L, (lua_Integer)number);
	else if (field == PEV_F_RAW)
		push_body(L, view->rec);
	else if (field == PEV_F_AUX && view->has_aux)
		push_slot_value(L, at, view, 2);
	else
		lua_pushnil(L);
}

/* Pushes the PMU-specific byte of an AUX record's flags (5.13). */
static void push_pmu_format(lua_State *L, const struct pev_record *rec)
{
	struct pev_value flags;

	if (rec->type == PERF_RECORD_AUX && pev_record_get(rec, PEV_F_FLAGS, &flags))
		lua_pushinteger(L, (lua_Integer)(flags.u >> 8 & 0xff));
	else
		lua_pushnil(L);
}

/* Pushes the stack, or the name of the function at ip. nil without tasks. */
static void push_place(lua_State *L, int at, const struct l_view *view, bool whole)
{
	if (!view->tasks) {
		lua_pushnil(L);
		return;
	}
	lua_getiuservalue(L, at, 1);
	if (whole)
		l_stack_push(L, -1, view->tasks, view->rec);
	else
		l_symbol_push(L, -1, view->tasks, view->rec);
	lua_remove(L, -2);
}

/* Pushes the task of the record's tid, with the record's comm; nil without a tid. */
static void push_task(lua_State *L, const struct l_view *view)
{
	struct pev_value pid, tid;
	struct pev_who who;

	if (!view->tasks || !pev_record_get(view->rec, PEV_F_TID, &tid) ||
	    !pev_record_get(view->rec, PEV_F_PID, &pid)) {
		lua_pushnil(L);
		return;
	}
	pev_tasks_who_of(view->tasks, (int)(int64_t)pid.u, (int)(int64_t)tid.u, &who);
	if (view->comm)
		who.comm = view->comm(view->ctx, who.tid);
	l_task_push_table(L, &who);
}

static void push_walltime(lua_State *L, int at, const struct l_view *view)
{
	uint64_t time;
	int top = lua_gettop(L);

	luaL_checkstack(L, 4, "walltime");
	lua_getiuservalue(L, at, 1);
	if (lua_getfield(L, -1, "wall_offsets") == LUA_TTABLE &&
	    lua_geti(L, -1, view->rec->plan->clock) == LUA_TNUMBER &&
	    pev_record_number(view->rec, PEV_F_TIME, &time))
		lua_pushinteger(L, (lua_Integer)((lua_Unsigned)lua_tointeger(L, -1) + time));
	else
		lua_pushnil(L);
	lua_replace(L, top + 1);
	lua_settop(L, top + 1);
}

static void push_generic(lua_State *L, int at, const struct l_view *view, int code)
{
	const struct pev_record *rec = view->rec;

	switch (code) {
	case L_CODE_TYPE:
		lua_pushstring(L, pev_layouts[rec->type < PEV_RECORD_NR ? rec->type : 0].name);
		break;
	case L_CODE_NUMBER:
		lua_pushinteger(L, rec->type);
		break;
	case L_CODE_SIZE:
		lua_pushinteger(L, rec->size);
		break;
	case L_CODE_MISC:
		lua_pushinteger(L, rec->misc);
		break;
	case L_CODE_CPUMODE:
		lua_pushstring(L, pev_cpumodes[rec->misc & PERF_RECORD_MISC_CPUMODE_MASK]);
		break;
	case L_CODE_BYTES:
		lua_pushlstring(L, (const char *)rec->bytes, rec->size);
		break;
	case L_CODE_SAMPLE_ID:
		push_sample_id(L, at, rec);
		break;
	case L_CODE_EVENT:
		push_slot_value(L, at, view, 1);
		break;
	case L_CODE_ARGS:
		if (view->has_args)
			push_slot_value(L, at, view, 2);
		else
			lua_pushnil(L);
		break;
	case L_CODE_PMU_FORMAT:
		push_pmu_format(L, rec);
		break;
	case L_CODE_SYNTHESISED:
		if (view->synthesised)
			lua_pushboolean(L, 1);
		else
			lua_pushnil(L);
		break;
	case L_CODE_STACK:
	case L_CODE_SYMBOL:
		push_place(L, at, view, code == L_CODE_STACK);
		break;
	case L_CODE_TASK:
		push_task(L, view);
		break;
	case L_CODE_WALLTIME:
		push_walltime(L, at, view);
		break;
	default:
		lua_pushvalue(L, lua_upvalueindex(3));
	}
}

static bool has_flag(const struct pev_record *rec, const struct pev_misc *flag)
{
	return rec->type < 32 && flag->types >> rec->type & 1;
}

static void push_flag(lua_State *L, const struct pev_record *rec, const struct pev_misc *flag)
{
	if (has_flag(rec, flag))
		lua_pushboolean(L, pev_record_flag(rec, flag));
	else
		lua_pushnil(L);
}

void l_view_push_value(lua_State *L, int at, const struct l_view *view, int code)
{
	if (code >= L_CODE_FLAG)
		push_flag(L, view->rec, &pev_miscs[code - L_CODE_FLAG]);
	else if (code < PEV_F_NR)
		push_field(L, at, view, (enum pev_field)code);
	else
		push_generic(L, at, view, code);
}

const char *l_view_field_of_other_tools(const char *name)
{
	static const char *const fields[][2] = {
		{ "nsecs", "time" }, { "probe", "event" }, { "sym", "symbol" },
		{ "usym", "symbol" }, { "ksym", "symbol" }, { "func", "symbol" },
		{ "dso", "symbol" }, { "exe", "comm" }, { "ret", "args.ret" },
		{ "retval", "args.ret" },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strcmp(fields[i][0], name) == 0)
			return fields[i][1];
	return NULL;
}

static int unknown_name(lua_State *L)
{
	const char *names[L_CODE_NR], *word = lua_tostring(L, 2), *near;
	size_t nr = 0;

	if (!word)
		return luaL_error(L, "a field's name is a string, not a %s",
				  luaL_typename(L, 2));
	lua_pushnil(L);
	while (lua_next(L, lua_upvalueindex(1)) && nr < sizeof(names) / sizeof(names[0])) {
		names[nr++] = lua_tostring(L, -2);
		lua_pop(L, 1);
	}
	near = l_view_field_of_other_tools(word);
	if (!near)
		near = pev_nearest(word, names, nr);
	if (near)
		return luaL_error(L, "no record has a field '%s' (did you mean '%s'?)", word, near);
	return luaL_error(L, "no record has a field '%s'", word);
}

static int l_view_index(lua_State *L)
{
	struct l_view *view = check_view(L);
	int code = place_of(view->places, lua_topointer(L, 2))->code;
	uint64_t number;

	if (!code)
		return unknown_name(L);
	if (code < PEV_F_NR && pev_record_number(view->rec, (enum pev_field)code, &number))
		lua_pushinteger(L, (lua_Integer)number);
	else
		l_view_push_value(L, 1, view, code);
	return 1;
}

static int l_view_newindex(lua_State *L)
{
	return luaL_error(L, "a record cannot be changed; r:copy() is a table of your own");
}

/*
 * Returns the n-th code of pairs() and copy(), or 0 at the end. The order: type, number,
 * the fields in writer order, comm if the record has no such field, flags.
 */
static int nth_code(const struct l_view *view, unsigned n)
{
	static const int first[] = { L_CODE_TYPE, L_CODE_NUMBER, L_CODE_SIZE, L_CODE_MISC,
				     L_CODE_CPUMODE };
	const unsigned nr_first = sizeof(first) / sizeof(first[0]);
	struct pev_value value;
	enum pev_field field;
	unsigned fields = 0;

	if (n < nr_first)
		return first[n];
	n -= nr_first;
	field = pev_record_nth(view->rec, n);
	if (field)
		return field;
	while (pev_record_nth(view->rec, fields))
		fields++;
	n -= fields;
	if (view->comm && pev_record_get(view->rec, PEV_F_TID, &value) &&
	    !pev_record_get(view->rec, PEV_F_COMM, &value) && n-- == 0)
		return PEV_F_COMM;
	for (int i = 0; pev_miscs[i].name; i++)
		if (has_flag(view->rec, &pev_miscs[i]) && n-- == 0)
			return L_CODE_FLAG + i;
	if (view->rec->type == PERF_RECORD_AUX && n == 0)
		return L_CODE_PMU_FORMAT;
	/* Only the body of an unknown type can be read. */
	if ((view->rec->type == 0 || view->rec->type >= PEV_RECORD_NR) && n == 0)
		return PEV_F_RAW;
	return 0;
}

/* The iterator. Its state is the view; upvalue 3 counts. */
static int l_view_next(lua_State *L)
{
	struct l_view *view = check_view(L);
	lua_Integer n = lua_tointeger(L, lua_upvalueindex(3));
	int code = nth_code(view, (unsigned)n);

	lua_pushinteger(L, n + 1);
	lua_replace(L, lua_upvalueindex(3));
	if (!code)
		return 0;
	lua_pushstring(L, l_view_field_name(code));
	l_view_push_value(L, 1, view, code);
	return 2;
}

static int l_view_pairs(lua_State *L)
{
	check_view(L);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushvalue(L, lua_upvalueindex(2));
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_view_next, 3);
	lua_pushvalue(L, 1);
	return 2;
}

/* r:copy() -> a plain table: the pairs of pairs(), event, sample_id, stack, period, args */
static int l_view_copy(lua_State *L)
{
	struct l_view *view = check_view(L);
	int code;

	lua_settop(L, 1);
	lua_createtable(L, 0, 24);
	for (unsigned n = 0; (code = nth_code(view, n)) != 0; n++) {
		l_view_push_value(L, 1, view, code);
		lua_setfield(L, 2, l_view_field_name(code));
	}
	push_sample_id(L, 1, view->rec);
	lua_setfield(L, 2, "sample_id");
	push_slot_value(L, 1, view, 1);
	lua_setfield(L, 2, "event");
	push_place(L, 1, view, true);
	lua_setfield(L, 2, "stack");
	push_field(L, 1, view, PEV_F_PERIOD); /* includes the attr's fixed period */
	lua_setfield(L, 2, "period");
	if (view->has_args) {
		push_slot_value(L, 1, view, 2);
		l_args_push_table(L, lua_touserdata(L, -1));
		lua_setfield(L, 2, "args");
	}
	lua_settop(L, 2);
	return 1;
}

/* Pushes the table of all names, which keeps the strings. The registry keeps the hash table. */
static void push_names(lua_State *L)
{
	struct l_view_place *places;

	lua_createtable(L, 0, 128);
	places = lua_newuserdatauv(L, PLACES * sizeof(*places), 1);
	memset(places, 0, PLACES * sizeof(*places));
	for (int code = 1; code < L_CODE_NR; code++) {
		const void *name;

		if (!l_view_field_name(code))
			continue;
		lua_pushstring(L, l_view_field_name(code));
		name = lua_topointer(L, -1);
		places[place_of(places, name) - places] = (struct l_view_place){ name, code };
		lua_pushinteger(L, code);
		lua_rawset(L, -4);
	}
	lua_pushvalue(L, -2);
	lua_setiuservalue(L, -2, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &places_key);
}

static const luaL_Reg metamethods[] = {
	{ "__index", l_view_index },
	{ "__newindex", l_view_newindex },
	{ "__pairs", l_view_pairs },
	{ NULL, NULL },
};

/* core.record_tostring(f): sets the __tostring of records. The Lua module calls it once. */
static int l_record_tostring(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	luaL_getmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setfield(L, -2, "__tostring");
	return 0;
}

/* core.record_registers(f): f returns this machine's register names, by mask bit, or nil. */
static int l_record_registers(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_pushvalue(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &registers_key);
	return 0;
}

void l_view_register(lua_State *L)
{
	luaL_newmetatable(L, TYPENAME);
	/* Upvalues of all metamethods: names, the metatable, copy(). */
	push_names(L);
	lua_pushvalue(L, -2);
	lua_pushvalue(L, -2);
	lua_pushvalue(L, -2);
	lua_pushcclosure(L, l_view_copy, 2);
	luaL_setfuncs(L, metamethods, 3);
	l_set_boolean(L, "__metatable", 0);
	lua_pop(L, 1);
	l_set_function(L, "record_tostring", l_record_tostring);
	l_set_function(L, "record_registers", l_record_registers);
}

struct l_view *l_view_push(lua_State *L, int idx, const uint64_t *now)
{
	struct l_view *view;

	idx = lua_absindex(L, idx);
	view = lua_newuserdatauv(L, sizeof(*view), 1);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &places_key);
	*view = (struct l_view){ .kind = &is_view, .places = lua_touserdata(L, -1), .now = now,
				 .gen = *now - 1 };
	lua_pop(L, 1);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, idx);
	lua_setiuservalue(L, -2, 1);
	return view;
}
