/*
 * elf.c - libFuzzer: a hostile ELF file; all results must lie inside it.
 *
 * Calls every function, with names from the file and one that is not in it. Reads each string to
 * its end, so that a sanitizer finds an unterminated one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/elf_program.h"
#include "symbol/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Depends on every byte read, so that the compiler keeps the reads. */
static volatile size_t sink;

static void touch_string(const char *text)
{
	sink += strlen(text);
}

static void touch_symbol(const struct pev_elf *elf, const char *name, size_t size)
{
	struct pev_elf_symbol symbol;

	if (pev_elf_find_symbol(elf, name, &symbol) < 0)
		return;
	touch_string(symbol.name);
	if (symbol.offset != PEV_ELF_NONE && symbol.offset >= size)
		abort();
}

static void touch_probes(const struct pev_elf *elf, size_t size)
{
	struct pev_elf_probes probes = pev_elf_open_probes(elf);
	struct pev_elf_probe probe;

	for (size_t n = 0; pev_elf_next_probe(&probes, &probe); n++) {
		touch_string(probe.provider);
		touch_string(probe.name);
		touch_string(probe.args);
		touch_symbol(elf, probe.name, size);
		if (n > size || (probe.offset != PEV_ELF_NONE && probe.offset >= size))
			abort();
	}
}

static void touch_functions(const struct pev_elf *elf, size_t size)
{
	struct pev_elf_functions functions = pev_elf_open_functions(elf);
	struct pev_elf_symbol function;

	for (size_t n = 0; pev_elf_next_function(&functions, &function); n++) {
		touch_string(function.name);
		if (n > size || (function.offset != PEV_ELF_NONE && function.offset >= size))
			abort();
	}
}

static void touch_bytes(const unsigned char *bytes, size_t len)
{
	for (size_t i = 0; bytes && i < len; i++)
		sink += bytes[i];
}

static void touch_sections(const struct pev_elf *elf)
{
	struct pev_elf_section section = { .handle = NULL };
	const unsigned char *bytes;
	GElf_Rela relocation;
	size_t len;

	while (pev_elf_next_section(elf, &section)) {
		touch_string(section.name);
		bytes = pev_elf_section_bytes(&section, &len);
		touch_bytes(bytes, len);
		for (int n = 0; pev_elf_relocation_at(&section, n, &relocation); n++)
			sink += relocation.r_offset;
	}
}

static void touch_notes(const unsigned char *bytes, size_t len, bool align8)
{
	struct pev_notes notes = { bytes, len, 0, align8, align8 };
	struct pev_note note;

	while (pev_notes_next(&notes, &note)) {
		touch_bytes((const unsigned char *)note.name, note.name_len);
		touch_bytes(note.content, note.len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_note note;
	struct pev_elf *elf;
	const char *near;
	/* A copy of exact size, so that a sanitizer sees an access behind it. */
	char *image = malloc(size ? size : 1);

	memcpy(image, data, size);
	touch_notes((unsigned char *)image, size, false);
	touch_notes((unsigned char *)image, size, true);
	if (pev_elf_open(&elf, image, size, NULL) == 0) {
		sink += (size_t)pev_elf_check_program(elf, NULL);
		touch_sections(elf);
		if (pev_elf_find_build_id(elf, &note))
			touch_bytes(note.content, note.len);
		near = pev_elf_nearest_symbol(elf, "worl");
		if (near)
			touch_symbol(elf, near, size);
		touch_symbol(elf, "work", size);
		touch_functions(elf, size);
		touch_probes(elf, size);
		sink += pev_elf_find_page(elf, 0x1000, 0x1000) + pev_elf_is_code(elf, 0x1000);
		pev_elf_close(elf);
	}
	if (memcmp(image, data, size) != 0) /* the image is read-only */
		abort();
	free(image);
	return 0;
}
