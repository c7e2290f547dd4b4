/*
 * elf.c - an ELF file's sections, segments, symbols and notes; see elf.h.
 *
 * libelf reads all classes and byte orders. It gets the bytes and never a descriptor: opened to
 * read, it converts structures of another byte order in a copy. Contract: elf(5).
 */
#include "symbol/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	SECTIONS_MAX = 1 << 16,
	SEGMENTS_MAX = 1 << 12,
};

#define INFLATED_MAX (UINT64_C(64) << 20) /* bytes of a compressed section */

/* ---- opening ---- */

static int read_headers(struct pev_elf *elf, struct pev_err *err)
{
	size_t nr;

	if (!elf->elf || elf_kind(elf->elf) != ELF_K_ELF || !gelf_getehdr(elf->elf, &elf->header))
		return pev_fail(err, -ENOEXEC, "not an ELF file");
	if (elf_getshdrstrndx(elf->elf, &elf->names) < 0)
		elf->names = 0;
	if (elf_getphdrnum(elf->elf, &nr) < 0 || nr > SEGMENTS_MAX)
		return pev_fail(err, -ENOEXEC,
				"an ELF file, but its program headers cannot be read");
	elf->segments = calloc(nr + 1, sizeof(*elf->segments));
	if (!elf->segments)
		return pev_fail(err, -ENOMEM, "no memory for its segments");
	for (size_t i = 0; i < nr; i++)
		if (gelf_getphdr(elf->elf, (int)i, &elf->segments[elf->nr_segments]))
			elf->nr_segments++;
	return 0;
}

/* Reads a number of the ELF header. */
static uint64_t read_header_number(const struct pev_file_image *image, size_t at, size_t size)
{
	bool big = image->bytes[EI_DATA] == ELFDATA2MSB;
	uint64_t number = 0;

	for (size_t i = 0; i < size; i++)
		number = number << 8 | image->bytes[at + (big ? i : size - 1 - i)];
	return number;
}

/* Loads the tables of segments and sections: libelf reads them when it opens the file. */
static void load_headers(struct pev_file_image *image)
{
	bool wide;
	uint64_t nr;

	pev_file_image_load(image, 0, sizeof(Elf64_Ehdr));
	if (image->len < sizeof(Elf64_Ehdr))
		return;
	wide = image->bytes[EI_CLASS] == ELFCLASS64;
	nr = read_header_number(image, wide ? 56 : 44, 2);
	pev_file_image_load(image, read_header_number(image, wide ? 32 : 28, wide ? 8 : 4),
			    (nr ? nr : 1) * sizeof(Elf64_Phdr));
	/* 0: the first section has their number. */
	nr = read_header_number(image, wide ? 60 : 48, 2);
	pev_file_image_load(image, read_header_number(image, wide ? 40 : 32, wide ? 8 : 4),
			    (nr ? nr : SECTIONS_MAX) * sizeof(Elf64_Shdr));
}

static void load_section(const struct pev_elf *elf, Elf_Scn *handle)
{
	GElf_Shdr header;

	if (handle && gelf_getshdr(handle, &header) && header.sh_type != SHT_NOBITS)
		pev_file_image_load(elf->image, header.sh_offset, header.sh_size);
}

/* Opens an image, or NULL: whole, which is copied. */
static int open_elf(struct pev_elf **out, struct pev_file_image *image,
		    struct pev_file_image whole, struct pev_err *err)
{
	struct pev_elf *elf = calloc(1, sizeof(*elf));
	int rc;

	if (!elf)
		return pev_fail(err, -ENOMEM, "no memory for its symbols");
	elf->whole = whole;
	elf->image = image ? image : &elf->whole;
	elf_version(EV_CURRENT);
	load_headers(elf->image);
	elf->elf = elf_memory((char *)(uintptr_t)elf->image->bytes, elf->image->len);
	rc = read_headers(elf, err);
	if (rc < 0) {
		pev_elf_close(elf);
		return rc;
	}
	if (elf->names)
		load_section(elf, elf_getscn(elf->elf, elf->names));
	*out = elf;
	return 0;
}

int pev_elf_open(struct pev_elf **elf, const void *bytes, size_t len, struct pev_err *err)
{
	return open_elf(elf, NULL, pev_file_image_of(bytes, len), err);
}

int pev_elf_open_image(struct pev_elf **elf, struct pev_file_image *image, struct pev_err *err)
{
	return open_elf(elf, image, (struct pev_file_image){ 0 }, err);
}

