/*
 * err.h - a failure: a message for people, and fields for code.
 *
 * C functions return a value >= 0 or -errno; a failure's message and fields are
 * written into the caller's struct pev_err. No code parses a message: a caller
 * decides by the fields.
 */
#pragma once

#include <stddef.h>

/* The refused operation, when the caller looks for the cause itself. */
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
	int pid, cpu;    /* target of the operation; -1: any */
	size_t bytes;    /* requested size */
	size_t remedy;   /* offset of the remedy in text; 0: no remedy */
	char text[512];  /* one sentence, NUL-terminated, no newline at its end */
};

/*
 * Sets the message, clears the other fields and returns the code:
 * return pev_fail(err, -EINVAL, ...). err may be NULL. Text that does not fit is cut.
 */
int pev_fail(struct pev_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Sets the fields; called after pev_fail(). err may be NULL. */
void pev_err_set(struct pev_err *err, enum pev_operation operation, int pid, int cpu, size_t bytes);

/* Like pev_fail(); the remedy follows the last "; " of the format. */
int pev_refuse(struct pev_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Returns the name in names[0..nr) that is nearest to word, or NULL if none is near: a third of
 * the letters may be wrong, or one letter of a word shorter than six.
 */
const char *pev_nearest(const char *word, const char *const *names, size_t nr);

/* Returns the name of an errno ("EACCES"), "E?" for an unknown number. */
const char *pev_errno_name(int code);
