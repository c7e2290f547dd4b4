/*
 * record.c - layout tables, plan, bounded locate and field access; see record.h.
 */
#include "record/record.h"

#include <errno.h>

#define BUILD_ID_MAX 20
#define READ_TIMES (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

const char *const pev_field_names[PEV_F_NR] = {
	[PEV_F_NONE] = "",
	[PEV_F_IDENTIFIER] = "identifier",
	[PEV_F_IP] = "ip",
	[PEV_F_PID] = "pid",
	[PEV_F_TID] = "tid",
	[PEV_F_TIME] = "time",
	[PEV_F_ADDR] = "addr",
	[PEV_F_ID] = "id",
	[PEV_F_STREAM_ID] = "stream_id",
	[PEV_F_CPU] = "cpu",
	[PEV_F_PERIOD] = "period",
	[PEV_F_READ] = "read",
	[PEV_F_CALLCHAIN] = "callchain",
	[PEV_F_RAW] = "raw",
	[PEV_F_BRANCH_STACK] = "branch_stack",
	[PEV_F_REGS_USER] = "regs_user",
	[PEV_F_STACK_SIZE] = "stack_size",
	[PEV_F_STACK_USER] = "stack_user",
	[PEV_F_WEIGHT] = "weight",
	[PEV_F_DATA_SRC] = "data_src",
	[PEV_F_TRANSACTION] = "transaction",
	[PEV_F_REGS_INTR] = "regs_intr",
	[PEV_F_PHYS_ADDR] = "phys_addr",
	[PEV_F_CGROUP] = "cgroup",
	[PEV_F_DATA_PAGE_SIZE] = "data_page_size",
	[PEV_F_CODE_PAGE_SIZE] = "code_page_size",
	[PEV_F_AUX] = "aux",
	[PEV_F_PPID] = "ppid",
	[PEV_F_PTID] = "ptid",
	[PEV_F_LEN] = "len",
	[PEV_F_PGOFF] = "pgoff",
	[PEV_F_FILENAME] = "filename",
	[PEV_F_LOST] = "lost",
	[PEV_F_COMM] = "comm",
	[PEV_F_MAJ] = "maj",
	[PEV_F_MIN] = "min",
	[PEV_F_INO] = "ino",
	[PEV_F_INO_GENERATION] = "ino_generation",
	[PEV_F_BUILD_ID] = "build_id",
	[PEV_F_PROT] = "prot",
	[PEV_F_FLAGS] = "flags",
	[PEV_F_AUX_OFFSET] = "aux_offset",
	[PEV_F_AUX_SIZE] = "aux_size",
	[PEV_F_NEXT_PREV_PID] = "next_prev_pid",
	[PEV_F_NEXT_PREV_TID] = "next_prev_tid",
	[PEV_F_NAMESPACES] = "namespaces",
	[PEV_F_KSYM_TYPE] = "ksym_type",
	[PEV_F_NAME] = "name",
	[PEV_F_BPF_TYPE] = "bpf_type",
	[PEV_F_TAG] = "tag",
	[PEV_F_PATH] = "path",
	[PEV_F_OLD_LEN] = "old_len",
	[PEV_F_NEW_LEN] = "new_len",
	[PEV_F_OLD_BYTES] = "old_bytes",
	[PEV_F_NEW_BYTES] = "new_bytes",
	[PEV_F_HW_ID] = "hw_id",
	[PEV_F_COOKIE] = "cookie",
};

