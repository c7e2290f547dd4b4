--- perfev: Linux perf events, programmable.
-- The module's functions act on a default session, the methods `s:name` on a session of your own, like io.write and
-- f:write. Requiring it opens nothing, prints nothing, sets no global and no signal handler.

-- In the syntax of every Lua version, because only 5.4 compiles the rest.
if _VERSION ~= "Lua 5.4" then
  error("perfev: Lua 5.4 is needed, and this is " .. _VERSION .. (rawget(_G, "jit") and " (LuaJIT)" or ""), 0)
end

local core = require "perfev.core"
local lazy = require "perfev.base.lazy_module"
local session = require "perfev.live.session"
require "perfev.record.tostring"
require "perfev.symbol.stack"

local agg = lazy "perfev.aggregate.aggregator"
local args = lazy "perfev.tool.args"
local counter = lazy "perfev.counter.counter"

local M = {
  _VERSION = core.version,
  errno = core.errno,
  hooks = lazy "perfev.sim.hooks",
  escape = require "perfev.base.escape",
  symbol = lazy "perfev.symbol",
}

--- A session of its own; see perfev.live.session.
M.session = function(opts) return session.new(opts) end
--- Returns the session that the verbs of the module act on.
function M.default_session() return session.default() end

--- Declare an event of the default session.
function M.event(spec) return session.default():_declare(spec, 2) end

--- Counters; see perfev.counter.counter.
function M.counter(spec) return counter.new(spec, false, 2) end
function M.group(spec) return counter.new(spec, true, 2) end
--- A histogram that the kernel keeps; see perfev.counter.histogram.
function M.hist_counter(spec) return require("perfev.counter.histogram").new(spec, 2) end

--- The default session's life.
function M.every(t, f) return session.default():every(t, f) end
function M.after(t, f) return session.default():after(t, f) end
function M.begin(f) return session.default():begin(f) end
function M.done(f) return session.default():done(f) end
function M.signal(name, f) return session.default():signal(name, f) end
function M.start(f)
  if f ~= nil then error("start: no argument expected\n  try: perfev.begin(f), which calls f at the start", 2) end
  return session.default():start()
end
function M.run() return session.default():run() end
function M.stop() return session.default():stop() end
function M.snapshot(opts) return session.default():snapshot(opts) end
--- Who a task is; see perfev.live.session.
function M.task(tid) return session.default():task(tid) end
--- The totals of the default session; see perfev.live.session.
function M.totals() return session.default():totals() end

--- Aggregators; see perfev.aggregate.aggregator.
for _, kind in ipairs { "count", "top", "sum", "avg", "min", "max", "stats", "hist", "quantile" } do
  M[kind] = function(spec) return agg.new(kind, spec, 2) end
end

--- A line of text for each record; see perfev.aggregate.text_line.
function M.line(format) return require("perfev.aggregate.text_line").new(format, 1) end

--- Unpacks the result of a:pack() or p:pack(); see perfev.aggregate.pack.
local pack = lazy "perfev.aggregate.pack"
pack.profiles = lazy "perfev.profile" -- which is above it
function M.unpack(bytes, opts) return pack.unpack(agg, pack.profiles, bytes, opts, 1) end

--- Pairs of events; see perfev.aggregate.span.
function M.span(spec) return require("perfev.aggregate.span").new(session.default(), spec, 2) end

--- A script's declared options; see perfev.tool.args.
function M.args(spec) return args(spec) end

--- Functions that few scripts use, loaded at their first use: see perfev.event.list, perfev.live.doctor.
function M.list(pattern) return require "perfev.event.list" (pattern) end
function M.event_details(entry) return require("perfev.event.list").details(entry) end
function M.doctor() return require("perfev.live.doctor").look() end
--- A recording; see perfev.perfdata.reader.
function M.open(path, opts) return require "perfev.perfdata.reader".open(path, opts) end

-- Functions of modules that few scripts use; calling one loads its module.
for name, module in pairs {
  measure = "perfev.counter.counter", task_enable = "perfev.counter.counter", task_disable = "perfev.counter.counter",
  decoder = "perfev.record.codec", encode = "perfev.record.codec",
} do
  M[name] = function(...) return require(module)[name](...) end
end

-- Modules of their own, loaded when they are named.
local modules = {
  budget = "perfev.budget",
  frames = "perfev.aggregate.frames", picture = "perfev.picture", profile = "perfev.profile", sim = "perfev.sim",
  calls = "perfev.calls",
  tool = "perfev.tool", units = "perfev.base.parse_units", syscalls = "perfev.tracepoint.syscalls",
}
setmetatable(M, { __index = function(_, name)
  return modules[name] and require(modules[name]) or nil
end })

return M
