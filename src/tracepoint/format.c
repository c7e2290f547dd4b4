/*
 * format.c - a format text -> the table of a payload's fields, and their values.
 *
 * The field lines are a table with one row a line, so they are read here, line
 * by line, with every span inside the text. The text may come from a foreign recording.
 * Text: f_show() in kernel/trace/trace_events.c; offsets of dynamic fields:
 * __dynamic_array in include/trace/stages/stage5_get_offsets.h.
 */
#define _GNU_SOURCE
#include "tracepoint/format.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	NAME_LEN_MAX = 255 /* of an event's name, and of a declaration */
};

/* ---- the text ---- */

static bool is_blank(char ch)
{
	return ch == ' ' || ch == '\t' || ch == '\r';
}

struct pev_span pev_span_trim(struct pev_span s)
{
	while (s.p < s.end && is_blank(*s.p))
		s.p++;
	while (s.p < s.end && is_blank(s.end[-1]))
		s.end--;
	return s;
}

struct pev_span pev_span_cut(struct pev_span *s, char ch)
{
	const char *at = s->p < s->end ? memchr(s->p, ch, pev_span_len(*s)) : NULL;
	struct pev_span head = { s->p, at ? at : s->end };

	s->p = at ? at + 1 : s->end;
	return head;
}

/* The rest of a "key:rest" line. */
static bool read_key(struct pev_span s, const char *key, struct pev_span *rest)
{
	size_t len = strlen(key);

	s = pev_span_trim(s);
	if (pev_span_len(s) <= len || memcmp(s.p, key, len) != 0 || s.p[len] != ':')
		return false;
	*rest = pev_span_trim((struct pev_span){ s.p + len + 1, s.end });
	return true;
}

static bool read_number(struct pev_span s, uint32_t *value)
{
	uint32_t sum = 0;

	if (s.p == s.end || pev_span_len(s) > 9)
		return false;
	for (; s.p < s.end; s.p++) {
		if (*s.p < '0' || *s.p > '9')
			return false;
		sum = sum * 10 + (uint32_t)(*s.p - '0');
	}
	*value = sum;
	return true;
}

/* The last word of s, taken off its end. */
static struct pev_span last_word(struct pev_span *s)
{
	struct pev_span word = { s->end, s->end };

	while (word.p > s->p && pev_is_word(word.p[-1]))
		word.p--;
	s->end = word.p;
	*s = pev_span_trim(*s);
	return word;
}

/* "pid_t next_pid", "char comm[16]", "__data_loc char[] name", "u8 *p" */
static bool split_decl(struct pev_format_line *line)
{
	struct pev_span head = line->decl, tail = head;

	line->type = line->decl;
	line->brackets = memchr(head.p, '[', pev_span_len(head)) != NULL;
	if (line->brackets) {
		const char *close = memrchr(head.p, ']', pev_span_len(head));

		head = pev_span_trim(pev_span_cut(&tail, '['));
		if (!close || close < tail.p)
			return false;
		line->array = pev_span_trim((struct pev_span){ tail.p, close });
		tail = pev_span_trim((struct pev_span){ close + 1, tail.end });
		line->behind = tail.p == tail.end;
	}
	if (!line->brackets || line->behind) {
		line->name = last_word(&head);
		line->type = head;
	} else {
		line->name = last_word(&tail);
		line->type.end = tail.end;
		line->type = pev_span_trim((struct pev_span){ line->type.p, line->name.p });
		if (tail.p != tail.end)
			return false;
	}
	return pev_span_len(line->type) > 0 && pev_span_len(line->decl) <= NAME_LEN_MAX &&
	       pev_span_len(line->name) > 0 &&
	       !(*line->name.p >= '0' && *line->name.p <= '9');
}

static bool read_line(struct pev_format_line *line, struct pev_span s)
{
	struct pev_span rest;

	*line = (struct pev_format_line){ .decl = pev_span_trim(pev_span_cut(&s, ';')) };
	line->array = (struct pev_span){ line->decl.end, line->decl.end };
	if (!read_key(pev_span_cut(&s, ';'), "offset", &rest) || !read_number(rest, &line->offset))
		return false;
	if (!read_key(pev_span_cut(&s, ';'), "size", &rest) || !read_number(rest, &line->size))
		return false;
	/* Kernels before 2.6.32 did not write the sign. */
	if (read_key(pev_span_cut(&s, ';'), "signed", &rest) &&
	    !read_number(rest, &line->is_signed))
		return false;
	return split_decl(line);
}

