/*
 * maps.h - which file lies where in a process's memory.
 *
 * A space is one process's executable maps, sorted by address. It is told of by MMAP
 * and MMAP2 records and by /proc/PID/maps, shared with a forked child until one of the
 * two changes, and given up at exec. There is no record of an munmap: what is gone
 * stays until something is mapped over it. What is mapped is a dso, interned and
 * counted: it lives as long as a map or a stack shows it.
 */
#ifndef PEV_MAPS_H
#define PEV_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/record.h"

#define PEV_BUILD_ID_MAX 20

/* A file, or memory that has a name ("//anon", "[vdso]"). */
struct pev_dso {
	struct pev_dsos *of;      /* NULL once those are gone */
	struct pev_dso *next;
	uint64_t hash;
	uint32_t refs;
	int pid;                  /* a process that maps it; memory is that process's alone */
	uint32_t maj, min;
	uint64_t ino, generation; /* as far as they are known */
	unsigned char build_id[PEV_BUILD_ID_MAX];
	uint8_t build_id_len;     /* bytes, 0: not known */
	bool memory;              /* no file: code that was made there */
	bool kept;                /* the caller keeps what names its functions: see stack.h */
	uint32_t met;             /* frames sampled in it before that */
	uint8_t ksymbol;          /* KSYMBOL's type, path is its only function; 0: it is none */
	char path[];
};

struct pev_dsos {
	struct pev_dso **chains;
	uint32_t nr, cap;
	uint64_t versions;          /* the last that a space was given */
};

struct pev_map {
	uint64_t start, end, pgoff; /* bytes; end is the first that is not in it */
	struct pev_dso *dso;        /* counted */
};

struct pev_space; /* opaque; counted */

int pev_dsos_init(struct pev_dsos *dsos);
/* Dsos that are held elsewhere stay until they are let go. */
void pev_dsos_free(struct pev_dsos *dsos);
struct pev_dso *pev_dso_get(struct pev_dso *dso);
void pev_dso_put(struct pev_dso *dso);
/* A file that is known by its path alone, and a reference to it. NULL: -ENOMEM. */
struct pev_dso *pev_dso_file(struct pev_dsos *dsos, const char *path, size_t len);
/* The same memory as another process has it: code that is made there is its own. NULL: -ENOMEM. */
struct pev_dso *pev_dso_of(struct pev_dso *dso, int pid);

/* Another reference; NULL gives NULL. */
struct pev_space *pev_space_get(struct pev_space *space);
void pev_space_put(struct pev_space *space);

/*
 * Learn from an MMAP, MMAP2 or KSYMBOL record: *space (NULL: a new one) is changed, or
 * replaced by a copy when somebody else has it. What is not executable only takes
 * what was there away. -ENOMEM.
 */
int pev_space_feed(struct pev_space **space, struct pev_dsos *dsos, const struct pev_record *rec);
/* The same for the text of /proc/PID/maps. A line that is none is skipped. */
int pev_space_parse(struct pev_space **space, struct pev_dsos *dsos, int pid, const char *text);

/*
 * A number of what it has: spaces with the same one have the same maps, of whatever process and
 * session they are. 0: nothing.
 */
uint64_t pev_space_version(const struct pev_space *space);
/* What lies at an address, or NULL. Borrowed until the space is changed. */
const struct pev_map *pev_space_find(const struct pev_space *space, uint64_t addr);
/* The n-th in the order of addresses, or NULL. */
const struct pev_map *pev_space_at(const struct pev_space *space, uint32_t n);

#endif
