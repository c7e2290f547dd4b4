/*
 * jit_dump.c - reads the records of a jit-PID.dump, finds functions; see jit_dump.h.
 *
 * Functions are sorted by start and time when one is looked up. A start that is used again is a
 * group; the newest of a group that is old enough hides the others, because their memory was freed.
 */
#include "task/jit_dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "record/record.h"

#define MAGIC UINT32_C(0x4a695444) /* "JiTD" */
#define VERSION 1u
#define HEADER_BYTES 40u
#define PREFIX_BYTES 16u /* id, total size, time */
#define LOAD_BYTES 56u /* without the name and the code */
#define MOVE_BYTES 64u
#define DEBUG_BYTES 32u /* without the entries */
#define FLAG_ARCH_TIMESTAMP 1u /* times are of the processor's clock */
#define OVERLAP_MAX 64 /* starts at or below the address that are searched */
#define PROBES_MAX 256 /* places of the hash table that are searched */
#define DUMPS_MAX 4096u /* of a session */

enum { JIT_CODE_LOAD,
       JIT_CODE_MOVE,
       JIT_CODE_DEBUG_INFO };

/* A function at an address from a time on; or the end of the one that moved away. */
struct entry {
	uint64_t start, end, time, load, lines;
	uint64_t index; /* code_index: identifies the function when it moves */
	uint32_t name, len; /* in names */
	uint32_t nr; /* in the order of the file */
	bool gone;
};

struct pev_jit_dump {
	struct pev_jit_dumps *of; /* NULL once it is freed */
	struct pev_jit_dump *next;
	uint32_t refs;
	int pid;
	uint64_t ino;
	bool wanted;
	uint64_t known; /* functions up to this time were read */
	uint64_t offset;
	bool opened, swap, no_time;
	uint64_t debug_addr, debug; /* the last JIT_CODE_DEBUG_INFO; 0: none */
	struct entry *entries; /* owned; sorted unless dirty */
	uint64_t *times; /* owned; sorted unless dirty */
	uint32_t nr, cap, cap_times;
	bool dirty;
	uint32_t *loads; /* owned; hash table of 1 + nr of the last load, by code_index */
	uint32_t *places; /* owned; by nr: the index in entries */
	uint32_t cap_loads, cap_places;
	char *names; /* owned */
	uint32_t nr_names, cap_names;
	char path[];
};

/* ---- the dumps of a session ---- */

bool pev_jit_dump_is_marker(const char *path, size_t len)
{
	static const char head[] = "/jit-", tail[] = ".dump";
	const size_t head_len = sizeof(head) - 1, tail_len = sizeof(tail) - 1;
	size_t at;

	if (len <= head_len + tail_len || memcmp(path + len - tail_len, tail, tail_len) != 0)
		return false;
	at = len - tail_len;
	while (at > 0 && path[at - 1] >= '0' && path[at - 1] <= '9')
		at--;
	return at < len - tail_len && at >= head_len &&
	       memcmp(path + at - head_len, head, head_len) == 0;
}

static void want(struct pev_jit_dump *dump)
{
	if (!dump->wanted && dump->of)
		dump->of->wanted++;
	dump->wanted = dump->of != NULL;
}

struct pev_jit_dump *pev_jit_dump_new(struct pev_jit_dumps *dumps, int pid, const char *path,
				      size_t len, uint64_t ino)
{
	struct pev_jit_dump *dump;

	if (dumps && dumps->nr >= DUMPS_MAX)
		return NULL;
	dump = calloc(1, sizeof(*dump) + len + 1);
	if (!dump)
		return NULL;
	memcpy(dump->path, path, len);
	dump->refs = 1;
	dump->pid = pid;
	dump->ino = ino;
	if (!dumps)
		return dump;
	dump->of = dumps;
	dump->next = dumps->first;
	dumps->first = dump;
	dumps->nr++;
	want(dump);
	return dump;
}

struct pev_jit_dump *pev_jit_dump_get(struct pev_jit_dump *dump)
{
	if (dump)
		dump->refs++;
	return dump;
}

static void leave_list(struct pev_jit_dump *dump)
{
	struct pev_jit_dump **link = &dump->of->first;

	while (*link != dump)
		link = &(*link)->next;
	*link = dump->next;
	dump->of->nr--;
	dump->of->wanted -= dump->wanted;
}

