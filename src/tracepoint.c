/*
 * tracepoint.c - the tracepoints of one recording machine, and their print.
 *
 * libtraceevent does the print formats: their expressions and %p kinds are its
 * craft, and perf script's text is its text. It trusts formats and payloads,
 * so it works under three conditions that keep it inside its arrays:
 *   - it is given a text we wrote ourselves, and a print format that
 *     pev_printfmt_ok() accepted;
 *   - the tree it made of that has nothing in it that evaluates out of bounds
 *     whatever the payload says (tree_ok());
 *   - it prints a copy with zeros behind it, of a payload in which every field
 *     and every length used as one lies inside (payload_ok()).
 * All else is printed field by field, in the words libtraceevent has for it.
 * What most formats ask for is printed by a plan made of that tree (printplan.h), in the same
 * words. No plugins are loaded: they are code, and perf 6.1 as Debian builds it looks for
 * them nowhere but in ~/.local/lib/traceevent/plugins.
 */
#define _GNU_SOURCE
#include "tracepoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>

#include "printfmt.h"
#include "printplan.h"
#include "text.h"

enum {
	TEXT_MAX = 1 << 16,      /* of a print format given to libtraceevent */
	PAYLOAD_MAX = 1 << 16,   /* a record's size is 16 bits */
	ZEROS = 512,             /* behind the copy: NUL, a whole sockaddr, a constant index */
	INDEX_MAX = 32,          /* constant indexes into dynamic arrays */
	STRING_MAX = 4096,       /* of a line of printk_formats */
	NODES_MAX = 1024         /* of a print tree at a time */
};

/* A number in the payload that libtraceevent uses as a length. */
struct bound {
	const struct tep_print_arg *count; /* NULL: the array must not be empty */
	const struct pev_tp_field *array;  /* count elements of it are read; NULL: a width */
	uint32_t elem;
	uint32_t fixed;                    /* most bytes, when the array's size is not dynamic */
};

struct tracepoint {
	struct pev_tracepoint tp;          /* first: what callers hold points here */
	struct pev_tracepoints *owner;
	struct tracepoint *next;
	struct pev_tp_field *fields;       /* tp.fields, to be freed */
	struct bound *bounds;
	int nr_bounds;
	bool prints;                       /* by libtraceevent, or by the plan */
	struct pev_printplan *plan;        /* NULL: there is none */
	uint64_t least;                    /* bytes of a payload that has all fixed fields */
	bool has_dynamic;                  /* there are others */
};

struct pev_tracepoints {
	struct tep_handle *tep;
	struct tracepoint *list;
	unsigned char *copy;               /* PAYLOAD_MAX + ZEROS bytes */
	bool swap, big_endian, unplanned;
	uint32_t long_size;
	pev_symbol_fn symbol;
	void *symbol_ctx;
};

/* ---- what libtraceevent is given ---- */

/* A declaration that its parser reads as we do: words and stars, one pair of brackets. */
static bool decl_ok(const struct pev_format_line *line)
{
	struct pev_span stem = line->type, array = line->array;
	int words = 0;

	if (line->brackets && !line->behind)
		stem = pev_span_cut(&stem, '[');
	for (const char *p = stem.p; p < stem.end; p++) {
		if (!pev_is_word(*p) && *p != ' ' && *p != '*')
			return false;
		if (pev_is_word(*p) && (p == stem.p || !pev_is_word(p[-1])))
			words++;
	}
	for (const char *p = array.p; p < array.end; p++)
		if (!pev_is_word(*p))
			return false;
	/* "type [] name" takes its name's place from a word before the brackets. */
	return pev_is_word(*line->type.p) && words >= (line->brackets && !line->behind ? 2 : 1) &&
	       !pev_span_has(stem, "__attribute__");
}

static bool lines_ok(const struct pev_format *format)
{
	const struct pev_format_line *first = format->lines;

	/* libtraceevent finds its event by the payload's common_type, as the first event has it. */
	if (format->id > 0xffff || !pev_span_is(first->name, "common_type") || first->offset != 0 ||
	    first->size != 2)
		return false;
	for (uint32_t i = 0; i < format->nr; i++) {
		const struct pev_format_line *line = &format->lines[i];

		if (!decl_ok(line) || line->offset > PAYLOAD_MAX || line->size > PAYLOAD_MAX ||
		    line->offset + line->size > PAYLOAD_MAX)
			return false;
	}
	return true;
}

