-- meets.lua - repeats a sampled load until the samples contain all wanted names.
--
--   local meets = require "spec.support.meets"
--   meets({ "spin", "main" }, 100, function(times) return names_in(record(program, times)) end)
--
-- The number of clock samples depends on the CPU time that a busy machine gives: no fixed load is sure of any.
-- So the load doubles until every name was seen; a name that is never seen is an error.

local TRIES = 8

--- Calls sampled(times), doubling `times` after each call, until every wanted name was seen.
-- @tparam table wanted      names, strings
-- @tparam integer times     for the first call
-- @tparam function sampled  times -> set of the seen names: name -> true
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
