/*
 * demangle_rust.c - demangles Rust's v0 names; see demangle_rust.h.
 *
 * There is one function for each production of the grammar. Text that does not match sets bad,
 * and the rest produces no output. Depth and length are bounded, because a name can
 * refer back to its own parts. Contract: RFC 2603 and doc.rust-lang.org/rustc/symbol-mangling.
 */
#include "symbol/demangle_rust.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 128
#define TEXT_MAX 8192
#define STEPS_MAX 65536 /* back references may nest */

struct name {
	const char *text;   /* after "_R" */
	size_t at, len;
	char out[TEXT_MAX];
	size_t used;
	unsigned depth, steps;
	uint64_t lifetimes; /* bound here */
	bool silent, bad;
};

static void print_path(struct name *n, bool value);
static void print_type(struct name *n);
static void print_const(struct name *n);

__attribute__((format(printf, 2, 3))) static void print(struct name *n, const char *format, ...)
{
	va_list args;
	int len;

	if (n->silent || n->bad)
		return;
	va_start(args, format);
	len = vsnprintf(n->out + n->used, TEXT_MAX - n->used, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= TEXT_MAX - n->used)
		n->bad = true;
	else
		n->used += (size_t)len;
}

/* ---- letters and numbers ---- */

static char peek_char(const struct name *n)
{
	return n->at < n->len && !n->bad ? n->text[n->at] : 0;
}

static char next_char(struct name *n)
{
	char c = peek_char(n);

	if (!c)
		n->bad = true;
	else
		n->at++;
	return c;
}

static bool skip_char(struct name *n, char c)
{
	if (peek_char(n) != c)
		return false;
	n->at++;
	return true;
}

/* Reads a base-62 number: "_" is 0, "0_" is 1, "Z_" is 62. */
static uint64_t read_base62(struct name *n)
{
	uint64_t value = 0;

	if (skip_char(n, '_'))
		return 0;
	while (!skip_char(n, '_') && !n->bad) {
		char c = next_char(n);

		value *= 62;
		if (c >= '0' && c <= '9')
			value += (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'z')
			value += (uint64_t)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'Z')
			value += (uint64_t)(c - 'A') + 36;
		else
			n->bad = true;
	}
	return value + 1;
}

/* Reads an optional number after a letter; 0 if it is absent. */
static uint64_t read_optional(struct name *n, char letter)
{
	return skip_char(n, letter) ? read_base62(n) + 1 : 0;
}

struct word {
	const char *text;
	int len;
	bool punycode;
};

static struct word read_identifier(struct name *n)
{
	struct word word = { .punycode = skip_char(n, 'u') };
	size_t len = 0;

	if (peek_char(n) < '0' || peek_char(n) > '9')
		n->bad = true;
	/* A 0 is the only digit of its number. */
	if (!skip_char(n, '0'))
		while (peek_char(n) >= '0' && peek_char(n) <= '9' && len < TEXT_MAX)
			len = len * 10 + (size_t)(next_char(n) - '0');
	skip_char(n, '_');
	if (n->bad || len > n->len - n->at) {
		n->bad = true;
		return (struct word){ "", 0, false };
	}
	word.text = n->text + n->at;
	word.len = (int)len;
	n->at += len;
	return word;
}

static void print_word(struct name *n, struct word word)
{
	print(n, word.punycode ? "punycode{%.*s}" : "%.*s", word.len, word.text);
}

/* ---- nesting ---- */

static bool enter_part(struct name *n)
{
	if (++n->depth > DEPTH_MAX || ++n->steps > STEPS_MAX)
		n->bad = true;
	return !n->bad;
}

/* Prints an earlier part of the name again. */
static void print_back(struct name *n, void (*again)(struct name *n))
{
	size_t from = n->at - 1, to = read_base62(n), here = n->at;

	if (to >= from)
		n->bad = true;
	/* A part that is not printed needs no more steps. */
	if (n->bad || n->silent)
		return;
	n->at = to;
	again(n);
	n->at = here;
}

static void print_value_path(struct name *n) { print_path(n, true); }
static void print_type_path(struct name *n) { print_path(n, false); }

static void print_lifetime(struct name *n, uint64_t index)
{
	uint64_t depth = n->lifetimes - index;

	if (index == 0)
		print(n, "'_");
	else if (index > n->lifetimes)
		n->bad = true;
	else if (depth < 26)
		print(n, "'%c", (char)('a' + depth));
	else
		print(n, "'_%u", (unsigned)depth);
}

