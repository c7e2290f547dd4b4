/*
 * causes.h - a program whose slow calls of handle() are slow for one planted cause.
 *
 * Each cause has one function that serves a call. The fast calls do the same kinds of things, but
 * less of them, so the cause is what the slow calls have more of, not what they alone have.
 */
#ifndef CAUSES_H
#define CAUSES_H

#include <stdbool.h>
#include <stddef.h>

#define SEPARATE __attribute__((noipa)) /* a function of its own, called each time */

struct cause {
	const char *name;
	void (*prepare)(void);    /* may be NULL */
	void (*serve)(bool slow); /* one call */
};

/* Each ends with an entry without a name. */
extern const struct cause waits[], peers[], files[], code[];

#define MS 1000u          /* of a duration in us */
#define SLOW_US (25 * MS) /* what a planted cause takes, about */

extern const char *directory; /* for files, on a disk */

unsigned random_below(unsigned limit);
void burn(unsigned us); /* computes for about that long */
void nap(unsigned us);
int open_file(const char *name, int flags); /* in the directory; ends the program if it fails */
void *map_memory(size_t size);
void *check(void *p, const char *what);     /* ends the program if NULL */

/* A thread that calls the function once for each start_helper(); that returns when the function
 * calls helper_is_ready(). */
void make_helper(void (*hold)(unsigned us));
void start_helper(unsigned us);
void helper_is_ready(void);

#endif
