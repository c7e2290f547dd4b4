/*
 * touch.h - reads every byte that a located record offers, so that ASan checks each.
 */
#pragma once

#include "record/record.h"

static volatile unsigned char touched;

static inline void touch_bytes(const unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		touched ^= p[i];
}

static inline void touch_value(const struct pev_record *rec, const struct pev_value *value)
{
	struct pev_read read;

	if (value->p)
		touch_bytes(value->p, value->len);
	if (value->counters)
		touch_bytes(value->counters, (size_t)value->nr * 8);
	if (value->kind != PEV_K_READ)
		return;
	/* A located record's read values parse. */
	if (pev_read_parse(&read, rec->plan->read_format, rec->plan->swap, value->p,
			   value->len) < 0)
		__builtin_trap();
	for (uint64_t i = 0; i < read.nr; i++)
		touched ^= (unsigned char)pev_read_at(&read, i).value;
}

/* The getter of a kind returns the same value as pev_record_get(). */
static inline void touch_kind(const struct pev_record *rec, enum pev_field field,
			      const struct pev_value *value)
{
	bool is_plain = value->kind == PEV_K_U64 || value->kind == PEV_K_S32;
	const unsigned char *bytes = NULL;
	const char *string = NULL;
	uint64_t number = 0;
	uint32_t len = 0;

	if (pev_record_number(rec, field, &number) != is_plain ||
	    (is_plain && number != value->u))
		__builtin_trap();
	if (pev_record_string(rec, field, &string, &len) != (value->kind == PEV_K_STRING) ||
	    (string && ((const unsigned char *)string != value->p || len != value->len)))
		__builtin_trap();
	if (field == PEV_F_RAW && (!pev_record_raw(rec, &bytes, &len) || bytes != value->p ||
				   len != value->len))
		__builtin_trap();
	if (value->kind == PEV_K_CHAIN && pev_record_chain(rec, &bytes, &len) &&
	    (bytes != value->p || len != value->nr))
		__builtin_trap();
}

static inline void touch_record(const struct pev_record *rec)
{
	struct pev_value value;
	enum pev_field field;

	for (unsigned n = 0; (field = pev_record_nth(rec, n)) != PEV_F_NONE; n++) {
		/* A listed field exists. */
		if (!pev_record_get(rec, field, &value))
			__builtin_trap();
		touch_value(rec, &value);
		touch_kind(rec, field, &value);
	}
	for (int f = PEV_F_IDENTIFIER; f <= PEV_F_CPU; f++)
		pev_record_trailer(rec, (enum pev_field)f, &value);
}
