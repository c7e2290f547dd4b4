/*
 * folded.c - writes a tree of stacks as folded text; see folded.h.
 *
 * Frames that differ only in module or line have the same name, so their values are added up in
 * one line.
 */
#define _GNU_SOURCE /* qsort_r */

#include "profile/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum { PIECE = 64 << 10, NUMBER_MAX = 40 };

/* Bytes that grow. */
struct buffer {
	char *bytes;
	size_t len, cap;
};

/* A name that is shown; several frames can have it. */
struct name {
	size_t text;                /* offset in texts */
	uint32_t len;
};

/* A child of a level's nodes, by its name. */
struct child {
	uint32_t name, order, node; /* order: in which the children were found */
};

/* What is written below a path: the line of a name, or the lines below it. */
struct entry {
	uint32_t name;
	bool is_line;
	struct pev_tree_value sum;  /* of a line */
	uint32_t first, nr;         /* of the nodes below: a part of folded->nodes */
};

/* The entries below one path. */
struct level {
	uint32_t next, end;         /* entries that are not written yet */
	uint32_t entries, nodes;    /* the first that belong to this level */
	size_t path;                /* the path's length */
};

struct list {
	void *all;
	uint32_t nr, cap;
};

struct pev_folded {
	const struct pev_stack_tree *tree;
	uint32_t nr_nodes;          /* nodes that are added later are left out */
	uint32_t value;
	struct buffer texts, path, out;
	struct name *names;         /* by rank, which is that of the names' bytes */
	uint32_t *ranks;            /* by the frames' ids */
	struct list children, entries, nodes, levels;
};

/* ---- lists ---- */

static bool reserve(struct buffer *buffer, size_t more)
{
	size_t cap = buffer->cap ? buffer->cap : 256;
	char *bytes;

	while (cap < buffer->len + more)
		cap *= 2;
	if (cap == buffer->cap)
		return true;
	bytes = realloc(buffer->bytes, cap);
	if (!bytes)
		return false;
	buffer->bytes = bytes;
	buffer->cap = cap;
	return true;
}

/* The caller has reserved the room. */
static void append(struct buffer *buffer, const char *bytes, size_t len)
{
	if (len)
		memcpy(buffer->bytes + buffer->len, bytes, len);
	buffer->len += len;
}

/* Returns a new last item, or NULL. */
static void *push(struct list *list, size_t each)
{
	if (!pev_list_reserve(&list->all, &list->cap, list->nr + 1, each))
		return NULL;
	return (char *)list->all + each * list->nr++;
}

/* ---- names ---- */

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
	const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_names(const void *a, const void *b, void *ctx)
{
	const struct pev_folded *folded = ctx;
	const struct name *x = &folded->names[*(const uint32_t *)a];
	const struct name *y = &folded->names[*(const uint32_t *)b];

	return compare_bytes(folded->texts.bytes + x->text, x->len,
			     folded->texts.bytes + y->text, y->len);
}

/* A ";" in a name becomes ":", as in stackcollapse-perf.pl. */
static bool add_name(struct pev_folded *folded, const struct pev_tree_frame *frame, bool annotate,
		     struct name *name)
{
	const char *key = folded->tree->keys + frame->key;
	const char *mark = !annotate                           ? ""
			   : frame->flags & PEV_TREE_KERNEL  ? "_[k]"
			   : frame->flags & PEV_TREE_INLINED ? "_[i]"
							     : "";
	const size_t start = folded->texts.len, len = strlen(key);

	if (!reserve(&folded->texts, len + strlen(mark)))
		return false;
	append(&folded->texts, key, len);
	append(&folded->texts, mark, strlen(mark));
	for (size_t i = start; i < start + len; i++)
		if (folded->texts.bytes[i] == ';')
			folded->texts.bytes[i] = ':';
	*name = (struct name){ start, (uint32_t)(folded->texts.len - start) };
	return true;
}