static void put_lines(FILE *f, const struct pev_format *format, const struct tracepoint *t,
		      bool common)
{
	for (uint32_t i = 0; i < format->nr; i++) {
		const struct pev_format_line *line = &format->lines[i];

		if (common == !!(t->fields[i].flags & PEV_TP_COMMON))
			fprintf(f, "\tfield:%.*s;\toffset:%u;\tsize:%u;\tsigned:%u;\n",
				(int)pev_span_len(line->decl), line->decl.p, line->offset,
				line->size, line->is_signed != 0);
	}
	fputc('\n', f);
}

static void put_print(FILE *f, struct pev_span print)
{
	char *out = malloc(2 * pev_span_len(print));

	if (out)
		fprintf(f, "print fmt: %.*s\n",
			(int)pev_printfmt_escape(print.p, pev_span_len(print), out), out);
	free(out);
}

/* The format again in our own words; the caller frees it. */
static char *rewrite(const struct pev_format *format, const struct tracepoint *t, size_t *len)
{
	char *out = NULL;
	FILE *f = open_memstream(&out, len);

	if (!f)
		return NULL;
	fprintf(f, "name: event\nID: %d\nformat:\n", format->id);
	put_lines(f, format, t, true);
	put_lines(f, format, t, false);
	put_print(f, format->print);
	if (fclose(f) != 0) {
		free(out);
		return NULL;
	}
	return out;
}

static enum pev_printfmt_name name_kind(const void *ctx, const char *name, size_t len)
{
	const struct pev_tp_field *field = pev_tp_find(ctx, (struct pev_span){ name, name + len });

	if (!field)
		return PEV_PRINTFMT_UNKNOWN;
	return pev_tp_is_dynamic(field) ? PEV_PRINTFMT_DYNAMIC : PEV_PRINTFMT_FIXED;
}

/* ---- what libtraceevent made of it ---- */

static const struct pev_tp_field *field_of(const struct tracepoint *t,
					   const struct tep_format_field *field)
{
	return field ? pev_tp_field(&t->tp, field->name) : NULL;
}

static const struct tep_print_arg *uncast(const struct tep_print_arg *arg)
{
	while (arg->type == TEP_PRINT_TYPE)
		arg = arg->typecast.item;
	return arg;
}

static bool is_constant(const struct tep_print_arg *arg, uint64_t *value)
{
	if (arg->type != TEP_PRINT_ATOM || arg->atom.atom[0] < '0' || arg->atom.atom[0] > '9')
		return false;
	*value = strtoull(arg->atom.atom, NULL, 0);
	return true;
}

/* Whether payload_ok() can work this out: a field, a length, a constant, or two of them. */
static bool is_leaf(const struct tracepoint *t, const struct tep_print_arg *arg)
{
	uint64_t value;

	arg = uncast(arg);
	if (arg->type == TEP_PRINT_FIELD)
		return field_of(t, arg->field.field) != NULL;
	return is_constant(arg, &value) || arg->type == TEP_PRINT_DYNAMIC_ARRAY_LEN;
}

static bool is_countable(const struct tracepoint *t, const struct tep_print_arg *arg)
{
	arg = uncast(arg);
	if (arg->type != TEP_PRINT_OP)
		return is_leaf(t, arg);
	if (strcmp(arg->op.op, "<<") != 0 && (arg->op.op[1] || !strchr("+-*/", arg->op.op[0])))
		return false;
	return arg->op.left && arg->op.left->type != TEP_PRINT_NULL && arg->op.right &&
	       is_leaf(t, arg->op.left) && is_leaf(t, arg->op.right);
}

static bool add_bound(struct tracepoint *t, struct bound bound)
{
	struct bound *more;

	if (bound.count && !is_countable(t, bound.count))
		return false;
	more = reallocarray(t->bounds, (size_t)t->nr_bounds + 1, sizeof(*more));
	if (!more)
		return false;
	t->bounds = more;
	t->bounds[t->nr_bounds++] = bound;
	return true;
}

