/*
 * unordered.c - reads samples in the order of the file, on threads; see unordered.h.
 */
#include "engine/unordered.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/growing_list.h"
#include "base/pipeline.h"
#include "perfdata/event_ids.h"

#define PART_FIRST ((uint64_t)16 << 20)
#define PART_MAX ((uint64_t)512 << 20)
#define STEP_NS UINT64_C(50000000)       /* a step that takes less is followed by a longer one */
#define PART_MIN ((uint64_t)128 << 10)
#define RECORD_MAX ((size_t)64 << 10)
#define BUFFER ((size_t)128 << 10)       /* stays in the second level of the cache */
#define CHAIN 16                         /* records that prove where a record begins */
#define RANGES_MAX ((uint32_t)1 << 18)   /* 6 MiB */

struct range_list {
	struct pev_reader_range *list;
	uint32_t nr, cap;
};

/* A file of the recording. */
struct file {
	struct pev_reader_area area;
	uint64_t offset;         /* read up to here */
	bool stopped;            /* the reader reads the rest */
	struct range_list ranges;
};

/* The work of one thread. */
struct part {
	const struct pev_unordered_config *config;
	struct file *file;
	struct pev_batch batch;
	uint64_t begin, limit;   /* reads the records that begin there */
	uint64_t end;            /* of the last one */
	bool has_begin;          /* a record begins there */
	bool stopped;            /* the reader has to continue at end */
	bool has_samples;        /* or can have some before it */
	bool remaps;             /* the kernel's maps can change between samples */
	bool no_memory;
	struct range_list ranges;
	unsigned char *buffer;   /* BUFFER + RECORD_MAX bytes */
};

struct pev_unordered {
	struct pev_unordered_config config;
	uint64_t excluded;
	uint64_t part_max;       /* bytes of a part of the next step */
	struct file *files;      /* config.nr_areas */
	struct part parts[];     /* config.jobs */
};

/* ---- ranges ---- */

static int add_range(struct range_list *ranges, const struct pev_reader_range *range)
{
	struct pev_reader_range *list = ranges->list;
	uint32_t last = ranges->nr - 1;

	if (ranges->nr && list[last].end == range->begin) {
		list[last].end = range->end;
		list[last].samples += range->samples;
		return 0;
	}
	if (ranges->nr == RANGES_MAX ||
	    !pev_list_reserve(&ranges->list, &ranges->cap, ranges->nr + 1, sizeof(*list)))
		return -ENOMEM;
	ranges->list[ranges->nr++] = *range;
	return 0;
}

/* ---- samples ---- */

/* Samples without a time are for the reader. */
static bool find_event(const void *source, uint64_t id, uint32_t *number,
		       const struct pev_plan **plan)
{
	const struct pev_event_ids *events = source;
	uint32_t event = events->nr > 1 ? pev_event_ids_number_of_id(events, id) : 0;

	if (event >= events->nr)
		return false;
	*number = event;
	*plan = &events->events[event]->plan;
	return (*plan)->fixed[PEV_F_TIME];
}

/* How samples of the recording are read. The compiler makes a loop for each common value. */
struct form {
	bool swap, has_ids;
	uint16_t id_at; /* 0: no common offset */
};

static struct form form_of(const struct pev_event_ids *events)
{
	return (struct form){ events->swap, events->nr > 1,
			      events->nr > 1 ? events->sample_id_off : 0 };
}

/* Returns the layout of the sample, or NULL. */
static inline __attribute__((always_inline)) const struct pev_batch_kind *
kind_of(struct part *part, struct form form, const unsigned char *sample, uint32_t size)
{
	uint64_t id = 0;

	if (form.has_ids) {
		if (!form.id_at || size < form.id_at + 8u)
			return NULL;
		id = pev_load64(sample + form.id_at, form.swap);
	}
	return pev_batch_kind_of(&part->batch, id, sample, size);
}

/* Consumes the sample. False: the reader has to handle it. */
static inline __attribute__((always_inline)) bool
take_sample(struct part *part, struct form form, const unsigned char *sample, uint16_t size)
{
	const struct pev_unordered_config *config = part->config;
	const struct pev_batch_kind *kind = kind_of(part, form, sample, size);
	uint64_t time;

	if (!kind)
		return false;
	time = pev_load64(sample + kind->time_at, form.swap);
	if (!time || time == UINT64_MAX)
		return false;
	if (!kind->is_wanted || time < config->from || time > config->to)
		return true;
	pev_batch_add(&part->batch, kind, sample);
	return true;
}

