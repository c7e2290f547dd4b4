/*
 * print_plan.c - a print format made into a list of steps; see print_plan.h.
 *
 * Numbers are computed on a small stack, as eval_num_arg() in libtraceevent's event-parse.c
 * does, and strings are written as print_str_arg() does. Both sides of a "?" between numbers
 * are computed: nothing in them can fail.
 */
#include "tracepoint/print_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "tracepoint/print_parser.h"
#include "tracepoint/print_value.h"

enum {
	STEPS_MAX = 1024,    /* of a plan */
	STACK_MAX = 16,      /* numbers */
	DEPTH_MAX = 64,      /* operations inside operations, and strings inside strings */
	TEXT_MAX = 1 << 16,  /* bytes of a print format */
	STAR_MAX = 1 << 16,  /* of a width or precision from the payload */
	NUMBER_STAR_MAX = 999
};

enum code {
	/* numbers */
	PUSH,        /* value */
	LOAD,        /* size bytes at offset */
	LOAD_INSIDE, /* the same; 0 when the payload is shorter */
	LENGTH,      /* upper half of the u32 at offset: bytes of a dynamic field */
	MASK,        /* a cast: & value */
	OPERATE,     /* on the upper two */
	CHOOSE,      /* of three: the second if the first is not 0, or the third */
	/* text; the number that a step takes is alone on the stack */
	STAR,        /* the width or precision of the next conversion */
	LITERAL,     /* size bytes at string, as pev_text_put_short() wants them */
	NUMBER,
	CHARACTER,
	POINTER,     /* "%p" */
	FUNCTION,    /* "%ps"; value: with the offset into it */
	ADDRESS,     /* "%pI4" and others; string: the letters */
	STRING,      /* string itself */
	STRING_AT,   /* the kernel's string at an address */
	ARRAY,       /* bytes as a string */
	DYNAMIC,     /* a dynamic field as a string */
	FLAGS,       /* the names of the bits that are set, separated by string */
	SYMBOL,      /* the name that has the number */
	BITMASK,
	BITLIST,
	DUMP,        /* "%*ph": as many bytes as the width says, separated by string */
	HEX,         /* a number of bytes, separated by string */
	NUMBERS,     /* a number of integers, value bytes each */
	SKIP_UNLESS, /* size steps, if the number is 0 */
	SKIP         /* size steps */
};

struct step {
	enum code code;
	enum pev_print_operator operation;
	char star; /* 'w', 'p': STAR gives the conversion's width, precision */
	bool dynamic, relative; /* the u32 at offset gives the place of the bytes */
	uint32_t offset, size;  /* size 0: the rest of the payload */
	uint64_t value;
	const char *string;
	const struct pev_print_name *names; /* `size` names */
	struct pev_conversion conversion;
};

struct pev_print_plan {
	bool swap;
	uint32_t nr, cap;
	struct step *steps;
	struct pev_print_name *names;
	char *strings;
};

/* ---- compile ---- */

struct compiler {
	struct pev_print_plan *plan;
	struct pev_print_tree tree;
	uint32_t long_size;
	uint32_t next;  /* argument */
	int numbers;    /* on the stack */
	char star;
	struct pev_conversion conversion; /* of the argument at hand */
};

/* Adds a zeroed step; NULL: too many, or no memory. */
static struct step *add_step(struct compiler *c, enum code code)
{
	struct pev_print_plan *plan = c->plan;
	struct step *step;

	if (plan->nr == STEPS_MAX ||
	    !pev_list_reserve(&plan->steps, &plan->cap, plan->nr + 1, sizeof(*step)))
		return NULL;
	step = &plan->steps[plan->nr++];
	*step = (struct step){ .code = code, .star = c->star };
	if (code > CHOOSE) {
		step->conversion = c->conversion;
		c->numbers = 0;
	}
	return step;
}

static bool push_number(struct compiler *c, uint64_t value)
{
	struct step *step = ++c->numbers <= STACK_MAX ? add_step(c, PUSH) : NULL;

	if (step)
		step->value = value;
	return step;
}

static bool push_load(struct compiler *c, enum code code, uint32_t offset, uint32_t size)
{
	struct step *step = ++c->numbers <= STACK_MAX ? add_step(c, code) : NULL;

	if (step) {
		step->offset = offset;
		step->size = size;
	}
	return step;
}

