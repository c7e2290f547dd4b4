--- Reports on standard error how many stacks have their names, once a second: loading symbols may take long.

local core = require "perfev.core"

local SECOND = 1000000000
local MONOTONIC = 1

--- Returns f(done, all), which is called after each stack.
-- @tparam string who  the script's name, in the report
return function(who)
  local next_report = core.clock(MONOTONIC) + SECOND
  return function(done, all)
    if core.clock(MONOTONIC) < next_report then return end
    next_report = next_report + SECOND
    io.stderr:write(("%s: %d of %d stacks have their names\n"):format(who, done, all))
  end
end
