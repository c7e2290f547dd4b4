/*
 * text_buffer.c - formats numbers and strings into a buffer; see text_buffer.h.
 */
#include "base/text_buffer.h"

#include <stdio.h>
#include <string.h>

void pev_text_cut(struct pev_text *text, const char *bytes, size_t len)
{
	size_t room = text->len < text->cap ? text->cap - text->len : 0;

	if (room > 0 && len > 0)
		memcpy(text->buf + text->len, bytes, len < room ? len : room);
	text->len += len;
}

/* Writes nr fill characters. A constant PEV_TEXT_WIDE bytes are faster than a variable count. */
static inline void put_padding(struct pev_text *text, char ch, size_t nr)
{
	size_t room = text->len < text->cap ? text->cap - text->len : 0;

	if (nr <= PEV_TEXT_WIDE && room >= PEV_TEXT_WIDE)
		memset(text->buf + text->len, ch, PEV_TEXT_WIDE);
	else if (room > 0)
		memset(text->buf + text->len, ch, nr < room ? nr : room);
	text->len += nr;
}

/* ---- conversions ---- */

/* Reads up to three digits at *p; false if there are more. */
static bool read_digits(const char **p, const char *end, int *value)
{
	int nr = 0;

	*value = 0;
	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, nr++)
		*value = nr < 4 ? *value * 10 + (**p - '0') : *value;
	return nr < 4;
}

/* Reads "hh", "h", "l", "ll", "L", "z" or "Z". Returns the number's size in bytes. */
static int read_length(const char **p, const char *end)
{
	int bytes = 4;

	for (; *p < end && strchr("hlLzZ", **p); (*p)++)
		bytes = **p == 'h' ? bytes / 2 : 8;
	return bytes;
}

size_t pev_conversion_read(struct pev_conversion *c, const char *p, const char *end)
{
	const char *start = p;
	int len, bytes, flags;

	*c = (struct pev_conversion){ .plain = true, .precision = -1 };
	for (p++; p < end && strchr("-+#0", *p); p++) {
		c->left |= *p == '-';
		c->zero |= *p == '0';
		c->prefix |= *p == '#';
		c->plain = c->plain && *p != '+';
	}
	flags = (int)(p - start);
	c->zero = c->zero && !c->left;
	if (!read_digits(&p, end, &c->width))
		return 0;
	if (p < end && *p == '.') {
		p++;
		if (!read_digits(&p, end, &c->precision))
			return 0;
	}
	bytes = read_length(&p, end);
	if (p == end || bytes == 0 || !strchr("diuxXos", *p))
		return 0;
	c->letter = *p++;
	c->above = (unsigned char)(64 - 8 * bytes);
	c->is_signed = c->letter == 'd' || c->letter == 'i';
	c->is_hex = c->letter == 'x' || c->letter == 'X';
	c->prefix = c->prefix && c->is_hex;
	c->plain = c->plain && c->precision < 0 && c->letter != 'o' && c->width <= PEV_TEXT_WIDE;
	len = snprintf(c->text, sizeof(c->text), "%.*s*.*ll%c", flags, start, c->letter);
	return (size_t)len < sizeof(c->text) ? (size_t)(p - start) : 0;
}

/* ---- numbers ---- */

/* The number of decimal digits, from the highest bit with one correction. */
static inline size_t count_decimals(uint64_t value)
{
	static const uint64_t powers[] = {
		0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
		10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000,
		1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
		10000000000000000000u
	};
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
	unsigned nr = bits * 1233 >> 12; /* by log10(2) */

	return nr + (value >= powers[nr]);
}

static inline size_t count_hexadecimals(uint64_t value)
{
	return (67 - (unsigned)__builtin_clzll(value | 1)) / 4;
}

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
			    "25262728293031323334353637383940414243444546474849"
			    "50515253545556575859606162636465666768697071727374"
			    "75767778798081828384858687888990919293949596979899";

/* Writes the digits of value; the last one is before end. */
static inline void write_decimals(char *end, uint64_t value)
{
	for (; value >= 100; value /= 100) {
		end -= 2;
		memcpy(end, pairs + value % 100 * 2, 2);
	}
	if (value >= 10)
		memcpy(end - 2, pairs + value * 2, 2);
	else
		end[-1] = (char)('0' + value);
}

