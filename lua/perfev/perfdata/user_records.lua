--- Decodes the records that tools, not the kernel, write into a recording: types from 64 on, as tables.
-- Source: tools/lib/perf/include/perf/event.h, enum perf_user_event_type and its structs.

local Bytes = require "perfev.perfdata.byte_reader"

local M = {}

M.names = {
  [64] = "header_attr", [65] = "event_type", [66] = "tracing_data", [67] = "build_id", [68] = "finished_round",
  [69] = "id_index", [70] = "auxtrace_info", [71] = "auxtrace", [72] = "auxtrace_error", [73] = "thread_map",
  [74] = "cpu_map", [75] = "stat_config", [76] = "stat", [77] = "stat_round", [78] = "event_update",
  [79] = "time_conv", [80] = "feature", [81] = "compressed", [82] = "finished_init", [83] = "compressed2",
  -- simpleperf's own: system/extras/simpleperf/record.h
  [32769] = "simpleperf_kernel_symbol", [32770] = "simpleperf_dso", [32771] = "simpleperf_symbol",
  [32772] = "simpleperf_split", [32773] = "simpleperf_split_end", [32774] = "simpleperf_event_id",
  [32775] = "simpleperf_callchain", [32776] = "simpleperf_unwinding_result", [32777] = "simpleperf_tracing_data",
  [32778] = "simpleperf_debug",
}

local SIMPLEPERF, LONGEST = 32768, 65528

local CPUS, MASK, RANGE = 0, 1, 2 -- PERF_CPU_MAP__*
local ANY = 0xffff -- (u16)-1: any CPU, as for a task's counts

-- Decodes a mask of 4- or 8-byte words -> list of CPUs
local function read_mask(b)
  local out, nr, size = {}, b:u16(), b:u16()
  b:take(size == 8 and 4 or 0) -- padding before 8-byte words
  if size ~= 4 and size ~= 8 then error(("words of %d bytes"):format(size), 0) end
  for word = 0, nr - 1 do
    local set = size == 8 and b:u64() or b:u32()
    for bit = 0, 8 * size - 1 do
      if set >> bit & 1 == 1 then out[#out + 1] = 8 * size * word + bit end
    end
  end
  return out
end

local function read_cpus(b)
  local kind = b:u16()
  if kind == CPUS then
    return b:list(b:u16(), function()
      local cpu = b:u16()
      return cpu == ANY and -1 or cpu
    end)
  end
  if kind == MASK then return read_mask(b) end
  if kind ~= RANGE then error(("cpu map of kind %d"):format(kind), 0) end
  local any, _, first, last, out = b:u8(), b:u8(), b:u16(), b:u16(), {}
  if any == 1 then out[1] = -1 end
  for cpu = first, last do out[#out + 1] = cpu end
  return out
end

local updates = {
  [0] = function(b, t) t.update, t.unit = "unit", b:text(b:left()) end,
  [1] = function(b, t) t.update, t.scale = "scale", (string.unpack(b.order .. "d", b:take(8))) end,
  [2] = function(b, t) t.update, t.name = "name", b:text(b:left()) end,
  [3] = function(b, t) t.update, t.cpus = "cpus", read_cpus(b) end,
}

local decoders = {
  [65] = function(b, t) t.id, t.name = b:u64(), b:text(math.min(64, b:left())) end,
  [66] = function(b, t) t.length = b:u32() end,
  [67] = function(b, t)
    t.pid = b:s32()
    local id = b:take(24)
    t.build_id = id:sub(1, math.min(t.misc & 0x8000 ~= 0 and id:byte(21) or 20, 20))
    t.filename = b:text(b:left())
  end,
  [69] = function(b, t)
    t.entries = b:list(b:u64(), function()
      return { id = b:u64(), idx = b:u64(), cpu = b:u64(), tid = b:u64() }
    end)
  end,
  [71] = function(b, t)
    t.length, t.offset_in_aux, t.reference, t.idx, t.tid, t.cpu = b:u64(), b:u64(), b:u64(), b:u32(), b:s32(), b:s32()
  end,
  [70] = function(b, t) t.auxtrace = b:u32() end,
  [72] = function(b, t)
    t.error, t.code, t.cpu, t.pid, t.tid = b:u32(), b:u32(), b:s32(), b:s32(), b:s32()
  end,
  [73] = function(b, t)
    t.threads = b:list(b:u64(), function() return { pid = b:u64(), comm = b:text(16) } end)
  end,
  [74] = function(b, t) t.cpus = read_cpus(b) end,
  [75] = function(b, t)
    t.config = b:list(b:u64(), function() return { tag = b:u64(), value = b:u64() } end)
  end,
  [76] = function(b, t)
    t.id, t.cpu, t.thread, t.value, t.time_enabled, t.time_running = b:u64(), b:s32(), b:s32(), b:u64(), b:u64(),
      b:u64()
  end,
  [77] = function(b, t) t.kind, t.time = b:u64() == 0 and "interval" or "final", b:u64() end,
  [78] = function(b, t)
    local kind = b:u64()
    t.id = b:u64()
    if updates[kind] then updates[kind](b, t) end
  end,
  [79] = function(b, t)
    t.time_shift, t.time_mult, t.time_zero = b:u64(), b:u64(), b:u64()
    if b:left() >= 18 then
      t.time_cycles, t.time_mask, t.cap_user_time_zero, t.cap_user_time_short = b:u64(), b:u64(), b:u8() ~= 0,
        b:u8() ~= 0
    end
  end,
  [80] = function(b, t) t.feature = b:u64() end,
  [83] = function(b, t) t.length = b:u64() end,
  [32774] = function(b, t)
    t.entries = b:list(b:u64(), function() return { event = b:u64(), id = b:u64() } end)
  end,
}

--- Decodes a record -> table with type, number, misc, size, offset, raw (its body) and the fields of its type.
-- If a field cannot be decoded, `malformed` is the cause.
function M.decode(number, bytes, offset, big)
  local b = Bytes.new(bytes, big)
  b:u32()
  local t = { type = M.names[number] or "unknown", number = number, misc = b:u16(), size = b:u16(), offset = offset,
              raw = bytes:sub(9) }
  -- A size above 16 bits has its upper bits in misc; raw is the first 64 KiB.
  if number > SIMPLEPERF and t.misc > 0 and #bytes == LONGEST then t.size, t.misc = t.misc << 16 | t.size, 0 end
  if decoders[number] then
    local ok, why = pcall(decoders[number], b, t)
    if not ok then t.malformed = why end
  end
  return t
end

return M
