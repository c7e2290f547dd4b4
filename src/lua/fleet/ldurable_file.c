/*
 * ldurable_file.c - the module perfev.durable_file: files that survive a crash of the process or
 * of the machine, for perfl collect.
 *
 * A file is only appended to, and cut at a length that is known to be good. A failed append cuts
 * what it wrote. A symbolic link in the place of a file is refused.
 */
#define _GNU_SOURCE /* syncfs */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lua/base/lclass.h"

#define TYPENAME "perfev.durable_file"

int luaopen_perfev_durable_file(lua_State *L);

struct file {
	int fd; /* -1 once closed */
	off_t len;
};

static struct file *check_file(lua_State *L)
{
	struct file *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->fd < 0)
		luaL_error(L, "the file is closed");
	return self;
}

/* Pushes true, or nil, message, errno. */
static int push_outcome(lua_State *L, int rc)
{
	int code = errno;

	if (rc == 0) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, strerror(code));
	lua_pushinteger(L, code);
	return 3;
}

static int write_all(int fd, const char *bytes, size_t len, off_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, bytes, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

/* append(bytes) -> true | nil, message, errno: all bytes or none */
static int l_append(lua_State *L)
{
	struct file *self = check_file(L);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	int rc = write_all(self->fd, bytes, len, self->len);

	if (rc < 0) {
		int code = errno;

		if (ftruncate(self->fd, self->len) < 0) {
			/* The rest is cut when the file is opened again. */
		}
		errno = code;
	} else {
		self->len += (off_t)len;
	}
	return push_outcome(L, rc);
}

/* cut(length) -> true | nil, message, errno */
static int l_cut(lua_State *L)
{
	struct file *self = check_file(L);
	off_t len = (off_t)luaL_checkinteger(L, 2);
	int rc = ftruncate(self->fd, len);

	if (rc == 0)
		self->len = len;
	return push_outcome(L, rc);
}

/* size() -> bytes */
static int l_size(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)check_file(L)->len);
	return 1;
}

/* lock() -> true | nil, message, errno; EWOULDBLOCK if another process has the lock */
static int l_lock(lua_State *L)
{
	return push_outcome(L, flock(check_file(L)->fd, LOCK_EX | LOCK_NB));
}

/* Closes the file; a second call does nothing. */
static int l_close(lua_State *L)
{
	struct file *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
	return 0;
}

/* open(path) -> file of mode 0640, made if there is none | nil, message, errno */
static int l_open(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	struct file *self = lua_newuserdatauv(L, sizeof(*self), 0);
	struct stat st;

	self->fd = -1;
	self->len = 0;
	luaL_setmetatable(L, TYPENAME);
	self->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0640);
	if (self->fd < 0)
		return push_outcome(L, -1);
	if (fstat(self->fd, &st) < 0)
		return push_outcome(L, -1);
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return push_outcome(L, -1);
	}
	self->len = st.st_size;
	return 1;
}

/* make_directory(path) -> true, also if it exists, of mode 0750 | nil, message, errno */
static int l_make_directory(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	struct stat st;
	int rc = mkdir(path, 0750);

	if (rc < 0 && errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		rc = 0;
	return push_outcome(L, rc);
}

/* sync_file_system(path) -> true when all files of its file system are on the disk | nil, ... */
static int l_sync_file_system(lua_State *L)
{
	int fd = open(luaL_checkstring(L, 1), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : syncfs(fd), code = errno;

	if (fd >= 0)
		close(fd);
	errno = code;
	return push_outcome(L, rc);
}

/* rename(from, to) -> true | nil, message, errno */
static int l_rename(lua_State *L)
{
	return push_outcome(L, rename(luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
}

/* remove(path) -> true | nil, message, errno */
static int l_remove(lua_State *L)
{
	return push_outcome(L, unlink(luaL_checkstring(L, 1)));
}

static const luaL_Reg methods[] = {
	{ "append",  l_append },
	{ "close",   l_close },
	{ "cut",     l_cut },
	{ "lock",    l_lock },
	{ "size",    l_size },
	{ "__close", l_close },
	{ NULL,      NULL },
};

static const luaL_Reg functions[] = {
	{ "make_directory", l_make_directory },
	{ "open",           l_open },
	{ "remove",         l_remove },
	{ "rename",         l_rename },
	{ "sync_file_system", l_sync_file_system },
	{ NULL,             NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_durable_file(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	luaL_newlib(L, functions);
	return 1;
}
