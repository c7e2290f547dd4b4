/*
 * maps.c - the executable maps of a process; see maps.h.
 *
 * Contract: perf_event_mmap_event() and perf_event_ksymbol() in kernel/events/core.c,
 * proc_pid_maps(5).
 */
#include "task/maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

#define MAPS_MAX 65536u /* vm.max_map_count is 65530; a process with more has unmapped some */
#define MISC_MMAP_DATA (1 << 13)
#define KSYMBOL_UNREGISTER 1u

struct pev_space {
	uint32_t refs, nr, cap;
	uint64_t version;
	struct pev_map *maps; /* sorted, without overlaps */
	struct pev_jit_dump *jit; /* counted; NULL: no marker was mapped */
};

/* ---- mapped files and memory ---- */

int pev_dsos_init(struct pev_dsos *dsos)
{
	/* Versions are unique among sessions: a session makes fewer than 2^40 changes. */
	static uint64_t sessions;
	uint64_t session = __atomic_add_fetch(&sessions, 1, __ATOMIC_RELAXED);

	*dsos = (struct pev_dsos){ .cap = 256, .versions = session << 40 };
	dsos->chains = calloc(dsos->cap, sizeof(struct pev_dso *));
	return dsos->chains ? 0 : -ENOMEM;
}

void pev_dsos_free(struct pev_dsos *dsos)
{
	for (uint32_t i = 0; dsos->chains && i < dsos->cap; i++)
		for (struct pev_dso *dso = dsos->chains[i]; dso; dso = dso->next)
			dso->of = NULL;
	pev_jit_dumps_free(&dsos->dumps);
	free(dsos->chains);
	*dsos = (struct pev_dsos){ 0 };
}

struct pev_dso *pev_dso_get(struct pev_dso *dso)
{
	if (dso)
		dso->refs++;
	return dso;
}

void pev_dso_put(struct pev_dso *dso)
{
	struct pev_dso **link;

	if (!dso || --dso->refs)
		return;
	if (dso->of) {
		link = &dso->of->chains[dso->hash & (dso->of->cap - 1)];
		while (*link != dso)
			link = &(*link)->next;
		*link = dso->next;
		dso->of->nr--;
	}
	free(dso);
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

/* Includes the pid for anonymous memory only: many processes map one file. */
static uint64_t hash_dso(const struct pev_dso *dso, const char *path, size_t len)
{
	uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), path, len);
	int pid = dso->memory ? dso->pid : 0;

	hash = hash_bytes(hash, &pid, sizeof(pid));
	hash = hash_bytes(hash, &dso->ino, sizeof(dso->ino));
	hash = hash_bytes(hash, &dso->jit.load, sizeof(dso->jit.load));
	return hash_bytes(hash, dso->build_id, dso->build_id_len);
}

static bool is_same(const struct pev_dso *a, const struct pev_dso *b, const char *path, size_t len)
{
	return strlen(a->path) == len && memcmp(a->path, path, len) == 0 &&
	       a->memory == b->memory && a->ksymbol == b->ksymbol &&
	       (!a->memory || a->pid == b->pid) && a->ino == b->ino && a->maj == b->maj &&
	       a->min == b->min && a->generation == b->generation &&
	       a->jit.load == b->jit.load && a->jit.time == b->jit.time &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
}

static void grow_chains(struct pev_dsos *dsos)
{
	uint32_t cap = dsos->cap * 2;
	struct pev_dso **chains = calloc(cap, sizeof(struct pev_dso *));

	/* Without memory the chains stay longer. */
	if (!chains)
		return;
	for (uint32_t i = 0; i < dsos->cap; i++) {
		for (struct pev_dso *dso = dsos->chains[i], *next; dso; dso = next) {
			next = dso->next;
			dso->next = chains[dso->hash & (cap - 1)];
			chains[dso->hash & (cap - 1)] = dso;
		}
	}
	free(dsos->chains);
	dsos->chains = chains;
	dsos->cap = cap;
}

