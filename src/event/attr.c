/*
 * attr.c - names <-> the fields and bits of a perf_event_attr.
 *
 * Everything here walks one table, a row per name in the order of the kernel's
 * struct; names of a union are rows of the same offset. A field of the flags
 * word is known by its bit as a little-endian compiler lays it out and shifted
 * to where this machine's compiler has it. No system call, no allocation.
 * Contract: include/uapi/linux/perf_event.h and, for pev_attr_check(),
 * kernel/events/core.c as of 6.18.
 */
#include "event/attr.h"

#include <byteswap.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* The words as they lie in memory, for a copy of the other byte order. */
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

static uint64_t load(const void *at, size_t size)
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

static void store(void *at, size_t size, uint64_t value)
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

/* How far up in its word a bit-field lies on this machine. */
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
		return pev_fail(err, -EINVAL, "size cannot be set: it follows from the fields "
					      "in use");
	if (nearest)
		return pev_fail(err, -EINVAL,
				"'%.64s' is no field of perf_event_attr (did you mean '%s'?)",
				name, nearest);
	return pev_fail(err, -EINVAL, "'%.64s' is no field of perf_event_attr", name);
}

int64_t pev_attr_get(const struct pev_attr *attr, const struct pev_attr_field *field)
{
	uint64_t word = load((const char *)attr + field->off, field->size);

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

		word = (load(at, field->size) & ~mask) | word << shift_of(field);
	}
	store(at, field->size, word);
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
		return pev_fail(err, -EINVAL, "%s has no bits with names; give it an integer",
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

/* Which name of a union speaks for the word: type and flags decide. */

static bool by_period(const struct pev_attr *attr)
{
	return !(attr->flags & PEV_ATTR_FREQ);
}

static bool by_freq(const struct pev_attr *attr)
{
	return attr->flags & PEV_ATTR_FREQ;
}

static bool by_events(const struct pev_attr *attr)
{
	return !(attr->flags & PEV_ATTR_WATERMARK);
}

static bool by_watermark(const struct pev_attr *attr)
{
	return attr->flags & PEV_ATTR_WATERMARK;
}

static bool on_breakpoint(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_BREAKPOINT;
}

static bool on_pmu(const struct pev_attr *attr)
{
	return attr->type != PERF_TYPE_BREAKPOINT;
}

static bool never(const struct pev_attr *attr)
{
	(void)attr;
	return false;
}

/* clang-format off */
static const struct {
	const char *name;
	bool (*speaks)(const struct pev_attr *attr);
} union_names[] = {
	{ "sample_period",    by_period },
	{ "sample_freq",      by_freq },
	{ "wakeup_events",    by_events },
	{ "wakeup_watermark", by_watermark },
	{ "bp_addr",          on_breakpoint },
	{ "kprobe_func",      never }, /* probe PMUs get their type number at boot */
	{ "uprobe_path",      never },
	{ "config1",          on_pmu },
	{ "bp_len",           on_breakpoint },
	{ "kprobe_addr",      never },
	{ "probe_offset",     never },
	{ "config2",          on_pmu },
	{ "aux_start_paused", never }, /* aux_action tells them as its bits */
	{ "aux_pause",        never },
	{ "aux_resume",       never },
};

/* perf -vv has addresses, masks and configs in hex, amounts in decimal. */
static const char *const hex_fields[] = {
	"config", "bp_addr", "config1", "bp_len", "config2", "sample_regs_user",
	"sample_regs_intr", "config3", "config4",
};
/* clang-format on */

bool pev_attr_speaks(const struct pev_attr *attr, const struct pev_attr_field *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(union_names); i++)
		if (strcmp(union_names[i].name, field->name) == 0)
			return union_names[i].speaks(attr);
	return true;
}

struct text {
	char *buf;
	size_t cap;
	size_t len; /* what was wanted, beyond cap too */
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

/* The bits of the flags word that no field names. */
static uint64_t unknown_flags(const struct pev_attr *attr)
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

