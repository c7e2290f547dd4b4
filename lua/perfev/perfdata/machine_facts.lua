--- Collects the facts about the recorder and its machine that a recording has in its feature sections.
-- A fact that this machine does not provide has no section, and readers report it as missing.
-- Source: tools/perf/util/header.c, cputopo.c, arch/*/util/header.c; Documentation/ABI/*/sysfs-*.

local build_ids = require "perfev.perfdata.mapped_build_ids"
local core = require "perfev.core"
local pmu = require "perfev.event.pmu"
local sections = require "perfev.perfdata.write_features"
local units = require "perfev.base.parse_units"

local M = {}

local CPU, NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
local CACHE_LEVELS = 4 -- MAX_CACHE_LVL
local BRANCH_STACK = 1 << 11 -- PERF_SAMPLE_BRANCH_STACK
local REALTIME = 0
-- A section goes through a pipe in one record, whose size has 16 bits.
local PIPE_MAX = 0xffff - 16

-- ---- files ----

local function first_line(path)
  local text = core.slurp(path)
  return text and text:match("^[^\n]*")
end

local function number_of(path, base)
  local line = first_line(path)
  return line and math.tointeger(base and tonumber(line, base) or tonumber(line))
end

local function cpu_list(path)
  local line = first_line(path)
  return line and line ~= "" and units.list(line, path) or nil
end