/* ---- records ---- */

/* True if the record's size says where the next record begins. */
static bool has_known_end(uint32_t type)
{
	return type < PEV_USER_NR && type != PEV_USER_TRACING_DATA && type != PEV_USER_AUXTRACE &&
	       type != PEV_USER_COMPRESSED && type != PEV_USER_COMPRESSED2;
}

static void keep_range(struct part *part, uint64_t begin, uint64_t end, uint64_t samples)
{
	const struct pev_reader_range range = { .begin = begin, .end = end, .samples = samples };

	if (samples && add_range(&part->ranges, &range) < 0)
		part->no_memory = true;
}

static bool changes_kernel_maps(uint32_t type, const unsigned char *record, uint16_t size,
				bool swap)
{
	if (type == PERF_RECORD_KSYMBOL)
		return true;
	return (type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2) && size >= 12 &&
	       pev_load32(record + 8, swap) == UINT32_MAX; /* pid -1 */
}

/*
 * Passes a record of the kernel's maps to the consumer, if the recorder put it before all samples:
 * the reader delivers it before them, too.
 */
static bool take_kernel_map(struct part *part, const unsigned char *record, uint16_t size)
{
	const struct pev_unordered_config *config = part->config;
	const struct pev_event_ids *events = part->file->area.event_ids;
	const struct pev_piece piece = { .bytes = record, .size = size,
					 .type = pev_load32(record, events->swap) };
	const struct pev_plan *plan = pev_event_ids_common_plan(events, piece.type);
	struct pev_record rec;

	if (part->has_samples || part->ranges.nr || !events->same_trailers ||
	    !plan->from_end[PEV_F_TIME] || pev_event_ids_record_time(plan, &piece))
		return false;
	return pev_record_locate(&rec, plan, record, size, NULL) < 0 ||
	       config->map_kernel(config->batch.ctx, &rec);
}

/* Looks at a record that is left to the reader. */
static void look_at_other(struct part *part, const unsigned char *record, uint16_t size)
{
	bool swap = part->file->area.event_ids->swap;
	uint32_t type = pev_load32(record, swap);

	if (!part->config->map_kernel)
		return;
	part->has_samples = part->has_samples || type == PERF_RECORD_SAMPLE;
	if (changes_kernel_maps(type, record, size, swap) && !take_kernel_map(part, record, size))
		part->remaps = true;
}

/* As read_buffer(). */
static inline __attribute__((always_inline)) size_t
read_records(struct part *part, struct form form, const unsigned char *bytes, size_t len,
	     uint64_t offset)
{
	bool swap = form.swap;
	size_t limit = part->limit - offset < len ? (size_t)(part->limit - offset) : len;
	uint64_t samples = 0;
	size_t at = 0, begin = 0; /* begin: of the range of these samples */

	while (at < limit && len - at >= sizeof(struct perf_event_header)) {
		uint32_t type = pev_load32(bytes + at, swap);
		uint16_t size = pev_load16(bytes + at + 6, swap);

		if (size > len - at)
			break;
		if (type == PERF_RECORD_SAMPLE && size &&
		    take_sample(part, form, bytes + at, size)) {
			samples++;
			at += size;
			continue;
		}
		if (size < sizeof(struct perf_event_header) || !has_known_end(type)) {
			part->stopped = true;
			break;
		}
		keep_range(part, offset + begin, offset + at, samples);
		samples = 0;
		look_at_other(part, bytes + at, size);
		begin = at += size;
	}
	keep_range(part, offset + begin, offset + at, samples);
	pev_batch_flush(&part->batch);
	return at;
}

/*
 * Reads the records in the len bytes at bytes, which are at this offset of the file. Returns the
 * bytes of the complete ones.
 */
static size_t read_buffer(struct part *part, const unsigned char *bytes, size_t len,
			  uint64_t offset)
{
	struct form form = form_of(part->file->area.event_ids);

	if (form.swap)
		return read_records(part, form, bytes, len, offset);
	if (form.has_ids)
		return read_records(part, (struct form){ false, true, form.id_at }, bytes, len,
				    offset);
	return read_records(part, (struct form){ 0 }, bytes, len, offset);
}

