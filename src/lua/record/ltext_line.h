/*
 * ltext_line.h - the userdata perfev.line: prints one line of text per record.
 *
 * Used in the place of a callback, it prints each record without running Lua: numbers, names and
 * the payload's own text go through base/text_buffer.h into the file that print() writes to. Its
 * format is parsed once. Lua can also ask it for the line of one record.
 */
#pragma once

#include <lua.h>

#include "lua/record/largs.h"
#include "lua/record/lrecord.h"

struct l_text_line;

/* The one at idx, or NULL. */
const struct l_text_line *l_text_line_test(lua_State *L, int idx);

/*
 * Pushes a userdata that prints the line at idx for an event of that name. The value at idx
 * must outlive it.
 */
struct l_text_line *l_text_line_push(lua_State *L, int idx, const char *event);

/*
 * Writes the record's line to io.output(), which is looked up again when the view's count of
 * callbacks has changed. context is the stack index of the views' table; args is NULL without a
 * payload. Raises if memory runs out; flushing the file reports a failed write.
 */
void l_text_line_feed(struct l_text_line *line, lua_State *L, int context,
		      const struct l_view *view, const struct l_args *args);
