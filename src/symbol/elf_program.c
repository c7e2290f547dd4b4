/*
 * elf_program.c - symbols by their names, and static probes; see elf_program.h.
 *
 * Contract: elf(5); https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
 */
#include "symbol/elf_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	NT_STAPSDT = 3,
	NAMES_MAX = 1 << 16,    /* compared to find the nearest name */
};

int pev_elf_check_program(const struct pev_elf *elf, struct pev_err *err)
{
	const uint16_t type = elf->header.e_type;

	if (type == ET_EXEC || type == ET_DYN)
		return 0;
	return pev_fail(err, -ENOEXEC, type == ET_REL ?
			"an object file, not linked yet" :
			"an ELF file, but neither a program nor a library");
}

/* ---- symbols ---- */

static bool has_name(const char *table_name, const char *name)
{
	size_t len = strlen(name);

	/* ".symtab" may have "malloc@@GLIBC_2.2.5". */
	return strncmp(table_name, name, len) == 0 &&
	       (table_name[len] == '\0' || table_name[len] == '@');
}

static bool is_defined(const GElf_Sym *symbol, const char *name)
{
	const int type = GELF_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && type != STT_SECTION && type != STT_FILE && *name;
}

/* Kept for programs that were linked long ago: "f@VERS_1", while new ones get "f@@VERS_2". */
static bool is_old_version(const struct pev_elf *elf, uint32_t table, int n, const char *name)
{
	const char *version = strchr(name, '@');
	struct pev_elf_section section;
	GElf_Versym number;

	if (version || table != SHT_DYNSYM)
		return version && version[1] != '@';
	return pev_elf_find_section(elf, SHT_GNU_versym, NULL, &section) &&
	       gelf_getversym(elf_getdata(section.handle, NULL), n, &number) &&
	       number & 0x8000; /* "hidden" in the Linux Standard Base */
}

/* The order in which a linker chooses. */
static int rank_symbol(const GElf_Sym *symbol, bool is_old)
{
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return is_old ? 2 : 4;
	case STB_WEAK:
		return is_old ? 2 : 3;
	default:
		return 1;
	}
}

/* *best_rank: of *best */
static void keep_better(const struct pev_elf *elf, const GElf_Sym *symbol, const char *name,
			int rank, struct pev_elf_symbol *best, int *best_rank)
{
	if (rank <= *best_rank) {
		best->others += rank == *best_rank && symbol->st_value != best->value;
		return;
	}
	*best_rank = rank;
	*best = (struct pev_elf_symbol){
		.name = name,
		.value = symbol->st_value,
		.size = symbol->st_size,
		.offset = pev_elf_find_offset(elf, symbol->st_value),
		.type = GELF_ST_TYPE(symbol->st_info),
	};
}

/* In the order in which they are searched. */
static const uint32_t tables[] = { SHT_SYMTAB, SHT_DYNSYM };

int pev_elf_find_symbol(const struct pev_elf *elf, const char *name, struct pev_elf_symbol *best)
{
	struct pev_elf_section section;
	const char *found;
	int best_rank = 0;
	GElf_Sym symbol;

	*best = (struct pev_elf_symbol){ .name = NULL };
	for (int t = 0; t < 2 && !best->name; t++) {
		if (!pev_elf_find_section(elf, tables[t], NULL, &section))
			continue;
		for (int n = 0; pev_elf_symbol_at(&section, n, &symbol, &found); n++) {
			bool is_old;

			if (!is_defined(&symbol, found) || !has_name(found, name))
				continue;
			is_old = is_old_version(elf, tables[t], n, found);
			keep_better(elf, &symbol, found, rank_symbol(&symbol, is_old), best,
				    &best_rank);
		}
	}
	return best->name ? 0 : -ENOENT;
}

struct pev_elf_functions pev_elf_open_functions(const struct pev_elf *elf)
{
	struct pev_elf_functions functions = { .elf = elf };

	functions.is_empty = !pev_elf_find_section(elf, SHT_SYMTAB, NULL, &functions.section) &&
			     !pev_elf_find_section(elf, SHT_DYNSYM, NULL, &functions.section);
	return functions;
}

