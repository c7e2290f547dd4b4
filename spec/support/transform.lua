--- transform.lua - converts a recording to the form that another kind of machine would write.
--
-- It reads a little-endian recording of a 64-bit machine and writes it field by field as a
-- big-endian or a 32-bit machine would. The layout of every field is written here from the
-- definitions of the formats (perf_event_open(2), tools/perf/Documentation/
-- perf.data-file-format.txt, tools/lib/perf/include/perf/event.h, tools/perf/util/header.c),
-- and not from the code under test.

local M = {}

-- ---- bytes: read in one byte order, written in the other ----

local Bytes = {}
Bytes.__index = Bytes

-- A cursor over a part of the text; big: the bytes of numbers are swapped.
local function bytes_of(text, from, to, big)
  return setmetatable({ text = text, pos = from or 1, stop = to or #text, out = {}, order = big and ">" or "<" }, Bytes)
end

local function unsigned(size)
  return function(self, as)
    local value = string.unpack("<I" .. size, self.text, self.pos)
    if self.pos + size - 1 > self.stop then error(("%d bytes at %d, past %d"):format(size, self.pos, self.stop)) end
    self.pos = self.pos + size
    -- signed and unsigned numbers have the same bytes
    self.out[#self.out + 1] = string.pack(self.order .. "I" .. size, as and as(value) or value)
    return value
  end
end

Bytes.u8, Bytes.u16, Bytes.u32 = unsigned(1), unsigned(2), unsigned(4)

-- string.pack refuses unsigned 64-bit numbers above 2^63
function Bytes:u64(as)
  local value = string.unpack("<i8", self.text, self.pos)
  if self.pos + 7 > self.stop then error(("8 bytes at %d, past %d"):format(self.pos, self.stop)) end
  self.pos = self.pos + 8
  self.out[#self.out + 1] = string.pack(self.order .. "i8", as and as(value) or value)
  return value
end

--- Copies n bytes.
function Bytes:take(n)
  local part = self.text:sub(self.pos, self.pos + n - 1)
  if #part ~= n or self.pos + n - 1 > self.stop then
    error(("%d bytes at %d, past %d"):format(n, self.pos, self.stop))
  end
  self.pos = self.pos + n
  self.out[#self.out + 1] = part
  return part
end

function Bytes:left() return self.stop - self.pos + 1 end
function Bytes:rest() return self:take(self:left()) end
function Bytes:zero() return self:take(self.text:find("\0", self.pos, true) - self.pos + 1) end
function Bytes:string() return self:take(self:u32()) end
function Bytes:result() return table.concat(self.out) end

function Bytes:times(n, f, ...)
  for _ = 1, n do f(self, ...) end
end

--- Converts numbers up to the end.
function Bytes:words()
  while self:left() >= 8 do self:u64() end
  return self:rest()
end

--- Converts a copied part with f.
function Bytes:part(n, f)
  local inner = bytes_of(self.text, self.pos, self.pos + n - 1, self.order == ">")
  f(inner)
  if inner:left() ~= 0 then error(("%d bytes of %d are left"):format(inner:left(), n)) end
  self.pos = self.pos + n
  self.out[#self.out + 1] = inner:result()
end

-- C's bit-fields of these widths begin at the lowest bit here and at the highest there.
local function mirror(widths)
  return function(word)
    local out, at, top = 0, 0, 64
    for _, width in ipairs(widths) do
      out = out | (word >> at & (1 << width) - 1) << top - width
      at, top = at + width, top - width
    end
    return out
  end
end

local ones = {} -- 15 flags, precise_ip, and flags again
for i = 1, 63 do ones[i] = i == 16 and 2 or 1 end
local attr_flags = mirror(ones)
-- mispred predicted in_tx abort cycles type spec new_type priv reserved
local branch_flags = mirror { 1, 1, 1, 1, 16, 4, 2, 4, 3, 31 }

local function same(value) return value end

-- The conversions of fields: big = byte order, and the differences of a 32-bit machine.
local function new_kind(opts)
  local big, narrow = opts.big or false, opts.narrow or false
  return {
    big = big, narrow = narrow,
    attr_flags = big and attr_flags or same, branch_flags = big and branch_flags or same,
    -- a union with bit-fields: aux_start_paused, aux_pause, aux_resume
    aux_action = big and function(word) return (word & 1) << 31 | (word & 2) << 29 | (word & 4) << 27 end or same,
    -- PERF_CONTEXT_*, in the recorder's unsigned long
    callchain = narrow and function(ip) return ip >= -4095 and ip < 0 and ip & 0xffffffff or ip end or same,
    abi = narrow and function(abi) return abi == 2 and 1 or abi end or same,
    long_size = narrow and function() return 4 end or same,
    arch = narrow and "i686" or nil,
    endian = big and function() return 1 end or same,
  }
end

-- ---- attrs ----

-- struct perf_event_attr, up to its size; returns the fields that records need.
local function attr(b, size, kind)
  local stop, a = b.pos + size, {}
  local function has(n) return stop - b.pos >= n end
  a.type = b:u32()
  b:u32() -- size
  a.config = b:u64()
  b:u64() -- sample_period
  a.sample_type, a.read_format = b:u64(), b:u64()
  a.flags = b:u64(kind.attr_flags)
  b:times(2, b.u32) -- wakeup_events bp_type
  b:u64() -- bp_addr
  for _, field in ipairs { { "bp_len", 8 }, { "branch_sample_type", 8 }, { "regs_user", 8 }, { "stack_user", 4 },
    { "clockid", 4 }, { "regs_intr", 8 }, { "aux_watermark", 4 }, { "max_stack", 2 }, { "reserved_2", 2 },
    { "aux_sample_size", 4 }, { "aux_action", 4 }, { "sig_data", 8 }, { "config3", 8 }, { "config4", 8 } } do
    local name, width = field[1], field[2]
    if has(width) then a[name] = b["u" .. 8 * width](b, kind[name]) end
  end
  while has(8) do b:u64() end
  b:take(stop - b.pos)
  a.trailer = a.flags >> 18 & 1 == 1
  return a
end

-- ---- records of the kernel ----

local SAMPLE = {
  IP = 1 << 0, TID = 1 << 1, TIME = 1 << 2, ADDR = 1 << 3, READ = 1 << 4, CALLCHAIN = 1 << 5, ID = 1 << 6, CPU = 1 << 7,
  PERIOD = 1 << 8, STREAM_ID = 1 << 9, RAW = 1 << 10, BRANCH_STACK = 1 << 11, REGS_USER = 1 << 12,
  STACK_USER = 1 << 13, WEIGHT = 1 << 14, DATA_SRC = 1 << 15, IDENTIFIER = 1 << 16, TRANSACTION = 1 << 17,
  REGS_INTR = 1 << 18, PHYS_ADDR = 1 << 19, AUX = 1 << 20, CGROUP = 1 << 21, DATA_PAGE_SIZE = 1 << 22,
  CODE_PAGE_SIZE = 1 << 23, WEIGHT_STRUCT = 1 << 24,
}
local BRANCH_HW_INDEX, BRANCH_COUNTERS = 1 << 17, 1 << 19

local function pair(b) b:times(2, b.u32) end

local function read_values(b, format)
  local function tail()
    if format & 4 ~= 0 then b:u64() end -- ID
    if format & 16 ~= 0 then b:u64() end -- LOST
  end
  local function times()
    if format & 1 ~= 0 then b:u64() end
    if format & 2 ~= 0 then b:u64() end
  end
  if format & 8 == 0 then -- no GROUP
    b:u64()
    times()
    return tail()
  end
  local nr = b:u64()
  times()
  for _ = 1, nr do
    b:u64()
    tail()
  end
end

local function callchain(b, kind) b:times(b:u64(), b.u64, kind.callchain) end

local function branches(b, type, kind)
  local nr = b:u64()
  if nr == 0 and b:left() == 0 then return end
  if type & BRANCH_HW_INDEX ~= 0 then b:u64() end
  for _ = 1, nr do
    b:times(2, b.u64)
    b:u64(kind.branch_flags)
  end
  if type & BRANCH_COUNTERS ~= 0 then b:times(nr, b.u64) end
end

local function registers(b, mask, kind)
  if b:u64(kind.abi) == 0 then return end
  for bit = 0, 63 do
    if mask >> bit & 1 == 1 then b:u64() end
  end
end

-- A tracepoint's payload by its format: the bytes of numbers are swapped, text is copied.
local function payload(b, format)
  if not format then return b:rest() end
  local from, stop = b.pos, b.stop
  local text = b.text:sub(from, stop)
  local out = { table.unpack({ text:byte(1, -1) }) }
  local function turn(at, size)
    if at + size > #text then return end
    for i = 1, size do out[at + i] = text:byte(at + size + 1 - i) end
  end
  for _, f in ipairs(format) do
    for at = f.offset, f.offset + f.size - f.width, f.width do
      if b.order == ">" then turn(at, f.width) end
    end
    if f.dynamic and b.order == ">" then
      local place = string.unpack("<I4", text, f.offset + 1)
      local at, len = place & 0xffff, place >> 16
      for i = at, at + len - f.element, f.element do turn(i, f.element) end
    end
  end
  for i, byte in ipairs(out) do out[i] = string.char(byte) end
  b:rest()
  b.out[#b.out] = table.concat(out)
end

-- The fields of a sample in the order of perf_output_sample().
local function sample(b, a, kind, formats)
  local function is(name) return a.sample_type & SAMPLE[name] ~= 0 end
  for _, name in ipairs { "IDENTIFIER", "IP", "TID", "TIME", "ADDR", "ID", "STREAM_ID", "CPU", "PERIOD" } do
    if is(name) then
      if name == "TID" or name == "CPU" then pair(b) else b:u64() end
    end
  end
  if is "READ" then read_values(b, a.read_format) end
  if is "CALLCHAIN" then callchain(b, kind) end
  if is "RAW" then
    local size = b:u32()
    b:part(size, function(inner) payload(inner, a.type == 2 and formats[a.config]) end)
  end
  if is "BRANCH_STACK" then branches(b, a.branch_sample_type, kind) end
  if is "REGS_USER" then registers(b, a.regs_user, kind) end
  if is "STACK_USER" then
    local size = b:u64()
    b:take(size)
    if size > 0 then b:u64() end
  end
  -- a union that has its parts in both orders, so that the word is the same
  if is "WEIGHT" or is "WEIGHT_STRUCT" then b:u64() end
  if is "DATA_SRC" then b:u64() end
  if is "TRANSACTION" then b:u64() end
  if is "REGS_INTR" then registers(b, a.regs_intr, kind) end
  for _, name in ipairs { "PHYS_ADDR", "CGROUP", "DATA_PAGE_SIZE", "CODE_PAGE_SIZE" } do
    if is(name) then b:u64() end
  end
  if is "AUX" then b:take(b:u64()) end
end

local function trailer_size(a)
  local size = 0
  for _, name in ipairs { "TID", "TIME", "ID", "STREAM_ID", "CPU", "IDENTIFIER" } do
    if a.trailer and a.sample_type & SAMPLE[name] ~= 0 then size = size + 8 end
  end
  return size
end

local function trailer(b, a)
  if not a.trailer then return end
  for _, name in ipairs { "TID", "TIME", "ID", "STREAM_ID", "CPU", "IDENTIFIER" } do
    if a.sample_type & SAMPLE[name] ~= 0 then
      if name == "TID" or name == "CPU" then pair(b) else b:u64() end
    end
  end
end

local function mapping(b)
  pair(b)
  b:times(3, b.u64)
end

local function birth(b)
  b:times(4, b.u32)
  b:u64()
end

local function three(b) b:times(3, b.u64) end

local BUILD_ID = 1 << 14 -- PERF_RECORD_MISC_MMAP_BUILD_ID

-- Each up to the trailer; the rest of the body is text.
local bodies = {
  [1] = mapping,
  [2] = function(b) b:times(2, b.u64) end, -- LOST
  [3] = pair, -- COMM
  [4] = birth, [5] = three, [6] = three, [7] = birth,
  [8] = function(b, a) -- READ
    pair(b)
    read_values(b, a.read_format)
  end,
  [10] = function(b, _, _, misc) -- MMAP2
    mapping(b)
    if misc & BUILD_ID ~= 0 then
      b:take(2)
      b:u16()
      b:take(20)
    else
      pair(b)
      b:times(2, b.u64)
    end
    pair(b)
  end,
  [11] = three, -- AUX
  [12] = pair, -- ITRACE_START
  [13] = function(b) b:u64() end, -- LOST_SAMPLES
  [14] = function() end, -- SWITCH
  [15] = pair, -- SWITCH_CPU_WIDE
  [16] = function(b) -- NAMESPACES
    pair(b)
    b:times(2 * b:u64(), b.u64)
  end,
  [17] = function(b) -- KSYMBOL
    b:u64()
    b:u32()
    b:times(2, b.u16)
  end,
  [18] = function(b) -- BPF_EVENT
    b:times(2, b.u16)
    b:u32()
  end,
  [19] = function(b) b:u64() end, -- CGROUP
  [20] = function(b) -- TEXT_POKE
    b:u64()
    b:times(2, b.u16)
  end,
  [21] = function(b) b:u64() end, -- AUX_OUTPUT_HW_ID
  [22] = function(b, _, kind) -- CALLCHAIN_DEFERRED
    b:u64()
    callchain(b, kind)
  end,
}

-- ---- records of tools ----

local function cpu_map(b)
  local kind = b:u16()
  if kind == 0 then return b:times(b:u16(), b.u16) end
  if kind == 2 then
    b:take(2)
    return b:times(2, b.u16)
  end
  local nr, size = b:u16(), b:u16()
  if size == 8 then b:take(4) end
  b:times(nr, size == 8 and b.u64 or b.u32)
end

local feature, tracing_data -- below

local users = {
  [65] = function(b) b:u64() end, -- EVENT_TYPE { u64 id; char name[64] }
  [66] = function(b) b:u32() end, -- TRACING_DATA
  [67] = function(b) b:u32() end, -- BUILD_ID { pid; u8 build_id[24]; filename }
  [68] = function() end,
  [69] = Bytes.words, -- ID_INDEX
  [70] = function(b) -- AUXTRACE_INFO
    pair(b)
    b:words()
  end,
  [71] = function(b) -- AUXTRACE
    b:times(3, b.u64)
    b:times(4, b.u32)
  end,
  [72] = function(b) -- AUXTRACE_ERROR { type, code, cpu, pid, tid, fmt; u64 ip, time; char msg[64] }
    b:times(6, b.u32)
    b:times(2, b.u64)
  end,
  [73] = function(b) -- THREAD_MAP
    for _ = 1, b:u64() do
      b:u64()
      b:take(16)
    end
  end,
  [74] = cpu_map,
  [75] = Bytes.words, -- STAT_CONFIG
  [76] = function(b) -- STAT
    b:u64()
    pair(b)
    three(b)
  end,
  [77] = Bytes.words, -- STAT_ROUND
  [78] = function(b) -- EVENT_UPDATE: unit, scale, name, cpus
    local what = b:u64()
    b:u64()
    if what == 1 then b:u64() elseif what == 3 then cpu_map(b) end
  end,
  [79] = function(b) -- TIME_CONV
    three(b)
    if b:left() >= 16 then b:times(2, b.u64) end
  end,
  [82] = function() end,
}

-- ---- features ----

local function strings(b) b:times(b:u32(), b.string) end

local function pairs_of_strings(b) b:times(2 * b:u32(), b.string) end

local features = {
  [2] = function(b, of) -- BUILD_ID: records without a type
    while b:left() >= 8 do
      b:u32()
      b:u16()
      local size = b:u16()
      b:part(size - 8, function(inner)
        inner:u32()
        inner:rest()
      end)
      of.build_ids = (of.build_ids or 0) + 1
    end
  end,
  [3] = Bytes.string, [4] = Bytes.string, [5] = Bytes.string, [8] = Bytes.string, [9] = Bytes.string,
  [6] = function(b, of) -- ARCH
    local at = #b.out
    b:string()
    if of.kind.arch then b.out[at + 2] = of.kind.arch .. ("\0"):rep(#b.out[at + 2] - #of.kind.arch) end
  end,
  [7] = function(b, of) -- NRCPUS
    of.nrcpus = b:u32()
    b:u32()
  end,
  [10] = Bytes.words, [11] = strings,
  [12] = function(b, of) -- EVENT_DESC
    local nr, size = b:u32(), b:u32()
    for _ = 1, nr do
      attr(b, size, of.kind)
      local ids = b:u32()
      b:string()
      b:times(ids, b.u64)
    end
  end,
  [13] = function(b, of) -- CPU_TOPOLOGY
    strings(b)
    strings(b)
    local nr = of.nrcpus or 0
    if b:left() < 8 * nr then return end
    b:times(nr, pair)
    if b:left() < 4 then return end
    strings(b)
    b:times(nr, b.u32)
  end,
  [14] = function(b) -- NUMA_TOPOLOGY
    for _ = 1, b:u32() do
      b:u32()
      b:times(2, b.u64)
      b:string()
    end
  end,
  [16] = function(b) -- PMU_MAPPINGS
    for _ = 1, b:u32() do
      b:u32()
      b:string()
    end
  end,
  [17] = function(b) -- GROUP_DESC
    for _ = 1, b:u32() do
      b:string()
      pair(b)
    end
  end,
  [18] = Bytes.words, -- AUXTRACE
  [20] = function(b) -- CACHE
    b:u32()
    for _ = 1, b:u32() do
      b:times(4, b.u32)
      b:times(3, b.string)
    end
  end,
  [21] = Bytes.words, [22] = Bytes.words, [23] = Bytes.words, [24] = Bytes.words,
  [25] = function(b) -- BPF_PROG_INFO
    for _ = 1, b:u32() do
      local info, data = b:u32(), b:u32()
      b:u64()
      b:take(info + data)
    end
  end,
  [26] = function(b) -- BPF_BTF
    for _ = 1, b:u32() do
      b:u32()
      b:take(b:u32())
    end
  end,
  [27] = function(b) b:times(5, b.u32) end, [28] = pairs_of_strings,
  [29] = function(b) -- CLOCK_DATA
    pair(b)
    b:times(2, b.u64)
  end,
  [30] = pairs_of_strings,
  [31] = function(b) -- PMU_CAPS
    for _ = 1, b:u32() do
      pairs_of_strings(b)
      b:string()
    end
  end,
}

-- The width of the swapped numbers in a field: a number, a text or an array.
local function field_of(line)
  local text, offset, size, signed = line:match("field:(.-);%s*offset:(%d+);%s*size:(%d+);%s*signed:(%d)")
  if not text then return end
  local f = { offset = tonumber(offset), size = tonumber(size), signed = signed }
  local element = text:match("__data_loc (.-)%[%]") or text:match("__rel_loc (.-)%[%]")
  local nr = tonumber(text:match("%[(%d+)%]"))
  f.width = f.size
  if element then
    f.dynamic, f.width = true, 4
    f.element = element:find "char" and 1 or element:find "u8" and 1 or element:find "int" and 4 or 8
  elseif nr and nr > 0 then
    f.width = f.size // nr
  elseif text:find "%[" then
    f.width = 1
  end
  return f
end

local function format_of(text, formats)
  local id = tonumber(text:match("\nID: (%d+)"))
  if not id then return end
  formats[id] = {}
  for line in text:gmatch("[^\n]+") do
    formats[id][#formats[id] + 1] = field_of(line)
  end
end

function tracing_data(b, of)
  local function sized() return b:take(b:u64()) end
  b:take(10)
  local version = b:zero()
  b:u8(of.kind.endian)
  b:u8(of.kind.long_size)
  b:u32()
  for _ = 1, 2 do -- header_page, header_event
    b:zero()
    sized()
  end
  for _ = 1, b:u32() do format_of(sized(), of.formats) end
  for _ = 1, b:u32() do
    b:zero()
    for _ = 1, b:u32() do format_of(sized(), of.formats) end
  end
  b:take(b:u32()) -- kallsyms
  b:take(b:u32()) -- printk
  if tonumber(version:sub(1, -2)) >= 0.6 then sized() end
  b:rest() -- padding
end

features[1] = tracing_data

function feature(b, id, of)
  if features[id] then features[id](b, of) end
  b:rest()
end

-- ---- records ----

local function add_event(of, a, ids)
  of.events[#of.events + 1] = a
  for _, id in ipairs(ids) do of.ids[id] = of.ids[id] or a end
end

-- Returns a record's event: by its identifier if the events' layouts differ.
local function event_of(of, b, number)
  local first = of.events[1]
  if #of.events == 1 then return first end
  for _, a in ipairs(of.events) do
    local alike = a.sample_type == first.sample_type and a.read_format == first.read_format
      and a.branch_sample_type == first.branch_sample_type
    if not alike and a.sample_type & SAMPLE.IDENTIFIER == 0 then error "events that nothing tells apart" end
  end
  local a = first
  local at = 0
  if first.sample_type & SAMPLE.IDENTIFIER == 0 then
    for _, name in ipairs { "IP", "TID", "TIME", "ADDR" } do
      at = at + (first.sample_type & SAMPLE[name] ~= 0 and 8 or 0)
    end
    if first.sample_type & SAMPLE.ID == 0 then return first end
  end
  if number == 9 then
    a = of.ids[string.unpack("<i8", b.text, b.pos + at)]
  elseif first.trailer and first.sample_type & SAMPLE.IDENTIFIER ~= 0 and b:left() >= 8 then
    a = of.ids[string.unpack("<i8", b.text, b.stop - 7)] or first
  end
  return assert(a, "a sample of no event")
end

local function kernel_record(b, of, number, misc)
  local a = event_of(of, b, number)
  if number == 9 then
    sample(b, a, of.kind, of.formats)
    return b:rest()
  end
  local stop = b.stop - trailer_size(a)
  b:part(stop - b.pos + 1, function(inner)
    assert(bodies[number], number)(inner, a, of.kind, misc)
    inner:rest()
  end)
  trailer(b, a)
end

local function header_attr(b, of)
  local size = string.unpack("<I4", b.text, b.pos + 4)
  local a, ids = attr(b, size == 0 and 64 or size, of.kind), {}
  while b:left() >= 8 do ids[#ids + 1] = b:u64() end
  add_event(of, a, ids)
end

local records

-- Converts the part of the stream in each COMPRESSED record from here on. The blocks must be
-- stored raw (RFC 8878, 3.1.1), which needs no decompressor.
local function repacked(b, of)
  local parts, at = {}, b.pos
  while at + 7 <= b.stop do
    local number, _, size = string.unpack("<I4I2I2", b.text, at)
    if number == 81 then
      parts[#parts + 1] = b.text:sub(at + 8, at + size - 1)
    elseif number == 83 then
      parts[#parts + 1] = b.text:sub(at + 16, at + 15 + string.unpack("<i8", b.text, at + 8))
    end
    local behind = number == 66 and "<I4" or number == 71 and "<i8"
    at = at + size + (behind and string.unpack(behind, b.text, at + 8) or 0)
  end
  local stream, blocks, inner = table.concat(parts), {}, {}
  at = 1
  while at < #stream do
    local head = #blocks == 0 and 6 or 0 -- a frame header with only a window size
    local block = string.unpack("<I3", stream, at + head)
    assert(block >> 1 & 3 == 0, "a block that is packed")
    blocks[#blocks + 1] = { stream:sub(at, at + head + 2), block >> 3 }
    inner[#inner + 1] = stream:sub(at + head + 3, at + head + 2 + (block >> 3))
    at = at + head + 3 + (block >> 3)
  end
  local turned, out = bytes_of(table.concat(inner), nil, nil, b.order == ">"), {}
  records(turned, of)
  local bytes = turned:result()
  at = 1
  for i, block in ipairs(blocks) do
    out[i] = block[1] .. bytes:sub(at, at + block[2] - 1)
    at = at + block[2]
  end
  stream, at = table.concat(out), 1
  for i, part in ipairs(parts) do
    parts[i] = stream:sub(at, at + #part - 1)
    at = at + #part
  end
  return parts
end

local function compressed(b, number, of)
  if number == 83 then b:u64() end
  local part = table.remove(of.parts, 1)
  b:take(#part)
  b.out[#b.out] = part
  b:rest()
end

function records(b, of)
  while b:left() >= 8 do
    local type = string.unpack("<I4", b.text, b.pos)
    if (type == 81 or type == 83) and not of.parts then of.parts = repacked(b, of) end
    local number, misc, size = b:u32(), b:u16(), b:u16()
    local length
    b:part(size - 8, function(inner)
      if number == 66 then length = string.unpack("<I4", inner.text, inner.pos)
      elseif number == 71 then length = string.unpack("<i8", inner.text, inner.pos)
      end
      if number < 64 then
        kernel_record(inner, of, number, misc)
      elseif number == 64 then
        header_attr(inner, of)
      elseif number == 80 then
        feature(inner, inner:u64(), of)
      elseif number == 81 or number == 83 then
        compressed(inner, number, of)
      else
        if users[number] then users[number](inner) end
        inner:rest()
      end
    end)
    if number == 66 then b:part(length, function(inner) tracing_data(inner, of) end) end
    if number == 71 then b:take(length) end
  end
  b:rest()
end

-- ---- the file ----

local function words_at(text, at, n) return string.unpack("<" .. ("i8"):rep(n), text, at + 1) end

-- Sections of the file, each converted by its f; the bytes between them stay.
local function in_places(text, places, big)
  table.sort(places, function(x, y) return x[1] < y[1] end)
  local out, at = {}, 0
  for _, place in ipairs(places) do
    local from, size, f = table.unpack(place)
    if size > 0 then
      assert(from >= at, "places that overlap")
      local inner = bytes_of(text, from + 1, from + size, big)
      f(inner)
      assert(inner:left() == 0, "bytes that are left")
      out[#out + 1] = text:sub(at + 1, from) .. inner:result()
      at = from + size
    end
  end
  return table.concat(out) .. text:sub(at + 1)
end

-- Ids are read before their events.
local function file_places(text, of)
  local _, attr_size, attrs, attrs_size, data, data_size, types, types_size = words_at(text, 8, 8)
  local places = { { 8, 64, Bytes.words }, { 72, 32, function(b) -- the set of features is made of longs
    b:times(of.kind.narrow and 8 or 4, of.kind.narrow and b.u32 or b.u64)
  end } }
  for at = attrs, attrs + attrs_size - attr_size, attr_size do
    local ids_at, ids_size = words_at(text, at + attr_size - 16, 2)
    local ids = { words_at(text, ids_at, ids_size // 8) }
    ids[#ids] = nil -- where unpack stopped
    places[#places + 1] = { at, attr_size, function(b)
      attr(b, attr_size - 16, of.kind)
      b:words()
    end }
    if ids_size > 0 and not of.seen[ids_at] then
      of.seen[ids_at] = true
      places[#places + 1] = { ids_at, ids_size, Bytes.words }
    end
    add_event(of, attr(bytes_of(text, at + 1, at + attr_size - 16), attr_size - 16, of.kind), ids)
  end
  places[#places + 1] = { types, types_size, function(b)
    while b:left() >= 72 do
      b:u64()
      b:take(64)
    end
  end }
  local entry = data + data_size
  for id = 0, 255 do
    if text:byte(72 + id // 8 + 1) >> id % 8 & 1 == 1 then
      local from, size = words_at(text, entry, 2)
      local convert = function(b) feature(b, id, of) end
      places[#places + 1] = { entry, 16, Bytes.words }
      places[#places + 1] = { from, size, convert }
      -- features that other features depend on come first
      if id == 1 or id == 7 then convert(bytes_of(text, from + 1, from + size)) end
      entry = entry + 16
    end
  end
  places[#places + 1] = { data, data_size, function(b) records(b, of) end }
  return places
end

local MAGIC = { PERFILE2 = "2ELIFREP", PERFFILE = "PERFFILE" }

local function transformed(text, opts)
  local of = { kind = new_kind(opts), events = {}, ids = {}, formats = {}, seen = {} }
  local big = opts.big or false
  local magic = big and MAGIC[text:sub(1, 8)] or text:sub(1, 8)
  if words_at(text, 8, 1) == 16 then
    local head, body = bytes_of(text, 9, 16, big), bytes_of(text, 17, #text, big)
    head:words()
    records(body, of)
    return magic .. head:result() .. body:result()
  end
  return magic .. in_places(text, file_places(text, of), big):sub(9)
end

--- Returns the recording as a big-endian 64-bit machine would write it.
function M.big_endian(text) return transformed(text, { big = true }) end

--- Returns the recording as a little-endian 32-bit machine would write it: i686.
function M.narrow(text) return transformed(text, { narrow = true }) end

--- Returns the recording as a big-endian 32-bit machine would write it; its arch stays i686.
function M.big_narrow(text) return transformed(text, { big = true, narrow = true }) end

return M
