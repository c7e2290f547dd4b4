/*
 * tracepoint.c - the tracepoints of one recording machine, and their print.
 *
 * A payload that contains all its fields is printed by a plan (print_plan.h). Other payloads, and
 * those with an unknown construct in their print format, are printed field by field, as
 * libtraceevent does.
 */
#include "tracepoint/tracepoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracepoint/print_plan.h"
#include "base/text_buffer.h"

enum {
	PAYLOAD_MAX = 1 << 16,   /* a record's size is 16 bits */
	STRING_MAX = 4096        /* of a line of printk_formats */
};

struct tracepoint {
	struct pev_tracepoint tp;          /* first: the pointer that callers hold */
	struct pev_tracepoints *owner;
	struct tracepoint *next;
	struct pev_tp_field *fields;       /* tp.fields, to be freed */
	struct pev_print_plan *plan;       /* NULL: the print format has an unknown construct */
	uint64_t least;                    /* bytes of a payload that has all fixed fields */
	bool has_dynamic;                  /* some fields are dynamic */
};

/* A constant string of the kernel. */
struct string {
	uint64_t addr;
	char *text;
};

struct pev_tracepoints {
	struct tracepoint *list;
	bool swap;
	uint32_t long_size;
	struct pev_print_names names;
	struct string *strings;            /* by address after the first print */
	size_t nr_strings;
	bool sorted;
};

/* ---- the registry ---- */

static void free_tracepoint(struct tracepoint *t)
{
	pev_print_plan_free(t->plan);
	free(t->fields);
	free(t);
}

static int compare_strings(const void *a, const void *b)
{
	const struct string *left = a, *right = b;

	return (left->addr > right->addr) - (left->addr < right->addr);
}

static const char *find_string(void *ctx, uint64_t addr)
{
	struct pev_tracepoints *tps = ctx;
	const struct string key = { .addr = addr }, *found;

	if (!tps->nr_strings)
		return NULL;
	if (!tps->sorted)
		qsort(tps->strings, tps->nr_strings, sizeof(key), compare_strings);
	tps->sorted = true;
	found = bsearch(&key, tps->strings, tps->nr_strings, sizeof(key), compare_strings);
	return found ? found->text : NULL;
}

struct pev_tracepoints *pev_tracepoints_new(bool big_endian, int long_size)
{
	struct pev_tracepoints *tps = calloc(1, sizeof(*tps));

	if (!tps)
		return NULL;
	tps->swap = big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	tps->long_size = long_size == 4 ? 4 : 8;
	tps->names.string = find_string;
	tps->names.string_ctx = tps;
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
	for (size_t i = 0; i < tps->nr_strings; i++)
		free(tps->strings[i].text);
	free(tps->strings);
	free(tps);
}

/* By name, too: the kernel gives the id of a removed probe to the next one. */
static const struct pev_tracepoint *find_tracepoint(const struct pev_tracepoints *tps,
						    const char *system,
						    const struct pev_format *format)
{
	size_t len = (size_t)(format->name.end - format->name.p);

	for (const struct tracepoint *t = tps->list; t; t = t->next)
		if (t->tp.id == format->id && !strcmp(t->tp.system, system) &&
		    strlen(t->tp.name) == len && !memcmp(t->tp.name, format->name.p, len))
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
	if (t->least <= PAYLOAD_MAX)
		t->plan = pev_print_plan_new(&t->tp, format->print, tps->long_size);
	return t;
}

static int add_tracepoint(struct pev_tracepoints *tps, const char *system,
			  const struct pev_format *format, const struct pev_tracepoint **tp,
			  struct pev_err *err)
{
	struct tracepoint *t;

	*tp = find_tracepoint(tps, system, format);
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
	rc = add_tracepoint(tps, system, &format, tp, err);
	pev_format_free(&format);
	return rc;
}

