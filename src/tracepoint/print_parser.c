/*
 * print_parser.c - reads a tracepoint's print format into a tree; see print_parser.h.
 *
 * Recursive descent with C's precedences. Text: the TP_printk() of the kernel's
 * include/trace/events/, after the preprocessor.
 */
#include "tracepoint/print_parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"

enum {
	NODES_MAX = 2048,
	NAMES_MAX = 8192,
	DEPTH_MAX = 128, /* of expressions and operands; the kernel's names of GFP flags need 33 */
	INDEX_MAX = 1 << 16
};

enum token { T_END, T_STRING, T_CHAR, T_NUMBER, T_NAME, T_OPERATOR, T_BAD };

/* The parser's position in the text, and the token at it. */
struct cursor {
	const char *p, *end;
	enum token token;
	const char *text; /* the token's; strings and characters without quotes */
	size_t len;
};

struct parser {
	struct cursor at;
	struct pev_print_tree *tree;
	const struct pev_tracepoint *tp;
	uint32_t long_size, cap_names;
	int depth;
};

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* ---- tokens ---- */

/* ASCII only: isalnum(3) and isprint(3) depend on the locale. */
static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static bool is_printable(char ch)
{
	return ch >= ' ' && ch <= '~';
}

static enum token scan_string(struct cursor *c)
{
	c->text = ++c->p;
	while (c->p < c->end && *c->p != '"') {
		bool escape = *c->p == '\\';

		if (!is_printable(*c->p) && *c->p != '\n' && *c->p != '\t')
			return T_BAD;
		c->p++;
		if (escape && (c->p == c->end || !is_printable(*c->p++)))
			return T_BAD;
	}
	if (c->p == c->end)
		return T_BAD;
	c->len = (size_t)(c->p++ - c->text);
	return T_STRING;
}

static enum token scan_character(struct cursor *c)
{
	if (c->end - c->p < 3 || c->p[2] != '\'' || !is_printable(c->p[1]) || c->p[1] == '\\')
		return T_BAD;
	c->text = c->p + 1;
	c->len = 1;
	c->p += 3;
	return T_CHAR;
}

static enum token scan_operator(struct cursor *c)
{
	static const char pairs[][3] = { "->", ">>", "<<", "&&", "||", ">=", "<=", "==", "!=" };

	c->text = c->p;
	c->len = 1;
	for (size_t i = 0; i < NR(pairs) && c->end - c->p > 1; i++)
		if (memcmp(c->p, pairs[i], 2) == 0)
			c->len = 2;
	c->p += c->len;
	/* Assignments and increments: "+=", ">>=", "++". */
	if (c->p < c->end && *c->p == '=')
		return T_BAD;
	if (c->p < c->end && c->len == 1 && (*c->text == '+' || *c->text == '-') &&
	    *c->p == *c->text)
		return T_BAD;
	return strchr("()[]{},?:~!+-*/%<>&|^", *c->text) ? T_OPERATOR
	       : c->len == 2				 ? T_OPERATOR
							 : T_BAD;
}

static void next_token(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
	if (c->p == c->end) {
		c->token = T_END;
	} else if (*c->p == '"') {
		c->token = scan_string(c);
	} else if (*c->p == '\'') {
		c->token = scan_character(c);
	} else if (pev_is_word(*c->p)) {
		c->text = c->p;
		while (c->p < c->end && pev_is_word(*c->p))
			c->p++;
		c->len = (size_t)(c->p - c->text);
		c->token = is_digit(*c->text) ? T_NUMBER : T_NAME;
	} else {
		c->token = is_printable(*c->p) ? scan_operator(c) : T_BAD;
	}
}

static bool is_token(const struct cursor *c, enum token token, const char *text)
{
	return c->token == token && c->len == strlen(text) && memcmp(c->text, text, c->len) == 0;
}

/* Steps over the operator if it is this one. */
static bool take_operator(struct cursor *c, const char *text)
{
	if (!is_token(c, T_OPERATOR, text))
		return false;
	next_token(c);
	return true;
}

/* ---- strings and nodes ---- */

static char *end_of_strings(struct parser *p)
{
	return p->tree->strings + p->tree->len;
}

static void add_bytes(struct parser *p, const char *bytes, size_t len)
{
	memcpy(end_of_strings(p), bytes, len);
	p->tree->len += len;
}

