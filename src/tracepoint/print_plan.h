/*
 * print_plan.h - a print format made into a list of steps that print a payload.
 *
 * The steps follow libtraceevent in what it prints for a value, so that the text is perf
 * script's; spec/tracepoint/print_plan_spec.lua compares both.
 */
#ifndef PEV_PRINT_PLAN_H
#define PEV_PRINT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/format.h"
#include "base/text_buffer.h"

struct pev_print_plan;

/* The names that a print needs besides the payload. */
struct pev_print_names {
	/* The name of an address and where the symbol begins; NULL: no name. May be NULL. */
	const char *(*symbol)(void *ctx, uint64_t addr, uint64_t *start);
	/* The kernel's constant string at an address, or NULL. */
	const char *(*string)(void *ctx, uint64_t addr);
	void *symbol_ctx, *string_ctx;
};

/*
 * NULL: the text, after "print fmt:", is not understood, or there is no memory.
 * Borrows tp. long_size is the recording machine's.
 */
struct pev_print_plan *pev_print_plan_new(const struct pev_tracepoint *tp, struct pev_span text,
					  uint32_t long_size);
void pev_print_plan_free(struct pev_print_plan *plan);

/*
 * Print a payload in which every field lies inside. False: a length or width that the payload
 * gives is more than it has; text->len is then as it was.
 */
bool pev_print_plan_run(const struct pev_print_plan *plan, const unsigned char *raw, size_t len,
			const struct pev_print_names *names, struct pev_text *text);

#endif
