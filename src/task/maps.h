/*
 * maps.h - the executable maps of a process: which file or memory is at which address.
 *
 * A space holds the executable maps of one process, sorted by address. MMAP and MMAP2 records and
 * /proc/PID/maps fill it; a forked child shares it until one of the two changes, and exec drops
 * it. The kernel writes no record for munmap(2), so an unmapped file stays until something is
 * mapped over it. A mapped file or memory is a dso, interned and reference-counted: it lives as
 * long as a map or a stack refers to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/record.h"
#include "task/jit_dump.h"

#define PEV_BUILD_ID_MAX 20

/* Where a function of a JIT compiler is in its dump; see struct pev_jit_function. */
struct pev_jit_place {
	uint64_t load, lines, time;
};

/* A file, or memory that has a name ("//anon", "[vdso]"). */
struct pev_dso {
	struct pev_dsos *of;      /* the table; NULL once it is freed */
	struct pev_dso *next;
	uint64_t hash;
	uint32_t refs;
	int pid;                  /* a process that maps it; memory belongs to that process alone */
	uint32_t maj, min;
	uint64_t ino, generation; /* 0: unknown */
	unsigned char build_id[PEV_BUILD_ID_MAX];
	uint8_t build_id_len;     /* bytes; 0: unknown */
	bool memory;              /* not a file: code that the process made */
	bool kept;                /* the caller keeps its symbols: see stack.h */
	uint32_t met;             /* frames sampled in it before kept was set */
	uint8_t ksymbol;          /* KSYMBOL's type, path is its only function; 0: not a KSYMBOL */
	struct pev_jit_place jit; /* path is its only function; load 0: not of a dump */
	char path[];
};

struct pev_dsos {
	struct pev_dso **chains;
	uint32_t nr, cap;
	uint64_t versions;          /* the newest version of a space */
	struct pev_jit_dumps dumps;
};

struct pev_map {
	uint64_t start, end, pgoff; /* bytes; end is the first address after it */
	struct pev_dso *dso;        /* counted */
};

struct pev_space; /* opaque; counted */

int pev_dsos_init(struct pev_dsos *dsos);
/* Dsos with other references live until those are dropped. */
void pev_dsos_free(struct pev_dsos *dsos);
struct pev_dso *pev_dso_get(struct pev_dso *dso);
void pev_dso_put(struct pev_dso *dso);
/* Returns a reference to a file by its path alone. NULL: -ENOMEM. */
struct pev_dso *pev_dso_file(struct pev_dsos *dsos, const char *path, size_t len);
/* Returns the dso for another process: memory is a dso of each process. NULL: -ENOMEM. */
struct pev_dso *pev_dso_of(struct pev_dso *dso, int pid);
/* Returns a reference to the dso of a JIT compiler's function. NULL: -ENOMEM. */
struct pev_dso *pev_dso_function(struct pev_dsos *dsos, int pid,
				 const struct pev_jit_function *function);

/* Adds a reference; NULL for NULL. */
struct pev_space *pev_space_get(struct pev_space *space);
void pev_space_put(struct pev_space *space);

/*
 * Applies an MMAP, MMAP2 or KSYMBOL record to *space (NULL: a new one), or to a copy if it has
 * other users. A map that is not executable only removes the maps under it. -ENOMEM.
 */
int pev_space_feed(struct pev_space **space, struct pev_dsos *dsos, const struct pev_record *rec);
/* The same for the text of /proc/PID/maps. Invalid lines are skipped. */
int pev_space_parse(struct pev_space **space, struct pev_dsos *dsos, int pid, const char *text);

/*
 * The version of a space: two spaces with one version have the same maps, even in different
 * processes and sessions. 0: empty.
 */
uint64_t pev_space_version(const struct pev_space *space);
/* Returns the map at an address, or NULL. Valid until the space changes. */
const struct pev_map *pev_space_find(const struct pev_space *space, uint64_t addr);
/* The n-th map by address, or NULL. */
const struct pev_map *pev_space_at(const struct pev_space *space, uint32_t n);
/* The dump of the process's JIT compiler, whose marker was mapped last; NULL: none. */
struct pev_jit_dump *pev_space_jit_dump(const struct pev_space *space);