/* Returns a reference to the dso with the facts in key, made if needed. NULL: no memory. */
static struct pev_dso *intern_dso(struct pev_dsos *dsos, const struct pev_dso *key,
				  const char *path, size_t len)
{
	uint64_t hash = hash_dso(key, path, len);
	struct pev_dso *dso = dsos->chains[hash & (dsos->cap - 1)];

	while (dso && !(dso->hash == hash && is_same(dso, key, path, len)))
		dso = dso->next;
	if (dso)
		return pev_dso_get(dso);
	if (dsos->nr >= dsos->cap)
		grow_chains(dsos);
	dso = malloc(sizeof(*dso) + len + 1);
	if (!dso)
		return NULL;
	*dso = *key;
	dso->kept = dso->jit.load; /* it has its name */
	dso->met = 0;
	memcpy(dso->path, path, len);
	dso->path[len] = '\0';
	dso->of = dsos;
	dso->hash = hash;
	dso->refs = 1;
	dso->next = dsos->chains[hash & (dsos->cap - 1)];
	dsos->chains[hash & (dsos->cap - 1)] = dso;
	dsos->nr++;
	return dso;
}

struct pev_dso *pev_dso_file(struct pev_dsos *dsos, const char *path, size_t len)
{
	const struct pev_dso key = { .pid = 0 };

	return intern_dso(dsos, &key, path, len);
}

struct pev_dso *pev_dso_of(struct pev_dso *dso, int pid)
{
	struct pev_dso key = *dso;

	if (!dso->memory || dso->pid == pid || !dso->of)
		return pev_dso_get(dso);
	key.pid = pid;
	return intern_dso(dso->of, &key, dso->path, strlen(dso->path));
}

struct pev_dso *pev_dso_function(struct pev_dsos *dsos, int pid,
				 const struct pev_jit_function *function)
{
	const struct pev_dso key = {
		.pid = pid, .memory = true,
		.jit = { function->load, function->lines, function->time },
	};

	return intern_dso(dsos, &key, function->name, function->len);
}

static bool starts_with(const char *path, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(path, with, strlen(with)) == 0;
}

/* True for code without a file. The kernel maps the vdso, which all processes share. */
static bool is_memory(const char *path, size_t len)
{
	static const char *const names[] = { "//anon", "/memfd:", "/dev/zero", "/anon_hugepage",
					     "/SYSV" };

	if (len == 0 || path[0] != '/')
		return !starts_with(path, len, "[vdso") && !starts_with(path, len, "[vsyscall");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (starts_with(path, len, names[i]))
			return true;
	return false;
}

/* ---- one process ---- */

struct pev_space *pev_space_get(struct pev_space *space)
{
	if (space)
		space->refs++;
	return space;
}

void pev_space_put(struct pev_space *space)
{
	if (!space || --space->refs)
		return;
	for (uint32_t i = 0; i < space->nr; i++)
		pev_dso_put(space->maps[i].dso);
	pev_jit_dump_put(space->jit);
	free(space->maps);
	free(space);
}

static bool reserve_maps(struct pev_space *space, uint32_t nr)
{
	return pev_list_reserve(&space->maps, &space->cap, nr, sizeof(*space->maps));
}

/* Replaces *space by a copy if it has other users. */
static int make_private(struct pev_space **space)
{
	struct pev_space *was = *space, *copy;

	if (was && was->refs == 1)
		return 0;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	copy->refs = 1;
	if (was && !reserve_maps(copy, was->nr)) {
		free(copy);
		return -ENOMEM;
	}
	for (uint32_t i = 0; was && i < was->nr; i++) {
		copy->maps[i] = was->maps[i];
		pev_dso_get(copy->maps[i].dso);
	}
	copy->nr = was ? was->nr : 0;
	copy->jit = was ? pev_jit_dump_get(was->jit) : NULL;
	pev_space_put(was);
	*space = copy;
	return 0;
}

