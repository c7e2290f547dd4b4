/*
 * record_stream.c - reads, sorts and returns the records of a recording; see record_stream.h.
 */
#include "perfdata/record_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "perfdata/tool_record.h"

/* ---- count ---- */

/*
 * The kernel writes LOST_SAMPLES for samples that the hardware lost. A recorder writes it at its
 * end for the count that read(2) returns, which includes the LOST records, or for records that a
 * filter dropped.
 */
static void count_lost_samples(struct pev_reader *reader, const struct pev_source_record *out)
{
	uint64_t lost = pev_reader_u64(reader, out->bytes + 8);

	if (!out->synthesised) {
		reader->totals.lost_samples += lost;
	} else if (!(pev_load16(out->bytes + 4, reader->event_ids.swap) &
		     PEV_MISC_LOST_SAMPLES_BPF)) {
		reader->lost_by_counts += lost;
		reader->totals.lost_read = true;
	}
}

static void count_type(struct pev_reader *reader, const struct pev_source_record *out)
{
	struct pev_reader_totals *totals = &reader->totals;

	if (out->type < sizeof(totals->types) / sizeof(totals->types[0]))
		totals->types[out->type]++;
	else
		totals->other_types++;
	if (out->type == PERF_RECORD_LOST && out->size >= 24)
		reader->lost_by_records += pev_reader_u64(reader, out->bytes + 16);
	else if (out->type == PERF_RECORD_LOST_SAMPLES && out->size >= 16)
		count_lost_samples(reader, out);
}

static void count_record(struct pev_reader *reader, const struct pev_source_record *out)
{
	count_type(reader, out);
	if (!out->time || reader->config.unordered)
		return;
	reader->totals.late += out->time < reader->last_time;
	reader->last_time = out->time > reader->last_time ? out->time : reader->last_time;
}

void pev_reader_count_taken(struct pev_reader *reader)
{
	const struct pev_source_record *out = reader->counted, *end = reader->run.at;

	reader->totals.records += (uint64_t)(end - out);
	if (out < end && reader->taken->is_plain && out->time >= reader->last_time) {
		reader->totals.types[PERF_RECORD_SAMPLE] += (uint64_t)(end - out);
		reader->last_time = end[-1].time;
		out = end;
	}
	for (; out < end; out++)
		count_record(reader, out);
	reader->counted = end;
}

/* ---- fill the run ---- */

static void fill_record(const struct pev_piece *piece, const struct pev_plan *plan, uint32_t event,
			uint64_t time, struct pev_source_record *out)
{
	*out = (struct pev_source_record){
		.bytes = piece->bytes,
		.plan = plan,
		.time = time,
		.offset = piece->offset,
		.type = piece->type,
		.event = event,
		.size = piece->size,
	};
}

/* Gives nr references to the block to the batch. */
static void keep_references(struct pev_reader_batch *batch, struct pev_block *block, uint32_t nr)
{
	struct pev_reader_held *last = batch->held + batch->nr_held;

	if (batch->nr_held && last[-1].block == block)
		last[-1].nr += nr;
	else if (nr)
		batch->held[batch->nr_held++] = (struct pev_reader_held){ block, nr };
}

static void hold_block(struct pev_reader *reader, struct pev_block *block)
{
	block->refs++;
	keep_references(reader->batch, block, 1);
}

int pev_reader_return_tool_record(struct pev_reader *reader, const struct pev_piece *piece,
				    struct pev_source_record *out)
{
	hold_block(reader, piece->block);
	/* Bytes that are no record may follow others. */
	if (piece->type != PEV_USER_FINISHED_ROUND)
		reader->runs.is_open = false;
	fill_record(piece, &reader->event_ids.plain, PEV_NO_EVENT, 0, out);
	pev_reader_apply_tool_record(reader, piece);
	return 1;
}

/* Sets the reader's and the other inputs' newest time. */
static void note_time(struct pev_reader *reader, uint64_t time)
{
	if (time > reader->max_time)
		reader->max_time = time;
	if (reader->inputs.nr_others)
		pev_input_files_advance(&reader->inputs, time);
}

