/*
 * lrecord_value.c - reads a record's value by name; see lrecord_value.h.
 */
#include "lua/record/lrecord_value.h"

#include <errno.h>
#include <string.h>

#include "symbol/unwind.h"
#include "lua/record/largs.h"
#include "lua/symbol/lstack.h"
#include "lua/record/lrecord.h"

/* Fields that are tables in Lua: neither a key nor a number. */
static const enum pev_field table_fields[] = {
	PEV_F_READ, PEV_F_CALLCHAIN, PEV_F_BRANCH_STACK, PEV_F_REGS_USER, PEV_F_REGS_INTR,
	PEV_F_NAMESPACES, PEV_F_DATA_SRC, PEV_F_TRANSACTION,
};
/* PEV_K_S32 in record.c; all other numbers are unsigned. */
static const enum pev_field signed_fields[] = {
	PEV_F_PID, PEV_F_TID, PEV_F_CPU, PEV_F_PPID, PEV_F_PTID, PEV_F_NEXT_PREV_PID,
	PEV_F_NEXT_PREV_TID,
};
static const enum pev_field string_fields[] = {
	PEV_F_RAW, PEV_F_STACK_USER, PEV_F_FILENAME, PEV_F_COMM, PEV_F_BUILD_ID, PEV_F_NAME,
	PEV_F_TAG, PEV_F_PATH, PEV_F_OLD_BYTES, PEV_F_NEW_BYTES, PEV_F_AUX,
};

#define IS_AMONG(list, code) is_among(list, sizeof(list) / sizeof((list)[0]), code)

static bool is_among(const enum pev_field *list, size_t nr, int code)
{
	for (size_t i = 0; i < nr; i++)
		if ((int)list[i] == code)
			return true;
	return false;
}

bool l_value_is_stack(const struct l_field *source)
{
	return source->code == L_CODE_STACK || source->code == L_CODE_SYMBOL ||
	       source->code >= L_VALUE_USTACK;
}

bool l_value_is_of_record(const struct l_field *source)
{
	if (source->payload)
		return !source->is_text; /* a text also has names of functions */
	return !(l_value_is_stack(source) || source->code == PEV_F_COMM ||
		 source->code == L_VALUE_CGROUP);
}

bool l_value_is_unsigned(const struct l_field *source)
{
	/* A narrower unsigned field fits in int64_t, so a signed comparison is right for it. */
	if (source->payload)
		return source->field && source->field->elem == sizeof(uint64_t) &&
		       !(source->field->flags & PEV_TP_SIGNED);
	return !IS_AMONG(signed_fields, source->code);
}

