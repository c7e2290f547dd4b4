/*
 * host.c - a Lua with the core linked in.
 *
 *   host SCRIPT [ARGS...]
 *   host --starve MODE FIRST STEP SCRIPT
 *
 * The sanitizers need an instrumented program, so a stock lua5.4 cannot load an instrumented
 * core.so. The specs under sanitizers run in this program.
 *
 * With --starve memory runs out. SCRIPT returns exercise(pause, resume) and leaks(), a list of
 * the objects that are still open. A first child counts the allocations of exercise, Lua's and
 * C's. Then for each FIRST-th, FIRST + STEP-th, ... allocation a child runs it and refuses this
 * one: with the next one ("once", because Lua collects garbage and tries again) or with all later
 * ones ("after"). Then memory is available again: leaks() must be empty, exercise must succeed,
 * and after lua_close() every block and descriptor must be freed. "collect" is one run in which
 * Lua is refused every STEP-th allocation at first, and so collects all garbage before it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/* Limits of one child: of CPU, if it loops; by the clock, if it waits. A busy machine does not
 * affect the first. */
#define CPU_SECONDS 120
#define SECONDS 540
#define UNKNOWN LONG_MIN

int luaopen_perfev_core(lua_State *L);

/* The allocations to refuse. malloc() and Lua share it, so it is one per process. */
static struct {
	bool on;
	int paused;
	unsigned long asked, from, until;
	unsigned long collect; /* if not 0: refuse Lua each collect-th allocation, once */
	long blocks; /* allocated and not freed */
} hunger;

static bool is_refused(void)
{
	if (!hunger.on || hunger.paused || hunger.collect)
		return false;
	hunger.asked++;
	return hunger.asked >= hunger.from && hunger.asked <= hunger.until;
}

/* Lua collects garbage and tries again at once. */
static bool is_put_off(void)
{
	static bool again;

	if (!hunger.on || hunger.paused || !hunger.collect)
		return false;
	again = !again && hunger.asked++ % hunger.collect == 0;
	return again;
}

/* ---- malloc, unless a sanitizer replaces it ---- */

#ifdef __SANITIZE_ADDRESS__

#define libc_realloc realloc
#define libc_free free

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nr, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

static void *count_block(void *block)
{
	hunger.blocks += block != NULL;
	return block;
}

static void *libc_realloc(void *old, size_t size)
{
	void *block = __libc_realloc(old, size);

	hunger.blocks += block && !old;
	return block;
}

static void libc_free(void *block)
{
	hunger.blocks -= block != NULL;
	__libc_free(block);
}

static void *fail_nomem(void)
{
	errno = ENOMEM;
	return NULL;
}

/* Replaces malloc for the C library and all others, too. */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
	return is_refused() ? fail_nomem() : count_block(__libc_malloc(size));
}

void *calloc(size_t nr, size_t size)
{
	return is_refused() ? fail_nomem() : count_block(__libc_calloc(nr, size));
}

void *realloc(void *old, size_t size)
{
	return is_refused() ? fail_nomem() : libc_realloc(old, size);
}

int posix_memalign(void **block, size_t align, size_t size)
{
	*block = is_refused() ? NULL : count_block(__libc_memalign(align, size));
	return *block ? 0 : ENOMEM;
}

void free(void *block)
{
	libc_free(block);
}

#pragma GCC visibility pop

#endif

/* lua_Alloc. Never refuses to shrink a block: Lua relies on that. */
static void *allocate_for_lua(void *ud, void *old, size_t old_size, size_t size)
{
	(void)ud;
	if (size == 0) {
		libc_free(old);
		return NULL;
	}
	if ((!old || size > old_size) && (is_refused() || is_put_off()))
		return NULL;
	return libc_realloc(old, size);
}

/* ---- a state ---- */

static int add_traceback(lua_State *L)
{
	luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
	return 1;
}

static void set_arg(lua_State *L, int argc, char **argv)
{
	lua_createtable(L, argc, 1);
	for (int i = 0; i < argc; i++) {
		lua_pushstring(L, argv[i]);
		lua_rawseti(L, -2, i - 1);
	}
	lua_setglobal(L, "arg");
}

static void preload_core(lua_State *L)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	lua_pushcfunction(L, luaopen_perfev_core);
	lua_setfield(L, -2, "perfev.core");
	lua_pop(L, 1);
}

static int run_script(lua_State *L, const char *path, int results)
{
	lua_pushcfunction(L, add_traceback);
	if (luaL_loadfile(L, path) != LUA_OK || lua_pcall(L, 0, results, 1) != LUA_OK) {
		fprintf(stderr, "host: %s\n", lua_tostring(L, -1));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* ---- starving ---- */

enum { AT_TRACEBACK = 1, AT_EXERCISE, AT_LEAKS };

/* pause(): refuses nothing until resume(). */
static int l_pause(lua_State *L)
{
	(void)L;
	hunger.paused++;
	return 0;
}

/* resume(true, ...) -> ...; resume(false, error) raises it again: resume(pcall(f)) */
static int l_resume(lua_State *L)
{
	bool ok = lua_toboolean(L, 1);

	hunger.paused--;
	if (!ok) {
		lua_settop(L, 2);
		return lua_error(L);
	}
	return lua_gettop(L) - 1;
}

static int nr_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr;
}

static int nr_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int nr = 0;

	while (maps && fgets(line, sizeof(line), maps))
		nr += strstr(line, "[perf_event]") != NULL;
	if (maps)
		fclose(maps);
	return nr;
}

