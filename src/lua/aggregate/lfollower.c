/*
 * lfollower.c - followers of an aggregator; see lfollower.h.
 */
#include "lua/aggregate/lfollower.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "lua/aggregate/laggregator_keys.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.follower"

static bool is_empty(const struct pev_agg *agg)
{
	return !agg->nr && !agg->other.n;
}

/* ---- passing values on ---- */

/* The aggregators that recent is merged into. */
static uint32_t count_targets(const struct l_agg *self)
{
	uint32_t nr = self->total ? 2 : 1;

	for (const struct l_follower *at = self->followers; at; at = at->next)
		nr++;
	return nr;
}

/* True if the recent values need not be copied into this one, which has none. */
static bool can_move(const struct l_agg *self, const struct l_follower *to)
{
	const struct pev_agg *recent = &self->recent;

	return is_empty(&to->unread) && recent->nr <= to->unread.config.max_keys &&
	       pev_budget_fits(to->unread.budget, pev_agg_bytes(recent));
}

static void move_recent(struct l_agg *self, struct l_follower *to)
{
	struct pev_agg recent = self->recent;

	recent.config = to->unread.config;
	pev_agg_replace(&to->unread, &recent);
	pev_agg_init(&self->recent, &self->recent.config, NULL);
}

static void set_limit(struct l_agg *self)
{
	uint64_t bytes = pev_agg_bytes(&self->all);

	bytes = bytes < L_AGG_RECENT_MOST ? bytes : L_AGG_RECENT_MOST;
	self->recent_bytes = bytes > L_AGG_RECENT_LEAST ? bytes : L_AGG_RECENT_LEAST;
}

static int begin_merges(struct l_agg *self, struct pev_agg_merge *merges, uint32_t *nr,
			struct l_follower **mover)
{
	int rc = pev_agg_merge_begin(&merges[(*nr)++], &self->all, &self->recent, NULL);

	if (rc == 0 && self->total)
		rc = pev_agg_merge_begin(&merges[(*nr)++], &self->total->all, &self->recent, NULL);
	for (struct l_follower *at = self->followers; at && rc == 0; at = at->next) {
		if (at->only_total)
			continue;
		if (!*mover && can_move(self, at))
			*mover = at;
		else
			rc = pev_agg_merge_begin(&merges[(*nr)++], &at->unread, &self->recent,
						 NULL);
	}
	return rc;
}

int l_agg_pass_on(struct l_agg *self)
{
	struct pev_budget *budget = self->all.budget;
	struct pev_agg_merge *merges;
	struct l_follower *mover = NULL;
	uint64_t refused = 0;
	uint32_t nr = 0;
	int rc;

	if (!self->is_followed || (is_empty(&self->recent) && !self->recent.unfit))
		return 0;
	merges = calloc(count_targets(self), sizeof(*merges));
	if (!merges)
		return -ENOMEM;
	rc = begin_merges(self, merges, &nr, &mover);
	if (rc < 0) /* the last one has cancelled itself */
		for (nr--; nr > 0;)
			pev_agg_merge_cancel(&merges[--nr]);
	for (uint32_t i = 0; i < nr; i++) {
		pev_agg_merge_end(&merges[i]);
		if (budget && i == 0) /* a value that does not fit counts once: in all */
			refused = budget->refused;
	}
	if (budget && nr)
		budget->refused = refused;
	free(merges);
	if (rc < 0)
		return rc;
	set_limit(self);
	if (self->total)
		self->total->unnamed = self->symbols;
	if (mover)
		move_recent(self, mover);
	else
		pev_agg_clear(&self->recent);
	return 0;
}

void l_agg_check_passed(lua_State *L, struct l_agg *self)
{
	if (l_agg_pass_on(self) < 0)
		luaL_error(L, "no memory for the values of an aggregator");
}

void l_agg_replace(struct l_agg *self, const struct pev_agg *by)
{
	struct pev_agg *to = l_agg_current(self);
	struct pev_agg_config config = to->config;

	pev_agg_replace(to, by);
	to->config = config;
}

/* ---- counts of records in no cell ---- */

static void add_uncounted(struct l_uncounted *to, const struct l_uncounted *more)
{
	for (int i = 0; i <= L_AGG_COLUMNS; i++)
		to->absent[i] += more->absent[i];
	to->no_memory += more->no_memory;
	to->undecided += more->undecided;
}

static void subtract_uncounted(struct l_uncounted *from, const struct l_uncounted *less)
{
	for (int i = 0; i <= L_AGG_COLUMNS; i++)
		from->absent[i] -= less->absent[i];
	from->no_memory -= less->no_memory;
	from->undecided -= less->undecided;
}

/* ---- followers ---- */

/* Pushes a follower that has read nothing and is not in the aggregator's list yet. */
static struct l_follower *push_follower(lua_State *L, int idx)
{
	const struct l_agg *self = l_agg_check(L, idx);
	struct l_follower *follower = lua_newuserdatauv(L, sizeof(*follower), 1);

	memset(follower, 0, sizeof(*follower));
	pev_agg_init(&follower->unread, &self->all.config, NULL);
	luaL_setmetatable(L, TYPENAME);
	pev_agg_budget(&follower->unread, self->all.budget);
	lua_pushvalue(L, idx);
	lua_setiuservalue(L, -2, 1);
	return follower;
}