#define WINDOW_FILE ((size_t)6 << 20) /* bytes of the window, if the rest stays in a file */

/* True if records in the block stay in the file, because the window is large enough. */
static bool stays_in_file(const struct pev_reader *reader, const struct pev_block *block)
{
	size_t most = reader->config.window / 2;

	if (!reader->inputs.main.seekable || reader->inputs.nr_others || block->inflated)
		return false;
	return reader->runs.merge.nr ||
	       reader->window_bytes > (most < WINDOW_FILE ? most : WINDOW_FILE);
}

static int add_to_file_runs(struct pev_reader *reader, const struct pev_piece *piece, uint64_t time)
{
	struct pev_file_runs *runs = &reader->runs;

	runs->input = &reader->inputs.main;
	runs->events = &reader->event_ids;
	runs->kinds = reader->kinds;
	if (pev_file_runs_add(runs, piece->offset, piece->size, time) < 0)
		return pev_blocks_stop(reader->inputs.at, -ENOMEM,
				       "no memory to sort the records at 0x%" PRIx64,
				       piece->offset);
	note_time(reader, time);
	reader->last_added = time;
	return 0;
}

static int add_to_window(struct pev_reader *reader, const struct pev_piece *piece, uint32_t event,
			 uint64_t time)
{
	struct pev_reorder_item item = { time, piece->bytes, piece->block->index, event,
					 (uint16_t)piece->type, piece->size };

	if (stays_in_file(reader, piece->block))
		return add_to_file_runs(reader, piece, time);
	if (pev_reorder_add(&reader->window, &item) < 0)
		return pev_blocks_stop(reader->inputs.at, -ENOMEM,
				       "no memory to sort the records at 0x%" PRIx64,
				       piece->offset);
	piece->block->refs++;
	reader->window_bytes += piece->size + sizeof(item);
	note_time(reader, time);
	reader->last_added = time;
	return 0;
}

/*
 * Keeps the symbol in the kernel's own MMAP, which has pid -1:
 * { header, pid, tid, addr, len, pgoff, [MMAP2's fields], name }. The name is "[kernel.kallsyms]"
 * and the symbol, pgoff is its address; the MMAPs of modules have no symbol
 * (perf_event__synthesize_kernel_mmap()).
 */
static void remember_kernel_symbol(struct pev_reader *reader, const struct pev_piece *piece)
{
	static const char kernel[] = "[kernel.kallsyms]";
	size_t offset = piece->type == PERF_RECORD_MMAP2 ? 72 : 40, len = sizeof(kernel) - 1;
	const char *name = (const char *)piece->bytes + offset;

	if (reader->facts.kernel_symbol[0] || piece->size <= offset + len ||
	    pev_reader_u32(reader, piece->bytes + 8) != UINT32_MAX ||
	    memcmp(name, kernel, len) != 0)
		return;
	name += len;
	len = strnlen(name, piece->size - offset - len);
	if (len >= sizeof(reader->facts.kernel_symbol))
		return;
	memcpy(reader->facts.kernel_symbol, name, len);
	reader->facts.kernel_addr = pev_reader_u64(reader, piece->bytes + 32);
}

/* Keeps a note for the caller's thread. Each kind of note comes once. */
static void add_note(struct pev_reader *reader, const char *text)
{
	struct pev_reader_batch *batch = reader->batch;

	if (batch->nr_notes < PEV_READER_NOTES_MAX)
		snprintf(batch->notes[batch->nr_notes++], sizeof(batch->notes[0]), "%s", text);
}

/* Warns once of a size that is not a multiple of 8, and once of samples without an id. */
static void note_oddities(struct pev_reader *reader, const struct pev_piece *piece)
{
	char text[160];

	if (piece->size % 8 && !reader->noted_odd) {
		reader->noted_odd = true;
		snprintf(text, sizeof(text),
			 "the record at 0x%" PRIx64 " (type %u) has %u bytes, not a multiple of 8 "
			 "as kernel records have",
			 piece->offset, piece->type, piece->size);
		add_note(reader, text);
	}
	if (reader->event_ids.ambiguous && !reader->noted_ambiguous) {
		reader->noted_ambiguous = true;
		snprintf(text, sizeof(text),
			 "the sample at 0x%" PRIx64 " has no id to choose one of %u events: such "
			 "samples are returned without event and fields",
			 piece->offset, reader->event_ids.nr);
		add_note(reader, text);
	}
}

