--- The law of pids: a pid that a second task gets gives the same result as a pid of its own.

local child = require "perfl.prove.child"
local faults = require "perfl.prove.faults"
local generate = require "perfl.prove.generate"
local laws = require "perfl.prove.laws"

local M = {}

local OLD, OTHER = 31021, 31081 -- of the third task of a plausible world

local function renamed(value)
  if type(value) ~= "table" then return value == OLD and OTHER or value end
  local copy = {}
  for key, one in pairs(value) do copy[key] = renamed(one) end
  return copy
end

local function is_of(step, pid) return step.pid == pid end

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

-- Two lives, the first of which ends in the middle of something; the second one is marked by `second`.
local function two_lives(trials)
  local first = generate.plausible(trials.survey, math.random(4, 16))
  local second = generate.plausible(trials.survey, math.random(4, 16))
  local at = end_of_life(trials, first)
  local world = faults.filtered(first, function(step) return not is_of(step, OLD) or step.at <= at end)
  world[#world + 1] = { at = at + 200, cpu = 0, type = "exit", pid = OLD, tid = OLD, ppid = 42, ptid = 42 }
  local begin = faults.end_of(first) + 10000000
  local is_first = math.random(2) == 1
  for _, step in ipairs(second) do
    local skipped = is_first and step.args and is_of(step, OLD)
    if skipped then is_first = false end
    if is_of(step, OLD) and not skipped then
      step.at, step.second = step.at + begin, true
      world[#world + 1] = step
    end
  end
  return generate.sort(world)
end

-- The same world for both: the second life with the old pid, or with another one.
local function variant(world, own_pid)
  local new = {}
  for i, step in ipairs(world) do
    local copy = faults.copy(step)
    copy.second = nil
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
  local own = child.run(trials.plan, variant(world, true))
  local reused = child.run(trials.plan, variant(world, false))
  if not (laws.is_sound(own) and laws.is_sound(reused)) then return nil end
  if own.aggregates[1] then
    if totals(own) == totals(reused) then return nil end
    return totals(own), totals(reused)
  end
  local a, b = sorted_lines(own.output), sorted_lines(reused.output)
  if #b > #a then return #a .. " lines", #b .. " lines" end
  if #a ~= #b then return nil end -- a row for each pid
  for i = 1, #a do
    if a[i] ~= b[i] then return a[i], b[i] end
  end
end

-- The first life has an end that the script could see.
local function has_death(world)
  for _, step in ipairs(world) do
    if step.type == "exit" and step.pid == OLD and not step.second then return true end
  end
end

local function broken(trials, world)
  if not has_death(world) then return nil end
  local expected, got = difference(trials, world)
  return expected and { law = "pid reuse", expected = expected, got = got,
    message = "a second task gets the pid of one that ended: the result changes" } or nil
end

--- Checks one world.
function M.check(trials)
  local world = two_lives(trials)
  local one = broken(trials, world)
  if not one then return end
  trials:found(one, world, function(candidate) return broken(trials, candidate) end)
  for _, known in ipairs(trials.findings) do
    if known.law == one.law then known.world = variant(known.world, false) end
  end
end

return M
