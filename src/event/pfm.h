/*
 * pfm.h - translates event names of CPU vendors to attr fields, by libpfm4.
 *
 * libpfm4 has tables of all CPUs it supports; an event of another machine is named with its
 * table: "skl::UOPS_RETIRED:ALL". A file of its own, because libpfm4's header and the kernel's
 * cannot be included together.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pev_pfm_event {
	uint32_t type;
	uint64_t config, config1, config2;
	int precise_ip;
	bool exclude_user, exclude_kernel, exclude_hv, exclude_host, exclude_guest;
	bool pinned, exclusive;
	char *full;     /* the fully qualified name; the caller frees it */
};

/* Call it before the others. A second call does nothing. */
int pev_pfm_init(struct pev_err *err);

/*
 * Encodes "EVENT:MASK:MODIFIER=1" of this machine's PMUs, or of any PMU after "PMU::".
 * -ENOENT: no such event; -EINVAL: the event exists, but a mask or modifier is invalid.
 */
int pev_pfm_encode(const char *text, struct pev_pfm_event *event, struct pev_err *err);

/* A table: its name, description, number of events, and whether it is this machine's. */
struct pev_pfm_pmu {
	const char *name, *about;
	int nr;
	bool here;
};

/* Table i, from 0. Returns 1; 0: the number is unused; -ENOENT: after the last. */
int pev_pfm_pmu(int i, struct pev_pfm_pmu *pmu);

/*
 * Event e of table i: its name without the PMU, and its description; or those of its attribute a (a
 * mask or modifier, from 0; -1: the event itself). -ENOENT after the last.
 */
int pev_pfm_name(int i, int e, int a, const char **name, const char **about);
