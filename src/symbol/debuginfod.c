/*
 * debuginfod.c - programs and debug files from a server; see debuginfod.h.
 *
 * elfutils' client does it, opened when the first file is asked for: who asks no server needs
 * neither it nor what it brings along (libcurl). Contract: debuginfod_find_debuginfo(3).
 */
#include "symbol/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libdebuginfod.so.1"

typedef struct debuginfod_client debuginfod_client;
typedef int (*progress_fn)(debuginfod_client *client, long done, long all);
typedef int (*find_fn)(debuginfod_client *client, const unsigned char *id, int len, char **path);

/* Its functions; all of them, or none. */
struct library {
	debuginfod_client *(*begin)(void);
	void (*end)(debuginfod_client *client);
	void (*set_user_data)(debuginfod_client *client, void *data);
	void *(*get_user_data)(debuginfod_client *client);
	void (*set_progressfn)(debuginfod_client *client, progress_fn progress);
	find_fn find_program, find_debug;
};

/* What a client is asked with. */
struct asker {
	const struct library *library;
	pev_debuginfod_fn go_on;
	void *ctx;
};

/* Names a function through its address: ISO C converts no void * to one. */
static bool take(void *handle, const char *name, void *function)
{
	void *symbol = dlsym(handle, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static bool load(struct library *library)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	/* It stays: libcurl cannot be begun twice. */
	return handle && take(handle, "debuginfod_begin", &library->begin) &&
	       take(handle, "debuginfod_end", &library->end) &&
	       take(handle, "debuginfod_set_user_data", &library->set_user_data) &&
	       take(handle, "debuginfod_get_user_data", &library->get_user_data) &&
	       take(handle, "debuginfod_set_progressfn", &library->set_progressfn) &&
	       take(handle, "debuginfod_find_executable", &library->find_program) &&
	       take(handle, "debuginfod_find_debuginfo", &library->find_debug);
}

/* The client calls by a pointer that knows nothing but it. */
static const struct library *loaded(void)
{
	static struct library library;
	static bool there;

	if (!there)
		there = load(&library);
	return there ? &library : NULL;
}

static int progress(debuginfod_client *client, long done, long all)
{
	const struct asker *asker = loaded()->get_user_data(client);

	(void)done;
	(void)all;
	return !asker->go_on(asker->ctx);
}

static int refused(int code, struct pev_err *err)
{
	if (code == -ENOSYS)
		return pev_fail(err, code, "DEBUGINFOD_URLS names no server");
	return pev_fail(err, code, "the debuginfod servers gave nothing: %s", strerror(-code));
}

int pev_debuginfod_find(const char *build_id, bool program, pev_debuginfod_fn go_on, void *ctx,
			char **path, struct pev_err *err)
{
	const struct library *library = loaded();
	struct asker asker = { library, go_on, ctx };
	debuginfod_client *client;
	find_fn find;
	int fd;

	if (!library)
		return pev_fail(err, -ELIBACC, "%s is not installed", LIBRARY);
	client = library->begin();
	if (!client)
		return pev_fail(err, -ENOMEM, "no memory for a debuginfod client");
	library->set_user_data(client, &asker);
	library->set_progressfn(client, progress);
	*path = NULL;
	find = program ? library->find_program : library->find_debug;
	/* Of length 0 is an id in hexadecimal. */
	fd = find(client, (const unsigned char *)build_id, 0, path);
	library->end(client);
	if (fd < 0)
		return refused(fd, err);
	close(fd);
	return 0;
}
