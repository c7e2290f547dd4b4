/*
 * llimit.h - how long Lua code that the caller does not trust may compute before it returns.
 *
 * The time is CPU time of the thread that started the limit. Code of perfev itself is not
 * limited: l_limit_scale is 0 while it runs, and a function of the script that it calls
 * unawares, as a method that was replaced, is recognised by its file. Before perfev calls a
 * function of a script it sets the scale, and 0 when the function has returned. Nothing is read
 * or called for that, so that a callback costs two stores more. A timer of the kernel looks at
 * both values.
 *
 * Beyond the limit, Lua code gets an error at each further 1,000 instructions. Beyond twice the
 * limit, the process ends: the code caught the errors, or it is a function in C that does not
 * return, as string.find with a pattern that backtracks.
 */
#pragma once

#include <lua.h>
#include <signal.h>

#include "lua/base/lallocator.h"

/* Times the limit that running code has; 0: none, it is perfev's. */
extern volatile sig_atomic_t l_limit_scale;
/* Changes at each call of a function of a script. */
extern volatile unsigned l_limit_calls;

enum { L_LIMIT_CALLBACK = 1, L_LIMIT_LONG = 10 };

/* Returns what to pass to l_limit_leave(). */
static inline int l_limit_enter(int scale)
{
	int before = l_limit_scale;

	l_limit_calls++;
	l_limit_scale = scale;
	return before;
}

static inline void l_limit_leave(int before)
{
	l_limit_calls++;
	l_limit_scale = before;
}
