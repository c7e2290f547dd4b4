/*
 * rights.c - capabilities that this process has and its caller lacks; see rights.h.
 *
 * capget(2) and capset(2) directly: libcap would add a library for two calls.
 */
#define _GNU_SOURCE
#include "base/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALL_RAISED (PEV_CAPS_EVENT | PEV_CAPS_NAMES)

/* One for the process, because capabilities are per process. */
static struct {
	uint64_t held, dropped;
	bool raised;
} rights;

struct sets {
	uint64_t effective, permitted;
};

static int get_sets(struct sets *sets)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	*sets = (struct sets){ 0 };
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	sets->effective = (uint64_t)data[1].effective << 32 | data[0].effective;
	sets->permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
	return 0;
}

/* The inheritable set is left empty: an executed program inherits no capability. */
static int set_sets(uint64_t effective, uint64_t permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)effective, .permitted = (uint32_t)permitted },
		{ .effective = (uint32_t)(effective >> 32),
		  .permitted = (uint32_t)(permitted >> 32) },
	};

	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/*
 * A user's permitted set has the file's capabilities and the caller's ambient ones. The kernel
 * empties the ambient set if the file has capabilities: cap_bprm_creds_from_file().
 */
static bool is_ambient(uint64_t permitted)
{
	for (unsigned long cap = 0; cap < 64; cap++)
		if (permitted >> cap & 1 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) != 1)
			return false;
	return true;
}

bool pev_rights_elevated(void)
{
	struct sets sets;

	if (getauxval(AT_SECURE))
		return true;
	return geteuid() != 0 && get_sets(&sets) == 0 && !is_ambient(sets.permitted);
}

int pev_rights_hold(void)
{
	struct sets sets;
	int rc;

	if (geteuid() == 0 || !pev_rights_elevated())
		return 0;
	rc = get_sets(&sets);
	if (rc == 0)
		rc = set_sets(0, sets.permitted & ALL_RAISED);
	if (rc == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
		rc = -errno;
	if (rc == 0)
		rights.held = sets.permitted & ALL_RAISED;
	return rc;
}

void pev_rights_raise(uint64_t capabilities)
{
	/* A missing capability is not reported here: the call that needs it fails and says so. */
	if (rights.held & capabilities)
		rights.raised = set_sets(rights.held & capabilities, rights.held) == 0;
}

void pev_rights_lower(void)
{
	const int saved = errno;

	if (rights.raised)
		rights.raised = set_sets(0, rights.held) < 0;
	errno = saved;
}

int pev_rights_keep(uint64_t capabilities)
{
	uint64_t rest = rights.held & capabilities;
	int rc = rest == rights.held ? 0 : set_sets(0, rest);

	if (rc < 0)
		return rc;
	rights.dropped |= rights.held & ~rest;
	rights.held = rest;
	return 0;
}

int pev_rights_drop(void *ctx)
{
	int rc = set_sets(0, 0);

	(void)ctx;
	if (rc == 0) {
		rights.dropped |= rights.held;
		rights.held = 0;
	}
	return rc;
}

int pev_rights_no_new_privs(void *ctx)
{
	(void)ctx;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int check_errno(long rc)
{
	return rc < 0 ? -errno : (int)rc;
}

int pev_rights_landlock_abi(void *ctx)
{
	(void)ctx;
	return check_errno(syscall(SYS_landlock_create_ruleset, NULL, 0,
				   LANDLOCK_CREATE_RULESET_VERSION));
}

/* struct landlock_ruleset_attr of Linux 6.12. An older kernel accepts zeros behind its own. */
int pev_rights_landlock_ruleset(void *ctx, uint64_t files, uint64_t network, uint64_t scopes)
{
	const uint64_t attr[] = { files, network, scopes };

	(void)ctx;
	return check_errno(syscall(SYS_landlock_create_ruleset, attr, sizeof(attr), 0));
}

int pev_rights_landlock_allow(void *ctx, int ruleset, int fd, uint64_t accesses)
{
	const struct landlock_path_beneath_attr rule = { .allowed_access = accesses,
							 .parent_fd = fd };

	(void)ctx;
	return check_errno(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
				   &rule, 0));
}

int pev_rights_landlock_restrict(void *ctx, int ruleset)
{
	(void)ctx;
	return check_errno(syscall(SYS_landlock_restrict_self, ruleset, 0));
}

uint64_t pev_rights_held(void)
{
	return rights.held;
}

uint64_t pev_rights_dropped(void)
{
	return rights.dropped;
}

/* Returns the text after a number and a slash, or NULL. */
static const char *skip_number(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits && text[digits] == '/' ? text + digits + 1 : NULL;
}

/* True if text is the prefix and one name without a slash. */
static bool is_below(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) == 0 && text[len] && !strchr(text + len, '/') &&
	       strcmp(text + len, "..") != 0;
}

uint64_t pev_rights_of_path(const char *path)
{
	static const char *const names[] = { "cgroup", "cmdline", "comm", "exe", "maps", "stat",
					     "status", "task", "root" };
	const char *rest, *thread;

	if (!rights.held || strncmp(path, "/proc/", 6) != 0)
		return 0;
	rest = path + 6;
	if (strcmp(rest, "kallsyms") == 0 || strcmp(rest, "modules") == 0)
		return PEV_CAP(SYSLOG);
	rest = skip_number(rest);
	if (!rest)
		return 0;
	if (strncmp(rest, "task/", 5) == 0) {
		thread = skip_number(rest + 5);
		if (!thread)
			return 0;
		rest = thread;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(rest, names[i]) == 0)
			return PEV_CAP(SYS_PTRACE);
	if (is_below(rest, "ns/"))
		return PEV_CAP(SYS_PTRACE);
	return is_below(rest, "map_files/") ? PEV_CAPS_NAMES : 0;
}
