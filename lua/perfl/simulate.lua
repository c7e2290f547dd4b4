--- perfl --sim: runs the script on a simulated kernel.

local native = require "perfl.core"
local message = require "perfl.message"
local sim = require "perfev.sim"
local load_source = require "perfl.load_source"

local POLLIN, SIGINT = 1, 2

local M = {} -- `kernel`: the one to install, made by perfl prove

local function is_built_in(name)
  for _, known in ipairs(sim.worlds) do
    if known == name then return true end
  end
  return false
end

-- The file returns a kernel, or the options of sim.new.
local function to_kernel(value, path)
  if type(value) ~= "table" then
    return nil, ("'%s' does not return a simulated kernel\n"
      .. "try: return sim.new{...}, or the options of sim.new"):format(path)
  end
  if value.hooks then return value end
  local ok, kernel = xpcall(sim.new, message.traceback, value)
  if not ok then return nil, kernel end
  return kernel
end

local function load_world(path)
  if is_built_in(path) then return sim.new { world = path } end
  local text, why = load_source.read(path, "cannot read ")
  if not text then
    return nil, ("--sim %s: %s\n  built-in worlds: %s"):format(path, why, table.concat(sim.worlds, ", "))
  end
  local chunk, wrong = load_source.compile(text, "@" .. path)
  if not chunk then return nil, wrong end
  local ok, value = xpcall(chunk, message.traceback)
  if not ok then return nil, value end
  return to_kernel(value, path)
end

--- Installs a simulated kernel below perfev.
-- @tparam string path    a Lua file, or the name of a built-in kernel; not read if `M.kernel` is set
-- @tparam function stop  called when the simulation has ended
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.install(path, stop)
  local kernel, why = M.kernel, nil
  if not kernel then kernel, why = load_world(path) end
  if not kernel then return nil, why end
  -- The session also polls perfl's signal descriptor, which belongs to the real kernel.
  kernel.outside[native.signal_fd()] = 0
  kernel.idle = kernel.idle or stop
  kernel.interrupt = function() -- as Ctrl-C
    native.raise(SIGINT)
    kernel.outside[native.signal_fd()] = POLLIN
  end
  kernel:install()
  return true
end

return M
