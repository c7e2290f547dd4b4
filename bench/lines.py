# perf script -s lines.py: counts the records of whatever event by task.
tasks = {}


def process_event(event):
    tid = event["sample"]["tid"]
    tasks[tid] = tasks.get(tid, 0) + 1


def trace_end():
    print(sum(tasks.values()))
