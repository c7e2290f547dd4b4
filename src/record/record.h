/*
 * record.h - where the fields of a record lie.
 *
 * Plan, not parse: from an attr the plan works out once which offsets are
 * fixed, from the start for samples and from the end for the trailer of all
 * others. pev_record_locate() walks what varies, holds every length against
 * the record's end, and is the whole decode; fields are read where they lie.
 * The layout tables stand in the kernel's writer order (perf_output_sample()
 * and its neighbours in kernel/events/core.c), which beats header comments.
 */
#ifndef PEV_RECORD_H
#define PEV_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/abi.h"
#include "base/err.h"

/* Every name a record can have a field by. Names: pev_field_names[]. */
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

/* What a field's bytes are. */
enum pev_kind {
	PEV_K_U16 = 1, PEV_K_U32, PEV_K_U64,
	PEV_K_S32,        /* pid, tid and cpu: -1 is a value */
	PEV_K_STRING,     /* up to the first NUL, at most to the trailer */
	PEV_K_BYTES,
	PEV_K_READ,       /* read_format values */
	PEV_K_CHAIN,      /* nr u64, markers included */
	PEV_K_BRANCH,     /* entries of 24 bytes; see struct pev_branch */
	PEV_K_REGS,       /* one u64 per mask bit, lowest first; abi apart */
	PEV_K_STACK,      /* the dyn_size bytes that are valid */
	PEV_K_NAMESPACES, /* nr x { u64 dev, inode } */
	PEV_K_BITS        /* u64 whose bits have names; see bits.h */
};

/* One row of a layout: a field at its offset from the record's start. */
struct pev_row {
	uint8_t field;    /* enum pev_field */
	uint8_t kind;     /* enum pev_kind */
	uint16_t off;     /* bytes from the header's start; samples: found by the plan */
	uint64_t bit;     /* samples: its PERF_SAMPLE_* bit; else 0 */
};

/* The same, found by its field; kind 0: there is none such. */
struct pev_spot {
	uint8_t kind, off;
};

/* One record type. */
struct pev_layout {
	const char *name;           /* "mmap2" */
	const char *callback;       /* the callback it is delivered to: "mmap" */
	const struct pev_row *rows; /* ends with PEV_F_NONE */
	uint16_t min;               /* header and fixed part, bytes */
	bool counts;                /* that it is long enough is not all that there is to check */
	struct pev_spot spots[PEV_F_NR]; /* of the rows; samples: none, the plan tells them */
};
extern const struct pev_layout pev_layouts[PEV_RECORD_NR]; /* [0] is "unknown" */
/* MMAP2's other form, and what stands after every record but a sample. */
extern const struct pev_row pev_mmap2_build_id_rows[];
extern const struct pev_row pev_trailer_rows[];

/* One flag of header.misc, or of a field; bits mean different things in different types. */
struct pev_misc {
	const char *name;           /* "exec", "out", "preempt", "exact_ip", "truncated", ... */
	uint32_t types;             /* bit n: record type n has it */
	uint16_t mask;
	uint8_t field;              /* enum pev_field whose bit it is; 0: header.misc's */
};
extern const struct pev_misc pev_miscs[]; /* ends with a NULL name */

/* What a sample ends with, where a look at its size is enough to find all of it. */
enum pev_tail {
	PEV_TAIL_ANY,      /* more than that: each length on the way is looked at */
	PEV_TAIL_NONE,     /* nothing varies */
	PEV_TAIL_RAW,
	PEV_TAIL_CALLCHAIN
};

/* What is made of call chains that were recorded: another kind of them cannot be asked for. */
struct pev_stack_form {
	bool no_user, no_kernel; /* without these frames */
	bool of_ip;              /* of a sample without a chain: its address alone */
};

