/*
 * tracepoint.h - the tracepoints of one recording machine, and their print.
 *
 * A format text (hostile when it comes from a file) becomes a flat table, so that
 * reading a field is an offset, a bound and a load: struct pev_tracepoint in format.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tracepoint/format.h"

/* The formats that were added. Owns its tracepoints. */
struct pev_tracepoints;

/* big_endian and long_size (4 or 8) are those of the recording machine. */
struct pev_tracepoints *pev_tracepoints_new(bool big_endian, int long_size);
void pev_tracepoints_free(struct pev_tracepoints *tps);

/*
 * Adds a format. *tp is borrowed from tps and valid until tps is freed; the same id returns the
 * same tracepoint. Returns -EBADMSG with the reason if the text is malformed or has more than 512
 * fields.
 */
int pev_tracepoints_add(struct pev_tracepoints *tps, const char *system, const char *text,
			size_t len, const struct pev_tracepoint **tp, struct pev_err *err);

/*
 * Returns the name of an address for %pS and similar, or NULL, and sets *start to the
 * symbol's address. The name is valid until the next call.
 */
typedef const char *(*pev_symbol_fn)(void *ctx, uint64_t addr, uint64_t *start);
void pev_tracepoints_symbols(struct pev_tracepoints *tps, pev_symbol_fn fn, void *ctx);

/*
 * Adds the kernel's constant strings by address, which some events print with %s
 * (rcu:rcu_utilization): the text of tracefs' printk_formats. Skips malformed lines. Returns how
 * many were added, or -ENOMEM.
 */
int pev_tracepoints_strings(struct pev_tracepoints *tps, const char *text, size_t len);

/*
 * Prints the payload in the kernel's own print format, as perf script does.
 * Returns the length of the whole text; writes at most cap bytes, always NUL-terminated.
 */
size_t pev_tp_print(const struct pev_tracepoint *tp, const void *raw, size_t len,
		    char *buf, size_t cap);
/*
 * Prints one field as the print format does: flags and symbols by their names, addresses as such.
 * A field that the print format does not show by itself is printed as a number, text or bytes.
 * Sets *text_len to the length of the whole text, and writes as pev_tp_print() does. Returns false
 * if the field is not inside the payload.
 */
bool pev_tp_print_field(const struct pev_tracepoint *tp, const struct pev_tp_field *field,
			const void *raw, size_t len, char *buf, size_t cap, size_t *text_len);