/* Writer order: perf_output_sample(). The uapi comment before 6.1 had it wrong. */
static const struct pev_row sample_rows[] = {
	{ PEV_F_IDENTIFIER, PEV_K_U64, 0, PERF_SAMPLE_IDENTIFIER },
	{ PEV_F_IP, PEV_K_U64, 0, PERF_SAMPLE_IP },
	{ PEV_F_PID, PEV_K_S32, 0, PERF_SAMPLE_TID },
	{ PEV_F_TID, PEV_K_S32, 4, PERF_SAMPLE_TID },
	{ PEV_F_TIME, PEV_K_U64, 0, PERF_SAMPLE_TIME },
	{ PEV_F_ADDR, PEV_K_U64, 0, PERF_SAMPLE_ADDR },
	{ PEV_F_ID, PEV_K_U64, 0, PERF_SAMPLE_ID },
	{ PEV_F_STREAM_ID, PEV_K_U64, 0, PERF_SAMPLE_STREAM_ID },
	{ PEV_F_CPU, PEV_K_S32, 0, PERF_SAMPLE_CPU },
	{ PEV_F_PERIOD, PEV_K_U64, 0, PERF_SAMPLE_PERIOD },
	/* offsets vary from here */
	{ PEV_F_READ, PEV_K_READ, 0, PERF_SAMPLE_READ },
	{ PEV_F_CALLCHAIN, PEV_K_CHAIN, 0, PERF_SAMPLE_CALLCHAIN },
	{ PEV_F_RAW, PEV_K_BYTES, 0, PERF_SAMPLE_RAW },
	{ PEV_F_BRANCH_STACK, PEV_K_BRANCH, 0, PERF_SAMPLE_BRANCH_STACK },
	{ PEV_F_REGS_USER, PEV_K_REGS, 0, PERF_SAMPLE_REGS_USER },
	/* the word before the stack's bytes: requested size */
	{ PEV_F_STACK_SIZE, PEV_K_U64, 0, PERF_SAMPLE_STACK_USER },
	{ PEV_F_STACK_USER, PEV_K_STACK, 0, PERF_SAMPLE_STACK_USER },
	{ PEV_F_WEIGHT, PEV_K_BITS, 0, PERF_SAMPLE_WEIGHT | PEV_SAMPLE_WEIGHT_STRUCT },
	{ PEV_F_DATA_SRC, PEV_K_BITS, 0, PERF_SAMPLE_DATA_SRC },
	{ PEV_F_TRANSACTION, PEV_K_BITS, 0, PERF_SAMPLE_TRANSACTION },
	{ PEV_F_REGS_INTR, PEV_K_REGS, 0, PERF_SAMPLE_REGS_INTR },
	{ PEV_F_PHYS_ADDR, PEV_K_U64, 0, PERF_SAMPLE_PHYS_ADDR },
	{ PEV_F_CGROUP, PEV_K_U64, 0, PERF_SAMPLE_CGROUP },
	{ PEV_F_DATA_PAGE_SIZE, PEV_K_U64, 0, PERF_SAMPLE_DATA_PAGE_SIZE },
	{ PEV_F_CODE_PAGE_SIZE, PEV_K_U64, 0, PERF_SAMPLE_CODE_PAGE_SIZE },
	{ PEV_F_AUX, PEV_K_BYTES, 0, PERF_SAMPLE_AUX },
	{ 0 },
};
#define VARYING_ROWS (&sample_rows[10])
#define NR_SAMPLE_ROWS (sizeof(sample_rows) / sizeof(sample_rows[0]))
_Static_assert(PEV_F_IDENTIFIER == 1 && NR_SAMPLE_ROWS == PEV_F_AUX + 1,
	       "sample fields and rows are in the same order");

/* The trailer of every other record: perf_event__output_id_sample(). */
const struct pev_row pev_trailer_rows[] = {
	{ PEV_F_PID, PEV_K_S32, 0, PERF_SAMPLE_TID },
	{ PEV_F_TID, PEV_K_S32, 4, PERF_SAMPLE_TID },
	{ PEV_F_TIME, PEV_K_U64, 0, PERF_SAMPLE_TIME },
	{ PEV_F_ID, PEV_K_U64, 0, PERF_SAMPLE_ID },
	{ PEV_F_STREAM_ID, PEV_K_U64, 0, PERF_SAMPLE_STREAM_ID },
	{ PEV_F_CPU, PEV_K_S32, 0, PERF_SAMPLE_CPU },
	{ PEV_F_IDENTIFIER, PEV_K_U64, 0, PERF_SAMPLE_IDENTIFIER },
	{ 0 },
};

/* clang-format off */
/*
 * The fields of all other records, in writer order: name, kind, offset. Each list makes both the
 * rows of a layout and its spots, indexed by field.
 */
#define NONE(_)
#define MMAP(_) \
	_(PID, S32, 8) _(TID, S32, 12) _(ADDR, U64, 16) _(LEN, U64, 24) _(PGOFF, U64, 32) \
	_(FILENAME, STRING, 40)
#define LOST(_) _(ID, U64, 8) _(LOST, U64, 16)
#define COMM(_) _(PID, S32, 8) _(TID, S32, 12) _(COMM, STRING, 16)
#define TASK(_) \
	_(PID, S32, 8) _(PPID, S32, 12) _(TID, S32, 16) _(PTID, S32, 20) _(TIME, U64, 24)
#define THROTTLE(_) _(TIME, U64, 8) _(ID, U64, 16) _(STREAM_ID, U64, 24)
#define READ(_) _(PID, S32, 8) _(TID, S32, 12) _(READ, READ, 16)
#define MMAP2(_) \
	_(PID, S32, 8) _(TID, S32, 12) _(ADDR, U64, 16) _(LEN, U64, 24) _(PGOFF, U64, 32) \
	_(MAJ, U32, 40) _(MIN, U32, 44) _(INO, U64, 48) _(INO_GENERATION, U64, 56) \
	_(PROT, U32, 64) _(FLAGS, U32, 68) _(FILENAME, STRING, 72)
#define MMAP2_BUILD_ID(_) \
	_(PID, S32, 8) _(TID, S32, 12) _(ADDR, U64, 16) _(LEN, U64, 24) _(PGOFF, U64, 32) \
	_(BUILD_ID, BYTES, 44) _(PROT, U32, 64) _(FLAGS, U32, 68) _(FILENAME, STRING, 72)
