/*
 * debug_info.c - the DWARF of a file; see debug_info.h.
 *
 * The compile unit of an address is found by the units' own ranges, because not every compiler
 * writes .debug_aranges. Contract: DWARF 5, section 7.5.1.
 */
#include "dwarf/debug_info.h"

#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

enum {
	UNITS_MAX = 1 << 20,
	RANGES_MAX = 1 << 22,
};

struct range {
	uint64_t start, end;
	Dwarf_Off unit;         /* of its DIE */
};

struct pev_debug_info {
	Elf *elf;
	Dwarf *dwarf;
	Elf *shared_elf;        /* the supplement; empty_file unless supplied is set */
	Dwarf *shared;
	bool supplied;
	struct range *ranges;   /* sorted by start */
	size_t nr;
	uint32_t cap;
};

/* ---- the supplement ---- */

/* An ELF file with one debug section of one byte, which is not valid DWARF. */
struct empty_file {
	Elf64_Ehdr header;
	Elf64_Shdr sections[3];
	char names[24];
};

static const struct empty_file empty = {
	.header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
			     __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? ELFDATA2MSB : ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_REL,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shoff = offsetof(struct empty_file, sections),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 1,
	},
	.sections[1] = { .sh_name = 1, .sh_type = SHT_STRTAB, .sh_addralign = 1,
			 .sh_offset = offsetof(struct empty_file, names), .sh_size = 24 },
	.sections[2] = { .sh_name = 11, .sh_type = SHT_PROGBITS, .sh_addralign = 1,
			 .sh_offset = offsetof(struct empty_file, names), .sh_size = 1 },
	.names = "\0.shstrtab\0.debug_line",
};

static int open_supplement(struct pev_debug_info *info, const void *image, size_t len)
{
	Elf *elf = elf_memory((char *)(uintptr_t)image, len);
	Dwarf *dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;

	if (!dwarf) {
		elf_end(elf);
		return -ENOEXEC;
	}
	dwarf_setalt(info->dwarf, dwarf);
	dwarf_end(info->shared);
	elf_end(info->shared_elf);
	info->shared_elf = elf;
	info->shared = dwarf;
	return 0;
}

/*
 * Without a supplement libdw opens the file that .gnu_debugaltlink names (dwarf_getalt.c,
 * find_debug_altlink()) without a check: a FIFO blocks it for ever. The caller decides which file
 * is read; until then the supplement is an empty file.
 */
static int forbid_opening(struct pev_debug_info *info)
{
	return open_supplement(info, &empty, sizeof(empty));
}

/* ---- units ---- */

static int add_range(struct pev_debug_info *info, uint64_t start, uint64_t end, Dwarf_Off unit)
{
	if (end <= start)
		return 0;
	if (!pev_list_reserve(&info->ranges, &info->cap, info->nr + 1,
			      sizeof(*info->ranges)))
		return -ENOMEM;
	info->ranges[info->nr++] = (struct range){ start, end, unit };
	return 0;
}

/* Many units can refer to one list of ranges: left counts the visited ones. */
static int add_unit_ranges(struct pev_debug_info *info, Dwarf_Die *unit, uint32_t *left)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	for (; *left > 0 && (at = dwarf_ranges(unit, at, &base, &start, &end)) > 0; --*left)
		if (add_range(info, start, end, dwarf_dieoffset(unit)) < 0)
			return -ENOMEM;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int add_units(struct pev_debug_info *info)
{
	uint32_t left = RANGES_MAX;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	for (int n = 0; n < UNITS_MAX && left > 0; n++) {
		if (dwarf_get_units(info->dwarf, cu, &cu, NULL, NULL, &unit, NULL) != 0)
			break;
		if (add_unit_ranges(info, &unit, &left) < 0)
			return -ENOMEM;
	}
	if (info->nr)
		qsort(info->ranges, info->nr, sizeof(*info->ranges), compare_ranges);
	return 0;
}

int pev_debug_info_open(struct pev_debug_info **out, const void *image, size_t len,
			  struct pev_err *err)
{
	struct pev_debug_info *info = calloc(1, sizeof(*info));
	int rc;

	if (!info)
		return pev_fail(err, -ENOMEM, "no memory for its DWARF");
	elf_version(EV_CURRENT);
	info->elf = elf_memory((char *)(uintptr_t)image, len);
	if (info->elf)
		info->dwarf = dwarf_begin_elf(info->elf, DWARF_C_READ, NULL);
	rc = info->dwarf ? forbid_opening(info) : -ENOEXEC;
	if (rc == 0)
		rc = add_units(info);
	if (rc < 0) {
		pev_debug_info_close(info);
		return pev_fail(err, rc, "it has no readable DWARF");
	}
	*out = info;
	return 0;
}

void pev_debug_info_close(struct pev_debug_info *info)
{
	if (!info)
		return;
	if (info->dwarf)
		dwarf_end(info->dwarf);
	if (info->shared)
		dwarf_end(info->shared);
	if (info->shared_elf)
		elf_end(info->shared_elf);
	if (info->elf)
		elf_end(info->elf);
	free(info->ranges);
	free(info);
}

bool pev_debug_info_supplement(const struct pev_debug_info *info,
				 struct pev_supplement *supplement)
{
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(info->dwarf, &supplement->name,
						   &supplement->build_id);

	supplement->build_id_len = len > 0 ? (size_t)len : 0;
	return len > 0 && !info->supplied;
}

int pev_debug_info_supply(struct pev_debug_info *info, const void *image, size_t len,
			    struct pev_err *err)
{
	if (info->supplied)
		return pev_fail(err, -EEXIST, "it already has its supplement");
	if (open_supplement(info, image, len) < 0)
		return pev_fail(err, -ENOEXEC, "it has no readable DWARF");
	info->supplied = true;
	return 0;
}

struct Dwarf *pev_debug_info_dwarf(const struct pev_debug_info *info)
{
	return info->dwarf;
}

bool pev_debug_info_find_unit(const struct pev_debug_info *info, uint64_t address, uint64_t *unit)
{
	size_t low = 0, high = info->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (info->ranges[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || address >= info->ranges[low - 1].end)
		return false;
	*unit = info->ranges[low - 1].unit;
	return true;
}