void pev_tracepoints_symbols(struct pev_tracepoints *tps, pev_symbol_fn fn, void *ctx)
{
	tps->names.symbol = fn;
	tps->names.symbol_ctx = ctx;
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

static bool add_string(struct pev_tracepoints *tps, uint64_t addr, struct pev_span text)
{
	struct string *strings = reallocarray(tps->strings, tps->nr_strings + 1, sizeof(*strings));
	char *copy = strndup(text.p, pev_span_len(text));

	if (strings)
		tps->strings = strings;
	if (!strings || !copy) {
		free(copy);
		return false;
	}
	strings[tps->nr_strings].addr = addr;
	strings[tps->nr_strings++].text = copy;
	tps->sorted = false;
	return true;
}

int pev_tracepoints_strings(struct pev_tracepoints *tps, const char *text, size_t len)
{
	struct pev_span s = { text, text + len };
	int nr = 0;

	while (s.p < s.end) {
		struct pev_span line = pev_span_cut(&s, '\n'), string;
		uint64_t addr;

		if (pev_span_len(line) > STRING_MAX || !read_string(line, &addr, &string))
			continue;
		if (!add_string(tps, addr, string))
			return -ENOMEM;
		nr++;
	}
	return nr;
}

/* ---- print ---- */

/* True if the payload contains all fields. */
static bool is_whole(const struct tracepoint *t, const unsigned char *raw, size_t len)
{
	struct pev_tp_value value;

	if (len > PAYLOAD_MAX || len < t->least)
		return false;
	for (uint32_t i = 0; t->has_dynamic && i < t->tp.nr; i++)
		if (pev_tp_is_dynamic(&t->fields[i]) &&
		    pev_tp_get(&t->tp, &t->fields[i], raw, len, &value) < 0)
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

/* Returns false if the field is not inside the payload. */
static bool put_field(struct pev_text *out, const struct tracepoint *t,
		      const struct pev_tp_field *field, const void *raw, size_t len)
{
	struct pev_tp_value value;

	if (pev_tp_get(&t->tp, field, raw, len, &value) < 0)
		return false;
	if (field->flags & PEV_TP_ARRAY)
		put_array(out, field, &value);
	else
		put_number(out, field, value.i);
	return true;
}

/* The same as print_event_fields() in event-parse.c. */
static void put_fields(struct pev_text *out, const struct tracepoint *t, const void *raw,
		       size_t len)
{
	for (uint32_t i = 0; i < t->tp.nr; i++) {
		const struct pev_tp_field *field = &t->fields[i];

		if (field->flags & PEV_TP_COMMON)
			continue;
		putf(out, out->len ? " %s=" : "%s=", field->name);
		if (!put_field(out, t, field, raw, len))
			pev_text_put(out, "<bad>", 5);
	}
}

/* Ends the text. Returns its whole length. */
static size_t end_text(const struct pev_text *out, char *buf, size_t cap)
{
	if (cap)
		buf[out->len < cap - 1 ? out->len : cap - 1] = '\0';
	return out->len;
}

size_t pev_tp_print(const struct pev_tracepoint *tp, const void *raw, size_t len,
		    char *buf, size_t cap)
{
	const struct tracepoint *t = (const struct tracepoint *)tp;
	struct pev_text out = { .buf = buf, .cap = cap ? cap - 1 : 0 };

	if (!t->plan || !is_whole(t, raw, len) ||
	    !pev_print_plan_run(t->plan, raw, len, &t->owner->names, &out)) {
		/* A size of more than 16 bits is a probe's registers, which no format prints. */
		if (!t->plan && t->tp.id <= 0xffff)
			pev_text_put(&out, "[FAILED TO PARSE]", 17);
		put_fields(&out, t, raw, len);
	}
	return end_text(&out, buf, cap);
}

bool pev_tp_print_field(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
			const void *raw, size_t len, char *buf, size_t cap, size_t *text_len)
{
	const struct tracepoint *t = (const struct tracepoint *)tp;
	struct pev_text out = { .buf = buf, .cap = cap ? cap - 1 : 0 };

	if (!(t->plan && is_whole(t, raw, len) &&
	      pev_print_plan_run_field(t->plan, field, raw, len, &t->owner->names, &out)) &&
	    !put_field(&out, t, field, raw, len))
		return false;
	*text_len = end_text(&out, buf, cap);
	return true;
}