#define AUX(_) _(AUX_OFFSET, U64, 8) _(AUX_SIZE, U64, 16) _(FLAGS, U64, 24)
#define ITRACE_START(_) _(PID, S32, 8) _(TID, S32, 12)
#define LOST_SAMPLES(_) _(LOST, U64, 8)
#define SWITCH_CPU_WIDE(_) _(NEXT_PREV_PID, S32, 8) _(NEXT_PREV_TID, S32, 12)
#define NAMESPACES(_) _(PID, S32, 8) _(TID, S32, 12) _(NAMESPACES, NAMESPACES, 24)
#define KSYMBOL(_) \
	_(ADDR, U64, 8) _(LEN, U32, 16) _(KSYM_TYPE, U16, 20) _(FLAGS, U16, 22) \
	_(NAME, STRING, 24)
#define BPF_EVENT(_) _(BPF_TYPE, U16, 8) _(FLAGS, U16, 10) _(ID, U32, 12) _(TAG, BYTES, 16)
#define CGROUP(_) _(ID, U64, 8) _(PATH, STRING, 16)
#define TEXT_POKE(_) \
	_(ADDR, U64, 8) _(OLD_LEN, U16, 16) _(NEW_LEN, U16, 18) _(OLD_BYTES, BYTES, 20) \
	_(NEW_BYTES, BYTES, 20)
#define AUX_OUTPUT_HW_ID(_) _(HW_ID, U64, 8)
#define CALLCHAIN_DEFERRED(_) _(COOKIE, U64, 8) _(CALLCHAIN, CHAIN, 16)

#define ROW(field, kind, off) { PEV_F_##field, PEV_K_##kind, off, 0 },
#define SPOT(field, kind, off) [PEV_F_##field] = { PEV_K_##kind, off },
#define ROWS(fields) ((const struct pev_row[]){ fields(ROW) { 0 } })
#define LAYOUT(name, callback, fields, min, counts) \
	{ name, callback, ROWS(fields), min, counts, { fields(SPOT) } }

const struct pev_row pev_mmap2_build_id_rows[] = { MMAP2_BUILD_ID(ROW) { 0 } };
static const struct pev_spot build_id_spots[PEV_F_NR] = { MMAP2_BUILD_ID(SPOT) };
/* clang-format on */

const struct pev_layout pev_layouts[PEV_RECORD_NR] = {
	[0] = LAYOUT("unknown", "record", NONE, 8, true),
	[PERF_RECORD_MMAP] = LAYOUT("mmap", "mmap", MMAP, 40, false),
	[PERF_RECORD_LOST] = LAYOUT("lost", "lost", LOST, 24, false),
	[PERF_RECORD_COMM] = LAYOUT("comm", "comm", COMM, 16, false),
	[PERF_RECORD_EXIT] = LAYOUT("exit", "exit", TASK, 32, false),
	[PERF_RECORD_THROTTLE] = LAYOUT("throttle", "throttle", THROTTLE, 32, false),
	[PERF_RECORD_UNTHROTTLE] = LAYOUT("unthrottle", "throttle", THROTTLE, 32, false),
	[PERF_RECORD_FORK] = LAYOUT("fork", "fork", TASK, 32, false),
	[PERF_RECORD_READ] = LAYOUT("read", "read", READ, 16, true),
	[PERF_RECORD_SAMPLE] = { "sample", "sample", sample_rows, 8, true, { { 0 } } },
	[PERF_RECORD_MMAP2] = LAYOUT("mmap2", "mmap", MMAP2, 72, false),
	[PERF_RECORD_AUX] = LAYOUT("aux", "aux", AUX, 32, false),
	[PERF_RECORD_ITRACE_START] = LAYOUT("itrace_start", "itrace_start", ITRACE_START,
		16, false),
	[PERF_RECORD_LOST_SAMPLES] = LAYOUT("lost_samples", "lost", LOST_SAMPLES, 16, false),
	[PERF_RECORD_SWITCH] = LAYOUT("switch", "switch", NONE, 8, false),
	[PERF_RECORD_SWITCH_CPU_WIDE] = LAYOUT("switch_cpu_wide", "switch", SWITCH_CPU_WIDE,
		16, false),
	[PERF_RECORD_NAMESPACES] = LAYOUT("namespaces", "namespaces", NAMESPACES, 24, true),
	[PERF_RECORD_KSYMBOL] = LAYOUT("ksymbol", "ksymbol", KSYMBOL, 24, true),
	[PERF_RECORD_BPF_EVENT] = LAYOUT("bpf_event", "bpf", BPF_EVENT, 24, true),
	[PEV_RECORD_CGROUP] = LAYOUT("cgroup", "cgroup", CGROUP, 16, false),
	[PEV_RECORD_TEXT_POKE] = LAYOUT("text_poke", "text_poke", TEXT_POKE, 20, true),
	[PEV_RECORD_AUX_OUTPUT_HW_ID] = LAYOUT("aux_output_hw_id", "aux_output_hw_id",
		AUX_OUTPUT_HW_ID, 16, false),
	[PEV_RECORD_CALLCHAIN_DEFERRED] = LAYOUT("callchain_deferred", "callchain_deferred",
		CALLCHAIN_DEFERRED, 24, true),
};