/* count elements of an array: libtraceevent takes any other argument for a field, unasked. */
static bool bind_array(struct tracepoint *t, const struct tep_print_arg *array,
		       const struct tep_print_arg *count, uint64_t elem)
{
	struct bound bound = { .count = count, .elem = (uint32_t)elem };

	if (array->type == TEP_PRINT_FIELD) {
		bound.array = field_of(t, array->field.field);
		bound.fixed = bound.array ? bound.array->size : 0;
	} else if (array->type == TEP_PRINT_DYNAMIC_ARRAY) {
		bound.array = field_of(t, array->dynarray.field);
	}
	if (elem != 1 && elem != 2 && elem != 4 && elem != 8)
		return false;
	return bound.array && add_bound(t, bound);
}

/* print_cpumask_to_seq() works out a size from the number of bits less one. */
static bool bind_mask(struct tracepoint *t, const char *name)
{
	struct bound bound = { .array = pev_tp_field(&t->tp, name) };

	return bound.array && add_bound(t, bound);
}

/* REC->args[2], with a constant */
static bool index_ok(const struct tep_print_arg *op)
{
	const struct tep_print_arg *array = uncast(op->op.left);
	const struct tep_format_field *field;
	uint64_t i;

	if (!is_constant(op->op.right, &i) || i > PAYLOAD_MAX)
		return false;
	if (array->type != TEP_PRINT_FIELD)
		return i < INDEX_MAX;
	field = array->field.field;
	if (!field)
		return false;
	return (i + 1) * field->elementsize <= (uint64_t)field->size ||
	       (field->elementsize <= 8 && i < INDEX_MAX);
}

static bool op_ok(const struct tep_print_arg *op)
{
	uint64_t value;

	if (!op->op.op || !op->op.left || !op->op.right)
		return false;
	switch (op->op.op[0]) {
	case '[':
		return index_ok(op);
	case '/':
	case '%':
		return is_constant(op->op.right, &value) && value != 0;
	case '?':
		return op->op.right->type == TEP_PRINT_OP && op->op.right->op.op[0] == ':';
	default:
		return true;
	}
}

/* The arguments below this one; 0 to 2 of them, or -1 when it must not be evaluated. */
static int node_ok(struct tracepoint *t, const struct tep_print_arg *arg,
		   const struct tep_print_arg *below[2])
{
	uint64_t elem = 1;

	switch (arg->type) {
	case TEP_PRINT_NULL:
	case TEP_PRINT_ATOM:
	case TEP_PRINT_STRING:
	case TEP_PRINT_BITMASK:
	case TEP_PRINT_DYNAMIC_ARRAY:
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return 0;
	case TEP_PRINT_CPUMASK:
		return bind_mask(t, arg->bitmask.bitmask) ? 0 : -1;
	case TEP_PRINT_FIELD:
		return arg->field.field ? 0 : -1;
	case TEP_PRINT_FLAGS:
		below[0] = arg->flags.field;
		return 1;
	case TEP_PRINT_SYMBOL:
		below[0] = arg->symbol.field;
		return 1;
	case TEP_PRINT_TYPE:
		below[0] = arg->typecast.item;
		return 1;
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
		below[0] = arg->hex.size;
		return bind_array(t, arg->hex.field, arg->hex.size, 1) ? 1 : -1;
	case TEP_PRINT_INT_ARRAY:
		below[0] = arg->int_array.count;
		if (!is_constant(arg->int_array.el_size, &elem))
			return -1;
		return bind_array(t, arg->int_array.field, arg->int_array.count, elem) ? 1 : -1;
	case TEP_PRINT_OP:
		below[0] = arg->op.left;
		below[1] = arg->op.right;
		return op_ok(arg) ? 2 : -1;
	case TEP_PRINT_FUNC:
	case TEP_PRINT_BSTRING:
	default:
		return -1;
	}
}

