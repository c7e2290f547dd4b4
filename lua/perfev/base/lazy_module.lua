--- A module that is loaded when something of it is asked for: what one run in ten uses costs the others no start.
-- For what happens once per session. What is set in it before it is loaded it has from then on.

local proxies = {} -- name -> what stands for the module

local function stand_in(name)
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

--- @tparam string name  as for require; the module is a table, and need not be the caller's to call
-- @treturn table  to be used as the module
return function(name)
  proxies[name] = proxies[name] or stand_in(name)
  return proxies[name]
end