/* Copies the token and steps over it. */
static const char *take_copy(struct parser *p)
{
	const char *copy = end_of_strings(p);

	add_bytes(p, p->at.text, p->at.len);
	add_bytes(p, "", 1);
	next_token(&p->at);
	return copy;
}

/* Joins adjacent string literals. Returns NULL if the token is not a string. */
static const char *take_string(struct parser *p)
{
	const char *string = end_of_strings(p);

	if (p->at.token != T_STRING)
		return NULL;
	for (; p->at.token == T_STRING; next_token(&p->at))
		add_bytes(p, p->at.text, p->at.len);
	add_bytes(p, "", 1);
	return string;
}

/* "unsigned long", "struct page *": words up to REC, then stars. */
static const char *take_words(struct parser *p)
{
	const char *words = end_of_strings(p);

	while (p->at.token == T_NAME && !is_token(&p->at, T_NAME, "REC")) {
		if (end_of_strings(p) > words)
			add_bytes(p, " ", 1);
		add_bytes(p, p->at.text, p->at.len);
		next_token(&p->at);
	}
	return words;
}

static struct pev_print_node *add_node(struct parser *p, enum pev_print_kind kind)
{
	struct pev_print_node *node;

	if (p->tree->nr_nodes == NODES_MAX)
		return NULL;
	node = &p->tree->nodes[p->tree->nr_nodes++];
	*node = (struct pev_print_node){ .kind = kind };
	return node;
}

static struct pev_print_node *add_number(struct parser *p, uint64_t value)
{
	struct pev_print_node *node = add_node(p, PEV_PRINT_NUMBER);

	if (node)
		node->value = value;
	return node;
}

static struct pev_print_node *add_string(struct parser *p, const char *string)
{
	struct pev_print_node *node = string ? add_node(p, PEV_PRINT_STRING) : NULL;

	if (node)
		node->string = string;
	return node;
}

/* True if the node's value is a constant. A name without a value counts as 0 in an operation. */
static bool is_constant(const struct pev_print_node *node)
{
	return node->kind == PEV_PRINT_NUMBER || node->kind == PEV_PRINT_STRING;
}

static struct pev_print_node *add_operation(struct parser *p, enum pev_print_operator operation,
					    struct pev_print_node *left,
					    struct pev_print_node *right)
{
	struct pev_print_node *node;

	if (!left || !right)
		return NULL;
	if (is_constant(left) && is_constant(right)) {
		*left = (struct pev_print_node){
			.kind = PEV_PRINT_NUMBER,
			.value = pev_print_operate(operation, left->value, right->value)
		};
		return left;
	}
	node = add_node(p, PEV_PRINT_OPERATION);
	if (node) {
		node->operation = operation;
		node->operands[0] = left;
		node->operands[1] = right;
	}
	return node;
}

/* ---- expressions ---- */

static struct pev_print_node *read_expression(struct parser *p);
static struct pev_print_node *read_unary(struct parser *p);

/* Returns the field that the token names, or NULL. */
static const struct pev_tp_field *take_field(struct parser *p)
{
	const struct pev_tp_field *field = NULL;

	if (p->at.token == T_NAME)
		field = pev_tp_find(p->tp, (struct pev_span){ p->at.text, p->at.text + p->at.len });
	next_token(&p->at);
	return field;
}

/* Reads "->" and a field, after REC or (REC). */
static struct pev_print_node *read_field(struct parser *p)
{
	const struct pev_tp_field *field = take_operator(&p->at, "->") ? take_field(p) : NULL;
	struct pev_print_node *node = field ? add_node(p, PEV_PRINT_FIELD) : NULL;

	if (node)
		node->field = field;
	return node;
}

static struct pev_print_node *read_getter(struct parser *p, enum pev_print_kind kind)
{
	const struct pev_tp_field *field = take_field(p);
	struct pev_print_node *node;

	if (!field || !pev_tp_is_dynamic(field) || field->size != 4 || !take_operator(&p->at, ")"))
		return NULL;
	node = add_node(p, kind);
	if (node)
		node->field = field;
	return node;
}

