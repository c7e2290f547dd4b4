-- cache: counts the loads that miss the first cache, if the machine can count them.
-- perfl scripts/examples/cache.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local counter = perfev.counter {
  { "L1-dcache-loads:u", name = "loads", optional = true },
  { "L1-dcache-load-misses:u", name = "misses", optional = true }, { "page-faults:u", name = "faults" },
}

perfev.done(function()
  local n = counter:read()
  if n.loads then print(("%d loads, %.2f %% missed the cache"):format(n.loads, 100 * n.misses / n.loads)) end
  print(n.faults .. " pages were missing")
end)
