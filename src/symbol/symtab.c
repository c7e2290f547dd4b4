/*
 * symtab.c - finds the function at an address of a file; see symtab.h.
 *
 * Which symbols are functions, and which of several names at one address is shown, is decided as
 * perf does (tools/perf/util/symbol-elf.c, dso__load_sym_internal(); symbol.c,
 * choose_best_symbol() and symbols__fixup_end()), so that both print the same.
 * liblzma decompresses MiniDebugInfo. Contract: elf(5).
 */
#include "symbol/symtab.h"

#include <errno.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "symbol/elf.h"

enum {
	MINIDEBUG_MAX = 256 << 20,  /* bytes decompressed */
	LZMA_MEMORY = 128 << 20,
	NESTED_MAX = 64,            /* how far back a symbol that contains an address is searched */
};
#define LEN_MAX ((1u << 29) - 1)
#define SORT_BITS 11 /* of addresses, at once */
#define SORT_MASK ((1u << SORT_BITS) - 1)

/* Of two symbols at one address, the one with the higher rank is shown. */
enum { RANK_GLOBAL = 1, RANK_STRONG = 2, RANK_SIZED = 4, RANK_ALL = 7 };

struct symbol {
	uint64_t start;
	uint32_t name;              /* offset in names */
	uint32_t len : 29;          /* bytes; LEN_MAX: up to the next symbol, at least */
	uint32_t rank : 3;          /* bits of RANK_ */
};

struct pev_symtab {
	GElf_Phdr *segments;
	size_t nr_segments;
	struct symbol *symbols;
	size_t nr;
	uint32_t cap, names_cap;
	char *names;                /* whole string tables of files, and the names of stubs */
	size_t names_len;
	bool sorted;                /* one name for an address, all lengths are known */
	bool symtab, minidebug, debug_info;
	unsigned char build_id[64];
	uint32_t build_id_len;
	char *debuglink;
	uint32_t debuglink_crc;
	uint32_t machine;
};

/* ---- facts ---- */

static void read_build_id(struct pev_symtab *table, const struct pev_elf *elf)
{
	struct pev_note note;

	if (table->build_id_len || !pev_elf_find_build_id(elf, &note) ||
	    note.len > sizeof(table->build_id))
		return;
	memcpy(table->build_id, note.content, note.len);
	table->build_id_len = (uint32_t)note.len;
}

/* A file name, zeros to a multiple of four, the file's checksum in the ELF file's byte order. */
static void read_debuglink(struct pev_symtab *table, const struct pev_elf *elf)
{
	const bool big = pev_elf_is_big_endian(elf);
	struct pev_elf_section section;
	const unsigned char *bytes = NULL;
	size_t len, name_len, at;

	if (!table->debuglink && pev_elf_find_section(elf, SHT_NULL, ".gnu_debuglink", &section))
		bytes = pev_elf_section_bytes(&section, &len);
	if (!bytes)
		return;
	name_len = strnlen((const char *)bytes, len);
	at = (name_len + 4) & ~(size_t)3;
	/* A name with '/' would lead out of the directories that are searched. */
	if (name_len == 0 || at + 4 > len || memchr(bytes, '/', name_len))
		return;
	table->debuglink = strndup((const char *)bytes, name_len);
	for (size_t i = 0; i < 4; i++)
		table->debuglink_crc = table->debuglink_crc << 8 | bytes[at + (big ? i : 3 - i)];
}

static void read_facts(struct pev_symtab *table, const struct pev_elf *elf)
{
	struct pev_elf_section section;

	read_build_id(table, elf);
	read_debuglink(table, elf);
	table->machine = elf->header.e_machine;
	if (pev_elf_find_section(elf, SHT_PROGBITS, ".debug_info", &section) ||
	    pev_elf_find_section(elf, SHT_PROGBITS, ".zdebug_info", &section))
		table->debug_info = true;
}

/* ---- symbols ---- */

static uint32_t clip_len(uint64_t len)
{
	return len < LEN_MAX ? (uint32_t)len : LEN_MAX;
}

