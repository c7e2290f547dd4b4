/*
 * tree_text.h - names and values as a line of text, or as JSON.
 *
 *	line  a=1 b={c="x" set} d=[0x1 0x2]
 *	JSON  "a":1,"b":{"c":"x","set":true},"d":["0x1","0x2"]
 *
 * Addresses are hexadecimal. Foreign text is escaped for a terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text_buffer.h"

struct pev_tree {
	struct pev_text *out;
	bool json;
	bool first; /* the next member is the first one of its list or object */
};

#define PEV_TEXT_LITERAL(out, literal) pev_text_put(out, literal, sizeof(literal) - 1)

static inline void pev_text_word(struct pev_text *out, const char *word)
{
	pev_text_put(out, word, strlen(word));
}

/* Begins a member of a list. */
static inline void pev_tree_next(struct pev_tree *tree)
{
	if (!tree->first)
		pev_text_char(tree->out, tree->json ? ',' : ' ');
	tree->first = false;
}

/* Begins a member of an object: its name, which needs no escape. Its value follows. */
static inline void pev_tree_key(struct pev_tree *tree, const char *name)
{
	pev_tree_next(tree);
	if (tree->json)
		pev_text_char(tree->out, '"');
	pev_text_word(tree->out, name);
	if (tree->json)
		PEV_TEXT_LITERAL(tree->out, "\":");
	else
		pev_text_char(tree->out, '=');
}

static inline void pev_tree_open(struct pev_tree *tree, char bracket)
{
	pev_text_char(tree->out, bracket);
	tree->first = true;
}

static inline void pev_tree_close(struct pev_tree *tree, char bracket)
{
	pev_text_char(tree->out, bracket);
	tree->first = false;
}

static inline void pev_tree_signed(struct pev_tree *tree, const char *name, uint64_t value)
{
	pev_tree_key(tree, name);
	pev_text_signed(tree->out, value);
}

/* A member that is true or false; a line has only the true ones. */
void pev_tree_flag(struct pev_tree *tree, const char *name, bool is_set);
void pev_tree_address(const struct pev_tree *tree, uint64_t value);
/* In hexadecimal; in a line only the first ones, and how many there are. */
void pev_tree_bytes(const struct pev_tree *tree, const unsigned char *p, size_t len);
/* In quotes; in a line, a quote in the text is \x22. */
void pev_tree_string(const struct pev_tree *tree, const void *bytes, size_t len);
/* In hexadecimal, without quotes. */
void pev_text_hex_bytes(struct pev_text *out, const unsigned char *p, size_t len);
