/*
 * output_file.c - a file that gets its name when it has content; see output_file.h.
 */
#define _GNU_SOURCE /* asprintf, O_* */
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECES_MAX 1024 /* IOV_MAX */

static int fail_open_memory(struct pev_err *err, const char *path)
{
	return pev_fail(err, -ENOMEM, "cannot record to %s: no memory", path);
}

static int fail_open(struct pev_err *err, int code, const char *path)
{
	const char *why = strerror(-code);

	if (code == -ELOOP)
		why = "it is a symbolic link, which is not followed";
	else if (code == -ENXIO)
		why = "it is a FIFO without a reader, or a socket";
	return pev_fail(err, code, "cannot record to %s: %s", path, why);
}

/* Checks an existing file with this name: a FIFO or device is opened, a regular file is kept. */
static int open_there(struct pev_output_file *file, struct pev_err *err)
{
	const struct pev_sys *sys = file->sys;
	int fd = sys->open(sys->ctx, file->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct pev_stat st;
	int flags, rc;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fail_open(err, fd, file->path);
	rc = sys->fstat(sys->ctx, fd, &st);
	if (rc < 0 || S_ISREG(st.mode)) {
		sys->close(sys->ctx, fd);
		file->exists = rc == 0 && st.size > 0;
		return rc < 0 ? fail_open(err, rc, file->path) : 0;
	}
	file->stream = true;
	file->fd = fd;
	flags = sys->fcntl(sys->ctx, fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys->fcntl(sys->ctx, fd, F_SETFL, flags & ~O_NONBLOCK);
	return flags < 0 ? fail_open(err, flags, file->path) : 0;
}

static int open_new(struct pev_output_file *file, struct pev_err *err)
{
	const struct pev_sys *sys = file->sys;
	int fd;

	if (asprintf(&file->temporary, "%s.%d.new", file->path, sys->getpid(sys->ctx)) < 0) {
		file->temporary = NULL;
		return fail_open_memory(err, file->path);
	}
	fd = sys->open(sys->ctx, file->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
	if (fd < 0) {
		free(file->temporary); /* the existing file is not ours */
		file->temporary = NULL;
		return fail_open(err, fd, file->path);
	}
	file->fd = fd;
	return 0;
}

int pev_output_file_open(struct pev_output_file *file, const struct pev_sys *sys, const char *path,
			 int fd, struct pev_err *err)
{
	int rc;

	*file = (struct pev_output_file){ .sys = sys, .fd = -1, .process = pev_sys_process() };
	file->path = strdup(path);
	if (!file->path)
		return fail_open_memory(err, path);
	if (strcmp(path, "-") == 0) {
		file->stream = true;
		file->fd = fd > 0 ? fd : 1;
		return 0;
	}
	rc = open_there(file, err);
	return rc < 0 || file->stream ? rc : open_new(file, err);
}

const char *pev_output_file_name(const struct pev_output_file *file)
{
	return strcmp(file->path, "-") == 0 ? "standard output" : file->path;
}

/* Skips n bytes of the pieces. Returns how many pieces are left. */
static int skip_bytes(struct iovec **pieces, int nr, size_t n)
{
	while (nr && n >= (*pieces)->iov_len) {
		n -= (*pieces)->iov_len;
		++*pieces;
		nr--;
	}
	if (nr) {
		(*pieces)->iov_base = (char *)(*pieces)->iov_base + n;
		(*pieces)->iov_len -= n;
	}
	return nr;
}

int pev_output_file_write(struct pev_output_file *file, struct iovec *pieces, int nr)
{
	uint64_t end = file->end;

	while (nr) {
		int64_t n = file->sys->writev(file->sys->ctx, file->fd, pieces,
					      nr < PIECES_MAX ? nr : PIECES_MAX);

		if (n <= 0)
			return n ? (int)n : -EIO;
		end += (uint64_t)n;
		nr = skip_bytes(&pieces, nr, (size_t)n);
	}
	file->end = end;
	return 0;
}

int pev_output_file_rename(struct pev_output_file *file, const char *from, const char *to,
			   struct pev_err *err)
{
	int rc = file->sys->rename(file->sys->ctx, from, to);

	return rc < 0 ? pev_fail(err, rc, "cannot rename %s to %s", from, to) : 0;
}

static int keep_old(struct pev_output_file *file, struct pev_err *err)
{
	char *old;
	int rc;

	if (!file->exists)
		return 0;
	if (asprintf(&old, "%s.old", file->path) < 0)
		return fail_open_memory(err, file->path);
	rc = pev_output_file_rename(file, file->path, old, err);
	free(old);
	return rc;
}

int pev_output_file_publish(struct pev_output_file *file, struct pev_err *err)
{
	int rc;

	if (!file->temporary)
		return 0;
	rc = keep_old(file, err);
	if (rc == 0)
		rc = pev_output_file_rename(file, file->temporary, file->path, err);
	if (rc < 0)
		return rc;
	free(file->temporary);
	file->temporary = NULL;
	return 0;
}

int pev_output_file_close(struct pev_output_file *file)
{
	int rc = file->fd > 1 ? file->sys->close(file->sys->ctx, file->fd) : 0;

	file->fd = -1;
	/* A file system may report a full disk as late as this (close(2), NOTES). */
	return rc == -EINTR ? 0 : rc;
}

void pev_output_file_free(struct pev_output_file *file)
{
	pev_output_file_close(file);
	if (file->temporary && file->process == pev_sys_process())
		file->sys->unlink(file->sys->ctx, file->temporary);
	free(file->temporary);
	free(file->path);
}

/* ---- copies ---- */

#define COPY_BYTES (1u << 20)

/* Copies from fd to its end. Returns 0 or -errno. */
static int copy_bytes(struct pev_output_file *file, int fd)
{
	unsigned char *bytes = malloc(COPY_BYTES);
	int64_t n = bytes ? 1 : -ENOMEM;
	int rc = 0;

	while (n > 0 && rc == 0) {
		n = file->sys->pread(file->sys->ctx, fd, bytes, COPY_BYTES, file->end);
		if (n > 0) {
			struct iovec piece = pev_piece_of(bytes, (size_t)n);

			rc = pev_output_file_write(file, &piece, 1);
		}
	}
	free(bytes);
	return n < 0 ? (int)n : rc;
}

int pev_output_file_copy(const struct pev_sys *sys, const char *from, const char *to,
			 struct pev_err *err)
{
	struct pev_output_file file;
	int fd = sys->open(sys->ctx, from, O_RDONLY | O_NONBLOCK | O_NOCTTY), rc;

	if (fd < 0)
		return pev_fail(err, fd, "cannot read %s: %s", from, strerror(-fd));
	rc = pev_output_file_open(&file, sys, to, 0, err);
	if (rc == 0 && file.stream)
		rc = pev_fail(err, -EINVAL, "cannot copy to %s: not a regular file", to);
	if (rc == 0) {
		rc = copy_bytes(&file, fd);
		if (rc == 0)
			rc = pev_output_file_close(&file);
		rc = rc < 0 ? pev_fail(err, rc, "cannot write to %s: %s", to, strerror(-rc)) :
			      pev_output_file_publish(&file, err);
	}
	sys->close(sys->ctx, fd);
	pev_output_file_free(&file);
	return rc;
}
