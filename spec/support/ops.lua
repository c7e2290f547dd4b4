--- ops.lua - runs random operations on the module's objects, and reports errors of our own Lua code.
--
-- It makes, uses, closes, drops and collects sessions (live and of recordings), events, counters, groups, members,
-- decoders, recordings, views, stacks, aggregators, lines, coroutines, memories, attrs and simulated kernels, also
-- in callbacks and after they are closed. An operation may return a result, a refusal in words, or an error that
-- names the caller's mistake; an error of our own Lua code is a find.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local sim = require "perfev.sim"

local hooks = core.hooks
local random = math.random

local M = {}

local MOST = 24 -- objects in the pool
local DEPTH = 3 -- nesting of operations in callbacks

local state -- for one run: pool, kernels, finds, ops, depth

local one_op

local function any(list) return list[random(#list)] end

-- Errors that no operation may raise.
local ours = {
  "attempt to ", "bad argument #%d+ to 'for", "stack overflow", "table index is", "invalid order function",
}

local function try(f, ...)
  local ok, why = pcall(f, ...)
  if ok then return why end
  why = tostring(why)
  for _, pattern in ipairs(ours) do
    if why:find(pattern) and not why:find "attempt to yield" then
      state.finds[#state.finds + 1] = why
      return nil
    end
  end
  state.raised = state.raised + 1
end

-- A loop may yield a number in place of a view.
local objects = { view = "userdata", stack = "userdata", args = "userdata" }

local function keep(kind, object, kernel)
  if not object or objects[kind] and type(object) ~= objects[kind] then return end
  local at = #state.pool < MOST and #state.pool + 1 or random(MOST)
  state.pool[at] = { kind = kind, object = object, kernel = kernel }
end

-- ---- making ----

local function in_callback(r, args)
  if type(r) == "userdata" and random(4) == 1 then -- a signal passes a table
    keep("view", r)
    keep("stack", r.stack)
  end
  if args and random(8) == 1 then keep("args", args) end
  if state.depth < DEPTH and random(3) == 1 then
    state.depth = state.depth + 1
    one_op()
    state.depth = state.depth - 1
  end
  local chance = random(40)
  if chance == 1 then error "wanted" end
  if chance == 2 then return false end
end

local function new_kernel()
  local k = sim.new { world = any { "vm", "unprivileged", "arm64" }, tasks = { [11] = "eleven", [12] = "twelve" },
                      cpus = any { "0", "0-1" } }
  k.command = function(child)
    k:after("3ms", function() k:end_child(child.pid, 0) end)
  end
  if random(10) == 1 then
    k:fail(any { "perf_event_open", "mmap", "ioctl ID", "timerfd" }, random(4), core.errno.ENOMEM)
  end
  state.kernels[random(3)] = k
  state.all[#state.all + 1] = setmetatable({ k }, { __mode = "v" })
  return k
end

local function a_kernel() return state.kernels[random(3)] or new_kernel() end

local function on_kernel(k, f, ...)
  hooks.set(k.hooks)
  local ok, one, two = pcall(f, ...)
  hooks.clear()
  if not ok then error(one, 0) end
  return one, two
end

-- Returns a random object of that kind from the pool.
local function pooled(kind)
  local found = {}
  for _, entry in pairs(state.pool) do
    if entry.kind == kind then found[#found + 1] = entry.object end
  end
  return found[1] and any(found)
end

local kinds = { "count", "top", "sum", "avg", "stats", "hist", "quantile" }

local function new_aggregator()
  local kind = any(kinds)
  local a = perfev[kind] {
    by = any { "tid", { "comm", "stack" }, "symbol" }, max_keys = random(5),
    value = kind ~= "count" and kind ~= "top" and any { "ip", "addr" } or nil,
    where = random(4) == 1 and { "tid", ">", random(12) } or nil,
  }
  keep("aggregator", a)
  return a
end

local specs = {
  function() return { "cpu-clock", freq = 99, callchain = true, sample = { new_aggregator(), new_aggregator() } } end,
  function()
    return { "cpu-clock", freq = 99, callchain = true, fields = { "tid", "stack" }, sample = function(_, stack)
      keep("stack", stack)
      in_callback()
    end }
  end,
  function() return { "cpu-clock", freq = 99, sample = in_callback, comm = in_callback } end,
  function() return { "sched:sched_switch", sample = in_callback } end,
  function() return { comm = in_callback, fork = in_callback, exit = in_callback, mmap = in_callback } end,
  function() return { "page-faults", period = 1, record = in_callback, callchain = true } end,
  function() return { "dummy" } end,
}

local targets = {
  function() return {} end,
  function() return { tid = { 11, 12 } } end,
  function() return { command = { "true" } } end,
  function() return { cpus = { 0 } } end,
  function() return { overwrite = true } end,
}

local make = {}

function make.session()
  local k = a_kernel()
  local opts = any(targets)()
  opts.buffer, opts.duration, opts.strict = "4K", "5ms", random(2) == 1
  opts.ordered = random(2) == 1
  local s = perfev.session(opts)
  for _ = 1, random(3) do keep("event", s:event(any(specs)()), k) end
  if random(3) == 1 then s:every("1ms", in_callback) end
  if random(4) == 1 then s:done(in_callback) end
  if random(6) == 1 then s:begin(in_callback) end
  if random(6) == 1 then s:signal("USR1", in_callback) end
  if random(6) == 1 then keep("counter", s:counter { "task-clock" }, k) end
  keep("session", s, k)
end

function make.counter()
  local k = a_kernel()
  local new = any { perfev.counter, perfev.group }
  local c = on_kernel(k, new, { "task-clock", "page-faults", any { "cpu-clock", "context-switches" },
                                pid = any { 11, 12 }, disabled = random(2) == 1 })
  keep("counter", c, k)
  if c then keep("member", c:member "page-faults", k) end
end

function make.decoder()
  local spec = { sample_type = { "ip", "tid", any { "callchain", "raw", "regs_user" } }, sample_regs_user = 3,
                 sample_id_all = true }
  keep("decoder", (perfev.decoder(spec)))
end

function make.memory() keep("memory", hooks.memory(4096 * random(4))) end
function make.attr() keep("attr", core.attr_new { type = 1, sample_period = random(100) }) end

function make.recording() keep("recording", perfev.open(state.path)) end
function make.line()
  keep("line", perfev.line(any { "{tid} {comm}", "{time:12.6} {event} {task}", "{type} {addr}" }))
end
make.aggregator = new_aggregator

function make.replay()
  local s = perfev.session { input = state.path, strict = random(2) == 1, count = random(3) == 1 and random(9) or nil }
  for _ = 1, random(3) do
    local spec = any(specs)()
    keep("event", s:event(spec))
  end
  keep("session", s, any { state.kernels[1] or new_kernel() })
end

function make.coroutine()
  local s = pooled "session"
  if not s then return end
  keep("coroutine", coroutine.create(function()
    for r in s:records(random(2) == 1 and { fields = { "tid", "stack" } } or nil) do
      keep("view", r)
      coroutine.yield()
    end
  end))
end

function make.records()
  local s = any(state.pool)
  if not s or s.kind ~= "session" then return end
  keep("records", (on_kernel(s.kernel, s.object.records, s.object)), s.kernel)
end

-- ---- using ----

local use = {}

local function method(object, name, ...) return object[name](object, ...) end

use.session = {
  function(s) return s:start() end, function(s) return s:run() end, function(s) return s:stop() end,
  function(s) return s:dispatch() end, function(s) return s:dispatch(random(5)) end, function(s) return s:totals() end,
  function(s) return s:plan() end, function(s) return s:fd() end, function(s) return s:snapshot() end,
  function(s) return s:declared() end, function(s) return s:event(any(specs)()) end,
  function(s) return s:every("1ms", in_callback) end, function(s) return s:clone() end,
  function(s) return s:configure { duration = "2ms" } end, function(s) return s:start() end,
  function(s) return s:dispatch() end, function(s) return s:dispatch() end,
}
use.event = {
  function(e) return e:enable() end, function(e) return e:disable() end, function(e) return e:filter "pid > 1" end,
  function(e) return e:period(random(100)) end, function(e) return e:close() end, function(e) return tostring(e) end,
}
use.counter = {
  function(c) return c:read() end, function(c) return c:delta() end, function(c) return c:enable() end,
  function(c) return c:disable() end, function(c) return c:reset() end, function(c) return c:add "page-faults" end,
  function(c) return c:names() end, function(c) return c:events() end,
  function(c) return c:close "page-faults" end, function(c) return c:start() end,
  function(c) return c:measure(one_op) end, function(c) return tostring(c) end,
}
use.member = {
  function(m) return m:read() end, function(m) return m:enable() end, function(m) return m:reset(true) end,
  function(m) return m:ids() end, function(m) return m:fds() end, function(m) return m:refresh(1) end,
  function(m) return m:period(3) end, function(m) return m:query_bpf(4) end, function(m) return m:output() end,
  function(m) return m:close() end, function(m) return m:pause_output(true) end,
  function(m) return m:send_signal "USR1" end, function(m) return m:send_signal(false) end,
}
use.view = {
  function(r) return r.type, r.comm, r.ip, r.callchain, r.raw, r.read end, function(r) return r:copy() end,
  function(r) return tostring(r) end, function(r) return r.bytes end,
  function(r)
    for _ in pairs(r) do one_op() end
  end,
}
use.args = {
  function(a) return a.next_comm, a.next_pid end, function(a) return tostring(a) end,
  function(a)
    for _ in pairs(a) do random(2) end
  end,
}
use.decoder = {
  function(d) return d:decode(("x"):rep(random(64))) end,
  function(d) return d:decode(string.pack("=I4I2I2I8I4I4", 9, 0, 24, 1, 2, 3)) end,
  function(d)
    for r in d:records(string.pack("=I4I2I2I8I4I4I8", 9, 0, 32, 1, 2, 3, 0):rep(3)) do in_callback(r) end
  end,
}
use.memory = {
  function(m) return m:write(0, "12345678") end, function(m) return m:read(0, 4096) end,
  function(m) return m:u64(8) end, function(m) return m:u64(4096 * 4, 1) end,
}
use.attr = {
  function(a) return a:bytes() end, function(a) return a:dump() end, function(a) return a:validate(0, -1) end,
  function(a) return a:copy() end, function(a) a.sample_period = random(9) end, function(a) a.nothing = 1 end,
}
use.records = { function(next_record) keep("view", (next_record())) end }

-- Makes a key with that many parts.
local function a_key(nr)
  local parts = {}
  for i = 1, nr do parts[i] = any { 1, 2.0, 1.5, "x", "a\0b", true, pooled "stack" or "" } end
  return table.unpack(parts, 1, nr)
end

use.aggregator = {
  function(a) a:inc(a_key(#a:spec().by)) end, function(a) a:add(random(-5, 99), a_key(random(2))) end,
  function(a) return a:get(a_key(#a:spec().by)) end, function(a) return a:top(random(0, 5)) end,
  function(a)
    for key in a:pairs() do
      keep("stack", key)
      one_op()
    end
  end,
  function(a) return a:remarks(), a:uncounted(), a:other() end, function(a) return a:merge(pooled "aggregator") end,
  function(a) keep("aggregator", perfev.unpack(a:pack())) end, function(a) keep("aggregator", a:delta()) end,
  function(a) a:clear() end, function(a) return a:svg() end,
}
use.stack = {
  function(s) return #s, s[1], s[0], s[-1], s.id end, function(s) return s:folded "x" end,
  function(s) return tostring(s) end, function(s) return s:frames() end,
}
use.line = { function(l) return l:text(pooled "view") end }
use.coroutine = { coroutine.resume, coroutine.resume, coroutine.resume, coroutine.close }
use.recording = {
  function(r)
    for v in r:records() do
      keep("view", v)
      if random(4) == 1 then one_op() end
    end
  end,
  function(r) keep("records", (r:records { fields = { "tid", "comm" } })) end, function(r) return r:totals() end,
  function(r) keep("records", (r:records())) end, function(r) return r:task(11) end, function(r) r:close() end,
}

local closes = { session = true, counter = true, event = true, member = true }

-- ---- happenings in a kernel ----

local happens = {
  function() return { type = "sample", pid = 11, ip = 1 } end,
  function() return { type = "comm", pid = 11, comm = "other" } end,
  function() return { type = "fork", pid = 12, ppid = 11, tid = 12, ptid = 11 } end,
  function() return { type = "exit", pid = 12, ppid = 11, tid = 12, ptid = 11 } end,
  function() return { type = "sample", event = "sched:sched_switch", pid = 11, args = { next_comm = "b" } } end,
}

local function something_happens()
  local k = a_kernel()
  for _ = 1, random(8) do k:ring(random(0, 1)):push(any(happens)()) end
  if random(8) == 1 then k:signal(10) end
  if random(20) == 1 then k:exit(any { 11, 12 }) end
  if random(4) == 1 then k:advance_to(k.now + random(2000000)) end
end

-- ---- operations ----

local function on_any(f)
  local entry = any(state.pool)
  if entry then return f(entry) end
end

local function use_it(entry)
  local f = any(use[entry.kind])
  if entry.kernel then return on_kernel(entry.kernel, f, entry.object) end
  return f(entry.object)
end

local function pick_pool() if #state.pool > 0 then return random(#state.pool) end end

local operations = {
  { 30, function() on_any(use_it) end },
  { 8, something_happens },
  { 2, make.session }, { 2, make.counter }, { 2, make.decoder }, { 2, make.memory }, { 2, make.attr },
  { 1, make.records }, { 1, make.recording }, { 1, make.replay }, { 1, make.coroutine }, { 1, make.line },
  { 1, make.aggregator }, { 1, function() if random(20) == 1 then new_kernel() end end },
  { 3, function() on_any(function(e) if closes[e.kind] then method(e.object, "close") end end) end },
  { 3, function()
    local at = pick_pool()
    if at then table.remove(state.pool, at) end
  end },
  { 6, function() collectgarbage "step" end },
  { 1, function() if random(30) == 1 then collectgarbage() end end },
  { 1, function() collectgarbage(any { "generational", "incremental" }) end },
  { 1, function() if random(2) == 1 then collectgarbage "stop" else collectgarbage "restart" end end },
}
local lots = {}
for _, op in ipairs(operations) do
  for _ = 1, op[1] do lots[#lots + 1] = op[2] end
end

function one_op()
  state.ops = state.ops + 1
  try(any(lots))
end

-- Writes a recording of three tasks: all have stacks, one has a name.
local function record(path)
  local attr = { type = 1, config = 0, sample_type = { "ip", "tid", "time", "callchain" }, sample_id_all = true }
  local b = perfdata.new { events = { { attr = attr, ids = { 1 }, name = "cpu-clock" } } }
  b:add { type = "comm", pid = 11, tid = 11, comm = "eleven", sample_id = { pid = 11, tid = 11, time = 1 } }
  for i = 1, 30 do
    b:add { type = "sample", ip = i % 3, pid = 11 + i % 3, tid = 11 + i % 3, time = i,
            callchain = { user = { i % 3, 0x1100 } } }
  end
  local file <close> = assert(io.open(path, "wb"))
  file:write(b:file { [12] = b:event_desc() })
end

--- Runs that many operations from that seed.
-- @treturn table  `finds` (our own errors, objects left open), `ops`, `raised` (reported mistakes)
function M.run(seed, nr)
  math.randomseed(seed)
  state = { pool = {}, kernels = {}, all = {}, finds = {}, ops = 0, raised = 0, depth = 0, path = os.tmpname() }
  record(state.path)
  while state.ops < nr and #state.finds < 10 do one_op() end
  os.remove(state.path)
  collectgarbage "restart"
  collectgarbage "incremental"
  state.pool = {}
  hooks.clear()
  for _ = 1, 3 do collectgarbage() end
  for _, weak in ipairs(state.all) do
    for _, what in ipairs(weak[1] and weak[1]:leaks() or {}) do
      state.finds[#state.finds + 1] = "left open: " .. what
    end
  end
  return { finds = state.finds, ops = state.ops, raised = state.raised }
end

return M
