--- Reads tracepoints from tracefs, at /sys/kernel/tracing or at /sys/kernel/debug/tracing.

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

local roots = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" }

-- The mount option mode=755 makes only names visible: the files are 0440 (TRACE_MODE_READ, since Linux 5.16).
local function explain_unreadable(path)
  return ("%s cannot be read by this user\n  try: as root; or mount -o remount,gid=GROUP,mode=0750 %s\n"
    .. "  for a group you are in, and CAP_PERFMON or kernel.perf_event_paranoid=-1"):format(path,
    (path:gsub("/events$", "")))
end

--- Finds the directory of events.
-- @treturn[1] string path
-- @treturn[2] nil
-- @treturn[2] string  cause and remedy
-- @treturn[2] integer errno
function M.events()
  local refused
  for _, root in ipairs(roots) do
    local path = root .. "/events"
    local names, _, code = core.list(path)
    if names then return path end
    if code == core.errno.EACCES or code == core.errno.EPERM then
      refused = refused or path
    elseif code ~= core.errno.ENOENT and code ~= core.errno.ENOTDIR then
      return nil, ("cannot read %s: %s"):format(path, core.strerror(code)), code
    end
  end
  if refused then return nil, explain_unreadable(refused), core.errno.EACCES end
  return nil, "no tracefs is mounted at " .. table.concat(roots, " or ")
    .. "\n  try: mount -t tracefs tracefs " .. roots[1], core.errno.ENOENT
end

-- True if the name can become part of a path without leading to another directory.
local function is_name(s)
  return s:match("^[%w_.%-]+$") ~= nil and not s:match("^%.+$")
end

local function suggest(events, system, name)
  local names = core.list(events .. "/" .. system)
  if names then
    local near = core.nearest(name, names)
    return near and system .. ":" .. near
  end
  local systems = core.list(events) or {}
  local near = core.nearest(system, systems)
  if not near then return nil end
  local there = core.list(events .. "/" .. near) or {}
  for _, other in ipairs(there) do
    if other == name then return near .. ":" .. name end
  end
  local best = core.nearest(name, there)
  return best and near .. ":" .. best
end

--- Finds a tracepoint by its names.
-- @treturn[1] table  `id` (integer), `system`, `name`, `format` (the text of its format file)
-- @treturn[2] nil
-- @treturn[2] string  the cause, with the nearest name if there is one
-- @treturn[2] integer errno
function M.find(system, name)
  local full_name = system .. ":" .. name
  if not is_name(system) or not is_name(name) then
    return nil, ("tracepoint '%s': names are made of letters, digits, '_', '.' and '-'\n  try: a name such as "
      .. "sched:sched_switch"):format(full_name),
      core.errno.EINVAL
  end
  local events, why, code = M.events()
  if not events then return nil, ("tracepoint '%s': %s"):format(full_name, why), code end
  local dir = events .. "/" .. system .. "/" .. name
  local id, _, failed = core.slurp(dir .. "/id")
  if not id then
    if failed == core.errno.EACCES then
      return nil, ("tracepoint '%s': %s"):format(full_name, explain_unreadable(events)), failed
    end
    if failed ~= core.errno.ENOENT and failed ~= core.errno.ENOTDIR then
      return nil, ("tracepoint '%s': cannot read %s/id: %s"):format(full_name, dir, core.strerror(failed)), failed
    end
    local near = suggest(events, system, name)
    local others = core.list(events .. "/" .. system) and ("perfl list '%s:*'"):format(system)
      or ("perfl list 'tracepoint', or, if it is a function of a program, uprobe:%s"):format(full_name)
    return nil, ("tracepoint '%s': this kernel has no such event%s\n  try: %s"):format(full_name,
      check.meant(near), near or others), core.errno.ENOENT
  end
  local format = core.slurp(dir .. "/format")
  return { id = math.tointeger(tonumber(id)), system = system, name = name, format = format }
end

--- True if a system ("sched") has tracepoints.
function M.has(system)
  local events = M.events()
  return events and core.list(events .. "/" .. system) ~= nil
end

--- Finds the system of a tracepoint ("sched" for sched_switch), or nil.
function M.system_of(name)
  local events = is_name(name) and M.events()
  for _, system in ipairs(events and core.list(events) or {}) do
    if core.slurp(("%s/%s/%s/id"):format(events, system, name)) then return system end
  end
end

--- Finds a tracepoint by its number. Without access to tracefs the result has only `id`.
function M.by_id(id)
  local events = M.events()
  for _, system in ipairs(events and core.list(events) or {}) do
    for _, name in ipairs(core.list(events .. "/" .. system) or {}) do
      local text = core.slurp(("%s/%s/%s/id"):format(events, system, name))
      if text and math.tointeger(tonumber(text)) == id then return M.find(system, name) end
    end
  end
  return { id = id }
end

--- Reads the constant strings that print formats refer to by address, in the kernel's list format.
-- @treturn string|nil  nil if tracefs cannot be read
function M.strings()
  local events = M.events()
  return events and core.slurp((events:gsub("/events$", "/printk_formats"))) or nil
end

return M
