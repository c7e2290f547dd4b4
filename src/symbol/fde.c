/*
 * fde.c - entries of call frame information, and the rules of an address; see fde.h.
 */
#include "symbol/fde.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	DEPTH_MAX = 16,             /* rows that DW_CFA_remember_state keeps; compilers use 2 */
	INSTRUCTIONS_MAX = 1 << 20  /* bytes, for one function */
};

/* ---- bytes ---- */

uint64_t pev_bytes_word(struct pev_bytes *b, unsigned width)
{
	uint64_t word = 0;

	if ((size_t)(b->end - b->at) < width) {
		b->bad = true;
		b->at = b->end;
		return 0;
	}
	for (unsigned i = 0; i < width; i++)
		word |= (uint64_t)b->at[i] << 8 * i;
	b->at += width;
	return word;
}

int64_t pev_bytes_signed(struct pev_bytes *b, unsigned width)
{
	unsigned spare = 64 - 8 * width;

	return (int64_t)(pev_bytes_word(b, width) << spare) >> spare;
}

static uint64_t read_leb(struct pev_bytes *b, bool with_sign)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)pev_bytes_word(b, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (with_sign && shift < 64 && byte & 0x40)
		value |= UINT64_MAX << shift;
	return value;
}

uint64_t pev_bytes_uleb(struct pev_bytes *b)
{
	return read_leb(b, false);
}

int64_t pev_bytes_sleb(struct pev_bytes *b)
{
	return (int64_t)read_leb(b, true);
}

/* Steps over len bytes and returns them as a cursor of their own. */
static struct pev_bytes read_block(struct pev_bytes *b, uint64_t len)
{
	struct pev_bytes block = { b->at, b->end, false };

	if (len > (size_t)(b->end - b->at)) {
		b->bad = true;
		len = 0;
	}
	block.end = b->at + len;
	b->at += len;
	return block;
}

/* ---- entries ---- */

struct entry {
	struct pev_bytes body; /* after the id */
	uint64_t id;           /* the mark of a CIE, or the place of an FDE's CIE */
	size_t id_at, next;
	bool is_cie;
};

struct cie {
	size_t at;
	uint64_t code_factor, ra;
	int64_t data_factor;
	uint8_t encoding;      /* of addresses: DW_EH_PE_* */
	bool has_data, signal; /* has_data: its FDEs have augmentation data, which is skipped */
	struct pev_bytes rules;
};

static bool read_entry(const struct pev_fdes *fdes, size_t at, struct entry *entry)
{
	const unsigned char *end = fdes->bytes + fdes->len;
	struct pev_bytes b = { fdes->bytes + at, end, false };
	uint64_t len = pev_bytes_word(&b, 4), none;
	unsigned width = 4;

	if (len == 0xffffffff) {
		len = pev_bytes_word(&b, 8);
		width = fdes->eh ? 4 : 8;
	}
	entry->body = read_block(&b, len);
	entry->next = (size_t)(b.at - fdes->bytes);
	entry->id_at = (size_t)(entry->body.at - fdes->bytes);
	entry->id = pev_bytes_word(&entry->body, width);
	none = width == 8 ? UINT64_MAX : UINT32_MAX;
	entry->is_cie = entry->id == (fdes->eh ? 0 : none);
	return len != 0 && !b.bad && !entry->body.bad;
}

/* Reads an encoded address. An indirect one, or one with an unknown base, sets bad. */
static uint64_t read_address(const struct pev_fdes *fdes, struct pev_bytes *b, uint8_t encoding)
{
	uint64_t base = 0;

	if (encoding == DW_EH_PE_omit || (encoding & 0xf0) > DW_EH_PE_pcrel) {
		b->bad = true;
		return 0;
	}
	if ((encoding & 0xf0) == DW_EH_PE_pcrel)
		base = fdes->address + (uint64_t)(b->at - fdes->bytes);
	switch (encoding & 0xf) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: return base + pev_bytes_word(b, 8);
	case DW_EH_PE_uleb128: return base + pev_bytes_uleb(b);
	case DW_EH_PE_udata2: return base + pev_bytes_word(b, 2);
	case DW_EH_PE_udata4: return base + pev_bytes_word(b, 4);
	case DW_EH_PE_sleb128: return base + (uint64_t)pev_bytes_sleb(b);
	case DW_EH_PE_sdata2: return base + (uint64_t)pev_bytes_signed(b, 2);
	case DW_EH_PE_sdata4: return base + (uint64_t)pev_bytes_signed(b, 4);
	default: b->bad = true; return 0;
	}
}

