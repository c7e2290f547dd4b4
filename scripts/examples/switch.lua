-- switch: how long each thread was on a CPU at a stretch, at most.
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
  for tid, ns in pairs(longest) do print(("%7d %9.3f ms"):format(tid, ns / 1e6)) end
end)
