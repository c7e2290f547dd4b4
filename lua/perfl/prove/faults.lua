--- Faults: functions that make a hard world from a plausible one.

local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local function copy(value)
  if type(value) ~= "table" then return value end
  local new = {}
  for key, one in pairs(value) do new[key] = copy(one) end
  return new
end

M.copy = copy

-- A copy of the world with the steps that `keep` accepts.
local function filtered(world, keep)
  local new = {}
  for key, value in pairs(world) do
    if type(key) == "string" then new[key] = copy(value) end
  end
  for i, step in ipairs(world) do
    if keep(step, i) then new[#new + 1] = copy(step) end
  end
  return new
end

M.filtered = filtered

local function all(world) return filtered(world, function() return true end) end

local function each(world, change)
  local new = all(world)
  for i, step in ipairs(new) do change(step, i) end
  return new
end

local function pick(list) return list[math.random(#list)] end

local function end_of(world)
  local last = 0
  for _, step in ipairs(world) do last = math.max(last, (step.at or 0) + (step.late or 0)) end
  return last
end

M.end_of = end_of

-- ---- texts and numbers ----

-- Names that real tasks and files have, or may have.
local ODD_NAMES = { "(sd-pam)", "[migration/0]", "7", "a b", "-x", "%s", "x=1,y", '"q"', "..", "é" }

--- Texts that must not reach a terminal as they are: an escape sequence, a forged line, no UTF-8, a C1 control.
M.hostile = { "\27]0;prove\7", "pro\nve: 0 lost", "prove\255\192", "prove\194\155m" }

local function change_texts(step, text_of)
  if step.comm then step.comm = text_of(step.comm) end
  for _, name in ipairs { "filename", "name", "path" } do
    if step[name] then step[name] = text_of(step[name]) end
  end
  for _, name in ipairs(sorted_keys(step.args or {})) do
    if type(step.args[name]) == "string" then step.args[name] = text_of(step.args[name]) end
  end
end

-- In the order of names, so that the same random numbers give the same world.
local function change_numbers(step, number_of, share)
  for _, name in ipairs(sorted_keys(step.args or {})) do
    if math.type(step.args[name]) == "integer" and math.random() < share then
      step.args[name] = number_of(name, step.args[name])
    end
  end
  for _, name in ipairs { "ip", "addr", "period" } do
    if step[name] and math.random() < share then step[name] = number_of(name, step[name]) end
  end
  for _, name in ipairs { "ksym_type", "bpf_type" } do -- of 16 bits
    if step[name] and math.random() < share then step[name] = pick { 0, 9, 65535 } end
  end
end

-- A number is the same at the start and at the end of something: each value of a field has one extreme.
local function one_for_each(number_of)
  local known = {}
  return function(name, value)
    local key = name .. " " .. value
    if known[key] == nil then known[key] = number_of() or false end
    return known[key]
  end
end

local EXTREMES = { 0, -1, 1, math.mininteger, math.maxinteger, 1 << 31, 1 << 32, -2, 0xffffffff }

-- What a step is a record of.
local function kind_of(step) return type(step.event) == "string" and step.event or step.type end

--- As many records of each kind: the first ones of each, so that counts are equal.
function M.same_counts(world)
  local counts, seen = {}, {}
  for _, step in ipairs(world) do
    local kind = kind_of(step)
    if kind then counts[kind] = (counts[kind] or 0) + 1 end
  end
  local least = math.huge
  for _, count in pairs(counts) do least = math.min(least, count) end
  return filtered(world, function(step)
    local kind = kind_of(step)
    if not kind then return true end
    seen[kind] = (seen[kind] or 0) + 1
    return seen[kind] <= least
  end)
end

-- ---- the list ----

--- Name -> { what it does, function(world, chains) -> world, lossless }. A `plausible` world has no negative values.
M.list = {
  { "lost records", plausible = true, loses = true, make = function(world)
    local new, last = all(world), end_of(world)
    for _ = 1, 3 do
      local at = math.random(0, math.max(1, last // 1000)) * 1000 + 50
      table.insert(new, { at = at, cpu = math.random(0, 1), lose = math.random(1, math.max(1, last // 8)) })
    end
    return new
  end },
  { "no record is lost", plausible = true, make = all },
  { "missing records", plausible = true, loses = true, make = function(world)
    return filtered(world, function() return math.random(3) > 1 end)
  end },
  { "one kind of record missing", plausible = true, loses = true, make = function(world)
    local kinds, seen = {}, {}
    for _, step in ipairs(world) do
      local kind = kind_of(step)
      if kind and not seen[kind] then seen[kind], kinds[#kinds + 1] = true, kind end
    end
    local without = kinds[1] and pick(kinds)
    return filtered(world, function(step) return kind_of(step) ~= without end)
  end },
  { "only starts", plausible = true, make = function(world, chains)
    local starts = {}
    for _, chain in ipairs(chains) do starts[chain[1]] = true end
    return filtered(world, function(step) return starts[step.event] end)
  end },
  { "only ends", plausible = true, make = function(world, chains)
    local ends = {}
    for _, chain in ipairs(chains) do ends[chain[#chain]] = true end
    return filtered(world, function(step) return ends[step.event] end)
  end },
  { "a task that dies in the middle", plausible = true, make = function(world)
    local one = world[1] and pick(world) or {}
    local at = one.at and one.at + math.random(0, 5000000)
    return filtered(world, function(step) return step.tid ~= one.tid or step.at <= at end)
  end },
  { "late records", make = function(world)
    return each(world, function(step) step.late = math.random(4) == 1 and math.random(1, 3000) * 1000000 or nil end)
  end },
  { "equal times", plausible = true, make = function(world)
    return each(world, function(step) step.at = step.at // 20000000 * 20000000 end)
  end },
  { "long times", plausible = true, make = function(world)
    return each(world, function(step) step.at = step.at * 300 end)
  end },
  { "hostile names", hostile = true, json_too = true, plausible = true, make = function(world)
    return each(world, function(step) change_texts(step, function() return pick(M.hostile) end) end)
  end },
  { "empty names", plausible = true, make = function(world)
    return each(world, function(step) change_texts(step, function() return "" end) end)
  end },
  { "extreme numbers", make = function(world)
    return each(world, function(step) change_numbers(step, function() return pick(EXTREMES) end, 0.3) end)
  end },
  { "extreme numbers, the same for start and end", make = function(world)
    local extreme = one_for_each(function() return math.random(3) == 1 and pick(EXTREMES) end)
    return each(world, function(step)
      change_numbers(step, function(name, value) return extreme(name, value) or value end, 1)
    end)
  end },
  { "odd names", plausible = true, json_too = true, make = function(world)
    local new_names = {}
    return each(world, function(step)
      change_texts(step, function(old)
        new_names[old] = new_names[old] or pick(ODD_NAMES)
        return new_names[old]
      end)
    end)
  end },
  { "numbers of 0", make = function(world)
    return each(world, function(step) change_numbers(step, function() return 0 end, 1) end)
  end },
  { "truncated samples", note = "only with damaged recordings", make = function(world)
    return each(world, function(step)
      if step.args and math.random(2) == 1 then step.cut = math.random(0, 48) end
    end)
  end },
  { "texts outside of their samples", note = "only with damaged recordings", make = function(world)
    return each(world, function(step)
      local names = {}
      for name, value in pairs(step.args or {}) do
        if type(value) == "string" then names[#names + 1] = name end
      end
      table.sort(names)
      step.outside = names[1] and pick(names)
    end)
  end },
  { "unknown tasks", make = function(world)
    return each(world, function(step)
      if step.pid and math.random(3) == 1 then step.pid, step.tid = pick { 0, -1, 4194304 }, pick { 0, -1, 7 } end
    end)
  end },
  { "one record", plausible = true, loses = true, make = function(world)
    local at = world[1] and math.random(#world)
    return filtered(world, function(_, i) return i == at end)
  end },
  { "Ctrl-C before the first record", plausible = true, make = function(world)
    local new = all(world)
    table.insert(new, 1, { at = 0, interrupt = true })
    return new
  end },
  { "Ctrl-C in the middle", plausible = true, make = function(world)
    local new = all(world)
    table.insert(new, { at = end_of(world) // 2 + 30, interrupt = true })
    return new
  end },
  { "the first records come late", plausible = true, make = function(world)
    return each(world, function(step) step.at = step.at + 5000000000 end)
  end },
  { "a second without records", plausible = true, make = function(world)
    local half = end_of(world) // 2
    return each(world, function(step) if step.at > half then step.at = step.at + 5000000000 end end)
  end },
}

return M
