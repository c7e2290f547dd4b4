/*
 * printplan.h - a print format made into a list of steps, to be run for each payload.
 *
 * libtraceevent reads a print format once and then walks its trees for each record, by
 * way of printf(3) and a buffer of its own for each argument. Most formats ask for numbers,
 * strings, names of flags and little arithmetic: of those a plan writes the same bytes in a
 * tenth of the time. For the rest there is none, and libtraceevent prints.
 */
#ifndef PEV_PRINTPLAN_H
#define PEV_PRINTPLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "text.h"

struct pev_printplan;
struct tep_event;

/* As pev_symbol_fn in tracepoint.h. */
typedef const char *(*pev_printplan_fn)(void *ctx, uint64_t addr, uint64_t *start);

/*
 * The plan of an event whose tree was found to be sound (tracepoint.c); NULL: libtraceevent is
 * to print it, or there is no memory. Borrows tp and the event's strings. long_size is the
 * recording machine's.
 */
struct pev_printplan *pev_printplan_new(const struct pev_tracepoint *tp,
					const struct tep_event *event, uint32_t long_size);
void pev_printplan_free(struct pev_printplan *plan);

/*
 * Print a payload in which every field lies inside. False: of this one libtraceevent is to
 * print what there is, and text is as it was. symbol may be NULL.
 */
bool pev_printplan_run(const struct pev_printplan *plan, const unsigned char *raw,
		       pev_printplan_fn symbol, void *ctx, struct pev_text *text);

#endif
