--- perfev.calls: collects what each call of a function, or the time between two events, is made of, and compares the
-- slow ones with the rest. See doc/api/calls.md.

local causes = require "perfev.calls.causes"
local check = require "perfev.base.check"
local collectors = require "perfev.calls.collector"
local comparison = require "perfev.calls.comparison"
local escape = require "perfev.base.escape"
local guard = require "perfev.base.method_guard"
local option_tables = require "perfev.option_tables.calls"
local sentences = require "perfev.calls.sentences"
local session = require "perfev.live.session"

local M = {}

local Calls = {}
Calls.__index = Calls

-- What can be collected, in the order of the report.
local PARTS = { "cpu", "offcpu", "wakeups", "faults" }
M.parts = PARTS

local PART_NAMES = { cpu = "CPU samples", offcpu = "stacks of blocked threads", wakeups = "wakeups",
  faults = "page faults" }
local KEPT = 1 << 14
local SLOWEST = 0.05
local RUNNING, PREEMPTED = 0, 0x100 -- prev_state: TASK_RUNNING, TASK_REPORT_MAX (since 4.14)

local function fail(level, ...) error(string.format(...), level + 1) end

-- ---- events ----

local RING_MOST = 32 << 20 -- the calls with most stacks must not be those that lose some

local function add_ends(self, s, start, stop, key)
  local collector = self.collector
  local variable = key and key:match "^args%.(.+)$"
  local function args_of(event) return variable and event:find "^[uk]probe:" and { variable } or nil end
  s:event { start, args = args_of(start), fields = { "time", "tid", "cpu", "comm", key },
    sample = function(...) collector:start(...) end,
    lost = function(r) collector:lost(r.lost, not r.at_end and r.cpu or nil) end, -- of all events
    exit = function(r) collector:forget(r.tid) end,
    comm = function(r) if r.exec then collector:forget(r.tid) end end }
  s:event { stop, args = args_of(stop), fields = { "time", "tid", "cpu", key },
    sample = function(...) collector:stop(...) end }
end

local add = {}

function add.cpu(self, s, opt)
  local collector = self.collector
  return s:event { "cpu-clock | cycles", freq = opt.freq, callchain = opt.callchain, optional = true,
    sample = function(r) collector:count("sample", r.time, r.tid, r.cpu, function() return r.stack end) end }
end

-- The time on the CPU.
local function add_switches(collector, s)
  s:event { optional = true, switch = function(r)
    if r.out then
      collector:leave(r.time, r.tid, r.cpu, r.preempt)
    else
      collector:enter(r.time, r.tid, r.cpu)
    end
  end }
end

-- Both records of a switch: this one has the stack and the reason, the switch record also the return.
function add.offcpu(self, s, opt)
  local collector = self.collector
  return s:event { "sched:sched_switch", callchain = opt.callchain, exclude_kernel = false, optional = true,
    sample = function(r, args)
      local state = args.prev_state
      local is_runnable = state == RUNNING or state == PREEMPTED
      collector:leave(r.time, args.prev_pid, r.cpu, is_runnable, not is_runnable and function() return r.stack end,
        is_runnable and args.next_comm or nil)
    end }
end

function add.wakeups(self, s)
  local collector = self.collector
  return s:event { "sched:sched_waking | sched:sched_wakeup", fields = { "time", "args.pid" },
    optional = true, sample = function(time, tid) collector:wake(time, tid) end }
end

-- A function that touches much memory has many faults, so they have no stacks. The CPU samples show their places.
function add.faults(self, s)
  local collector = self.collector
  local function count(event, kind)
    return s:event { event, period = 1, optional = true, fields = { "time", "tid", "cpu" },
      sample = function(time, tid, cpu) collector:count(kind, time, tid, cpu) end }
  end
  count("major-faults", "major")
  return count("minor-faults | page-faults", "minor")
end

-- ---- reports ----

