/* lreader_pass.h - methods of a recording that read it to its end without Lua. */
#pragma once

#include <lua.h>

/*
 * d:count(keep_going) -> { samples =, events = { [n] = { samples =, periods =, types = } }, comms =
 * { [name] = samples }, synthesised = { [type] = n }, first =, last = }; the times are in ns, and
 * nil if no record has one. keep_going() -> false: end now; it is called now and then.
 */
int l_reader_count(lua_State *L);
/*
 * d:print{ describe =, tool =, keep_going =, json =, with_bytes =, types =, selects_events =,
 * count =, flushes = }: writes the records to io.output(), one on a line. describe(n) -> the name
 * of the n-th event as it is written, whether its records are printed (with selects_events).
 * tool(number, bytes, offset) -> the line of a tool's record, or nil: leave it out. types: a set
 * of bits of the kernel's types. flushes: write, and call keep_going(), at the end of each round.
 */
int l_reader_print(lua_State *L);
