--- wire.lua - encodes records as the kernel writes them: fields in, bytes out.
--
-- It is the inverse of the decoder under test and uses none of its layout tables: the
-- order is that of the kernel's writers, perf_output_sample() and its neighbours in
-- kernel/events/core.c. Fields have the kernel's names, as in a record view; an attr
-- is any object with sample_type, read_format and so on.

local M = {
  order = "=", -- the writer's byte order, as in string.pack
}

local function pack(format, ...)
  format = format:gsub("=", M.order)
  return string.pack(format, ...)
end

M.types = {
  mmap = 1, lost = 2, comm = 3, exit = 4, throttle = 5, unthrottle = 6, fork = 7, read = 8,
  sample = 9, mmap2 = 10, aux = 11, itrace_start = 12, lost_samples = 13, switch = 14,
  switch_cpu_wide = 15, namespaces = 16, ksymbol = 17, bpf_event = 18, cgroup = 19,
  text_poke = 20, aux_output_hw_id = 21, callchain_deferred = 22,
}

-- PERF_SAMPLE_*, by bit number.
M.sample_bits = {
  ip = 0, tid = 1, time = 2, addr = 3, read = 4, callchain = 5, id = 6, cpu = 7, period = 8,
  stream_id = 9, raw = 10, branch_stack = 11, regs_user = 12, stack_user = 13, weight = 14,
  data_src = 15, identifier = 16, transaction = 17, regs_intr = 18, phys_addr = 19, aux = 20,
  cgroup = 21, data_page_size = 22, code_page_size = 23, weight_struct = 24,
}
-- PERF_RECORD_MISC_*, by type where a bit means different things.
M.misc = {
  kernel = 1, user = 2, exact_ip = 0x4000, exec = 0x2000, mmap_data = 0x2000, out = 0x2000,
  preempt = 0x4000, build_id = 0x4000, timeout = 0x1000,
}

local TIME_ENABLED, TIME_RUNNING, FORMAT_ID, FORMAT_GROUP, FORMAT_LOST = 1, 2, 4, 8, 16
local HW_INDEX, COUNTERS = 1 << 17, 1 << 19

local function u64(v) return pack("=I8", v or 0) end

--- True if that bit of sample_type is set.
function M.has(attr, name)
  return attr.sample_type >> M.sample_bits[name] & 1 == 1
end