static int add_symbol(struct pev_symtab *table, uint64_t start, uint64_t len, uint32_t rank,
		      size_t name)
{
	if (!pev_list_reserve(&table->symbols, &table->cap, table->nr + 1,
			      sizeof(*table->symbols)))
		return -ENOMEM;
	table->symbols[table->nr++] = (struct symbol){
		.start = start,
		.name = (uint32_t)name,
		.len = clip_len(len) & LEN_MAX,
		.rank = rank & RANK_ALL,
	};
	table->sorted = false;
	return 0;
}

static uint32_t rank_symbol(const GElf_Sym *symbol)
{
	const int bind = GELF_ST_BIND(symbol->st_info);

	return (symbol->st_size ? RANK_SIZED : 0) | (bind != STB_WEAK ? RANK_STRONG : 0) |
	       (bind == STB_GLOBAL ? RANK_GLOBAL : 0);
}

/* elf_sym__filter(), elf_sym__is_label(); SHN_ABS: a number, such as a version's */
static bool is_shown(const GElf_Sym *symbol, const char *name)
{
	const int type = GELF_ST_TYPE(symbol->st_info);
	const int visibility = GELF_ST_VISIBILITY(symbol->st_other);

	if (!*name || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT)
		return true;
	/* "$x" and "$d" mark code and data, on Arm and RISC-V. */
	return type == STT_NOTYPE && visibility != STV_HIDDEN && visibility != STV_INTERNAL &&
	       name[0] != '$';
}

/* Returns the bytes of a symbol: without a size, up to the end of its section; 0: unknown. */
static uint64_t find_len(const struct pev_elf *elf, const GElf_Sym *symbol)
{
	Elf_Scn *section;
	GElf_Shdr header;

	if (symbol->st_size)
		return symbol->st_size;
	section = elf_getscn(elf->elf, symbol->st_shndx);
	if (!section || !gelf_getshdr(section, &header) || symbol->st_value < header.sh_addr ||
	    symbol->st_value - header.sh_addr >= header.sh_size)
		return 0;
	return header.sh_size - (symbol->st_value - header.sh_addr);
}

/* The string table of the file becomes part of the names: no name is copied by itself. */
static int add_table(struct pev_symtab *table, struct pev_elf_section *section)
{
	const size_t base = table->names_len;
	int rc = 0;
	GElf_Sym symbol;

	if (!pev_elf_append_names(section, &table->names, &table->names_cap, &table->names_len))
		return -ENOMEM;
	for (int n = 0; rc == 0 && pev_elf_symbol_at(section, n, &symbol, NULL); n++) {
		if (symbol.st_name < table->names_len - base &&
		    is_shown(&symbol, table->names + base + symbol.st_name))
			rc = add_symbol(table, symbol.st_value,
					find_len(section->elf, &symbol),
					rank_symbol(&symbol), base + symbol.st_name);
	}
	return rc;
}

/* Adds .symtab and sets is_there, if the file has it. */
static int add_symtab(struct pev_symtab *table, const struct pev_elf *elf, bool *is_there)
{
	struct pev_elf_section section;

	if (!pev_elf_find_section(elf, SHT_SYMTAB, NULL, &section))
		return 0;
	*is_there = true;
	return add_table(table, &section);
}

/* ---- order ---- */

/* choose_best_symbol(): returns a negative number when a is the name to show. */
static int compare_names(const struct pev_symtab *table, const struct symbol *a,
			 const struct symbol *b)
{
	const char *x = table->names + a->name, *y = table->names + b->name;
	size_t x_len = strlen(x), y_len = strlen(y);

	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (strspn(x, "_") != strspn(y, "_"))
		return strspn(x, "_") < strspn(y, "_") ? -1 : 1;
	if (x_len != y_len)
		return x_len > y_len ? -1 : 1;
	return strcmp(x, y);
}

/* Sorts into another list by some bits of the addresses, less the lowest one, from bit shift on. */
static void sort_by_bits(const struct symbol *from, struct symbol *to, size_t nr, uint64_t base,
			 uint32_t shift)
{
	size_t at[1 << SORT_BITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < nr; i++)
		at[(from[i].start - base) >> shift & SORT_MASK]++;
	for (size_t digit = 0; digit <= SORT_MASK; digit++) {
		const size_t count = at[digit];

		at[digit] = sum;
		sum += count;
	}
	for (size_t i = 0; i < nr; i++)
		to[at[(from[i].start - base) >> shift & SORT_MASK]++] = from[i];
}

