-- packs.lua - sizes of packs, and the time to merge many of them.
--
--   lua5.4 bench/packs.lua bytes KIND              prints the bytes of one pack
--   lua5.4 bench/packs.lua merge KIND NR [copy]    unpacks and merges NR packs; prints the microseconds of each
--
-- KIND: hist: runqlat's histogram. count, profile: 300 stacks, the same in each pack. distinct: 300 other stacks in
-- each pack. copy: merges into a new aggregator each time, which copies all keys, as merges did before they were
-- in place.

local perfev = require "perfev"

local what, kind, nr, is_copy = arg[1], arg[2], tonumber(arg[3]), arg[4] == "copy"
local STACKS, DEPTH, FUNCTIONS = 300, 20, 400
local VARIANTS = 20 -- packs that are made; the same ones come again

local seed = 1
local function random(most)
  seed = (seed * 1103515245 + 12345) % (1 << 31)
  return (seed >> 8) % most + 1
end

-- The frames of a stack, the leaf first, in three modules. Stacks of one program share their outer frames.
local function new_stack()
  local stack = {}
  for i = 1, DEPTH do
    local id = i > DEPTH // 2 and random(3) or random(FUNCTIONS)
    stack[i] = { symbol = ("some_function_%d"):format(id), module = ("/usr/lib/libsome%d.so"):format(id % 3),
      kernel = i < 4 and id % 4 == 0 }
  end
  return stack
end

local function folded(stack)
  local names = {}
  for i, frame in ipairs(stack) do names[#stack + 1 - i] = frame.symbol end
  return table.concat(names, ";")
end

local function new()
  if kind == "profile" then return perfev.profile {} end
  if kind == "hist" then return perfev.hist { by = "comm", unit = "us" } end
  return perfev.count { by = "stack", max_keys = 1 << 22 }
end

local shared = {}
for i = 1, STACKS do shared[i] = new_stack() end

local function new_pack(number)
  local one = new()
  for i = 1, kind == "hist" and 2000 or STACKS do
    if kind == "profile" then
      one:add(shared[i], random(50))
    elseif kind == "hist" then
      one:add(1 << random(20), "comm")
    else
      one:add(random(50), folded(shared[i]) .. (kind == "distinct" and ";" .. number or ""))
    end
  end
  return one:pack()
end

if what == "bytes" then
  print(#new_pack(1))
  return
end

local packs = {}
for i = 1, kind == "distinct" and nr or VARIANTS do packs[i] = new_pack(i) end
local sum = new()
collectgarbage()
local begin = os.clock()
for i = 1, nr do
  local one = assert(perfev.unpack(packs[(i - 1) % #packs + 1]))
  sum = is_copy and new():merge(sum):merge(one) or sum:merge(one)
end
local seconds = os.clock() - begin
assert(#sum == (kind == "hist" and 1 or kind == "distinct" and nr * STACKS or STACKS), "keys are lost")
print(("%.1f"):format(seconds / nr * 1e6))
