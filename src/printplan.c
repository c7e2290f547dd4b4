/*
 * printplan.c - a print format made into a list of steps; see printplan.h.
 *
 * Numbers are worked out on a small stack, as eval_num_arg() in libtraceevent's event-parse.c
 * does, and strings are written as print_str_arg() does; spec/printplan_spec.lua holds
 * both against libtraceevent itself. Both sides of a "?" are worked out: there is nothing in them
 * that could fail.
 */
#include "printplan.h"

#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>

enum {
	STEPS_MAX = 1024, /* of a plan */
	STACK_MAX = 16,   /* numbers, of which each record has a stack of zeros */
	DEPTH_MAX = 32    /* of strings in strings */
};

enum code {
	/* numbers */
	PUSH,        /* value */
	LOAD,        /* size bytes at offset */
	LENGTH,      /* upper half of the u32 at offset: bytes of a dynamic field */
	MASK,        /* a cast: & value */
	NOT, INVERT, /* of the upper one of two, as libtraceevent has them */
	EQUAL, UNLIKE, LESS, MORE, AT_MOST, AT_LEAST,
	OR, AND, BOTH, EITHER, ADD, SUBTRACT, MULTIPLY, DIVIDE, REST, LEFT, RIGHT,
	CHOOSE,      /* of three: the second where the first is not 0, or the third */
	/* text; what takes a number finds it alone on the stack */
	LITERAL,     /* size bytes at string, as pev_text_put_short() wants them */
	NUMBER,
	POINTER,     /* "%p" */
	FUNCTION,    /* "%ps"; value: with the offset into it */
	STRING,      /* string itself */
	ARRAY,       /* size bytes at offset */
	DYNAMIC,     /* what the u32 at offset leads to; value: from where on */
	FLAGS,       /* those of size names that are set; string stands between them */
	SYMBOL,      /* that one of size names */
	SKIP_UNLESS, /* size steps, where the number is 0 */
	SKIP         /* size steps */
};

struct name {
	int64_t value;
	const char *string;
};

struct step {
	enum code code;
	uint32_t offset, size;
	uint64_t value;
	const char *string;
	struct name *names;
	struct pev_conversion conversion;
};

struct pev_printplan {
	bool swap;
	uint32_t nr, cap;
	struct step *steps;
};

/* ---- making one ---- */

struct making {
	struct pev_printplan *plan;
	const struct pev_tracepoint *tp;
	uint32_t long_size;
	int depth; /* numbers on the stack */
	struct pev_conversion conversion; /* of the argument at hand */
};

/* One step more, zeroed, of the conversion at hand; NULL: too many, or no memory. */
static struct step *add(struct making *m, enum code code)
{
	struct pev_printplan *plan = m->plan;
	struct step *steps = plan->steps;

	if (plan->nr == plan->cap) {
		uint32_t cap = plan->cap ? 2 * plan->cap : 16;

		steps = cap <= STEPS_MAX ? realloc(steps, sizeof(*steps) * cap) : NULL;
		if (!steps)
			return NULL;
		plan->steps = steps;
		plan->cap = cap;
	}
	steps += plan->nr++;
	*steps = (struct step){ .code = code };
	if (code > CHOOSE)
		steps->conversion = m->conversion;
	return steps;
}

static bool push(struct making *m, uint64_t value)
{
	struct step *step = ++m->depth <= STACK_MAX ? add(m, PUSH) : NULL;

	if (step)
		step->value = value;
	return step;
}

static bool load(struct making *m, enum code code, uint32_t offset, uint32_t size)
{
	struct step *step = ++m->depth <= STACK_MAX ? add(m, code) : NULL;

	if (step) {
		step->offset = offset;
		step->size = size;
	}
	return step;
}

static const struct pev_tp_field *field_of(const struct making *m,
					   const struct tep_format_field *field)
{
	return field ? pev_tp_field(m->tp, field->name) : NULL;
}

static bool is_dynamic(const struct pev_tp_field *field)
{
	return field && pev_tp_is_dynamic(field) && field->size == 4;
}

