--- The options that scripts which end in a profile have in common, for perfev.args.

local escape = require "perfev.base.escape"
local event = require "perfev.event.declaration"
local options = require "perfev.base.options"
local pidns = require "perfev.event.pid_namespace"
local profile = require "perfev.profile"
local session = require "perfev.live.session"
local units = require "perfev.base.parse_units"

local M = {
  format = { "-f --format", choices = profile.formats, default = "tree", metavar = "FORMAT",
    help = "tree, top: for a terminal; folded; html, svg: a flame graph; pprof, speedscope, firefox, callgrind" },
  call_graph = { "--call-graph", default = "fp", metavar = "HOW",
    help = "how to take stacks: fp, frame pointers; defer, the same, user part later (Linux 6.19); "
      .. "dwarf[,BYTES], unwinding; lbr, the CPU's branch records" },
  least = { "--least", type = "duration", default = 0, metavar = "TIME",
    help = "count only waits of at least this time" },
  user = { "--user", help = "show only user frames" },
  kernel = { "--kernel", help = "show only kernel frames" },
  unit = { "--unit", choices = { "ns", "us", "ms", "s" }, default = "us", metavar = "UNIT", help = "ns, us, ms or s" },
  title = { "--title", metavar = "TEXT", help = "the title of the picture" },
  MOST_TASKS = 1 << 22, -- that can wait at one time: PID_MAX_LIMIT, include/linux/threads.h
}

--- End a script that was told a wrong thing: to standard error, with status 2.
function M.refuse(who, why)
  io.stderr:write(who, ": ", why, "\n")
  os.exit(2, true)
end

--- What a script joins happens on any CPU, in anybody's name: it is refused where it would see a part of that alone,
-- as of a cgroup, or of one CPU, where one that comes back from elsewhere seems to have waited all the time.
-- @tparam string who
-- @tparam string why
-- @tparam ?boolean one_cpu  it begins and ends on the same one: some CPUs will do
function M.needs_all(who, why, one_cpu)
  session.default():begin(function()
    local opts = session.default().opts
    local is_part = opts.cpus and not one_cpu or opts.cgroup or opts.pid or opts.tid or opts.uid or opts.comm
    if not is_part and (opts.input or options.is_cpu_wide(opts)) then return end
    M.refuse(who, ("%s\n  try: %s"):format(why, opts.input and "without -C, -p, -t and --comm" or "-a"))
  end)
end

--- What a task waits for is seen on whichever CPU it comes back: of some CPUs it is refused.
function M.needs_every_cpu(who)
  session.default():begin(function()
    local opts = session.default().opts
    if not opts.cpus then return end
    M.refuse(who, "a task that leaves one of these CPUs may come back on another\n  try: "
      .. (opts.input and "without -C" or "-a, or -p"))
  end)
end

--- The same for a script that selects tasks itself: if the command line names tasks or a command, the script
-- watches the machine and counts those.
-- @treturn ?function  f(tid, comm) -> whether that task counts; nil: all do
function M.tasks(who, why, one_cpu)
  M.needs_all(who, why, one_cpu)
  return require("perfev.tool.chosen_tasks").tasks(function(fault) M.refuse(who, fault) end)
end

--- Adds durations of tasks to a histogram as --unit and --per say.
-- @tparam table hist  perfev.hist
-- @tparam table opt   `unit` ("us"), `per` ("comm", "tid" or nil)
-- @treturn function   f(ns, comm, tid)
function M.adder(hist, opt)
  local unit = units.duration("1" .. opt.unit)
  return function(ns, comm, tid)
    if opt.per then hist:add(ns // unit, opt.per == "comm" and comm or tid) else hist:add(ns // unit) end
  end
end

local CPU = 1 << 7 -- PERF_SAMPLE_CPU

--- What goes by CPUs is refused of a recording whose switch records do not say theirs: perf record leaves it out where
-- it watches tasks.
function M.needs_cpu(who)
  local s = session.default()
  s:begin(function()
    for _, recorded in ipairs(s.opts.input and s.core.rec.events or {}) do
      if recorded.attr.context_switch and recorded.attr.sample_type & CPU == 0 then
        M.refuse(who, "the recording does not say on which CPU tasks were switched\n"
          .. "  try: perf record --switch-events --sample-cpu")
      end
    end
  end)
end

--- A tracepoint tells of others by the machine's numbers, a record by those of our pid namespace: where these differ,
-- the two are not joined.
function M.needs_machine_pids(who)
  session.default():begin(function()
    if session.default().opts.input or pidns.is_machine() ~= false then return end
    M.refuse(who, "in a pid namespace, as in a container, a waker's event has another number for the task than "
      .. "its own records\n"
      .. "  try: the machine's namespace (docker run --pid=host)")
  end)
end

--- What is sampled: in a recording that has no cpu-clock, perf record's default event, or
-- what else there is.
function M.sampled(name) return name == "cpu-clock" and "cpu-clock | cycles | *" or name end

local HARDWARE, SOFTWARE, CPU_CLOCK = 0, 1, 0 -- PERF_TYPE_*, PERF_COUNT_SW_CPU_CLOCK

--- What a recording has in the place of cpu-clock. Where that is several events the script ends: one is to be named.
-- @tparam table ev    of `sampled`, open
-- @tparam string who  the script
-- @treturn ?string    nil: it is cpu-clock
function M.instead_of_clock(ev, who)
  local attr, members = ev.attr, ev.members or {}
  if not attr or attr.type == SOFTWARE and attr.config == CPU_CLOCK then return nil end
  if attr.type == HARDWARE then return "cycles" end
  local names = {}
  for i, member in ipairs(members) do names[i] = member.name end
  if #names == 1 then return names[1] end
  M.refuse(who, ("the recording has no cpu-clock, and several other events: %s\n  try: perfl -i %s %s -e %s"):format(
    escape(table.concat(names, ", ")), escape(session.default().opts.input), who, escape(names[1])))
end

--- What an event is to have for the stacks that were asked for: how they are taken, and which side of them.
-- @tparam table opt    with what it has of `call_graph`, `user`, `kernel`
-- @tparam string who   the script
-- @tparam table spec   of perfev.event
-- @treturn table       spec
function M.with_stacks(opt, who, spec)
  if opt.user and opt.kernel then M.refuse(who, "--user or --kernel, not both") end
  local ok, why, remedy = event.callchain(opt.call_graph)
  if not ok then M.refuse(who, ("--call-graph: %s\n  try: %s"):format(why, remedy)) end
  spec.callchain = opt.kernel and "fp" or opt.call_graph -- of the kernel's frames alone there is but one way
  spec.exclude_callchain_kernel, spec.exclude_callchain_user = opt.user or nil, opt.kernel or nil
  return spec
end

return M