static bool tree_ok(struct tracepoint *t, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *stack[NODES_MAX];
	int nr = 1;

	stack[0] = arg;
	while (nr > 0) {
		const struct tep_print_arg *below[2];
		int more = stack[nr - 1] ? node_ok(t, stack[nr - 1], below) : -1;

		if (more < 0 || nr + more > NODES_MAX)
			return false;
		nr--;
		for (int i = 0; i < more; i++)
			stack[nr++] = below[i];
	}
	return true;
}

/*
 * One conversion, *format behind its "%": steps over it, and over its arguments.
 * One that "*" takes as a width must not be negative: it would shift printf(3)'s others.
 */
static bool bind_widths(struct tracepoint *t, const char **format,
			const struct tep_print_arg **arg)
{
	for (; **format && strchr("-+#0123456789.*hlLzZ", **format); (*format)++) {
		struct bound bound = { .count = *arg, .elem = 1, .fixed = PAYLOAD_MAX };

		if (**format != '*')
			continue;
		if (!*arg || !add_bound(t, bound))
			return false;
		*arg = (*arg)->next;
	}
	if (**format && strchr("pcdiuxXos", **format) && *arg)
		*arg = (*arg)->next;
	if (**format) /* even a "%" or a backslash, as parse_arg_format() does */
		(*format)++;
	return true;
}

static bool widths_ok(struct tracepoint *t, const char *format, const struct tep_print_arg *arg)
{
	while (*format && arg) {
		char ch = *format++;

		if ((ch == '\\' && *format) || (ch == '%' && *format == '%'))
			format++;
		else if (ch == '%' && !bind_widths(t, &format, &arg))
			return false;
	}
	return true;
}

static bool event_ok(struct tracepoint *t, const struct tep_event *event)
{
	const struct tep_print_arg *arg;

	if (!event || (event->flags & (int)TEP_EVENT_FL_FAILED) || !event->print_fmt.format)
		return false;
	for (arg = event->print_fmt.args; arg; arg = arg->next)
		if (!tree_ok(t, arg))
			return false;
	return widths_ok(t, event->print_fmt.format, event->print_fmt.args);
}

/* Hand the format to libtraceevent, if it is one for it. */
static void learn_print(struct tracepoint *t, const struct pev_format *format)
{
	struct tep_event *event = NULL;
	size_t len;
	char *own;

	if (pev_span_len(format->print) > TEXT_MAX || !lines_ok(format) ||
	    !pev_printfmt_ok(format->print.p, pev_span_len(format->print), name_kind, &t->tp))
		return;
	own = rewrite(format, t, &len);
	if (!own)
		return;
	if (tep_parse_format(t->owner->tep, &event, own, len, "perfev") == 0) {
		t->tp.event = event;
		t->prints = event_ok(t, event);
		if (t->prints && !t->owner->unplanned)
			t->plan = pev_printplan_new(&t->tp, event, t->owner->long_size);
	}
	free(own);
}

/* ---- the registry ---- */

static void free_tracepoint(struct tracepoint *t)
{
	pev_printplan_free(t->plan);
	free(t->bounds);
	free(t->fields);
	free(t);
}

struct pev_tracepoints *pev_tracepoints_new(bool big_endian, int long_size)
{
	struct pev_tracepoints *tps = calloc(1, sizeof(*tps));

