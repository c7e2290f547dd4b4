/*
 * record_text.c - writes a record as a line of text or as a JSON object; see record_text.h.
 */
#include "record/record_text.h"

#include <string.h>

#include "record/value_text.h"

/* The u64 fields that are addresses. */
#define ADDRESSES \
	(UINT64_C(1) << PEV_F_IP | UINT64_C(1) << PEV_F_ADDR | UINT64_C(1) << PEV_F_PGOFF | \
	 UINT64_C(1) << PEV_F_PHYS_ADDR | UINT64_C(1) << PEV_F_COOKIE)
_Static_assert(PEV_F_NR <= 64, "a set of fields is one word");

/* The fields that a line has in its columns. */
#define COLUMNS \
	(UINT64_C(1) << PEV_F_TIME | UINT64_C(1) << PEV_F_CPU | UINT64_C(1) << PEV_F_PID | \
	 UINT64_C(1) << PEV_F_TID)

static void put_value(struct pev_tree *tree, const struct pev_record_form *form,
		      const struct pev_record *rec, const struct pev_row *row,
		      const struct pev_value *value)
{
	const struct pev_plan *plan = rec->plan;
	bool swap = plan->swap;

	switch (row->kind) {
	case PEV_K_U64:
		if (ADDRESSES >> row->field & 1)
			pev_tree_address(tree, value->u);
		else
			pev_text_unsigned(tree->out, value->u);
		break;
	case PEV_K_STRING:
		pev_tree_string(tree, value->p, value->len);
		break;
	case PEV_K_BYTES:
	case PEV_K_STACK:
		pev_tree_bytes(tree, value->p, value->len);
		break;
	case PEV_K_READ:
		pev_value_put_read(tree, plan, value);
		break;
	case PEV_K_CHAIN:
		pev_value_put_chain(tree, value, plan);
		break;
	case PEV_K_BRANCH:
		pev_value_put_branches(tree, value, swap);
		break;
	case PEV_K_REGS:
		pev_value_put_registers(tree, &form->registers, value, swap);
		break;
	case PEV_K_NAMESPACES:
		pev_value_put_namespaces(tree, value, swap);
		break;
	case PEV_K_BITS:
		pev_value_put_bits(tree, rec, row->field, value->u);
		break;
	default:
		pev_text_signed(tree->out, value->u);
	}
}

static bool is_left_out(const struct pev_tree *tree, const struct pev_shown_record *shown,
			enum pev_field field)
{
	return (!tree->json && COLUMNS >> field & 1) || (field == PEV_F_RAW && shown->tp);
}

static void put_rows(struct pev_tree *tree, const struct pev_record_form *form,
		     const struct pev_shown_record *shown)
{
	const struct pev_record *rec = shown->rec;
	const bool is_sample = rec->type == PERF_RECORD_SAMPLE;
	struct pev_value value;

	for (const struct pev_row *row = pev_record_rows(rec); row->field; row++) {
		if ((is_sample && !(row->bit & rec->plan->sample_type)) ||
		    is_left_out(tree, shown, row->field) ||
		    !pev_record_get(rec, row->field, &value))
			continue;
		pev_tree_key(tree, pev_field_names[row->field]);
		put_value(tree, form, rec, row, &value);
	}
}

/* The fields of the trailer that the record itself does not have. */
static void put_trailer_rows(struct pev_tree *tree, const struct pev_record_form *form,
			     const struct pev_shown_record *shown)
{
	const struct pev_record *rec = shown->rec;
	struct pev_value value;

	for (const struct pev_row *row = pev_trailer_rows; row->field; row++) {
		if (rec->spots[row->field].kind || is_left_out(tree, shown, row->field) ||
		    !pev_record_trailer(rec, row->field, &value))
			continue;
		pev_tree_key(tree, pev_field_names[row->field]);
		put_value(tree, form, rec, row, &value);
	}
}

/* A line has the fields of the trailer that differ from the record's own. */
static void put_trailer_line(struct pev_tree *tree, const struct pev_record_form *form,
			     const struct pev_record *rec)
{
	struct pev_value value, own;

	for (const struct pev_row *row = pev_trailer_rows; row->field; row++) {
		if (!pev_record_trailer(rec, row->field, &value) ||
		    (pev_record_get(rec, row->field, &own) && own.u == value.u))
			continue;
		PEV_TEXT_LITERAL(tree->out, " sample_id.");
		tree->first = true;
		pev_tree_key(tree, pev_field_names[row->field]);
		put_value(tree, form, rec, row, &value);
	}
}

