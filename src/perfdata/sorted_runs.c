/* sorted_runs.c - reads runs of records in order of time; see sorted_runs.h. */
#include "perfdata/sorted_runs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/growing_list.h"

#define RUN_BLOCK ((size_t)64 << 10) /* at least the largest record */
#define TOOLS_MIN 64                 /* first type of user-space records */

/* Fills kind. It stays unknown if the event has no time. */
static void fill_kind(struct pev_sample_kind *kind, const struct pev_event_ids *table,
		      uint32_t event, uint64_t id)
{
	uint16_t id_off = table->nr > 1 ? table->sample_id_off : 0;

	*kind = (struct pev_sample_kind){ .id = id, .event = event };
	if (event == PEV_NO_EVENT)
		return;
	kind->time_off = table->events[event]->plan.fixed[PEV_F_TIME];
	kind->min = (uint16_t)((kind->time_off > id_off ? kind->time_off : id_off) + 8u);
}

/* Returns the kind of the sample by its id, or NULL if the id has no event. */
static inline const struct pev_sample_kind *
find_kind(const struct pev_sample_run *samples, const struct pev_event_ids *table,
	  const unsigned char *bytes,
	  uint16_t size, bool swap)
{
	struct pev_sample_kind *kind;
	uint64_t id;

	if (size < table->sample_id_off + 8u)
		return NULL;
	id = pev_load64(bytes + table->sample_id_off, swap);
	kind = &samples->kinds[id % PEV_SAMPLE_KINDS];
	if (!kind->time_off || kind->id != id)
		fill_kind(kind, table, pev_event_ids_number_of_id(table, id), id);
	return kind->time_off ? kind : NULL;
}

/* The compiler makes two versions: one kind for all samples, and a kind for each id. */
static inline __attribute__((always_inline)) uint32_t
take_samples(struct pev_sample_run *samples, const struct pev_event_ids *table,
	     const struct pev_sample_kind *only_kind,
	     struct pev_reorder_item *items, uint32_t nr)
{
	const unsigned char *sample = samples->at, *end = samples->end;
	const unsigned char *last =
		samples->room < (size_t)(end - sample) ? sample + samples->room : end;
	const struct pev_sample_kind *kind = only_kind;
	uint64_t since = samples->since;
	bool swap = table->swap;
	uint32_t taken = 0;

	while (taken < nr && sample < last &&
	       (size_t)(end - sample) >= sizeof(struct perf_event_header)) {
		uint16_t size = pev_load16(sample + 6, swap);
		uint64_t time;

		if (pev_load32(sample, swap) != PERF_RECORD_SAMPLE || size % 8 ||
		    size > (size_t)(end - sample))
			break;
		if (!only_kind)
			kind = find_kind(samples, table, sample, size, swap);
		if (!kind || size < kind->min)
			break;
		time = pev_load64(sample + kind->time_off, swap);
		if (time < since || time == UINT64_MAX)
			break;
		items[taken++] = (struct pev_reorder_item){
			time, sample, samples->block, kind->event, PERF_RECORD_SAMPLE, size
		};
		since = time;
		sample += size;
	}
	samples->at = sample;
	return taken;
}

uint32_t pev_sample_run_read(struct pev_sample_run *samples, const struct pev_event_ids *table,
			     struct pev_reorder_item *items, uint32_t nr)
{
	struct pev_sample_kind only_kind;

	if (table->nr > 1)
		return table->sample_id_off ? take_samples(samples, table, NULL, items, nr) : 0;
	fill_kind(&only_kind, table, table->nr ? 0 : PEV_NO_EVENT, 0);
	return only_kind.time_off ? take_samples(samples, table, &only_kind, items, nr) : 0;
}

/* ---- runs left in a file ---- */

static void free_run(struct pev_file_runs *runs, uint32_t number)
{
	struct pev_file_run *run = runs->list[number];

	if (run->block)
		pev_pool_release(runs->input->pool, run->block, 1);
	free(run);
	runs->list[number] = NULL;
	if (number + 1 == runs->nr)
		runs->is_open = false;
}

void pev_file_runs_free(struct pev_file_runs *runs)
{
	/* The blocks are the pool's, which the caller frees. */
	for (uint32_t i = 0; i < runs->nr; i++)
		free(runs->list[i]);
	free(runs->list);
	pev_merge_free(&runs->merge);
}

/* Removes exhausted runs and updates the numbers in the heap. The order of the runs stays. */
static void remove_exhausted(struct pev_file_runs *runs)
{
	uint32_t nr = 0, *moved = calloc(runs->nr + 1, sizeof(*moved));

	if (!moved)
		return;
	for (uint32_t i = 0; i < runs->nr; i++) {
		moved[i] = nr;
		runs->list[nr] = runs->list[i];
		nr += runs->list[i] != NULL;
	}
	for (uint32_t i = 0; i < runs->merge.nr; i++)
		runs->merge.heap[i].source = moved[runs->merge.heap[i].source];
	runs->nr = nr;
	free(moved);
}

static int make_room(struct pev_file_runs *runs)
{
	if (runs->nr == runs->cap)
		remove_exhausted(runs);
	if (!pev_list_reserve(&runs->list, &runs->cap, runs->nr + 1, sizeof(struct pev_file_run *)))
		return -ENOMEM;
	return pev_merge_reserve(&runs->merge, runs->cap);
}

