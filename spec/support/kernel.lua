--- kernel.lua - a small kernel to put under perfev: perf events, rings, clocks and children.
--
--   local k = kernel.new { cpus = "0-1" }
--   hooks.set(k.hooks)                       -- sessions opened from here on run on it
--   k:after(5e6, function() k:emit(k.events[1], "switch", {}) end)
--   assert.same({}, k:leaks())
--
-- Time is virtual and moves in epoll_wait alone: to the next thing that happens. Rings
-- follow the kernel's rules (ring_buffer.c, __perf_output_begin()): one byte stays free,
-- what does not fit is counted and told by a LOST record before the next that does.

local hooks = require("perfev").hooks
local wire = require "spec.support.wire"

local E = require("perfev").errno
local PAGE = 4096
local HEAD, TAIL, DATA_OFFSET, DATA_SIZE = 1024, 1032, 1040, 1048 -- in perf_event_mmap_page
local POLLIN, POLLHUP = 1, 16

local Kernel = {}
Kernel.__index = Kernel
local M = {}

-- ---- descriptors ----

local function new_fd(self, kind, object)
  local fd = 3
  while self.fds[fd] do fd = fd + 1 end
  object.kind, object.fd = kind, fd
  self.fds[fd] = object
  return fd
end

local function cpu_list(text)
  local set, last = {}, 0
  for from, to in text:gmatch("(%d+)%-?(%d*)") do
    for cpu = tonumber(from), tonumber(to) or tonumber(from) do set[cpu], last = true, cpu end
  end
  return set, last
end

-- ---- the calls, each as perfev.hooks has it ----

local calls = {}

function calls:perf_event_open(attr, pid, cpu, group_fd, flags)
  if pid == -1 and cpu == -1 or cpu > self.last_cpu then return nil, E.EINVAL end
  if self.gone[pid] then return nil, E.ESRCH end
  if cpu >= 0 and not self.online[cpu] then return nil, E.ENODEV end
  local errno = self.refuse and self.refuse(attr, pid, cpu)
  if errno then return nil, errno end
  self.last_id = self.last_id + 1
  local event = {
    attr = attr, pid = pid, cpu = cpu, group_fd = group_fd, flags = flags, id = self.last_id,
    enabled = not attr.disabled, value = 0, lost = 0, hup = false,
  }
  table.insert(self.events, event)
  return new_fd(self, "event", event)
end

function calls:ioctl(fd, request, arg)
  local event = self.fds[fd]
  if request == "ID" then return event.id end
  if request == "ENABLE" or request == "DISABLE" then
    event.enabled = request == "ENABLE"
  elseif request == "SET_OUTPUT" then
    local to = self.fds[arg]
    if not to.ring or event.ring or to.cpu ~= event.cpu or to.attr.clockid ~= event.attr.clockid then
      return nil, E.EINVAL
    end
    event.ring = to.ring
  elseif request == "SET_FILTER" then
    if event.filter then return nil, E.EEXIST end
    event.filter = arg
  elseif request == "PERIOD" then
    event.period = arg
  else
    return nil, E.ENOTTY
  end
  return 0
end

function calls:mmap(len, prot, fd, offset)
  local event, size = self.fds[fd], len - PAGE
  if prot ~= 3 or offset ~= 0 or size < PAGE or size & (size - 1) ~= 0 or event.ring then return nil, E.EINVAL end
  if self.mlock and size > self.mlock then return nil, E.EPERM end
  local memory = hooks.memory(len)
  local ring = { memory = memory, size = size, fd = fd, cpu = event.cpu, lost = 0, told = self.ring_start }
  memory:u64(DATA_OFFSET, PAGE)
  memory:u64(DATA_SIZE, size)
  memory:u64(HEAD, self.ring_start)
  memory:u64(TAIL, self.ring_start)
  event.ring = ring
  self.rings[ring] = true
  return memory
end

function calls:munmap(memory)
  for ring in pairs(self.rings) do
    if ring.memory == memory then self.rings[ring] = nil end
  end
  return 0
end

