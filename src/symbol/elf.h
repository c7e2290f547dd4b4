/*
 * elf.h - an ELF file's sections, segments, symbols and notes.
 *
 * This thin layer over libelf is the only reader of ELF files, except libdw in src/dwarf/.
 * It reads the file's bytes, which the caller keeps until pev_elf_close(), and does not write to
 * them; of an image it loads what it reads. The bytes may be hostile, or only the head of a file:
 * every name, offset and count is checked against their length. Pointers that it returns are
 * borrowed until pev_elf_close().
 */
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file_image.h"
#include "symbol/elf_note.h"

#define PEV_ELF_NONE UINT64_MAX /* no such address, or no such offset */

struct pev_elf {
	Elf *elf;
	struct pev_file_image *image;
	struct pev_file_image whole; /* of pev_elf_open() */
	GElf_Ehdr header;
	GElf_Phdr *segments;
	size_t nr_segments;
	size_t names;           /* index of the section of the sections' names, or 0 */
};

/* Returns -ENOEXEC when the bytes are not an ELF file, or -ENOMEM. */
int pev_elf_open(struct pev_elf **elf, const void *bytes, size_t len, struct pev_err *err);
int pev_elf_open_image(struct pev_elf **elf, struct pev_file_image *image, struct pev_err *err);
void pev_elf_close(struct pev_elf *elf);
bool pev_elf_is_big_endian(const struct pev_elf *elf);

/* ---- sections ---- */

/* To begin with the first section, zero it. */
struct pev_elf_section {
	const struct pev_elf *elf;
	Elf_Scn *handle;
	GElf_Shdr header;
	const char *name;       /* "" if it cannot be read */
	Elf_Data *data;         /* of a table of symbols or relocations; NULL: cannot be read */
	bool has_names;         /* the names of its symbols are loaded */
};

/* Steps to the next section. Returns false at the end. */
bool pev_elf_next_section(const struct pev_elf *elf, struct pev_elf_section *section);
/*
 * Finds the first section of that type (SHT_NULL: any) and name (NULL: any), and loads it if it
 * is a table of symbols or relocations.
 */
bool pev_elf_find_section(const struct pev_elf *elf, uint32_t type, const char *name,
			  struct pev_elf_section *section);
/* Returns the bytes of a section as they are in the file, or NULL for a section without bytes. */
const unsigned char *pev_elf_section_bytes(const struct pev_elf_section *section, size_t *len);
/* The same, decompressed. Returns NULL as well if that takes more than 64 MiB. */
const unsigned char *pev_elf_inflate_section(const struct pev_elf_section *section, size_t *len);

/*
 * Reads the n-th symbol. Returns false past the end. *name is "" if it cannot be read; if name is
 * NULL, the names are not loaded.
 */
bool pev_elf_symbol_at(struct pev_elf_section *section, int n, GElf_Sym *symbol,
		       const char **name);
/* Appends the names of a table's symbols, at their st_name, and a zero. False: no memory. */
bool pev_elf_append_names(const struct pev_elf_section *section, char **names, uint32_t *cap,
			  size_t *len);
/* Reads the n-th relocation; the addend is 0 in SHT_REL. Returns false past the end. */
bool pev_elf_relocation_at(const struct pev_elf_section *section, int n, GElf_Rela *relocation);

/* ---- addresses and offsets ---- */

/* Returns the address of a byte of the file that is mapped, in executable memory if possible. */
uint64_t pev_elf_find_address(const GElf_Phdr *segments, size_t nr, uint64_t offset);
/* Returns the offset in the file of an address. */
uint64_t pev_elf_find_offset(const struct pev_elf *elf, uint64_t address);
/*
 * Returns the linker's address of the page of code that a process has mapped from pgoff on, as
 * in /proc/PID/maps. The process's address less this is how far it has moved the whole file.
 */
uint64_t pev_elf_find_page(const struct pev_elf *elf, uint64_t pgoff, uint64_t page_size);
/* True if the byte at that offset is mapped executable. */
bool pev_elf_is_code(const struct pev_elf *elf, uint64_t offset);

/* ---- notes ---- */

/* Notes in the file's byte order, of a segment or section with that alignment. */
struct pev_notes pev_elf_notes(const struct pev_elf *elf, const unsigned char *bytes, size_t len,
			       uint64_t align);
/* Finds the build-id in the sections, and then in the segments. */
bool pev_elf_find_build_id(const struct pev_elf *elf, struct pev_note *note);
