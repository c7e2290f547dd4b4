/*
 * nats_client.c - see nats_client.h.
 *
 * Closed connections and subscriptions, which are few in the life of a program, are not freed: a
 * thread of libnats may still use them. nats_CloseAndWait() would end these threads, but it frees
 * lists of OpenSSL that exit(3) frees again (seen with libnats 3.4.1 and OpenSSL 3.0). So the
 * library stays open, and the module is linked so that it is never unloaded.
 */
#include "fleet/nats_client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	MOST_NOTES = 64,
	MOST_UNACKNOWLEDGED = 4096,
	PING_MS = 10000,      /* two missing answers: the connection is given up */
	RECONNECT_MS = 500,
	JITTER_MS = 500,
	WRITE_MS = 5000,      /* a server that reads nothing */
	FOREVER = -1,
};

struct message {
	struct message *next;
	natsMsg *msg;
};

/* The item type's first member is its next pointer. */
struct queue {
	void *first, **last;
	size_t nr;
};

struct pev_nats_subscription {
	struct pev_nats_subscription *next; /* of the same connection */
	struct pev_nats *nats;
	natsSubscription *handle;
	bool is_open;
	struct queue messages;
	size_t bytes, most_messages, most_bytes;
	uint64_t dropped;
	bool is_slow;                       /* a note has said so */
};

struct pev_nats {
	struct pev_nats *next; /* in all_connections */
	natsConnection *connection;
	natsOptions *options;
	jsCtx *js;
	pthread_mutex_t mutex; /* guards everything below */
	int fd;                /* -1 once closed */
	size_t waiting;        /* items in all queues */
	struct queue acks, notes;
	struct pev_nats_subscription *subscriptions;
};

static struct pev_nats *all_connections;
static sigset_t held_signals;

void pev_nats_hold_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &held_signals);
}

void pev_nats_release_signals(void)
{
	pthread_sigmask(SIG_SETMASK, &held_signals, NULL);
}

/* ---- errors ---- */

static int code_of(natsStatus status)
{
	switch (status) {
	case NATS_OK: return 0;
	case NATS_TIMEOUT: return -ETIMEDOUT;
	case NATS_NO_SERVER: return -ECONNREFUSED;
	case NATS_CONNECTION_CLOSED:
	case NATS_CONNECTION_DISCONNECTED:
	case NATS_NOT_YET_CONNECTED: return -ENOTCONN;
	case NATS_CONNECTION_AUTH_FAILED:
	case NATS_NOT_PERMITTED: return -EACCES;
	case NATS_NOT_FOUND:
	case NATS_NO_RESPONDERS: return -ENOENT;
	case NATS_ADDRESS_MISSING:
	case NATS_INVALID_SUBJECT:
	case NATS_INVALID_QUEUE_NAME:
	case NATS_INVALID_ARG: return -EINVAL;
	case NATS_MAX_PAYLOAD: return -E2BIG;
	case NATS_INSUFFICIENT_BUFFER: return -EAGAIN;
	case NATS_NO_MEMORY: return -ENOMEM;
	case NATS_SECURE_CONNECTION_WANTED:
	case NATS_SECURE_CONNECTION_REQUIRED:
	case NATS_SSL_ERROR: return -EPROTO;
	default: return -EIO;
	}
}

int pev_nats_fail(struct pev_err *err, natsStatus status, const char *what)
{
	natsStatus last = NATS_OK;
	const char *detail = nats_GetLastError(&last);
	const char *text = natsStatus_GetText(status);
	const char *place_end = detail && *detail == '(' ? strstr(detail, "): ") : NULL;

	if (place_end) /* "(conn.c:2088): ..." */
		detail = place_end + strlen("): ");
	if (last == status && detail && *detail && strcmp(detail, text) != 0)
		return pev_fail(err, code_of(status), "%s: %s (%s)", what, text, detail);
	return pev_fail(err, code_of(status), "%s: %s", what, text);
}

/* ---- queues; under the mutex ---- */

