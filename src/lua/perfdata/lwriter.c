/*
 * lwriter.c - the userdata perfev.core.writer: a pev_writer.
 *
 * Internal: lua/perfev/perfdata/writer.lua decides the content and its order.
 */
#include "lua/perfdata/lwriter.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>

#include "lua/event/lattr.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/lhooks.h"
#include "lua/base/loption.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"
#include "base/output_file.h"
#include "perfdata/file_tables.h"

#define TYPENAME "perfev.core.writer"

struct l_writer {
	struct pev_writer *writer; /* owned; NULL once closed */
	const struct pev_sys *sys;
	bool attached;            /* a session writes to it */
	bool finished;
};

static struct l_writer *check_writer(lua_State *L, int idx)
{
	struct l_writer *self = luaL_checkudata(L, idx, TYPENAME);

	if (!self->writer)
		luaL_error(L, "the recording is closed");
	l_hooks_enter(L, self->sys);
	return self;
}

struct pev_writer *l_writer_enter(lua_State *L, int idx) { return check_writer(L, idx)->writer; }

struct pev_writer *l_writer_attach(lua_State *L, int idx)
{
	struct l_writer *self = check_writer(L, idx);

	if (self->attached)
		luaL_error(L, "a session writes this recording");
	self->attached = true;
	return self->writer;
}

void l_writer_detach(lua_State *L, int idx)
{
	struct l_writer *self = luaL_testudata(L, idx, TYPENAME);

	if (self)
		self->attached = false;
}

/* Returns perfev.zstd's compressor. Loaded here, so that only compression needs libzstd. */
static const struct pev_deflate *find_deflate(lua_State *L)
{
	const struct pev_deflate *deflate = NULL;
	int top = lua_gettop(L);

	lua_getglobal(L, "require");
	lua_pushliteral(L, "perfev.zstd");
	if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
		lua_getfield(L, -1, "deflate");
		deflate = lua_touserdata(L, -1);
	}
	lua_settop(L, top);
	return deflate;
}

/*
 * writer{ path =, level = (0: uncompressed), chunk =, fd =, whole = } -> writer
 * | nil, message, errno
 */
static int l_writer(lua_State *L)
{
	struct pev_writer_config config = { 0 };
	struct l_writer *self;
	struct pev_err err;
	const char *path;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	config.level = (int)l_option_integer(L, 1, "level", 0);
	config.chunk = (uint32_t)l_option_integer(L, 1, "chunk", 0);
	config.fd = (int)l_option_integer(L, 1, "fd", 0);
	config.whole = l_option_bool(L, 1, "whole");
	lua_getfield(L, 1, "path");
	path = luaL_checkstring(L, -1);
	if (config.level) {
		config.deflate = find_deflate(L);
		if (!config.deflate)
			return l_result(L, pev_fail(&err, -ENOSYS, "cannot compress: perfev.zstd "
						    "is not installed (make install puts "
						    "it beside perfev's core)"), &err);
	}
	self = lua_newuserdatauv(L, sizeof(*self), 1);
	*self = (struct l_writer){ 0 };
	luaL_setmetatable(L, TYPENAME);
	self->sys = l_hooks_push(L);
	lua_setiuservalue(L, -2, 1);
	rc = pev_writer_open(&self->writer, self->sys, path, &config, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	l_raise_pending(L);
	return 1;
}

static int push_result(lua_State *L, const struct l_writer *self, int rc)
{
	return l_result(L, rc, pev_writer_failure(self->writer));
}

/* Copies the list of ids at idx into a userdata, which stays on the stack. */
static uint64_t *push_ids(lua_State *L, int idx, uint32_t *nr)
{
	uint64_t *ids;

	luaL_checktype(L, idx, LUA_TTABLE);
	*nr = (uint32_t)lua_rawlen(L, idx);
	ids = lua_newuserdatauv(L, sizeof(*ids) * (*nr + 1), 0);
	for (uint32_t i = 0; i < *nr; i++) {
		lua_rawgeti(L, idx, (lua_Integer)i + 1);
		ids[i] = (uint64_t)luaL_checkinteger(L, -1);
		lua_pop(L, 1);
	}
	return ids;
}

/* rec:event(attr, ids, name) -> 0 | nil, message, errno; the following methods return the same */
static int l_writer_event(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	const struct pev_attr *attr = l_attr_check(L, 2);
	const char *name = luaL_checkstring(L, 4);
	uint32_t nr;
	const uint64_t *ids = push_ids(L, 3, &nr);

	return push_result(L, self, pev_writer_event(self->writer, attr, ids, nr, name));
}

/* rec:feature(id, bytes) */
static int l_writer_feature(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	lua_Integer id = luaL_checkinteger(L, 2);
	size_t len;
	const char *bytes = luaL_checklstring(L, 3, &len);

	luaL_argcheck(L, id > 0 && id < 256, 2, "no feature");
	return push_result(L, self, pev_writer_feature(self->writer, (uint32_t)id, bytes, len));
}

/* rec:tracing(bytes) */
static int l_writer_tracing(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);

	return push_result(L, self, pev_writer_tracing(self->writer, bytes, len));
}

/* rec:begin() */
static int l_writer_begin(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);

	return push_result(L, self, pev_writer_begin(self->writer));
}

/* rec:records(bytes) */
static int l_writer_records(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);

	return push_result(L, self, pev_writer_records(self->writer, bytes, len));
}

/* rec:append(bytes): one record, in the order of time */
static int l_writer_append(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);

	luaL_argcheck(L, len <= UINT16_MAX, 2, "longer than a record");
	return push_result(L, self, pev_writer_append(self->writer, bytes, len));
}

