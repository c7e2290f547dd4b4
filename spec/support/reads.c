/*
 * reads.c - reads recordings with the core alone, and prints a line for each record.
 *
 * Prints type, offset, event and size, and a sum over all fields. The reader can so be built for
 * a machine without Lua, and its output compared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "perfdata/reader.h"

/* FNV-1a. */
static void add_bytes(uint64_t *sum, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		*sum = (*sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void add_read(uint64_t *sum, const struct pev_record *rec, const struct pev_value *value)
{
	struct pev_read read;

	if (pev_read_parse(&read, rec->plan->read_format, rec->plan->swap, value->p,
			   value->len) < 0)
		return;
	for (uint64_t i = 0; i < read.nr; i++) {
		struct pev_read_value one = pev_read_at(&read, i);

		add_bytes(sum, &one.value, 8);
		add_bytes(sum, &one.id, 8);
		add_bytes(sum, &one.lost, 8);
	}
}

static uint64_t sum_of(const struct pev_record *rec)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	struct pev_value value;
	enum pev_field field;

	for (unsigned n = 0; (field = pev_record_nth(rec, n)) != PEV_F_NONE; n++) {
		if (!pev_record_get(rec, field, &value))
			continue;
		add_bytes(&sum, &field, sizeof(field));
		add_bytes(&sum, &value.u, 8);
		add_bytes(&sum, &value.nr, 4);
		add_bytes(&sum, &value.extra, 8);
		if (value.p)
			add_bytes(&sum, value.p, value.len);
		if (value.counters)
			add_bytes(&sum, value.counters, (size_t)value.nr * 8);
		if (value.kind == PEV_K_READ)
			add_read(&sum, rec, &value);
	}
	return sum;
}

static void print_record(struct pev_reader *df, const struct pev_source_record *from)
{
	struct pev_record rec;
	struct pev_err err;

	printf("%u at 0x%" PRIx64 ": %u bytes of %d", from->type, from->offset, from->size,
	       (int)from->event);
	if (from->type >= PEV_USER_ATTR)
		printf("\n");
	else if (pev_reader_locate(df, from, &rec, &err) < 0)
		printf(", %s\n", err.text);
	else
		printf(", %016" PRIx64 "\n", sum_of(&rec));
}

static void print_recording(const char *path)
{
	struct pev_source_record from;
	struct pev_reader *df;
	struct pev_err err = { 0 };

	printf("%s\n", path);
	if (pev_reader_open(&df, &pev_sys_linux, path, -1, NULL, &err) < 0) {
		printf("%s\n", err.text);
		return;
	}
	while (pev_reader_next(df, &from, &err) > 0)
		print_record(df, &from);
	printf("%s, %" PRIu64 " bytes at one time\n", err.code ? err.text : "the end",
	       pev_reader_totals(df)->blocks);
	pev_reader_close(df);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		print_recording(argv[i]);
	return 0;
}
