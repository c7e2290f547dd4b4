/*
 * debuginfod.c - downloads programs and debug files; see debuginfod.h.
 *
 * elfutils' client library is loaded at the first request, so that a user without debuginfod
 * needs neither the library nor its dependencies (libcurl). Contract: debuginfod_find_debuginfo(3).
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

/* The functions of the client library. */
struct library {
	debuginfod_client *(*begin)(void);
	void (*end)(debuginfod_client *client);
	void (*set_user_data)(debuginfod_client *client, void *data);
	void *(*get_user_data)(debuginfod_client *client);
	void (*set_progressfn)(debuginfod_client *client, progress_fn progress);
	find_fn find_program, find_debug;
};

/* The client's user data. */
struct request {
	const struct library *library;
	pev_debuginfod_fn go_on;
	void *ctx;
};

/* Stores the function at the address: ISO C cannot convert a void * to a function pointer. */
static bool find_function(void *handle, const char *name, void *function)
{
	void *symbol = dlsym(handle, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static bool load_library(struct library *library)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	/* The library stays loaded: libcurl cannot be initialised twice. */
	return handle && find_function(handle, "debuginfod_begin", &library->begin) &&
	       find_function(handle, "debuginfod_end", &library->end) &&
	       find_function(handle, "debuginfod_set_user_data", &library->set_user_data) &&
	       find_function(handle, "debuginfod_get_user_data", &library->get_user_data) &&
	       find_function(handle, "debuginfod_set_progressfn", &library->set_progressfn) &&
	       find_function(handle, "debuginfod_find_executable", &library->find_program) &&
	       find_function(handle, "debuginfod_find_debuginfo", &library->find_debug);
}

/* A static, because the client passes only its own pointer to report_progress(). */
static const struct library *get_library(void)
{
	static struct library library;
	static bool is_loaded;

	if (!is_loaded)
		is_loaded = load_library(&library);
	return is_loaded ? &library : NULL;
}

static int report_progress(debuginfod_client *client, long done, long all)
{
	const struct request *request = get_library()->get_user_data(client);

	(void)done;
	(void)all;
	return !request->go_on(request->ctx);
}

static int fail_request(int code, struct pev_err *err)
{
	if (code == -ENOSYS)
		return pev_fail(err, code, "DEBUGINFOD_URLS is empty");
	return pev_fail(err, code, "no debuginfod server returned the file: %s", strerror(-code));
}

int pev_debuginfod_find(const char *build_id, bool program, pev_debuginfod_fn go_on, void *ctx,
			char **path, struct pev_err *err)
{
	const struct library *library = get_library();
	struct request request = { library, go_on, ctx };
	debuginfod_client *client;
	find_fn find;
	int fd;

	if (!library)
		return pev_fail(err, -ELIBACC, "%s is not installed", LIBRARY);
	client = library->begin();
	if (!client)
		return pev_fail(err, -ENOMEM, "no memory for a debuginfod client");
	library->set_user_data(client, &request);
	library->set_progressfn(client, report_progress);
	*path = NULL;
	find = program ? library->find_program : library->find_debug;
	/* Length 0 means that the id is hexadecimal. */
	fd = find(client, (const unsigned char *)build_id, 0, path);
	library->end(client);
	if (fd < 0)
		return fail_request(fd, err);
	close(fd);
	return 0;
}