static int text_error(struct pev_err *err, const char *system, struct pev_span s, const char *why)
{
	int len = pev_span_len(s) < 80 ? (int)pev_span_len(s) : 80;

	return pev_fail(err, -EBADMSG, "tracepoint format of %s: %s at \"%.*s\"; "
			"expected the text of a tracefs events/*/*/format file",
			system, why, len, len ? s.p : "");
}

static int read_id(struct pev_format *format, struct pev_span rest, const char *system,
		   struct pev_err *err)
{
	uint32_t id;

	if (!read_number(rest, &id) || id > INT_MAX)
		return text_error(err, system, rest, "ID is not a number");
	format->id = (int)id;
	return 0;
}

static int add_line(struct pev_format *format, struct pev_span rest, const char *system,
		    struct pev_err *err)
{
	if (format->nr == PEV_FIELDS_MAX)
		return text_error(err, system, rest, "more than 512 fields");
	if (!read_line(&format->lines[format->nr], rest))
		return text_error(err, system, rest, "field line not understood");
	format->nr++;
	return 0;
}

static int read_text(struct pev_format *format, const char *system, struct pev_span s,
		     struct pev_err *err)
{
	const char *end = s.end;
	int rc = 0;

	while (rc == 0 && s.p < s.end) {
		struct pev_span line = pev_span_trim(pev_span_cut(&s, '\n')), rest;

		if (read_key(line, "print fmt", &rest)) {
			/* It may continue in the next line: ext4's strings contain newlines. */
			format->print = (struct pev_span){ rest.p, end };
			break;
		}
		if (read_key(line, "field", &rest))
			rc = add_line(format, rest, system, err);
		else if (read_key(line, "name", &rest))
			format->name = rest;
		else if (read_key(line, "ID", &rest))
			rc = read_id(format, rest, system, err);
		else if (line.p < line.end && !pev_span_is(line, "format:"))
			rc = text_error(err, system, line, "line not understood");
	}
	return rc;
}

int pev_format_read(struct pev_format *format, const char *system, const char *text, size_t len,
		    struct pev_err *err)
{
	struct pev_span s = { text, text + len };
	int rc;

	*format = (struct pev_format){
		.name = { s.end, s.end }, .print = { s.end, s.end }, .id = -1
	};
	format->lines = calloc(PEV_FIELDS_MAX, sizeof(*format->lines));
	if (!format->lines)
		return pev_fail(err, -ENOMEM, "tracepoint format of %s: out of memory", system);
	rc = read_text(format, system, s, err);
	if (rc == 0 && (format->id < 0 || format->nr == 0 || pev_span_len(format->name) == 0 ||
			pev_span_len(format->name) > NAME_LEN_MAX))
		rc = text_error(err, system, (struct pev_span){ text, text },
				"no name, ID or field");
	if (rc < 0)
		pev_format_free(format);
	return rc;
}

void pev_format_free(struct pev_format *format)
{
	free(format->lines);
	format->lines = NULL;
}

/* ---- the table ---- */

static const struct {
	const char *word;
	uint32_t bytes;   /* 0: a long of the recording machine */
} types[] = {
	/* longer words first: "long long" before "long" */
	{ "long long", 8 }, { "64", 8 }, { "loff_t", 8 }, { "ino_t", 0 }, { "long", 0 },
	{ "ptr", 0 },
	{ "size_t", 0 }, { "cpumask", 0 }, { "*", 0 }, { "16", 2 }, { "short", 2 },
	{ "32", 4 }, { "int", 4 }, { "dev_t", 4 }, { "pid_t", 4 }, { "enum", 4 }, { "unsigned", 4 },
};

/* Bytes of one element by the type's name; 1 for types other than known integers. */
static uint32_t type_bytes(struct pev_span type, uint32_t long_size)
{
	static const char *const bytes[] = { "struct", "union", "char", "u8", "s8", "bool" };

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		if (pev_span_has(type, bytes[i]))
			return pev_span_has(type, "*") ? long_size : 1;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (pev_span_has(type, types[i].word))
			return types[i].bytes ? types[i].bytes : long_size;
	return 1;
}

