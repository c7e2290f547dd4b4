-- tcplife and tcpconnect on the real kernel, with sessions in a network namespace of their own: their ports, bytes and
-- processes are known, and no other traffic is there.

local json = require "spec.support.json"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERVER = 7000, CLIENT = 41000, CLOSED = 7999 };

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* Enters a network namespace with a loopback device; without the right to, status 77. */
static void enter_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int s;

	if (unshare(CLONE_NEWNET))
		exit(77);
	s = socket(AF_INET, SOCK_DGRAM, 0);
	check(ioctl(s, SIOCSIFFLAGS, &lo) == 0, "ifup lo");
	close(s);
}

static socklen_t loopback(struct sockaddr_storage *at, int family, int port)
{
	struct sockaddr_in *in = (void *)at;
	struct sockaddr_in6 *in6 = (void *)at;

	memset(at, 0, sizeof(*at));
	at->ss_family = family;
	if (family == AF_INET6) {
		in6->sin6_addr = in6addr_loopback;
		in6->sin6_port = htons(port);
		return sizeof(*in6);
	}
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons(port);
	return sizeof(*in);
}

static int bound(int family, int port)
{
	struct sockaddr_storage at;
	socklen_t length = loopback(&at, family, port);
	int s = socket(family, SOCK_STREAM, 0);

	check(s >= 0 && bind(s, (void *)&at, length) == 0, "bind");
	return s;
}

/* Returns whether the connection came about. */
static int connected(int s, int family, int port)
{
	struct sockaddr_storage at;

	return connect(s, (void *)&at, loopback(&at, family, port)) == 0;
}

static void receive(int s, int bytes)
{
	char text[4096];

	while (bytes > 0) {
		ssize_t nr = recv(s, text, bytes < 4096 ? bytes : 4096, 0);

		check(nr > 0, "recv");
		bytes -= nr;
	}
}

static void serve(int listener, int bytes)
{
	static char text[1 << 16];
	int s = accept(listener, NULL, NULL);

	check(s >= 0, "accept");
	check(recv(s, text, 1, MSG_PEEK) == 1, "peek"); /* does not count */
	receive(s, bytes);
	check(write(s, text, 2 * bytes) == 2 * bytes, "write");
	check(read(s, text, 1) == 0, "end");
	close(s);
}

static void ask(int family, int i, int bytes)
{
	static char text[1 << 16];
	int s = bound(family, CLIENT + i);

	check(connected(s, family, SERVER), "connect");
	check(write(s, text, bytes) == bytes, "write");
	receive(s, 2 * bytes);
	close(s);
}

/* Waits until each connection has ended or is in TIME_WAIT. */
static void settle(void)
{
	const char *files[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };
	enum { TIME_WAIT = 6, LISTEN = 10 };

	for (int open = 1; open;) {
		open = 0;
		for (int i = 0; i < 2; i++) {
			char line[512];
			unsigned state;
			FILE *file = fopen(files[i], "r");

			while (file && fgets(line, sizeof(line), file))
				if (sscanf(line, "%*d: %*s %*s %x", &state) == 1 && state != TIME_WAIT &&
				    state != LISTEN)
					open++;
			if (file)
				fclose(file);
		}
		sched_yield();
	}
}

static void sessions(int family, int nr)
{
	int listener = bound(family, SERVER);
	pid_t server;

	check(listen(listener, nr) == 0, "listen");
	server = fork();
	if (server == 0) {
		for (int i = 0; i < nr; i++)
			serve(listener, 1000 + i);
		exit(0);
	}
	fprintf(stderr, "client %d server %d\n", getpid(), server);
	for (int i = 0; i < nr; i++)
		ask(family, i, 1000 + i);
	waitpid(server, NULL, 0);
	close(listener);
}

static void refused(int family)
{
	int s = bound(family, CLIENT);

	fprintf(stderr, "client %d\n", getpid());
	check(!connected(s, family, CLOSED), "a refusal");
	close(s);
}

/* The client resets the session; the server's side ends in the interrupt that receives this. */
static void reset(int family)
{
	int listener = bound(family, SERVER), s = bound(family, CLIENT), peer;
	struct linger abort = { 1, 0 };

	fprintf(stderr, "client %d\n", getpid());
	check(listen(listener, 1) == 0 && connected(s, family, SERVER), "connect");
	peer = accept(listener, NULL, NULL);
	setsockopt(s, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	close(s);
	check(recv(peer, &abort, 1, 0) < 0, "a reset");
	close(peer);
	close(listener);
}

/* The kernel's own count in this namespace. */
static void print_opens(void)
{
	char line[512];
	int active, passive;
	FILE *file = fopen("/proc/self/net/snmp", "r");

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Tcp: %*d %*d %*d %*d %d %d", &active, &passive) == 2)
			fprintf(stderr, "opens %d %d\n", active, passive);
	fclose(file);
}

int main(int argc, char **argv)
{
	int family = argc > 2 && !strcmp(argv[2], "6") ? AF_INET6 : AF_INET;

	enter_network();
	if (argc > 3)
		sessions(family, atoi(argv[3]));
	else if (!strcmp(argv[1], "refused"))
		refused(family);
	else
		reset(family);
	settle();
	print_opens();
	return 0;
}
]]

