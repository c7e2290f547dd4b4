/*
 * lexposition.c - the userdata perfev.core.exposition: the values of an aggregator by label, which
 * are then written as samples of Prometheus' text format (aggregate/exposition.h). Both in steps.
 *
 * lua/perfev/aggregate/prometheus.lua chooses names and types.
 */
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/exposition.h"
#include "lua/aggregate/laggregator_keys.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.core.exposition"

struct l_exposition {
	struct pev_agg shown;     /* by the text of the labels */
	const char *labels[L_AGG_COLUMNS]; /* borrowed from the spec; NULL: not shown */
	uint32_t nr_labels;
	uint32_t named;           /* bit i: the spec has a function that names keys of column i */
	uint32_t expected;        /* cells of the aggregator when the first was added */
	struct pev_family family; /* its name is borrowed from the caller */
	struct pev_text label, text; /* owned */
	unsigned char *key; /* owned: a copy of the key of the cell that is added */
	size_t key_cap;
};

/* The table that exposition() got. */
enum { UV_SPEC = 1, UV_NR = UV_SPEC };

static struct l_exposition *check_exposition(lua_State *L, int arg)
{
	return luaL_checkudata(L, arg, TYPENAME);
}

/* ---- text that grows ---- */

/* Makes room for the text that did not fit. True: write it again. */
static bool grow(lua_State *L, struct pev_text *text, size_t before)
{
	size_t cap = text->cap ? text->cap : 8192;
	char *buf;

	if (text->len < text->cap)
		return false;
	while (cap <= text->len)
		cap *= 2;
	buf = realloc(text->buf, cap);
	if (!buf)
		luaL_error(L, "no memory for text");
	text->buf = buf;
	text->cap = cap;
	text->len = before;
	return true;
}

/* ---- the values by label ---- */

/* Pushes the text of a part of a key: by the spec's function for the column, or its own. */
static const char *push_text(lua_State *L, struct l_exposition *self, int homes, uint32_t column,
			     const struct pev_key_part *part, size_t *len)
{
	if (part->type == PEV_KEY_POINTER && !(self->named >> column & 1)) {
		lua_pushliteral(L, "(stack)");
	} else if (self->named >> column & 1) {
		lua_getiuservalue(L, 2, UV_SPEC);
		lua_getfield(L, -1, "names");
		lua_rawgeti(L, -1, (lua_Integer)column + 1);
		l_agg_push_part(L, homes, part);
		lua_call(L, 1, 1);
	} else {
		l_agg_push_part(L, homes, part);
	}
	return luaL_tolstring(L, -1, len);
}

static void add_label(lua_State *L, struct l_exposition *self, const char *name, const char *value,
		      size_t len)
{
	const size_t before = self->label.len;

	do
		pev_label_add(&self->label, name, value, len);
	while (grow(L, &self->label, before));
}

/* Makes the labels of a cell in self->label. */
static void make_labels(lua_State *L, struct l_exposition *self, int homes,
			const unsigned char *key, size_t key_len)
{
	const int top = lua_gettop(L);
	size_t at = 0, len;

	self->label.len = 0;
	for (uint32_t column = 0; column < self->nr_labels; column++) {
		const struct pev_key_part part = pev_key_next(key, key_len, &at);
		const char *value;

		if (part.type == PEV_KEY_END)
			break;
		if (!self->labels[column])
			continue;
		if (part.type == PEV_KEY_STRING && !(self->named >> column & 1)) {
			add_label(L, self, self->labels[column], (const char *)part.p, part.len);
			continue;
		}
		value = push_text(L, self, homes, column, &part, &len);
		add_label(L, self, self->labels[column], value, len);
		lua_settop(L, top);
	}
}

/* Copies the key: the script's functions, which make labels, can empty the aggregator. */
static void copy_key(lua_State *L, struct l_exposition *self, const unsigned char *key, size_t len)
{
	unsigned char *grown;

	if (!self->key || len > self->key_cap) {
		grown = realloc(self->key, len + 1);
		if (!grown) {
			luaL_error(L, "no memory for a key");
			return;
		}
		self->key = grown;
		self->key_cap = len;
	}
	memcpy(self->key, key, len);
}

/* True if the i-th cell is this one, and still has the key of which len bytes were copied. */
static bool is_unchanged(const struct l_exposition *self, const struct pev_agg *agg, uint32_t i,
			 const struct pev_cell *cell, size_t len)
{
	return i < agg->nr && agg->cells[i] == cell && cell->key_len == len &&
	       memcmp(self->key, pev_agg_key(agg, cell), len) == 0;
}

static void put_cell(lua_State *L, struct l_exposition *self, const struct pev_agg *agg,
		     const struct pev_cell *cell)
{
	/* The error of a "top" is not a sum. */
	const struct pev_cell count = { .n = cell->n };

	if (agg->config.kind == PEV_AGG_TOP)
		cell = &count;
	if (pev_agg_put(&self->shown, self->label.buf, self->label.len, cell) < 0)
		luaL_error(L, "no memory for a series");
}

