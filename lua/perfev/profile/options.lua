--- The options that scripts which end in a profile have in common, for perfev.args.

local event = require "perfev.event"
local options = require "perfev.options"
local profile = require "perfev.profile"
local session = require "perfev.session"

local M = {
  format = { "-f --format", choices = profile.formats, default = "tree", metavar = "FORMAT",
    help = "tree, top: for a terminal; folded; html, svg: a flame graph; pprof, speedscope, firefox, callgrind" },
  call_graph = { "--call-graph", default = "fp", metavar = "HOW",
    help = "how stacks are taken: fp, by frame pointers; defer, the same, in user space later (Linux 6.19); "
      .. "dwarf[,BYTES], unwound; lbr, by the CPU" },
  least = { "--least", type = "duration", default = 0, metavar = "TIME", help = "waits at least this long only" },
  user = { "--user", help = "user frames only" },
  kernel = { "--kernel", help = "kernel frames only" },
  unit = { "--unit", choices = { "ns", "us", "ms", "s" }, default = "us", metavar = "UNIT", help = "ns, us, ms or s" },
  title = { "--title", metavar = "TEXT", help = "above the picture" },
  MOST_TASKS = 1 << 22, -- that can wait at one time: PID_MAX_LIMIT, include/linux/threads.h
}

--- End a script that was told a wrong thing: to standard error, with status 2.
function M.refuse(who, why)
  io.stderr:write(who, ": ", why, "\n")
  os.exit(2, true)
end

--- What a script joins happens on any CPU, in anybody's name: without -a it is refused, unless it was recorded.
function M.needs_all(who, why)
  session.default():on_begin(function()
    local opts = session.default().opts
    if opts.input or options.is_cpu_wide(opts) then return end
    M.refuse(who, why .. "\n  try: -a")
  end)
end

--- What is sampled: in a recording that has no cpu-clock, what perf record samples unless it is told otherwise.
function M.sampled(name) return name == "cpu-clock" and "cpu-clock | cycles" or name end

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