	if (!tps)
		return NULL;
	/* For the whole process; the library's own words belong to nobody's stderr. */
	tep_set_loglevel(TEP_LOG_NONE);
	tps->tep = tep_alloc();
	tps->copy = malloc(PAYLOAD_MAX + ZEROS);
	if (!tps->tep || !tps->copy) {
		pev_tracepoints_free(tps);
		return NULL;
	}
	tps->big_endian = big_endian;
	tps->swap = big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	tps->long_size = long_size == 4 ? 4 : 8;
	tep_set_long_size(tps->tep, (int)tps->long_size);
	tep_set_page_size(tps->tep, 4096);
	tep_set_file_bigendian(tps->tep, big_endian ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	return tps;
}

void pev_tracepoints_free(struct pev_tracepoints *tps)
{
	if (!tps)
		return;
	while (tps->list) {
		struct tracepoint *t = tps->list;

		tps->list = t->next;
		free_tracepoint(t);
	}
	tep_free(tps->tep);
	free(tps->copy);
	free(tps);
}

void pev_tracepoints_unplanned(struct pev_tracepoints *tps)
{
	tps->unplanned = true;
}

static const struct pev_tracepoint *known(const struct pev_tracepoints *tps, int id)
{
	for (const struct tracepoint *t = tps->list; t; t = t->next)
		if (t->tp.id == id)
			return &t->tp;
	return NULL;
}

static struct tracepoint *new_tracepoint(struct pev_tracepoints *tps, const char *system,
					 const struct pev_format *format)
{
	struct tracepoint *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->owner = tps;
	t->tp.swap = tps->swap;
	t->fields = pev_format_table(&t->tp, format, system, tps->long_size);
	if (!t->fields) {
		free_tracepoint(t);
		return NULL;
	}
	for (uint32_t i = 0; i < t->tp.nr; i++) {
		if ((uint64_t)t->fields[i].offset + t->fields[i].size > t->least)
			t->least = (uint64_t)t->fields[i].offset + t->fields[i].size;
		t->has_dynamic |= pev_tp_is_dynamic(&t->fields[i]);
	}
	learn_print(t, format);
	return t;
}

static int learn(struct pev_tracepoints *tps, const char *system,
		 const struct pev_format *format, const struct pev_tracepoint **tp,
		 struct pev_err *err)
{
	struct tracepoint *t;

