/*
 * printfmt.h - is this print format one that libtraceevent survives?
 *
 * A print format is C-like text that may come from somebody else's recording,
 * and libtraceevent 1.7.1 was not written for that: it follows NULL for a field
 * that does not exist, divides by a constant 0 while parsing, reads past a text
 * that is cut, and recurses once per parenthesis and operator. So it is only
 * ever given texts of the narrow grammar that this room accepts, which covers
 * what the kernel writes.
 */
#ifndef PEV_PRINTFMT_H
#define PEV_PRINTFMT_H

#include <stdbool.h>
#include <stddef.h>

enum pev_printfmt_name {
	PEV_PRINTFMT_UNKNOWN, /* no such field */
	PEV_PRINTFMT_FIXED,
	PEV_PRINTFMT_DYNAMIC  /* __data_loc or __rel_loc */
};

/* What kind of field name[0..len) is; name is not NUL-terminated. */
typedef enum pev_printfmt_name (*pev_printfmt_fn)(const void *ctx, const char *name, size_t len);

/*
 * Whether text[0..len), what stands after "print fmt:", is a string literal
 * with conversions that cannot harm printf(3), and arguments made of known
 * fields, literals, operators and the kernel's __print_ and __get_ helpers.
 * Bounded: no recursion, one pass. Says nothing about the payload's values.
 */
bool pev_printfmt_ok(const char *text, size_t len, pev_printfmt_fn field, const void *ctx);

/*
 * An accepted text with the tabs in its strings as \t, since libtraceevent ends
 * a string at one (maple_tree has them). out has 2 * len bytes; returns how many were written.
 */
size_t pev_printfmt_escape(const char *text, size_t len, char *out);

#endif
