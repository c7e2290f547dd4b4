/*
 * record.c - libFuzzer: an attr and the bytes of one record, both from the fuzzer.
 *
 * The record's memory has exactly its length.
 */
#include <stdlib.h>
#include <string.h>

#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_attr attr = { 0 };
	struct pev_record rec;
	struct pev_plan plan;
	unsigned char *bytes;
	size_t len;

	if (size < 48)
		return 0;
	memcpy(&attr.sample_type, data, 8);
	memcpy(&attr.read_format, data + 8, 8);
	memcpy(&attr.branch_sample_type, data + 16, 8);
	memcpy(&attr.sample_regs_user, data + 24, 8);
	memcpy(&attr.sample_regs_intr, data + 32, 8);
	attr.flags = (data[40] & 1 ? PEV_ATTR_SAMPLE_ID_ALL : 0) |
		     (data[40] & 2 ? PEV_ATTR_BUILD_ID : 0);
	pev_plan_init(&plan, &attr, data[40] & 4);
	len = size - 48;
	bytes = malloc(len ? len : 1);
	if (!bytes)
		return 0;
	memcpy(bytes, data + 48, len);
	if (pev_record_locate(&rec, &plan, bytes, len, NULL) == 0)
		touch_record(&rec);
	free(bytes);
	return 0;
}