/* Returns the size of a type, as in sizeof(u64), or 0 if it is unknown. */
static uint32_t size_of_type(const struct parser *p, const char *type)
{
	static const struct {
		const char *type;
		uint32_t size;
	} sizes[] = {
		{ "", 4 }, { "int", 4 }, { "char", 1 }, { "short", 2 }, { "long long", 8 },
		{ "u8", 1 }, { "u16", 2 }, { "u32", 4 }, { "u64", 8 },
		{ "s8", 1 }, { "s16", 2 }, { "s32", 4 }, { "s64", 8 },
	};

	if (strncmp(type, "unsigned", 8) == 0)
		type += type[8] ? 9 : 8;
	else if (strncmp(type, "__", 2) == 0)
		type += 2;
	if (strcmp(type, "long") == 0)
		return p->long_size;
	for (size_t i = 0; i < NR(sizes); i++)
		if (strcmp(sizes[i].type, type) == 0)
			return sizes[i].size;
	return 0;
}

static struct pev_print_node *read_sizeof(struct parser *p)
{
	bool named = p->at.token == T_NAME;
	const char *type = take_words(p);
	uint32_t size;

	add_bytes(p, "", 1);
	size = size_of_type(p, type);
	return named && size && take_operator(&p->at, ")") ? add_number(p, size) : NULL;
}

/*
 * The value of a name that the kernel left in the text. libtraceevent's eval_flag() knows
 * these from kernels that did not replace enums by numbers.
 */
static int64_t value_of_name(const char *name)
{
	static const char *const softirqs[] = { "HI_SOFTIRQ", "TIMER_SOFTIRQ", "NET_TX_SOFTIRQ",
						"NET_RX_SOFTIRQ", "BLOCK_SOFTIRQ",
						"IRQ_POLL_SOFTIRQ", "TASKLET_SOFTIRQ",
						"SCHED_SOFTIRQ", "HRTIMER_SOFTIRQ", "RCU_SOFTIRQ" };

	for (size_t i = 0; i < NR(softirqs); i++)
		if (strcmp(softirqs[i], name) == 0)
			return (int64_t)i;
	if (strcmp(name, "HRTIMER_NORESTART") == 0)
		return 0;
	return strcmp(name, "HRTIMER_RESTART") == 0 ? 1 : -1;
}

static bool add_name(struct parser *p, const struct pev_print_node *value, const char *string)
{
	struct pev_print_tree *tree = p->tree;

	if (tree->nr_names == p->cap_names) {
		uint32_t cap = p->cap_names ? 2 * p->cap_names : 16;
		struct pev_print_name *names =
			cap <= NAMES_MAX ? reallocarray(tree->names, cap, sizeof(*names)) : NULL;

		if (!names)
			return false;
		tree->names = names;
		p->cap_names = cap;
	}
	tree->names[tree->nr_names++] = (struct pev_print_name){
		.value = value->kind == PEV_PRINT_NUMBER ? (int64_t)value->value
							 : value_of_name(value->string),
		.string = string
	};
	return true;
}

/* { value, "string" }. Lists may end with { -1, NULL } or { }, which name nothing. */
static bool read_name_pair(struct parser *p)
{
	uint32_t nodes = p->tree->nr_nodes;
	const struct pev_print_node *value, *name;
	bool added;

	if (!take_operator(&p->at, "{"))
		return false;
	if (take_operator(&p->at, "}"))
		return true;
	value = read_expression(p);
	name = value && is_constant(value) && take_operator(&p->at, ",") ? read_expression(p)
									 : NULL;
	if (!name)
		return false;
	if (name->kind == PEV_PRINT_STRING)
		added = add_name(p, value, name->string);
	else
		added = name->kind == PEV_PRINT_NUMBER && name->value == 0;
	p->tree->nr_nodes = nodes;
	return added && take_operator(&p->at, "}");
}

static struct pev_print_node *read_names(struct parser *p, enum pev_print_kind kind)
{
	struct pev_print_node *number = read_expression(p);
	struct pev_print_node *node = number ? add_node(p, kind) : NULL;

	if (!node || !take_operator(&p->at, ","))
		return NULL;
	if (kind == PEV_PRINT_FLAGS) {
		node->string = take_string(p);
		if (!node->string || !take_operator(&p->at, ","))
			return NULL;
	}
	node->operands[0] = number;
	node->first = p->tree->nr_names;
	do {
		if (!read_name_pair(p))
			return NULL;
	} while (take_operator(&p->at, ","));
	node->nr = p->tree->nr_names - node->first;
	return take_operator(&p->at, ")") ? node : NULL;
}

