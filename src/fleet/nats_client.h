/*
 * nats_client.h - a connection to NATS for a program with one thread.
 *
 * libnats calls back on threads of its own. The callbacks only put messages, acknowledgements and
 * notes into bounded queues of the connection; its descriptor is readable while a queue has an
 * item. All functions below are called by one thread. They block all signals while libnats may
 * start a thread, so that signals stay with the caller's threads.
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_nats;
struct pev_nats_subscription;

struct pev_nats_options {
	const char **urls;
	int nr_urls;
	const char *authority;   /* PEM files; NULL: no TLS unless the URL is tls:// */
	const char *certificate;
	const char *key;
	const char *credentials; /* a file of nsc(1) */
	const char *user;
	const char *password;
	const char *token;
	const char *name;        /* of the connection, for the server's lists */
	const char *inbox;       /* prefix of reply subjects; NULL: "_INBOX" */
	int timeout_ms;          /* for the first connection */
	bool retry;              /* goes on in the background if no server answers */
};

/* The state of the connection. */
enum pev_nats_state {
	PEV_NATS_CLOSED,
	PEV_NATS_CONNECTING,
	PEV_NATS_CONNECTED,
};

struct pev_nats_ack {
	struct pev_nats_ack *next;
	char *id;
	char *stream;      /* NULL after an error */
	uint64_t sequence;
	bool duplicate;
	char *error;       /* NULL if the stream has the message */
	int code;          /* errno of the error */
};

struct pev_nats_note {
	struct pev_nats_note *next;
	const char *kind;  /* "connected", "disconnected", "closed", "error", "slow" */
	char *text;        /* can be NULL */
};

/* 0, or -errno with the reason. */
int pev_nats_open(struct pev_nats **nats, const struct pev_nats_options *options,
		  struct pev_err *err);

/* Ends the subscriptions, too. The structure stays valid. */
void pev_nats_close(struct pev_nats *nats);

/* Closes all connections; for the end of the program. */
void pev_nats_end(void);

int pev_nats_fd(const struct pev_nats *nats);
enum pev_nats_state pev_nats_state(const struct pev_nats *nats);

/* For calls that libnats answers at once. NULL after pev_nats_close(). */
natsConnection *pev_nats_connection(struct pev_nats *nats);

/* The JetStream context, which is made on first use. */
int pev_nats_stream_context(struct pev_nats *nats, jsCtx **js, struct pev_err *err);

/* Refused with -ENOTCONN while there is no server: libnats would keep the bytes. */
int pev_nats_publish(struct pev_nats *nats, const char *subject, const char *reply,
		     const void *bytes, size_t len, struct pev_err *err);

/* The answer is the caller's to destroy. */
int pev_nats_request(struct pev_nats *nats, const char *subject, const void *bytes, size_t len,
		     int timeout_ms, natsMsg **answer, struct pev_err *err);

/* Publishes to a stream under an id; pev_nats_take_ack() returns its acknowledgement. */
int pev_nats_publish_stream(struct pev_nats *nats, const char *subject, const void *bytes,
			    size_t len, const char *id, int timeout_ms, struct pev_err *err);

/* The oldest item, the caller's to free; NULL: none. */
struct pev_nats_ack *pev_nats_take_ack(struct pev_nats *nats);
struct pev_nats_note *pev_nats_take_note(struct pev_nats *nats);
void pev_nats_ack_free(struct pev_nats_ack *ack);
void pev_nats_note_free(struct pev_nats_note *note);

/* Messages beyond most_messages or most_bytes are dropped and counted. queue can be NULL. */
int pev_nats_subscribe(struct pev_nats *nats, const char *subject, const char *queue,
		       size_t most_messages, size_t most_bytes,
		       struct pev_nats_subscription **subscription, struct pev_err *err);

/* The oldest message, the caller's to destroy; NULL: none. */
natsMsg *pev_nats_take_message(struct pev_nats_subscription *subscription);
uint64_t pev_nats_dropped(struct pev_nats_subscription *subscription);
void pev_nats_unsubscribe(struct pev_nats_subscription *subscription);

/* A status of libnats as -errno, with what and libnats' own reason in err. */
int pev_nats_fail(struct pev_err *err, natsStatus status, const char *what);

/* All signals are blocked in between; for calls that may start a thread. */
void pev_nats_hold_signals(void);
void pev_nats_release_signals(void);