static void queue_push(struct queue *queue, void *item)
{
	*(void **)item = NULL;
	if (!queue->nr++)
		queue->last = &queue->first;
	*queue->last = item;
	queue->last = item;
}

static void *queue_pop(struct queue *queue)
{
	void *item = queue->first;

	if (!queue->nr)
		return NULL;
	queue->first = *(void **)item;
	queue->nr--;
	return item;
}

/* The descriptor is readable exactly while items wait. */
static void add_item(struct pev_nats *nats, struct queue *queue, void *item)
{
	const uint64_t one = 1;

	queue_push(queue, item);
	if (!nats->waiting++ && write(nats->fd, &one, sizeof(one)) < 0)
		nats->waiting = queue->nr; /* cannot happen: the counter is 0 */
}

static void *take_item(struct pev_nats *nats, struct queue *queue)
{
	void *item = queue_pop(queue);
	uint64_t count;

	if (item && !--nats->waiting && read(nats->fd, &count, sizeof(count)) < 0)
		nats->waiting = 0; /* cannot happen: the counter is 1 */
	return item;
}

static void add_note(struct pev_nats *nats, const char *kind, const char *text)
{
	struct pev_nats_note *note;

	if (nats->fd < 0 || nats->notes.nr >= MOST_NOTES)
		return;
	note = calloc(1, sizeof(*note));
	if (!note)
		return;
	note->kind = kind;
	note->text = text && *text ? strdup(text) : NULL;
	add_item(nats, &nats->notes, note);
}

void pev_nats_note_free(struct pev_nats_note *note)
{
	if (!note)
		return;
	free(note->text);
	free(note);
}

void pev_nats_ack_free(struct pev_nats_ack *ack)
{
	if (!ack)
		return;
	free(ack->id);
	free(ack->stream);
	free(ack->error);
	free(ack);
}

/* ---- callbacks, on threads of libnats ---- */

static void keep_note(struct pev_nats *nats, const char *kind, const char *text)
{
	pthread_mutex_lock(&nats->mutex);
	add_note(nats, kind, text);
	pthread_mutex_unlock(&nats->mutex);
}

static void on_connected(natsConnection *connection, void *ctx)
{
	(void)connection;
	keep_note(ctx, "connected", NULL);
}

static void on_disconnected(natsConnection *connection, void *ctx)
{
	const char *text = NULL;

	natsConnection_GetLastError(connection, &text);
	keep_note(ctx, "disconnected", text);
}

static void on_closed(natsConnection *connection, void *ctx)
{
	const char *text = NULL;

	natsConnection_GetLastError(connection, &text);
	keep_note(ctx, "closed", text);
}

static void on_error(natsConnection *connection, natsSubscription *subscription,
		     natsStatus status, void *ctx)
{
	const char *text = NULL;

	(void)subscription;
	if (status == NATS_SLOW_CONSUMER) {
		keep_note(ctx, "slow", natsStatus_GetText(status));
		return;
	}
	natsConnection_GetLastError(connection, &text);
	keep_note(ctx, "error", text ? text : natsStatus_GetText(status));
}

/* True if the message is kept. */
static bool keep_message(struct pev_nats_subscription *subscription, natsMsg *msg)
{
	struct pev_nats *nats = subscription->nats;
	size_t len = (size_t)natsMsg_GetDataLength(msg);
	struct message *message = NULL;

	if (nats->fd < 0 || !subscription->is_open)
		return false;
	if (subscription->messages.nr < subscription->most_messages &&
	    subscription->bytes + len <= subscription->most_bytes)
		message = malloc(sizeof(*message));
	if (!message) {
		subscription->dropped++;
		if (!subscription->is_slow)
			add_note(nats, "slow", natsMsg_GetSubject(msg));
		subscription->is_slow = true;
		return false;
	}
	message->msg = msg;
	subscription->bytes += len;
	add_item(nats, &subscription->messages, message);
	return true;
}