		if (value && pev_attr_speaks(attr, f))
			put_field(&out, f, value);
		if (f->off == offsetof(struct pev_attr, type) && attr->size)
			put(&out, "  %-32s %" PRIu32 "\n", "size", attr->size);
	}
	if (unknown_flags(attr))
		put(&out, "  %-32s %#" PRIx64 "\n", "__reserved_1", unknown_flags(attr));
	if (attr->reserved_2)
		put(&out, "  %-32s %#" PRIx16 "\n", "__reserved_2", attr->reserved_2);
	return out.len;
}

/* A word of C bit-fields as the other byte order lays it out, end to end. */
static uint64_t mirrored(uint64_t word, unsigned int bits)
{
	uint64_t out = 0;

	for (unsigned int i = 0; i < bits; i++)
		out |= (word >> i & 1) << (bits - 1 - i);
	return out;
}

/* Fields move as a whole, so the two bits of precise_ip keep their order. */
static uint64_t mirrored_flags(uint64_t flags)
{
	unsigned int low = PEV_ATTR_SHIFT(15, 2);
	uint64_t out = mirrored(flags, 64);
	uint64_t differ = (out >> low ^ out >> (low + 1)) & 1;

	return out ^ (differ << low | differ << (low + 1));
}

static uint64_t swapped(uint64_t word, size_t size, size_t off)
{
	switch (size) {
	case 2:
		return bswap_16((uint16_t)word);
	case 4:
		word = bswap_32((uint32_t)word);
		return off == offsetof(struct pev_attr, aux_action) ? mirrored(word, 32) : word;
	default:
		word = bswap_64(word);
		return off == offsetof(struct pev_attr, flags) ? mirrored_flags(word) : word;
	}
}

int pev_attr_parse(struct pev_attr *attr, const void *bytes, size_t len, bool swap,
		   struct pev_err *err)
{
	uint32_t size;

	*attr = (struct pev_attr){ 0 };
	if (len < PERF_ATTR_SIZE_VER0)
		return pev_fail(err, -EINVAL,
				"attr of %zu bytes: cut short, the smallest the kernel ever had "
				"is %d bytes",
				len, PERF_ATTR_SIZE_VER0);
	size = (uint32_t)load((const char *)bytes + offsetof(struct pev_attr, size), 4);
	if (swap)
		size = bswap_32(size);
	if (size == 0) /* perf_copy_attr(): "ABI compatibility quirk" */
		size = PERF_ATTR_SIZE_VER0;
	if (size < PERF_ATTR_SIZE_VER0)
		return pev_fail(err, -EINVAL,
				"attr says its size is %" PRIu32 ", the smallest the kernel ever "
				"had is %d: not an attr, or the other byte order",
				size, PERF_ATTR_SIZE_VER0);
	if (len > size)
		len = size;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t off = words[i].off, width = words[i].size;
		uint64_t word;

		if (off + width > len)
			break;
		word = load((const char *)bytes + off, width);
		store((char *)attr + off, width, swap ? swapped(word, width, off) : word);
	}
	attr->size = size;
	return 0;
}

/* The first bit of value that the kernel does not know is its own reason. */
static int check_bits(const char *name, uint64_t value, uint64_t known, struct pev_err *err)
{
	uint64_t unknown = value & ~known;

	if (!unknown)
		return 0;
	return pev_refuse(err, -EINVAL,
			  "%s = %#" PRIx64 ": bit %d has no meaning up to Linux 6.19, and the "
			  "kernel refuses what it does not know; clear it",
			  name, value, __builtin_ctzll(unknown));
}

static uint64_t known_bits(const struct pev_attr_bits *bits)
{
	uint64_t known = 0;

	for (; bits->name; bits++)
		known |= UINT64_C(1) << bits->bit;
	return known;
}

static int check_reserved(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t flags = unknown_flags(attr);
	int rc;

	if (flags)
		return pev_fail(err, -EINVAL,
				"flags have reserved bits set (%#" PRIx64 " above bit 39): the "
				"kernel wants them zero",
				flags);
	if (attr->reserved_2)
		return pev_fail(err, -EINVAL,
				"the reserved word behind sample_max_stack is %#" PRIx16 ": the "
				"kernel wants it zero",
				attr->reserved_2);
	rc = check_bits("aux_action", attr->aux_action, known_bits(aux_action_bits), err);
	if (rc == 0)
		rc = check_bits("sample_type", attr->sample_type, known_bits(sample_type_bits),
				err);
	if (rc == 0)
		rc = check_bits("read_format", attr->read_format, known_bits(read_format_bits),
				err);
	return rc;
}

