--- The options of a session, checked when they are given.

local core = require "perfev.core"
local units = require "perfev.units"

local M = {}

local names = {
  "pid", "tid", "command", "cpus", "all_cpus", "buffer", "duration", "count", "ordered", "clock",
  "strict", "log", "on_error", "keep_going", "watch", "exclude_self", "overwrite",
}
local is_option = {}
for _, name in ipairs(names) do is_option[name] = true end

local clocks = { monotonic = 1, monotonic_raw = 4, realtime = 0, boottime = 7, tai = 11 }

local function fail(level, ...)
  error(string.format(...), level + 1)
end

local function check_ids(value, what, level)
  if value == "self" then return { 0 } end
  local list = type(value) == "table" and value or { value }
  if #list == 0 then fail(level, "session: %s is an empty list", what) end
  for _, id in ipairs(list) do
    if math.type(id) ~= "integer" or id < 0 then
      fail(level, "session: %s is a number >= 0 or a list of them, not %s", what, tostring(id))
    end
  end
  return list
end

local function check_cpus(value, level)
  if value == "all" then return nil end
  if type(value) == "table" then return check_ids(value, "cpus", level) end
  local list, why = units.list(value, "cpus")
  if not list then fail(level, "session: %s", why) end
  return list
end

local function check_unit(parse, value, what, level)
  local n, why = parse(value)
  if not n then fail(level, "session: %s: %s", what, why) end
  return n
end

local function check_command(value, level)
  if type(value) ~= "table" or #value == 0 then
    fail(level, "session: command is a list, the program first")
  end
  for _, word in ipairs(value) do
    if type(word) ~= "string" then fail(level, "session: command: a string expected, not a %s", type(word)) end
  end
  return value
end

local PAGE = 4096

local function check_buffer(value, level)
  local bytes = check_unit(units.size, value, "buffer", level)
  if bytes < PAGE or bytes > 1 << 31 then
    fail(level, "session: buffer: %s is not between 4K and 2G", tostring(value))
  end
  local size = PAGE
  while size < bytes do size = size * 2 end
  return size
end

local checks = {
  pid = function(v, level) return check_ids(v, "pid", level) end,
  tid = function(v, level) return check_ids(v, "tid", level) end,
  cpus = check_cpus,
  command = check_command,
  buffer = check_buffer,
  duration = function(v, level) return check_unit(units.duration, v, "duration", level) end,
  clock = function(v, level)
    if not clocks[v] then
      fail(level, "session: clock is one of boottime, monotonic, monotonic_raw, realtime, tai, not '%s'",
        tostring(v))
    end
    return clocks[v]
  end,
  count = function(v, level)
    if math.type(v) ~= "integer" or v < 1 then fail(level, "session: count is a number > 0, not %s", tostring(v)) end
    return v
  end,
}

--- Check opts and put them, converted, into a table. Raises on what is no option or no value of one.
-- @tparam table opts      as `perfev.session` takes them
-- @tparam table into      gets lists of ids, bytes, nanoseconds, clock ids
-- @tparam integer level   of the caller, for `error`
-- @treturn table          into
function M.take(opts, into, level)
  if type(opts) ~= "table" then fail(level, "session: a table expected, not a %s", type(opts)) end
  for name, value in pairs(opts) do
    if not is_option[name] then
      local near = core.nearest(tostring(name), names)
      fail(level, "session: no option is called '%s'%s", tostring(name),
        near and (" (did you mean '%s'?)"):format(near) or "")
    end
    into[name] = checks[name] and checks[name](value, level + 1) or value
  end
  return into
end

--- Whether whole CPUs are watched, and not processes.
function M.is_cpu_wide(opts)
  return opts.all_cpus or not (opts.pid or opts.tid or opts.command)
end

return M