/* Adds a text step for the bytes of a field, or of its dynamic data. */
static struct step *add_bytes_step(struct compiler *c, enum code code,
				   const struct pev_print_node *node)
{
	struct step *step = add_step(c, code);

	if (step) {
		step->offset = node->field->offset;
		step->size = node->field->size;
		step->dynamic = node->kind != PEV_PRINT_FIELD;
		step->relative = node->field->flags & PEV_TP_REL_LOC;
	}
	return step;
}

/* ---- compile: numbers ---- */

static bool compile_number(struct compiler *c, const struct pev_print_node *node, int depth);

/* A cast of the array is to the type of a pointer to its elements. */
static bool mask_element(struct compiler *c, const struct pev_print_node *array)
{
	size_t len = array->kind == PEV_PRINT_CAST ? strlen(array->string) : 0;
	char type[32];
	struct step *step;

	if (len < 3 || len >= sizeof(type) || strcmp(array->string + len - 2, " *") != 0)
		return true;
	memcpy(type, array->string, len - 2);
	type[len - 2] = '\0';
	step = add_step(c, MASK);
	if (step)
		step->value = pev_print_cast_mask(type);
	return step;
}

static bool compile_element(struct compiler *c, const struct pev_print_node *node)
{
	const struct pev_print_node *array = node->operands[0];
	const struct pev_tp_field *field = pev_print_uncast(array)->field;
	uint64_t offset = field->offset + node->value * field->elem;

	return offset <= UINT32_MAX &&
	       push_load(c, LOAD_INSIDE, (uint32_t)offset, field->elem) && mask_element(c, array);
}

static bool compile_cast(struct compiler *c, const struct pev_print_node *node, int depth)
{
	uint64_t mask = pev_print_cast_mask(node->string);
	struct step *step;

	if (!compile_number(c, node->operands[0], depth))
		return false;
	if (mask == UINT64_MAX)
		return true;
	step = add_step(c, MASK);
	if (step)
		step->value = mask;
	return step;
}

static bool compile_operation(struct compiler *c, const struct pev_print_node *node, int depth)
{
	struct step *step;

	if (!compile_number(c, node->operands[0], depth) ||
	    !compile_number(c, node->operands[1], depth))
		return false;
	c->numbers--;
	step = add_step(c, OPERATE);
	if (step)
		step->operation = node->operation;
	return step;
}

static bool compile_choice(struct compiler *c, const struct pev_print_node *node, int depth)
{
	for (int i = 0; i < 3; i++)
		if (!compile_number(c, node->operands[i], depth))
			return false;
	c->numbers -= 2;
	return add_step(c, CHOOSE);
}

/* Adds the steps that leave the node's value on the stack; 0 if it is not a number. */
static bool compile_number(struct compiler *c, const struct pev_print_node *node, int depth)
{
	if (depth == DEPTH_MAX)
		return false;
	switch (node->kind) {
	case PEV_PRINT_FIELD:
		return push_load(c, LOAD, node->field->offset, node->field->size);
	case PEV_PRINT_LENGTH:
		return push_load(c, LENGTH, node->field->offset, 4);
	case PEV_PRINT_CAST:
		return compile_cast(c, node, depth + 1);
	case PEV_PRINT_INDEX:
		return compile_element(c, node);
	case PEV_PRINT_OPERATION:
		return compile_operation(c, node, depth + 1);
	case PEV_PRINT_CHOICE:
		return compile_choice(c, node, depth + 1);
	default:
		return push_number(c, node->kind == PEV_PRINT_NUMBER ? node->value : 0);
	}
}

/* ---- compile: text ---- */

static bool compile_text(struct compiler *c, const struct pev_print_node *node, int depth);

static bool compile_string(struct compiler *c, const char *string)
{
	struct step *step = add_step(c, STRING);

	if (step) {
		step->string = string;
		step->size = (uint32_t)strlen(string);
	}
	return step;
}

/* A number of a pointer's size is the address of a string. */
static bool compile_field(struct compiler *c, const struct pev_print_node *node)
{
	const struct pev_tp_field *field = node->field;

	if (!(field->flags & PEV_TP_ARRAY) && field->size == c->long_size)
		return push_load(c, LOAD, field->offset, field->size) && add_step(c, STRING_AT);
	return add_bytes_step(c, ARRAY, node);
}

static bool compile_names(struct compiler *c, enum code code, const struct pev_print_node *node)
{
	struct step *step = compile_number(c, node->operands[0], 0) ? add_step(c, code) : NULL;

	if (step) {
		step->string = node->string;
		step->names = c->plan->names + node->first;
		step->size = node->nr;
	}
	return step;
}

