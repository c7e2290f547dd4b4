/*
 * server.c - an HTTP server in the loop of its caller; see server.h.
 *
 * One epoll descriptor, which the caller watches, has three sources: the listening socket, the
 * epoll descriptor of libmicrohttpd, and a timer. The server accepts connections itself, because
 * libmicrohttpd leaves those beyond its limit waiting without an answer.
 */
#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { ACCEPTED_PER_TURN = 64,
       TICK_S = 1 };

struct connection {
	struct connection *next, **link;
	struct MHD_Connection *mhd;
	int fd;
	uint64_t since; /* ns: connected, answered, or got the request */
	struct pev_http_exchange *exchange; /* the request that is being answered, or NULL */
};

struct pev_http_exchange {
	struct pev_http *http;
	struct connection *connection;
	const char *method, *path; /* until the request is answered */
	uint64_t id;
	struct MHD_Response *response; /* from pev_http_reply() until it is queued */
	unsigned status;
	enum pev_http_body body;
	const char *piece; /* what is left of the current piece */
	size_t piece_len;
	char *queue; /* of a stream: its unsent bytes are start .. len */
	size_t start, len, cap;
	bool asked; /* the request was passed to the caller */
	bool starved; /* suspended until the next turn */
	bool idle; /* a stream, suspended until bytes are sent */
	bool finished, failed;
};

struct pev_http {
	struct pev_http_listener listener;
	struct pev_http_calls calls;
	struct MHD_Daemon *daemon;
	struct connection *connections;
	int epfd, timer;
	bool accepts; /* the listening socket is in epfd */
	bool in_turn;
	unsigned nr;
	uint64_t refused, last_id, deadline, swept;
	uint64_t wake; /* when a turn is due at the latest; 0: never */
	uint64_t request_ns, answer_ns;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool is_turn_over(const struct pev_http *http)
{
	return now_ns() >= http->deadline;
}

/* ---- answers ---- */

static ssize_t copy_piece(struct pev_http_exchange *x, char *buf, size_t max)
{
	const size_t len = x->piece_len < max ? x->piece_len : max;

	memcpy(buf, x->piece, len);
	x->piece += len;
	x->piece_len -= len;
	return (ssize_t)len;
}

static ssize_t suspend(struct pev_http_exchange *x, bool *reason)
{
	*reason = true;
	MHD_suspend_connection(x->connection->mhd);
	return 0;
}

/* Called by libmicrohttpd for the next bytes of a body in pieces. */
static ssize_t read_pieces(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct pev_http_exchange *x = cls;
	int rc;

	(void)pos;
	while (!x->piece_len) {
		if (is_turn_over(x->http))
			return suspend(x, &x->starved);
		rc = x->http->calls.piece(x->http->calls.ctx, x, &x->piece, &x->piece_len);
		if (rc < 0)
			return MHD_CONTENT_READER_END_WITH_ERROR;
		if (rc == 0)
			return MHD_CONTENT_READER_END_OF_STREAM;
	}
	return copy_piece(x, buf, max);
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct pev_http_exchange *x = cls;
	size_t len = x->len - x->start;

	(void)pos;
	if (x->failed)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (!len && x->finished)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!len)
		return suspend(x, &x->idle);
	len = len < max ? len : max;
	memcpy(buf, x->queue + x->start, len);
	x->start += len;
	return (ssize_t)len;
}

int pev_http_reply(struct pev_http_exchange *x, unsigned status, enum pev_http_body body,
		   const char *bytes, size_t len)
{
	if (x->response)
		return -EINVAL;
	if (body == PEV_HTTP_WHOLE)
		x->response = MHD_create_response_from_buffer(len, (void *)bytes,
							      MHD_RESPMEM_MUST_COPY);
	else
		x->response = MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, PEV_HTTP_MEMORY,
			body == PEV_HTTP_PIECES ? read_pieces : read_stream, x, NULL);
	if (!x->response)
		return -ENOMEM;
	x->status = status;
	x->body = body;
	return 0;
}

int pev_http_header(struct pev_http_exchange *x, const char *name, const char *value)
{
	return MHD_add_response_header(x->response, name, value) == MHD_YES ? 0 : -EINVAL;
}

void pev_http_fail(struct pev_http_exchange *x)
{
	static const char text[] = "failed\n";

	if (x->response)
		MHD_destroy_response(x->response);
	x->response = NULL;
	pev_http_reply(x, 500, PEV_HTTP_WHOLE, text, sizeof(text) - 1);
}

