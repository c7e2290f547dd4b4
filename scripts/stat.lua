-- stat: counts events, in the columns of perf stat.
-- perfl stat -- ls -R /usr/share/doc
-- perfl -a -d 5s stat -e page-faults,sched:sched_switch -I 1000

local perfev = require "perfev"
local event = require "perfev.event"
local session = require "perfev.session"
local stat = require "perfev.stat"
local core = require "perfev.core"

local opt = perfev.args {
  summary = "count events, in the columns of perf stat",
  { "-e --events --event", metavar = "LIST", many = true,
    help = "as in a,b,{c,d}; braces: a group (default: perf stat's)" },
  { "-I --interval-print", type = "integer", metavar = "MS", help = "print what was counted every so many ms" },
  { "-r --repeat", type = "integer", default = 1, metavar = "N", help = "run the command N times: mean, and +- of it" },
  { "-j --json-output", help = "a JSON object on each line" },
  { "-x --field-separator", metavar = "SEP", help = "values separated by SEP" },
}

local function refuse(why, status)
  io.stderr:write("stat: ", why, "\n")
  os.exit(status or 2, true)
end

local is_chosen, units = #opt.events > 0, {}
for _, text in ipairs(is_chosen and opt.events or { stat.default() }) do
  local more, why = stat.parse(text)
  if not more then refuse(why) end
  table.move(more, 1, #more, #units + 1, units)
end
for _, unit in ipairs(is_chosen and units or {}) do
  for _, name in ipairs(unit) do
    local found, reason, code = event.resolve(name)
    if not found then refuse(reason, code == core.errno.EACCES and 1) end -- not the command line's fault
  end
end
if opt["repeat"] < 1 then refuse("--repeat: at least once") end
if opt.interval_print and opt.interval_print < 1 then refuse("--interval-print: at least a millisecond") end
local writer = stat.writer(opt.json_output, opt.field_separator)

-- Count what s watches; finished(rows, ns) when it has ended.
local function prepare(s, finished)
  local counters, began, last = {}, 0, 0
  for i, unit in ipairs(units) do
    local spec = {}
    for k, name in ipairs(unit.text and { unit.text } or unit) do spec[k] = { name, optional = "unsupported" } end
    counters[i] = unit.grouped and not unit.text and s:group(spec) or s:counter(spec)
  end
  local function interval()
    local now = core.clock(1)
    stat.write(writer, stat.rows(counters, "delta", now - last), now - last, now - began)
    last = now
  end
  if opt.interval_print then s:every(opt.interval_print / 1000, interval) end
  s:on_begin(function()
    if opt.interval_print and writer.for_people then print("#           time             counts unit events") end
    began = core.clock(1)
    last = began
  end)
  s:done(function()
    local took = core.clock(1) - began
    if opt.interval_print then interval() end
    finished(stat.rows(counters, "read", took), took)
  end)
end

stat.run(opt, writer, session.default(), prepare)
