/*
 * text_buffer.h - appends text to the caller's buffer, as printf(3) would write it.
 *
 * A conversion is parsed once; numbers and strings are then written without parsing it again.
 * Text that does not fit is counted and left out, so that len is the size that was needed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pev_text {
	char *buf;
	size_t cap, len; /* bytes; len may be more than cap */
};

/* The same for a buffer that may be full. */
void pev_text_cut(struct pev_text *text, const char *bytes, size_t len);

static inline void pev_text_put(struct pev_text *text, const char *bytes, size_t len)
{
	if (text->len + len >= text->cap) {
		pev_text_cut(text, bytes, len);
		return;
	}
	memcpy(text->buf + text->len, bytes, len);
	text->len += len;
}

enum { PEV_TEXT_SHORT = 16 };

/*
 * The same; PEV_TEXT_SHORT bytes must be readable even if len is less: a copy of constant size
 * takes a quarter of the time of a call with a variable size.
 */
static inline void pev_text_put_short(struct pev_text *text, const char *bytes, size_t len)
{
	if (len > PEV_TEXT_SHORT || text->len + PEV_TEXT_SHORT >= text->cap) {
		pev_text_put(text, bytes, len);
		return;
	}
	memcpy(text->buf + text->len, bytes, PEV_TEXT_SHORT);
	text->len += len;
}

static inline void pev_text_char(struct pev_text *text, char ch)
{
	if (text->len < text->cap)
		text->buf[text->len] = ch;
	text->len++;
}

enum { PEV_TEXT_WIDE = 40 }; /* padding up to this is one memset() of constant size */

#define PEV_CONVERSION_MAX 28

/* A conversion of printf(3): "%-16s", "%08lx". */
struct pev_conversion {
	char letter; /* one of diuxXos */
	unsigned char above; /* 64 less the bits of the number */
	bool is_signed, is_hex;
	bool left, zero, prefix; /* "-"; "0" without it; "#" of a hexadecimal number */
	bool plain; /* only these flags and a width up to PEV_TEXT_WIDE: without printf(3) */
	int width, precision; /* precision -1: none */
	char text[PEV_CONVERSION_MAX]; /* the flags with "*.*ll" and the letter, for printf(3) */
};

/*
 * Reads the conversion at p, its "%", at most up to end. Returns its length; 0: not a
 * conversion, or one whose width is an argument.
 */
size_t pev_conversion_read(struct pev_conversion *conversion, const char *p, const char *end);

/* Appends the number, cut to the conversion's bits. */
void pev_text_number(struct pev_text *text, const struct pev_conversion *conversion,
		     uint64_t value);
void pev_text_unsigned(struct pev_text *text, uint64_t value); /* "%llu" */
static inline void pev_text_signed(struct pev_text *text, uint64_t value) /* "%lld" */
{
	bool negative = (int64_t)value < 0;

	if (negative)
		pev_text_char(text, '-');
	pev_text_unsigned(text, negative ? -value : value);
}
/* Appends the last nr decimal digits, at most PEV_TEXT_SHORT: "%06u". */
void pev_text_digits(struct pev_text *text, uint64_t value, size_t nr);
/* Appends len bytes of text. */
void pev_text_string(struct pev_text *text, const struct pev_conversion *conversion,
		     const char *bytes, size_t len);
void pev_text_hex(struct pev_text *text, uint64_t value); /* "0x%llx" */

/*
 * Appends foreign text so that a terminal shows it and does not execute it: C0 and C1 controls,
 * DEL, bytes that are not UTF-8, and marks that turn the direction of text or break a line are
 * written as \xNN, newline and tab as \n and \t. A backslash stays as it is.
 * Does what lua/perfev/base/escape.lua does; text_line_spec.lua compares the two.
 */
void pev_text_escaped(struct pev_text *text, const char *bytes, size_t len);
/*
 * Appends foreign text as a JSON string in quotes, which is safe on a terminal. Text that is not
 * UTF-8 is taken as Latin-1. Does what lua/perfev/base/json.lua does.
 */
void pev_text_json(struct pev_text *text, const char *bytes, size_t len);
/* False: some of these bytes may need an escape. */
bool pev_text_is_safe(const char *bytes, size_t len);
