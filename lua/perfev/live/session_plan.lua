--- The plan of a session as text: the events that it would open (perfl --dry-run).

local core = require "perfev.core"
local event = require "perfev.event.declaration"
local explain = require "perfev.event.explain_refusal"
local options = require "perfev.base.options"
local json = require "perfev.base.json"
local processes = require "perfev.event.processes"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local TRACEPOINT = 2 -- PERF_TYPE_TRACEPOINT

local function target_text(opts)
  if opts.input then
    local wanted = require("perfev.perfdata.replay_filter").describe(opts)
    return "the recording " .. (opts.input == "-" and "on standard input" or opts.input)
      .. (wanted ~= "" and ", only " or "") .. wanted
  end
  if opts.cgroup then
    return ("cgroup %s on cpus %s"):format(opts.cgroup, opts.cpus and table.concat(opts.cpus, ",") or "online")
  end
  if options.selects_comm(opts) then return "all tasks named " .. opts.comm end
  if opts.uid or opts.comm then return "processes " .. processes.describe(opts) end
  if options.is_cpu_wide(opts) then
    return "all tasks on cpus " .. (opts.cpus and table.concat(opts.cpus, ",") or "online")
  end
  local parts = {}
  if opts.pid then parts[#parts + 1] = "pid " .. table.concat(opts.pid, ",") end
  if opts.tid then parts[#parts + 1] = "tid " .. table.concat(opts.tid, ",") end
  if opts.command then parts[#parts + 1] = "command " .. table.concat(opts.command, " ") end
  return table.concat(parts, ", ") .. (opts.cpus and " on cpus " .. table.concat(opts.cpus, ",") or "")
end

-- A group, a pattern or one event, as start() would open it.
local function add_unit(lines, ev, unit, alone)
  if unit.grouped then lines[#lines + 1] = "group " .. unit.name end
  for _, built in ipairs(unit) do
    lines[#lines + 1] = "event " .. (alone and ev.name or built.name)
    for line in built.attr:dump():gmatch("[^\n]+") do lines[#lines + 1] = line end
    for _, text in ipairs(built.found.shown or {}) do lines[#lines + 1] = "  " .. text end
    if built.cpus and built.found.is_uncore then
      lines[#lines + 1] = "  on cpus  " .. table.concat(built.cpus, ",")
    end
  end
end

-- The lines of attr:dump() as a table; a value that is not a number is its text.
local function attr_fields(attr)
  local fields = {}
  for name, value in attr:dump():gmatch "[ \t]*(%S+)[ \t]+([^\n]+)" do
    fields[name] = math.tointeger(tonumber(value)) or value
  end
  return fields
end

-- What one declaration opens, as a table for JSON. `is_cpu_wide`: also the right that each attr needs.
local function event_object(ev, planned, why, condition, callbacks, is_cpu_wide)
  local object = { event = ev.name, missing = why, filter = planned and ev.decl.spec.filter, where = condition,
    callbacks = callbacks[1] and callbacks, opens = {} }
  for _, unit in ipairs(planned or {}) do
    for _, built in ipairs(unit) do
      table.insert(object.opens, { event = built.name or ev.name, group = unit.grouped and unit.name or nil,
        attr = attr_fields(built.attr), cpus = built.found.is_uncore and built.cpus or nil,
        needs = is_cpu_wide ~= nil and explain.needed_right { attr = built.attr, cpu_wide = is_cpu_wide,
          is_tracepoint = built.attr.type == TRACEPOINT } or nil })
    end
  end
  if not object.opens[1] then object.opens = nil end
  return object
end

-- Returns a declaration's alternatives that start() would open, and why there is none; its condition in the kernel, the
-- names of its callbacks, and an errno if there is none.
local function plan_of(session, ev)
  local there, why, code = nil, "as it was recorded", nil
  if not session.opts.input then -- the events of a recording need not exist on this machine
    there, why, code = event.builds(ev.decl, session.opts.events, not session.opts.record)
  end
  local names = sorted_keys(ev.decl.callbacks)
  local first = there and there[1][1][1]
  return there, why, first and event.condition(ev.decl, first), names, not there and code or nil
end

--- Returns the same as a table: `target`, `events` with `opens`, whose members have `needs` (explain_refusal.lua's
-- needed_right), and `optional`, and counters as { counter = }; and true if all required ones exist.
function M.objects(session)
  local plan, sound = { target = target_text(session.opts), events = {} }, true
  for _, ev in ipairs(session.events) do
    local there, why, condition, names, code = plan_of(session, ev)
    local missing = not (there or session.opts.input) and why or nil
    sound = sound and (not missing or ev.decl.spec.optional == true)
    local object = event_object(ev, there and there[1], missing, condition, names,
      options.is_cpu_wide(session.opts) or false)
    object.optional = ev.decl.spec.optional or nil
    object.needs = missing and explain.right_by_name(ev.name)
      or code == core.errno.EACCES and explain.needed_right { is_tracepoint = true } or nil -- tracefs
    plan.events[#plan.events + 1] = object
  end
  for _, c in ipairs(session.counters) do -- of tasks they count only the user side if the right is missing
    table.insert(plan.events, { counter = tostring(c):match "^%a+ (.*)", needs = explain.needed_right {
      cpu_wide = options.is_cpu_wide(session.opts), attr = core.attr_new { exclude_kernel = true } } })
  end
  return plan, sound
end

--- Returns the events that start() would open, as lines of text, and true if all required ones exist. Opens nothing.
-- @tparam session session
-- @tparam ?string how  "json": the lines are JSON objects, one with the target, then one for each declaration
function M.describe(session, how)
  local lines, sound = { "target: " .. target_text(session.opts) }, true
  local objects = { json.encode { target = target_text(session.opts) } }
  for _, ev in ipairs(session.events) do
    local there, why, condition, names = plan_of(session, ev)
    sound = sound and (there ~= nil or session.opts.input ~= nil or ev.decl.spec.optional == true)
    if not there then
      lines[#lines + 1] = "event " .. ev.name
      for line in why:gmatch("[^\n]+") do lines[#lines + 1] = "  " .. line end
    end
    local planned = there and there[1] or {}
    for _, unit in ipairs(planned) do add_unit(lines, ev, unit, #planned == 1 and #unit == 1) end
    if there and ev.decl.spec.filter then lines[#lines + 1] = "  filter  " .. ev.decl.spec.filter end
    if condition then lines[#lines + 1] = "  where, in the kernel  " .. condition end
    if #names > 0 then lines[#lines + 1] = "  callbacks  " .. table.concat(names, " ") end
    if how == "json" then
      local missing = not (there or session.opts.input) and why or nil
      objects[#objects + 1] = json.encode(event_object(ev, there and planned, missing, condition, names))
    end
  end
  for _, c in ipairs(session.counters) do
    lines[#lines + 1] = tostring(c)
    objects[#objects + 1] = json.encode { counter = tostring(c) }
  end
  return how == "json" and objects or lines, sound
end

return M
