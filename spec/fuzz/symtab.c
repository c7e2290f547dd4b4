/*
 * symtab.c - libFuzzer: hostile programs, debug files, kallsyms and perf maps.
 *
 * The same bytes are a program whose functions, lines and unwind rules are looked up, its debug
 * file, the text of /proc/kallsyms, /proc/PID/maps and perf-PID.map, and a mangled name.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/cfi.h"
#include "symbol/demangle.h"
#include "symbol/perf_map.h"
#include "task/maps.h"
#include "dwarf/source_line.h"
#include "symbol/kallsyms.h"
#include "symbol/symtab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Depends on every byte read, so that the compiler keeps the reads. */
static volatile size_t sink;

static void touch_string(const char *text)
{
	if (text)
		sink += strlen(text);
}

static void touch_facts(const struct pev_symtab *table)
{
	struct pev_symtab_facts facts;

	pev_symtab_facts(table, &facts);
	for (uint32_t i = 0; i < facts.build_id_len; i++)
		sink += facts.build_id[i];
	touch_string(facts.debuglink);
}

static void touch_symtab(const char *bytes, size_t size)
{
	struct pev_file_image image = pev_file_image_of(bytes, size);
	struct pev_symtab *table;
	uint64_t start;

	if (pev_symtab_open(&table, &image, NULL) < 0)
		return;
	touch_facts(table);
	pev_symtab_add(table, &image, NULL);
	touch_facts(table);
	for (uint64_t offset = 0; offset < 0x4000; offset += 0x10)
		touch_string(pev_symtab_find(table, pev_symtab_address(table, offset), &start));
	pev_symtab_free(table);
}

static void touch_source(const char *image, size_t size)
{
	struct pev_supplement supplement;
	struct pev_source_place places[8];
	struct pev_debug_info *source;

	if (pev_debug_info_open(&source, image, size, NULL) < 0)
		return;
	if (pev_debug_info_supplement(source, &supplement)) {
		touch_string(supplement.name);
		for (size_t i = 0; i < supplement.build_id_len; i++)
			sink += ((const unsigned char *)supplement.build_id)[i];
	}
	pev_debug_info_supply(source, image, size, NULL);
	for (uint64_t address = 0x1000; address < 0x1400; address += 0x20) {
		int nr = pev_source_places_at(source, address, places, 8);

		for (int i = 0; i < nr; i++) {
			touch_string(places[i].function);
			touch_string(places[i].file);
		}
	}
	pev_debug_info_close(source);
}

/* A compiled row has to lead to the same caller as the rules that it is compiled from. */
static void compare_steps(struct pev_cfi *cfi, uint64_t offset, const struct pev_memory *memory,
			  const struct pev_activation *act)
{
	struct pev_activation by_row = *act, by_rules = *act;
	struct pev_unwind_row row;
	int rc;

	cfi->compile(cfi, offset - act->returns, &row);
	if (row.kind != PEV_UNWIND_OFFSETS)
		return;
	rc = pev_unwind_apply(&row, cfi->machine == EM_X86_64 ? 7 : 31, memory, &by_row);
	if (rc != cfi->step(cfi, offset, memory, &by_rules))
		abort();
	if (rc < 0)
		return;
	if (by_row.pc != by_rules.pc || by_row.known != by_rules.known ||
	    by_row.returns != by_rules.returns)
		abort();
	for (int reg = 0; reg < PEV_UNWIND_REGS; reg++)
		if (by_row.known >> reg & 1 && by_row.regs[reg] != by_rules.regs[reg])
			abort();
}

/* Unwinds by the file's rules, with the file's bytes as the stack. */
static void touch_cfi(const char *bytes, size_t size)
{
	struct pev_memory memory = { (const unsigned char *)bytes, 0x7000, (uint32_t)size, false };
	struct pev_file_image image = pev_file_image_of(bytes, size);
	struct pev_cfi *cfi;

	if (pev_cfi_open(&cfi, &image, NULL) < 0)
		return;
	for (uint64_t offset = 0x1000; offset < 0x1400; offset += 0x20) {
		struct pev_activation act = { .known = (UINT64_C(1) << PEV_UNWIND_REGS) - 1,
					      .pc = offset };

		for (int reg = 0; reg < PEV_UNWIND_REGS; reg++)
			act.regs[reg] = 0x7000 + 8 * (uint64_t)reg;
		compare_steps(cfi, offset, &memory, &act);
		for (int n = 0; n < 4 && cfi->step(cfi, offset, &memory, &act) == 0; n++)
			sink += act.pc;
	}
	pev_cfi_close(cfi);
}

static void touch_perf_map(const char *text, size_t size)
{
	struct pev_perf_map_function function;
	struct pev_perf_map *map;

	if (pev_perf_map_parse(&map, text, size) < 0)
		return;
	for (uint64_t at = 0; at < 256; at++) {
		uint64_t addr = at < 128 ? at << 57 : at << 5;

		if (!pev_perf_map_find(map, addr, &function))
			continue;
		if (function.start > addr || function.len == 0)
			abort();
		for (size_t i = 0; i < function.len; i++)
			sink += (unsigned char)function.name[i];
	}
	pev_perf_map_free(map);
}

static void touch_texts(const char *text, size_t size)
{
	struct pev_space *space = NULL;
	struct pev_kallsyms *symbols;
	const char *module = NULL;
	struct pev_dsos dsos;
	uint64_t start, end = 0;
	char *name;

	if (pev_kallsyms_parse(&symbols, text, size, NULL) == 0) {
		for (uint64_t at = 0; at < 64; at++)
			touch_string(pev_kallsyms_function(symbols, at << 58, &start, &module));
		pev_kallsyms_free(symbols);
	}
	if (pev_dsos_init(&dsos) == 0) {
		pev_space_parse(&space, &dsos, 1, text);
		for (uint32_t n = 0; pev_space_at(space, n); n++) {
			const struct pev_map *map = pev_space_at(space, n);

			/* Sorted, without overlaps. */
			if (map->start >= map->end || (n && map->start < end))
				abort();
			end = map->end;
			touch_string(map->dso->path);
		}
		pev_space_put(space);
		pev_dsos_free(&dsos);
	}
	/* The demangler of libstdc++ may not end for names that no compiler writes. */
	name = text[0] == '_' && text[1] == 'R' ? pev_demangle(text) : NULL;
	touch_string(name);
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Copies of exact size, so that a sanitizer sees an access behind them. */
	char *image = malloc(size ? size : 1), *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	touch_texts(text, size);
	free(text);
	memcpy(image, data, size);
	touch_perf_map(image, size);
	touch_symtab(image, size);
	touch_source(image, size);
	touch_cfi(image, size);
	if (memcmp(image, data, size) != 0) /* the image is read-only */
		abort();
	free(image);
	return 0;
}
