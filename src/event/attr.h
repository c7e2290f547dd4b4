/*
 * attr.h - the fields and bits of a perf_event_attr by name.
 *
 * One table of fields serves set, get, dump, parse and the names of Lua
 * options. Contract: include/uapi/linux/perf_event.h.
 */
#pragma once

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
	uint8_t bit;       /* inside the flags word: the first bit, */
	uint8_t width;     /* and the number of bits; 0: the whole word */
	bool is_signed;    /* clockid */
	const char *since; /* the kernel version that added it, "2.6.31" */
	const struct pev_attr_bits *bits; /* named bits, or NULL */
};

/* The named bits of sample_type, read_format, branch_sample_type, aux_action. */
struct pev_attr_bits {
	const char *name;  /* lower case, without the PERF_SAMPLE_ prefix */
	uint8_t bit;
	const char *since;
};                         /* ends with a NULL name */

/* All fields in the kernel's order; the last has a NULL name. */
extern const struct pev_attr_field pev_attr_fields[];

/* Returns the field of that name, or NULL. Each name of a union is a field. */
const struct pev_attr_field *pev_attr_field(const char *name);

/*
 * Sets one field: a u64 field to the 64 bits of value; a narrower field needs a value
 * in range. -EINVAL with the user's word in err, and the nearest name if the word is
 * unknown. Reserved words cannot be set.
 */
int pev_attr_set(struct pev_attr *attr, const char *name, int64_t value,
		 struct pev_err *err);
int pev_attr_set_field(struct pev_attr *attr, const struct pev_attr_field *field,
		       int64_t value, struct pev_err *err);
int64_t pev_attr_get(const struct pev_attr *attr, const struct pev_attr_field *field);

/*
 * True if this name applies to its word. For a union type and flags decide:
 * sample_freq if freq is set, bp_addr for a breakpoint, else config1.
 */
bool pev_attr_applies(const struct pev_attr *attr, const struct pev_attr_field *field);

/* The number of a named bit ("callchain" in sample_type), or -EINVAL. */
int pev_attr_bit(const struct pev_attr_field *field, const char *name, struct pev_err *err);

/*
 * Sets attr->size to the smallest published size (PERF_ATTR_SIZE_VER0 .. VER9)
 * that covers every non-zero field, so that old kernels accept it. Returns it.
 */
uint32_t pev_attr_seal(struct pev_attr *attr);

/*
 * Prints the non-zero fields, one "  name  value" a line as perf -vv does, with the
 * names of bits; for a union the name that applies. Returns the needed length; writes
 * at most cap bytes, always NUL-terminated.
 */
size_t pev_attr_dump(const struct pev_attr *attr, char *buf, size_t cap);

/*
 * Reads an attr of any published or future size from bytes, which contain its size (0
 * counts as VER0). Fields beyond len are zero; bytes beyond VER9 are ignored.
 * swap: the bytes have the other byte order. -EINVAL below VER0.
 */
int pev_attr_parse(struct pev_attr *attr, const void *bytes, size_t len, bool swap,
		   struct pev_err *err);

/* The bits of the flags word that have no name. */
uint64_t pev_attr_unknown_flags(const struct pev_attr *attr);

/*
 * Checks an attr and its target (pid and cpu of perf_event_open()) by the rules that
 * depend on neither machine, caller nor group, to name the cause of a refusal.
 * Returns 0, or the kernel's -errno with the cause in err.
 * Source: kernel/events/core.c, perf_copy_attr() and perf_event_open().
 */
int pev_attr_check(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err);
