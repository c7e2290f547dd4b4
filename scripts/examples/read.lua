-- read: prints the counts of each child when it ends, for every CPU.
-- perfl scripts/examples/read.lua -- sh -c 'ls; ls /usr'

local perfev = require "perfev"

local faults, names = {}, {}

perfev.event { "page-faults", inherit = true, period = 1 << 62, read = function(r)
  faults[r.tid] = (faults[r.tid] or 0) + r.read.value
  names[r.tid] = perfev.escape(r.comm)
end }

perfev.done(function()
  local tids = {}
  for tid in pairs(faults) do tids[#tids + 1] = tid end
  table.sort(tids)
  if #tids == 0 then print "this kernel writes no READ records (as 6.1; see doc/kernels.md)" end
  for _, tid in ipairs(tids) do
    print(("%7d %-16s %6d page faults"):format(tid, names[tid], faults[tid]))
  end
end)