/* Reads a CIE's augmentation data, one item for each letter. */
static bool read_augmentation(const struct pev_fdes *fdes, struct pev_bytes *b, const char *letters,
			      struct cie *cie)
{
	struct pev_bytes data = { b->at, b->at, false };

	if (*letters == 'z') {
		cie->has_data = true;
		data = read_block(b, pev_bytes_uleb(b));
		letters++;
	}
	for (; *letters; letters++) {
		if (*letters == 'R')
			cie->encoding = (uint8_t)pev_bytes_word(&data, 1);
		else if (*letters == 'L')
			pev_bytes_word(&data, 1);
		else if (*letters == 'P')
			/* The personality routine is not used, so its base does not matter. */
			read_address(fdes, &data, (uint8_t)(pev_bytes_word(&data, 1) & 0xf));
		else if (*letters == 'S')
			cie->signal = true;
		else if (*letters != 'B' && *letters != 'G')
			return cie->has_data; /* an unknown letter; the length is known */
	}
	return !data.bad;
}

static bool read_cie(const struct pev_fdes *fdes, size_t at, struct cie *cie)
{
	struct entry entry;
	struct pev_bytes *b = &entry.body;
	const char *letters;
	uint64_t version;

	*cie = (struct cie){ .at = at, .encoding = DW_EH_PE_absptr };
	if (at >= fdes->len || !read_entry(fdes, at, &entry) || !entry.is_cie)
		return false;
	version = pev_bytes_word(b, 1);
	letters = (const char *)b->at;
	while (pev_bytes_word(b, 1))
		;
	if (b->bad)
		return false;
	/* The sizes of an address and of a segment selector. */
	if (version >= 4 && pev_bytes_word(b, 2) != 8)
		return false;
	cie->code_factor = pev_bytes_uleb(b);
	cie->data_factor = pev_bytes_sleb(b);
	cie->ra = version == 1 ? pev_bytes_word(b, 1) : pev_bytes_uleb(b);
	if (!read_augmentation(fdes, b, letters, cie))
		return false;
	cie->rules = *b;
	return !b->bad;
}

/* The addresses of a function; end is exclusive. */
struct range {
	uint64_t start, end;
};

/* entry: an FDE of that CIE. Leaves its instructions in entry->body. */
static bool read_range(const struct pev_fdes *fdes, const struct cie *cie, struct entry *entry,
		       struct range *range)
{
	uint64_t len;

	range->start = read_address(fdes, &entry->body, cie->encoding);
	len = read_address(fdes, &entry->body, cie->encoding & 0xf);
	range->end = range->start + len;
	if (cie->has_data)
		read_block(&entry->body, pev_bytes_uleb(&entry->body));
	return !entry->body.bad && len && range->end > range->start;
}

static bool read_fde(const struct pev_fdes *fdes, struct cie *cie, struct entry *entry,
		     struct range *range)
{
	uint64_t of = fdes->eh ? entry->id_at - entry->id : entry->id;

	if (entry->is_cie || (fdes->eh && entry->id > entry->id_at))
		return false;
	/* Neighbouring FDEs mostly share a CIE. */
	return (cie->rules.at && cie->at == of) || read_cie(fdes, (size_t)of, cie) ?
		       read_range(fdes, cie, entry, range) :
		       false;
}

/* ---- finding ---- */

