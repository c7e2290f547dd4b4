-- offcputime: adds up the time that tasks are off the CPU, by the stack that gave it up.
-- perfl offcputime make
-- perfl -a -d 5s offcputime --least 1ms -f html -o waits.html

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "add up the time off the CPU, by the stack that gave it up",
  tool.options.format, tool.options.least, tool.options.user, tool.options.kernel,
  tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
Waits that begin and end during the run count, including waits for a CPU.]],
}

tool.require_all_cpus "offcputime"
local profile = tool.profile("offcputime", opt, { title = "off CPU", values = { { "time", unit = "ns" }, "waits" } })
local waits = perfev.span {
  start = true, stop = true, cancel = true, by = "tid", max_waiting = tool.MAX_TASKS, least = opt.least .. "ns",
  start_where = { "tid", "!=", 0 }, stop_where = { "out", "==", false },
  into = profile:sampler { value = "took", by = { "start.comm", "start.stack" }, add = function(comm, stack, nr, time)
    profile:add_under(comm, stack, time, nr)
  end },
}

perfev.event(tool.with_stacks("offcputime", opt, {
  "context-switches", period = 1,
  exclude_kernel = false, -- the kernel switches tasks: without its side there is no event
  -- The last switch of a task follows its exit.
  sample = waits.start, switch = waits.stop, exit = waits.cancel, fork = waits.cancel,
}))

perfev.done(function() tool.print_profile("offcputime", profile, opt) end)
