/*
 * attr.c - sets, reads and prints the fields and bits of a perf_event_attr by name.
 *
 * All functions walk one table, a row per name in the order of the kernel's struct; the names of
 * a union are rows with one offset. A row of the flags word has the bit number of a little-endian
 * compiler, and is shifted to the position of this machine's compiler. No system call, no
 * allocation. Contract: include/uapi/linux/perf_event.h.
 */
#include "event/attr.h"

#include <byteswap.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MEMBER_SIZE(type, member) sizeof(((type *)0)->member)

/* aux_action is a union with C bit-fields, so its bits move with the byte order too. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define AUX_ACTION_BIT(bit) (bit)
#else
#define AUX_ACTION_BIT(bit) (31 - (bit))
#endif

/* clang-format off */

static const struct pev_attr_bits sample_type_bits[] = {
	{ "ip",             0,  "2.6.31" },
	{ "tid",            1,  "2.6.31" },
	{ "time",           2,  "2.6.31" },
	{ "addr",           3,  "2.6.31" },
	{ "read",           4,  "2.6.31" },
	{ "callchain",      5,  "2.6.31" },
	{ "id",             6,  "2.6.31" },
	{ "cpu",            7,  "2.6.31" },
	{ "period",         8,  "2.6.31" },
	{ "stream_id",      9,  "2.6.31" },
	{ "raw",            10, "2.6.31" },
	{ "branch_stack",   11, "3.4" },
	{ "regs_user",      12, "3.7" },
	{ "stack_user",     13, "3.7" },
	{ "weight",         14, "3.10" },
	{ "data_src",       15, "3.10" },
	{ "identifier",     16, "3.12" },
	{ "transaction",    17, "3.13" },
	{ "regs_intr",      18, "3.19" },
	{ "phys_addr",      19, "4.14" },
	{ "aux",            20, "5.5" },
	{ "cgroup",         21, "5.7" },
	{ "data_page_size", 22, "5.11" },
	{ "code_page_size", 23, "5.11" },
	{ "weight_struct",  24, "5.12" },
	{ NULL,             0,  NULL },
};

static const struct pev_attr_bits read_format_bits[] = {
	{ "total_time_enabled", 0, "2.6.31" },
	{ "total_time_running", 1, "2.6.31" },
	{ "id",                 2, "2.6.31" },
	{ "group",              3, "2.6.31" },
	{ "lost",               4, "6.0" },
	{ NULL,                 0, NULL },
};

static const struct pev_attr_bits branch_bits[] = {
	{ "user",       0,  "3.4" },
	{ "kernel",     1,  "3.4" },
	{ "hv",         2,  "3.4" },
	{ "any",        3,  "3.4" },
	{ "any_call",   4,  "3.4" },
	{ "any_return", 5,  "3.4" },
	{ "ind_call",   6,  "3.4" },
	{ "abort_tx",   7,  "3.11" },
	{ "in_tx",      8,  "3.11" },
	{ "no_tx",      9,  "3.11" },
	{ "cond",       10, "3.16" },
	{ "call_stack", 11, "4.1" },
	{ "ind_jump",   12, "4.2" },
	{ "call",       13, "4.4" },
	{ "no_flags",   14, "4.5" },
	{ "no_cycles",  15, "4.5" },
	{ "type_save",  16, "4.14" },
	{ "hw_index",   17, "5.7" },
	{ "priv_save",  18, "6.1" },
	{ "counters",   19, "6.8" },
	{ NULL,         0,  NULL },
};

static const struct pev_attr_bits aux_action_bits[] = {
	{ "start_paused", AUX_ACTION_BIT(0), "6.13" },
	{ "pause",        AUX_ACTION_BIT(1), "6.13" },
	{ "resume",       AUX_ACTION_BIT(2), "6.13" },
	{ NULL,           0,                 NULL },
};

#define FIELD(name, member, bit, width, is_signed, since, bits)               \
	{ name, offsetof(struct pev_attr, member),                            \
	  MEMBER_SIZE(struct pev_attr, member), bit, width, is_signed, since, bits }
#define WORD(name, since)            FIELD(#name, name, 0, 0, false, since, NULL)
#define SIGNED(name, since)          FIELD(#name, name, 0, 0, true, since, NULL)
#define NAMED(name, since, bits)     FIELD(#name, name, 0, 0, false, since, bits)
#define ALIAS(name, member, since)   FIELD(#name, member, 0, 0, false, since, NULL)
#define FLAG(name, bit, since)       FIELD(#name, flags, bit, 1, false, since, NULL)
#define FLAGS(name, bit, nr, since)  FIELD(#name, flags, bit, nr, false, since, NULL)
#define AUX_FLAG(name, bit, since)   FIELD(#name, aux_action, bit, 1, false, since, NULL)

