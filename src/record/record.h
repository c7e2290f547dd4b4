/*
 * record.h - where the fields of a record lie.
 *
 * A plan is computed once from an attr: which fields have fixed offsets, from the
 * start for samples and from the end for the trailer of all other records.
 * pev_record_locate() walks the fields of varying length and checks every length
 * against the record's end; fields are then read in place. The layout tables are
 * in the kernel's writer order (perf_output_sample() and its neighbours in
 * kernel/events/core.c), which is right where comments in its headers are wrong.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/abi.h"
#include "base/err.h"

/* All fields of all records. Their names: pev_field_names[]. */
enum pev_field {
	PEV_F_NONE,
	/* sample body, in writer order */
	PEV_F_IDENTIFIER, PEV_F_IP, PEV_F_PID, PEV_F_TID, PEV_F_TIME, PEV_F_ADDR,
	PEV_F_ID, PEV_F_STREAM_ID, PEV_F_CPU, PEV_F_PERIOD, PEV_F_READ,
	PEV_F_CALLCHAIN, PEV_F_RAW, PEV_F_BRANCH_STACK, PEV_F_REGS_USER,
	PEV_F_STACK_SIZE, PEV_F_STACK_USER, PEV_F_WEIGHT, PEV_F_DATA_SRC, PEV_F_TRANSACTION,
	PEV_F_REGS_INTR, PEV_F_PHYS_ADDR, PEV_F_CGROUP, PEV_F_DATA_PAGE_SIZE,
	PEV_F_CODE_PAGE_SIZE, PEV_F_AUX,
	/* the other records */
	PEV_F_PPID, PEV_F_PTID, PEV_F_LEN, PEV_F_PGOFF, PEV_F_FILENAME, PEV_F_LOST,
	PEV_F_COMM, PEV_F_MAJ, PEV_F_MIN, PEV_F_INO, PEV_F_INO_GENERATION,
	PEV_F_BUILD_ID, PEV_F_PROT, PEV_F_FLAGS, PEV_F_AUX_OFFSET, PEV_F_AUX_SIZE,
	PEV_F_NEXT_PREV_PID, PEV_F_NEXT_PREV_TID, PEV_F_NAMESPACES,
	PEV_F_KSYM_TYPE, PEV_F_NAME, PEV_F_BPF_TYPE, PEV_F_TAG, PEV_F_PATH,
	PEV_F_OLD_LEN, PEV_F_NEW_LEN, PEV_F_OLD_BYTES, PEV_F_NEW_BYTES,
	PEV_F_HW_ID, PEV_F_COOKIE,
	PEV_F_NR
};
extern const char *const pev_field_names[PEV_F_NR];

/* The type of a field's bytes. */
enum pev_kind {
	PEV_K_U16 = 1, PEV_K_U32, PEV_K_U64,
	PEV_K_S32,        /* pid, tid and cpu: -1 is a value */
	PEV_K_STRING,     /* up to the first NUL, at most to the trailer */
	PEV_K_BYTES,
	PEV_K_READ,       /* read_format values */
	PEV_K_CHAIN,      /* nr u64, markers included */
	PEV_K_BRANCH,     /* entries of 24 bytes; see struct pev_branch */
	PEV_K_REGS,       /* one u64 per mask bit, lowest first; abi apart */
	PEV_K_STACK,      /* the dyn_size valid bytes */
	PEV_K_NAMESPACES, /* nr x { u64 dev, inode } */
	PEV_K_BITS        /* u64 whose bits have names; see bits.h */
};

/* One row of a layout: a field at its offset from the record's start. */
struct pev_row {
	uint8_t field;    /* enum pev_field */
	uint8_t kind;     /* enum pev_kind */
	uint16_t off;     /* bytes from the header's start; samples: found by the plan */
	uint64_t bit;     /* samples: the PERF_SAMPLE_* bit; else 0 */
};

/* A row indexed by its field; kind 0: no such field. */
struct pev_spot {
	uint8_t kind, off;
};

/* One record type. */
struct pev_layout {
	const char *name;           /* "mmap2" */
	const char *callback;       /* the callback that receives it: "mmap" */
	const struct pev_row *rows; /* ends with PEV_F_NONE */
	uint16_t min;               /* header and fixed part, bytes */
	bool counts;                /* has lengths inside, which locate must check */
	struct pev_spot spots[PEV_F_NR]; /* of the rows; samples: empty, the plan has them */
};
extern const struct pev_layout pev_layouts[PEV_RECORD_NR]; /* [0] is "unknown" */
/* MMAP2 with a build id; the trailer of every record except a sample. */
extern const struct pev_row pev_mmap2_build_id_rows[];
extern const struct pev_row pev_trailer_rows[];