/* What a cast leaves of a number; false: all of it. eval_type_str() */
static bool mask_of(const char *type, uint64_t *mask)
{
	static const struct {
		const char *type;
		uint64_t mask;
	} casts[] = {
		{ "u8", 0xff },
		{ "s8", 0xff },
		{ "char", 0xff },
		{ "u16", 0xffff },
		{ "s16", 0xffff },
		{ "short", 0xffff },
		{ "u32", 0xffffffff },
		{ "s32", 0xffffffff },
		{ "int", 0xffffffff },
	};

	if (strncmp(type, "unsigned ", 9) == 0)
		type += 9;
	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
		*mask = casts[i].mask;
		if (strcmp(casts[i].type, type) == 0)
			return true;
	}
	return false;
}

static bool make_number(struct making *m, const struct tep_print_arg *arg);

static bool make_cast(struct making *m, const struct tep_print_arg *arg)
{
	struct step *step;
	uint64_t mask;

	if (!make_number(m, arg->typecast.item))
		return false;
	if (!mask_of(arg->typecast.type, &mask))
		return true;
	step = add(m, MASK);
	if (step)
		step->value = mask;
	return step;
}

/* REC->args[2], of an array that has as many. */
static bool make_element(struct making *m, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *array = arg->op.left, *index = arg->op.right;
	const struct tep_format_field *field;
	uint64_t i, elem;

	if (array->type != TEP_PRINT_FIELD || index->type != TEP_PRINT_ATOM)
		return false;
	field = array->field.field;
	i = strtoull(index->atom.atom, NULL, 0);
	if (!field || i >= (1 << 16))
		return false;
	elem = field->elementsize;
	return elem && (i + 1) * elem <= (uint64_t)field->size &&
	       load(m, LOAD, (uint32_t)((uint64_t)field->offset + i * elem), (uint32_t)elem);
}

static bool make_choice(struct making *m, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *sides = arg->op.right;

	if (!make_number(m, arg->op.left) || !make_number(m, sides->op.left) ||
	    !make_number(m, sides->op.right) || !add(m, CHOOSE))
		return false;
	m->depth -= 2;
	return true;
}

static bool make_operation(struct making *m, const struct tep_print_arg *arg)
{
	static const struct {
		const char *op;
		enum code code;
	} codes[] = {
		{ "!", NOT },
		{ "~", INVERT },
		{ "==", EQUAL },
		{ "!=", UNLIKE },
		{ "<", LESS },
		{ ">", MORE },
		{ "<=", AT_MOST },
		{ ">=", AT_LEAST },
		{ "|", OR },
		{ "&", AND },
		{ "&&", BOTH },
		{ "||", EITHER },
		{ "+", ADD },
		{ "-", SUBTRACT },
		{ "*", MULTIPLY },
		{ "/", DIVIDE },
		{ "%", REST },
		{ "<<", LEFT },
		{ ">>", RIGHT },
	};

	if (strcmp(arg->op.op, "[") == 0)
		return make_element(m, arg);
	if (strcmp(arg->op.op, "?") == 0)
		return make_choice(m, arg);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (strcmp(codes[i].op, arg->op.op) != 0)
			continue;
		if (!make_number(m, arg->op.left) || !make_number(m, arg->op.right))
			return false;
		m->depth--;
		return add(m, codes[i].code);
	}
	return false;
}

/* The steps that leave its value on the stack. The tree is as deep as printfmt.c has let it be. */
static bool make_number(struct making *m, const struct tep_print_arg *arg)
{
	const struct pev_tp_field *field;

	switch (arg->type) {
	case TEP_PRINT_NULL:
		return push(m, 0);
	case TEP_PRINT_ATOM:
		return push(m, strtoull(arg->atom.atom, NULL, 0));
	case TEP_PRINT_FIELD:
		field = field_of(m, arg->field.field);
		return field && load(m, LOAD, field->offset, field->size);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		field = field_of(m, arg->dynarray.field);
		return is_dynamic(field) && load(m, LENGTH, field->offset, 4);
	case TEP_PRINT_TYPE:
		return make_cast(m, arg);
	case TEP_PRINT_OP:
		return make_operation(m, arg);
	default:
		return false;
	}
}

/* ---- text ---- */

static bool make_text(struct making *m, const struct tep_print_arg *arg, int depth);

static bool make_array(struct making *m, const struct pev_tp_field *field)
{
	struct step *step;

	/* A number as long as a pointer is one, to a string that libtraceevent may have. */
	if (!field || !field->size ||
	    (!(field->flags & PEV_TP_ARRAY) && field->size == m->long_size))
		return false;
	step = add(m, ARRAY);
	if (step) {
		step->offset = field->offset;
		step->size = field->size;
	}
	return step;
}