/* __print_hex(array, count), __print_array(array, count, size) */
static struct pev_print_node *read_elements(struct parser *p, enum pev_print_kind kind,
					    const char *separator)
{
	const struct pev_print_node *array = read_expression(p), *count, *size;
	struct pev_print_node *node;

	count = array && take_operator(&p->at, ",") ? read_expression(p) : NULL;
	if (!count)
		return NULL;
	array = pev_print_uncast(array);
	node = add_node(p, kind);
	if (!node || (array->kind != PEV_PRINT_FIELD && array->kind != PEV_PRINT_DYNAMIC))
		return NULL;
	node->string = separator;
	node->value = 1;
	node->operands[0] = array;
	node->operands[1] = count;
	if (kind == PEV_PRINT_ARRAY) {
		size = take_operator(&p->at, ",") ? read_expression(p) : NULL;
		if (!size || size->kind != PEV_PRINT_NUMBER)
			return NULL;
		node->value = size->value;
	}
	if (node->value != 1 && node->value != 2 && node->value != 4 && node->value != 8)
		return NULL;
	return take_operator(&p->at, ")") ? node : NULL;
}

/* __builtin_expect(value, usual) is its value. */
static struct pev_print_node *read_expect(struct parser *p)
{
	struct pev_print_node *value = read_expression(p);

	if (!value || !take_operator(&p->at, ",") || !read_expression(p))
		return NULL;
	return take_operator(&p->at, ")") ? value : NULL;
}

static const struct {
	const char *name;
	enum pev_print_kind kind;
} getters[] = {
	{ "__get_str",                   PEV_PRINT_TEXT    },
	{ "__get_rel_str",               PEV_PRINT_TEXT    },
	{ "__get_bitmask",               PEV_PRINT_BITMASK },
	{ "__get_rel_bitmask",           PEV_PRINT_BITMASK },
	{ "__get_cpumask",               PEV_PRINT_CPULIST },
	{ "__get_rel_cpumask",           PEV_PRINT_CPULIST },
	{ "__get_dynamic_array",         PEV_PRINT_DYNAMIC },
	{ "__get_rel_dynamic_array",     PEV_PRINT_DYNAMIC },
	{ "__get_sockaddr",              PEV_PRINT_DYNAMIC },
	{ "__get_sockaddr_rel",          PEV_PRINT_DYNAMIC },
	{ "__get_rel_sockaddr",          PEV_PRINT_DYNAMIC },
	{ "__get_dynamic_array_len",     PEV_PRINT_LENGTH  },
	{ "__get_rel_dynamic_array_len", PEV_PRINT_LENGTH  },
};

/* Reads the rest of a call, after "name(". */
static struct pev_print_node *read_call(struct parser *p, const struct cursor *name)
{
	for (size_t i = 0; i < NR(getters); i++)
		if (is_token(name, T_NAME, getters[i].name))
			return read_getter(p, getters[i].kind);
	if (is_token(name, T_NAME, "__print_flags"))
		return read_names(p, PEV_PRINT_FLAGS);
	if (is_token(name, T_NAME, "__print_symbolic"))
		return read_names(p, PEV_PRINT_SYMBOL);
	if (is_token(name, T_NAME, "__print_hex"))
		return read_elements(p, PEV_PRINT_HEX, " ");
	if (is_token(name, T_NAME, "__print_hex_str"))
		return read_elements(p, PEV_PRINT_HEX, "");
	if (is_token(name, T_NAME, "__print_array"))
		return read_elements(p, PEV_PRINT_ARRAY, ",");
	if (is_token(name, T_NAME, "__builtin_expect"))
		return read_expect(p);
	return is_token(name, T_NAME, "sizeof") ? read_sizeof(p) : NULL;
}

static struct pev_print_node *read_name(struct parser *p)
{
	const struct cursor name = p->at;
	const char *words;

	next_token(&p->at);
	if (is_token(&name, T_NAME, "REC"))
		return read_field(p);
	if (take_operator(&p->at, "("))
		return read_call(p, &name);
	p->at = name;
	words = take_words(p);
	add_bytes(p, "", 1);
	return add_string(p, words);
}

static struct pev_print_node *read_number(struct parser *p)
{
	const char *digits = take_copy(p);
	struct pev_print_node *node = add_number(p, strtoull(digits, NULL, 0));

	if (node)
		node->string = digits;
	return node;
}

/* True if a type in parentheses is a cast: an operand follows, except "+" or "-". */
static bool is_operand(const struct cursor *c)
{
	return (c->token >= T_STRING && c->token <= T_NAME) || is_token(c, T_OPERATOR, "(") ||
	       is_token(c, T_OPERATOR, "~") || is_token(c, T_OPERATOR, "!");
}

