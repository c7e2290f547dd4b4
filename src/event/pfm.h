/*
 * pfm.h - the vendors' event names, as libpfm4 knows them, and what they are to the kernel.
 *
 * libpfm4 carries the tables of all CPUs it knows; those of other machines than this one
 * are asked for by their name: "skl::UOPS_RETIRED:ALL". Apart from everything else, because its
 * header and the kernel's cannot be read together.
 */
#ifndef PEV_PFM_H
#define PEV_PFM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pev_pfm_event {
	uint32_t type;
	uint64_t config, config1, config2;
	int precise_ip;
	bool exclude_user, exclude_kernel, exclude_hv, exclude_host, exclude_guest;
	bool pinned, exclusive;
	char *full;     /* the name with everything said; the caller's to free */
};

/* Once, before the others; again is harmless. */
int pev_pfm_init(struct pev_err *err);

/*
 * What a name is: "EVENT:MASK:MODIFIER=1" of this machine's PMUs, or of any with "PMU::" before it.
 * -ENOENT: no such event; -EINVAL: it is there, and what follows its name is not.
 */
int pev_pfm_encode(const char *text, struct pev_pfm_event *event, struct pev_err *err);

/* A table: its name, what it is of, how many events it has, and whether it is this machine's. */
struct pev_pfm_pmu {
	const char *name, *about;
	int nr;
	bool here;
};

/* Table number i, from 0 on: 1, 0 where that number has none, -ENOENT behind the last one. */
int pev_pfm_pmu(int i, struct pev_pfm_pmu *pmu);

/*
 * Event number e of table i: its name without the PMU's, and what it counts; attribute a of it (a
 * mask or modifier, from 0 on; -1: the event itself). -ENOENT behind the last one.
 */
int pev_pfm_name(int i, int e, int a, const char **name, const char **about);

#endif