static bool make_dynamic(struct making *m, const struct pev_tp_field *field)
{
	struct step *step = is_dynamic(field) ? add(m, DYNAMIC) : NULL;

	if (step) {
		step->offset = field->offset;
		step->value = field->flags & PEV_TP_REL_LOC ? field->offset + field->size : 0;
	}
	return step;
}

/* eval_flag(): -1 for a name that is not known. */
static int64_t flag_value(const char *text)
{
	static const char *const softirqs[] = { "HI_SOFTIRQ", "TIMER_SOFTIRQ", "NET_TX_SOFTIRQ",
						"NET_RX_SOFTIRQ", "BLOCK_SOFTIRQ",
						"IRQ_POLL_SOFTIRQ", "TASKLET_SOFTIRQ",
						"SCHED_SOFTIRQ", "HRTIMER_SOFTIRQ", "RCU_SOFTIRQ" };

	if (*text >= '0' && *text <= '9')
		return (int64_t)strtoull(text, NULL, 0);
	for (size_t i = 0; i < sizeof(softirqs) / sizeof(softirqs[0]); i++)
		if (strcmp(softirqs[i], text) == 0)
			return (int64_t)i;
	if (strcmp(text, "HRTIMER_NORESTART") == 0)
		return 0;
	return strcmp(text, "HRTIMER_RESTART") == 0 ? 1 : -1;
}

/* FLAGS or SYMBOL, of a number. */
static bool make_names(struct making *m, enum code code, const struct tep_print_arg *number,
		       const struct tep_print_flag_sym *list, const char *between)
{
	struct step *step = make_number(m, number) ? add(m, code) : NULL;
	uint32_t nr = 0;

	m->depth = 0;
	if (!step)
		return false;
	for (const struct tep_print_flag_sym *one = list; one; one = one->next)
		nr++;
	step->string = between ? between : "";
	step->names = malloc(sizeof(*step->names) * (nr + 1));
	if (!step->names)
		return false;
	for (; list; list = list->next)
		step->names[step->size++] = (struct name){ flag_value(list->value), list->str };
	return true;
}

/* condition ? string : string */
static bool make_strings(struct making *m, const struct tep_print_arg *arg, int depth)
{
	struct pev_printplan *plan = m->plan;
	uint32_t unless, skip;

	if (strcmp(arg->op.op, "?") != 0 || !make_number(m, arg->op.left) || !add(m, SKIP_UNLESS))
		return false;
	m->depth = 0;
	unless = plan->nr - 1;
	if (!make_text(m, arg->op.right->op.left, depth) || !add(m, SKIP))
		return false;
	skip = plan->nr - 1;
	plan->steps[unless].size = plan->nr - unless - 1;
	if (!make_text(m, arg->op.right->op.right, depth))
		return false;
	plan->steps[skip].size = plan->nr - skip - 1;
	return true;
}

/* What "%s" is given. */
static bool make_text(struct making *m, const struct tep_print_arg *arg, int depth)
{
	struct step *step;

	if (depth == DEPTH_MAX)
		return false;
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		step = add(m, STRING);
		if (step)
			step->string = arg->atom.atom;
		return step;
	case TEP_PRINT_FIELD:
		return make_array(m, field_of(m, arg->field.field));
	case TEP_PRINT_STRING:
		return make_dynamic(m, pev_tp_field(m->tp, arg->string.string));
	case TEP_PRINT_FLAGS:
		return make_names(m, FLAGS, arg->flags.field, arg->flags.flags, arg->flags.delim);
	case TEP_PRINT_SYMBOL:
		return make_names(m, SYMBOL, arg->symbol.field, arg->symbol.symbols, NULL);
	case TEP_PRINT_OP:
		return make_strings(m, arg, depth + 1);
	default:
		return false;
	}
}

/* "%p" and what libtraceevent knows behind it, at *p; the number is on the stack. */
static bool make_pointer(struct making *m, const char **p)
{
	struct step *step;

	if (**p && strchr("MmIiUh", **p))
		return false;
	if (!**p || !strchr("FfSs", **p))
		return add(m, POINTER);
	step = add(m, FUNCTION);
	if (step)
		step->value = **p == 'F' || **p == 'S';
	(*p)++;
	return step;
}

