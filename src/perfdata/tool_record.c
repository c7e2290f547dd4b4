/*
 * tool_record.c - applies tool records: events, sections, rounds; see tool_record.h.
 */
#include "perfdata/tool_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Skips len bytes that follow a record. */
static int skip_bytes_after(struct pev_reader *reader, const struct pev_piece *piece, uint64_t len,
			    const char *what)
{
	int rc = pev_blocks_skip(reader->inputs.at, len);

	if (rc == -ENODATA)
		pev_blocks_stop(reader->inputs.at, -EBADMSG,
				"file cut short at 0x%" PRIx64 ": the %s at 0x%" PRIx64 " should "
				"be %" PRIu64 " bytes",
				reader->inputs.at->pos, what, piece->offset, len);
	else if (rc < 0)
		pev_blocks_stop(reader->inputs.at, rc, "cannot read at 0x%" PRIx64,
				reader->inputs.at->pos);
	return rc;
}

/* Keeps the tracepoint formats, len bytes after the record. */
static void keep_formats_after(struct pev_reader *reader, const struct pev_piece *piece,
			       uint32_t len)
{
	uint64_t offset = piece->offset + piece->size;
	unsigned char *bytes;
	int64_t n = pev_blocks_copy_bytes(reader->inputs.at, len, &bytes);

	if (n < 0) {
		free(bytes);
		pev_blocks_stop(reader->inputs.at, (int)n,
				"cannot read the formats at 0x%" PRIx64 ": %s", offset,
				strerror((int)-n));
		return;
	}
	pev_reader_keep_section(reader, PEV_FEAT_TRACING_DATA, offset, bytes, (uint64_t)n);
	if (n < len)
		pev_blocks_stop(reader->inputs.at, -EBADMSG,
				"file cut short at 0x%" PRIx64 ": the formats at 0x%" PRIx64
				" should be %u bytes",
				offset + (uint64_t)n, offset, len);
}

static void keep_feature(struct pev_reader *reader, const struct pev_piece *piece)
{
	uint64_t len = piece->size - 16u, id;
	unsigned char *bytes;

	if (piece->size < 16)
		return;
	id = pev_reader_u64(reader, piece->bytes + 8);
	bytes = malloc(len ? (size_t)len : 1);
	if (!bytes || id > UINT32_MAX) {
		free(bytes);
		return;
	}
	memcpy(bytes, piece->bytes + 16, (size_t)len);
	if (id == PEV_FEAT_COMPRESSED)
		pev_reader_set_buffers(reader, bytes, len);
	pev_reader_keep_section(reader, (uint32_t)id, piece->offset + 16, bytes, len);
}

/* Adds the event of a pipe: { header, attr, ids... }. A file has its events in its head. */
static void add_pipe_event(struct pev_reader *reader, const struct pev_piece *piece)
{
	struct pev_file_event *event;
	struct pev_err err = { 0 };
	uint32_t size;

	if (!reader->facts.pipe)
		return;
	size = piece->size >= 16 ? pev_reader_u32(reader, piece->bytes + 12) : 0;
	if (!size)
		size = PERF_ATTR_SIZE_VER0;
	if (size > piece->size - 8u || pev_event_ids_add(&reader->event_ids, piece->bytes + 8,
							 piece->size - 8u, &event, &err) < 0) {
		pev_reader_add_damage(reader, "the event at 0x%" PRIx64 ": %s", piece->offset,
				      err.text[0] ? err.text : "its attr exceeds its record");
		return;
	}
	for (size_t offset = 8 + (size_t)size; offset + 8 <= piece->size; offset += 8)
		if (pev_event_ids_add_id(&reader->event_ids, event, reader->event_ids.nr - 1,
					 pev_reader_u64(reader, piece->bytes + offset)) < 0)
			return;
}

/* Renames an event: { header, u64 type, u64 id, name }. PERF_EVENT_UPDATE__NAME is 2. */
static void rename_event(struct pev_reader *reader, const struct pev_piece *piece)
{
	struct pev_file_event *event;
	size_t len;
	char *name;

	if (piece->size <= 24 || pev_reader_u64(reader, piece->bytes + 8) != 2)
		return;
	event = pev_event_ids_event_of_id(&reader->event_ids,
					  pev_reader_u64(reader, piece->bytes + 16));
	len = strnlen((const char *)piece->bytes + 24, piece->size - 24u);
	name = event ? strndup((const char *)piece->bytes + 24, len) : NULL;
	if (!name)
		return;
	free(event->name);
	event->name = name;
	reader->changes++;
}