const struct pev_attr_field pev_attr_fields[] = {
	WORD(type, "2.6.31"),
	WORD(config, "2.6.31"),
	WORD(sample_period, "2.6.31"),
	ALIAS(sample_freq, sample_period, "2.6.31"),
	NAMED(sample_type, "2.6.31", sample_type_bits),
	NAMED(read_format, "2.6.31", read_format_bits),
	FLAG(disabled, 0, "2.6.31"),
	FLAG(inherit, 1, "2.6.31"),
	FLAG(pinned, 2, "2.6.31"),
	FLAG(exclusive, 3, "2.6.31"),
	FLAG(exclude_user, 4, "2.6.31"),
	FLAG(exclude_kernel, 5, "2.6.31"),
	FLAG(exclude_hv, 6, "2.6.31"),
	FLAG(exclude_idle, 7, "2.6.31"),
	FLAG(mmap, 8, "2.6.31"),
	FLAG(comm, 9, "2.6.31"),
	FLAG(freq, 10, "2.6.31"),
	FLAG(inherit_stat, 11, "2.6.31"),
	FLAG(enable_on_exec, 12, "2.6.31"),
	FLAG(task, 13, "2.6.31"),
	FLAG(watermark, 14, "2.6.32"),
	FLAGS(precise_ip, 15, 2, "2.6.35"),
	FLAG(mmap_data, 17, "2.6.36"),
	FLAG(sample_id_all, 18, "2.6.38"),
	FLAG(exclude_host, 19, "3.2"),
	FLAG(exclude_guest, 20, "3.2"),
	FLAG(exclude_callchain_kernel, 21, "3.7"),
	FLAG(exclude_callchain_user, 22, "3.7"),
	FLAG(mmap2, 23, "3.16"),
	FLAG(comm_exec, 24, "3.16"),
	FLAG(use_clockid, 25, "4.1"),
	FLAG(context_switch, 26, "4.3"),
	FLAG(write_backward, 27, "4.7"),
	FLAG(namespaces, 28, "4.12"),
	FLAG(ksymbol, 29, "5.1"),
	FLAG(bpf_event, 30, "5.1"),
	FLAG(aux_output, 31, "5.4"),
	FLAG(cgroup, 32, "5.7"),
	FLAG(text_poke, 33, "5.9"),
	FLAG(build_id, 34, "5.12"),
	FLAG(inherit_thread, 35, "5.13"),
	FLAG(remove_on_exec, 36, "5.13"),
	FLAG(sigtrap, 37, "5.13"),
	FLAG(defer_callchain, 38, "6.19"),
	FLAG(defer_output, 39, "6.19"),
	WORD(wakeup_events, "2.6.31"),
	ALIAS(wakeup_watermark, wakeup_events, "2.6.32"),
	WORD(bp_type, "2.6.33"),
	ALIAS(bp_addr, config1, "2.6.33"),
	ALIAS(kprobe_func, config1, "4.17"),
	ALIAS(uprobe_path, config1, "4.17"),
	WORD(config1, "2.6.39"),
	ALIAS(bp_len, config2, "2.6.33"),
	ALIAS(kprobe_addr, config2, "4.17"),
	ALIAS(probe_offset, config2, "4.17"),
	WORD(config2, "2.6.39"),
	NAMED(branch_sample_type, "3.4", branch_bits),
	WORD(sample_regs_user, "3.7"),
	WORD(sample_stack_user, "3.7"),
	SIGNED(clockid, "4.1"),
	WORD(sample_regs_intr, "3.19"),
	WORD(aux_watermark, "4.1"),
	WORD(sample_max_stack, "4.8"),
	WORD(aux_sample_size, "5.5"),
	NAMED(aux_action, "6.13", aux_action_bits),
	AUX_FLAG(aux_start_paused, 0, "6.13"),
	AUX_FLAG(aux_pause, 1, "6.13"),
	AUX_FLAG(aux_resume, 2, "6.13"),
	WORD(sig_data, "5.13"),
	WORD(config3, "6.3"),
	WORD(config4, "6.19"),
	{ .name = NULL },
};

