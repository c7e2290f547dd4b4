-- tpoint: prints tracepoints the way ftrace does, a line each.
-- perfl -a -d 2s tpoint sched:sched_switch
-- perfl tpoint --filter 'prio < 100' sched:sched_wakeup sched:sched_waking -- make

local perfev = require "perfev"
local escape = perfev.escape

local opt = perfev.args {
  summary = "print tracepoints as ftrace does",
  { "events", args = "+", metavar = "EVENT", help = "system:name, as in sched:sched_switch" },
  { "--filter", type = "string", metavar = "CONDITION",
    help = "on the events' fields, as in 'prev_pid > 0'; the kernel applies it" },
  epilog = [[
Columns: task-tid [cpu] flags time: event: text
Flags, a dot for none: d interrupts off, b softirqs off, D both; n p N (l L B b)
a reschedule is wanted; h hard, s soft interrupt, H both, z NMI; how deep
preemption is disabled; how deep migration is.]],
}

-- trace_print_lat_fmt() in kernel/trace/trace_output.c; bits of enum trace_flag_type.
local IRQS_OFF, HARDIRQ, SOFTIRQ, NMI, BH_OFF = 0x01, 0x08, 0x10, 0x40, 0x80
local resched = { -- LAZY 0x02, NEED 0x04, PREEMPT 0x20
  [0x02] = "l", [0x04] = "n", [0x06] = "b", [0x20] = "p", [0x22] = "L", [0x24] = "N", [0x26] = "B",
}
local interrupt = {
  [HARDIRQ] = "h", [SOFTIRQ] = "s", [HARDIRQ | SOFTIRQ] = "H",
  [NMI] = "z", [NMI | SOFTIRQ] = "z", [NMI | HARDIRQ] = "Z", [NMI | HARDIRQ | SOFTIRQ] = "Z",
}
local off = { [IRQS_OFF] = "d", [BH_OFF] = "b", [IRQS_OFF | BH_OFF] = "D" }

local function depth(n)
  return n == 0 and "." or ("%x"):format(n)
end

local function flags_of(args)
  local flags, preempt = args.common_flags, args.common_preempt_count
  local deep = math.max((preempt & 0xf) - 1, 0) -- less the tracepoint's own (6.18)
  return (off[flags & (IRQS_OFF | BH_OFF)] or ".") .. (resched[flags & 0x26] or ".")
    .. (interrupt[flags & (HARDIRQ | SOFTIRQ | NMI)] or ".")
    .. depth(deep) .. depth(preempt >> 4)
end

local function show(r, args)
  local us = (r.time + 500) // 1000
  local event = r.event.name:match("^[^:/]+[:/]([^:/]+)") or r.event.name -- less modifiers
  local comm = r.tid == 0 and "<idle>" or escape(r.comm or "<...>")
  print(("%16s-%-7d [%03d] %s %5d.%06d: %s: %s"):format(comm, r.tid, r.cpu, flags_of(args),
    us // 1000000, us % 1000000, event, escape(tostring(args))))
end

for _, name in ipairs(opt.events) do
  perfev.event { name, filter = opt.filter, sample = show }
end