	*tp = known(tps, format->id);
	if (*tp)
		return 0;
	t = new_tracepoint(tps, system, format);
	if (!t)
		return pev_fail(err, -ENOMEM, "tracepoint format of %s: out of memory", system);
	t->next = tps->list;
	tps->list = t;
	*tp = &t->tp;
	return 0;
}

int pev_tracepoints_add(struct pev_tracepoints *tps, const char *system, const char *text,
			size_t len, const struct pev_tracepoint **tp, struct pev_err *err)
{
	struct pev_format format;
	int rc = pev_format_read(&format, system, text, len, err);

	*tp = NULL;
	if (rc < 0)
		return rc;
	rc = learn(tps, system, &format, tp, err);
	pev_format_free(&format);
	return rc;
}

static char *resolve(void *ctx, unsigned long long *addr, char **module)
{
	const struct pev_tracepoints *tps = ctx;
	uint64_t start = *addr;
	const char *name = tps->symbol(tps->symbol_ctx, *addr, &start);
	union {
		const char *in;
		char *out;
	} unconst = { .in = name };

	*addr = start;
	*module = NULL;
	return unconst.out;
}

void pev_tracepoints_symbols(struct pev_tracepoints *tps, pev_symbol_fn fn, void *ctx)
{
	tps->symbol = fn;
	tps->symbol_ctx = ctx;
	tep_reset_function_resolver(tps->tep);
	if (fn)
		tep_set_function_resolver(tps->tep, resolve, tps);
}

/* One line of printk_formats: 0xffffffff82a3c2f0 : "Start context switch" */
static bool read_string(struct pev_span line, uint64_t *addr, struct pev_span *string)
{
	struct pev_span hex = pev_span_trim(pev_span_cut(&line, ':'));
	char digits[20];
	char *end;

	*string = pev_span_trim(line);
	if (pev_span_len(hex) < 3 || pev_span_len(hex) >= sizeof(digits) ||
	    pev_span_len(*string) < 2 || *string->p != '"' || string->end[-1] != '"')
		return false;
	memcpy(digits, hex.p, pev_span_len(hex));
	digits[pev_span_len(hex)] = '\0';
	*addr = strtoull(digits, &end, 16);
	string->p++;
	string->end--;
	if (pev_span_len(*string) >= 2 && memcmp(string->end - 2, "\\n", 2) == 0)
		string->end -= 2;
	return *end == '\0';
}

int pev_tracepoints_strings(struct pev_tracepoints *tps, const char *text, size_t len)
{
	struct pev_span s = { text, text + len };
	int nr = 0;

	while (s.p < s.end) {
		struct pev_span line = pev_span_cut(&s, '\n'), string;
		uint64_t addr;
		char *own;
		int rc;

		if (pev_span_len(line) > STRING_MAX || !read_string(line, &addr, &string))
			continue;
		/* tep_register_print_string() steps before the start of a string of one letter. */
		if (asprintf(&own, "\"%.*s\\n\"", (int)pev_span_len(string), string.p) < 0)
			return -ENOMEM;
		rc = tep_register_print_string(tps->tep, own, addr);
		free(own);
		if (rc < 0)
			return -ENOMEM;
		nr++;
	}
	return nr;
}

/* ---- print ---- */

/* Bytes at a dynamic field, or none: a payload_ok() step, so bounds were held before. */
static uint64_t dynamic_bytes(const struct tracepoint *t, const struct pev_tp_field *field,
			      const unsigned char *raw)
{
	return pev_tp_load(raw + field->offset, 4, t->tp.swap) >> 16;
}

/* As eval_num_arg() in event-parse.c: unsigned, whatever the field was declared. */
static uint64_t leaf_value(const struct tracepoint *t, const struct tep_print_arg *arg,
			   const unsigned char *raw)
{
	const struct pev_tp_field *field;
	uint64_t value;

	arg = uncast(arg);
	if (is_constant(arg, &value))
		return value;
	if (arg->type == TEP_PRINT_FIELD) {
		field = field_of(t, arg->field.field);
		return pev_tp_load(raw + field->offset, field->size, t->tp.swap);
	}
	return dynamic_bytes(t, field_of(t, arg->dynarray.field), raw);
}

/* Where libtraceevent would wrap around, more than any bound allows. */
static uint64_t combine(char op, uint64_t left, uint64_t right)
{
	uint64_t value;

	switch (op) {
	case '+':
		return __builtin_add_overflow(left, right, &value) ? UINT64_MAX : value;
	case '-':
		return left - right;
	case '*':
		return __builtin_mul_overflow(left, right, &value) ? UINT64_MAX : value;
	case '/':
		return left / right; /* op_ok() saw that it is a constant, and not 0 */
	default:
		return right < 64 && left <= UINT64_MAX >> right ? left << right : UINT64_MAX;
	}
}

static uint64_t count_value(const struct tracepoint *t, const struct tep_print_arg *arg,
			    const unsigned char *raw)
{
	arg = uncast(arg);
	if (arg->type != TEP_PRINT_OP)
		return leaf_value(t, arg, raw);
	return combine(arg->op.op[0], leaf_value(t, arg->op.left, raw),
		       leaf_value(t, arg->op.right, raw));
}

static bool bound_ok(const struct tracepoint *t, const struct bound *bound,
		     const unsigned char *raw)
{
	uint64_t most = bound->fixed;

	if (bound->array && !bound->fixed)
		most = pev_tp_is_dynamic(bound->array) ? dynamic_bytes(t, bound->array, raw) : 0;
	if (!bound->count)
		return most > 0;
	return count_value(t, bound->count, raw) <= most / bound->elem;
}

/* Whether libtraceevent, printing this payload, stays inside it. */
static bool payload_ok(const struct tracepoint *t, const unsigned char *raw, size_t len)
{
	struct pev_tp_value value;

	if (!t->prints || len > PAYLOAD_MAX || len < t->least)
		return false;
	for (uint32_t i = 0; t->has_dynamic && i < t->tp.nr; i++)
		if (pev_tp_is_dynamic(&t->fields[i]) &&
		    pev_tp_get(&t->tp, &t->fields[i], raw, len, &value) < 0)
			return false;
	for (int i = 0; i < t->nr_bounds; i++)
		if (!bound_ok(t, &t->bounds[i], raw))
			return false;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
putf(struct pev_text *out, const char *format, ...)
{
	char text[288]; /* a name has at most 255 bytes */
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len > 0)
		pev_text_put(out, text,
			     (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

static bool is_text(const unsigned char *p, uint32_t len)
{
	for (uint32_t i = 0; i < len && p[i]; i++)
		if (!(p[i] >= ' ' && p[i] <= '~') && !(p[i] >= '\t' && p[i] <= '\r'))
			return false;
	return true;
}

static void put_array(struct pev_text *out, const struct pev_tp_field *field,
		      const struct pev_tp_value *value)
{
	bool bytes = strstr(field->type, "char") || strstr(field->type, "u8") ||
		     strstr(field->type, "s8");

	if (bytes && is_text(value->p, value->len)) {
		pev_text_put(out, (const char *)value->p,
			     strnlen((const char *)value->p, value->len));
		return;
	}
	pev_text_put(out, "ARRAY[", 6);
	for (uint32_t i = 0; i < value->len; i++)
		putf(out, i ? ", %02x" : "%02x", value->p[i]);
	pev_text_put(out, "]", 1);
}

static void put_number(struct pev_text *out, const struct pev_tp_field *field, int64_t i)
{
	bool is_long = strstr(field->type, "long") != NULL;

	if (field->flags & PEV_TP_POINTER)
		putf(out, "0x%llx", (unsigned long long)i);
	else if (!(field->flags & PEV_TP_SIGNED))
		putf(out, is_long ? "0x%llx" : "%llu", (unsigned long long)i);
	else if (field->size == 4 && is_long)
		putf(out, "0x%x", (unsigned int)i);
	else
		putf(out, field->size == 2 ? "%2lld" : "%lld", (long long)i);
}

/* As print_event_fields() in event-parse.c. */
static void put_fields(struct pev_text *out, const struct tracepoint *t, const void *raw,
		       size_t len)
{
	for (uint32_t i = 0; i < t->tp.nr; i++) {
		const struct pev_tp_field *field = &t->fields[i];
		struct pev_tp_value value;

		if (field->flags & PEV_TP_COMMON)
			continue;
		putf(out, out->len ? " %s=" : "%s=", field->name);
		if (pev_tp_get(&t->tp, field, raw, len, &value) < 0)
			pev_text_put(out, "<bad>", 5);
		else if (field->flags & PEV_TP_ARRAY)
			put_array(out, field, &value);
		else
			put_number(out, field, value.i);
	}
}

static bool put_event(struct pev_text *out, const struct tracepoint *t, const void *raw, size_t len)
{
	struct pev_tracepoints *tps = t->owner;
	unsigned int id = (unsigned int)t->tp.id;
	struct tep_record record = { .data = tps->copy, .size = (int)len };
	struct trace_seq seq;
	bool done;

	memcpy(tps->copy, raw, len);
	memset(tps->copy + len, 0, ZEROS);
	tps->copy[0] = (unsigned char)(tps->big_endian ? id >> 8 : id);
	tps->copy[1] = (unsigned char)(tps->big_endian ? id : id >> 8);
	trace_seq_init(&seq);
	tep_print_event(tps->tep, &seq, &record, "%s", TEP_PRINT_INFO);
	trace_seq_terminate(&seq);
	done = seq.state == TRACE_SEQ__GOOD;
	if (done)
		pev_text_put(out, seq.buffer, strlen(seq.buffer));
	trace_seq_destroy(&seq);
	return done;
}

static bool put_planned(struct pev_text *out, const struct tracepoint *t, const void *raw)
{
	const struct pev_tracepoints *tps = t->owner;

	return t->plan && pev_printplan_run(t->plan, raw, tps->symbol, tps->symbol_ctx, out);
}

size_t pev_tp_print(const struct pev_tracepoint *tp, const void *raw, size_t len,
		    char *buf, size_t cap)
{
	const struct tracepoint *t = (const struct tracepoint *)tp;
	struct pev_text out = { .buf = buf, .cap = cap ? cap - 1 : 0 };

	if (!payload_ok(t, raw, len) ||
	    !(put_planned(&out, t, raw) || put_event(&out, t, raw, len))) {
		/* Beyond 16 bits it is a probe's registers, which no format prints. */
		if (!t->prints && t->tp.id <= 0xffff)
			pev_text_put(&out, "[FAILED TO PARSE]", 17);
		put_fields(&out, t, raw, len);
	}
	if (cap)
		buf[out.len < cap - 1 ? out.len : cap - 1] = '\0';
	return out.len;
}