struct l_field l_value_find(const char *name)
{
	static const char *const names[] = { "cgroup", "ustack", "kstack", "line", "caller" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (struct l_field){ .code = L_VALUE_CGROUP + (int)i };
	return l_field_find(name);
}

static bool is_code(int code)
{
	switch (code) {
	case L_CODE_TYPE:
	case L_CODE_NUMBER:
	case L_CODE_SIZE:
	case L_CODE_MISC:
	case L_CODE_CPUMODE:
	case L_CODE_EVENT:
	case L_CODE_STACK:
	case L_CODE_SYMBOL:
		return true;
	default:
		return (code > 0 && code < PEV_F_NR && !IS_AMONG(table_fields, code)) ||
		       code >= L_CODE_FLAG;
	}
}

bool l_value_is_valid(const struct l_field *source)
{
	return source->payload || is_code(source->code);
}

int l_value_push_refusal(lua_State *L, const char *name)
{
	const char *near = l_view_field_of_other_tools(name);

	if (!near)
		near = l_field_nearest(name, is_code);
	lua_pushnil(L);
	if (IS_AMONG(table_fields, l_view_field_code(name)) ||
	    l_view_field_code(name) == L_CODE_TASK)
		lua_pushfstring(L, "'%s' is neither a number nor a string", name);
	else if (strncmp(name, "args->", 6) == 0)
		lua_pushfstring(L, "no record has a field '%s' (did you mean 'args.%s'?)", name,
				name + 6);
	else if (near)
		lua_pushfstring(L, "no record has a field '%s' (did you mean '%s'?)", name, near);
	else
		lua_pushfstring(L, "no record has a field '%s' (a payload's are args.NAME)", name);
	return 2;
}

static const char *kind_of(const struct l_field *source)
{
	if (l_value_is_stack(source))
		return "stack";
	if (source->code >= L_CODE_FLAG && source->code < L_CODE_NR)
		return "boolean";
	if (source->payload && !source->is_text)
		return "payload";
	if (source->code == L_CODE_TYPE || source->code == L_CODE_CPUMODE ||
	    source->code == L_CODE_EVENT || source->code == L_VALUE_CGROUP || source->is_text ||
	    IS_AMONG(string_fields, source->code))
		return "string";
	return "number";
}

int l_value_kind(lua_State *L)
{
	const char *name = lua_tostring(L, 1);
	struct l_field source = l_value_find(name ? name : "");

	if (!l_value_is_valid(&source))
		return l_value_push_refusal(L, name ? name : "?");
	lua_pushstring(L, kind_of(&source));
	l_field_push_payload_name(L, &source);
	return 2;
}

/* ---- once per record ---- */

static struct pev_key_part integer_part(uint64_t value)
{
	return (struct pev_key_part){ .type = PEV_KEY_INTEGER, .integer = (int64_t)value };
}

static struct pev_key_part string_part(const char *p)
{
	return (struct pev_key_part){ .type = PEV_KEY_STRING,
				      .p = (const unsigned char *)p,
				      .len = (uint32_t)strlen(p) };
}

static const struct pev_key_part absent = { .type = PEV_KEY_END };
/* The record has the value, but memory ran out. */
static const struct pev_key_part no_memory = { .type = PEV_KEY_POINTER };

static struct pev_key_part read_value(const struct pev_record *rec, enum pev_field field)
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
		return integer_part(value.u);
	if (value.kind != PEV_K_STRING && value.kind != PEV_K_BYTES && value.kind != PEV_K_STACK)
		return absent;
	return (struct pev_key_part){ .type = PEV_KEY_STRING, .p = value.p, .len = value.len };
}

static struct pev_key_part read_field(const struct l_view *view, enum pev_field field)
{
	struct pev_key_part part;
	struct pev_value tid;
	const char *comm;
	uint64_t number;

	if (pev_record_number(view->rec, field, &number))
		return integer_part(number);
	part = read_value(view->rec, field);
	if (field == PEV_F_PERIOD && pev_record_fixed_period(view->rec, &number))
		return integer_part(number);
	if (part.type != PEV_KEY_END || field != PEV_F_COMM || !view->comm)
		return part;
	if (!pev_record_get(view->rec, PEV_F_TID, &tid))
		return absent;
	comm = view->comm(view->ctx, (int)(int64_t)tid.u);
	return comm ? string_part(comm) : absent;
}

static struct pev_key_part read_flag(const struct pev_record *rec, const struct pev_misc *flag)
{
	if (rec->type >= 32 || !(flag->types >> rec->type & 1))
		return absent;
	return (struct pev_key_part){ .type = pev_record_flag(rec, flag) ? PEV_KEY_TRUE :
									    PEV_KEY_FALSE };
}

static struct pev_key_part read_payload(const struct pev_tp_field *field, const struct l_args *args)
{
	struct pev_tp_value value;

	if (!field || pev_tp_get(args->tp, field, args->raw, args->len, &value) < 0)
		return absent;
	if (!(field->flags & PEV_TP_ARRAY))
		return integer_part((uint64_t)value.i);
	if (field->elem != 1)
		return absent;
	return (struct pev_key_part){ .type = PEV_KEY_STRING, .p = value.p, .len = value.len };
}