#define TYPE(type) (UINT32_C(1) << PERF_RECORD_##type)
const struct pev_misc pev_miscs[] = {
	{ "exact_ip", TYPE(SAMPLE), PERF_RECORD_MISC_EXACT_IP, 0 },
	{ "exec", TYPE(COMM), PERF_RECORD_MISC_COMM_EXEC, 0 },
	{ "fork_exec", TYPE(FORK), PERF_RECORD_MISC_FORK_EXEC, 0 },
	{ "mmap_data", TYPE(MMAP) | TYPE(MMAP2), PERF_RECORD_MISC_MMAP_DATA, 0 },
	{ "proc_map_parse_timeout", TYPE(MMAP) | TYPE(MMAP2),
	  PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT, 0 },
	{ "build_id_form", TYPE(MMAP2), PEV_MISC_MMAP_BUILD_ID, 0 },
	{ "at_end", TYPE(LOST), PEV_MISC_LOST_AT_END, 0 },
	{ "out", TYPE(SWITCH) | TYPE(SWITCH_CPU_WIDE), PERF_RECORD_MISC_SWITCH_OUT, 0 },
	{ "preempt", TYPE(SWITCH) | TYPE(SWITCH_CPU_WIDE), PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, 0 },
	{ "truncated", TYPE(AUX), PERF_AUX_FLAG_TRUNCATED, PEV_F_FLAGS },
	{ "overwrite", TYPE(AUX), PERF_AUX_FLAG_OVERWRITE, PEV_F_FLAGS },
	{ "partial", TYPE(AUX), PERF_AUX_FLAG_PARTIAL, PEV_F_FLAGS },
	{ "collision", TYPE(AUX), PERF_AUX_FLAG_COLLISION, PEV_F_FLAGS },
	{ NULL, 0, 0, 0 },
};

static void plan_fixed(struct pev_plan *plan)
{
	uint16_t off = sizeof(struct perf_event_header);

	for (const struct pev_row *row = sample_rows; row != VARYING_ROWS; row++) {
		if (!(plan->sample_type & row->bit))
			continue;
		plan->fixed[row->field] = off + row->off;
		/* pid and tid share one word; tid's row comes second. */
		if (row->field != PEV_F_PID)
			off += 8;
		if (row->field == PEV_F_TID)
			plan->fixed[PEV_F_TID] = plan->fixed[PEV_F_PID] + 4;
	}
	plan->fixed_end = off;
}

static uint8_t tail_of(const uint8_t *varying)
{
	if (!varying[0])
		return PEV_TAIL_NONE;
	if (varying[1])
		return PEV_TAIL_ANY;
	if (varying[0] == PEV_F_RAW)
		return PEV_TAIL_RAW;
	return varying[0] == PEV_F_CALLCHAIN ? PEV_TAIL_CALLCHAIN : PEV_TAIL_ANY;
}

static void plan_varying(struct pev_plan *plan)
{
	unsigned nr = 0;

	for (const struct pev_row *row = VARYING_ROWS; row->field; row++)
		if (plan->sample_type & row->bit)
			plan->varying[nr++] = row->field;
	plan->tail = tail_of(plan->varying);
	if (!nr)
		return;
	/* The first varying field has a fixed offset. */
	plan->fixed[plan->varying[0]] = plan->fixed_end;
	for (unsigned i = 1; i < nr; i++)
		plan->behind |= UINT32_C(1) << plan->varying[i];
}

static void plan_trailer(struct pev_plan *plan)
{
	uint16_t off = 0, at[PEV_F_CPU + 1] = { 0 };

	for (const struct pev_row *row = pev_trailer_rows; row->field; row++) {
		if (!(plan->sample_type & row->bit))
			continue;
		at[row->field] = (row->field == PEV_F_TID ? at[PEV_F_PID] + 4 : off);
		if (row->field != PEV_F_TID)
			off += 8;
	}
	plan->trailer = off;
	for (const struct pev_row *row = pev_trailer_rows; row->field; row++)
		if (plan->sample_type & row->bit)
			plan->from_end[row->field] = off - at[row->field];
}

static void plan_least(struct pev_plan *plan)
{
	for (uint32_t type = 0; type < PEV_RECORD_NR; type++) {
		const struct pev_layout *layout = &pev_layouts[type];

		if (!layout->counts)
			plan->least[type] = (uint16_t)(layout->min + plan->trailer);
	}
}

/* The period of samples without one, as perf reports it (evsel__parse_sample()). */
static uint64_t fixed_period(const struct pev_attr *attr)
{
	bool varies = attr->flags & PEV_ATTR_FREQ || attr->sample_type & PERF_SAMPLE_PERIOD;

	return varies ? 0 : attr->sample_period;
}

void pev_plan_init(struct pev_plan *plan, const struct pev_attr *attr, bool swap)
{
	*plan = (struct pev_plan){
		.sample_type = attr->sample_type,
		.read_format = attr->read_format,
		.branch_sample_type = attr->branch_sample_type,
		.regs_user = attr->sample_regs_user,
		.regs_intr = attr->sample_regs_intr,
		.sample_id_all = attr->flags & PEV_ATTR_SAMPLE_ID_ALL,
		.build_id = attr->flags & PEV_ATTR_BUILD_ID,
		.period = fixed_period(attr),
		.clock = attr->flags & PEV_ATTR_USE_CLOCKID ? attr->clockid : -1,
		.swap = swap,
	};
	plan_fixed(plan);
	if (plan->sample_id_all)
		plan_trailer(plan);
	plan_least(plan);
	plan_varying(plan);
}

