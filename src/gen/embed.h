/*
 * embed.h - the Lua sources that perfl carries, as src/gen/embed.lua writes them.
 *
 * The table is made at build time from lua/ and argparse; it stands in read-only
 * memory for as long as the program runs.
 */
#pragma once

#include <stddef.h>

struct pev_chunk {
	const char *name;          /* a module's, "perfev.session", or "scripts/NAME" */
	const char *path;          /* of its source, for messages: "lua/perfev/live/session.lua" */
	const unsigned char *text; /* source; a NUL follows */
	size_t len;                /* bytes, the NUL not counted */
	const unsigned char *code; /* a module compiled, by the release of Lua that built us */
	size_t code_len;
};

/* In the order of their names; the last has a NULL name. */
extern const struct pev_chunk pev_chunks[];
