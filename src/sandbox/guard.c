/*
 * guard.c - refuses calls that a sandboxed script must not cause; see guard.h.
 */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "sandbox/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"

enum { MAX_FILES = 8, MAX_KEPT = 4 };

static const char *const probe_lists[] = { "uprobe_events", "kprobe_events" };
#define NR_LISTS (sizeof(probe_lists) / sizeof(probe_lists[0]))

/* One for the process, like pev_sys_real. */
static struct {
	char *files[MAX_FILES];
	char **command; /* ends with NULL; NULL once it is started */
	int pid;
	bool refuses_events;
	struct {
		char *path;
		int fd;
	} kept[MAX_KEPT];
} guard;

/* True for "", ".old" and ".PID.new" (output_file.h). */
static bool is_output_suffix(const char *text)
{
	size_t digits = *text == '.' ? strspn(text + 1, "0123456789") : 0;

	return !*text || strcmp(text, ".old") == 0 ||
	       (digits && strcmp(text + 1 + digits, ".new") == 0);
}

static bool may_write(const char *path)
{
	for (int i = 0; i < MAX_FILES && guard.files[i]; i++) {
		size_t len = strlen(guard.files[i]);

		if (strncmp(path, guard.files[i], len) == 0 && is_output_suffix(path + len))
			return true;
	}
	return false;
}

/* The descriptor of a file that was kept open, or -1. */
static int kept_file(const char *path)
{
	for (int i = 0; i < MAX_KEPT && guard.kept[i].path; i++)
		if (strcmp(path, guard.kept[i].path) == 0)
			return guard.kept[i].fd;
	return -1;
}

static int guard_open(void *ctx, const char *path, int flags)
{
	const int writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

	if (!(flags & writes))
		return pev_sys_linux.open(ctx, path, flags);
	if (!may_write(path))
		return -EPERM;
	if (kept_file(path) >= 0)
		return pev_sys_linux.fcntl(ctx, kept_file(path), F_DUPFD_CLOEXEC, 0);
	return pev_sys_linux.open(ctx, path, flags);
}

static int guard_rename(void *ctx, const char *from, const char *to)
{
	return may_write(from) && may_write(to) ? pev_sys_linux.rename(ctx, from, to) : -EPERM;
}

static int guard_unlink(void *ctx, const char *path)
{
	return may_write(path) ? pev_sys_linux.unlink(ctx, path) : -EPERM;
}

static bool is_probe_list(const char *path)
{
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < NR_LISTS; i++)
		if (strcmp(name + 1, probe_lists[i]) == 0)
			return strncmp(path, "/sys/kernel/", 12) == 0 && !strstr(path, "/../");
	return false;
}

static int guard_event(void *ctx, struct pev_attr *attr, int pid, int cpu, int group,
		       unsigned long flags)
{
	if (guard.refuses_events || attr->flags & PEV_ATTR_SIGTRAP) /* it ends tasks */
		return -EACCES;
	return pev_sys_linux.perf_event_open(ctx, attr, pid, cpu, group, flags);
}

static int guard_append(void *ctx, const char *path, const char *text)
{
	const struct iovec line = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
	int fd = kept_file(path);
	int64_t n;

	if (fd < 0)
		return is_probe_list(path) && !guard.refuses_events ?
		       pev_sys_linux.append(ctx, path, text) : -EPERM;
	n = pev_sys_linux.writev(ctx, fd, &line, 1);
	return n < 0 ? (int)n : 0;
}

static bool is_command(char *const *words)
{
	size_t i = 0;

	if (!guard.command)
		return false;
	while (words[i] && guard.command[i] && strcmp(words[i], guard.command[i]) == 0)
		i++;
	return !words[i] && !guard.command[i];
}

static void free_command(void)
{
	for (char **word = guard.command; word && *word; word++)
		free(*word);
	free(guard.command);
	guard.command = NULL;
}

static int guard_spawn(void *ctx, char *const *words, uint64_t unblock, struct pev_spawned *out)
{
	int rc;

	if (!is_command(words))
		return -EPERM;
	rc = pev_sys_linux.spawn(ctx, words, unblock, out);
	if (rc >= 0) {
		guard.pid = out->pid;
		free_command();
	}
	return rc;
}

static int guard_kill(void *ctx, int pid, int signal)
{
	return pid > 0 && pid == guard.pid ? pev_sys_linux.kill(ctx, pid, signal) : -EPERM;
}

void pev_guard_start(void)
{
	static struct pev_sys table;

	table = pev_sys_linux;
	table.perf_event_open = guard_event;
	table.open = guard_open;
	table.rename = guard_rename;
	table.unlink = guard_unlink;
	table.append = guard_append;
	table.spawn = guard_spawn;
	table.kill = guard_kill;
	pev_sys_real = &table;
}

void pev_guard_refuse_events(void)
{
	guard.refuses_events = true;
}

int pev_guard_allow_file(const char *path)
{
	for (int i = 0; i < MAX_FILES; i++) {
		if (guard.files[i])
			continue;
		guard.files[i] = strdup(path);
		return guard.files[i] ? 0 : -ENOMEM;
	}
	return -ENOMEM;
}

int pev_guard_allow_command(char *const *words)
{
	size_t nr = 0;

	free_command();
	while (words[nr])
		nr++;
	guard.command = calloc(nr + 1, sizeof(*guard.command));
	for (size_t i = 0; guard.command && i < nr; i++) {
		guard.command[i] = strdup(words[i]);
		if (!guard.command[i])
			free_command();
	}
	return guard.command ? 0 : -ENOMEM;
}

int pev_guard_command(void)
{
	return guard.pid;
}

void pev_guard_keep_open(const char *path)
{
	int i = 0, fd;

	while (i < MAX_KEPT && guard.kept[i].path)
		i++;
	if (i == MAX_KEPT)
		return;
	fd = pev_sys_linux.open(NULL, path, is_probe_list(path) ? O_WRONLY | O_APPEND : O_RDWR);
	if (fd < 0)
		return;
	guard.kept[i].fd = fd;
	guard.kept[i].path = strdup(path);
	if (!guard.kept[i].path)
		pev_sys_linux.close(NULL, fd);
}
