/*
 * stack_tree_pack.c - a tree of stacks as bytes; see stack_tree_pack.h.
 *
 * Frames: how many; for each its flag that a thread begins there, the length of its key, the key.
 * Nodes: how many; for each how far back its parent is, its frame, and whether values follow, each
 * an integer (its sign in bit 0) or a float. Then the two counts of depths.
 */
#include "profile/stack_tree_pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NO_VALUES,
       INTEGERS,
       MIXED }; /* what follows a node */
enum { INTEGER,
       FLOAT }; /* what a value in MIXED is */
enum { PARTS = 6 }; /* of a key: name, module, file, line, "k", "i" */

/* ---- writing ---- */

static void put_integer(const struct pev_pack_out *out, int64_t n)
{
	pev_pack_number(out, (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0));
}

static void put_value(const struct pev_pack_out *out, const struct pev_tree_value *value)
{
	unsigned char bytes[8];
	uint64_t bits;

	pev_pack_number(out, value->is_float ? FLOAT : INTEGER);
	if (!value->is_float) {
		put_integer(out, value->integer);
		return;
	}
	memcpy(&bits, &value->number, sizeof(bits));
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(bits >> 8 * i);
	out->write(out->ctx, bytes, sizeof(bytes));
}

static void put_values(const struct pev_pack_out *out, const struct pev_tree_value *values,
		       uint32_t nr)
{
	bool mixed = false;

	for (uint32_t i = 0; i < nr; i++)
		mixed |= values[i].is_float;
	pev_pack_number(out, mixed ? MIXED : INTEGERS);
	for (uint32_t i = 0; i < nr; i++) {
		if (mixed)
			put_value(out, &values[i]);
		else
			put_integer(out, values[i].integer);
	}
}

/* Which nodes and frames are packed, and under which numbers; 0: not. */
struct selection {
	uint32_t *nodes, *frames;
	uint32_t nr_nodes, nr_frames;
	uint32_t first, last; /* rows */
};

static bool has_row(const struct selection *selection, const struct pev_tree_node *node)
{
	return node->row && node->row >= selection->first && node->row <= selection->last;
}

static void select_nodes(const struct pev_stack_tree *tree, struct selection *selection)
{
	for (uint32_t n = tree->nr_nodes; n-- > 1;) {
		if (has_row(selection, &tree->nodes[n]))
			selection->nodes[n] = 1;
		if (selection->nodes[n])
			selection->nodes[tree->nodes[n].parent] = 1;
	}
	for (uint32_t n = 1; n < tree->nr_nodes; n++) {
		if (!selection->nodes[n])
			continue;
		selection->nodes[n] = ++selection->nr_nodes;
		selection->frames[tree->nodes[n].frame] = 1;
	}
	selection->nodes[0] = 0;
	for (uint32_t i = 1; i <= tree->nr_frames; i++)
		if (selection->frames[i])
			selection->frames[i] = ++selection->nr_frames;
}

static void put_tree(const struct pev_stack_tree *tree, const struct selection *selection,
		     const struct pev_pack_out *out)
{
	pev_pack_number(out, selection->nr_frames);
	for (uint32_t i = 1; i <= tree->nr_frames; i++) {
		const struct pev_tree_frame *frame = &tree->frames[i];

		if (!selection->frames[i])
			continue;
		pev_pack_number(out, frame->flags & PEV_TREE_START ? 1 : 0);
		pev_pack_number(out, frame->len);
		out->write(out->ctx, tree->keys + frame->key, frame->len);
	}
	pev_pack_number(out, selection->nr_nodes);
	for (uint32_t n = 1; n < tree->nr_nodes; n++) {
		const struct pev_tree_node *node = &tree->nodes[n];

		if (!selection->nodes[n])
			continue;
		pev_pack_number(out, selection->nodes[n] - selection->nodes[node->parent]);
		pev_pack_number(out, selection->frames[node->frame]);
		if (has_row(selection, node))
			put_values(out, pev_stack_tree_values(tree, n), tree->nr_values);
		else
			pev_pack_number(out, NO_VALUES);
	}
}

size_t pev_stack_tree_pack_bytes(const struct pev_stack_tree *tree)
{
	return sizeof(uint32_t) * (tree->nr_nodes + tree->nr_frames + (size_t)1);
}

void pev_stack_tree_pack(const struct pev_stack_tree *tree, uint32_t first, uint32_t last,
			 uint32_t *work, const struct pev_pack_out *out)
{
	static const struct pev_tree_value none = { 0 };
	struct selection selection = { .nodes = work, .frames = work + tree->nr_nodes,
				       .first = first, .last = last };
	const bool is_last = last == tree->nr_rows;

	select_nodes(tree, &selection);
	put_tree(tree, &selection, out);
	put_value(out, is_last ? &tree->user_stacks : &none);
	put_value(out, is_last ? &tree->short_stacks : &none);
}

/* ---- reading ---- */

static int take_integer(struct pev_pack_in *in, struct pev_tree_value *value)
{
	uint64_t n;
	int rc = pev_unpack_number(in, &n);

	value->integer = (int64_t)(n >> 1 ^ -(n & 1));
	return rc;
}

static int take_value(struct pev_pack_in *in, struct pev_tree_value *value)
{
	uint64_t type, bits = 0;

	*value = (struct pev_tree_value){ 0 };
	if (pev_unpack_number(in, &type) < 0 || type > FLOAT)
		return -EBADMSG;
	if (type == INTEGER)
		return take_integer(in, value);
	if (in->end - in->p < 8)
		return -EBADMSG;
	for (int i = 0; i < 8; i++)
		bits |= (uint64_t)*in->p++ << 8 * i;
	value->is_float = true;
	memcpy(&value->number, &bits, sizeof(bits));
	/* Infinite, or not a number. */
	return (bits >> 52 & 0x7ff) == 0x7ff ? -EBADMSG : 0;
}

