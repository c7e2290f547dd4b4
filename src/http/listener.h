/*
 * listener.h - the socket on which an HTTP server listens: a TCP port or a path.
 *
 * The module perfev.http makes its own system calls, because libmicrohttpd does, too: hooks and
 * the simulated kernel do not see them.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/err.h"

struct pev_http_listener {
	int fd; /* non-blocking */
	uint16_t port; /* of TCP: the chosen one if 0 was asked for */
	const char *path; /* of a Unix socket, owned; NULL: TCP */
	struct stat made; /* the file that bind() made at path */
	int process; /* that listens: a child process leaves the file */
};

/*
 * Listens on host (a name or an address) and port. Port 0: the kernel chooses one. Returns 0, or
 * -errno with the reason; then nothing is open.
 */
int pev_http_listen(struct pev_http_listener *listener, const char *host, uint16_t port,
		    struct pev_err *err);
/*
 * Listens on a Unix socket, which only its owner may use (mode 0600). Replaces a socket on
 * which no process listens any more; -EEXIST for any other file, -EADDRINUSE for a used one.
 */
int pev_http_listen_at(struct pev_http_listener *listener, const char *path, struct pev_err *err);
/* Closes it, and removes the file that pev_http_listen_at() made if it is still there. */
void pev_http_unlisten(struct pev_http_listener *listener);

/*
 * The next connection as a non-blocking descriptor; -EAGAIN: none waits; -EMFILE and others: the
 * connection cannot be taken now.
 */
int pev_http_accept(const struct pev_http_listener *listener, struct sockaddr *from,
		    socklen_t *from_len);
/* Answers a connection with 503 without reading its request, and closes it. Does not wait. */
void pev_http_refuse(int fd);
