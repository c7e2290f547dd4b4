/*
 * ldecoder.c - the userdata perfev.decoder: decodes bytes of records without a session.
 *
 * Uses the plans and views of sessions. With several attrs, the record's id
 * selects the attr: with IDENTIFIER the first word of a sample and the last
 * word of other records; else ID, if it has the same offset in all attrs.
 * Refuses attrs whose records cannot be distinguished.
 */
#include <errno.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "event/attr.h"
#include "record/bits.h"
#include "record/record.h"
#include "lua/event/lattr.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/record/lfield.h"
#include "lua/record/lrecord.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.decoder"
#define NATIVE_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define ATTRS_MAX 65536

struct id {
	uint64_t id;
	uint32_t plan;
};

/* User value 1: the views' table, see l_view_push(). */
struct decoder {
	bool swap;
	uint16_t sample_id_off;  /* offset of a sample's id from the header */
	uint16_t other_id_off;   /* offset of other records' id from the end; 0: no id */
	uint32_t nr_plans, nr_ids;
	struct id *ids;          /* sorted; stored behind the plans */
	struct pev_plan plans[];
};

/* A position in the bytes, and the view of its record. */
struct cursor {
	const struct decoder *decoder;
	const char *bytes;
	size_t len, pos;         /* pos: offset of the next record */
	struct l_view *views[2]; /* used in turn, see lrecord.h */
	unsigned turn;
	uint64_t now;
	struct pev_record rec;
};

static struct decoder *check_decoder(lua_State *L, int idx)
{
	return luaL_checkudata(L, idx, TYPENAME);
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct id *)a)->id, y = ((const struct id *)b)->id;

	return x < y ? -1 : x > y;
}

/* ---- construction ---- */

/* Finds the id's offsets, which all plans must share. Returns 0 or -EINVAL. */
static int find_offsets(struct decoder *self, struct pev_err *err)
{
	const struct pev_plan *first = &self->plans[0];

	self->sample_id_off = pev_plan_id_from_start(first);
	self->other_id_off = pev_plan_id_from_end(first);
	if (self->nr_plans == 1)
		return 0;
	for (uint32_t i = 0; i < self->nr_plans; i++) {
		const struct pev_plan *plan = &self->plans[i];

		if (!pev_plan_id_from_start(plan))
			return pev_fail(err, -EINVAL,
					"%u attrs, but attr %u does not sample an id, so its "
					"records cannot be assigned to it: sample identifier",
					self->nr_plans, i + 1);
		if (plan->sample_id_all != first->sample_id_all)
			return pev_fail(err, -EINVAL,
					"attr 1 and attr %u differ in sample_id_all, so their "
					"records cannot be distinguished: set it in both", i + 1);
		if (pev_plan_id_from_start(plan) != self->sample_id_off ||
		    pev_plan_id_from_end(plan) != self->other_id_off)
			return pev_fail(err, -EINVAL,
					"attr 1 and attr %u have their id at different offsets, so "
					"their records cannot be distinguished: sample "
					"identifier in both", i + 1);
	}
	return 0;
}

static int sort_ids(struct decoder *self, struct pev_err *err)
{
	qsort(self->ids, self->nr_ids, sizeof(*self->ids), compare_ids);
	for (uint32_t i = 1; i < self->nr_ids; i++)
		if (self->ids[i].id == self->ids[i - 1].id)
			return pev_fail(err, -EINVAL,
					"id %" PRIu64 " belongs to two attrs, or is repeated",
					self->ids[i].id);
	return 0;
}

/* Pushes attr and ids of the i-th entry of the list at 1. Returns the attr. */
static struct pev_attr *push_entry(lua_State *L, uint32_t i)
{
	lua_rawgeti(L, 1, (lua_Integer)i + 1);
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_getfield(L, -1, "attr");
	lua_getfield(L, -2, "ids");
	luaL_checktype(L, -1, LUA_TTABLE);
	lua_remove(L, -3);
	return l_attr_check(L, -2);
}

static uint32_t count_ids(lua_State *L, uint32_t nr)
{
	size_t ids = 0;

	for (uint32_t i = 0; i < nr; i++) {
		push_entry(L, i);
		ids += lua_rawlen(L, -1);
		lua_pop(L, 2);
	}
	luaL_argcheck(L, ids <= UINT32_MAX / 2, 1, "too many ids");
	return (uint32_t)ids;
}

