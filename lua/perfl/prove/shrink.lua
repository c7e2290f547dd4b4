--- Makes a world smaller as long as it shows the same finding: fewer steps, then plainer values.
-- Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (ddmin).

local faults = require "perfl.prove.faults"

local M = {}

local RUNS_MAX = 250

local function without(world, from, count)
  return faults.filtered(world, function(_, i) return i < from or i >= from + count end)
end

-- Removes parts of the list, in ever smaller pieces.
local function fewer_steps(world, shows)
  local size = math.max(1, #world // 2)
  while size >= 1 do
    local from, removed = 1, false
    while from <= #world do
      local candidate = without(world, from, size)
      local holds = shows(candidate)
      if holds == nil then return world end
      if holds then
        world, removed = candidate, true
      else
        from = from + size
      end
    end
    if size == 1 and not removed then break end
    size = removed and math.max(1, math.min(size, #world // 2)) or size // 2
  end
  return world
end

local function plainer(value)
  if type(value) == "string" then return not value:find "^%+" and value ~= "" and "" or nil end
  if math.type(value) == "integer" and value ~= 0 then return 0 end
end

local DROPPABLE = { "late", "via", "callchain", "cut", "outside", "period", "ip", "addr" }

-- Replaces values by 0 and "", and drops what is optional.
local function plainer_values(world, shows)
  for i = 1, #world do
    local function try(change)
      local candidate = faults.copy(world)
      if change(candidate[i]) and shows(candidate) then world = candidate end
    end
    for _, name in ipairs(DROPPABLE) do
      try(function(step)
        local had = step[name] ~= nil
        step[name] = nil
        return had
      end)
    end
    local names = {}
    for name in pairs(world[i].args or {}) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      try(function(step)
        local value = plainer(step.args[name])
        if value == nil then return false end
        step.args[name] = value
        return true
      end)
      try(function(step)
        step.args[name] = nil
        return true
      end)
    end
  end
  return world
end

--- The smallest world found.
-- @tparam table world
-- @tparam function shows  (world) -> whether it shows the finding
-- @tparam ?integer most   the number of runs at most
function M.world(world, shows, most)
  local runs = 0
  local function counted(candidate)
    runs = runs + 1
    if runs > (most or RUNS_MAX) then return nil end
    return shows(candidate) and true or false
  end
  world = fewer_steps(world, counted)
  if #world <= 12 then world = plainer_values(world, counted) end
  return world
end

--- Leaves out parts of the steps, each as a whole.
-- @tparam {table,...} steps  with `part`
-- @tparam function shows     (steps) -> boolean
function M.parts(steps, shows)
  local parts, seen = {}, {}
  for _, step in ipairs(steps) do
    if step.part and not seen[step.part] then seen[step.part], parts[#parts + 1] = true, step.part end
  end
  table.sort(parts)
  for _, part in ipairs(parts) do
    local candidate = faults.filtered(steps, function(step) return step.part ~= part end)
    if shows(candidate) then steps = candidate end
  end
  return steps
end

return M
