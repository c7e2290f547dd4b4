/* files.c - planted causes in files and memory: the disk, a directory, pages */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "causes.h"

enum { PAGE = 4096, EXTENT = 64 * PAGE, FILE_PAGES = 8192 };

static char *block; /* aligned */
static int data_file;

static void write_block(int fd)
{
	if (write(fd, block, PAGE) != PAGE) {
		perror("causes: write");
		exit(2);
	}
}

static void fill_file(int flags)
{
	block = check(aligned_alloc(PAGE, EXTENT), "malloc");
	memset(block, 'x', EXTENT);
	data_file = open_file("data", O_RDWR | O_CREAT | O_TRUNC);
	for (int i = 0; i < FILE_PAGES; i++)
		write_block(data_file);
	fsync(data_file);
	close(data_file);
	data_file = open_file("data", flags);
}

/* ---- fsync ---- */

SEPARATE static void commit_order(int times)
{
	for (int i = 0; i < times; i++) {
		write_block(data_file);
		if (times > 1)
			fsync(data_file);
	}
}

static void prepare_fsync(void) { fill_file(O_WRONLY | O_APPEND); }

static void serve_fsync(bool slow) { commit_order(slow ? 100 : 1); }

/* ---- direct: reads past the page cache ---- */

SEPARATE static void load_extent(int times)
{
	for (int i = 0; i < times; i++) {
		off_t offset = (off_t)random_below(FILE_PAGES / 64) * EXTENT;

		if (pread(data_file, block, EXTENT, offset) != EXTENT)
			exit(2);
	}
}

static void prepare_direct(void) { fill_file(O_RDONLY | O_DIRECT); }

static void serve_direct(bool slow) { load_extent(slow ? 100 : 1); }

/* ---- log: a lock inside, held while the line goes to the disk ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

SEPARATE static void write_out(int lines)
{
	for (int i = 0; i < lines; i++)
		write_block(data_file);
}

SEPARATE static void log_line(int lines)
{
	pthread_mutex_lock(&log_lock);
	write_out(lines);
	pthread_mutex_unlock(&log_lock);
}

static void hold_log(unsigned us)
{
	pthread_mutex_lock(&log_lock);
	helper_is_ready();
	nap(us);
	pthread_mutex_unlock(&log_lock);
}

static void prepare_log(void)
{
	fill_file(O_WRONLY | O_APPEND | O_SYNC);
	make_helper(hold_log);
}

/* Some calls of both kinds wait a little for the lock. */
static void serve_log(bool slow)
{
	if (random_below(4) == 0)
		start_helper(500);
	if (slow || random_below(20) == 0)
		log_line(slow ? 100 : 1);
}

/* ---- directory ---- */

static int directory_of[2];

static void prepare_directory(void)
{
	char name[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "%05d", i);
		close(open_file(name, O_WRONLY | O_CREAT));
	}
	directory_of[1] = open(directory, O_RDONLY | O_DIRECTORY);
	directory_of[0] = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
}

SEPARATE static void list_spool(int fd, int times)
{
	static char entries[1 << 16];

	for (int i = 0; i < times; i++) {
		lseek(fd, 0, SEEK_SET);
		while (syscall(SYS_getdents64, fd, entries, sizeof(entries)) > 0)
			;
	}
}

static void serve_directory(bool slow) { list_spool(directory_of[slow], slow ? 40 : 2); }

/* ---- faults: fresh memory; the fast calls touch used memory as often ---- */

enum { INDEX_PAGES = 12288 };
static char *used_memory;

static char *new_memory(void)
{
	char *p = map_memory((size_t)INDEX_PAGES * PAGE);

	madvise(p, (size_t)INDEX_PAGES * PAGE, MADV_NOHUGEPAGE);
	return p;
}

SEPARATE static void build_index(char *p)
{
	for (size_t i = 0; i < INDEX_PAGES; i++)
		p[i * PAGE] = 1;
}

static void prepare_faults(void)
{
	used_memory = new_memory();
	build_index(used_memory);
}

static void serve_faults(bool slow)
{
	char *p = slow ? new_memory() : used_memory;

	build_index(p);
	if (slow)
		munmap(p, (size_t)INDEX_PAGES * PAGE);
}

/* ---- major: pages of a file that left the page cache ---- */

static const char *catalog;

static void prepare_major(void)
{
	fill_file(O_RDONLY);
	catalog = check(mmap(NULL, (size_t)FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, data_file, 0),
			"mmap");
	madvise((void *)(size_t)catalog, (size_t)FILE_PAGES * PAGE, MADV_RANDOM);
}

SEPARATE static int read_catalog(int pages)
{
	int sum = 0;

	for (int i = 0; i < pages; i++)
		sum += catalog[(size_t)i * 37 % FILE_PAGES * PAGE];
	return sum;
}

static void serve_major(bool slow)
{
	if (slow) {
		madvise((void *)(size_t)catalog, (size_t)FILE_PAGES * PAGE, MADV_DONTNEED);
		posix_fadvise(data_file, 0, 0, POSIX_FADV_DONTNEED);
	}
	read_catalog(200);
}

const struct cause files[] = {
	{ "fsync", prepare_fsync, serve_fsync },
	{ "direct", prepare_direct, serve_direct },
	{ "log", prepare_log, serve_log },
	{ "directory", prepare_directory, serve_directory },
	{ "faults", prepare_faults, serve_faults },
	{ "major", prepare_major, serve_major },
	{ 0 },
};
