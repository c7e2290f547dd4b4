--- Decodes the feature sections of a recording: facts about its recorder and its machine.
-- Source: tools/perf/util/header.c, write_*() and process_*(); numbers: header.h, enum HEADER_*.

local Bytes = require "perfev.perfdata.byte_reader"
local hex = require "perfev.base.hex"

local M = {}

-- Number of a section -> its name in f.header.
M.names = {
  [0] = "event_types", -- not a feature: the file header has its offset
  "tracing_data", "build_ids", "hostname", "osrelease", "version", "arch", "nrcpus", "cpudesc", "cpuid", "total_mem",
  "cmdline", "event_desc", "cpu_topology", "numa_topology", "branch_stack", "pmu_mappings", "group_desc", "auxtrace",
  "stat", "cache", "sample_time", "mem_topology", "clockid", "dir_format", "bpf_prog_info", "bpf_btf", "compressed",
  "cpu_pmu_caps", "clock_data", "hybrid_topology", "pmu_caps", "cpu_domain_info",
  -- simpleperf's own: system/extras/simpleperf/record_file.h
  [128] = "simpleperf_file", [129] = "simpleperf_meta_info", [130] = "simpleperf_debug_unwind",
  [131] = "simpleperf_debug_unwind_file", [132] = "simpleperf_file2",
}

local numbers = {}
for number, name in pairs(M.names) do numbers[name] = number end

--- Returns the number of a section by its name, or nil.
function M.number(name) return numbers[name] end

local function read_string(b) return b:string() end
local function read_flag() return true end
local function read_strings(b) return b:list(b:u32(), b.string) end

local ATTR_MIN = 64 -- PERF_ATTR_SIZE_VER0
local BLOCKS_MAX = 1 << 20 -- of memory: 128 TiB in blocks of 128 MiB

local BUILD_ID_SIZE = 1 << 15 -- PERF_RECORD_MISC_BUILD_ID_SIZE

-- config -> name
local function event_types(b)
  local out = {}
  while b:left() >= 72 do
    local config = b:u64()
    out[config] = b:text(64)
  end
  return out
end

local function build_ids(b)
  local out = {}
  while b:left() >= 8 do
    b:u32()
    local misc, size = b:u16(), b:u16()
    if size < 36 then error(("byte %d: a build id of %d bytes"):format(b.pos, size), 0) end
    local pid, id = b:s32(), b:take(24)
    local length = misc & BUILD_ID_SIZE ~= 0 and id:byte(21) or 20
    out[#out + 1] = { pid = pid, misc = misc, build_id = hex.of(id:sub(1, math.min(length, 20))),
                      filename = b:text(size - 36) }
  end
  return out
end

local function event_desc(b)
  local nr, size = b:u32(), b:u32()
  if nr > 0 and size < ATTR_MIN then error(("byte %d: attrs of %d bytes"):format(b.pos, size), 0) end
  return b:list(nr, function()
    local attr, ids = b:take(size), b:u32()
    return { attr = attr, name = b:string(), ids = b:list(ids, b.u64) }
  end)
end

-- Older recorders wrote no core and socket ids per CPU, or no dies.
local function cpu_topology(b, header)
  local out = { cores = read_strings(b), threads = read_strings(b), cpus = {} }
  local nrcpus = header.nrcpus
  local nr = nrcpus and nrcpus.available or 0
  if nr > 0 and b:left() >= 8 * nr then
    out.cpus = b:list(nr, function() return { core = b:s32(), socket = b:s32() } end)
    if b:left() >= 4 then
      out.dies = read_strings(b)
      for _, cpu in ipairs(out.cpus) do cpu.die = b:s32() end
    end
  end
  return out
end

local function numa_topology(b)
  return b:list(b:u32(), function()
    return { node = b:u32(), mem_total = b:u64(), mem_free = b:u64(), cpus = b:string() }
  end)
end

local function pmu_mappings(b)
  local out = {}
  for _ = 1, b:u32() do
    local type = b:u32()
    out[type] = b:string()
  end
  return out
end

local function group_desc(b)
  return b:list(b:u32(), function() return { name = b:string(), leader = b:u32(), members = b:u32() } end)
end

local function cache(b)
  b:u32() -- version
  return b:list(b:u32(), function()
    return { level = b:u32(), line_size = b:u32(), sets = b:u32(), ways = b:u32(),
             type = b:string(), size = b:string(), map = b:string() }
  end)
