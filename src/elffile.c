/*
 * elffile.c - what a program's file says of its functions, variables and probes; see elffile.h.
 *
 * libelf does the layouts, classes and byte orders. It is given the bytes, never a
 * descriptor, and what it says is believed only as far as the bytes go: a string
 * must end inside its section, a segment inside the file.
 * Contract: elf(5); https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
 */
#include "elffile.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

enum {
	NT_STAPSDT = 3,
	NAMES_MAX = 1 << 16,    /* among which the nearest is looked for */
	SECTIONS_MAX = 1 << 16,
	SEGMENTS_MAX = 1 << 12,
};

struct pev_elf {
	Elf *elf;
	size_t len;             /* bytes of the file */
	GElf_Ehdr header;
	size_t segments;
	Elf_Data *tables[2];    /* .symtab, .dynsym; NULL: there is none */
	size_t strings[2];      /* the section of their names */
	Elf_Data *versions;     /* of .dynsym's symbols */
	Elf_Data *notes;        /* of .note.stapsdt */
	uint64_t base;          /* where .stapsdt.base lies, or 0 */
	const unsigned char *build_id;
	uint32_t build_id_len;
};

/* ---- opening ---- */

/* "GNU" and a hash of the program's own. */
static void take_build_id(struct pev_elf *elf, Elf_Data *data)
{
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	while (!elf->build_id && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp((char *)data->d_buf + name, "GNU", 4) != 0 || note.n_descsz > 64)
			continue;
		elf->build_id = (unsigned char *)data->d_buf + desc;
		elf->build_id_len = note.n_descsz;
	}
}

static void take_section(struct pev_elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			 const char *name)
{
	Elf_Data *data;

	if (header->sh_type == SHT_PROGBITS && name && strcmp(name, ".stapsdt.base") == 0) {
		elf->base = header->sh_addr;
		return;
	}
	if (header->sh_type != SHT_SYMTAB && header->sh_type != SHT_DYNSYM &&
	    header->sh_type != SHT_NOTE && header->sh_type != SHT_GNU_versym)
		return;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return;
	if (header->sh_type == SHT_GNU_versym) {
		elf->versions = data;
		return;
	}
	if (header->sh_type == SHT_NOTE) {
		take_build_id(elf, data);
		if (name && strcmp(name, ".note.stapsdt") == 0 && !elf->notes)
			elf->notes = data;
		return;
	}
	elf->tables[header->sh_type == SHT_DYNSYM] = data;
	elf->strings[header->sh_type == SHT_DYNSYM] = header->sh_link;
}

static void take_sections(struct pev_elf *elf)
{
	Elf_Scn *section = NULL;
	size_t names = 0;

	if (elf_getshdrstrndx(elf->elf, &names) < 0)
		names = 0;
	for (int n = 0; n < SECTIONS_MAX && (section = elf_nextscn(elf->elf, section)); n++) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header))
			take_section(elf, section, &header,
				     names ? elf_strptr(elf->elf, names, header.sh_name) : NULL);
	}
}

static int no_program(struct pev_err *err, const char *why)
{
	return pev_fail(err, -ENOEXEC, "it is %s", why);
}

static int take_header(struct pev_elf *elf, struct pev_err *err)
{
	if (elf_kind(elf->elf) != ELF_K_ELF || !gelf_getehdr(elf->elf, &elf->header))
		return no_program(err, "no ELF file");
	if (elf->header.e_type != ET_EXEC && elf->header.e_type != ET_DYN)
		return no_program(err, elf->header.e_type == ET_REL ?
				       "an object file, not linked yet" :
				       "an ELF file that is no program and no library");
	if (elf_getphdrnum(elf->elf, &elf->segments) < 0 || elf->segments > SEGMENTS_MAX)
		return no_program(err, "an ELF file whose program headers cannot be read");
	return 0;
}

int pev_elf_open(struct pev_elf **out, const void *image, size_t len, struct pev_err *err)
{
	struct pev_elf *elf = calloc(1, sizeof(*elf));
	int rc;

	if (!elf)
		return pev_fail(err, -ENOMEM, "no memory for its symbols");
	elf->len = len;
	elf_version(EV_CURRENT);
	/* Opened to read: what is of another layout is converted in a copy. */
	elf->elf = elf_memory((char *)(uintptr_t)image, len);
	rc = elf->elf ? take_header(elf, err) : no_program(err, "no ELF file");
	if (rc < 0) {
		pev_elf_close(elf);
		return rc;
	}
	take_sections(elf);
	*out = elf;
	return 0;
}