void pev_jit_dump_put(struct pev_jit_dump *dump)
{
	if (!dump || --dump->refs)
		return;
	if (dump->of)
		leave_list(dump);
	free(dump->entries);
	free(dump->times);
	free(dump->loads);
	free(dump->places);
	free(dump->names);
	free(dump);
}

void pev_jit_dumps_free(struct pev_jit_dumps *dumps)
{
	for (struct pev_jit_dump *dump = dumps->first; dump; dump = dump->next) {
		dump->of = NULL;
		dump->wanted = false;
	}
	*dumps = (struct pev_jit_dumps){ 0 };
}

struct pev_jit_dump *pev_jit_dumps_next(struct pev_jit_dumps *dumps)
{
	for (struct pev_jit_dump *dump = dumps->wanted ? dumps->first : NULL; dump;
	     dump = dump->next) {
		if (!dump->wanted)
			continue;
		dump->wanted = false;
		dumps->wanted--;
		return pev_jit_dump_get(dump);
	}
	return NULL;
}

void pev_jit_dump_want(struct pev_jit_dump *dump, uint64_t time)
{
	if (time > dump->known && time != PEV_JIT_NEWEST)
		want(dump);
}

void pev_jit_dump_set_known(struct pev_jit_dump *dump, uint64_t time) { dump->known = time; }

int pev_jit_dump_pid(const struct pev_jit_dump *dump) { return dump->pid; }
const char *pev_jit_dump_path(const struct pev_jit_dump *dump) { return dump->path; }
uint64_t pev_jit_dump_ino(const struct pev_jit_dump *dump) { return dump->ino; }
uint64_t pev_jit_dump_offset(const struct pev_jit_dump *dump) { return dump->offset; }

/* ---- functions ---- */

static bool is_load_of(const struct pev_jit_dump *dump, uint32_t load, uint64_t index)
{
	return load && dump->entries[dump->places[load - 1]].index == index;
}

/*
 * The place of the last load with that code_index, or the place for it. Indexes that were chosen
 * to collide replace each other.
 */
static uint32_t *find_load(const struct pev_jit_dump *dump, uint64_t index)
{
	const uint64_t hash = index * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t mask = dump->cap_loads - 1, at = (uint32_t)(hash >> 32) & mask;

	for (int n = 1; n < PROBES_MAX && dump->loads[at]; n++) {
		if (is_load_of(dump, dump->loads[at], index))
			break;
		at = (at + 1) & mask;
	}
	return &dump->loads[at];
}

/* Keeps the table of loads at most half full. */
static bool reserve_loads(struct pev_jit_dump *dump)
{
	uint32_t cap = dump->cap_loads ? dump->cap_loads : 1024, *was = dump->loads;
	uint32_t nr_was = dump->cap_loads;

	while (cap / 2 <= dump->nr + 1)
		cap *= 2;
	if (cap == nr_was)
		return true;
	dump->loads = calloc(cap, sizeof(*dump->loads));
	if (!dump->loads) {
		dump->loads = was;
		return false;
	}
	dump->cap_loads = cap;
	for (uint32_t i = 0; i < nr_was; i++)
		if (was[i])
			*find_load(dump, dump->entries[dump->places[was[i] - 1]].index) = was[i];
	free(was);
	return true;
}

static bool reserve_entries(struct pev_jit_dump *dump, uint32_t more)
{
	return pev_list_reserve(&dump->entries, &dump->cap, dump->nr + (uint64_t)more,
				sizeof(*dump->entries)) &&
	       pev_list_reserve(&dump->times, &dump->cap_times, dump->nr + (uint64_t)more,
				sizeof(*dump->times)) &&
	       pev_list_reserve(&dump->places, &dump->cap_places, dump->nr + (uint64_t)more,
				sizeof(*dump->places)) &&
	       reserve_loads(dump);
}

/* There is room for it. */
static void append_entry(struct pev_jit_dump *dump, const struct entry *entry)
{
	dump->entries[dump->nr] = *entry;
	dump->entries[dump->nr].nr = dump->nr;
	dump->times[dump->nr] = entry->time;
	dump->places[dump->nr] = dump->nr;
	dump->nr++;
	dump->dirty = true;
}

static uint64_t end_of(uint64_t start, uint64_t size)
{
	return start + size < start ? UINT64_MAX : start + size;
}

