--- Makes worlds from the events that a script opens: tasks with lives, and sequences of events that belong together.
--
-- A plausible world has only non-negative values, one thing at a time in each task, and an end for each start. The
-- faults of perfl.prove.faults are made from it.

local M = {}

local IDLE, PARENT = 0, 42
local FIRST_PID = 31001
local SOCKET_STATE = "sock:inet_sock_set_state"
local COMMS = { "alpha", "beta", "gamma", "delta" }
local FILES = { "/etc/hosts", "/usr/bin/true", "/tmp/x" }
local CALLS = { 0, 1, 3, 257, 202 } -- read, write, close, openat, futex of x86_64

-- Parts of names of events that follow each other.
local followers = {
  { "sys_enter", "sys_exit" }, { "_begin", "_end" }, { "_start", "_done" }, { "_start", "_end" }, { "_start", "_stop" },
  { "_start", "_complete" }, { "_entry", "_exit" }, { "_raise", "_entry" }, { "_issue", "_complete" },
  { "_insert", "_issue" }, { "block_io_start", "block_rq_issue" }, { "block_rq_complete", "block_io_done" },
  { "kmalloc", "kfree" }, { "kmem_cache_alloc", "kmem_cache_free" }, { "mm_page_alloc", "mm_page_free" },
  { "_queue_work", "_execute_start" }, { "add_to_page_cache", "delete_from_page_cache" },
  { "signal_generate", "signal_deliver" }, { "_queue", "_xmit" }, { "_enter", "_exit" }, { "_entry", "_return" },
}

local function is_sched(name) return name:find "^sched:" or name:find "^task:" end

M.is_sched = is_sched

-- Replaces plain text once.
local function replaced(text, part, by)
  local from, to = text:find(part, 1, true)
  return from and text:sub(1, from - 1) .. by .. text:sub(to + 1)
end

