-- flightrec: keeps the last records in memory and prints or records them at a trigger.
-- perfl -a flightrec --trigger oom:mark_victim sched:sched_switch
-- perfl -a flightrec -g cpu-clock --record oom.data --trigger oom:mark_victim
-- perfl -m 64K flightrec syscalls:sys_enter_openat syscalls:sys_exit_openat -- ls

local perfev = require "perfev"
local tool = require "perfev.tool"
local escape = perfev.escape

local opt = perfev.args {
  summary = "a flight recorder: print or record what was before a trigger, or before the end",
  { "events", args = "+", metavar = "EVENT", help = "the events to keep in memory: cpu-clock, system:name" },
  { "-g", help = "keep call chains, too" },
  { "--trigger", type = "string", metavar = "EVENT", help = "print the records when this event happens" },
  { "--filter", type = "string", metavar = "CONDITION", help = "a condition on the trigger's fields, as in 'pid > 0'" },
  { "--when", type = "string", metavar = "LUA",
    help = "and only if this is true, as in 'args.delay > 1e6': a Lua expression, or statements with return" },
  { "--max", type = "integer", metavar = "N", help = "end after N triggers" },
  { "--record", metavar = "FILE", help = "write the records to FILE, for perf and -i; at further triggers to FILE.1, "
    .. "FILE.2, and so on" },
  { "--no-names", help = "do not keep the names of sampled functions in FILE" },
  epilog = [[
-m SIZE sets how much each CPU keeps; older records are overwritten, and perfl
reads none before the trigger. SIGUSR1 is a trigger too. Without --trigger the
end is a trigger. LUA has the trigger's record r and its fields args; its global
variables keep their values until the next record. FILE has all that is needed
to name tasks and functions, also of tasks that have ended.]],
}

perfev.default_session():begin(function()
  if not perfev.default_session().opts.input then return end
  tool.refuse("flightrec", "a recording keeps all of its records\n  try: perfl dump")
end)

local function compile(text)
  local scope = "local r, args = ... "
  local expression, why = load(scope .. "return " .. text, "=--when", "t")
  return expression or load(scope .. text, "=--when", "t") or tool.refuse("flightrec", why)
end

if opt.when and not opt.trigger then
  tool.refuse("flightrec", "--when without --trigger\n  it is a condition on the trigger's records\n"
    .. "  try: --trigger EVENT")
end
local when = opt.when and compile(opt.when) or function() return true end

local function show(r, args)
  print(("%-15s %7d [%03d] %15.6f %s: %s"):format(escape(r.comm), r.tid, r.cpu, r.time / 1e9,
    r.event.name, escape(tostring(args or r))))
end

local taken = 0
local function snapshot(why)
  local path = opt.record and (taken == 0 and opt.record or ("%s.%d"):format(opt.record, taken))
  print(("-- %s%s"):format(escape(why), path and ", in " .. escape(path) or ""))
  local ok, what = perfev.snapshot { record = path, names = path and not opt.no_names }
  if not ok then io.stderr:write("flightrec: ", what, "\n") end
  taken = taken + 1
  if taken == opt.max then perfev.stop() end
end

for _, name in ipairs(opt.events) do
  perfev.event { name, write_backward = true, callchain = opt.g or nil, sample = show }
end
if opt.trigger then
  perfev.event { opt.trigger, filter = opt.filter, sample = function(r, args)
    if when(r, args) then snapshot(("%s: %s"):format(opt.trigger, tostring(args or r))) end
  end }
else
  perfev.done(function() snapshot("the end") end)
end
perfev.signal("USR1", function() snapshot("SIGUSR1") end)
