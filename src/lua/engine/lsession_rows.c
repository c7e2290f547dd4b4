/*
 * lsession_rows.c - samples of a recording whose numbers were read ahead; see lsession.h.
 *
 * A row is the numbers of a sample that a callback or a loop takes as `fields`. The thread that
 * reads a recording ahead reads the rows, too: the caller's thread takes them without the record.
 */
#include "lua/engine/lsession.h"

/* Asks for rows of the slot's samples, unless a condition reads the samples anyway. */
static void read_rows_ahead(struct l_session *self, struct l_dispatch_slot *slot)
{
	struct l_fields *fields = slot->fields;
	struct pev_number_row row;

	fields->asked_row = true;
	fields->has_row = self->file && !slot->guard && l_fields_get_row(fields, &row) &&
			  pev_reader_set_row(self->recording.reader, self->engine.from->event,
					     &row) == 0;
}

bool l_session_takes_numbers(struct l_session *self)
{
	const struct pev_engine *e = &self->engine;
	struct l_dispatch_slot *slot = &self->d.slots[e->slot];

	if (!l_dispatch_takes_numbers_only(&self->d, e->slot, e->rec.type, e->rec.plan))
		return false;
	if (!slot->fields->asked_row)
		read_rows_ahead(self, slot);
	return true;
}

/* As pev_engine_count_rows(), if the rows are for the slot. */
static inline uint32_t count_rows(const struct l_session *self, uint64_t most, uint32_t *slot,
				  const int64_t **numbers)
{
	const struct pev_engine *e = &self->engine;
	uint32_t nr = pev_engine_count_rows(e, most, slot, numbers);

	return nr && l_dispatch_takes_rows(&self->d, *slot, e->source->run->at) ? nr : 0;
}

int l_session_push_row(lua_State *L, struct l_session *self)
{
	const int64_t *row;
	uint32_t slot, nr;

	if (!count_rows(self, 1, &slot, &row))
		return 0;
	pev_engine_take_row(&self->engine, slot);
	self->delivered++;
	self->d.left--;
	nr = self->d.slots[slot].fields->nr;
	for (uint32_t i = 0; i < nr; i++)
		lua_pushinteger(L, row[i]);
	return (int)nr;
}

bool l_session_call_with_rows(lua_State *L, struct l_session *self, struct l_delivery *delivery)
{
	struct pev_engine *e = &self->engine;
	struct l_dispatch *d = &self->d;
	int function = lua_gettop(L) + 1;
	uint32_t slot, generation = e->generation, left;
	unsigned process = pev_sys_this_process, nargs;
	uint64_t now = d->now, most = delivery->most - delivery->nr;
	const int64_t *row;

	left = count_rows(self, most < delivery->calls ? most : delivery->calls, &slot, &row);
	if (!left)
		return false;
	nargs = d->slots[slot].fields->nr;
	l_dispatch_push_callback(L, d, slot);
	/* A callback may close or change anything: then the next record gets a full look. */
	do {
		pev_engine_take_row(e, slot);
		delivery->nr++;
		delivery->calls--;
		self->delivered++;
		lua_pushvalue(L, function);
		for (unsigned i = 0; i < nargs; i++)
			lua_pushinteger(L, *row++);
		if (l_dispatch_call_function(L, d, function + 1, (int)nargs))
			d->stop = true;
	} while (--left && !d->stop && d->now == ++now && e->generation == generation &&
		 pev_sys_is_process(process));
	lua_settop(L, function - 1);
	return true;
}
