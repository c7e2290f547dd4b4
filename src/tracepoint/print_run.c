/*
 * print_run.c - runs the steps of a print plan; see print_plan.h.
 *
 * Strings are written as print_str_arg() in libtraceevent's event-parse.c does.
 */
#include "tracepoint/print_plan.h"

#include <string.h>

#include "tracepoint/print_step.h"
#include "tracepoint/print_value.h"

enum {
	STAR_MAX = 1 << 16, /* of a width or precision from the payload */
	NUMBER_STAR_MAX = 999
};

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
static int run_number(const struct step *step, const struct run *run,
		      uint64_t stack[PEV_PRINT_STACK_MAX], int nr)
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
	copy->plain = copy->plain && copy->precision < 0 && copy->width <= PEV_TEXT_WIDE;
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

static bool run_steps(const struct pev_print_plan *plan, uint32_t first, uint32_t end,
		      struct run *run)
{
	uint64_t stack[PEV_PRINT_STACK_MAX] = { 0 };
	size_t before = run->text->len;
	int nr = 0;

	/* An empty print format has no steps, and plan->steps is NULL. */
	for (uint32_t i = first; i < end; i++) {
		const struct step *step = &plan->steps[i];

		if (step->code <= CHOOSE) {
			nr = run_number(step, run, stack, nr);
			continue;
		}
		nr = 0; /* the step may read stack[0] */
		if (step->code == LITERAL) {
			pev_text_put_short(run->text, step->string, step->size);
		} else if (step->code == SKIP || (step->code == SKIP_UNLESS && !stack[0])) {
			i += step->size;
		} else if (step->code != SKIP_UNLESS && !run_text(step, run, stack[0])) {
			run->text->len = before;
			return false;
		}
	}
	return true;
}

bool pev_print_plan_run(const struct pev_print_plan *plan, const unsigned char *raw, size_t len,
			const struct pev_print_names *names, struct pev_text *text)
{
	struct run run = { raw, len, plan->swap, 0, names, text };

	return run_steps(plan, 0, plan->nr, &run);
}

/* Returns the first part that prints the field by names; else the first one; or NULL. */
static const struct part *find_part(const struct pev_print_plan *plan,
				    const struct pev_tp_field *field)
{
	const struct part *found = NULL;

	for (uint32_t i = 0; i < plan->nr_parts; i++) {
		const struct part *part = &plan->parts[i];

		if (part->field == field && (!found || (part->is_text && !found->is_text)))
			found = part;
	}
	return found;
}

bool pev_print_plan_run_field(const struct pev_print_plan *plan, const struct pev_tp_field *field,
			      const unsigned char *raw, size_t len,
			      const struct pev_print_names *names, struct pev_text *text)
{
	struct run run = { raw, len, plan->swap, 0, names, text };
	const struct part *part = find_part(plan, field);

	if (!part)
		return false;
	if (part->has_0x)
		pev_text_put(text, "0x", 2);
	return run_steps(plan, part->first, part->end, &run);
}