static int add_name(struct pev_jit_dump *dump, const char *name, uint32_t len)
{
	if (dump->nr_names + (uint64_t)len > PEV_JIT_NAMES_MAX)
		return -EFBIG;
	if (!pev_list_reserve(&dump->names, &dump->cap_names, dump->nr_names + (uint64_t)len, 1))
		return -ENOMEM;
	memcpy(dump->names + dump->nr_names, name, len);
	dump->nr_names += len;
	return 0;
}

static int add_load(struct pev_jit_dump *dump, const struct pev_jit_function *function,
		    uint64_t index)
{
	struct entry entry = {
		.start = function->start,
		.end = function->end,
		.time = function->time,
		.load = function->load,
		.lines = function->lines,
		.index = index,
		.name = dump->nr_names,
		.len = function->len < PEV_JIT_NAME_MAX ? function->len : PEV_JIT_NAME_MAX,
	};
	int rc;

	if (dump->nr >= PEV_JIT_MAX)
		return -EFBIG;
	if (!reserve_entries(dump, 1))
		return -ENOMEM;
	rc = add_name(dump, function->name, entry.len);
	if (rc < 0)
		return rc;
	append_entry(dump, &entry);
	*find_load(dump, index) = dump->nr;
	return 0;
}

int pev_jit_dump_add(struct pev_jit_dump *dump, const struct pev_jit_function *function)
{
	return add_load(dump, function, dump->nr);
}

/* ---- records ---- */

static int read_header(struct pev_jit_dump *dump, const unsigned char *p, size_t len)
{
	uint32_t size;

	if (len < HEADER_BYTES)
		return 0;
	dump->swap = pev_load32(p, false) != MAGIC;
	if (pev_load32(p, dump->swap) != MAGIC || pev_load32(p + 4, dump->swap) != VERSION)
		return -EBADMSG;
	size = pev_load32(p + 8, dump->swap);
	if (size < HEADER_BYTES)
		return -EBADMSG;
	dump->no_time = pev_load64(p + 32, dump->swap) & FLAG_ARCH_TIMESTAMP;
	dump->opened = true;
	dump->offset = size;
	return 0;
}

/* Returns 1, 0 if the bytes lack a part of the name, or -errno. A load of no bytes is skipped. */
static int read_load(struct pev_jit_dump *dump, const unsigned char *p, size_t len, uint32_t size)
{
	const uint64_t start = pev_load64(p + 32, dump->swap);
	struct pev_jit_function function = {
		.start = start,
		.end = end_of(start, pev_load64(p + 40, dump->swap)),
		.time = pev_load64(p + 8, dump->swap),
		.load = dump->offset,
		.lines = dump->debug_addr == start ? dump->debug : 0,
		.name = (const char *)p + LOAD_BYTES,
	};
	size_t room = size - LOAD_BYTES, have = len - LOAD_BYTES;
	int rc;

	if (room > PEV_JIT_NAME_MAX)
		room = PEV_JIT_NAME_MAX;
	have = have < room ? have : room;
	function.len = (uint32_t)strnlen(function.name, have);
	if (function.len == have && have < room)
		return 0;
	dump->debug = 0;
	if (function.end <= function.start || function.len == 0)
		return 1;
	rc = add_load(dump, &function, pev_load64(p + 48, dump->swap));
	return rc < 0 ? rc : 1;
}

/* A function leaves its old address. One that is not known is skipped. */
static int read_move(struct pev_jit_dump *dump, const unsigned char *p)
{
	const uint64_t to = pev_load64(p + 40, dump->swap);
	uint32_t *load = dump->nr ? find_load(dump, pev_load64(p + 56, dump->swap)) : NULL;
	struct entry moved, gone;

	if (!load || !is_load_of(dump, *load, pev_load64(p + 56, dump->swap)))
		return 1;
	if (dump->nr + 2 > PEV_JIT_MAX)
		return -EFBIG;
	gone = moved = dump->entries[dump->places[*load - 1]];
	gone.time = moved.time = pev_load64(p + 8, dump->swap);
	gone.start = pev_load64(p + 32, dump->swap);
	gone.end = end_of(gone.start, moved.end - moved.start);
	gone.gone = true;
	moved.end = end_of(to, moved.end - moved.start);
	moved.start = to;
	if (!reserve_entries(dump, 2))
		return -ENOMEM;
	append_entry(dump, &gone);
	append_entry(dump, &moved);
	*find_load(dump, moved.index) = dump->nr;
	return 1;
}