function calls:read(fd, len)
  local file = self.fds[fd]
  if file.kind == "event" then
    return wire.read_values(file.attr.read_format, {
      value = file.value, time_enabled = 1, time_running = 1, id = file.id, lost = file.lost,
    })
  elseif file.kind == "timer" then
    if self.now < file.next then return nil, E.EAGAIN end
    local times = file.every > 0 and (self.now - file.next) // file.every + 1 or 1
    file.next = file.every > 0 and file.next + times * file.every or math.maxinteger
    return string.pack("=I8", times)
  elseif file.kind == "signal" then
    if #file.pending == 0 then return nil, E.EAGAIN end
    return string.pack("=I4", table.remove(file.pending, 1)) .. ("\0"):rep(len - 4)
  end
  return nil, E.EBADF
end

function calls:close(fd)
  local file = self.fds[fd]
  if not file then return nil, E.EBADF end
  self.fds[fd] = nil
  for _, other in pairs(self.fds) do
    if other.kind == "epoll" then other.set[fd] = nil end
  end
  if file.kind == "gate" and file.child.state == "held" then self:end_child(file.child.pid, 127 << 8) end
  return 0
end

function calls:epoll_create() return new_fd(self, "epoll", { set = {} }) end

function calls:epoll_ctl(epfd, op, fd, _, tag)
  local set = self.fds[epfd].set
  if not self.fds[fd] and not self.outside[fd] then return nil, E.EBADF end
  if op == 1 and set[fd] then return nil, E.EEXIST end
  if op == 2 and not set[fd] then return nil, E.ENOENT end
  set[fd] = op == 1 and { tag = tag } or nil
  return 0
end

-- What poll(2) says of a descriptor; asking clears the ring's latch (perf_poll()).
local polls = {
  event = function(_, event)
    if event.hup or not event.ring then return POLLHUP end
    local woken = event.ring.woken
    event.ring.woken = false
    return woken and POLLIN or 0
  end,
  timer = function(self, timer) return self.now >= timer.next and POLLIN or 0 end,
  signal = function(_, file) return #file.pending > 0 and POLLIN or 0 end,
  pidfd = function(_, file) return file.child.state == "ended" and POLLIN or 0 end,
}

