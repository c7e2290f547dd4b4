/*
 * guard.h - the calls to the outside that a sandboxed script may cause through perfev.
 *
 * A table in front of pev_sys_linux. It opens for writing, renames and removes only the files
 * that the command line names for output, starts only the command, signals only the command, also
 * by events (sigtrap), and appends only to tracefs' lists of probes. So a script that reaches into
 * perfev's objects and changes, for example, the path of a recording causes -EPERM. It is the only
 * obstacle until all events are open; from then on, landlock.h and seccomp_filter.h hold, too.
 */
#pragma once

#include "base/sys.h"

/* Sets pev_sys_real to the guard. Before any object is opened. */
void pev_guard_start(void);

/* Refuses events from here on, and probes, for a script that only prints. */
void pev_guard_refuse_events(void);

/* Allows to write this file, also under the names of output_file.h. Returns 0 or -ENOMEM. */
int pev_guard_allow_file(const char *path);

/* Allows to start this command, once. Returns 0 or -ENOMEM. */
int pev_guard_allow_command(char *const *words);

/* The pid of the command, or 0. */
int pev_guard_command(void);

/*
 * Opens a file for writing that perfev will open again when it cannot open files any more: a
 * recording, which gets names at its end, or tracefs' list of probes, to remove definitions.
 */
void pev_guard_keep_open(const char *path);
