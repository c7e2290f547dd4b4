--- What a script must not reach while perfl has capabilities that its caller lacks.
--
-- perfl with file capabilities (setcap(8)) runs the caller's scripts. Code of the caller's in this process could raise
-- the capabilities that src/base/rights.c holds back: no native code of others is loaded, and the functions of
-- `debug` that reach into perfl's own functions, the registry or metatables are removed. Hooks are refused by the core.

local core = require "perfev.core"

local M = {}

-- getinfo without the function itself, which may be one of ours and could then be called.
local function restricted_getinfo()
  local getinfo = debug.getinfo
  local function without_function(what) return (what or "nSltu"):gsub("f", "") end
  return function(...)
    if type((...)) == "thread" then
      local thread, f, what = ...
      return getinfo(thread, f, without_function(what))
    end
    local f, what = ...
    if math.type(f) == "integer" and f > 0 then f = f + 1 end -- this function is a level, too
    return getinfo(f, without_function(what))
  end
end

-- Finds perfev's own shared objects before a script can change where they are searched.
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
      local name = entry:match("^(%l+)%.so$")
      if name and name ~= "core" then names[#names + 1] = "perfev." .. name end
    end
  end
  return names
end

--- Restrict this Lua state; before any script runs.
-- @tparam function find_module  name -> a loader | nil or text: why not
function M.restrict(find_module)
  preload_own_modules(find_module)
  package.loadlib = nil -- luacheck: ignore 122
  package.cpath = ""
  package.searchers = { package.searchers[1], package.searchers[2] } -- preloaded, and Lua's source
  _G.debug = { traceback = debug.traceback, getinfo = restricted_getinfo() }
  package.loaded.debug = _G.debug
end

return M
