/*
 * printfmt.c - a recogniser for the print formats that the kernel writes.
 *
 * One pass over tokens with two states, "an operand must come" and "an operand
 * is here", and a stack of what is open. It is stricter than C and never looser
 * than libtraceevent's tokenizer (__read_token() in event-parse.c), whose view
 * of the text it must share: where the two could differ, the text is refused.
 */
#include "printfmt.h"

#include <stdlib.h>
#include <string.h>

enum {
	DEPTH_MAX = 40,  /* the kernel nests up to 14 deep */
	OPS_MAX = 512,   /* operators, casts and calls in one argument */
	ARGS_MAX = 128,
	NUMBER_MAX = 24,
	WIDTH_DIGITS = 3
};

enum token { T_END, T_STRING, T_CHAR, T_NUMBER, T_NAME, T_OP, T_BAD };

/* What is open, innermost last. */
enum open { OPEN_TOP, OPEN_PAREN, OPEN_CALL, OPEN_FLAGS, OPEN_SYMBOLS, OPEN_PAIR };

struct frame {
	enum open open;
	int args;     /* OPEN_CALL, OPEN_PAIR: commas still to come */
	int ops;      /* how many the argument had outside */
	int conds;    /* "?" without its ":" */
	bool bare;    /* OPEN_PAREN: nothing but names so far, so perhaps a cast */
};

/* The last operand, as far as it decides what may follow. */
enum operand { WANTED, VALUE, INDEXED, FIELD, NAMES, CAST };

struct check {
	const char *p, *end;
	enum token token;
	const char *text;         /* the token's; strings and chars without quotes */
	size_t len;
	pev_printfmt_fn field;
	const void *ctx;
	struct frame frames[DEPTH_MAX];
	int depth;
	enum operand operand;
	bool divides;             /* the operand, or the one that must come, is a divisor */
	int ops, args;
};

static const struct {
	const char *name;
	enum open open;
	int args;
} calls[] = {
	{ "__print_flags",    OPEN_FLAGS,   0 },
	{ "__print_symbolic", OPEN_SYMBOLS, 0 },
	{ "__print_hex",      OPEN_CALL,    1 },
	{ "__print_hex_str",  OPEN_CALL,    1 },
	{ "__print_array",    OPEN_CALL,    2 },
	{ "__builtin_expect", OPEN_CALL,    1 },
};

