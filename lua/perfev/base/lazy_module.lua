--- Loads a module on its first use, so that runs that do not need it start faster.
-- Not for hot paths: every access goes through a metamethod. A field set before the module is loaded is set in the
-- module when it is.

local proxies = {} -- module name -> its proxy

local function new_proxy(name)
  local module, set = nil, {}
  local function get()
    if not module then
      module = require(name)
      for key, value in pairs(set) do module[key] = value end
    end
    return module
  end
  return setmetatable({}, {
    __index = function(_, key) return get()[key] end,
    __newindex = function(_, key, value)
      set[key] = value
      if module then module[key] = value end
    end,
    __call = function(_, ...) return get()(...) end,
    __pairs = function() return pairs(get()) end,
  })
end

--- @tparam string name  as for require; the module must be a table, and may be callable
-- @treturn table  a proxy, used like the module
return function(name)
  proxies[name] = proxies[name] or new_proxy(name)
  return proxies[name]
end
