/*
 * reader_state.c - damage, notes and sections of the reader of recordings; see reader_state.h.
 */
#include "perfdata/reader_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS_MAX ((uint64_t)128 << 20) /* limit of the size of a recorder's buffers */
#define KEPT_MAX ((uint64_t)256 << 20) /* limit of the bytes of a pipe's sections */

int pev_reader_add_damage(struct pev_reader *reader, const char *format, ...)
{
	char text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!reader->damage.code)
		pev_fail(&reader->damage, -EBADMSG, "%s: %s", reader->name, text);
	return -EBADMSG;
}

void pev_reader_note(const struct pev_reader *reader, const char *text)
{
	if (reader->config.note)
		reader->config.note(reader->config.ctx, text);
}

int pev_reader_failure(const struct pev_reader *reader, struct pev_err *err)
{
	const struct pev_err *why = pev_input_files_failure(&reader->inputs);

	if (!why)
		why = &reader->damage;
	return why->code ? pev_fail(err, why->code, "%s", why->text) : 0;
}

/* ---- sections ---- */

static struct pev_file_section *find_section(struct pev_reader *reader, uint32_t id)
{
	for (uint32_t i = 0; i < reader->nr_sections; i++)
		if (reader->sections[i].id == id)
			return &reader->sections[i];
	return NULL;
}

void pev_reader_keep_section(struct pev_reader *reader, uint32_t id, uint64_t offset,
			     unsigned char *bytes, uint64_t size)
{
	struct pev_file_section *section = find_section(reader, id);

	if (!section && reader->nr_sections <= PEV_READER_SECTIONS_MAX)
		section = &reader->sections[reader->nr_sections++];
	if (!section || reader->kept + size > KEPT_MAX) {
		free(bytes);
		return;
	}
	reader->kept += size - (section->bytes ? section->size : 0);
	free(section->bytes);
	*section = (struct pev_file_section){ id, offset, size, bytes };
	reader->changes++;
}

void pev_reader_set_buffers(struct pev_reader *reader, const unsigned char *bytes, uint64_t len)
{
	uint64_t max = len >= 20 ? pev_reader_u32(reader, bytes + 16) : 0;

	reader->inputs.main.inflate_max = max < BUFFERS_MAX ? max : BUFFERS_MAX;
}

/* Counts the bytes of a section. False: sections overlap, because their sum exceeds the file. */
static bool claim_bytes(struct pev_reader *reader, uint64_t off, uint64_t size)
{
	uint64_t present = off < reader->facts.size ? reader->facts.size - off : 0;

	if (present > size)
		present = size;
	if (present > reader->facts.size - reader->kept)
		return false;
	reader->kept += present;
	return true;
}

void pev_reader_add_section(struct pev_reader *reader, uint32_t id, uint64_t off, uint64_t size)
{
	unsigned char head[20];

	reader->sections[reader->nr_sections++] = (struct pev_file_section){ id, off, size, NULL };
	if (!claim_bytes(reader, off, size)) {
		reader->sections[reader->nr_sections - 1].size = 0;
		pev_reader_add_damage(reader,
				      "feature %u, %" PRIu64 " bytes at 0x%" PRIx64
				      ", overlaps other features: "
				      "together they have more bytes than the file",
				      id, size, off);
		return;
	}
	if (off > reader->facts.size || size > reader->facts.size - off)
		pev_reader_add_damage(reader,
				      "file cut short at 0x%" PRIx64
				      ": feature %u should be %" PRIu64
				      " bytes from 0x%" PRIx64 " on",
				      reader->facts.size, id, size, off);
	else if (id == PEV_FEAT_COMPRESSED && size >= sizeof(head) &&
		 pev_blocks_read_at(&reader->inputs.main, head, sizeof(head), off) == sizeof(head))
		pev_reader_set_buffers(reader, head, sizeof(head));
}

uint32_t pev_reader_count_sections(const struct pev_reader *reader) { return reader->nr_sections; }

const struct pev_file_section *pev_reader_section_at(const struct pev_reader *reader, uint32_t n)
{
	return n < reader->nr_sections ? &reader->sections[n] : NULL;
}

int64_t pev_reader_read_section(struct pev_reader *reader, uint32_t n, uint64_t off, void *buf,
			   size_t len)
{
	const struct pev_file_section *section = pev_reader_section_at(reader, n);

	if (!section)
		return -EINVAL;
	if (off >= section->size)
		return 0;
	if (len > section->size - off)
		len = (size_t)(section->size - off);
	if (section->bytes) {
		memcpy(buf, section->bytes + off, len);
		return (int64_t)len;
	}
	if (section->offset > reader->inputs.main.size ||
	    off > reader->inputs.main.size - section->offset)
		return 0;
	return pev_blocks_read_at(&reader->inputs.main, buf, len, section->offset + off);
}
