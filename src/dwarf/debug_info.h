/*
 * debug_info.h - the DWARF of a program or of its debug file, and its compile units.
 *
 * libdw reads it. It opens no file: the caller has the bytes, which may be hostile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_debug_info; /* opaque; borrows the file's bytes */

/*
 * Reads the units. The caller keeps the bytes until pev_debug_info_close(). Returns -ENOEXEC if
 * the file has no DWARF, or -ENOMEM.
 */
int pev_debug_info_open(struct pev_debug_info **info, const void *image, size_t len,
			struct pev_err *err);
void pev_debug_info_close(struct pev_debug_info *info);

/* A file to which dwz(1) moved the parts that debug files share (DWARF 5, section 7.3.6). */
struct pev_supplement {
	const char *name;     /* a path; a relative one starts at the file's own directory */
	const void *build_id;
	size_t build_id_len;
};

/* True if the file needs a supplement that was not supplied. Borrowed until close. */
bool pev_debug_info_supplement(const struct pev_debug_info *info,
			       struct pev_supplement *supplement);
/*
 * Supplies its bytes, once; the caller keeps them until pev_debug_info_close(). Returns -ENOEXEC,
 * -EEXIST or -ENOMEM.
 */
int pev_debug_info_supply(struct pev_debug_info *info, const void *image, size_t len,
			  struct pev_err *err);

/* ---- for the files of this folder ---- */

/* libdw's handle; borrowed until close. */
struct Dwarf *pev_debug_info_dwarf(const struct pev_debug_info *info);
/* Finds the unit with code at a linker's address: the offset of its DIE. */
bool pev_debug_info_find_unit(const struct pev_debug_info *info, uint64_t address,
			      uint64_t *unit);