/* One flag of header.misc, or of a field; bits mean different things in different types. */
struct pev_misc {
	const char *name;           /* "exec", "out", "preempt", "exact_ip", "truncated", ... */
	uint32_t types;             /* bit n: valid in record type n */
	uint16_t mask;
	uint8_t field;              /* enum pev_field that has the bit; 0: header.misc */
};
extern const struct pev_misc pev_miscs[]; /* ends with a NULL name */

/* The last field of a sample, if its size alone locates all fields. */
enum pev_tail {
	PEV_TAIL_ANY,      /* other fields vary, too: walk them */
	PEV_TAIL_NONE,     /* nothing varies */
	PEV_TAIL_RAW,
	PEV_TAIL_CALLCHAIN
};

/* Which frames of recorded call chains are used, when an event wants less than was recorded. */
struct pev_stack_form {
	bool no_user, no_kernel; /* without these frames */
	bool of_ip;              /* for a sample without a chain: its address alone */
};

/* The layout of the records of one attr; computed once, then only read. */
struct pev_plan {
	uint64_t sample_type, read_format, branch_sample_type;
	uint64_t regs_user, regs_intr;     /* masks */
	uint64_t period;                   /* of samples without a period field, if it is fixed;
					      0: unknown */
	int32_t clock;                     /* clockid of the times; -1: the kernel's own clock */
	bool sample_id_all, build_id;
	bool swap;                         /* records have the other byte order */
	bool narrow;                       /* of a 32-bit recorder; set after pev_plan_init() */
	struct pev_stack_form stack;       /* set after pev_plan_init(), too */
	uint16_t fixed[PEV_F_AUX + 1];     /* samples: each field's offset, up to the first of
					      varying length; 0: absent, or behind it */
	uint32_t behind;                   /* bit n: field n is present, and behind it */
	uint16_t fixed_end;                /* offset of the first varying field */
	uint8_t tail;                      /* enum pev_tail */
	uint16_t trailer;                  /* bytes of sample_id after every other record */
	uint16_t from_end[PEV_F_CPU + 1];  /* others: distance of each trailer field from the end */
	uint16_t least[PEV_RECORD_NR];     /* others, by type: from this size on the layout's spots
					      are right; 0: lengths inside must be checked */
	uint8_t varying[PEV_F_AUX + 1 - PEV_F_PERIOD]; /* samples: fields after PERIOD, 0 ends */
};
void pev_plan_init(struct pev_plan *plan, const struct pev_attr *attr, bool swap);

/* A located record. Borrows its bytes and its plan. */
struct pev_record {
	const unsigned char *bytes;        /* the header */
	const struct pev_plan *plan;
	uint32_t type;
	uint16_t misc;
	uint16_t size;                     /* bytes, header included */
	uint16_t end;                      /* where the trailer begins, or size */
	const struct pev_spot *spots;    /* others: of the type, or of MMAP2 with a build id */
	uint16_t at[PEV_F_AUX + 1];        /* samples: offsets of the fields behind fixed_end */
	bool branch_hw_idx, branch_counters; /* present; set with branch_stack */
};

/*
 * Finds every field of the record at bytes. len bytes are readable: the header's
 * size must be 8 <= size <= len. Returns -EBADMSG if a length inside leads past the
 * record's end or a fixed part is cut; the message names it.
 * A record of an unknown type has no fields. Nothing is allocated.
 */
static inline int pev_record_locate(struct pev_record *rec, const struct pev_plan *plan,
				    const void *bytes, size_t len, struct pev_err *err);

/*
 * The offset at which the body of a KSYMBOL, BPF_EVENT or TEXT_POKE ends and its sample_id begins;
 * 0 for every other type, and if the offset is beyond size. The size of these records can be too
 * large: if several events receive one, the kernel adds the sample_id of each to a header that all
 * share (perf_event_ksymbol_output() and the like; seen on 6.18). The bytes after the record's own
 * sample_id are stale bytes of the ring.
 */
uint16_t pev_record_body_end(const unsigned char *bytes, uint16_t size, bool swap);

/* True for the types whose size can be too large. */
static inline bool pev_record_may_overstate(uint32_t type)
{
	return type == PERF_RECORD_KSYMBOL || type == PERF_RECORD_BPF_EVENT ||
	       type == PEV_RECORD_TEXT_POKE;
}

