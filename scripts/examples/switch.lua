-- switch: prints the longest time that each thread stayed on a CPU.
-- perfl scripts/examples/switch.lua -- make        (no root needed)

local perfev = require "perfev"

local since, longest = {}, {}

perfev.event { switch = function(r)
  if not r.out then
    since[r.tid] = r.time
  elseif since[r.tid] then
    longest[r.tid] = math.max(longest[r.tid] or 0, r.time - since[r.tid])
  end
end }

perfev.done(function()
  local tids = {}
  for tid in pairs(longest) do tids[#tids + 1] = tid end
  table.sort(tids)
  for _, tid in ipairs(tids) do print(("%7d %9.3f ms"):format(tid, longest[tid] / 1e6)) end
end)