/* rec:finish(name or nil) */
static int l_writer_finish(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	struct pev_err err;

	if (self->finished)
		return luaL_error(L, "the recording is finished");
	self->finished = true;
	return l_result(L, pev_writer_finish(self->writer, luaL_optstring(L, 2, NULL), &err), &err);
}

/* w:publish(): gives the file its name now; failure() has the error */
static int l_writer_publish(lua_State *L)
{
	pev_writer_publish(check_writer(L, 1)->writer);
	return 0;
}

/* w:remove(name) -> true | nil, message, errno: removes an earlier part */
static int l_writer_remove(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	struct pev_err err;

	return l_result(L, pev_writer_remove(self->writer, luaL_checkstring(L, 2), &err), &err);
}

/* rec:failure() -> nothing | message, errno */
static int l_writer_failure(lua_State *L)
{
	const struct pev_err *failure = pev_writer_failure(check_writer(L, 1)->writer);

	if (!failure)
		return 0;
	lua_pushstring(L, failure->text);
	lua_pushinteger(L, -failure->code);
	return 2;
}

/* rec:path() -> the current path of the file */
static int l_writer_path(lua_State *L)
{
	lua_pushstring(L, pev_writer_path(check_writer(L, 1)->writer));
	return 1;
}

/* rec:size() -> bytes */
static int l_writer_size(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pev_writer_size(check_writer(L, 1)->writer));
	return 1;
}

/* rec:samples() -> number of samples from rings [, time of the first, time of the last] */
static int l_writer_samples(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	struct pev_writer_samples samples = pev_writer_samples(self->writer);

	lua_pushinteger(L, (lua_Integer)samples.nr);
	if (!samples.last)
		return 1;
	lua_pushinteger(L, (lua_Integer)samples.first);
	lua_pushinteger(L, (lua_Integer)samples.last);
	return 3;
}

static void push_map(lua_State *L, const struct pev_content_summary_map *map)
{
	lua_createtable(L, 0, 5);
	l_set_string(L, "filename", map->filename);
	l_set_integer(L, "misc", map->misc);
	l_set_integer(L, "pid", map->pid);
	if (map->has_ino) {
		l_set_u64(L, "ino", map->ino);
	}
	if (map->build_id_len) {
		lua_pushlstring(L, (const char *)map->build_id, map->build_id_len);
		lua_setfield(L, -2, "build_id");
	}
}

/* rec:maps() -> { { filename =, misc =, pid =, ino =, build_id = (bytes) }, ... } */
static int l_writer_maps(lua_State *L)
{
	struct l_writer *self = check_writer(L, 1);
	uint32_t nr;
	const struct pev_content_summary_map *maps = pev_writer_maps(self->writer, &nr);

	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		push_map(L, &maps[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* rec:is_stream() -> true: a pipe, a FIFO or a device */
static int l_writer_is_stream(lua_State *L)
{
	lua_pushboolean(L, pev_writer_is_stream(check_writer(L, 1)->writer));
	return 1;
}

/* rec:close(): closes the descriptor; the file stays as it is. Also __gc and __close. */
static int l_writer_close(lua_State *L)
{
	struct l_writer *self = luaL_checkudata(L, 1, TYPENAME);

	if (!self->writer)
		return 0;
	if (self->attached)
		return luaL_error(L, "a session writes this recording");
	l_hooks_enter(L, self->sys);
	pev_writer_close(self->writer);
	self->writer = NULL;
	l_raise_pending(L);
	return 0;
}

/* Collected together with the session that it is attached to: neither writes any more. */
static int l_writer_gc(lua_State *L)
{
	struct l_writer *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->sys)
		l_hooks_enter(L, self->sys);
	pev_writer_close(self->writer);
	self->writer = NULL;
	return 0;
}

/* copy_file(from, to) -> 0 | nil, message, errno; the copy has mode 0600 */
static int l_copy_file(lua_State *L)
{
	const char *from = luaL_checkstring(L, 1), *to = luaL_checkstring(L, 2);
	const struct pev_sys *sys = l_hooks_push(L);
	struct pev_err err;

	return l_result(L, pev_output_file_copy(sys, from, to, &err), &err);
}

/* replace_section(path, id, bytes) -> 0 | nil, message, errno: of a finished file */
static int l_replace_section(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	lua_Integer id = luaL_checkinteger(L, 2);
	struct pev_err err;
	const struct pev_sys *sys;
	const char *bytes;
	size_t len;

	luaL_argcheck(L, id > 0 && id < PEV_SECTIONS_MAX, 2, "no feature");
	bytes = luaL_checklstring(L, 3, &len);
	sys = l_hooks_push(L);
	return l_result(L, pev_file_replace_section(sys, path, (uint32_t)id, bytes, len, &err),
			&err);
}

static const luaL_Reg methods[] = {
	{ "event", l_writer_event },
	{ "feature", l_writer_feature },
	{ "tracing", l_writer_tracing },
	{ "begin", l_writer_begin },
	{ "records", l_writer_records },
	{ "append", l_writer_append },
	{ "finish", l_writer_finish },
	{ "publish", l_writer_publish },
	{ "remove", l_writer_remove },
	{ "failure", l_writer_failure },
	{ "path", l_writer_path },
	{ "size", l_writer_size },
	{ "samples", l_writer_samples },
	{ "maps", l_writer_maps },
	{ "is_stream", l_writer_is_stream },
	{ "close", l_writer_close },
	{ "__close", l_writer_close },
	{ NULL, NULL },
};

void l_writer_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_writer_gc);
	l_set_function(L, "writer", l_writer);
	l_set_function(L, "copy_file", l_copy_file);
	l_set_function(L, "replace_section", l_replace_section);
}
