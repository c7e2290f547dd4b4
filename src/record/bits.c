/*
 * bits.c - the tables of named bits; see bits.h.
 */
#include "record/bits.h"

#include <stddef.h>

/* clang-format off */
#define NAMES(...) \
	(const char *const[]){ __VA_ARGS__ }, \
		sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)
#define NUMBER(name, shift, width) { name, shift, width, PEV_B_NUMBER, false, NULL, 0 }
#define FLAG(name, shift) { name, shift, 1, PEV_B_FLAG, false, NULL, 0 }
#define ENUM(name, shift, width, ...) \
	{ name, shift, width, PEV_B_ENUM, false, NAMES(__VA_ARGS__) }
#define SET(name, shift, width, ...) \
	{ name, shift, width, PEV_B_SET, false, NAMES(__VA_ARGS__) }
/* clang-format on */

/* union perf_mem_data_src; the kernel's PERF_MEM_* without their prefix. */
static const struct pev_bits_field data_src[] = {
	SET("op", 0, 5, "na", "load", "store", "pfetch", "exec"),
	SET("lvl", 5, 14, "na", "hit", "miss", "l1", "lfb", "l2", "l3", "loc_ram", "rem_ram1",
	    "rem_ram2", "rem_cce1", "rem_cce2", "io", "unc"),
	SET("snoop", 19, 5, "na", "none", "hit", "miss", "hitm"),
	SET("lock", 24, 2, "na", "locked"),
	SET("dtlb", 26, 7, "na", "hit", "miss", "l1", "l2", "wk", "os"),
	ENUM("lvl_num", 33, 4, NULL, "l1", "l2", "l3", "l4", "l2_mhb", "msc", "l0", "unc", "cxl",
	     "io", "any_cache", "lfb", "ram", "pmem", "na"),
	FLAG("remote", 37),
	SET("snoopx", 38, 2, "fwd", "peer"),
	SET("blk", 40, 3, "na", "data", "addr"),
	ENUM("hops", 43, 3, NULL, "same_node", "same_socket", "same_board", "remote_board"),
	NUMBER("region", 46, 5),
	{ 0 },
};
const struct pev_bits pev_data_src_bits = { "data_src", data_src };

/* PERF_TXN_*; the program chooses the abort code. */
static const struct pev_bits_field transaction[] = {
	FLAG("elision", 0),
	FLAG("transaction", 1),
	FLAG("sync", 2),
	FLAG("async", 3),
	FLAG("retry", 4),
	FLAG("conflict", 5),
	FLAG("capacity_write", 6),
	FLAG("capacity_read", 7),
	NUMBER("abort", 32, 32),
	{ 0 },
};
const struct pev_bits pev_transaction_bits = { "transaction", transaction };

/* union perf_sample_weight */
static const struct pev_bits_field weight[] = {
	NUMBER("var1_dw", 0, 32),
	NUMBER("var2_w", 32, 16),
	NUMBER("var3_w", 48, 16),
	{ 0 },
};
const struct pev_bits pev_weight_bits = { "weight", weight };

/* struct perf_branch_entry; PERF_BR_* without their prefix. */
static const struct pev_bits_field branch[] = {
	FLAG("mispred", 0),
	FLAG("predicted", 1),
	FLAG("in_tx", 2),
	FLAG("abort", 3),
	NUMBER("cycles", 4, 16),
	ENUM("type", 20, 4, "unknown", "cond", "uncond", "ind", "call", "ind_call", "ret",
	     "syscall", "sysret", "cond_call", "cond_ret", "eret", "irq", "serror", "no_tx",
	     "extend_abi"),
	ENUM("spec", 24, 2, "na", "wrong_path", "non_spec_correct_path", "correct_path"),
	{ "new_type", 26, 4, PEV_B_ENUM, true,
	  NAMES("fault_algn", "fault_data", "fault_inst", "arch_1", "arch_2", "arch_3", "arch_4",
		"arch_5") },
	ENUM("priv", 30, 3, "unknown", "user", "kernel", "hv"),
	{ 0 },
};
const struct pev_bits pev_branch_bits = { "branch_stack", branch };

#define BRANCH_RESERVED 33 /* the reserved bits, one bit-field, begin here */

uint64_t pev_branch_unmirror(uint64_t word)
{
	uint64_t out = (word & (~UINT64_C(0) >> BRANCH_RESERVED)) << BRANCH_RESERVED;

	for (const struct pev_bits_field *field = branch; field->name; field++) {
		struct pev_bits_field mirrored = *field;

		mirrored.shift = (uint8_t)(64 - field->shift - field->width);
		out |= pev_bits_get(word, &mirrored) << field->shift;
	}
	return out;
}
