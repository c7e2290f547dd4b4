--- perfl --sim: the script runs on a kernel that a Lua file makes.

local native = require "perfl.core"
local report = require "perfl.message"
local sim = require "perfev.sim"
local source = require "perfl.load_source"

local M = {}

local function is_ready_made(name)
  for _, known in ipairs(sim.worlds) do
    if known == name then return true end
  end
  return false
end

-- What the file returns: a kernel, or what sim.new makes one of.
local function kernel_of(value, path)
  if type(value) ~= "table" then
    return nil, ("'%s' makes no world: it is to return a kernel (sim.new{...}) or sim.new's options"):format(path)
  end
  if value.hooks then return value end
  local ok, kernel = xpcall(sim.new, report.traceback, value)
  if not ok then return nil, kernel end
  return kernel
end

local function load_world(path)
  if is_ready_made(path) then return sim.new { world = path } end
  local text, why = source.read(path, "cannot read ")
  if not text then
    return nil, ("--sim %s: %s\n  ready-made worlds: %s"):format(path, why, table.concat(sim.worlds, ", "))
  end
  local chunk, wrong = source.compile(text, "@" .. path)
  if not chunk then return nil, wrong end
  local ok, value = xpcall(chunk, report.traceback)
  if not ok then return nil, value end
  return kernel_of(value, path)
end

--- Put the world of that file, or of that name, under perfev.
-- @tparam string path
-- @tparam function stop  called when nothing more is going to happen in it
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.install(path, stop)
  local kernel, why = load_world(path)
  if not kernel then return nil, why end
  -- perfl's own descriptor is in the session's poll set too; what it tells comes from outside.
  kernel.outside[native.signal_fd()] = 0
  kernel.idle = kernel.idle or stop
  kernel:install()
  return true
end

return M