/* A field's value: a number, or count elements at p (borrowed from the record). */
struct pev_value {
	uint8_t kind;            /* enum pev_kind; numbers are PEV_K_U64, _S32 or _BITS */
	uint64_t u;              /* numbers, sign-extended for PEV_K_S32 */
	const unsigned char *p;
	uint32_t len;            /* bytes at p */
	uint32_t nr;             /* elements at p */
	uint64_t extra;          /* regs: abi; branch: hw_idx; stack: requested size */
	bool hw_idx;             /* branch: hw_idx is present, even if unknown */
	const unsigned char *counters; /* branch: nr u64, or NULL */
};

/* False if this record has no such field. */
bool pev_record_get(const struct pev_record *rec, enum pev_field field,
		    struct pev_value *value);
/*
 * The same for the fields that are read most often: a number, 32 bits sign-extended; a string's
 * bytes, up to its NUL; a sample's raw bytes; the words of its call chain, 8 bytes each in the
 * record's byte order. False if the record has no such field, or it is of another kind.
 */
static inline bool pev_record_number(const struct pev_record *rec, enum pev_field field,
				     uint64_t *number);
static inline bool pev_record_string(const struct pev_record *rec, enum pev_field field,
				     const char **string, uint32_t *len);
static inline bool pev_record_raw(const struct pev_record *rec, const unsigned char **raw,
				  uint32_t *len);
static inline bool pev_record_chain(const struct pev_record *rec, const unsigned char **words,
				    uint32_t *nr);
/* The period of a sample without that field, if its event has a fixed one. */
bool pev_record_fixed_period(const struct pev_record *rec, uint64_t *period);
/* Like pev_record_get(), from the sample_id trailer alone. */
bool pev_record_trailer(const struct pev_record *rec, enum pev_field field,
			struct pev_value *value);
/*
 * True if the flag is set; the flag must be one of this record's type. For MMAP2's
 * build_id_form the record's layout decides, because the bit can be another event's.
 */
bool pev_record_flag(const struct pev_record *rec, const struct pev_misc *flag);
/* The n-th field of this record, in writer order, trailer last; 0 past the end. */
enum pev_field pev_record_nth(const struct pev_record *rec, unsigned n);

/* The rows of this record's layout, without the trailer. Ends with PEV_F_NONE. */
const struct pev_row *pev_record_rows(const struct pev_record *rec);
/* Names of header.misc & PERF_RECORD_MISC_CPUMODE_MASK. */
extern const char *const pev_cpumodes[];
/* Names of the namespaces, in the order of enum in uapi/linux/perf_event.h. */
enum { PEV_NAMESPACES_NR = 7 };
extern const char *const pev_namespace_names[PEV_NAMESPACES_NR];

/* Counter values, of READ records, samples and read(2) alike. */
struct pev_read_value {
	uint64_t value, id, lost;
};
struct pev_read {
	uint64_t nr;             /* 1 without PERF_FORMAT_GROUP */
	uint64_t time_enabled, time_running;
	const unsigned char *values;
	uint32_t stride;         /* bytes from one value to the next */
	uint64_t format;
	bool swap;
};
/* Returns the size of the values in bytes, or -EBADMSG if they do not fit in len. */
int pev_read_parse(struct pev_read *read, uint64_t format, bool swap, const void *bytes,
		   size_t len);
struct pev_read_value pev_read_at(const struct pev_read *read, uint64_t i);

/* Marks a condition that is mostly false, for the compiler's code layout. */
#define PEV_RARELY(condition) __builtin_expect(condition, 0)

/* Returns the offset of a sample's id from the record's start; 0: samples have none. */
static inline uint16_t pev_plan_id_from_start(const struct pev_plan *plan)
{
	uint16_t off = plan->fixed[PEV_F_IDENTIFIER];

	return off ? off : plan->fixed[PEV_F_ID];
}

/* Returns the offset of another record's id back from the record's end; 0: they have none. */
static inline uint16_t pev_plan_id_from_end(const struct pev_plan *plan)
{
	uint16_t off = plan->from_end[PEV_F_IDENTIFIER];

	return off ? off : plan->from_end[PEV_F_ID];
}

/* Unaligned loads in the record's byte order. */
static inline uint64_t pev_load64(const void *p, bool swap)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return PEV_RARELY(swap) ? __builtin_bswap64(v) : v;
}

static inline uint32_t pev_load32(const void *p, bool swap)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return PEV_RARELY(swap) ? __builtin_bswap32(v) : v;
}