void pev_elf_close(struct pev_elf *elf)
{
	if (!elf)
		return;
	elf_end(elf->elf);
	free(elf);
}

void pev_elf_facts(const struct pev_elf *elf, struct pev_elf_facts *facts)
{
	const bool big = elf->header.e_ident[EI_DATA] == ELFDATA2MSB;

	*facts = (struct pev_elf_facts){
		.fixed = elf->header.e_type == ET_EXEC,
		.symtab = elf->tables[0],
		.dynsym = elf->tables[1],
		.swap = big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
		.bits = elf->header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32,
		.machine = elf->header.e_machine,
		.build_id = elf->build_id,
		.build_id_len = elf->build_id_len,
	};
}

/* ---- addresses and offsets ---- */

/* The n-th segment that is mapped, its bytes within the file. */
static bool segment(const struct pev_elf *elf, size_t n, GElf_Phdr *phdr)
{
	return gelf_getphdr(elf->elf, (int)n, phdr) && phdr->p_type == PT_LOAD &&
	       phdr->p_offset <= elf->len && phdr->p_filesz <= elf->len - phdr->p_offset;
}

uint64_t pev_elf_offset(const struct pev_elf *elf, uint64_t address)
{
	GElf_Phdr phdr;

	for (size_t n = 0; n < elf->segments; n++)
		if (segment(elf, n, &phdr) && address >= phdr.p_vaddr &&
		    address - phdr.p_vaddr < phdr.p_filesz)
			return phdr.p_offset + (address - phdr.p_vaddr);
	return PEV_ELF_NONE;
}

uint64_t pev_elf_mapped(const struct pev_elf *elf, uint64_t pgoff, uint64_t page)
{
	GElf_Phdr phdr;

	for (size_t n = 0; n < elf->segments; n++)
		if (segment(elf, n, &phdr) && phdr.p_flags & PF_X &&
		    (phdr.p_offset & ~(page - 1)) == pgoff)
			return phdr.p_vaddr & ~(page - 1);
	return PEV_ELF_NONE;
}

bool pev_elf_runs(const struct pev_elf *elf, uint64_t offset)
{
	GElf_Phdr phdr;

	for (size_t n = 0; n < elf->segments; n++)
		if (segment(elf, n, &phdr) && phdr.p_flags & PF_X && offset >= phdr.p_offset &&
		    offset - phdr.p_offset < phdr.p_filesz)
			return true;
	return false;
}

/* ---- symbols ---- */

static bool is_named(const char *table, const char *name)
{
	size_t len = strlen(name);

	/* ".symtab" may have "malloc@@GLIBC_2.2.5". */
	return strncmp(table, name, len) == 0 && (table[len] == '\0' || table[len] == '@');
}

/* The n-th of a table, if it is defined here and has a name; false past the end too. */
static bool defined(const struct pev_elf *elf, int table, int n, GElf_Sym *sym, const char **name)
{
	int type;

	if (!gelf_getsym(elf->tables[table], n, sym) || sym->st_shndx == SHN_UNDEF)
		return false;
	type = GELF_ST_TYPE(sym->st_info);
	if (type == STT_SECTION || type == STT_FILE)
		return false;
	*name = elf_strptr(elf->elf, elf->strings[table], sym->st_name);
	return *name && **name;
}

static int table_length(const struct pev_elf *elf, int table)
{
	size_t each = gelf_fsize(elf->elf, ELF_T_SYM, 1, EV_CURRENT), nr;

	if (!elf->tables[table] || !each)
		return 0;
	nr = elf->tables[table]->d_size / each;
	return nr > INT32_MAX ? INT32_MAX : (int)nr;
}

/* Kept for programs that were linked long ago: "f@VERS_1", where new ones get "f@@VERS_2". */
static bool is_old(const struct pev_elf *elf, int table, int n, const char *name)
{
	const char *version = strchr(name, '@');
	GElf_Versym index;

	if (version)
		return version[1] != '@';
	return table == 1 && elf->versions && gelf_getversym(elf->versions, n, &index) &&
	       index & 0x8000; /* "hidden" in the Linux Standard Base */
}

/* A linker's choice: global, then weak, then what it would not choose any more, then local. */
static int rank_of(const GElf_Sym *sym, bool old)
{
	switch (GELF_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return old ? 2 : 4;
	case STB_WEAK:
		return old ? 2 : 3;
	default:
		return 1;
	}
}