static inline const struct pev_plan *find_plan(const struct pev_reader *reader, uint32_t event,
					       uint32_t type)
{
	return event == PEV_NO_EVENT ? pev_event_ids_common_plan(&reader->event_ids, type)
				     : &reader->event_ids.events[event]->plan;
}

/* Returns 1 if the kernel record is in *out, 0 if it is in the window. */
static int take_kernel_record(struct pev_reader *reader, const struct pev_piece *piece,
			      struct pev_source_record *out)
{
	const struct pev_piece *written = piece;
	const struct pev_plan *plan;
	struct pev_piece trimmed;
	uint32_t event;
	uint64_t time;

	if (PEV_RARELY(pev_record_may_overstate(piece->type))) {
		trimmed = *piece;
		pev_event_ids_trim_record(&reader->event_ids, &trimmed);
		written = &trimmed;
	}
	event = pev_event_ids_event_of_record(&reader->event_ids, written);
	plan = find_plan(reader, event, piece->type);
	time = pev_event_ids_record_time(plan, written);
	if (piece->type == PERF_RECORD_MMAP || piece->type == PERF_RECORD_MMAP2)
		remember_kernel_symbol(reader, piece);
	reader->has_kernel = true;
	reader->in_round |= time != 0;
	if (piece->size % 8 || reader->event_ids.ambiguous)
		note_oddities(reader, piece);
	if (time && !reader->config.unordered)
		return add_to_window(reader, piece, event, time);
	hold_block(reader, piece->block);
	fill_record(piece, plan, event, time, out);
	out->synthesised = !time && pev_event_ids_is_synthesised(&reader->event_ids, plan, written);
	return 1;
}

/* ---- the window ---- */

/* The limit of memory includes one or two blocks per input beside the window. */
static bool is_window_full(const struct pev_reader *reader)
{
	return reader->window_bytes > reader->config.window ||
	       reader->runs.merge.nr > PEV_FILE_RUNS_MAX ||
	       reader->inputs.pool.bytes >
		       2 * reader->config.window +
			       (4 + reader->inputs.nr_others / 4) * PEV_BLOCK_BYTES;
}

/* True if the window is full before a round ends: records leave it until it is half empty. */
static bool must_shrink_window(struct pev_reader *reader)
{
	if (reader->forcing) {
		reader->forcing = reader->window_bytes > reader->config.window / 2 ||
				  reader->runs.merge.nr > PEV_FILE_RUNS_MAX / 2;
		return reader->forcing;
	}
	if (!is_window_full(reader))
		return false;
	reader->forcing = true;
	reader->totals.forced++;
	if (reader->forced || reader->inputs.nr_others)
		return true;
	reader->forced = true;
	add_note(reader, reader->totals.rounds
				 ? "a round of the recorder is longer than the window: records "
				   "are sorted within the window only"
				 : "the recording has no FINISHED_ROUND marks: records are sorted "
				   "within the window only");
	return true;
}

/*
 * Writes nr >= 1 items of the window to the records at out, and passes their references to the
 * run. Most items have the event and the block of the item before.
 */
