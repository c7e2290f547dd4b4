/*
 * value_text.c - values of fields that have parts, as text or JSON; see value_text.h.
 */
#include "record/value_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "record/bits.h"
#include "record/callchain.h"

enum { ITEMS_MAX = 20 }; /* named parts of a word, and of a branch */

/* A named part of a word; without a field it is an address. */
struct item {
	const char *name;
	const struct pev_bits_field *field;
	uint64_t value;
};

static const struct pev_bits_field number_field = { .kind = PEV_B_NUMBER };

static const char *enum_name(const struct item *item)
{
	const struct pev_bits_field *field = item->field;

	if (!field || field->kind != PEV_B_ENUM || item->value >= field->nr)
		return NULL;
	return field->names[item->value];
}

static void sort_names(const char **names, unsigned nr)
{
	for (unsigned i = 1; i < nr; i++)
		for (unsigned k = i; k > 0 && strcmp(names[k - 1], names[k]) > 0; k--) {
			const char *name = names[k];

			names[k] = names[k - 1];
			names[k - 1] = name;
		}
}

static void sort_items(struct item *items, unsigned nr)
{
	for (unsigned i = 1; i < nr; i++)
		for (unsigned k = i; k > 0 && strcmp(items[k - 1].name, items[k].name) > 0; k--) {
			struct item item = items[k];

			items[k] = items[k - 1];
			items[k - 1] = item;
		}
}

static void put_set(struct pev_tree *tree, const struct item *item)
{
	const char *names[64];
	unsigned nr = 0;

	for (unsigned bit = 0; bit < item->field->nr; bit++)
		if (item->value >> bit & 1)
			names[nr++] = item->field->names[bit];
	sort_names(names, nr);
	pev_tree_key(tree, item->name);
	pev_tree_open(tree, '{');
	for (unsigned i = 0; i < nr; i++)
		pev_tree_flag(tree, names[i], true);
	pev_tree_close(tree, '}');
}

static void put_item(struct pev_tree *tree, const struct item *item)
{
	const char *name = enum_name(item);

	if (!item->field) {
		pev_tree_key(tree, item->name);
		pev_tree_address(tree, item->value);
	} else if (item->field->kind == PEV_B_FLAG) {
		pev_tree_flag(tree, item->name, item->value);
	} else if (item->field->kind == PEV_B_SET) {
		put_set(tree, item);
	} else if (name) {
		pev_tree_key(tree, item->name);
		pev_tree_string(tree, name, strlen(name));
	} else {
		pev_tree_signed(tree, item->name, item->value);
	}
}

/* Writes the parts of a word to items. Returns how many. */
static unsigned split_word(struct item *items, const struct pev_bits_field *field, uint64_t word)
{
	const char *type = NULL;
	unsigned nr = 0;

	items[nr++] = (struct item){ "raw", NULL, word };
	for (; field->name; field++) {
		struct item item = { field->name, field, pev_bits_get(word, field) };

		if (field->extended && !(type && strcmp(type, "extend_abi") == 0))
			continue;
		if (strcmp(field->name, "type") == 0)
			type = enum_name(&item);
		items[nr++] = item;
	}
	return nr;
}

static void put_items(struct pev_tree *tree, struct item *items, unsigned nr)
{
	sort_items(items, nr);
	pev_tree_open(tree, '{');
	for (unsigned i = 0; i < nr; i++)
		put_item(tree, &items[i]);
	pev_tree_close(tree, '}');
}

void pev_value_put_bits(struct pev_tree *tree, const struct pev_record *rec, enum pev_field field,
		     uint64_t word)
{
	const struct pev_bits *bits = field == PEV_F_DATA_SRC	   ? &pev_data_src_bits
				      : field == PEV_F_TRANSACTION ? &pev_transaction_bits
								   : &pev_weight_bits;
	struct item items[ITEMS_MAX];
	unsigned nr;

	/* WEIGHT is one number, WEIGHT_STRUCT is three. */
	if (field == PEV_F_WEIGHT && !(rec->plan->sample_type & PEV_SAMPLE_WEIGHT_STRUCT)) {
		pev_text_signed(tree->out, word);
		return;
	}
	nr = split_word(items, bits->fields, word);
	put_items(tree, items, nr);
}

/* True for a part that a line leaves out: false, zero and unknown values, and addresses. */
static bool is_empty_item(const struct item *item)
{
	const char *name = enum_name(item);

	if (!item->field)
		return true;
	return name ? strcmp(name, "unknown") == 0 || strcmp(name, "na") == 0 : !item->value;
}