/* Names the frames, and numbers the names in the order of their bytes. */
static int rank_names(struct pev_folded *folded, bool annotate)
{
	const uint32_t nr = folded->tree->nr_frames;
	uint32_t *ids = malloc(sizeof(*ids) * (nr + 1)), distinct = 0;
	struct name *names = malloc(sizeof(*names) * (nr + 1));

	folded->names = calloc(nr + 1, sizeof(*names));
	folded->ranks = calloc(nr + 1, sizeof(*folded->ranks));
	if (!ids || !names || !folded->names || !folded->ranks)
		goto no_memory;
	for (uint32_t i = 0; i < nr; i++) {
		ids[i] = i + 1;
		if (!add_name(folded, &folded->tree->frames[i + 1], annotate,
			      &folded->names[i + 1]))
			goto no_memory;
	}
	qsort_r(ids, nr, sizeof(*ids), compare_names, folded);
	for (uint32_t i = 0; i < nr; i++) {
		if (i == 0 || compare_names(&ids[i - 1], &ids[i], folded) != 0)
			names[distinct++] = folded->names[ids[i]];
		folded->ranks[ids[i]] = distinct - 1;
	}
	free(ids);
	free(folded->names);
	folded->names = names;
	return 0;
no_memory:
	free(ids);
	free(names);
	return -ENOMEM;
}

/* ---- entries ---- */

static size_t print_value(const struct pev_tree_value *value, char text[NUMBER_MAX])
{
	const int len = value->is_float
				? snprintf(text, NUMBER_MAX, "%.14g", value->number)
				: snprintf(text, NUMBER_MAX, "%" PRId64, value->integer);

	return (size_t)len;
}

/* Returns what follows the name of an entry: " 12\n" or ";". */
static size_t print_suffix(const struct entry *entry, char text[NUMBER_MAX + 2])
{
	size_t len;

	if (!entry->is_line) {
		text[0] = ';';
		return 1;
	}
	text[0] = ' ';
	len = 1 + print_value(&entry->sum, text + 1);
	text[len++] = '\n';
	return len;
}

/* Compares what the entries add to the path: names and suffixes. */
static int compare_entries(const void *a, const void *b, void *ctx)
{
	const struct pev_folded *folded = ctx;
	const struct entry *entries[] = { a, b };
	char suffix[2][NUMBER_MAX + 2];
	const char *text[2];
	size_t len[2], suffix_len[2], at, rest;
	int order;

	for (int i = 0; i < 2; i++) {
		text[i] = folded->texts.bytes + folded->names[entries[i]->name].text;
		len[i] = folded->names[entries[i]->name].len;
	}
	at = len[0] < len[1] ? len[0] : len[1];
	order = memcmp(text[0], text[1], at);
	if (order)
		return order;
	for (int i = 0; i < 2; i++)
		suffix_len[i] = print_suffix(entries[i], suffix[i]);
	for (;; at++) {
		unsigned char byte[2];

		for (int i = 0; i < 2; i++) {
			rest = at - len[i];
			if (at >= len[i] && rest >= suffix_len[i])
				return i ? 1 : -1;
			byte[i] = (unsigned char)(at < len[i] ? text[i][at] : suffix[i][rest]);
		}
		if (byte[0] != byte[1])
			return byte[0] < byte[1] ? -1 : 1;
	}
}