static uint32_t bits_in(uint64_t mask)
{
	return (uint32_t)__builtin_popcountll(mask);
}

/* The bytes of one u64 for each bit of the mask. */
static size_t mask_bytes(uint64_t mask)
{
	return (size_t)8 * bits_in(mask);
}

int pev_read_parse(struct pev_read *read, uint64_t format, bool swap, const void *bytes,
		   size_t len)
{
	const unsigned char *p = bytes;
	bool group = format & PERF_FORMAT_GROUP;
	size_t head = mask_bytes(format & READ_TIMES);
	size_t off = 8, need;

	*read = (struct pev_read){ .nr = 1, .format = format, .swap = swap };
	read->stride = (uint32_t)(8 + mask_bytes(format & (PERF_FORMAT_ID | PEV_FORMAT_LOST)));
	if (len < 8 + head)
		return -EBADMSG;
	if (group) {
		read->nr = pev_load64(p, swap);
		read->values = p + 8 + head;
		if (read->nr > (len - 8 - head) / read->stride)
			return -EBADMSG;
		need = 8 + head + (size_t)read->nr * read->stride;
	} else {
		/* value, times, id, lost: the value is before the times */
		need = head + read->stride;
		read->values = p;
		if (len < need)
			return -EBADMSG;
	}
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED) {
		read->time_enabled = pev_load64(p + off, swap);
		off += 8;
	}
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		read->time_running = pev_load64(p + off, swap);
	return (int)need;
}

struct pev_read_value pev_read_at(const struct pev_read *read, uint64_t i)
{
	const unsigned char *p = read->values + i * read->stride;
	struct pev_read_value value = { .value = pev_load64(p, read->swap) };

	p += 8;
	if (!(read->format & PERF_FORMAT_GROUP))
		p += mask_bytes(read->format & READ_TIMES);
	if (read->format & PERF_FORMAT_ID) {
		value.id = pev_load64(p, read->swap);
		p += 8;
	}
	if (read->format & PEV_FORMAT_LOST)
		value.lost = pev_load64(p, read->swap);
	return value;
}

/* The length of a field at p that begins with a count of elements, or -EBADMSG. */
static int64_t counted_length(const unsigned char *p, uint32_t rest, uint64_t elem, bool swap)
{
	uint64_t nr;

	if (rest < 8)
		return -EBADMSG;
	nr = pev_load64(p, swap);
	if (nr > (rest - 8) / elem)
		return -EBADMSG;
	return (int64_t)(8 + nr * elem);
}

static int64_t raw_length(const unsigned char *p, uint32_t rest, bool swap)
{
	uint64_t len;

	if (rest < 4)
		return -EBADMSG;
	/* The kernel pads by enlarging size; recorders of other tools may not. */
	len = (4 + (uint64_t)pev_load32(p, swap) + 7) & ~UINT64_C(7);
	return len > rest ? -EBADMSG : (int64_t)len;
}

static int64_t regs_length(const unsigned char *p, uint32_t rest, uint64_t mask, bool swap)
{
	uint64_t len = 8;

	if (rest < 8)
		return -EBADMSG;
	if (pev_load64(p, swap) != PERF_SAMPLE_REGS_ABI_NONE)
		len += mask_bytes(mask);
	return len > rest ? -EBADMSG : (int64_t)len;
}

static int64_t stack_length(const unsigned char *p, uint32_t rest, bool swap)
{
	int64_t len = counted_length(p, rest, 1, swap);

	if (len <= 8)
		return len;
	if (rest - len < 8 || pev_load64(p + len, swap) > (uint64_t)len - 8)
		return -EBADMSG;
	return len + 8;
}

/* nr, optionally hw_idx, the entries, optionally a counter word for each entry. */
static int64_t branch_length(const unsigned char *p, uint32_t rest, bool swap, bool hw_idx,
			     bool counters)
{
	uint32_t extra = hw_idx ? 8 : 0;
	int64_t len;

	if (rest < 8 + extra)
		return -EBADMSG;
	len = counted_length(p, rest - extra, counters ? 32 : 24, swap);
	return len < 0 ? len : len + extra;
}

/* A function of its own, so that the caller needs no stack canary for the struct. */
static __attribute__((noinline)) int64_t read_length(const struct pev_plan *plan,
						     const unsigned char *p, uint32_t rest)
{
	struct pev_read read;

	return pev_read_parse(&read, plan->read_format, plan->swap, p, rest);
}