end

local function mem_topology(b)
  b:u64() -- version
  local block_size, left = b:u64(), BLOCKS_MAX
  local nodes = b:list(b:u64(), function()
    local node, size, bits = b:u64(), b:u64(), b:u64()
    if bits < 0 or bits > left then error(("byte %d: a set of %u blocks"):format(b.pos, bits), 0) end
    left = left - bits
    local blocks = {}
    for word = 0, (bits + 63) // 64 - 1 do
      local set = b:u64()
      for bit = 0, 63 do
        if set >> bit & 1 == 1 then blocks[#blocks + 1] = 64 * word + bit end
      end
    end
    return { node = node, size = size, blocks = blocks }
  end)
  return { block_size = block_size, nodes = nodes }
end

local function caps(b)
  local out = {}
  for _ = 1, b:u32() do
    local name = b:string()
    out[name] = b:string()
  end
  return out
end

-- Only PMUs with capabilities are in the section.
local function pmu_caps(b)
  return b:list(b:u32(), function()
    local at, out = b.pos, caps(b)
    if not next(out) then error(("byte %d: a PMU without capabilities"):format(at), 0) end
    return { caps = out, pmu = b:string() }
  end)
end

local function bpf_prog_info(b)
  return b:list(b:u32(), function()
    local info, data, arrays = b:u32(), b:u32(), b:u64()
    return { info = b:take(info), data = b:take(data), arrays = arrays }
  end)
end

local function bpf_btf(b)
  return b:list(b:u32(), function()
    local id = b:u32()
    return { id = id, data = b:take(b:u32()) }
  end)
end

local function cpu_domain_info(b)
  if b:left() == 0 then return {} end -- up to 6.18 that number ends the features of a pipe
  local out = { schedstat_version = b:u32(), max_domains = b:u32(), cpus = {} }
  while b:left() >= 8 do
    local cpu = b:u32()
    out.cpus[cpu] = b:list(b:u32(), function()
      return { domain = b:u32(), name = out.schedstat_version >= 17 and b:string() or nil, mask = b:string(),
               cpus = b:string() }
    end)
  end
  return out
end

local function meta_info(b)
  local out = {}
  while b:left() > 0 do
    local key = b:zero()
    out[key] = b:zero()
  end
  return out
end

local decoders = {
  event_types = event_types, build_ids = build_ids,
  hostname = read_string, osrelease = read_string, version = read_string,
  arch = read_string, cpudesc = read_string, cpuid = read_string,
  nrcpus = function(b) return { available = b:u32(), online = b:u32() } end,
  total_mem = function(b) return b:u64() end, -- kB
  cmdline = read_strings, event_desc = event_desc, cpu_topology = cpu_topology, numa_topology = numa_topology,
  branch_stack = read_flag, stat = read_flag, pmu_mappings = pmu_mappings, group_desc = group_desc, cache = cache,
  sample_time = function(b) return { first = b:u64(), last = b:u64() } end,
  mem_topology = mem_topology, clockid = function(b) return b:u64() end, -- its resolution in ns
  dir_format = function(b) return b:u64() end,
  bpf_prog_info = bpf_prog_info, bpf_btf = bpf_btf,
  compressed = function(b)
    return { version = b:u32(), type = b:u32(), level = b:u32(), ratio = b:u32(), mmap_len = b:u32() }
  end,
  cpu_pmu_caps = caps, pmu_caps = pmu_caps,
  clock_data = function(b)
    return { version = b:u32(), clockid = b:u32(), wall = b:u64(), clock = b:u64() }
  end,
  hybrid_topology = function(b)
    return b:list(b:u32(), function() return { pmu = b:string(), cpus = b:string() } end)
  end,
  cpu_domain_info = cpu_domain_info, simpleperf_meta_info = meta_info,
}

--- Decodes a section; an unknown one is returned as bytes.
-- @tparam integer number
-- @tparam string bytes
-- @tparam boolean big     the recorder's byte order
-- @tparam table header    the other sections, decoded on first use
-- @treturn[1] value
-- @treturn[2] nil
-- @treturn[2] string  the cause, with the byte offset in the section
function M.decode(number, bytes, big, header)
  local decode = decoders[M.names[number]]
  if not decode then return bytes end
  local ok, value = pcall(decode, Bytes.new(bytes, big), header)
  if ok then return value end
  return nil, ("%s: %s"):format(M.names[number], value)
end

return M