/* True if the text may be shown on a terminal. */
static bool is_text(const struct pev_tree_texts *texts, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return texts->is_safe(texts->ctx, text, len);
	return true;
}

static bool is_line(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((text[i] < '0' || text[i] > '9') && (text[i] != '-' || i > 0))
			return false;
	return len <= 20;
}

static bool is_mark(const char *text, size_t len, char mark)
{
	return len == 0 || (len == 1 && *text == mark);
}

/* Checks a key and finds its flags. */
static bool check_key(const char *key, size_t len, const struct pev_tree_texts *texts,
		      uint32_t *flags)
{
	const char *part[PARTS];
	size_t size[PARTS];

	for (int i = 0; i < PARTS; i++) {
		const char *end = i < PARTS - 1 ? memchr(key, '\0', len) : key + len;

		if (!end)
			return false;
		part[i] = key;
		size[i] = (size_t)(end - key);
		len -= size[i] + (i < PARTS - 1);
		key = end + 1;
	}
	for (int i = 0; i < 3; i++)
		if (!is_text(texts, part[i], size[i]))
			return false;
	*flags |= size[1] ? PEV_TREE_MODULE : 0;
	*flags |= size[4] ? PEV_TREE_KERNEL : 0;
	*flags |= size[5] ? PEV_TREE_INLINED : 0;
	return size[0] && is_line(part[3], size[3]) && is_mark(part[4], size[4], 'k') &&
	       is_mark(part[5], size[5], 'i');
}

static int take_frame(struct pev_stack_tree *tree, struct pev_pack_in *in,
		      const struct pev_tree_texts *texts)
{
	const char *key = NULL;
	uint64_t start, len;
	uint32_t id, flags, before = tree->nr_frames;
	int rc;

	if (pev_unpack_number(in, &start) < 0 || start > 1 || pev_unpack_number(in, &len) < 0 ||
	    len > (uint64_t)(in->end - in->p))
		return -EBADMSG;
	key = (const char *)in->p;
	in->p += len;
	flags = start ? PEV_TREE_START : 0;
	if (!check_key(key, len, texts, &flags))
		return -EBADMSG;
	rc = pev_stack_tree_intern(tree, key, len, flags, &id);
	if (rc < 0)
		return rc;
	return tree->nr_frames == before ? -EBADMSG : 0; /* twice */
}

static int take_values(struct pev_stack_tree *tree, struct pev_pack_in *in, uint32_t node,
		       struct pev_tree_value *values)
{
	uint64_t what;
	int rc = 0;

	if (pev_unpack_number(in, &what) < 0 || what > MIXED)
		return -EBADMSG;
	if (what == NO_VALUES)
		return 0;
	memset(values, 0, sizeof(*values) * tree->nr_values);
	for (uint32_t i = 0; i < tree->nr_values && rc == 0; i++)
		rc = what == MIXED ? take_value(in, &values[i]) : take_integer(in, &values[i]);
	return rc < 0 ? rc : pev_stack_tree_add(tree, node, values, tree->nr_values);
}

static int take_node(struct pev_stack_tree *tree, struct pev_pack_in *in,
		     struct pev_tree_value *values)
{
	const uint32_t nr = tree->nr_nodes;
	uint64_t back, frame;
	uint32_t node;
	int rc;

	if (pev_unpack_number(in, &back) < 0 || back == 0 || back > nr ||
	    pev_unpack_number(in, &frame) < 0 || frame == 0 || frame > tree->nr_frames)
		return -EBADMSG;
	rc = pev_stack_tree_child(tree, nr - (uint32_t)back, (uint32_t)frame, 0, &node);
	if (rc < 0)
		return rc;
	return node == nr ? take_values(tree, in, node, values) : -EBADMSG; /* not new */
}

static int take_list(struct pev_stack_tree *tree, struct pev_pack_in *in,
		     const struct pev_tree_texts *texts, struct pev_tree_value *values)
{
	uint64_t nr;
	int rc = pev_unpack_number(in, &nr);

	for (uint64_t i = 0; i < nr && rc == 0; i++) {
		rc = texts ? take_frame(tree, in, texts) : take_node(tree, in, values);
		if (rc == 0 && tree->room < 0)
			rc = -E2BIG;
	}
	return rc;
}

int pev_stack_tree_unpack(struct pev_stack_tree *tree, struct pev_pack_in *in,
			  const struct pev_tree_texts *texts, struct pev_err *err)
{
	struct pev_tree_value *values = calloc(tree->nr_values, sizeof(*values));
	const int64_t most = tree->room;
	int rc = values ? take_list(tree, in, texts, values) : -ENOMEM;

	if (rc == 0)
		rc = take_list(tree, in, NULL, values);
	free(values);
	if (rc == 0)
		rc = take_value(in, &tree->user_stacks);
	if (rc == 0)
		rc = take_value(in, &tree->short_stacks);
	if (rc == -E2BIG)
		return pev_fail(err, rc, "the stacks take more than %lld bytes of memory",
				(long long)most);
	if (rc == -ENOMEM)
		return pev_fail(err, rc, "no memory for it");
	return rc < 0 ? pev_fail(err, rc, "a frame or a stack is invalid") : 0;
}
