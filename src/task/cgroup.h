/*
 * cgroup.h - paths of cgroups by their ids, as samples have them (PERF_SAMPLE_CGROUP, 5.7).
 *
 * Learned from CGROUP records and, live, from the directories of the hierarchy that perf events
 * use: the id is the inode number of the cgroup's directory. The path of a cgroup is kept when it
 * is removed, because samples of its last moments come after that.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sys.h"

struct pev_cgroup {
	uint64_t id;
	char *path; /* owned; NULL: a free place */
};

struct pev_cgroups {
	struct pev_cgroup *slots; /* open addressing; NULL: empty */
	uint32_t nr, cap;
	char unknown[40]; /* the text of an id for which there is no place */
};

void pev_cgroups_free(struct pev_cgroups *cgroups);
/* Sets the path of a cgroup; of more than 65,536 the others are ignored. Returns 0 or -ENOMEM. */
int pev_cgroups_set(struct pev_cgroups *cgroups, uint64_t id, const char *path, size_t len);
/*
 * Returns the path of a cgroup; "[cgroup ID]" if it is unknown. An unknown id is looked up once.
 * If there are 65,536 already, it is not looked up. Valid until the next call.
 */
const char *pev_cgroups_find(struct pev_cgroups *cgroups, const struct pev_sys *sys, uint64_t id);
/* Reads the path of a process's cgroup from /proc, allocated; NULL: unknown. */
char *pev_cgroup_of_process(const struct pev_sys *sys, int pid);
