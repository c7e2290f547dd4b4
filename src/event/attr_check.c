/*
 * attr_check.c - checks an attr by the rules of perf_event_open(2), to name the cause of EINVAL.
 *
 * Contract: perf_copy_attr() and perf_event_open() in kernel/events/core.c as of 6.18. No system
 * call, no allocation.
 */
#include "event/attr.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <time.h>

static uint64_t known_bits(const char *name)
{
	uint64_t known = 0;

	for (const struct pev_attr_bits *bits = pev_attr_field(name)->bits; bits->name; bits++)
		known |= UINT64_C(1) << bits->bit;
	return known;
}

/* Fails for the first bit that Linux 6.19 does not know. */
static int check_bits(const char *name, uint64_t value, struct pev_err *err)
{
	uint64_t unknown = value & ~known_bits(name);

	if (!unknown)
		return 0;
	return pev_refuse(err, -EINVAL,
			  "%s = %#" PRIx64 ": bit %d has no meaning up to Linux 6.19, and the "
			  "kernel refuses unknown bits; clear it",
			  name, value, __builtin_ctzll(unknown));
}

static int check_reserved(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t flags = pev_attr_unknown_flags(attr);
	int rc;

	if (flags)
		return pev_fail(err, -EINVAL,
				"flags have reserved bits set (%#" PRIx64 " above bit 39): they "
				"must be 0",
				flags);
	if (attr->reserved_2)
		return pev_fail(err, -EINVAL,
				"the reserved word behind sample_max_stack is %#" PRIx16
				": it must be 0",
				attr->reserved_2);
	rc = check_bits("aux_action", attr->aux_action, err);
	if (rc == 0)
		rc = check_bits("sample_type", attr->sample_type, err);
	if (rc == 0)
		rc = check_bits("read_format", attr->read_format, err);
	return rc;
}

static int check_branches(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t privilege = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL |
			     PERF_SAMPLE_BRANCH_HV;
	int rc;

	if (!(attr->sample_type & PERF_SAMPLE_BRANCH_STACK))
		return 0;
	rc = check_bits("branch_sample_type", attr->branch_sample_type, err);
	if (rc < 0)
		return rc;
	if (!(attr->branch_sample_type & ~privilege))
		return pev_refuse(err, -EINVAL,
				  "sample_type has branch_stack, but branch_sample_type names no "
				  "kind of branch; add one, such as any, any_call or cond");
	return 0;
}

/* perf_reg_validate() of arch/x86/kernel/perf_regs.c; other architectures are not checked. */
#if defined(__x86_64__)
#define REGS_UNKNOWN (UINT64_C(0xf) << 12 | UINT64_C(0xff) << 24)
#define REGS_VECTOR (~UINT64_C(0) << 32) /* PERF_REG_EXTENDED_MASK */
#else
#define REGS_UNKNOWN UINT64_C(0)
#define REGS_VECTOR UINT64_C(0)
#endif

static int check_regs(const char *bit, const char *name, uint64_t mask, struct pev_err *err)
{
	if (!mask)
		return pev_refuse(err, -EINVAL,
				  "sample_type has %s, but %s is 0; set a bit for each "
				  "register",
				  bit, name);
	if (mask & REGS_UNKNOWN)
		return pev_fail(err, -EINVAL,
				"%s = %#" PRIx64 ": bit %d is not a register that this machine "
				"can sample",
				name, mask, __builtin_ctzll(mask & REGS_UNKNOWN));
	return 0;
}

static int check_stack(const struct pev_attr *attr, struct pev_err *err)
{
	if (!(attr->sample_type & PERF_SAMPLE_STACK_USER))
		return 0;
	if (attr->sample_stack_user >= UINT16_MAX)
		return pev_refuse(err, -EINVAL,
				  "sample_stack_user = %" PRIu32 ": a record's size has 16 bits; "
				  "65528 is the most",
				  attr->sample_stack_user);
	if (attr->sample_stack_user % 8)
		return pev_refuse(err, -EINVAL,
				  "sample_stack_user = %" PRIu32 ": must be a multiple of 8; take "
				  "%" PRIu32,
				  attr->sample_stack_user, attr->sample_stack_user / 8 * 8 + 8);
	return 0;
}

static int check_sample(const struct pev_attr *attr, struct pev_err *err)
{
	int rc = check_branches(attr, err);

	if (rc == 0 && attr->sample_type & PERF_SAMPLE_REGS_USER)
		rc = check_regs("regs_user", "sample_regs_user", attr->sample_regs_user, err);
	if (rc == 0)
		rc = check_stack(attr, err);
	if (rc == 0 && attr->sample_type & PERF_SAMPLE_REGS_INTR)
		rc = check_regs("regs_intr", "sample_regs_intr", attr->sample_regs_intr, err);
	if (rc < 0)
		return rc;
	if (attr->sample_type & PERF_SAMPLE_WEIGHT && attr->sample_type & PEV_SAMPLE_WEIGHT_STRUCT)
		return pev_refuse(err, -EINVAL,
				  "sample_type has weight and weight_struct, two forms of one "
				  "value; take weight or weight_struct");
	return 0;
}

