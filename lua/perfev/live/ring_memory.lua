--- The default sizes of a live session's rings, and of the memory where records wait for callbacks.

local core = require "perfev.core"
local host = require "perfev.base.host_rights"

local M = {}

local CAP_IPC_LOCK = 14
local PAGE = 4096 -- the least size of a ring, and the page before its records
local CAREFUL_RING = 2 << 20 -- if the size of the memory is not known
local SHARE = 32 -- rings and waiting records take a 32nd of the memory each, at most
local WAITING_LEAST, WAITING_MOST = 128 << 20, 512 << 20
-- Mapping a MiB takes a third of a millisecond: 256 MiB are a tenth of a second at the start.
local RINGS_MOST = 256 << 20

-- The default, if nothing limits it. Aggregators and text lines keep up with the kernel; the kernel clears each page at
-- the start.
local RING_MOST, RING_WITHOUT_FUNCTION = 8 << 20, 2 << 20

--- Returns the bytes that this user may lock, all CPUs together (perf_mmap()); nil: no limit.
-- @tparam integer cpus  the number of online CPUs
function M.lockable(cpus)
  local soft, kb = host.limit "Max locked memory", host.sysctl "perf_event_mlock_kb" or 516
  local is_limited = soft and soft ~= "unlimited" and not host.has_capability(CAP_IPC_LOCK)
  if not is_limited or (host.sysctl "perf_event_paranoid" or 2) < 0 then return nil end
  return kb * 1024 * math.max(cpus, 1) + (math.tointeger(tonumber(soft)) or 0)
end

--- Returns the bytes of locked memory that rings of this size take.
function M.locked(bytes, cpus) return (bytes + PAGE) * math.max(cpus, 1) end

--- Returns the bytes of the machine's memory, or the limit of the cgroup (v2) if it is less; nil if unknown.
function M.memory()
  local kb = (core.slurp "/proc/meminfo" or ""):match "%f[%w]MemTotal:%s*(%d+)"
  local bytes = kb and math.tointeger(tonumber(kb)) * 1024
  local path = bytes and ("\n" .. (core.slurp "/proc/self/cgroup" or "")):match "\n0::(/[^\n]*)"
  while path do
    bytes = math.min(bytes, host.number_of(("/sys/fs/cgroup%s/memory.max"):format(path)) or bytes)
    path = path:match "^(.*)/[^/]+$"
  end
  return bytes
end

--- Returns the default size of a ring, and the reason if a limit made it smaller.
-- @tparam integer rings   one for each CPU that the session reads
-- @tparam integer cpus    the number of online CPUs
-- @tparam ?integer total  from `memory`
-- @tparam boolean keeps_up  only aggregators and text lines take the records
-- @tparam ?integer most     the largest size, if nothing limits it
-- @treturn integer  a power of two
-- @treturn ?string
function M.default_ring(rings, cpus, total, keeps_up, most)
  local lockable = M.lockable(cpus)
  local bytes, why = most or keeps_up and RING_WITHOUT_FUNCTION or RING_MOST, nil
  local function halve_until(fits, reason)
    while bytes > PAGE and not fits() do bytes, why = bytes // 2, reason end
  end
  if not total then bytes = math.min(bytes, CAREFUL_RING) end
  halve_until(function() return bytes * rings <= RINGS_MOST end, "all rings take 256M at most")
  halve_until(function() return not total or bytes * rings <= total // SHARE end,
    ("all rings take a %dnd of the memory at most"):format(SHARE))
  halve_until(function() return not lockable or M.locked(bytes, rings) <= lockable end,
    ("%d KiB may be locked"):format((lockable or 0) // 1024))
  return bytes, why
end

--- Returns how many bytes of records may wait for callbacks, if the user sets no limit.
function M.default_waiting(total)
  return math.max(WAITING_LEAST, math.min((total or 0) // SHARE, WAITING_MOST))
end

return M
