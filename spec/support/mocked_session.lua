-- A program for valgrind: opens sessions on the simulated kernel and ends them in every way.
-- Run it from the tree's root; it prints ok.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = "build/?.so;" .. package.cpath

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000

local function session(k, opts, sample)
  opts.command = opts.command or { "x" }
  opts.duration = "1s"
  local s = perfev.session(opts)
  s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, callchain = true, sample = sample }
  s:event { switch = function(r) r:copy() end, lost = function() end }
  s:every("100ms", function() end)
  s:signal("USR1", function() end)
  k:after(MS, function()
    for i = 1, 200 do k:emit(k.events[1], "sample", { callchain = { -128, i, -512, i }, period = i }) end
    k:signal(10)
  end)
  k:after(200 * MS, function()
    for i = 1, 100 do k:emit(k.events[3], i % 2 == 0 and "comm" or "switch", { pid = i, tid = i, comm = "c" .. i }) end
  end)
  return s
end

local ends = {
  run = function(s) s:run() end,
  close = function(s) s:start() s:close() end,
  drop = function(s) s:start() end,
  pull = function(s) for r in s:records() do if r:copy().period == 50 then break end end end,
  dispatch = function(s) s:start() s:dispatch(3) s:close() end,
}
local samples = {
  reads = function(r) return r.comm and r.callchain and r.stack.id and tostring(r) and nil end,
  raises = function() error("x") end,
  stops = function() return false end,
}

for _, finish in pairs(ends) do
  for _, sample in pairs(samples) do
    local k = sim.new()
    perfev.hooks.with(k.hooks, function()
      finish(session(k, { buffer = "4K", strict = false, all_cpus = true }, sample))
      collectgarbage()
    end)
    collectgarbage()
  end
end
for nth = 1, 6 do
  for _, name in ipairs { "perf_event_open", "mmap", "epoll_ctl", "ioctl", "timerfd", "slurp" } do
    local k = sim.new()
    perfev.hooks.with(k.hooks, function()
      local s = session(k, {}, samples.reads)
      k:fail(name, nth, 12)
      s:run()
    end)
  end
end
print "ok"
