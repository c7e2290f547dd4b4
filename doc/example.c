/*
 * example.c - prints the context switches of a command, without Lua: example COMMAND [ARGS...]
 *
 * cc example.c $(pkg-config --cflags --libs perfev)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <perfev.h>

static int print_switch(void *session, uint32_t slot, const struct pev_record *rec)
{
	uint64_t time, tid;

	(void)slot;
	if (pev_record_number(rec, PEV_F_TIME, &time) && pev_record_number(rec, PEV_F_TID, &tid))
		printf("%" PRIu64 " %s %s\n", time, pev_session_comm(session, (int)tid),
		       rec->misc & PERF_RECORD_MISC_SWITCH_OUT ? "out" : "in");
	return 0;
}

static int watch(struct pev_session *session, struct pev_engine *engine, struct pev_child *child,
		 struct pev_err *err)
{
	static const char *const on[] = { "context_switch", "comm", "task", "inherit", "exclude_kernel" };
	struct pev_attr attr = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY };
	struct pev_target target = { .pids = &child->pid, .nr_pids = 1 };
	struct pev_listener listener = { .wanted_types = 1u << PERF_RECORD_SWITCH };
	struct pev_want want = { 0 };
	struct pev_slot *slot;
	int *cpus, ready, rc = pev_sys_cpus(&pev_sys_linux, &cpus);

	if (rc < 0)
		return pev_fail(err, rc, "cannot read the list of CPUs");
	target.cpus = cpus;
	target.nr_cpus = rc;
	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		pev_attr_set(&attr, on[i], 1, err);
	rc = pev_session_add(session, &attr, "switches", &target, &want, &slot, err);
	free(cpus);
	if (rc == 0)
		rc = pev_engine_add_listener(engine, &listener); /* of event 0 */
	if (rc >= 0)
		rc = pev_session_enable(session, err);
	if (rc == 0)
		rc = pev_child_release(child, false, err);
	while (rc >= 0 && !pev_session_is_over(session)) {
		pev_session_wait(session, -1, &ready, 0);
		rc = (int)pev_engine_dispatch(engine, PEV_DRAIN_ROUND, print_switch, session, err);
	}
	return rc < 0 ? rc :
	       (int)pev_engine_dispatch(engine, PEV_DRAIN_REST, print_switch, session, err);
}

int main(int argc, char **argv)
{
	struct pev_session_config config = { .clockid = 1 /* CLOCK_MONOTONIC */ };
	struct pev_session *session = NULL;
	struct pev_engine engine;
	struct pev_child child = { 0 };
	struct pev_err err = { 0 };
	int rc;

	if (argc < 2) {
		fprintf(stderr, "usage: %s COMMAND [ARGS...]\n", argv[0]);
		return 2;
	}
	pev_engine_init(&engine);
	rc = pev_child_spawn(&child, &pev_sys_linux, argv + 1, 0, &err);
	if (rc == 0)
		rc = pev_session_open(&session, &pev_sys_linux, &config, &err);
	if (rc == 0) {
		pev_engine_set_source(&engine, pev_session_source(session));
		rc = watch(session, &engine, &child, &err);
	}
	pev_engine_free(&engine);
	if (session)
		pev_session_close(session);
	pev_child_close(&child);
	if (rc < 0)
		fprintf(stderr, "%s (%s)\n", err.text, pev_errno_name(rc));
	return rc < 0;
}
