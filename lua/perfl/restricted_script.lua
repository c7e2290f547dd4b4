--- Restricts scripts while perfl has capabilities that its caller lacks, and below the sandbox (perfl/sandbox/).
--
-- A perfl with file capabilities (setcap(8)) runs the caller's scripts. Native code of the caller in this process could
-- raise the capabilities that src/base/rights.c holds back. So perfl loads no foreign native code and removes the
-- functions of `debug` that reach perfl's own functions, the registry or metatables. The core refuses hooks.

local core = require "perfev.core"

local M = {}

-- debug.getinfo without its field `func`, with which a script could call a function of perfl.
local function restricted_getinfo()
  local getinfo = debug.getinfo
  local function without_function(what) return (what or "nSltu"):gsub("f", "") end
  return function(...)
    if type((...)) == "thread" then
      local thread, f, what = ...
      return getinfo(thread, f, without_function(what))
    end
    local f, what = ...
    if math.type(f) == "integer" and f > 0 then f = f + 1 end -- skip the level of this function
    return getinfo(f, without_function(what))
  end
end

-- Preloads perfev's own shared objects before a script can change the search path.
local function preload_own_modules(find_module)
  for _, name in ipairs(M.own_modules()) do
    local open, path = find_module(name)
    package.preload[name] = type(open) == "function" and open or function()
      error(("module '%s' is not loaded with these rights:%s"):format(name, tostring(open or path)), 0)
    end
  end
end

--- The names of perfev's modules that are shared objects of their own.
-- @treturn {string,...}
function M.own_modules()
  local names = {}
  for template in (require("perfl.find_script").native_templates() or ""):gmatch("[^;]+") do
    for _, entry in ipairs(core.list((template:gsub("%?%.so$", "perfev"))) or {}) do
      local name = entry:match("^([%l_]+)%.so$")
      if name and name ~= "core" then names[#names + 1] = "perfev." .. name end
    end
  end
  return names
end

local is_restricted = false

--- Restricts this Lua state; called before any script runs. A second call does nothing.
-- @tparam function find_module  name -> a loader | nil or the reason
function M.restrict(find_module)
  if is_restricted then return end
  is_restricted = true
  preload_own_modules(find_module)
  package.loadlib = nil -- luacheck: ignore 122
  package.cpath = ""
  package.searchers = { package.searchers[1], package.searchers[2] } -- preloaded modules, and Lua source
  _G.debug = { traceback = debug.traceback, getinfo = restricted_getinfo() }
  package.loaded.debug = _G.debug
end

return M
