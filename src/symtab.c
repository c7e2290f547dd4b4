/*
 * symtab.c - which function is at an address of a file; see symtab.h.
 *
 * What is a function, and which of several names at one address is shown, is as perf
 * has it (tools/perf/util/symbol-elf.c, dso__load_sym_internal(); symbol.c,
 * choose_best_symbol() and symbols__fixup_end()), so that both print the same.
 * libelf does the layouts, liblzma unpacks MiniDebugInfo. Contract: elf(5).
 */
#define _GNU_SOURCE /* qsort_r */

#include "symtab.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SECTIONS_MAX = 1 << 16,
	SEGMENTS_MAX = 1 << 12,
	MINIDEBUG_MAX = 256 << 20,  /* bytes unpacked */
	LZMA_MEMORY = 128 << 20,
	NESTED_MAX = 64,            /* symbols looked back over for one that is around them */
};
#define NAMES_MAX UINT32_MAX

struct segment {
	uint64_t offset, vaddr, filesz;
	bool runs;
};

struct symbol {
	uint64_t start, end;        /* end: without a size its section's, or start: not known */
	uint32_t name;              /* offset in names */
	uint8_t bind;
	bool sized;
};

struct pev_symtab {
	struct segment *segments;
	size_t nr_segments;
	struct symbol *symbols;
	size_t nr, cap;
	char *names;
	size_t names_len, names_cap;
	bool settled;               /* sorted, one name for an address, ends known */
	bool symtab, minidebug, debug_info;
	unsigned char build_id[64];
	uint32_t build_id_len;
	char *debuglink;
	uint32_t debuglink_crc;
};

/* An ELF file that is being read. */
struct image {
	Elf *elf;
	size_t len;
	GElf_Ehdr header;
	size_t section_names;
	Elf_Scn *symtab, *dynsym, *minidebug, *plt_relocations, *plt, *plt_sec;
};

/* ---- sections ---- */

static int no_elf(struct pev_err *err, const char *why)
{
	return pev_fail(err, -ENOEXEC, "it is %s", why);
}

static void take_build_id(struct pev_symtab *table, Elf_Scn *section)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	if (!data || !data->d_buf)
		return;
	while (!table->build_id_len && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp((char *)data->d_buf + name, "GNU", 4) != 0 ||
		    note.n_descsz > sizeof(table->build_id))
			continue;
		memcpy(table->build_id, (char *)data->d_buf + desc, note.n_descsz);
		table->build_id_len = note.n_descsz;
	}
}

/* A file name, zeros to a multiple of four, the file's checksum in the ELF file's byte order. */
static void take_debuglink(struct pev_symtab *table, const struct image *image, Elf_Scn *section)
{
	Elf_Data *data = elf_rawdata(section, NULL);
	const bool big = image->header.e_ident[EI_DATA] == ELFDATA2MSB;
	const unsigned char *bytes = data ? data->d_buf : NULL;
	size_t len, at;

	if (!bytes || table->debuglink)
		return;
	len = strnlen((const char *)bytes, data->d_size);
	at = (len + 4) & ~(size_t)3;
	/* It is the name of a file, not a way out of where it is looked for. */
	if (len == 0 || at + 4 > data->d_size || memchr(bytes, '/', len))
		return;
	table->debuglink = malloc(len + 1);
	if (!table->debuglink)
		return;
	memcpy(table->debuglink, bytes, len + 1);
	table->debuglink_crc = 0;
	for (size_t i = 0; i < 4; i++)
		table->debuglink_crc = table->debuglink_crc << 8 | bytes[at + (big ? i : 3 - i)];
}

