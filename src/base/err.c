/*
 * err.c - a failure's message and fields, and the nearest of several names.
 *
 * The text is formatted in a local buffer and copied last, so that a caller may
 * extend an earlier message: pev_fail(err, rc, "%s: %s", name, err->text).
 * Nearness is the optimal string alignment distance (one letter wrong, missing,
 * too many, or two swapped), ignoring case.
 */
#define _GNU_SOURCE
#include "base/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NEAREST_MAX 255 /* longer than any kernel name; three rows fit the stack */

static void format_error(struct pev_err *err, int code, const char *format, va_list args)
{
	char text[sizeof(err->text)];

	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	*err = (struct pev_err){ .code = code, .pid = -1, .cpu = -1 };
	memcpy(err->text, text, strlen(text) + 1);
}

int pev_fail(struct pev_err *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	format_error(err, code, format, args);
	va_end(args);
	return code;
}

/* Returns the length of the text that the first len characters of the format produce. */
static size_t measure_text(const char *format, size_t len, va_list args)
{
	char cause[sizeof(((struct pev_err *)0)->text)];
	int n;

	if (len >= sizeof(cause))
		return 0;
	memcpy(cause, format, len);
	cause[len] = '\0';
	n = vsnprintf(NULL, 0, cause, args);
	return n < 0 ? 0 : (size_t)n;
}

int pev_refuse(struct pev_err *err, int code, const char *format, ...)
{
	const char *remedy = NULL;
	va_list args, again;

	if (!err)
		return code;
	for (const char *at = format; (at = strstr(at, "; ")); at++)
		remedy = at + 2;
	va_start(args, format);
	va_copy(again, args);
	format_error(err, code, format, args);
	if (remedy)
		err->remedy = measure_text(format, (size_t)(remedy - format), again);
	if (err->remedy >= strlen(err->text))
		err->remedy = 0;
	va_end(again);
	va_end(args);
	return code;
}

void pev_err_set(struct pev_err *err, enum pev_operation operation, int pid, int cpu, size_t bytes)
{
	if (!err)
		return;
	err->operation = operation;
	err->pid = pid;
	err->cpu = cpu;
	err->bytes = bytes;
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned int min_of(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Returns the distance of two words, or limit + 1 when it exceeds limit. */
static unsigned int word_distance(const char *a, size_t a_len, const char *b, size_t b_len,
				  unsigned int limit)
{
	unsigned int rows[3][NEAREST_MAX + 1];
	unsigned int *two_up = rows[0], *up = rows[1], *row = rows[2];

	if (a_len > b_len + limit || b_len > a_len + limit)
		return limit + 1;
	for (size_t j = 0; j <= b_len; j++)
		up[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned int best = row[0] = (unsigned int)i;

		for (size_t j = 1; j <= b_len; j++) {
			bool same = same_letter(a[i - 1], b[j - 1]);

			row[j] = min_of(min_of(up[j], row[j - 1]) + 1, up[j - 1] + !same);
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]))
				row[j] = min_of(row[j], two_up[j - 2] + 1);
			best = min_of(best, row[j]);
		}
		/* A swap uses the row before the last; neighbouring rows differ by at most 1. */
		if (best > limit + 1)
			return limit + 1;
		unsigned int *oldest = two_up;
		two_up = up;
		up = row;
		row = oldest;
	}
	return up[b_len];
}

const char *pev_nearest(const char *word, const char *const *names, size_t nr)
{
	size_t len = strlen(word);
	const char *nearest = NULL;

	if (len == 0 || len > NEAREST_MAX)
		return NULL;
	unsigned int limit = len < 6 ? 1 : (unsigned int)(len / 3);
	for (size_t i = 0; i < nr; i++) {
		size_t name_len = strlen(names[i]);
		unsigned int d;

		if (name_len > NEAREST_MAX)
			continue;
		d = word_distance(word, len, names[i], name_len, limit);
		if (d > limit)
			continue;
		nearest = names[i];
		if (d == 0)
			return nearest;
		limit = d - 1; /* only a nearer name replaces this one */
	}
	return nearest;
}

const char *pev_errno_name(int code)
{
	const char *name = NULL;

	if (code != 0 && code > -4096) /* MAX_ERRNO of linux/err.h is 4095 */
		name = strerrorname_np(code < 0 ? -code : code);
	return name ? name : "E?";
}
