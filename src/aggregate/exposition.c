/*
 * exposition.c - cells as samples in Prometheus' text format; see exposition.h.
 */
#include "aggregate/exposition.h"

#include <string.h>

enum { ESCAPED_AT_ONCE = 256, ESCAPED_MOST = 4 }; /* an escaped byte is up to 4 characters */

static void put(struct pev_text *text, const char *string)
{
	pev_text_put(text, string, strlen(string));
}

/* ---- labels ---- */

/* Appends bytes without a quote, backslash or line feed. */
static void put_escaped(struct pev_text *text, const char *bytes, size_t len)
{
	char escaped[ESCAPED_AT_ONCE * ESCAPED_MOST + PEV_TEXT_SHORT];
	struct pev_text buffer = { .buf = escaped, .cap = sizeof(escaped) };

	if (pev_text_is_safe(bytes, len)) {
		pev_text_put(text, bytes, len);
		return;
	}
	pev_text_escaped(&buffer, bytes, len);
	for (size_t i = 0; i < buffer.len; i++) {
		if (escaped[i] == '\\')
			pev_text_char(text, '\\');
		pev_text_char(text, escaped[i]);
	}
}

static bool is_quoted(char ch)
{
	return ch == '"' || ch == '\\' || ch == '\n';
}

/* The bytes from p that are escaped together: a character of UTF-8 is not cut. */
static size_t run_length(const char *p, const char *end)
{
	size_t len = 0;

	while (p + len < end && !is_quoted(p[len]) &&
	       (len < ESCAPED_AT_ONCE - 4 || ((unsigned char)p[len] & 0xc0) == 0x80) &&
	       len < ESCAPED_AT_ONCE)
		len++;
	return len;
}

void pev_label_add(struct pev_text *text, const char *name, const char *value, size_t len)
{
	const char *end = value + len;

	if (text->len)
		pev_text_char(text, ',');
	put(text, name);
	put(text, "=\"");
	while (value < end) {
		const size_t run = run_length(value, end);

		put_escaped(text, value, run);
		value += run;
		if (value < end && is_quoted(*value)) {
			pev_text_char(text, '\\');
			pev_text_char(text, *value == '\n' ? 'n' : *value);
			value++;
		}
	}
	pev_text_char(text, '"');
}

/* ---- numbers ---- */

/* Appends value / 10^digits, exactly: 1500000 with 9 digits is 0.0015. */
static void put_scaled(struct pev_text *text, __int128 value, unsigned digits)
{
	unsigned __int128 rest = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
	char reversed[64];
	size_t nr = 0;
	unsigned place = 0;

	if (value < 0)
		pev_text_char(text, '-');
	for (; rest || place <= digits; place++, rest /= 10) {
		const char digit = (char)('0' + (int)(rest % 10));

		if (place == digits && digits && nr)
			reversed[nr++] = '.';
		if (place >= digits || nr || digit != '0') /* no zeros at the end of a fraction */
			reversed[nr++] = digit;
	}
	while (nr)
		pev_text_char(text, reversed[--nr]);
}

static __int128 sum_of(const struct pev_cell *cell)
{
	return (__int128)(((unsigned __int128)(uint64_t)cell->sum_high << 64) | cell->sum_low);
}

/* ---- samples ---- */

struct series {
	struct pev_text *text;
	const struct pev_family *family;
	const char *labels;
	size_t len;
};

/* Appends NAMEsuffix{labels,label="} or, without a label, NAMEsuffix{labels} and a blank. */
static void begin_sample(const struct series *series, const char *suffix, const char *label)
{
	put(series->text, series->family->name);
	put(series->text, suffix);
	if (series->len || label)
		pev_text_char(series->text, '{');
	if (series->len)
		pev_text_put(series->text, series->labels, series->len);
	if (series->len && label)
		pev_text_char(series->text, ',');
	if (label) {
		put(series->text, label);
		put(series->text, "=\"");
	} else {
		put(series->text, series->len ? "} " : " ");
	}
}

static void put_sample(const struct series *series, const char *suffix, __int128 value,
		       unsigned digits)
{
	begin_sample(series, suffix, NULL);
	put_scaled(series->text, value, digits);
	pev_text_char(series->text, '\n');
}

static void put_totals(const struct series *series, const struct pev_cell *cell)
{
	put_sample(series, "_sum", sum_of(cell), series->family->digits);
	put_sample(series, "_count", cell->n, 0);
}

static void put_quantiles(const struct series *series, const struct pev_cell *cell)
{
	static const struct {
		const char *label;
		double q;
	} quantiles[] = { { "0.5", 0.5 }, { "0.9", 0.9 }, { "0.99", 0.99 }, { "0.999", 0.999 } };

	for (size_t i = 0; cell->n && i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		begin_sample(series, "", "quantile");
		put(series->text, quantiles[i].label);
		put(series->text, "\"} ");
		put_scaled(series->text, pev_agg_quantile(cell, quantiles[i].q),
			   series->family->digits);
		pev_text_char(series->text, '\n');
	}
	put_totals(series, cell);
}

static void put_bucket_end(const struct series *series, uint64_t count)
{
	put(series->text, "\"} ");
	pev_text_unsigned(series->text, count);
	pev_text_char(series->text, '\n');
}

/* le is inclusive and the upper bound of a bucket is not: le is its largest integer. */
static void put_histogram(const struct series *series, const struct pev_agg_config *config,
			  const struct pev_cell *cell)
{
	const struct pev_buckets *buckets = &cell->up;
	uint64_t count = 0;

	for (uint32_t i = series->family->first; i < series->family->end; i++) {
		const struct pev_bounds bounds = pev_agg_bounds(config, i);

		if (i - buckets->first < buckets->nr)
			count += buckets->n[i - buckets->first];
		if (!bounds.has_high)
			continue;
		begin_sample(series, "_bucket", "le");
		put_scaled(series->text, (__int128)bounds.high - 1, series->family->digits);
		put_bucket_end(series, count);
	}
	begin_sample(series, "_bucket", "le");
	put(series->text, "+Inf");
	put_bucket_end(series, cell->n);
	put_totals(series, cell);
}

void pev_family_widen(struct pev_family *family, const struct pev_cell *cell)
{
	for (uint32_t i = 0; i < cell->up.nr; i++) {
		const uint32_t bucket = cell->up.first + i;

		if (!cell->up.n[i])
			continue;
		if (family->first == family->end || bucket < family->first)
			family->first = bucket;
		if (bucket >= family->end)
			family->end = bucket + 1;
	}
}

void pev_family_write(struct pev_text *text, const struct pev_family *family,
		      const struct pev_agg_config *config, const struct pev_cell *cell,
		      const char *labels, size_t len)
{
	const struct series series = {
		.text = text, .family = family, .labels = labels, .len = len
	};

	switch (family->samples) {
	case PEV_SAMPLES_COUNT:
		put_sample(&series, "", cell->n, 0);
		break;
	case PEV_SAMPLES_SUM:
		put_sample(&series, "", sum_of(cell), family->digits);
		break;
	case PEV_SAMPLES_MIN:
		if (cell->n)
			put_sample(&series, "", cell->min, family->digits);
		break;
	case PEV_SAMPLES_MAX:
		if (cell->n)
			put_sample(&series, "", cell->max, family->digits);
		break;
	case PEV_SAMPLES_TOTALS:
		put_totals(&series, cell);
		break;
	case PEV_SAMPLES_HISTOGRAM:
		put_histogram(&series, config, cell);
		break;
	case PEV_SAMPLES_QUANTILES:
		put_quantiles(&series, cell);
		break;
	}
}