static void take_section(struct pev_symtab *table, struct image *image, Elf_Scn *section,
			 const GElf_Shdr *header, const char *name)
{
	if (header->sh_type == SHT_SYMTAB)
		image->symtab = section;
	else if (header->sh_type == SHT_DYNSYM)
		image->dynsym = section;
	else if (header->sh_type == SHT_NOTE)
		take_build_id(table, section);
	else if (strcmp(name, ".gnu_debugdata") == 0)
		image->minidebug = section;
	else if (strcmp(name, ".gnu_debuglink") == 0)
		take_debuglink(table, image, section);
	else if (strcmp(name, ".rela.plt") == 0 || strcmp(name, ".rel.plt") == 0)
		image->plt_relocations = section;
	else if (strcmp(name, ".plt") == 0)
		image->plt = section;
	else if (strcmp(name, ".plt.sec") == 0)
		image->plt_sec = section;
	else if (header->sh_type == SHT_PROGBITS && (strcmp(name, ".debug_info") == 0 ||
						     strcmp(name, ".zdebug_info") == 0))
		table->debug_info = true;
}

static void take_sections(struct pev_symtab *table, struct image *image)
{
	Elf_Scn *section = NULL;

	if (elf_getshdrstrndx(image->elf, &image->section_names) < 0)
		return;
	for (int n = 0; n < SECTIONS_MAX && (section = elf_nextscn(image->elf, section)); n++) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(image->elf, image->section_names, header.sh_name);
		take_section(table, image, section, &header, name ? name : "");
	}
}

static int open_image(struct image *image, const void *bytes, size_t len, struct pev_err *err)
{
	*image = (struct image){ .len = len };
	elf_version(EV_CURRENT);
	image->elf = elf_memory((char *)(uintptr_t)bytes, len);
	if (image->elf && elf_kind(image->elf) == ELF_K_ELF &&
	    gelf_getehdr(image->elf, &image->header))
		return 0;
	elf_end(image->elf);
	return no_elf(err, "no ELF file");
}

static int take_segments(struct pev_symtab *table, const struct image *image, struct pev_err *err)
{
	size_t nr;

	if (elf_getphdrnum(image->elf, &nr) < 0 || nr > SEGMENTS_MAX)
		return no_elf(err, "an ELF file whose program headers cannot be read");
	table->segments = calloc(nr + 1, sizeof(*table->segments));
	if (!table->segments)
		return pev_fail(err, -ENOMEM, "no memory for its segments");
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(image->elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		table->segments[table->nr_segments++] = (struct segment){
			phdr.p_offset, phdr.p_vaddr, phdr.p_filesz, phdr.p_flags & PF_X,
		};
	}
	return 0;
}

/* ---- symbols ---- */

static bool grow(void **list, size_t *cap, size_t need, size_t each)
{
	size_t more = *cap ? *cap : 256;
	void *grown;

	if (need <= *cap)
		return true;
	while (more < need)
		more *= 2;
	grown = realloc(*list, more * each);
	if (!grown)
		return false;
	*list = grown;
	*cap = more;
	return true;
}

static int add_symbol(struct pev_symtab *table, uint64_t start, uint64_t size, uint8_t bind,
		      const char *name, const char *suffix)
{
	size_t len = strlen(name), more = strlen(suffix);

	if (table->names_len + len + more + 1 > NAMES_MAX)
		return -ENOMEM;
	if (!grow((void **)&table->symbols, &table->cap, table->nr + 1, sizeof(*table->symbols)) ||
	    !grow((void **)&table->names, &table->names_cap, table->names_len + len + more + 1, 1))
		return -ENOMEM;
	table->symbols[table->nr++] = (struct symbol){
		.start = start,
		.end = size > UINT64_MAX - start ? UINT64_MAX : start + size,
		.name = (uint32_t)table->names_len,
		.bind = bind,
		.sized = size > 0,
	};
	memcpy(table->names + table->names_len, name, len);
	memcpy(table->names + table->names_len + len, suffix, more + 1);
	table->names_len += len + more + 1;
	table->settled = false;
	return 0;
}

/* elf_sym__filter(), elf_sym__is_label(); a number such as a version's is no place */
static bool is_shown(const GElf_Sym *sym, const char *name)
{
	const int type = GELF_ST_TYPE(sym->st_info), seen = GELF_ST_VISIBILITY(sym->st_other);

	if (!name || !*name || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT)
		return true;
	/* "$x" and "$d" say where code and data are, on Arm and RISC-V. */
	return type == STT_NOTYPE && seen != STV_HIDDEN && seen != STV_INTERNAL && name[0] != '$';
}