static struct pev_key_part read_text(const struct pev_tp_field *field, const struct l_args *args)
{
	size_t len;

	if (!field || !pev_tp_print_field(args->tp, field, args->raw, args->len, args->text,
					  L_ARGS_TEXT_MAX, &len))
		return absent;
	return string_part(args->text);
}

static int take_stack(const struct l_current *current, int code, const struct pev_stack **stack)
{
	struct pev_stacks *stacks = current->stacks;
	const struct l_view *view = current->view;
	int rc;

	if (code == L_VALUE_KSTACK)
		return pev_stacks_kernel(stacks, view->tasks, view->rec, stack);
	rc = l_stack_read_dumps(current->L, current->context, view->tasks, view->rec);
	if (rc < 0)
		return rc;
	if (code == L_CODE_SYMBOL || code == L_VALUE_LINE)
		return pev_stacks_ip(stacks, view->tasks, view->rec, stack);
	/* Unwinding needs files, which Lua finds. */
	if (pev_unwind_wanted(view->rec))
		rc = l_stack_take(current->L, current->context, view->tasks, view->rec, stack);
	else
		rc = pev_stacks_take(stacks, view->tasks, view->rec, NULL, stack);
	if (rc == 0 && *stack && code == L_VALUE_USTACK) {
		*stack = pev_stacks_user(stacks, *stack);
		rc = *stack ? 0 : -ENOMEM;
	}
	return rc;
}

/* A symbol is kept as a stack of one frame and named when it is read. */
static struct pev_key_part read_stack(const struct l_current *current, int code)
{
	const struct pev_stack *stack = NULL;

	if (!current->stacks || (!current->view->tasks && code != L_VALUE_KSTACK))
		return absent;
	if (take_stack(current, code, &stack) < 0)
		return no_memory;
	return stack ? (struct pev_key_part){ .type = PEV_KEY_POINTER, .pointer = stack } : absent;
}

/* Records of kernels before 5.7 have no cgroup: it is that of the process. */
static struct pev_key_part read_cgroup(const struct l_view *view)
{
	uint64_t id, pid;
	const char *path = NULL;

	if (!view->tasks)
		return absent;
	if (pev_record_number(view->rec, PEV_F_CGROUP, &id))
		path = pev_tasks_cgroup(view->tasks, id);
	else if (pev_record_number(view->rec, PEV_F_PID, &pid))
		path = pev_tasks_cgroup_of(view->tasks, (int)(int64_t)pid);
	return path ? string_part(path) : absent;
}

struct pev_key_part l_value_read(const struct l_field *source, const struct l_current *current)
{
	const struct pev_record *rec = current->view->rec;

	if (source->is_text)
		return current->args ? read_text(source->field, current->args) : absent;
	if (source->payload)
		return current->args ? read_payload(source->field, current->args) : absent;
	if (l_value_is_stack(source))
		return read_stack(current, source->code);
	if (source->code < PEV_F_NR)
		return read_field(current->view, (enum pev_field)source->code);
	if (source->code == L_VALUE_CGROUP)
		return read_cgroup(current->view);
	if (source->code >= L_CODE_FLAG)
		return read_flag(rec, &pev_miscs[source->code - L_CODE_FLAG]);
	switch (source->code) {
	case L_CODE_TYPE:
		return string_part(pev_layouts[rec->type < PEV_RECORD_NR ? rec->type : 0].name);
	case L_CODE_NUMBER:
		return integer_part(rec->type);
	case L_CODE_SIZE:
		return integer_part(rec->size);
	case L_CODE_MISC:
		return integer_part(rec->misc);
	case L_CODE_CPUMODE:
		return string_part(pev_cpumodes[rec->misc & PERF_RECORD_MISC_CPUMODE_MASK]);
	case L_CODE_EVENT:
		return string_part(current->event);
	default:
		return absent;
	}
}
