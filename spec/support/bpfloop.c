/*
 * bpfloop.c - a BPF program that is busy in the kernel, until it is killed: bpfloop
 *
 * Prints its pid once the program spec_loop is loaded: a socket filter that counts, run repeatedly
 * by BPF_PROG_TEST_RUN (4.12; a loop needs 5.3). Without the capability, or on an older kernel,
 * it prints the cause and exits with 1.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 50000

static long call_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* r1 = 0; do r1++; while (r1 < ROUNDS); return 0 */
static int load_program(void)
{
	static const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .imm = 1 },
		{ .code = BPF_JMP | BPF_JLT | BPF_K, .dst_reg = 1, .off = -2, .imm = ROUNDS },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uint64_t)(uintptr_t)program;
	attr.insn_cnt = sizeof(program) / sizeof(program[0]);
	attr.license = (uint64_t)(uintptr_t) "GPL";
	strcpy(attr.prog_name, "spec_loop");
	return (int)call_bpf(BPF_PROG_LOAD, &attr);
}

static int run_program(int fd)
{
	static unsigned char packet[64];
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (uint32_t)fd;
	attr.test.repeat = 100;
	attr.test.data_size_in = sizeof(packet);
	attr.test.data_in = (uint64_t)(uintptr_t)packet;
	return (int)call_bpf(BPF_PROG_TEST_RUN, &attr);
}

int main(void)
{
	int fd = load_program();

	if (fd < 0 || run_program(fd) < 0) {
		printf("bpf: %s\n", strerror(errno));
		return 1;
	}
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (run_program(fd) == 0)
		;
	return 1;
}
