/*
 * server.h - an HTTP server in the loop of its caller, without a thread: libmicrohttpd with epoll.
 *
 * pev_http_turn() does everything that is due, for about PEV_HTTP_TURN_NS; what is left is done by
 * the next turn. Between the turns the caller reads rings. Requests are answered by the caller's
 * functions; a body can come in pieces, or as a stream that the caller fills at any time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "http/listener.h"

enum {
	PEV_HTTP_CONNECTIONS = 64, /* further ones are answered with 503 */
	PEV_HTTP_MEMORY = 16384, /* of a connection: a larger header is answered with 431 */
	PEV_HTTP_QUEUE = 4 << 20, /* most unsent bytes of a stream */
	PEV_HTTP_REQUEST_S = 30, /* a request must be complete after this time */
	PEV_HTTP_ANSWER_S = 60, /* and its answer read, unless it is a stream */
	PEV_HTTP_TURN_NS = 1000000
};

struct pev_http;
struct pev_http_exchange; /* a request and its answer */

enum pev_http_body {
	PEV_HTTP_WHOLE,
	PEV_HTTP_PIECES,
	PEV_HTTP_STREAM
};

struct pev_http_calls {
	void *ctx;
	/* Answers by pev_http_reply() or pev_http_fail(). */
	void (*request)(void *ctx, struct pev_http_exchange *exchange);
	/*
	 * Sets the next piece, which stays valid until the next call for this exchange. Returns
	 * 1, 0 at the end, or -errno: the connection is cut. An empty piece: none yet.
	 */
	int (*piece)(void *ctx, struct pev_http_exchange *exchange, const char **bytes,
		     size_t *len);
	/* The exchange is over; this is the last call for it. */
	void (*over)(void *ctx, struct pev_http_exchange *exchange);
};

/*
 * Takes the listener over, which the server closes. request_s, answer_s: instead of
 * PEV_HTTP_REQUEST_S and PEV_HTTP_ANSWER_S. On failure the listener is closed.
 */
int pev_http_open(struct pev_http **http, struct pev_http_listener *listener,
		  const struct pev_http_calls *calls, unsigned request_s, unsigned answer_s,
		  struct pev_err *err);
/* Cuts all connections. NULL is allowed. Not within a turn. */
void pev_http_close(struct pev_http *http);
bool pev_http_is_in_turn(const struct pev_http *http);
/* Readable when a turn is due. */
int pev_http_fd(const struct pev_http *http);
const struct pev_http_listener *pev_http_listener_of(const struct pev_http *http);
void pev_http_turn(struct pev_http *http);
/* After a turn: the next one is due after ns at the latest. */
void pev_http_wake(struct pev_http *http, uint64_t ns);

/* The open connections, and those refused so far because there were too many. */
unsigned pev_http_connections(const struct pev_http *http);
uint64_t pev_http_refused(const struct pev_http *http);

/* ---- an exchange ---- */

uint64_t pev_http_id(const struct pev_http_exchange *exchange);
const char *pev_http_method(const struct pev_http_exchange *exchange);
const char *pev_http_path(const struct pev_http_exchange *exchange);
/* Calls f for each header, or each argument of the query. value may be NULL. */
typedef void pev_http_pair(void *ctx, const char *name, const char *value);
void pev_http_each_header(const struct pev_http_exchange *exchange, pev_http_pair *f, void *ctx);
void pev_http_each_argument(const struct pev_http_exchange *exchange, pev_http_pair *f, void *ctx);

/* Answers; bytes (of PEV_HTTP_WHOLE) are copied. -ENOMEM; -EINVAL for a second answer. */
int pev_http_reply(struct pev_http_exchange *exchange, unsigned status, enum pev_http_body body,
		   const char *bytes, size_t len);
/* Adds a header to the answer. -EINVAL: it has a line feed, for example. */
int pev_http_header(struct pev_http_exchange *exchange, const char *name, const char *value);

/* Answers with 500, in the place of an answer begun before. */
void pev_http_fail(struct pev_http_exchange *exchange);

/*
 * Sends bytes on the stream of this id. -ENOENT: it is over; -ENOBUFS: its reader is too slow, and
 * it is cut; -ENOMEM.
 */
int pev_http_send(struct pev_http *http, uint64_t id, const char *bytes, size_t len);
/* Ends the stream when its bytes are sent. */
void pev_http_finish(struct pev_http *http, uint64_t id);
