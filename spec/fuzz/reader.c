/*
 * reader.c - libFuzzer: reads a recording; its first byte has flags.
 *
 * Bit 0: through a pipe, in pieces; bit 1: in the file's order; bit 3: of a 32-bit kernel; others:
 * see parse_input().
 * Invariants for any input: a record takes 8 bytes of it at least, memory is bounded, no foreign
 * memory is accessed, and a reader that ends early names the offset.
 */
#include "recording_input.h"
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_text(const char *text) { touch_bytes((const unsigned char *)text, strlen(text)); }

static void hear_note(void *ctx, const char *text)
{
	(void)ctx;
	touch_text(text);
}

static void touch_events(struct pev_reader *df)
{
	const struct pev_file_event *event;

	for (uint32_t i = 0; (event = pev_reader_event(df, i)); i++) {
		touch_bytes((const unsigned char *)event->ids, 8 * (size_t)event->nr_ids);
		if (event->name)
			touch_text(event->name);
	}
	if (pev_reader_damage(df))
		touch_text(pev_reader_damage(df));
}

static void touch_sections(struct pev_reader *df)
{
	unsigned char buf[256];

	for (uint32_t i = 0; i < pev_reader_count_sections(df); i++) {
		int64_t n = pev_reader_read_section(df, i, 0, buf, sizeof(buf));

		if (n > 0)
			touch_bytes(buf, (size_t)n);
	}
}

static void read_all(struct pev_reader *df, size_t size)
{
	const struct pev_reader_totals *totals;
	struct pev_source_record from;
	struct pev_record rec;
	struct pev_err err;
	uint64_t nr = 0;
	int rc;

	while ((rc = pev_reader_next(df, &from, &err)) > 0) {
		touch_bytes(from.bytes, from.size);
		if (from.event != PEV_NO_EVENT && !pev_reader_event(df, from.event))
			__builtin_trap();
		if (from.type < PEV_USER_ATTR && pev_reader_locate(df, &from, &rec, NULL) == 0)
			touch_record(&rec);
		nr++;
	}
	if (rc < 0 && !strstr(err.text, "0x"))
		__builtin_trap();
	totals = pev_reader_totals(df);
	/* A record takes 8 bytes at least, and the end stays the end. */
	if (nr > (size + totals->inflated) / 8 || pev_reader_next(df, &from, NULL) > 0)
		__builtin_trap();
	if (totals->blocks > (64u << 20) + 16 * size)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_reader_config config;
	struct input in;
	struct pev_sys sys = sys_of_input(&in);
	struct pev_reader *df;

	if (!size)
		return 0;
	parse_input(&in, &config, data, size);
	in.pipe = data[0] & 1;
	config.unordered = data[0] & 2;
	config.note = hear_note;
	if (pev_reader_open(&df, &sys, "fuzz", -1, &config, NULL) == 0) {
		pev_reader_set_32bit(df, data[0] & 8);
		touch_sections(df);
		read_all(df, size);
		touch_sections(df);
		touch_events(df);
		pev_reader_close(df);
	}
	if (in.open)
		__builtin_trap();
	return 0;
}
