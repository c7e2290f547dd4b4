/*
 * print_plan.c - a print format made into a list of steps; see print_plan.h.
 *
 * Numbers are computed on a small stack, as eval_num_arg() in libtraceevent's event-parse.c
 * does. Both sides of a "?" between numbers are computed: nothing in them can fail.
 */
#include "tracepoint/print_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "tracepoint/print_step.h"
#include "tracepoint/print_value.h"

enum {
	STEPS_MAX = 1024,    /* of a plan */
	DEPTH_MAX = 64,      /* operations inside operations, and strings inside strings */
	TEXT_MAX = 1 << 16   /* bytes of a print format */
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
	struct step *step = ++c->numbers <= PEV_PRINT_STACK_MAX ? add_step(c, PUSH) : NULL;

	if (step)
		step->value = value;
	return step;
}

static bool push_load(struct compiler *c, enum code code, uint32_t offset, uint32_t size)
{
	struct step *step = ++c->numbers <= PEV_PRINT_STACK_MAX ? add_step(c, code) : NULL;

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

/* ---- compile: conversions ---- */

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

/* ---- compile: the parts that print one field ---- */

/*
 * Finds the field that the node prints. Returns false for a node that prints several fields, the
 * length of a field, or one of its elements.
 */
static bool find_only_field(const struct pev_print_node *node, const struct pev_tp_field **field)
{
	bool has_count = node->kind == PEV_PRINT_HEX || node->kind == PEV_PRINT_ARRAY;

	if (node->kind == PEV_PRINT_LENGTH || node->kind == PEV_PRINT_INDEX)
		return false;
	if (node->field && *field && *field != node->field)
		return false;
	if (node->field)
		*field = node->field;
	for (int i = 0; i < (has_count ? 1 : 3); i++)
		if (node->operands[i] && !find_only_field(node->operands[i], field))
			return false;
	return true;
}

/* Returns true if nothing but punctuation, as in "%d,%d", is between the steps. */
static bool is_joint(const struct pev_print_plan *plan, uint32_t end, uint32_t first)
{
	const struct step *between = &plan->steps[end];

	if (first != end + 1 || between->code != LITERAL)
		return first == end;
	for (uint32_t i = 0; i < between->size; i++)
		if (pev_is_word(between->string[i]) || between->string[i] == ' ')
			return false;
	return true;
}

static bool prints_text(const struct pev_print_plan *plan, uint32_t first)
{
	for (; first < plan->nr; first++)
		if (plan->steps[first].code >= FUNCTION && plan->steps[first].code <= NUMBERS)
			return true;
	return false;
}

static bool follows_0x(const struct pev_print_plan *plan, uint32_t first)
{
	const struct step *before = first ? &plan->steps[first - 1] : NULL;

	return before && before->code == LITERAL && before->size >= 2 &&
	       memcmp(before->string + before->size - 2, "0x", 2) == 0;
}

/* Adds a part for the steps from first on if they print one field; or extends the last part. */
static bool add_part(struct compiler *c, uint32_t first, const struct pev_print_node *node)
{
	struct pev_print_plan *plan = c->plan;
	const struct pev_tp_field *field = NULL;
	struct part *last = plan->nr_parts ? &plan->parts[plan->nr_parts - 1] : NULL;
	bool is_text = prints_text(plan, first);

	if (!find_only_field(node, &field) || !field)
		return true;
	if (last && last->field == field && is_joint(plan, last->end, first)) {
		last->end = plan->nr;
		last->is_text |= is_text;
		return true;
	}
	if (!pev_list_reserve(&plan->parts, &plan->cap_parts, plan->nr_parts + 1, sizeof(*last)))
		return false;
	plan->parts[plan->nr_parts++] =
		(struct part){ field, first, plan->nr, is_text, follows_0x(plan, first) };
	return true;
}

/* ---- compile: the format ---- */

/* Adds the steps of the argument for the conversion from start to *p. */
static bool compile_argument(struct compiler *c, const struct pev_print_node *node,
			     const char *start, const char **p)
{
	char letter = (*p)[-1];

	if (letter == 'p')
		return compile_pointer(c, node, p);
	if (!read_conversion(c, start, *p - 1))
		return false;
	if (letter == 's')
		return compile_text(c, node, 0);
	return compile_number(c, node, 0) && add_step(c, letter == 'c' ? CHARACTER : NUMBER);
}

/* Adds the steps of the conversion at *p, a "%", and moves *p and the arguments past it. */
static bool compile_conversion(struct compiler *c, const char **p)
{
	const char *start = (*p)++, *letter;
	const struct pev_print_node *node;
	uint32_t first = c->plan->nr;

	if (!compile_star(c, start, p))
		return false;
	letter = (*p)++;
	if (!strchr("pcdiuxXos", *letter))
		return compile_unknown(c, *letter);
	node = next_argument(c);
	return node && compile_argument(c, node, start, p) && add_part(c, first, node);
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
	free(plan->parts);
	free(plan->names);
	free(plan->strings);
	free(plan);
}
