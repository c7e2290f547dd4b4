/*
 * live.c - a minimal reader of a command's tracepoint from its rings.
 * live PAGES [FILE] -- command...
 *
 * Has a ring on each CPU, with a wakeup when it is half full. Counts samples by their headers, or
 * writes the ring to FILE unchanged. Prints the number of samples. bench/rows/3-live.lua compares
 * other readers to it.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPUS_MAX 256
#define EVENT "/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id"

struct ring {
	struct perf_event_mmap_page *page;
	unsigned char *data;
};

static struct pollfd fds[CPUS_MAX];
static struct ring rings[CPUS_MAX];
static int nr;
static size_t size;
static uint64_t samples;
static int out = -1;

static void write_all(const unsigned char *bytes, size_t len)
{
	while (out >= 0 && len) {
		ssize_t n = write(out, bytes, len);

		if (n <= 0)
			exit(1);
		bytes += n;
		len -= (size_t)n;
	}
}

static void drain_ring(struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, at = tail;
	size_t first = size - (tail & (size - 1));

	while (at < head) {
		struct perf_event_header header;

		/* A header has 8 bytes, at a multiple of 8. */
		memcpy(&header, ring->data + (at & (size - 1)), sizeof(header));
		samples += header.type == PERF_RECORD_SAMPLE;
		at += header.size;
	}
	if (first > head - tail)
		first = head - tail;
	write_all(ring->data + (tail & (size - 1)), first);
	write_all(ring->data, head - tail - first);
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

static int open_on(int cpu, pid_t pid, size_t pages)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
		.disabled = 1,
		.inherit = 1,
		.watermark = 1,
	};
	FILE *id = fopen(EVENT, "re");
	long page = sysconf(_SC_PAGESIZE);

	if (!id || fscanf(id, "%llu", &attr.config) != 1)
		return -1;
	fclose(id);
	size = pages * (size_t)page;
	attr.wakeup_watermark = (uint32_t)(size / 2);
	fds[nr].fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	fds[nr].events = POLLIN;
	if (fds[nr].fd < 0)
		return -1;
	rings[nr].page = mmap(NULL, size + (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fds[nr].fd, 0);
	if (rings[nr].page == MAP_FAILED)
		return -1;
	rings[nr].data = (unsigned char *)rings[nr].page + page;
	nr++;
	return 0;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int go[2], status, command = 2;
	pid_t pid;

	if (argc > 3 && strcmp(argv[2], "--")) {
		out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		command = 3;
	}
	if (argc < command + 2 || pipe2(go, O_CLOEXEC) < 0)
		return 2;
	pid = fork();
	if (pid == 0) {
		char byte;

		if (read(go[0], &byte, 1) == 1)
			execvp(argv[command + 1], argv + command + 1);
		_exit(127);
	}
	for (int cpu = 0; cpu < cpus && cpu < CPUS_MAX; cpu++)
		if (open_on(cpu, pid, strtoul(argv[1], NULL, 0)) < 0) {
			perror("live");
			return 1;
		}
	for (int i = 0; i < nr; i++)
		ioctl(fds[i].fd, PERF_EVENT_IOC_ENABLE, 0);
	if (write(go[1], "", 1) != 1)
		return 1;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		poll(fds, (nfds_t)nr, 100);
		for (int i = 0; i < nr; i++)
			drain_ring(&rings[i]);
	}
	for (int i = 0; i < nr; i++)
		drain_ring(&rings[i]);
	printf("%llu\n", (unsigned long long)samples);
	return 0;
}
