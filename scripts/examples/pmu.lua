-- pmu: counts an event described by sysfs: ticks of the time stamp counter during a command.
-- perfl scripts/examples/pmu.lua -- sleep 0.1

local perfev = require "perfev"

local counter = perfev.counter { { "msr/tsc/ | cpu-clock", name = "ticks" }, "task-clock" }

perfev.done(function()
  local n = counter:read()
  print(("%d ticks in %.3f ms on a CPU"):format(n.ticks, n["task-clock"] / 1e6))
end)
