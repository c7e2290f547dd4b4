-- ulocks: shows how long threads wait for locks of user space, by lock and caller.
-- perfl ulocks --top 10 -- make
-- perfl -d 5s -p 1234 ulocks

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long threads wait for locks of user space, by lock and caller",
  { "-T --top", type = "integer", metavar = "N", help = "print only the N with the most time" },
  { "--call-graph", default = "dwarf", metavar = "HOW", help = "how to take stacks: dwarf[,BYTES], fp or defer" },
  output = [[
Prints a line for each LOCK: its COUNT, and the total, average, median, 99th
percentile and maximum in microseconds.]],
  epilog = [[
A wait is a futex(2) call that waits: mutexes, condition variables, semaphores,
barriers, joins. LOCK is the process name, the address of the futex, and the
first function on the stack that is not part of a lock. libc has no frame
pointers: with --call-graph fp the function that called it may be missing.]],
}

-- The operations that wait (FUTEX_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2), with their two flags.
local waits = {}
for _, op in ipairs { 0, 6, 9, 11, 13 } do
  for _, flags in ipairs { 0, 128, 256, 384 } do waits[#waits + 1] = op | flags end
end

local lock_functions = { "futex", "lll_lock", "^_*pthread_", "^_*new_sem_", "^_*sem_", "^_*mtx_", "^_*cnd_",
  "^_*thrd_", "^_*clone3?$", "^std::.*mutex", "^std::.*lock", "^std::.*condition_variable", "^std::thread",
  "^_*syscall$", "^_*GI_", "WaitOnAddress", "^%[unknown%]", "^%[libc%W", "^%[libpthread", "^%[libstdc" }

local took = perfev.quantile { by = { "comm", "lock", "caller" }, skip = lock_functions, unit = "ns",
  max_keys = 1 << 16 }
local waiting = {} -- by thread

perfev.event(tool.with_stacks("ulocks", { call_graph = opt.call_graph, user = true }, {
  "syscalls:sys_enter_futex", where = { "args.op", "in", waits },
  fields = { "tid", "comm", "time", "args.uaddr", "stack" },
  sample = function(tid, comm, time, lock, stack)
    waiting[tid] = { comm = comm, time = time, lock = lock, stack = stack }
  end,
  exit = function(r) waiting[r.tid] = nil end }))

perfev.event { "syscalls:sys_exit_futex", fields = { "tid", "time" }, sample = function(tid, time)
  local wait = waiting[tid]
  waiting[tid] = nil
  if wait then took:add(time - wait.time, wait.comm, wait.lock, wait.stack) end
end }

perfev.done(function()
  tool.print_durations(took, "lock", function(row)
    return ("%s 0x%x %s"):format(row.comm, row.lock, row.caller)
  end, opt.top)
end)