/* False: no memory. */
static bool sort_by_start(struct pev_symtab *table)
{
	struct symbol *from = table->symbols, *to;
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < table->nr; i++) {
		low = from[i].start < low ? from[i].start : low;
		high = from[i].start > high ? from[i].start : high;
	}
	if (table->nr < 2 || low == high)
		return true;
	to = malloc(sizeof(*to) * table->nr);
	if (!to)
		return false;
	for (uint32_t shift = 0; shift < 64 && (high - low) >> shift; shift += SORT_BITS) {
		struct symbol *sorted = to;

		sort_by_bits(from, to, table->nr, low, shift);
		to = from;
		from = sorted;
	}
	table->symbols = from;
	table->cap = (uint32_t)table->nr; /* at least */
	free(to);
	return true;
}

/* Returns the length of a symbol without a size, or without a known section (0). */
static uint32_t guess_len(const struct symbol *symbol, const struct symbol *next)
{
	const uint32_t most = next ? clip_len(next->start - symbol->start) : LEN_MAX;

	if (symbol->len)
		return symbol->len < most ? symbol->len : most;
	return next ? most : 4096;
}

/* Sorts by address, keeps one name for each, and ends those that have no size. False: no memory. */
static bool sort_symbols(struct pev_symtab *table)
{
	struct symbol *symbols;
	size_t nr = 0;

	if (table->sorted)
		return true;
	if (!sort_by_start(table))
		return false;
	symbols = table->symbols;
	for (size_t i = 0; i < table->nr; i++) {
		if (nr == 0 || symbols[nr - 1].start != symbols[i].start)
			symbols[nr++] = symbols[i];
		else if (compare_names(table, &symbols[i], &symbols[nr - 1]) < 0)
			symbols[nr - 1] = symbols[i];
	}
	table->nr = nr;
	for (size_t i = 0; i < nr; i++)
		if (!(symbols[i].rank & RANK_SIZED))
			symbols[i].len =
				guess_len(&symbols[i], i + 1 < nr ? &symbols[i + 1] : NULL) &
				LEN_MAX;
	table->sorted = true;
	return true;
}

/* ---- the procedure linkage table ---- */

/* A word that the dynamic linker fills in with an address; its stub jumps there. */
struct slot {
	uint64_t address;
	char *name;                 /* owned; NULL: unknown */
};

/* The layout of stubs: bytes before the first, bytes of each, relocation types that have one. */
struct plt {
	uint64_t head, each;
	uint32_t jump, indirect;
};

static bool find_layout(uint16_t machine, struct plt *plt)
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

#define PLT_BEHIND 32 /* bytes that may follow the last stub, for thread-local storage */

/*
 * Sets where nr stubs start, and the size of each. Returns false if that is unknown. With
 * indirect branch tracking the stubs have a section of their own, without a head. Those of a
 * static program have no head either, and are short on x86. On arm64 stubs are longer when
 * branches or addresses are guarded.
 */
static bool find_stubs(const struct pev_elf *elf, struct plt *plt, uint64_t nr, uint64_t *start)
{
	struct pev_elf_section section;
	const bool headless = pev_elf_find_section(elf, SHT_NULL, ".plt.sec", &section);
	uint64_t size;

	if (!headless && !pev_elf_find_section(elf, SHT_NULL, ".plt", &section))
		return false;
	size = section.header.sh_size;
	if (size == nr * 8)
		plt->each = 8;
	else if (size == plt->head + nr * 24)
		plt->each = 24;
	if (headless || size == nr * plt->each)
		plt->head = 0;
	*start = section.header.sh_addr + plt->head;
	return size - plt->head - nr * plt->each <= PLT_BEHIND;
}

/*
 * Names a function that is chosen when the program starts after the function that chooses; if
 * that has no name, as objdump and gdb do. Returns a string that the caller frees, or NULL.
 */
