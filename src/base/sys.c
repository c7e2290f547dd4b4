/*
 * sys.c - the Linux functions of the table in sys.h, and functions made of its calls.
 *
 * The only file that reads errno. Every descriptor is close-on-exec.
 */
#define _GNU_SOURCE
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/growing_list.h"
#include "base/rdpmc.h"
#include "base/rights.h"

/* Files of sysfs, procfs and tracefs, and most programs with symbols, are far smaller. */
#define SLURP_MAX (512u << 20)
#define SLURP_WAIT_MS 5000
#define WRITE_WAIT_MS 1000

static int check_errno(long rc)
{
	return rc < 0 ? -errno : (int)rc;
}

static int linux_perf_event_open(void *ctx, struct pev_attr *attr, int pid, int cpu,
				 int group_fd, unsigned long flags)
{
	int fd;

	(void)ctx;
	pev_rights_raise(PEV_CAPS_EVENT);
	fd = check_errno(syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags));
	pev_rights_lower();
	return fd;
}

static int linux_ioctl(void *ctx, int fd, unsigned long request, uintptr_t arg)
{
	int rc;

	(void)ctx;
	do {
		rc = check_errno(ioctl(fd, request, arg));
	} while (rc == -EINTR);
	return rc;
}

static int linux_mmap(void *ctx, size_t len, int prot, int fd, uint64_t offset, void **addr)
{
	void *p;

	(void)ctx;
	pev_rights_raise(PEV_CAPS_EVENT);
	p = mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)offset);
	pev_rights_lower();
	if (p == MAP_FAILED)
		return -errno;
	*addr = p;
	return 0;
}

static int linux_munmap(void *ctx, void *addr, size_t len)
{
	(void)ctx;
	return check_errno(munmap(addr, len));
}

