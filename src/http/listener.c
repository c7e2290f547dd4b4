/*
 * listener.c - the socket on which an HTTP server listens; see listener.h.
 */
#define _GNU_SOURCE
#include "http/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, /* limited by net.core.somaxconn */
       REFUSED_READS = 16 }; /* a client that sends without an end does not hold the caller */

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return fd;
}

/* ---- TCP ---- */

static uint16_t port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} name = { .in6 = { 0 } };
	socklen_t len = sizeof(name);

	if (getsockname(fd, &name.any, &len) < 0)
		return 0;
	return ntohs(name.any.sa_family == AF_INET6 ? name.in6.sin6_port : name.in.sin_port);
}

/* Returns a listening descriptor, or -errno. */
static int listen_on(const struct addrinfo *at)
{
	int fd = open_socket(at->ai_family), on = 1, rc = 0;

	if (fd < 0)
		return fd;
	/* A restart must not wait for the old connections' TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		rc = -errno;
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

int pev_http_listen(struct pev_http_listener *listener, const char *host, uint16_t port,
		    struct pev_err *err)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char service[8];
	int rc, fd;

	*listener = (struct pev_http_listener){ .fd = -1 };
	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &found);
	if (rc)
		return pev_fail(err, -EINVAL, "address '%s': %s", host, gai_strerror(rc));
	fd = listen_on(found);
	freeaddrinfo(found);
	if (fd < 0)
		return pev_fail(err, fd, "%s port %u: %s", host, port, strerror(-fd));
	listener->fd = fd;
	listener->port = port_of(fd);
	return 0;
}

/* ---- Unix sockets ---- */

/* Returns 0 if there is no file at the path, or only a socket that nobody listens on. */
static int check_place(const struct sockaddr_un *at, struct pev_err *err)
{
	struct stat st;
	int fd, rc = 0;

	if (lstat(at->sun_path, &st) < 0) {
		rc = -errno;
		return rc == -ENOENT ? 0 : pev_fail(err, rc, "socket %s: %s", at->sun_path,
						    strerror(-rc));
	}
	if (!S_ISSOCK(st.st_mode))
		return pev_fail(err, -EEXIST, "%s exists and is not a socket", at->sun_path);
	fd = open_socket(AF_UNIX);
	if (fd < 0)
		return pev_fail(err, fd, "socket %s: %s", at->sun_path, strerror(-fd));
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno == EAGAIN)
		rc = -EADDRINUSE;
	else if (errno != ECONNREFUSED && errno != ENOENT)
		rc = -errno;
	close(fd);
	return rc < 0 ? pev_fail(err, rc, "socket %s: %s", at->sun_path, strerror(-rc)) : 0;
}

/* The address for a path; -ENAMETOOLONG. */
static int path_address(struct sockaddr_un *at, const char *path)
{
	const size_t len = strlen(path);

	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (len >= sizeof(at->sun_path))
		return -ENAMETOOLONG;
	memcpy(at->sun_path, path, len + 1);
	return 0;
}

/* Makes the socket under a name of its own, which then replaces a stale one in one step. */
static int listen_at(struct pev_http_listener *listener, const struct sockaddr_un *place)
{
	struct sockaddr_un at;
	char own[sizeof(at.sun_path) + 16];
	mode_t mask;
	int fd, rc;

	snprintf(own, sizeof(own), "%s.%d", place->sun_path, (int)getpid());
	rc = path_address(&at, own);
	if (rc < 0)
		return rc;
	fd = open_socket(AF_UNIX);
	if (fd < 0)
		return fd;
	mask = umask(0177);
	rc = bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ? -errno : 0;
	umask(mask);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	if (listen(fd, BACKLOG) < 0 || lstat(own, &listener->made) < 0 ||
	    rename(own, place->sun_path) < 0) {
		rc = -errno;
		unlink(own);
		close(fd);
		return rc;
	}
	return fd;
}

int pev_http_listen_at(struct pev_http_listener *listener, const char *path, struct pev_err *err)
{
	struct sockaddr_un at;
	int rc = path_address(&at, path), fd;

	*listener = (struct pev_http_listener){ .fd = -1, .process = getpid() };
	if (rc < 0)
		return pev_fail(err, rc, "socket %s: the path is longer than %zu bytes", path,
				sizeof(at.sun_path) - 1);
	rc = check_place(&at, err);
	if (rc < 0)
		return rc;
	listener->path = strdup(path);
	if (!listener->path)
		return pev_fail(err, -ENOMEM, "no memory for a socket");
	fd = listen_at(listener, &at);
	if (fd < 0) {
		pev_http_unlisten(listener);
		return pev_fail(err, fd, "socket %s: %s", path, strerror(-fd));
	}
	listener->fd = fd;
	return 0;
}

void pev_http_unlisten(struct pev_http_listener *listener)
{
	struct stat now;

	if (listener->fd >= 0 && listener->path && listener->process == getpid() &&
	    lstat(listener->path, &now) == 0 && now.st_dev == listener->made.st_dev &&
	    now.st_ino == listener->made.st_ino)
		unlink(listener->path);
	if (listener->fd >= 0)
		close(listener->fd);
	free((char *)listener->path);
	*listener = (struct pev_http_listener){ .fd = -1 };
}

/* ---- connections ---- */

int pev_http_accept(const struct pev_http_listener *listener, struct sockaddr *from,
		    socklen_t *from_len)
{
	int fd = accept4(listener->fd, from, from_len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void pev_http_refuse(int fd)
{
	static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
				     "Content-Type: text/plain\r\nContent-Length: 21\r\n"
				     "Retry-After: 5\r\nConnection: close\r\n\r\n"
				     "too many connections\n";
	char request[4096];

	send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	/* Unread bytes at close() would make the kernel send a reset, which discards the answer. */
	for (int i = 0; i < REFUSED_READS; i++)
		if (recv(fd, request, sizeof(request), MSG_DONTWAIT) < (ssize_t)sizeof(request))
			break;
	close(fd);
}
