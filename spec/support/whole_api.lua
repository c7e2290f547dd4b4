-- whole_api.lua - a script that uses the whole interface once, for host.c --starve.
--
-- It runs on the simulated kernel. The simulator's own hooks always get memory: a failed allocation inside them
-- would be no fault of the module. -> exercise(pause, resume), leaks()

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local perfev = require "perfev"
local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local sim = require "perfev.sim"
local stat = require "perfev.tool.stat.output"
local syscalls = require "perfev.tracepoint.syscalls"
local units = require "perfev.base.parse_units"
require "perfev.counter.counter"
require "perfev.record.codec"

-- The first long string of a luaL_Buffer makes its metatable; if memory runs out meanwhile, Lua 5.4 never sets its
-- __close, and every long one fails from then on (newbox() in lauxlib.c): "got a non-closable value".
assert(#("x"):rep(1 << 16) == 1 << 16)

local kernel -- the one in use

local function new_kernel(pause, resume, opts)
  local function nothing_refused(f)
    return function(...)
      pause()
      return resume(pcall(f, ...))
    end
  end
  pause()
  local k = resume(pcall(sim.new, opts))
  pause()
  resume(pcall(function()
    for name, f in pairs(k.hooks) do
      if type(f) == "function" then k.hooks[name] = nothing_refused(f) end
    end
  end))
  kernel = k
  return k
end

-- One record of every type, for each CPU.
local types = {
  { type = "sample", pid = 11, ip = 0x401000, callchain = { -128, -4096, -512, 0x1100, 0x1200 } },
  { type = "comm", pid = 11, comm = "other", exec = true },
  { type = "fork", pid = 12, ppid = 11, tid = 12, ptid = 11 },
  { type = "exit", pid = 12, ppid = 11, tid = 12, ptid = 11 }, { type = "switch", pid = 11, out = true },
  { type = "mmap2", pid = 11, addr = 0x1000, len = 0x1000, pgoff = 0, maj = 8, min = 1, ino = 5, ino_generation = 0,
    prot = 5, flags = 2, filename = "/bin/true" },
  { type = "lost", id = 1, lost = 3 }, { type = "throttle", time = 1, id = 1, stream_id = 1 },
  { type = "ksymbol", addr = 1, len = 2, ksym_type = 1, flags = 0, name = "k" },
  { type = "cgroup", id = 3, path = "/a" }, { type = "bpf_event", bpf_type = 1, flags = 0, id = 2, tag = ("x"):rep(8) },
}

local function happenings(k)
  k:every("30ms", 2, function(i)
    for cpu = 0, 1 do
      for _, record in ipairs(types) do k:ring(cpu):push(record) end
      k:ring(cpu):push { type = "sample", event = "sched:sched_switch", pid = 11,
                         args = { prev_comm = "a", next_comm = "b", next_pid = i } }
    end
  end)
  k.command = function(child)
    k:after("80ms", function() k:end_child(child.pid, 0) end)
  end
end

local function look(r, args)
  local copy = r:copy()
  local all = { r.type, r.comm, r.bytes, r.callchain or 0, r.read or 0, r.misc, tostring(r), copy.type }
  if r.stack then all = { r.stack.id, r.stack:folded(r.comm), tostring(copy.stack), r.symbol } end
  if args then all = { args.next_comm, args.next_pid, tostring(args) } end
  return #all > 0
end

local callbacks = { record = look, comm = look }

local function declare(s, spec)
  for name, f in pairs(callbacks) do spec[name] = f end
  return assert(s:event(spec))
end

local function everything(s)
  local clock = declare(s, { "cpu-clock", freq = 99, callchain = true, name = "the clock", ksymbol = true,
                             cgroup = true, bpf_event = true, context_switch = true, task = true, mmap = true,
                             mmap2 = true })
  declare(s, { "sched:sched_switch", filter = "next_pid > 0" })
  s:event { "sched:nothing_such", optional = true, sample = look }
  s:every("20ms", function() s:totals() end)
  s:signal("USR1", function() end)
  s:begin(function() s:plan() end)
  s:done(function() s:totals() end)
  local c = s:counter { "task-clock", "page-faults" }
  return clock, c
end

local function in_session(s)
  local clock, c = everything(s)
  assert(s:start())
  assert(clock:disable())
  assert(clock:enable())
  assert(clock:period(1000))
  assert(s:fd() and s:declared() > 0)
  declare(s, { "page-faults", period = 1, filter = nil })
  assert(c:read())
  assert(s:dispatch())
  assert(s:run())
end

local function sessions(with)
  with(function()
    in_session(perfev.session { duration = "100ms", buffer = "16K", log = function() end })
  end)
  with(function()
    local s <close> = perfev.session { command = { "true" }, buffer = "16K", strict = false,
                                       on_error = function() end }
    s:event { "page-faults", period = 1, sample = function() error "wanted" end, comm = look }
    assert(s:run())
    assert(s.command_status.exit == 0)
  end)
  with(function()
    local s <close> = perfev.session { tid = { 11, 12 }, duration = "60ms", buffer = "16K", ordered = false }
    s:event { "task-clock", period = 1000 }
    for r in s:records() do look(r) end
  end)
  with(function()
    local s <close> = perfev.session { duration = "100ms", buffer = "16K", overwrite = true }
    s:event { "cpu-clock", freq = 99, record = look }
    s:every("60ms", function() assert(s:snapshot()) end)
    assert(s:run())
  end)
  with(function(k)
    k:fail("perf_event_open", 2, perfev.errno.EBUSY)
    local s <close> = perfev.session { duration = "100ms", buffer = "16K" }
    s:event { "cpu-clock", freq = 99, sample = look }
    local ok, why, code = s:run()
    assert(not ok and why:find "on cpu 1" and code == perfev.errno.EBUSY)
  end)
end

local function counters(with)
  with(function()
    local c <close> = assert(perfev.counter { "task-clock", "page-faults", pid = "self" })
    assert(c:read() and c:delta() and c:enable() and c:disable() and c:reset())
    assert(c:add "context-switches")
    assert(c:member "page-faults":ids()[1] and c:names()[1] and c:events()[1].name)
    assert(c:member "page-faults":send_signal "RTMIN+1")
    c:close "page-faults"
  end)
  with(function()
    local g <close> = assert(perfev.group { "task-clock", "page-faults", pid = 11, lost = true })
    assert(g:read() and g:delta())
    assert(perfev.measure({ "task-clock" }, function(...) return ... end, 1, 2))
  end)
  with(function()
    local c <close> = assert(perfev.counter { "task-clock", command = { "true" } })
    assert(c:run())
  end)
end

local FORMAT = [[
name: sched_switch
ID: 316
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int next_pid;	offset:8;	size:4;	signed:1;

print fmt: "%d", REC->next_pid
]]

-- Returns a recording's bytes: a tracepoint with a payload, a clock, a name.
local function recorded()
  local bits = { "identifier", "tid", "time", "cpu", "raw" }
  local b = perfdata.new { events = {
    { ids = { 1 }, name = "sched:sched_switch",
      attr = { type = 2, config = 316, sample_type = bits, sample_id_all = true } },
    { ids = { 2 }, name = "cpu-clock",
      attr = { type = 1, config = 0, comm = true, task = true, sample_type = bits, sample_id_all = true } },
  } }
  local function at(id, ms) return { pid = 7, tid = 7, time = ms * 1000000, cpu = 0, identifier = id } end
  b:add { type = "comm", pid = 7, tid = 7, comm = "worker", sample_id = at(2, 1) }
  for i = 1, 6 do
    local t = at(1 + i % 2, i)
    t.type, t.raw = "sample", b:pack("I2I2I4i4I4", 316, 0, 7, i, 0)
    b:add(t)
  end
  local data = "\x17\x08\x44tracing0.6\0" .. b:pack("BBI4", 0, 8, 4096) .. "header_page\0" .. b:pack("I8", 0)
    .. "header_event\0" .. b:pack("I8I4I4", 0, 0, 1) .. "sched\0" .. b:pack("I4s8I4I4I8", 1, FORMAT, 0, 0, 0)
  return b:file { [1] = data, [5] = b:string "perfev" .. "exclude_pid 9\nkeep_own 0\n", [12] = b:event_desc() }
end

local recording, files = recorded(), {} -- files: the open descriptors

-- Every path opens the recording.
local function with_recording(pause, resume, f)
  pause()
  local hooks, open = resume(pcall(perfdata.hooks, recording))
  local close = hooks.close
  hooks.close = function(fd) return (open[fd] and close or core.hooks.real.close)(fd) end
  files = open
  for name, hook in pairs(hooks) do
    hooks[name] = function(...)
      pause()
      return resume(pcall(hook, ...))
    end
  end
  core.hooks.with(hooks, f)
end

local function replays(pause, resume)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a", from = "+0s", cpus = "0-3", pid = 7, comm = "wor*,x",
                                       log = function() end }
    local sum, ticks, done = 0, 0, 0
    s:event { "sched:*", sample = function(r, args)
      look(r)
      sum = sum + args.next_pid
    end }
    s:event { "cs | cpu-clock", sample = look, comm = look }
    s:event { record = look }
    s:every("2ms", function() ticks = ticks + 1 end)
    s:done(function() done = done + 1 end)
    assert(s:run())
    assert(sum == 12 and ticks == 2 and done == 1)
  end)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a", strict = false, on_error = function() end }
    s:event { "cpu-clock", sample = function() error "wanted" end }
    assert(s:run())
    assert(s:totals().callback_errors == 3)
  end)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a" }
    local a = perfev.count { by = { "comm", "pid", "event" } }
    s:event { "cpu-clock", sample = a }
    assert(s:run())
    assert(#a > 0)
  end)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a" }
    local n = 0
    s:event { "cpu-clock", fields = { "comm", "time", "event", "stack", "raw" }, sample = function(comm, time, event)
      n = n + (comm and time and event and 1 or 0)
    end }
    assert(s:run())
    assert(n > 0)
  end)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a", to = "0.004000" }
    s:event { "cpu-clock,sched:sched_switch" }
    for r in s:records() do look(r) end
  end)
  with_recording(pause, resume, function()
    local s <close> = perfev.session { input = "a" }
    local n = 0
    s:event { "cpu-clock", where = { "comm", "!=", "nobody" } }
    for event, comm in s:records { fields = { "event", "comm", "stack" } } do n = n + (event and comm and 1 or 0) end
    assert(n > 0)
  end)