/* The same in hexadecimal. */
static inline void write_hexadecimals(char *end, uint64_t value, char letter)
{
	const char *digits = letter == 'x' ? "0123456789abcdef" : "0123456789ABCDEF";

	do {
		*--end = digits[value & 15];
		value >>= 4;
	} while (value);
}

void pev_text_hex(struct pev_text *text, uint64_t value)
{
	const struct pev_conversion c = { .letter = 'x', .is_hex = true, .plain = true };

	pev_text_put(text, "0x", 2);
	pev_text_number(text, &c, value);
}

/* Cuts the value to the conversion's bits, with sign extension if it is signed. */
static inline uint64_t truncate_value(const struct pev_conversion *c, uint64_t value)
{
	if (!c->above)
		return value;
	if (c->is_signed)
		return (uint64_t)((int64_t)(value << c->above) >> c->above);
	return value << c->above >> c->above;
}

/* Rare conversions are left to printf(3); c->text was parsed as one conversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_unusual(struct pev_text *text, const struct pev_conversion *c, uint64_t value)
{
	char out[1024]; /* a width or precision has three digits, or two beside a sign */
	int len;

	value = truncate_value(c, value);
	len = snprintf(out, sizeof(out), c->text, c->width, c->precision, (long long)value);

	if (len > 0)
		pev_text_put(text, out, (size_t)len < sizeof(out) ? (size_t)len : sizeof(out) - 1);
}
#pragma GCC diagnostic pop

enum {
	DIGITS_MAX = 24, /* 64 bits, with a sign or prefix, have less */
	NUMBER_MAX = PEV_TEXT_WIDE + DIGITS_MAX
};

/* Writes the fill and the lead before nr digits. Returns the place of the digits. */
static inline char *write_lead(char *p, const struct pev_conversion *c, const char *lead,
			       size_t lead_len, size_t nr)
{
	size_t fill = (size_t)c->width > lead_len + nr ? (size_t)c->width - lead_len - nr : 0;

	if (fill && !c->left)
		memset(p, c->zero ? '0' : ' ', PEV_TEXT_WIDE);
	else
		fill = 0;
	if (lead_len)
		memcpy(c->zero ? p : p + fill, lead, 2); /* the second: a digit overwrites it */
	return p + fill + lead_len;
}

/* Writes the fill of a number that ends at p and began at start. Returns the end. */
static inline char *write_rest(char *p, const struct pev_conversion *c, const char *start)
{
	size_t len = (size_t)(p - start);

	if (!c->left || len >= (size_t)c->width)
		return p;
	memset(p, ' ', PEV_TEXT_WIDE);
	return p + c->width - len;
}

static __attribute__((noinline)) char *
write_hexadecimal_number(char *p, const struct pev_conversion *c, uint64_t value)
{
	const char lead[] = { '0', c->letter };
	size_t nr = count_hexadecimals(value);
	char *digits = write_lead(p, c, lead, c->prefix && value ? 2 : 0, nr);

	write_hexadecimals(digits + nr, value, c->letter);
	return write_rest(digits + nr, c, p);
}

/*
 * Writes a plain number at p, which has room for NUMBER_MAX, and returns the end. May overwrite
 * bytes after it.
 */
static inline char *write_number(char *p, const struct pev_conversion *c, uint64_t value)
{
	bool negative = false;
	size_t nr;
	char *digits;

	value = truncate_value(c, value);
	if (c->is_hex)
		return write_hexadecimal_number(p, c, value);
	if (c->is_signed && (int64_t)value < 0) {
		negative = true;
		value = -value;
	}
	nr = count_decimals(value);
	digits = write_lead(p, c, "-0", negative, nr);
	write_decimals(digits + nr, value);
	return write_rest(digits + nr, c, p);
}

/* Any conversion, and any room in the buffer. */
static __attribute__((noinline)) void put_rare(struct pev_text *text,
					       const struct pev_conversion *c, uint64_t value)
{
	char out[NUMBER_MAX];

	if (c->plain)
		pev_text_cut(text, out, (size_t)(write_number(out, c, value) - out));
	else
		put_unusual(text, c, value);
}

void pev_text_number(struct pev_text *text, const struct pev_conversion *c, uint64_t value)
{
	if (!c->plain || text->len + NUMBER_MAX > text->cap)
		put_rare(text, c, value);
	else
		text->len = (size_t)(write_number(text->buf + text->len, c, value) - text->buf);
}