/* Prints for<'a, 'b>. Returns how many lifetimes it binds. */
static uint64_t bind_lifetimes(struct name *n)
{
	uint64_t more = read_optional(n, 'G');

	if (more > 64)
		n->bad = true;
	if (more == 0 || n->bad)
		return 0;
	print(n, "for<");
	for (uint64_t i = 0; i < more; i++) {
		n->lifetimes++;
		if (i)
			print(n, ", ");
		print_lifetime(n, 1);
	}
	print(n, "> ");
	return more;
}

static void print_argument(struct name *n)
{
	if (skip_char(n, 'L'))
		print_lifetime(n, read_base62(n));
	else if (skip_char(n, 'K'))
		print_const(n);
	else
		print_type(n);
}

/* Prints a list up to "E". Returns its length. */
static unsigned print_list(struct name *n, void (*one)(struct name *n))
{
	unsigned nr = 0;

	while (!skip_char(n, 'E') && !n->bad) {
		if (nr++)
			print(n, ", ");
		one(n);
	}
	return nr;
}

/* Skips the path of an impl, which is not printed. */
static void skip_impl(struct name *n)
{
	bool was = n->silent;

	n->silent = true;
	read_optional(n, 's');
	print_path(n, false);
	n->silent = was;
}

static void print_nested(struct name *n, bool value)
{
	char space = next_char(n);
	uint64_t number;
	struct word word;

	print_path(n, value);
	number = read_optional(n, 's');
	word = read_identifier(n);
	if (space >= 'A' && space <= 'Z') {
		print(n, "::{");
		if (space == 'C')
			print(n, "closure");
		else if (space == 'S')
			print(n, "shim");
		else
			print(n, "%c", space);
		if (word.len) {
			print(n, ":");
			print_word(n, word);
		}
		print(n, "#%llu}", (unsigned long long)number);
	} else if (word.len) {
		print(n, "::");
		print_word(n, word);
	}
}

static void print_impl(struct name *n, char kind)
{
	if (kind != 'Y')
		skip_impl(n);
	print(n, "<");
	print_type(n);
	if (kind != 'M') {
		print(n, " as ");
		print_path(n, false);
	}
	print(n, ">");
}

