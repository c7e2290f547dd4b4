--- The modules that a sandboxed script can require: perfev and perfev.tool, as tables of their own, without the
-- functions that replace system calls or choose files.

local perfev = require "perfev"

local M = {}

local NAMES = [[_VERSION errno escape event counter group hist_counter every after begin done signal start run stop
  snapshot task totals default_session session count top sum avg min max stats hist quantile line unpack span args list
  event_details doctor measure task_enable task_disable decoder encode]]

local SYMBOL = "kernel process file source gone notes"

local function refused(name)
  error(("perfev.%s: not available with --sandbox"):format(name), 3)
end

local function copy(module, names)
  local own = {}
  for name in names:gmatch "[%w_]+" do own[name] = module[name] end
  return own
end

local function copy_all(module)
  local own = {}
  for name, value in pairs(module) do own[name] = value end
  return own
end

-- A table with own fields; the names of another one raise.
local function closed(own, module, prefix)
  return setmetatable(own, { __metatable = false, __index = function(_, name)
    if type(name) == "string" and module[name] ~= nil then refused(prefix .. name) end
    return nil
  end })
end

local function own_profile()
  local profile = require "perfev.profile"
  return setmetatable(copy_all(profile), { __metatable = false, __call = function(_, options)
    return profile(options)
  end })
end

local function own_tool(is_named)
  local tool = require "perfev.tool"
  local own = copy_all(tool)
  own.options = setmetatable({}, { __metatable = false, __index = function(_, name) return tool.options[name] end })
  function own.read_profile(who, path, options)
    if is_named(path) then return tool.read_profile(who, path, options) end
    return nil, ("%s: the command line does not name this file (--sandbox)"):format(perfev.escape(tostring(path)))
  end
  return own
end

-- Modules that perfev loads when they are named.
local makers = {
  profile = own_profile, tool = own_tool,
  calls = function()
    local calls = require "perfev.calls"
    return setmetatable({}, { __metatable = false, __call = function(_, spec) return calls(spec) end })
  end,
  picture = function() return copy_all(require "perfev.picture") end,
  units = function() return copy_all(require "perfev.base.parse_units") end,
  syscalls = function() return copy_all(require "perfev.tracepoint.syscalls") end,
  symbol = function() return closed(copy(perfev.symbol, SYMBOL), perfev.symbol, "symbol.") end,
}

--- Makes the modules.
-- @tparam function is_named  path -> whether the command line names this file
-- @treturn table             name -> module
function M.new(is_named)
  local own = copy(perfev, NAMES)
  own.errno = copy_all(perfev.errno)
  function own.open(path, options)
    if is_named(path) then return perfev.open(path, options) end
    return nil, ("%s: the command line does not name this file (--sandbox)"):format(perfev.escape(tostring(path))), 13
  end
  setmetatable(own, { __metatable = false, __index = function(module, name)
    if makers[name] then
      local value = makers[name](is_named)
      rawset(module, name, value)
      return value
    end
    if type(name) == "string" and perfev[name] ~= nil then refused(name) end
    return nil
  end })
  return setmetatable({ perfev = own }, { __index = function(_, name)
    return name == "perfev.tool" and own.tool or nil
  end })
end

return M
