-- record.lua - writes a recording for measurements: some tasks on two CPUs, as perf record -a records them.
-- lua5.4 bench/record.lua FILE RECORDS [KIND]
--
-- KIND is syscalls (raw_syscalls:sys_enter, the default), long (the same, in rounds that fill two rings
-- of 4096 pages), pairs (sys_enter and sys_exit in turn), stacks (cpu-clock with 256 call chains into the
-- C library), varied (the same with 12,800) or clock (cpu-clock with few fields, for long recordings).
--
-- Each run writes the same bytes: times, tasks and calls come from one seed. In a round the records of
-- each CPU are one piece, and the times of the pieces overlap, so that a reader must sort them.

local perfdata = require "spec.support.perfdata"

local path, records, kind = arg[1], math.tointeger(tonumber(arg[2])), arg[3] or "syscalls"
local ID, EXIT_ID, TASKS = 366, 365, 64
local SAMPLE, COMM, MMAP2 = 9, 3, 10
local KERNEL, USER = -128, -512 -- PERF_CONTEXT_*, in a call chain

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

local COMMON = [[
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:long id;	offset:8;	size:8;	signed:1;
]]

local ENTER = "name: sys_enter\nID: 366\n" .. COMMON .. [[
	field:unsigned long args[6];	offset:16;	size:48;	signed:0;

print fmt: "NR %ld (%lx, %lx)", REC->id, REC->args[0], REC->args[1]
]]

local EXIT = "name: sys_exit\nID: 365\n" .. COMMON .. [[
	field:long ret;	offset:16;	size:8;	signed:1;

print fmt: "NR %ld = %ld", REC->id, REC->ret
]]

local function sized(text) return string.pack("<s8", text) end

