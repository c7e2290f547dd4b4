-- Stacks of code without frame pointers against perf's own: on one recording, frame by frame, and live.

local core = require "perfev.core"
local meets = require "spec.support.meets"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local FLAGS = "-O2 -fomit-frame-pointer"
local cc = os.getenv "CC" or "gcc"

local function built(name, compiler, source, more)
  local command = ("cd %s && %s %s -o %s %s/spec/support/%s %s"):format(dir, compiler, FLAGS, name,
    run.capture "pwd", source, more or "")
  local r = run(command)
  assert.equal(0, r.code, r.err)
  return dir .. "/" .. name
end

-- On an emulated CPU a program makes no progress if each millisecond a sample copies 8 KiB of its stack.
local HZ = os.getenv "VM" and 20 or 999
local CLOCK = { "record", "-q", "-F", tostring(HZ), "-e", "cpu-clock", "--call-graph", "dwarf", "-o" }

-- Records program TIMES with perf, or with a recorder that takes its options.
local function recorded(by, program, times)
  local path, words = dir .. "/perf.data", table.move(CLOCK, 1, #CLOCK, 2, { by })
  local r = run(table.move({ path, "--", program, tostring(times) }, 1, 4, #words + 1, words))
  assert.equal(0, r.code, r.err)
  return path
end

-- The stacks of perf script: "tid time" -> { { place, name } ... }; places in user space are the file's own.
local function told_by_perf(path)
  local text = run({ "perf", "script", "--no-inline", "-i", path, "-F", "tid,time,ip,sym", "--ns" }).out
  local samples, chain = {}, nil
  for line in text:gmatch "[^\n]+" do
    local tid, sec, ns = line:match "^%s*(%d+)%s+(%d+)%.(%d+):"
    local place, name = line:match "^%s*(%x+) (.*)$"
    if tid then
      chain = {}
      samples[tid .. " " .. tonumber(sec .. ns)] = chain
    elseif place then
      chain[#chain + 1] = { tonumber("0x" .. place), name }
    end
  end
  return samples
end

local symbols
local function is_alias(frame, name)
  symbols = symbols or assert(core.kallsyms())
  local at = symbols:address(name)
  return at ~= nil and at == symbols:address(frame.symbol or "")
end

-- perf subtracts one byte from each return address, also from a signal's return code, which is not called: perf shows
-- it without a name, as does any reader without the C library's debug file. perf also omits the suffix of a function's
-- clone.
local function is_same(frame, raw, other)
  local place, name = table.unpack(other or {})
  if raw.context ~= "user" then
    return raw.ip == place and (frame.symbol == name or is_alias(frame, name))
  end
  local at = raw.offset or raw.ip
  if (frame.symbol or "__restore_rt") == "__restore_rt" and name == "[unknown]" and at - 1 == place then return true end
  return (raw.returns and at - 1 or at) == place and (frame.symbol or "[unknown]"):gsub(" %[clone .*", "") == name
end

-- Adds the frames of a recording or of perf to the totals: all frames, equal frames, other frames, and stacks.
local function compare(path, all)
  local theirs = told_by_perf(path)
  local rec <close> = assert(perfev.open(path))
  for r in rec:records { user = false } do
    local chain = r.type == "sample" and theirs[r.tid .. " " .. r.time]
    local raws = chain and core.stack_frames(r.stack) or {}
    for i = 1, math.max(#raws, #(chain or {})) do
      all.n = all.n + 1
      if raws[i] and is_same(r.stack[i], raws[i], chain[i]) then
        all.same = all.same + 1
      else
        local place, name = table.unpack(chain[i] or { 0, "none" })
        table.insert(all.others, ("%s; perf: %x %s; of %d and %d"):format(raws[i] and tostring(r.stack[i].symbol)
          or "none", place, name, #raws, #chain))
      end
    end
    if chain then table.insert(all.stacks, r.stack:folded()) end
  end
end

local function agrees(parts, by, program, times)
  local all = { n = 0, same = 0, others = {}, stacks = {} }
  table.insert(parts, "1000 frames")
  meets(parts, times, function(n)
    compare(recorded(by, program, n), all)
    local text, seen = table.concat(all.stacks, "\n"), { ["1000 frames"] = all.n > 1000 }
    for _, part in ipairs(parts) do seen[part] = seen[part] or text:find(part) ~= nil end
    return seen
  end)
  assert.is_true(all.same >= 0.995 * all.n, ("%d of %d\n%s"):format(all.same, all.n, table.concat(all.others, "\n")))
end

describe("unwound frames match perf's", function()
  local DEEP = "main;" .. ("down;odd;"):rep(25) .. "down;spin"
  local BELOW_A_SIGNAL = "main;raise;[^\n]*;handler;down;odd"

  it("of a program deep down, below the C library and below a signal", function()
    requires("perf", "root", "program perf", "cc")
    agrees({ DEEP, "qsort", "compare;spin", BELOW_A_SIGNAL }, "perf",
      built("unwound", cc, "unwound.c"), 10)
  end)

  it("of C++: virtual functions, function objects, exceptions, threads", function()
    requires("perf", "root", "program perf", "program g++")
    agrees({ "ns::Throws::work;ns::Calls::work", "ns::Box<int>::sum" }, "perf",
      built("cxx", "g++", "unwound.cc", "-pthread"), 500)
  end)

  it("of perfl's recording, which perf unwinds, too", function()
    requires("perf", "root", "program perf", "cc")
    agrees({ DEEP, BELOW_A_SIGNAL }, run.perfl, built("unwound", cc, "unwound.c"), 10)
  end)
end)

describe("a live session with callchain = \"dwarf\"", function()
  it("unwinds its samples", function()
    requires("perf", "root", "cc")
    local wanted, seen = "main;" .. ("down;odd;"):rep(25) .. "down;spin$", false
    -- The times of clock samples vary: the program runs until the sample is there.
    local s = perfev.session { command = { built("unwound", cc, "unwound.c"), "20000" } }
    s:event { "cpu-clock:u", freq = HZ, callchain = "dwarf,16384", sample = function(r)
      seen = r.stack:folded():find(wanted) ~= nil
      return not seen
    end }
    assert(s:run())
    assert.is_true(seen)
  end)
end)
