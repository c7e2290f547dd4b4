/*
 * output_file.h - a file that is written front to back, and gets its name when it has content.
 *
 * A regular file is written as FILE.PID.new; pev_output_file_publish() renames it to FILE, and a
 * previous FILE to FILE.old. So a program that is killed or writes nothing leaves the previous
 * file alone. A new file has mode 0600. A FIFO, a device or standard output is written directly.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/sys.h"

struct pev_output_file {
	const struct pev_sys *sys; /* borrowed */
	char *path;      /* owned */
	char *temporary; /* owned: the name until publish(), then NULL */
	int fd;
	unsigned process; /* owner: pev_sys_process() */
	bool stream;      /* not a regular file */
	bool exists;      /* a file of that name exists, with content */
	uint64_t end;     /* bytes written */
};

/*
 * Opens the file; for the path "-" fd, or standard output if fd is 0. Returns 0, -EISDIR, -ELOOP (a
 * symbolic link, which is not followed), -ENXIO (a FIFO without reader), or another error of
 * open(2). Call free() in each case. sys is borrowed.
 */
int pev_output_file_open(struct pev_output_file *file, const struct pev_sys *sys, const char *path,
			 int fd, struct pev_err *err);

/* Returns the path for a message. */
const char *pev_output_file_name(const struct pev_output_file *file);

/*
 * Writes all pieces, and changes them. Returns 0 or -errno;
 * after an error, file->end is where this call began.
 */
int pev_output_file_write(struct pev_output_file *file, struct iovec *pieces, int nr);

/* Gives the file its own name, if it has its temporary one. Returns 0 or -errno. */
int pev_output_file_publish(struct pev_output_file *file, struct pev_err *err);

/* Renames a file. Returns 0 or -errno. */
int pev_output_file_rename(struct pev_output_file *file, const char *from, const char *to,
			   struct pev_err *err);

/* Closes the descriptor, unless it is standard output. Returns 0 or -errno of a late write. */
int pev_output_file_close(struct pev_output_file *file);

/* Closes, and removes a file that was not published. Frees the names. */
void pev_output_file_free(struct pev_output_file *file);

/*
 * Copies a regular file into a new one. Returns 0 or -errno; -EINVAL if the copy is not a regular
 * file. sys is borrowed.
 */
int pev_output_file_copy(const struct pev_sys *sys, const char *from, const char *to,
			 struct pev_err *err);

/* Returns a piece with these bytes. */
static inline struct iovec pev_piece_of(const void *bytes, size_t len)
{
	return (struct iovec){ .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
}
