/*
 * record_text.h - a record as a line of text or as a JSON object, with all its fields.
 *
 * The layout tables decide how a field is written. Addresses are hexadecimal, in JSON strings.
 * Other integers have all their digits, a u64 no sign. Bytes are hexadecimal; a line has only
 * the first ones. Foreign text is escaped for a terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "record/value_text.h"
#include "tracepoint/format.h"

struct pev_record_form {
	bool json, with_bytes; /* a JSON object, not a line; the record's bytes follow the fields */
	struct pev_register_names registers;
};

/* A record with the facts that its bytes do not contain. */
struct pev_shown_record {
	const struct pev_record *rec;
	uint64_t offset;                 /* in the file */
	const char *event;               /* as it is written; NULL: unknown */
	size_t event_len;
	const char *comm;                /* of its task; NULL: unknown */
	const struct pev_tracepoint *tp; /* of its payload; NULL: the payload is bytes */
	bool synthesised;
};

/* Appends the record, without a newline. */
void pev_record_put(struct pev_text *out, const struct pev_record_form *form,
		    const struct pev_shown_record *shown);