static void link_follower(struct l_agg *self, struct l_follower *follower)
{
	follower->agg = self;
	follower->next = self->followers;
	self->followers = follower;
}

struct l_follower *l_follower_push(lua_State *L, int idx, bool keeps_cleared)
{
	struct l_agg *self = l_agg_check(L, idx);
	const struct pev_agg *all = self->total ? &self->total->all : &self->all;
	struct pev_budget *budget = self->all.budget;
	struct l_follower *follower;
	struct pev_err err;
	uint64_t refused;

	idx = lua_absindex(L, idx);
	l_agg_check_passed(L, self);
	refused = budget ? budget->refused : 0;
	follower = push_follower(L, idx);
	follower->keeps_cleared = keeps_cleared;
	all = keeps_cleared ? all : &self->all;
	if (pev_agg_merge(&follower->unread, all, &err) < 0)
		luaL_error(L, "%s", err.text);
	if (budget)
		budget->refused = refused; /* these values have been counted */
	if (keeps_cleared)
		follower->missed = self->removed;
	link_follower(self, follower);
	self->is_followed = true;
	set_limit(self);
	return follower;
}

void l_follower_push_delta(lua_State *L, struct l_follower *follower, int idx)
{
	struct l_agg *self = l_agg_check(L, idx), *delta;
	struct pev_agg none;

	l_agg_check_passed(L, self);
	delta = l_agg_push_like(L, idx);
	none = delta->all;
	delta->all = follower->unread;
	follower->unread = none;
	pev_agg_budget(&follower->unread, self->all.budget);
	delta->uncounted = self->uncounted;
	subtract_uncounted(&delta->uncounted, &follower->read);
	add_uncounted(&delta->uncounted, &follower->missed);
	follower->read = self->uncounted;
	follower->missed = (struct l_uncounted){ 0 };
}

/* True if a follower keeps values that the script clears. */
static bool has_keeper(const struct l_agg *self)
{
	for (const struct l_follower *at = self->followers; at; at = at->next)
		if (at->keeps_cleared)
			return true;
	return false;
}

void l_follower_clear(lua_State *L, struct l_agg *self)
{
	struct l_agg *total;

	if (!self->followers && !self->total)
		return;
	/* A total stays complete when its followers are gone: others may come. */
	if (self->total || has_keeper(self)) {
		l_agg_check_passed(L, self);
		if (!self->total) {
			total = l_agg_push_like(L, 1);
			pev_agg_budget(&total->all, self->all.budget);
			lua_setiuservalue(L, 1, L_AGG_UV_TOTAL);
			self->total = total;
			pev_agg_replace(&total->all, &self->all);
			pev_agg_init(&self->all, &total->all.config, NULL);
			pev_agg_budget(&self->all, total->all.budget);
			self->is_followed = true; /* total gets the recent values, too */
		}
		add_uncounted(&self->removed, &self->uncounted);
	}
	for (struct l_follower *at = self->followers; at; at = at->next) {
		if (at->keeps_cleared) {
			add_uncounted(&at->missed, &self->uncounted);
			subtract_uncounted(&at->missed, &at->read);
		} else {
			pev_agg_clear(&at->unread);
		}
		at->read = (struct l_uncounted){ 0 };
	}
}

/* ---- the userdata ---- */

static struct l_follower *check_follower(lua_State *L)
{
	return luaL_checkudata(L, 1, TYPENAME);
}

/* f:delta() -> an aggregator with the values since the last call, or all */
static int l_delta(lua_State *L)
{
	struct l_follower *follower = check_follower(L);

	luaL_argcheck(L, !follower->only_total, 1, "it has no delta");
	lua_settop(L, 1);
	lua_getiuservalue(L, 1, 1);
	l_follower_push_delta(L, follower, 2);
	return 1;
}

/* f:total() -> an aggregator with all values, those that the script has cleared, too */
static int l_total(lua_State *L)
{
	struct l_agg *self;

	check_follower(L);
	lua_settop(L, 1);
	lua_getiuservalue(L, 1, 1);
	self = l_agg_check(L, 2);
	l_agg_check_passed(L, self);
	if (!self->total)
		return 1;
	self->total->uncounted = self->uncounted;
	add_uncounted(&self->total->uncounted, &self->removed);
	lua_getiuservalue(L, 2, L_AGG_UV_TOTAL);
	return 1;
}

static int l_gc(lua_State *L)
{
	struct l_follower *follower = check_follower(L);

	if (follower->agg) {
		struct l_follower **link = &follower->agg->followers;

		while (*link != follower)
			link = &(*link)->next;
		*link = follower->next;
	}
	pev_agg_free(&follower->unread);
	return 0;
}

/*
 * aggregator_follow(aggregator, only_total) -> follower. only_total: without delta(); it costs
 * nothing until the first clear()
 */
static int l_follow(lua_State *L)
{
	const bool only_total = lua_toboolean(L, 2);
	struct l_agg *self = l_agg_check(L, 1);
	struct l_follower *follower;

	lua_settop(L, 1);
	if (!only_total) {
		l_follower_push(L, 1, true);
		return 1;
	}
	follower = push_follower(L, 1);
	follower->keeps_cleared = follower->only_total = true;
	link_follower(self, follower);
	return 1;
}

static const luaL_Reg methods[] = {
	{ "delta", l_delta },
	{ "total", l_total },
	{ NULL, NULL },
};

void l_follower_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_follow);
	lua_setfield(L, -2, "aggregator_follow");
}
