-- killsnoop: prints a line for each signal sent by kill(2), with the result of the call.
-- perfl -a killsnoop
-- perfl killsnoop --signal 9 sh -c 'sleep 9 & kill -9 $!'

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each signal sent by kill(2)",
  { "-s --signal", type = "integer", metavar = "N", help = "print only this signal" },
  { "-x --failed", help = "print only calls that failed" },
  output = [[
Prints a line for each call: TIME(s) since the first, PID and COMM of the
sender, SIG, TPID and RESULT.]],
  epilog = [[
TPID is the argument of kill(2): below -1 a process group, -1 all processes.
RESULT is - if the sender dies of its own signal.]],
}

local sent, first = {}, nil -- by thread: its call that has not returned; the time of the first call

local function show(tid, one, result)
  sent[tid] = nil
  if opt.failed and (not result or result >= 0) then return end
  print(("%12.6f %7d %-16s %-9s %7d %s"):format((one.time - first) / 1e9, one.pid, perfev.escape(one.comm),
    tool.signal_name(one.sig) or one.sig, one.to, not result and "-" or result < 0 and perfev.errno[-result] or result))
end

perfev.begin(function()
  print(("%12s %7s %-16s %-9s %7s %s"):format("TIME(s)", "PID", "COMM", "SIG", "TPID", "RESULT"))
end)

perfev.event {
  "syscalls:sys_enter_kill", where = opt.signal and { "args.sig", "==", opt.signal } or nil,
  fields = { "tid", "pid", "comm", "time", "args.pid", "args.sig" },
  sample = function(tid, pid, comm, time, to, sig)
    first = first or time
    sent[tid] = { pid = pid, comm = comm, time = time, to = to, sig = sig }
  end,
}

perfev.event { "syscalls:sys_exit_kill", fields = { "tid", "args.ret" }, sample = function(tid, ret)
  if sent[tid] then show(tid, sent[tid], ret) end
end }

perfev.event { exit = function(r)
  if sent[r.tid] then show(r.tid, sent[r.tid]) end
end }