/* *p is at a "%"; it and *arg are stepped over. */
static bool make_conversion(struct making *m, const char **p, const struct tep_print_arg **arg)
{
	const struct tep_print_arg *one = *arg;
	size_t len;
	bool made;

	if (!one)
		return false;
	*arg = one->next;
	if ((*p)[1] == 'p') {
		*p += 2;
		made = make_number(m, one) && make_pointer(m, p);
		m->depth = 0;
		return made;
	}
	len = pev_conversion_read(&m->conversion, *p, *p + strlen(*p));
	*p += len;
	if (len == 0)
		return false;
	if (m->conversion.letter == 's')
		return make_text(m, one, 0);
	made = make_number(m, one) && add(m, NUMBER);
	m->depth = 0;
	return made;
}

/* What stands up to the next conversion; parse_arg_string() */
static bool make_literal(struct making *m, const char **p)
{
	struct step *step = add(m, LITERAL);
	char *string = calloc(1, strlen(*p) + PEV_TEXT_SHORT);

	if (!step || !string) {
		free(string);
		return false;
	}
	step->string = string;
	for (; **p && (**p != '%' || (*p)[1] == '%'); (*p)++) {
		char ch = **p;

		if (ch == '%')
			(*p)++;
		if (ch == '\\') {
			ch = *++*p;
			ch = ch == 'n' ? '\n' : ch == 't' ? '\t'
					: ch == 'r'	  ? '\r'
							  : ch;
		}
		if (!ch)
			return false;
		string[step->size++] = ch;
	}
	return true;
}

static bool make(struct making *m, const struct tep_event *event)
{
	const struct tep_print_arg *arg = event->print_fmt.args;
	const char *p = event->print_fmt.format;

	while (*p)
		if (*p == '%' && p[1] != '%' ? !make_conversion(m, &p, &arg) : !make_literal(m, &p))
			return false;
	return true;
}

struct pev_printplan *pev_printplan_new(const struct pev_tracepoint *tp,
					const struct tep_event *event, uint32_t long_size)
{
	struct pev_printplan *plan = calloc(1, sizeof(*plan));
	struct making m = { .plan = plan, .tp = tp, .long_size = long_size };

	/* Where a long has 4 bytes libtraceevent cuts numbers that we do not. */
	if (plan && sizeof(long) == 8 && make(&m, event)) {
		plan->swap = tp->swap;
		return plan;
	}
	pev_printplan_free(plan);
	return NULL;
}

void pev_printplan_free(struct pev_printplan *plan)
{
	union {
		const char *in;
		char *out;
	} unconst;

	if (!plan)
		return;
	for (uint32_t i = 0; i < plan->nr; i++) {
		unconst.in = plan->steps[i].code == LITERAL ? plan->steps[i].string : NULL;
		free(unconst.out);
		free(plan->steps[i].names);
	}
	free(plan->steps);
	free(plan);
}

/* ---- running one ---- */

static void put_string(struct pev_text *text, const struct step *step, const char *string)
{
	pev_text_string(text, &step->conversion, string, strlen(string));
}

static void put_flags(struct pev_text *text, const struct step *step, int64_t value)
{
	bool any = false;

	for (uint32_t i = 0; i < step->size; i++) {
		const struct name *name = &step->names[i];

		if (!value && name->value < 0) {
			put_string(text, step, name->string);
			break;
		}
		if (name->value <= 0 || (value & name->value) != name->value)
			continue;
		if (any)
			pev_text_put(text, step->string, strlen(step->string));
		put_string(text, step, name->string);
		any = true;
		value &= ~name->value;
	}
	if (value && any)
		pev_text_put(text, step->string, strlen(step->string));
	if (value)
		pev_text_hex(text, (uint64_t)value);
}

static void put_symbol(struct pev_text *text, const struct step *step, int64_t value)
{
	for (uint32_t i = 0; i < step->size; i++) {
		if (step->names[i].value == value) {
			put_string(text, step, step->names[i].string);
			return;
		}
	}
	pev_text_hex(text, (uint64_t)value);
}

/* print_function() */
static void put_function(struct pev_text *text, const struct step *step, uint64_t value,
			 pev_printplan_fn symbol, void *ctx)
{
	uint64_t start = value;
	const char *name = symbol ? symbol(ctx, value, &start) : NULL;

	if (!name) {
		pev_text_hex(text, value);
		return;
	}
	pev_text_put(text, name, strlen(name));
	if (step->value) {
		pev_text_char(text, '+');
		pev_text_hex(text, value - start);
	}
}

