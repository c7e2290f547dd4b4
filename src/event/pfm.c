/*
 * pfm.c - the vendors' event names; see pfm.h.
 */
#include "event/pfm.h"

#include <errno.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdlib.h>
#include <string.h>

static int errno_of(pfm_err_t code)
{
	switch (code) {
	case PFM_SUCCESS:
		return 0;
	case PFM_ERR_NOTFOUND:
	case PFM_ERR_NOTSUPP:
		return -ENOENT;
	case PFM_ERR_NOMEM:
		return -ENOMEM;
	default:
		return -EINVAL;
	}
}

#define INACTIVE "LIBPFM_ENCODE_INACTIVE"

int pev_pfm_init(struct pev_err *err)
{
	bool ours = !getenv(INACTIVE);
	pfm_err_t code;

	/*
	 * Enables the tables of other machines: libpfm(3). libpfm4 reads the variable
	 * once; it is removed before commands start.
	 */
	if (ours)
		setenv(INACTIVE, "1", 0);
	code = pfm_initialize();
	if (ours)
		unsetenv(INACTIVE);
	if (code == PFM_SUCCESS)
		return 0;
	return pev_fail(err, errno_of(code), "libpfm4: %s", pfm_strerror(code));
}

int pev_pfm_encode(const char *text, struct pev_pfm_event *event, struct pev_err *err)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	pfm_perf_encode_arg_t arg = { .attr = &attr, .size = sizeof(arg) };
	char *full = NULL;
	pfm_err_t code;

	arg.fstr = &full;
	/* perf's default (tools/perf/util/pfm.c): user and kernel, without hypervisor. */
	code = pfm_get_os_event_encoding(text, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT_EXT, &arg);
	if (code != PFM_SUCCESS) {
		free(full);
		return pev_fail(err, errno_of(code), "%s", pfm_strerror(code));
	}
	*event = (struct pev_pfm_event){
		.type = attr.type, .config = attr.config,
		.config1 = attr.config1, .config2 = attr.config2,
		.precise_ip = (int)attr.precise_ip,
		.exclude_user = attr.exclude_user, .exclude_kernel = attr.exclude_kernel,
		.exclude_hv = attr.exclude_hv, .exclude_host = attr.exclude_host,
		.exclude_guest = attr.exclude_guest,
		.pinned = attr.pinned, .exclusive = attr.exclusive, .full = full,
	};
	return 0;
}

int pev_pfm_pmu(int i, struct pev_pfm_pmu *pmu)
{
	pfm_pmu_info_t info = { .size = sizeof(info) };

	if (i < 0 || i >= PFM_PMU_MAX)
		return -ENOENT;
	/* This number has no table on this architecture. */
	if (pfm_get_pmu_info((pfm_pmu_t)i, &info) != PFM_SUCCESS)
		return 0;
	*pmu = (struct pev_pfm_pmu){ .name = info.name, .about = info.desc, .nr = info.nevents,
				     .here = info.is_present };
	return 1;
}

int pev_pfm_name(int i, int e, int a, const char **name, const char **about)
{
	pfm_pmu_info_t pmu = { .size = sizeof(pmu) };
	pfm_event_info_t event = { .size = sizeof(event) };
	pfm_event_attr_info_t attr = { .size = sizeof(attr) };
	int idx;

	if (pfm_get_pmu_info((pfm_pmu_t)i, &pmu) != PFM_SUCCESS || e < 0 || e >= pmu.nevents)
		return -ENOENT;
	idx = pmu.first_event;
	while (e-- > 0 && idx != -1)
		idx = pfm_get_event_next(idx);
	if (idx == -1 || pfm_get_event_info(idx, PFM_OS_PERF_EVENT, &event) != PFM_SUCCESS)
		return -ENOENT;
	*name = event.name;
	*about = event.desc;
	if (a < 0)
		return 0;
	if (a >= event.nattrs ||
	    pfm_get_event_attr_info(idx, a, PFM_OS_PERF_EVENT_EXT, &attr) != PFM_SUCCESS)
		return -ENOENT;
	*name = attr.name;
	*about = attr.desc;
	return 0;
}
