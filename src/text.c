/*
 * text.c - text written piece by piece; see text.h.
 */
#include "text.h"

#include <stdio.h>
#include <string.h>

void pev_text_cut(struct pev_text *text, const char *bytes, size_t len)
{
	size_t room = text->len < text->cap ? text->cap - text->len : 0;

	if (room > 0 && len > 0)
		memcpy(text->buf + text->len, bytes, len < room ? len : room);
	text->len += len;
}

static void pad(struct pev_text *text, char ch, size_t nr)
{
	for (; nr > 0 && text->len < text->cap; nr--)
		text->buf[text->len++] = ch;
	text->len += nr;
}

/* ---- conversions ---- */

/* Digits at *p; more than three are too many. */
static bool read_digits(const char **p, const char *end, int *value)
{
	int nr = 0;

	*value = 0;
	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, nr++)
		*value = nr < 4 ? *value * 10 + (**p - '0') : *value;
	return nr < 4;
}

/* "hh", "h", "l", "ll", "L", "z", "Z": how long the number is. */
static int read_length(const char **p, const char *end)
{
	int bytes = 4;

	for (; *p < end && strchr("hlLzZ", **p); (*p)++)
		bytes = **p == 'h' ? bytes / 2 : 8;
	return bytes;
}

size_t pev_conversion_read(struct pev_conversion *c, const char *p, const char *end)
{
	const char *start = p, *behind;
	int len;

	*c = (struct pev_conversion){ .plain = true, .precision = -1 };
	for (p++; p < end && strchr("-#0", *p); p++) {
		c->left |= *p == '-';
		c->zero |= *p == '0';
		c->alt |= *p == '#';
	}
	if (!read_digits(&p, end, &c->width))
		return 0;
	if (p < end && *p == '.') {
		p++;
		if (!read_digits(&p, end, &c->precision))
			return 0;
	}
	behind = p;
	c->bytes = (signed char)read_length(&p, end);
	if (p == end || c->bytes == 0 || !strchr("diuxXos", *p))
		return 0;
	c->letter = *p++;
	c->plain = c->plain && c->precision < 0 && c->letter != 'o';
	len = snprintf(c->text, sizeof(c->text), "%.*sll%c", (int)(behind - start), start,
		       c->letter);
	return (size_t)len < sizeof(c->text) ? (size_t)(p - start) : 0;
}

/* ---- numbers ---- */

/* The digits in front of end; where they begin. */
static char *decimal(char *end, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";

	while (value >= 100) {
		end -= 2;
		memcpy(end, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		end -= 2;
		memcpy(end, pairs + value * 2, 2);
		return end;
	}
	*--end = (char)('0' + value);
	return end;
}

static char *hexadecimal(char *end, uint64_t value, const char *digits)
{
	do {
		*--end = digits[value & 15];
		value >>= 4;
	} while (value);
	return end;
}

void pev_text_hex(struct pev_text *text, uint64_t value)
{
	char digits[18], *end = digits + sizeof(digits);
	char *p = hexadecimal(end, value, "0123456789abcdef");

	*--p = 'x';
	*--p = '0';
	pev_text_put(text, p, (size_t)(end - p));
}

/* A sign or "0x" of so many bytes, then digits, filled up to the width. */
static void put_filled(struct pev_text *text, const struct pev_conversion *c, const char *sign,
		       size_t sign_len, const char *digits, size_t len)
{
	size_t width = (size_t)c->width, all = sign_len + len;
	size_t fill = width > all ? width - all : 0;

	if (fill && !c->left && !c->zero)
		pad(text, ' ', fill);
	pev_text_put(text, sign, sign_len);
	if (fill && !c->left && c->zero)
		pad(text, '0', fill);
	pev_text_put(text, digits, len);
	if (fill && c->left)
		pad(text, ' ', fill);
}

/* As many bytes of it as the conversion is for, with their sign where it has one. */
static uint64_t cut(const struct pev_conversion *c, uint64_t value)
{
	int bits = 64 - 8 * c->bytes;

	if (c->letter == 'd' || c->letter == 'i')
		return (uint64_t)((int64_t)(value << bits) >> bits);
	return value << bits >> bits;
}

/* What is not usual, printf(3) does itself; the text was held to be one conversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_unusual(struct pev_text *text, const struct pev_conversion *c, uint64_t value)
{
	char out[1024]; /* a width or precision has three digits, or two beside a sign */
	int len = snprintf(out, sizeof(out), c->text, (long long)value);

	if (len > 0)
		pev_text_put(text, out, (size_t)len < sizeof(out) ? (size_t)len : sizeof(out) - 1);
}
#pragma GCC diagnostic pop