/* Returns the type of a cast, after "("; or NULL. */
static const char *take_type(struct parser *p)
{
	const struct cursor start = p->at;
	const size_t len = p->tree->len;
	const char *type = take_words(p);
	bool is_type = p->tree->len > len, sure = memchr(type, ' ', p->tree->len - len) != NULL;

	while (is_type && take_operator(&p->at, "*")) {
		add_bytes(p, " *", 2);
		sure = true;
	}
	add_bytes(p, "", 1);
	if (is_type && take_operator(&p->at, ")") && (sure || is_operand(&p->at)))
		return type;
	p->at = start;
	p->tree->len = len;
	return NULL;
}

static struct pev_print_node *read_cast(struct parser *p, const char *type)
{
	struct pev_print_node *operand = read_unary(p), *node;

	if (operand && is_constant(operand)) {
		operand->kind = PEV_PRINT_NUMBER;
		operand->value &= pev_print_cast_mask(type);
		operand->string = NULL;
		return operand;
	}
	node = operand ? add_node(p, PEV_PRINT_CAST) : NULL;
	if (node) {
		node->string = type;
		node->operands[0] = operand;
	}
	return node;
}

/* (REC)->field, (type)operand, (expression) */
static struct pev_print_node *read_parentheses(struct parser *p)
{
	const struct cursor start = p->at;
	struct pev_print_node *node;
	const char *type;

	if (is_token(&p->at, T_NAME, "REC")) {
		next_token(&p->at);
		if (take_operator(&p->at, ")"))
			return read_field(p);
		p->at = start;
	}
	type = take_type(p);
	if (type)
		return read_cast(p, type);
	node = read_expression(p);
	return node && take_operator(&p->at, ")") ? node : NULL;
}

static struct pev_print_node *read_primary(struct parser *p)
{
	struct pev_print_node *node;

	switch (p->at.token) {
	case T_NAME:
		return read_name(p);
	case T_NUMBER:
		return read_number(p);
	case T_STRING:
		return add_string(p, take_string(p));
	case T_CHAR:
		node = add_number(p, (unsigned char)*p->at.text);
		next_token(&p->at);
		return node;
	default:
		return take_operator(&p->at, "(") ? read_parentheses(p) : NULL;
	}
}

/* REC->args[2]: one index, a constant, of a field. */
static struct pev_print_node *read_index(struct parser *p, struct pev_print_node *array)
{
	struct pev_print_node *index, *node;

	if (pev_print_uncast(array)->kind != PEV_PRINT_FIELD || p->at.token != T_NUMBER)
		return NULL;
	index = read_number(p);
	if (!index || index->value >= INDEX_MAX || !take_operator(&p->at, "]"))
		return NULL;
	node = add_node(p, PEV_PRINT_INDEX);
	if (node) {
		node->value = index->value;
		node->operands[0] = array;
	}
	return node;
}

static struct pev_print_node *read_operand(struct parser *p)
{
	struct pev_print_node *node;

	/* -x is 0 - x, !x is x == 0, ~x is x ^ all bits. */
	if (take_operator(&p->at, "-"))
		return add_operation(p, PEV_OP_SUBTRACT, add_number(p, 0), read_unary(p));
	if (take_operator(&p->at, "+"))
		return add_operation(p, PEV_OP_ADD, add_number(p, 0), read_unary(p));
	if (take_operator(&p->at, "!"))
		return add_operation(p, PEV_OP_EQUAL, read_unary(p), add_number(p, 0));
	if (take_operator(&p->at, "~"))
		return add_operation(p, PEV_OP_XOR, read_unary(p), add_number(p, UINT64_MAX));
	node = read_primary(p);
	return node && take_operator(&p->at, "[") ? read_index(p, node) : node;
}

static struct pev_print_node *read_unary(struct parser *p)
{
	struct pev_print_node *node;

	if (p->depth == DEPTH_MAX)
		return NULL;
	p->depth++;
	node = read_operand(p);
	p->depth--;
	return node;
}

