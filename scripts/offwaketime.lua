-- offwaketime: adds up waits by the stack that waits and the stack that ends the wait.
-- perfl -a -d 5s offwaketime --least 1ms -f html -o waits.html
-- perfl -a offwaketime --filter 'comm == "make"' make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "add up waits, by the stack that waits and the stack that wakes it",
  tool.options.format,
  { "--filter", type = "string", metavar = "CONDITION",
    help = "a condition on the woken task, as in 'pid == 1234' (a filter in the kernel)" },
  tool.options.least, tool.options.user, tool.options.kernel,
  tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
A stack starts with the waiting task and its frames; after -- follow the frames
of the waker and its name. The time is from leaving the CPU to running again.
With a command, -p and similar, only waits that such a task ends count; -a has
all.]],
}

tool.require_all_cpus "offwaketime"
tool.require_machine_pids "offwaketime"
local profile = tool.profile("offwaketime", opt, { title = "off CPU", values = { { "time", unit = "ns" }, "waits" } })

-- The innermost frame first: the waker itself.
local function joined(stack, waker, waker_stack)
  local frames, below = { waker == "swapper" and "idle" or waker }, waker_stack or {}
  for i = #below, 1, -1 do frames[#frames + 1] = below[i] end
  frames[#frames + 1] = "--"
  for i = 1, #(stack or {}) do frames[#frames + 1] = stack[i] end
  return frames
end

local waits = perfev.span {
  start = true, via = true, stop = true, cancel = true, by = "tid", via_by = "args.pid",
  max_waiting = tool.MAX_TASKS, least = opt.least .. "ns", start_where = { "tid", "!=", 0 },
  stop_where = { "or", { "out", "==", false }, { "preempt", "==", true } }, -- a preempted task waits for no other
  into = profile:sampler { value = "took", by = { "start.comm", "start.stack", "via.comm", "via.stack" },
    add = function(comm, stack, waker, waker_stack, nr, time)
      profile:add_under(comm, joined(stack, waker, waker_stack), time, nr)
    end },
}

perfev.event(tool.with_stacks("offwaketime", opt, {
  "context-switches", period = 1,
  exclude_kernel = false, -- the kernel switches tasks: without its side there is no event
  -- The last switch of a task follows its exit.
  sample = waits.start, switch = waits.stop, exit = waits.cancel, fork = waits.cancel,
}))

-- The waker's event: sched_wakeup may run on the other CPU.
perfev.event(tool.with_stacks("offwaketime", opt, {
  "sched:sched_waking", filter = opt.filter,
  sample = waits.via,
}))

perfev.done(function() tool.print_profile("offwaketime", profile, opt) end)