/* What an attr makes of its records; computed once, then only read. */
struct pev_plan {
	uint64_t sample_type, read_format, branch_sample_type;
	uint64_t regs_user, regs_intr;     /* masks */
	uint64_t period;                   /* every how many events a sample that does not say so
					      is taken, where that is fixed; 0: it is not known */
	bool sample_id_all, build_id;
	bool swap;                         /* records of the other byte order */
	bool narrow;                       /* of a 32-bit recorder; set after pev_plan_init() */
	struct pev_stack_form stack;       /* set after pev_plan_init(), too */
	uint16_t fixed[PEV_F_AUX + 1];     /* samples: each field's offset, up to the first whose
					      length varies; 0: absent, or behind that one */
	uint32_t behind;                   /* bit n: field n is there, and behind it */
	uint16_t fixed_end;                /* where the part that varies begins */
	uint8_t tail;                      /* enum pev_tail */
	uint16_t trailer;                  /* bytes of sample_id after every other record */
	uint16_t from_end[PEV_F_CPU + 1];  /* others: distance of each trailer field from the end */
	uint16_t least[PEV_RECORD_NR];     /* others, by type: from which size on all of a record is
					      where its layout says; 0: no size tells */
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
	const struct pev_spot *spots;    /* others: the type's, or its other form's */
	uint16_t at[PEV_F_AUX + 1];        /* samples: where the plan's fields behind lie */
	bool branch_hw_idx, branch_counters; /* they are there; set with branch_stack */
};

/*
 * Find every field of the record at bytes. len is what is there: the header's
 * size must be 8 <= size <= len. -EBADMSG when a length inside leads past the
 * record's end or a fixed part is cut; the text says which.
 * An unknown type locates with no fields. Nothing is allocated.
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
	uint64_t extra;          /* regs: abi; branch: hw_idx; stack: size asked for */
	bool hw_idx;             /* branch: it is there, if only to say that it is unknown */
	const unsigned char *counters; /* branch: nr u64, or NULL */
};

/* False when this record has no such field. */
bool pev_record_get(const struct pev_record *rec, enum pev_field field,
		    struct pev_value *value);
/*
 * The same of what is read most, without the rest of a value: a plain number, of 32 bits with a
 * sign extended; a string's bytes, up to its NUL; a sample's raw bytes; the words of its call
 * chain, of 8 bytes each in the record's byte order. False when the record has no such field,
 * or it is not of that kind.
 */
static inline bool pev_record_number(const struct pev_record *rec, enum pev_field field,
				     uint64_t *number);
static inline bool pev_record_string(const struct pev_record *rec, enum pev_field field,
				     const char **string, uint32_t *len);
static inline bool pev_record_raw(const struct pev_record *rec, const unsigned char **raw,
				  uint32_t *len);
static inline bool pev_record_chain(const struct pev_record *rec, const unsigned char **words,
				    uint32_t *nr);
/* Of a sample without a period its event's, if that has a fixed one. */
bool pev_record_fixed_period(const struct pev_record *rec, uint64_t *period);
/* As pev_record_get, but from the sample_id trailer alone. */
bool pev_record_trailer(const struct pev_record *rec, enum pev_field field,
			struct pev_value *value);
/*
 * Is the flag set? For one of this record's type. MMAP2's build_id_form says
 * which form it is, not what the bit is: that can be another event's.
 */
bool pev_record_flag(const struct pev_record *rec, const struct pev_misc *flag);
/* The n-th field that this record has, in writer order, trailer last; 0 past the end. */
enum pev_field pev_record_nth(const struct pev_record *rec, unsigned n);

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
/* How many bytes the values take, or -EBADMSG when they do not fit in len. */
int pev_read_parse(struct pev_read *read, uint64_t format, bool swap, const void *bytes,
		   size_t len);
struct pev_read_value pev_read_at(const struct pev_read *read, uint64_t i);

/* What is false as a rule: the straight line is the other way. */
#define PEV_RARELY(condition) __builtin_expect(condition, 0)

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

/* ---- what is done once per record ---- */