static void items_to_records(struct pev_reader *reader, const struct pev_reorder_item *item,
			     uint32_t nr, struct pev_source_record *out)
{
	const struct pev_reorder_item *end = item + nr, *first = item, *first_of_block = item;
	const struct pev_plan *plan = find_plan(reader, first->event, first->type);
	struct pev_block *block = reader->inputs.pool.blocks[first_of_block->block];
	struct pev_reader_batch *batch = reader->batch;
	uint64_t last = out > batch->records ? out[-1].time : 0;
	bool is_plain = batch->is_plain && first->type == PERF_RECORD_SAMPLE;
	size_t bytes = nr * sizeof(*item);

	for (; item < end; item++, out++) {
		if (item->block != first_of_block->block) {
			keep_references(batch, block, (uint32_t)(item - first_of_block));
			block = reader->inputs.pool.blocks[item->block];
			first_of_block = item;
		}
		if (item->event != first->event || item->type != first->type) {
			plan = find_plan(reader, item->event, item->type);
			is_plain = is_plain && item->type == PERF_RECORD_SAMPLE;
			first = item;
		}
		*out = (struct pev_source_record){
			.bytes = item->bytes,
			.plan = plan,
			.time = item->time,
			.offset = block->base +
				  (block->inflated ? 0 : (uint64_t)(item->bytes - block->bytes)),
			.type = item->type,
			.event = item->event,
			.size = item->size,
		};
		is_plain = is_plain && item->time >= last;
		last = item->time;
		bytes += item->size;
	}
	keep_references(batch, block, (uint32_t)(end - first_of_block));
	reader->window_bytes -= bytes;
	batch->is_plain = is_plain;
}

static uint64_t first_time(const struct pev_reader *reader)
{
	uint64_t in_window = pev_reorder_first(&reader->window);
	uint64_t in_file = pev_file_runs_first(&reader->runs);

	return in_window < in_file ? in_window : in_file;
}

/* Takes the oldest items of the window or of the runs in the file, whichever has the oldest. */
static uint32_t take_oldest(struct pev_reader *reader, uint64_t limit,
			    struct pev_reorder_item *items, uint32_t nr)
{
	uint64_t in_window = pev_reorder_first(&reader->window);
	uint64_t in_file = pev_file_runs_first(&reader->runs);

	if (in_window <= in_file)
		return pev_reorder_take_oldest(&reader->window, limit < in_file ? limit : in_file,
					       items, nr);
	/* Of the same time, those in the window come first in the file. */
	nr = pev_file_runs_take(&reader->runs, limit < in_window ? limit : in_window - 1, items,
				nr);
	for (uint32_t i = 0; i < nr; i++)
		reader->window_bytes += items[i].size + sizeof(*items);
	return nr;
}

/* Returns how many records of the window are complete, and the time limit for them. */
static uint32_t count_ready(struct pev_reader *reader, uint64_t *limit)
{
	if (!reader->window.live && !reader->runs.merge.nr)
		return 0;
	*limit = reader->inputs.done ? UINT64_MAX : reader->limit;
	if (first_time(reader) <= *limit)
		return PEV_READER_RUN_MAX;
	*limit = UINT64_MAX;
	return must_shrink_window(reader);
}

/* Moves the oldest complete records of the window to the run. Returns how many. */
static uint32_t take_from_window(struct pev_reader *reader)
{
	struct pev_reorder_item items[PEV_READER_RUN_MAX];
	uint32_t nr = 0, some;
	uint64_t limit;

	reader->batch->is_plain = true;
	while (nr < PEV_READER_RUN_MAX && (some = count_ready(reader, &limit)) > 0) {
		if (some > PEV_READER_RUN_MAX - nr)
			some = PEV_READER_RUN_MAX - nr;
		some = take_oldest(reader, limit, items, some);
		if (some)
			items_to_records(reader, items, some, &reader->batch->records[nr]);
		nr += some;
	}
	reader->batch->is_plain = reader->batch->is_plain && nr;
	return nr;
}

/* ---- read ---- */

/*
 * Reads the next piece of the current input. Returns 1, -ENODATA at the end of the input, or 0 if
 * the caller must call again, because the decompressed data ended.
 */
static int read_piece(struct pev_reader *reader, struct pev_piece *piece)
{
	struct pev_blocks *input = reader->inputs.at;
	int rc;

	if (input->done)
		return -ENODATA;
	if (input->packed) {
		rc = pev_blocks_next_inflated(input, piece);
		if (rc == 0) {
			pev_pool_release(input->pool, input->packed, 1);
			input->packed = NULL;
			return 0;
		}
	} else {
		rc = pev_blocks_next_record(input, piece);
		if (rc == 0 && pev_block_lane_rest(&input->inflated))
			pev_blocks_stop(input, -EBADMSG,
					"the compressed data at 0x%" PRIx64
					" ends inside a record",
					input->src_offset);
	}
	return rc > 0 ? 1 : -ENODATA;
}

