--- The law of memory: tasks and requests that have ended take no memory.

local child = require "perfl.prove.child"
local faults = require "perfl.prove.faults"
local generate = require "perfl.prove.generate"
local shrink = require "perfl.prove.shrink"

local M = {}

local FEW, MANY = 600, 135100 -- lives
local BYTES_PER_LIFE = 24
local SECONDS = 120
local RING = "4M" -- no record of an end is lost

-- When to measure, in lives. A table that is emptied at 65536 entries, or at a divisor of it, is as large at the third
-- time as at the first.
local MOMENTS = { [FEW] = { 200, 400, 600 }, [MANY] = { 69536, 101536, 69536 + 65536 } }

-- Tables that grew between the first and the last measurement, with most first -> list, or false if each of them was
-- emptied in between
local function grown_tables(memory, lives)
  local first, second, third, list = memory[1].tables, memory[2].tables, memory[3].tables, {}
  local was_emptied = false
  for name, size in pairs(third) do
    local middle, early = second[name] or 0, first[name] or 0
    local grows = size - early > lives // 8
    if grows and size > middle and middle > early then
      list[#list + 1] = { name = name, size = size, more = size - early }
    end
    was_emptied = was_emptied or grows and middle > size or false
  end
  table.sort(list, function(x, y)
    if x.more ~= y.more then return x.more > y.more end
    return x.name < y.name
  end)
  return (list[1] or not was_emptied) and list
end

-- Runs a world of lives -> its growth in bytes per life, the tables that grew, the result. Bytes are compared over the
-- whole time: a table's memory doubles and then stays.
local function growth(trials, world, times)
  local group = world[1]
  if not group or not group.times then return 0, {} end
  local all, moments = { at = group.at, times = times, every = group.every }, {}
  for i, step in ipairs(group) do all[i] = step end
  for i, nr in ipairs(MOMENTS[times]) do moments[i] = group.at + group.every * (nr + 1) end
  local result = child.run(trials.plan, { all }, { memory = moments, seconds = SECONDS, words = { "-m", RING } })
  local memory = result.memory or {}
  if not memory[3] then return 0, {}, result end
  local lives = MOMENTS[times][3] - MOMENTS[times][1]
  local tables = grown_tables(memory, lives)
  if not tables then return 0, {}, result end
  return (memory[3].bytes - memory[1].bytes) / lives, tables, result
end

-- True if a table of the script grows, or the memory does: of integer keys without gaps a table has 16 bytes each.
local function grows(bytes, tables) return tables[1] ~= nil or bytes > BYTES_PER_LIFE end

-- The same life of one task again and again: its pid and its objects do not change.
local function of_one_task(value)
  if type(value) == "string" then return math.tointeger(tonumber(value:match "^%+(%-?%d+)$")) or value end
  if type(value) ~= "table" then return value end
  local copy = {}
  for name, one in pairs(value) do copy[name] = of_one_task(one) end
  return copy
end

-- The line of the script that adds to that table.
local function line_of(trials, name)
  local last = name:match "([%w_]+)[%[%]]*$"
  if not trials.text or not last then return nil end
  local number = 0
  for line in (trials.text .. "\n"):gmatch "([^\n]*)\n" do
    number = number + 1
    for value in line:gmatch("%f[%w_]" .. last .. "%b[]%s*=%s*([^=%s]%S*)") do
      if not value:find "^nil" then return number end
    end
    if line:find("insert%(%s*" .. last .. "%f[^%w_]") then return number end
  end
end

local function finding(trials, tables, bytes, times, has_ends)
  local named, others = tables[1], {}
  for i = 2, #tables do others[i - 1] = ("'%s'"):format(tables[i].name) end
  local one = { law = "memory", bytes_per_life = math.floor(bytes),
    message = named and ("'%s' has %d entries after %d tasks have ended"):format(named.name, named.size, times)
      or ("%d bytes of memory for each of %d tasks that have ended"):format(math.floor(bytes), times) }
  if not has_ends then one.message = one.message .. " in the middle of something" end
  if others[1] then one.message = one.message .. "; so has " .. table.concat(others, ", ") end
  one.line = named and line_of(trials, named.name)
  one.file = one.line and trials.path
  return one
end

-- The world with the same life, and fewer activities in it.
local function smaller(trials, world)
  local group = world[1]
  local function world_of(steps)
    local new = { at = group.at, times = FEW, every = group.every }
    for i, step in ipairs(steps) do new[i] = step end
    return { new }
  end
  local steps = {}
  for i, step in ipairs(group) do steps[i] = step end
  steps = shrink.parts(steps, function(candidate)
    return candidate[1] ~= nil and grows(growth(trials, world_of(candidate), FEW))
  end)
  for _, step in ipairs(steps) do step.part = nil end
  return world_of(steps)
end

-- known: names of tables that were found to grow; gets further ones
local function check_world(trials, world, known, has_ends)
  local bytes, tables, result = growth(trials, world, FEW)
  if result then trials:note(result) end
  if not grows(bytes, tables) then return end
  local is_new = not tables[1] and not next(known)
  for _, one in ipairs(tables) do is_new = is_new or not known[one.name] end
  if not is_new then return end
  local of_each_record = growth(trials, of_one_task(world), FEW)
  if of_each_record > BYTES_PER_LIFE then
    known[1] = true
    return trials:add_note(("it keeps what it shows of each record: %d bytes for each life of a task that the worlds "
      .. "repeat"):format(math.floor(of_each_record)))
  end
  local small = smaller(trials, world)
  bytes, tables = growth(trials, small, MANY)
  if not grows(bytes, tables) then return end
  for _, one in ipairs(tables) do known[one.name] = true end
  known[1] = true
  small[1].times = MANY
  trials:found(finding(trials, tables, bytes, MANY, has_ends), small)
end

--- Checks worlds of many short lives.
function M.check(trials)
  local known = {}
  for _, has_ends in ipairs { true, false } do
    math.randomseed(trials.seed, 0)
    local group, every = generate.life(trials.survey, has_ends)
    group.at, group.times, group.every = 1000000, FEW, every
    check_world(trials, { group }, known, has_ends)
    if trials:is_over() then return end
  end
end

--- Checks the world of a file, if it is one of lives.
function M.replay(trials, world)
  if world[1] and world[1].times and not world[2] then check_world(trials, faults.copy(world), {}, true) end
end

return M
