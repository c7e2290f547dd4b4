-- starved_merges.lua - merges, deltas and packs for host.c --starve: a failure changes nothing, and after a failure
-- the next try has all values. -> exercise(pause, resume), leaks(): what was wrong

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local core = require "perfev.core"
local perfev = require "perfev"
require "perfev.aggregate.pack"
require "perfev.profile.follower"

assert(#("x"):rep(1 << 16) == 1 << 16) -- see whole_api.lua

local KINDS = { "count", "top", "sum", "stats", "hist", "quantile" }

local wrong = {}

local function check(is_right, what)
  if not is_right then wrong[#wrong + 1] = what end
end

-- How aggregators of a kind, or profiles, are made, filled and compared.
local function aggregator(kind)
  return { name = kind, follow = core.aggregator_follow,
    make = function() return perfev[kind] { by = "k", max_keys = 60 } end,
    fill = function(a, first, last)
      for i = first, last do a:add(i * i, i % 2 == 0 and i or "key " .. i) end
      return a
    end,
    is_same = function(a, b)
      local rows, expected = a:rows(), b:rows()
      for i, row in ipairs(rows) do
        local value, other = row.value, expected[i] and expected[i].value
        if type(value) == "table" then value, other = value.count, other and other.count end
        if value ~= other then return false end
      end
      return #rows == #expected
    end }
end

local profile = { name = "profile", follow = perfev.profile._follow,
  make = function() return perfev.profile { values = { "samples", { "time", unit = "ns" } } } end,
  fill = function(p, first, last)
    for i = first, last do p:add({ { symbol = "leaf" .. i, module = "/m" }, "f" .. i % 7, "main" }, 1, i) end
    return p
  end,
  is_same = function(a, b) return a:folded { value = 2 } == b:folded { value = 2 } and a:total() == b:total() end }

-- Merges with little memory: a failure changes nothing.
local function merge(pause, resume, class)
  pause()
  local a, b = class.fill(class.make(), 1, 30), class.fill(class.make(), 20, 50)
  local both, before = class.fill(class.fill(class.make(), 1, 30), 20, 50), a:pack()
  resume(true)
  local ok, why = pcall(a.merge, a, b)
  pause()
  if not ok then
    check(a:pack() == before, class.name .. ": a merge that failed has changed something")
    a:merge(b)
  end
  check(class.is_same(a, both), class.name .. ": the merge has other values")
  resume(ok, why)
end

-- Reads deltas and clears with little memory: values that a call did not return are in the next delta.
local function read_deltas(pause, resume, class)
  pause()
  local a, all, merged = class.make(), class.make(), class.make()
  local f = class.follow(a)
  local first_error
  for i = 1, 3 do
    class.fill(a, 9 * i, 9 * i + 12)
    class.fill(all, 9 * i, 9 * i + 12)
    resume(true)
    local ok, delta = pcall(f.delta, f)
    local cleared, why = true, nil
    if i == 2 then cleared, why = pcall(a.clear, a) end
    pause()
    if ok then merged:merge(delta) end
    first_error = first_error or not ok and delta or not cleared and why or nil
  end
  merged:merge(f:delta())
  check(class.is_same(merged, all), class.name .. ": the deltas have other values")
  check(class.is_same(f:total(), all), class.name .. ": the total has other values")
  resume(not first_error, first_error)
end

local function pack_and_unpack(pause, resume, class)
  pause()
  local a = class.fill(class.make(), 1, 30)
  resume(true)
  local back, why = perfev.unpack(a:pack())
  if not back then error(why, 0) end
  pause()
  check(class.is_same(a, back), class.name .. ": the pack has other values")
  resume(true)
end

local function exercise(pause, resume)
  local classes = { profile }
  for i, kind in ipairs(KINDS) do classes[i + 1] = aggregator(kind) end
  for _, class in ipairs(classes) do
    for _, act in ipairs { merge, read_deltas, pack_and_unpack } do act(pause, resume, class) end
  end
end

local function leaks()
  local list = wrong
  wrong = {}
  return #list > 0 and table.concat(list, ", ") or nil
end

return exercise, leaks
