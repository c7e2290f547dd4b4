/*
 * print_plan.h - a print format made into a list of steps that print a payload.
 *
 * The steps print a value as libtraceevent does, so that the text equals that of perf script;
 * spec/tracepoint/print_plan_spec.lua compares both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/format.h"
#include "base/text_buffer.h"

struct pev_print_plan;

/* The names that a print needs besides the payload. */
struct pev_print_names {
	/* Returns the name of an address and the symbol's start; NULL: no name. May be NULL. */
	const char *(*symbol)(void *ctx, uint64_t addr, uint64_t *start);
	/* The kernel's constant string at an address, or NULL. */
	const char *(*string)(void *ctx, uint64_t addr);
	void *symbol_ctx, *string_ctx;
};

/*
 * Compiles the text after "print fmt:". Returns NULL if it has an unknown construct, or without
 * memory. Borrows tp. long_size is the recording machine's.
 */
struct pev_print_plan *pev_print_plan_new(const struct pev_tracepoint *tp, struct pev_span text,
					  uint32_t long_size);
void pev_print_plan_free(struct pev_print_plan *plan);

/*
 * Prints a payload that contains all its fields. Returns false, with text->len unchanged, if a
 * length or width in the payload exceeds its size.
 */
bool pev_print_plan_run(const struct pev_print_plan *plan, const unsigned char *raw, size_t len,
			const struct pev_print_names *names, struct pev_text *text);
/*
 * Prints one field as the print format shows it, without the text around it. Returns false if the
 * format does not print this field by itself, or as above.
 */
bool pev_print_plan_run_field(const struct pev_print_plan *plan, const struct pev_tp_field *field,
			      const unsigned char *raw, size_t len,
			      const struct pev_print_names *names, struct pev_text *text);
