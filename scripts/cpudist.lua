-- cpudist: shows how long tasks stay on a CPU, or off it, as histograms.
-- perfl -a -d 5s cpudist
-- perfl cpudist --off --per comm --unit ms -- make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long tasks stay on a CPU",
  { "-O --off", help = "show how long tasks are off the CPU, for any reason" },
  tool.options.per, tool.options.least, tool.options.interval, tool.options.unit, tool.options.latency_format,
  epilog = [[
The script watches the machine. With -p, -t, --uid, --comm or a command it
counts only those tasks and their children.]],
}

local is_chosen = tool.choose_tasks("cpudist", "a task gets its CPU from another one", not opt.off)

-- A switch ends the turn of the previous task and begins that of the next. Its record is of the previous one.
local start, stop, own = "next", "prev", ""
if opt.off then start, stop, own = stop, start, "start." end
local start_by, stop_by = ("args.%s_pid"):format(start), ("args.%s_pid"):format(stop)
local report = tool.latency("cpudist", opt, { title = opt.off and "off-CPU time" or "on-CPU time",
  per = { comm = ("args.%s_comm"):format(stop), tid = stop_by, pid = own .. "pid", cgroup = own .. "cgroup" } })

local function count_all()
  local turns = report:span { start = true, stop = true, start_by = start_by, stop_by = stop_by,
    cancel = opt.off or nil, cancel_by = opt.off and "tid" or nil, -- the last switch of a task follows its exit
    start_where = { start_by, "!=", 0 }, stop_where = { stop_by, "!=", 0 } } -- idle is no task
  perfev.event { "sched:sched_switch", sample = { turns.stop, turns.start }, fork = opt.off and turns.cancel or nil }
end

local function count_chosen()
  local since = {}
  local fields = { "time", start_by, ("args.%s_comm"):format(start), stop_by, ("args.%s_comm"):format(stop) }
  perfev.event { "sched:sched_switch", fields = fields, sample = function(time, begins, name, ends, comm)
    if since[ends] then report:add(time - since[ends], ends, comm) end
    since[ends] = nil
    since[begins] = is_chosen(begins, name) and time or nil
  end, fork = opt.off and function(r) since[r.tid] = nil end or nil }
end

if is_chosen then count_chosen() else count_all() end