/* The first map that ends after addr, or nr. */
static uint32_t first_after(const struct pev_space *space, uint64_t addr)
{
	uint32_t low = 0, high = space->nr;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (space->maps[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void open_gap(struct pev_space *space, uint32_t at, uint32_t remove, uint32_t insert)
{
	memmove(&space->maps[at + insert], &space->maps[at + remove],
		sizeof(*space->maps) * (space->nr - at - remove));
	space->nr = space->nr - remove + insert;
}

/*
 * Removes the maps between start and end: cuts those that overlap, and splits a map that reaches
 * beyond both. Returns the index for a map that begins at start. There is room for two more.
 */
static uint32_t remove_range(struct pev_space *space, uint64_t start, uint64_t end)
{
	uint32_t at = first_after(space, start), gone = 0;
	struct pev_map *map = &space->maps[at];

	if (at < space->nr && map->start < start && map->end > end) {
		open_gap(space, at, 0, 1);
		space->maps[at + 1].pgoff += end - space->maps[at + 1].start;
		space->maps[at + 1].start = end;
		space->maps[at].end = start;
		pev_dso_get(space->maps[at].dso);
		return at + 1;
	}
	if (at < space->nr && map->start < start)
		space->maps[at++].end = start;
	while (at + gone < space->nr && space->maps[at + gone].end <= end)
		pev_dso_put(space->maps[at + gone++].dso);
	open_gap(space, at, gone, 0);
	map = &space->maps[at];
	if (at < space->nr && map->start < end) {
		map->pgoff += end - map->start;
		map->start = end;
	}
	return at;
}

/* Maps dso, whose reference it takes, at start; NULL only removes what was there. */
static int put_map(struct pev_space **space, struct pev_dsos *dsos, uint64_t start, uint64_t end,
	       uint64_t pgoff, struct pev_dso *dso)
{
	uint32_t at;

	if (end <= start || make_private(space) < 0 || !reserve_maps(*space, (*space)->nr + 2)) {
		pev_dso_put(dso);
		return end <= start ? 0 : -ENOMEM;
	}
	(*space)->version = ++dsos->versions;
	at = remove_range(*space, start, end);
	if (!dso || (*space)->nr >= MAPS_MAX) {
		pev_dso_put(dso);
		return 0;
	}
	open_gap(*space, at, 0, 1);
	(*space)->maps[at] = (struct pev_map){ start, end, pgoff, dso };
	return 0;
}

/* A JIT compiler has mapped its dump as a marker. Without memory its functions have no names. */
static void note_marker(struct pev_space *space, struct pev_dsos *dsos, int pid,
			const struct pev_dso *dso)
{
	const size_t len = strlen(dso->path);

	if (dso->memory || !pev_jit_dump_is_marker(dso->path, len))
		return;
	pev_jit_dump_put(space->jit);
	space->jit = pev_jit_dump_new(&dsos->dumps, pid, dso->path, len, dso->ino);
}

/* Maps a file or memory; takes the reference to dso, which is NULL if there was no memory. */
static int put_dso(struct pev_space **space, struct pev_dsos *dsos, int pid,
		   const struct pev_map *map, struct pev_dso *dso)
{
	int rc;

	if (!dso)
		return -ENOMEM;
	rc = put_map(space, dsos, map->start, map->end, map->pgoff, pev_dso_get(dso));
	if (rc == 0 && *space)
		note_marker(*space, dsos, pid, dso);
	pev_dso_put(dso);
	return rc;
}

/* ---- records ---- */

static uint64_t read_number(const struct pev_record *rec, enum pev_field name)
{
	uint64_t value;

	return pev_record_number(rec, name, &value) ? value : 0;
}

static bool is_executable(const struct pev_record *rec)
{
	uint64_t prot;

	if (rec->misc & MISC_MMAP_DATA)
		return false;
	return !pev_record_number(rec, PEV_F_PROT, &prot) || prot & 4; /* PROT_EXEC */
}

static void take_build_id(struct pev_dso *key, const struct pev_record *rec)
{
	struct pev_value id;

	if (!pev_record_get(rec, PEV_F_BUILD_ID, &id))
		return;
	key->build_id_len = (uint8_t)(id.len < PEV_BUILD_ID_MAX ? id.len : PEV_BUILD_ID_MAX);
	memcpy(key->build_id, id.p, key->build_id_len);
}

static int feed_mmap(struct pev_space **space, struct pev_dsos *dsos, const struct pev_record *rec)
{
	uint64_t start = read_number(rec, PEV_F_ADDR), len = read_number(rec, PEV_F_LEN);
	uint64_t end = start + len < start ? UINT64_MAX : start + len;
	struct pev_dso key = { .pid = (int)(int64_t)read_number(rec, PEV_F_PID) };
	const struct pev_map map = { start, end, read_number(rec, PEV_F_PGOFF), NULL };
	const char *path;
	uint32_t path_len;

	if (!pev_record_string(rec, PEV_F_FILENAME, &path, &path_len))
		return 0;
	if (!is_executable(rec))
		return *space ? put_map(space, dsos, start, end, 0, NULL) : 0;
	key.memory = key.pid != -1 && is_memory(path, path_len);
	key.maj = (uint32_t)read_number(rec, PEV_F_MAJ);
	key.min = (uint32_t)read_number(rec, PEV_F_MIN);
	key.ino = read_number(rec, PEV_F_INO);
	key.generation = read_number(rec, PEV_F_INO_GENERATION);
	take_build_id(&key, rec);
	return put_dso(space, dsos, key.pid, &map, intern_dso(dsos, &key, path, path_len));
}

static int feed_ksymbol(struct pev_space **space, struct pev_dsos *dsos,
			const struct pev_record *rec)
{
	uint64_t start = read_number(rec, PEV_F_ADDR), len = read_number(rec, PEV_F_LEN);
	struct pev_dso key = { .pid = -1 }, *dso;
	const char *name;
	uint32_t name_len;

	if (!pev_record_string(rec, PEV_F_NAME, &name, &name_len) || start + len < start)
		return 0;
	if (read_number(rec, PEV_F_FLAGS) & KSYMBOL_UNREGISTER)
		return *space ? put_map(space, dsos, start, start + len, 0, NULL) : 0;
	/* PERF_RECORD_KSYMBOL_TYPE_*; an unknown type is kernel code, too. */
	key.ksymbol = (uint8_t)read_number(rec, PEV_F_KSYM_TYPE);
	key.ksymbol = key.ksymbol ? key.ksymbol : UINT8_MAX;
	dso = intern_dso(dsos, &key, name, name_len);
	return dso ? put_map(space, dsos, start, start + len, 0, dso) : -ENOMEM;
}

int pev_space_feed(struct pev_space **space, struct pev_dsos *dsos, const struct pev_record *rec)
{
	if (rec->type == PERF_RECORD_KSYMBOL)
		return feed_ksymbol(space, dsos, rec);
	return feed_mmap(space, dsos, rec);
}

/* ---- /proc/PID/maps ---- */

/* Parses "start-end r-xp pgoff maj:min ino    path"; false for code that is not executable. */
static bool parse_line(const char *line, size_t len, struct pev_map *map, struct pev_dso *key,
		       const char **path)
{
	char head[128], mode[5];
	size_t cut = len < sizeof(head) - 1 ? len : sizeof(head) - 1;
	int at = 0;

	memcpy(head, line, cut);
	head[cut] = '\0';
	if (sscanf(head, "%lx-%lx %4s %lx %x:%x %lu%n", &map->start, &map->end, mode, &map->pgoff,
		   &key->maj, &key->min, &key->ino, &at) != 7)
		return false;
	if (mode[2] != 'x')
		return false;
	while ((size_t)at < len && line[at] == ' ')
		at++;
	*path = line + at;
	return map->end > map->start;
}

int pev_space_parse(struct pev_space **space, struct pev_dsos *dsos, int pid, const char *text)
{
	for (const char *line = text, *next; *line; line = next) {
		struct pev_dso key = { .pid = pid };
		size_t len = strcspn(line, "\n");
		struct pev_map map;
		const char *path;
		int rc;

		next = line + len + (line[len] == '\n');
		if (!parse_line(line, len, &map, &key, &path))
			continue;
		len -= (size_t)(path - line);
		/* Memory without a name is "//anon", as in MMAP2 records. */
		if (len == 0) {
			path = "//anon";
			len = strlen(path);
		}
		key.memory = is_memory(path, len);
		rc = put_dso(space, dsos, pid, &map, intern_dso(dsos, &key, path, len));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- look-up ---- */

uint64_t pev_space_version(const struct pev_space *space) { return space ? space->version : 0; }

const struct pev_map *pev_space_find(const struct pev_space *space, uint64_t addr)
{
	uint32_t at = space ? first_after(space, addr) : 0;

	return space && at < space->nr && space->maps[at].start <= addr ? &space->maps[at] : NULL;
}

const struct pev_map *pev_space_at(const struct pev_space *space, uint32_t n)
{
	return space && n < space->nr ? &space->maps[n] : NULL;
}

struct pev_jit_dump *pev_space_jit_dump(const struct pev_space *space)
{
	return space ? space->jit : NULL;
}
