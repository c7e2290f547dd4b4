/*
 * cgroup.c - paths of cgroups by their ids; see cgroup.h.
 *
 * Perf events use cgroup v1's perf_event if it is mounted, else cgroup2
 * (Documentation/admin-guide/cgroup-v2.rst). On 64-bit kernels an id is the inode number of the
 * directory: cgroup_id() returns kernfs_id(), as kernfs_get_inode() does.
 */
#include "task/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CGROUPS_MAX 65536u
#define DEPTH_MAX 64

void pev_cgroups_free(struct pev_cgroups *cgroups)
{
	for (uint32_t i = 0; i < cgroups->cap; i++)
		free(cgroups->slots[i].path);
	free(cgroups->slots);
	*cgroups = (struct pev_cgroups){ 0 };
}

/* The place of an id, or the free place for it. */
static struct pev_cgroup *find_place(const struct pev_cgroups *cgroups, uint64_t id)
{
	uint32_t mask = cgroups->cap - 1;
	uint32_t at = (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

	while (cgroups->slots[at].path && cgroups->slots[at].id != id)
		at = (at + 1) & mask;
	return &cgroups->slots[at];
}

static int grow(struct pev_cgroups *cgroups)
{
	struct pev_cgroups grown = { .cap = cgroups->cap ? cgroups->cap * 2 : 64 };

	grown.slots = calloc(grown.cap, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < cgroups->cap; i++)
		if (cgroups->slots[i].path)
			*find_place(&grown, cgroups->slots[i].id) = cgroups->slots[i];
	grown.nr = cgroups->nr;
	free(cgroups->slots);
	*cgroups = grown;
	return 0;
}

int pev_cgroups_set(struct pev_cgroups *cgroups, uint64_t id, const char *path, size_t len)
{
	struct pev_cgroup *place;
	char *copy;

	if (cgroups->nr >= cgroups->cap / 2 && grow(cgroups) < 0)
		return -ENOMEM;
	place = find_place(cgroups, id);
	if (!place->path && cgroups->nr >= CGROUPS_MAX)
		return 0;
	copy = strndup(path, len);
	if (!copy)
		return -ENOMEM;
	cgroups->nr += !place->path;
	free(place->path);
	place->id = id;
	place->path = copy;
	return 0;
}

/* ---- the directories ---- */

/* Copies the word at *line, and moves it to the next one. False: it is too long, or the last. */
static bool take_word(const char **line, char *word, size_t cap)
{
	size_t len = strcspn(*line, " \n");

	if (len >= cap || (*line)[len] != ' ')
		return false;
	memcpy(word, *line, len);
	word[len] = '\0';
	*line += len + 1;
	return true;
}

/* True if a list with commas has the word. */
static bool has_option(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
		if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	return false;
}

/* A line of /proc/mounts: the words after the device. */
struct mount {
	char path[PATH_MAX], type[32], options[1024];
};

static bool read_mount(const char *line, struct mount *mount)
{
	line += strcspn(line, " \n");
	line += *line == ' ';
	return take_word(&line, mount->path, sizeof(mount->path)) &&
	       take_word(&line, mount->type, sizeof(mount->type)) &&
	       take_word(&line, mount->options, sizeof(mount->options));
}

/* Finds the root of the hierarchy that perf events use. False: none is mounted. */
static bool find_root(const struct pev_sys *sys, char root[PATH_MAX])
{
	bool found = false, is_v1 = false;
	struct mount mount;
	char *text;
	size_t len;

	if (sys->slurp(sys->ctx, "/proc/mounts", &text, &len) < 0)
		return false;
	for (const char *line = text; *line && !is_v1; line += *line == '\n') {
		bool is_read = read_mount(line, &mount);

		line += strcspn(line, "\n");
		if (!is_read)
			continue;
		is_v1 = strcmp(mount.type, "cgroup") == 0 &&
			has_option(mount.options, "perf_event");
		if (is_v1 || (!found && strcmp(mount.type, "cgroup2") == 0)) {
			memcpy(root, mount.path, sizeof(mount.path));
			found = true;
		}
	}
	free(text);
	return found;
}

/* The directories that are read; path is that of the current one. */
struct scan {
	struct pev_cgroups *cgroups;
	const struct pev_sys *sys;
	char path[PATH_MAX];
	size_t root; /* bytes of the root's path */
};

static bool is_known(const struct pev_cgroups *cgroups, uint64_t id)
{
	return cgroups->cap && find_place(cgroups, id)->path;
}

/* Adds the cgroup of the current directory, whose path has len bytes, and those below it. */
static void scan_directory(struct scan *scan, size_t len, int depth)
{
	struct pev_stat st;
	char *names;
	size_t nr;

	if (scan->sys->stat(scan->sys->ctx, scan->path, &st) < 0 || !S_ISDIR(st.mode))
		return;
	if (!is_known(scan->cgroups, st.ino)) {
		const char *path = scan->path + scan->root;

		pev_cgroups_set(scan->cgroups, st.ino, *path ? path : "/", PATH_MAX);
	}
	if (depth == DEPTH_MAX || scan->sys->list(scan->sys->ctx, scan->path, &names, &nr) < 0)
		return;
	for (size_t i = 0; i < nr; i += strlen(names + i) + 1) {
		int more = snprintf(scan->path + len, sizeof(scan->path) - len, "/%s", names + i);

		if (more > 0 && (size_t)more < sizeof(scan->path) - len)
			scan_directory(scan, len + (size_t)more, depth + 1);
		scan->path[len] = '\0';
	}
	free(names);
}

const char *pev_cgroups_find(struct pev_cgroups *cgroups, const struct pev_sys *sys, uint64_t id)
{
	struct scan scan = { .cgroups = cgroups, .sys = sys };

	if (is_known(cgroups, id))
		return find_place(cgroups, id)->path;
	if (cgroups->nr < CGROUPS_MAX && find_root(sys, scan.path)) {
		scan.root = strlen(scan.path);
		scan_directory(&scan, scan.root, 0);
		if (is_known(cgroups, id))
			return find_place(cgroups, id)->path;
	}
	snprintf(cgroups->unknown, sizeof(cgroups->unknown), "[cgroup %llu]",
		 (unsigned long long)id);
	pev_cgroups_set(cgroups, id, cgroups->unknown, sizeof(cgroups->unknown));
	return cgroups->unknown;
}

/* ---- /proc/PID/cgroup ---- */

/* "4:cpu,perf_event:/path" or, of cgroup2, "0::/path": proc_cgroup_show(). */
static const char *parse_line(const char *line, bool *is_v1)
{
	const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
	char names[256];
	size_t len;

	if (!path || path > line + strcspn(line, "\n"))
		return NULL;
	len = (size_t)(path - list) - 1;
	if (len >= sizeof(names))
		return NULL;
	memcpy(names, list + 1, len);
	names[len] = '\0';
	*is_v1 = has_option(names, "perf_event");
	return *is_v1 || len == 0 ? path + 1 : NULL;
}

char *pev_cgroup_of_process(const struct pev_sys *sys, int pid)
{
	char file[32], *text, *path = NULL;
	bool is_v1 = false;
	size_t len;

	snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
	if (sys->slurp(sys->ctx, file, &text, &len) < 0)
		return NULL;
	for (const char *line = text; *line && !is_v1; line += *line == '\n') {
		const char *found = parse_line(line, &is_v1);

		if (found) {
			free(path);
			path = strndup(found, strcspn(found, "\n"));
		}
		line += strcspn(line, "\n");
	}
	free(text);
	return path;
}