static bool is_element(uint32_t bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static uint32_t line_elem(const struct pev_format_line *line, bool dynamic, uint32_t long_size)
{
	uint32_t bytes = type_bytes(line->type, long_size), nr = 0;

	if (dynamic)
		return bytes;
	if (!line->brackets)
		return is_element(line->size) ? line->size : 1;
	/* __u16 addr[8] of 16 bytes; but a struct[2] of 16 is bytes, not numbers. */
	read_number(line->array, &nr);
	if (bytes > 1 && nr && line->size % nr == 0 && is_element(line->size / nr))
		return line->size / nr;
	return line->size % bytes == 0 ? bytes : 1;
}

static uint32_t line_flags(const struct pev_format_line *line, uint32_t elem)
{
	uint32_t flags = line->is_signed ? PEV_TP_SIGNED : 0;

	if (pev_span_len(line->name) > 7 && memcmp(line->name.p, "common_", 7) == 0)
		flags |= PEV_TP_COMMON;
	if (pev_span_has(line->type, "__data_loc"))
		flags |= PEV_TP_DATA_LOC | PEV_TP_ARRAY;
	else if (pev_span_has(line->type, "__rel_loc"))
		flags |= PEV_TP_REL_LOC | PEV_TP_ARRAY;
	else if (line->brackets || !is_element(line->size))
		flags |= PEV_TP_ARRAY;
	if (!(flags & PEV_TP_ARRAY) && pev_span_has(line->type, "*"))
		flags |= PEV_TP_POINTER;
	if ((flags & PEV_TP_ARRAY) && elem == 1 && pev_span_has(line->type, "char") &&
	    !pev_span_has(line->type, "unsigned"))
		flags |= PEV_TP_STRING;
	return flags;
}

/*
 * A system call's argument is an unsigned word in the payload, whatever its type
 * (syscall_enter_define_fields() in kernel/trace/trace_syscalls.c). The upper half of an int is
 * undefined: the caller's register.
 */
static const struct {
	const char *type;
	uint32_t bytes; /* 0: a word */
	bool is_signed;
} arguments[] = {
	{ "int", 4, true }, { "unsigned int", 4, false }, { "unsigned", 4, false },
	{ "long", 0, true }, { "pid_t", 4, true }, { "uid_t", 4, false }, { "gid_t", 4, false },
	{ "qid_t", 4, false }, { "umode_t", 2, false }, { "off_t", 0, true }, { "loff_t", 0, true },
	{ "ssize_t", 0, true }, { "clockid_t", 4, true }, { "timer_t", 4, true },
	{ "mqd_t", 4, true }, { "key_t", 4, true }, { "key_serial_t", 4, true },
	{ "rwf_t", 4, true }, { "s32", 4, true }, { "__s32", 4, true }, { "u32", 4, false },
	{ "__u32", 4, false },
};

static void add_argument(struct pev_tp_form *form, struct pev_span type)
{
	if (pev_span_len(type) > 6 && memcmp(type.p, "const ", 6) == 0)
		type.p += 6;
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		if (!pev_span_is(type, arguments[i].type))
			continue;
		if (arguments[i].bytes && arguments[i].bytes < form->bytes)
			form->bytes = arguments[i].bytes;
		form->flags |= arguments[i].is_signed ? PEV_TP_SIGNED : 0;
	}
}

static bool starts_with(struct pev_span s, const char *word)
{
	return pev_span_len(s) >= strlen(word) && memcmp(s.p, word, strlen(word)) == 0;
}

/* True if the print format shows the field as NAME=0x%... or NAME=%p. */
static bool is_printed_hex(struct pev_span print, struct pev_span name)
{
	size_t len = pev_span_len(name);
	const char *at = print.p;

	while (at < print.end && (at = memmem(at, (size_t)(print.end - at), name.p, len)) != NULL) {
		struct pev_span behind = { at + len, print.end };

		if ((at == print.p || !pev_is_word(at[-1])) &&
		    (starts_with(behind, "=0x%") || starts_with(behind, "=%p")))
			return true;
		at = behind.p;
	}
	return false;
}

/* As a probe's arguments are declared: see lua/perfev/probe/probe_arguments.lua. */
static bool is_hex_type(struct pev_span type)
{
	return pev_span_is(type, "x8") || pev_span_is(type, "x16") || pev_span_is(type, "x32") ||
	       pev_span_is(type, "x64");
}

struct pev_tp_form pev_format_form(const struct pev_format *format,
				   const struct pev_format_line *line)
{
	struct pev_tp_form form = { line->size, line->is_signed ? PEV_TP_SIGNED : 0 };

	if (starts_with(format->name, "sys_enter_"))
		add_argument(&form, line->type);
	if (pev_span_has(line->type, "*") || is_hex_type(line->type) ||
	    is_printed_hex(format->print, line->name))
		form.flags |= PEV_TP_HEX;
	return form;
}

static const char *store_text(char **at, struct pev_span s)
{
	char *start = *at;

	memcpy(start, s.p, pev_span_len(s));
	start[pev_span_len(s)] = '\0';
	*at += pev_span_len(s) + 1;
	return start;
}

