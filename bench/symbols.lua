-- symbols.lua - makes a program with more than 50 MB of symbols and a recording, to measure symbol lookup.
-- lua5.4 bench/symbols.lua DIR, run by `make bench`, writes DIR/symbols and DIR/symbols.data
--
-- The program's functions never run; the recording has one sample in each of many functions, spread over the file.

local perfdata = require "spec.support.perfdata"

local FUNCTIONS, ADDRESSES, SIZE = 600000, 20000, 32
local dir = arg[1]
local program, recording = dir .. "/symbols", dir .. "/symbols.data"

local function capture(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

local function run(command)
  assert(os.execute(command), command)
end

-- Mangled as in C++, so that the measurement includes demangling.
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

-- The address of each sampled function; 37 is coprime to their number.
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
  local time = 1
  for ip in sampled(first) do
    time = time + 1000
    builder:add { type = "sample", misc = USER, ip = ip, pid = 7, tid = 7, time = time, period = 1,
      callchain = { CHAIN, ip } }
  end
  local file <close> = assert(io.open(recording, "wb"))
  file:write(builder:file { [3] = builder:string "bench", [6] = builder:string "x86_64",
    [12] = builder:event_desc() })
end

make_program()
make_recording()
