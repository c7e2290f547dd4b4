-- flightrec: keeps the last records in memory and prints or records them at a trigger.
-- perfl -a flightrec --trigger oom:mark_victim sched:sched_switch
-- perfl -a flightrec -g cpu-clock --record oom.data --trigger oom:mark_victim
-- perfl -m 64K flightrec syscalls:sys_enter_openat syscalls:sys_exit_openat -- ls

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "a flight recorder: print or record what was before a trigger, or before the end",
  { "events", args = "+", metavar = "EVENT", help = "the events to keep in memory: cpu-clock, system:name" },
  { "-g", help = "keep call chains, too" },
  { "--trigger", type = "string", metavar = "EVENT", help = "print the records when this event happens" },
  { "--filter", type = "string", metavar = "CONDITION", help = "a condition on the trigger's fields, as in 'pid > 0'" },
  { "--when", type = "condition", metavar = "LUA",
    help = "and only if this is true, as in 'args.delay > 1e6': a Lua expression, or statements with return" },
  { "--max", type = "integer", metavar = "N", help = "end after N triggers" },
  { "--record", metavar = "FILE", help = "write the records to FILE, for perf and -i; at further triggers to FILE.1, "
    .. "FILE.2, and so on" },
  { "--no-names", help = "do not keep the names of sampled functions in FILE" },
  output = [[
Prints a line for each record: task, TID, [CPU], time in seconds, event and its
text; with -g the stack below it. A line -- names each trigger.]],
  epilog = [[
-m SIZE sets how much each CPU keeps; older records are overwritten, and perfl
reads none before the trigger. SIGUSR1 is a trigger too. Without --trigger the
end is a trigger. LUA has the trigger's record r and its fields args; its global
variables keep their values until the next record. FILE has all that is needed
to name tasks and functions, also of tasks that have ended.]],
}
tool.require_kernel("flightrec", "a recording keeps all of its records\n  try: perfl dump")
local alone = not opt.trigger and (opt.when and "--when" or opt.filter and "--filter")
if alone then tool.refuse("flightrec", alone .. " without --trigger\n  try: --trigger EVENT") end

local function show(r, args)
  print(("%-15s %7d [%03d] %15.6f %s: %s"):format(perfev.escape(r.comm), r.tid, r.cpu, r.time / 1e9,
    r.event.name, perfev.escape(tostring(args or r))))
end

local taken, failed = 0, nil
local function snapshot(why)
  local path = opt.record and (taken == 0 and opt.record or ("%s.%d"):format(opt.record, taken))
  print(("-- %s%s"):format(perfev.escape(why), path and ", in " .. perfev.escape(path) or ""))
  local ok, what = perfev.snapshot { record = path, names = path and not opt.no_names }
  taken = taken + 1
  if taken == opt.max then perfev.stop() end
  if not ok then failed = io.stderr:write("flightrec: ", what, "\n") end
end

for _, name in ipairs(opt.events) do
  perfev.event { name, write_backward = true, callchain = opt.g or nil, sample = show }
end
if opt.trigger then
  perfev.event { opt.trigger, filter = opt.filter, sample = function(r, args)
    if not opt.when or opt.when(r, args) then snapshot(("%s: %s"):format(opt.trigger, tostring(args or r))) end
  end }
end
perfev.done(function()
  if not opt.trigger then snapshot("the end") end
  if failed then tool.refuse("flightrec", "not every snapshot is there", 1) end
end)
perfev.signal("USR1", function() snapshot("SIGUSR1") end)