-- Why a part is missing, as lines.
local function missing_lines(self)
  local lines = {}
  for _, part in ipairs(PARTS) do
    local ev = self.events[part]
    if ev and ev.error then
      lines[#lines + 1] = ("not collected: %s: %s"):format(PART_NAMES[part], escape(ev.error:match "[^\n]*"))
    end
  end
  return lines
end

local function how_of(self, opt)
  return { slowest = opt.slowest or SLOWEST, over = opt.over, root = self.root, func = self.func,
    title = self.title, joins_by_thread = not self.func and not self.has_key, input = session.default().opts.input }
end

local function page_of(self, opt)
  local how = how_of(self, opt)
  local report = comparison.compare(self.collector, how)
  local remarks = sentences.remarks(report, self.collector)
  for _, line in ipairs(missing_lines(self)) do remarks[#remarks + 1] = line end
  return { title = opt.title or self.title, headline = sentences.headline(report, how, self.collector),
    second = sentences.second_line(report), report = report, remarks = remarks }
end

local function checked(opt, level)
  opt = check.take("calls: report", opt == nil and {} or opt, option_tables.calls_report, level + 1)
  if opt.slowest and not (opt.slowest > 0 and opt.slowest < 1) then
    fail(level, "calls: slowest is a share above 0 and below 1, not %s", opt.slowest)
  end
  if opt.slowest and opt.over then fail(level, "calls: slowest or over, not both") end
  return opt
end

--- Compares the slow calls with the rest.
-- @tparam ?table opt  `slowest` (a share, default 0.05) or `over` (the shortest duration of a slow call), `title`
-- @treturn string  the cause as a line of any length, then tables in 80 columns
function Calls:text(opt) return require "perfev.calls.text" (page_of(self, checked(opt, 2))) end

--- The same as one JSON object.
function Calls:json(opt) return require "perfev.calls.json_report" (page_of(self, checked(opt, 2))) end

--- The same as one HTML file with a differential flame graph.
function Calls:html(opt) return require "perfev.calls.page" (page_of(self, checked(opt, 2))) end

--- Returns the number of calls that began and ended.
function Calls:__len()
  local collector = self.collector
  return collector.kept.count + collector.recent_tail - collector.recent_head + 1
end

guard(Calls, Calls, "calls", "watched", "text json html")

-- ---- constructor ----

-- FUNCTION -> the events at its start and its return, and its plain name.
local function ends_of_function(func)
  local name = func:gsub("^[uk]%l*probe:", "")
  local kind = name:find(":", 1, true) and "u" or "k"
  local symbol = name:match "([^:]+)$":gsub("%+.*$", "")
  return ("%sprobe:%s"):format(kind, name), ("%sretprobe:%s"):format(kind, name), causes.plain_name(symbol)
end

-- FILE:SYMBOL as an event: a path has a slash, which the name of an event has not before its colon.
local function event_of(text) return text:find "^[^:]*/[^:]*:[^:/]+$" and "uprobe:" .. text or text end

local function wanted_parts(with, level)
  local wanted = {}
  for _, part in ipairs(with or PARTS) do
    local is_known = false
    for _, name in ipairs(PARTS) do is_known = is_known or name == part end
    if not is_known then
      fail(level, "calls: with: '%s' is not one of %s", escape(tostring(part)), table.concat(PARTS, ", "))
    end
    wanted[part] = true
  end
  return wanted
end

local function new(spec, level)
  local opt = check.take("calls", spec, option_tables.calls, level + 1)
  if (opt.func ~= nil) == (opt.start ~= nil or opt.stop ~= nil) or (opt.start ~= nil) ~= (opt.stop ~= nil) then
    fail(level, "calls: func, or start and stop")
  end
  local wanted = wanted_parts(opt.with, level + 1)
  local start, stop, root = opt.start and event_of(opt.start), opt.stop and event_of(opt.stop), nil
  if opt.func then start, stop, root = ends_of_function(opt.func) end
  local title = opt.func or ("from %s to %s"):format(start, stop)
  local self = setmetatable({ root = root, events = {}, title = title }, Calls)
  self.func, self.has_key = opt.func, opt.key ~= nil
  self.collector = collectors.new { key = opt.key ~= nil, is_function = opt.func ~= nil, kept = opt.kept or KEPT }
  local s = session.default()
  s.ring_most = math.max(s.ring_most or 0, RING_MOST)
  local how = { freq = opt.freq or 1999, callchain = opt.callchain or "dwarf" }
  add_ends(self, s, start, stop, opt.key)
  self.collector.has_switches = wanted.cpu or wanted.offcpu or false
  if self.collector.has_switches then add_switches(self.collector, s) end
  for _, part in ipairs(PARTS) do
    if wanted[part] then self.events[part] = add[part](self, s, how) end
  end
  return self
end

return setmetatable(M, { __call = function(_, spec) return new(spec, 3) end })
