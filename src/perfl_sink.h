/*
 * perfl_sink.h - the files that perfl writes; see perfl_sink.c.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Replaces stdout. has_signal: whether a signal is to end perfl; then a write waits 0.7 s for its
 * reader, and fails with EINTR. Returns 0 or -errno.
 */
int perfl_sink_open_stdout(bool (*has_signal)(void));
/* Opens a descriptor for writing; the file owns it. NULL with errno: EMFILE if two are open. */
FILE *perfl_sink_open(int fd);
/* The errno of the first write that failed, or 0. */
int perfl_sink_error(const FILE *file);
/* The descriptor of a file of perfl_sink_open(), or -1. */
int perfl_sink_fd(const FILE *file);
