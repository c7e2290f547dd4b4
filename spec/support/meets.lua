-- meets.lua - repeats a recording until sampling has met the expected names.
--
--   local meets = require "spec.support.meets"
--   meets({ "spin", "main" }, 100, function(times) return names_in(record(program, times)) end)
--
-- Samples of a clock fall where they fall, and few where a busy machine gives little time: no load of a fixed length
-- has any number of them. So there is more and more work, until each name was met; where one never is, for an error.

local TRIES = 8

--- Calls sampled(times), with twice as many times after each, until all that is wanted was seen.
-- @tparam table wanted      names, strings
-- @tparam integer times     of the first call
-- @tparam function sampled  times -> set of what was seen: name -> true
return function(wanted, times, sampled)
  local missing
  for _ = 1, TRIES do
    local seen = sampled(times)
    missing = nil
    for _, name in ipairs(wanted) do missing = missing or not seen[name] and name or nil end
    if not missing then return end
    times = 2 * times
  end
  error("never met: " .. missing, 2)
end
