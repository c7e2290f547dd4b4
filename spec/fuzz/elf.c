/*
 * elf.c - hostile programs: whatever a file says, what we tell of it lies inside it.
 *
 * Every question is asked, with names that the file has and one that it has not.
 * Each string is read to its end, so that a sanitizer sees one that has none.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elffile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Something that depends on every byte of it. */
static volatile size_t sink;

static void touch_string(const char *text)
{
	sink += strlen(text);
}

static void touch_symbol(const struct pev_elf *elf, const char *name, size_t size)
{
	struct pev_elf_symbol symbol;

	if (pev_elf_find(elf, name, &symbol) < 0)
		return;
	touch_string(symbol.name);
	/* What is in the file lies in it. */
	if (symbol.offset != PEV_ELF_NONE && symbol.offset >= size)
		abort();
}

static void touch_probes(const struct pev_elf *elf, size_t size)
{
	struct pev_elf_probe probe;
	size_t at = 0;

	for (size_t n = 0; pev_elf_probe(elf, &at, &probe); n++) {
		touch_string(probe.provider);
		touch_string(probe.name);
		touch_string(probe.args);
		touch_symbol(elf, probe.name, size);
		if (n > size || (probe.offset != PEV_ELF_NONE && probe.offset >= size))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_elf_facts facts;
	struct pev_elf *elf;
	const char *near;
	/* A block of its own: one byte beyond is seen. */
	char *image = malloc(size ? size : 1);

	memcpy(image, data, size);
	if (pev_elf_open(&elf, image, size, NULL) == 0) {
		pev_elf_facts(elf, &facts);
		for (uint32_t i = 0; i < facts.build_id_len; i++)
			sink += facts.build_id[i];
		near = pev_elf_nearest(elf, "worl");
		if (near)
			touch_symbol(elf, near, size);
		touch_symbol(elf, "work", size);
		touch_probes(elf, size);
		sink += pev_elf_mapped(elf, 0x1000, 0x1000) + pev_elf_runs(elf, 0x1000);
		pev_elf_close(elf);
	}
	if (memcmp(image, data, size) != 0) /* it was not ours to write */
		abort();
	free(image);
	return 0;
}