end

local function bytes_and_back()
  local spec = { sample_type = { "ip", "tid", "callchain", "raw", "read", "regs_user" }, read_format = 31,
                 sample_regs_user = 0xff, sample_id_all = true }
  local fields = { type = "sample", ip = 1, pid = 2, tid = 3, callchain = { raw = { 1, 2, 3 } }, raw = "raw",
                   read = { values = { { value = 1, id = 1, lost = 0 } }, time_enabled = 1, time_running = 1 },
                   regs_user = { abi = 0 } }
  local bytes = perfev.encode(spec, fields)
  local d = assert(perfev.decoder(spec))
  assert(d:decode(bytes).ip == 1)
  for r in d:records(bytes .. bytes) do look(r) end
  local n = 0
  for ip, raw in d:records(bytes .. bytes, { fields = { "ip", "raw" } }) do n = n + ip + #raw end
  assert(n > 2)
  local two = assert(perfev.decoder {
    { ids = { 1 }, sample_type = { "identifier", "ip" } }, { ids = { 2 }, sample_type = { "identifier", "tid" } },
  })
  assert(two:decode(perfev.encode({ sample_type = { "identifier", "tid" } },
    { type = "sample", identifier = 2, pid = 1, tid = 1 })).pid == 1)
  assert(not perfev.decoder { { ids = { 1 }, sample_type = { "ip" } }, { ids = { 2 }, sample_type = { "tid" } } })