static int compare_children(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool add_entry(struct pev_folded *folded, const struct entry *entry)
{
	struct entry *place = push(&folded->entries, sizeof(*place));

	if (place)
		*place = *entry;
	return place != NULL;
}

/* Adds the entries of children that have one name. */
static bool add_group(struct pev_folded *folded, const struct child *children, uint32_t nr)
{
	struct entry line = { .name = children->name, .is_line = true };
	struct entry below = { .name = children->name, .first = folded->nodes.nr };
	bool has_sum = false;

	for (uint32_t i = 0; i < nr; i++) {
		const struct pev_tree_value *values =
			pev_stack_tree_values(folded->tree, children[i].node);
		uint32_t *node;

		if (values && !pev_tree_value_is_zero(&values[folded->value])) {
			pev_tree_value_add(&line.sum, &values[folded->value]);
			has_sum = true;
		}
		if (!folded->tree->nodes[children[i].node].first)
			continue;
		node = push(&folded->nodes, sizeof(*node));
		if (!node)
			return false;
		*node = children[i].node;
		below.nr++;
	}
	return (!has_sum || add_entry(folded, &line)) &&
	       (below.nr == 0 || add_entry(folded, &below));
}

/* Lists the children of nodes, which are those of an entry; nr is 0 for the root. */
static bool list_children(struct pev_folded *folded, uint32_t first, uint32_t nr)
{
	const struct pev_stack_tree *tree = folded->tree;

	folded->children.nr = 0;
	for (uint32_t i = 0; i < (nr ? nr : 1); i++) {
		const uint32_t *nodes = folded->nodes.all;
		const uint32_t parent = nr ? nodes[first + i] : 0;

		for (uint32_t n = tree->nodes[parent].first; n; n = tree->nodes[n].brother) {
			struct child *child;

			if (n >= folded->nr_nodes)
				continue;
			child = push(&folded->children, sizeof(*child));
			if (!child)
				return false;
			*child = (struct child){ folded->ranks[tree->nodes[n].frame],
						 folded->children.nr, n };
		}
	}
	return true;
}

static bool add_level(struct pev_folded *folded, uint32_t first, uint32_t nr)
{
	struct level *level = push(&folded->levels, sizeof(*level));
	const struct child *children;

	if (!level)
		return false;
	*level = (struct level){ .next = folded->entries.nr, .entries = folded->entries.nr,
				 .nodes = folded->nodes.nr, .path = folded->path.len };
	if (!list_children(folded, first, nr))
		return false;
	children = folded->children.all;
	if (folded->children.nr > 1)
		qsort(folded->children.all, folded->children.nr, sizeof(*children),
		      compare_children);
	for (uint32_t i = 0, end; i < folded->children.nr; i = end) {
		for (end = i + 1; end < folded->children.nr; end++)
			if (children[end].name != children[i].name)
				break;
		if (!add_group(folded, &children[i], end - i))
			return false;
	}
	level->end = folded->entries.nr;
	if (level->end - level->next > 1)
		qsort_r((struct entry *)folded->entries.all + level->next,
			level->end - level->next, sizeof(struct entry), compare_entries, folded);
	return true;
}

/* ---- text ---- */

static bool write_line(struct pev_folded *folded, const struct entry *entry)
{
	const struct name *name = &folded->names[entry->name];
	char suffix[NUMBER_MAX + 2];
	const size_t len = print_suffix(entry, suffix);

	if (!reserve(&folded->out, folded->path.len + name->len + len))
		return false;
	append(&folded->out, folded->path.bytes, folded->path.len);
	append(&folded->out, folded->texts.bytes + name->text, name->len);
	append(&folded->out, suffix, len);
	return true;
}

static bool enter(struct pev_folded *folded, const struct entry *entry)
{
	const struct name *name = &folded->names[entry->name];

	if (!reserve(&folded->path, (size_t)name->len + 1))
		return false;
	append(&folded->path, folded->texts.bytes + name->text, name->len);
	append(&folded->path, ";", 1);
	return add_level(folded, entry->first, entry->nr);
}

int pev_folded_next(struct pev_folded *folded, const char **text, size_t *len)
{
	folded->out.len = 0;
	while (folded->levels.nr && folded->out.len < PIECE) {
		struct level *level = (struct level *)folded->levels.all + folded->levels.nr - 1;
		struct entry entry;

		folded->path.len = level->path;
		if (level->next == level->end) {
			folded->entries.nr = level->entries;
			folded->nodes.nr = level->nodes;
			folded->levels.nr--;
			continue;
		}
		entry = ((const struct entry *)folded->entries.all)[level->next++];
		if (!(entry.is_line ? write_line : enter)(folded, &entry))
			return -ENOMEM;
	}
	*text = folded->out.bytes;
	*len = folded->out.len;
	return 0;
}

int pev_folded_open(struct pev_folded **out, const struct pev_stack_tree *tree, uint32_t value,
		    bool annotate)
{
	struct pev_folded *folded = calloc(1, sizeof(*folded));

	if (!folded)
		return -ENOMEM;
	folded->tree = tree;
	folded->nr_nodes = tree->nr_nodes;
	folded->value = value;
	if (rank_names(folded, annotate) < 0 || !add_level(folded, 0, 0)) {
		pev_folded_close(folded);
		return -ENOMEM;
	}
	*out = folded;
	return 0;
}

void pev_folded_close(struct pev_folded *folded)
{
	if (!folded)
		return;
	free(folded->texts.bytes);
	free(folded->path.bytes);
	free(folded->out.bytes);
	free(folded->names);
	free(folded->ranks);
	free(folded->children.all);
	free(folded->entries.all);
	free(folded->nodes.all);
	free(folded->levels.all);
	free(folded);
}