/* ---- ranges that the caller has read ---- */

#define SKIP_BLOCK ((size_t)64 << 10) /* few records are read between two ranges */

const char *pev_reader_get_area(const struct pev_reader *reader, uint32_t file,
				struct pev_reader_area *area)
{
	const struct pev_input_files *inputs = &reader->inputs;
	const struct pev_blocks *input = file ? &inputs->others[file - 1].in : &inputs->main;

	if (!input->seekable || reader->facts.pipe)
		return "a pipe cannot be read again if keys have no room";
	if (reader->config.unordered || reader->has_kernel || inputs->done)
		return "records were read";
	*area = (struct pev_reader_area){
		.sys = input->sys,
		.fd = input->fd,
		.event_ids = &reader->event_ids,
		.begin = pev_blocks_offset(input),
		.end = input->limit && input->limit < input->size ? input->limit : input->size,
	};
	return area->begin <= area->end ? NULL : "the file is cut short";
}

void pev_reader_skip_ranges(struct pev_reader *reader, uint32_t file,
			    struct pev_reader_range *ranges, uint32_t nr)
{
	struct pev_blocks *input = pev_input_files_at(&reader->inputs, file);

	input->skip = input->skips = ranges;
	input->end_skip = nr ? ranges + nr : ranges;
	for (uint32_t i = 0; i < nr; i++) {
		reader->totals.records += ranges[i].samples;
		reader->totals.types[PERF_RECORD_SAMPLE] += ranges[i].samples;
	}
	if (nr)
		pev_pool_set_block(&reader->inputs.pool, SKIP_BLOCK);
}

/* True if ranges of the current file are left to skip. */
static bool has_skips(const struct pev_reader *reader)
{
	return reader->inputs.at->skip < reader->inputs.at->end_skip;
}

/* Skips the ranges that begin at the next record. */
static void skip_ranges(struct pev_reader *reader)
{
	struct pev_blocks *input = reader->inputs.at;
	uint64_t offset = pev_blocks_offset(input), before = input->pos;

	for (; has_skips(reader) && offset >= input->skip->begin; input->skip++) {
		reader->runs.is_open = false;
		if (input->skip->end > offset)
			pev_blocks_skip(input, input->skip->end - offset);
		offset = pev_blocks_offset(input);
	}
	input->bytes += input->pos - before;
	if (!has_skips(reader) && !reader->inputs.nr_others)
		pev_pool_set_block(&reader->inputs.pool, 0);
}

/* As add_samples(), if they stay in the file. */
static void add_samples_to_file_runs(struct pev_reader *reader, struct pev_block_lane *lane)
{
	struct pev_reorder_item items[PEV_READER_RUN_MAX];
	struct pev_block *block = lane->cur;
	struct pev_sample_run samples = {
		.kinds = reader->kinds,
		.at = block->bytes + lane->pos,
		.end = block->bytes + block->len,
		.since = reader->runs.last,
		.room = SIZE_MAX,
	};
	uint32_t nr;

	if (!reader->runs.is_open || has_skips(reader))
		return;
	while ((nr = pev_sample_run_read(&samples, &reader->event_ids, items,
					 PEV_READER_RUN_MAX)) > 0) {
		samples.since = reader->last_added = items[nr - 1].time;
		lane->pos = (size_t)(samples.at - block->bytes);
		pev_file_runs_extend(&reader->runs, block->base + lane->pos, samples.since);
	}
	note_time(reader, reader->last_added);
}

/* The lane with the input's next record. */
static struct pev_block_lane *lane_of(struct pev_blocks *input)
{
	return input->packed ? &input->inflated : &input->raw;
}