static void on_message(natsConnection *connection, natsSubscription *handle, natsMsg *msg,
		       void *ctx)
{
	struct pev_nats_subscription *subscription = ctx;
	bool is_kept;

	(void)connection;
	(void)handle;
	pthread_mutex_lock(&subscription->nats->mutex);
	is_kept = keep_message(subscription, msg);
	pthread_mutex_unlock(&subscription->nats->mutex);
	if (!is_kept)
		natsMsg_Destroy(msg);
}

static struct pev_nats_ack *new_ack(natsMsg *msg, const jsPubAck *positive,
				    const jsPubAckErr *negative)
{
	struct pev_nats_ack *ack = calloc(1, sizeof(*ack));
	const char *id = NULL, *text;

	if (!ack)
		return NULL;
	if (natsMsgHeader_Get(msg, "Nats-Msg-Id", &id) == NATS_OK && id)
		ack->id = strdup(id);
	if (positive) {
		ack->sequence = positive->Sequence;
		ack->duplicate = positive->Duplicate;
		ack->stream = positive->Stream ? strdup(positive->Stream) : NULL;
	} else {
		text = negative && negative->ErrText && *negative->ErrText ? negative->ErrText :
			natsStatus_GetText(negative ? negative->Err : NATS_ERR);
		ack->error = strdup(text);
		ack->code = -code_of(negative ? negative->Err : NATS_ERR);
	}
	if (ack->id && (ack->stream || ack->error))
		return ack;
	pev_nats_ack_free(ack);
	return NULL; /* a missing acknowledgement is a failure: the caller sends it again */
}

static void on_ack(jsCtx *js, natsMsg *msg, jsPubAck *positive, jsPubAckErr *negative, void *ctx)
{
	struct pev_nats_ack *ack = new_ack(msg, positive, negative);
	struct pev_nats *nats = ctx;

	(void)js;
	natsMsg_Destroy(msg);
	if (!ack)
		return;
	pthread_mutex_lock(&nats->mutex);
	if (nats->fd >= 0) {
		add_item(nats, &nats->acks, ack);
		ack = NULL;
	}
	pthread_mutex_unlock(&nats->mutex);
	pev_nats_ack_free(ack);
}

/* ---- the connection ---- */

static natsStatus set_identity(natsOptions *to, const struct pev_nats_options *from)
{
	natsStatus s = NATS_OK;

	if (from->name)
		s = natsOptions_SetName(to, from->name);
	if (s == NATS_OK && from->user)
		s = natsOptions_SetUserInfo(to, from->user, from->password ? from->password : "");
	if (s == NATS_OK && from->token)
		s = natsOptions_SetToken(to, from->token);
	if (s == NATS_OK && from->credentials)
		s = natsOptions_SetUserCredentialsFromFiles(to, from->credentials, NULL);
	if (s == NATS_OK && (from->authority || from->certificate))
		s = natsOptions_SetSecure(to, true);
	if (s == NATS_OK && from->authority)
		s = natsOptions_LoadCATrustedCertificates(to, from->authority);
	if (s == NATS_OK && from->certificate)
		s = natsOptions_LoadCertificatesChain(to, from->certificate, from->key);
	if (s == NATS_OK && from->inbox)
		s = natsOptions_SetCustomInboxPrefix(to, from->inbox);
	return s;
}

static natsStatus set_times(natsOptions *to, const struct pev_nats_options *from)
{
	natsStatus s = natsOptions_SetMaxReconnect(to, FOREVER);

	if (s == NATS_OK)
		s = natsOptions_SetReconnectWait(to, RECONNECT_MS);
	if (s == NATS_OK)
		s = natsOptions_SetReconnectJitter(to, JITTER_MS, JITTER_MS);
	if (s == NATS_OK)
		s = natsOptions_SetPingInterval(to, PING_MS);
	if (s == NATS_OK)
		s = natsOptions_SetWriteDeadline(to, WRITE_MS);
	if (s == NATS_OK && from->timeout_ms > 0)
		s = natsOptions_SetTimeout(to, from->timeout_ms);
	return s;
}

