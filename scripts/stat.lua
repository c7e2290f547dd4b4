-- stat: counts events and prints the columns of perf stat.
-- perfl stat ls -R /usr/share/doc
-- perfl -a -d 5s stat -e page-faults,sched:sched_switch -I 1000

local perfev = require "perfev"
local event = require "perfev.event.declaration"
local options = require "perfev.base.options"
local session = require "perfev.live.session"
local stat = require "perfev.tool.stat_output"
local core = require "perfev.core"

local opt = perfev.args {
  summary = "count events, in the columns of perf stat", all_cpus = true,
  { "-e --events --event", metavar = "LIST", many = true,
    help = "count these, as in a,b,{c,d}; braces: a group (default: as perf stat)" },
  { "-I --interval-print", type = "integer", metavar = "MS", help = "print the counts every MS milliseconds" },
  { "-r --repeat", type = "integer", default = 1, metavar = "N", help = "run N times: mean and deviation" },
  { "-j --json-output", help = "print a JSON object for each event" },
  { "-x --field-separator", metavar = "SEP", help = "print values separated by SEP" },
  { "-A --no-aggr", help = "print each CPU separately; requires -a or -C" },
}

local function refuse(why, status)
  io.stderr:write("stat: ", why, "\n")
  os.exit(status or 2, true)
end

local is_chosen = #opt.events > 0
local units, wrong = stat.parse(table.unpack(is_chosen and opt.events or { stat.default() }))
if not units then refuse(wrong) end
for _, unit in ipairs(is_chosen and units or {}) do
  for _, name in ipairs(unit) do
    local found, reason, code = event.resolve(name)
    if not found then refuse(reason, code == core.errno.EACCES and 1) end -- not the command line's fault
  end
end
if opt["repeat"] < 1 then refuse("--repeat: at least once") end
if opt.interval_print and opt.interval_print < 1 then refuse("--interval-print: at least a millisecond") end
local is_perfl, native = pcall(require, "perfl.core")
local writer = stat.writer(opt.json_output, opt.field_separator)

-- Values that perf stat measures itself, in ns; for an ended command also its CPU time.
local function measure(s, took, user_before, system_before)
  local measured = { duration_time = took }
  if is_perfl and s.command_status and not options.is_cpu_wide(s.opts) then
    local user, system = native.children_time()
    measured.user_time, measured.system_time = user - user_before, system - system_before
  end
  return measured
end

-- Counts the targets of session s; calls finished(rows, measured) at the end.
local function prepare(s, finished)
  local counters, began, last, user, system = {}, 0, 0, 0, 0 -- last: since it began
  for i, unit in ipairs(units) do
    local spec = {}
    for k, name in ipairs(unit.text and { unit.text } or unit) do spec[k] = { name, optional = "unsupported" } end
    counters[i] = unit.grouped and not unit.text and s:group(spec) or s:counter(spec)
  end
  local function interval()
    local at = core.clock(1) - began
    stat.write(writer, stat.rows(counters, "delta", { duration_time = at - last }, opt.no_aggr), at - last, at)
    last = at
  end
  if opt.interval_print then s:every(opt.interval_print / 1000, interval) end
  s:begin(function()
    local is_of_tasks = not (options.is_cpu_wide(s.opts) or s.opts.cpus)
    if opt.no_aggr and is_of_tasks then refuse "--no-aggr: counts of tasks have no CPU\n  try: -a, or -C" end
    if opt.interval_print and writer.for_people then print(stat.head(opt.no_aggr)) end
    began = core.clock(1)
    if is_perfl then user, system = native.children_time() end
  end)
  s:done(function()
    local measured = measure(s, core.clock(1) - began, user, system)
    if opt.interval_print then interval() end
    finished(stat.rows(counters, "read", measured, opt.no_aggr), measured)
  end)
end

stat.run(opt, writer, session.default(), prepare)