static void print_path(struct name *n, bool value)
{
	char kind = next_char(n);

	if (!enter_part(n))
		return;
	switch (kind) {
	case 'C':
		read_optional(n, 's');
		print_word(n, read_identifier(n));
		break;
	case 'N':
		print_nested(n, value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		print_impl(n, kind);
		break;
	case 'I':
		print_path(n, value);
		print(n, value ? "::<" : "<");
		print_list(n, print_argument);
		print(n, ">");
		break;
	case 'B':
		print_back(n, value ? print_value_path : print_type_path);
		break;
	default:
		n->bad = true;
	}
	n->depth--;
}

/* ---- types ---- */

static const char *find_basic_type(char c)
{
	static const char *const names[26] = {
		"i8", "bool", "char", "f64", "str", "f32", NULL, "u8", "isize", "usize", NULL,
		"i32", "u32", "i128", "u128", "_", NULL, NULL, "i16", "u16", "()", "...", NULL,
		"i64", "u64", "!",
	};

	return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void print_function(struct name *n)
{
	uint64_t bound = bind_lifetimes(n);

	if (skip_char(n, 'U'))
		print(n, "unsafe ");
	if (skip_char(n, 'K')) {
		print(n, "extern \"");
		if (skip_char(n, 'C'))
			print(n, "C");
		else
			print_word(n, read_identifier(n));
		print(n, "\" ");
	}
	print(n, "fn(");
	print_list(n, print_type);
	print(n, ")");
	if (!skip_char(n, 'u')) {
		print(n, " -> ");
		print_type(n);
	}
	n->lifetimes -= bound;
}

/* "dyn Iterator<Item = u8>": associated types go into the trait's own brackets. */
static void print_trait(struct name *n)
{
	bool open = false;
	size_t begin = n->used;

	print_path(n, false);
	while (skip_char(n, 'p')) {
		if (!open && !n->silent && n->used > begin && n->out[n->used - 1] == '>') {
			n->used--;
			print(n, ", ");
		} else {
			print(n, open ? ", " : "<");
		}
		open = true;
		print_word(n, read_identifier(n));
		print(n, " = ");
		print_type(n);
	}
	if (open)
		print(n, ">");
}

static void print_dyn(struct name *n)
{
	uint64_t bound, lifetime;

	print(n, "dyn ");
	bound = bind_lifetimes(n);
	for (unsigned nr = 0; !skip_char(n, 'E') && !n->bad; nr++) {
		if (nr)
			print(n, " + ");
		print_trait(n);
	}
	n->lifetimes -= bound;
	if (!skip_char(n, 'L')) {
		n->bad = true;
		return;
	}
	lifetime = read_base62(n);
	if (lifetime) {
		print(n, " + ");
		print_lifetime(n, lifetime);
	}
}

static void print_reference(struct name *n, bool mut)
{
	uint64_t lifetime = skip_char(n, 'L') ? read_base62(n) : 0;

	print(n, "&");
	if (lifetime) {
		print_lifetime(n, lifetime);
		print(n, " ");
	}
	print(n, "%s", mut ? "mut " : "");
	print_type(n);
}

static void print_compound_type(struct name *n, char kind)
{
	switch (kind) {
	case 'A':
		print(n, "[");
		print_type(n);
		print(n, "; ");
		print_const(n);
		print(n, "]");
		break;
	case 'S':
		print(n, "[");
		print_type(n);
		print(n, "]");
		break;
	case 'T':
		print(n, "(");
		print(n, "%s", print_list(n, print_type) == 1 ? "," : "");
		print(n, ")");
		break;
	case 'R':
	case 'Q':
		print_reference(n, kind == 'Q');
		break;
	case 'P':
	case 'O':
		print(n, kind == 'P' ? "*const " : "*mut ");
		print_type(n);
		break;
	case 'F':
		print_function(n);
		break;
	case 'D':
		print_dyn(n);
		break;
	case 'B':
		print_back(n, print_type);
		break;
	default:
		n->at--; /* the letter belongs to a path */
		print_path(n, false);
	}
}

static void print_type(struct name *n)
{
	char kind = next_char(n);
	const char *basic = find_basic_type(kind);

	if (!enter_part(n))
		return;
	if (basic)
		print(n, "%s", basic);
	else
		print_compound_type(n, kind);
	n->depth--;
}

/* ---- constants ---- */

/* Prints hexadecimal digits up to "_". */
static void print_number(struct name *n, char type)
{
	bool negative = skip_char(n, 'n');
	const char *digits = n->text + n->at;
	size_t nr = 0;
	uint64_t value = 0;

	while (!skip_char(n, '_') && !n->bad) {
		char c = next_char(n);

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			n->bad = true;
		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		nr++;
	}
	if (type == 'b')
		print(n, "%s", value ? "true" : "false");
	else if (type == 'c' && value >= ' ' && value < 127)
		print(n, "'%c'", (char)value);
	else if (type == 'c')
		print(n, "'\\u{%llx}'", (unsigned long long)value);
	else if (nr > 16)
		print(n, "%s0x%.*s", negative ? "-" : "", (int)nr, digits);
	else
		print(n, "%s%llu", negative ? "-" : "", (unsigned long long)value);
}

static void print_const(struct name *n)
{
	char type;

	if (!enter_part(n))
		return;
	type = next_char(n);
	if (type == 'B')
		print_back(n, print_const);
	else if (type == 'p')
		print(n, "_");
	else if (type && strchr("ahijlmnostxybc", type))
		print_number(n, type);
	else
		n->bad = true; /* strings, tuples and the like: rare in names of functions */
	n->depth--;
}

/* ---- the whole name ---- */

static void print_name(struct name *n)
{
	print_path(n, true);
	/* The crate that instantiated the function is not printed. */
	if (peek_char(n) >= 'A' && peek_char(n) <= 'Z') {
		n->silent = true;
		print_path(n, false);
	}
	if (n->at < n->len && n->text[n->at] != '.' && n->text[n->at] != '$')
		n->bad = true;
}

char *pev_demangle_rust(const char *name)
{
	struct name *n;
	char *text = NULL;

	if (name[0] != '_' || name[1] != 'R' || name[2] < 'A' || name[2] > 'Z')
		return NULL;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	memset(n, 0, sizeof(*n));
	n->text = name + 2;
	n->len = strlen(n->text);
	print_name(n);
	if (!n->bad && n->used)
		text = strndup(n->out, n->used);
	free(n);
	return text;
}