/* Returns the number of items. */
static unsigned split_branch(struct item *items, const struct pev_value *value, uint32_t i,
			     bool swap)
{
	/* True if the writer was big-endian, whose bit fields are mirrored. */
	bool mirrored = swap == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	const unsigned char *p = value->p + 24 * (size_t)i;
	uint64_t flags = pev_load64(p + 16, swap);
	unsigned nr;

	nr = split_word(items, pev_branch_bits.fields,
			mirrored ? pev_branch_unmirror(flags) : flags);
	items[nr++] = (struct item){ "from", NULL, pev_load64(p, swap) };
	items[nr++] = (struct item){ "to", NULL, pev_load64(p + 8, swap) };
	if (value->counters)
		items[nr++] = (struct item){ "counters", &number_field,
					     pev_load64(value->counters + 8 * (size_t)i, swap) };
	return nr;
}

/* 0x1->0x2(mispred,cycles=3) */
static void put_branch_line(struct pev_tree *tree, struct item *items, unsigned nr,
			    const unsigned char *p, bool swap)
{
	char between = '(';

	pev_tree_address(tree, pev_load64(p, swap));
	PEV_TEXT_LITERAL(tree->out, "->");
	pev_tree_address(tree, pev_load64(p + 8, swap));
	sort_items(items, nr);
	for (unsigned i = 0; i < nr; i++) {
		if (is_empty_item(&items[i]))
			continue;
		pev_text_char(tree->out, between);
		between = ',';
		tree->first = true;
		put_item(tree, &items[i]);
	}
	if (between == ',')
		pev_text_char(tree->out, ')');
	tree->first = false;
}

void pev_value_put_branches(struct pev_tree *tree, const struct pev_value *value, bool swap)
{
	struct item items[ITEMS_MAX];

	pev_tree_open(tree, '[');
	for (uint32_t i = 0; i < value->nr; i++) {
		unsigned nr = split_branch(items, value, i, swap);

		pev_tree_next(tree);
		if (tree->json)
			put_items(tree, items, nr);
		else
			put_branch_line(tree, items, nr, value->p + 24 * (size_t)i, swap);
	}
	if (value->hw_idx && !tree->json)
		pev_tree_signed(tree, "hw_idx", value->extra);
	pev_tree_close(tree, ']');
}

/* ---- other values with parts ---- */

static void put_addresses(struct pev_tree *tree, const struct pev_value *value,
			  const struct pev_plan *plan)
{
	for (uint32_t i = 0; i < value->nr; i++) {
		pev_tree_next(tree);
		pev_tree_address(tree, pev_load64(value->p + 8 * (size_t)i, plan->swap));
	}
}

/* [kernel: 0x1 user: 0x2] */
static void put_chain_line(struct pev_tree *tree, const struct pev_value *value,
			   const struct pev_plan *plan)
{
	pev_tree_open(tree, '[');
	for (uint32_t i = 0; i < value->nr; i++) {
		uint64_t ip = pev_load64(value->p + 8 * (size_t)i, plan->swap);
		enum pev_chain_context context = pev_chain_context_of(ip, false);

		pev_tree_next(tree);
		if (context == PEV_CHAIN_NONE || context == PEV_CHAIN_UNKNOWN) {
			pev_tree_address(tree, ip);
			continue;
		}
		pev_text_word(tree->out, pev_chain_contexts[context]);
		pev_text_char(tree->out, ':');
	}
	pev_tree_close(tree, ']');
}

static struct pev_chain chain_of(const struct pev_value *value, const struct pev_plan *plan)
{
	return (struct pev_chain){ .p = value->p, .nr = value->nr, .swap = plan->swap,
				   .narrow = plan->narrow };
}

static void put_context(struct pev_tree *tree, struct pev_chain chain,
			enum pev_chain_context context)
{
	pev_tree_key(tree, pev_chain_contexts[context]);
	pev_tree_open(tree, '[');
	while (pev_chain_next(&chain)) {
		if (chain.is_marker || chain.context != context)
			continue;
		pev_tree_next(tree);
		pev_tree_address(tree, chain.ip);
	}
	pev_tree_close(tree, ']');
}

/* {"kernel":["0x1"],...}; `raw` has all words, also the markers. */
static void put_chain_object(struct pev_tree *tree, const struct pev_value *value,
			     const struct pev_plan *plan)
{
	struct pev_chain chain = chain_of(value, plan);
	bool has_cookie = false;
	uint64_t cookie = 0;
	unsigned present = 0; /* bit n: context n */

	while (pev_chain_next(&chain)) {
		if (chain.context != PEV_CHAIN_DEFERRED) {
			present |= 1u << chain.context;
		} else if (!chain.is_marker) {
			has_cookie = true;
			cookie = chain.ip;
		}
	}
	pev_tree_open(tree, '{');
	if (has_cookie) {
		pev_tree_key(tree, "cookie");
		pev_tree_address(tree, cookie);
	}
	for (unsigned context = PEV_CHAIN_GUEST; context <= PEV_CHAIN_USER; context++) {
		if (context == PEV_CHAIN_UNKNOWN) { /* in the order of names */
			pev_tree_key(tree, "raw");
			pev_tree_open(tree, '[');
			put_addresses(tree, value, plan);
			pev_tree_close(tree, ']');
		}
		if (present >> context & 1)
			put_context(tree, chain_of(value, plan), context);
	}
	pev_tree_close(tree, '}');
}

