/* peers.c - planted causes that wait for another process: a child, a pipe, a socket, events */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "causes.h"

static int to_peer, from_peer;

/* Answers each number after that many us. */
static void be_peer(int in, int out)
{
	unsigned us;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in, &us, sizeof(us)) == sizeof(us)) {
		nap(us);
		if (write(out, &us, sizeof(us)) != sizeof(us))
			break;
	}
	_exit(0);
}

static void send_question(unsigned us)
{
	if (write(to_peer, &us, sizeof(us)) != sizeof(us))
		_exit(2);
}

/* ---- pipe ---- */

static void prepare_pipe(void)
{
	int there[2], back[2];

	if (pipe(there) < 0 || pipe(back) < 0)
		exit(2);
	to_peer = there[1];
	from_peer = back[0];
	if (fork() == 0) {
		close(there[1]);
		be_peer(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
}

SEPARATE static void ask_resolver(unsigned us)
{
	send_question(us);
	if (read(from_peer, &us, sizeof(us)) != sizeof(us))
		_exit(2);
}

static void serve_pipe(bool slow) { ask_resolver(slow ? SLOW_US : random_below(400)); }

/* ---- socket ---- */

static void prepare_socket(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;
	socklen_t length = sizeof(address);

	if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0)
		exit(2);
	if (fork() == 0) {
		fd = accept(listener, NULL, NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		be_peer(fd, fd);
	}
	to_peer = from_peer = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(to_peer, (struct sockaddr *)&address, length) < 0)
		exit(2);
	setsockopt(to_peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
}

SEPARATE static void query_database(unsigned us)
{
	send_question(us);
	if (recv(from_peer, &us, sizeof(us), MSG_WAITALL) != sizeof(us))
		_exit(2);
}

static void serve_socket(bool slow) { query_database(slow ? SLOW_US : random_below(400)); }

/* ---- epoll ---- */

static int epoll;

static void prepare_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	prepare_pipe();
	epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, from_peer, &event);
}

SEPARATE static void await_update(unsigned us)
{
	struct epoll_event event;

	send_question(us);
	if (epoll_wait(epoll, &event, 1, -1) != 1 || read(from_peer, &us, sizeof(us)) != sizeof(us))
		_exit(2);
}

static void serve_epoll(bool slow) { await_update(slow ? SLOW_US : random_below(400)); }

/* ---- child ---- */

SEPARATE static void convert_image(bool slow)
{
	pid_t pid = fork();

	if (pid == 0) {
		burn(slow ? SLOW_US : 50);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void serve_child(bool slow)
{
	if (slow || random_below(8) == 0)
		convert_image(slow);
}

const struct cause peers[] = {
	{ "pipe", prepare_pipe, serve_pipe },
	{ "socket", prepare_socket, serve_socket },
	{ "epoll", prepare_epoll, serve_epoll },
	{ "child", NULL, serve_child },
	{ 0 },
};