static bool compile_elements(struct compiler *c, enum code code, const struct pev_print_node *node)
{
	struct step *step = compile_number(c, node->operands[1], 0)
				    ? add_bytes_step(c, code, node->operands[0])
				    : NULL;

	if (step) {
		step->string = node->string;
		step->value = node->value;
	}
	return step;
}

/* condition ? string : string */
static bool compile_strings(struct compiler *c, const struct pev_print_node *node, int depth)
{
	struct pev_print_plan *plan = c->plan;
	uint32_t unless, skip;

	if (!compile_number(c, node->operands[0], 0) || !add_step(c, SKIP_UNLESS))
		return false;
	unless = plan->nr - 1;
	if (!compile_text(c, node->operands[1], depth) || !add_step(c, SKIP))
		return false;
	skip = plan->nr - 1;
	plan->steps[unless].size = plan->nr - unless - 1;
	if (!compile_text(c, node->operands[2], depth))
		return false;
	plan->steps[skip].size = plan->nr - skip - 1;
	return true;
}

/* Adds the steps for "%s". An argument without text prints nothing. */
static bool compile_text(struct compiler *c, const struct pev_print_node *node, int depth)
{
	if (depth == DEPTH_MAX)
		return false;
	switch (node->kind) {
	case PEV_PRINT_NUMBER:
	case PEV_PRINT_STRING:
		return !node->string || compile_string(c, node->string);
	case PEV_PRINT_FIELD:
		return compile_field(c, node);
	case PEV_PRINT_TEXT:
		return add_bytes_step(c, DYNAMIC, node);
	case PEV_PRINT_BITMASK:
		return add_bytes_step(c, BITMASK, node);
	case PEV_PRINT_CPULIST:
		return add_bytes_step(c, BITLIST, node);
	case PEV_PRINT_FLAGS:
		return compile_names(c, FLAGS, node);
	case PEV_PRINT_SYMBOL:
		return compile_names(c, SYMBOL, node);
	case PEV_PRINT_HEX:
		return compile_elements(c, HEX, node);
	case PEV_PRINT_ARRAY:
		return compile_elements(c, NUMBERS, node);
	case PEV_PRINT_CHOICE:
		return compile_strings(c, node, depth + 1);
	default:
		return true;
	}
}

/* "%*ph", "%*phC" */
static bool compile_dump(struct compiler *c, const struct pev_print_node *node, const char **p)
{
	static const char letters[] = "CDN", *const separators[] = { ":", "-", "" };
	const char *letter = (*p)[1] ? strchr(letters, (*p)[1]) : NULL;
	struct step *step = NULL;

	if (node->kind == PEV_PRINT_DYNAMIC)
		step = add_bytes_step(c, DUMP, node);
	if (step)
		step->string = letter ? separators[letter - letters] : " ";
	*p += letter ? 2 : 1;
	return step;
}

static bool compile_address(struct compiler *c, const struct pev_print_node *node, const char **p)
{
	size_t letters = pev_address_letters(*p);
	struct step *step = NULL;

	node = pev_print_uncast(node);
	if (letters && (node->kind == PEV_PRINT_FIELD || node->kind == PEV_PRINT_DYNAMIC))
		step = add_bytes_step(c, ADDRESS, node);
	if (step)
		step->string = *p;
	*p += letters;
	return step;
}

/* Adds the steps for "%p"; *p is after it, and is moved past the letters that belong to it. */
static bool compile_pointer(struct compiler *c, const struct pev_print_node *node, const char **p)
{
	struct step *step;

	if (**p == 'h')
		return compile_dump(c, node, p);
	if (**p && strchr("MmIiU", **p))
		return compile_address(c, node, p);
	if (!compile_number(c, node, 0))
		return false;
	if (!**p || !strchr("FfSs", **p))
		return add_step(c, POINTER);
	step = add_step(c, FUNCTION);
	if (step)
		step->value = **p == 'F' || **p == 'S';
	(*p)++;
	return step;
}

/* ---- compile: the format ---- */

static const struct pev_print_node *next_argument(struct compiler *c)
{
	return c->next < c->tree.nr_args ? c->tree.args[c->next++] : NULL;
}

/* Moves *p past flags, width, precision and length; a "*" among them becomes a step STAR. */
static bool compile_star(struct compiler *c, const char *start, const char **p)
{
	const struct pev_print_node *node;

	c->star = 0;
	for (; **p && strchr("-+#0123456789.*hlLzZ", **p); (*p)++) {
		if (**p != '*')
			continue;
		node = next_argument(c);
		if (c->star || !node || !compile_number(c, node, 0) || !add_step(c, STAR))
			return false;
		c->star = (*p)[-1] == '.' ? 'p' : 'w';
	}
	return **p && *p - start < PEV_CONVERSION_MAX - 4;
}

