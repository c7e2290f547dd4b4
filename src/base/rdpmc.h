/*
 * rdpmc.h - a hardware counter and the processor's clock, read in user space.
 *
 * Returns -EOPNOTSUPP on processors without such an instruction.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#if defined(__aarch64__)
#define PEV_MRS(reg, value)              \
	__asm__ volatile("isb; mrs %0, " reg \
			 : "=r"(*(value)))
#define PEV_EVENT_COUNTER(n, value)                     \
	case n:                                         \
		PEV_MRS("pmevcntr" #n "_el0", (value)); \
		return 0

/*
 * The instruction contains the counter's number; the cycle counter has the number of the
 * last bit (armv8pmu_user_event_idx() returns 32).
 */
static inline int pev_read_arm_counter(uint32_t counter, uint64_t *value)
{
	switch (counter) {
		PEV_EVENT_COUNTER(0, value);
		PEV_EVENT_COUNTER(1, value);
		PEV_EVENT_COUNTER(2, value);
		PEV_EVENT_COUNTER(3, value);
		PEV_EVENT_COUNTER(4, value);
		PEV_EVENT_COUNTER(5, value);
		PEV_EVENT_COUNTER(6, value);
		PEV_EVENT_COUNTER(7, value);
		PEV_EVENT_COUNTER(8, value);
		PEV_EVENT_COUNTER(9, value);
		PEV_EVENT_COUNTER(10, value);
		PEV_EVENT_COUNTER(11, value);
		PEV_EVENT_COUNTER(12, value);
		PEV_EVENT_COUNTER(13, value);
		PEV_EVENT_COUNTER(14, value);
		PEV_EVENT_COUNTER(15, value);
		PEV_EVENT_COUNTER(16, value);
		PEV_EVENT_COUNTER(17, value);
		PEV_EVENT_COUNTER(18, value);
		PEV_EVENT_COUNTER(19, value);
		PEV_EVENT_COUNTER(20, value);
		PEV_EVENT_COUNTER(21, value);
		PEV_EVENT_COUNTER(22, value);
		PEV_EVENT_COUNTER(23, value);
		PEV_EVENT_COUNTER(24, value);
		PEV_EVENT_COUNTER(25, value);
		PEV_EVENT_COUNTER(26, value);
		PEV_EVENT_COUNTER(27, value);
		PEV_EVENT_COUNTER(28, value);
		PEV_EVENT_COUNTER(29, value);
		PEV_EVENT_COUNTER(30, value);
	case 31:
		PEV_MRS("pmccntr_el0", value);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
#endif

/* Faults unless the kernel allows it. */
static inline int pev_rdpmc(uint32_t counter, uint64_t *value)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

	__asm__ volatile("rdpmc"
			 : "=a"(low), "=d"(high)
			 : "c"(counter));
	*value = (uint64_t)high << 32 | low;
	return 0;
#elif defined(__aarch64__)
	return pev_read_arm_counter(counter, value);
#else
	(void)counter;
	(void)value;
	return -EOPNOTSUPP;
#endif
}

static inline int pev_rdtsc(uint64_t *cycles)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

	__asm__ volatile("rdtsc"
			 : "=a"(low), "=d"(high));
	*cycles = (uint64_t)high << 32 | low;
	return 0;
#elif defined(__aarch64__)
	PEV_MRS("cntvct_el0", cycles);
	return 0;
#else
	(void)cycles;
	return -EOPNOTSUPP;
#endif
}
