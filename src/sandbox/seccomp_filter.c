/*
 * seccomp_filter.c - the system calls that a confined perfl may make; see seccomp_filter.h.
 */
#define _GNU_SOURCE /* O_PATH, F_DUPFD_CLOEXEC, CLONE_* */
#include "sandbox/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NR(array) (sizeof(array) / sizeof((array)[0]))

/* Calls with any arguments. A name that an architecture lacks is skipped. */
static const char *const allowed[] = {
	/* open descriptors */
	"read", "readv", "pread64", "preadv", "write", "writev", "pwrite64", "pwritev", "close",
	"lseek", "_llseek", "fstat", "fstat64", "dup", "ftruncate", "ftruncate64", "fsync",
	"fdatasync", "fadvise64", "poll", "ppoll", "ppoll_time64", "select", "_newselect",
	"pselect6", "pselect6_time64", "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl",
	"epoll_create", "epoll_create1", "eventfd2", "timerfd_create", "timerfd_settime",
	"timerfd_settime64", "timerfd_gettime", "timerfd_gettime64", "signalfd4", "getdents64",
	/* descriptions of files; Landlock does not hide them */
	"stat", "stat64", "lstat", "lstat64", "newfstatat", "fstatat64", "statx", "readlink",
	"readlinkat", "access", "faccessat", "faccessat2", "getcwd", "fstatfs", "fstatfs64",
	/* memory */
	"brk", "munmap", "mremap", "madvise", "mincore", "membarrier",
	/* threads, time and signals of this process */
	"futex", "futex_time64", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity",
	"sched_getparam", "sched_getscheduler", "getpid", "gettid", "getppid", "getuid",
	"getuid32", "geteuid", "geteuid32", "getgid", "getgid32", "getegid", "getegid32",
	"getcpu", "uname", "clock_gettime", "clock_gettime64", "clock_getres", "clock_nanosleep",
	"clock_nanosleep_time64", "nanosleep", "gettimeofday", "time", "times", "getrusage",
	"getrandom", "alarm", "setitimer", "timer_settime", "timer_settime64", "timer_gettime",
	"timer_delete", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigreturn",
	"rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "restart_syscall",
	"wait4", "waitid", "exit", "exit_group", "capget", "getrlimit", "ugetrlimit",
};

/* For a server whose socket listens already. */
static const char *const accepting[] = {
	"accept", "accept4", "recvfrom", "recvmsg", "recv", "sendto", "sendmsg", "send",
	"sendfile", "sendfile64", "shutdown", "getsockname", "getpeername", "getsockopt",
	"setsockopt",
};

#ifdef __s390__
#define CLONE_FLAGS_AT 1 /* CONFIG_CLONE_BACKWARDS2 */
#else
#define CLONE_FLAGS_AT 0
#endif

/* A call that is allowed if an argument, masked, has this value. */
static const struct {
	const char *name;
	unsigned argument;
	uint64_t mask, value;
} conditional[] = {
#define READS (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))
	{ "open", 1, READS, O_RDONLY },
	{ "openat", 2, READS, O_RDONLY },
	{ "mmap", 2, PROT_EXEC, 0 },
	{ "mmap2", 2, PROT_EXEC, 0 },
	{ "mprotect", 2, PROT_EXEC, 0 },
	{ "clone", CLONE_FLAGS_AT, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM },
#define ANY UINT64_C(0xffffffff)
	{ "fcntl", 1, ANY, F_GETFD }, { "fcntl", 1, ANY, F_SETFD },
	{ "fcntl", 1, ANY, F_GETFL }, { "fcntl", 1, ANY, F_SETFL },
	{ "fcntl", 1, ANY, F_DUPFD_CLOEXEC },
	{ "fcntl64", 1, ANY, F_GETFD }, { "fcntl64", 1, ANY, F_SETFD },
	{ "fcntl64", 1, ANY, F_GETFL }, { "fcntl64", 1, ANY, F_SETFL },
	{ "fcntl64", 1, ANY, F_DUPFD_CLOEXEC },
	{ "prctl", 0, ANY, PR_SET_NAME },
	{ "prctl", 0, ANY, PR_TASK_PERF_EVENTS_DISABLE },
	{ "prctl", 0, ANY, PR_TASK_PERF_EVENTS_ENABLE },
	{ "prctl", 0, ANY, PR_SET_DUMPABLE },
	{ "prlimit64", 2, UINT64_MAX, 0 },
	{ "ioctl", 1, ANY, TCGETS }, { "ioctl", 1, ANY, TIOCGWINSZ },
	{ "ioctl", 1, ANY, FIONREAD }, { "ioctl", 1, ANY, FIONBIO },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_ENABLE }, { "ioctl", 1, ANY, PERF_EVENT_IOC_DISABLE },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_REFRESH }, { "ioctl", 1, ANY, PERF_EVENT_IOC_RESET },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_PERIOD }, { "ioctl", 1, ANY, PERF_EVENT_IOC_ID },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_SET_OUTPUT },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_SET_FILTER },
	{ "ioctl", 1, ANY, PERF_EVENT_IOC_PAUSE_OUTPUT },
};

static int allow(scmp_filter_ctx filter, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);

	return number == __NR_SCMP_ERROR ? 0 :
	       seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

static int allow_list(scmp_filter_ctx filter, const char *const *names, size_t nr)
{
	int rc = 0;

	for (size_t i = 0; i < nr && rc == 0; i++)
		rc = allow(filter, names[i]);
	return rc;
}

static int allow_if(scmp_filter_ctx filter, const char *name, unsigned argument, uint64_t mask,
		    uint64_t value)
{
	const struct scmp_arg_cmp is_equal = { .arg = argument, .op = SCMP_CMP_MASKED_EQ,
					       .datum_a = mask, .datum_b = value };
	int number = seccomp_syscall_resolve_name(name);

	return number == __NR_SCMP_ERROR ? 0 :
	       seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 1, &is_equal);
}

/* Signals for this process and for the command alone. */
static int allow_signals(scmp_filter_ctx filter, int command)
{
	const uint64_t own = (uint64_t)getpid();
	int rc = allow_if(filter, "tgkill", 0, ANY, own);

	if (rc == 0)
		rc = allow_if(filter, "kill", 0, ANY, own);
	if (rc == 0 && command > 0)
		rc = allow_if(filter, "kill", 0, ANY, (uint64_t)command);
	return rc;
}

static int add_rules(scmp_filter_ctx filter, const struct pev_seccomp_options *options)
{
	int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

	if (rc == 0)
		rc = allow_list(filter, allowed, NR(allowed));
	if (rc == 0 && options->accepts)
		rc = allow_list(filter, accepting, NR(accepting));
	for (size_t i = 0; i < NR(conditional) && rc == 0; i++)
		rc = allow_if(filter, conditional[i].name, conditional[i].argument,
			      conditional[i].mask, conditional[i].value);
	/* Its flags are in memory, which a filter cannot read; glibc then calls clone(). */
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return rc ? rc : allow_signals(filter, options->command);
}

int pev_seccomp_confine(const struct pev_seccomp_options *options, struct pev_err *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc;

	if (!filter)
		return pev_fail(err, -ENOMEM, "cannot make a seccomp filter");
	rc = add_rules(filter, options);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc < 0 ? pev_fail(err, rc, "cannot install a seccomp filter") : 0;
}
