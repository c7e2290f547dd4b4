/*
 * elf_note.h - ELF notes: of a section, of a segment, or of /sys/kernel/notes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that hold notes; borrowed, may be hostile. */
struct pev_notes {
	const unsigned char *bytes;
	size_t len;
	size_t at;        /* offset of the next note */
	bool swap;        /* numbers are in the other byte order */
	bool align8;      /* names and contents are padded to 8 bytes, not 4 */
};

struct pev_note {
	uint32_t type;
	const char *name; /* borrowed; name_len bytes, which include the final NUL */
	size_t name_len;
	const unsigned char *content; /* borrowed */
	size_t len;
};

/* Reads the next note. Returns false at the end, and at a note that reaches beyond the bytes. */
bool pev_notes_next(struct pev_notes *notes, struct pev_note *note);

/* Finds the next build-id: the hash that the linker writes. */
bool pev_notes_find_build_id(struct pev_notes *notes, struct pev_note *note);