/* The table that has the names of symbols; its cells do not move while they are added. */
static const struct pev_agg *settled(lua_State *L, struct l_agg *from, uint32_t first)
{
	if (!first)
		return l_agg_settle(L, from);
	return from->all.config.kind == PEV_AGG_TOP && from->symbols ? &from->named : &from->all;
}

/*
 * exposition_add(aggregator, exposition, from, most) -> from of the next call | nil: all are
 * added | false: the aggregator was emptied meanwhile. Adds up to most cells.
 */
static int l_exposition_add(lua_State *L)
{
	struct l_agg *from = l_agg_check(L, 1);
	struct l_exposition *self = check_exposition(L, 2);
	const lua_Integer first = luaL_checkinteger(L, 3), most = luaL_checkinteger(L, 4);
	const struct pev_agg *agg;
	uint32_t i = (uint32_t)first, end;
	int homes;

	luaL_argcheck(L, first >= 0 && first <= PEV_AGG_MOST_KEYS, 3, "a cell");
	lua_settop(L, 4);
	luaL_checkstack(L, 12, "labels");
	agg = settled(L, from, i);
	if (!i)
		self->expected = agg->nr;
	lua_getiuservalue(L, 1, L_AGG_UV_HOMES);
	homes = lua_gettop(L);
	end = most < self->expected - (lua_Integer)i ? i + (uint32_t)most : self->expected;
	for (; i < end && i < agg->nr; i++) {
		const struct pev_cell *cell = agg->cells[i];
		const size_t len = cell->key_len;

		copy_key(L, self, pev_agg_key(agg, cell), len);
		make_labels(L, self, homes, self->key, len);
		if (!is_unchanged(self, agg, i, cell, len))
			return luaL_error(L, "a function of names has changed the aggregator");
		put_cell(L, self, agg, cell);
	}
	if (i < end) {
		lua_pushboolean(L, false);
		return 1;
	}
	if (i < self->expected) {
		lua_pushinteger(L, i);
		return 1;
	}
	self->shown.signs |= agg->signs;
	if (agg->config.kind != PEV_AGG_TOP && pev_agg_put_other(&self->shown, &agg->other) < 0)
		luaL_error(L, "no memory for a series");
	lua_pushnil(L);
	return 1;
}

/* ---- the samples ---- */

/* The labels of the series without room: each is (other). */
static void make_other_labels(lua_State *L, struct l_exposition *self)
{
	self->label.len = 0;
	for (uint32_t i = 0; i < self->nr_labels; i++)
		if (self->labels[i])
			add_label(L, self, self->labels[i], "(other)", 7);
}

static void write_cell(lua_State *L, struct l_exposition *self, const struct pev_cell *cell,
		       const char *labels, size_t len)
{
	const size_t before = self->text.len;

	do
		pev_family_write(&self->text, &self->family, &self->shown.config, cell, labels,
				 len);
	while (grow(L, &self->text, before));
}

/* Writes the i-th series: those of keys, then other. False: there are no more. */
static bool write_series(lua_State *L, struct l_exposition *self, uint32_t i)
{
	static const struct pev_cell none = { 0 };
	const struct pev_cell *cell = i < self->shown.nr ? self->shown.cells[i] :
							   &self->shown.other;

	if (i > self->shown.nr)
		return false;
	if (i < self->shown.nr) {
		write_cell(L, self, cell, (const char *)pev_agg_key(&self->shown, cell),
			   cell->key_len);
		return true;
	}
	make_other_labels(L, self);
	if (cell->n)
		write_cell(L, self, cell, self->label.buf, self->label.len);
	else if (!self->shown.nr && !self->label.len)
		write_cell(L, self, &none, NULL, 0); /* without labels: 0 before the first value */
	return true;
}

static void take_family(lua_State *L, struct l_exposition *self)
{
	static const char *const samples[] = { "count", "sum", "min", "max", "totals", "histogram",
					       "quantiles", NULL };

	const bool has_buckets = self->shown.config.kind == PEV_AGG_HIST ||
				 self->shown.config.kind == PEV_AGG_LINEAR;

	self->family.name = luaL_checkstring(L, 2);
	self->family.samples = (enum pev_samples)luaL_checkoption(L, 3, NULL, samples);
	luaL_argcheck(L, has_buckets == (self->family.samples == PEV_SAMPLES_HISTOGRAM), 3,
		      "not of this kind");
}

static void find_buckets(struct l_exposition *self)
{
	self->family.first = self->family.end = 0;
	if (self->family.samples != PEV_SAMPLES_HISTOGRAM)
		return;
	for (uint32_t i = 0; i < self->shown.nr; i++)
		pev_family_widen(&self->family, self->shown.cells[i]);
	pev_family_widen(&self->family, &self->shown.other);
}

/*
 * e:text(name, samples, from, bytes) -> text, from of the next call | text, nil: it is the last.
 * Writes series until the text has this many bytes.
 */
