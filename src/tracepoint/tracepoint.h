/*
 * tracepoint.h - the tracepoints of one recording machine, and their print.
 *
 * A format text (hostile when it comes from a file) becomes a flat table, so that
 * reading a field is an offset, a bound and a load: struct pev_tracepoint in format.h.
 */
#ifndef PEV_TRACEPOINT_H
#define PEV_TRACEPOINT_H

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
 * Learn a format. *tp is borrowed from tps and stays good until tps is freed;
 * the same id again gives the same one. -EBADMSG with the reason for a text
 * that cannot be read; more than 512 fields are refused.
 */
int pev_tracepoints_add(struct pev_tracepoints *tps, const char *system, const char *text,
			size_t len, const struct pev_tracepoint **tp, struct pev_err *err);

/*
 * Names for addresses in print formats (%pS and the like): the name, or NULL,
 * and *start, where the symbol begins. Borrowed until the next call.
 */
typedef const char *(*pev_symbol_fn)(void *ctx, uint64_t addr, uint64_t *start);
void pev_tracepoints_symbols(struct pev_tracepoints *tps, pev_symbol_fn fn, void *ctx);

/*
 * The kernel's constant strings by address, which some events print with %s
 * (rcu:rcu_utilization): the text of tracefs' printk_formats. To be called before
 * the first print; lines that are not understood are skipped. How many were learned, or -ENOMEM.
 */
int pev_tracepoints_strings(struct pev_tracepoints *tps, const char *text, size_t len);

/*
 * The payload in the kernel's own print format, as perf script prints it.
 * Returns the length it needs; writes at most cap bytes, always NUL-terminated.
 */
size_t pev_tp_print(const struct pev_tracepoint *tp, const void *raw, size_t len,
		    char *buf, size_t cap);

#endif