/* False: it has no NUL, or is empty, and what libtraceevent makes of that is its affair. */
static bool put_dynamic(struct pev_text *text, const struct step *step, const unsigned char *raw,
			bool swap)
{
	uint32_t loc = (uint32_t)pev_tp_load(raw + step->offset, 4, swap);
	const char *string = (const char *)raw + (loc & 0xffff) + step->value;

	if (!memchr(string, 0, loc >> 16))
		return false;
	put_string(text, step, string);
	return true;
}

static uint64_t combine(enum code code, uint64_t left, uint64_t right)
{
	switch (code) {
	case NOT:
		return !right;
	case INVERT:
		return ~right;
	case EQUAL:
		return left == right;
	case UNLIKE:
		return left != right;
	case LESS:
		return left < right;
	case MORE:
		return left > right;
	case AT_MOST:
		return left <= right;
	case AT_LEAST:
		return left >= right;
	case OR:
		return left | right;
	case AND:
		return left & right;
	case BOTH:
		return left && right;
	case EITHER:
		return left || right;
	case ADD:
		return left + right;
	case SUBTRACT:
		return left - right;
	case MULTIPLY:
		return left * right;
	case DIVIDE: /* tracepoint.c has seen that it is a constant, and not 0 */
		return right ? left / right : 0;
	case REST:
		return right ? left % right : 0;
	case LEFT: /* as the CPU has it for libtraceevent, which does not ask how far */
		return left << (right & 63);
	default:
		return left >> (right & 63);
	}
}

/* A step that leaves a number: how many are on the stack then. */
static int run_number(const struct step *step, const unsigned char *raw, bool swap,
		      uint64_t stack[STACK_MAX], int nr)
{
	switch (step->code) {
	case PUSH:
		stack[nr++] = step->value;
		break;
	case LOAD:
		stack[nr++] = pev_tp_load(raw + step->offset, step->size, swap);
		break;
	case LENGTH:
		stack[nr++] = pev_tp_load(raw + step->offset, 4, swap) >> 16;
		break;
	case MASK:
		stack[nr - 1] &= step->value;
		break;
	case CHOOSE:
		nr -= 2;
		stack[nr - 1] = stack[nr - 1] ? stack[nr] : stack[nr + 1];
		break;
	default:
		nr--;
		stack[nr - 1] = combine(step->code, stack[nr - 1], stack[nr]);
	}
	return nr;
}

/* glibc's "%p" */
static void put_pointer(struct pev_text *text, uint64_t value)
{
	if (value)
		pev_text_hex(text, value);
	else
		pev_text_put(text, "(nil)", 5);
}

bool pev_printplan_run(const struct pev_printplan *plan, const unsigned char *raw,
		       pev_printplan_fn symbol, void *ctx, struct pev_text *text)
{
	uint64_t stack[STACK_MAX] = { 0 };
	size_t before = text->len;
	const char *string;
	int nr = 0;

	/* An empty print format has no steps, and plan->steps is NULL. */
	for (uint32_t i = 0; i < plan->nr; i++) {
		const struct step *step = &plan->steps[i];

		if (step->code <= CHOOSE) {
			nr = run_number(step, raw, plan->swap, stack, nr);
			continue;
		}
		nr = 0; /* stack[0] is what it may read */
		switch (step->code) {
		case LITERAL:
			pev_text_put_short(text, step->string, step->size);
			break;
		case NUMBER:
			pev_text_number(text, &step->conversion, stack[0]);
			break;
		case POINTER:
			put_pointer(text, stack[0]);
			break;
		case FUNCTION:
			put_function(text, step, stack[0], symbol, ctx);
			break;
		case STRING:
			put_string(text, step, step->string);
			break;
		case ARRAY:
			string = (const char *)raw + step->offset;
			pev_text_string(text, &step->conversion, string,
					strnlen(string, step->size));
			break;
		case DYNAMIC:
			if (!put_dynamic(text, step, raw, plan->swap)) {
				text->len = before;
				return false;
			}
			break;
		case FLAGS:
			put_flags(text, step, (int64_t)stack[0]);
			break;
		case SYMBOL:
			put_symbol(text, step, (int64_t)stack[0]);
			break;
		case SKIP_UNLESS:
			if (stack[0])
				break;
			/* fall through */
		default:
			i += step->size;
		}
	}
	return true;
}
