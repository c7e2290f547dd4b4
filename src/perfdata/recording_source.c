/* recording_source.c - a recording as a source of records; see recording_source.h. */
#include "perfdata/recording_source.h"

#include <stddef.h>

#include "perfdata/reader_state.h"

static struct pev_recording_source *recording_of(const struct pev_source *source)
{
	return (struct pev_recording_source *)((uintptr_t)source -
					       offsetof(struct pev_recording_source, source));
}

static int begin(struct pev_source *source, enum pev_drain drain)
{
	(void)source, (void)drain;
	return 0;
}

static int end(struct pev_source *source, bool delivered)
{
	(void)source, (void)delivered;
	return 0;
}

static int fill(struct pev_source *source, struct pev_err *err)
{
	struct pev_reader *reader = recording_of(source)->reader;
	int rc = pev_reader_fill_run(reader, err);

	source->changes = pev_reader_changes(reader);
	return rc;
}

static int locate(struct pev_source *source, const struct pev_source_record *from,
		  struct pev_record *rec)
{
	struct pev_reader *reader = recording_of(source)->reader;
	struct pev_err err;
	int rc = pev_reader_locate(reader, from, rec, &err);

	if (rc < 0)
		pev_reader_note(reader, err.text);
	return rc;
}

static const struct pev_attr *attr(const struct pev_source *source, uint32_t n)
{
	return &pev_reader_event(recording_of(source)->reader, n)->attr;
}

static uint32_t count_events(const struct pev_source *source)
{
	return pev_reader_count_events(recording_of(source)->reader);
}

static uint32_t find_event(const void *source, uint64_t id)
{
	return pev_reader_find_event(recording_of(source)->reader, id);
}

static bool last_loss(struct pev_source *source, uint32_t event, uint64_t delivered,
		      struct pev_source_record *out)
{
	const struct perf_event_header header = { .type = PERF_RECORD_LOST,
						  .misc = PEV_MISC_LOST_AT_END };
	struct pev_recording_source *recording = recording_of(source);
	const struct pev_reader_totals *totals = pev_reader_totals(recording->reader);
	uint64_t lost = totals->lost + recording->lost_own;

	(void)event;
	if (!totals->lost_read || lost <= delivered)
		return false;
	pev_plan_init(&recording->plain, &(struct pev_attr){ 0 }, false);
	*out = (struct pev_source_record){
		.bytes = (const unsigned char *)recording->last_loss,
		.plan = &recording->plain,
		.type = PERF_RECORD_LOST,
		.event = PEV_NO_EVENT,
		.size = pev_lost_record(recording->last_loss, &recording->plain, &header, 0,
					lost - delivered, 0),
		.synthesised = true,
	};
	return true;
}

static const struct pev_source_calls calls = {
	.begin = begin,
	.fill = fill,
	.end = end,
	.locate = locate,
	.attr = attr,
	.count_events = count_events,
	.find_event = find_event,
	.last_loss = last_loss,
};

void pev_recording_source_init(struct pev_recording_source *recording, struct pev_reader *reader,
			       struct pev_tasks *tasks)
{
	*recording = (struct pev_recording_source){
		.source = { .calls = &calls, .run = pev_reader_run(reader), .tasks = tasks,
			    .changes = pev_reader_changes(reader), .is_recording = true },
		.reader = reader,
	};
}
