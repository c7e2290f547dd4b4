--- Where perf stat's counts belong: a CPU, a core, die, socket or node of CPUs, or a thread, as it prints them.
-- A place is { kind =, name = "S0-D0-C1", nr = (CPUs; nil: not printed) }. Source of the formats: aggr_printout() in
-- tools/perf/util/stat-display.c of 6.1.

local core = require "perfev.core"
local json = require "perfev.base.json"

local M = {}

-- The width of the number at the end of the name, and the column in the heading of intervals.
local kinds = {
  cpu = { 7, "CPU        " }, core = { 8, "core            cpus " }, die = { 8, "die          cpus " },
  socket = { 5, "socket cpus " }, node = { 5, "node   cpus " }, thread = { nil, "            comm-pid      " },
}
local CORE_OF_CPUS = 3 -- the width for an event with /percore/ among CPUs

local function topology(cpu, word)
  local text = core.slurp(("/sys/devices/system/cpu/cpu%d/topology/%s"):format(cpu, word))
  return math.tointeger(tonumber(text or "")) or 0
end

-- The NUMA node of a CPU: the directory of the CPU has a link to it.
local function node_of(cpu)
  for node = 0, 1023 do
    local path = ("/sys/devices/system/node/node%d"):format(node)
    local list = core.slurp(path .. "/cpulist")
    if not list then return 0 end
    for first, last in list:gmatch "(%d+)%-?(%d*)" do
      if cpu >= tonumber(first) and cpu <= (tonumber(last) or tonumber(first)) then return node end
    end
  end
  return 0
end

local name_of = {
  cpu = function(cpu) return "CPU" .. cpu end,
  socket = function(cpu) return "S" .. topology(cpu, "physical_package_id") end,
  die = function(cpu) return ("S%d-D%d"):format(topology(cpu, "physical_package_id"), topology(cpu, "die_id")) end,
  core = function(cpu)
    return ("S%d-D%d-C%d"):format(topology(cpu, "physical_package_id"), topology(cpu, "die_id"),
      topology(cpu, "core_id"))
  end,
  node = function(cpu) return "N" .. node_of(cpu) end,
}

--- Returns the places of some CPUs, in the order of the CPUs: { kind =, name =, cpus = { 0, … }, nr = }.
-- @tparam string kind  "cpu", "core", "die", "socket" or "node"
function M.of_cpus(cpus, kind)
  local places = {}
  for _, cpu in ipairs(cpus) do
    local name = name_of[kind](cpu)
    local place = places[name]
    if not place then
      place = { kind = kind, name = name, cpus = {} }
      places[name], places[#places + 1] = place, place
    end
    place.cpus[#place.cpus + 1] = cpu
    place.nr = kind ~= "cpu" and #place.cpus or nil
  end
  return places
end

--- Returns the place of a thread.
function M.of_thread(tid)
  local comm = (core.slurp(("/proc/%d/comm"):format(tid)) or "?"):gsub("\n$", "")
  return { kind = "thread", name = ("%s-%d"):format(comm, tid), comm = comm, tid = tid }
end

--- Returns the column of a place, "" for nil.
function M.column(place)
  if not place then return "" end
  if place.kind == "thread" then return ("%16s-%-8d "):format(place.comm, place.tid) end
  local before, number = place.name:match "^(.-)(%d+)$"
  local width = place.kind == "core" and not place.nr and CORE_OF_CPUS or kinds[place.kind][1]
  local text = before .. number .. (" "):rep(width - #number) .. " "
  return place.nr and ("%s%4d "):format(text, place.nr) or text
end

--- Returns the heading of that column.
function M.heading(kind) return kind and kinds[kind][2] or "" end

--- Returns the cells of a place in separated values.
function M.cells(place)
  return place and { place.name, place.nr } or {}
end

--- Returns the members of a place in a JSON object, with the comma behind them.
function M.json(place)
  if not place then return "" end
  local name = place.kind == "cpu" and place.name:match "%d+" or place.name
  return ('"%s" : %s, '):format(place.kind, json.encode(name))
    .. (place.nr and ('"aggregate-number" : %d, '):format(place.nr) or "")
end

return M
