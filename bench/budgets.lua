-- What it costs to measure a function of 4 system calls, in ms of wall time, as a median.
--   lua5.4 bench/budgets.lua measure|budget|plain|first
-- measure: perfev.measure, which opens and closes its events; budget: a budget's further measurements; plain: those
-- without stacks; first: the first one

local perfev = require "perfev"

local MONOTONIC = 1
local mode = arg[1]
local runs = { measure = 20, first = 5, budget = 500, plain = 500 }

local function work()
  local file <close> = io.open "/etc/hostname"
  return file:read "a"
end

local b = perfev.budget { syscalls = "any", ["page-faults"] = "any", stacks = mode ~= "plain" }
local function measure()
  if mode == "measure" then
    local _, counts = perfev.measure({ "raw_syscalls:sys_enter", "page-faults" }, work)
    return assert(counts)
  end
  return b:measure(work)
end

local times = {}
if mode ~= "first" then measure() end
for i = 1, runs[mode] do
  if mode == "first" then perfev.budget.close() end
  local began = perfev.hooks.real.clock(MONOTONIC)
  measure()
  times[i] = perfev.hooks.real.clock(MONOTONIC) - began
end
table.sort(times)
print(("%.3f"):format(times[#times // 2 + 1] / 1e6))