/* Adds the next samples to the window as long as they extend its last run. */
static void add_samples(struct pev_reader *reader)
{
	struct pev_blocks *input = reader->inputs.at;
	struct pev_block_lane *lane = lane_of(input);
	struct pev_reorder_item *items;
	uint32_t nr = pev_reorder_room(&reader->window, &items);
	struct pev_block *block = lane->cur;
	struct pev_sample_run samples;

	if (block && stays_in_file(reader, block)) {
		add_samples_to_file_runs(reader, lane);
		return;
	}
	/* With several inputs, each record decides which input is read next. */
	if (!nr || !block || reader->inputs.nr_others || reader->config.unordered ||
	    has_skips(reader))
		return;
	samples = (struct pev_sample_run){
		.kinds = reader->kinds,
		.at = block->bytes + lane->pos,
		.end = block->bytes + block->len,
		.since = reader->window.last,
		.block = block->index,
		/* A third cannot fill the window: an item has at most twice its sample's size. */
		.room = (size_t)((reader->config.window - reader->window_bytes) / 3),
	};
	nr = pev_sample_run_read(&samples, &reader->event_ids, items, nr);
	if (!nr)
		return;
	reader->window_bytes +=
		(size_t)(samples.at - block->bytes) - lane->pos + nr * sizeof(*items);
	lane->pos = (size_t)(samples.at - block->bytes);
	block->refs += nr;
	pev_reorder_extend(&reader->window, nr);
	reader->last_added = reader->window.last;
	if (reader->window.last > reader->max_time)
		reader->max_time = reader->window.last;
}

/* True on the thread that reads ahead. */
static bool is_thread(const struct pev_reader *reader)
{
	return reader->batch != &reader->own_batch;
}

/* True if the tool record changes nothing that the caller's thread uses. */
static bool can_apply_on_thread(const struct pev_reader *reader, uint32_t type)
{
	return type == PEV_USER_FINISHED_ROUND ||
	       (reader->inputs.at->inflate &&
		(type == PEV_USER_COMPRESSED || type == PEV_USER_COMPRESSED2));
}

/*
 * Reads until a record is in *out (returns 1), or until the window may have complete records
 * (returns 0): after a mark, or after a record that is not newer than the last round. Returns
 * -EAGAIN ahead of a record that the caller's thread has to read.
 */
static int read_record(struct pev_reader *reader, struct pev_source_record *out)
{
	struct pev_piece piece;
	int rc;

	if (has_skips(reader))
		skip_ranges(reader);
	while ((rc = read_piece(reader, &piece)) > 0) {
		if (piece.type >= PEV_USER_ATTR) {
			if (is_thread(reader) && !can_apply_on_thread(reader, piece.type)) {
				lane_of(reader->inputs.at)->pos -= piece.size;
				return -EAGAIN;
			}
			return pev_reader_return_tool_record(reader, &piece, out);
		}
		if (take_kernel_record(reader, &piece, out) > 0)
			return 1;
		if (reader->last_added <= reader->limit || is_window_full(reader) ||
		    reader->inputs.done)
			return 0;
		add_samples(reader);
		if (is_window_full(reader) || has_skips(reader))
			return 0;
	}
	if (rc < 0)
		pev_input_files_next(&reader->inputs);
	return 0;
}

/*
 * Reports a pipe that was cut between two records, although a pipe's head has no length. perf
 * writes FINISHED_ROUND after each drain of its rings, FINISHED_INIT (5.19) after the synthesised
 * state, and features before both (4.16). A recorder without marks must at least have written a
 * kernel record. perf inject writes marks at once and records later: if a mark ended an empty
 * round, the last mark proves nothing.
 */
static void check_pipe_end(struct pev_reader *reader)
{
	bool begun = reader->totals.types[PEV_USER_FINISHED_INIT];
	bool marks = reader->totals.rounds || reader->nr_sections;
	uint64_t end = reader->inputs.main.pos;

	if (!reader->facts.pipe || reader->inputs.main.end.code || reader->damage.code)
		return;
	if (!reader->has_kernel && !begun)
		pev_reader_add_damage(
			reader,
			"file cut short at 0x%" PRIx64 ": before the first kernel record", end);
	else if (marks && reader->in_round && !reader->empty_round)
		pev_reader_add_damage(reader,
				      "file cut short at 0x%" PRIx64
				      ": its recorder had not finished a round",
				      end);
	else if (marks && !reader->totals.rounds && !begun)
		pev_reader_add_damage(
			reader, "file cut short at 0x%" PRIx64 ": its recorder had not begun", end);
}

