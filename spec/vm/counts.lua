-- counts.lua - prints figures of a recording that every machine must compute alike: records by type, samples by
-- event and command, and sums over their fields; with `stacks` also samples by stack, with names.
-- lua5.4 spec/vm/counts.lua FILE [stacks [DIR]], with perfev in the paths. DIR: programs are looked for below it.

local perfev = require "perfev"

local counts = {}
local function add(key, n) counts[key] = (counts[key] or 0) + (n or 1) end

local stacks = {}
perfev.symbol.symfs(arg[3])

local rec = assert(perfev.open(arg[1]))
for r in rec:records() do
  add("record " .. r.type)
  add("sum of times", (r.time or 0) & 0xffffff)
  if r.type == "sample" then
    add(("sample %s %s"):format(r.event.name, r.comm))
    add("sum of tids", r.tid)
    add("sum of cpus", r.cpu)
    add("sum of addresses", (r.ip or 0) & 0xffffff)
    if arg[2] == "stacks" and r.stack then stacks[r.stack] = (stacks[r.stack] or 0) + 1 end
  end
end

for stack, nr in pairs(stacks) do add("stack " .. stack:folded(), nr) end

local keys = {}
for key in pairs(counts) do keys[#keys + 1] = key end
table.sort(keys)
for _, key in ipairs(keys) do print(key .. " " .. counts[key]) end
