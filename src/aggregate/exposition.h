/*
 * exposition.h - cells of an aggregator as samples in Prometheus' text format 0.0.4.
 *
 * The keys of the table that is written are labels: `comm="sh",cpu="0"`, as pev_label_add()
 * writes them. A table with another key is copied to such a table first, cell by cell, because keys
 * can have the same labels, and because the number of series has a limit.
 */
#pragma once

#include "aggregate/aggregator.h"
#include "base/text_buffer.h"

/* The samples of a series; a family of metrics has one of these kinds. */
enum pev_samples {
	PEV_SAMPLES_COUNT,     /* NAME: n */
	PEV_SAMPLES_SUM,       /* NAME */
	PEV_SAMPLES_MIN,       /* NAME */
	PEV_SAMPLES_MAX,       /* NAME */
	PEV_SAMPLES_TOTALS,    /* NAME_sum, NAME_count */
	PEV_SAMPLES_HISTOGRAM, /* NAME_bucket, NAME_sum, NAME_count */
	PEV_SAMPLES_QUANTILES  /* NAME{quantile=""}, NAME_sum, NAME_count */
};

struct pev_family {
	const char *name;
	enum pev_samples samples;
	unsigned digits; /* a value of 10^digits is 1: 9 for ns that are shown as seconds */
	/* PEV_SAMPLES_HISTOGRAM: the buckets that each series has, also empty ones; see below. */
	uint32_t first, end;
};

/*
 * Appends a label, after a comma unless text is empty. In its value, bytes that are not UTF-8 and
 * characters that a terminal would execute are written as \xNN.
 */
void pev_label_add(struct pev_text *text, const char *name, const char *value, size_t len);

/*
 * Widens the range of the family's buckets to those of the cell, so that all series have the same
 * ones: sums over series need that. first == end: no bucket.
 */
void pev_family_widen(struct pev_family *family, const struct pev_cell *cell);

/* Appends the samples of the cell with these labels; config is that of the cell. */
void pev_family_write(struct pev_text *text, const struct pev_family *family,
		      const struct pev_agg_config *config, const struct pev_cell *cell,
		      const char *labels, size_t len);