/* The conversion from start to letter, without its "*" and with "s" for a character. */
static bool read_conversion(struct compiler *c, const char *start, const char *letter)
{
	char text[PEV_CONVERSION_MAX];
	size_t len = 0;

	for (; start < letter; start++)
		if (*start != '*' && !(*start == '.' && start[1] == '*'))
			text[len++] = *start;
	text[len++] = *letter;
	if (*letter == 'c')
		text[len - 1] = 's';
	return pev_conversion_read(&c->conversion, text, text + len) == len;
}

/* print_str_arg() leaves a letter that it does not know in the text. */
static bool compile_unknown(struct compiler *c, char letter)
{
	struct step *step = add_step(c, LITERAL);
	char *string = c->tree.strings + c->tree.len;

	if (!step || c->star)
		return false;
	memcpy(string, (const char[]){ '>', letter, '<' }, 3);
	step->string = string;
	step->size = 3;
	c->tree.len += 3;
	return true;
}

/* Adds the steps of the conversion at *p, a "%", and moves *p and the arguments past it. */
static bool compile_conversion(struct compiler *c, const char **p)
{
	const char *start = (*p)++, *letter;
	const struct pev_print_node *node;

	if (!compile_star(c, start, p))
		return false;
	letter = (*p)++;
	if (!strchr("pcdiuxXos", *letter))
		return compile_unknown(c, *letter);
	node = next_argument(c);
	if (!node)
		return false;
	if (*letter == 'p')
		return compile_pointer(c, node, p);
	if (!read_conversion(c, start, letter))
		return false;
	if (*letter == 's')
		return compile_text(c, node, 0);
	return compile_number(c, node, 0) && add_step(c, *letter == 'c' ? CHARACTER : NUMBER);
}

/* Adds the text up to the next conversion: parse_arg_string(). */
static bool compile_literal(struct compiler *c, const char **p)
{
	struct step *step = add_step(c, LITERAL);
	char *string = c->tree.strings + c->tree.len;

	if (!step)
		return false;
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
	c->tree.len += step->size;
	return true;
}

static bool compile_format(struct compiler *c)
{
	const char *p = c->tree.format;

	while (*p)
		if (*p == '%' && p[1] != '%' ? !compile_conversion(c, &p) : !compile_literal(c, &p))
			return false;
	return true;
}

struct pev_print_plan *pev_print_plan_new(const struct pev_tracepoint *tp, struct pev_span text,
					  uint32_t long_size)
{
	struct pev_print_plan *plan = calloc(1, sizeof(*plan));
	struct compiler c = { .plan = plan, .long_size = long_size };
	bool done;

	if (!plan || pev_span_len(text) > TEXT_MAX) {
		free(plan);
		return NULL;
	}
	plan->swap = tp->swap;
	done = pev_print_parse(&c.tree, tp, text, long_size);
	plan->names = c.tree.names;
	done = done && compile_format(&c);
	plan->strings = c.tree.strings;
	c.tree.names = NULL;
	c.tree.strings = NULL;
	pev_print_tree_free(&c.tree);
	if (done)
		return plan;
	pev_print_plan_free(plan);
	return NULL;
}

void pev_print_plan_free(struct pev_print_plan *plan)
{
	if (!plan)
		return;
	free(plan->steps);
	free(plan->names);
	free(plan->strings);
	free(plan);
}

/* ---- run ---- */

struct run {
	const unsigned char *raw;
	size_t len;
	bool swap;
	int star;
	const struct pev_print_names *names;
	struct pev_text *text;
};

/* Returns the bytes of a step, which are inside the payload. */
static const unsigned char *bytes_of(const struct run *run, const struct step *step, uint32_t *len)
{
	uint32_t loc;

	*len = step->size ? step->size : (uint32_t)(run->len - step->offset);
	if (!step->dynamic)
		return run->raw + step->offset;
	loc = (uint32_t)pev_tp_load(run->raw + step->offset, 4, run->swap);
	*len = loc >> 16;
	return run->raw + (loc & 0xffff) + (step->relative ? step->offset + 4 : 0);
}