/* Returns 1 for a record that was read, 0 for one of which bytes are missing, or -errno. */
static int read_record(struct pev_jit_dump *dump, const unsigned char *p, size_t len,
		       uint32_t *size)
{
	static const uint32_t least[] = { LOAD_BYTES, MOVE_BYTES, DEBUG_BYTES };
	uint32_t id;

	if (len < PREFIX_BYTES)
		return 0;
	id = pev_load32(p, dump->swap);
	*size = pev_load32(p + 4, dump->swap);
	if (*size < PREFIX_BYTES)
		return -EBADMSG;
	if (id > JIT_CODE_DEBUG_INFO || *size < least[id])
		return 1;
	if (len < least[id])
		return 0;
	if (id == JIT_CODE_LOAD)
		return read_load(dump, p, len, *size);
	if (id == JIT_CODE_MOVE)
		return read_move(dump, p);
	dump->debug_addr = pev_load64(p + PREFIX_BYTES, dump->swap);
	dump->debug = dump->offset;
	return 1;
}

int pev_jit_dump_read(struct pev_jit_dump *dump, const void *bytes, size_t len)
{
	const uint64_t first = dump->offset;
	int rc = 1;

	if (!dump->opened) {
		rc = read_header(dump, bytes, len);
		if (rc < 0 || !dump->opened)
			return rc;
		rc = 1;
	}
	while (rc > 0 && dump->offset - first < len) {
		const size_t at = (size_t)(dump->offset - first);
		uint32_t size;

		rc = read_record(dump, (const unsigned char *)bytes + at, len - at, &size);
		if (rc > 0)
			dump->offset += size;
	}
	return rc < 0 ? rc : 0;
}

/* ---- look-up ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->nr < y->nr ? -1 : 1;
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort(struct pev_jit_dump *dump)
{
	if (!dump->dirty)
		return;
	qsort(dump->entries, dump->nr, sizeof(*dump->entries), compare_entries);
	qsort(dump->times, dump->nr, sizeof(*dump->times), compare_times);
	for (uint32_t i = 0; i < dump->nr; i++)
		dump->places[dump->entries[i].nr] = i;
	dump->dirty = false;
}

/* Counts the entries before nr that start below addr, or there and not after time. */
static uint32_t count_before(const struct pev_jit_dump *dump, uint32_t nr, uint64_t addr,
			     uint64_t time)
{
	uint32_t low = 0, high = nr;

	while (low < high) {
		const uint32_t mid = low + (high - low) / 2;
		const struct entry *entry = &dump->entries[mid];

		if (entry->start < addr || (entry->start == addr && entry->time <= time))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_newer(const struct entry *a, const struct entry *b)
{
	return a->time != b->time ? a->time > b->time : a->nr > b->nr;
}

bool pev_jit_dump_find(struct pev_jit_dump *dump, uint64_t addr, uint64_t time,
		       struct pev_jit_function *out)
{
	const struct entry *newest = NULL;
	uint32_t at;

	sort(dump);
	if (dump->no_time)
		time = PEV_JIT_NEWEST;
	at = count_before(dump, dump->nr, addr, PEV_JIT_NEWEST);
	for (int starts = 0; at > 0 && starts < OVERLAP_MAX; starts++) {
		const uint64_t start = dump->entries[at - 1].start;
		const uint32_t last = count_before(dump, at, start, time);
		const struct entry *entry = last ? &dump->entries[last - 1] : NULL;

		if (entry && entry->start == start && addr < entry->end &&
		    (!newest || is_newer(entry, newest)))
			newest = entry;
		at = start ? count_before(dump, at, start - 1, PEV_JIT_NEWEST) : 0;
	}
	if (!newest || newest->gone)
		return false;
	*out = (struct pev_jit_function){ newest->start, newest->end, newest->time, newest->load,
					  newest->lines, dump->names + newest->name, newest->len };
	return true;
}

uint32_t pev_jit_dump_loads(struct pev_jit_dump *dump, uint64_t time)
{
	uint32_t low = 0, high = dump->nr;

	if (dump->no_time || time == PEV_JIT_NEWEST)
		return dump->nr;
	sort(dump);
	while (low < high) {
		const uint32_t mid = low + (high - low) / 2;

		if (dump->times[mid] <= time)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}