int pev_file_runs_add(struct pev_file_runs *runs, uint64_t offset, uint32_t size, uint64_t time)
{
	struct pev_file_run *run;

	if (!runs->is_open || time < runs->last) {
		if (make_room(runs) < 0)
			return -ENOMEM;
		run = calloc(1, sizeof(*run));
		if (!run)
			return -ENOMEM;
		run->at = offset;
		pev_merge_push(&runs->merge, time, runs->nr);
		runs->list[runs->nr++] = run;
		runs->is_open = true;
	}
	pev_file_runs_extend(runs, offset + size, time);
	return 0;
}

void pev_file_runs_extend(struct pev_file_runs *runs, uint64_t end, uint64_t time)
{
	runs->list[runs->nr - 1]->end = end;
	runs->last = time;
}

/* Reads the run's next bytes. False: the file is shorter now, or memory ran out. */
static bool load_block(struct pev_file_runs *runs, struct pev_file_run *run)
{
	uint64_t left = run->end - run->at;
	struct pev_block *block = pev_pool_get(runs->input->pool, RUN_BLOCK);
	int64_t n = -ENOMEM;

	pev_pool_release(runs->input->pool, run->block, 1);
	run->block = block;
	if (block) {
		block->inflated = false;
		block->base = run->at;
		n = pev_blocks_read_at(runs->input, block->bytes,
				       left < RUN_BLOCK ? (size_t)left : RUN_BLOCK, run->at);
		block->len = n > 0 ? (size_t)n : 0;
	}
	if (n >= (int64_t)sizeof(struct perf_event_header))
		return true;
	if (!runs->input->end.code)
		pev_blocks_stop(runs->input, n < 0 ? (int)n : -EBADMSG,
				"cannot read the records at 0x%" PRIx64 " again", run->at);
	return false;
}

/* The record as an item; time 0: it has none. Counts nothing: the record was read before. */
static struct pev_reorder_item item_of(struct pev_event_ids *events, const struct pev_piece *piece)
{
	uint64_t unknown = events->unknown_id, ambiguous = events->ambiguous;
	struct pev_piece trimmed = *piece;
	uint32_t event;

	if (pev_record_may_overstate(piece->type))
		pev_event_ids_trim_record(events, &trimmed);
	event = pev_event_ids_event_of_record(events, &trimmed);
	events->unknown_id = unknown;
	events->ambiguous = ambiguous;
	return (struct pev_reorder_item){
		pev_event_ids_record_time(event == PEV_NO_EVENT
						  ? pev_event_ids_common_plan(events, piece->type)
						  : &events->events[event]->plan,
					  &trimmed),
		piece->bytes, piece->block->index, event, (uint16_t)piece->type, piece->size
	};
}

/* Reads the record at the run's position, len bytes at p. Returns its size, 0 if it is cut. */
static uint32_t read_one(struct pev_file_runs *runs, struct pev_file_run *run,
			 const unsigned char *p, size_t len)
{
	bool swap = runs->events->swap;
	struct pev_piece piece = { .bytes = p, .block = run->block, .offset = run->at };

	if (len < sizeof(struct perf_event_header))
		return 0;
	piece.type = pev_load32(p, swap);
	piece.size = pev_load16(p + 6, swap);
	if (piece.size < sizeof(struct perf_event_header) || piece.size > len)
		return 0;
	if (piece.type < TOOLS_MIN) {
		run->items[run->nr] = item_of(runs->events, &piece);
		run->nr += run->items[run->nr].time != 0;
	}
	return piece.size;
}

/* Reads the next records of the len > 0 bytes at p. Returns the bytes that were read. */
static size_t read_items(struct pev_file_runs *runs, struct pev_file_run *run,
			 const unsigned char *p, size_t len)
{
	struct pev_sample_run samples = {
		.kinds = runs->kinds,
		.at = p,
		.end = p + len,
		.block = run->block->index,
		.room = SIZE_MAX,
	};

	run->nr = pev_sample_run_read(&samples, runs->events, run->items, PEV_FILE_RUN_ITEMS);
	return run->nr ? (size_t)(samples.at - p) : read_one(runs, run, p, len);
}

/* Reads records into the run's items. False: the run is exhausted. */
static bool fill_items(struct pev_file_runs *runs, struct pev_file_run *run)
{
	bool is_fresh = false; /* the block begins at the run's position */

	run->next = run->nr = 0;
	while (!run->nr && run->at < run->end) {
		const struct pev_block *block = run->block;
		size_t pos = block ? (size_t)(run->at - block->base) : 0, taken = 0;

		if (block && pos < block->len) {
			size_t len = block->len - pos;

			if (len > run->end - run->at)
				len = (size_t)(run->end - run->at);
			taken = read_items(runs, run, block->bytes + pos, len);
		}
		run->at += taken;
		/* No record in a fresh block: the file has changed. */
		if (!taken && (is_fresh || !load_block(runs, run)))
			return false;
		is_fresh = !taken;
	}
	if (run->nr)
		run->block->refs += run->nr;
	return run->nr > 0;
}

uint32_t pev_file_runs_take(struct pev_file_runs *runs, uint64_t limit,
			    struct pev_reorder_item *items, uint32_t nr)
{
	struct pev_merge *merge = &runs->merge;
	uint32_t taken = 0;

	while (taken < nr && merge->nr && merge->heap[0].time <= limit) {
		uint32_t number = merge->heap[0].source;
		struct pev_file_run *run = runs->list[number];

		if (run->next == run->nr && !fill_items(runs, run)) {
			pev_merge_pop(merge);
			free_run(runs, number);
			continue;
		}
		items[taken++] = run->items[run->next++];
		if (run->next < run->nr || fill_items(runs, run)) {
			pev_merge_replace(merge, run->items[run->next].time);
			continue;
		}
		pev_merge_pop(merge);
		free_run(runs, number);
	}
	return taken;
}