local function tracing_data(formats)
  local texts = {}
  for i, format in ipairs(formats) do texts[i] = sized(format) end
  return "\x17\x08\x44tracing0.6\0" .. string.pack("<BBI4", 0, 8, 4096) .. "header_page\0" .. sized(HEADER_PAGE)
    .. "header_event\0" .. sized(HEADER_EVENT) .. string.pack("<I4I4", 0, 1) .. "raw_syscalls\0"
    .. string.pack("<I4", #texts) .. table.concat(texts) .. string.pack("<I4I4I8", 0, 0, 0)
end

-- ---- kinds ----

local function tracepoint(id, name, number, sample_type)
  return { ids = { id }, name = name, size = 128, attr = { type = 2, config = number, sample_type = sample_type,
    sample_period = 1, sample_id_all = true, comm = true, task = true } }
end

local SAMPLE_FORMAT = "<I4I2I2 I8 I4I4 I8 I4I4 I8 I4 I2BBi4 i8 I8I8I8I8I8I8 I4"
local SIZE = string.packsize(SAMPLE_FORMAT)
local syscalls = {
  events = { tracepoint(1, "raw_syscalls:sys_enter", ID, { "ip", "tid", "time", "cpu", "period", "raw" }) },
  formats = { ENTER },
}
function syscalls.sample(tid, time, cpu)
  local call = math.random(0, 330)
  return SAMPLE_FORMAT:pack(SAMPLE, 1, SIZE, 0xffffffff81000000, tid, tid, time, cpu, 0, 1, 68,
    ID, 0, 0, tid, call, tid, call, 4096, 0, 0, 0, 0)
end

-- With an id, because there are two events; a task enters and leaves in turn.
local ENTER_FORMAT = "<I4I2I2 I8 I4I4 I8 I4I4 I4 I2BBi4 i8 I8I8I8I8I8I8 I4"
local EXIT_FORMAT = "<I4I2I2 I8 I4I4 I8 I4I4 I4 I2BBi4 i8 i8 I4"
local pairs_type = { "identifier", "tid", "time", "cpu", "raw" }
local in_call = {}
local enter_and_exit = {
  events = { tracepoint(1, "raw_syscalls:sys_enter", ID, pairs_type),
             tracepoint(2, "raw_syscalls:sys_exit", EXIT_ID, pairs_type) },
  formats = { ENTER, EXIT },
}
function enter_and_exit.sample(tid, time, cpu)
  tid = (tid - 1 & ~1 | cpu) + 1 -- a task stays on its CPU: it leaves the call that it entered
  local call = in_call[tid]
  if call then
    in_call[tid] = nil
    return EXIT_FORMAT:pack(SAMPLE, 1, EXIT_FORMAT:packsize(), 2, tid, tid, time, cpu, 0, 28,
      EXIT_ID, 0, 0, tid, call, 0, 0)
  end
  call = math.random(0, 330)
  in_call[tid] = call
  return ENTER_FORMAT:pack(SAMPLE, 1, ENTER_FORMAT:packsize(), 1, tid, tid, time, cpu, 0, 68,
    ID, 0, 0, tid, call, tid, call, 4096, 0, 0, 0, 0)
end

-- Twelve frames, 256 chains; the outer frames differ less than the inner ones.
local STACK_FORMAT = "<I4I2I2 I8 I4I4 I8 I4I4 I8 I8 i8i8i8 i8i8i8i8i8i8i8i8i8i8"
local LIBC, TEXT = 0x7f0000000000, 0x26000 -- its address; offset of its code
local stacks = {
  events = { { ids = { 1 }, name = "cpu-clock", size = 128, attr = { type = 1, config = 0,
    sample_type = { "ip", "tid", "time", "cpu", "period", "callchain" }, sample_period = 1000000,
    sample_id_all = true, comm = true, task = true, mmap = true, mmap2 = true } } },
  formats = {},
}
local function pack_stack(tid, time, cpu, inner)
  local chain = { KERNEL, -0x7f000000 + math.random(0, 3) * 0x1000, USER }
  for i = 1, 10 do chain[3 + i] = LIBC + TEXT + i * 4096 + inner(i) % 64 * 64 end
  return STACK_FORMAT:pack(SAMPLE, 2, STACK_FORMAT:packsize(), chain[2], tid, tid, time, cpu, 0, 1000000, #chain,
    table.unpack(chain))
end

function stacks.sample(tid, time, cpu)
  return pack_stack(tid, time, cpu, function(i) return math.random(0, 8 // i // i) % 8 end)
end

local varied = { events = stacks.events, formats = {} }
function varied.sample(tid, time, cpu)
  local number = tid % TASKS * 50 + math.random(0, 49) -- a task has 200 chains
  return pack_stack(tid, time, cpu, function(i) return i == 1 and number or i == 2 and number // 64 or number % 8 end)
end

local clock = {
  events = { { ids = { 1 }, name = "cpu-clock", size = 128, attr = { type = 1, config = 0,
    sample_type = { "tid", "time", "cpu" }, sample_period = 1000000, sample_id_all = true, comm = true,
    task = true } } },
  formats = {},
}
function clock.sample(tid, time, cpu)
  return string.pack("<I4I2I2 I4I4 I8 I4I4", SAMPLE, 2, 32, tid, tid, time, cpu, 0)
end

local kinds = { syscalls = syscalls, long = syscalls, pairs = enter_and_exit, stacks = stacks, varied = varied,
                clock = clock }
local made = assert(kinds[kind], "KIND is syscalls, long, pairs, stacks, varied or clock")
local PER_ROUND = kind == "long" and 2 * 4096 * 4096 // SIZE or 8192
local builder = perfdata.new { endian = "little", events = made.events }

-- The sample_id: tid, time, cpu, and the id if there are several events.
local function sample_id(tid, time)
  return string.pack("<I4I4I8I4I4", tid, tid, time, 0, 0) .. (#made.events > 1 and string.pack("<I8", 1) or "")
end

local function record(number, body, tid, time)
  local tail = sample_id(tid, time)
  return string.pack("<I4I2I2", number, number == MMAP2 and 2 or 0, 8 + #body + #tail) .. body .. tail
end

local function padded(text) return text .. ("\0"):rep(8 - #text % 8) end

local function comm(tid, name, time)
  return record(COMM, string.pack("<I4I4", tid, tid) .. padded(name), tid, time)
end

local function find_libc()
  for line in io.lines "/proc/self/maps" do
    local path_of = line:match "%S*/libc%.so%.6$"
    if path_of then return path_of end
  end
  return "/lib/x86_64-linux-gnu/libc.so.6"
end

local function mmap(tid, time)
  return record(MMAP2, string.pack("<I4I4I8I8I8I4I4I8I8I4I4", tid, tid, LIBC + TEXT, 0x160000, TEXT, 8, 1, 1, 1, 5, 2)
    .. padded(find_libc()), tid, time)
end

-- One CPU's part of a round.
local function make_piece(cpu, nr, time)
  local parts = {}
  for i = 1, nr do
    time = time + math.random(100, 1100)
    parts[i] = made.sample(1000 + math.random(TASKS), time, cpu)
  end
  return table.concat(parts), time
end

local function write_records(file)
  local time, left, bytes = 1000000000, records, 0
  local function put(text)
    bytes = bytes + #text
    file:write(text)
  end
  for i = 1, TASKS do
    put(comm(1000 + i, "task-" .. i, time))
    if made.events == stacks.events then put(mmap(1000 + i, time)) end
  end
  while left > 0 do
    local nr, ends = math.min(left, PER_ROUND), {}
    for cpu = 0, 1 do
      local text
      text, ends[cpu] = make_piece(cpu, (nr + 1 - cpu) // 2, time)
      put(text)
    end
    put(string.pack("<I4I2I2", 68, 0, 8)) -- FINISHED_ROUND
    time, left = math.max(ends[0], ends[1]), left - nr
  end
  return bytes
end

-- Header and sections around the records; the size of the records is written later.
local sections = { [3] = builder:string "bench", [6] = builder:string "x86_64", [12] = builder:event_desc() }
if #made.formats > 0 then sections[1] = tracing_data(made.formats) end
local whole = builder:file(sections)
local DATA_SIZE = 0x30 -- in the header: offset of the records, and their size
local start = string.unpack("<I8", whole, DATA_SIZE - 7)

-- Adds this many bytes to the offsets in the table of sections.
local function move_sections(tail, by)
  local out, at = {}, 1
  for _ in pairs(sections) do
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
file:write(move_sections(whole:sub(start + 1), bytes))
file:seek("set", DATA_SIZE)
file:write(string.pack("<I8", bytes))
file:close()
assert(os.rename(path .. ".new", path))
