/*
 * untrusted_file.c - see untrusted_file.h.
 *
 * O_PATH gives a descriptor that refers to the file without opening it (open(2)). After the checks
 * that descriptor is opened through /proc/self/fd, so the checked file is the one that is
 * read, even if the path has been replaced since.
 */
#define _GNU_SOURCE /* O_PATH */
#include "base/untrusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MIB_SHIFT 20

static bool is_owner(const struct pev_untrusted_file_rule *rule, uint32_t uid)
{
	for (size_t i = 0; i < rule->nr_owners; i++)
		if (rule->owners[i] == uid)
			return true;
	return !rule->owners;
}

/*
 * The inode in a kernel record may be the lower half of stat(2)'s number: overlayfs with xino
 * stores the layer's index in the upper half.
 */
static bool is_inode(const struct pev_untrusted_file_rule *rule, const struct pev_stat *st)
{
	return (!rule->has_ino || (uint32_t)st->ino == (uint32_t)rule->ino) &&
	       (!rule->has_dev || st->dev == rule->dev);
}

static int check_rule(const struct pev_untrusted_file_rule *rule, const struct pev_stat *st,
		 struct pev_err *err)
{
	if (S_ISLNK(st->mode))
		return pev_fail(err, -ELOOP, "it is a symbolic link");
	if (S_ISDIR(st->mode))
		return pev_fail(err, -EISDIR, "it is a directory");
	if (!S_ISREG(st->mode))
		return pev_fail(err, -EINVAL, "it is not a regular file");
	if (!is_inode(rule, st))
		return pev_fail(err, -ESTALE, "it is another file");
	if (!is_owner(rule, st->uid))
		return pev_fail(err, -EPERM, "it belongs to user %" PRIu32, st->uid);
	if (st->size > rule->max)
		return pev_fail(err, -EFBIG, "it is larger than %" PRIu64 " MiB",
				rule->max >> MIB_SHIFT);
	return 0;
}

/* Without /proc: opens the path again and compares device and inode. */
static int open_again(const struct pev_sys *sys, const char *path, int flags,
		      const struct pev_stat *wanted)
{
	struct pev_stat st;
	int fd = sys->open(sys->ctx, path, flags | O_RDONLY | O_NONBLOCK | O_NOCTTY), rc;

	if (fd < 0)
		return fd;
	rc = sys->fstat(sys->ctx, fd, &st);
	if (rc == 0 && st.dev == wanted->dev && st.ino == wanted->ino)
		return fd;
	sys->close(sys->ctx, fd);
	return rc < 0 ? rc : -ESTALE;
}

static int open_checked(const struct pev_sys *sys, const char *path, int flags, int checked,
			const struct pev_stat *st)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", checked);
	fd = sys->open(sys->ctx, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	return fd == -ENOENT ? open_again(sys, path, flags, st) : fd;
}

int pev_untrusted_file_open(const struct pev_sys *sys, const char *path,
			    const struct pev_untrusted_file_rule *rule,
			    struct pev_stat *st, struct pev_err *err)
{
	int flags = rule->nofollow ? O_NOFOLLOW : 0, fd, rc;
	int checked = sys->open(sys->ctx, path, O_PATH | flags);

	*st = (struct pev_stat){ 0 };
	if (checked < 0)
		return pev_fail(err, checked, "%s", strerror(-checked));
	rc = sys->fstat(sys->ctx, checked, st);
	if (rc < 0) {
		pev_fail(err, rc, "%s", strerror(-rc));
		goto close;
	}
	rc = check_rule(rule, st, err);
	if (rc < 0)
		goto close;
	fd = open_checked(sys, path, flags, checked, st);
	if (fd < 0)
		pev_fail(err, fd, "%s", strerror(-fd));
	rc = fd;
close:
	sys->close(sys->ctx, checked);
	return rc;
}

int64_t pev_untrusted_file_read(const struct pev_sys *sys, int fd, void *buf, size_t len,
				uint64_t offset)
{
	size_t used = 0;

	while (used < len) {
		int64_t n = sys->pread(sys->ctx, fd, (char *)buf + used, len - used, offset + used);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (int64_t)used;
}
