-- vendor: samples an event by its vendor name (libpfm4), of this machine or another one.
-- perfl --dry-run scripts/examples/vendor.lua -- true
-- perfl --dry-run --assume-pmu ivb scripts/examples/vendor.lua UOPS_RETIRED:ALL -- true

local perfev = require "perfev"

local opt = perfev.args { { "event", args = "?", default = "skl::UOPS_RETIRED:ALL" } }

perfev.event { opt.event, optional = true, period = 100003, sample = function(r)
  print(("%-16s %x"):format(perfev.escape(r.comm), r.ip))
end }
