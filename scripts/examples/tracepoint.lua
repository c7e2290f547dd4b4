-- tracepoint: prints the payload of a tracepoint: integers, strings and arrays by name.
-- perfl -a -d 1s scripts/examples/tracepoint.lua   (needs root)

local perfev = require "perfev"

local printed = 0

perfev.event { "sched:sched_wakeup", filter = "pid > 0", sample = function(r, args)
  local who, whom = perfev.escape(r.comm or "?"), perfev.escape(args.comm)
  print(("%s wakes %s (%d)"):format(who, whom, args.pid))
  if printed == 0 then
    for name, value in pairs(args) do print("", name, value) end -- all fields
    print("", perfev.escape(tostring(args))) -- the line of the kernel
  end
  printed = printed + 1
  return printed < 10 -- false ends the session
end }