static int64_t varying_length(const struct pev_plan *plan, uint8_t field, const unsigned char *p,
			      uint32_t rest)
{
	switch (field) {
	case PEV_F_READ:
		return read_length(plan, p, rest);
	case PEV_F_CALLCHAIN:
		return counted_length(p, rest, 8, plan->swap);
	case PEV_F_RAW:
		return raw_length(p, rest, plan->swap);
	case PEV_F_REGS_USER:
		return regs_length(p, rest, plan->regs_user, plan->swap);
	case PEV_F_REGS_INTR:
		return regs_length(p, rest, plan->regs_intr, plan->swap);
	case PEV_F_STACK_SIZE:
		return rest < 8 ? -EBADMSG : 0;
	case PEV_F_STACK_USER:
		return stack_length(p, rest, plan->swap);
	case PEV_F_AUX:
		return counted_length(p, rest, 1, plan->swap);
	default:
		return rest < 8 ? -EBADMSG : 8;
	}
}

static uint8_t walk_fields(struct pev_record *rec, const uint8_t *field, uint32_t *pos);

/*
 * The layout of a branch stack depends on the hardware, not on the attr alone: without any entry
 * it is nr = 0 without hw_idx, and counters exist only if the PMU has them
 * (perf_output_sample()). The variant that fits the record's size exactly is right. Walks on to
 * the end; returns the field that does not fit, or 0.
 */
static uint8_t walk_branches(struct pev_record *rec, const uint8_t *field, uint32_t *pos)
{
	uint64_t asked = rec->plan->branch_sample_type;
	const unsigned char *p = rec->bytes + *pos;
	uint32_t rest = rec->size - *pos;
	bool empty = rest >= 8 && pev_load64(p, rec->plan->swap) == 0;

	for (int guess = 0; guess < 4; guess++) {
		bool hw_idx = empty == (guess & 1), counters = !(guess & 2);
		int64_t len = branch_length(p, rest, rec->plan->swap, hw_idx, counters);
		uint32_t end;

		if ((hw_idx && !(asked & PEV_BRANCH_HW_INDEX)) ||
		    (counters && !(asked & PEV_BRANCH_COUNTERS)) || len < 0)
			continue;
		/* With entries, hw_idx is always written. */
		if (!empty && !hw_idx && asked & PEV_BRANCH_HW_INDEX)
			continue;
		end = *pos + (uint32_t)len;
		if (walk_fields(rec, field + 1, &end) || end != rec->size)
			continue;
		rec->branch_hw_idx = hw_idx;
		rec->branch_counters = counters;
		*pos = end;
		return PEV_F_NONE;
	}
	return *field;
}

/* Walks the plan's varying fields from *pos; returns the field that does not fit, or 0. */
static uint8_t walk_fields(struct pev_record *rec, const uint8_t *field, uint32_t *pos)
{
	for (; *field; field++) {
		int64_t len;

		rec->at[*field] = (uint16_t)*pos;
		if (*field == PEV_F_BRANCH_STACK)
			return walk_branches(rec, field, pos);
		len = varying_length(rec->plan, *field, rec->bytes + *pos, rec->size - *pos);
		if (len < 0)
			return *field;
		*pos += (uint32_t)len;
	}
	return PEV_F_NONE;
}

static int locate_sample(struct pev_record *rec, struct pev_err *err)
{
	const struct pev_plan *plan = rec->plan;
	uint32_t pos = plan->fixed_end;
	uint8_t bad;

	if (rec->size < pos)
		return pev_fail(err, -EBADMSG, "sample: %u bytes, its fixed fields need %u",
				rec->size, pos);
	bad = walk_fields(rec, plan->varying, &pos);
	if (bad)
		return pev_fail(err, -EBADMSG,
				"sample: field '%s' leads past the record's %u bytes",
				pev_field_names[bad], rec->size);
	if (pos != rec->size)
		return pev_fail(err, -EBADMSG, "sample: %u of %u bytes are left over",
				rec->size - pos, rec->size);
	return 0;
}

static bool has_build_id(const struct pev_record *rec)
{
	/*
	 * The bit alone is not enough: the kernel reuses the header for the next event
	 * on the list, so an event without build_id can get the bit with the inode
	 * layout (seen on 6.18; perf_event_mmap_output()).
	 */
	return rec->type == PERF_RECORD_MMAP2 && rec->plan->build_id &&
	       rec->misc & PEV_MISC_MMAP_BUILD_ID;
}

static const struct pev_layout *layout_of(const struct pev_record *rec)
{
	return &pev_layouts[rec->type < PEV_RECORD_NR ? rec->type : 0];
}

const struct pev_row *pev_record_rows(const struct pev_record *rec)
{
	return has_build_id(rec) ? pev_mmap2_build_id_rows : layout_of(rec)->rows;
}

/* Checks the lengths inside a record other than a sample, after its fixed part. */
static int check_body(const struct pev_record *rec)
{
	const unsigned char *p = rec->bytes;
	bool swap = rec->plan->swap;
	uint32_t end = rec->end;
	struct pev_read read;

	switch (rec->type) {
	case PERF_RECORD_READ:
		return pev_read_parse(&read, rec->plan->read_format, swap, p + 16, end - 16);
	case PERF_RECORD_NAMESPACES:
		return pev_load64(p + 16, swap) > (end - 24) / 16 ? -EBADMSG : 0;
	case PEV_RECORD_CALLCHAIN_DEFERRED:
		return pev_load64(p + 16, swap) > (end - 24) / 8 ? -EBADMSG : 0;
	case PEV_RECORD_TEXT_POKE:
		return pev_load16(p + 16, swap) + pev_load16(p + 18, swap) > (int)end - 20 ?
			       -EBADMSG : 0;
	case PERF_RECORD_MMAP2:
		return has_build_id(rec) && p[40] > BUILD_ID_MAX ? -EBADMSG : 0;
	default:
		return 0;
	}
}