static const struct {
	const char *text;
	enum pev_print_operator operation;
	int rank; /* higher binds tighter */
} operators[] = {
	{ "||", PEV_OP_EITHER, 1 },
	{ "&&", PEV_OP_BOTH, 2 },
	{ "|", PEV_OP_OR, 3 },
	{ "^", PEV_OP_XOR, 4 },
	{ "&", PEV_OP_AND, 5 },
	{ "==", PEV_OP_EQUAL, 6 },
	{ "!=", PEV_OP_UNEQUAL, 6 },
	{ "<", PEV_OP_LESS, 7 },
	{ ">", PEV_OP_MORE, 7 },
	{ "<=", PEV_OP_AT_MOST, 7 },
	{ ">=", PEV_OP_AT_LEAST, 7 },
	{ "<<", PEV_OP_SHIFT_LEFT, 8 },
	{ ">>", PEV_OP_SHIFT_RIGHT, 8 },
	{ "+", PEV_OP_ADD, 9 },
	{ "-", PEV_OP_SUBTRACT, 9 },
	{ "*", PEV_OP_MULTIPLY, 10 },
	{ "/", PEV_OP_DIVIDE, 10 },
	{ "%", PEV_OP_REMAINDER, 10 },
};

/* Reads operands and the operators between them that bind at least as tightly as `least`. */
static struct pev_print_node *read_binary(struct parser *p, int least)
{
	struct pev_print_node *node = read_unary(p);
	size_t i = 0;

	while (node && i < NR(operators)) {
		if (operators[i].rank < least || !take_operator(&p->at, operators[i].text)) {
			i++;
			continue;
		}
		node = add_operation(p, operators[i].operation, node,
				     read_binary(p, operators[i].rank + 1));
		i = 0;
	}
	return node;
}

static struct pev_print_node *read_choice(struct parser *p, struct pev_print_node *condition)
{
	struct pev_print_node *yes = read_expression(p), *no, *node;

	no = yes && take_operator(&p->at, ":") ? read_expression(p) : NULL;
	node = no ? add_node(p, PEV_PRINT_CHOICE) : NULL;
	if (node) {
		node->operands[0] = condition;
		node->operands[1] = yes;
		node->operands[2] = no;
	}
	return node;
}

static struct pev_print_node *read_expression(struct parser *p)
{
	struct pev_print_node *node;

	if (p->depth == DEPTH_MAX)
		return NULL;
	p->depth++;
	node = read_binary(p, 1);
	if (node && take_operator(&p->at, "?"))
		node = read_choice(p, node);
	p->depth--;
	return node;
}

/* ---- the whole format ---- */

uint64_t pev_print_cast_mask(const char *type)
{
	static const struct {
		const char *type;
		uint64_t mask;
	} casts[] = {
		{ "u8", 0xff },
		{ "s8", 0xff },
		{ "char", 0xff },
		{ "u16", 0xffff },
		{ "s16", 0xffff },
		{ "short", 0xffff },
		{ "u32", 0xffffffff },
		{ "s32", 0xffffffff },
		{ "int", 0xffffffff },
	};

	if (strncmp(type, "unsigned ", 9) == 0)
		type += 9;
	for (size_t i = 0; i < NR(casts); i++)
		if (strcmp(casts[i].type, type) == 0)
			return casts[i].mask;
	return UINT64_MAX;
}

static bool read_arguments(struct parser *p)
{
	struct pev_print_tree *tree = p->tree;

	while (take_operator(&p->at, ",")) {
		const struct pev_print_node *node = read_expression(p);

		if (!node || tree->nr_args == PEV_PRINT_ARGS_MAX)
			return false;
		tree->args[tree->nr_args++] = node;
	}
	return p->at.token == T_END;
}

bool pev_print_parse(struct pev_print_tree *tree, const struct pev_tracepoint *tp,
		     struct pev_span text, uint32_t long_size)
{
	struct parser p = { .at = { .p = text.p, .end = text.end }, .tree = tree, .tp = tp,
			    .long_size = long_size };

	*tree = (struct pev_print_tree){ 0 };
	while (p.at.end > p.at.p && (p.at.end[-1] == '\n' || p.at.end[-1] == ' '))
		p.at.end--;
	tree->nodes = calloc(NODES_MAX, sizeof(*tree->nodes));
	tree->strings = calloc(1, 4 * pev_span_len(text) + PEV_TEXT_SHORT);
	if (!tree->nodes || !tree->strings)
		return false;
	next_token(&p.at);
	tree->format = take_string(&p);
	return tree->format && read_arguments(&p);
}

void pev_print_tree_free(struct pev_print_tree *tree)
{
	free(tree->nodes);
	free(tree->names);
	free(tree->strings);
	*tree = (struct pev_print_tree){ 0 };
}
