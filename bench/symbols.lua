-- symbols.lua - what names cost: 20,000 addresses of a program with more than 50 MB of symbols, ours beside perf's
-- and addr2line's.
-- make bench, or lua5.4 bench/symbols.lua BUILD RUNS
--
-- The program is made once, of functions that are never run, and the recording of it: a sample in each of so many
-- functions that lie all over it. A row is thrown out when it has not named every one of them.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
local build, runs = arg[1], math.tointeger(tonumber(arg[2]))
package.cpath = build .. "/?.so;" .. package.cpath

local perfdata = require "spec.support.perfdata"

local FUNCTIONS, ADDRESSES, SIZE = 600000, 20000, 32
local SLOW = 20 -- seconds: a row that takes longer is run once
local dir = build .. "/bench"
local program, recording, addresses = dir .. "/symbols", dir .. "/symbols.data", dir .. "/symbols.addresses"

local function exists(path)
  local file <close> = io.open(path)
  return file ~= nil
end

local function capture(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

local function run(command)
  assert(os.execute(command), command)
end

-- ---- what is measured ----

-- Mangled as C++ has it, so that taking that apart is part of the work.
local function name_of(i)
  return ("_ZN5bench15component%06d20serve_requests%06dERKNS_7request7headersEjj"):format(i // 64, i)
end

local function make_program()
  local source <close> = assert(io.open(dir .. "/symbols.s", "w"))
  source:write((".text\n.globl _start\n_start: .skip %d\n"):format(SIZE))
  for i = 0, FUNCTIONS - 1 do
    local name = name_of(i)
    source:write(".type ", name, ",@function\n", name, ":\n.skip ", SIZE, "\n.size ", name, ",", SIZE, "\n")
  end
  source:close()
  run(("%s -nostdlib -static -no-pie -o %s.new %s/symbols.s && mv %s.new %s && rm %s/symbols.s"):format(
    os.getenv "CC" or "gcc", program, dir, program, program, dir))
end

-- The address of each function that is sampled, from the first on: 37 is prime to their number.
local function sampled(first)
  local step, n = FUNCTIONS // ADDRESSES, -1
  return function()
    n = n + 1
    if n < ADDRESSES then return first + n * 37 % ADDRESSES * step * SIZE + 5 end
  end
end

local CHAIN, USER = 0xfffffffffffffe00, 2 -- PERF_CONTEXT_USER, PERF_RECORD_MISC_USER

local function make_recording()
  local path = capture("realpath " .. program):gsub("\n", "")
  local first = tonumber(capture(("nm %s | grep -m1 %s"):format(program, name_of(0))):match "^%x+", 16)
  local base = first & ~0xfff
  local builder = perfdata.new { events = { { ids = { 1 }, name = "cpu-clock", size = 128, attr = {
    type = 1, config = 0, sample_type = { "ip", "tid", "time", "callchain", "period" }, sample_period = 1,
    sample_id_all = true, comm = true, mmap2 = true, task = true,
  } } } }
  local who = { pid = 7, tid = 7, sample_id = { pid = 7, tid = 7, time = 1 } }
  local function add(t)
    for key, value in pairs(who) do t[key] = value end
    builder:add(t)
  end
  add { type = "comm", comm = "symbols" }
  add { type = "mmap2", misc = USER, addr = base, len = FUNCTIONS * SIZE + 0x2000, pgoff = 0x1000, maj = 0, min = 0,
    ino = 0, ino_generation = 0, prot = 5, flags = 2, filename = path }
  local list, time = assert(io.open(addresses, "w")), 1
  for ip in sampled(first) do
    time = time + 1000
    builder:add { type = "sample", misc = USER, ip = ip, pid = 7, tid = 7, time = time, period = 1,
      callchain = { CHAIN, ip } }
    list:write(("0x%x\n"):format(ip))
  end
  list:close()
  local file <close> = assert(io.open(recording, "wb"))
  file:write(builder:file { [3] = builder:string "bench", [6] = builder:string "x86_64",
    [12] = builder:event_desc() })
end

-- ---- the rows ----

local function perfl(words) return ("%s/perfl -q -i %s %s"):format(build, recording, words) end

local rows = {
  { "perfl, r.symbol", perfl [[-e 'event { "cpu-clock", sample = function(r) print(r.symbol) end }']] },
  { "perfl profile -f folded", perfl "profile -f folded" },
  { "perf script -F ip,sym", ("perf script -i %s -F ip,sym"):format(recording), base = true },
  { "perf report --stdio -g none", ("perf report -i %s --stdio -g none --no-children"):format(recording) },
  { "addr2line -f -C", ("addr2line -f -C -e %s @%s"):format(program, addresses) },
}

-- How many functions its output names.
local function named(path)
  local seen, nr = {}, 0
  for line in io.lines(path) do
    local which = line:match "serve_requests(%d%d%d%d%d%d)"
    if which and not seen[which] then seen[which], nr = true, nr + 1 end
  end
  return nr
end

-- Run it once -> true | false, why
local function measure(row)
  local out, err = dir .. "/out", dir .. "/err"
  os.execute(("%s/cost %s > %s 2> %s < /dev/null"):format(dir, row[2], out, err))
  local last, first
  for line in io.lines(err) do last, first = line, first or line end
  local cpu, _, kib, status = (last or ""):match "^([%d.]+) ([%d.]+) (%d+) (%d+)$"
  if status ~= "0" then return false, first or "?" end
  local nr = named(out)
  if nr ~= ADDRESSES then return false, "named " .. nr end
  row.cpu[#row.cpu + 1] = tonumber(cpu)
  row.kib = math.max(row.kib or 0, tonumber(kib))
  return true
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

if not exists(program) then make_program() end
make_recording()
for _, row in ipairs(rows) do row.cpu = {} end
for _ = 1, runs do
  for _, row in ipairs(rows) do
    if not row.failed and (row.cpu[1] or 0) < SLOW then
      local ok, why = measure(row)
      row.failed = not ok and why or nil
    end
  end
end

local base
for _, row in ipairs(rows) do
  if row.base and not row.failed then base = median(row.cpu) end
end
local bytes = 0
for size in capture("readelf -SW " .. program):gmatch " %.s[yt][mr]tab +%u+ +%x+ %x+ (%x+)" do
  bytes = bytes + tonumber(size, 16)
end
print(("\nnames of %d addresses among %d functions, %.0f MB of symbols; %d runs"):format(ADDRESSES, FUNCTIONS,
  bytes / 1e6, runs))
print(("%-32s %8s %8s %12s %10s"):format("seconds of CPU", "median", "best", "/perf script", "peak MiB"))
for _, row in ipairs(rows) do
  if row.failed then
    print(("%-32s not here: %s"):format(row[1], row.failed:sub(1, 36)))
  else
    local typical = median(row.cpu)
    print(("%-32s %8.2f %8.2f %12s %10.1f"):format(row[1], typical, row.cpu[1],
      base and ("%.2f"):format(typical / base) or "-", row.kib / 1024))
  end
end
