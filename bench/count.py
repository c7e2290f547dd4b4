# perf script -s count.py: as many calls as there are, the least that perf's Python engine can be asked for.
calls = {}


def raw_syscalls__sys_enter(event_name, context, common_cpu, common_secs, common_nsecs, common_pid, common_comm,
                            common_callchain, id, args, perf_sample_dict=None):
    calls[id] = calls.get(id, 0) + 1


def trace_end():
    print(sum(calls.values()))