uint16_t pev_record_body_end(const unsigned char *bytes, uint16_t size, bool swap)
{
	const unsigned char *nul;
	uint32_t end = 24;

	if (size < 24)
		return 0;
	switch (pev_load32(bytes, swap)) {
	case PERF_RECORD_KSYMBOL:
		nul = memchr(bytes + 24, 0, size - 24u);
		if (!nul)
			return 0;
		end = (uint32_t)(nul - bytes) + 1;
		break;
	case PERF_RECORD_BPF_EVENT:
		break;
	case PEV_RECORD_TEXT_POKE:
		end = 20u + pev_load16(bytes + 16, swap) + pev_load16(bytes + 18, swap);
		break;
	default:
		return 0;
	}
	end = (end + 7) & ~7u;
	return end <= size ? (uint16_t)end : 0;
}

static int locate_other(struct pev_record *rec, struct pev_err *err)
{
	const struct pev_layout *layout = layout_of(rec);
	uint16_t written;

	rec->spots = has_build_id(rec) ? build_id_spots : layout->spots;
	/* A record of an unknown type may lack a trailer; it has no fields. */
	if (rec->type == 0 || rec->type >= PEV_RECORD_NR) {
		if (rec->size >= 8 + rec->plan->trailer)
			rec->end = (uint16_t)(rec->size - rec->plan->trailer);
		return 0;
	}
	if (rec->size < layout->min + rec->plan->trailer)
		return pev_fail(err, -EBADMSG, "%s (%u): %u bytes, needs %u", layout->name,
				rec->type, rec->size, layout->min + rec->plan->trailer);
	written = pev_record_body_end(rec->bytes, rec->size, rec->plan->swap);
	rec->end = (uint16_t)(rec->size - rec->plan->trailer);
	if (written && written < rec->end)
		rec->end = written;
	if (check_body(rec) < 0)
		return pev_fail(err, -EBADMSG, "%s (%u): a count leads past the record's %u bytes",
				layout->name, rec->type, rec->size);
	return 0;
}

int pev_record_locate_any(struct pev_record *rec, const struct pev_plan *plan, const void *bytes,
			  size_t len, struct pev_err *err)
{
	const unsigned char *p = bytes;

	if (len < sizeof(struct perf_event_header))
		return pev_fail(err, -EBADMSG, "%zu bytes are too few for a record header", len);
	rec->bytes = bytes;
	rec->plan = plan;
	rec->type = pev_load32(p, plan->swap);
	rec->misc = pev_load16(p + 4, plan->swap);
	rec->size = rec->end = pev_load16(p + 6, plan->swap);
	if (rec->size < sizeof(struct perf_event_header) || rec->size > len)
		return pev_fail(err, -EBADMSG,
				"record of type %u: size %u, but %zu bytes are there", rec->type,
				rec->size, len);
	if (rec->type == PERF_RECORD_SAMPLE)
		return locate_sample(rec, err);
	return locate_other(rec, err);
}

static void branch_value(struct pev_value *value, const struct pev_record *rec,
			 const unsigned char *p)
{
	value->nr = (uint32_t)pev_load64(p, rec->plan->swap);
	value->extra = UINT64_MAX; /* unknown, as in the kernel */
	value->p = p + 8;
	value->hw_idx = rec->branch_hw_idx;
	if (rec->branch_hw_idx) {
		value->extra = pev_load64(p + 8, rec->plan->swap);
		value->p += 8;
	}
	value->len = value->nr * 24;
	if (rec->branch_counters)
		value->counters = value->p + value->len;
}

static void stack_value(struct pev_value *value, const unsigned char *p, bool swap)
{
	value->extra = pev_load64(p, swap);
	value->p = p + 8;
	value->len = value->extra ? (uint32_t)pev_load64(p + 8 + value->extra, swap) : 0;
	value->nr = value->len;
}

static void regs_value(struct pev_value *value, const struct pev_record *rec,
		       enum pev_field field, const unsigned char *p)
{
	uint64_t mask = field == PEV_F_REGS_USER ? rec->plan->regs_user : rec->plan->regs_intr;

	value->extra = pev_load64(p, rec->plan->swap);
	value->u = mask;
	value->p = p + 8;
	value->nr = value->extra == PERF_SAMPLE_REGS_ABI_NONE ? 0 : bits_in(mask);
	value->len = value->nr * 8;
}

static void bytes_value(struct pev_value *value, const struct pev_record *rec,
			enum pev_field field, const unsigned char *p)
{
	bool swap = rec->plan->swap;