static int check_branches(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t privilege = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL |
			     PERF_SAMPLE_BRANCH_HV;
	int rc;

	if (!(attr->sample_type & PERF_SAMPLE_BRANCH_STACK))
		return 0;
	rc = check_bits("branch_sample_type", attr->branch_sample_type, known_bits(branch_bits),
			err);
	if (rc < 0)
		return rc;
	if (!(attr->branch_sample_type & ~privilege))
		return pev_refuse(err, -EINVAL,
				  "sample_type has branch_stack, but branch_sample_type names no "
				  "kind of branch; add one, such as any, any_call or cond");
	return 0;
}

/* perf_reg_validate() of arch/x86/kernel/perf_regs.c; other machines know theirs. */
#if defined(__x86_64__)
#define REGS_UNKNOWN (UINT64_C(0xf) << 12 | UINT64_C(0xff) << 24)
#define REGS_VECTOR (~UINT64_C(0) << 32) /* PERF_REG_EXTENDED_MASK */
#else
#define REGS_UNKNOWN UINT64_C(0)
#define REGS_VECTOR UINT64_C(0)
#endif

static int check_regs(const char *bit, const char *name, uint64_t mask, struct pev_err *err)
{
	if (!mask)
		return pev_refuse(err, -EINVAL,
				  "sample_type has %s, but %s is 0; set a bit for each register "
				  "wanted",
				  bit, name);
	if (mask & REGS_UNKNOWN)
		return pev_fail(err, -EINVAL,
				"%s = %#" PRIx64 ": bit %d is no register that this machine can "
				"sample",
				name, mask, __builtin_ctzll(mask & REGS_UNKNOWN));
	return 0;
}

static int check_stack(const struct pev_attr *attr, struct pev_err *err)
{
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER))
		return 0;
	if (attr->sample_stack_user >= UINT16_MAX)
		return pev_refuse(err, -EINVAL,
				  "sample_stack_user = %" PRIu32 ": a record's size has 16 bits; "
				  "65528 is the most",
				  attr->sample_stack_user);
	if (attr->sample_stack_user % 8)
		return pev_refuse(err, -EINVAL,
				  "sample_stack_user = %" PRIu32 ": must be a multiple of 8; take "
				  "%" PRIu32,
				  attr->sample_stack_user, attr->sample_stack_user / 8 * 8 + 8);
	return 0;
}

static int check_sample(const struct pev_attr *attr, struct pev_err *err)
{
	int rc = check_branches(attr, err);

	if (rc == 0 && attr->sample_type & PERF_SAMPLE_REGS_USER)
		rc = check_regs("regs_user", "sample_regs_user", attr->sample_regs_user, err);
	if (rc == 0)
		rc = check_stack(attr, err);
	if (rc == 0 && attr->sample_type & PERF_SAMPLE_REGS_INTR)
		rc = check_regs("regs_intr", "sample_regs_intr", attr->sample_regs_intr, err);
	if (rc < 0)
		return rc;
	if (attr->sample_type & PERF_SAMPLE_WEIGHT && attr->sample_type & PEV_SAMPLE_WEIGHT_STRUCT)
		return pev_refuse(err, -EINVAL,
				  "sample_type has weight and weight_struct, two forms of one "
				  "value; take one of them");
	return 0;
}

static int check_life(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t flags = attr->flags;

	if (flags & PEV_ATTR_INHERIT_THREAD && !(flags & PEV_ATTR_INHERIT))
		return pev_refuse(err, -EINVAL,
				  "inherit_thread narrows inherit, which is off; set inherit too");
	if (flags & PEV_ATTR_REMOVE_ON_EXEC && flags & PEV_ATTR_ENABLE_ON_EXEC)
		return pev_refuse(err, -EINVAL,
				  "remove_on_exec and enable_on_exec contradict each other; take "
				  "one of them");
	if (flags & PEV_ATTR_SIGTRAP && !(flags & PEV_ATTR_REMOVE_ON_EXEC))
		return pev_refuse(err, -EINVAL,
				  "sigtrap needs remove_on_exec, so that no program is hit which "
				  "does not expect it; set remove_on_exec too");
	return 0;
}