local function ready(self, set, max)
  local fds, list = {}, {}
  for fd in pairs(set) do fds[#fds + 1] = fd end
  table.sort(fds)
  for _, fd in ipairs(fds) do
    local file = self.fds[fd]
    local events = #list < max and (file and polls[file.kind](self, file) or self.outside[fd]) or 0
    if events ~= 0 then list[#list + 1] = { events, set[fd].tag } end
  end
  return list
end

local function next_time(self, set)
  local first = self.plans[1] and self.plans[1].time
  for fd in pairs(set) do
    local file = self.fds[fd]
    if file and file.kind == "timer" and file.next < (first or math.maxinteger) then first = file.next end
  end
  return first
end

function calls:epoll_wait(epfd, max, timeout_ms)
  local set = self.fds[epfd].set
  local deadline = timeout_ms >= 0 and self.now + timeout_ms * 1000000
  self.spins = timeout_ms < 0 and self.now == self.last_wait and self.spins + 1 or 0
  self.last_wait = self.now
  if self.spins > 1000 then error("epoll_wait was called a thousand times, and nothing has happened", 0) end
  local found = ready(self, set, max)
  while #found == 0 do
    local time = next_time(self, set)
    if deadline and (not time or time > deadline) then
      self:pass(deadline)
      return {}
    end
    if not time then error("epoll_wait would wait for ever", 0) end
    self:pass(time)
    found = ready(self, set, max)
  end
  return found
end

function calls:clock() return self.now end
function calls:timerfd(first, every)
  return new_fd(self, "timer", { next = self.now + first, every = every })
end
function calls:signalfd(set) return new_fd(self, "signal", { set = set, pending = {} }) end

function calls:sigblock(set, block)
  local before = self.blocked
  self.blocked = block ~= 0 and before | set or before & ~set
  return before ~ self.blocked
end

function calls:spawn(argv)
  self.last_pid = self.last_pid + 1
  local child = { pid = self.last_pid, argv = argv, state = "held" }
  self.children[child.pid] = child
  return child.pid, new_fd(self, "gate", { child = child })
end

function calls:release(gate)
  local child = self.fds[gate].child
  self.fds[gate] = nil
  if child.state == "ended" then return nil, E.ECHILD end
  local errno = self.exec and self.exec(child.argv)
  if errno then
    self:end_child(child.pid, (errno == E.ENOENT and 127 or 126) << 8)
    return nil, errno
  end
  child.state = "running"
  for _, event in ipairs(self.events) do
    if event.pid == child.pid and event.attr.enable_on_exec then event.enabled = true end
  end
  return 0
end

function calls:pidfd_open(pid) return new_fd(self, "pidfd", { child = self.children[pid] }) end

function calls:wait(pid, block)
  local child = self.children[pid]
  if not child then return nil, E.ECHILD end
  if child.state == "ended" then
    self.children[pid] = nil
    return child.status
  end
  if block ~= 0 then error("wait would wait for ever", 0) end
  return false
end

function calls:kill(pid, sig)
  if not self.children[pid] then return nil, E.ESRCH end
  if sig == 9 or not self.stubborn then self:end_child(pid, sig) end
  return 0
end

function calls:slurp(path)
  local text = self.files[path]
  if type(text) == "string" then return text end
  return nil, text or E.ENOENT
end

function calls:list(path)
  local names, seen, prefix = {}, {}, path:gsub("/*$", "/")
  for file in pairs(self.files) do
    local name = file:sub(1, #prefix) == prefix and file:sub(#prefix + 1):match("^[^/]+")
    if name and not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  if #names == 0 then return nil, E.ENOENT end
  return names
end

function calls.raise_nofile() return 1024 end
function calls:getpid() return self.pid end

-- ---- failing, and what was called ----

local function show(value)
  return type(value) == "userdata" and "_" or type(value) == "table" and "{}" or tostring(value)
end

local function hook(self, name, call)
  return function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = show(words[i]) end
    local key = name == "ioctl" and "ioctl " .. words[2] or name
    local results
    for _, counted in ipairs { name, key ~= name and key or nil } do
      self.counts[counted] = (self.counts[counted] or 0) + 1
      local plan = self.failures[counted]
      if plan and self.counts[counted] == plan.nth then results = { nil, plan.errno, n = 2 } end
      if results and name == "release" then self.hooks.close(...) end -- the gate is closed either way
    end
    results = results or table.pack(call(self, ...))
    self.log[#self.log + 1] = ("%s(%s) = %s"):format(name, table.concat(words, ", "),
      results[1] == nil and (E[results[2]] or "nil") or show(results[1]))
    return table.unpack(results, 1, results.n)
  end
end

--- The n-th call of that name ("mmap", "ioctl ID") from here on fails.
function Kernel:fail(name, nth, errno)
  self.failures[name] = { nth = (self.counts[name] or 0) + nth, errno = errno }
end

-- ---- what happens ----

--- Call f when so many ns have passed; epoll_wait brings time there.
function Kernel:after(ns, f)
  local plan, at = { time = self.now + math.tointeger(ns), f = f }, #self.plans + 1
  while at > 1 and self.plans[at - 1].time > plan.time do at = at - 1 end
  table.insert(self.plans, at, plan)
end

--- Let time pass until then.
function Kernel:pass(time)
  while self.plans[1] and self.plans[1].time <= time do
    local plan = table.remove(self.plans, 1)
    self.now = math.max(self.now, plan.time)
    plan.f()
  end
  self.now = math.max(self.now, time)
end

local function put(ring, bytes)
  local head = ring.memory:u64(HEAD)
  local at = head & (ring.size - 1)
  local first = bytes:sub(1, ring.size - at)
  ring.memory:write(PAGE + at, first)
  ring.memory:write(PAGE, bytes:sub(#first + 1))
  ring.memory:u64(HEAD, head + #bytes)
end

-- Bytes that may be written: CIRC_SPACE() keeps one free.
local function space(ring)
  return ring.size - 1 - (ring.memory:u64(HEAD) - ring.memory:u64(TAIL))
end

--- Write bytes into the event's ring as one record; false when it was lost.
function Kernel:push(event, bytes)
  local ring, told = event.ring, ""
  if ring.lost > 0 then
    told = wire.record(event.attr, "lost", self:stamp(event, "lost", { id = event.id, lost = ring.lost }))
  end
  if #told + #bytes > space(ring) then
    ring.lost, event.lost = ring.lost + 1, event.lost + 1
    return false
  end
  if ring.lost > 0 then ring.lost = 0 end
  put(ring, told .. bytes)
  local mark = event.attr.watermark and event.attr.wakeup_watermark or 0
  mark = mark > 0 and math.min(mark, ring.size) or ring.size // 2
  local head = ring.memory:u64(HEAD)
  if head - ring.told > mark then ring.told, ring.woken = head, true end
  return true
end

--- Fields that every record has, unless they are given: who, when, where, whose.
function Kernel:stamp(event, type, fields)
  local into = fields
  if type ~= "sample" then
    fields.sample_id = fields.sample_id or {}
    into = fields.sample_id
  end
  local own = event.pid > 0 and event.pid or self.pid
  local values = { identifier = event.id, id = event.id, stream_id = event.id, pid = own, tid = own,
                   time = self.now, cpu = event.cpu }
  for name, value in pairs(values) do
    if into[name] == nil then into[name] = value end
  end
  return fields
end

--- Write a record of that type for an event that is on; false when it was lost or the event is off.
function Kernel:emit(event, type, fields)
  if not event.enabled or event.hup then return false end
  if type == "sample" then event.value = event.value + 1 end
  return self:push(event, wire.record(event.attr, type, self:stamp(event, type, fields or {})))
end

--- A task ends: its events hang up, whatever is unread.
function Kernel:exit(pid)
  for _, event in ipairs(self.events) do
    if event.pid == pid then event.hup = true end
  end
end

--- A command ends with that status, as wait(2) gives it.
function Kernel:end_child(pid, status)
  local child = self.children[pid]
  if child.state ~= "ended" then child.state, child.status = "ended", status end
  self:exit(pid)
end

--- A signal arrives at every signalfd that waits for it.
function Kernel:signal(number)
  for _, file in pairs(self.fds) do
    if file.kind == "signal" and file.set >> (number - 1) & 1 == 1 then table.insert(file.pending, number) end
  end
end

--- Whatever was not given back: descriptors, mappings, children, blocked signals.
function Kernel:leaks()
  local list = {}
  for fd, file in pairs(self.fds) do list[#list + 1] = ("%s %d"):format(file.kind, fd) end
  for ring in pairs(self.rings) do list[#list + 1] = "mapping of " .. ring.fd end
  for pid in pairs(self.children) do list[#list + 1] = "child " .. pid end
  if self.blocked ~= 0 then list[#list + 1] = ("blocked signals %x"):format(self.blocked) end
  table.sort(list)
  return list
end

--- A kernel. `cpus` (online, "0-1"), `files` (path -> text or errno), `pid` (ours), `now`,
-- `mlock` (bytes a ring may have), `ring_start` (where heads begin), `refuse(attr, pid, cpu) -> errno`,
-- `exec(argv) -> errno`, `gone` (pid -> true), `stubborn` (children ignore what can be ignored).
function M.new(opts)
  local self = setmetatable({
    fds = {}, events = {}, rings = {}, children = {}, plans = {}, counts = {}, failures = {}, log = {},
    files = {}, gone = {}, outside = {}, blocked = 0, last_id = 100, last_pid = 5000, pid = 1000,
    now = 1000000000000, ring_start = 0, spins = 0,
  }, Kernel)
  for name, value in pairs(opts or {}) do self[name] = value end
  self.online, self.last_cpu = cpu_list(self.cpus or "0-1")
  self.files["/sys/devices/system/cpu/online"] = (self.cpus or "0-1") .. "\n"
  self.hooks = { strict = true }
  for name, call in pairs(calls) do self.hooks[name] = hook(self, name, call) end
  return self
end

return M
