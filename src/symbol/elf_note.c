/*
 * elf_note.c - ELF notes; see elf_note.h. Contract: elf(5), "Notes (Nhdr)".
 */
#include "symbol/elf_note.h"

#include <elf.h>
#include <string.h>

/* Returns offset rounded up, or len when that is beyond the bytes. */
static size_t pad_offset(const struct pev_notes *notes, size_t offset)
{
	const size_t mask = notes->align8 ? 7 : 3;
	const size_t padded = (offset + mask) & ~mask;

	return padded < notes->len ? padded : notes->len;
}

static uint32_t read_word(const struct pev_notes *notes, size_t n)
{
	uint32_t word;

	memcpy(&word, notes->bytes + notes->at + n * sizeof(word), sizeof(word));
	return notes->swap ? __builtin_bswap32(word) : word;
}

bool pev_notes_next(struct pev_notes *notes, struct pev_note *note)
{
	size_t name = notes->at + sizeof(Elf32_Nhdr), content;

	/* Elf64_Nhdr has the same members as Elf32_Nhdr. */
	if (notes->len < sizeof(Elf32_Nhdr) || notes->at > notes->len - sizeof(Elf32_Nhdr))
		return false;
	*note = (struct pev_note){ .name = (const char *)notes->bytes + name,
				   .name_len = read_word(notes, 0),
				   .len = read_word(notes, 1),
				   .type = read_word(notes, 2) };
	if (note->name_len > notes->len - name)
		return false;
	content = pad_offset(notes, name + note->name_len);
	if (note->len > notes->len - content)
		return false;
	note->content = notes->bytes + content;
	notes->at = pad_offset(notes, content + note->len);
	return true;
}

bool pev_notes_find_build_id(struct pev_notes *notes, struct pev_note *note)
{
	while (pev_notes_next(notes, note))
		if (note->type == NT_GNU_BUILD_ID && note->name_len == sizeof(ELF_NOTE_GNU) &&
		    memcmp(note->name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0 && note->len)
			return true;
	return false;
}
