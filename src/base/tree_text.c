/*
 * tree_text.c - names and values as a line of text, or as JSON; see tree_text.h.
 */
#include "base/tree_text.h"

enum { BYTES_SHOWN = 64 }; /* in a line */

void pev_tree_flag(struct pev_tree *tree, const char *name, bool is_set)
{
	if (tree->json) {
		pev_tree_key(tree, name);
		pev_text_word(tree->out, is_set ? "true" : "false");
	} else if (is_set) {
		pev_tree_next(tree);
		pev_text_word(tree->out, name);
	}
}

void pev_tree_address(const struct pev_tree *tree, uint64_t value)
{
	if (tree->json)
		pev_text_char(tree->out, '"');
	pev_text_hex(tree->out, value);
	if (tree->json)
		pev_text_char(tree->out, '"');
}

void pev_text_hex_bytes(struct pev_text *out, const unsigned char *p, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char pair[2];

	for (size_t i = 0; i < len; i++) {
		pair[0] = digits[p[i] >> 4];
		pair[1] = digits[p[i] & 15];
		pev_text_put(out, pair, sizeof(pair));
	}
}

void pev_tree_bytes(const struct pev_tree *tree, const unsigned char *p, size_t len)
{
	if (tree->json) {
		pev_text_char(tree->out, '"');
		pev_text_hex_bytes(tree->out, p, len);
		pev_text_char(tree->out, '"');
	} else if (len <= BYTES_SHOWN) {
		pev_text_hex_bytes(tree->out, p, len);
	} else {
		pev_text_hex_bytes(tree->out, p, BYTES_SHOWN);
		PEV_TEXT_LITERAL(tree->out, "...(");
		pev_text_unsigned(tree->out, len);
		PEV_TEXT_LITERAL(tree->out, " bytes)");
	}
}

void pev_tree_string(const struct pev_tree *tree, const void *bytes, size_t len)
{
	const char *text = bytes, *quote;

	if (tree->json) {
		pev_text_json(tree->out, text, len);
		return;
	}
	pev_text_char(tree->out, '"');
	while ((quote = memchr(text, '"', len)) != NULL) {
		pev_text_escaped(tree->out, text, (size_t)(quote - text));
		PEV_TEXT_LITERAL(tree->out, "\\x22");
		len -= (size_t)(quote + 1 - text);
		text = quote + 1;
	}
	pev_text_escaped(tree->out, text, len);
	pev_text_char(tree->out, '"');
}