/* The end of the section that a symbol lies in, or its start where it lies in none. */
static uint64_t section_end(const struct image *image, const GElf_Sym *sym)
{
	Elf_Scn *section = elf_getscn(image->elf, sym->st_shndx);
	GElf_Shdr header;

	if (!section || !gelf_getshdr(section, &header) || sym->st_value < header.sh_addr ||
	    sym->st_value - header.sh_addr >= header.sh_size)
		return sym->st_value;
	return header.sh_addr + header.sh_size;
}

static int add_table(struct pev_symtab *table, const struct image *image, Elf_Scn *section)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t each = gelf_fsize(image->elf, ELF_T_SYM, 1, EV_CURRENT);
	GElf_Shdr header;

	if (!data || !data->d_buf || !each || !gelf_getshdr(section, &header))
		return 0;
	for (size_t i = 0; i < data->d_size / each && i < INT32_MAX; i++) {
		GElf_Sym sym;
		const char *name;
		uint64_t value;

		if (!gelf_getsym(data, (int)i, &sym))
			break;
		name = elf_strptr(image->elf, header.sh_link, sym.st_name);
		if (!is_shown(&sym, name))
			continue;
		value = sym.st_value;
		/* The lowest bit says that the function is in Thumb code. */
		if (image->header.e_machine == EM_ARM && GELF_ST_TYPE(sym.st_info) == STT_FUNC)
			value &= ~UINT64_C(1);
		if (add_symbol(table, value, sym.st_size, GELF_ST_BIND(sym.st_info), name, "") < 0)
			return -ENOMEM;
		if (sym.st_size == 0)
			table->symbols[table->nr - 1].end = section_end(image, &sym);
	}
	return 0;
}

/* ---- the procedure linkage table ---- */

/* A word that the dynamic linker fills in, and a stub jumps to what is in it. */
struct slot {
	uint64_t at;
	char *name;                 /* owned; NULL: it is not known */
};

/* How stubs lie: bytes before the first, and of each; and which relocations have one. */
struct plt {
	uint64_t head, each;
	uint32_t jump, indirect;
};

static bool plt_of(uint16_t machine, struct plt *plt)
{
	switch (machine) {
	case EM_X86_64:
		*plt = (struct plt){ 16, 16, R_X86_64_JUMP_SLOT, R_X86_64_IRELATIVE };
		return true;
	case EM_386:
		*plt = (struct plt){ 16, 16, R_386_JMP_SLOT, R_386_IRELATIVE };
		return true;
	case EM_AARCH64:
		*plt = (struct plt){ 32, 16, R_AARCH64_JUMP_SLOT, R_AARCH64_IRELATIVE };
		return true;
	default:
		return false;
	}
}

#define PLT_BEHIND 32 /* bytes that may follow the last stub, for what is local to threads */

/*
 * Where so many stubs begin; each is set. False where that is not known. With indirect branch
 * tracking they have a section of their own, without a head; a static program's have none either,
 * and on x86 are short; on arm64 they are longer where branches or addresses are guarded.
 */
static bool plt_start(const struct image *image, struct plt *plt, uint64_t nr, uint64_t *start)
{
	GElf_Shdr header;
	Elf_Scn *section = image->plt_sec ? image->plt_sec : image->plt;

	if (!section || !gelf_getshdr(section, &header))
		return false;
	if (header.sh_size == nr * 8)
		plt->each = 8;
	else if (header.sh_size == plt->head + nr * 24)
		plt->each = 24;
	if (image->plt_sec || header.sh_size == nr * plt->each)
		plt->head = 0;
	*start = header.sh_addr + plt->head;
	return header.sh_size - plt->head - nr * plt->each <= PLT_BEHIND;
}

