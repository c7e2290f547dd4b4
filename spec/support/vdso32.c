/*
 * vdso32.c - a 32-bit program (i386) that calls getpid() TIMES times through the vdso.
 *
 * Without a C library, because 32-bit ones are rarely installed. The entry point of the vdso is in
 * the auxiliary vector (AT_SYSINFO, 32), behind arguments and environment.
 */
#ifndef TIMES
#define TIMES 1
#endif

__attribute__((naked)) void _start(void)
{
	__asm__ volatile("mov %%esp, %%esi\n"
			 "mov (%%esi), %%ecx\n"
			 "lea 8(%%esi, %%ecx, 4), %%esi\n"
			 "1: add $4, %%esi\n"
			 "cmpl $0, -4(%%esi)\n"
			 "jne 1b\n"
			 "2: add $8, %%esi\n"
			 "cmpl $32, -8(%%esi)\n"
			 "jne 2b\n"
			 "mov -4(%%esi), %%edi\n"
			 "mov %0, %%ebp\n"
			 "3: mov $20, %%eax\n"  /* getpid */
			 "push %%ebp\n"
			 "call *%%edi\n"
			 "pop %%ebp\n"
			 "dec %%ebp\n"
			 "jnz 3b\n"
			 "mov $1, %%eax\n"     /* exit */
			 "xor %%ebx, %%ebx\n"
			 "int $0x80\n"
			 :
			 : "i"(TIMES));
}
