/*
 * err.h - what failed, in words.
 *
 * C functions return a value >= 0 or -errno; the sentence that goes with a
 * failure is written into the caller's struct pev_err.
 */
#ifndef PEV_ERR_H
#define PEV_ERR_H

#include <stddef.h>

struct pev_err {
	int code;        /* -errno, 0 when nothing failed */
	char text[512];  /* one sentence, NUL-terminated, no newline at its end */
};

/*
 * Note a failure and hand its code back: return pev_fail(err, -EINVAL, ...).
 * err may be NULL. Text that does not fit is cut.
 */
int pev_fail(struct pev_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The one of names[0..nr) that word most likely meant, or NULL when nothing is
 * near: at most a third of the word's letters (and at least one) wrong.
 */
const char *pev_nearest(const char *word, const char *const *names, size_t nr);

/* The name of an errno ("EACCES"), "E?" for one that has none. */
const char *pev_errno_name(int code);

#endif
