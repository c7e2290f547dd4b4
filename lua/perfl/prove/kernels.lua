--- The script on other kernels: fields that moved, have another name or are missing; versions; rights.

local child = require "perfl.prove.child"
local faults = require "perfl.prove.faults"
local generate = require "perfl.prove.generate"
local laws = require "perfl.prove.laws"
local tracepoints = require "perfev.sim.tracepoints".fields

local M = {}

local VERSIONS = { "3.10", "4.4", "4.19", "5.4", "5.15", "6.1", "6.12", "6.18" }

-- The catalogue's tracepoints that the script opens, sorted: { name, its fields in C }
local function known_tracepoints(trials)
  local list, seen = {}, {}
  for _, event in ipairs(trials.survey.events) do
    local fields = event.name and tracepoints[event.name]
    if fields and not seen[event.name] then
      seen[event.name], list[#list + 1] = true, { event.name, fields }
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local function split(fields)
  local list = {}
  for part in fields:gmatch "[^;]+" do list[#list + 1] = part:match "^%s*(.-)%s*$" end
  return list
end

local function with_fields(world, name, fields)
  local new = faults.copy(world)
  new.tracepoints = { [name] = fields }
  return new
end

-- A field of a tracepoint has another name, or is missing: the script may refuse, but must not fail.
local function other_fields(trials, world, name, fields)
  local list = split(fields)
  for i in ipairs(list) do
    local others = table.move(list, 1, #list, 1, {})
    table.remove(others, i)
    if others[1] and not trials:is_over() then
      trials:try(with_fields(world, name, table.concat(others, "; ")), { "a kernel that lacks a field",
        note = ("only on a kernel without the field '%s' of %s"):format(list[i], name) })
    end
  end
end

local function moved_fields(trials, world, truth, name, fields)
  local wider = fields:gsub("%f[%w_]int ", "long "):gsub("%f[%w_]pid_t ", "s64 ")
  for _, other in ipairs { { "moved", "u64 added_later; " .. fields }, { "wider", wider } } do
    local how, text = other[1], other[2]
    local law = { how, function(plan, candidate, its_truth)
      local result = child.run(plan, with_fields(candidate, name, text))
      if result.output:find "added_later" then return nil end -- it prints all fields
      return laws.differs("fields", its_truth, result,
        ("the fields of %s are %s in another kernel: the output changes"):format(name, how))
    end }
    trials:compare(law, world, truth)
  end
end

--- Tries formats of other kernels.
function M.check_fields(trials)
  math.randomseed(trials.seed, 0)
  local world = generate.plausible(trials.survey, 12)
  local truth = child.run(trials.plan, world)
  for _, one in ipairs(known_tracepoints(trials)) do
    if trials:is_over() then return end
    other_fields(trials, world, one[1], one[2])
    trials:try(with_fields(world, one[1], false), { "a kernel that lacks a tracepoint" })
    if laws.is_sound(truth) then moved_fields(trials, world, truth, one[1], one[2]) end
  end
end

-- ---- tables ----

local function outcome(result, truth)
  if result.failures[1] or result.died then return "fails" end
  if result.status ~= 0 then
    local why = (result.errors:match "perfl: ([^\n]*)" or ""):gsub("^.-: (cannot .*)", "%1")
    return "refused", why
  end
  if truth and result.output ~= truth.output then return "other output" end
  return "runs"
end

local function rows(trials, list)
  math.randomseed(trials.seed, 0)
  local world = generate.plausible(trials.survey, 12)
  local truth, found = child.run(trials.plan, world), {}
  for i, one in ipairs(list) do
    local other = faults.copy(world)
    for name, value in pairs(one.world) do other[name] = value end
    local state, why = outcome(child.run(trials.plan, other, one.options), one.compares and truth)
    found[i] = { name = one.name, result = state, why = why }
  end
  return found
end

--- The script on kernels from old to new.
function M.table(trials)
  local list = {}
  for i, version in ipairs(VERSIONS) do
    list[i] = { name = version, world = { release = version }, compares = true }
  end
  return rows(trials, list)
end

--- The script with several rights.
function M.rights(trials)
  local own = { words = { "-p", "1000" }, without_target = true }
  local list = {
    { name = "all rights", world = {}, compares = true },
    { name = "no rights, paranoid 2", world = { world = "unprivileged" } },
    { name = "no rights, paranoid 4", world = { world = "locked_down" } },
  }
  if trials.plan.target then
    list[#list + 1] = { name = "no rights, own process", world = { world = "unprivileged" }, options = own }
  end
  return rows(trials, list)
end

return M
