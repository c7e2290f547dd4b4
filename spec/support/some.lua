--- some.lua - makes random attrs and records for spec/support/wire.lua.
--
-- It also makes the decoder's expected output, with its own list of the names.

local registers = require "perfev.record.registers"
local wire = require "spec.support.wire"

local M = {}

local SAMPLE = {}
for name, bit in pairs(wire.sample_bits) do SAMPLE[name] = 1 << bit end
local FORMAT_GROUP = 8
local HW_INDEX, COUNTERS = 1 << 17, 1 << 19

local random = math.random

local function u64() return random(0) end
local function s32() return random(-1, 1 << 22) end
local function u32() return random(0, 0xffffffff) end
local function u16() return random(0, 0xffff) end

M.u64, M.s32 = u64, s32

local function bytes(len)
  local out = {}
  for i = 1, len do out[i] = string.char(random(0, 255)) end
  return table.concat(out)
end

local function letters(most)
  local out = {}
  for i = 1, random(0, most) do out[i] = string.char(random(1, 255)) end
  return table.concat(out)
end

local function several(most, f)
  local list = {}
  for i = 1, random(0, most) do list[i] = f() end
  return list
end

local function some_read(format)
  local function one()
    return { value = u64(), id = format & 4 ~= 0 and u64() or nil, lost = format & 16 ~= 0 and u64() or nil }
  end
  local read = format & FORMAT_GROUP == 0 and one() or { values = several(5, one) }
  read.time_enabled = format & 1 ~= 0 and u64() or nil
  read.time_running = format & 2 ~= 0 and u64() or nil
  return read
end

local function some_registers(mask)
  local regs = { abi = random(0, 2) }
  for bit = 0, 63 do
    if regs.abi ~= 0 and mask >> bit & 1 == 1 then regs[bit] = u64() end
  end
  return regs
end

local function some_branches(attr)
  if random(4) == 1 then return nil end
  local list = several(4, function()
    return {
      from = u64(), to = u64(), mispred = random(2) == 1, predicted = random(2) == 1, in_tx = random(2) == 1,
      abort = random(2) == 1, cycles = u16(), type = random(0, 15), spec = random(0, 3), new_type = random(0, 15),
      priv = random(0, 7), counters = attr.branch_sample_type & COUNTERS ~= 0 and u64() or nil,
    }
  end)
  -- An empty list may look like an absent one, so that lists here are never empty.
  if #list == 0 then return nil end
  if attr.branch_sample_type & HW_INDEX ~= 0 then list.hw_idx = random(0, 1 << 30) end
  return list
end

-- Fields of a sample, by their sample_type bit; tid has two.
local makers = {
  ip = u64, time = u64, addr = u64, id = u64, stream_id = u64, period = u64, weight = u64, weight_struct = u64,
  data_src = u64, transaction = u64, phys_addr = u64, cgroup = u64, data_page_size = u64, code_page_size = u64,
  cpu = function() return random(0, 4096) end,
  callchain = function() return several(12, u64) end,
  raw = function() return wire.raw_padded(bytes(random(1, 40))) end,
  stack_user = function() return bytes(random(0, 5) * random(0, 17)) end,
  aux = function() return bytes(8 * random(0, 4)) end,
  branch_stack = some_branches,
  read = function(attr) return some_read(attr.read_format) end,
  regs_user = function(attr) return some_registers(attr.sample_regs_user) end,
  regs_intr = function(attr) return some_registers(attr.sample_regs_intr) end,
}