local function padded(text)
  return text .. ("\0"):rep(-#text % 8)
end

-- A string has a NUL, then zeros up to the next multiple of 8.
local function cstring(text)
  return padded(text .. "\0")
end

local function pair(a, b)
  return pack("=i4i4", a or 0, b or 0)
end

--- Encodes counter values as perf_output_read() and read(2) do.
function M.read_values(format, read)
  local times = (format & TIME_ENABLED ~= 0 and u64(read.time_enabled) or "")
    .. (format & TIME_RUNNING ~= 0 and u64(read.time_running) or "")
  local function tail(v)
    return (format & FORMAT_ID ~= 0 and u64(v.id) or "") .. (format & FORMAT_LOST ~= 0 and u64(v.lost) or "")
  end
  if format & FORMAT_GROUP == 0 then return u64(read.value) .. times .. tail(read) end
  local out = { u64(#read.values), times }
  for _, v in ipairs(read.values) do out[#out + 1] = u64(v.value) .. tail(v) end
  return table.concat(out)
end

local function list(values)
  local out = { u64(#values) }
  for _, v in ipairs(values) do out[#out + 1] = u64(v) end
  return table.concat(out)
end

local BRANCH = { -- struct perf_branch_entry: bit-fields and their widths
  { "mispred", 1 }, { "predicted", 1 }, { "in_tx", 1 }, { "abort", 1 }, { "cycles", 16 }, { "type", 4 },
  { "spec", 2 }, { "new_type", 4 }, { "priv", 3 }, { "reserved", 31 },
}

--- Returns the flag word of a branch. Big-endian compilers allocate from the highest bit.
function M.branch_flags(b, big)
  local word, shift = 0, 0
  for _, field in ipairs(BRANCH) do
    local name, width = field[1], field[2]
    local v = b[name] == true and 1 or b[name] or 0
    word = word | v << (big and 64 - shift - width or shift)
    shift = shift + width
  end
  return word
end

-- branches: { hw_idx =, {from =, to =, mispred = ...}... }; nil: no branches from the hardware.
local function branch_stack(attr, branches)
  if not branches then return u64(0) end
  local out, counters = { u64(#branches) }, {}
  if attr.branch_sample_type & HW_INDEX ~= 0 then out[2] = u64(branches.hw_idx or -1) end
  for _, b in ipairs(branches) do
    out[#out + 1] = u64(b.from) .. u64(b.to) .. u64(M.branch_flags(b, M.order == ">"))
    counters[#counters + 1] = u64(b.counters)
  end
  local has_counters = attr.branch_sample_type & COUNTERS ~= 0 and not branches.without_counters
  return table.concat(out) .. (has_counters and table.concat(counters) or "")
end

-- regs: { abi =, [bit] = value }; only abi if it is 0 (a kernel thread).
local function registers(mask, regs)
  local out = { u64(regs.abi) }
  for bit = 0, 63 do
    if regs.abi ~= 0 and mask >> bit & 1 == 1 then out[#out + 1] = u64(regs[bit]) end
  end
  return table.concat(out)
end

-- The valid part, in a field of stack_size bytes (default: the size of the part).
local function stack(f)
  local bytes = f.stack_user or ""
  local size = f.stack_size or (#bytes + 7) // 8 * 8
  if size == 0 then return u64(0) end
  return u64(size) .. bytes .. (f.stack_junk or "\xa5"):rep(size - #bytes) .. u64(#bytes)
end

-- raw: the kernel makes 4 + size a multiple of 8 by enlarging size, so the view has the padding too.
function M.raw_padded(bytes)
  return bytes .. ("\0"):rep(-(#bytes + 4) % 8)
end

-- perf_output_sample(): not in the order of the bits.
local writers = {
  { "identifier", function(f) return u64(f.identifier) end },
  { "ip", function(f) return u64(f.ip) end },
  { "tid", function(f) return pair(f.pid, f.tid) end },
  { "time", function(f) return u64(f.time) end },
  { "addr", function(f) return u64(f.addr) end },
  { "id", function(f) return u64(f.id) end },
  { "stream_id", function(f) return u64(f.stream_id) end },
  { "cpu", function(f) return pair(f.cpu, 0) end },
  { "period", function(f) return u64(f.period) end },
  { "read", function(f, attr) return M.read_values(attr.read_format, f.read or { values = {} }) end },
  { "callchain", function(f) return list(f.callchain or {}) end },
  { "raw", function(f) return pack("=s4", M.raw_padded(f.raw or "\0\0\0\0")) end },
  { "branch_stack", function(f, attr) return branch_stack(attr, f.branch_stack) end },
  { "regs_user", function(f, attr) return registers(attr.sample_regs_user, f.regs_user or { abi = 0 }) end },
  { "stack_user", stack },
  { "weight", function(f) return u64(f.weight) end },
  { "weight_struct", function(f) return u64(f.weight) end },
  { "data_src", function(f) return u64(f.data_src) end },
  { "transaction", function(f) return u64(f.transaction) end },
  { "regs_intr", function(f, attr) return registers(attr.sample_regs_intr, f.regs_intr or { abi = 0 }) end },
  { "phys_addr", function(f) return u64(f.phys_addr) end },
  { "cgroup", function(f) return u64(f.cgroup) end },
  { "data_page_size", function(f) return u64(f.data_page_size) end },
  { "code_page_size", function(f) return u64(f.code_page_size) end },
  { "aux", function(f) return u64(#(f.aux or "")) .. (f.aux or "") end },
}

local function mapping(f)
  return pair(f.pid, f.tid) .. u64(f.addr) .. u64(f.len) .. u64(f.pgoff)
end

local function birth(f)
  return pair(f.pid, f.ppid) .. pair(f.tid, f.ptid) .. u64(f.time)
end

local function throttle(f)
  return u64(f.time) .. u64(f.id) .. u64(f.stream_id)
end

-- Bodies of all other records, before the trailer.
local bodies = {
  mmap = function(f) return mapping(f) .. cstring(f.filename) end,
  lost = function(f) return u64(f.id) .. u64(f.lost) end,
  comm = function(f) return pair(f.pid, f.tid) .. cstring(f.comm) end,
  exit = birth, fork = birth, throttle = throttle, unthrottle = throttle,
  read = function(f, attr) return pair(f.pid, f.tid) .. M.read_values(attr.read_format, f.read) end,
  mmap2 = function(f)
    local middle = f.build_id and pack("=BxI2", #f.build_id, 0) .. f.build_id .. ("\0"):rep(20 - #f.build_id)
      or pack("=I4I4I8I8", f.maj, f.min, f.ino, f.ino_generation)
    return mapping(f) .. middle .. pack("=I4I4", f.prot, f.flags) .. cstring(f.filename)
  end,
  aux = function(f) return u64(f.aux_offset) .. u64(f.aux_size) .. u64(f.flags) end,
  itrace_start = function(f) return pair(f.pid, f.tid) end,
  lost_samples = function(f) return u64(f.lost) end,
  switch = function() return "" end,
  switch_cpu_wide = function(f) return pair(f.next_prev_pid, f.next_prev_tid) end,
  namespaces = function(f)
    local out = { pair(f.pid, f.tid), u64(#f.namespaces) }
    for _, ns in ipairs(f.namespaces) do out[#out + 1] = u64(ns.dev) .. u64(ns.inode) end
    return table.concat(out)
  end,
  ksymbol = function(f)
    return u64(f.addr) .. pack("=I4I2I2", f.len, f.ksym_type, f.flags) .. cstring(f.name)
  end,
  bpf_event = function(f) return pack("=I2I2I4c8", f.bpf_type, f.flags, f.id, f.tag) end,
  cgroup = function(f) return u64(f.id) .. cstring(f.path) end,
  text_poke = function(f)
    local bytes = f.old_bytes .. f.new_bytes
    return u64(f.addr) .. padded(pack("=I2I2", #f.old_bytes, #f.new_bytes) .. bytes)
  end,
  aux_output_hw_id = function(f) return u64(f.hw_id) end,
  callchain_deferred = function(f) return u64(f.cookie) .. list(f.callchain) end,
}

--- Returns the sample_id trailer of all records except samples (perf_event__output_id_sample()).
function M.trailer(attr, id)
  if not attr.sample_id_all then return "" end
  return (M.has(attr, "tid") and pair(id.pid, id.tid) or "")
    .. (M.has(attr, "time") and u64(id.time) or "")
    .. (M.has(attr, "id") and u64(id.id) or "")
    .. (M.has(attr, "stream_id") and u64(id.stream_id) or "")
    .. (M.has(attr, "cpu") and pair(id.cpu, 0) or "")
    .. (M.has(attr, "identifier") and u64(id.identifier) or "")
end

--- Returns a record with this body (and trailer).
function M.frame(number, misc, body)
  return pack("=I4I2I2", number, misc or 0, 8 + #body) .. body
end

--- Returns a record of that type: fields by the kernel's names, trailer values in f.sample_id.
function M.record(attr, type, f)
  if type == "sample" then
    local out = {}
    for _, writer in ipairs(writers) do
      if M.has(attr, writer[1]) then out[#out + 1] = writer[2](f, attr) end
    end
    return M.frame(9, f.misc, table.concat(out))
  end
  local body = bodies[type] and bodies[type](f, attr) or f.body
  return M.frame(M.types[type] or f.number, f.misc, body .. M.trailer(attr, f.sample_id or f))
end

--- "0100 0000…" -> bytes.
function M.bytes(hex)
  return (hex:gsub("%s", ""):gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end))
end

return M
