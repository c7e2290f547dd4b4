/*
 * lelf.c - perfev.elf: a program's file as the userdata perfev.elf, and build-ids of files.
 *
 * A shared object of its own, loaded on first use, so that only its users need libelf. It opens
 * no file: the bytes come from the core, through the hooks.
 */
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "symbol/elf_program.h"
#include "symbol/elf.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/limage.h"

#define TYPENAME "perfev.elf"

int luaopen_perfev_elf(lua_State *L);

struct l_elf {
	struct pev_elf *elf; /* NULL once closed; its bytes are user value 1 */
};

static struct pev_elf *check_elf(lua_State *L)
{
	struct l_elf *self = luaL_checkudata(L, 1, TYPENAME);

	if (!self->elf)
		luaL_error(L, "the ELF file is closed");
	return self->elf;
}

/* Pushes the userdata of the bytes at idx. */
static int open_elf(lua_State *L, int idx, struct pev_elf **elf, struct pev_err *err)
{
	struct pev_file_image whole, *image = l_image_check_whole(L, idx, &whole);
	struct l_elf *self = lua_newuserdatauv(L, sizeof(*self), 1);
	int rc;

	self->elf = NULL;
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, idx);
	lua_setiuservalue(L, -2, 1);
	rc = pev_elf_open(&self->elf, image->bytes, image->len, err);
	*elf = self->elf;
	return rc;
}

/* read(image or bytes) -> elf | nil, why, errno */
static int l_read(lua_State *L)
{
	struct pev_elf *elf;
	struct pev_err err;
	int rc = open_elf(L, 1, &elf, &err);

	if (rc == 0)
		rc = pev_elf_check_program(elf, &err);
	return rc < 0 ? l_fail(L, rc, &err) : 1;
}

/* ---- build-ids ---- */

#define HEAD 4096         /* bytes; most linkers put the program headers and the notes there */
#define NOTES_MAX 65536   /* bytes of a segment; only core files have more */

/* Pushes what read(offset, len), which is at index 1, returns; NULL unless it is that long. */
static const unsigned char *read_part(lua_State *L, uint64_t offset, uint64_t len)
{
	const char *bytes;
	size_t got;

	lua_pushvalue(L, 1);
	lua_pushinteger(L, (lua_Integer)offset);
	lua_pushinteger(L, (lua_Integer)len);
	lua_call(L, 2, 1);
	bytes = lua_tolstring(L, -1, &got);
	return bytes && got == len ? (const unsigned char *)bytes : NULL;
}

/* build_id(read) -> bytes | nil. read(offset, len) returns that part of the file, or nil. */
static int l_build_id(lua_State *L)
{
	struct pev_notes notes;
	struct pev_note note;
	struct pev_elf *elf;

	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	read_part(L, 0, HEAD);
	if (!lua_isstring(L, -1) || open_elf(L, 2, &elf, NULL) < 0)
		return 0;
	if (pev_elf_find_build_id(elf, &note))
		goto found;
	for (size_t i = 0; i < elf->nr_segments; i++) {
		const GElf_Phdr *segment = &elf->segments[i];
		const unsigned char *bytes;

		if (segment->p_type != PT_NOTE || segment->p_filesz > NOTES_MAX ||
		    segment->p_offset > INT64_MAX)
			continue;
		bytes = read_part(L, segment->p_offset, segment->p_filesz);
		notes = pev_elf_notes(elf, bytes, bytes ? segment->p_filesz : 0, segment->p_align);
		if (pev_notes_find_build_id(&notes, &note))
			goto found;
		lua_pop(L, 1);
	}
	return 0;
found:
	lua_pushlstring(L, (const char *)note.content, note.len);
	return 1;
}

/* ---- the userdata ---- */

static void set_address(lua_State *L, const char *name, uint64_t value)
{
	if (value == PEV_ELF_NONE)
		return;
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value)
{
	lua_pushstring(L, value);
	lua_setfield(L, -2, name);
}

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[0] = "notype", [1] = "object", [2] = "func", [6] = "tls", [10] = "ifunc",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "other";
}

static void push_symbol(lua_State *L, const struct pev_elf_symbol *symbol)
{
	lua_createtable(L, 0, 6);
	set_string(L, "name", symbol->name);
	set_string(L, "type", type_name(symbol->type));
	lua_pushinteger(L, (lua_Integer)symbol->value);
	lua_setfield(L, -2, "value");
	lua_pushinteger(L, (lua_Integer)symbol->size);
	lua_setfield(L, -2, "size");
	lua_pushinteger(L, symbol->others);
	lua_setfield(L, -2, "others");
	set_address(L, "offset", symbol->offset);
}

/* e:symbol(name) -> {name=, value=, size=, offset=, type=, others=} | nil */
static int l_symbol(lua_State *L)
{
	struct pev_elf *elf = check_elf(L);
	struct pev_elf_symbol symbol;

	if (pev_elf_find_symbol(elf, luaL_checkstring(L, 2), &symbol) < 0)
		return 0;
	push_symbol(L, &symbol);
	return 1;
}