static void fill_plans(lua_State *L, struct decoder *self, bool narrow)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < self->nr_plans; i++) {
		struct pev_attr *attr = push_entry(L, i);
		lua_Integer nr = (lua_Integer)lua_rawlen(L, -1);

		pev_plan_init(&self->plans[i], attr, self->swap);
		self->plans[i].narrow = narrow;
		for (lua_Integer k = 1; n < self->nr_ids && k <= nr; k++) {
			lua_rawgeti(L, -1, k);
			self->ids[n++] = (struct id){ (uint64_t)luaL_checkinteger(L, -1), i };
			lua_pop(L, 1);
		}
		lua_pop(L, 2);
	}
	self->nr_ids = n;
}

/*
 * decoder({{attr =, ids =}, ...}, {big =, narrow =, [2n - 1] = event n, registers =})
 * -> decoder | nil, message. Keeps the second table for the views.
 */
static int l_decoder(lua_State *L)
{
	struct decoder *self;
	struct pev_err err;
	uint32_t nr, nr_ids;
	bool big, narrow;
	size_t size;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_argcheck(L, lua_rawlen(L, 1) > 0 && lua_rawlen(L, 1) <= ATTRS_MAX, 1,
		      "1 to 65536 attrs");
	lua_settop(L, 2);
	lua_getfield(L, 2, "big");
	lua_getfield(L, 2, "narrow");
	big = lua_toboolean(L, 3);
	narrow = lua_toboolean(L, 4);
	nr = (uint32_t)lua_rawlen(L, 1);
	nr_ids = count_ids(L, nr);
	size = sizeof(*self) + nr * sizeof(*self->plans) + nr_ids * sizeof(*self->ids);
	self = lua_newuserdatauv(L, size, 1);
	*self = (struct decoder){ .nr_plans = nr, .nr_ids = nr_ids, .swap = big != NATIVE_BIG };
	self->ids = (struct id *)(void *)&self->plans[nr];
	fill_plans(L, self, narrow);
	if (find_offsets(self, &err) < 0 || sort_ids(self, &err) < 0)
		return l_result(L, err.code, &err);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, -2, 1);
	return 1;
}

/* ---- one record ---- */

/* Reads the record's id; false if it has none. */
static bool record_id(const struct decoder *self, const unsigned char *p, uint16_t size,
		      uint64_t *id)
{
	bool sample = pev_load32(p, self->swap) == PERF_RECORD_SAMPLE;
	uint32_t off = sample ? self->sample_id_off : self->other_id_off;

	if (!off || off + (sample ? 8u : 0u) > size)
		return false;
	*id = pev_load64(sample ? p + off : p + size - off, self->swap);
	return true;
}

/* Reads the id directly after the body, for a record with excess bytes. Returns NULL if unknown. */
static const struct id *id_behind_body(const struct decoder *self, const unsigned char *p,
				       uint16_t size)
{
	uint16_t body = pev_record_body_end(p, size, self->swap);

	for (uint32_t i = 0; body && i < self->nr_plans; i++) {
		uint32_t end = body + (uint32_t)self->plans[i].trailer;
		const struct id *found;
		struct id key = { 0 };

		if (end > size || !record_id(self, p, (uint16_t)end, &key.id))
			continue;
		found = bsearch(&key, self->ids, self->nr_ids, sizeof(key), compare_ids);
		if (found && found->plan == i)
			return found;
	}
	return NULL;
}

/* Finds an id that was read at the record's end. A trailer behind the body is not at the end. */
static const struct id *id_at_end(const struct decoder *self, const unsigned char *p, uint16_t size,
				  const struct id *key)
{
	const struct id *found =
		bsearch(key, self->ids, self->nr_ids, sizeof(*key), compare_ids);
	uint16_t body = pev_record_body_end(p, size, self->swap);

	return found && body && body + self->plans[found->plan].trailer < size ? NULL : found;
}

/*
 * Returns the index of the record's plan. A record without an id has the first: it is
 * the ring owner's (and record types of tools have no trailer).
 */
static int choose_plan(const struct decoder *self, const unsigned char *p, uint16_t size,
		       struct pev_err *err)
{
	uint32_t type = pev_load32(p, self->swap);
	struct id key = { 0 };
	const struct id *found;

