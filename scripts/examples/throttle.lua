-- throttle: the kernel stops an event that samples too often, until the next tick.
-- perfl scripts/examples/throttle.lua -- sh -c 'for i in $(seq 9999); do :; done'
-- A clock samples at most once in 10 us, and so stays within the usual limit of 100000 a second:
-- to see it happen, sysctl kernel.perf_event_max_sample_rate=10000 before.

local perfev = require "perfev"

local stops, samples = 0, 0

perfev.event { "cpu-clock", period = 1000,
  sample = function() samples = samples + 1 end,
  throttle = function(r) -- unthrottle records come here too
    if r.type == "throttle" then stops = stops + 1 end
  end,
}

perfev.done(function() print(("%d samples, stopped %d times"):format(samples, stops)) end)