bool pev_elf_next_function(struct pev_elf_functions *functions, struct pev_elf_symbol *function)
{
	const char *name;
	GElf_Sym symbol;

	while (!functions->is_empty &&
	       pev_elf_symbol_at(&functions->section, functions->n++, &symbol, &name)) {
		const int type = GELF_ST_TYPE(symbol.st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !is_defined(&symbol, name))
			continue;
		*function = (struct pev_elf_symbol){
			.name = name,
			.value = symbol.st_value,
			.size = symbol.st_size,
			.offset = pev_elf_find_offset(functions->elf, symbol.st_value),
			.type = (uint8_t)type,
		};
		return true;
	}
	functions->is_empty = true;
	return false;
}

const char *pev_elf_nearest_symbol(const struct pev_elf *elf, const char *name)
{
	const char **names = malloc(sizeof(*names) * NAMES_MAX), *found, *nearest;
	struct pev_elf_section section;
	GElf_Sym symbol;
	size_t nr = 0;

	for (int t = 0; names && t < 2; t++) {
		if (!pev_elf_find_section(elf, tables[t], NULL, &section))
			continue;
		for (int n = 0; pev_elf_symbol_at(&section, n, &symbol, &found); n++)
			if (nr < NAMES_MAX && is_defined(&symbol, found))
				names[nr++] = found;
	}
	nearest = names ? pev_nearest(name, names, nr) : NULL;
	free(names);
	return nearest;
}

/* ---- static probes ---- */

struct pev_elf_probes pev_elf_open_probes(const struct pev_elf *elf)
{
	struct pev_elf_probes probes = { .elf = elf };
	struct pev_elf_section section;
	const unsigned char *bytes;
	size_t len;

	if (pev_elf_find_section(elf, SHT_PROGBITS, ".stapsdt.base", &section))
		probes.base = section.header.sh_addr;
	if (pev_elf_find_section(elf, SHT_NOTE, ".note.stapsdt", &section)) {
		bytes = pev_elf_section_bytes(&section, &len);
		probes.notes = pev_elf_notes(elf, bytes, len, section.header.sh_addralign);
	}
	return probes;
}

/* Steps over a string. Returns NULL when it does not end in the note. */
static const char *read_string(const char **p, const char *end)
{
	const char *start = *p, *nul = memchr(start, 0, (size_t)(end - start));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return start;
}

static size_t word_size(const struct pev_elf *elf)
{
	return elf->header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
}

/* Returns one address of the file's class and byte order. */
static uint64_t read_address(const struct pev_elf *elf, const unsigned char *p)
{
	const bool big = pev_elf_is_big_endian(elf);
	const int size = (int)word_size(elf);
	uint64_t address = 0;

	for (int i = 0; i < size; i++)
		address = address << 8 | p[big ? i : size - 1 - i];
	return address;
}

/* Three addresses, then three strings: provider, name, arguments. */
static bool read_probe(const struct pev_elf_probes *probes, const struct pev_note *note,
		       struct pev_elf_probe *probe)
{
	const struct pev_elf *elf = probes->elf;
	const size_t size = word_size(elf);
	const char *p, *end = (const char *)note->content + note->len;
	uint64_t moved;

	if (note->len < 3 * size)
		return false;
	p = (const char *)note->content + 3 * size;
	/* prelink and the like move the program, and .stapsdt.base with it, but not the note. */
	moved = probes->base ? probes->base - read_address(elf, note->content + size) : 0;
	*probe = (struct pev_elf_probe){
		.pc = read_address(elf, note->content) + moved,
		.semaphore = read_address(elf, note->content + 2 * size),
	};
	probe->provider = read_string(&p, end);
	probe->name = probe->provider ? read_string(&p, end) : NULL;
	probe->args = probe->name ? read_string(&p, end) : NULL;
	if (!probe->args)
		return false;
	if (probe->semaphore) {
		probe->semaphore += moved;
		probe->ref_ctr_offset = pev_elf_find_offset(elf, probe->semaphore);
	}
	probe->offset = pev_elf_find_offset(elf, probe->pc);
	return true;
}

bool pev_elf_next_probe(struct pev_elf_probes *probes, struct pev_elf_probe *probe)
{
	struct pev_note note;

	while (pev_notes_next(&probes->notes, &note))
		if (note.type == NT_STAPSDT && note.name_len == sizeof("stapsdt") &&
		    memcmp(note.name, "stapsdt", sizeof("stapsdt")) == 0 &&
		    read_probe(probes, &note, probe))
			return true;
	return false;
}