	value->p = p;
	switch (field) {
	case PEV_F_RAW:
		value->p = p + 4;
		value->len = pev_load32(p, swap);
		break;
	case PEV_F_AUX:
		value->p = p + 8;
		value->len = (uint32_t)pev_load64(p, swap);
		break;
	case PEV_F_BUILD_ID:
		value->len = rec->bytes[40];
		break;
	case PEV_F_TAG:
		value->len = 8;
		break;
	case PEV_F_OLD_BYTES:
		value->len = pev_load16(rec->bytes + 16, swap);
		break;
	case PEV_F_NEW_BYTES:
		value->p = p + pev_load16(rec->bytes + 16, swap);
		value->len = pev_load16(rec->bytes + 18, swap);
		break;
	default:
		break;
	}
	value->nr = value->len;
}

static void value_of(const struct pev_record *rec, enum pev_field field, uint8_t kind,
		     const unsigned char *p, struct pev_value *value)
{
	bool swap = rec->plan->swap;

	*value = (struct pev_value){ .kind = kind };
	switch (kind) {
	case PEV_K_STRING:
		value->p = p;
		value->len = pev_string_length(rec, p);
		break;
	case PEV_K_BYTES:
		bytes_value(value, rec, field, p);
		break;
	case PEV_K_READ:
		value->p = p;
		value->len = (uint32_t)(rec->bytes + rec->end - p);
		break;
	case PEV_K_CHAIN:
		value->nr = (uint32_t)pev_load64(p, swap);
		value->p = p + 8;
		value->len = value->nr * 8;
		break;
	case PEV_K_BRANCH:
		branch_value(value, rec, p);
		break;
	case PEV_K_REGS:
		regs_value(value, rec, field, p);
		break;
	case PEV_K_STACK:
		stack_value(value, p, swap);
		break;
	case PEV_K_NAMESPACES:
		value->nr = (uint32_t)pev_load64(p - 8, swap);
		value->p = p;
		value->len = value->nr * 16;
		break;
	case PEV_K_BITS:
		value->u = pev_load64(p, swap);
		break;
	default:
		value->kind = kind == PEV_K_S32 ? PEV_K_S32 : PEV_K_U64;
		pev_load_number(kind, p, swap, &value->u);
	}
}

bool pev_record_trailer(const struct pev_record *rec, enum pev_field field,
			struct pev_value *value)
{
	uint32_t at = rec->type == PERF_RECORD_SAMPLE ? 0 : pev_record_trailer_at(rec, field);

	if (!at)
		return false;
	value_of(rec, field, PEV_HALVES >> field & 1 ? PEV_K_S32 : PEV_K_U64, rec->bytes + at,
		 value);
	return true;
}

bool pev_record_fixed_period(const struct pev_record *rec, uint64_t *period)
{
	*period = rec->plan->period;
	return rec->type == PERF_RECORD_SAMPLE && *period;
}

bool pev_record_get(const struct pev_record *rec, enum pev_field field, struct pev_value *value)
{
	uint16_t at;

	if (rec->type == PERF_RECORD_SAMPLE) {
		at = field > PEV_F_AUX ? 0 : pev_record_at(rec, field);
		if (!at)
			return false;
		/* The enum counts the sample's fields in writer order, as the rows do. */
		value_of(rec, field, sample_rows[field - 1].kind, rec->bytes + at, value);
		return true;
	}
	if (!rec->spots[field].kind)
		return pev_record_trailer(rec, field, value);
	value_of(rec, field, rec->spots[field].kind, rec->bytes + rec->spots[field].off, value);
	return true;
}

bool pev_record_flag(const struct pev_record *rec, const struct pev_misc *flag)
{
	struct pev_value value;

	if (flag->field)
		return pev_record_get(rec, flag->field, &value) && value.u & flag->mask;
	if (rec->type == PERF_RECORD_MMAP2 && flag->mask == PEV_MISC_MMAP_BUILD_ID)
		return has_build_id(rec);
	return rec->misc & flag->mask;
}

static bool has_row(const struct pev_row *rows, uint8_t field)
{
	for (; rows->field; rows++)
		if (rows->field == field)
			return true;
	return false;
}

enum pev_field pev_record_nth(const struct pev_record *rec, unsigned n)
{
	const struct pev_row *rows = pev_record_rows(rec);
	struct pev_value value;

	for (const struct pev_row *row = rows; row->field; row++) {
		if (rec->type == PERF_RECORD_SAMPLE && !pev_record_at(rec, row->field))
			continue;
		if (n-- == 0)
			return row->field;
	}
	for (const struct pev_row *row = pev_trailer_rows; row->field; row++) {
		if (has_row(rows, row->field) || !pev_record_trailer(rec, row->field, &value))
			continue;
		if (n-- == 0)
			return row->field;
	}
	return PEV_F_NONE;
}

/* ---- names of values ---- */

const char *const pev_cpumodes[] = {
	"unknown", "kernel", "user", "hypervisor", "guest_kernel", "guest_user", "unknown",
	"unknown",
};

const char *const pev_namespace_names[PEV_NAMESPACES_NR] = {
	"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"
};