static void put_trailer_object(struct pev_tree *tree, const struct pev_record_form *form,
			       const struct pev_record *rec)
{
	static const uint8_t by_name[] = { 5, 3, 6, 0, 4, 1, 2 };
	struct pev_value value;
	bool any = false;

	for (unsigned i = 0; i < sizeof(by_name); i++) {
		const struct pev_row *row = &pev_trailer_rows[by_name[i]];

		if (!pev_record_trailer(rec, row->field, &value))
			continue;
		if (!any) {
			pev_tree_key(tree, "sample_id");
			pev_tree_open(tree, '{');
		}
		any = true;
		pev_tree_key(tree, pev_field_names[row->field]);
		put_value(tree, form, rec, row, &value);
	}
	if (any)
		pev_tree_close(tree, '}');
}

static void put_flags(struct pev_tree *tree, const struct pev_record *rec)
{
	if (rec->type >= 32)
		return;
	for (const struct pev_misc *flag = pev_miscs; flag->name; flag++)
		if (flag->types >> rec->type & 1)
			pev_tree_flag(tree, flag->name, pev_record_flag(rec, flag));
}

/* What a record has besides its rows. */
static void put_rest(struct pev_tree *tree, const struct pev_shown_record *shown)
{
	const struct pev_record *rec = shown->rec;
	bool is_unknown = !rec->type || rec->type >= PEV_RECORD_NR;
	struct pev_value value;

	if (shown->comm && !pev_record_get(rec, PEV_F_COMM, &value)) {
		pev_tree_key(tree, "comm");
		pev_tree_string(tree, shown->comm, strlen(shown->comm));
	}
	put_flags(tree, rec);
	if (rec->type == PERF_RECORD_AUX && pev_record_get(rec, PEV_F_FLAGS, &value))
		pev_tree_signed(tree, "pmu_format", value.u >> 8 & 0xff);
	if (is_unknown) {
		pev_tree_key(tree, "raw");
		pev_tree_bytes(tree, rec->bytes + 8, rec->size - 8u);
	}
}

/* ---- payloads ---- */

static void put_integer(const struct pev_tree *tree, const struct pev_tp_field *field,
			int64_t value)
{
	uint64_t number = (uint64_t)value;

	if (tree->json ? field->flags & PEV_TP_POINTER : field->flags & PEV_TP_HEX) {
		if (!tree->json && field->elem < sizeof(number))
			number &= (UINT64_C(1) << 8 * field->elem) - 1;
		pev_tree_address(tree, number);
	} else if (field->flags & PEV_TP_SIGNED) {
		pev_text_signed(tree->out, number);
	} else {
		pev_text_unsigned(tree->out, number);
	}
}

static void put_payload_value(struct pev_tree *tree, const struct pev_tracepoint *tp,
			      const struct pev_tp_field *field, const unsigned char *raw,
			      uint32_t len)
{
	struct pev_tp_value value;

	if (pev_tp_get(tp, field, raw, len, &value) < 0) {
		pev_text_word(tree->out, tree->json ? "null" : "nil");
	} else if (!(field->flags & PEV_TP_ARRAY)) {
		put_integer(tree, field, value.i);
	} else if (field->elem == 1) {
		pev_tree_string(tree, value.p, value.len);
	} else {
		pev_tree_open(tree, '[');
		for (uint32_t i = 0; i < value.len / field->elem; i++) {
			pev_tree_next(tree);
			put_integer(tree, field, pev_tp_element(tp, field, &value, i));
		}
		pev_tree_close(tree, ']');
	}
}

static void put_payload(struct pev_tree *tree, const struct pev_shown_record *shown)
{
	const struct pev_tracepoint *tp = shown->tp;
	const unsigned char *raw;
	uint32_t len;

	if (!tp || !pev_record_raw(shown->rec, &raw, &len))
		return;
	if (tree->json) {
		pev_tree_key(tree, "args");
		pev_tree_open(tree, '{');
	}
	for (uint32_t i = 0; i < tp->nr; i++) {
		if (tp->fields[i].flags & PEV_TP_COMMON)
			continue;
		pev_tree_key(tree, tp->fields[i].name);
		put_payload_value(tree, tp, &tp->fields[i], raw, len);
	}
	if (tree->json)
		pev_tree_close(tree, '}');
}

/* ---- a record ---- */

static const char *cpumode_of(const struct pev_record *rec)
{
	return pev_cpumodes[rec->misc & PERF_RECORD_MISC_CPUMODE_MASK];
}

/* The seconds and nanoseconds of a time, with the width of its column. */
static void put_time(struct pev_text *out, uint64_t time)
{
	static const struct pev_conversion seconds = { .letter = 'u', .width = 9, .plain = true };

	pev_text_number(out, &seconds, time / 1000000000);
	pev_text_char(out, '.');
	pev_text_digits(out, time % 1000000000, 9);
}

