/*
 * dwarf.c - libFuzzer: hostile DWARF: lines, variables in scope with their locations, and types.
 *
 * Reads each string to its end, so that a sanitizer finds an unterminated one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf/line_address.h"
#include "dwarf/variable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TYPES_DEEP = 6, MEMBERS_SEEN = 8 };

/* Depends on every byte read, so that the compiler keeps the reads. */
static volatile size_t sink;

static void touch_string(const char *text)
{
	if (text)
		sink += strlen(text);
}

static void touch_type(const struct pev_debug_info *info, pev_type_ref ref, int depth)
{
	struct pev_members members;
	struct pev_type type;

	if (depth == TYPES_DEEP)
		return;
	pev_type_read(info, ref, &type);
	touch_string(type.name);
	if (type.nr_counts > PEV_TYPE_DIMENSIONS)
		abort();
	if (type.target)
		touch_type(info, type.target, depth + 1);
	if (pev_type_members(info, ref, &members) < 0)
		abort();
	for (size_t i = 0; i < members.nr; i++) {
		touch_string(members.list[i].name);
		sink += members.list[i].offset;
		if (i < MEMBERS_SEEN)
			touch_type(info, members.list[i].type, depth + 1);
	}
	pev_members_free(&members);
}

static void touch_variable(const struct pev_debug_info *info, const struct pev_variable *variable)
{
	const struct pev_location *location = &variable->location;
	const bool is_found = location->start == PEV_LOCATION_REGISTER ||
			      location->start == PEV_LOCATION_FRAME ||
			      location->start == PEV_LOCATION_ADDRESS ||
			      location->start == PEV_LOCATION_CONSTANT;

	touch_string(variable->name);
	touch_type(info, variable->type, 0);
	if (location->nr > PEV_LOCATION_STEPS || is_found != (location->nr > 0))
		abort();
	for (int i = 0; i < location->nr; i++)
		sink += (size_t)location->offsets[i];
}

static void touch_scope(const struct pev_debug_info *info, uint64_t address)
{
	struct pev_variable global;
	struct pev_scope scope;

	if (pev_scope_find(info, address, &scope) < 0)
		return;
	touch_string(scope.function);
	touch_type(info, scope.returns, 0);
	for (size_t i = 0; i < scope.nr; i++) {
		if (!scope.variables[i].name)
			abort();
		touch_variable(info, &scope.variables[i]);
	}
	sink += scope.entry + scope.after_frame;
	pev_scope_free(&scope);
	if (pev_variable_find_global(info, address, "total", &global))
		touch_variable(info, &global);
}

static void touch_line(const struct pev_debug_info *info, const char *file, int line)
{
	struct pev_line_addresses addresses;

	if (pev_line_addresses_find(info, file, line, &addresses) < 0)
		abort();
	touch_string(addresses.nearest);
	if (addresses.before >= line || (addresses.after && addresses.after <= line))
		abort();
	for (size_t i = 0; i < addresses.nr; i++) {
		touch_string(addresses.list[i].function);
		touch_string(addresses.list[i].file);
		touch_scope(info, addresses.list[i].address);
	}
	pev_line_addresses_free(&addresses);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_function_line function;
	struct pev_debug_info *info;
	/* A copy of exact size, so that a sanitizer sees an access behind it. */
	char *image = malloc(size ? size : 1);

	memcpy(image, data, size);
	if (pev_debug_info_open(&info, image, size, NULL) == 0) {
		for (int line = 1; line < 24; line++)
			touch_line(info, "req.c", line);
		touch_line(info, "rek.c", 1);
		for (uint64_t address = 0; address < 0x100; address += 4)
			touch_scope(info, 0x401000 + address);
		pev_function_line_find(info, "handle", &function);
		touch_string(function.file);
		pev_debug_info_close(info);
	}
	if (memcmp(image, data, size) != 0) /* the image is read-only */
		abort();
	free(image);
	return 0;
}