static int64_t linux_read(void *ctx, int fd, void *buf, size_t len)
{
	ssize_t n;

	(void)ctx;
	do {
		n = read(fd, buf, len);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* The length of "/proc/PID/root/" at the start of PATH, 0 for any other path. */
static int find_root_prefix(const char *path)
{
	int len = 0;

	(void)sscanf(path, "/proc/%*d/root/%n", &len);
	return len;
}

/*
 * Opens a file below the root of a process. An absolute link stays below that root. A capability
 * is raised for the magic link alone, so that the walk behind it, which may meet another /proc,
 * has the rights of the caller.
 */
static int open_below_root(const char *path, int prefix, int flags)
{
	struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	const char *rest = path + prefix;
	char root[32];
	int dir, fd;

	snprintf(root, sizeof(root), "%.*s", prefix, path);
	pev_rights_raise(PEV_CAP(SYS_PTRACE));
	dir = check_errno(open(root, O_PATH | O_DIRECTORY | O_CLOEXEC));
	pev_rights_lower();
	if (dir < 0)
		return dir;
	fd = check_errno(syscall(SYS_openat2, dir, rest, &how, sizeof(how)));
	if (fd == -ENOSYS) /* before Linux 5.6 */
		fd = check_errno(openat(dir, rest, flags | O_CLOEXEC));
	close(dir);
	return fd;
}

/* For writing, no file of another process is opened with rights that the caller lacks. */
static int open_path(const char *path, int flags)
{
	const int writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
	int prefix = flags & writes ? 0 : find_root_prefix(path);
	int fd;

	if (prefix)
		return open_below_root(path, prefix, flags);
	if (!(flags & writes))
		pev_rights_raise(pev_rights_of_path(path));
	do {
		fd = check_errno(open(path, flags | O_CLOEXEC, 0600));
	} while (fd == -EINTR);
	pev_rights_lower();
	return fd;
}

static int linux_open(void *ctx, const char *path, int flags)
{
	(void)ctx;
	return open_path(path, flags);
}

static int64_t linux_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
	ssize_t n;

	(void)ctx;
	do {
		n = pread(fd, buf, len, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int poll_fd(int fd, short events, int timeout_ms)
{
	struct pollfd wanted = { .fd = fd, .events = events };

	return poll(&wanted, 1, timeout_ms);
}

/* Returns -EINTR if a signal arrives and the pipe has no room for WRITE_WAIT_MS. */
static int64_t linux_writev(void *ctx, int fd, const struct iovec *pieces, int nr)
{
	int64_t n;

	(void)ctx;
	do {
		n = writev(fd, pieces, nr);
		n = n < 0 ? -errno : n;
	} while (n == -EINTR && poll_fd(fd, POLLOUT, WRITE_WAIT_MS) != 0);
	return n;
}

static int64_t linux_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
	ssize_t n;

	(void)ctx;
	do {
		n = pwrite(fd, buf, len, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int linux_ftruncate(void *ctx, int fd, uint64_t len)
{
	int rc;

	(void)ctx;
	do {
		rc = check_errno(ftruncate(fd, (off_t)len));
	} while (rc == -EINTR);
	return rc;
}

static int set_stat(int rc, const struct stat *st, struct pev_stat *out)
{
	if (rc < 0)
		return -errno;
	*out = (struct pev_stat){ .dev = st->st_dev, .ino = st->st_ino, .mode = st->st_mode,
				  .uid = st->st_uid, .size = (uint64_t)st->st_size };
	return 0;
}

static int linux_fstat(void *ctx, int fd, struct pev_stat *out)
{
	struct stat st;

	(void)ctx;
	return set_stat(fstat(fd, &st), &st, out);
}

static int linux_rename(void *ctx, const char *from, const char *to)
{
	(void)ctx;
	return check_errno(rename(from, to));
}

static int linux_unlink(void *ctx, const char *path)
{
	(void)ctx;
	return check_errno(unlink(path));
}

static int linux_close(void *ctx, int fd)
{
	(void)ctx;
	/* No second try: the descriptor is closed even on EINTR (close(2), NOTES). */
	return check_errno(close(fd));
}

static int linux_fcntl(void *ctx, int fd, int cmd, int arg)
{
	(void)ctx;
	return check_errno(fcntl(fd, cmd, arg));
}

static int linux_epoll_create(void *ctx)
{
	(void)ctx;
	return check_errno(epoll_create1(EPOLL_CLOEXEC));
}

static int linux_epoll_ctl(void *ctx, int epfd, int op, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	(void)ctx;
	return check_errno(epoll_ctl(epfd, op, fd, &ev));
}

static int linux_epoll_wait(void *ctx, int epfd, struct epoll_event *events, int max,
			    int timeout_ms)
{
	(void)ctx;
	return check_errno(epoll_wait(epfd, events, max, timeout_ms));
}

static struct timespec timespec_of(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};

	return ts;
}

static int linux_timerfd(void *ctx, uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec when = {
		/* An all-zero first expiry would disarm the timer. */
		.it_value = timespec_of(first_ns ? first_ns : 1),
		.it_interval = timespec_of(every_ns),
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int rc;

	(void)ctx;
	if (fd < 0)
		return -errno;
	if (timerfd_settime(fd, 0, &when, NULL) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

static void sigset_of(sigset_t *set, uint64_t signals)
{
	sigemptyset(set);
	for (int sig = 1; sig <= 64; sig++)
		if (signals >> (sig - 1) & 1)
			sigaddset(set, sig);
}

static int linux_signalfd(void *ctx, uint64_t signals)
{
	sigset_t set;

	(void)ctx;
	sigset_of(&set, signals);
	return check_errno(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

static int linux_sigblock(void *ctx, uint64_t signals, int block, uint64_t *changed)
{
	sigset_t set, old;
	int rc;

	(void)ctx;
	sigset_of(&set, signals);
	rc = pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
	if (rc)
		return -rc;
	*changed = 0;
	for (int sig = 1; sig <= 64; sig++)
		if ((signals >> (sig - 1) & 1) && sigismember(&old, sig) == !block)
			*changed |= UINT64_C(1) << (sig - 1);
	return 0;
}

/* The soft limit of open files before raise_nofile raised it; 0: it did not. */
static rlim_t nofile_before;

/* For commands that use select(), or close every descriptor up to the limit. */
static void lower_nofile(void)
{
	struct rlimit limit;

	if (!nofile_before || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    nofile_before > limit.rlim_max)
		return;
	limit.rlim_cur = nofile_before;
	setrlimit(RLIMIT_NOFILE, &limit);
}

enum { GO = 'g', GO_AND_STOP = 's' }; /* the byte that releases the gate */

/* In the child: wait for the release, then exec the command or send its errno. */
static void become_command(int gate, char *const *argv, uint64_t unblock)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t set;
	ssize_t n;
	char go;
	int code;

	/* The command ends with this process, however that ends: os.exit(), kill -9. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* A caller of the library may ignore these signals; a command should not inherit that. */
	sigaction(SIGPIPE, &dfl, NULL);
	sigaction(SIGXFSZ, &dfl, NULL);
	lower_nofile();
	sigset_of(&set, unblock);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	do {
		n = read(gate, &go, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(127); /* the parent is gone, or gave up */
	/* A traced exec stops with SIGTRAP once the new image is mapped (ptrace(2)). */
	if (go != GO_AND_STOP || ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
		execvp(argv[0], argv);
	code = errno;
	/* When this fails, the parent has the status. */
	if (send(gate, &code, sizeof(code), MSG_NOSIGNAL) < 0)
		_exit(126);
	_exit(code == ENOENT ? 127 : 126);
}

static int linux_spawn(void *ctx, char *const *argv, uint64_t unblock, struct pev_spawned *out)
{
	int pair[2], pid;

	(void)ctx;
	/* A socket, not a pipe: send(MSG_NOSIGNAL) raises no SIGPIPE. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		int rc = -errno;

		close(pair[0]);
		close(pair[1]);
		return rc;
	}
	if (pid == 0) {
		close(pair[0]);
		become_command(pair[1], argv, unblock);
	}
	close(pair[1]);
	out->pid = pid;
	out->gate = pair[0];
	return 0;
}

static int linux_release(void *ctx, int gate, int stop)
{
	const char go = stop ? GO_AND_STOP : GO;
	int code = 0;
	ssize_t n;

	(void)ctx;
	do {
		n = send(gate, &go, 1, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n == 1) {
		/* exec closes the child's end: 0 bytes mean that it runs. */
		do {
			n = read(gate, &code, sizeof(code));
		} while (n < 0 && errno == EINTR);
	}
	close(gate);
	if (n < 0)
		return -ECHILD;
	return n == sizeof(code) ? -code : 0;
}

static int linux_resume(void *ctx, int pid)
{
	(void)ctx;
	return check_errno(ptrace(PTRACE_DETACH, pid, NULL, NULL));
}

static int linux_pidfd_open(void *ctx, int pid)
{
	(void)ctx;
	return check_errno(syscall(SYS_pidfd_open, pid, 0));
}

static int linux_wait(void *ctx, int pid, int block, int *status)
{
	int rc;

	(void)ctx;
	do {
		rc = check_errno(waitpid(pid, status, block ? 0 : WNOHANG));
	} while (rc == -EINTR);
	return rc;
}

static int linux_kill(void *ctx, int pid, int sig)
{
	(void)ctx;
	return check_errno(kill(pid, sig));
}

static int slurp_fd(int fd, char **text, size_t *len)
{
	size_t cap = 4096, used = 0;
	char *buf = malloc(cap);
	int rc = -ENOMEM;

	while (buf) {
		ssize_t n = read(fd, buf + used, cap - used - 1);
		char *more;

		/* A pipe in the place of a file has SLURP_WAIT_MS to fill. */
		if (n < 0 && (errno == EINTR ||
			      (errno == EAGAIN && poll_fd(fd, POLLIN, SLURP_WAIT_MS) > 0)))
			continue;
		if (n < 0) {
			rc = -errno;
			break;
		}
		if (n == 0) {
			buf[used] = '\0';
			*text = buf;
			*len = used;
			return 0;
		}
		used += (size_t)n;
		if (used + 1 < cap)
			continue;
		if (cap >= SLURP_MAX) {
			rc = -EFBIG;
			break;
		}
		more = realloc(buf, cap * 2);
		if (!more)
			break;
		buf = more;
		cap *= 2;
	}
	free(buf);
	return rc;
}

static int linux_slurp(void *ctx, const char *path, char **text, size_t *len)
{
	int fd, rc;

	(void)ctx;
	fd = open_path(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return fd;
	rc = slurp_fd(fd, text, len);
	close(fd);
	return rc;
}

/*
 * The offsets that a time namespace adds to CLOCK_MONOTONIC and CLOCK_BOOTTIME
 * (time_namespaces(7)). The kernel stamps records without them; linux_clock() subtracts them.
 */
static struct {
	int64_t monotonic, boottime; /* ns */
} clock_offset;

static int64_t parse_offset(const char *text, const char *clock)
{
	const char *line = strstr(text, clock);
	long long s, ns;

	if (!line || sscanf(line + strlen(clock), "%lld %lld", &s, &ns) != 2)
		return 0;
	return (int64_t)s * 1000000000 + ns;
}

static void read_clock_offset(void)
{
	char *text = NULL;
	size_t len;

	/* Linux 5.6; the offsets stay 0 without the file. */
	if (linux_slurp(NULL, "/proc/self/timens_offsets", &text, &len) < 0 || !text)
		return;
	clock_offset.monotonic = parse_offset(text, "monotonic");
	clock_offset.boottime = parse_offset(text, "boottime");
	free(text);
}

static int64_t get_clock_offset(int clockid)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_clock_offset);
	switch (clockid) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
		return clock_offset.monotonic;
	case CLOCK_BOOTTIME:
		return clock_offset.boottime;
	default:
		return 0;
	}
}

static int linux_clock(void *ctx, int clockid, uint64_t *ns)
{
	struct timespec ts;

	(void)ctx;
	if (clock_gettime(clockid, &ts) < 0)
		return -errno;
	*ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec -
	      (uint64_t)get_clock_offset(clockid);
	return 0;
}

static int append_name(char **names, size_t *used, size_t *cap, const char *name)
{
	size_t need = strlen(name) + 1;

	if (*used + need > *cap) {
		size_t grown = (*cap + need) * 2;
		char *more = realloc(*names, grown);

		if (!more)
			return -ENOMEM;
		*names = more;
		*cap = grown;
	}
	memcpy(*names + *used, name, need);
	*used += need;
	return 0;
}

static int linux_directory(void *ctx, const char *path)
{
	(void)ctx;
	return open_path(path, O_RDONLY | O_DIRECTORY);
}

static int linux_list(void *ctx, const char *path, char **names, size_t *len)
{
	size_t used = 0, cap = 1024;
	struct dirent *entry;
	char *buf;
	DIR *dir;
	int rc, fd = open_path(path, O_RDONLY | O_DIRECTORY);

	(void)ctx;
	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		rc = -errno;
		close(fd);
		return rc;
	}
	buf = malloc(cap);
	rc = buf ? 0 : -ENOMEM;
	while (!rc) {
		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			rc = -errno;
			break;
		}
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			rc = append_name(&buf, &used, &cap, entry->d_name);
	}
	closedir(dir);
	if (rc) {
		free(buf);
		return rc;
	}
	*names = buf;
	*len = used;
	return 0;
}

/* Without O_TRUNC, which would remove the probes of all users from tracefs, and without O_CREAT. */
static int linux_append(void *ctx, const char *path, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;
	int fd, rc;

	(void)ctx;
	do {
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -errno;
	/* No second try after EINTR: the kernel may have taken the definition. */
	n = write(fd, text, len);
	rc = n < 0 ? -errno : 0;
	if (n >= 0 && (size_t)n != len)
		rc = -EIO;
	close(fd);
	return rc;
}

static int linux_raise_nofile(void *ctx)
{
	struct rlimit limit;

	(void)ctx;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	if (limit.rlim_cur < limit.rlim_max) {
		rlim_t before = limit.rlim_cur;

		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			return -errno;
		nofile_before = before;
	}
	return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int)limit.rlim_cur;
}

static int linux_getpid(void *ctx)
{
	(void)ctx;
	return getpid();
}

static int linux_prctl(void *ctx, int option)
{
	(void)ctx;
	return check_errno(prctl(option, 0, 0, 0, 0));
}

static int linux_capset(void *ctx, uint64_t keep)
{
	(void)ctx;
	return pev_rights_keep(keep);
}

static int linux_readlink(void *ctx, const char *path, char *buf, size_t cap)
{
	int n;

	(void)ctx;
	pev_rights_raise(pev_rights_of_path(path));
	n = check_errno(readlink(path, buf, cap));
	pev_rights_lower();
	return n;
}

static int linux_stat(void *ctx, const char *path, struct pev_stat *out)
{
	struct stat st;
	int rc;

	(void)ctx;
	if (find_root_prefix(path)) {
		int fd = open_path(path, O_PATH);

		rc = fd < 0 ? fd : set_stat(fstat(fd, &st), &st, out);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	pev_rights_raise(pev_rights_of_path(path));
	rc = stat(path, &st);
	pev_rights_lower();
	return set_stat(rc, &st, out);
}

static int linux_pagesize(void *ctx)
{
	(void)ctx;
	return (int)sysconf(_SC_PAGESIZE);
}

/* Faults unless the kernel allows it: the caller checks cap_user_rdpmc in the mapped page. */
static int linux_rdpmc(void *ctx, uint32_t counter, uint64_t *value)
{
	(void)ctx;
	return pev_rdpmc(counter, value);
}

static int linux_rdtsc(void *ctx, uint64_t *cycles)
{
	(void)ctx;
	return pev_rdtsc(cycles);
}

/* rights.c has those that give up rights. */
#define linux_drop_rights pev_rights_drop
#define linux_no_new_privs pev_rights_no_new_privs
#define linux_landlock_abi pev_rights_landlock_abi
#define linux_landlock_ruleset pev_rights_landlock_ruleset
#define linux_landlock_allow pev_rights_landlock_allow
#define linux_landlock_restrict pev_rights_landlock_restrict

const struct pev_sys pev_sys_linux = {
#define CALL(type, name, answer, returns, text, ...) .name = linux_##name,
#include "base/sys_calls.h"
};

const struct pev_sys *pev_sys_real = &pev_sys_linux;

unsigned pev_sys_this_process = 1;

static void count_fork(void)
{
	pev_sys_this_process++;
}

static void watch_forks(void)
{
	/* Fails only without memory; forks then go unnoticed. */
	pthread_atfork(NULL, NULL, count_fork);
}

unsigned pev_sys_process(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	return pev_sys_this_process;
}

/* "0-2,5" -> 0 1 2 5; -EBADMSG for any other text. */
static int parse_list(const char *text, int **out)
{
	int nr = 0, *list = NULL;
	uint32_t cap = 0;

	while (*text >= '0' && *text <= '9') {
		char *end;
		long first = strtol(text, &end, 10), last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (last < first || last >= 1 << 16)
			break;
		for (; first <= last; first++) {
			if (!pev_list_reserve(&list, &cap, (uint64_t)nr + 1, sizeof(*list))) {
				free(list);
				return -ENOMEM;
			}
			list[nr++] = (int)first;
		}
		text = *end == ',' ? end + 1 : end;
	}
	if (nr == 0) {
		free(list);
		return -EBADMSG;
	}
	*out = list;
	return nr;
}

int pev_sys_cpus(const struct pev_sys *sys, int **cpus)
{
	char *text;
	size_t len;
	int rc = sys->slurp(sys->ctx, "/sys/devices/system/cpu/online", &text, &len);

	if (rc < 0)
		return rc;
	rc = parse_list(text, cpus);
	free(text);
	return rc;
}

static int compare_int(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

int pev_sys_threads(const struct pev_sys *sys, int pid, int **tids)
{
	char path[64], *names;
	size_t len;
	int rc, nr = 0, *list;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	rc = sys->list(sys->ctx, path, &names, &len);
	if (rc < 0)
		return rc == -ENOENT ? -ESRCH : rc;
	/* A name is at least one digit and a NUL. */
	list = malloc(sizeof(*list) * (len / 2 + 1));
	for (size_t i = 0; list && i < len; i += strlen(names + i) + 1)
		list[nr++] = (int)strtol(names + i, NULL, 10);
	free(names);
	if (!list)
		return -ENOMEM;
	if (nr == 0) {
		free(list);
		return -ESRCH;
	}
	qsort(list, (size_t)nr, sizeof(*list), compare_int);
	*tids = list;
	return nr;
}

int pev_sys_signal(const struct pev_sys *sys, int fd, int signal)
{
	int flags = sys->fcntl(sys->ctx, fd, F_GETFL, 0), rc = 0;

	if (flags < 0)
		return flags;
	/* Set owner and signal first: with O_ASYNC alone the kernel signals no process. */
	if (signal)
		rc = sys->fcntl(sys->ctx, fd, F_SETOWN, sys->getpid(sys->ctx));
	if (rc >= 0 && signal)
		rc = sys->fcntl(sys->ctx, fd, F_SETSIG, signal);
	if (rc >= 0)
		rc = sys->fcntl(sys->ctx, fd, F_SETFL,
				signal ? flags | O_ASYNC : flags & ~O_ASYNC);
	return rc < 0 ? rc : 0;
}

int64_t pev_sys_number(const struct pev_sys *sys, const char *path)
{
	char *text, *end;
	size_t len;
	long value;
	int rc = sys->slurp(sys->ctx, path, &text, &len);

	if (rc < 0)
		return rc;
	value = strtol(text, &end, 10);
	rc = end == text ? -EBADMSG : 0;
	free(text);
	return rc ? rc : value;
}
