-- offcputime: what tasks wait for: the time they are off the CPU, by the stack that gave it up.
-- perfl offcputime -- make
-- perfl -a -d 5s offcputime --least 1ms -f html -o waits.html

local perfev = require "perfev"
local common = require "perfev.profile.options"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "time off the CPU, by the stack that gave it up",
  common.format, common.least, common.user, common.kernel, common.call_graph, common.title,
  epilog = [[
Waits that have begun and ended during the run count, those for a CPU as well.]],
}

common.check_sides(opt, "offcputime")

local profile = perfev.profile { title = opt.title or "off CPU", values = { { "time", unit = "ns" }, "waits" } }
local waiting, first, last = {}, nil, nil -- tid -> who, where and since when

perfev.event {
  "context-switches", period = 1, callchain = common.stacks(opt, "offcputime"),
  exclude_kernel = false, -- it is the kernel that switches: without its side there would be none
  exclude_callchain_kernel = opt.user or nil, exclude_callchain_user = opt.kernel or nil,
  sample = function(r)
    first = first or r.time
    if r.tid ~= 0 then waiting[r.tid] = { comm = r.comm, stack = r.stack, since = r.time } end
  end,
  switch = function(r)
    local wait = waiting[r.tid]
    if r.out or not wait then return end
    waiting[r.tid], last = nil, r.time
    if r.time - wait.since >= opt.least then profile:add_under(wait.comm, wait.stack, r.time - wait.since, 1) end
  end,
  exit = function(r) waiting[r.tid] = nil end,
}

perfev.done(function()
  profile.duration = last and last - first
  show(profile, opt.format, "offcputime")
end)
