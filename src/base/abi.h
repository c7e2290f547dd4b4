/*
 * abi.h - the kernel's perf interface, newer than the distribution's header.
 *
 * Defines the constants that linux/perf_event.h may lack, each with the kernel
 * version that added it, and the attr in plain words: the flag bits are one u64
 * here, because C bit-fields hide the bit numbers and are laid out from the other
 * end on big-endian machines.
 * Source: include/uapi/linux/perf_event.h up to 6.19 (VER9).
 */
#pragma once

#include <assert.h>
#include <linux/perf_event.h>
#include <stdint.h>

#ifndef PERF_ATTR_SIZE_VER7
#define PERF_ATTR_SIZE_VER7 128 /* 5.13: sig_data */
#endif
#ifndef PERF_ATTR_SIZE_VER8
#define PERF_ATTR_SIZE_VER8 136 /* 6.3: config3 */
#endif
#ifndef PERF_ATTR_SIZE_VER9
#define PERF_ATTR_SIZE_VER9 144 /* 6.19: config4 */
#endif

/* perf_event_attr at VER9; unions under their first name. */
struct pev_attr {
	uint32_t type;
	uint32_t size;
	uint64_t config;
	uint64_t sample_period; /* or sample_freq */
	uint64_t sample_type;
	uint64_t read_format;
	uint64_t flags;         /* PEV_ATTR_* below */
	uint32_t wakeup_events; /* or wakeup_watermark */
	uint32_t bp_type;
	uint64_t config1;       /* or bp_addr, kprobe_func, uprobe_path */
	uint64_t config2;       /* or bp_len, kprobe_addr, probe_offset */
	uint64_t branch_sample_type;
	uint64_t sample_regs_user;
	uint32_t sample_stack_user;
	int32_t clockid;
	uint64_t sample_regs_intr;
	uint32_t aux_watermark;
	uint16_t sample_max_stack;
	uint16_t reserved_2;
	uint32_t aux_sample_size;
	uint32_t aux_action;    /* 6.13 */
	uint64_t sig_data;
	uint64_t config3;
	uint64_t config4;
};
static_assert(sizeof(struct pev_attr) == PERF_ATTR_SIZE_VER9, "attr is VER9");

/* The flags word, by bit number as a little-endian compiler lays it out. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PEV_ATTR_SHIFT(bit, width) (bit)
#else
#define PEV_ATTR_SHIFT(bit, width) (64 - (bit) - (width))
#endif
#define PEV_ATTR_FLAG(bit) (UINT64_C(1) << PEV_ATTR_SHIFT(bit, 1))

#define PEV_ATTR_DISABLED PEV_ATTR_FLAG(0)
#define PEV_ATTR_INHERIT PEV_ATTR_FLAG(1)
#define PEV_ATTR_PINNED PEV_ATTR_FLAG(2)
#define PEV_ATTR_EXCLUSIVE PEV_ATTR_FLAG(3)
#define PEV_ATTR_EXCLUDE_USER PEV_ATTR_FLAG(4)
#define PEV_ATTR_EXCLUDE_KERNEL PEV_ATTR_FLAG(5)
#define PEV_ATTR_MMAP PEV_ATTR_FLAG(8)
#define PEV_ATTR_COMM PEV_ATTR_FLAG(9)
#define PEV_ATTR_FREQ PEV_ATTR_FLAG(10)
#define PEV_ATTR_ENABLE_ON_EXEC PEV_ATTR_FLAG(12)
#define PEV_ATTR_TASK PEV_ATTR_FLAG(13)
#define PEV_ATTR_WATERMARK PEV_ATTR_FLAG(14)
#define PEV_ATTR_SAMPLE_ID_ALL PEV_ATTR_FLAG(18)
#define PEV_ATTR_MMAP2 PEV_ATTR_FLAG(23)
#define PEV_ATTR_COMM_EXEC PEV_ATTR_FLAG(24)
#define PEV_ATTR_USE_CLOCKID PEV_ATTR_FLAG(25)
#define PEV_ATTR_CONTEXT_SWITCH PEV_ATTR_FLAG(26)
#define PEV_ATTR_WRITE_BACKWARD PEV_ATTR_FLAG(27)
#define PEV_ATTR_NAMESPACES PEV_ATTR_FLAG(28)
#define PEV_ATTR_KSYMBOL PEV_ATTR_FLAG(29)
#define PEV_ATTR_BPF_EVENT PEV_ATTR_FLAG(30)
#define PEV_ATTR_AUX_OUTPUT PEV_ATTR_FLAG(31)
#define PEV_ATTR_CGROUP PEV_ATTR_FLAG(32)
#define PEV_ATTR_TEXT_POKE PEV_ATTR_FLAG(33)
#define PEV_ATTR_BUILD_ID PEV_ATTR_FLAG(34)
#define PEV_ATTR_INHERIT_THREAD PEV_ATTR_FLAG(35)
#define PEV_ATTR_REMOVE_ON_EXEC PEV_ATTR_FLAG(36)
#define PEV_ATTR_SIGTRAP PEV_ATTR_FLAG(37)
#define PEV_ATTR_DEFER_CALLCHAIN PEV_ATTR_FLAG(38)

#define PEV_SAMPLE_WEIGHT_STRUCT (UINT64_C(1) << 24) /* 5.12 */
#define PEV_SAMPLE_TYPE_MASK ((UINT64_C(1) << 25) - 1)
#define PEV_FORMAT_LOST (UINT64_C(1) << 4)                  /* 6.0 */
#define PEV_BRANCH_CALL_STACK (UINT64_C(1) << 11)           /* 4.1 */
#define PEV_BRANCH_HW_INDEX (UINT64_C(1) << 17)             /* 5.7 */
#define PEV_BRANCH_COUNTERS (UINT64_C(1) << 19)             /* 6.8 */

#define PEV_RECORD_CGROUP 19             /* 5.7 */
#define PEV_RECORD_TEXT_POKE 20          /* 5.9 */
#define PEV_RECORD_AUX_OUTPUT_HW_ID 21   /* 5.16 */
#define PEV_RECORD_CALLCHAIN_DEFERRED 22 /* 6.19 */
#define PEV_RECORD_NR 23                 /* kernel types are below this one */

#define PEV_MISC_MMAP_BUILD_ID (1 << 14) /* 5.12 */
/* Of LOST_SAMPLES: dropped by a BPF filter (tools/lib/perf/include/perf/event.h). */
#define PEV_MISC_LOST_SAMPLES_BPF (1 << 15)
/* perfev's own bit of LOST: made at the end, for losses without a LOST record of the kernel. */
#define PEV_MISC_LOST_AT_END (1 << 13)

/* A callchain entry at or above this is a context marker, not an address. */
#define PEV_CONTEXT_MAX ((uint64_t)-4095)
#define PEV_CONTEXT_USER_DEFERRED ((uint64_t)-640) /* 6.19 */