/* The words by offset and size, to swap their byte order. */
#define LAID(member) { offsetof(struct pev_attr, member), MEMBER_SIZE(struct pev_attr, member) }
static const struct { uint8_t off, size; } words[] = {
	LAID(type), LAID(size), LAID(config), LAID(sample_period), LAID(sample_type),
	LAID(read_format), LAID(flags), LAID(wakeup_events), LAID(bp_type), LAID(config1),
	LAID(config2), LAID(branch_sample_type), LAID(sample_regs_user),
	LAID(sample_stack_user), LAID(clockid), LAID(sample_regs_intr), LAID(aux_watermark),
	LAID(sample_max_stack), LAID(reserved_2), LAID(aux_sample_size), LAID(aux_action),
	LAID(sig_data), LAID(config3), LAID(config4),
};

static const uint32_t published_sizes[] = {
	PERF_ATTR_SIZE_VER0, PERF_ATTR_SIZE_VER1, PERF_ATTR_SIZE_VER2, PERF_ATTR_SIZE_VER3,
	PERF_ATTR_SIZE_VER4, PERF_ATTR_SIZE_VER5, PERF_ATTR_SIZE_VER6, PERF_ATTR_SIZE_VER7,
	PERF_ATTR_SIZE_VER8, PERF_ATTR_SIZE_VER9,
};

/* clang-format on */