end

local function aggregators()
  for _, kind in ipairs { "count", "stats", "hist", "quantile" } do
    local a = perfev[kind] { by = { "k", "n" }, max_keys = 200 }
    for i = -150, 150 do a:add(i * i * i, "key" .. i, i % 3 == 0) end
    local whole = #a
    local ok, why = pcall(a.merge, a, a)
    assert(#a == whole and (ok or why))
    if not ok then error(why, 0) end
    local first = a:delta()
    a:inc("new", 1)
    assert(#first == 200 and #a:rows() == 200 and a:get("key0", true) and a:other() and #a:delta() == 1)
    a:clear()
    assert(#a == 0)
  end
end

local function small_things()
  local attr = core.attr_new { type = 1 }
  attr.sample_period = 2
  assert(attr:copy():bytes() and attr:dump() and (attr:validate(0, -1) or true))
  assert(units.duration "1.5ms" and units.size "2M" and units.list("0-3,7", "cpu") and syscalls.name(0))
  assert(perfev.escape "a\n" == "a\\n" and stat and core.strerror(1) and core.nearest("a", { "ab" }))
  local m = core.hooks.memory(4096)
  m:write(0, "12345678")
  assert(m:read(0, 8) and m:u64(0) and m:u64(8, 1) == nil)
end

local function the_real_thing()
  assert(core.slurp "/proc/self/stat" and core.list "/proc/self" and core.cpus() and core.threads(core.pid()))
  assert(core.clock(1) and core.exe() and core.raise_nofile())
  core.hooks.log(function() end)
  local ok, why = pcall(core.slurp, "/proc/self/nothing")
  core.hooks.log(nil)
  assert(ok, why)
end

-- A call of a hook needs a little memory too, and close hooks must work without any: the stack is made deep
-- enough in advance.
local function deep(n) return n > 0 and 1 + deep(n - 1) or 0 end

local function exercise(pause, resume)
  local function with(f)
    deep(100)
    local k = new_kernel(pause, resume, { world = "vm", tasks = { [11] = "eleven", [12] = "twelve" } })
    pause()
    resume(pcall(happenings, k))
    core.hooks.with(k.hooks, f, k)
  end
  sessions(with)
  counters(with)
  replays(pause, resume)
  bytes_and_back()
  aggregators()
  small_things()
  the_real_thing()
end

local function leaks()
  core.hooks.clear()
  local list = kernel and kernel:leaks() or {}
  for fd in pairs(files) do list[#list + 1] = "file " .. fd end
  files = {}
  kernel = nil
  return #list > 0 and table.concat(list, ", ") or nil
end

return exercise, leaks
