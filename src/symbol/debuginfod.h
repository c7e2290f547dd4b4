/*
 * debuginfod.h - programs and debug files from a server, by their build-id.
 */
#ifndef PEV_DEBUGINFOD_H
#define PEV_DEBUGINFOD_H

#include <stdbool.h>

#include "base/err.h"

/* While a file comes; false: no more of it is wanted. */
typedef bool (*pev_debuginfod_fn)(void *ctx);

/*
 * Where the program of a build-id (hexadecimal), or its debug file, is now: in the client's cache,
 * ~/.cache/debuginfod_client, asked of the servers in DEBUGINFOD_URLS. *path is the caller's to
 * free(). -ENOENT: no server has it; -ENOSYS: none is named; -ELIBACC: the client is not
 * installed; or what reaching a server gave.
 */
int pev_debuginfod_find(const char *build_id, bool program, pev_debuginfod_fn go_on, void *ctx,
			char **path, struct pev_err *err);

#endif