static uint64_t load_word(const void *at, size_t size)
{
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (size) {
	case 2:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case 4:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void store_word(void *at, size_t size, uint64_t value)
{
	uint16_t u16 = (uint16_t)value;
	uint32_t u32 = (uint32_t)value;

	switch (size) {
	case 2:
		memcpy(at, &u16, sizeof(u16));
		return;
	case 4:
		memcpy(at, &u32, sizeof(u32));
		return;
	default:
		memcpy(at, &value, sizeof(value));
		return;
	}
}

/* The shift of a bit-field in its word on this machine. */
static unsigned int shift_of(const struct pev_attr_field *field)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return field->bit;
#else
	return field->size * 8u - field->bit - field->width;
#endif
}

static unsigned int bits_of(const struct pev_attr_field *field)
{
	return field->width ? field->width : field->size * 8u;
}

const struct pev_attr_field *pev_attr_field(const char *name)
{
	for (const struct pev_attr_field *f = pev_attr_fields; f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

static const char *nearest_field(const char *name)
{
	const char *names[ARRAY_SIZE(pev_attr_fields)];
	size_t nr = 0;

	for (const struct pev_attr_field *f = pev_attr_fields; f->name; f++)
		names[nr++] = f->name;
	return pev_nearest(name, names, nr);
}

static int fail_unknown_field(struct pev_err *err, const char *name)
{
	const char *nearest = nearest_field(name);

	if (strcmp(name, "size") == 0)
		return pev_fail(err, -EINVAL, "size cannot be set: it is computed from the "
					      "other fields");
	if (nearest)
		return pev_fail(err, -EINVAL,
				"'%.64s' is not a field of perf_event_attr (did you mean '%s'?)",
				name, nearest);
	return pev_fail(err, -EINVAL, "'%.64s' is not a field of perf_event_attr", name);
}

int64_t pev_attr_get(const struct pev_attr *attr, const struct pev_attr_field *field)
{
	uint64_t word = load_word((const char *)attr + field->off, field->size);

	if (field->width)
		return (int64_t)(word >> shift_of(field) & ((UINT64_C(1) << field->width) - 1));
	if (field->is_signed)
		return (int32_t)word;
	return (int64_t)word;
}

static int check_range(const struct pev_attr_field *field, int64_t value, struct pev_err *err)
{
	unsigned int bits = bits_of(field);
	int64_t low = 0, high;

	if (bits >= 64)
		return 0;
	high = (INT64_C(1) << bits) - 1;
	if (field->is_signed) {
		low = INT32_MIN;
		high = INT32_MAX;
	}
	if (value >= low && value <= high)
		return 0;
	return pev_fail(err, -EINVAL,
			"%s = %" PRId64 ": out of range, must be %" PRId64 " to %" PRId64,
			field->name, value, low, high);
}

int pev_attr_set_field(struct pev_attr *attr, const struct pev_attr_field *field, int64_t value,
		       struct pev_err *err)
{
	char *at = (char *)attr + field->off;
	uint64_t word = (uint64_t)value;
	int rc = check_range(field, value, err);

	if (rc < 0)
		return rc;
	if (field->width) {
		uint64_t mask = ((UINT64_C(1) << field->width) - 1) << shift_of(field);

		word = (load_word(at, field->size) & ~mask) | word << shift_of(field);
	}
	store_word(at, field->size, word);
	return 0;
}

int pev_attr_set(struct pev_attr *attr, const char *name, int64_t value, struct pev_err *err)
{
	const struct pev_attr_field *field = pev_attr_field(name);

	if (!field)
		return fail_unknown_field(err, name);
	return pev_attr_set_field(attr, field, value, err);
}

int pev_attr_bit(const struct pev_attr_field *field, const char *name, struct pev_err *err)
{
	const char *names[64];
	const char *nearest;
	size_t nr = 0;

	if (!field->bits)
		return pev_fail(err, -EINVAL, "%s has no named bits; give an integer",
				field->name);
	for (const struct pev_attr_bits *b = field->bits; b->name; b++) {
		if (strcmp(b->name, name) == 0)
			return b->bit;
		names[nr++] = b->name;
	}
	nearest = pev_nearest(name, names, nr);
	if (nearest)
		return pev_fail(err, -EINVAL, "%s has no bit '%.64s' (did you mean '%s'?)",
				field->name, name, nearest);
	return pev_fail(err, -EINVAL, "%s has no bit '%.64s'", field->name, name);
}

uint32_t pev_attr_seal(struct pev_attr *attr)
{
	const unsigned char *bytes = (const unsigned char *)attr;
	size_t used = sizeof(*attr);
	size_t i = 0;

	attr->size = PERF_ATTR_SIZE_VER0;
	while (used > PERF_ATTR_SIZE_VER0 && bytes[used - 1] == 0)
		used--;
	while (published_sizes[i] < used)
		i++;
	attr->size = published_sizes[i];
	return attr->size;
}

/* Type and flags decide which name of a union applies. */

static bool has_period(const struct pev_attr *attr)
{
	return !(attr->flags & PEV_ATTR_FREQ);
}

static bool has_freq(const struct pev_attr *attr)
{
	return attr->flags & PEV_ATTR_FREQ;
}

static bool wakes_by_events(const struct pev_attr *attr)
{
	return !(attr->flags & PEV_ATTR_WATERMARK);
}

static bool wakes_by_watermark(const struct pev_attr *attr)
{
	return attr->flags & PEV_ATTR_WATERMARK;
}

static bool is_breakpoint(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_BREAKPOINT;
}

static bool is_not_breakpoint(const struct pev_attr *attr)
{
	return attr->type != PERF_TYPE_BREAKPOINT;
}

static bool is_never_shown(const struct pev_attr *attr)
{
	(void)attr;
	return false;
}

/* clang-format off */
static const struct {
	const char *name;
	bool (*applies)(const struct pev_attr *attr);
} union_names[] = {
	{ "sample_period",    has_period },
	{ "sample_freq",      has_freq },
	{ "wakeup_events",    wakes_by_events },
	{ "wakeup_watermark", wakes_by_watermark },
	{ "bp_addr",          is_breakpoint },
	{ "kprobe_func",      is_never_shown }, /* probe PMUs get their type at boot */
	{ "uprobe_path",      is_never_shown },
	{ "config1",          is_not_breakpoint },
	{ "bp_len",           is_breakpoint },
	{ "kprobe_addr",      is_never_shown },
	{ "probe_offset",     is_never_shown },
	{ "config2",          is_not_breakpoint },
	{ "aux_start_paused", is_never_shown }, /* printed as bits of aux_action */
	{ "aux_pause",        is_never_shown },
	{ "aux_resume",       is_never_shown },
};

/* Like perf -vv: addresses, masks and configs in hex, amounts in decimal. */
static const char *const hex_fields[] = {
	"config", "bp_addr", "config1", "bp_len", "config2", "sample_regs_user",
	"sample_regs_intr", "config3", "config4",
};
/* clang-format on */

bool pev_attr_applies(const struct pev_attr *attr, const struct pev_attr_field *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(union_names); i++)
		if (strcmp(union_names[i].name, field->name) == 0)
			return union_names[i].applies(attr);
	return true;
}

struct text {
	char *buf;
	size_t cap;
	size_t len; /* needed bytes; may exceed cap */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *out, const char *format, ...)
{
	bool fits = out->len < out->cap;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(fits ? out->buf + out->len : NULL, fits ? out->cap - out->len : 0, format,
		      args);
	va_end(args);
	if (n > 0)
		out->len += (size_t)n;
}

static void put_bits(struct text *out, const struct pev_attr_bits *bits, uint64_t value)
{
	const char *between = "";

	for (; bits->name; bits++) {
		if (!(value >> bits->bit & 1))
			continue;
		value &= ~(UINT64_C(1) << bits->bit);
		put(out, "%s", between);
		for (const char *c = bits->name; *c; c++)
			put(out, "%c", toupper((unsigned char)*c));
		between = "|";
	}
	if (value)
		put(out, "%s%#" PRIx64, between, value);
}

static bool is_hex(const struct pev_attr_field *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(hex_fields); i++)
		if (strcmp(hex_fields[i], field->name) == 0)
			return true;
	return false;
}

static void put_field(struct text *out, const struct pev_attr_field *field, int64_t value)
{
	put(out, "  %-32s ", field->name);
	if (field->bits)
		put_bits(out, field->bits, (uint64_t)value);
	else if (field->is_signed)
		put(out, "%" PRId64, value);
	else
		put(out, is_hex(field) ? "%#" PRIx64 : "%" PRIu64, (uint64_t)value);
	put(out, "\n");
}

uint64_t pev_attr_unknown_flags(const struct pev_attr *attr)
{
	return attr->flags >> PEV_ATTR_SHIFT(40, 24) & ((UINT64_C(1) << 24) - 1);
}

size_t pev_attr_dump(const struct pev_attr *attr, char *buf, size_t cap)
{
	struct text out = { .buf = buf, .cap = cap };

	if (cap)
		buf[0] = '\0';
	for (const struct pev_attr_field *f = pev_attr_fields; f->name; f++) {
		int64_t value = pev_attr_get(attr, f);

		if (value && pev_attr_applies(attr, f))
			put_field(&out, f, value);
		if (f->off == offsetof(struct pev_attr, type) && attr->size)
			put(&out, "  %-32s %" PRIu32 "\n", "size", attr->size);
	}
	if (pev_attr_unknown_flags(attr))
		put(&out, "  %-32s %#" PRIx64 "\n", "__reserved_1",
		    pev_attr_unknown_flags(attr));
	if (attr->reserved_2)
		put(&out, "  %-32s %#" PRIx16 "\n", "__reserved_2", attr->reserved_2);
	return out.len;
}

/* Reverses a word of C bit-fields, as the other byte order lays it out. */
static uint64_t reverse_bits(uint64_t word, unsigned int bits)
{
	uint64_t out = 0;

	for (unsigned int i = 0; i < bits; i++)
		out |= (word >> i & 1) << (bits - 1 - i);
	return out;
}

/* A field moves as a whole, so the two bits of precise_ip keep their order. */
static uint64_t reverse_flags(uint64_t flags)
{
	unsigned int low = PEV_ATTR_SHIFT(15, 2);
	uint64_t out = reverse_bits(flags, 64);
	uint64_t differ = (out >> low ^ out >> (low + 1)) & 1;

	return out ^ (differ << low | differ << (low + 1));
}

static uint64_t swap_word(uint64_t word, size_t size, size_t off)
{
	switch (size) {
	case 2:
		return bswap_16((uint16_t)word);
	case 4:
		word = bswap_32((uint32_t)word);
		return off == offsetof(struct pev_attr, aux_action) ? reverse_bits(word, 32) : word;
	default:
		word = bswap_64(word);
		return off == offsetof(struct pev_attr, flags) ? reverse_flags(word) : word;
	}
}

int pev_attr_parse(struct pev_attr *attr, const void *bytes, size_t len, bool swap,
		   struct pev_err *err)
{
	uint32_t size;

	*attr = (struct pev_attr){ 0 };
	if (len < PERF_ATTR_SIZE_VER0)
		return pev_fail(err, -EINVAL,
				"attr of %zu bytes: cut short, the smallest version has %d bytes",
				len, PERF_ATTR_SIZE_VER0);
	size = (uint32_t)load_word((const char *)bytes + offsetof(struct pev_attr, size), 4);
	if (swap)
		size = bswap_32(size);
	if (size == 0) /* perf_copy_attr(): "ABI compatibility quirk" */
		size = PERF_ATTR_SIZE_VER0;
	if (size < PERF_ATTR_SIZE_VER0)
		return pev_fail(err, -EINVAL,
				"attr says its size is %" PRIu32 ", the smallest version has %d: "
				"not an attr, or the other byte order",
				size, PERF_ATTR_SIZE_VER0);
	if (len > size)
		len = size;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t off = words[i].off, width = words[i].size;
		uint64_t word;

		if (off + width > len)
			break;
		word = load_word((const char *)bytes + off, width);
		store_word((char *)attr + off, width, swap ? swap_word(word, width, off) : word);
	}
	attr->size = size;
	return 0;
}