/* *best: the rank of what is in symbol. */
static void take_symbol(const struct pev_elf *elf, struct pev_elf_symbol *symbol, int *best,
			const GElf_Sym *sym, const char *name, int rank)
{
	const uint8_t bind = GELF_ST_BIND(sym->st_info);
	uint64_t value = sym->st_value;

	/* The lowest bit says that the function is in Thumb code (ELF for the Arm architecture). */
	if (elf->header.e_machine == EM_ARM && GELF_ST_TYPE(sym->st_info) == STT_FUNC)
		value &= ~UINT64_C(1);
	if (rank <= *best) {
		symbol->others += rank == *best && value != symbol->value;
		return;
	}
	*best = rank;
	*symbol = (struct pev_elf_symbol){
		.name = name,
		.value = value,
		.size = sym->st_size,
		.offset = pev_elf_offset(elf, value),
		.type = GELF_ST_TYPE(sym->st_info),
		.bind = bind,
	};
}

int pev_elf_find(const struct pev_elf *elf, const char *name, struct pev_elf_symbol *symbol)
{
	int best = 0;

	*symbol = (struct pev_elf_symbol){ .name = NULL };
	for (int table = 0; table < 2 && !symbol->name; table++) {
		const int nr = table_length(elf, table);
		const char *there;
		GElf_Sym sym;

		for (int i = 0; i < nr; i++)
			if (defined(elf, table, i, &sym, &there) && is_named(there, name))
				take_symbol(elf, symbol, &best, &sym, there,
					    rank_of(&sym, is_old(elf, table, i, there)));
	}
	return symbol->name ? 0 : -ENOENT;
}

const char *pev_elf_nearest(const struct pev_elf *elf, const char *name)
{
	const char **names = malloc(sizeof(*names) * NAMES_MAX), *near;
	size_t nr = 0;

	for (int table = 0; names && table < 2; table++) {
		const int all = table_length(elf, table);
		GElf_Sym sym;

		for (int i = 0; i < all && nr < NAMES_MAX; i++)
			if (defined(elf, table, i, &sym, &names[nr]))
				nr++;
	}
	near = names ? pev_nearest(name, names, nr) : NULL;
	free(names);
	return near;
}

/* ---- probes ---- */

/* A string of the note at *p, which is stepped over; NULL when it does not end in there. */
static const char *note_string(const char **p, const char *end)
{
	const char *start = *p, *nul = memchr(start, 0, (size_t)(end - start));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return start;
}

/* One address of the file's class and byte order. */
static uint64_t note_word(const struct pev_elf *elf, const char *p)
{
	const bool big = elf->header.e_ident[EI_DATA] == ELFDATA2MSB;
	const int size = elf->header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	uint64_t word = 0;

	for (int i = 0; i < size; i++)
		word = word << 8 | (unsigned char)p[big ? i : size - 1 - i];
	return word;
}

/* Three addresses, then three strings: provider, name, arguments. */
static bool read_probe(const struct pev_elf *elf, const char *desc, size_t len,
		       struct pev_elf_probe *probe)
{
	const size_t word = elf->header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	const char *p = desc + 3 * word, *end = desc + len;
	uint64_t moved;

	if (len < 3 * word)
		return false;
	/* prelink and the like move the program, and .stapsdt.base with it, but not the note. */
	moved = elf->base ? elf->base - note_word(elf, desc + word) : 0;
	*probe = (struct pev_elf_probe){
		.pc = note_word(elf, desc) + moved,
		.semaphore = note_word(elf, desc + 2 * word),
	};
	probe->provider = note_string(&p, end);
	probe->name = probe->provider ? note_string(&p, end) : NULL;
	probe->args = probe->name ? note_string(&p, end) : NULL;
	if (!probe->args)
		return false;
	if (probe->semaphore) {
		probe->semaphore += moved;
		probe->ref_ctr_offset = pev_elf_offset(elf, probe->semaphore);
	}
	probe->offset = pev_elf_offset(elf, probe->pc);
	return true;
}

int pev_elf_probe(const struct pev_elf *elf, size_t *at, struct pev_elf_probe *probe)
{
	size_t name, desc;
	GElf_Nhdr note;

	while (elf->notes && (*at = gelf_getnote(elf->notes, *at, &note, &name, &desc)) > 0) {
		const char *bytes = elf->notes->d_buf;

		if (note.n_type == NT_STAPSDT && note.n_namesz == 8 &&
		    memcmp(bytes + name, "stapsdt", 8) == 0 &&
		    read_probe(elf, bytes + desc, note.n_descsz, probe))
			return 1;
	}
	return 0;
}