-- Lists the numbers of the entries "PREFIXn" in a directory ("node0"), in order.
local function list_numbers(dir, prefix)
  local numbers = {}
  for _, name in ipairs(core.list(dir) or {}) do
    numbers[#numbers + 1] = math.tointeger(tonumber(name:match("^" .. prefix .. "(%d+)$")))
  end
  table.sort(numbers)
  return numbers
end

-- Reads once the data that several facts use; `what` is the caller's.
local function read_shared(what)
  local online, present = core.cpus() or {}, cpu_list(CPU .. "/present")
  local last = present and present[#present] or online[#online]
  return {
    what = what, online = online, available = last and last + 1, -- perf's "available": the highest CPU plus one
    arch = first_line("/proc/sys/kernel/arch") or core.machine, -- the file exists since 6.1
    cpuinfo = "\n" .. (core.slurp("/proc/cpuinfo") or ""),
  }
end

-- Returns the value of a key, such as "model name", for the first CPU.
local function cpu_field(here, key)
  return here.cpuinfo:match("\n" .. key .. "[ \t]*:[ \t]*([^\n]+)")
end

-- ---- the machine ----

-- section -> f(here) that returns its value, or nil.
local facts = {}

function facts.hostname() return first_line("/proc/sys/kernel/hostname") end
function facts.osrelease() return first_line("/proc/sys/kernel/osrelease") end
function facts.arch(here) return here.arch end
function facts.version(here) return here.what.version end
function facts.nrcpus(here) return here.available and { available = here.available, online = #here.online } end

-- The key of /proc/cpuinfo, by architecture: CPUINFO_PROC.
local descriptions = { ppc64 = "cpu", ppc64le = "cpu", ppc = "cpu", s390x = "vendor_id", mips = "cpu model",
                       mips64 = "cpu model" }

function facts.cpudesc(here)
  local text = cpu_field(here, descriptions[here.arch] or "model name")
  return text and text:gsub("%s+", " ")
end

-- The id that selects a vendor's event table.
local function x86_id(here)
  local vendor, family = cpu_field(here, "vendor_id"), cpu_field(here, "cpu family")
  local model, stepping = cpu_field(here, "model"), cpu_field(here, "stepping")
  return vendor and family and model and stepping and table.concat({ vendor, family, model, stepping }, ",")
end

local MIDR_VARIANT, MIDR_REVISION = 0xf << 20, 0xf

local function arm64_id(here)
  local first = here.online[1]
  local midr = first and number_of(("%s/cpu%d/regs/identification/midr_el1"):format(CPU, first))
  return midr and ("0x%016x"):format(midr & ~(MIDR_VARIANT | MIDR_REVISION))
end

local identify = { x86_64 = x86_id, i686 = x86_id, i586 = x86_id, aarch64 = arm64_id }

function facts.cpuid(here)
  local id = identify[here.arch]
  return id and id(here)
end

function facts.total_mem()
  local kb = (core.slurp("/proc/meminfo") or ""):match("%f[%w]MemTotal:%s*(%d+)")
  return kb and math.tointeger(tonumber(kb))
end

-- ---- topology ----

-- Reads a list of CPUs; older kernels have it under another name.
local function read_siblings(cpu, name, old)
  local dir = ("%s/cpu%d/topology/"):format(CPU, cpu)
  return first_line(dir .. name) or old and first_line(dir .. old)
end

-- Returns the distinct lists of CPUs that share a core, a die or a socket.
local function list_shared(cpus, name, old)
  local lists, seen = {}, {}
  for _, cpu in ipairs(cpus) do
    local text = read_siblings(cpu, name, old)
    if text and not seen[text] then lists[#lists + 1], seen[text] = text, true end
  end
  return lists
end

-- -> id | -1 for an offline CPU
local function topology_id(cpu, name)
  local id = number_of(("%s/cpu%d/topology/%s"):format(CPU, cpu, name))
  return id and id >= 0 and id or -1
end

function facts.cpu_topology(here)
  local online = here.online
  local out = { cores = list_shared(online, "package_cpus_list", "core_siblings_list"),
                threads = list_shared(online, "core_cpus_list", "thread_siblings_list"), cpus = {} }
  local dies = list_shared(online, "die_cpus_list")
  if #out.cores == 0 or #out.threads == 0 then return nil end
  out.dies = #dies > 0 and dies or nil
  for i = 1, here.available do
    out.cpus[i] = { core = topology_id(i - 1, "core_id"), socket = topology_id(i - 1, "physical_package_id"),
                    die = out.dies and topology_id(i - 1, "die_id") }
  end
  return out
end

local function numa_node(node)
  local dir = ("%s/node%d"):format(NODE, node)
  local memory, cpus = core.slurp(dir .. "/meminfo") or "", first_line(dir .. "/cpulist")
  local total, free = memory:match("MemTotal:%s*(%d+)"), memory:match("MemFree:%s*(%d+)")
  if not total or not free or not cpus then return nil end
  return { node = node, mem_total = math.tointeger(tonumber(total)), mem_free = math.tointeger(tonumber(free)),
           cpus = cpus }
end

function facts.numa_topology()
  local nodes = {}
  for i, node in ipairs(cpu_list(NODE .. "/online") or {}) do
    nodes[i] = numa_node(node)
    if not nodes[i] then return nil end
  end
  return #nodes > 0 and nodes or nil
end

local cache_fields = { level = "level", line_size = "coherency_line_size", sets = "number_of_sets",
                       ways = "ways_of_associativity" }
local cache_texts = { type = "type", size = "size", map = "shared_cpu_list" }

local function read_cache(cpu, index)
  local dir, out = ("%s/cpu%d/cache/index%d/"):format(CPU, cpu, index), {}
  for field, file in pairs(cache_fields) do
    out[field] = number_of(dir .. file)
    if not out[field] then return nil end
  end
  for field, file in pairs(cache_texts) do
    out[field] = first_line(dir .. file)
    if not out[field] then return nil end
  end
  return out
end

-- CPUs that share a cache have the same map, so each cache is listed once. Caches are sorted by level.
function facts.cache(here)
  local levels, seen, out = {}, {}, {}
  for _, cpu in ipairs(here.online) do
    for index = 0, CACHE_LEVELS - 1 do
      local cache = read_cache(cpu, index)
      if not cache then break end
      local key = table.concat({ cache.level, cache.line_size, cache.sets, cache.ways, cache.type, cache.size,
                                 cache.map }, "\n")
      levels[cache.level] = levels[cache.level] or {}
      if not seen[key] then table.insert(levels[cache.level], cache) end
      seen[key] = true
    end
  end
  for level = 1, CACHE_LEVELS do table.move(levels[level] or {}, 1, #(levels[level] or {}), #out + 1, out) end
  return #out > 0 and out or nil
end

function facts.mem_topology()
  local block_size = number_of("/sys/devices/system/memory/block_size_bytes", 16)
  if not block_size then return nil end
  local nodes = {}
  for i, node in ipairs(list_numbers(NODE, "node")) do
    local blocks = list_numbers(("%s/node%d"):format(NODE, node), "memory")
    nodes[i] = { node = node, size = (blocks[#blocks] or 0) + 1, blocks = blocks }
  end
  return #nodes > 0 and { block_size = block_size, nodes = nodes } or nil
end

-- ---- PMUs ----

local function pmus()
  local list = {}
  for _, name in ipairs(pmu.names()) do list[#list + 1] = pmu.find(name) end
  return list
end

function facts.pmu_mappings()
  local out = {}
  for _, p in ipairs(pmus()) do out[p.type] = p.name end
  return next(out) and out
end

function facts.cpu_pmu_caps()
  local cpu = pmu.find("cpu")
  local found = cpu and pmu.caps(cpu)
  return found and next(found) and found
end

function facts.pmu_caps()
  local out = {}
  for _, p in ipairs(pmus()) do
    local found = p.name ~= "cpu" and pmu.caps(p) or {}
    if next(found) then out[#out + 1] = { pmu = p.name, caps = found } end
  end
  return out
end

function facts.hybrid_topology()
  local out = {}
  for i, p in ipairs(pmu.cores()) do out[i] = { pmu = p.name, cpus = first_line(p.path .. "/cpus") } end
  return #out > 0 and out or nil
end

-- ---- the recorder ----

-- Cuts the command line to the size of a record, with "..." at the end.
function facts.cmdline(here)
  local out, size = {}, 4
  for i, word in ipairs(here.what.argv or {}) do
    size = size + 4 + (#word // 64 + 1) * 64
    if size > PIPE_MAX - 68 then
      out[i] = "..."
      break
    end
    out[i] = word
  end
  return #out > 0 and out or nil
end

local function attr_bytes(attr)
  return type(attr) == "string" and attr or attr:bytes()
end

function facts.event_desc(here)
  local out = {}
  for i, event in ipairs(here.what.events or {}) do
    out[i] = { name = event.name, attr = attr_bytes(event.attr), ids = event.ids or {} }
  end
  return #out > 0 and out or nil
end

function facts.branch_stack(here)
  for _, event in ipairs(here.what.events or {}) do
    local attr = core.attr_parse(attr_bytes(event.attr))
    if attr and attr.sample_type & BRANCH_STACK ~= 0 then return true end
  end
end

function facts.group_desc(here)
  return here.what.groups and #here.what.groups > 0 and here.what.groups or nil
end

-- The resolution of the clocks that events can use is 1 ns: clock_getres(2), posix_get_hrtimer_res().
function facts.clockid(here) return here.what.clockid and 1 end

-- Reads the time of day and the events' clock at the same moment.
function facts.clock_data(here)
  local id = here.what.clockid
  if not id then return nil end
  local wall, clock = core.clock(REALTIME), core.clock(id)
  return wall and clock and { version = 1, clockid = id, wall = wall, clock = clock }
end

local sections_at_start = {
  "hostname", "osrelease", "version", "arch", "nrcpus", "cpudesc", "cpuid", "total_mem", "cmdline", "event_desc",
  "cpu_topology", "numa_topology", "branch_stack", "pmu_mappings", "group_desc", "cache", "mem_topology", "clockid",
  "cpu_pmu_caps", "clock_data", "hybrid_topology", "pmu_caps",
}

--- Makes the sections that are known when recording begins, in the order of their numbers.
-- @tparam table what  `version` (the recorder's), `argv` (its command line, {string,...}), `events` ({ name =,
--   attr = (perfev.attr or bytes), ids = {integer,...} }, ...), `groups` ({ name = "{a,b}", leader = (index of an
--   event, from 0), members = (number) }, ...), `clockid` (clock of the events' times; nil: the kernel's default)
-- @treturn {table,...}  `id` (HEADER_*), `name`, `bytes`
function M.features(what)
  local list, here = {}, read_shared(what)
  for _, name in ipairs(sections_at_start) do
    local value = facts[name](here)
    if value then list[#list + 1] = sections.encode(name, value) end
  end
  return list
end

--- Makes the sections that are known when recording has ended.
-- @tparam table what  `maps` (the mapped files, for build_ids.of; nil: no build-ids are read), `first_time` and
--   `last_time` of its samples (ns), `events` (as for M.features, if events were added)
-- @treturn {table,...}  as M.features
function M.features_at_end(what)
  local list = {}
  local described = facts.event_desc { what = what }
  local ids = what.maps and build_ids.of(what.maps) or {}
  if #ids > 0 then list[1] = sections.encode("build_ids", ids) end
  if what.first_time and what.last_time then
    list[#list + 1] = sections.encode("sample_time", { first = what.first_time, last = what.last_time })
  end
  if described then list[#list + 1] = sections.encode("event_desc", described) end
  return list
end

return M
