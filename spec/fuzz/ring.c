/*
 * ring.c - libFuzzer: the contents of the rings of a session with several events.
 *
 * The simulated kernel has two rings of one page; the fuzzer chooses contents, head and
 * tail, and the attrs of three events with ids 1 to 3. The session must end, and deliver
 * only bytes that it owns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "live/session.h"
#include "touch.h"

#define RINGS 2
#define EVENTS 3
#define RING_BYTES 4096u
#define PAGE_BYTES 4096
#define AUX_BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The simulated kernel: numbers descriptors in order; the first of each CPU has a ring. */
struct kernel {
	const uint8_t *data;
	size_t size;
	int next_fd;
	uint64_t next_id, now;
	int mapped;
	struct perf_event_mmap_page *page; /* of the ring mapped last */
};

static uint64_t take_bytes(struct kernel *k, size_t len)
{
	uint64_t v = 0;

	if (len > k->size)
		len = k->size;
	memcpy(&v, k->data, len);
	k->data += len;
	k->size -= len;
	return v;
}

static int k_open(void *ctx, struct pev_attr *attr, int pid, int cpu, int group_fd,
		  unsigned long flags)
{
	struct kernel *k = ctx;

	(void)attr, (void)pid, (void)cpu, (void)group_fd, (void)flags;
	return k->next_fd++;
}

static int k_ioctl(void *ctx, int fd, unsigned long request, uintptr_t arg)
{
	struct kernel *k = ctx;

	(void)fd;
	if (request == PERF_EVENT_IOC_ID)
		*(uint64_t *)arg = k->next_id++;
	return 0;
}

/* Maps an AUX area with any head and tail. */
static int k_trace(struct kernel *k, size_t len)
{
	if (k->page->aux_size != len || k->page->aux_offset < k->page->data_offset + RING_BYTES)
		__builtin_trap();
	k->page->aux_tail = take_bytes(k, 8);
	k->page->aux_head = k->page->aux_tail + take_bytes(k, 8);
	k->page->aux_size = take_bytes(k, 8);
	return 0;
}

/* Maps a ring with any head and tail, at most the ring's size apart. */
static int k_mmap(void *ctx, size_t len, int prot, int fd, uint64_t offset, void **addr)
{
	struct kernel *k = ctx;
	struct perf_event_mmap_page *page;
	size_t page_bytes = len - RING_BYTES, fill;

	(void)prot, (void)fd;
	if (posix_memalign(addr, PAGE_BYTES, len))
		return -ENOMEM;
	memset(*addr, 0, len);
	k->mapped++;
	page = *addr;
	if (offset) /* an AUX area: the page before it is the one mapped last */
		return k_trace(k, len);
	k->page = page;
	page->data_offset = page_bytes;
	page->data_tail = take_bytes(k, 8) & ~UINT64_C(7);
	fill = take_bytes(k, 2) % (RING_BYTES + 16);
	page->data_head = page->data_tail + fill;
	for (size_t i = 0; i < fill && k->size; i++)
		((unsigned char *)*addr)[page_bytes + ((page->data_tail + i) & (RING_BYTES - 1))] =
			(unsigned char)take_bytes(k, 1);
	return 0;
}

static int k_munmap(void *ctx, void *addr, size_t len)
{
	struct kernel *k = ctx;

	(void)len;
	free(addr);
	k->mapped--;
	return 0;
}

static int64_t k_read(void *ctx, int fd, void *buf, size_t len)
{
	(void)ctx, (void)fd;
	memset(buf, 0, len);
	return (int64_t)len;
}

static int k_open_file(void *ctx, const char *path, int flags)
{
	(void)ctx, (void)path, (void)flags;
	return -ENOENT;
}

static int64_t k_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
	(void)ctx, (void)fd, (void)buf, (void)len, (void)offset;
	return -ESPIPE;
}

static int k_close(void *ctx, int fd)
{
	(void)ctx, (void)fd;
	return 0;
}

static int k_epoll_create(void *ctx)
{
	return ((struct kernel *)ctx)->next_fd++;
}