/* Of a symbol of .dynsym; the caller's. NULL: it has none. */
static char *dynamic_name(const struct image *image, size_t at)
{
	Elf_Data *data = image->dynsym && at ? elf_getdata(image->dynsym, NULL) : NULL;
	const char *name;
	GElf_Shdr header;
	GElf_Sym sym;

	if (!data || at > INT32_MAX || !gelf_getsym(data, (int)at, &sym) ||
	    !gelf_getshdr(image->dynsym, &header))
		return NULL;
	name = elf_strptr(image->elf, header.sh_link, sym.st_name);
	return name && *name ? strdup(name) : NULL;
}

/*
 * Of a function that is chosen when the program starts, by the one that chooses; where that has
 * no name, the stub is called as objdump and gdb call it. The caller's; NULL: no memory.
 */
static char *chosen_name(struct pev_symtab *table, uint64_t chooser)
{
	uint64_t start;
	const char *name = pev_symtab_find(table, chooser, &start);
	char text[32];

	snprintf(text, sizeof(text), "*ABS*+0x%" PRIx64, chooser);
	return strdup(name && start == chooser ? name : text);
}

static bool take_slot(struct pev_symtab *table, const struct image *image, const struct plt *plt,
		      const GElf_Rela *rela, struct slot *slot)
{
	slot->at = rela->r_offset;
	if (GELF_R_TYPE(rela->r_info) == plt->jump)
		slot->name = dynamic_name(image, GELF_R_SYM(rela->r_info));
	else if (GELF_R_TYPE(rela->r_info) != plt->indirect)
		return false;
	else if (rela->r_addend) /* where relocations have no room for it, it is in the slot */
		slot->name = chosen_name(table, (uint64_t)rela->r_addend);
	return true;
}

static bool read_relocation(Elf_Data *list, bool with_addend, int i, GElf_Rela *rela)
{
	GElf_Rel rel;

	if (with_addend)
		return gelf_getrela(list, i, rela);
	if (!gelf_getrel(list, i, &rel))
		return false;
	*rela = (GElf_Rela){ rel.r_offset, rel.r_info, 0 };
	return true;
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/*
 * The slots in the order of their addresses, which is that of the stubs; that of the relocations
 * is not: linkers put those of functions that are chosen when the program starts last.
 */
static int read_slots(struct pev_symtab *table, const struct image *image, const struct plt *plt,
		      struct slot **slots, size_t *nr)
{
	Elf_Data *list = elf_getdata(image->plt_relocations, NULL);
	GElf_Shdr header;
	GElf_Rela rela;
	size_t all;

	if (!list || !gelf_getshdr(image->plt_relocations, &header) || !header.sh_entsize)
		return 0;
	all = list->d_size / header.sh_entsize;
	*slots = calloc(all + 1, sizeof(**slots));
	if (!*slots)
		return -ENOMEM;
	for (size_t i = 0; i < all && i < INT32_MAX; i++)
		if (read_relocation(list, header.sh_type == SHT_RELA, (int)i, &rela))
			*nr += take_slot(table, image, plt, &rela, &(*slots)[*nr]);
	qsort(*slots, *nr, sizeof(**slots), compare_slots);
	return 0;
}

static int add_plt(struct pev_symtab *table, const struct image *image)
{
	struct slot *slots = NULL;
	struct plt plt;
	uint64_t start;
	size_t nr = 0;
	int rc;

	if (!image->plt_relocations || !plt_of(image->header.e_machine, &plt))
		return 0;
	rc = read_slots(table, image, &plt, &slots, &nr);
	if (nr && plt_start(image, &plt, nr, &start))
		for (size_t i = 0; i < nr && rc == 0; i++)
			if (slots[i].name)
				rc = add_symbol(table, start + i * plt.each, plt.each, STB_GLOBAL,
						slots[i].name, "@plt");
	for (size_t i = 0; i < nr; i++)
		free(slots[i].name);
	free(slots);
	return rc;
}

/* ---- MiniDebugInfo ---- */

/* The whole of an xz stream: malloc'd, or NULL when it is none, or too large. */
static unsigned char *unpack(const unsigned char *in, size_t len, size_t *out_len)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	unsigned char *out = NULL, *more;
	size_t cap = 0;
	lzma_ret rc = lzma_stream_decoder(&stream, LZMA_MEMORY, 0);

	stream.next_in = in;
	stream.avail_in = len;
	while (rc == LZMA_OK && cap < MINIDEBUG_MAX) {
		size_t used = cap;

		cap = cap ? cap * 2 : 1 << 20;
		more = realloc(out, cap);
		if (!more)
			break;
		out = more;
		stream.next_out = out + used;
		stream.avail_out = cap - used;
		do {
			rc = lzma_code(&stream, LZMA_FINISH);
		} while (rc == LZMA_OK && stream.avail_out > 0);
	}
	*out_len = (size_t)stream.total_out;
	lzma_end(&stream);
	if (rc == LZMA_STREAM_END)
		return out;
	free(out);
	return NULL;
}