/* Is a look at its size enough, and does what varies take just the rest of the sample? */
static inline bool pev_tail_fits(const struct pev_plan *plan, const unsigned char *p, uint32_t rest)
{
	switch (plan->tail) {
	case PEV_TAIL_NONE:
		return rest == 0;
	case PEV_TAIL_RAW:
		/* The kernel pads by enlarging size; files by others may not. */
		return rest >= 4 &&
		       ((pev_load32(p, plan->swap) + UINT64_C(4) + 7) & ~UINT64_C(7)) == rest;
	case PEV_TAIL_CALLCHAIN:
		return rest >= 8 && rest % 8 == 0 &&
		       pev_load64(p, plan->swap) == (rest - 8) / 8;
	default:
		return false;
	}
}

/* As pev_record_locate(), of those that are no such sample, and of those that are wrong. */
int pev_record_locate_any(struct pev_record *rec, const struct pev_plan *plan, const void *bytes,
			  size_t len, struct pev_err *err);

/* Does a look at the size of a sample, which is there, tell that all of it is as planned? */
static inline bool pev_sample_fits(const struct pev_plan *plan, const unsigned char *p,
				   uint32_t size)
{
	uint32_t fixed = plan->fixed_end;

	return size >= fixed && pev_tail_fits(plan, p + fixed, size - fixed);
}

/* A sample of that size by its header, which is there: false, and it is for _locate_any(). */
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

/* The same of one that is no sample, of that type. */
static inline bool pev_record_locate_other(struct pev_record *rec, const struct pev_plan *plan,
					   const unsigned char *p, uint32_t type, uint32_t size)
{
	uint16_t misc = pev_load16(p + 4, plan->swap);

	/* Of 0, less one is more than any size. */
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

/* Where a field of a sample lies, up to PEV_F_AUX; 0: it has none such. */
static inline uint16_t pev_record_at(const struct pev_record *rec, enum pev_field field)
{
	uint16_t at = rec->plan->fixed[field];

	return PEV_RARELY(!at) && rec->plan->behind >> field & 1 ? rec->at[field] : at;
}

/* Samples' numbers, of 32 bits with a sign and of 64 bits without: bit n of field n. */
#define PEV_HALVES (1u << PEV_F_PID | 1u << PEV_F_TID | 1u << PEV_F_CPU)
#define PEV_WORDS \
	(1u << PEV_F_IDENTIFIER | 1u << PEV_F_IP | 1u << PEV_F_TIME | 1u << PEV_F_ADDR | \
	 1u << PEV_F_ID | 1u << PEV_F_STREAM_ID | 1u << PEV_F_PERIOD | 1u << PEV_F_STACK_SIZE | \
	 1u << PEV_F_PHYS_ADDR | 1u << PEV_F_CGROUP | 1u << PEV_F_DATA_PAGE_SIZE | \
	 1u << PEV_F_CODE_PAGE_SIZE)

/* Where the sample_id after a record that is no sample has the field; 0: nowhere. */
static inline uint32_t pev_record_trailer_at(const struct pev_record *rec, enum pev_field field)
{
	uint32_t from_end = field <= PEV_F_CPU ? rec->plan->from_end[field] : 0;

	return from_end && rec->end != rec->size ? rec->end + rec->plan->trailer - from_end : 0;
}

/* The number at p; false when what is of that kind is none. */
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

/* Inlined wherever it is called: of a field that is known there, little is left to ask. */
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

/* Of the string at p, which ends with its NUL or with the record. */
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

	/* No sample has one. */
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

/* The bytes that tell an event: the id of a record whose attr has IDENTIFIER. */
static inline uint64_t pev_record_identifier(const unsigned char *bytes, uint16_t size, bool swap)
{
	uint32_t type = pev_load32(bytes, swap);

	if (size < 16)
		return 0;
	return pev_load64(type == PERF_RECORD_SAMPLE ? bytes + 8 : bytes + size - 8, swap);
}

#endif
