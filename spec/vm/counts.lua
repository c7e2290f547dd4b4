-- counts.lua - prints figures of a recording that every machine must compute alike: records by type, samples by
-- event and command, sums over their fields, and samples by stack, with the names that the recording keeps.
-- lua5.4 spec/vm/counts.lua FILE, with perfev in the paths.

local perfev = require "perfev"

local counts = {}
local function add(key, n) counts[key] = (counts[key] or 0) + (n or 1) end

local stacks = {}

local rec = assert(perfev.open(arg[1]))
for r in rec:records() do
  add("record " .. r.type)
  add("sum of times", (r.time or 0) & 0xffffff)
  if r.type == "sample" then
    add(("sample %s %s"):format(r.event.name, r.comm))
    add("sum of tids", r.tid)
    add("sum of cpus", r.cpu)
    add("sum of addresses", (r.ip or 0) & 0xffffff)
    if r.stack then stacks[r.stack] = (stacks[r.stack] or 0) + 1 end
  end
end

for stack, nr in pairs(stacks) do add("stack " .. stack:folded(), nr) end

local keys = {}
for key in pairs(counts) do keys[#keys + 1] = key end
table.sort(keys)
for _, key in ipairs(keys) do print(key .. " " .. counts[key]) end