/* e:functions(is_wanted) -> list of those for whose names is_wanted(name) is true, as symbol() */
static int l_functions(lua_State *L)
{
	struct pev_elf_functions functions = pev_elf_open_functions(check_elf(L));
	struct pev_elf_symbol function;
	lua_Integer nr = 0;
	bool is_wanted;

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_newtable(L);
	while (pev_elf_next_function(&functions, &function)) {
		lua_pushvalue(L, 2);
		lua_pushstring(L, function.name);
		lua_call(L, 1, 1);
		is_wanted = lua_toboolean(L, -1);
		lua_pop(L, 1);
		check_elf(L); /* the function may have closed it */
		if (!is_wanted)
			continue;
		push_symbol(L, &function);
		lua_rawseti(L, -2, ++nr);
	}
	return 1;
}

/* e:nearest(name) -> the name of the symbol whose spelling is nearest, or nil */
static int l_nearest(lua_State *L)
{
	lua_pushstring(L, pev_elf_nearest_symbol(check_elf(L), luaL_checkstring(L, 2)));
	return 1;
}

static int push_address(lua_State *L, uint64_t value)
{
	if (value == PEV_ELF_NONE)
		return 0;
	lua_pushinteger(L, (lua_Integer)value);
	return 1;
}

/* e:offset(address) -> bytes from the file's start, or nil */
static int l_offset(lua_State *L)
{
	uint64_t address = (uint64_t)luaL_checkinteger(L, 2);

	return push_address(L, pev_elf_find_offset(check_elf(L), address));
}

/* e:address(offset) -> the linker's address of that byte of the file, or nil */
static int l_address(lua_State *L)
{
	const struct pev_elf *elf = check_elf(L);
	uint64_t offset = (uint64_t)luaL_checkinteger(L, 2);

	return push_address(L, pev_elf_find_address(elf->segments, elf->nr_segments, offset));
}

/* e:mapped(pgoff, page) -> the linker's address of code mapped from pgoff on, or nil */
static int l_mapped(lua_State *L)
{
	uint64_t pgoff = (uint64_t)luaL_checkinteger(L, 2);
	lua_Integer page = luaL_checkinteger(L, 3);

	luaL_argcheck(L, page > 0 && (page & (page - 1)) == 0, 3, "a power of two expected");
	return push_address(L, pev_elf_find_page(check_elf(L), pgoff, (uint64_t)page));
}

/* e:runs(offset) -> true if that byte is mapped executable */
static int l_runs(lua_State *L)
{
	lua_pushboolean(L, pev_elf_is_code(check_elf(L), (uint64_t)luaL_checkinteger(L, 2)));
	return 1;
}

/* e:probes() -> { {provider=, name=, args=, pc=, offset=, semaphore=, ref_ctr_offset=}, ... } */
static int l_probes(lua_State *L)
{
	struct pev_elf_probes probes = pev_elf_open_probes(check_elf(L));
	struct pev_elf_probe probe;

	lua_newtable(L);
	for (lua_Integer n = 1; pev_elf_next_probe(&probes, &probe); n++) {
		lua_createtable(L, 0, 7);
		set_string(L, "provider", probe.provider);
		set_string(L, "name", probe.name);
		set_string(L, "args", probe.args);
		set_address(L, "pc", probe.pc);
		set_address(L, "offset", probe.offset);
		if (probe.semaphore) {
			set_address(L, "semaphore", probe.semaphore);
			set_address(L, "ref_ctr_offset", probe.ref_ctr_offset);
		}
		lua_rawseti(L, -2, n);
	}
	return 1;
}

/* e:facts() -> {fixed=, symtab=, dynsym=, bits=, machine=, build_id=} */
static int l_facts(lua_State *L)
{
	const struct pev_elf *elf = check_elf(L);
	const GElf_Ehdr *header = &elf->header;
	struct pev_elf_section section;
	struct pev_note note;

	if (!pev_elf_find_build_id(elf, &note))
		note = (struct pev_note){ .len = 0 };
	lua_createtable(L, 0, 6);
	lua_pushboolean(L, header->e_type == ET_EXEC);
	lua_setfield(L, -2, "fixed");
	lua_pushboolean(L, pev_elf_find_section(elf, SHT_SYMTAB, NULL, &section));
	lua_setfield(L, -2, "symtab");
	lua_pushboolean(L, pev_elf_find_section(elf, SHT_DYNSYM, NULL, &section));
	lua_setfield(L, -2, "dynsym");
	lua_pushinteger(L, header->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32);
	lua_setfield(L, -2, "bits");
	lua_pushinteger(L, header->e_machine);
	lua_setfield(L, -2, "machine");
	lua_pushlstring(L, (const char *)note.content, note.len);
	lua_setfield(L, -2, "build_id");
	return 1;
}

static int l_close(lua_State *L)
{
	struct l_elf *self = luaL_checkudata(L, 1, TYPENAME);

	pev_elf_close(self->elf);
	self->elf = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "symbol", l_symbol },
	{ "functions", l_functions },
	{ "nearest", l_nearest },
	{ "offset", l_offset },
	{ "address", l_address },
	{ "mapped", l_mapped },
	{ "runs", l_runs },
	{ "probes", l_probes },
	{ "facts", l_facts },
	{ "close", l_close },
	{ "__close", l_close },
	{ NULL, NULL },
};

static const luaL_Reg functions[] = {
	{ "read", l_read },
	{ "build_id", l_build_id },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_elf(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_close);
	luaL_newlib(L, functions);
	return 1;
}
