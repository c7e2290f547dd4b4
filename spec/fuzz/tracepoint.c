/*
 * tracepoint.c - libFuzzer: a format text and a payload, a zero byte between them.
 */
#include <stdlib.h>
#include <string.h>

#include "touch.h"
#include "tracepoint/tracepoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_fields(const struct pev_tracepoint *tp, const unsigned char *raw, size_t len)
{
	for (uint32_t i = 0; i < tp->nr; i++) {
		struct pev_tp_value value;

		if (pev_tp_get(tp, &tp->fields[i], raw, len, &value) < 0 || !value.p)
			continue;
		touch_bytes(value.p, value.len);
		uint32_t elem = tp->fields[i].elem ? tp->fields[i].elem : 1;

		for (uint32_t k = 0; k < value.len / elem; k++)
			touched ^= (unsigned char)pev_tp_element(tp, &tp->fields[i], &value, k);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
	const struct pev_tracepoint *tp;
	struct pev_tracepoints *tps;
	unsigned char *raw;
	char text[1024];
	size_t len;

	if (!end)
		return 0;
	len = (size_t)(data + size - end - 1);
	tps = pev_tracepoints_new(data[0] & 1, data[0] & 2 ? 4 : 8);
	raw = malloc(len ? len : 1);
	if (tps && raw &&
	    pev_tracepoints_add(tps, "fuzz", (const char *)data + 1, (size_t)(end - data - 1), &tp,
				NULL) == 0) {
		memcpy(raw, end + 1, len);
		touch_fields(tp, raw, len);
		pev_tp_print(tp, raw, len, text, sizeof(text));
	}
	free(raw);
	pev_tracepoints_free(tps);
	return 0;
}