	if (self->nr_plans == 1 || !type || type >= PEV_RECORD_NR ||
	    (type != PERF_RECORD_SAMPLE && !self->other_id_off))
		return 0;
	if (!record_id(self, p, size, &key.id))
		return pev_fail(err, -EBADMSG, "record of type %u: %u bytes are too few for an id",
				type, size);
	found = id_behind_body(self, p, size);
	if (!found)
		found = id_at_end(self, p, size, &key);
	if (!found)
		return pev_fail(err, -EBADMSG,
				"record of type %u: id %" PRIu64 " belongs to no attr",
				type, key.id);
	return (int)found->plan;
}

/* Locates the record at the cursor for the view. *size: its size, or 0 if invalid. 0 or -errno. */
static int locate_next(struct cursor *cursor, uint16_t *size, struct pev_err *err)
{
	const struct decoder *self = cursor->decoder;
	struct l_view *view = cursor->views[cursor->turn ^= 1];
	const unsigned char *p = (const unsigned char *)cursor->bytes + cursor->pos;
	size_t rest = cursor->len - cursor->pos;
	int plan, rc;

	cursor->now++; /* invalidates the previous view */
	*size = 0;
	if (rest < sizeof(struct perf_event_header))
		return pev_fail(err, -EBADMSG, "%zu bytes are too few for a record header", rest);
	*size = pev_load16(p + 6, self->swap);
	if (*size < sizeof(struct perf_event_header) || *size > rest) {
		int bad = *size;

		*size = 0;
		return pev_fail(err, -EBADMSG,
				"record of type %u: size %d, but %zu bytes are there",
				pev_load32(p, self->swap), bad, rest);
	}
	plan = choose_plan(self, p, *size, err);
	if (plan < 0)
		return plan;
	rc = pev_record_locate(&cursor->rec, &self->plans[plan], p, *size, err);
	if (rc < 0)
		return rc;
	view->rec = &cursor->rec;
	view->slot = (uint32_t)plan;
	view->gen = cursor->now;
	return 0;
}

static size_t check_pos(lua_State *L, int idx, size_t len)
{
	lua_Integer pos = luaL_optinteger(L, idx, 1);

	luaL_argcheck(L, pos >= 1 && (lua_Unsigned)pos <= len + 1, idx, "outside of the bytes");
	return (size_t)pos - 1;
}

/*
 * Pushes a cursor and its two views for the decoder at 1 and the bytes at 2. The
 * views' table keeps the decoder, the bytes and the cursor.
 */
static struct cursor *push_cursor(lua_State *L, struct decoder *self)
{
	struct cursor *cursor = lua_newuserdatauv(L, sizeof(*cursor), 0);

	*cursor = (struct cursor){ .decoder = self };
	cursor->bytes = lua_tolstring(L, 2, &cursor->len);
	lua_createtable(L, 4, 4);
	lua_getiuservalue(L, 1, 1);
	for (lua_Integer i = 1; i <= 2 * (lua_Integer)self->nr_plans; i += 2) {
		lua_rawgeti(L, -1, i);
		lua_rawseti(L, -3, i);
	}
	lua_getfield(L, -1, "registers");
	lua_setfield(L, -3, "registers");
	lua_pop(L, 1);
	lua_pushvalue(L, 1);
	lua_setfield(L, -2, "decoder");
	lua_pushvalue(L, 2);
	lua_setfield(L, -2, "bytes");
	lua_pushvalue(L, -2);
	lua_setfield(L, -2, "cursor");
	cursor->views[0] = l_view_push(L, -1, &cursor->now);
	cursor->views[1] = l_view_push(L, -2, &cursor->now);
	lua_remove(L, -3);
	return cursor;
}

/* Stack index of the first view after push_cursor() with three arguments. */
#define FIRST_VIEW 5

static int fail_at(lua_State *L, const struct cursor *cursor, const struct pev_err *err)
{
	lua_pushnil(L);
	lua_pushfstring(L, "at byte %I: %s", (lua_Integer)cursor->pos + 1, err->text);
	return 2;
}

/* d:decode(bytes [, pos]) -> table, position of the next | nil, message */
static int l_decode(lua_State *L)
{
	struct decoder *self = check_decoder(L, 1);
	struct cursor *cursor;
	struct pev_err err;
	uint16_t size;

	luaL_checktype(L, 2, LUA_TSTRING);
	lua_settop(L, 3);
	cursor = push_cursor(L, self);
	cursor->pos = check_pos(L, 3, cursor->len);
	if (locate_next(cursor, &size, &err) < 0)
		return fail_at(L, cursor, &err);
	lua_pushvalue(L, FIRST_VIEW + (int)cursor->turn);
	lua_getfield(L, -1, "copy");
	lua_insert(L, -2);
	lua_call(L, 1, 1);
	lua_pushinteger(L, (lua_Integer)(cursor->pos + size) + 1);
	return 2;
}