static natsStatus set_callbacks(natsOptions *to, struct pev_nats *nats, bool retry)
{
	natsStatus s = natsOptions_SetDisconnectedCB(to, on_disconnected, nats);

	if (s == NATS_OK)
		s = natsOptions_SetReconnectedCB(to, on_connected, nats);
	if (s == NATS_OK)
		s = natsOptions_SetClosedCB(to, on_closed, nats);
	if (s == NATS_OK)
		s = natsOptions_SetErrorHandler(to, on_error, nats);
	if (s == NATS_OK)
		s = natsOptions_UseGlobalMessageDelivery(to, true);
	if (s == NATS_OK && retry)
		s = natsOptions_SetRetryOnFailedConnect(to, true, on_connected, nats);
	return s;
}

static int set_options(struct pev_nats *nats, const struct pev_nats_options *from,
		       struct pev_err *err)
{
	natsStatus s = natsOptions_Create(&nats->options);

	if (s == NATS_OK)
		s = natsOptions_SetServers(nats->options, from->urls, from->nr_urls);
	if (s != NATS_OK)
		return pev_nats_fail(err, s, from->urls[0]);
	s = set_identity(nats->options, from);
	if (s != NATS_OK)
		return pev_nats_fail(err, s, from->certificate ? from->certificate : "identity");
	s = set_times(nats->options, from);
	if (s == NATS_OK)
		s = set_callbacks(nats->options, nats, from->retry);
	return s == NATS_OK ? 0 : pev_nats_fail(err, s, "options");
}

static int connect_nats(struct pev_nats *nats, const struct pev_nats_options *options,
			struct pev_err *err)
{
	int rc = set_options(nats, options, err);
	char what[160];
	natsStatus s;

	if (rc < 0)
		return rc;
	s = natsConnection_Connect(&nats->connection, nats->options);
	if (s == NATS_OK || s == NATS_NOT_YET_CONNECTED)
		return 0;
	snprintf(what, sizeof(what), "cannot connect to %s", options->urls[0]);
	return pev_nats_fail(err, s, what);
}

int pev_nats_open(struct pev_nats **made, const struct pev_nats_options *options,
		  struct pev_err *err)
{
	struct pev_nats *nats = calloc(1, sizeof(*nats));
	int rc;

	*made = NULL;
	if (!nats)
		return pev_fail(err, -ENOMEM, "no memory for a connection");
	nats->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (nats->fd < 0) {
		free(nats);
		return pev_fail(err, -EMFILE, "no descriptor for a connection");
	}
	pthread_mutex_init(&nats->mutex, NULL);
	nats->next = all_connections;
	all_connections = nats;
	pev_nats_hold_signals();
	nats_SetMessageDeliveryPoolSize(1); /* one thread keeps the order of all subscriptions */
	rc = connect_nats(nats, options, err);
	pev_nats_release_signals();
	if (rc < 0) {
		pev_nats_close(nats);
		return rc;
	}
	*made = nats;
	return 0;
}

static void empty_messages(struct pev_nats_subscription *subscription)
{
	struct message *message;

	while ((message = take_item(subscription->nats, &subscription->messages))) {
		natsMsg_Destroy(message->msg);
		free(message);
	}
	subscription->bytes = 0;
}

void pev_nats_unsubscribe(struct pev_nats_subscription *subscription)
{
	natsSubscription *handle;

	pthread_mutex_lock(&subscription->nats->mutex);
	handle = subscription->handle;
	subscription->handle = NULL;
	subscription->is_open = false;
	empty_messages(subscription);
	pthread_mutex_unlock(&subscription->nats->mutex);
	natsSubscription_Destroy(handle);
}

static void empty_queues(struct pev_nats *nats)
{
	void *item;

	while ((item = take_item(nats, &nats->acks)))
		pev_nats_ack_free(item);
	while ((item = take_item(nats, &nats->notes)))
		pev_nats_note_free(item);
}