/* Calls exercise(pause, resume), protected. */
static int call_exercise(lua_State *L)
{
	int rc;

	lua_pushcfunction(L, add_traceback);
	lua_pushvalue(L, AT_EXERCISE);
	lua_pushcfunction(L, l_pause);
	lua_pushcfunction(L, l_resume);
	rc = lua_pcall(L, 2, 0, -4);
	lua_remove(L, rc == LUA_OK ? -1 : -2);
	return rc;
}

static bool has_leaks(lua_State *L)
{
	lua_gc(L, LUA_GCCOLLECT);
	lua_gc(L, LUA_GCCOLLECT);
	lua_pushvalue(L, AT_LEAKS);
	lua_call(L, 0, 1);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		return false;
	}
	printf("left open: %s", lua_tostring(L, -1));
	return true;
}

/* The child's run; prints one line if a check fails. */
static int starve_once(lua_State *L, long blocks)
{
	int fds = nr_descriptors();

	/*
	 * A collection shrinks the stack, and then a hook, even __close, cannot be called
	 * any more. When memory runs out, Lua collects nevertheless.
	 */
	if (hunger.until > hunger.from + 1)
		lua_gc(L, LUA_GCSTOP);
	hunger.asked = 0;
	hunger.on = true;
	if (call_exercise(L) != LUA_OK)
		lua_pop(L, 1);
	hunger.on = false;
	lua_gc(L, LUA_GCRESTART);
	hunger.paused = 0;
	if (has_leaks(L))
		return EXIT_FAILURE;
	if (call_exercise(L) != LUA_OK) {
		printf("with memory again: %s", lua_tostring(L, -1));
		return EXIT_FAILURE;
	}
	if (has_leaks(L))
		return EXIT_FAILURE;
	lua_close(L);
	if (nr_descriptors() != fds || nr_rings() != 0) {
		printf("%d descriptors and %d rings are left", nr_descriptors() - fds, nr_rings());
		return EXIT_FAILURE;
	}
#ifdef __SANITIZE_ADDRESS__
	if (__lsan_do_recoverable_leak_check())
		return EXIT_FAILURE;
#endif
	if (blocks != UNKNOWN && hunger.blocks != blocks) {
		printf("%ld blocks are left", hunger.blocks - blocks);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* Runs f in a child. Returns the status of wait(2). */
static int in_child(lua_State *L, long blocks, long *found)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS });
		alarm(SECONDS);
		status = starve_once(L, blocks);
		found[0] = (long)hunger.asked;
		found[1] = hunger.blocks;
		fflush(NULL);
		_exit(status);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

static int starve_all(lua_State *L, const char *mode, unsigned long first, unsigned long step)
{
	long *found = mmap(NULL, sizeof(long) * 2, PROT_READ | PROT_WRITE,
			   /* cppcheck-suppress invalidFunctionArg; none has no number */
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long all, runs = 0, wrong = 0;
	long blocks = UNKNOWN;
	int status;

	if (found == MAP_FAILED)
		return EXIT_FAILURE;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	/* Twice: the first run makes the allocations that libraries never free. */
	for (int i = 0; i < 2; i++) {
		hunger.from = 1;
		hunger.until = 0;
		if (in_child(L, UNKNOWN, found) != 0) {
			printf(": before anything was refused\n");
			return EXIT_FAILURE;
		}
	}
	all = (unsigned long)found[0];
	blocks = found[1];
#ifdef __SANITIZE_ADDRESS__
	blocks = UNKNOWN;
#endif
	if (strcmp(mode, "collect") == 0) {
		hunger.collect = step;
		first = step = all;
	}
	for (unsigned long n = first; n <= all; n += step, runs++) {
		hunger.from = n;
		hunger.until = strcmp(mode, "once") == 0 ? n + 1 : (unsigned long)-1;
		status = in_child(L, blocks, found);
		if (status == 0)
			continue;
		wrong++;
		if (status == -1 || WIFSIGNALED(status))
			printf("ended by signal %d", WTERMSIG(status));
		printf(" (allocation %lu)\n", n);
	}
	printf("%lu allocations, %lu refused, %lu wrong\n", all, runs, wrong);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	bool starving = argc == 6 && strcmp(argv[1], "--starve") == 0;
	int rc;

	if (argc < 2 || (!starving && argv[1][0] == '-')) {
		fprintf(stderr, "usage: %s SCRIPT [ARGS...]\n"
			"       %s --starve once|after|collect FIRST STEP SCRIPT\n",
			argv[0], argv[0]);
		return EXIT_FAILURE;
	}
	lua_State *L = luaL_newstate();
	if (!L)
		return EXIT_FAILURE;
	lua_setallocf(L, allocate_for_lua, NULL);
	luaL_openlibs(L);
	set_arg(L, argc, argv);
	preload_core(L);
	rc = run_script(L, argv[starving ? 5 : 1], starving ? 2 : 0);
	if (rc == EXIT_SUCCESS && starving)
		rc = starve_all(L, argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	lua_close(L);
	return rc;
}