/* "char[16]": the brackets of a C declaration go to its type. */
static const char *store_type(char **at, const struct pev_format_line *line)
{
	const char *type = store_text(at, line->type);

	if (line->brackets && line->behind)
		*at += sprintf(*at - 1, "[%.*s]", (int)pev_span_len(line->array),
			       line->array.p);
	return type;
}

static void fill_field(struct pev_tp_field *field, const struct pev_format *format,
		       const struct pev_format_line *line, char **at, uint32_t long_size)
{
	struct pev_tp_form form = pev_format_form(format, line);
	bool dynamic = pev_span_has(line->type, "__data_loc") ||
		       pev_span_has(line->type, "__rel_loc");

	field->name = store_text(at, line->name);
	field->type = store_type(at, line);
	field->offset = line->offset;
	field->size = line->size;
	field->elem = line_elem(line, dynamic, long_size);
	field->flags = line_flags(line, field->elem);
	if (!(field->flags & PEV_TP_ARRAY)) {
		field->elem = form.bytes;
		field->flags |= form.flags;
	}
	field->flags |= form.flags & PEV_TP_HEX; /* of each element */
}

struct pev_tp_field *pev_format_table(struct pev_tracepoint *tp, const struct pev_format *format,
				      const char *system, uint32_t long_size)
{
	size_t need = format->nr * sizeof(struct pev_tp_field) + strlen(system) +
		      pev_span_len(format->name) + 2;
	struct pev_tp_field *fields;
	char *at;

	for (uint32_t i = 0; i < format->nr; i++)
		need += pev_span_len(format->lines[i].decl) + 4;
	fields = malloc(need);
	if (!fields)
		return NULL;
	at = (char *)(fields + format->nr);
	tp->id = format->id;
	tp->system = store_text(&at, (struct pev_span){ system, system + strlen(system) });
	tp->name = store_text(&at, format->name);
	tp->fields = fields;
	tp->nr = format->nr;
	for (uint32_t i = 0; i < format->nr; i++)
		fill_field(&fields[i], format, &format->lines[i], &at, long_size);
	return fields;
}

/* ---- payloads ---- */

/* Follows a u32 len << 16 | offset, which may point outside the payload. */
static int find_dynamic_bytes(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
			      const unsigned char *raw, size_t len, struct pev_tp_value *value)
{
	uint32_t loc, at;

	if (field->size != 4)
		return -EBADMSG;
	loc = (uint32_t)pev_tp_load(raw + field->offset, 4, tp->swap);
	at = loc & 0xffff;
	if (field->flags & PEV_TP_REL_LOC)
		at += field->offset + field->size;
	value->len = loc >> 16;
	if ((uint64_t)at + value->len > len)
		return -EBADMSG;
	value->p = raw + at;
	return 0;
}

int pev_tp_get(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
	       const void *raw, size_t len, struct pev_tp_value *value)
{
	const unsigned char *bytes = raw;
	const void *nul;

	*value = (struct pev_tp_value){ 0 };
	if ((uint64_t)field->offset + field->size > len)
		return -EBADMSG;
	if (!(field->flags & PEV_TP_ARRAY)) {
		value->i = pev_tp_extend(pev_tp_load(bytes + field->offset, field->size, tp->swap),
				  field->elem, field->flags & PEV_TP_SIGNED);
		return 0;
	}
	if (pev_tp_is_dynamic(field)) {
		if (find_dynamic_bytes(tp, field, bytes, len, value) < 0)
			return -EBADMSG;
	} else {
		value->p = bytes + field->offset;
		/* A last field of size 0 is the rest of the payload: "char buf[]". */
		value->len = field->size ? field->size : (uint32_t)(len - field->offset);
	}
	nul = field->flags & PEV_TP_STRING && value->len ? memchr(value->p, 0, value->len) : NULL;
	if (nul)
		value->len = (uint32_t)((const unsigned char *)nul - value->p);
	return 0;
}

int64_t pev_tp_element(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
		       const struct pev_tp_value *value, uint32_t i)
{
	if (!value->p || i >= value->len / field->elem)
		return 0;
	return pev_tp_extend(pev_tp_load(value->p + (size_t)i * field->elem, field->elem, tp->swap),
		      field->elem, field->flags & PEV_TP_SIGNED);
}

const struct pev_tp_field *pev_tp_find(const struct pev_tracepoint *tp, struct pev_span name)
{
	for (uint32_t i = 0; i < tp->nr; i++)
		if (pev_span_is(name, tp->fields[i].name))
			return &tp->fields[i];
	return NULL;
}

const struct pev_tp_field *pev_tp_field(const struct pev_tracepoint *tp, const char *name)
{
	return pev_tp_find(tp, (struct pev_span){ name, name + strlen(name) });
}