local dir
setup(function()
  if requires.missing("root", "cc") then return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-x", "c", "-o", dir .. "/net", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)
teardown(function()
  if dir then run.remove(dir) end
end)

-- perfl -q -j OPTIONS... -- net WORDS... -> its rows, and what the program reports: { client =, server =, opens = }
local function rows_of(words, ...)
  requires("perf", "root", "cc", "tracepoint sock:inet_sock_set_state")
  if run { dir .. "/net", "refused", "4" }.code == 77 then pending "no network namespace can be made here" end
  local argv = table.move(words, 1, #words, 4, { run.perfl, "-q", "-j" })
  table.move({ "--", dir .. "/net", ... }, 1, 2 + select("#", ...), #argv + 1, argv)
  local r = run(argv)
  assert.equal(0, r.code, r.err)
  local facts = { client = tonumber(r.err:match "client (%d+)"), server = tonumber(r.err:match "server (%d+)"),
    opens = { r.err:match "opens (%d+) (%d+)" } }
  assert.equal("", (r.err:gsub("client %d+[^\n]*\n", ""):gsub("opens [^\n]*\n", "")))
  local rows = {}
  for line in r.out:gmatch "[^\n]+" do rows[#rows + 1] = json.decode(line) end
  return rows, facts
end

-- Rows of the ports of the program, as text in the order of the ports: COLUMNS of each.
local function texts_of(rows, ...)
  local texts = {}
  for _, row in ipairs(rows) do
    local cells = {}
    for i, column in ipairs { ... } do cells[i] = tostring(row[column]) end
    texts[#texts + 1] = table.concat(cells, " ")
  end
  table.sort(texts)
  return texts
end

local function sorted(list)
  table.sort(list)
  return list
end

describe("tcplife", function()
  for family, address in pairs { ["4"] = "127.0.0.1", ["6"] = "::1" } do
    it(("prints both ends of each session, with their tasks, ports and bytes (IPv%s)"):format(family), function()
      requires("tracepoint sock:sock_send_length")
      local rows, facts = rows_of({ "tcplife" }, "sessions", family, "9")
      local expected = {}
      for i = 0, 8 do
        local client, bytes = 41000 + i, 1000 + i
        local line = "%d net %s %d %s %d %d %d"
        table.insert(expected, line:format(facts.client, address, client, address, 7000, bytes, 2 * bytes))
        table.insert(expected, line:format(facts.server, address, 7000, address, client, 2 * bytes, bytes))
      end
      assert.same(sorted(expected), texts_of(rows, "pid", "comm", "laddr", "lport", "raddr", "rport", "tx", "rx"))
      for _, row in ipairs(rows) do assert.is_true(row.ms > 0 and row.ms < 600000) end
      assert.same({ "9", "9" }, facts.opens)
    end)
  end

  it("prints a refused connection, with the task that wanted it", function()
    local rows, facts = rows_of({ "tcplife" }, "refused", "4")
    assert.same({ facts.client .. " 41000 7999 0 0" }, texts_of(rows, "pid", "lport", "rport", "tx", "rx"))
  end)

  it("names no task for an end that only an interrupt saw", function()
    local rows, facts = rows_of({ "-a", "tcplife" }, "reset", "4")
    local ours = {}
    for _, row in ipairs(rows) do
      if row.lport == 7000 or row.rport == 7000 then ours[#ours + 1] = row end
    end
    assert.same({ facts.client .. " net 41000 7000", "nil nil 7000 41000" },
      texts_of(ours, "pid", "comm", "lport", "rport"))
  end)

  it("selects the sessions of a port", function()
    local rows = rows_of({ "tcplife", "--port", "41002" }, "sessions", "4", "4")
    assert.same({ "41002 7000", "7000 41002" }, texts_of(rows, "lport", "rport"))
  end)

  it("prints the same in columns", function()
    requires("perf", "root", "cc", "tracepoint sock:inet_sock_set_state")
    local r = run { run.perfl, "-q", "tcplife", "--", dir .. "/net", "sessions", "4", "1" }
    if r.code == 77 then pending "no network namespace can be made here" end
    assert.matches("^ +PID COMM +LADDR +LPORT +RADDR +RPORT +TX +RX +MS\n", r.out)
    assert.matches("\n *%d+ net +127%.0%.0%.1 +41000 127%.0%.0%.1 +7000 +%S+ +%S+ +%d+%.%d%d\n", r.out)
  end)
end)

describe("tcpconnect", function()
  for family, address in pairs { ["4"] = "127.0.0.1", ["6"] = "::1" } do
    it(("prints each connect of a task, as many as the kernel counts (IPv%s)"):format(family), function()
      local rows, facts = rows_of({ "tcpconnect" }, "sessions", family, "9")
      local expected = {}
      for i = 1, 9 do expected[i] = ("%d net %s %s 7000"):format(facts.client, address, address) end
      assert.same(expected, texts_of(rows, "pid", "comm", "saddr", "daddr", "dport"))
      assert.equal("9", facts.opens[1])
    end)
  end

  it("prints a connect that is refused", function()
    local rows, facts = rows_of({ "tcpconnect" }, "refused", "4")
    assert.same({ facts.client .. " 7999" }, texts_of(rows, "pid", "dport"))
  end)

  it("selects a port or a family", function()
    for _, words in ipairs { { "--port", "7000" }, { "--family", "4" } } do
      assert.equal(2, #rows_of({ "tcpconnect", table.unpack(words) }, "sessions", "4", "2"))
    end
    for _, words in ipairs { { "--port", "7001" }, { "--family", "6" } } do
      assert.equal(0, #rows_of({ "tcpconnect", table.unpack(words) }, "sessions", "4", "2"))
    end
  end)
end)
