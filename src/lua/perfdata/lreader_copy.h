/* lreader_copy.h - copies selected records of a recording to a new one. */
#pragma once

#include <lua.h>

/*
 * d:copier(writer, { wanted = (see lrecord_filter.h), events = { [n] = true }, tools_left_out =
 * { [type] = true or f(bytes) }, edit =, edited =, with_bytes = }) -> step, a function that copies
 * records.
 *
 * step(limit) copies records up to the time limit and returns the time of a record that it has not
 * copied yet, or an earlier time; nil at the end. It returns early after some records, and before
 * a record that follows new events or sections. Further results: the number of records and of
 * samples that were copied, the times of the first and last of these samples (nil: unknown).
 *
 * Records about tasks, maps, symbols and cgroups are kept up to the end of the wanted time, because
 * later records need them. The other conditions apply to the rest.
 * tools_left_out: types of tools' records that are not copied. A function returns the record to
 * copy instead, true for the same one, or nil.
 * events: only samples and other records of these events (not of losses); nil: of all.
 * edited: a set of bits of the kernel's types. For these edit(view, n, bytes) is called, with the
 * number of the event (nil: unknown) and, with with_bytes, the record's bytes. It returns true:
 * copy the record; a string: copy this record instead; false or nil: leave it out.
 */
int l_reader_copier(lua_State *L);