static int compare_fdes(const void *a, const void *b)
{
	const struct pev_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static int find_fdes(struct pev_fdes *fdes)
{
	struct cie cie = { 0 };
	struct entry entry;
	struct range range;
	uint32_t cap = 0;

	for (size_t at = 0; at < fdes->len && read_entry(fdes, at, &entry); at = entry.next) {
		if (!read_fde(fdes, &cie, &entry, &range))
			continue;
		if (!pev_list_reserve(&fdes->sorted, &cap, fdes->nr + 1, sizeof(*fdes->sorted)))
			return -ENOMEM;
		fdes->sorted[fdes->nr++] = (struct pev_fde){ range.start, at };
	}
	if (fdes->nr)
		qsort(fdes->sorted, fdes->nr, sizeof(*fdes->sorted), compare_fdes);
	return 0;
}

/* Reads the encodings that all linkers use. Returns false for other ones. */
static bool read_header(struct pev_bytes *b)
{
	return pev_bytes_word(b, 1) == 1 &&
	       pev_bytes_word(b, 1) == (DW_EH_PE_pcrel | DW_EH_PE_sdata4) &&
	       pev_bytes_word(b, 1) == DW_EH_PE_udata4 &&
	       pev_bytes_word(b, 1) == (DW_EH_PE_datarel | DW_EH_PE_sdata4);
}

int64_t pev_fde_header_target(const struct pev_fde_header *header)
{
	struct pev_bytes b = header->bytes;
	int64_t target;

	if (!read_header(&b))
		return 0;
	target = 4 + pev_bytes_signed(&b, 4);
	return b.bad ? 0 : target;
}

/* Copies the header's table. Returns false if that is not possible. */
static bool copy_table(struct pev_fdes *fdes, const struct pev_fde_header *header)
{
	struct pev_bytes b = header->bytes;
	size_t nr;

	if (!read_header(&b))
		return false;
	pev_bytes_word(&b, 4);
	nr = pev_bytes_word(&b, 4);
	if (nr == 0 || nr > (size_t)(b.end - b.at) / 8)
		return false;
	fdes->sorted = malloc(sizeof(*fdes->sorted) * nr);
	for (; fdes->sorted && fdes->nr < nr; fdes->nr++) {
		struct pev_fde *fde = &fdes->sorted[fdes->nr];
		uint64_t start = header->address + (uint64_t)pev_bytes_signed(&b, 4);
		uint64_t address = header->address + (uint64_t)pev_bytes_signed(&b, 4);

		*fde = (struct pev_fde){ start, (size_t)(address - fdes->address) };
		if (fde->at >= fdes->len || (fdes->nr && start < fde[-1].start))
			break;
	}
	if (fdes->nr == nr)
		return true;
	free(fdes->sorted);
	fdes->sorted = NULL;
	fdes->nr = 0;
	return false;
}

int pev_fdes_open(struct pev_fdes *fdes, const void *bytes, size_t len, uint64_t address,
		  const struct pev_fde_header *header)
{
	int rc;

	*fdes = (struct pev_fdes){ bytes, len, address, header != NULL, NULL, 0 };
	if (header && copy_table(fdes, header))
		return 0;
	rc = find_fdes(fdes);
	if (rc < 0)
		pev_fdes_close(fdes);
	return rc;
}

void pev_fdes_close(struct pev_fdes *fdes)
{
	free(fdes->sorted);
	*fdes = (struct pev_fdes){ 0 };
}

static const struct pev_fde *find_fde(const struct pev_fdes *fdes, uint64_t address)
{
	size_t low = 0, high = fdes->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (fdes->sorted[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &fdes->sorted[low - 1] : NULL;
}

/* ---- instructions ---- */

struct row_state {
	const struct pev_fdes *fdes;
	const struct cie *cie;
	struct pev_rules *row;
	const struct pev_rules *initial;     /* the CIE's row; NULL while that is computed */
	struct pev_rules *kept;              /* DEPTH_MAX rows; those above depth are not set */
	unsigned depth;
	uint64_t location;
};

static void set_rule(struct row_state *s, uint64_t reg, struct pev_rule rule)
{
	if (reg < PEV_FDE_REGS)
		s->row->regs[reg] = rule;
}

static void set_kind(struct row_state *s, uint64_t reg, enum pev_rule_kind kind)
{
	set_rule(s, reg, (struct pev_rule){ .kind = kind });
}

static void set_value(struct row_state *s, uint64_t reg, enum pev_rule_kind kind, int64_t value)
{
	set_rule(s, reg, (struct pev_rule){ .kind = kind, .value = value });
}

static void set_ops(struct row_state *s, uint64_t reg, enum pev_rule_kind kind, struct pev_bytes *b)
{
	struct pev_bytes ops = read_block(b, pev_bytes_uleb(b));

	set_rule(s, reg, (struct pev_rule){ kind, 0, ops.at, (size_t)(ops.end - ops.at) });
}

static void restore_rule(struct row_state *s, uint64_t reg)
{
	if (reg < PEV_FDE_REGS)
		s->row->regs[reg] = s->initial ? s->initial->regs[reg] :
						 (struct pev_rule){ .kind = PEV_RULE_UNSPECIFIED };
}

static int64_t scale_offset(const struct row_state *s, uint64_t factored)
{
	return (int64_t)(factored * (uint64_t)s->cie->data_factor);
}

static void set_cfa(struct row_state *s, uint64_t reg, int64_t offset)
{
	s->row->cfa = (struct pev_rule){ .kind = PEV_RULE_VAL_OFFSET, .value = offset };
	s->row->cfa_reg = reg;
}

static void set_cfa_ops(struct row_state *s, struct pev_bytes *b)
{
	struct pev_bytes ops = read_block(b, pev_bytes_uleb(b));

	s->row->cfa = (struct pev_rule){ PEV_RULE_EXPRESSION, 0, ops.at,
					 (size_t)(ops.end - ops.at) };
}

static bool keep_row(struct row_state *s)
{
	if (s->depth == DEPTH_MAX)
		return false;
	s->kept[s->depth++] = *s->row;
	return true;
}

static bool return_to_row(struct row_state *s)
{
	if (s->depth == 0)
		return false;
	*s->row = s->kept[--s->depth];
	return true;
}

/* Executes an instruction that advances the location. Returns false for another one. */
static bool advance_location(struct row_state *s, uint8_t op, struct pev_bytes *b)
{
	uint64_t factor = s->cie->code_factor;

	switch (op) {
	case DW_CFA_set_loc:
		s->location = read_address(s->fdes, b, s->cie->encoding);
		return true;
	case DW_CFA_advance_loc1: s->location += pev_bytes_word(b, 1) * factor; return true;
	case DW_CFA_advance_loc2: s->location += pev_bytes_word(b, 2) * factor; return true;
	case DW_CFA_advance_loc4: s->location += pev_bytes_word(b, 4) * factor; return true;
	default: break;
	}
	if ((op & 0xc0) == DW_CFA_advance_loc)
		s->location += (op & 0x3f) * factor;
	return (op & 0xc0) == DW_CFA_advance_loc;
}

/* Executes an instruction that defines the CFA. Returns false for another one. */
static bool define_cfa(struct row_state *s, uint8_t op, struct pev_bytes *b)
{
	struct pev_rules *row = s->row;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = pev_bytes_uleb(b);
		set_cfa(s, reg, (int64_t)pev_bytes_uleb(b));
		return true;
	case DW_CFA_def_cfa_sf:
		reg = pev_bytes_uleb(b);
		set_cfa(s, reg, scale_offset(s, (uint64_t)pev_bytes_sleb(b)));
		return true;
	case DW_CFA_def_cfa_register:
		set_cfa(s, pev_bytes_uleb(b), row->cfa.value);
		return true;
	case DW_CFA_def_cfa_offset:
		set_cfa(s, row->cfa_reg, (int64_t)pev_bytes_uleb(b));
		return true;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa(s, row->cfa_reg, scale_offset(s, (uint64_t)pev_bytes_sleb(b)));
		return true;
	case DW_CFA_def_cfa_expression:
		set_cfa_ops(s, b);
		return true;
	default:
		return false;
	}
}

/*
 * Executes an instruction that gives a rule to the register in its operand. Returns false for
 * another one.
 */
static bool define_register(struct row_state *s, uint8_t op, struct pev_bytes *b)
{
	struct pev_bytes was = *b;
	uint64_t reg = pev_bytes_uleb(b);

	switch (op) {
	case DW_CFA_restore_extended: restore_rule(s, reg); return true;
	case DW_CFA_undefined: set_kind(s, reg, PEV_RULE_UNDEFINED); return true;
	case DW_CFA_same_value: set_kind(s, reg, PEV_RULE_SAME); return true;
	case DW_CFA_expression: set_ops(s, reg, PEV_RULE_EXPRESSION, b); return true;
	case DW_CFA_val_expression: set_ops(s, reg, PEV_RULE_VAL_EXPRESSION, b); return true;
	case DW_CFA_register:
		set_value(s, reg, PEV_RULE_REGISTER, (int64_t)pev_bytes_uleb(b));
		return true;
	case DW_CFA_offset_extended:
		set_value(s, reg, PEV_RULE_OFFSET, scale_offset(s, pev_bytes_uleb(b)));
		return true;
	case DW_CFA_offset_extended_sf:
		set_value(s, reg, PEV_RULE_OFFSET, scale_offset(s, (uint64_t)pev_bytes_sleb(b)));
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		set_value(s, reg, PEV_RULE_OFFSET, -scale_offset(s, pev_bytes_uleb(b)));
		return true;
	case DW_CFA_val_offset:
		set_value(s, reg, PEV_RULE_VAL_OFFSET, scale_offset(s, pev_bytes_uleb(b)));
		return true;
	case DW_CFA_val_offset_sf:
		set_value(s, reg, PEV_RULE_VAL_OFFSET,
			  scale_offset(s, (uint64_t)pev_bytes_sleb(b)));
		return true;
	default:
		*b = was;
		return false;
	}
}

static bool execute_one(struct row_state *s, uint8_t op, struct pev_bytes *b)
{
	if ((op & 0xc0) == DW_CFA_offset) {
		set_value(s, op & 0x3f, PEV_RULE_OFFSET, scale_offset(s, pev_bytes_uleb(b)));
		return true;
	}
	if ((op & 0xc0) == DW_CFA_restore) {
		restore_rule(s, op & 0x3f);
		return true;
	}
	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save: /* arm64: negate_ra_state; unwind.c masks addresses */
		return true;
	case DW_CFA_GNU_args_size:
		pev_bytes_uleb(b);
		return true;
	case DW_CFA_remember_state:
		return keep_row(s);
	case DW_CFA_restore_state:
		return return_to_row(s);
	default:
		return define_cfa(s, op, b) || define_register(s, op, b);
	}
}

/* Executes instructions up to the row of the address. */
static int execute_until(struct row_state *s, struct pev_bytes b, uint64_t address)
{
	if (b.end - b.at > INSTRUCTIONS_MAX)
		return -EBADMSG;
	while (b.at < b.end && s->location <= address) {
		uint8_t op = (uint8_t)pev_bytes_word(&b, 1);

		if ((!advance_location(s, op, &b) && !execute_one(s, op, &b)) || b.bad)
			return -EBADMSG;
	}
	return 0;
}

int pev_fdes_row(const struct pev_fdes *fdes, uint64_t address, struct pev_rules *row)
{
	const struct pev_fde *fde = find_fde(fdes, address);
	struct pev_rules initial = { 0 }, kept[DEPTH_MAX];
	struct row_state s = { .fdes = fdes, .row = &initial, .kept = kept };
	struct cie cie = { 0 };
	struct entry entry;
	struct range range;
	int rc;

	if (!fde)
		return -ENOENT;
	if (!read_entry(fdes, fde->at, &entry) || !read_fde(fdes, &cie, &entry, &range))
		return -EBADMSG;
	if (address < range.start || address >= range.end)
		return -ENOENT;
	s.cie = &cie;
	initial.ra = cie.ra;
	initial.signal = cie.signal;
	rc = execute_until(&s, cie.rules, UINT64_MAX);
	if (rc < 0)
		return rc;
	*row = initial;
	s.row = row;
	s.initial = &initial;
	s.location = range.start;
	return execute_until(&s, entry.body, address);
}