/* Pushes view and position of the current record, or a sample's fields. Returns how many. */
static int push_record(lua_State *L, struct cursor *cursor, size_t pos, struct l_fields *fields)
{
	if (fields && cursor->rec.type != PERF_RECORD_SAMPLE)
		return 0;
	lua_pushvalue(L, lua_upvalueindex(2 + (int)cursor->turn));
	if (fields)
		return l_fields_push_for_loop(L, -1, fields, cursor->views[cursor->turn], NULL);
	lua_pushinteger(L, (lua_Integer)pos + 1);
	return 2;
}

/* The iterator. Upvalues: the cursor, its two views, the handler of malformed records, fields. */
static int l_next_record(lua_State *L)
{
	struct cursor *cursor = lua_touserdata(L, lua_upvalueindex(1));
	struct l_fields *fields = lua_touserdata(L, lua_upvalueindex(5));
	struct pev_err err;
	uint16_t size;

	while (cursor->pos < cursor->len) {
		int rc = locate_next(cursor, &size, &err), nr;
		size_t pos = cursor->pos;

		cursor->pos = size ? pos + size : cursor->len;
		if (rc == 0) {
			nr = push_record(L, cursor, pos, fields);
			if (nr > 0)
				return nr;
			continue;
		}
		lua_pushfstring(L, "at byte %I: %s", (lua_Integer)pos + 1, err.text);
		if (lua_isnil(L, lua_upvalueindex(4)))
			return lua_error(L);
		lua_pushvalue(L, lua_upvalueindex(4));
		lua_insert(L, -2);
		lua_pushinteger(L, (lua_Integer)pos + 1);
		lua_call(L, 2, 0);
	}
	cursor->now++;
	return 0;
}

/*
 * d:records(bytes, bad, names) -> iterator over views and their positions, or over the named
 * fields of samples. A malformed record raises; with bad, it calls bad(message, pos) and
 * skips the record. Users call lua/perfev/record/codec.lua.
 */
static int l_records(lua_State *L)
{
	struct decoder *self = check_decoder(L, 1);

	luaL_checktype(L, 2, LUA_TSTRING);
	if (!lua_isnoneornil(L, 3))
		luaL_checktype(L, 3, LUA_TFUNCTION);
	lua_settop(L, 4);
	push_cursor(L, self);
	lua_pushvalue(L, 3);
	if (lua_istable(L, 4))
		l_fields_push(L, 4);
	else
		lua_pushnil(L);
	lua_pushcclosure(L, l_next_record, 5);
	return 1;
}

/* d:id(bytes [, pos]) -> the id that the record carries, or nil */
static int l_id(lua_State *L)
{
	struct decoder *self = check_decoder(L, 1);
	size_t len, pos;
	const char *bytes;
	uint16_t size;
	uint64_t id;

	luaL_checktype(L, 2, LUA_TSTRING);
	bytes = lua_tolstring(L, 2, &len);
	pos = check_pos(L, 3, len);
	if (len - pos < sizeof(struct perf_event_header))
		return 0;
	size = pev_load16(bytes + pos + 6, self->swap);
	if (size > len - pos || !record_id(self, (const unsigned char *)bytes + pos, size, &id))
		return 0;
	lua_pushinteger(L, (lua_Integer)id);
	return 1;
}

/* ---- the layout tables, for the encoder and the reference ---- */

static void push_rows(lua_State *L, const struct pev_row *rows)
{
	static const char *const kinds[] = {
		[PEV_K_U16] = "u16", [PEV_K_U32] = "u32", [PEV_K_U64] = "u64",
		[PEV_K_S32] = "s32", [PEV_K_STRING] = "string", [PEV_K_BYTES] = "bytes",
		[PEV_K_READ] = "read", [PEV_K_CHAIN] = "chain", [PEV_K_BRANCH] = "branch",
		[PEV_K_REGS] = "regs", [PEV_K_STACK] = "stack",
		[PEV_K_NAMESPACES] = "namespaces", [PEV_K_BITS] = "bits",
	};

	lua_newtable(L);
	for (lua_Integer i = 1; rows->field; rows++, i++) {
		lua_createtable(L, 0, 4);
		l_set_string(L, "name", pev_field_names[rows->field]);
		l_set_string(L, "kind", kinds[rows->kind]);
		l_set_u64(L, "off", rows->off);
		l_set_u64(L, "bit", rows->bit);
		lua_rawseti(L, -2, i);
	}
}