static int add_minidebug(struct pev_symtab *table, const struct image *outer)
{
	Elf_Data *data = outer->minidebug ? elf_rawdata(outer->minidebug, NULL) : NULL;
	unsigned char *bytes;
	struct image image;
	size_t len;
	int rc = 0;

	if (!data || !data->d_buf)
		return 0;
	bytes = unpack(data->d_buf, data->d_size, &len);
	if (!bytes || open_image(&image, bytes, len, NULL) < 0) {
		free(bytes);
		return 0;
	}
	for (Elf_Scn *section = NULL; (section = elf_nextscn(image.elf, section));) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			image.symtab = section;
	}
	if (image.symtab)
		rc = add_table(table, &image, image.symtab);
	table->minidebug = image.symtab != NULL;
	elf_end(image.elf);
	free(bytes);
	return rc;
}

/* ---- opening ---- */

static int take_symbols(struct pev_symtab *table, const struct image *image)
{
	int rc = 0;

	if (image->symtab)
		rc = add_table(table, image, image->symtab);
	else if (image->dynsym)
		rc = add_table(table, image, image->dynsym);
	if (rc == 0 && !image->symtab)
		rc = add_minidebug(table, image);
	if (rc == 0)
		rc = add_plt(table, image);
	table->symtab = table->symtab || image->symtab;
	return rc;
}

int pev_symtab_open(struct pev_symtab **out, const void *bytes, size_t len, struct pev_err *err)
{
	struct pev_symtab *table = calloc(1, sizeof(*table));
	struct image image;
	int rc;

	if (!table)
		return pev_fail(err, -ENOMEM, "no memory for its symbols");
	rc = open_image(&image, bytes, len, err);
	if (rc < 0)
		goto free_table;
	rc = take_segments(table, &image, err);
	if (rc < 0)
		goto close_image;
	take_sections(table, &image);
	rc = take_symbols(table, &image);
	if (rc < 0) {
		pev_fail(err, rc, "no memory for its symbols");
		goto close_image;
	}
	elf_end(image.elf);
	*out = table;
	return 0;
close_image:
	elf_end(image.elf);
free_table:
	pev_symtab_free(table);
	return rc;
}

void pev_symtab_free(struct pev_symtab *table)
{
	if (!table)
		return;
	free(table->segments);
	free(table->symbols);
	free(table->names);
	free(table->debuglink);
	free(table);
}

int pev_symtab_add(struct pev_symtab *table, const void *bytes, size_t len, struct pev_err *err)
{
	struct image image;
	int rc = open_image(&image, bytes, len, err);

	if (rc < 0)
		return rc;
	take_sections(table, &image);
	/* Its .dynsym and .plt have lost their contents; the file's own have not. */
	if (image.symtab)
		rc = add_table(table, &image, image.symtab);
	table->symtab = table->symtab || image.symtab;
	elf_end(image.elf);
	return rc < 0 ? pev_fail(err, rc, "no memory for its symbols") : 0;
}

