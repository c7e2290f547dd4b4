/*
 * jit_dump.c - libFuzzer: a hostile jit-PID.dump, read in parts; functions must lie in its names.
 *
 * The first byte is the size of the parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "task/jit_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Depends on every byte read, so that the compiler keeps the reads. */
static volatile size_t sink;

static void touch_function(struct pev_jit_dump *dump, uint64_t addr, uint64_t time)
{
	struct pev_jit_function function;

	if (!pev_jit_dump_find(dump, addr, time, &function))
		return;
	if (addr < function.start || addr >= function.end || function.len > PEV_JIT_NAME_MAX)
		abort();
	for (uint32_t i = 0; i < function.len; i++)
		sink += (unsigned char)function.name[i];
}

/* Looks up each word of the input, as an address and as a time. */
static void touch_words(struct pev_jit_dump *dump, const uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t word;

		memcpy(&word, data + at, sizeof(word));
		touch_function(dump, word, PEV_JIT_NEWEST);
		touch_function(dump, word, at);
		touch_function(dump, at, word);
		if (pev_jit_dump_loads(dump, word) > pev_jit_dump_loads(dump, PEV_JIT_NEWEST))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_jit_dumps dumps = { 0 };
	struct pev_jit_dump *dump = pev_jit_dump_new(&dumps, 7, "/tmp/jit-7.dump", 15, 0);
	size_t part = size ? 1 + (size_t)*data * 8 : 1, most = size - (size > 0);
	uint64_t at = 0, was = UINT64_MAX;

	if (!pev_jit_dump_is_marker("/tmp/jit-7.dump", 15) || !dump)
		abort();
	sink += pev_jit_dump_is_marker((const char *)data, size);
	while (at < most && (at != was || part < most)) {
		size_t len = most - at < part ? (size_t)(most - at) : part;
		/* A copy of exact size, so that a sanitizer sees an access behind it. */
		char *bytes = malloc(len);

		memcpy(bytes, data + 1 + at, len);
		part = at == was ? part * 2 : part; /* a record is longer than the part */
		was = at;
		if (pev_jit_dump_read(dump, bytes, len) < 0)
			most = 0;
		free(bytes);
		at = pev_jit_dump_offset(dump);
	}
	touch_words(dump, data, size);
	pev_jit_dump_set_known(dump, at);
	pev_jit_dump_want(dump, size);
	pev_jit_dump_put(dump);
	if (dumps.nr || dumps.wanted || dumps.first)
		abort();
	pev_jit_dumps_free(&dumps);
	return 0;
}
