/*
 * attr.h - names <-> the fields and bits of a perf_event_attr.
 *
 * The table of fields is the one truth: set, get, dump, parse and the Lua
 * option names all walk it. Contract: include/uapi/linux/perf_event.h.
 */
#ifndef PEV_ATTR_H
#define PEV_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/abi.h"
#include "base/err.h"

/* One settable field of struct pev_attr, by the kernel's own name. */
struct pev_attr_field {
	const char *name;
	uint16_t off;      /* byte offset in struct pev_attr */
	uint8_t size;      /* bytes: 2, 4 or 8 */
	uint8_t bit;       /* for a field inside the flags word: its first bit, */
	uint8_t width;     /* and how many bits; 0: the field is the whole word */
	bool is_signed;    /* clockid */
	const char *since; /* the kernel that brought it, "2.6.31" */
	const struct pev_attr_bits *bits; /* names of its bits, or NULL */
};

/* The named bits of sample_type, read_format, branch_sample_type, aux_action. */
struct pev_attr_bits {
	const char *name;  /* lower case, without the PERF_SAMPLE_ prefix */
	uint8_t bit;
	const char *since;
};                         /* ends with a NULL name */

/* All fields in the kernel's order; the last has a NULL name. */
extern const struct pev_attr_field pev_attr_fields[];

/* The field of that name, or NULL. Aliases of a union are fields of their own. */
const struct pev_attr_field *pev_attr_field(const char *name);

/*
 * Set one field; for u64 fields value's 64 bits are taken as they are, for
 * narrower ones it must be in range. -EINVAL with the user's word in err, and
 * the nearest name where the word is unknown. Reserved words cannot be set.
 */
int pev_attr_set(struct pev_attr *attr, const char *name, int64_t value,
		 struct pev_err *err);
int pev_attr_set_field(struct pev_attr *attr, const struct pev_attr_field *field,
		       int64_t value, struct pev_err *err);
int64_t pev_attr_get(const struct pev_attr *attr, const struct pev_attr_field *field);

/*
 * Does this name speak for its word? Of a union's names type and flags choose
 * one: sample_freq where freq is set, bp_addr in a breakpoint, else config1.
 */
bool pev_attr_speaks(const struct pev_attr *attr, const struct pev_attr_field *field);

/* The bit of that name in a field that has bits ("callchain" in sample_type), or -EINVAL. */
int pev_attr_bit(const struct pev_attr_field *field, const char *name, struct pev_err *err);

/*
 * Set attr->size to the smallest published size (PERF_ATTR_SIZE_VER0 .. VER9)
 * that covers every non-zero field, so that old kernels accept it. Returns it.
 */
uint32_t pev_attr_seal(struct pev_attr *attr);

/*
 * Non-zero fields by the kernel's name, one "  name  value" a line as perf -vv
 * prints them, bits spelled out; unions by what type and flags make of them.
 * Returns the length it needs; writes at most cap bytes, always NUL-terminated.
 */
size_t pev_attr_dump(const struct pev_attr *attr, char *buf, size_t cap);

/*
 * Read an attr of any published or future size from bytes (attr->size is taken
 * from them, 0 counts as VER0). Fields beyond len are zero, bytes beyond VER9
 * ignored. swap: the bytes are of the other byte order. -EINVAL below VER0.
 */
int pev_attr_parse(struct pev_attr *attr, const void *bytes, size_t len, bool swap,
		   struct pev_err *err);

/*
 * Hold an attr and its target (pid, cpu as perf_event_open takes them) against
 * the rules that depend on nothing else, neither machine nor caller nor group, so that
 * the reason can be told. 0, or -errno as the kernel would return it, with the reason in err.
 * Source: kernel/events/core.c, perf_copy_attr() and perf_event_open().
 */
int pev_attr_check(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err);

#endif