void pev_elf_close(struct pev_elf *elf)
{
	if (!elf)
		return;
	elf_end(elf->elf);
	free(elf->segments);
	free(elf);
}

bool pev_elf_is_big_endian(const struct pev_elf *elf)
{
	return elf->header.e_ident[EI_DATA] == ELFDATA2MSB;
}

/* ---- sections ---- */

bool pev_elf_next_section(const struct pev_elf *elf, struct pev_elf_section *section)
{
	section->elf = elf;
	do {
		section->handle = elf_nextscn(elf->elf, section->handle);
		if (!section->handle || elf_ndxscn(section->handle) > SECTIONS_MAX)
			return false;
	} while (!gelf_getshdr(section->handle, &section->header));
	section->name = elf->names ? elf_strptr(elf->elf, elf->names, section->header.sh_name) : "";
	if (!section->name)
		section->name = "";
	return true;
}

static bool is_table(uint32_t type)
{
	return type == SHT_SYMTAB || type == SHT_DYNSYM || type == SHT_RELA || type == SHT_REL;
}

bool pev_elf_find_section(const struct pev_elf *elf, uint32_t type, const char *name,
			  struct pev_elf_section *section)
{
	*section = (struct pev_elf_section){ .handle = NULL };
	while (pev_elf_next_section(elf, section)) {
		if ((type != SHT_NULL && section->header.sh_type != type) ||
		    (name && strcmp(section->name, name) != 0))
			continue;
		if (is_table(section->header.sh_type)) {
			load_section(elf, section->handle);
			section->data = elf_getdata(section->handle, NULL);
		}
		return true;
	}
	return false;
}

const unsigned char *pev_elf_section_bytes(const struct pev_elf_section *section, size_t *len)
{
	Elf_Data *data;

	load_section(section->elf, section->handle);
	data = elf_rawdata(section->handle, NULL);
	*len = data && data->d_buf ? data->d_size : 0;
	return *len ? data->d_buf : NULL;
}

const unsigned char *pev_elf_inflate_section(const struct pev_elf_section *section, size_t *len)
{
	GElf_Chdr inflated;

	load_section(section->elf, section->handle);
	if (section->header.sh_flags & SHF_COMPRESSED &&
	    (!gelf_getchdr(section->handle, &inflated) || inflated.ch_size > INFLATED_MAX ||
	     elf_compress(section->handle, 0, 0) < 0))
		return NULL;
	return pev_elf_section_bytes(section, len);
}

bool pev_elf_symbol_at(struct pev_elf_section *section, int n, GElf_Sym *symbol, const char **name)
{
	const struct pev_elf *elf = section->elf;

	if (!gelf_getsym(section->data, n, symbol))
		return false;
	/* The lowest bit marks a function in Thumb code (ELF for the Arm architecture). */
	if (elf->header.e_machine == EM_ARM && GELF_ST_TYPE(symbol->st_info) == STT_FUNC)
		symbol->st_value &= ~UINT64_C(1);
	if (!name)
		return true;
	if (!section->has_names)
		load_section(elf, elf_getscn(elf->elf, section->header.sh_link));
	section->has_names = true;
	*name = elf_strptr(elf->elf, section->header.sh_link, symbol->st_name);
	if (!*name)
		*name = "";
	return true;
}

bool pev_elf_append_names(const struct pev_elf_section *section, char **names, uint32_t *cap,
			  size_t *len)
{
	const struct pev_file_image *image = section->elf->image;
	Elf_Scn *strings = elf_getscn(section->elf->elf, section->header.sh_link);
	GElf_Shdr header = { 0 };
	uint64_t size = 0;

	if (strings && gelf_getshdr(strings, &header) && header.sh_type == SHT_STRTAB &&
	    header.sh_offset < image->len)
		size = image->len - header.sh_offset;
	size = header.sh_size < size ? header.sh_size : size;
	if (!pev_list_reserve(names, cap, *len + size + 1, 1))
		return false;
	pev_file_image_copy(image, header.sh_offset, (size_t)size, *names + *len);
	*len += (size_t)size + 1;
	(*names)[*len - 1] = '\0';
	return true;
}

bool pev_elf_relocation_at(const struct pev_elf_section *section, int n, GElf_Rela *relocation)
{
	GElf_Rel rel;

	if (section->header.sh_type == SHT_RELA)
		return gelf_getrela(section->data, n, relocation);
	if (!gelf_getrel(section->data, n, &rel))
		return false;
	*relocation = (GElf_Rela){ rel.r_offset, rel.r_info, 0 };
	return true;
}