static int check_target(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err)
{
	if (cpu < -1)
		return pev_fail(err, -EINVAL, "cpu %d: give a CPU's number, or -1 for any", cpu);
	if (pid == -1 && cpu == -1)
		return pev_refuse(err, -EINVAL,
				  "pid -1 on cpu -1: every process on any CPU cannot be one event; "
				  "open one per CPU");
	if (attr->flags & PEV_ATTR_SIGTRAP && pid == -1)
		return pev_refuse(err, -EINVAL,
				  "sigtrap with pid -1: the signal needs a task to go to; name a "
				  "pid");
	return 0;
}

/* perf_event_set_clock() takes these and no other. */
static bool is_event_clock(int32_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
	       clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

/*
 * The other clocks are for PMUs without NMI. Tracepoints and breakpoints have
 * not said that of theirs (seen on 6.18); of PMUs with a type made at boot we
 * do not know.
 */
static bool needs_nmi_safe_clock(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT;
}

static int check_clock(const struct pev_attr *attr, struct pev_err *err)
{
	bool nmi_safe = attr->clockid == CLOCK_MONOTONIC || attr->clockid == CLOCK_MONOTONIC_RAW;

	if (!(attr->flags & PEV_ATTR_USE_CLOCKID))
		return 0;
	if (!is_event_clock(attr->clockid))
		return pev_refuse(err, -EINVAL,
				  "clockid = %" PRId32 ": no clock for events; take 1 "
				  "(CLOCK_MONOTONIC), 4 (MONOTONIC_RAW), 0 (REALTIME), 7 "
				  "(BOOTTIME) or 11 (TAI)",
				  attr->clockid);
	if (!nmi_safe && needs_nmi_safe_clock(attr))
		return pev_refuse(err, -EINVAL,
				  "clockid = %" PRId32 ": a %s needs a clock that can be read in "
				  "an NMI; take 1 (CLOCK_MONOTONIC) or 4 (MONOTONIC_RAW)",
				  attr->clockid,
				  attr->type == PERF_TYPE_TRACEPOINT ? "tracepoint" : "breakpoint");
	return 0;
}

/* Types of which it is known that no hardware is below them. */
static bool is_software(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE || attr->type == PERF_TYPE_TRACEPOINT ||
	       attr->type == PERF_TYPE_BREAKPOINT;
}

/* has_extended_regs() of kernel/events/core.c. */
static bool has_vector_regs(const struct pev_attr *attr)
{
	return (attr->sample_type & PERF_SAMPLE_REGS_USER &&
		attr->sample_regs_user & REGS_VECTOR) ||
	       (attr->sample_type & PERF_SAMPLE_REGS_INTR && attr->sample_regs_intr & REGS_VECTOR);
}

/* perf_swevent_init() and its like, perf_try_init_event(), perf_event_alloc(). */
static int check_hardware(const struct pev_attr *attr, struct pev_err *err)
{
	const char *what = NULL;

	if (attr->sample_type & PERF_SAMPLE_BRANCH_STACK)
		what = "sample_type has branch_stack";
	else if (has_vector_regs(attr))
		what = "a mask of registers has vector registers";
	else if (attr->flags & PEV_ATTR_AUX_OUTPUT)
		what = "aux_output is set";
	else if (attr->aux_action & UINT32_C(1) << AUX_ACTION_BIT(0))
		what = "aux_start_paused is set";
	if (what && is_software(attr))
		return pev_refuse(err, -EOPNOTSUPP,
				  "%s, which needs hardware below the event; clear it, or take a "
				  "hardware event",
				  what);
	if (attr->aux_action & UINT32_C(1) << AUX_ACTION_BIT(1) &&
	    attr->aux_action & UINT32_C(1) << AUX_ACTION_BIT(2))
		return pev_refuse(err, -EINVAL,
				  "aux_pause and aux_resume contradict each other; take one of "
				  "them");
	return 0;
}

static int check_inherited_read(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->flags & PEV_ATTR_INHERIT && attr->sample_type & PERF_SAMPLE_READ &&
	    !(attr->sample_type & PERF_SAMPLE_TID))
		return pev_refuse(err, -EINVAL,
				  "sample_type has read, which on an inherited event needs tid "
				  "(Linux before 6.12 refuses the two altogether); add tid, or "
				  "clear inherit");
	return 0;
}