/* Helpers whose argument is the name of a dynamic field. */
static const char *const getters[] = {
	"__get_str", "__get_rel_str", "__get_bitmask", "__get_rel_bitmask",
	"__get_cpumask", "__get_rel_cpumask", "__get_dynamic_array",
	"__get_rel_dynamic_array", "__get_dynamic_array_len",
	"__get_rel_dynamic_array_len", "__get_sockaddr", "__get_sockaddr_rel",
	"__get_rel_sockaddr"
};

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* ASCII only: isalnum(3) and isprint(3) would ask the locale. */
static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static bool is_item(char ch)
{
	return is_digit(ch) || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

static bool is_print(char ch)
{
	return ch >= ' ' && ch <= '~';
}

static enum token scan_string(struct check *c)
{
	c->text = ++c->p;
	while (c->p < c->end && *c->p != '"') {
		bool escape = *c->p == '\\';

		if (!is_print(*c->p) && *c->p != '\n' && *c->p != '\t')
			return T_BAD;
		c->p++;
		if (escape && (c->p == c->end || !is_print(*c->p++)))
			return T_BAD;
	}
	if (c->p == c->end)
		return T_BAD;
	c->len = (size_t)(c->p++ - c->text);
	return T_STRING;
}

static enum token scan_char(struct check *c)
{
	if (c->end - c->p < 3 || c->p[2] != '\'' || !is_print(c->p[1]) || c->p[1] == '\\')
		return T_BAD;
	c->text = c->p + 1;
	c->len = 1;
	c->p += 3;
	return T_CHAR;
}

static enum token scan_op(struct check *c)
{
	static const char pairs[][3] = { "->", ">>", "<<", "&&", "||", ">=", "<=", "==", "!=" };

	c->text = c->p;
	c->len = 1;
	for (size_t i = 0; i < NR(pairs) && c->end - c->p > 1; i++)
		if (memcmp(c->p, pairs[i], 2) == 0)
			c->len = 2;
	c->p += c->len;
	/* "+=", ">>=" and "++" are single tokens to libtraceevent, which knows no use for them. */
	if (c->p < c->end && *c->p == '=')
		return T_BAD;
	if (c->p < c->end && c->len == 1 && (*c->text == '+' || *c->text == '-') &&
	    *c->p == *c->text)
		return T_BAD;
	return strchr("()[]{},?:~!+-*/%<>&|^=", *c->text) ? T_OP : T_BAD;
}

static void next(struct check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
	if (c->p == c->end) {
		c->token = T_END;
	} else if (*c->p == '"') {
		c->token = scan_string(c);
	} else if (*c->p == '\'') {
		c->token = scan_char(c);
	} else if (is_item(*c->p)) {
		c->text = c->p;
		while (c->p < c->end && is_item(*c->p))
			c->p++;
		c->len = (size_t)(c->p - c->text);
		c->token = is_digit(*c->text) ? T_NUMBER : T_NAME;
	} else {
		c->token = is_print(*c->p) ? scan_op(c) : T_BAD;
	}
}

static bool is(const struct check *c, enum token token, const char *text)
{
	return c->token == token && c->len == strlen(text) && memcmp(c->text, text, c->len) == 0;
}

/* Whether the token is this operator; if so, it is read. */
static bool take(struct check *c, const char *op)
{
	if (!is(c, T_OP, op))
		return false;
	next(c);
	return true;
}

/* Neighbouring strings are one, as in C. */
static bool take_string(struct check *c)
{
	if (c->token != T_STRING)
		return false;
	while (c->token == T_STRING)
		next(c);
	return true;
}

static struct frame *top(struct check *c)
{
	return &c->frames[c->depth];
}

static bool push(struct check *c, enum open open, int args)
{
	if (c->depth + 1 == DEPTH_MAX || ++c->ops > OPS_MAX)
		return false;
	c->frames[++c->depth] = (struct frame){ .open = open, .args = args, .ops = c->ops };
	c->operand = WANTED;
	c->divides = false;
	return true;
}

static bool pop(struct check *c, enum operand left)
{
	c->depth--;
	c->operand = left;
	return true;
}

static enum pev_printfmt_name field_kind(const struct check *c)
{
	if (c->token != T_NAME)
		return PEV_PRINTFMT_UNKNOWN;
	return c->field(c->ctx, c->text, c->len);
}

/* After REC or (REC): -> and a field. */
static bool read_field(struct check *c)
{
	if (!take(c, "->") || field_kind(c) == PEV_PRINTFMT_UNKNOWN)
		return false;
	next(c);
	c->operand = FIELD;
	return true;
}

static bool read_getter(struct check *c)
{
	if (field_kind(c) != PEV_PRINTFMT_DYNAMIC)
		return false;
	next(c);
	c->operand = VALUE;
	return take(c, ")");
}

/* sizeof(unsigned long long): libtraceevent knows a few types and refuses the rest. */
static bool read_sizeof(struct check *c)
{
	int words = 0;

	while (c->token == T_NAME && !is(c, T_NAME, "REC") && words++ < 3)
		next(c);
	c->operand = VALUE;
	return words > 0 && take(c, ")");
}

static bool read_call(struct check *c, const char *name, size_t len)
{
	if (c->divides && !(len == 6 && memcmp(name, "sizeof", 6) == 0))
		return false;
	for (size_t i = 0; i < NR(getters); i++)
		if (strlen(getters[i]) == len && memcmp(getters[i], name, len) == 0)
			return read_getter(c);
	for (size_t i = 0; i < NR(calls); i++)
		if (strlen(calls[i].name) == len && memcmp(calls[i].name, name, len) == 0)
			return push(c, calls[i].open, calls[i].args);
	return len == 6 && memcmp(name, "sizeof", 6) == 0 && read_sizeof(c);
}

static bool read_name(struct check *c)
{
	const char *name = c->text;
	size_t len = c->len;
	bool rec = is(c, T_NAME, "REC");

	next(c);
	if (take(c, "("))
		return read_call(c, name, len);
	if (c->divides)
		return false;
	if (rec)
		return read_field(c);
	while (c->token == T_NAME && !is(c, T_NAME, "REC"))
		next(c);
	/* A type: "void *)", and nothing before it. */
	top(c)->bare = c->operand == WANTED && top(c)->open == OPEN_PAREN && top(c)->bare;
	if (top(c)->bare && is(c, T_OP, "*")) {
		struct check ahead = *c;

		next(&ahead);
		if (is(&ahead, T_OP, ")"))
			next(c);
	}
	c->operand = NAMES;
	return true;
}

static bool read_number(struct check *c)
{
	char digits[NUMBER_MAX];

	if (c->len >= sizeof(digits))
		return false;
	memcpy(digits, c->text, c->len);
	digits[c->len] = '\0';
	if (c->divides && strtoull(digits, NULL, 0) == 0)
		return false;
	top(c)->bare = false;
	c->operand = VALUE;
	next(c);
	return true;
}

static bool read_paren(struct check *c)
{
	struct check ahead = *c;

	if (is(c, T_NAME, "REC")) {
		next(&ahead);
		if (is(&ahead, T_OP, ")")) {
			next(&ahead);
			*c = ahead;
			return read_field(c);
		}
	}
	if (!push(c, OPEN_PAREN, 0))
		return false;
	top(c)->bare = true;
	return true;
}

static bool read_operand(struct check *c)
{
	if (c->token == T_NAME)
		return read_name(c);
	if (c->token == T_NUMBER)
		return read_number(c);
	if (c->divides)
		return false;
	if (take(c, "("))
		return read_paren(c);
	top(c)->bare = false;
	if (take(c, "~") || take(c, "!") || take(c, "+") || take(c, "-"))
		return ++c->ops <= OPS_MAX;
	c->operand = VALUE;
	if (c->token == T_CHAR) {
		next(c);
		return true;
	}
	return take_string(c);
}

static bool open_pair(struct check *c)
{
	return take(c, "{") && push(c, OPEN_PAIR, 1);
}

/* { value, "text" } has been read: the next pair, or the call's end. */
static bool close_pair(struct check *c)
{
	if (top(c)->open != OPEN_PAIR || top(c)->args > 0 || top(c)->conds > 0)
		return false;
	/* Pairs stand beside each other: libtraceevent does not recurse from one to the next. */
	c->ops = top(c)->ops;
	c->depth--;
	if (take(c, ","))
		return open_pair(c);
	return take(c, ")") && pop(c, VALUE);
}

static bool read_comma(struct check *c)
{
	struct frame *frame = top(c);

	if (frame->conds > 0)
		return false;
	c->operand = WANTED;
	switch (frame->open) {
	case OPEN_TOP:
		c->ops = 0;
		return ++c->args <= ARGS_MAX;
	case OPEN_CALL:
	case OPEN_PAIR:
		return frame->args-- > 0;
	case OPEN_FLAGS:
		return take_string(c) && take(c, ",") && open_pair(c);
	case OPEN_SYMBOLS:
		return open_pair(c);
	default:
		return false;
	}
}

static bool close_paren(struct check *c)
{
	struct frame *frame = top(c);

	if (frame->conds > 0)
		return false;
	if (frame->open == OPEN_PAREN)
		return pop(c, frame->bare && c->operand == NAMES ? CAST : VALUE);
	return frame->open == OPEN_CALL && frame->args == 0 && pop(c, VALUE);
}

/*
 * Only [3]: an index that the payload chooses is not held against the array. And only
 * one, as the kernel writes: libtraceevent 1.7.1 dies of a[1][2] in process_op().
 */
static bool read_index(struct check *c)
{
	bool indexed = c->operand == FIELD || c->operand == VALUE;

	if (!indexed || c->divides || c->token != T_NUMBER || !read_number(c) || !take(c, "]"))
		return false;
	c->operand = INDEXED;
	return ++c->ops <= OPS_MAX;
}

static bool read_operator(struct check *c)
{
	static const char *const binary[] = { ">>", "<<", "&&", "||", ">=", "<=", "==", "!=",
					      "+", "-", "*", "/", "%", "<", ">", "&", "|", "^" };
	bool tight = is(c, T_OP, "*") || is(c, T_OP, "/") || is(c, T_OP, "%");
	bool divides = tight && !is(c, T_OP, "*");

	/* libtraceevent reads a / 4 / 0 as a / (4 / 0). */
	if (tight && c->divides)
		return false;
	for (size_t i = 0; i < NR(binary); i++) {
		if (!take(c, binary[i]))
			continue;
		top(c)->bare = false;
		c->operand = WANTED;
		c->divides = divides;
		return ++c->ops <= OPS_MAX;
	}
	return false;
}

static bool read_rest(struct check *c)
{
	if (c->operand == CAST && (c->token != T_OP || is(c, T_OP, "("))) {
		c->divides = false;
		return ++c->ops <= OPS_MAX && read_operand(c);
	}
	if (take(c, "["))
		return read_index(c);
	if (c->token == T_OP && strchr("+-*/%<>&|^=!", *c->text))
		return read_operator(c);
	c->divides = false;
	if (take(c, ","))
		return read_comma(c);
	if (take(c, ")"))
		return close_paren(c);
	if (take(c, "}"))
		return close_pair(c);
	top(c)->bare = false;
	c->operand = WANTED;
	if (take(c, "?"))
		return ++c->ops <= OPS_MAX && ++top(c)->conds > 0;
	return take(c, ":") && top(c)->conds-- > 0;
}

/* Digits of a width or precision, or "*". False when there are too many. */
static bool skip_width(const char **p, const char *end, int *stars)
{
	int digits = 0;

	if (*p < end && **p == '*') {
		(*p)++;
		return ++*stars == 1;
	}
	for (; *p < end && is_digit(**p); (*p)++)
		digits++;
	return digits <= WIDTH_DIGITS;
}

/*
 * One conversion, *p behind its "%". Strictly flags, width, precision, length,
 * letter, since printf(3) gets it as it stands. "%ls" would read wide characters.
 */
static bool conversion_ok(const char **p, const char *end)
{
	const char *start = *p;
	int stars = 0, longs = 0;

	while (*p < end && strchr("-+#0", **p))
		(*p)++;
	if (!skip_width(p, end, &stars))
		return false;
	if (*p < end && **p == '.' && (++*p, !skip_width(p, end, &stars)))
		return false;
	for (; *p < end && strchr("hlLzZ", **p); (*p)++)
		if (++longs > 2 || (longs == 2 && ((*p)[-1] != **p || !strchr("hl", **p))))
			return false;
	if (*p == end)
		return false;
	if (longs > 0 && !strchr("diuxXo", **p))
		return false;
	return ++*p - start < 24;
}

static bool conversions_ok(const char *p, const char *end)
{
	int nr = 0;

	while (p < end) {
		char ch = *p++;

		if (ch == '\\') {
			p++;
		} else if (ch == '%' && p < end && *p == '%') {
			p++;
		} else if (ch == '%') {
			if (!conversion_ok(&p, end) || ++nr > ARGS_MAX)
				return false;
		}
	}
	return true;
}

/* The format: strings side by side, each held to be whole conversions by itself. */
static bool read_format(struct check *c)
{
	if (c->token != T_STRING)
		return false;
	for (; c->token == T_STRING; next(c))
		if (!conversions_ok(c->text, c->text + c->len))
			return false;
	return true;
}

bool pev_printfmt_ok(const char *text, size_t len, pev_printfmt_fn field, const void *ctx)
{
	struct check c = { .p = text, .end = text + len, .field = field, .ctx = ctx };

	while (c.end > c.p && (c.end[-1] == '\n' || c.end[-1] == ' '))
		c.end--;
	next(&c);
	if (!read_format(&c))
		return false;
	if (c.token == T_END)
		return true;
	if (!take(&c, ","))
		return false;
	while (c.token != T_END)
		if (!(c.operand == WANTED ? read_operand(&c) : read_rest(&c)))
			return false;
	return c.depth == 0 && c.operand != WANTED && c.frames[0].conds == 0;
}

size_t pev_printfmt_escape(const char *text, size_t len, char *out)
{
	bool quoted = false;
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		if (quoted && text[i] == '\t') {
			out[at++] = '\\';
			out[at++] = 't';
			continue;
		}
		out[at++] = text[i];
		if (text[i] == '"')
			quoted = !quoted;
		else if (quoted ? text[i] == '\\' : text[i] == '\'')
			for (int more = quoted ? 1 : 2; more && i + 1 < len; more--)
				out[at++] = text[++i];
	}
	return at;
}
