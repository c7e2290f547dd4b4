/*
 * print_parser.h - reads a tracepoint's print format into a tree.
 *
 * A print format is C: a string literal, then arguments made of the event's fields, literals,
 * operators, casts and the kernel's __print_ and __get_ helpers. The text may come from a
 * foreign recording, so depth and size of the tree are bounded, every field must exist, and the
 * parser gives up at a construct that it does not know.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/format.h"

enum pev_print_kind {
	PEV_PRINT_NUMBER,    /* value; string: its digits, or NULL when it was computed */
	PEV_PRINT_STRING,    /* string: a literal, or a name whose value is unknown */
	PEV_PRINT_FIELD,
	PEV_PRINT_LENGTH,    /* bytes of a dynamic field */
	PEV_PRINT_DYNAMIC,   /* a dynamic field's bytes */
	PEV_PRINT_TEXT,      /* a dynamic field as a string */
	PEV_PRINT_BITMASK,   /* a dynamic field as hexadecimal words */
	PEV_PRINT_CPULIST,   /* a dynamic field as "0,2-3" */
	PEV_PRINT_CAST,      /* operand 0; string: the type */
	PEV_PRINT_INDEX,     /* operand 0: a field, perhaps in casts; value: the index */
	PEV_PRINT_OPERATION, /* operands 0 and 1 */
	PEV_PRINT_CHOICE,    /* operand 0 ? operand 1 : operand 2 */
	PEV_PRINT_FLAGS,     /* operand 0 and names; string: the separator */
	PEV_PRINT_SYMBOL,    /* operand 0 and names */
	PEV_PRINT_HEX,       /* operand 0: bytes; 1: how many; string: the separator */
	PEV_PRINT_ARRAY      /* operand 0: numbers; 1: how many; value: bytes of each */
};

enum pev_print_operator {
	PEV_OP_EQUAL, PEV_OP_UNEQUAL, PEV_OP_LESS, PEV_OP_MORE, PEV_OP_AT_MOST, PEV_OP_AT_LEAST,
	PEV_OP_OR, PEV_OP_AND, PEV_OP_XOR, PEV_OP_BOTH, PEV_OP_EITHER, PEV_OP_ADD, PEV_OP_SUBTRACT,
	PEV_OP_MULTIPLY, PEV_OP_DIVIDE, PEV_OP_REMAINDER, PEV_OP_SHIFT_LEFT, PEV_OP_SHIFT_RIGHT
};

/* { value, "string" } of __print_flags() and __print_symbolic(); -1: a name without a value. */
struct pev_print_name {
	int64_t value;
	const char *string;
};

struct pev_print_node {
	enum pev_print_kind kind;
	enum pev_print_operator operation;
	const struct pev_tp_field *field;
	uint64_t value;
	const char *string;
	const struct pev_print_node *operands[3];
	uint32_t first, nr; /* names: this range of the tree's */
};

enum { PEV_PRINT_ARGS_MAX = 128 };

/* Strings are NUL-terminated, and PEV_TEXT_SHORT bytes can be read from each (text.h). */
struct pev_print_tree {
	struct pev_print_node *nodes;
	uint32_t nr_nodes;
	const struct pev_print_node *args[PEV_PRINT_ARGS_MAX];
	uint32_t nr_args;
	const char *format;           /* the literal between its quotes, escapes as written */
	struct pev_print_name *names;
	uint32_t nr_names;
	char *strings;                /* room for twice the text: the format is copied again */
	size_t len;                   /* bytes of strings in use */
};

/*
 * Returns false if the text has an unknown construct, or without memory. The caller frees the tree
 * in both cases. Borrows tp's fields, but not the text. long_size is the recording machine's.
 */
bool pev_print_parse(struct pev_print_tree *tree, const struct pev_tracepoint *tp,
		     struct pev_span text, uint32_t long_size);
void pev_print_tree_free(struct pev_print_tree *tree);

/* Computes with unsigned 64 bits, whatever the fields' types are. Division by 0 gives 0. */
static inline uint64_t pev_print_operate(enum pev_print_operator operation, uint64_t left,
					 uint64_t right)
{
	switch (operation) {
	case PEV_OP_EQUAL:
		return left == right;
	case PEV_OP_UNEQUAL:
		return left != right;
	case PEV_OP_LESS:
		return left < right;
	case PEV_OP_MORE:
		return left > right;
	case PEV_OP_AT_MOST:
		return left <= right;
	case PEV_OP_AT_LEAST:
		return left >= right;
	case PEV_OP_OR:
		return left | right;
	case PEV_OP_AND:
		return left & right;
	case PEV_OP_XOR:
		return left ^ right;
	case PEV_OP_BOTH:
		return left && right;
	case PEV_OP_EITHER:
		return left || right;
	case PEV_OP_ADD:
		return left + right;
	case PEV_OP_SUBTRACT:
		return left - right;
	case PEV_OP_MULTIPLY:
		return left * right;
	case PEV_OP_DIVIDE:
		return right ? left / right : 0;
	case PEV_OP_REMAINDER:
		return right ? left % right : 0;
	case PEV_OP_SHIFT_LEFT: /* as x86 does */
		return left << (right & 63);
	default:
		return left >> (right & 63);
	}
}

/* Returns the node without the casts around it. */
static inline const struct pev_print_node *pev_print_uncast(const struct pev_print_node *node)
{
	while (node->kind == PEV_PRINT_CAST)
		node = node->operands[0];
	return node;
}

/* Returns a mask of the bits that a cast to this type keeps. */
uint64_t pev_print_cast_mask(const char *type);
