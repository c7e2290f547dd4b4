/*
 * hotlib.c - the library that hot.c loads: lib_work() and functions that are not exported.
 */
static volatile unsigned long sink;

unsigned long lib_work(unsigned long n);

__attribute__((noinline)) static unsigned long lib_inner(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i * 3;
	return sink;
}

__attribute__((noinline)) unsigned long lib_work(unsigned long n) { return lib_inner(n) + 1; }
