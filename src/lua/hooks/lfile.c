/*
 * lfile.c - core.file(): opens a file that may have been planted; see base/untrusted_file.h.
 */
#include <errno.h>
#include <lauxlib.h>

#include "base/untrusted_file.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/lhooks.h"
#include "lua/hooks/limage.h"
#include "lua/hooks/lsyscall.h"
#include "lua/base/loption.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.file"
#define FILE_MAX (512 << 20) /* default limit of a file's size; few programs come near it */
#define OWNERS_MAX 8
#define PART_MAX (1 << 20)

struct l_file {
	const struct pev_sys *sys; /* its hooks are user value 1 */
	struct pev_stat st;        /* when it was opened */
	uint64_t max;              /* bytes: a file that has grown beyond is not read */
	int fd;                    /* -1 once closed */
};

static struct l_file *check_any(lua_State *L)
{
	struct l_file *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->sys)
		l_hooks_enter(L, self->sys);
	return self;
}

static struct l_file *check_file(lua_State *L)
{
	struct l_file *self = check_any(L);

	if (self->fd < 0)
		luaL_error(L, "the file is closed");
	return self;
}

/* Field owners of the table at idx: a list of user ids, or nil. */
static void take_owners(lua_State *L, int idx, struct pev_untrusted_file_rule *rule,
			uint32_t *owners)
{
	lua_pushliteral(L, "owners");
	lua_rawget(L, idx);
	if (!lua_isnil(L, -1)) {
		luaL_checktype(L, -1, LUA_TTABLE);
		rule->owners = owners;
		rule->nr_owners = lua_rawlen(L, -1);
		luaL_argcheck(L, rule->nr_owners <= OWNERS_MAX, idx, "too many owners");
	}
	for (size_t i = 0; i < rule->nr_owners; i++) {
		lua_rawgeti(L, -1, (lua_Integer)i + 1);
		owners[i] = (uint32_t)luaL_checkinteger(L, -1);
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

static bool take_number(lua_State *L, int idx, const char *name, uint64_t *value)
{
	bool is_there;

	lua_pushstring(L, name);
	is_there = lua_rawget(L, idx) != LUA_TNIL;
	if (is_there)
		*value = (uint64_t)luaL_checkinteger(L, -1);
	lua_pop(L, 1);
	return is_there;
}

/*
 * file(path[, {nofollow=, owners=, max=, dev=, ino=}]) -> file | nil, reason, errno.
 * The fields are those of struct pev_untrusted_file_rule; max defaults to FILE_MAX.
 */
static int l_file(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	struct pev_untrusted_file_rule rule = { .max = FILE_MAX };
	uint32_t owners[OWNERS_MAX];
	struct l_file *self;
	struct pev_err err;

	if (lua_isnoneornil(L, 2)) {
		lua_settop(L, 1);
		lua_newtable(L);
	}
	luaL_checktype(L, 2, LUA_TTABLE);
	rule.nofollow = l_option_bool(L, 2, "nofollow");
	rule.max = (uint64_t)l_option_integer(L, 2, "max", FILE_MAX);
	rule.has_dev = take_number(L, 2, "dev", &rule.dev);
	rule.has_ino = take_number(L, 2, "ino", &rule.ino);
	take_owners(L, 2, &rule, owners);
	self = lua_newuserdatauv(L, sizeof(*self), 1);
	*self = (struct l_file){ .fd = -1, .max = rule.max };
	luaL_setmetatable(L, TYPENAME);
	self->sys = l_hooks_push(L);
	lua_setiuservalue(L, -2, 1);
	self->fd = pev_untrusted_file_open(self->sys, path, &rule, &self->st, &err);
	if (self->fd < 0)
		return l_result(L, self->fd, &err);
	l_raise_pending(L);
	return 1;
}

/* Push len bytes at offset, fewer at the end of the file. */
static int push_bytes(lua_State *L, const struct l_file *self, uint64_t offset, size_t len)
{
	luaL_Buffer buffer;
	char *room = luaL_buffinitsize(L, &buffer, len);
	int64_t n = pev_untrusted_file_read(self->sys, self->fd, room, len, offset);

	l_raise_pending(L);
	if (n < 0)
		return l_result(L, n, NULL);
	luaL_pushresultsize(&buffer, (size_t)n);
	return 1;
}

/* Returns the file's present size, or -errno; -EFBIG: beyond max. */
static int64_t find_size(const struct l_file *self)
{
	struct pev_stat st;
	int rc = self->sys->fstat(self->sys->ctx, self->fd, &st);

	if (rc == 0 && st.size > self->max)
		rc = -EFBIG;
	return rc < 0 ? rc : (int64_t)st.size;
}

/* f:bytes() -> the whole file | nil, reason, errno */
static int l_bytes(lua_State *L)
{
	const struct l_file *self = check_file(L);
	int64_t size = find_size(self);

	return size < 0 ? l_result(L, size, NULL) : push_bytes(L, self, 0, (size_t)size);
}

/* f:image() -> its bytes, which are read when they are needed, while f is open | nil, why, errno */
static int l_image(lua_State *L)
{
	const struct l_file *self = check_file(L);
	int64_t rc = find_size(self);
	struct pev_file_image *image = lua_newuserdatauv(L, sizeof(*image), 1);

	*image = (struct pev_file_image){ 0 };
	luaL_setmetatable(L, L_IMAGE_TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	if (rc >= 0)
		rc = pev_file_image_open(image, self->sys, &self->fd, (size_t)rc);
	if (rc < 0)
		return l_result(L, rc, NULL);
	l_raise_pending(L);
	return 1;
}

static int l_image_gc(lua_State *L)
{
	pev_file_image_close(luaL_checkudata(L, 1, L_IMAGE_TYPENAME));
	return 0;
}

static int l_image_close(lua_State *L)
{
	l_image_gc(L);
	l_raise_pending(L);
	return 0;
}

/* f:part(offset, len) -> len bytes, fewer at the end of the file | nil, reason, errno */
static int l_part(lua_State *L)
{
	const struct l_file *self = check_file(L);
	lua_Integer offset = luaL_checkinteger(L, 2), len = luaL_checkinteger(L, 3);

	luaL_argcheck(L, offset >= 0, 2, "not an offset in a file");
	luaL_argcheck(L, len >= 0 && len <= PART_MAX, 3, "longer than a part may be");
	return push_bytes(L, self, (uint64_t)offset, (size_t)len);
}

/* f:stat() -> { dev=, ino=, mode=, uid=, size= } when the file was opened */
static int l_file_stat(lua_State *L)
{
	l_stat_push(L, &check_any(L)->st);
	return 1;
}

/* f:is_open() -> boolean */
static int l_is_open(lua_State *L)
{
	lua_pushboolean(L, check_any(L)->fd >= 0);
	return 1;
}

static int l_file_gc(lua_State *L)
{
	struct l_file *self = check_any(L);

	if (self->fd >= 0)
		self->sys->close(self->sys->ctx, self->fd);
	self->fd = -1;
	return 0;
}

/* f:close(). Raises the error of a hook that read a part of an image. */
static int l_file_close(lua_State *L)
{
	l_file_gc(L);
	l_raise_pending(L);
	return 0;
}

/* core.crc32(image or bytes) -> checksum, as in gzip and .gnu_debuglink */
static int l_crc32(lua_State *L)
{
	struct pev_file_image whole;

	lua_pushinteger(L, pev_file_image_crc(l_image_check(L, 1, &whole)));
	return 1;
}

static const luaL_Reg image_methods[] = {
	{ "__close", l_image_close },
	{ NULL, NULL },
};

static const luaL_Reg methods[] = {
	{ "bytes", l_bytes },
	{ "image", l_image },
	{ "part", l_part },
	{ "stat", l_file_stat },
	{ "is_open", l_is_open },
	{ "close", l_file_close },
	{ "__close", l_file_close },
	{ NULL, NULL },
};

void l_file_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_file_gc);
	l_class(L, L_IMAGE_TYPENAME, image_methods, l_image_gc);
	lua_pushcfunction(L, l_file);
	lua_setfield(L, -2, "file");
	lua_pushcfunction(L, l_crc32);
	lua_setfield(L, -2, "crc32");
}
