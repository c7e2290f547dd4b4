/*
 * laggregator_pack.c - an aggregator as bytes: a:pack() and a:unpack().
 */
#include "lua/aggregate/laggregator_pack.h"

#include <errno.h>
#include <lauxlib.h>

#include "aggregate/pack.h"
#include "lua/aggregate/laggregator_keys.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"

/* The context of out: the table of the stacks' texts, by address. */
struct packing {
	lua_State *L;
	luaL_Buffer buffer;
	int texts;
};

static void pack_bytes(void *ctx, const void *bytes, size_t len)
{
	struct packing *packing = ctx;

	luaL_addlstring(&packing->buffer, bytes, len);
}

/* The table keeps the string. Uses the stack only above the buffer's slot. */
static const char *pack_text(void *ctx, const void *pointer, size_t *len)
{
	struct packing *packing = ctx;
	const char *text;

	lua_rawgetp(packing->L, packing->texts, pointer);
	text = lua_tolstring(packing->L, -1, len);
	lua_pop(packing->L, 1);
	return text;
}

void l_pack_add_sum(luaL_Buffer *buffer)
{
	uint64_t n = pev_pack_sum(luaL_buffaddr(buffer), luaL_bufflen(buffer), PEV_PACK_SUM);
	unsigned char sum[8];

	for (int i = 0; i < 8; i++)
		sum[i] = (unsigned char)(n >> 8 * i);
	luaL_addlstring(buffer, (const char *)sum, sizeof(sum));
}

/* Packs the numbers of records in no cell. */
static void put_uncounted(const struct pev_pack_out *out, const struct l_agg *self,
			  const struct l_uncounted *uncounted, uint64_t unfit)
{
	for (uint32_t i = 0; i <= self->nr_by; i++)
		pev_pack_number(out, uncounted->absent[i]);
	pev_pack_number(out, uncounted->no_memory);
	pev_pack_number(out, uncounted->undecided);
	pev_pack_number(out, unfit);
}

/*
 * a:pack(head, f, first, last) -> bytes: head, the keys first to last, a checksum; f(stack) returns
 * the stack's text. Default: all keys. The records in no cell are counted with the last key.
 */
static int l_agg_pack(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	struct packing packing = { .L = L };
	struct pev_pack_out out = { &packing, pack_bytes, pack_text };
	static const struct l_uncounted none = { 0 };
	const struct pev_agg *all;
	lua_Integer first, last;
	bool is_last;

	luaL_checkstring(L, 2);
	luaL_checktype(L, 3, LUA_TFUNCTION);
	lua_settop(L, 5);
	all = l_agg_settle(L, self);
	first = luaL_optinteger(L, 4, 1);
	last = luaL_optinteger(L, 5, all->nr);
	luaL_argcheck(L, last >= 0 && last <= (lua_Integer)all->nr, 5, "not a key");
	luaL_argcheck(L, first > 0 && first <= last + 1, 4, "not a key");
	is_last = last == (lua_Integer)all->nr;
	lua_newtable(L);
	packing.texts = 6;
	l_agg_add_texts(L, all, UINT32_MAX, 3, packing.texts);
	luaL_buffinit(L, &packing.buffer);
	lua_pushvalue(L, 2);
	luaL_addvalue(&packing.buffer);
	pev_agg_pack(all, (uint32_t)first, (uint32_t)last, &out);
	put_uncounted(&out, self, is_last ? &self->uncounted : &none, is_last ? all->unfit : 0);
	l_pack_add_sum(&packing.buffer);
	luaL_pushresult(&packing.buffer);
	return 1;
}

/* Version 1 does not have the number of values that did not fit into the budget. */
static int take_counts(struct l_agg *self, struct pev_pack_in *in, lua_Integer version,
		       struct pev_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i <= self->nr_by && rc == 0; i++)
		rc = pev_unpack_number(in, &self->uncounted.absent[i]);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->uncounted.no_memory);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->uncounted.undecided);
	if (rc == 0 && version > 1)
		rc = pev_unpack_number(in, &self->all.unfit);
	if (rc == 0 && in->p != in->end)
		rc = -EBADMSG;
	return rc < 0 ? pev_fail(err, rc, "it does not end after its last value") : 0;
}

/*
 * a:unpack(bytes, at, most, version) -> true | nil, message, errno. Reads the bytes after the head.
 */
static int l_agg_unpack(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	lua_Integer at = luaL_checkinteger(L, 3), most = luaL_checkinteger(L, 4);
	lua_Integer version = luaL_checkinteger(L, 5);
	struct pev_pack_in in;
	struct pev_err err = { 0 };
	int rc;

	luaL_argcheck(L, at > 0 && (size_t)at - 1 <= len - 8 && len >= 8, 3,
		      "not a position in the bytes");
	luaL_argcheck(L, self->all.nr == 0, 1, "the aggregator is not empty");
	in.p = (const unsigned char *)bytes + at - 1;
	in.end = (const unsigned char *)bytes + len - 8;
	rc = pev_agg_unpack(&self->all, &in, self->nr_by, (uint64_t)most, &err);
	if (rc == 0)
		rc = take_counts(self, &in, version, &err);
	self->unnamed = self->symbols;
	return l_result(L, rc, &err);
}

/* pack_sum(bytes, last) -> integer: the checksum of the first last bytes */
static int l_pack_sum(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 1, &len);
	lua_Integer last = luaL_checkinteger(L, 2);

	luaL_argcheck(L, last >= 0 && (size_t)last <= len, 2, "beyond the end of the bytes");
	lua_pushinteger(L, (lua_Integer)pev_pack_sum(bytes, (size_t)last, PEV_PACK_SUM));
	return 1;
}

static const luaL_Reg methods[] = {
	{ "pack", l_agg_pack },
	{ "unpack", l_agg_unpack },
	{ NULL, NULL },
};

void l_agg_pack_register(lua_State *L)
{
	l_agg_add_methods(L, methods, NULL);
	lua_pushcfunction(L, l_pack_sum);
	lua_setfield(L, -2, "pack_sum");
}