static inline uint16_t pev_load16(const void *p, bool swap)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return PEV_RARELY(swap) ? __builtin_bswap16(v) : v;
}

/* ---- the fast path, run once per record ---- */

/* True if the plan has a tail and that tail fills the rest of the sample exactly. */
static inline bool pev_tail_fits(const struct pev_plan *plan, const unsigned char *p, uint32_t rest)
{
	switch (plan->tail) {
	case PEV_TAIL_NONE:
		return rest == 0;
	case PEV_TAIL_RAW:
		/* The kernel pads by enlarging size; recorders of other tools may not. */
		return rest >= 4 &&
		       ((pev_load32(p, plan->swap) + UINT64_C(4) + 7) & ~UINT64_C(7)) == rest;
	case PEV_TAIL_CALLCHAIN:
		return rest >= 8 && rest % 8 == 0 &&
		       pev_load64(p, plan->swap) == (rest - 8) / 8;
	default:
		return false;
	}
}

/* The slow path of pev_record_locate(): all other records, and invalid ones. */
int pev_record_locate_any(struct pev_record *rec, const struct pev_plan *plan, const void *bytes,
			  size_t len, struct pev_err *err);

/* True if the size of a sample, all readable, shows that its fields are as planned. */
static inline bool pev_sample_fits(const struct pev_plan *plan, const unsigned char *p,
				   uint32_t size)
{
	uint32_t fixed = plan->fixed_end;

	return size >= fixed && pev_tail_fits(plan, p + fixed, size - fixed);
}

/* Locates a sample of that size, all readable. False: call pev_record_locate_any(). */
static inline bool pev_record_locate_sample(struct pev_record *rec, const struct pev_plan *plan,
					    const unsigned char *p, uint32_t size)
{
	if (!pev_sample_fits(plan, p, size))
		return false;
	rec->bytes = p;
	rec->plan = plan;
	rec->type = PERF_RECORD_SAMPLE;
	rec->misc = pev_load16(p + 4, plan->swap);
	rec->size = rec->end = (uint16_t)size;
	return true;
}

/* The same for a record of another type. */
static inline bool pev_record_locate_other(struct pev_record *rec, const struct pev_plan *plan,
					   const unsigned char *p, uint32_t type, uint32_t size)
{
	uint16_t misc = pev_load16(p + 4, plan->swap);

	/* 0 minus 1 is larger than any size. */
	if (type >= PEV_RECORD_NR || plan->least[type] - UINT32_C(1) >= size ||
	    (type == PERF_RECORD_MMAP2 && misc & PEV_MISC_MMAP_BUILD_ID))
		return false;
	rec->bytes = p;
	rec->plan = plan;
	rec->spots = pev_layouts[type].spots;
	rec->type = type;
	rec->misc = misc;
	rec->size = (uint16_t)size;
	rec->end = (uint16_t)(size - plan->trailer);
	return true;
}

static inline int pev_record_locate(struct pev_record *rec, const struct pev_plan *plan,
				    const void *bytes, size_t len, struct pev_err *err)
{
	const unsigned char *p = (const unsigned char *)bytes;
	uint32_t type, size;

	if (PEV_RARELY(len < sizeof(struct perf_event_header)))
		return pev_record_locate_any(rec, plan, bytes, len, err);
	type = pev_load32(p, plan->swap);
	size = pev_load16(p + 6, plan->swap);
	if (PEV_RARELY(size > len) ||
	    PEV_RARELY(type == PERF_RECORD_SAMPLE
			       ? !pev_record_locate_sample(rec, plan, p, size)
			       : !pev_record_locate_other(rec, plan, p, type, size)))
		return pev_record_locate_any(rec, plan, bytes, len, err);
	return 0;
}

/* The offset of a field of a sample, up to PEV_F_AUX, the last one; 0: no such field. */
static inline uint16_t pev_record_at(const struct pev_record *rec, enum pev_field field)
{
	uint16_t at = rec->plan->fixed[field];

	return PEV_RARELY(!at) && rec->plan->behind >> field & 1 ? rec->at[field] : at;
}

/* The number fields of samples, signed 32 bits and unsigned 64 bits: bit n is field n. */
#define PEV_HALVES (1u << PEV_F_PID | 1u << PEV_F_TID | 1u << PEV_F_CPU)
#define PEV_WORDS \
	(1u << PEV_F_IDENTIFIER | 1u << PEV_F_IP | 1u << PEV_F_TIME | 1u << PEV_F_ADDR | \
	 1u << PEV_F_ID | 1u << PEV_F_STREAM_ID | 1u << PEV_F_PERIOD | 1u << PEV_F_STACK_SIZE | \
	 1u << PEV_F_PHYS_ADDR | 1u << PEV_F_CGROUP | 1u << PEV_F_DATA_PAGE_SIZE | \
	 1u << PEV_F_CODE_PAGE_SIZE)

