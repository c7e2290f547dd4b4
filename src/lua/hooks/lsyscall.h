/*
 * lsyscall.h - the calls of sys_calls.h as Lua sees them: rows of converters.
 *
 * A call meets Lua in two places. In a hook, C calls Lua: parameters are pushed, and the
 * answer becomes the call's results. In hooks.real, Lua calls C: arguments become the
 * parameters, and the results become a hook's answer.
 */
#pragma once

#include <limits.h>
#include <lua.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "event/attr.h"
#include "base/sys.h"

#define L_SYS_MAX_PARAMETERS 5
#define L_SYS_MAX_EVENTS 64

/* Parameter i of a call: the parameters of all calls are structs with 8 bytes for each. */
#define L_SYS_ARG(type, args, i) (*(type *)(void *)((char *)(args) + (size_t)8 * (size_t)(i)))

/* Memory of one call of hooks.real besides its parameters, mostly for output. */
struct l_sys_room {
	int refused;         /* -errno: the call must not be made */
	unsigned long request;
	struct perf_event_query_bpf *query;
	void *buffer, **block;
	struct pev_stat stat;
	struct pev_spawned spawned;
	uint64_t value;
	size_t len;
	void *addr;
	size_t map_len;
	int status;
	struct pev_attr attr;
	struct iovec piece;
	struct epoll_event events[L_SYS_MAX_EVENTS];
	char path[PATH_MAX];
};

/* The form that a parameter has in Lua. */
struct l_sys_kind {
	/* Push it for a hook. NULL: a hook does not get this parameter. */
	void (*push)(lua_State *L, void *args, int i);
	/*
	 * Set it for hooks.real: from the value at idx if the kind has push, else to a place in
	 * room. NULL: another parameter's set does. Raises when the value does not fit.
	 */
	void (*set)(lua_State *L, int idx, void *args, int i, struct l_sys_room *room);
	/* Write it for hooks.log, as snprintf does. NULL: hooks.log leaves it out. */
	int (*show)(char *text, size_t size, void *args, int i);
};

struct l_hooks;
struct l_sys_call;

/* The form that the results of a call have in Lua. */
struct l_sys_answer {
	/* Ask the Lua function on top of the stack, and pop it: the call's result. */
	int64_t (*ask)(struct l_hooks *h, const struct l_sys_call *call, void *args);
	/*
	 * Push the answer of hooks.real, and return how many values; rc is the call's result,
	 * >= 0. The arguments are still on the stack.
	 */
	int (*give)(lua_State *L, struct l_sys_room *room, int64_t rc);
	/* Called for a failure before hooks.real returns nil and the errno; or NULL. */
	void (*fail)(lua_State *L, struct l_sys_room *room, int64_t rc);
	/* Replaces the choice between hook and Linux. */
	int64_t (*run)(struct l_hooks *h, const struct l_sys_call *call, void *args);
	bool unlogged;       /* not a system call */
	bool logged_after;   /* hooks.log shows the parameters as the call left them */
	bool must_succeed;   /* when a hook does not answer, Linux does */
};

struct l_sys_call {
	const char *name;
	const struct l_sys_answer *answer;
	/* sys->NAME(sys->ctx, ...) */
	int64_t (*invoke)(const struct pev_sys *sys, void *args);
	struct {
		const struct l_sys_kind *kind; /* NULL behind the last */
		const char *name;
	} parameters[L_SYS_MAX_PARAMETERS + 1];
	const char *returns, *text; /* for the documentation */
};

/* A set of hooks, as its calls see it; lhooks.c makes it. */
struct l_hooks {
	struct pev_sys sys;
	const struct pev_sys *under; /* Linux, or below a log the set in force before */
	lua_State *L;        /* of the binding that runs now */
	/*
	 * Registry references, not user values: a session that is collected closes
	 * through its hooks, when these are garbage as well.
	 */
	int functions, log, below;
	int memory;          /* list: results of mmap hooks; false, or true while one is asked */
};

/* clang-format off */
/*
 * One object for each kind and each answer that sys_calls.h names: lsyscall_parameters.c,
 * lsyscall_answers.c; of mmap and munmap in lsyscall_mapping.c.
 */
#define CALL(type, name, answer, returns, text, ...) \
	PEV_SYS_EACH(L_SYS_DECLARE, __VA_ARGS__)     \
	extern const struct l_sys_answer l_sys_answer_##answer;
#define L_SYS_DECLARE(kind, name) extern const struct l_sys_kind l_sys_kind_##kind;
#include "base/sys_calls.h"
/* clang-format on */

/* In the order of the list; ends with a NULL name. */
extern const struct l_sys_call l_sys_calls[];

/* The table of functions that ask hooks; its ctx must be a struct l_hooks. */
extern const struct pev_sys l_sys_hooked;

/* Push the parameters that a hook gets: how many. */
int l_sys_push_parameters(lua_State *L, const struct l_sys_call *call, void *args);

/* Call the function below nr arguments: -errno, or 0 with two results on the stack. */
int64_t l_sys_ask(struct l_hooks *h, const struct l_sys_call *call, int nr);

/* The same with the parameters that the hook gets. */
int64_t l_sys_ask_hook(struct l_hooks *h, const struct l_sys_call *call, void *args);

/* Pops two invalid results of a hook; keeps the error. Returns -ECANCELED. */
int64_t l_sys_bad_answer(struct l_hooks *h, const struct l_sys_call *call, const char *wanted);

/* Push the hook of that name, if the set has one. A strict set without one keeps an error. */
enum l_sys_way { L_SYS_LINUX, L_SYS_HOOK, L_SYS_ERROR };
enum l_sys_way l_sys_push_hook(struct l_hooks *h, const char *name);

/* Push { dev=, ino=, mode=, uid=, size= }. */
void l_stat_push(lua_State *L, const struct pev_stat *st);