/* ---- addresses and offsets ---- */

static bool has_offset(const GElf_Phdr *segment, uint64_t offset)
{
	return segment->p_type == PT_LOAD && offset >= segment->p_offset &&
	       offset - segment->p_offset < segment->p_filesz;
}

/* A file is mapped in whole pages: the bytes around a segment are mapped with it. */
#define PAGE UINT64_C(65536)

static bool is_near(const GElf_Phdr *segment, uint64_t offset)
{
	return segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
	       offset + PAGE > segment->p_offset &&
	       offset < segment->p_offset + segment->p_filesz + PAGE;
}

uint64_t pev_elf_find_address(const GElf_Phdr *segments, size_t nr, uint64_t offset)
{
	const GElf_Phdr *found = NULL;

	for (size_t i = 0; i < nr && !(found && found->p_flags & PF_X); i++)
		if (has_offset(&segments[i], offset) && (!found || segments[i].p_flags & PF_X))
			found = &segments[i];
	for (size_t i = 0; i < nr && !found; i++)
		if (is_near(&segments[i], offset))
			found = &segments[i];
	return found ? offset - found->p_offset + found->p_vaddr : PEV_ELF_NONE;
}

static bool is_inside(const struct pev_elf *elf, const GElf_Phdr *segment)
{
	return segment->p_offset <= elf->image->len &&
	       segment->p_filesz <= elf->image->len - segment->p_offset;
}

/* The n-th segment if it is mapped and all of its bytes are in the file, or NULL. */
static const GElf_Phdr *loaded_segment(const struct pev_elf *elf, size_t n)
{
	const GElf_Phdr *segment = &elf->segments[n];

	return segment->p_type == PT_LOAD && is_inside(elf, segment) ? segment : NULL;
}

uint64_t pev_elf_find_offset(const struct pev_elf *elf, uint64_t address)
{
	for (size_t n = 0; n < elf->nr_segments; n++) {
		const GElf_Phdr *segment = loaded_segment(elf, n);

		if (segment && address >= segment->p_vaddr &&
		    address - segment->p_vaddr < segment->p_filesz)
			return segment->p_offset + (address - segment->p_vaddr);
	}
	return PEV_ELF_NONE;
}

uint64_t pev_elf_find_page(const struct pev_elf *elf, uint64_t pgoff, uint64_t page_size)
{
	for (size_t n = 0; n < elf->nr_segments; n++) {
		const GElf_Phdr *segment = loaded_segment(elf, n);

		if (segment && segment->p_flags & PF_X &&
		    (segment->p_offset & ~(page_size - 1)) == pgoff)
			return segment->p_vaddr & ~(page_size - 1);
	}
	return PEV_ELF_NONE;
}

bool pev_elf_is_code(const struct pev_elf *elf, uint64_t offset)
{
	for (size_t n = 0; n < elf->nr_segments; n++) {
		const GElf_Phdr *segment = loaded_segment(elf, n);

		if (segment && segment->p_flags & PF_X && has_offset(segment, offset))
			return true;
	}
	return false;
}

/* ---- notes ---- */

struct pev_notes pev_elf_notes(const struct pev_elf *elf, const unsigned char *bytes, size_t len,
			       uint64_t align)
{
	const bool swap = pev_elf_is_big_endian(elf) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);

	return (struct pev_notes){ bytes, len, 0, swap, align == 8 };
}

bool pev_elf_find_build_id(const struct pev_elf *elf, struct pev_note *note)
{
	struct pev_elf_section section = { .handle = NULL };
	struct pev_notes notes;
	size_t len;

	while (pev_elf_next_section(elf, &section)) {
		const unsigned char *bytes;

		if (section.header.sh_type != SHT_NOTE)
			continue;
		bytes = pev_elf_section_bytes(&section, &len);
		notes = pev_elf_notes(elf, bytes, len, section.header.sh_addralign);
		if (pev_notes_find_build_id(&notes, note))
			return true;
	}
	for (size_t i = 0; i < elf->nr_segments; i++) {
		const GElf_Phdr *segment = &elf->segments[i];

		if (segment->p_type != PT_NOTE || !is_inside(elf, segment))
			continue;
		pev_file_image_load(elf->image, segment->p_offset, segment->p_filesz);
		notes = pev_elf_notes(elf, elf->image->bytes + segment->p_offset,
				      segment->p_filesz, segment->p_align);
		if (pev_notes_find_build_id(&notes, note))
			return true;
	}
	return false;
}
