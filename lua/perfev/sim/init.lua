--- A simulated kernel: perf events, rings, clocks, children and files.
--
--   local k = sim.new { world = "vm", cpus = "0-1" }
--   k:after("5ms", function() k:ring(0):push { type = "comm", pid = 42, comm = "cat" } end)
--   k:with(function() s:run() end)
--   assert(#k:leaks() == 0)
--
-- Time is virtual. Only epoll_wait advances it, to the next planned action.

local codec = require "perfev.record.codec"
local check = require "perfev.base.check"
local core = require "perfev.core"
local calls = require "perfev.sim.calls"
local payload = require "perfev.sim.payload"
local shown = require "perfev.base.show_value"
local units = require "perfev.base.parse_units"
local world_of_steps = require "perfev.sim.world"
local worlds = require "perfev.sim.worlds"

local E = core.errno
local TRACEPOINT = 2
local TRACEFS = "/sys/kernel/tracing/events/"
-- How long a session continues after the last planned action of its world.
local QUIET_NS, ENOUGH_NS = 500000000, 60000000000

local Kernel = {}
Kernel.__index = Kernel
local M = {}

-- ---- hooks: a call counted, failed when so planned, and logged ----

local function show(value)
  return type(value) == "userdata" and "_" or type(value) == "table" and "{}" or tostring(value)
end

-- Reading user memory or registers is not a system call.
local silent = { pagesize = true, rdtsc = true, rdpmc = true }

-- Calls that take effect although they report a failure: close(2), NOTES; the others: src/base/sys_calls.h.
local even_so = {}
function even_so.close(k, ...) calls.calls.close(k, ...) end
function even_so.release(k, gate) calls.calls.close(k, gate) end
function even_so.munmap(k, ...) calls.calls.munmap(k, ...) end
function even_so.wait(k, pid) k.children[pid] = nil end -- reaped elsewhere
function even_so.kill(k, pid) if k.children[pid] then k:end_child(pid, 9) end end

local function take_failure(k, name, key)
  local found
  for _, counted in ipairs { name, key ~= name and key or nil } do
    k.counts[counted] = (k.counts[counted] or 0) + 1
    local plan = k.failures[counted]
    if plan and k.counts[counted] == plan.nth then found = plan end
  end
  return found
end

local function hook(k, name, call)
  return function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = show(words[i]) end
    local key = name == "ioctl" and "ioctl " .. select(2, ...) or name
    local plan = take_failure(k, name, key)
    local results
    if plan then
      if plan.size then (...).size = plan.size end -- E2BIG's own size (perf_copy_attr())
      if even_so[name] then even_so[name](k, ...) end
      results = { nil, plan.errno, n = 2 }
    else
      results = table.pack(call(k, ...))
    end
    if not silent[name] then
      k.log[#k.log + 1] = ("%s(%s) = %s"):format(name, table.concat(words, ", "),
        results[1] == nil and (E[results[2]] or "nil") or show(results[1]))
    end
    return table.unpack(results, 1, results.n)
  end
end

-- The end of a message about an unknown key: the nearest key of the table.
local function hint(word, known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  return (check.hint(tostring(word), names))
end

--- Makes the n-th call of that name ("mmap", "ioctl ID") from now on fail.
-- @tparam string name
-- @tparam integer nth
-- @tparam integer errno
-- @tparam[opt] integer size  the size that E2BIG writes into the attr
function Kernel:fail(name, nth, errno, size)
  if not self.hooks[tostring(name):match "^[%w_]+"] then
    error(("fail: no call is named '%s'%s"):format(tostring(name), hint(name, self.hooks)), 2)
  end
  self.failures[name] = { nth = (self.counts[name] or 0) + nth, errno = errno, size = size }
end

--- Replaces Linux from here on, until `perfev.hooks.clear()`.
function Kernel:install()
  core.hooks.set(self.hooks)
  return self
end

--- Calls f with this kernel in force, and returns its results.
function Kernel:with(f, ...)
  return core.hooks.with(self.hooks, f, ...)
end

-- ---- time ----

local function nanoseconds(t, what)
  if math.type(t) == "integer" then return t end
  if type(t) == "number" and math.tointeger(t) then return math.tointeger(t) end
  local ns, why = units.duration(t)
  if not ns then error(what .. ": " .. why, 3) end
  return ns
end

--- Calls f after that time; epoll_wait advances the clock to it.
-- @tparam integer|string t  ns, or "5ms"
-- @tparam function f
function Kernel:after(t, f)
  local plan, at = { time = self.now + nanoseconds(t, "after"), f = f }, #self.plans + 1
  while at > 1 and self.plans[at - 1].time > plan.time do at = at - 1 end
  table.insert(self.plans, at, plan)
end

--- Calls f a number of times, at an interval.
function Kernel:every(t, times, f)
  local ns = nanoseconds(t, "every")
  for i = 1, times do self:after(ns * i, function() f(i) end) end
end

--- Advances the clock to that time (ns), and runs the functions that `after` planned until then.
function Kernel:advance_to(time)
  while self.plans[1] and self.plans[1].time <= time do
    local plan = table.remove(self.plans, 1)
    self.now = math.max(self.now, plan.time)
    self.last_plan = self.now
    plan.f()
  end
  self.now = math.max(self.now, time)
end

--- The time of the next planned action, or nil.
function Kernel:_next_plan_time()
  return self.plans[1] and self.plans[1].time
end

-- At the end of a world its commands end, then the `idle` callback runs. A session that continues
-- afterwards is reported as endless, not as slow. Returns true at the first call of an end: the session looks
-- whether `idle` has stopped it.
function Kernel:_end_when_idle()
  if not self.idle or self.plans[1] then return end
  local last = self.last_plan or self.start
  local quiet = self.now - last
  if quiet < QUIET_NS then return end
  for pid, child in pairs(self.children) do
    if child.state == "running" then self:end_child(pid, 0) end
  end
  self.idle()
  if quiet > ENOUGH_NS then error("the world has no further planned action, but the session continues", 0) end
  local is_first = self.idle_since ~= last
  self.idle_since = last
  return is_first
end

-- ---- records ----

--- Default fields of every record: pid and tid, time, cpu, id.
function Kernel:_stamp(event, type, fields)
  local into = fields
  if type ~= "sample" then
    fields.sample_id = fields.sample_id or {}
    into = fields.sample_id
  end
  local own = fields.pid or event.pid > 0 and event.pid or self.pid
  local values = { identifier = event.id, id = event.id, stream_id = event.id, pid = own,
                   tid = fields.tid or own, time = self.now, cpu = math.max(event.cpu, 0) }
  for name, value in pairs(values) do
    if into[name] == nil then into[name] = value end
  end
  return fields
end

-- A record's bytes, in the layout of this event's attr.
local function encoded(self, event, type, fields)
  event.encode = event.encode or codec.encoder { attr = event.attr }
  self:_stamp(event, type, fields)
  local given = fields.type
  fields.type = type
  local bytes = event.encode(fields)
  fields.type = given -- the table is the caller's
  return bytes
end

--- Writes bytes into the event's ring as one record; returns false if it was lost.
function Kernel:push(event, bytes)
  local ring, told = event.ring, nil
  if not ring then return false end
  if ring.lost > 0 then
    told = encoded(self, event, "lost", { id = event.id, lost = ring.lost })
  end
  return ring:write(event, bytes, told)
end

local O_ASYNC, SIGIO = 0x2000, 29
local POLL_IN, POLL_HUP = 1, 6 -- si_code

-- __perf_event_overflow(): after the overflows that REFRESH allows, the event is disabled, without a hangup
-- for poll; a signal is sent if it was requested (perf_event_wakeup(), send_sigio_to_task()).
local function overflow(self, event)
  local code = POLL_IN
  if event.limit then
    event.limit = event.limit - 1
    if event.limit <= 0 then
      code = POLL_HUP
      calls.set_enabled(self, event, false)
    end
  end
  if (event.file_flags or 0) & O_ASYNC == 0 or event.owner ~= self.pid then return end
  local number = event.signal or 0
  if number == 0 then return self:signal(SIGIO) end
  self:signal(number, { code = code, fd = event.fd })
end

-- An event without a period counts and writes no samples (is_sampling_event()).
local function only_counts(event, type) return type == "sample" and event.attr.sample_period == 0 end

--- Writes a record of that type for an enabled event; returns false if it was lost or the event is disabled.
-- An event without a period counts a sample instead, and returns false.
function Kernel:emit(event, type, fields)
  if not event.enabled or event.hup then return false end
  if type == "sample" then event.value = event.value + 1 end
  if only_counts(event, type) then return false end
  local written = self:push(event, encoded(self, event, type, fields or {}))
  if type == "sample" then overflow(self, event) end
  return written
end

-- Names of records, as a list and as a set.
local is_record = {}
for i, layout in ipairs(core.layouts().records) do is_record[i], is_record[layout.name] = layout.name, true end

-- The attr bit that requests a record type.
local asked_by = {
  comm = "comm", fork = "task", exit = "task", mmap = "mmap", mmap2 = "mmap2", switch = "context_switch",
  switch_cpu_wide = "context_switch", ksymbol = "ksymbol", bpf_event = "bpf_event", cgroup = "cgroup",
  namespaces = "namespaces", text_poke = "text_poke", read = "inherit_stat", callchain_deferred = "defer_output",
}

local function is_tracepoint(self, event, system, name)
  local tp = event.attr.type == TRACEPOINT and self.tracepoints[event.attr.config]
  return tp and tp.system == system and tp.name == name
end

local function is_meant(self, event, wanted)
  if type(wanted) == "table" and wanted.attr then return event == wanted end
  if type(wanted) == "table" then
    for field, value in pairs(wanted) do
      if event.attr[field] ~= value then return false end
    end
    return true
  end
  local system, name = wanted:match("^([^:]+):([^:]+)$")
  if not system then error(("push: event '%s': a tracepoint as 'system:name', {type =, config =}, or an "
    .. "event of this kernel is expected"):format(wanted), 0) end
  return is_tracepoint(self, event, system, name)
end

-- The events for which the kernel would write this record, or count it.
local function hears(self, event, record)
  if event.closed or event.hup or not event.enabled then return false end
  if not event.ring and not (record.event and only_counts(event, record.type)) then return false end
  local who = record.tid or record.pid
  if event.pid > 0 and who and who ~= event.pid and record.pid ~= event.pid and not event.attr.inherit then
    return false
  end
  if event.cgroup and self.cgroups and who and self.cgroups[who] ~= event.cgroup then return false end
  if record.event then return is_meant(self, event, record.event) end
  if record.type == "sample" then return event.attr.sample_period ~= 0 end
  if record.type == "mmap" and event.attr.mmap2 then return false end
  local bit = asked_by[record.type]
  return not bit or event.attr[bit]
end

local function fields_for(self, event, record)
  local fields = {}
  for name, value in pairs(record) do fields[name] = value end
  fields.event, fields.args = nil, nil
  if record.type == "sample" and not (record.cpumode or record.misc) then fields.cpumode = "user" end
  if fields.pid and not fields.tid then fields.tid = fields.pid end
  if fields.time == nil then fields.time = self.now end
  local tp = record.args and self.tracepoints[event.attr.config]
  if tp then
    local values = { common_pid = fields.tid or event.pid }
    for name, value in pairs(record.args) do values[name] = value end
    fields.raw = payload.pack(tp, values)
  end
  return fields
end

local Cpu = {}
Cpu.__index = Cpu

--- Writes a record into the ring of every event on this CPU that requests it.
-- @tparam table record  `type`, fields by the kernel's names, flags as booleans (`out`, `exec`); a sample:
--   `event` ("sched:sched_switch", {type =, config =}, or an event), `args` (a tracepoint's fields)
-- @treturn integer  the number of events that wrote it into their rings
function Cpu:push(record)
  if not is_record[record.type] and not record.number then
    error(("push: no record is called '%s'%s"):format(tostring(record.type),
      check.hint(tostring(record.type), is_record)), 2)
  end
  local kernel, cpu, written = self.kernel, self.number, 0
  for _, event in ipairs(kernel.events) do
    local here = event.cpu == cpu or event.cpu == -1
    if here and hears(kernel, event, record)
      and kernel:emit(event, record.type, fields_for(kernel, event, record)) then written = written + 1 end
  end
  return written
end

--- The events for which the kernel would write this record on that CPU.
function Kernel:_listeners(cpu, record)
  local list = {}
  for _, event in ipairs(self.events) do
    local writes = event.ring and not (record.type == "sample" and only_counts(event, record.type))
    if (event.cpu == cpu or event.cpu == -1) and writes and hears(self, event, record) then list[#list + 1] = event end
  end
  return list
end

--- The bytes of a record in the layout of an event.
function Kernel:_record_bytes(event, record)
  return encoded(self, event, record.type, fields_for(self, event, record))
end

--- The ring (or rings) of a CPU, also before it exists.
function Kernel:ring(cpu)
  return setmetatable({ kernel = self, number = cpu }, Cpu)
end

-- An AUX record's flags
local TRUNCATED, OVERWRITE = 1, 2

--- Simulates a tracing PMU: writes bytes into the AUX area of an enabled event, and the AUX record for them.
-- Bytes that do not fit are dropped; then the record has `truncated`, and the event is disabled until its reader
-- enables it, as in the kernel. Without any room the event is disabled without a record.
-- @tparam[opt] integer aux_flags  more flags, such as 4 (`partial`), 8 (`collision`)
-- @treturn boolean  false: nothing was written, or the record was lost
function Kernel:aux(event, bytes, aux_flags)
  local ring, flags = event.ring, aux_flags or 0
  if not event.enabled or event.hup or not (ring and ring.aux) then return false end
  local space = ring:aux_space()
  if #bytes > space then
    bytes, flags = bytes:sub(1, space), flags | TRUNCATED
  end
  if not ring.aux.writable then flags = flags | OVERWRITE end
  local told = false
  if space > 0 then
    local at = ring:store_aux(bytes)
    told = self:emit(event, "aux", { aux_offset = at, aux_size = #bytes, flags = flags })
    ring:tell_aux(#bytes)
  end
  if flags & TRUNCATED ~= 0 then
    calls.set_enabled(self, event, false)
    ring.woken = true
  end
  return told
end

--- Adds to the count of an enabled event.
function Kernel.count(_, event, n)
  if event.enabled then event.value = event.value + n end
end

-- ---- tasks ----

--- Ends a task: its events hang up, even with unread records.
function Kernel:exit(pid)
  for _, event in ipairs(self.events) do
    if event.pid == pid then event.hup = true end
  end
end

--- Ends a command with that status, in the form of wait(2).
function Kernel:end_child(pid, status)
  local child = self.children[pid]
  if not child then return end -- it was killed, and its status was reaped
  if child.state ~= "ended" then child.state, child.status = "ended", status end
  self:exit(pid)
end

local FIRST_QUEUED = 32 -- SIGRTMIN of the kernel

-- legacy_queue(): a standard signal is pending once, however often it is sent.
local function is_pending(file, number)
  for _, info in ipairs(file.pending) do
    if info.number == number and number < FIRST_QUEUED then return true end
  end
  return false
end

--- Sends a signal to every signalfd that waits for it.
-- @tparam integer number
-- @tparam[opt] table info  `code`, `pid`, `fd` of its siginfo
function Kernel:signal(number, info)
  info = info or {}
  for _, file in pairs(self.fds) do
    if file.kind == "signal" and file.set >> (number - 1) & 1 == 1 and not is_pending(file, number) then
      table.insert(file.pending, { number = number, code = info.code, pid = info.pid, fd = info.fd })
    end
  end
end

--- True if the task exists. In a world without `tasks` every task exists.
function Kernel:_has_task(pid)
  return self.tasks[pid] ~= nil or self.children[pid] ~= nil or pid == self.pid
end

--- Adds a task: its files in /proc. Threads share `pid`.
function Kernel:task(pid, comm, tid)
  tid = tid or pid
  self.tasks = self.tasks or {}
  self.tasks[tid] = comm
  local dir = ("/proc/%d/task/%d/"):format(pid, tid)
  local stat = ("%d (%s) S 1 %d %d 0 -1 0\n"):format(tid, comm, pid, pid)
  self.files[dir .. "comm"], self.files[dir .. "stat"] = comm .. "\n", stat
  if tid == pid then
    dir = ("/proc/%d/"):format(pid)
    self.files[dir .. "comm"], self.files[dir .. "stat"] = comm .. "\n", stat
    self.files[dir .. "status"] = ("Name:\t%s\nTgid:\t%d\nPid:\t%d\nPPid:\t1\nUid:\t%d\t0\t0\t0\n"):format(
      comm, pid, pid, self.uid)
  end
end

-- ---- files and PMUs ----

--- kernel.perf_event_paranoid; 2, the kernel's default, if the world does not set it.
function Kernel:_paranoid_level()
  return tonumber(self.files["/proc/sys/kernel/perf_event_paranoid"]) or 2
end

local function add_tracepoint(self, tp)
  self.tracepoints[tp.id] = tp
  local dir = TRACEFS .. tp.system .. "/" .. tp.name
  self.files[dir .. "/id"] = tp.id .. "\n"
  self.files[dir .. "/format"] = tp.format
  return tp
end

--- Adds a tracepoint.
-- @tparam string name    "sched:sched_switch"
-- @tparam integer id     the number in its id file
-- @tparam string fields as C declarations: "char comm[16]; pid_t pid; __data_loc char[] filename"; or the whole text of
--   a format file
-- @tparam ?string print_format  what follows `print fmt: ` in the format file
function Kernel:tracepoint(name, id, fields, print_format)
  local system, event = name:match("^([^:]+):([^:]+)$")
  if not system then error("tracepoint: a name such as 'sched:sched_switch' is expected", 2) end
  if fields:find("^name:") then
    local tp = payload.parse(system, fields)
    tp.id = id or tp.id
    return add_tracepoint(self, tp)
  end
  return add_tracepoint(self, payload.tracepoint(system, event, id, fields, print_format))
end

--- Lists the leaks: open descriptors, mappings, children, blocked signals.
-- @treturn {string,...}
function Kernel:leaks()
  local list = {}
  for fd, file in pairs(self.fds) do list[#list + 1] = ("%s %d"):format(file.kind, fd) end
  for ring in pairs(self.rings) do list[#list + 1] = "mapping of " .. ring.fd end
  for pid in pairs(self.children) do list[#list + 1] = "child " .. pid end
  if self.blocked ~= 0 then list[#list + 1] = ("blocked signals %x"):format(self.blocked) end
  table.sort(list)
  return list
end

-- ---- a new kernel ----

local function cpu_list(text)
  local set, last = {}, 0
  for from, to in text:gmatch("(%d+)%-?(%d*)") do
    for cpu = tonumber(from), tonumber(to) or tonumber(from) do set[cpu], last = true, cpu end
  end
  return set, last
end

local function take(self, opts)
  for name, value in pairs(opts) do
    if name == "files" or name == "tasks" or name == "inodes" then
      self[name] = self[name] or {}
      for key, one in pairs(value) do self[name][key] = one end
    elseif name ~= "tracepoints" and name ~= "world" then
      self[name] = value
    end
  end
end

local function check_options(opts)
  if type(opts) ~= "table" then error("sim.new: a table expected, not " .. shown(opts), 3) end
  for name in next, opts do
    if not M.options[name] then error("sim.new: " .. check.unknown(name, check.names(M.options)), 3) end
  end
end

--- The options of `sim.new` and their meanings.
M.options = {
  world = "a ready-made one to begin with, by name",
  cpus = "those online, \"0-3\"", files = "path -> text, errno, or a function that gives one",
  links = "path -> where it points", inodes = "path -> its inode; others are counted",
  pid = "ours", uid = "ours", now = "the clock at the beginning, ns",
  privileged = "do we have CAP_PERFMON (default true)", owners = "pid -> uid of a process not ours",
  release = "the kernel's version, \"5.4\": newer options are refused as it does",
  types = "PMU type -> true or {sampling =, uncore =, aux =, filters =, max_precise =, no_exclude =, branches =}; "
    .. "without it every type is there",
  cgroups = "pid -> the directory of its cgroup; without it every task is in every one",
  tasks = "pid -> comm; without it every pid is there", gone = "pid -> true: has ended",
  tracepoints = "name -> {id, fields in C's words}",
  disk = "bytes that can still be written to files",
  mlock = "bytes a ring may have", max_files = "descriptors at most", ring_start = "where heads begin",
  counters = "number -> value, for rdpmc", programs = "fd -> id of a BPF program",
  refuse = "f(attr, pid, cpu) -> errno or nil, after the kernel's own reasons",
  exec = "f(argv) -> errno or nil", at_exec = "f(child): it has exec'd, and not run",
  command = "f(child): it was released; simulates its work",
  stubborn = "children ignore signals that can be ignored", on_open = "f(event): it was opened",
  idle = "f(): called after the last planned action", outside = "fd -> poll events of a descriptor from outside",
}

--- A kernel; see `sim.options`.
-- Its own fields, for a spec to look at: `hooks`, `events` (each with `attr`, `pid`, `cpu`, `id`, `enabled`, `value`,
-- `ring`, `closed`), `fds`, `children`, `now`, `counts` (calls by name), `log` (calls in text).
-- @tparam[opt] table opts
-- @treturn kernel
function M.new(opts)
  if opts == nil then opts = {} end
  check_options(opts)
  local self = setmetatable({
    fds = {}, events = {}, rings = {}, children = {}, plans = {}, counts = {}, failures = {}, log = {},
    files = {}, gone = {}, outside = {}, tracepoints = {}, inodes = {}, last_inode = 1000,
    links = { ["/proc/self/exe"] = "/usr/bin/perfl", ["/proc/self/ns/pid"] = "pid:[4026531836]" },
    counters = {}, blocked = 0, last_id = 100, last_pid = 5000, pid = 1000, uid = 0, privileged = true,
    max_files = 1024, now = 1000000000000, ring_start = 0, cpus = "0-1",
  }, Kernel)
  local world = opts.world and worlds.find(opts.world) or {}
  take(self, world)
  take(self, opts)
  self.start = self.now
  self.online, self.last_cpu = cpu_list(self.cpus)
  self.files["/sys/devices/system/cpu/online"] = self.cpus .. "\n"
  if self.release or opts.world then
    self.files["/proc/sys/kernel/osrelease"] = (self.release or "6.18.0") .. "\n"
  end
  for _, list in ipairs { world.tracepoints or {}, opts.tracepoints or {} } do
    for name, tp in pairs(list) do self:tracepoint(name, tp[1], tp[2]) end
  end
  for pid, comm in pairs(self.tasks or {}) do self:task(pid, comm) end
  self.hooks = { strict = true }
  for name, call in pairs(calls.calls) do self.hooks[name] = hook(self, name, call) end
  return self
end

--- A kernel from a list of steps, for files of worlds: see sim/world.lua.
-- @tparam table list  options of `sim.new` by name, then the steps
-- @treturn kernel
function M.world(list)
  return world_of_steps.add_steps(world_of_steps.kernel(list, M.new), list)
end

--- The names of the built-in worlds, sorted.
M.worlds = worlds.names()

return M