static int k_epoll_ctl(void *ctx, int epfd, int op, int fd, uint32_t events, uint64_t tag)
{
	(void)ctx, (void)epfd, (void)op, (void)fd, (void)events, (void)tag;
	return 0;
}

static int k_clock(void *ctx, int clockid, uint64_t *ns)
{
	(void)clockid;
	*ns = ((struct kernel *)ctx)->now += 20000000;
	return 0;
}

static int k_slurp(void *ctx, const char *path, char **text, size_t *len)
{
	(void)ctx, (void)path, (void)text, (void)len;
	return -ENOENT;
}

static int k_pagesize(void *ctx)
{
	(void)ctx;
	return PAGE_BYTES;
}

static int deliver_record(void *ctx, uint32_t slot, const struct pev_record *rec)
{
	struct pev_aux aux;

	(void)slot;
	touch_record(rec);
	if (!pev_session_aux(ctx, rec, &aux))
		return 0;
	if (aux.len[0] + aux.len[1] > AUX_BYTES)
		__builtin_trap();
	touch_bytes(aux.p[0], aux.len[0]);
	touch_bytes(aux.p[1], aux.len[1]);
	return 0;
}

static int add_event(struct pev_session *session, struct pev_engine *engine, struct kernel *k)
{
	static const int pids[] = { -1 }, cpus[] = { 0, 1 };
	const struct pev_target target = { pids, 1, cpus, RINGS };
	struct pev_attr attr = { 0 };
	struct pev_slot *slot;
	uint8_t bits = (uint8_t)take_bytes(k, 1);
	const struct pev_want want = { .aux_bytes = bits & 4 ? AUX_BYTES : 0 };
	struct pev_listener listener = { .wanted_types = bits & 2 ? UINT32_MAX : 0 };

	attr.sample_type = take_bytes(k, 4) & PEV_SAMPLE_TYPE_MASK;
	attr.read_format = take_bytes(k, 1) & 31;
	attr.branch_sample_type = take_bytes(k, 3);
	attr.sample_regs_user = take_bytes(k, 2);
	attr.sample_regs_intr = take_bytes(k, 2);
	attr.flags = bits & 1 ? PEV_ATTR_BUILD_ID : 0;
	if (pev_session_add(session, &attr, "event", &target, &want, &slot, NULL) < 0)
		return -1;
	listener.event = slot->index;
	return pev_engine_add_listener(engine, &listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel k = { .data = data, .size = size, .next_fd = 3, .next_id = 1 };
	const struct pev_sys sys = {
		.ctx = &k,
		.perf_event_open = k_open,
		.ioctl = k_ioctl,
		.mmap = k_mmap,
		.munmap = k_munmap,
		.open = k_open_file,
		.read = k_read,
		.pread = k_pread,
		.close = k_close,
		.epoll_create = k_epoll_create,
		.epoll_ctl = k_epoll_ctl,
		.clock = k_clock,
		.slurp = k_slurp,
		.pagesize = k_pagesize,
	};
	const struct pev_session_config config = { .ring_bytes = RING_BYTES };
	struct pev_session *session;
	struct pev_engine engine;
	struct pev_totals totals;
	struct pev_err err;

	if (pev_session_open(&session, &sys, &config, NULL) < 0)
		return 0;
	pev_engine_init(&engine);
	pev_engine_set_source(&engine, pev_session_source(session));
	for (int i = 0; i < EVENTS; i++)
		if (add_event(session, &engine, &k) < 0)
			__builtin_trap();
	pev_engine_dispatch(&engine, PEV_DRAIN_ROUND, deliver_record, session, &err);
	pev_engine_dispatch(&engine, PEV_DRAIN_REST_ALL, deliver_record, session, &err);
	pev_session_totals(session, &totals);
	/* A record has 8 bytes at least, and each byte is read once. */
	if (totals.records > totals.rings * RING_BYTES / 8)
		__builtin_trap();
	pev_engine_free(&engine);
	pev_session_close(session);
	if (k.mapped != 0)
		__builtin_trap();
	return 0;
}
