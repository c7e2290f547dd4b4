/*
 * jit_dump.h - functions of a JIT compiler by address and time, from its jit-PID.dump.
 *
 * The compiler appends a record for each function that it loads or moves, with the time, and maps
 * a page of the file executable, as a marker: its MMAP2 record has the file's path. The caller
 * opens that file and passes its bytes; see lua/perfev/symbol/jit_dump.lua. Whoever may write to
 * the file chooses each byte.
 *
 * Contract: tools/perf/Documentation/jitdump-specification.txt, version 1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEV_JIT_MAX (1u << 20) /* functions and moves of one process */
#define PEV_JIT_NAMES_MAX (64u << 20) /* bytes of their names */
#define PEV_JIT_NAME_MAX 4095u /* bytes; a longer name is cut */
#define PEV_JIT_NEWEST UINT64_MAX /* in the place of a time */

struct pev_jit_dump; /* opaque; counted */

/* The dumps of one session that exist, and the number of those that are wanted. */
struct pev_jit_dumps {
	struct pev_jit_dump *first;
	uint32_t nr, wanted;
};

struct pev_jit_function {
	uint64_t start, end; /* end is exclusive */
	uint64_t time; /* when it was loaded or moved there; ns on CLOCK_MONOTONIC */
	uint64_t load; /* offset of its JIT_CODE_LOAD record in the file */
	uint64_t lines; /* offset of its JIT_CODE_DEBUG_INFO record; 0: none */
	const char *name; /* borrowed until the next read; not terminated */
	uint32_t len; /* bytes of the name */
};

/*
 * Makes the dump of a marker. It is wanted at once; dumps may be NULL. NULL: no memory, or too
 * many dumps.
 */
struct pev_jit_dump *pev_jit_dump_new(struct pev_jit_dumps *dumps, int pid, const char *path,
				      size_t len, uint64_t ino);
/* Adds a reference; NULL for NULL. */
struct pev_jit_dump *pev_jit_dump_get(struct pev_jit_dump *dump);
void pev_jit_dump_put(struct pev_jit_dump *dump);
/* The dumps outlive the list if they have other references. */
void pev_jit_dumps_free(struct pev_jit_dumps *dumps);

/* True if a path is that of a marker: the name is jit-PID.dump. */
bool pev_jit_dump_is_marker(const char *path, size_t len);
int pev_jit_dump_pid(const struct pev_jit_dump *dump);
const char *pev_jit_dump_path(const struct pev_jit_dump *dump);
uint64_t pev_jit_dump_ino(const struct pev_jit_dump *dump); /* 0: unknown */

/*
 * A dump is wanted when it is new, and when a sample is taken after the time up to which it is
 * known. Returns the next wanted dump, which is wanted no more, with a reference; or NULL.
 */
struct pev_jit_dump *pev_jit_dumps_next(struct pev_jit_dumps *dumps);
/* A sample was taken at that time, or PEV_JIT_NEWEST. */
void pev_jit_dump_want(struct pev_jit_dump *dump, uint64_t time);
/* The dump was read when the clock was at that time; PEV_JIT_NEWEST: it will not grow. */
void pev_jit_dump_set_known(struct pev_jit_dump *dump, uint64_t time);

/* Returns the file's offset from which the next bytes are to be read. */
uint64_t pev_jit_dump_offset(const struct pev_jit_dump *dump);
/*
 * Reads the whole records in the bytes of the file from that offset on, and moves it behind them;
 * of code only its length is read. A record of which the bytes have only a part is left: the
 * offset stays if they have no whole one. Returns 0, -EBADMSG (not a dump, or a record that cannot
 * be skipped), -EFBIG (a limit above) or -ENOMEM; then the dump keeps what it had.
 */
int pev_jit_dump_read(struct pev_jit_dump *dump, const void *bytes, size_t len);
/* Adds a function that was loaded. The same errors. */
int pev_jit_dump_add(struct pev_jit_dump *dump, const struct pev_jit_function *function);

/*
 * Finds the function at an address at a time: of those there, the newest that was loaded before.
 * A dump whose times are of another clock gives the newest.
 */
bool pev_jit_dump_find(struct pev_jit_dump *dump, uint64_t addr, uint64_t time,
		       struct pev_jit_function *out);
/* The number of functions and moves up to a time: with equal numbers, each find is the same. */
uint32_t pev_jit_dump_loads(struct pev_jit_dump *dump, uint64_t time);