static void put_read_times(struct pev_tree *tree, const struct pev_read *read)
{
	if (read->format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		pev_tree_signed(tree, "time_enabled", read->time_enabled);
	if (read->format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		pev_tree_signed(tree, "time_running", read->time_running);
}

static void put_read_value(struct pev_tree *tree, const struct pev_read *read, uint64_t i)
{
	struct pev_read_value value = pev_read_at(read, i);

	if (read->format & PERF_FORMAT_ID)
		pev_tree_signed(tree, "id", value.id);
	if (read->format & PEV_FORMAT_LOST)
		pev_tree_signed(tree, "lost", value.lost);
	if (!(read->format & PERF_FORMAT_GROUP))
		put_read_times(tree, read);
	pev_tree_signed(tree, "value", value.value);
}

void pev_value_put_read(struct pev_tree *tree, const struct pev_plan *plan,
			const struct pev_value *value)
{
	struct pev_read read;

	/* Cannot fail: the record was located. */
	pev_read_parse(&read, plan->read_format, plan->swap, value->p, value->len);
	pev_tree_open(tree, '{');
	if (read.format & PERF_FORMAT_GROUP) {
		put_read_times(tree, &read);
		pev_tree_key(tree, "values");
		pev_tree_open(tree, '[');
		for (uint64_t i = 0; i < read.nr; i++) {
			pev_tree_next(tree);
			pev_tree_open(tree, '{');
			put_read_value(tree, &read, i);
			pev_tree_close(tree, '}');
		}
		pev_tree_close(tree, ']');
	} else {
		put_read_value(tree, &read, 0);
	}
	pev_tree_close(tree, '}');
}

void pev_value_put_registers(struct pev_tree *tree, const struct pev_register_names *registers,
			  const struct pev_value *value, bool swap)
{
	pev_tree_open(tree, '{');
	pev_tree_key(tree, "abi");
	pev_text_unsigned(tree->out, value->extra);
	for (unsigned i = 0; i < 64; i++) {
		unsigned bit = registers->order[i];
		uint64_t below = value->u & ((UINT64_C(1) << bit) - 1);
		size_t at = (size_t)__builtin_popcountll(below);

		if (!(value->u >> bit & 1) || at >= value->nr)
			continue;
		pev_tree_key(tree, registers->names[bit]);
		pev_tree_address(tree, pev_load64(value->p + 8 * at, swap));
	}
	pev_tree_close(tree, '}');
}

static void put_namespace(struct pev_tree *tree, const char *name, const struct pev_value *value,
			  uint32_t i, bool swap)
{
	if (i >= value->nr)
		return;
	pev_tree_key(tree, name);
	pev_tree_open(tree, '{');
	pev_tree_signed(tree, "dev", pev_load64(value->p + 16 * (size_t)i, swap));
	pev_tree_signed(tree, "inode", pev_load64(value->p + 16 * (size_t)i + 8, swap));
	pev_tree_close(tree, '}');
}

/* Those without a name, which no kernel has, by number; then the others by name. */
void pev_value_put_namespaces(struct pev_tree *tree, const struct pev_value *value, bool swap)
{
	static const uint8_t by_name[PEV_NAMESPACES_NR] = { 6, 2, 5, 0, 3, 4, 1 };
	char number[12];

	pev_tree_open(tree, '{');
	for (uint32_t i = PEV_NAMESPACES_NR; i < value->nr; i++) {
		snprintf(number, sizeof(number), "%" PRIu32, i + 1);
		put_namespace(tree, number, value, i, swap);
	}
	for (unsigned i = 0; i < PEV_NAMESPACES_NR; i++)
		put_namespace(tree, pev_namespace_names[by_name[i]], value, by_name[i], swap);
	pev_tree_close(tree, '}');
}

void pev_value_put_chain(struct pev_tree *tree, const struct pev_value *value,
			 const struct pev_plan *plan)
{
	if (tree->json)
		put_chain_object(tree, value, plan);
	else
		put_chain_line(tree, value, plan);
}

void pev_register_names_sort(struct pev_register_names *registers)
{
	const char **names = registers->names;

	for (unsigned bit = 0; bit < 64; bit++) {
		snprintf(registers->numbers[bit], sizeof(registers->numbers[bit]), "%u", bit);
		if (!names[bit])
			names[bit] = registers->numbers[bit];
		registers->order[bit] = (uint8_t)bit;
	}
	for (unsigned i = 1; i < 64; i++) {
		uint8_t bit = registers->order[i];
		unsigned k = i;

		for (; k > 0 && strcmp(names[registers->order[k - 1]], names[bit]) > 0; k--)
			registers->order[k] = registers->order[k - 1];
		registers->order[k] = bit;
	}
}
