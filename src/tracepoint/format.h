/*
 * format.h - a tracepoint's format text, and the table of a payload's fields.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

enum {
	PEV_TP_SIGNED = 1,
	PEV_TP_STRING = 2,   /* char[] or __data_loc char[]: cut at the first NUL */
	PEV_TP_ARRAY = 4,    /* more than one element, or dynamic */
	PEV_TP_DATA_LOC = 8, /* u32 len << 16 | offset from the payload's start */
	PEV_TP_REL_LOC = 16, /* the same, offset from the end of this field */
	PEV_TP_COMMON = 32,  /* common_type .. common_pid */
	PEV_TP_POINTER = 64,
	PEV_TP_HEX = 128     /* shown in hexadecimal: a pointer, or by its print format */
};

struct pev_tp_field {
	const char *name;    /* "next_pid" */
	const char *type;    /* as declared: "pid_t", "__data_loc char[]" */
	uint32_t offset;     /* bytes from the payload's start */
	uint32_t size;       /* bytes there */
	uint32_t elem;       /* bytes of an element: 1, 2, 4 or 8; a system call's argument has
			      * its type's size: the lowest bytes of the word */
	uint32_t flags;      /* PEV_TP_* */
};

struct pev_tracepoint {
	int id;
	const char *system, *name;
	const struct pev_tp_field *fields; /* common ones first, as in the text */
	uint32_t nr;
	bool swap;                         /* payloads of the other byte order */
};

/* A payload's field: a number, or len bytes at p (borrowed from raw). */
struct pev_tp_value {
	int64_t i;               /* numbers: sign- or zero-extended as declared */
	const unsigned char *p;  /* arrays and strings, else NULL */
	uint32_t len;            /* bytes at p */
};

/* Returns -EBADMSG if the field, or the data of a __data_loc, is not inside raw[0..len). */
int pev_tp_get(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
	       const void *raw, size_t len, struct pev_tp_value *value);
/* The same for a plain number only. Returns false if the field is not one. */
static inline bool pev_tp_integer(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
				  const void *raw, size_t len, int64_t *value);
/* The i-th element of an array field whose bytes are at value->p. */
int64_t pev_tp_element(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
		       const struct pev_tp_value *value, uint32_t i);
/* The field of that name, or NULL. */
const struct pev_tp_field *pev_tp_field(const struct pev_tracepoint *tp, const char *name);

/* ---- for tracepoint.c ---- */

/* Bytes of a text; not NUL-terminated. */
struct pev_span {
	const char *p, *end;
};

/* A field line: the declaration and its three numbers. */
struct pev_format_line {
	struct pev_span decl;
	struct pev_span type, name;
	struct pev_span array;  /* between the brackets */
	bool brackets, behind;  /* char name[16] has them behind the name */
	uint32_t offset, size, is_signed;
};

enum { PEV_FIELDS_MAX = 512 };

/* A format text, taken apart; borrows the text. */
struct pev_format {
	struct pev_span name, print; /* print: the text after "print fmt:", or empty */
	int id;
	struct pev_format_line *lines;
	uint32_t nr;
};

/*
 * Parses a format text, which needs no NUL. Returns -EBADMSG with the line if the text is malformed
 * or has more than 512 fields; then the caller frees nothing.
 */
int pev_format_read(struct pev_format *format, const char *system, const char *text, size_t len,
		    struct pev_err *err);
void pev_format_free(struct pev_format *format);

/*
 * Fills in tp's id, names and fields. They are one block, which the caller frees after the last use
 * of tp; NULL without memory. The text is not kept.
 */
struct pev_tp_field *pev_format_table(struct pev_tracepoint *tp, const struct pev_format *format,
				      const char *system, uint32_t long_size);

/* The form of a field's value: bytes (as elem in the table), PEV_TP_SIGNED and _HEX. */
struct pev_tp_form {
	uint32_t bytes, flags;
};

struct pev_tp_form pev_format_form(const struct pev_format *format,
				   const struct pev_format_line *line);

const struct pev_tp_field *pev_tp_find(const struct pev_tracepoint *tp, struct pev_span name);

/* Loads 1, 2, 4 or 8 bytes, unaligned; 0 for any other size. */
static inline uint64_t pev_tp_load(const unsigned char *p, uint32_t bytes, bool swap)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (bytes) {
	case 8:
		memcpy(&v64, p, sizeof(v64));
		return swap ? __builtin_bswap64(v64) : v64;
	case 4:
		memcpy(&v32, p, sizeof(v32));
		return swap ? __builtin_bswap32(v32) : v32;
	case 2:
		memcpy(&v16, p, sizeof(v16));
		return swap ? __builtin_bswap16(v16) : v16;
	case 1:
		return *p;
	default:
		return 0;
	}
}

/* The lowest bytes (1 to 8) of a value of pev_tp_load(), sign-extended if is_signed. */
static inline int64_t pev_tp_extend(uint64_t v, uint32_t bytes, bool is_signed)
{
	uint32_t rest = 64 - 8 * bytes;

	return is_signed ? (int64_t)(v << rest) >> rest : (int64_t)(v << rest >> rest);
}

static inline bool pev_tp_integer(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
				  const void *raw, size_t len, int64_t *value)
{
	const unsigned char *bytes = (const unsigned char *)raw;

	if (field->flags & PEV_TP_ARRAY || (uint64_t)field->offset + field->size > len)
		return false;
	*value = pev_tp_extend(pev_tp_load(bytes + field->offset, field->size, tp->swap),
			       field->elem, field->flags & PEV_TP_SIGNED);
	return true;
}

static inline bool pev_tp_is_dynamic(const struct pev_tp_field *field)
{
	return field->flags & (PEV_TP_DATA_LOC | PEV_TP_REL_LOC);
}

/* Returns the span without the blanks around it. */
struct pev_span pev_span_trim(struct pev_span s);

/* Returns the text before the next ch and steps over ch; without ch, the whole text. */
struct pev_span pev_span_cut(struct pev_span *s, char ch);

static inline size_t pev_span_len(struct pev_span s)
{
	return (size_t)(s.end - s.p);
}

static inline bool pev_span_is(struct pev_span s, const char *word)
{
	return pev_span_len(s) == strlen(word) && memcmp(s.p, word, pev_span_len(s)) == 0;
}

static inline bool pev_span_has(struct pev_span s, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = s.p; (size_t)(s.end - p) >= len; p++)
		if (memcmp(p, word, len) == 0)
			return true;
	return false;
}

/* A letter, digit or underscore, whatever the locale. */
static inline bool pev_is_word(char ch)
{
	return ch == '_' || (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') ||
	       (ch >= 'A' && ch <= 'Z');
}
