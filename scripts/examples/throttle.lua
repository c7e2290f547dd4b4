-- throttle: prints when the kernel stops an event that samples too often, until the next tick.
-- perfl scripts/examples/throttle.lua -- sh -c 'for i in $(seq 9999); do :; done'
-- A clock samples at most once in 10 us, below the default limit of 100000 a second.
-- To see records, set sysctl kernel.perf_event_max_sample_rate=10000 first.

local perfev = require "perfev"

local stops, samples = 0, 0

perfev.event { "cpu-clock", period = 1000,
  sample = function() samples = samples + 1 end,
  throttle = function(r) -- also receives unthrottle records
    if r.type == "throttle" then stops = stops + 1 end
  end,
}

perfev.done(function() print(("%d samples, stopped %d times"):format(samples, stops)) end)