--- Chains of events that follow each other: list of lists of names.
-- @tparam table events  by name
function M.chains(events)
  local after, has_before = {}, {}
  local names = {}
  for name in pairs(events) do
    if not is_sched(name) then names[#names + 1] = name end
  end
  table.sort(names)
  local function follow(name, next_name)
    if next_name and events[next_name] and not has_before[next_name] and not after[name] then
      after[name], has_before[next_name] = next_name, true
    end
  end
  for _, name in ipairs(names) do
    for _, pair in ipairs(followers) do follow(name, replaced(name, pair[1], pair[2])) end
    local head, number, rest = name:match "^(perfev_%d+_)(%d+)(:.*)$" -- a function's return has the next number
    follow(name, head and ("%s%d%s"):format(head, number + 1, rest))
  end
  local chains = {}
  for _, name in ipairs(names) do
    if not has_before[name] then
      local chain = { name }
      while after[chain[#chain]] and #chain < 8 do chain[#chain + 1] = after[chain[#chain]] end
      chains[#chains + 1] = chain
    end
  end
  return chains
end

-- ---- values ----

local function text_value(name, task)
  if name:find "comm" then return task.comm end
  if name:find "file" then return FILES[math.random(#FILES)] end
  if name == "rwbs" then return math.random(2) == 1 and "R" or "W" end
  return "name" .. math.random(3)
end

local by_name = {
  ret = function() return math.random(0, 200) end,
  id = function(_, shared) return shared.call end,
  __syscall_nr = function(_, shared) return shared.call end,
  error = function() return 0 end, flags = function() return math.random(0, 3) end,
  node = function() return 0 end, irq = function() return math.random(4) end,
  vec = function() return math.random(0, 9) end,
  order = function() return math.random(0, 3) end, sig = function() return math.random(1, 15) end,
  protocol = function() return 6 end, family = function() return 2 end,
  s_dev = function() return 0x800001 end, dev = function() return 0x800001 end,
  last_index = function(_, shared) return shared.index or 3 end, index = function() return math.random(0, 3) end,
  nr_sector = function() return 8 end, bytes = function() return 4096 end, error_code = function() return 4 end,
  cpu = function() return math.random(0, 1) end, req_cpu = function() return math.random(0, 1) end,
  call_site = function() return 0xffffffff81000100 end, ["function"] = function() return 0xffffffff81000100 end,
  bytes_req = function() return 100 end, bytes_alloc = function() return 128 end,
}

-- The numbers that a filter compares this field with, as in "op==0||op==128".
local function numbers_in(filter, name)
  local list = {}
  for number in filter:gmatch("%f[%w_]" .. name .. "%s*[=<>!&]+%s*(0?x?%x+)") do
    list[#list + 1] = math.tointeger(tonumber(number))
  end
  return list
end

local function number_value(field, task, shared, filter)
  local name = field.name
  if name:find "pid$" then return task.tid end
  local wanted = filter and numbers_in(filter, name) or {}
  if wanted[1] and math.random(4) > 1 then return wanted[math.random(#wanted)] end
  if by_name[name] then return by_name[name](task, shared) end
  if field.size >= 8 then return 0x1000 * math.random(1, 1 << 16) end
  return math.random(1, field.size == 1 and 100 or 10000)
end

local function value_of(field, task, shared, filter)
  if field.text or field.dynamic then return text_value(field.name, task) end
  if not field.count then return number_value(field, task, shared, filter) end
  local list = {}
  for i = 1, math.min(field.count, 16) do list[i] = math.random(1, 100) end
  return list
end

--- Fields of a sample of a tracepoint; those in `shared` keep their values.
function M.args(event, task, shared)
  local args = {}
  for _, field in ipairs(event.fields or {}) do
    local name = field.name
    if not name:find "^common_" then
      if shared[name] == nil or name == "ret" then shared[name] = value_of(field, task, shared, event.filter) end
      args[name] = shared[name]
    end
  end
  return args
end

-- ---- steps ----

local Maker = {}
Maker.__index = Maker

function Maker:add(at, step)
  step.at = at
  self.world[#self.world + 1] = step
end

local function stack()
  return { kernel = { -0x7effff00, -0x7efffe00 }, user = { 0x401000 + math.random(4) * 16, 0x402000 } }
end

-- A sample of a tracepoint, if the script opens it.
function Maker:point(at, name, task, args, shared)
  local event = self.events[name]
  if not event then return end
  local all = M.args(event, task, shared or {})
  for field, value in pairs(args or {}) do
    if all[field] ~= nil then all[field] = value end
  end
  self:add(at, { cpu = task.cpu, type = "sample", event = name, pid = task.pid, tid = task.tid, args = all,
    callchain = event.chain and stack() or nil })
end

function Maker:record(at, bit, task, record)
  if not self.bits[bit] then return end
  record.cpu, record.pid, record.tid = task.cpu, record.pid or task.pid, record.tid or task.tid
  self:add(at, record)
end

local idle = { pid = 0, tid = 0, comm = "swapper/0" }

function Maker:switch(at, from, to, cpu, state)
  local runs = from.tid ~= IDLE and from or to
  local sample = { pid = from.pid, tid = from.tid, comm = from.comm, cpu = cpu }
  self:point(at, "sched:sched_switch", sample, { prev_comm = from.comm, prev_pid = from.tid, prev_prio = 120,
    prev_state = state, next_comm = to.comm, next_pid = to.tid, next_prio = 120 })
  if from.tid ~= IDLE and self.switches then
    self:add(at, { cpu = cpu, type = "sample", event = self.switches, pid = from.pid, tid = from.tid,
      callchain = stack(), period = 1 })
  end
  self:record(at + 100, "context_switch", { pid = runs.pid, tid = runs.tid, cpu = cpu },
    { type = "switch", out = from.tid ~= IDLE or nil, preempt = from.tid ~= IDLE and state == 0 or nil })
end

function Maker:wakeup(at, task, by, name)
  local waker = { pid = by.pid, tid = by.tid, comm = by.comm, cpu = (task.cpu + 1) % 2 }
  self:point(at, name or "sched:sched_waking", waker, { comm = task.comm, pid = task.tid, target_cpu = task.cpu,
    prio = 120 })
  if not name then
    self:point(at + 300, "sched:sched_wakeup", waker, { comm = task.comm, pid = task.tid, target_cpu = task.cpu,
      prio = 120 })
  end
end

function Maker:wait(at, task)
  local ns = math.random(100, 9000) * 1000
  local preempted = math.random(4) == 1
  self:switch(at, task, idle, task.cpu, preempted and 0 or 1)
  if not preempted then self:wakeup(at + ns, task, self.tasks[math.random(#self.tasks)]) end
  for _, kind in ipairs { "sleep", "blocked", "iowait", "wait", "runtime" } do
    self:point(at + ns + 400, "sched:sched_stat_" .. kind, task, { delay = ns, runtime = ns })
  end
  self:switch(at + ns + math.random(5, 900) * 1000, idle, task, task.cpu, 0)
  return ns + 1000000
end

function Maker:birth(at, task)
  local parent = { pid = PARENT, tid = PARENT, comm = "sshd", cpu = task.cpu }
  self:point(at, "sched:sched_process_fork", parent, { parent_comm = "sshd", parent_pid = PARENT,
    child_comm = "sshd", child_pid = task.tid })
  self:point(at, "task:task_newtask", parent, { pid = task.tid, comm = "sshd" })
  local by = task.pid == task.tid and PARENT or task.pid
  self:record(at + 100, "task", task, { type = "fork", ppid = by, ptid = by })
  self:wakeup(at + 200, task, parent, "sched:sched_wakeup_new")
  self:switch(at + 50000, idle, task, task.cpu, 0)
  if task.pid ~= task.tid then return end
  self:record(at + 60000, "comm", task, { type = "comm", comm = task.comm, exec = true })
  self:point(at + 60100, "sched:sched_process_exec", task, { filename = "/usr/bin/" .. task.comm, pid = task.tid,
    old_pid = task.tid })
end

function Maker:death(at, task)
  self:point(at, "sched:sched_process_exit", task, { comm = task.comm, pid = task.tid, group_dead = 1 })
  self:record(at + 100, "task", task, { type = "exit", ppid = PARENT, ptid = PARENT })
  self:switch(at + 50000, task, idle, task.cpu, 32) -- TASK_DEAD
end

-- The states of a TCP connection, with the bytes that it carries.
function Maker:connection(at, task)
  self.nr_sockets = (self.nr_sockets or 0) + 1
  local socket = 0x10000 + self.nr_sockets * 0x100
  local shared = { skaddr = socket, sk = socket, sport = 1000 + self.nr_sockets, dport = 443, family = 2, protocol = 6,
    flags = 0 }
  local states = { { 7, 2 }, { 2, 1 }, { 1, 4 }, { 4, 5 }, { 5, 7 } }
  for i, change in ipairs(states) do
    shared.oldstate, shared.newstate = change[1], change[2]
    self:point(at + i * 400000, SOCKET_STATE, task, nil, shared)
    if i == 2 then
      self:point(at + 900000, "sock:sock_send_length", task, nil, shared)
      self:point(at + 950000, "sock:sock_recv_length", task, nil, shared)
    end
  end
  return 3000000
end

function Maker:chain(at, task, chain)
  local ns, shared = 0, { call = CALLS[math.random(#CALLS)] }
  self.nr_chains = (self.nr_chains or 0) + 1
  shared.sector, shared.ptr, shared.pfn = self.nr_chains * 64, self.nr_chains * 0x1000, self.nr_chains
  for i, name in ipairs(chain) do
    if i > 1 then ns = ns + math.random(10, 4000) * 1000 end
    self:point(at + ns, name, task, nil, shared)
  end
  return ns + 100000
end

-- A sample of an event that is not a tracepoint.
function Maker:plain(at, task, event)
  self:add(at, { cpu = task.cpu, type = "sample", event = { type = event.type, config = event.config },
    pid = task.pid, tid = task.tid, ip = 0x401000 + math.random(8) * 16, addr = 0x7000 + math.random(8) * 64,
    period = 1, callchain = event.chain and stack() or nil })
  return 10000
end

-- Records of the machine, by the bit of the attr that asks for them.
local machine_records = {
  ksymbol = function()
    return { type = "ksymbol", addr = -4096 * math.random(8), len = 64, ksym_type = 1, flags = math.random(0, 1),
      name = "bpf_prog_" .. math.random(3) }
  end,
  bpf_event = function()
    return { type = "bpf_event", bpf_type = math.random(1, 2), flags = 0, id = math.random(9), tag = "12345678" }
  end,
  cgroup = function() return { type = "cgroup", id = math.random(9), path = "/batch/" .. math.random(3) } end,
  text_poke = function()
    return { type = "text_poke", addr = -0x7effff00, old_bytes = "abcde", new_bytes = "fghij" }
  end,
  namespaces = function()
    local namespaces = {}
    for i, name in ipairs { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" } do
      namespaces[name] = { dev = 4, inode = 4026531830 + i }
    end
    return { type = "namespaces", namespaces = namespaces }
  end,
}
local machine_bits = { "bpf_event", "cgroup", "ksymbol", "namespaces", "text_poke" }

-- What a task can do, as functions (at, task) -> ns.
function Maker:activities()
  local list = {}
  for _, chain in ipairs(M.chains(self.events)) do
    if not chain[1]:find "^sock:" then
      list[#list + 1] = function(at, task) return self:chain(at, task, chain) end
    end
  end
  for _, event in ipairs(self.plain_events) do
    if not self.switches or event.config ~= 3 or event.type ~= 1 then
      list[#list + 1] = function(at, task) return self:plain(at, task, event) end
    end
  end
  if self.has_sched then list[#list + 1] = function(at, task) return self:wait(at, task) end end
  if self.has_sockets then list[#list + 1] = function(at, task) return self:connection(at, task) end end
  if self.bits.mmap or self.bits.mmap2 then
    list[#list + 1] = function(at, task)
      self:record(at, self.bits.mmap2 and "mmap2" or "mmap", task, { type = self.bits.mmap2 and "mmap2" or "mmap",
        addr = 0x400000, len = 0x10000, pgoff = 0, filename = "/usr/bin/" .. task.comm })
      return 10000
    end
  end
  for _, bit in ipairs(machine_bits) do
    if self.bits[bit] then
      list[#list + 1] = function(at, task)
        self:record(at, bit, task, machine_records[bit](task))
        return 10000
      end
    end
  end
  return list
end

local function new_maker(survey)
  local self = setmetatable({ world = {}, events = {}, bits = {}, plain_events = {}, tasks = {} }, Maker)
  for _, event in ipairs(survey.events) do
    for _, bit in ipairs(event.bits) do self.bits[bit] = true end
    if event.name then
      local known = self.events[event.name]
      self.events[event.name] = known and known.chain and known or event
      self.has_sched = self.has_sched or is_sched(event.name)
      self.has_sockets = self.has_sockets or event.name:find "^sock:"
    elseif event.samples then
      self.plain_events[#self.plain_events + 1] = event
      if event.type == 1 and event.config == 3 then self.switches = { type = 1, config = 3 } end
    end
  end
  self.has_sched = self.has_sched or self.switches or self.bits.context_switch
  return self
end

--- Sorts the steps by time, which is the order of a world's file.
function M.sort(world)
  for i, step in ipairs(world) do step.order = i end
  table.sort(world, function(a, b)
    if (a.at or -1) ~= (b.at or -1) then return (a.at or -1) < (b.at or -1) end
    return a.order < b.order
  end)
  for _, step in ipairs(world) do step.order = nil end
  return world
end

-- Distinct times, so that no order is left to chance.
local function spread_times(world)
  local last = -1
  for _, step in ipairs(M.sort(world)) do
    if step.at <= last then step.at = last + 100 end
    last = step.at
  end
  return world
end

--- A world without steps, in which the tasks exist.
function M.tasks()
  local tasks = {}
  for i = 1, 3 do tasks[FIRST_PID + (i - 1) * 10] = COMMS[i] end
  return { tasks = tasks }
end

M.FIRST_PID = FIRST_PID

--- A plausible world.
-- @tparam table survey    a result of perfl.prove.child: `events`
-- @tparam integer size    the number of activities
-- @tparam ?table options  `pid`: the first task's
function M.plausible(survey, size, options)
  local self = new_maker(survey)
  local first = options and options.pid or FIRST_PID
  for i = 1, 3 do
    local pid = first + (i - 1) * 10
    self.tasks[i] = { pid = pid, tid = pid, comm = COMMS[i], cpu = i % 2, free = 1000000 * i }
  end
  self.tasks[4] = { pid = first, tid = first + 1, comm = COMMS[1], cpu = 1, free = 5000000 }
  for _, task in ipairs(self.tasks) do self:birth(task.free - 900000, task) end
  local activities = self:activities()
  for _ = 1, activities[1] and size or 0 do
    local task = self.tasks[math.random(#self.tasks)]
    local does = activities[math.random(#activities)]
    task.free = task.free + math.random(20, 2000) * 1000 + does(task.free, task)
  end
  for i, task in ipairs(self.tasks) do
    if i > 2 then self:death(task.free + 1000000, task) end
  end
  return spread_times(self.world)
end

--- The death of a task at a time: a killed task that waits is woken and runs before. Returns steps.
-- @tparam table survey
-- @tparam table task         `pid`, `tid`, `comm`, `cpu`
-- @tparam boolean is_waiting
-- @tparam integer at
function M.death(survey, task, is_waiting, at)
  local self = new_maker(survey)
  if is_waiting then
    self:wakeup(at, task, { pid = PARENT, tid = PARENT, comm = "sshd" })
    self:switch(at + 5000, idle, task, task.cpu, 0)
  end
  self:death(at + 10000, task)
  return self.world
end

--- True if the script can get records at all.
function M.has_records(survey)
  local self = new_maker(survey)
  return next(self.events) ~= nil or self.plain_events[1] ~= nil or next(self.bits) ~= nil
end

--- The life of a task with one activity of each kind, for a repetition.
-- @tparam table survey
-- @tparam boolean has_ends  false: an activity lacks its end
-- @treturn table            steps; `part`: 0 of the birth, the number of an activity; the death has none
-- @treturn integer          ns until the next life
function M.life(survey, has_ends)
  local self = new_maker(survey)
  local task = { pid = 100000, tid = 100000, comm = "many", cpu = 0, free = 0 }
  self.tasks = { { pid = 7, tid = 7, comm = "other", cpu = 1 } }
  self:birth(0, task)
  for _, step in ipairs(self.world) do step.part = 0 end
  local at = 100000
  for part, does in ipairs(self:activities()) do
    local from = #self.world + 1
    at = at + 100000 + does(at, task)
    -- The kernel closes the connections of a task that ends.
    local last = self.world[#self.world]
    if not has_ends and #self.world > from and last.event ~= SOCKET_STATE then self.world[#self.world] = nil end
    for i = from, #self.world do self.world[i].part = part end
  end
  self:death(at + 100000, task)
  local steps = {}
  for i, step in ipairs(spread_times(self.world)) do steps[i] = M.with_moving_pid(step, task.tid) end
  return steps, at + 1000000
end

-- Fields whose values a repetition counts up, so that each life has objects of its own.
local objects = {}
for name in ("sector ptr skaddr sk pfn lock_addr uaddr skbaddr work timer"):gmatch "%S+" do objects[name] = true end

--- Replaces a pid, and the addresses of objects, by "+N", which a repetition counts up.
function M.with_moving_pid(step, pid)
  local copy = {}
  for name, value in pairs(step) do
    if type(value) == "table" then
      copy[name] = M.with_moving_pid(value, pid)
    elseif name ~= "at" and (value == pid or objects[name]) then
      copy[name] = "+" .. value
    else
      copy[name] = value
    end
  end
  return copy
end

return M