static int check_life(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t flags = attr->flags;

	if (flags & PEV_ATTR_INHERIT_THREAD && !(flags & PEV_ATTR_INHERIT))
		return pev_refuse(err, -EINVAL,
				  "inherit_thread narrows inherit, which is off; set inherit too");
	if (flags & PEV_ATTR_REMOVE_ON_EXEC && flags & PEV_ATTR_ENABLE_ON_EXEC)
		return pev_refuse(err, -EINVAL,
				  "remove_on_exec and enable_on_exec contradict each other; set "
				  "remove_on_exec or enable_on_exec");
	if (flags & PEV_ATTR_SIGTRAP && !(flags & PEV_ATTR_REMOVE_ON_EXEC))
		return pev_refuse(err, -EINVAL,
				  "sigtrap needs remove_on_exec, because a new program does not "
				  "expect the signal; set remove_on_exec too");
	return 0;
}

static int check_target(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err)
{
	if (cpu < -1)
		return pev_fail(err, -EINVAL, "cpu %d: give a CPU's number, or -1 for any", cpu);
	if (pid == -1 && cpu == -1)
		return pev_refuse(err, -EINVAL,
				  "pid -1 on cpu -1: every process on any CPU cannot be one event; "
				  "open one per CPU");
	if (attr->flags & PEV_ATTR_SIGTRAP && pid == -1)
		return pev_refuse(err, -EINVAL,
				  "sigtrap with pid -1: the signal needs a task to go to; name a "
				  "pid");
	return 0;
}

/* The clocks that perf_event_set_clock() accepts. */
static bool is_event_clock(int32_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
	       clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

/*
 * The other clocks need a PMU without NMI. The PMUs of tracepoints and breakpoints
 * do not declare that (seen on 6.18). PMUs whose type number is assigned at boot are
 * left to the kernel.
 */
static bool needs_nmi_safe_clock(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT;
}

static int check_clock(const struct pev_attr *attr, struct pev_err *err)
{
	bool nmi_safe = attr->clockid == CLOCK_MONOTONIC || attr->clockid == CLOCK_MONOTONIC_RAW;

	if (!(attr->flags & PEV_ATTR_USE_CLOCKID))
		return 0;
	if (!is_event_clock(attr->clockid))
		return pev_refuse(err, -EINVAL,
				  "clockid = %" PRId32 ": not a clock for events; take 1 "
				  "(CLOCK_MONOTONIC), 4 (MONOTONIC_RAW), 0 (REALTIME), 7 "
				  "(BOOTTIME) or 11 (TAI)",
				  attr->clockid);
	if (!nmi_safe && needs_nmi_safe_clock(attr))
		return pev_refuse(err, -EINVAL,
				  "clockid = %" PRId32 ": a %s needs a clock that can be read in "
				  "an NMI; take 1 (CLOCK_MONOTONIC) or 4 (MONOTONIC_RAW)",
				  attr->clockid,
				  attr->type == PERF_TYPE_TRACEPOINT ? "tracepoint" : "breakpoint");
	return 0;
}

/* True for the types that never use hardware. */
static bool is_software(const struct pev_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE || attr->type == PERF_TYPE_TRACEPOINT ||
	       attr->type == PERF_TYPE_BREAKPOINT;
}

/* has_extended_regs() of kernel/events/core.c. */
static bool has_vector_regs(const struct pev_attr *attr)
{
	return (attr->sample_type & PERF_SAMPLE_REGS_USER &&
		attr->sample_regs_user & REGS_VECTOR) ||
	       (attr->sample_type & PERF_SAMPLE_REGS_INTR && attr->sample_regs_intr & REGS_VECTOR);
}

static bool has_flag(const struct pev_attr *attr, const char *name)
{
	return pev_attr_get(attr, pev_attr_field(name));
}

/* perf_swevent_init() and similar functions, perf_try_init_event(), perf_event_alloc(). */
static int check_hardware(const struct pev_attr *attr, struct pev_err *err)
{
	const char *cause = NULL;

	if (attr->sample_type & PERF_SAMPLE_BRANCH_STACK)
		cause = "sample_type has branch_stack";
	else if (has_vector_regs(attr))
		cause = "a mask of registers has vector registers";
	else if (attr->flags & PEV_ATTR_AUX_OUTPUT)
		cause = "aux_output is set";
	else if (has_flag(attr, "aux_start_paused"))
		cause = "aux_start_paused is set";
	if (cause && is_software(attr))
		return pev_refuse(err, -EOPNOTSUPP,
				  "%s, which needs a hardware event; clear it, or take a hardware "
				  "event",
				  cause);
	if (has_flag(attr, "aux_pause") && has_flag(attr, "aux_resume"))
		return pev_refuse(err, -EINVAL,
				  "aux_pause and aux_resume contradict each other; set aux_pause "
				  "or aux_resume");
	return 0;
}

static int check_inherited_read(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->flags & PEV_ATTR_INHERIT && attr->sample_type & PERF_SAMPLE_READ &&
	    !(attr->sample_type & PERF_SAMPLE_TID))
		return pev_refuse(err, -EINVAL,
				  "sample_type has read, which on an inherited event needs tid "
				  "(Linux before 6.12 refuses the two altogether); add tid, or "
				  "clear inherit");
	return 0;
}