/*
 * Reads until the batch has records. Returns their number, 0 at the end, or -errno. Ahead,
 * returns -EAGAIN at the end and at a record that the caller's thread has to read.
 */
static int read_records(struct pev_reader *reader, struct pev_err *err)
{
	struct pev_reader_batch *batch = reader->batch;
	int nr;

	if (reader->next_ahead < reader->nr_ahead) {
		const struct pev_reader_ahead *ahead = &reader->ahead[reader->next_ahead++];

		keep_references(batch, ahead->block, 1);
		batch->records[0] = ahead->record;
		return 1;
	}
	do {
		if (reader->inputs.done) {
			if (is_thread(reader))
				return -EAGAIN;
			check_pipe_end(reader);
			return pev_reader_failure(reader, err);
		}
		nr = read_record(reader, &batch->records[0]);
		if (!nr)
			nr = (int)take_from_window(reader);
	} while (!nr);
	return nr;
}

/* Drops the references of the batch, and fills it again. Returns as read_records(). */
static int fill_batch(struct pev_reader *reader, struct pev_reader_batch *batch,
		      struct pev_err *err)
{
	int nr;

	while (batch->nr_held) {
		const struct pev_reader_held *held = &batch->held[--batch->nr_held];

		pev_pool_release(&reader->inputs.pool, held->block, held->nr);
	}
	reader->batch = batch;
	nr = (int)take_from_window(reader);
	if (!nr)
		nr = read_records(reader, err);
	batch->nr = nr > 0 ? (uint32_t)nr : 0;
	batch->unknown_id = reader->event_ids.unknown_id;
	return nr;
}

/* The bytes are in the cache when the reader of the records has read those before. */
static void prefetch_records(const struct pev_reader_batch *batch)
{
	for (uint32_t i = 0; i < batch->nr; i++) {
		__builtin_prefetch(batch->records[i].bytes);
		__builtin_prefetch(batch->records[i].bytes + 64);
	}
}

/* Lets the caller have the batch: its notes, and its records as the run. */
static void take_batch(struct pev_reader *reader, struct pev_reader_batch *batch)
{
	for (uint32_t i = 0; i < batch->nr_notes; i++)
		pev_reader_note(reader, batch->notes[i]);
	batch->nr_notes = 0;
	reader->taken = batch;
	reader->run.at = reader->counted = batch->records;
	reader->run.end = batch->records + batch->nr;
	reader->run.rows = batch->has_rows ? batch->numbers : NULL;
	if (!batch->has_rows)
		prefetch_records(batch);
}

/* ---- the thread that reads ahead ---- */

int pev_reader_set_row(struct pev_reader *reader, uint32_t event, const struct pev_number_row *row)
{
	if (!reader->pipeline)
		return -EAGAIN;
	pev_pipeline_pause(reader->pipeline);
	if (!pev_list_reserve(&reader->rows, &reader->cap_rows, event + 1, sizeof(*row)))
		return -ENOMEM;
	while (reader->nr_rows <= event)
		reader->rows[reader->nr_rows++] = (struct pev_number_row){ 0 };
	reader->rows[event] = *row;
	for (unsigned slot = 0; slot < PEV_PIPELINE_SLOTS; slot++)
		reader->thread_batches[slot].has_rows = false;
	reader->run.rows = NULL;
	return 0;
}