static bool is_big_endian(const struct run *run)
{
	return run->swap != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static void put_string(const struct run *run, const struct pev_conversion *conversion,
		       const char *string)
{
	pev_text_string(run->text, conversion, string, strlen(string));
}

static void put_flags(const struct run *run, const struct step *step,
		      const struct pev_conversion *conversion, int64_t value)
{
	bool any = false;

	for (uint32_t i = 0; i < step->size; i++) {
		const struct pev_print_name *name = &step->names[i];

		if (!value && name->value < 0) {
			put_string(run, conversion, name->string);
			break;
		}
		if (name->value <= 0 || (value & name->value) != name->value)
			continue;
		if (any)
			pev_text_put(run->text, step->string, strlen(step->string));
		put_string(run, conversion, name->string);
		any = true;
		value &= ~name->value;
	}
	if (value && any)
		pev_text_put(run->text, step->string, strlen(step->string));
	if (value)
		pev_text_hex(run->text, (uint64_t)value);
}

static void put_symbol(const struct run *run, const struct step *step,
		       const struct pev_conversion *conversion, int64_t value)
{
	for (uint32_t i = 0; i < step->size; i++) {
		if (step->names[i].value == value) {
			put_string(run, conversion, step->names[i].string);
			return;
		}
	}
	pev_text_hex(run->text, (uint64_t)value);
}

/* print_function() */
static void put_function(const struct run *run, const struct step *step, uint64_t value)
{
	const struct pev_print_names *names = run->names;
	uint64_t start = value;
	const char *name = names->symbol ? names->symbol(names->symbol_ctx, value, &start) : NULL;

	if (!name) {
		pev_text_hex(run->text, value);
		return;
	}
	pev_text_put(run->text, name, strlen(name));
	if (step->value) {
		pev_text_char(run->text, '+');
		pev_text_hex(run->text, value - start);
	}
}

static void put_string_at(const struct run *run, uint64_t addr)
{
	static const struct pev_conversion hex = {
		.letter = 'x', .is_hex = true, .plain = true, .precision = -1
	};
	const char *string = run->names->string(run->names->string_ctx, addr);

	if (string)
		pev_text_put(run->text, string, strlen(string));
	else
		pev_text_number(run->text, &hex, addr);
}

/* Prints up to the NUL, even if it is after the field's own bytes. */
static void put_dynamic(const struct run *run, const struct step *step,
			const struct pev_conversion *conversion)
{
	uint32_t len;
	const char *string = (const char *)bytes_of(run, step, &len);

	const char *end = (const char *)run->raw + run->len;

	if (len > 0)
		pev_text_string(run->text, conversion, string,
				strnlen(string, (size_t)(end - string)));
}

static void put_array(const struct run *run, const struct step *step,
		      const struct pev_conversion *conversion)
{
	uint32_t len;
	const char *string = (const char *)bytes_of(run, step, &len);

	pev_text_string(run->text, conversion, string, strnlen(string, len));
}

/* The kernel's form: {0x1,0x2} */
static void put_numbers(const struct run *run, const struct step *step, const unsigned char *bytes,
			uint64_t nr)
{
	pev_text_char(run->text, '{');
	for (uint64_t i = 0; i < nr; i++) {
		if (i)
			pev_text_char(run->text, ',');
		pev_text_hex(run->text, pev_tp_load(bytes + i * step->value,
						    (uint32_t)step->value, run->swap));
	}
	pev_text_char(run->text, '}');
}

/* Returns false if the bytes have fewer than nr elements. */
static bool put_elements(const struct run *run, const struct step *step, uint64_t nr)
{
	uint32_t len;
	const unsigned char *bytes = bytes_of(run, step, &len);

	if (nr > len / step->value)
		return false;
	if (step->code == HEX)
		pev_text_bytes(run->text, bytes, nr, step->string);
	else
		put_numbers(run, step, bytes, nr);
	return true;
}

static void put_dump(const struct run *run, const struct step *step)
{
	uint32_t nr = step->star ? (uint32_t)run->star : 1, len;
	const unsigned char *bytes = bytes_of(run, step, &len);

	pev_text_bytes(run->text, bytes, nr < len ? nr : len, step->string);
}

static void put_address(const struct run *run, const struct step *step)
{
	uint32_t len;
	const unsigned char *bytes = bytes_of(run, step, &len);

	pev_text_address(run->text, step->string, bytes, len, is_big_endian(run));
}

/* Returns false for a list of CPUs of length 0. */
static bool put_mask(const struct run *run, const struct step *step)
{
	uint32_t len;
	const unsigned char *bytes = bytes_of(run, step, &len);

	if (step->code == BITMASK)
		pev_text_bitmask(run->text, bytes, len, is_big_endian(run));
	else
		pev_text_bitlist(run->text, bytes, len, is_big_endian(run));
	return step->code == BITMASK || len > 0;
}

/* glibc's "%p" */
static void put_pointer(struct pev_text *text, uint64_t value)
{
	if (value)
		pev_text_hex(text, value);
	else
		pev_text_put(text, "(nil)", 5);
}

static void put_character(struct pev_text *text, const struct pev_conversion *conversion,
			  uint64_t value)
{
	char ch = (char)value;

	pev_text_string(text, conversion, &ch, ch ? 1 : 0);
}

/* Runs a step that leaves a number. Returns how many numbers are on the stack then. */
static int run_number(const struct step *step, const struct run *run, uint64_t stack[STACK_MAX],
		      int nr)
{
	switch (step->code) {
	case PUSH:
		stack[nr++] = step->value;
		break;
	case LOAD:
		stack[nr++] = pev_tp_load(run->raw + step->offset, step->size, run->swap);
		break;
	case LOAD_INSIDE:
		stack[nr++] = (uint64_t)step->offset + step->size > run->len
				      ? 0
				      : pev_tp_load(run->raw + step->offset, step->size, run->swap);
		break;
	case LENGTH:
		stack[nr++] = pev_tp_load(run->raw + step->offset, 4, run->swap) >> 16;
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
		stack[nr - 1] = pev_print_operate(step->operation, stack[nr - 1], stack[nr]);
	}
	return nr;
}

/* The step's conversion, in copy if the payload gives its width or precision. */
static const struct pev_conversion *conversion_of(const struct run *run, const struct step *step,
						  struct pev_conversion *copy)
{
	if (!step->star)
		return &step->conversion;
	*copy = step->conversion;
	if (step->star == 'w')
		copy->width = run->star;
	else
		copy->precision = run->star;
	copy->plain = copy->plain && copy->precision < 0;
	return copy;
}

/* Runs a step that prints. Returns false if a length in the payload exceeds its size. */
static bool run_text(const struct step *step, struct run *run, uint64_t value)
{
	struct pev_conversion copy;
	const struct pev_conversion *conversion = conversion_of(run, step, &copy);

	switch (step->code) {
	case STAR:
		run->star = (int)value;
		return (uint32_t)value <= STAR_MAX;
	case NUMBER:
		if (step->star && run->star > NUMBER_STAR_MAX)
			return false;
		pev_text_number(run->text, conversion, value);
		return true;
	case CHARACTER:
		put_character(run->text, conversion, value);
		return true;
	case POINTER:
		put_pointer(run->text, value);
		return true;
	case FUNCTION:
		put_function(run, step, value);
		return true;
	case ADDRESS:
		put_address(run, step);
		return true;
	case STRING:
		pev_text_string(run->text, conversion, step->string, step->size);
		return true;
	case STRING_AT:
		put_string_at(run, value);
		return true;
	case ARRAY:
		put_array(run, step, conversion);
		return true;
	case DYNAMIC:
		put_dynamic(run, step, conversion);
		return true;
	case FLAGS:
		put_flags(run, step, conversion, (int64_t)value);
		return true;
	case SYMBOL:
		put_symbol(run, step, conversion, (int64_t)value);
		return true;
	case DUMP:
		put_dump(run, step);
		return true;
	case BITMASK:
	case BITLIST:
		return put_mask(run, step);
	default:
		return put_elements(run, step, value);
	}
}

bool pev_print_plan_run(const struct pev_print_plan *plan, const unsigned char *raw, size_t len,
			const struct pev_print_names *names, struct pev_text *text)
{
	struct run run = { raw, len, plan->swap, 0, names, text };
	uint64_t stack[STACK_MAX] = { 0 };
	size_t before = text->len;
	int nr = 0;

	/* An empty print format has no steps, and plan->steps is NULL. */
	for (uint32_t i = 0; i < plan->nr; i++) {
		const struct step *step = &plan->steps[i];

		if (step->code <= CHOOSE) {
			nr = run_number(step, &run, stack, nr);
			continue;
		}
		nr = 0; /* the step may read stack[0] */
		if (step->code == LITERAL) {
			pev_text_put_short(text, step->string, step->size);
		} else if (step->code == SKIP || (step->code == SKIP_UNLESS && !stack[0])) {
			i += step->size;
		} else if (step->code != SKIP_UNLESS && !run_text(step, &run, stack[0])) {
			text->len = before;
			return false;
		}
	}
	return true;
}
