-- callchain_deferred: prints the user part of call chains, recorded when the task returns to user space.
-- perfl scripts/examples/callchain_deferred.lua -- make
-- Requires a kernel whose perf_event_attr has defer_callchain (6.19).

local perfev = require "perfev"

local waiting = {} -- samples of one kernel entry share a user part and its cookie

local event = perfev.event { "cpu-clock", freq = 99, callchain = true, defer_callchain = true,
  optional = true,
  sample = function(r)
    local cookie = r.callchain.cookie
    if cookie then waiting[cookie] = (waiting[cookie] or 0) + 1 end
  end,
  callchain_deferred = function(r)
    print(("%d samples end in %d user frames"):format(waiting[r.cookie] or 0, #r.callchain.raw))
    waiting[r.cookie] = nil
  end }

perfev.begin(function()
  if event.error then print "this kernel does not defer call chains (-v says more)" end
end)