void pev_nats_close(struct pev_nats *nats)
{
	struct pev_nats_subscription *subscription;

	for (subscription = nats->subscriptions; subscription; subscription = subscription->next)
		pev_nats_unsubscribe(subscription);
	jsCtx_Destroy(nats->js);
	nats->js = NULL;
	natsConnection_Destroy(nats->connection);
	nats->connection = NULL;
	natsOptions_Destroy(nats->options);
	nats->options = NULL;
	pthread_mutex_lock(&nats->mutex);
	empty_queues(nats);
	if (nats->fd >= 0)
		close(nats->fd);
	nats->fd = -1;
	pthread_mutex_unlock(&nats->mutex);
}

void pev_nats_end(void)
{
	for (struct pev_nats *nats = all_connections; nats; nats = nats->next)
		pev_nats_close(nats);
	nats_ReleaseThreadMemory(); /* the text of the last error */
}

int pev_nats_fd(const struct pev_nats *nats)
{
	return nats->fd;
}

enum pev_nats_state pev_nats_state(const struct pev_nats *nats)
{
	switch (nats->connection ? natsConnection_Status(nats->connection) :
				   NATS_CONN_STATUS_CLOSED) {
	case NATS_CONN_STATUS_CONNECTED: return PEV_NATS_CONNECTED;
	case NATS_CONN_STATUS_CLOSED: return PEV_NATS_CLOSED;
	default: return PEV_NATS_CONNECTING;
	}
}

natsConnection *pev_nats_connection(struct pev_nats *nats)
{
	return nats->connection;
}

/* ---- publishing ---- */

static int check_connected(const struct pev_nats *nats, struct pev_err *err)
{
	return pev_nats_state(nats) == PEV_NATS_CONNECTED ? 0 :
		pev_fail(err, -ENOTCONN, "not connected to a server");
}

int pev_nats_publish(struct pev_nats *nats, const char *subject, const char *reply,
		     const void *bytes, size_t len, struct pev_err *err)
{
	int rc = check_connected(nats, err);
	natsStatus s;

	if (rc < 0)
		return rc;
	if (len > INT32_MAX)
		return pev_fail(err, -E2BIG, "cannot publish to %s: too large", subject);
	if (reply)
		s = natsConnection_PublishRequest(nats->connection, subject, reply, bytes,
						  (int)len);
	else
		s = natsConnection_Publish(nats->connection, subject, bytes, (int)len);
	return s == NATS_OK ? 0 : pev_nats_fail(err, s, subject);
}

int pev_nats_request(struct pev_nats *nats, const char *subject, const void *bytes, size_t len,
		     int timeout_ms, natsMsg **answer, struct pev_err *err)
{
	int rc = check_connected(nats, err);
	natsStatus s;

	*answer = NULL;
	if (rc < 0)
		return rc;
	if (len > INT32_MAX)
		return pev_fail(err, -E2BIG, "cannot publish to %s: too large", subject);
	pev_nats_hold_signals();
	s = natsConnection_Request(answer, nats->connection, subject, bytes, (int)len, timeout_ms);
	pev_nats_release_signals();
	return s == NATS_OK ? 0 : pev_nats_fail(err, s, subject);
}

int pev_nats_stream_context(struct pev_nats *nats, jsCtx **js, struct pev_err *err)
{
	jsOptions options;
	natsStatus s;

	*js = nats->js;
	if (nats->js)
		return 0;
	if (!nats->connection)
		return pev_fail(err, -ENOTCONN, "the connection is closed");
	jsOptions_Init(&options);
	options.PublishAsync.MaxPending = MOST_UNACKNOWLEDGED;
	options.PublishAsync.StallWait = 1;
	options.PublishAsync.AckHandler = on_ack;
	options.PublishAsync.AckHandlerClosure = nats;
	pev_nats_hold_signals();
	s = natsConnection_JetStream(&nats->js, nats->connection, &options);
	pev_nats_release_signals();
	*js = nats->js;
	return s == NATS_OK ? 0 : pev_nats_fail(err, s, "JetStream");
}