void pev_text_unsigned(struct pev_text *text, uint64_t value)
{
	static const struct pev_conversion c = { .letter = 'u', .plain = true };
	size_t nr = count_decimals(value);

	if (text->len + nr > text->cap) {
		put_rare(text, &c, value);
		return;
	}
	text->len += nr;
	write_decimals(text->buf + text->len, value);
}

void pev_text_digits(struct pev_text *text, uint64_t value, size_t nr)
{
	const struct pev_conversion c = { .plain = true, .zero = true, .width = (int)nr };
	char *start = text->buf + text->len, *p = start + nr;

	if (text->len + nr > text->cap) {
		put_rare(text, &c, value);
		return;
	}
	text->len += nr;
	for (; p - start >= 2; value /= 100) {
		p -= 2;
		memcpy(p, pairs + value % 100 * 2, 2);
	}
	if (p > start)
		*start = (char)('0' + value % 10);
}

void pev_text_string(struct pev_text *text, const struct pev_conversion *c, const char *bytes,
		     size_t len)
{
	size_t width = (size_t)c->width, fill;

	if (c->precision >= 0 && len > (size_t)c->precision)
		len = (size_t)c->precision;
	fill = width > len ? width - len : 0;
	if (fill && !c->left)
		put_padding(text, ' ', fill);
	pev_text_put(text, bytes, len);
	if (fill && c->left)
		put_padding(text, ' ', fill);
}

/* ---- text that is safe to show ---- */

/* True if all 8 bytes are printable ASCII: then the highest bit of each is 0. */
static inline bool is_plain(const char *bytes)
{
	uint64_t word, low;

	memcpy(&word, bytes, 8);
	low = word & 0x7f7f7f7f7f7f7f7f;
	return !((word | (low + 0x0101010101010101) | ~(low + 0x6060606060606060)) &
		 0x8080808080808080);
}

bool pev_text_is_safe(const char *bytes, size_t len)
{
	char few[8] = "        ";

	if (len < 8)
		return is_plain(memcpy(few, bytes, len));
	for (size_t i = 0; i + 8 < len; i += 8)
		if (!is_plain(bytes + i))
			return false;
	return is_plain(bytes + len - 8); /* overlaps the last block */
}

static bool is_unsafe(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) || /* C0; DEL, C1 */
	       code == 0x061c || code == 0x200e || code == 0x200f || /* direction marks */
	       (code >= 0x2028 && code <= 0x202e) || /* line separators, embeddings, overrides */
	       (code >= 0x2066 && code <= 0x2069); /* isolates */
}

/*
 * Reads the UTF-8 character at p, of at most len bytes. Returns its length and sets *code, or
 * returns 0 for invalid UTF-8 (RFC 3629): truncated, overlong, a surrogate, above 10FFFF.
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

/* ---- JSON ---- */

static bool is_utf8(const unsigned char *p, size_t len)
{
	uint32_t code;
	size_t nr;

	for (; len > 0; p += nr, len -= nr) {
		nr = read_character(p, len, &code);
		if (nr == 0)
			return false;
	}
	return true;
}

/* Puts a character that must not be in a JSON string as it is. */
static void put_json_escape(struct pev_text *text, uint32_t code)
{
	static const char letters[] = { ['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r',
					['"'] = '"', ['\\'] = '\\' };
	static const struct pev_conversion hex = { .letter = 'x', .is_hex = true, .width = 4,
						   .zero = true, .plain = true };

	pev_text_char(text, '\\');
	if (code < sizeof(letters) && letters[code]) {
		pev_text_char(text, letters[code]);
		return;
	}
	pev_text_char(text, 'u');
	pev_text_number(text, &hex, code);
}

void pev_text_json(struct pev_text *text, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	bool plain = pev_text_is_safe(bytes, len) && !memchr(bytes, '"', len) &&
		     !memchr(bytes, '\\', len);
	bool utf8 = plain || is_utf8(p, len);
	size_t nr;

	pev_text_char(text, '"');
	if (plain)
		pev_text_put(text, bytes, len);
	for (; !plain && len > 0; p += nr, len -= nr) {
		uint32_t code = *p;

		nr = utf8 ? read_character(p, len, &code) : 1;
		if (is_unsafe(code) || code == '"' || code == '\\' || (!utf8 && code > 0x7f))
			put_json_escape(text, code);
		else
			pev_text_put(text, (const char *)p, nr);
	}
	pev_text_char(text, '"');
}