static int check_period(const struct pev_attr *attr, struct pev_err *err)
{
	/* The limit is an int: kernel.perf_event_max_sample_rate. */
	if (attr->flags & PEV_ATTR_FREQ && attr->sample_period > INT32_MAX)
		return pev_refuse(err, -EINVAL,
				  "sample_freq = %" PRIu64 ": above every "
				  "kernel.perf_event_max_sample_rate; take a period",
				  attr->sample_period);
	if (!(attr->flags & PEV_ATTR_FREQ) && attr->sample_period >> 63)
		return pev_refuse(err, -EINVAL,
				  "sample_period = %#" PRIx64 ": bit 63 must be clear, the counter "
				  "counts up through negative numbers; take 1 or more",
				  attr->sample_period);
	return 0;
}

#if defined(__x86_64__)
/* hw_breakpoint_parse() asks for it; the kernel's half of the addresses has the top bit. */
static int check_kernel_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->config1 >> 63 == 0 || !(attr->flags & PEV_ATTR_EXCLUDE_KERNEL))
		return 0;
	return pev_refuse(err, -EINVAL,
			  "bp_addr = %#" PRIx64 ": an address of the kernel's, which "
			  "exclude_kernel leaves out; clear that",
			  attr->config1);
}

/* hw_breakpoint_arch_parse() of arch/x86/kernel/hw_breakpoint.c. */
static int check_machine_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t len = attr->config2;

	if (attr->bp_type == HW_BREAKPOINT_X && len == sizeof(long))
		return check_kernel_breakpoint(attr, err);
	if (attr->bp_type == HW_BREAKPOINT_X)
		return pev_refuse(err, -EINVAL,
				  "bp_len = %" PRIu64 ": x86-64 wants another length where it "
				  "breaks on execution; take 8",
				  len);
	if (attr->bp_type != HW_BREAKPOINT_W && attr->bp_type != HW_BREAKPOINT_RW)
		return pev_refuse(err, -EINVAL,
				  "bp_type = %" PRIu32 ": x86 has no such breakpoint; take 3 "
				  "(reads and writes), 2 (writes) or 4 (execution)",
				  attr->bp_type);
	if (len == 0 || len & (len - 1))
		return pev_refuse(err, -EINVAL,
				  "bp_len = %" PRIu64 ": x86 has lengths 1, 2, 4 and 8; take one "
				  "of them",
				  len);
	if (attr->config1 & (len - 1))
		return pev_refuse(err, -EINVAL,
				  "bp_addr = %#" PRIx64 ": not aligned to bp_len (%" PRIu64 "); "
				  "take %#" PRIx64,
				  attr->config1, len, attr->config1 & ~(len - 1));
	return check_kernel_breakpoint(attr, err);
}
#else
static int check_machine_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	(void)attr;
	(void)err;
	return 0;
}
#endif

static int check_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->type != PERF_TYPE_BREAKPOINT)
		return 0;
	return check_machine_breakpoint(attr, err);
}

int pev_attr_check(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err)
{
	int rc = check_reserved(attr, err);

	if (rc == 0)
		rc = check_sample(attr, err);
	if (rc == 0)
		rc = check_life(attr, err);
	if (rc == 0)
		rc = check_period(attr, err);
	if (rc == 0)
		rc = check_target(attr, pid, cpu, err);
	if (rc == 0)
		rc = check_inherited_read(attr, err);
	if (rc == 0)
		rc = check_breakpoint(attr, err);
	if (rc == 0)
		rc = check_hardware(attr, err);
	if (rc == 0)
		rc = check_clock(attr, err);
	return rc;
}