-- In a fixed order: the same seed makes the same sample.
local maker_names = {}
for name in pairs(makers) do maker_names[#maker_names + 1] = name end
table.sort(maker_names)

--- Reduces a number of random cases: on slow emulated machines FEWER=40 in the environment divides it by 40.
function M.times(n) return math.ceil(n / (tonumber(os.getenv "FEWER") or 1)) end

--- Makes random fields of a sample.
function M.sample(attr)
  local f = { misc = random(0, 7) | (random(2) == 1 and wire.misc.exact_ip or 0) }
  for _, name in ipairs(maker_names) do
    local make = makers[name]
    if wire.has(attr, name) then f[name == "weight_struct" and "weight" or name] = make(attr) end
  end
  if wire.has(attr, "tid") then f.pid, f.tid = s32(), s32() end
  return f
end

--- Fields of the other records, by type.
M.others = {
  mmap = function()
    return { pid = s32(), tid = s32(), addr = u64(), len = u64(), pgoff = u64(), filename = letters(200) }
  end,
  lost = function() return { id = u64(), lost = u64() } end,
  comm = function() return { pid = s32(), tid = s32(), comm = letters(15) } end,
  exit = function() return { pid = s32(), ppid = s32(), tid = s32(), ptid = s32(), time = u64() } end,
  throttle = function() return { time = u64(), id = u64(), stream_id = u64() } end,
  read = function(attr) return { pid = s32(), tid = s32(), read = some_read(attr.read_format) } end,
  mmap2 = function(attr)
    local f = { pid = s32(), tid = s32(), addr = u64(), len = u64(), pgoff = u64(), prot = u32(), flags = u32(),
                filename = letters(200), misc = random(0, 5) }
    if attr.build_id and random(2) == 1 then
      f.build_id, f.misc = bytes(random(0, 20)), f.misc | wire.misc.build_id
    else
      f.maj, f.min, f.ino, f.ino_generation = u32(), u32(), u64(), u64()
      -- 4.9: the bit may be set by another event's record
      if not attr.build_id and random(2) == 1 then f.misc = f.misc | wire.misc.build_id end
    end
    return f
  end,
  aux = function() return { aux_offset = u64(), aux_size = u64(), flags = u64() } end,
  itrace_start = function() return { pid = s32(), tid = s32() } end,
  lost_samples = function() return { lost = u64() } end,
  switch = function() return {} end,
  switch_cpu_wide = function() return { next_prev_pid = s32(), next_prev_tid = s32() } end,
  namespaces = function()
    return { pid = s32(), tid = s32(), namespaces = several(9, function() return { dev = u64(), inode = u64() } end) }
  end,
  ksymbol = function()
    return { addr = u64(), len = u32(), ksym_type = u16(), flags = u16(), name = letters(60) }
  end,
  bpf_event = function() return { bpf_type = u16(), flags = u16(), id = u32(), tag = bytes(8) } end,
  cgroup = function() return { id = u64(), path = letters(100) } end,
  text_poke = function()
    return { addr = u64(), old_bytes = bytes(random(0, 20)), new_bytes = bytes(random(0, 20)) }
  end,
  aux_output_hw_id = function() return { hw_id = u64() } end,
  callchain_deferred = function() return { cookie = u64(), callchain = several(20, u64) } end,
}
M.others.fork, M.others.unthrottle = M.others.exit, M.others.throttle

--- The names of these types, sorted.
M.type_names = {}
for name in pairs(M.others) do M.type_names[#M.type_names + 1] = name end
table.sort(M.type_names)

local NAMESPACES = { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" }

local BRANCH_TYPES = { [0] = "unknown", "cond", "uncond", "ind", "call", "ind_call", "ret", "syscall", "sysret",
                       "cond_call", "cond_ret", "eret", "irq", "serror", "no_tx", "extend_abi" }
local BRANCH_SPECS = { [0] = "na", "wrong_path", "non_spec_correct_path", "correct_path" }
local NEW_TYPES = { [0] = "fault_algn", "fault_data", "fault_inst", "arch_1", "arch_2", "arch_3", "arch_4", "arch_5" }
local PRIVS = { [0] = "unknown", "user", "kernel", "hv" }

local function shown_branch(b)
  local out = {}
  for key, value in pairs(b) do out[key] = value end
  out.raw = wire.branch_flags(b)
  out.type, out.spec, out.priv = BRANCH_TYPES[b.type], BRANCH_SPECS[b.spec], PRIVS[b.priv] or b.priv
  out.new_type = b.type == 15 and (NEW_TYPES[b.new_type] or b.new_type) or nil
  out.reserved = nil
  return out
end

-- The names and values of a word: { name, shift, width, "flag" | "number" | { names from 0 } [, a set] }.
local WORDS = {
  data_src = {
    { "op", 0, 5, { [0] = "na", "load", "store", "pfetch", "exec" }, true },
    { "lvl", 5, 14, { [0] = "na", "hit", "miss", "l1", "lfb", "l2", "l3", "loc_ram", "rem_ram1", "rem_ram2",
                      "rem_cce1", "rem_cce2", "io", "unc" }, true },
    { "snoop", 19, 5, { [0] = "na", "none", "hit", "miss", "hitm" }, true },
    { "lock", 24, 2, { [0] = "na", "locked" }, true },
    { "dtlb", 26, 7, { [0] = "na", "hit", "miss", "l1", "l2", "wk", "os" }, true },
    { "lvl_num", 33, 4, { "l1", "l2", "l3", "l4", "l2_mhb", "msc", "l0", "unc", "cxl", "io", "any_cache", "lfb",
                          "ram", "pmem", "na" } },
    { "remote", 37, 1, "flag" },
    { "snoopx", 38, 2, { [0] = "fwd", "peer" }, true },
    { "blk", 40, 3, { [0] = "na", "data", "addr" }, true },
    { "hops", 43, 3, { "same_node", "same_socket", "same_board", "remote_board" } },
    { "region", 46, 5, "number" },
  },
  transaction = {
    { "elision", 0, 1, "flag" }, { "transaction", 1, 1, "flag" }, { "sync", 2, 1, "flag" }, { "async", 3, 1, "flag" },
    { "retry", 4, 1, "flag" }, { "conflict", 5, 1, "flag" }, { "capacity_write", 6, 1, "flag" },
    { "capacity_read", 7, 1, "flag" }, { "abort", 32, 32, "number" },
  },
  weight = { { "var1_dw", 0, 32, "number" }, { "var2_w", 32, 16, "number" }, { "var3_w", 48, 16, "number" } },
}

local function shown_word(name, word)
  local out = { raw = word }
  for _, field in ipairs(WORDS[name]) do
    local v, names = word >> field[2] & ((1 << field[3]) - 1), field[4]
    if names == "flag" then
      out[field[1]] = v == 1
    elseif names == "number" then
      out[field[1]] = v
    elseif field[5] then
      local set = {}
      for bit, bit_name in pairs(names) do set[bit_name] = v >> bit & 1 == 1 or nil end
      out[field[1]] = set
    else
      out[field[1]] = names[v] or v
    end
  end
  return out
end

local function shown_registers(regs, names)
  local out = { abi = regs.abi }
  for bit = 0, 63 do out[names[bit] or bit] = regs[bit] end
  return out
end

--- Returns the decoder's expected value of a written field; names: names of the registers.
function M.shown(name, value, attr, names)
  if value == nil then return nil end
  if name == "branch_stack" then
    local out = { hw_idx = attr.branch_sample_type & HW_INDEX ~= 0 and (value.hw_idx or -1) or nil }
    for i, b in ipairs(value) do out[i] = shown_branch(b) end
    return out
  end
  if name == "regs_user" or name == "regs_intr" then return shown_registers(value, names or registers.x86) end
  if name == "data_src" or name == "transaction" then return shown_word(name, value) end
  if name == "weight" and wire.has(attr, "weight_struct") then return shown_word(name, value) end
  if name == "namespaces" then
    local by_name = {}
    for i, ns in ipairs(value) do by_name[NAMESPACES[i] or i] = ns end
    return by_name
  end
  return value
end

--- Makes a random attr: fields by name; registers: allowed in its masks (default: all).
function M.attr(registers_mask)
  local may = registers_mask or -1
  local sample_type = random(0) & ((1 << 25) - 1) & ~SAMPLE.identifier
  if random(3) == 1 then sample_type = sample_type & random(0) end
  if sample_type & SAMPLE.weight ~= 0 then sample_type = sample_type & ~SAMPLE.weight_struct end
  return {
    sample_type = sample_type, read_format = random(0, 31), branch_sample_type = random(0) & ((1 << 20) - 1),
    sample_regs_user = random(0) & random(0) & may,
    sample_regs_intr = random(0) & random(0) & may, build_id = random(2) == 1,
    sample_stack_user = 64,
  }
end

return M
