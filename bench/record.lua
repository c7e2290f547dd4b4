-- record.lua - makes a recording to measure with: system calls of some tasks on two CPUs, as
-- `perf record -a -e raw_syscalls:sys_enter` writes them.
-- lua5.4 bench/record.lua FILE RECORDS
--
-- The same bytes whenever it is run: times, tasks and calls come from one seed. A round holds each
-- CPU's records in a piece, the pieces' times side by side, so that a reader has to put them in order.

local perfdata = require "spec.support.perfdata"

local path, records = arg[1], math.tointeger(tonumber(arg[2]))
local ID, TASKS, PER_ROUND = 366, 64, 8192
local SAMPLE, COMM = 9, 3

local HEADER_PAGE = [[
	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:1;
]]

local HEADER_EVENT = [[
# compressed entry header
	type_len    :    5 bits
	time_delta  :   27 bits
	array       :   32 bits

	padding     : type == 29
	time_extend : type == 30
	time_stamp : type == 31
	data max type_len  == 28
]]

local FORMAT = [[
name: sys_enter
ID: 366
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:long id;	offset:8;	size:8;	signed:1;
	field:unsigned long args[6];	offset:16;	size:48;	signed:0;

print fmt: "NR %ld (%lx, %lx)", REC->id, REC->args[0], REC->args[1]
]]

local function sized(text) return string.pack("<s8", text) end

local function tracing_data()
  return "\x17\x08\x44tracing0.6\0" .. string.pack("<BBI4", 0, 8, 4096) .. "header_page\0" .. sized(HEADER_PAGE)
    .. "header_event\0" .. sized(HEADER_EVENT) .. string.pack("<I4I4", 0, 1) .. "raw_syscalls\0"
    .. string.pack("<I4", 1) .. sized(FORMAT) .. string.pack("<I4I4I8", 0, 0, 0)
end

local builder = perfdata.new { endian = "little", events = { {
  ids = { 1 }, name = "raw_syscalls:sys_enter", size = 128,
  attr = { type = 2, config = ID, sample_type = { "ip", "tid", "time", "cpu", "period", "raw" }, sample_period = 1,
           sample_id_all = true, comm = true, task = true },
} } }

-- The sample_id of such an attr: tid, time, cpu.
local function comm(tid, name, time)
  local text = name .. ("\0"):rep(8 - #name % 8)
  return string.pack("<I4I2I2I4I4", COMM, 0, 16 + #text + 24, tid, tid) .. text
    .. string.pack("<I4I4I8I4I4", tid, tid, time, 0, 0)
end

local SAMPLE_FORMAT = "<I4I2I2 I8 I4I4 I8 I4I4 I8 I4 I2BBi4 i8 I8I8I8I8I8I8 I4"
local SIZE = string.packsize(SAMPLE_FORMAT)

local function sample(tid, time, cpu, call)
  return string.pack(SAMPLE_FORMAT, SAMPLE, 1, SIZE, 0xffffffff81000000, tid, tid, time, cpu, 0, 1, 68,
    ID, 0, 0, tid, call, tid, call, 4096, 0, 0, 0, 0)
end

-- One CPU's part of a round.
local function piece(cpu, nr, time)
  local parts = {}
  for i = 1, nr do
    time = time + math.random(100, 1100)
    parts[i] = sample(1000 + math.random(TASKS), time, cpu, math.random(0, 330))
  end
  return table.concat(parts), time
end

local function write_records(file)
  local time, left, bytes = 1000000000, records, 0
  local function put(text)
    bytes = bytes + #text
    file:write(text)
  end
  for i = 1, TASKS do put(comm(1000 + i, "task-" .. i, time)) end
  while left > 0 do
    local nr, ends = math.min(left, PER_ROUND), {}
    for cpu = 0, 1 do
      local text
      text, ends[cpu] = piece(cpu, (nr + 1 - cpu) // 2, time)
      put(text)
    end
    put(string.pack("<I4I2I2", 68, 0, 8)) -- FINISHED_ROUND
    time, left = math.max(ends[0], ends[1]), left - nr
  end
  return bytes
end

-- What stands around the records, and how long the records are is not yet said.
local whole = builder:file { [1] = tracing_data(), [3] = builder:string "bench", [6] = builder:string "x86_64",
                             [12] = builder:event_desc() }
local DATA_SIZE = 0x30 -- in the head: where the records are, and how many bytes
local start = string.unpack("<I8", whole, DATA_SIZE - 7)

-- The table of sections, their places moved by so many bytes.
local function moved(tail, by)
  local out, at = {}, 1
  for _ = 1, 4 do
    local offset, size
    offset, size, at = string.unpack("<I8I8", tail, at)
    out[#out + 1] = string.pack("<I8I8", offset + by, size)
  end
  return table.concat(out) .. tail:sub(at)
end

math.randomseed(20)
local file <close> = assert(io.open(path .. ".new", "wb"))
file:write(whole:sub(1, start))
local bytes = write_records(file)
file:write(moved(whole:sub(start + 1), bytes))
file:seek("set", DATA_SIZE)
file:write(string.pack("<I8", bytes))
file:close()
assert(os.rename(path .. ".new", path))