static enum MHD_Result queue_answer(struct pev_http_exchange *x)
{
	enum MHD_Result queued = MHD_NO;

	if (x->response) {
		queued = MHD_queue_response(x->connection->mhd, x->status, x->response);
		MHD_destroy_response(x->response);
	}
	x->response = NULL;
	x->connection->since = now_ns();
	return queued;
}

/* ---- requests ---- */

static struct pev_http_exchange *new_exchange(struct pev_http *http, struct connection *connection)
{
	struct pev_http_exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->http = http;
	x->connection = connection;
	x->id = ++http->last_id;
	connection->exchange = x;
	return x;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/*
 * Called by libmicrohttpd when the header of a request is complete, for each part of its body, and
 * when the request is complete. A request with a body is answered without reading it.
 */
static enum MHD_Result handle_request(void *cls, struct MHD_Connection *mhd, const char *path,
				      const char *method, const char *version, const char *upload,
				      size_t *upload_len, void **request)
{
	struct pev_http *http = cls;
	struct connection *connection = connection_of(mhd);
	struct pev_http_exchange *x = *request;
	bool has_body;

	(void)version;
	(void)upload;
	(void)upload_len;
	if (!x) {
		x = *request = connection ? new_exchange(http, connection) : NULL;
		if (!x)
			return MHD_NO;
		has_body = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Content-Length") ||
			   MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Transfer-Encoding");
		if (!has_body)
			return MHD_YES; /* an answer now would close the connection */
	}
	if (x->asked)
		return MHD_YES;
	if (is_turn_over(http)) {
		suspend(x, &x->starved);
		return MHD_YES;
	}
	x->asked = true;
	x->method = method;
	x->path = path;
	http->calls.request(http->calls.ctx, x);
	return queue_answer(x);
}

static void end_request(void *cls, struct MHD_Connection *mhd, void **request,
			enum MHD_RequestTerminationCode code)
{
	struct pev_http *http = cls;
	struct pev_http_exchange *x = *request;

	(void)mhd;
	(void)code;
	if (!x)
		return;
	if (x->asked)
		http->calls.over(http->calls.ctx, x);
	x->connection->exchange = NULL;
	x->connection->since = now_ns();
	free(x->queue);
	free(x);
	*request = NULL;
}

uint64_t pev_http_id(const struct pev_http_exchange *x)
{
	return x->id;
}

const char *pev_http_method(const struct pev_http_exchange *x)
{
	return x->method;
}

const char *pev_http_path(const struct pev_http_exchange *x)
{
	return x->path;
}

struct pairs {
	pev_http_pair *f;
	void *ctx;
};

static enum MHD_Result pass_pair(void *cls, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	const struct pairs *pairs = cls;

	(void)kind;
	pairs->f(pairs->ctx, name, value);
	return MHD_YES;
}

void pev_http_each_header(const struct pev_http_exchange *x, pev_http_pair *f, void *ctx)
{
	MHD_get_connection_values(x->connection->mhd, MHD_HEADER_KIND, pass_pair,
				  &(struct pairs){ f, ctx });
}

void pev_http_each_argument(const struct pev_http_exchange *x, pev_http_pair *f, void *ctx)
{
	MHD_get_connection_values(x->connection->mhd, MHD_GET_ARGUMENT_KIND, pass_pair,
				  &(struct pairs){ f, ctx });
}

/* ---- streams ---- */

static struct pev_http_exchange *find_stream(const struct pev_http *http, uint64_t id)
{
	for (struct connection *c = http->connections; c; c = c->next)
		if (c->exchange && c->exchange->id == id && c->exchange->body == PEV_HTTP_STREAM)
			return c->exchange;
	return NULL;
}

static void resume(struct pev_http_exchange *x, bool *reason)
{
	if (!*reason)
		return;
	*reason = false;
	MHD_resume_connection(x->connection->mhd);
}

static int append(struct pev_http_exchange *x, const char *bytes, size_t len)
{
	const size_t unsent = x->len - x->start;
	size_t cap = x->cap ? x->cap : 4096;
	char *queue;

	if (x->start) {
		memmove(x->queue, x->queue + x->start, unsent);
		x->start = 0;
		x->len = unsent;
	}
	while (cap < unsent + len)
		cap *= 2;
	queue = cap > x->cap ? realloc(x->queue, cap) : x->queue;
	if (!queue)
		return -ENOMEM;
	x->queue = queue;
	x->cap = cap;
	memcpy(x->queue + x->len, bytes, len);
	x->len += len;
	return 0;
}

int pev_http_send(struct pev_http *http, uint64_t id, const char *bytes, size_t len)
{
	struct pev_http_exchange *x = find_stream(http, id);
	int rc = 0;

	if (!x || x->finished || x->failed)
		return -ENOENT;
	if (len > PEV_HTTP_QUEUE || x->len - x->start > PEV_HTTP_QUEUE - len)
		rc = -ENOBUFS;
	else if (len)
		rc = append(x, bytes, len);
	x->failed = rc < 0;
	resume(x, &x->idle);
	return rc;
}

void pev_http_finish(struct pev_http *http, uint64_t id)
{
	struct pev_http_exchange *x = find_stream(http, id);

	if (!x)
		return;
	x->finished = true;
	resume(x, &x->idle);
}

/* ---- connections ---- */

static void follow_connection(void *cls, struct MHD_Connection *mhd, void **context,
			      enum MHD_ConnectionNotificationCode code)
{
	struct pev_http *http = cls;
	struct connection *c = *context;
	const union MHD_ConnectionInfo *info;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (!c)
			return;
		*c->link = c->next;
		if (c->next)
			c->next->link = c->link;
		http->nr--;
		free(c);
		*context = NULL;
		return;
	}
	c = calloc(1, sizeof(*c));
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!c || !info) {
		free(c);
		return; /* without a context no request of it is answered */
	}
	c->mhd = mhd;
	c->fd = info->connect_fd;
	c->since = now_ns();
	c->next = http->connections;
	c->link = &http->connections;
	if (c->next)
		c->next->link = &c->next;
	http->connections = c;
	http->nr++;
	*context = c;
}

