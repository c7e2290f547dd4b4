--- The plan of a session as text: the events that it would open (perfl --dry-run).

local event = require "perfev.event.declaration"
local options = require "perfev.base.options"
local json = require "perfev.base.json"
local processes = require "perfev.event.processes"

local M = {}

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

-- What one declaration opens, as a table for JSON.
local function event_object(ev, planned, why, condition, callbacks)
  local object = { event = ev.name, missing = why, filter = planned and ev.decl.spec.filter, where = condition,
    callbacks = callbacks[1] and callbacks, opens = {} }
  for _, unit in ipairs(planned or {}) do
    for _, built in ipairs(unit) do
      table.insert(object.opens, { event = built.name, group = unit.grouped and unit.name or nil,
        attr = attr_fields(built.attr), cpus = built.found.is_uncore and built.cpus or nil })
    end
  end
  if not object.opens[1] then object.opens = nil end
  return object
end

--- Returns the events that start() would open, as lines of text, and true if all required ones exist. Opens nothing.
-- @tparam session session
-- @tparam ?string how  "json": the lines are JSON objects, one with the target, then one for each declaration
function M.describe(session, how)
  local lines, sound = { "target: " .. target_text(session.opts) }, true
  local objects = { json.encode { target = target_text(session.opts) } }
  for _, ev in ipairs(session.events) do
    -- The events of a recording need not exist on this machine.
    local there, why = nil, "as it was recorded"
    if not session.opts.input then
      there, why = event.builds(ev.decl, session.opts.events, not session.opts.record)
      sound = sound and (there ~= nil or ev.decl.spec.optional == true)
    end
    if not there then
      lines[#lines + 1] = "event " .. ev.name
      for line in why:gmatch("[^\n]+") do lines[#lines + 1] = "  " .. line end
    end
    local planned = there and there[1] or {}
    for _, unit in ipairs(planned) do add_unit(lines, ev, unit, #planned == 1 and #unit == 1) end
    if there and ev.decl.spec.filter then lines[#lines + 1] = "  filter  " .. ev.decl.spec.filter end
    local first = there and there[1][1][1]
    local condition = first and event.condition(ev.decl, first)
    if condition then lines[#lines + 1] = "  where, in the kernel  " .. condition end
    local names = {}
    for name in pairs(ev.decl.callbacks) do names[#names + 1] = name end
    table.sort(names)
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