/* Reads up to len bytes at an offset. Returns fewer at the end of the records or after an error. */
static size_t read_file(const struct pev_reader_area *area, unsigned char *bytes, size_t len,
			uint64_t offset)
{
	size_t got = 0;

	if (len > area->end - offset)
		len = (size_t)(area->end - offset);
	while (got < len) {
		int64_t n = area->sys->pread(area->sys->ctx, area->fd, bytes + got, len - got,
					     offset + got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

static void read_part(struct part *part)
{
	size_t kept = 0; /* bytes of an incomplete record at the buffer's begin */

	part->end = part->begin;
	while (part->end < part->limit && !part->stopped && !part->no_memory) {
		size_t got = read_file(&part->file->area, part->buffer + kept, BUFFER,
				       part->end + kept);
		size_t len = kept + got;
		size_t taken = read_buffer(part, part->buffer, len, part->end);

		part->end += taken;
		kept = len - taken;
		if (!got || kept > RECORD_MAX)
			break;
		memmove(part->buffer, part->buffer + taken, kept);
	}
	part->stopped = part->stopped || part->end < part->limit;
}

/* ---- the begin of a part ---- */

/* True if records follow each other from there on. */
static bool is_chain(struct part *part, const unsigned char *bytes, size_t len)
{
	struct form form = form_of(part->file->area.event_ids);
	size_t at = 0;

	for (int i = 0; i < CHAIN; i++) {
		uint32_t type;
		uint16_t size;

		if (len - at < sizeof(struct perf_event_header))
			break;
		type = pev_load32(bytes + at, form.swap);
		size = pev_load16(bytes + at + 6, form.swap);
		if (!type || !has_known_end(type) || size % 8 ||
		    (type >= PEV_RECORD_NR && type < PEV_USER_ATTR) ||
		    size < sizeof(struct perf_event_header))
			return false;
		if (size > len - at)
			break;
		if (type == PERF_RECORD_SAMPLE && !kind_of(part, form, bytes + at, size))
			return false;
		at += size;
	}
	return at > 0;
}

/* Finds the first record from begin on. Records of the kernel have a multiple of 8 bytes. */
static void find_begin(struct part *part)
{
	size_t len = read_file(&part->file->area, part->buffer, BUFFER, part->begin);

	for (size_t at = 0; at < len && at < RECORD_MAX && !part->has_begin; at += 8)
		if (is_chain(part, part->buffer + at, len - at)) {
			part->begin += at;
			part->has_begin = true;
		}
}

/* ---- a slice ---- */

static void *work(void *ctx)
{
	struct part *part = ctx;

	if (!part->has_begin)
		find_begin(part);
	if (part->has_begin)
		read_part(part);
	return NULL;
}

static void begin_part(struct pev_unordered *self, struct part *part, uint64_t begin,
		       uint64_t limit, bool has_begin)
{
	part->begin = begin;
	part->limit = limit;
	part->has_begin = has_begin;
	part->has_samples = part->file != self->files ||
			    begin != part->file->area.begin;
	part->stopped = part->no_memory = part->remaps = false;
	part->batch.excluded = 0;
	part->ranges.nr = part->batch.samples.nr = 0;
}

/* Returns the number of bytes that are left to read. */
static uint64_t bytes_left(const struct file *file)
{
	return file->stopped ? 0 : file->area.end - file->offset;
}

/* Cuts the next slice into parts. Returns their number. */
static uint32_t cut_slice(struct pev_unordered *self)
{
	uint64_t size = 0, least = self->config.part_min;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < self->config.nr_areas; i++)
		size += bytes_left(&self->files[i]);
	size = size / self->config.jobs + 1;
	size = size > least ? size : least;
	size = ((size > self->part_max ? self->part_max : size) + 7) & ~UINT64_C(7);
	for (uint32_t i = 0; i < self->config.nr_areas; i++) {
		struct file *file = &self->files[i];
		uint64_t left = bytes_left(file), begin = file->offset;

		while (nr < self->config.jobs && left) {
			uint64_t bytes = left < size ? left : size;
			struct part *part = &self->parts[nr++];

			part->file = file;
			begin_part(self, part, begin, begin + bytes, begin == file->offset);
			begin += bytes;
			left -= bytes;
		}
	}
	return nr;
}

/* Reads all parts, each on a thread of its own; this thread reads those that got none. */
static void read_parts(struct pev_unordered *self, uint32_t nr)
{
	pthread_t threads[PEV_UNORDERED_JOBS_MAX];
	bool has_thread[PEV_UNORDERED_JOBS_MAX] = { false };

	for (uint32_t i = 1; i < nr; i++)
		has_thread[i] = pev_thread_start(&threads[i], work, &self->parts[i]) == 0;
	work(&self->parts[0]);
	for (uint32_t i = 1; i < nr; i++) {
		if (has_thread[i])
			pthread_join(threads[i], NULL);
		else
			work(&self->parts[i]);
	}
}

/* Reads the part again if it did not begin where the part before it ended. */
static void mend_part(struct pev_unordered *self, struct part *part, uint64_t begin)
{
	if (part->has_begin && part->begin == begin)
		return;
	self->config.drop(self->config.batch.ctx, part->batch.part);
	begin_part(self, part, begin, part->limit, true);
	read_part(part);
}

static int keep_ranges(struct file *file, const struct range_list *ranges)
{
	for (uint32_t i = 0; i < ranges->nr; i++)
		if (add_range(&file->ranges, &ranges->list[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* Adds the parts in the order of the files. Returns 0, -ECANCELED or -ESTALE. */
static int join_parts(struct pev_unordered *self, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct part *part = &self->parts[i];
		struct file *file = part->file;

		if (file->stopped) {
			self->config.drop(self->config.batch.ctx, i);
			continue;
		}
		mend_part(self, part, file->offset);
		/* What the reader reads of it can have maps that are older than samples here. */
		if (self->config.map_kernel && (part->remaps || part->stopped))
			return -ESTALE;
		if (part->no_memory || keep_ranges(file, &part->ranges) < 0 ||
		    !self->config.join(self->config.batch.ctx, i))
			return -ECANCELED;
		file->offset = part->end;
		file->stopped = part->stopped;
		self->excluded += part->batch.excluded;
	}
	return 0;
}

int pev_unordered_step(struct pev_unordered *self)
{
	const struct pev_sys *sys = self->files->area.sys;
	uint32_t nr = cut_slice(self);
	uint64_t begun = 0, ended = 0;
	int rc;

	if (!nr)
		return 0;
	sys->clock(sys->ctx, CLOCK_MONOTONIC, &begun);
	read_parts(self, nr);
	sys->clock(sys->ctx, CLOCK_MONOTONIC, &ended);
	/* Threads wait for each other at the end of a step. */
	if (ended - begun < STEP_NS && self->part_max < PART_MAX)
		self->part_max *= 2;
	rc = join_parts(self, nr);
	if (rc == 0)
		return 1;
	for (uint32_t i = 0; i < self->config.nr_areas; i++)
		self->files[i].ranges.nr = 0;
	return rc;
}

/* ---- open and close ---- */

struct pev_unordered *pev_unordered_open(const struct pev_unordered_config *config)
{
	struct pev_unordered *self =
		calloc(1, sizeof(*self) + config->jobs * sizeof(self->parts[0]));
	bool has_memory;

	if (!self)
		return NULL;
	self->config = *config;
	self->part_max = PART_FIRST;
	self->config.part_min = config->part_min ? config->part_min : PART_MIN;
	self->files = calloc(config->nr_areas, sizeof(*self->files));
	has_memory = self->files != NULL;
	for (uint32_t i = 0; has_memory && i < config->nr_areas; i++) {
		self->files[i].area = config->areas[i];
		self->files[i].offset = config->areas[i].begin;
	}
	for (uint32_t i = 0; i < config->jobs; i++) {
		struct part *part = &self->parts[i];

		part->config = &self->config;
		part->batch = (struct pev_batch){
			.config = &self->config.batch, .find = find_event,
			.source = config->areas->event_ids, .part = i
		};
		part->buffer = malloc(BUFFER + RECORD_MAX);
		has_memory = has_memory && part->buffer;
	}
	if (has_memory)
		return self;
	pev_unordered_close(self);
	return NULL;
}

void pev_unordered_close(struct pev_unordered *self)
{
	for (uint32_t i = 0; self && i < self->config.jobs; i++) {
		free(self->parts[i].buffer);
		free(self->parts[i].ranges.list);
	}
	for (uint32_t i = 0; self && self->files && i < self->config.nr_areas; i++)
		free(self->files[i].ranges.list);
	if (self)
		free(self->files);
	free(self);
}

uint64_t pev_unordered_offset(const struct pev_unordered *self)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < self->config.nr_areas; i++)
		sum += self->files[i].offset;
	return sum;
}

uint64_t pev_unordered_excluded(const struct pev_unordered *self) { return self->excluded; }

struct pev_reader_range *pev_unordered_take_ranges(struct pev_unordered *self, uint32_t number,
						   uint32_t *nr)
{
	struct file *file = &self->files[number];
	struct pev_reader_range *ranges = file->ranges.list;

	*nr = file->ranges.nr;
	file->ranges = (struct range_list){ 0 };
	return ranges;
}
