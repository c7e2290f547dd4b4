--- Encodes the feature sections of a recording: the inverse of perfev.perfdata.read_features.
-- Values have the form that f.header returns; the byte order is this machine's.
-- Source: tools/perf/util/header.c, write_*().

local features = require "perfev.perfdata.read_features"
local hex = require "perfev.base.hex"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local STRING_ALIGN = 64 -- NAME_ALIGN
local BUILD_ID_SIZE = 1 << 15 -- PERF_RECORD_MISC_BUILD_ID_SIZE: the length is stored
local BUILD_ID_ROOM, BUILD_ID_MAX = 24, 20

-- Pads with NULs, at least one, to a multiple of align.
local function padded(text, align)
  return text .. ("\0"):rep(align - #text % align)
end

-- Encodes a string up to its first NUL: length including padding, bytes.
local function text(value)
  local bytes = padded(value:match("^[^\0]*"), STRING_ALIGN)
  return string.pack("=I4", #bytes) .. bytes
end

local function u64(value) return string.pack("=i8", value) end

-- Encodes the number of values, then each value.
local function list(values, each)
  local out = { string.pack("=I4", #values) }
  for i, value in ipairs(values) do out[i + 1] = each(value) end
  return table.concat(out)
end

-- Encodes a table by name or number in the order of its keys.
local function map(values, each)
  local keys = sorted_keys(values)
  return list(keys, function(key) return each(key, values[key]) end)
end

local function strings(values) return list(values, text) end

--- Pads attrs to one size: the smallest that fits all, because a reader that is older than the size refuses the file
-- (read_attr()).
-- @tparam {string,...} attrs
-- @treturn {string,...}
-- @treturn integer       bytes of each
function M.attrs(attrs)
  local size, out = 0, {}
  for _, attr in ipairs(attrs) do size = math.max(size, #attr) end
  for i, attr in ipairs(attrs) do
    out[i] = attr:sub(1, 4) .. string.pack("=I4", size) .. attr:sub(9) .. ("\0"):rep(size - #attr)
  end
  return out, size
end

local function event_desc(events)
  local attrs = {}
  for i, event in ipairs(events) do attrs[i] = event.attr end
  local sized, size = M.attrs(attrs)
  local out = { string.pack("=I4I4", #events, size) }
  for i, event in ipairs(events) do
    out[#out + 1] = sized[i] .. string.pack("=I4", #event.ids)
    out[#out + 1] = text(event.name)
    for _, id in ipairs(event.ids) do out[#out + 1] = u64(id) end
  end
  return table.concat(out)
end

local function cpu_topology(topology)
  local out = { strings(topology.cores), strings(topology.threads) }
  for _, cpu in ipairs(topology.cpus) do out[#out + 1] = string.pack("=i4i4", cpu.core, cpu.socket) end
  if topology.dies then
    out[#out + 1] = strings(topology.dies)
    for _, cpu in ipairs(topology.cpus) do out[#out + 1] = string.pack("=i4", cpu.die) end
  end
  return table.concat(out)
end

-- Encodes a node's memory blocks as a bitmap of node.size bits.
local function mem_node(node)
  local words = {}
  for i = 1, (node.size + 63) // 64 do words[i] = 0 end
  for _, block in ipairs(node.blocks) do
    local word = block // 64 + 1
    words[word] = words[word] | 1 << block % 64
  end
  local out = { string.pack("=I8I8I8", node.node, node.size, node.size) }
  for i, word in ipairs(words) do out[i + 1] = u64(word) end
  return table.concat(out)
end

local function mem_topology(value)
  local out = { string.pack("=I8I8I8", 1, value.block_size, #value.nodes) }
  for i, node in ipairs(value.nodes) do out[i + 1] = mem_node(node) end
  return table.concat(out)
end

local function build_ids(ids)
  local out = {}
  for i, id in ipairs(ids) do out[i] = M.build_id(id) end
  return table.concat(out)
end

local function caps(values)
  return map(values, function(name, value) return text(name) .. text(value) end)
end

local encoders = {
  build_ids = build_ids,
  hostname = text, osrelease = text, version = text, arch = text, cpudesc = text, cpuid = text,
  nrcpus = function(v) return string.pack("=I4I4", v.available, v.online) end,
  total_mem = u64, -- kB
  cmdline = strings, event_desc = event_desc, cpu_topology = cpu_topology,
  numa_topology = function(nodes)
    return list(nodes, function(v)
      return string.pack("=I4I8I8", v.node, v.mem_total, v.mem_free) .. text(v.cpus)
    end)
  end,
  branch_stack = function() return "" end,
  pmu_mappings = function(pmus)
    return map(pmus, function(type, name) return string.pack("=I4", type) .. text(name) end)
  end,
  group_desc = function(groups)
    return list(groups, function(v) return text(v.name) .. string.pack("=I4I4", v.leader, v.members) end)
  end,
  cache = function(caches)
    return string.pack("=I4", 1) .. list(caches, function(v)
      return string.pack("=I4I4I4I4", v.level, v.line_size, v.sets, v.ways) .. text(v.type) .. text(v.size)
        .. text(v.map)
    end)
  end,
  sample_time = function(v) return string.pack("=i8i8", v.first, v.last) end,
  mem_topology = mem_topology,
  clockid = u64, -- its resolution in ns
  compressed = function(v)
    return string.pack("=I4I4I4I4I4", v.version, v.type, v.level, v.ratio, v.mmap_len)
  end,
  cpu_pmu_caps = caps,
  clock_data = function(v) return string.pack("=I4I4i8i8", v.version, v.clockid, v.wall, v.clock) end,
  hybrid_topology = function(pmus)
    return list(pmus, function(v) return text(v.pmu) .. text(v.cpus) end)
  end,
  pmu_caps = function(pmus)
    return list(pmus, function(v) return caps(v.caps) .. text(v.pmu) end)
  end,
}

--- Encodes a build id for the section, or, with type 67, as a record of a pipe.
-- @tparam table id       `pid`, `misc` (CPU mode), `build_id` (hexadecimal), `filename`
-- @tparam ?integer type  type of the record
function M.build_id(id, type)
  local bytes = hex.to(id.build_id):sub(1, BUILD_ID_MAX)
  local body = string.pack("=i4", id.pid) .. bytes .. ("\0"):rep(BUILD_ID_MAX - #bytes) .. string.char(#bytes)
    .. ("\0"):rep(BUILD_ID_ROOM - BUILD_ID_MAX - 1) .. padded(id.filename, STRING_ALIGN)
  return string.pack("=I4I2I2", type or 0, id.misc | BUILD_ID_SIZE, 8 + #body) .. body
end

--- Encodes a section.
-- @tparam string name    its name in f.header: "hostname"
-- @tparam value          in the form that f.header returns
-- @treturn table         `id` (HEADER_*), `name`, `bytes`
function M.encode(name, value)
  return { id = features.number(name), name = name, bytes = encoders[name](value) }
end

return M
