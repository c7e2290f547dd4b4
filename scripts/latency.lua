-- latency: shows the time between two events, as a histogram or as a heat map over time.
-- perfl -a -d 5s latency runqueue
-- perfl -a -d 10s latency block -f html -o disks.html
-- perfl latency syscalls:sys_enter_read syscalls:sys_exit_read --per comm -- make

local perfev = require "perfev"
local tool = require "perfev.tool"

-- `by`: fields that both events have; `start_by` and `stop_by`: fields of one event.
local pairs_by_name = {
  block = { "block:block_rq_issue", "block:block_rq_complete", by = { "args.dev", "args.sector" } },
  irq = { "irq:irq_handler_entry", "irq:irq_handler_exit", by = { "cpu", "args.irq" } },
  runqueue = { "sched:sched_wakeup", "sched:sched_switch", start_by = "args.pid", stop_by = "args.next_pid",
    stop_where = { "args.next_pid", "!=", 0 }, -- the idle task is never woken
    cancel_by = "args.prev_pid" }, -- woken on its own CPU: it did not wait
  softirq = { "irq:softirq_entry", "irq:softirq_exit", by = { "cpu", "args.vec" } },
  syscalls = { "raw_syscalls:sys_enter", "raw_syscalls:sys_exit", by = { "tid" }, is_of_task = true },
}
local NAMES = "block, irq, runqueue, softirq, syscalls"

local opt = perfev.args {
  summary = "show the time between two events: a histogram, a heat map",
  { "start", metavar = "START", help = "the first event; or, without STOP, one of " .. NAMES },
  { "stop", metavar = "STOP", required = false, help = "the second event" },
  { "--by", metavar = "FIELDS", help = "fields that are equal in both, as in cpu,args.irq (default: tid)" },
  { "--per", metavar = "FIELD", help = "print one for each value of this field of STOP, as in comm" },
  { "-f --format", choices = { "text", "csv", "json", "prom", "svg", "html" }, default = "text", metavar = "FORMAT",
    help = "text, csv, json; prom: for Prometheus; svg, html: a heat map, time by latency" },
  { "--slot", type = "duration", default = "10ms", metavar = "TIME", help = "the time of a column of the heat map" },
  { "--histogram", help = "svg, html: draw a histogram instead of a heat map" },
  tool.options.least, tool.options.interval, tool.options.title,
  epilog = [[
runqueue: from the wakeup to the CPU, without the waits of preempted tasks.
block: the time of a request in the device. Both require -a, and so do irq and
softirq. Events without a partner are counted below the result.]],
}

local function refuse(why) tool.refuse("latency", why) end

local known = pairs_by_name[opt.start]
for _, pair in pairs(opt.by and {} or pairs_by_name) do -- the two events of a known pair: join them as the pair does
  if pair[1] == opt.start and pair[2] == opt.stop then known, opt.stop = pair, nil end
end
if not opt.stop and not known then
  local word = perfev.escape(opt.start)
  refuse(("'%s' is not one of %s\n  try: latency START STOP, with two events"):format(word, NAMES))
end
local pair = opt.stop and { opt.start, opt.stop, by = tool.field_list("latency", "--by", opt.by or "tid") } or known
if pair == pairs_by_name.runqueue then tool.require_all_cpus "latency" end
local is_heat = (opt.format == "svg" or opt.format == "html") and not opt.histogram
if is_heat and opt.slot == 0 then refuse "--slot: more than 0" end

local report = tool.latency("latency", opt, { title = opt.title or ("from %s to %s"):format(pair[1], pair[2]),
  by = { is_heat and "time" or nil }, slot = is_heat and opt.slot .. "ns" or nil })
local span = report:span { start = true, stop = true, cancel = (pair.cancel_by or pair.is_of_task) and true,
  by = pair.by, start_by = pair.start_by, stop_by = pair.stop_by, cancel_by = pair.cancel_by,
  stop_where = pair.stop_where }
perfev.event { pair[1], sample = span.start, exit = pair.is_of_task and span.cancel or nil }
perfev.event { pair[2], sample = { span.stop, pair.cancel_by and span.cancel or nil } }
