/*
 * traceevent.c - prints a payload by libtraceevent, for comparison.
 *
 *   traceevent.print(format_text, bytes [, { [address] = "name" }]) -> text or nil
 *
 * libtraceevent does not check formats and payloads: use those that perfev understands.
 */
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>

enum { PAYLOAD_MAX = 1 << 16, ZEROS = 4096 };

int luaopen_traceevent(lua_State *L);

/* The symbols are the table at index 3. */
static char *find_symbol(void *ctx, unsigned long long *addr, char **module)
{
	lua_State *L = ctx;
	unsigned long long best = 0;
	const char *name = NULL;

	*module = NULL;
	lua_pushnil(L);
	while (lua_next(L, 3)) {
		unsigned long long start = (unsigned long long)lua_tointeger(L, -2);

		if (start <= *addr && (!name || start > best)) {
			best = start;
			name = lua_tostring(L, -1);
		}
		lua_pop(L, 1);
	}
	if (name)
		*addr = best;
	return (char *)name;
}

static int l_print(lua_State *L)
{
	static unsigned char payload[PAYLOAD_MAX + ZEROS];
	size_t text_len, len;
	const char *text = luaL_checklstring(L, 1, &text_len);
	const char *bytes = luaL_checklstring(L, 2, &len);
	struct tep_handle *tep = tep_alloc();
	struct tep_event *event = NULL;
	struct trace_seq seq;

	luaL_argcheck(L, len <= PAYLOAD_MAX, 2, "too long");
	memset(payload, 0, sizeof(payload));
	memcpy(payload, bytes, len);
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(tep, sizeof(long));
	tep_set_page_size(tep, 4096);
	if (lua_istable(L, 3))
		tep_set_function_resolver(tep, find_symbol, L);
	trace_seq_init(&seq);
	if (tep_parse_format(tep, &event, text, text_len, "spec") == 0) {
		struct tep_record record = { .data = payload, .size = (int)len };
		unsigned short id = (unsigned short)event->id;

		memcpy(payload, &id, sizeof(id));
		tep_print_event(tep, &seq, &record, "%s", TEP_PRINT_INFO);
	}
	trace_seq_terminate(&seq);
	if (event)
		lua_pushstring(L, seq.buffer);
	else
		lua_pushnil(L);
	trace_seq_destroy(&seq);
	tep_free(tep);
	return 1;
}

int luaopen_traceevent(lua_State *L)
{
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, l_print);
	lua_setfield(L, -2, "print");
	return 1;
}
