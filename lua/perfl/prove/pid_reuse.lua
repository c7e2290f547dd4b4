--- The law of pids: a pid that a second task gets gives the same result as a pid of its own.

local child = require "perfl.prove.child"
local faults = require "perfl.prove.faults"
local generate = require "perfl.prove.generate"
local laws = require "perfl.prove.laws"

local M = {}

local OLD, OTHER = 31021, 31081 -- of the third task of a plausible world
local KEPT = "kept" -- the `part` of steps that a smaller world has, too: the kernel does not leave them out alone

local function renamed(value)
  if type(value) ~= "table" then return value == OLD and OTHER or value end
  local copy = {}
  for key, one in pairs(value) do copy[key] = renamed(one) end
  return copy
end

-- A record by the task, or of another one about it: its wakeup, the switch to it.
local function is_of(step, pid)
  if step.pid == pid then return true end
  for name, value in pairs(step.args or {}) do
    if value == pid and name:find "pid$" then return true end
  end
  return false
end

-- The CPU of the task at that time, and whether it is off it.
local function state_of(world, pid)
  local cpu, is_waiting = 1, false
  for _, step in ipairs(world) do
    if step.pid == pid then cpu = step.cpu end
    local args = step.event == "sched:sched_switch" and step.args
    if args and (args.prev_pid == pid or args.next_pid == pid) then
      cpu, is_waiting = step.cpu, args.prev_pid == pid
    elseif step.type == "switch" and step.pid == pid then
      is_waiting = step.out or false
    end
  end
  return cpu, is_waiting
end

-- When the first life ends: after a record that starts something, if there is one.
local function end_of_life(trials, world)
  local starts, times = {}, {}
  for _, chain in ipairs(trials.chains) do
    if chain[2] then starts[chain[1]] = true end
  end
  for _, step in ipairs(world) do
    if is_of(step, OLD) and starts[step.event] then times[#times + 1] = step.at end
  end
  return times[1] and times[math.random(#times)] or faults.end_of(world) // 2
end

-- The task is killed at that time.
local function add_death(trials, world, at)
  local cpu, is_waiting = state_of(world, OLD)
  local task = { pid = OLD, tid = OLD, comm = generate.tasks().tasks[OLD], cpu = cpu }
  local death = generate.death(trials.survey, task, is_waiting, at)
  for _, step in ipairs(death) do
    step.part = KEPT
    world[#world + 1] = step
  end
end

-- When the task begins, for all that it does before: another one's life has wakeups by each task at any time.
local function birth_of(world, pid)
  for _, step in ipairs(world) do
    if step.type == "fork" and step.pid == pid then return step.at end
  end
  return 0
end

-- Two lives, the first of which ends in the middle of something; the second one is marked by `second`. Its first record
-- may be an end without a start, as the return from clone(2).
local function two_lives(trials)
  local first = generate.plausible(trials.survey, math.random(4, 16))
  local second = generate.plausible(trials.survey, math.random(4, 16))
  local at = end_of_life(trials, first)
  local world = faults.filtered(first, function(step) return not is_of(step, OLD) or step.at <= at end)
  add_death(trials, world, at + 200)
  local begin = faults.end_of(first) + 10000000
  local lacks_start, birth = math.random(2) == 1, birth_of(second, OLD)
  for _, step in ipairs(second) do
    local skipped = lacks_start and step.args and step.pid == OLD and not generate.is_sched(step.event)
    if skipped then lacks_start = false end
    if is_of(step, OLD) and not skipped and (step.pid ~= OLD or step.at >= birth) then
      step.at, step.second = step.at + begin, true
      world[#world + 1] = step
    end
  end
  for _, step in ipairs(world) do
    if step.pid == OLD and (step.type == "fork" or step.type == "comm") then step.part = KEPT end
  end
  return generate.sort(world)
end

-- The same world for both: the second life with the old pid, or with another one.
local function variant(world, own_pid)
  local new = {}
  for i, step in ipairs(world) do
    local copy = faults.copy(step)
    copy.second, copy.part = nil, nil
    new[i] = step.second and own_pid and renamed(copy) or copy
  end
  return new
end

local function sorted_lines(output)
  local lines = {}
  for line in output:gsub(tostring(OTHER), tostring(OLD)):gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

local function totals(result)
  local list, seen = {}, {}
  for _, one in ipairs(result.aggregates) do
    local text = ("%s%d in sum"):format(one.count and one.count .. " values, " or "", one.sum)
    if not seen[text] then seen[text], list[#list + 1] = true, text end -- a copy that is not collected yet
  end
  table.sort(list)
  return table.concat(list, "; ")
end

-- nil if both results mean the same. Rows of a pid are added up in one of them, so that only totals are compared then.
local function difference(trials, world)
  local own = child.run(trials.plan, variant(world, true), { collect = true })
  local reused = child.run(trials.plan, variant(world, false), { collect = true })
  if not (laws.is_sound(own) and laws.is_sound(reused)) then return nil end
  if own.aggregates[1] then
    if totals(own) == totals(reused) then return nil end
    return totals(own), totals(reused)
  end
  if own.output:find "^%s*<" then return nil end -- a page numbers its tasks
  local a, b = sorted_lines(own.output), sorted_lines(reused.output)
  if #b > #a then return #a .. " lines", #b .. " lines" end
  if #a ~= #b then return nil end -- a row for each pid
  for i = 1, #a do
    if a[i] ~= b[i] then return a[i], b[i] end
  end
end

-- The number of kept steps, and whether the script can see the end of the first life.
local function kept_in(world)
  local count, is_seen = 0, false
  for _, step in ipairs(world) do
    if step.part == KEPT then count, is_seen = count + 1, is_seen or step.type == "exit" end
  end
  return count, is_seen
end

local function broken(trials, world, nr_kept)
  local count, is_seen = kept_in(world)
  if not is_seen or count < nr_kept then return nil end
  local expected, got = difference(trials, world)
  return expected and { law = "pid reuse", expected = expected, got = got,
    message = "a second task gets the pid of one that ended: the result changes" } or nil
end

--- Checks one world.
function M.check(trials)
  local world = two_lives(trials)
  local count = kept_in(world)
  local one = broken(trials, world, count)
  if not one then return end
  trials:found(one, world, function(candidate) return broken(trials, candidate, count) end)
  for _, known in ipairs(trials.findings) do
    if known.law == one.law then known.world = variant(known.world, false) end
  end
end

return M