static int l_exposition_text(lua_State *L)
{
	struct l_exposition *self = check_exposition(L, 1);
	lua_Integer i = luaL_checkinteger(L, 4), bytes = luaL_checkinteger(L, 5);
	bool more = true;

	luaL_argcheck(L, i >= 0 && i <= UINT32_MAX, 4, "a series");
	luaL_argcheck(L, bytes > 0, 5, "bytes");
	take_family(L, self);
	if (i == 0)
		find_buckets(self);
	self->text.len = 0;
	while (more && self->text.len < (size_t)bytes)
		more = write_series(L, self, (uint32_t)i++);
	lua_pushlstring(L, self->text.buf, self->text.len);
	if (!more)
		return 1;
	lua_pushinteger(L, i);
	return 2;
}

/* ---- construction ---- */

static lua_Integer number_of(lua_State *L, const char *name, lua_Integer most)
{
	lua_Integer value;

	lua_getfield(L, 1, name);
	value = luaL_optinteger(L, -1, 0);
	luaL_argcheck(L, value >= 0 && value <= most, 1, name);
	lua_pop(L, 1);
	return value;
}

/* The text stays in the spec, which the exposition keeps. */
static void take_labels(lua_State *L, struct l_exposition *self)
{
	lua_getfield(L, 1, "labels");
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_getfield(L, 1, "names");
	luaL_checktype(L, -1, LUA_TTABLE);
	while (self->nr_labels < L_AGG_COLUMNS &&
	       lua_rawgeti(L, -2, (lua_Integer)self->nr_labels + 1) != LUA_TNIL) {
		if (lua_type(L, -1) == LUA_TSTRING)
			self->labels[self->nr_labels] = lua_tostring(L, -1);
		if (lua_rawgeti(L, -2, (lua_Integer)self->nr_labels + 1) == LUA_TFUNCTION)
			self->named |= UINT32_C(1) << self->nr_labels;
		self->nr_labels++;
		lua_pop(L, 2);
	}
}

/*
 * exposition({ labels = { name or false, ... }, names = { [column] = function(key) -> text },
 * digits =, max_series = }, aggregator): one for aggregators of this kind. Keeps the table.
 */
static int l_exposition(lua_State *L)
{
	const struct l_agg *like = l_agg_check(L, 2);
	struct pev_agg_config config = like->all.config;
	struct l_exposition *self;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 2);
	if (config.kind == PEV_AGG_TOP)
		config.kind = PEV_AGG_COUNT;
	config.max_keys = (uint32_t)number_of(L, "max_series", PEV_AGG_MOST_KEYS);
	self = lua_newuserdatauv(L, sizeof(*self), UV_NR); /* 3 */
	*self = (struct l_exposition){ 0 };
	pev_agg_init(&self->shown, &config, NULL);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, 3, UV_SPEC);
	self->family.digits = (unsigned)number_of(L, "digits", 18);
	take_labels(L, self);
	lua_settop(L, 3);
	return 1;
}

static int l_exposition_gc(lua_State *L)
{
	struct l_exposition *self = check_exposition(L, 1);

	pev_agg_free(&self->shown);
	free(self->label.buf);
	free(self->text.buf);
	free(self->key);
	self->key = NULL;
	self->key_cap = 0;
	self->label = self->text = (struct pev_text){ 0 };
	return 0;
}

/* e:has_negative(): whether a value was below 0, so that its sum can fall */
static int l_exposition_has_negative(lua_State *L)
{
	lua_pushboolean(L, check_exposition(L, 1)->shown.signs < 0);
	return 1;
}

/* label_text(name, value, ...) -> "" or "{name="value",...}" */
static int l_label_text(lua_State *L)
{
	struct pev_text text = { 0 };
	const int nr = lua_gettop(L) / 2;
	size_t cap = 8, len;
	const char *value;

	for (int i = 1; i <= nr; i++) {
		luaL_checkstring(L, 2 * i - 1);
		luaL_checklstring(L, 2 * i, &len);
		cap += lua_rawlen(L, 2 * i - 1) + 8 * len + 8; /* a byte becomes 5 at most */
	}
	text.buf = lua_newuserdatauv(L, cap, 0);
	text.cap = cap;
	for (int i = 1; i <= nr; i++) {
		value = lua_tolstring(L, 2 * i, &len);
		pev_label_add(&text, lua_tostring(L, 2 * i - 1), value, len);
	}
	lua_pushlstring(L, text.buf, text.len);
	if (nr)
		lua_pushfstring(L, "{%s}", lua_tostring(L, -1));
	return 1;
}

static const luaL_Reg methods[] = {
	{ "text", l_exposition_text },
	{ "has_negative", l_exposition_has_negative },
	{ NULL, NULL },
};

void l_exposition_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_exposition_gc);
	l_set_function(L, "exposition", l_exposition);
	l_set_function(L, "exposition_add", l_exposition_add);
	l_set_function(L, "label_text", l_label_text);
}
