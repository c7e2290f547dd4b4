/*
 * debuginfod.h - downloads programs and debug files from a server by build-id.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Called during a download. Returning false cancels it. */
typedef bool (*pev_debuginfod_fn)(void *ctx);

/*
 * Finds the program of a build-id (hexadecimal), or its debug file: in the client's cache,
 * ~/.cache/debuginfod_client, else on the servers in DEBUGINFOD_URLS. *path is the file in the
 * cache; the caller frees it. Returns -ENOENT if no server has the file, -ENOSYS if
 * DEBUGINFOD_URLS is empty, -ELIBACC if the client is not installed, or the client's error.
 */
int pev_debuginfod_find(const char *build_id, bool program, pev_debuginfod_fn go_on, void *ctx,
			char **path, struct pev_err *err);
