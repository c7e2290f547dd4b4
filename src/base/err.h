/*
 * err.h - a failure: a message for people, and fields for code.
 *
 * C functions return a value >= 0 or -errno; a failure's message and fields are
 * written into the caller's struct pev_err. No code parses a message: what a caller
 * decides by is a field.
 */
#ifndef PEV_ERR_H
#define PEV_ERR_H

#include <stddef.h>

/* What the kernel refused, where a caller looks for the cause. */
enum pev_operation {
	PEV_OP_OTHER,
	PEV_OP_OPEN,     /* perf_event_open(2) of one event on one task and CPU */
	PEV_OP_MAP_RING,
	PEV_OP_MAP_AUX,
	PEV_OP_WATCH,    /* epoll_ctl(2) of the caller's descriptor */
};

struct pev_err {
	int code;        /* -errno, 0 when nothing failed */
	enum pev_operation operation;
	int pid, cpu;    /* of the operation; -1: any */
	size_t bytes;    /* that it asked for */
	size_t remedy;   /* where in text the remedy begins, 0: it has none */
	char text[512];  /* one sentence, NUL-terminated, no newline at its end */
};

/*
 * Set the message, clear the other fields, return the code: return pev_fail(err, -EINVAL, ...).
 * err may be NULL. Text that does not fit is cut.
 */
int pev_fail(struct pev_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Set the fields, after pev_fail(). err may be NULL. */
void pev_err_set(struct pev_err *err, enum pev_operation operation, int pid, int cpu, size_t bytes);

/* As pev_fail(); after the last "; " of the format stands the remedy. */
int pev_refuse(struct pev_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The one of names[0..nr) that word most likely meant, or NULL when nothing is
 * near: at most a third of the word's letters (and at least one) wrong.
 */
const char *pev_nearest(const char *word, const char *const *names, size_t nr);

/* The name of an errno ("EACCES"), "E?" for one that has none. */
const char *pev_errno_name(int code);

#endif