void pev_symtab_facts(const struct pev_symtab *table, struct pev_symtab_facts *facts)
{
	*facts = (struct pev_symtab_facts){
		.build_id = table->build_id,
		.build_id_len = table->build_id_len,
		.debuglink = table->debuglink,
		.debuglink_crc = table->debuglink_crc,
		.symtab = table->symtab,
		.minidebug = table->minidebug,
		.debug_info = table->debug_info,
		.symbols = table->nr,
	};
}

/* ---- look-up ---- */

/* choose_best_symbol(): below 0 when a is the name to show. */
static int compare_names(const struct pev_symtab *table, const struct symbol *a,
			 const struct symbol *b)
{
	const char *x = table->names + a->name, *y = table->names + b->name;
	size_t x_len = strlen(x), y_len = strlen(y);

	if (a->sized != b->sized)
		return b->sized - a->sized;
	if ((a->bind == STB_WEAK) != (b->bind == STB_WEAK))
		return (a->bind == STB_WEAK) - (b->bind == STB_WEAK);
	if ((a->bind == STB_GLOBAL) != (b->bind == STB_GLOBAL))
		return (b->bind == STB_GLOBAL) - (a->bind == STB_GLOBAL);
	if (strspn(x, "_") != strspn(y, "_"))
		return strspn(x, "_") < strspn(y, "_") ? -1 : 1;
	if (x_len != y_len)
		return x_len > y_len ? -1 : 1;
	return strcmp(x, y);
}

static int compare(const void *a, const void *b, void *table)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return compare_names(table, x, y);
}

/* What is known of where one without a size ends. */
static uint64_t end_of(const struct symbol *symbol, const struct symbol *next)
{
	bool known = symbol->end > symbol->start;

	if (next && (!known || next->start < symbol->end))
		return next->start;
	return known ? symbol->end : symbol->start + 4096;
}

/* One name for an address; one without a size goes on to the next, in its own section. */
static void settle(struct pev_symtab *table)
{
	size_t nr = 0;

	if (table->nr)
		qsort_r(table->symbols, table->nr, sizeof(*table->symbols), compare, table);
	for (size_t i = 0; i < table->nr; i++)
		if (nr == 0 || table->symbols[nr - 1].start != table->symbols[i].start)
			table->symbols[nr++] = table->symbols[i];
	table->nr = nr;
	for (size_t i = 0; i < nr; i++) {
		struct symbol *symbol = &table->symbols[i];

		if (!symbol->sized)
			symbol->end = end_of(symbol, i + 1 < nr ? symbol + 1 : NULL);
	}
	table->settled = true;
}

const char *pev_symtab_find(struct pev_symtab *table, uint64_t address, uint64_t *start)
{
	size_t low = 0, high;

	if (!table->settled)
		settle(table);
	high = table->nr;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->symbols[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t back = 0; back < NESTED_MAX && back < low; back++) {
		const struct symbol *symbol = &table->symbols[low - 1 - back];

		if (address < symbol->end) {
			*start = symbol->start;
			return table->names + symbol->name;
		}
	}
	return NULL;
}

/* Maps begin and end at pages: what is around a segment's bytes is mapped with them. */
#define PAGE UINT64_C(65536)

uint64_t pev_symtab_address(const struct pev_symtab *table, uint64_t offset)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < table->nr_segments; i++) {
		const struct segment *segment = &table->segments[i];

		if (offset < segment->offset || offset - segment->offset >= segment->filesz)
			continue;
		if (!found || (segment->runs && !found->runs))
			found = segment;
	}
	for (size_t i = 0; !found && i < table->nr_segments; i++) {
		const struct segment *segment = &table->segments[i];

		if (segment->runs && offset + PAGE > segment->offset &&
		    offset < segment->offset + segment->filesz + PAGE)
			found = segment;
	}
	return found ? offset - found->offset + found->vaddr : PEV_SYMTAB_NONE;
}

uint32_t pev_symtab_crc(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint32_t table[256], crc = UINT32_MAX;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? UINT32_C(0xedb88320) : 0);
	}
	for (size_t i = 0; i < len; i++)
		crc = crc >> 8 ^ table[(crc ^ p[i]) & 0xff];
	return ~crc;
}
