/*
 * number_field.c - computes the position of a number in samples; see number_field.h.
 */
#include "record/number_field.h"

#define NATIVE_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/*
 * A number of 1, 2, 4 or 8 bytes that ends at end. It is read as the 8 bytes that end there,
 * which are inside the sample because the header has 8 bytes. The number is in their lowest bits;
 * on a little-endian recorder, in their highest.
 */
static struct pev_number_field field_ending_at(uint32_t end, uint32_t bytes, bool is_signed,
					       bool swap)
{
	uint8_t rest = (uint8_t)(64 - 8 * bytes);
	bool is_big = swap != NATIVE_BIG;

	return (struct pev_number_field){
		.at = (uint16_t)(end - 8),
		.left = is_big ? rest : 0,
		.right = rest,
		.mask = is_signed ? UINT64_MAX : UINT64_MAX >> rest,
		.swap = swap,
	};
}

struct pev_number_field pev_number_field_of(const struct pev_plan *plan, enum pev_field field)
{
	uint32_t at = field <= PEV_F_AUX ? plan->fixed[field] : 0;
	bool is_half = field <= PEV_F_AUX && PEV_HALVES >> field & 1;

	if (!at || !((PEV_HALVES | PEV_WORDS) >> field & 1))
		return (struct pev_number_field){ 0 };
	return field_ending_at(at + (is_half ? 4 : 8), is_half ? 4 : 8, is_half, plan->swap);
}

struct pev_number_field pev_number_field_of_payload(const struct pev_plan *plan,
						    const struct pev_tracepoint *tp,
						    const struct pev_tp_field *field)
{
	uint32_t raw = plan->fixed[PEV_F_RAW], size = field->elem;
	bool is_big = plan->swap != NATIVE_BIG;
	struct pev_number_field place;
	/* The end of the field's lowest bytes, which come first in little endian. */
	uint64_t end = (uint64_t)raw + 4 + field->offset + (is_big ? field->size : size);

	if (!raw || end > UINT16_MAX || field->flags & PEV_TP_ARRAY || tp->swap != plan->swap ||
	    !(size == 1 || size == 2 || size == 4 || size == 8))
		return (struct pev_number_field){ 0 };
	place = field_ending_at((uint32_t)end, size, field->flags & PEV_TP_SIGNED, plan->swap);
	place.raw = (uint16_t)raw;
	place.least = field->offset + field->size;
	return place;
}
