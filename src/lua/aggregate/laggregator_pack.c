/*
 * laggregator_pack.c - an aggregator as bytes: a:pack() and a:unpack().
 */
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

/* a:pack(head, f) -> bytes: head, the values, a checksum; f(stack) returns the stack's text */
static int l_agg_pack(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	struct packing packing = { .L = L };
	struct pev_pack_out out = { &packing, pack_bytes, pack_text };
	const struct pev_agg *all;
	unsigned char sum[8];
	uint64_t n;

	luaL_checkstring(L, 2);
	luaL_checktype(L, 3, LUA_TFUNCTION);
	lua_settop(L, 3);
	all = l_agg_settle(L, self);
	lua_newtable(L);
	packing.texts = 4;
	l_agg_add_texts(L, all, UINT32_MAX, 3, packing.texts);
	luaL_buffinit(L, &packing.buffer);
	lua_pushvalue(L, 2);
	luaL_addvalue(&packing.buffer);
	pev_agg_pack(all, &out);
	for (uint32_t i = 0; i <= self->nr_by; i++)
		pev_pack_number(&out, self->absent[i]);
	pev_pack_number(&out, self->no_memory);
	pev_pack_number(&out, self->undecided);
	n = pev_pack_sum(luaL_buffaddr(&packing.buffer), luaL_bufflen(&packing.buffer),
			 PEV_PACK_SUM);
	for (int i = 0; i < 8; i++)
		sum[i] = (unsigned char)(n >> 8 * i);
	luaL_addlstring(&packing.buffer, (const char *)sum, sizeof(sum));
	luaL_pushresult(&packing.buffer);
	return 1;
}

static int take_counts(struct l_agg *self, struct pev_pack_in *in, struct pev_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i <= self->nr_by && rc == 0; i++)
		rc = pev_unpack_number(in, &self->absent[i]);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->no_memory);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->undecided);
	if (rc == 0 && in->p != in->end)
		rc = -EBADMSG;
	return rc < 0 ? pev_fail(err, rc, "it does not end after its last value") : 0;
}

/* a:unpack(bytes, at, most) -> true | nil, message, errno. Reads the bytes after the head. */
static int l_agg_unpack(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	lua_Integer at = luaL_checkinteger(L, 3), most = luaL_checkinteger(L, 4);
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
		rc = take_counts(self, &in, &err);
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