/*
 * Ends a round. Every record of the next round is newer than the round before this one, so that
 * round is complete (ordered_events__flush(), OE_FLUSH__ROUND).
 */
static void end_round(struct pev_reader *reader)
{
	reader->totals.rounds++;
	reader->empty_round |= !reader->in_round;
	reader->in_round = false;
	/* The round of one input has no meaning for the others. */
	if (reader->inputs.nr_others)
		return;
	reader->limit = reader->round_max;
	reader->round_max = reader->max_time;
}

/* Keeps the formats in a record that is longer than its piece. */
static void keep_long_formats(struct pev_reader *reader, const struct pev_piece *piece,
			      uint32_t len)
{
	uint32_t first = piece->size - 12u;
	unsigned char *rest, *bytes;
	int64_t n = pev_blocks_copy_bytes(reader->inputs.at, piece->more, &rest);

	bytes = n == (int64_t)piece->more ? malloc(len) : NULL;
	if (bytes) {
		memcpy(bytes, piece->bytes + 12, first);
		memcpy(bytes + first, rest, len - first);
		pev_reader_keep_section(reader, PEV_FEAT_TRACING_DATA, piece->offset + 12, bytes,
					len);
	} else {
		pev_blocks_stop(reader->inputs.at, n < 0 ? (int)n : -EBADMSG,
				"cannot read the formats at 0x%" PRIx64, piece->offset);
	}
	free(rest);
}

/*
 * Keeps the tracepoint formats: { header, u32 len }, and len bytes after the record. simpleperf
 * writes the bytes into the record: a long record of its own type or, up to 2019, of perf's.
 */
static void keep_formats(struct pev_reader *reader, const struct pev_piece *piece)
{
	uint64_t record_size = (uint64_t)piece->size + piece->more;
	uint32_t len = piece->size >= 12 ? pev_reader_u32(reader, piece->bytes + 8) : 0;
	unsigned char *bytes;

	if (!len || record_size < 12 + (uint64_t)len) {
		if (len && piece->type == PEV_USER_TRACING_DATA)
			keep_formats_after(reader, piece, len);
		else
			skip_bytes_after(reader, piece, piece->more, "record");
		return;
	}
	if (len > piece->size - 12u) {
		keep_long_formats(reader, piece, len);
		return;
	}
	skip_bytes_after(reader, piece, piece->more, "record");
	bytes = malloc(len);
	if (!bytes)
		return;
	memcpy(bytes, piece->bytes + 12, len);
	pev_reader_keep_section(reader, PEV_FEAT_TRACING_DATA, piece->offset + 12, bytes, len);
}

/* Adds ids of simpleperf's later events: { header, u64 nr, { u64 event, u64 id } x nr }. */
static void add_event_ids(struct pev_reader *reader, const struct pev_piece *piece)
{
	for (size_t offset = 16; offset + 16 <= piece->size; offset += 16) {
		uint64_t n = pev_reader_u64(reader, piece->bytes + offset);

		if (n < reader->event_ids.nr &&
		    pev_event_ids_add_id(&reader->event_ids, reader->event_ids.events[n],
					 (uint32_t)n,
					 pev_reader_u64(reader, piece->bytes + offset + 8)) < 0)
			return;
	}
	reader->changes++;
}

void pev_reader_apply_tool_record(struct pev_reader *reader, const struct pev_piece *piece)
{
	if (piece->more && piece->type != PEV_SIMPLEPERF_TRACING_DATA)
		skip_bytes_after(reader, piece, piece->more, "record");
	switch (piece->type) {
	case PEV_USER_ATTR: add_pipe_event(reader, piece); break;
	case PEV_USER_EVENT_UPDATE: rename_event(reader, piece); break;
	case PEV_USER_FEATURE: keep_feature(reader, piece); break;
	case PEV_USER_FINISHED_ROUND: end_round(reader); break;
	case PEV_USER_TRACING_DATA:
	case PEV_SIMPLEPERF_TRACING_DATA: keep_formats(reader, piece); break;
	case PEV_SIMPLEPERF_EVENT_ID: add_event_ids(reader, piece); break;
	case PEV_USER_AUXTRACE:
		if (piece->size < 16)
			break;
		reader->totals.auxtrace += pev_reader_u64(reader, piece->bytes + 8);
		skip_bytes_after(reader, piece, pev_reader_u64(reader, piece->bytes + 8),
				 "AUX data");
		break;
	case PEV_USER_COMPRESSED:
	case PEV_USER_COMPRESSED2: pev_blocks_start_inflate(reader->inputs.at, piece); break;
	}
}