static void watch_listener(struct pev_http *http, bool on)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (http->accepts == on)
		return;
	if (epoll_ctl(http->epfd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, http->listener.fd, &event) ==
	    0)
		http->accepts = on;
}

static void accept_connections(struct pev_http *http)
{
	struct sockaddr_storage from;
	socklen_t from_len;
	int fd;

	for (int i = 0; i < ACCEPTED_PER_TURN && !is_turn_over(http); i++) {
		from_len = sizeof(from);
		fd = pev_http_accept(&http->listener, (struct sockaddr *)&from, &from_len);
		if (fd == -EAGAIN)
			return;
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
			watch_listener(http, false); /* until the next tick */
			return;
		}
		if (fd < 0)
			continue;
		if (http->nr >= PEV_HTTP_CONNECTIONS) {
			http->refused++;
			pev_http_refuse(fd);
			continue;
		}
		/* Closes the descriptor if it fails. */
		MHD_add_connection(http->daemon, fd, (struct sockaddr *)&from, from_len);
	}
}

/*
 * True if the client has closed and nothing of it is left to be answered. libmicrohttpd waits for
 * edges, and does not see an end that came together with the last bytes that it read.
 */
static bool has_left(const struct connection *c, uint64_t now)
{
	char byte;

	return now - c->since > (uint64_t)TICK_S * 1000000000 &&
	       !(c->exchange && c->exchange->starved) &&
	       recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Cuts the connections whose request or answer takes too long, and those that clients have left. */
static void cut_slow_ones(struct pev_http *http, uint64_t now)
{
	for (struct connection *c = http->connections; c; c = c->next) {
		const struct pev_http_exchange *x = c->exchange;
		const bool is_answered = x && x->asked;
		const uint64_t limit = is_answered ? http->answer_ns : http->request_ns;

		if (is_answered && x->body == PEV_HTTP_STREAM)
			continue;
		/* libmicrohttpd then sees the end of the connection. */
		if (now - c->since > limit || (!is_answered && has_left(c, now)))
			shutdown(c->fd, SHUT_RDWR);
	}
}

/* ---- turns ---- */

static bool is_work_left(struct pev_http *http)
{
	unsigned long long timeout_ms;

	if (MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0)
		return true;
	for (struct connection *c = http->connections; c; c = c->next)
		if (c->exchange && c->exchange->starved)
			return true;
	return false;
}

/* ns until the next turn without a request; 0: none is needed. */
static uint64_t time_to_turn(struct pev_http *http)
{
	const uint64_t tick = (uint64_t)TICK_S * 1000000000, now = now_ns();
	uint64_t left = http->connections || !http->accepts ? tick : 0;

	if (is_work_left(http))
		return 1;
	if (http->wake && (!left || http->wake < now + left))
		left = http->wake > now ? http->wake - now : 1;
	return left;
}

static void arm_timer(struct pev_http *http)
{
	const uint64_t left = time_to_turn(http);
	const struct itimerspec when = { .it_value = { .tv_sec = (time_t)(left / 1000000000),
						       .tv_nsec = (long)(left % 1000000000) } };

	timerfd_settime(http->timer, 0, &when, NULL);
}

void pev_http_turn(struct pev_http *http)
{
	const uint64_t now = now_ns();
	unsigned long long timeout_ms;
	uint64_t expired;

	if (http->in_turn) /* a function that answers a request runs the caller's loop */
		return;
	http->in_turn = true;
	http->deadline = now + PEV_HTTP_TURN_NS;
	http->wake = 0;
	if (read(http->timer, &expired, sizeof(expired)) < 0)
		expired = 0;
	if (now - http->swept >= (uint64_t)TICK_S * 1000000000) {
		http->swept = now;
		watch_listener(http, true);
		cut_slow_ones(http, now);
	}
	accept_connections(http);
	for (struct connection *c = http->connections; c; c = c->next)
		if (c->exchange)
			resume(c->exchange, &c->exchange->starved);
	do
		MHD_run(http->daemon);
	while (!is_turn_over(http) &&
	       MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0);
	arm_timer(http);
	http->in_turn = false;
}

void pev_http_wake(struct pev_http *http, uint64_t ns)
{
	http->wake = now_ns() + ns;
	arm_timer(http);
}

/* ---- open and close ---- */

static int start_daemon(struct pev_http *http, unsigned request_s)
{
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		handle_request, http, MHD_OPTION_NOTIFY_COMPLETED, end_request, http,
		MHD_OPTION_NOTIFY_CONNECTION, follow_connection, http,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)PEV_HTTP_MEMORY,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)PEV_HTTP_CONNECTIONS + 1,
		MHD_OPTION_CONNECTION_TIMEOUT, request_s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_END);
	return http->daemon ? 0 : -ENOMEM;
}

