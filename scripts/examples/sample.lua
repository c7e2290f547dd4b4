-- sample: shows which programs use the CPU, from 99 samples a second.
-- perfl scripts/examples/sample.lua -- make        (as root: -a -d 5s)

local perfev = require "perfev"

local where, total = {}, 0

perfev.event { "cpu-clock", freq = 99, sample = function(r)
  local key = ("%-16s %s"):format(perfev.escape(r.comm), r.cpumode)
  where[key] = (where[key] or 0) + 1
  total = total + 1
end }

perfev.done(function()
  local keys = {}
  for key in pairs(where) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return where[a] > where[b] or where[a] == where[b] and a < b end)
  for _, key in ipairs(keys) do
    print(("%5.1f %%  %s"):format(100 * where[key] / total, key))
  end
end)
