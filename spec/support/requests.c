/*
 * requests.c - handles N requests, for specs of probes by line and by name: requests N
 *
 * Request i: id -i, len 4000000000 + i, sizes { i, 10 * i, 3, 4 }, name "req-i", mode WRITING (7)
 * if i is even, else READING (1); peer { 8080, "example" }. The specs find lines by "line:".
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATE __attribute__((noinline, noclone))
/* clang-format off */
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")
/* clang-format on */

enum mode { IDLE, READING, WRITING = 7 };

struct peer {
	unsigned short port;
	const char *host;
};

struct request {
	int id;
	unsigned len;
	struct peer *peer;
	char name[16];
	const char *path;
	void *owner;
	enum mode mode;
	bool last;
	signed char level;
	unsigned flag : 3;
	double ratio;
	long sizes[4];
	short grid[2][3];
	struct {
		int inner;
	};
};

long total;
volatile int rounds = 2; /* not known to the compiler, which would unroll the loop */

SEPARATE long handle(struct request *req, int n)
{
	long sum = 0;

	for (int i = 0; i < rounds; i++) {
		sum += req->sizes[i];
		KEEP(sum); /* line: loop */
	}
	total += sum + n; /* line: after the loop */
	KEEP(req);
	return sum + n;
}

static inline __attribute__((always_inline)) void add(int v)
{
	total += v; /* line: inlined */
	KEEP(v);
}

SEPARATE void http_get(int a) { add(a); }

SEPARATE void http_post(int a) { add(a + 1); }

SEPARATE const char *ftp_name(int a)
{
	KEEP(a);
	return a ? "one" : "zero";
}

/* An array whose size is not known to the compiler: its address is in the frame. */
SEPARATE void repeat(int n)
{
	char text[n + 1];

	memset(text, 'x', (size_t)n);
	text[n] = '\0';
	KEEP(text); /* line: repeated */
}

/* With optimization the constants are only in the debug information. */
SEPARATE void scale(int n)
{
	const int most = 200, least = -3;
	const unsigned short port = 40000;

	KEEP(n * most + least + port); /* line: scaled */
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	struct peer peer = { 8080, "example" };

	for (int i = 0; i < times; i++) {
		struct request req = {
			.id = -i, .len = 4000000000u + (unsigned)i, .peer = &peer, .path = "/index",
			.owner = &req, .mode = i % 2 ? READING : WRITING, .last = i == times - 1,
			.level = -5, .flag = 5, .ratio = 0.5, .sizes = { i, 10L * i, 3, 4 },
			.grid = { { 1, 2, 3 }, { 4, 5, (short)(-i) } }, .inner = 77,
		};

		snprintf(req.name, sizeof(req.name), "req-%d", i);
		handle(&req, i);
		http_get(i);
		http_post(i);
		ftp_name(i);
		repeat(i % 8);
		scale(i);
	}
	return 0;
}