int pev_nats_publish_stream(struct pev_nats *nats, const char *subject, const void *bytes,
			    size_t len, const char *id, int timeout_ms, struct pev_err *err)
{
	int rc = check_connected(nats, err);
	jsPubOptions options;
	natsMsg *msg = NULL;
	natsStatus s;
	jsCtx *js;

	if (rc >= 0)
		rc = pev_nats_stream_context(nats, &js, err);
	if (rc < 0)
		return rc;
	if (len > INT32_MAX)
		return pev_fail(err, -E2BIG, "cannot publish to %s: too large", subject);
	jsPubOptions_Init(&options);
	options.MsgId = id;
	options.MaxWait = timeout_ms;
	s = natsMsg_Create(&msg, subject, NULL, bytes, (int)len);
	pev_nats_hold_signals();
	if (s == NATS_OK)
		s = js_PublishMsgAsync(js, &msg, &options);
	pev_nats_release_signals();
	natsMsg_Destroy(msg);
	return s == NATS_OK ? 0 : pev_nats_fail(err, s, subject);
}

struct pev_nats_ack *pev_nats_take_ack(struct pev_nats *nats)
{
	struct pev_nats_ack *ack;

	pthread_mutex_lock(&nats->mutex);
	ack = take_item(nats, &nats->acks);
	pthread_mutex_unlock(&nats->mutex);
	return ack;
}

struct pev_nats_note *pev_nats_take_note(struct pev_nats *nats)
{
	struct pev_nats_note *note;

	pthread_mutex_lock(&nats->mutex);
	note = take_item(nats, &nats->notes);
	pthread_mutex_unlock(&nats->mutex);
	return note;
}

/* ---- subscriptions ---- */

static natsStatus start_subscription(struct pev_nats_subscription *subscription,
				     const char *subject, const char *queue)
{
	natsConnection *connection = subscription->nats->connection;
	natsStatus s;

	subscription->is_open = true; /* a message may come before the call returns */
	pev_nats_hold_signals();
	if (queue)
		s = natsConnection_QueueSubscribe(&subscription->handle, connection, subject,
						  queue, on_message, subscription);
	else
		s = natsConnection_Subscribe(&subscription->handle, connection, subject,
					     on_message, subscription);
	pev_nats_release_signals();
	return s;
}

int pev_nats_subscribe(struct pev_nats *nats, const char *subject, const char *queue,
		       size_t most_messages, size_t most_bytes,
		       struct pev_nats_subscription **made, struct pev_err *err)
{
	struct pev_nats_subscription *subscription;
	natsStatus s;

	*made = NULL;
	if (!nats->connection)
		return pev_fail(err, -ENOTCONN, "the connection is closed");
	subscription = calloc(1, sizeof(*subscription));
	if (!subscription)
		return pev_fail(err, -ENOMEM, "no memory for a subscription");
	subscription->nats = nats;
	subscription->most_messages = most_messages;
	subscription->most_bytes = most_bytes;
	subscription->next = nats->subscriptions;
	nats->subscriptions = subscription;
	s = start_subscription(subscription, subject, queue);
	if (s != NATS_OK)
		return pev_nats_fail(err, s, subject);
	*made = subscription;
	return 0;
}

natsMsg *pev_nats_take_message(struct pev_nats_subscription *subscription)
{
	struct message *message;
	natsMsg *msg = NULL;

	pthread_mutex_lock(&subscription->nats->mutex);
	message = take_item(subscription->nats, &subscription->messages);
	if (message) {
		msg = message->msg;
		subscription->bytes -= (size_t)natsMsg_GetDataLength(msg);
		subscription->is_slow = false;
	}
	pthread_mutex_unlock(&subscription->nats->mutex);
	free(message);
	return msg;
}

uint64_t pev_nats_dropped(struct pev_nats_subscription *subscription)
{
	int64_t before_ours = 0;
	uint64_t dropped;

	/* libnats drops messages that wait for its own thread. */
	natsSubscription_GetDropped(subscription->handle, &before_ours);
	pthread_mutex_lock(&subscription->nats->mutex);
	dropped = subscription->dropped + (uint64_t)before_ours;
	pthread_mutex_unlock(&subscription->nats->mutex);
	return dropped;
}
