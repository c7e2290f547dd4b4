/*
 * landlock.c - confines this process to reading some files; see landlock.h.
 */
#include "sandbox/landlock.h"

#include <errno.h>
#include <sys/stat.h>

/* LANDLOCK_ACCESS_FS_*: the distribution's header may be older than the kernel. */
enum {
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	NEWEST_ABI = 6, /* later ones handle no further access of files, network or scope */
};

/* All accesses that each version handles: include/uapi/linux/landlock.h. */
static const struct {
	uint64_t files, network, scopes;
} handled[NEWEST_ABI] = {
	{ 0x1fff, 0, 0 },
	{ 0x3fff, 0, 0 }, /* REFER */
	{ 0x7fff, 0, 0 }, /* TRUNCATE */
	{ 0x7fff, 3, 0 }, /* BIND_TCP, CONNECT_TCP */
	{ 0xffff, 3, 0 }, /* IOCTL_DEV */
	{ 0xffff, 3, 3 }, /* ABSTRACT_UNIX_SOCKET, SIGNAL */
};

#define SCOPE_SIGNAL UINT64_C(2)

/* A directory with everything below it, or a file. The descriptor is never a simulated one. */
static int allow_reading(const struct pev_sys *sys, int ruleset, int fd)
{
	struct pev_stat st;
	int rc = pev_sys_real->fstat(pev_sys_real->ctx, fd, &st);

	if (rc < 0)
		return rc;
	return sys->landlock_allow(sys->ctx, ruleset, fd,
				   S_ISDIR(st.mode) ? READ_FILE | READ_DIR : READ_FILE);
}

int pev_landlock_restrict(const struct pev_sys *sys, const int *fds, int nr, bool signals,
			  struct pev_err *err)
{
	int abi = sys->landlock_abi(sys->ctx), i, ruleset, rc = 0;

	if (abi < 1)
		return pev_fail(err, abi < 0 ? abi : -ENOSYS, "the kernel has no Landlock");
	i = (abi < NEWEST_ABI ? abi : NEWEST_ABI) - 1;
	ruleset = sys->landlock_ruleset(sys->ctx, handled[i].files, handled[i].network,
					signals ? handled[i].scopes & ~SCOPE_SIGNAL :
					handled[i].scopes);
	if (ruleset < 0)
		return pev_fail(err, ruleset, "cannot make a Landlock ruleset");
	for (int at = 0; at < nr && rc == 0; at++)
		rc = allow_reading(sys, ruleset, fds[at]);
	if (rc == 0)
		rc = sys->landlock_restrict(sys->ctx, ruleset);
	pev_sys_real->close(pev_sys_real->ctx, ruleset);
	return rc < 0 ? pev_fail(err, rc, "Landlock's rules are refused") : abi;
}