/* A number with the width of its column, or "-". */
static void put_column(struct pev_text *out, const struct pev_record *rec, enum pev_field field,
		       int width, bool left)
{
	const struct pev_conversion conversion = { .letter = 'd', .is_signed = true, .left = left,
						   .width = width, .precision = -1,
						   .plain = true };
	uint64_t value;

	if (pev_record_number(rec, field, &value))
		pev_text_number(out, &conversion, value);
	else
		pev_text_string(out, &conversion, "-", 1);
}

static void put_columns(struct pev_text *out, const struct pev_shown_record *shown)
{
	static const struct pev_conversion offset = { .letter = 'x', .is_hex = true, .width = 10,
						      .prefix = true, .plain = true };
	const struct pev_record *rec = shown->rec;
	uint64_t number;

	pev_text_number(out, &offset, shown->offset);
	pev_text_char(out, ' ');
	if (pev_record_number(rec, PEV_F_TIME, &number))
		put_time(out, number);
	else
		PEV_TEXT_LITERAL(out, "                  -");
	pev_text_char(out, ' ');
	put_column(out, rec, PEV_F_CPU, 4, false);
	pev_text_char(out, ' ');
	if (pev_record_number(rec, PEV_F_PID, &number)) {
		put_column(out, rec, PEV_F_PID, 6, false);
		pev_text_char(out, '/');
		put_column(out, rec, PEV_F_TID, 6, true);
	} else {
		PEV_TEXT_LITERAL(out, "      -      ");
	}
	pev_text_char(out, ' ');
}

/* 0x1f0  12.000000001  0  7/7  sample cycles kernel */
static void put_line_head(struct pev_tree *tree, const struct pev_shown_record *shown)
{
	const struct pev_record *rec = shown->rec;
	bool is_unknown = !rec->type || rec->type >= PEV_RECORD_NR;
	const char *mode = cpumode_of(rec);

	put_columns(tree->out, shown);
	if (is_unknown) {
		PEV_TEXT_LITERAL(tree->out, "type_");
		pev_text_unsigned(tree->out, rec->type);
	} else {
		pev_text_word(tree->out, pev_layouts[rec->type].name);
	}
	pev_text_char(tree->out, ' ');
	if (shown->event)
		pev_text_put(tree->out, shown->event, shown->event_len);
	else
		pev_text_char(tree->out, '-');
	if (strcmp(mode, "unknown") != 0)
		pev_tree_flag(tree, mode, true);
}

static void put_object_head(struct pev_tree *tree, const struct pev_shown_record *shown)
{
	const struct pev_record *rec = shown->rec;

	pev_tree_open(tree, '{');
	pev_tree_signed(tree, "offset", shown->offset);
	if (shown->event) {
		pev_tree_key(tree, "event");
		pev_text_put(tree->out, shown->event, shown->event_len);
	}
	pev_tree_key(tree, "type");
	pev_text_char(tree->out, '"');
	pev_text_word(tree->out, pev_layouts[rec->type < PEV_RECORD_NR ? rec->type : 0].name);
	pev_text_char(tree->out, '"');
	pev_tree_signed(tree, "number", rec->type);
	pev_tree_signed(tree, "size", rec->size);
	pev_tree_signed(tree, "misc", rec->misc);
	pev_tree_key(tree, "cpumode");
	pev_text_char(tree->out, '"');
	pev_text_word(tree->out, cpumode_of(rec));
	pev_text_char(tree->out, '"');
}

static void put_record_bytes(struct pev_tree *tree, const struct pev_record *rec)
{
	pev_tree_key(tree, "bytes");
	if (tree->json)
		pev_tree_bytes(tree, rec->bytes, rec->size);
	else
		pev_text_hex_bytes(tree->out, rec->bytes, rec->size);
}

void pev_record_put(struct pev_text *out, const struct pev_record_form *form,
		    const struct pev_shown_record *shown)
{
	struct pev_tree tree = { .out = out, .json = form->json };

	if (tree.json)
		put_object_head(&tree, shown);
	else
		put_line_head(&tree, shown);
	put_rows(&tree, form, shown);
	if (shown->rec->type != PERF_RECORD_SAMPLE)
		put_trailer_rows(&tree, form, shown);
	put_rest(&tree, shown);
	put_payload(&tree, shown);
	if (tree.json)
		put_trailer_object(&tree, form, shown->rec);
	else
		put_trailer_line(&tree, form, shown->rec);
	if (shown->synthesised)
		pev_tree_flag(&tree, "synthesised", true);
	if (form->with_bytes)
		put_record_bytes(&tree, shown->rec);
	if (tree.json)
		pev_tree_close(&tree, '}');
}
