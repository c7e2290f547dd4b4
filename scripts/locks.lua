-- locks: shows how long tasks wait for locks of the kernel, by kind and caller.
-- perfl -a -d 5s locks
-- perfl locks --top 10 -- make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long tasks wait for locks of the kernel, by kind and caller",
  { "-T --top", type = "integer", metavar = "N", help = "print only the N with the most time" },
  output = [[
Prints a line for each LOCK, its kind and the caller: its COUNT, and the total,
average, median, 99th percentile and maximum in microseconds.]],
  epilog = "The caller is the first function that is not part of a lock. :R: readers; :W: writers.",
}

-- LCB_F_* of include/trace/events/lock.h; the names are perf's.
local SPIN, READ, WRITE, RT, PERCPU, MUTEX = 1, 2, 4, 8, 16, 32

local function kind_of(flags)
  local side = flags & READ ~= 0 and ":R" or flags & WRITE ~= 0 and ":W" or ""
  if flags & MUTEX ~= 0 then return "mutex" end
  if flags & PERCPU ~= 0 then return "pcpu-sem" .. side end
  if flags & RT ~= 0 then return side == "" and "rt-mutex" or "rwlock-rt" .. side end
  if flags & SPIN ~= 0 then return side == "" and "spinlock" or "rwlock" .. side end
  return side == "" and "semaphore" or "rwsem" .. side
end

local lock_functions = { "spin_.*lock", "read_lock", "write_lock", "slowpath", "mutex_", "rwsem_", "^_*down_",
  "^_*down$", "rq_lock", "rtlock", "percpu_.*_wait", "^_*schedule" }

local took = perfev.quantile { by = { "kind", "caller" }, skip = lock_functions, unit = "ns", max_keys = 1 << 16 }
local waits = {} -- by thread, by lock: a mutex begins twice if spinning fails, and the first begin counts

-- Idle tasks are one thread on each CPU; a task can wait for a second lock in an interrupt.
local function waits_of(tid, cpu)
  local key = tid ~= 0 and tid or -1 - cpu
  waits[key] = waits[key] or {}
  return waits[key]
end

perfev.event { "lock:contention_begin", callchain = true, exclude_callchain_user = true,
  fields = { "tid", "cpu", "args.lock_addr", "time", "args.flags", "stack" },
  sample = function(tid, cpu, lock, time, flags, stack)
    local own = waits_of(tid, cpu)
    own[lock] = own[lock] or { time = time, flags = flags, stack = stack }
  end,
  exit = function(r) waits[r.tid] = nil end }

perfev.event { "lock:contention_end", fields = { "tid", "cpu", "args.lock_addr", "time" },
  sample = function(tid, cpu, lock, time)
    local own = waits_of(tid, cpu)
    local wait = own[lock]
    own[lock] = nil
    if wait then took:add(time - wait.time, kind_of(wait.flags), wait.stack) end
  end }

perfev.done(function()
  tool.print_durations(took, "lock", function(row) return row.kind .. " " .. row.caller end, opt.top)
end)