void pev_text_number(struct pev_text *text, const struct pev_conversion *c, uint64_t value)
{
	static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
	char digits[24], *end = digits + sizeof(digits), *p;
	bool negative = false, prefix = false;

	value = cut(c, value);
	if (!c->plain) {
		put_unusual(text, c, value);
		return;
	}
	if (c->letter == 'd' || c->letter == 'i') {
		negative = (int64_t)value < 0;
		p = decimal(end, negative ? -value : value);
	} else if (c->letter == 'u') {
		p = decimal(end, value);
	} else {
		prefix = c->alt && value;
		p = hexadecimal(end, value, c->letter == 'x' ? lower : upper);
	}
	if (!c->width && !negative && !prefix)
		pev_text_put(text, p, (size_t)(end - p));
	else
		put_filled(text, c, negative ? "-" : c->letter == 'x' ? "0x"
								      : "0X",
			   negative ? 1 : prefix ? 2
						 : 0,
			   p, (size_t)(end - p));
}

void pev_text_string(struct pev_text *text, const struct pev_conversion *c, const char *bytes,
		     size_t len)
{
	size_t width = (size_t)c->width, fill;

	if (c->precision >= 0 && len > (size_t)c->precision)
		len = (size_t)c->precision;
	len = strnlen(bytes, len);
	fill = width > len ? width - len : 0;
	if (fill && !c->left)
		pad(text, ' ', fill);
	pev_text_put(text, bytes, len);
	if (fill && c->left)
		pad(text, ' ', fill);
}

/* ---- text that is safe to show ---- */

bool pev_text_is_safe(const char *bytes, size_t len)
{
	uint64_t word;
	size_t i = 0;

	/* Eight at a time: in each byte's highest bit what is below a blank, DEL, or above. */
	for (; i + 8 <= len; i += 8) {
		memcpy(&word, bytes + i, 8);
		if ((word | ((word & 0x7f7f7f7f7f7f7f7f) + 0x0101010101010101) |
		     ~((word & 0x7f7f7f7f7f7f7f7f) + 0x6060606060606060)) &
		    0x8080808080808080)
			return false;
	}
	for (; i < len; i++)
		if (bytes[i] < ' ' || bytes[i] > '~')
			return false;
	return true;
}

static bool is_unsafe(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) || /* C0; DEL, C1 */
	       code == 0x061c || code == 0x200e || code == 0x200f || /* direction marks */
	       (code >= 0x2028 && code <= 0x202e) || /* line separators, embeddings, overrides */
	       (code >= 0x2066 && code <= 0x2069); /* isolates */
}

/*
 * The character at p, of at most len bytes: how many it has, and its code; 0 where there is
 * no UTF-8 (RFC 3629): cut short, longer than it has to be, a surrogate, beyond 10FFFF.
 */
static size_t read_character(const unsigned char *p, size_t len, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t nr = *p < 0x80 ? 1 : *p < 0xc0 ? 0
			    : *p < 0xe0	      ? 2
			    : *p < 0xf0	      ? 3
					      : 4;

	if (nr == 0 || nr > len || *p >= 0xf8)
		return 0;
	*code = nr == 1 ? *p : *p & (0x7fu >> nr);
	for (size_t i = 1; i < nr; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (p[i] & 0x3f);
	}
	if (*code < least[nr] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return nr;
}

static void put_byte(struct pev_text *text, unsigned char byte)
{
	static const char digits[] = "0123456789abcdef";
	const char hex[] = { '\\', 'x', digits[byte >> 4], digits[byte & 15] };

	if (byte == '\n')
		pev_text_put(text, "\\n", 2);
	else if (byte == '\t')
		pev_text_put(text, "\\t", 2);
	else
		pev_text_put(text, hex, sizeof(hex));
}

void pev_text_escaped(struct pev_text *text, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	size_t nr;

	if (pev_text_is_safe(bytes, len)) {
		pev_text_put(text, bytes, len);
		return;
	}
	for (; len > 0; p += nr, len -= nr) {
		uint32_t code;
		bool shown;

		nr = read_character(p, len, &code);
		shown = nr > 0 && !is_unsafe(code);
		if (nr == 0)
			nr = 1;
		if (shown)
			pev_text_put(text, (const char *)p, nr);
		for (size_t i = 0; !shown && i < nr; i++)
			put_byte(text, p[i]);
	}
}
