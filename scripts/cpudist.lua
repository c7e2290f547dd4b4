-- cpudist: how long tasks stay on a CPU once they have it, or off it.
-- perfl -a -d 5s cpudist
-- perfl cpudist --off --per comm --unit ms -- make

local perfev = require "perfev"
local common = require "perfev.profile.options"

local opt = perfev.args {
  summary = "how long tasks stay on a CPU once they have it",
  { "-O --off", help = "how long they are off it, whatever they wait for" },
  { "--per", choices = { "comm", "tid" }, metavar = "FIELD", help = "a histogram for each: comm or tid" },
  common.unit,
  epilog = [[
The machine is watched; with -p, -t, --uid, --comm or a command those tasks, and
their children, are counted.]],
}

local is_chosen = common.tasks("cpudist", "a task gets its CPU from another one", not opt.off)

-- One switch is an end of whose turn it was, and a beginning of the next one's.
local start, stop = "next", "prev"
if opt.off then start, stop = stop, start end
local columns = { comm = ("args.%s_comm"):format(stop), tid = ("args.%s_pid"):format(stop) }
local start_by, stop_by = ("args.%s_pid"):format(start), ("args.%s_pid"):format(stop)
local took = perfev.hist { by = columns[opt.per], unit = opt.unit, max_keys = 1 << 20,
  title = opt.off and "off-CPU time" or "on-CPU time" }

local function count_all()
  local turns = perfev.span {
    start = true, stop = true, start_by = start_by, stop_by = stop_by,
    start_where = { start_by, "!=", 0 }, stop_where = { stop_by, "!=", 0 }, into = took, -- idle is no task
  }
  perfev.event { "sched:sched_switch", sample = { turns.stop, turns.start } }
end

local function count_chosen()
  local since, add = {}, common.adder(took, opt)
  local fields = { "time", start_by, ("args.%s_comm"):format(start), stop_by, ("args.%s_comm"):format(stop) }
  perfev.event { "sched:sched_switch", fields = fields, sample = function(time, begins, name, ends, comm)
    if since[ends] then add(time - since[ends], comm, ends) end
    since[ends] = nil
    since[begins] = is_chosen(begins, name) and time or nil
  end }
end

if is_chosen then count_chosen() else count_all() end

perfev.done(function() took:print() end)
