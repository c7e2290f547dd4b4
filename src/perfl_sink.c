/*
 * perfl_sink.c - the files that perfl writes: standard output, that of -o and that of --pack.
 *
 * A write is whole, or its errno is kept, which stdio does not do. A reader that stops reading
 * does not hold a perfl that was signalled.
 */
#define _GNU_SOURCE
#include "perfl_sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#define GRACE_MS 700
#define NR(array) (sizeof(array) / sizeof((array)[0]))

/* Standard output, the file of -o, and that of --pack. */
struct sink {
	FILE *file;
	int fd;
	int code; /* errno of the first write that failed: stdio keeps none */
	char buffer[1 << 16];
};

static bool (*signal_came)(void);
static struct sink standard = { .fd = STDOUT_FILENO }, named[2];

/* True if the reader of our output reads within GRACE_MS. */
static bool is_read(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLOUT };
	int rc;

	do
		rc = poll(&wait, 1, GRACE_MS);
	while (rc < 0 && errno == EINTR);
	return rc != 0;
}

/* The size of one write; after a signal at most the size that a pipe takes without blocking. */
static size_t limit_write(size_t len)
{
	return signal_came() && len > PIPE_BUF ? PIPE_BUF : len;
}

/*
 * stdio fails on a short write and on EAGAIN, which a command that shares our terminal causes
 * by setting O_NONBLOCK. This function writes everything, or keeps the errno. After a signal
 * it waits GRACE_MS for a reader that does not read.
 */
static ssize_t write_sink(void *cookie, const char *text, size_t len)
{
	struct sink *sink = cookie;
	size_t done = 0;

	while (done < len) {
		ssize_t n;

		if (signal_came() && (sink->code == EINTR || !is_read(sink->fd))) {
			sink->code = EINTR;
			return 0;
		}
		n = write(sink->fd, text + done, limit_write(len - done));

		if (n > 0) {
			done += (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd wait = { .fd = sink->fd, .events = POLLOUT };

			poll(&wait, 1, -1);
		} else if (n == 0 || errno != EINTR) {
			if (!sink->code)
				sink->code = n == 0 ? EIO : errno;
			return 0; /* fopencookie(3): 0 reports an error */
		}
	}
	return (ssize_t)len;
}

int perfl_sink_open_stdout(bool (*has_signal)(void))
{
	const cookie_io_functions_t functions = { .write = write_sink };

	signal_came = has_signal;
	standard.file = fopencookie(&standard, "w", functions);
	if (!standard.file)
		return -errno;
	/* With NULL for the buffer, glibc ignores the size. */
	setvbuf(standard.file, standard.buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF,
		sizeof(standard.buffer));
	stdout = standard.file;
	return 0;
}

static int seek_sink(void *cookie, off64_t *offset, int whence)
{
	*offset = lseek64(((struct sink *)cookie)->fd, *offset, whence);
	return *offset < 0 ? -1 : 0;
}

static int close_sink(void *cookie)
{
	struct sink *sink = cookie;

	sink->file = NULL;
	return close(sink->fd);
}

static struct sink *find_sink(const FILE *file)
{
	if (file == standard.file)
		return &standard;
	for (size_t i = 0; i < NR(named); i++)
		if (file == named[i].file)
			return &named[i];
	return NULL;
}

FILE *perfl_sink_open(int fd)
{
	const cookie_io_functions_t functions = { .write = write_sink,
						  .seek = seek_sink,
						  .close = close_sink };
	struct sink *sink = find_sink(NULL);

	if (!sink) {
		errno = EMFILE;
		return NULL;
	}
	sink->fd = fd;
	sink->code = 0;
	sink->file = fopencookie(sink, "w", functions);
	if (sink->file)
		setvbuf(sink->file, sink->buffer, _IOFBF, sizeof(sink->buffer));
	return sink->file;
}

int perfl_sink_error(const FILE *file)
{
	const struct sink *sink = find_sink(file);

	return sink ? sink->code : 0;
}

int perfl_sink_fd(const FILE *file)
{
	const struct sink *sink = find_sink(file);

	return sink && sink != &standard ? sink->fd : -1;
}