/* The offset of a field in the sample_id of a record other than a sample; 0: no such field. */
static inline uint32_t pev_record_trailer_at(const struct pev_record *rec, enum pev_field field)
{
	uint32_t from_end = field <= PEV_F_CPU ? rec->plan->from_end[field] : 0;

	return from_end && rec->end != rec->size ? rec->end + rec->plan->trailer - from_end : 0;
}

/* Reads the number at p; false if the kind is not a number. */
static inline bool pev_load_number(uint8_t kind, const unsigned char *p, bool swap,
				   uint64_t *number)
{
	switch (kind) {
	case PEV_K_U64:
		*number = pev_load64(p, swap);
		return true;
	case PEV_K_S32:
		*number = (uint64_t)(int32_t)pev_load32(p, swap);
		return true;
	case PEV_K_U32:
		*number = pev_load32(p, swap);
		return true;
	case PEV_K_U16:
		*number = pev_load16(p, swap);
		return true;
	default:
		return false;
	}
}

/* Always inlined: for a constant field few checks remain. */
static inline __attribute__((always_inline)) bool
pev_record_number(const struct pev_record *rec, enum pev_field field, uint64_t *number)
{
	bool swap = rec->plan->swap;
	uint32_t at;

	if (rec->type != PERF_RECORD_SAMPLE && rec->spots[field].kind)
		return pev_load_number(rec->spots[field].kind, rec->bytes + rec->spots[field].off,
				       swap, number);
	if (field > PEV_F_AUX || !((PEV_HALVES | PEV_WORDS) >> field & 1))
		return false;
	at = rec->type == PERF_RECORD_SAMPLE ? pev_record_at(rec, field) :
					       pev_record_trailer_at(rec, field);
	if (PEV_RARELY(!at))
		return false;
	*number = PEV_WORDS >> field & 1 ?
			  pev_load64(rec->bytes + at, swap) :
			  (uint64_t)(int32_t)pev_load32(rec->bytes + at, swap);
	return true;
}

/* The length of the string at p, which ends with its NUL or with the record. */
static inline uint32_t pev_string_length(const struct pev_record *rec, const unsigned char *p)
{
	const unsigned char *end = rec->bytes + rec->end;
	const unsigned char *nul = (const unsigned char *)memchr(p, 0, (size_t)(end - p));

	return (uint32_t)((nul ? nul : end) - p);
}

static inline bool pev_record_string(const struct pev_record *rec, enum pev_field field,
				     const char **string, uint32_t *len)
{
	const unsigned char *p;

	/* Samples have no strings. */
	if (rec->type == PERF_RECORD_SAMPLE || rec->spots[field].kind != PEV_K_STRING)
		return false;
	p = rec->bytes + rec->spots[field].off;
	*string = (const char *)p;
	*len = pev_string_length(rec, p);
	return true;
}

static inline bool pev_record_raw(const struct pev_record *rec, const unsigned char **raw,
				  uint32_t *len)
{
	uint16_t at;

	if (rec->type != PERF_RECORD_SAMPLE)
		return false;
	at = pev_record_at(rec, PEV_F_RAW);
	if (PEV_RARELY(!at))
		return false;
	*raw = rec->bytes + at + 4;
	*len = pev_load32(rec->bytes + at, rec->plan->swap);
	return true;
}

static inline bool pev_record_chain(const struct pev_record *rec, const unsigned char **words,
				    uint32_t *nr)
{
	uint16_t at;

	if (rec->type != PERF_RECORD_SAMPLE)
		return false;
	at = pev_record_at(rec, PEV_F_CALLCHAIN);
	if (PEV_RARELY(!at))
		return false;
	*words = rec->bytes + at + 8;
	*nr = (uint32_t)pev_load64(rec->bytes + at, rec->plan->swap);
	return true;
}

/* The event id in a record whose attr has IDENTIFIER. */
static inline uint64_t pev_record_identifier(const unsigned char *bytes, uint16_t size, bool swap)
{
	uint32_t type = pev_load32(bytes, swap);

	if (size < 16)
		return 0;
	return pev_load64(type == PERF_RECORD_SAMPLE ? bytes + 8 : bytes + size - 8, swap);
}
