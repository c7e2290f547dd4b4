-- machines.lua - simulated machines with all that the shipped scripts count: one kernel for each, or one for all.
--
--   local machines = require "spec.support.machines"
--   machines.path(dir, { 1, 2, 3 })   -- a world with the records of these machines; returns its path
--
-- A machine has its own CPU, tasks, disk and interrupts, so that one run over all of them counts what a run on each
-- counts. Its records depend on its number alone.

local run = require "spec.support.run"

local M = {}

local TEXT = [[
local sim = require "perfev.sim"
local WHICH, SECONDS, EACH = { %s }, %d, %d
local tasks = {}
for i = 1, 3 do
  tasks[100 * i + 7], tasks[100 * i + 8], tasks[100 * i + 9] = "app", "helper", "disker" .. i
end
local k = sim.new { world = "vm", cpus = "0-3", tasks = tasks, types = { [0] = true, true, true, [5] = true,
    [6] = { sampling = true } }, files = {
  ["/proc/kallsyms"] = "ffffffff81000100 t leaf\nffffffff81000200 T middle\nffffffff81000300 T root\n",
  ["/proc/mounts"] = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
  ["/sys/fs/cgroup/web.slice/cgroup.procs"] = "107\n",
} }
k.inodes["/sys/fs/cgroup/web.slice"] = 70
local pmu = "/sys/bus/event_source/devices/kprobe/"
k.files[pmu .. "type"], k.files[pmu .. "format/retprobe"] = "6\n", "config:0\n"
local LEAF, MIDDLE, ROOT = 0xffffffff81000110, 0xffffffff81000210, 0xffffffff81000310
local stacks = { { LEAF }, { LEAF, ROOT }, { MIDDLE, ROOT }, { LEAF, MIDDLE, ROOT }, { ROOT } }
local disk = "u32 dev; u64 sector; unsigned int nr_sector; unsigned int bytes; char rwbs[10]; char comm[16]"
local wakeup = "char comm[16]; pid_t pid; int prio; int target_cpu"
for i, one in ipairs {
  { "sched:sched_wakeup_new", wakeup }, { "sched:sched_waking", wakeup },
  { "block:block_rq_issue", disk }, { "block:block_io_start", disk },
  { "block:block_rq_complete", "u32 dev; u64 sector; unsigned int nr_sector; int error; char rwbs[10]" },
  { "irq:softirq_entry", "unsigned int vec" }, { "irq:softirq_exit", "unsigned int vec" },
  { "irq:irq_handler_entry", "int irq; __data_loc char[] name" }, { "irq:irq_handler_exit", "int irq; int ret" },
  { "lock:contention_begin", "u64 lock_addr; unsigned int flags" }, { "lock:contention_end", "u64 lock_addr; int ret" },
  { "syscalls:sys_enter_futex", "int __syscall_nr; u64 uaddr; u64 op; u64 val" },
  { "syscalls:sys_exit_futex", "int __syscall_nr; s64 ret" },
  { "kmem:kmalloc", "u64 call_site; u64 ptr; size_t bytes_req; size_t bytes_alloc" },
  { "kmem:kmem_cache_alloc", "u64 call_site; u64 ptr; size_t bytes_req; size_t bytes_alloc" },
  { "kmem:kfree", "u64 call_site; u64 ptr" }, { "kmem:kmem_cache_free", "u64 call_site; u64 ptr" },
} do
  k:tracepoint(one[1], 900 + i, one[2])
  local file = "/sys/kernel/tracing/events/" .. one[1]:gsub(":", "/") .. "/format"
  if one[2]:find "call_site" then
    k.files[file] = k.files[file]:gsub('fmt: ""', function() return 'fmt: "call_site=%%pS", (void *)REC->call_site' end)
  end
end
local any = math.random
local CLOCK, SWITCH = { type = 1, config = 0 }, { type = 1, config = 3 }
local MINOR, MAJOR, WATCHED = { type = 1, config = 5 }, { type = 1, config = 6 }, { type = 5, config = 0 }
local ENTRY, RETURN = { type = 6, config = 0 }, { type = 6, config = 1 }

-- The records of machine i in the time from `us` on.
local function happen(i, us)
  local cpu, comms = i, { [0] = "swapper", [7] = "app", [8] = "helper", [9] = "disker" .. i }
  local function number(task) return task == 0 and 0 or 100 * i + task end
  local function push(after, t) k:after((us + after) * 1000, function() k:ring(cpu):push(t) end) end
  local function sample(after, task, event, args, more)
    local stack = stacks[any(#stacks)]
    local t = { type = "sample", pid = number(task), tid = number(task), event = event, args = args, ip = stack[1],
                callchain = { -128, table.unpack(stack) }, period = any(1000), cgroup = task * 10 }
    for name, value in pairs(more or {}) do t[name] = value end
    push(after, t)
  end
  local task, other = any(7, 9), any(7, 9)
  -- a wakeup, a turn on the CPU and off it
  sample(1, 0, "sched:sched_waking", { comm = comms[task], pid = number(task) })
  sample(2, 0, "sched:sched_wakeup", { comm = comms[task], pid = number(task), prio = 0, target_cpu = cpu })
  local ran = any(4, 40)
  local function switch(after, prev, state, next)
    sample(after, prev, "sched:sched_switch", { prev_comm = comms[prev], prev_pid = number(prev), prev_state = state,
      next_comm = comms[next], next_pid = number(next) })
  end
  switch(ran, 0, 0, task)
  push(ran, { type = "switch", pid = number(task), tid = number(task), out = false })
  sample(ran + 1, task, CLOCK)
  sample(ran + 2, task, any(2) == 1 and MINOR or MAJOR)
  sample(ran + 3, task, WATCHED)
  sample(ran + 4, task, "raw_syscalls:sys_enter", { id = any(0, 3) })
  sample(ran + 4 + any(9), task, "raw_syscalls:sys_exit", { id = 0, ret = any(-2, 2) })
  sample(ran + 20, task, ENTRY) sample(ran + 20 + any(9), task, RETURN)
  -- a soft interrupt, and a handler in it
  sample(ran + 31, task, "irq:softirq_entry", { vec = any(0, 3) })
  local irq = 30 + i
  sample(ran + 32, task, "irq:irq_handler_entry", { irq = irq, name = "disk" })
  sample(ran + 32 + any(3), task, "irq:irq_handler_exit", { irq = irq, ret = 1 })
  for vec = 0, 3 do sample(ran + 40 + vec, task, "irq:softirq_exit", { vec = vec }) end
  -- locks
  local lock = 0x1000 * i + any(3)
  sample(ran + 50, task, "lock:contention_begin", { lock_addr = lock, flags = any(2) == 1 and 32 or 1 })
  sample(ran + 50 + any(9), task, "lock:contention_end", { lock_addr = lock, ret = 0 })
  sample(ran + 60, task, "syscalls:sys_enter_futex", { uaddr = lock, op = 128, val = 1 })
  sample(ran + 60 + any(9), task, "syscalls:sys_exit_futex", { ret = 0 })
  -- memory of the kernel
  local site, ptr = ({ LEAF, MIDDLE, ROOT })[any(3)], 0x10000 * i + any(9)
  local bytes = any(99)
  sample(ran + 70, task, any(2) == 1 and "kmem:kmalloc" or "kmem:kmem_cache_alloc",
    { call_site = site, ptr = ptr, bytes_req = bytes, bytes_alloc = 128 })
  if any(2) == 1 then sample(ran + 71, other, "kmem:kfree", { call_site = ROOT, ptr = ptr }) end
  -- a request
  local request = { dev = i << 20, sector = any(9), nr_sector = 2, bytes = 1024, rwbs = "R", comm = comms[task] }
  sample(ran + 80, task, "block:block_io_start", request)
  sample(ran + 82, task, "block:block_rq_issue", request)
  sample(ran + 82 + any(99), 0, "block:block_rq_complete",
    { dev = request.dev, sector = request.sector, nr_sector = 2, rwbs = "R" })
  sample(ran + 200, task, SWITCH)
  push(ran + 200, { type = "switch", pid = number(task), tid = number(task), out = true, preempt = false })
  switch(ran + 200, task, any(3) == 1 and 256 or 1, 0)
end

for _, i in ipairs(WHICH) do
  math.randomseed(i)
  for n = 1, EACH do happen(i, n * (SECONDS * 1000000 // (EACH + 1)) + any(1000)) end
end
k:after(SECONDS .. "s", function() end) -- the end
return k
]]

--- Writes a world with these machines, of 1 to 3.
-- @tparam string dir
-- @tparam {integer,...} which
-- @tparam[opt] table opts  `seconds` (4), `each` (40: turns of tasks on a machine)
-- @treturn string  path
function M.path(dir, which, opts)
  opts = opts or {}
  local name = table.concat(which, "_")
  return run.write_file(("%s/machines_%s.lua"):format(dir, name), TEXT:format(table.concat(which, ", "),
    opts.seconds or 4, opts.each or 40))
end

return M