static char *name_chooser(struct pev_symtab *table, uint64_t chooser)
{
	uint64_t start;
	const char *name =
		sort_symbols(table) ? pev_symtab_find(table, chooser, &start) : NULL;
	char text[32];

	snprintf(text, sizeof(text), "*ABS*+0x%" PRIx64, chooser);
	return strdup(name && start == chooser ? name : text);
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Returns the name of a symbol of .dynsym as a string that the caller frees, or NULL. */
static char *name_symbol(const struct pev_elf *elf, size_t n)
{
	struct pev_elf_section dynsym;
	const char *name;
	GElf_Sym symbol;

	if (!n || n > INT32_MAX || !pev_elf_find_section(elf, SHT_DYNSYM, NULL, &dynsym) ||
	    !pev_elf_symbol_at(&dynsym, (int)n, &symbol, &name) || !*name)
		return NULL;
	return strdup(name);
}

/* Returns false for a relocation without a stub. */
static bool read_slot(struct pev_symtab *table, const struct pev_elf *elf, const struct plt *plt,
		      const GElf_Rela *relocation, struct slot *slot)
{
	const uint32_t type = (uint32_t)GELF_R_TYPE(relocation->r_info);

	slot->address = relocation->r_offset;
	if (type == plt->jump)
		slot->name = name_symbol(elf, GELF_R_SYM(relocation->r_info));
	else if (type == plt->indirect && relocation->r_addend)
		slot->name = name_chooser(table, (uint64_t)relocation->r_addend);
	return type == plt->jump || type == plt->indirect;
}

/*
 * Reads the slots, and sorts them by address, which is the order of the stubs. The relocations
 * have another order: linkers put those of functions that are chosen at the start last.
 */
static int read_slots(struct pev_symtab *table, const struct pev_elf *elf, const struct plt *plt,
		      struct slot **slots, size_t *nr)
{
	struct pev_elf_section section;
	GElf_Rela relocation;
	int all = 0;

	if (!pev_elf_find_section(elf, SHT_RELA, ".rela.plt", &section) &&
	    !pev_elf_find_section(elf, SHT_REL, ".rel.plt", &section))
		return 0;
	while (pev_elf_relocation_at(&section, all, &relocation))
		all++;
	*slots = calloc((size_t)all + 1, sizeof(**slots));
	if (!*slots)
		return -ENOMEM;
	for (int n = 0; pev_elf_relocation_at(&section, n, &relocation); n++)
		*nr += read_slot(table, elf, plt, &relocation, &(*slots)[*nr]);
	qsort(*slots, *nr, sizeof(**slots), compare_slots);
	return 0;
}

static int add_stub(struct pev_symtab *table, uint64_t start, uint64_t len, const char *name)
{
	const size_t size = strlen(name) + sizeof("@plt");
	const size_t at = table->names_len;

	if (!pev_list_reserve(&table->names, &table->names_cap, at + size, 1))
		return -ENOMEM;
	snprintf(table->names + at, size, "%s@plt", name);
	table->names_len += size;
	return add_symbol(table, start, len, RANK_ALL, at);
}

static int add_plt(struct pev_symtab *table, const struct pev_elf *elf)
{
	struct slot *slots = NULL;
	struct plt plt;
	uint64_t start;
	size_t nr = 0;
	int rc;

	if (!find_layout(elf->header.e_machine, &plt))
		return 0;
	rc = read_slots(table, elf, &plt, &slots, &nr);
	if (nr && find_stubs(elf, &plt, nr, &start))
		for (size_t i = 0; i < nr && rc == 0; i++)
			if (slots[i].name)
				rc = add_stub(table, start + i * plt.each, plt.each,
					      slots[i].name);
	for (size_t i = 0; i < nr; i++)
		free(slots[i].name);
	free(slots);
	return rc;
}

/* ---- MiniDebugInfo ---- */

/* Decompresses an xz stream. The caller frees it; NULL: not an xz stream, or too large. */
static unsigned char *decompress_xz(const unsigned char *in, size_t len, size_t *out_len)
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

static int add_minidebug(struct pev_symtab *table, const struct pev_elf *outer)
{
	struct pev_elf_section section;
	const unsigned char *packed = NULL;
	unsigned char *bytes;
	struct pev_elf *elf;
	size_t len = 0;
	int rc = 0;

	if (pev_elf_find_section(outer, SHT_NULL, ".gnu_debugdata", &section))
		packed = pev_elf_section_bytes(&section, &len);
	bytes = packed ? decompress_xz(packed, len, &len) : NULL;
	if (bytes && pev_elf_open(&elf, bytes, len, NULL) == 0) {
		rc = add_symtab(table, elf, &table->minidebug);
		pev_elf_close(elf);
	}
	free(bytes);
	return rc;
}

/* ---- opening ---- */

static int add_symbols(struct pev_symtab *table, const struct pev_elf *elf)
{
	struct pev_elf_section section;
	int rc = add_symtab(table, elf, &table->symtab);

	if (rc == 0 && !table->symtab && pev_elf_find_section(elf, SHT_DYNSYM, NULL, &section))
		rc = add_table(table, &section);
	if (rc == 0 && !table->symtab)
		rc = add_minidebug(table, elf);
	if (rc == 0)
		rc = add_plt(table, elf);
	return rc == 0 && !sort_symbols(table) ? -ENOMEM : rc;
}

int pev_symtab_open(struct pev_symtab **out, struct pev_file_image *image, struct pev_err *err)
{
	struct pev_symtab *table = calloc(1, sizeof(*table));
	struct pev_elf *elf = NULL;
	int rc;

	if (!table)
		return pev_fail(err, -ENOMEM, "no memory for its symbols");
	rc = pev_elf_open_image(&elf, image, err);
	if (rc < 0)
		goto free_table;
	read_facts(table, elf);
	rc = add_symbols(table, elf);
	table->segments = elf->segments;
	table->nr_segments = elf->nr_segments;
	elf->segments = NULL;
	pev_elf_close(elf);
	if (rc < 0) {
		pev_fail(err, rc, "no memory for its symbols");
		goto free_table;
	}
	*out = table;
	return 0;
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

int pev_symtab_add(struct pev_symtab *table, struct pev_file_image *image, struct pev_err *err)
{
	struct pev_elf *elf;
	int rc = pev_elf_open_image(&elf, image, err);

	if (rc < 0)
		return rc;
	read_facts(table, elf);
	/* The .dynsym and .plt of a debug file have no contents; those of the program are read. */
	rc = add_symtab(table, elf, &table->symtab);
	if (rc == 0 && !sort_symbols(table))
		rc = -ENOMEM;
	pev_elf_close(elf);
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
		.machine = table->machine,
		.symbols = table->nr,
		.bytes = table->nr * sizeof(*table->symbols) + table->names_len,
	};
}

/* ---- look-up ---- */

static const struct symbol *find_symbol(const struct pev_symtab *table, uint64_t address)
{
	size_t low = 0, high = table->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->symbols[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t back = 0; back < NESTED_MAX && back < low; back++) {
		const struct symbol *symbol = &table->symbols[low - 1 - back];

		if (address - symbol->start < symbol->len ||
		    (back == 0 && symbol->len == LEN_MAX))
			return symbol;
	}
	return NULL;
}

const char *pev_symtab_find(const struct pev_symtab *table, uint64_t address, uint64_t *start)
{
	const struct symbol *symbol = find_symbol(table, address);

	if (!symbol)
		return NULL;
	*start = symbol->start;
	return table->names + symbol->name;
}

uint64_t pev_symtab_len(const struct pev_symtab *table, uint64_t address)
{
	const struct symbol *symbol = find_symbol(table, address);

	return symbol ? symbol->len : 0;
}

uint64_t pev_symtab_address(const struct pev_symtab *table, uint64_t offset)
{
	return pev_elf_find_address(table->segments, table->nr_segments, offset);
}

bool pev_symtab_find_frame(const struct pev_symtab *table, uint64_t offset, bool returns,
			   bool unwound, struct pev_symtab_place *place)
{
	const uint64_t address = pev_symtab_address(table, offset);

	*place = (struct pev_symtab_place){ .address = address, .call = address };
	if (address == PEV_SYMTAB_NONE)
		return false;
	place->name = pev_symtab_find(table, address, &place->start);
	if (returns && (unwound || !place->name || place->start != address)) {
		place->call = address - 1;
		place->name = pev_symtab_find(table, place->call, &place->start);
	}
	return true;
}
