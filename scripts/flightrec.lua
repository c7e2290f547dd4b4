-- flightrec: keeps the last records in memory and prints them at a trigger.
-- perfl -a flightrec --trigger oom:mark_victim sched:sched_switch
-- perfl -m 64K flightrec syscalls:sys_enter_openat syscalls:sys_exit_openat -- ls

local perfev = require "perfev"
local tool = require "perfev.tool"
local escape = perfev.escape

local opt = perfev.args {
  summary = "a flight recorder: print the records before a trigger, or before the end",
  { "events", args = "+", metavar = "EVENT", help = "the tracepoints to keep in memory, system:name" },
  { "--trigger", type = "string", metavar = "EVENT", help = "print the records when this event happens" },
  { "--filter", type = "string", metavar = "CONDITION", help = "a condition on the trigger's fields, as in 'pid > 0'" },
  epilog = [[
-m SIZE sets how much each CPU keeps; older records are overwritten, and perfl
reads none before the trigger. SIGUSR1 is a trigger too. Without --trigger the
end is a trigger.]],
}

perfev.default_session():begin(function()
  if not perfev.default_session().opts.input then return end
  tool.refuse("flightrec", "a recording keeps all of its records\n  try: perfl dump")
end)

local printed

local function show(r, args)
  printed = printed + 1
  print(("%-15s %7d [%03d] %15.6f %s: %s"):format(escape(r.comm), r.tid, r.cpu, r.time / 1e9,
    r.event.name, escape(tostring(args or r))))
end

local function snapshot(why)
  printed = 0
  print(("-- %s"):format(escape(why)))
  local ok, what = perfev.snapshot()
  if not ok then io.stderr:write("flightrec: ", what, "\n") end
end

for _, name in ipairs(opt.events) do
  perfev.event { name, write_backward = true, sample = show }
end
if opt.trigger then
  perfev.event { opt.trigger, filter = opt.filter, sample = function(_, args)
    snapshot(("%s: %s"):format(opt.trigger, tostring(args)))
  end }
else
  perfev.done(function() snapshot("the end") end)
end
perfev.signal("USR1", function() snapshot("SIGUSR1") end)
