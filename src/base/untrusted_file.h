/*
 * untrusted_file.h - opens a file that a watched process or another user may have planted.
 *
 * The file is checked before it is opened, because opening a FIFO blocks and opening a device can
 * act on it. A file that breaks the rule is refused unread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sys.h"

/* Every file must be a regular file; these are the further conditions. */
struct pev_untrusted_file_rule {
	bool nofollow;          /* refuse a symbolic link as the path's last component */
	bool has_dev, has_ino;  /* compare dev, ino */
	uint64_t dev;           /* encoded as in struct pev_stat */
	uint64_t ino;           /* the low 32 bits are compared: see untrusted_file.c */
	uint64_t max;           /* maximal size, bytes */
	const uint32_t *owners; /* user ids that may own the file; borrowed; NULL: any */
	size_t nr_owners;
};

/*
 * Returns a descriptor for reading, close-on-exec, that the caller closes, and fills in *st.
 * For a file that breaks the rule it returns -ELOOP (symbolic link), -EISDIR or -EINVAL (not a
 * regular file), -ESTALE (another inode), -EPERM (owner) or -EFBIG (size), with the reason in err
 * and *st filled in. Otherwise -errno of open(2) or fstat(2), with *st zeroed.
 */
int pev_untrusted_file_open(const struct pev_sys *sys, const char *path,
			    const struct pev_untrusted_file_rule *rule,
			    struct pev_stat *st, struct pev_err *err);

/* Reads len bytes at offset, fewer at the end of the file. Returns how many, or -errno. */
int64_t pev_untrusted_file_read(const struct pev_sys *sys, int fd, void *buf, size_t len,
				uint64_t offset);
