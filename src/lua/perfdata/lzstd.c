/*
 * lzstd.c - the module perfev.zstd: compresses and decompresses a recording's COMPRESSED records,
 * and the names that it keeps.
 *
 * A separate shared object that is loaded on first use, so that only compressed recordings need
 * libzstd. For records it only contains tables of C functions: reader and writer stay in the core.
 */
#include <lauxlib.h>
#include <lua.h>

#include "perfdata/zstd.h"

int luaopen_perfev_zstd(lua_State *L);

#define PIECE 65536

/* Pushes nil and the reason. */
static int push_failure(lua_State *L, const char *reason)
{
	lua_pushnil(L);
	lua_pushstring(L, reason);
	return 2;
}

/* compress(text, level) -> bytes | nil, reason */
static int l_compress(lua_State *L)
{
	size_t len;
	const unsigned char *text = (const unsigned char *)luaL_checklstring(L, 1, &len);
	void *stream = pev_zstd_deflate.open((int)luaL_checkinteger(L, 2));
	struct pev_err err = { 0 };
	luaL_Buffer buffer;
	bool more = true;
	int64_t n = 0;

	if (!stream)
		return push_failure(L, "no memory");
	luaL_buffinit(L, &buffer);
	while (n >= 0 && (more || len)) {
		n = pev_zstd_deflate.run(stream, &text, &len, luaL_prepbuffsize(&buffer, PIECE),
					 PIECE, &more, &err);
		if (n > 0)
			luaL_addsize(&buffer, (size_t)n);
	}
	pev_zstd_deflate.close(stream);
	if (n < 0)
		return push_failure(L, err.text);
	luaL_pushresult(&buffer);
	return 1;
}

/* decompress(bytes, most) -> text | nil, reason; a text longer than most is refused */
static int l_decompress(lua_State *L)
{
	size_t len;
	const unsigned char *bytes = (const unsigned char *)luaL_checklstring(L, 1, &len);
	size_t most = (size_t)luaL_checkinteger(L, 2), size = 0;
	void *stream = pev_zstd_inflate.open();
	struct pev_err err = { 0 };
	luaL_Buffer buffer;
	int64_t n;

	if (!stream)
		return push_failure(L, "no memory");
	luaL_buffinit(L, &buffer);
	do {
		n = pev_zstd_inflate.run(stream, &bytes, &len, luaL_prepbuffsize(&buffer, PIECE),
					 PIECE, &err);
		if (n > 0)
			luaL_addsize(&buffer, (size_t)n);
		size += n > 0 ? (size_t)n : 0;
	} while (size <= most && (n == PIECE || (n > 0 && len)));
	pev_zstd_inflate.close(stream);
	if (n < 0)
		return push_failure(L, err.text);
	if (size > most)
		return push_failure(L, "they are too large");
	luaL_pushresult(&buffer);
	return 1;
}

/*
 * { inflate, deflate = light userdata, a const struct pev_inflate * and pev_deflate *;
 * compress, decompress = functions }
 */
__attribute__((visibility("default"))) int luaopen_perfev_zstd(lua_State *L)
{
	lua_createtable(L, 0, 4);
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pev_zstd_inflate);
	lua_setfield(L, -2, "inflate");
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pev_zstd_deflate);
	lua_setfield(L, -2, "deflate");
	lua_pushcfunction(L, l_compress);
	lua_setfield(L, -2, "compress");
	lua_pushcfunction(L, l_decompress);
	lua_setfield(L, -2, "decompress");
	return 1;
}
