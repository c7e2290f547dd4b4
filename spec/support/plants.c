/*
 * plants.c - a program of which each argument adds one action to the same work: plant_NAME()
 * makes one more system call, page faults, or lets another task do so. For budget_spec.lua.
 *
 * With LIBRARY: the library that one of them calls.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLANT __attribute__((noinline, noclone)) void

#ifdef LIBRARY
PLANT plant_library(void)
{
	syscall(SYS_getgid);
}
#else

extern void plant_library(void);

static char buf[256];
static volatile int sink;
static int no_fd = -1, kept_fd;

/* Keeps a call from being the last instruction, which would be a jump without a frame. */
#define CALL(x) (sink += (int)(long)(x))

/* clang-format off */
PLANT plant_openat(void)   { CALL(open("/dev/null", O_RDONLY)); }
PLANT plant_read(void)     { CALL(read(no_fd, buf, 1)); }
PLANT plant_write(void)    { CALL(write(no_fd, buf, 1)); }
PLANT plant_close(void)    { CALL(close(no_fd)); }
PLANT plant_getpid(void)   { CALL(getpid()); }
PLANT plant_getppid(void)  { CALL(getppid()); }
PLANT plant_stat(void)     { struct stat st; CALL(stat("/", &st)); }
PLANT plant_access(void)   { CALL(access("/", R_OK)); }
PLANT plant_pipe(void)     { int fds[2]; CALL(pipe2(fds, O_CLOEXEC)); }
PLANT plant_dup(void)      { CALL(dup(no_fd)); }
PLANT plant_fcntl(void)    { CALL(fcntl(no_fd, F_GETFD)); }
PLANT plant_ioctl(void)    { CALL(ioctl(no_fd, 0)); }
PLANT plant_socket(void)   { CALL(socket(AF_UNIX, SOCK_STREAM, 0)); }
PLANT plant_sendto(void)   { CALL(send(no_fd, buf, 1, 0)); }
PLANT plant_poll(void)     { CALL(poll(NULL, 0, 0)); }
PLANT plant_select(void)   { struct timeval t = { 0 }; CALL(select(0, NULL, NULL, NULL, &t)); }
PLANT plant_affinity(void) { cpu_set_t set; CALL(sched_getaffinity(0, sizeof(set), &set)); }
PLANT plant_uname(void)    { struct utsname u; CALL(uname(&u)); }
PLANT plant_getcwd(void)   { CALL(getcwd(buf, sizeof(buf)) != NULL); }
PLANT plant_chdir(void)    { CALL(chdir(".")); }
PLANT plant_readlink(void) { CALL(readlink("/proc/self", buf, sizeof(buf))); }
PLANT plant_unlink(void)   { CALL(unlink("/nonexistent/file")); }
PLANT plant_random(void)   { CALL(getrandom(buf, 1, 0)); }
PLANT plant_sigaction(void) { CALL(signal(SIGUSR2, SIG_IGN) == SIG_ERR); }
PLANT plant_kill(void)     { CALL(kill(1 << 30, 0)); }
PLANT plant_nanosleep(void) { struct timespec t = { 0, 1000 }; CALL(nanosleep(&t, NULL)); }
PLANT plant_futex(void)    { CALL(syscall(SYS_futex, &sink, FUTEX_WAKE, 1, NULL, NULL, 0)); }
PLANT plant_rusage(void)   { struct rusage u; CALL(getrusage(RUSAGE_SELF, &u)); }
/* clang-format on */

PLANT plant_mmap(void)
{
	kept_fd = open("/proc/self/exe", O_RDONLY);
	CALL(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, kept_fd, 0));
}

PLANT plant_faults(void)
{
	const size_t page = 4096, pages = 256;
	volatile char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, no_fd, 0);
	madvise((void *)memory, pages * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		memory[i * page] = 1;
	sink++;
}

PLANT plant_deep(int depth)
{
	if (depth > 0)
		plant_deep(depth - 1);
	else
		CALL(syscall(SYS_getuid));
	sink++;
}

PLANT plant_child(void)
{
	int pid = fork(), status;

	if (pid == 0) {
		CALL(syscall(SYS_geteuid));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	sink++;
}

static void *plant_thread(void *arg)
{
	struct sysinfo info;

	CALL(sysinfo(&info));
	return arg;
}

static void start_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, plant_thread, NULL);
	pthread_join(thread, NULL);
}

static void on_signal(int number)
{
	(void)number;
}

/* One read(2) that `times` signals interrupt. */
static void read_interrupted(int times)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int fds[2], status;

	sigaction(SIGUSR1, &action, NULL);
	if (pipe(fds) < 0)
		return;
	int pid = fork();
	if (pid == 0) {
		for (int i = 0; i < times; i++) {
			kill(getppid(), SIGUSR1);
			usleep(100);
		}
		sink = (int)write(fds[1], "x", 1);
		_exit(0);
	}
	CALL(read(fds[0], buf, 1));
	while (waitpid(pid, &status, 0) < 0)
		;
}

__attribute__((noinline, noclone)) static void deep(void)
{
	plant_deep(60);
	sink++;
}

static const struct {
	const char *name;
	void (*plant)(void);
} plants[] = {
	{ "openat", plant_openat },
	{ "read", plant_read },
	{ "write", plant_write },
	{ "close", plant_close },
	{ "getpid", plant_getpid },
	{ "getppid", plant_getppid },
	{ "stat", plant_stat },
	{ "access", plant_access },
	{ "pipe", plant_pipe },
	{ "dup", plant_dup },
	{ "fcntl", plant_fcntl },
	{ "ioctl", plant_ioctl },
	{ "socket", plant_socket },
	{ "sendto", plant_sendto },
	{ "poll", plant_poll },
	{ "select", plant_select },
	{ "affinity", plant_affinity },
	{ "uname", plant_uname },
	{ "getcwd", plant_getcwd },
	{ "chdir", plant_chdir },
	{ "readlink", plant_readlink },
	{ "unlink", plant_unlink },
	{ "random", plant_random },
	{ "sigaction", plant_sigaction },
	{ "kill", plant_kill },
	{ "nanosleep", plant_nanosleep },
	{ "futex", plant_futex },
	{ "rusage", plant_rusage },
	{ "mmap", plant_mmap },
	{ "faults", plant_faults },
	{ "deep", deep },
	{ "library", plant_library },
	{ "child", plant_child },
	{ "thread", start_thread },
};

static void work(void)
{
	for (int i = 0; i < 3; i++) {
		int fd = open("/etc/passwd", O_RDONLY);
		CALL(read(fd, buf, sizeof(buf)));
		CALL(close(fd));
	}
	syscall(SYS_getpid);
}

int main(int argc, char **argv)
{
	const char *plant = argc > 1 ? argv[1] : "none";

	work();
	if (strcmp(plant, "interrupted") == 0)
		read_interrupted(argc > 2 ? atoi(argv[2]) : 0);
	for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++)
		if (strcmp(plant, plants[i].name) == 0)
			plants[i].plant();
	return 0;
}
#endif