static void push_records(lua_State *L)
{
	lua_newtable(L);
	for (lua_Integer i = 1; i < PEV_RECORD_NR; i++) {
		lua_createtable(L, 0, 4);
		l_set_string(L, "name", pev_layouts[i].name);
		l_set_string(L, "callback", pev_layouts[i].callback);
		l_set_u64(L, "min", pev_layouts[i].min);
		push_rows(L, pev_layouts[i].rows);
		lua_setfield(L, -2, "rows");
		lua_rawseti(L, -2, i);
	}
}

static void push_miscs(lua_State *L)
{
	lua_newtable(L);
	for (int i = 0; pev_miscs[i].name; i++) {
		lua_createtable(L, 0, 4);
		l_set_string(L, "name", pev_miscs[i].name);
		l_set_u64(L, "types", pev_miscs[i].types);
		l_set_u64(L, "mask", pev_miscs[i].mask);
		if (pev_miscs[i].field)
			l_set_string(L, "field", pev_field_names[pev_miscs[i].field]);
		lua_rawseti(L, -2, i + 1);
	}
}

static void set_bits(lua_State *L, const struct pev_bits *bits)
{
	static const char *const kinds[] = {
		[PEV_B_NUMBER] = "number", [PEV_B_FLAG] = "flag", [PEV_B_ENUM] = "enum",
		[PEV_B_SET] = "set",
	};
	lua_Integer i = 1;

	lua_newtable(L);
	for (const struct pev_bits_field *f = bits->fields; f->name; f++) {
		lua_createtable(L, 0, 5);
		l_set_string(L, "name", f->name);
		l_set_string(L, "kind", kinds[f->kind]);
		l_set_u64(L, "shift", f->shift);
		l_set_u64(L, "width", f->width);
		lua_createtable(L, f->nr, 1);
		for (int n = 0; n < f->nr; n++) {
			lua_pushstring(L, f->names[n]);
			lua_rawseti(L, -2, n); /* from 0, like bits and values */
		}
		lua_setfield(L, -2, "names");
		lua_rawseti(L, -2, i++);
	}
	lua_setfield(L, -2, bits->name);
}

/* layouts() -> { records =, build_id =, trailer =, miscs =, bits = }, a new table each time */
static int l_layouts(lua_State *L)
{
	lua_newtable(L);
	push_records(L);
	lua_setfield(L, -2, "records");
	push_rows(L, pev_mmap2_build_id_rows);
	lua_setfield(L, -2, "build_id");
	push_rows(L, pev_trailer_rows);
	lua_setfield(L, -2, "trailer");
	push_miscs(L);
	lua_setfield(L, -2, "miscs");
	lua_newtable(L);
	set_bits(L, &pev_data_src_bits);
	set_bits(L, &pev_transaction_bits);
	set_bits(L, &pev_weight_bits);
	set_bits(L, &pev_branch_bits);
	lua_setfield(L, -2, "bits");
	return 1;
}

/* As printed by uname -m. Selects the names of registers and system calls. */
#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__i386__)
#define MACHINE "i686"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#elif defined(__arm__)
#define MACHINE "arm"
#elif defined(__riscv)
#define MACHINE "riscv"
#elif defined(__loongarch__)
#define MACHINE "loongarch64"
#elif defined(__s390x__)
#define MACHINE "s390x"
#elif defined(__powerpc__)
#define MACHINE "powerpc"
#else
#define MACHINE "unknown"
#endif

/* clang-format off */
static const luaL_Reg methods[] = {
	{ "decode",  l_decode },
	{ "records", l_records },
	{ "id",      l_id },
	{ NULL,      NULL },
};

static const luaL_Reg functions[] = {
	{ "decoder", l_decoder },
	{ "layouts", l_layouts },
	{ NULL,      NULL },
};
/* clang-format on */

void l_decoder_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, NULL);
	luaL_setfuncs(L, functions, 0);
	luaL_getmetatable(L, TYPENAME);
	lua_setfield(L, -2, "decoder_methods");
	lua_pushliteral(L, MACHINE);
	lua_setfield(L, -2, "machine");
}