static int check_period(const struct pev_attr *attr, struct pev_err *err)
{
	/* The limit is an int: kernel.perf_event_max_sample_rate. */
	if (attr->flags & PEV_ATTR_FREQ && attr->sample_period > INT32_MAX)
		return pev_refuse(err, -EINVAL,
				  "sample_freq = %" PRIu64 ": above every "
				  "kernel.perf_event_max_sample_rate; take a period",
				  attr->sample_period);
	if (!(attr->flags & PEV_ATTR_FREQ) && attr->sample_period >> 63)
		return pev_refuse(err, -EINVAL,
				  "sample_period = %#" PRIx64 ": bit 63 must be clear, the counter "
				  "counts up through negative numbers; take 1 or more",
				  attr->sample_period);
	return 0;
}

#if defined(__x86_64__)
/* hw_breakpoint_parse() checks it; bit 63 is set in addresses of the kernel. */
static int check_kernel_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->config1 >> 63 == 0 || !(attr->flags & PEV_ATTR_EXCLUDE_KERNEL))
		return 0;
	return pev_refuse(err, -EINVAL,
			  "bp_addr = %#" PRIx64 ": a kernel address, which exclude_kernel "
			  "excludes; clear exclude_kernel",
			  attr->config1);
}

/* hw_breakpoint_arch_parse() of arch/x86/kernel/hw_breakpoint.c. */
static int check_machine_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	uint64_t len = attr->config2;

	if (attr->bp_type == HW_BREAKPOINT_X && len == sizeof(long))
		return check_kernel_breakpoint(attr, err);
	if (attr->bp_type == HW_BREAKPOINT_X)
		return pev_refuse(err, -EINVAL,
				  "bp_len = %" PRIu64 ": an execution breakpoint on x86-64 has "
				  "length 8; take 8",
				  len);
	if (attr->bp_type != HW_BREAKPOINT_W && attr->bp_type != HW_BREAKPOINT_RW)
		return pev_refuse(err, -EINVAL,
				  "bp_type = %" PRIu32 ": x86 has no such breakpoint; take 3 "
				  "(reads and writes), 2 (writes) or 4 (execution)",
				  attr->bp_type);
	if (len == 0 || len & (len - 1))
		return pev_refuse(err, -EINVAL,
				  "bp_len = %" PRIu64 ": x86 has no such length; take 1, 2, 4 "
				  "or 8",
				  len);
	if (attr->config1 & (len - 1))
		return pev_refuse(err, -EINVAL,
				  "bp_addr = %#" PRIx64 ": not aligned to bp_len (%" PRIu64 "); "
				  "take %#" PRIx64,
				  attr->config1, len, attr->config1 & ~(len - 1));
	return check_kernel_breakpoint(attr, err);
}
#else
static int check_machine_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	(void)attr;
	(void)err;
	return 0;
}
#endif

static int check_breakpoint(const struct pev_attr *attr, struct pev_err *err)
{
	if (attr->type != PERF_TYPE_BREAKPOINT)
		return 0;
	return check_machine_breakpoint(attr, err);
}

int pev_attr_check(const struct pev_attr *attr, int pid, int cpu, struct pev_err *err)
{
	int rc = check_reserved(attr, err);

	if (rc == 0)
		rc = check_sample(attr, err);
	if (rc == 0)
		rc = check_life(attr, err);
	if (rc == 0)
		rc = check_period(attr, err);
	if (rc == 0)
		rc = check_target(attr, pid, cpu, err);
	if (rc == 0)
		rc = check_inherited_read(attr, err);
	if (rc == 0)
		rc = check_breakpoint(attr, err);
	if (rc == 0)
		rc = check_hardware(attr, err);
	if (rc == 0)
		rc = check_clock(attr, err);
	return rc;
}