/* Reads the numbers of the samples whose event has a row, and counts those that follow alike. */
static void read_rows(struct pev_reader *reader, struct pev_reader_batch *batch)
{
	int64_t *numbers = batch->numbers;

	if (reader->nr_rows)
		prefetch_records(batch);
	for (uint32_t i = 0; i < batch->nr; i++) {
		struct pev_source_record *out = &batch->records[i];
		const struct pev_number_row *row =
			out->event < reader->nr_rows ? &reader->rows[out->event] : NULL;

		if (!row || row->plan != out->plan || out->type != PERF_RECORD_SAMPLE ||
		    !pev_sample_fits(out->plan, out->bytes, out->size) ||
		    !pev_number_row_read(row, out->bytes, numbers))
			continue;
		out->row = (uint16_t)(numbers - batch->numbers + 1);
		numbers += row->nr;
	}
	batch->has_rows = numbers > batch->numbers;
	for (uint32_t i = batch->nr; i-- > 1;) {
		const struct pev_source_record *next = &batch->records[i];
		struct pev_source_record *out = &batch->records[i - 1];

		if (out->row && next->row && out->event == next->event && out->time <= next->time)
			out->nr_alike = (uint8_t)(next->nr_alike + 1);
	}
}

/* A pev_pipeline_fill_fn. */
static size_t fill_on_thread(void *ctx, unsigned slot)
{
	struct pev_reader *reader = ctx;
	struct pev_reader_batch *batch = &reader->thread_batches[slot];
	size_t bytes = 0;

	fill_batch(reader, batch, NULL);
	read_rows(reader, batch);
	for (uint32_t i = 0; i < batch->nr; i++)
		bytes += batch->records[i].size;
	return bytes;
}

bool pev_reader_start_thread(struct pev_reader *reader)
{
	const struct pev_blocks *input = &reader->inputs.main;

	if (reader->pipeline)
		return true;
	/* A hook may be a function of Lua, and a pipe makes the thread wait. */
	if (input->sys != pev_sys_real || !input->seekable || reader->facts.pipe)
		return false;
	reader->thread_batches = calloc(PEV_PIPELINE_SLOTS, sizeof(*reader->thread_batches));
	if (reader->thread_batches)
		reader->pipeline = pev_pipeline_open(fill_on_thread, reader);
	return reader->pipeline != NULL;
}

/* Returns 1 and a run that the thread has filled, 0 if the caller has to fill it, or -errno. */
static int take_from_thread(struct pev_reader *reader, struct pev_err *err)
{
	int slot = reader->pipeline ? pev_pipeline_take(reader->pipeline) : -EAGAIN;

	if (slot >= 0)
		take_batch(reader, &reader->thread_batches[slot]);
	else if (slot != -EAGAIN)
		return pev_fail(err, slot, "%s: the parent process reads it", reader->name);
	else if (is_thread(reader))
		take_batch(reader, reader->batch); /* notes without a record */
	return slot >= 0;
}

int pev_reader_fill_run(struct pev_reader *reader, struct pev_err *err)
{
	int rc;

	pev_reader_count_taken(reader);
	rc = take_from_thread(reader, err);
	if (rc)
		return rc;
	rc = fill_batch(reader, &reader->own_batch, err);
	take_batch(reader, &reader->own_batch);
	if (reader->pipeline && rc > 0 && reader->own_batch.records[0].time)
		pev_pipeline_resume(reader->pipeline);
	return rc > 0 ? 1 : rc;
}

struct pev_source_run *pev_reader_run(struct pev_reader *reader) { return &reader->run; }

int pev_reader_next(struct pev_reader *reader, struct pev_source_record *out, struct pev_err *err)
{
	int rc = reader->run.at == reader->run.end ? pev_reader_fill_run(reader, err) : 1;

	if (rc > 0)
		*out = *reader->run.at++;
	return rc;
}

int pev_reader_locate_any(struct pev_reader *reader, const struct pev_source_record *from,
			  struct pev_record *rec, struct pev_err *err)
{
	struct pev_err why;

	/* The event of the sample is unknown, and so are its fields. */
	if (from->plan == &reader->event_ids.plain && from->type == PERF_RECORD_SAMPLE) {
		*rec = (struct pev_record){
			.bytes = from->bytes,
			.plan = from->plan,
			.type = from->type,
			.misc = pev_reader_u16(reader, from->bytes + 4),
			.size = from->size,
			.end = from->size,
		};
		return 0;
	}
	if (pev_record_locate(rec, from->plan, from->bytes, from->size, &why) == 0)
		return 0;
	reader->totals.malformed++;
	return pev_fail(err, -EBADMSG, "at 0x%" PRIx64 ": %s", from->offset, why.text);
}
