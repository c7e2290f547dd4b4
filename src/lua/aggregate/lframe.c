/*
 * lframe.c - the module perfev.frame: frames, and the userdata that reads a stream of them.
 *
 * A shared object of its own, loaded on first use, so that only its users need libzstd and libmd.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "aggregate/frame.h"
#include "aggregate/frame_stream.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"

#define TYPENAME "perfev.core.frame_stream"

int luaopen_perfev_frame(lua_State *L);

struct l_stream {
	struct pev_frame_stream *stream;
	const unsigned char *raw; /* of the last frame; NULL if it is no longer there */
	size_t raw_len;
};

/* compress(raw) -> body | nil, message, errno */
static int l_compress(lua_State *L)
{
	size_t len;
	const char *raw = luaL_checklstring(L, 1, &len);
	size_t room = pev_frame_body_bound(len);
	struct pev_err err = { 0 };
	luaL_Buffer buffer;
	int64_t n;

	n = pev_frame_compress(raw, len, luaL_buffinitsize(L, &buffer, room), room, &err);
	if (n < 0)
		return l_fail(L, (int)n, &err);
	luaL_pushresultsize(&buffer, (size_t)n);
	return 1;
}

/* join(header, body, raw_len) -> frame | nil, message, errno */
static int l_join(lua_State *L)
{
	size_t header_len, body_len;
	const char *header = luaL_checklstring(L, 1, &header_len);
	lua_Integer raw_len = luaL_checkinteger(L, 3);
	char start[PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX];
	struct pev_err err = { 0 };
	int n;

	luaL_checklstring(L, 2, &body_len);
	luaL_argcheck(L, raw_len >= 0 && raw_len <= PEV_FRAME_RAW_MAX, 3, "too long");
	n = pev_frame_start(header, header_len, body_len, (size_t)raw_len, start, &err);
	if (n < 0)
		return l_fail(L, n, &err);
	lua_pushlstring(L, start, (size_t)n);
	lua_pushvalue(L, 2);
	lua_concat(L, 2);
	return 1;
}

/* armor(frame) -> text */
static int l_armor(lua_State *L)
{
	size_t len;
	const char *frame = luaL_checklstring(L, 1, &len);
	luaL_Buffer buffer;

	pev_armor(frame, len, luaL_buffinitsize(L, &buffer, pev_armor_len(len)));
	luaL_pushresultsize(&buffer, pev_armor_len(len));
	return 1;
}

/* decode(frame) -> raw | nil, message, errno */
static int l_decode(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 1, &len);
	struct pev_err err = { 0 };
	struct pev_frame frame;
	luaL_Buffer buffer;
	int rc = pev_frame_parse(bytes, len, &frame, &err);

	if (rc == 0 || (rc > 0 && frame.len != len))
		rc = pev_fail(&err, -EBADMSG, "it is not one frame");
	if (rc < 0)
		return l_fail(L, rc, &err);
	rc = pev_frame_decode(&frame, luaL_buffinitsize(L, &buffer, frame.raw_len), &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	luaL_pushresultsize(&buffer, frame.raw_len);
	return 1;
}

/* sha256(bytes) -> 64 hexadecimal digits */
static int l_sha256(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 1, &len);
	char hex[65];

	pev_sha256_hex(bytes, len, hex);
	lua_pushstring(L, hex);
	return 1;
}

/* ---- the userdata ---- */

/* stream() -> stream */
static int l_stream_new(lua_State *L)
{
	struct l_stream *self = lua_newuserdatauv(L, sizeof(*self), 0);

	*self = (struct l_stream){ 0 };
	luaL_setmetatable(L, TYPENAME);
	self->stream = pev_frame_stream_new();
	return self->stream ? 1 : luaL_error(L, "not enough memory");
}

static int l_gc(lua_State *L)
{
	struct l_stream *self = luaL_checkudata(L, 1, TYPENAME);

	pev_frame_stream_free(self->stream);
	self->stream = NULL;
	return 0;
}

static struct l_stream *check_stream(lua_State *L)
{
	struct l_stream *self = luaL_checkudata(L, 1, TYPENAME);

	luaL_argcheck(L, self->stream, 1, "it is closed");
	return self;
}

/* feed(bytes); nil: no bytes follow */
static int l_feed(lua_State *L)
{
	struct l_stream *self = check_stream(L);
	size_t len;
	const char *bytes = luaL_optlstring(L, 2, NULL, &len);

	self->raw = NULL;
	if (!bytes)
		pev_frame_stream_end(self->stream);
	else if (pev_frame_stream_feed(self->stream, bytes, len) < 0)
		return luaL_error(L, "not enough memory");
	return 0;
}

/* next() -> frame, header, offset in the stream | nothing | nil, message, errno */
static int l_next(lua_State *L)
{
	struct l_stream *self = check_stream(L);
	struct pev_err err = { 0 };
	struct pev_frame frame;
	uint64_t offset;
	int rc;

	self->raw = NULL;
	rc = pev_frame_stream_next(self->stream, &frame, &self->raw, &offset, &err);
	if (rc == 0)
		return 0;
	if (rc == -ENOMEM)
		return luaL_error(L, "not enough memory");
	if (rc < 0)
		return l_fail(L, rc, &err);
	self->raw_len = frame.raw_len;
	lua_pushlstring(L, (const char *)frame.bytes, frame.len);
	lua_pushlstring(L, frame.header, frame.header_len);
	lua_pushinteger(L, (lua_Integer)offset);
	return 3;
}

/* raw() -> the content of the frame that next() returned last | nothing, if it is gone */
static int l_raw(lua_State *L)
{
	struct l_stream *self = check_stream(L);

	if (!self->raw)
		return 0;
	lua_pushlstring(L, (const char *)self->raw, self->raw_len);
	return 1;
}

static const luaL_Reg methods[] = {
	{ "feed", l_feed },
	{ "next", l_next },
	{ "raw",  l_raw  },
	{ NULL,   NULL   },
};

static const luaL_Reg functions[] = {
	{ "armor",    l_armor      },
	{ "compress", l_compress   },
	{ "decode",   l_decode     },
	{ "join",     l_join       },
	{ "sha256",   l_sha256     },
	{ "stream",   l_stream_new },
	{ NULL,       NULL         },
};

/* The functions above; max = { header =, body =, raw = }, in bytes */
__attribute__((visibility("default"))) int luaopen_perfev_frame(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	luaL_newlib(L, functions);
	lua_createtable(L, 0, 3);
	lua_pushinteger(L, PEV_FRAME_HEADER_MAX - PEV_FRAME_CHECK_LEN);
	lua_setfield(L, -2, "header");
	lua_pushinteger(L, PEV_FRAME_BODY_MAX);
	lua_setfield(L, -2, "body");
	lua_pushinteger(L, PEV_FRAME_RAW_MAX);
	lua_setfield(L, -2, "raw");
	lua_setfield(L, -2, "max");
	return 1;
}
