-- numbered_machines.lua - the Lua text of a world: simulated machines whose records depend on their number alone.
--
--   numbered_machines.world(numbered_machines.records("2 + any(5)", 900))
--
-- MACHINE=1-50 in the environment says which machines are in it.

local M = {}

local RECORDS = [[
local function records(machine)
  local state, list = machine * 7919 + 1, {}
  local function any(n) -- from 1 to n
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 8) %% n + 1
  end
  for second = 0, 3 do
    for _ = 1, %s do
      list[#list + 1] = { second * 1000 + any(%d), any(3), any(3) == 1 and any(9) or any(100000) }
    end
  end
  return list
end
]]

local WORLD = [[
local sim = require "perfev.sim"
local first, last = os.getenv("MACHINE"):match "(%d+)-(%d+)"
first, last = math.tointeger(tonumber(first)), math.tointeger(tonumber(last))
local tasks = {}
for machine = first, last do
  tasks[machine * 10 + 1], tasks[machine * 10 + 2], tasks[machine * 10 + 3] = "app", "helper", "own" .. machine
end
local k = sim.new { world = "vm", cpus = "0-3", tasks = tasks, files = {
  ["/proc/kallsyms"] = "ffffffff81000100 t leaf\nffffffff81000200 T middle\nffffffff81000300 T root\n" } }
local BASE = 0xffffffff81000010
for machine = first, last do
  for _, record in ipairs(records(machine)) do
    local ms, task, value = table.unpack(record)
    k:after(ms * 1000000, function()
      local pid = machine * 10 + task
      k:ring(machine % 4):push { type = "sample", event = { type = 1, config = 0 }, pid = pid, tid = pid,
        period = value, callchain = { -128, BASE + 256 * task, BASE + 256 * 3 } }
    end)
  end
end
]]

--- Returns the text of a function records(machine) -> a list of { time in ms, task, value }, in 4 seconds.
-- @tparam string per_second  an expression: the number of records in a second
-- @tparam integer most_ms    of a second
function M.records(per_second, most_ms) return RECORDS:format(per_second, most_ms) end

--- Returns the text of a world.
-- @tparam string records    of records()
-- @tparam[opt] string more  text that uses the kernel `k`
function M.world(records, more)
  return records .. WORLD .. (more or "") .. 'k:after("4s", function() end)\nreturn k\n'
end

return M