static int watch(struct pev_http *http, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(http->epfd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_descriptors(struct pev_http *http)
{
	http->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (http->epfd < 0)
		return -errno;
	http->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return http->timer < 0 ? -errno : 0;
}

static int watch_all(struct pev_http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int rc = info ? watch(http, info->epoll_fd) : -EINVAL;

	if (rc == 0)
		rc = watch(http, http->timer);
	if (rc == 0)
		watch_listener(http, true);
	return rc;
}

int pev_http_open(struct pev_http **opened, struct pev_http_listener *listener,
		  const struct pev_http_calls *calls, unsigned request_s, unsigned answer_s,
		  struct pev_err *err)
{
	struct pev_http *http = calloc(1, sizeof(*http));
	int rc;

	if (!http) {
		pev_http_unlisten(listener);
		return pev_fail(err, -ENOMEM, "no memory for a server");
	}
	request_s = request_s ? request_s : PEV_HTTP_REQUEST_S;
	http->listener = *listener;
	http->calls = *calls;
	http->epfd = http->timer = -1;
	http->request_ns = (uint64_t)request_s * 1000000000;
	http->answer_ns = (uint64_t)(answer_s ? answer_s : PEV_HTTP_ANSWER_S) * 1000000000;
	rc = open_descriptors(http);
	if (rc == 0)
		rc = start_daemon(http, request_s);
	if (rc == 0)
		rc = watch_all(http);
	if (rc < 0) {
		pev_http_close(http);
		return pev_fail(err, rc, "cannot start a server: %s", strerror(-rc));
	}
	*opened = http;
	return 0;
}

void pev_http_close(struct pev_http *http)
{
	if (!http)
		return;
	/* libmicrohttpd does not stop with suspended connections. */
	for (struct connection *c = http->connections; c; c = c->next) {
		if (!c->exchange)
			continue;
		c->exchange->failed = true;
		resume(c->exchange, &c->exchange->starved);
		resume(c->exchange, &c->exchange->idle);
	}
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	pev_http_unlisten(&http->listener);
	if (http->timer >= 0)
		close(http->timer);
	if (http->epfd >= 0)
		close(http->epfd);
	free(http);
}

bool pev_http_is_in_turn(const struct pev_http *http)
{
	return http->in_turn;
}

int pev_http_fd(const struct pev_http *http)
{
	return http->epfd;
}

const struct pev_http_listener *pev_http_listener_of(const struct pev_http *http)
{
	return &http->listener;
}

unsigned pev_http_connections(const struct pev_http *http)
{
	return http->nr;
}

uint64_t pev_http_refused(const struct pev_http *http)
{
	return http->refused;
}
