--- Names an event of a recording by its attr, as perf names it, if the recording has no name for it.

local M = {}

local hardware = {
  [0] = "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles",
  "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
}
local software = {
  [0] = "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
  "major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches",
}
local caches = { [0] = "L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node" }
local operations = { [0] = { "loads", "load-misses" }, { "stores", "store-misses" },
                     { "prefetches", "prefetch-misses" } }

local function name_cache(config)
  local name, op, result = caches[config & 0xff], operations[config >> 8 & 0xff], config >> 16 & 0xff
  return name and op and op[result + 1] and name .. "-" .. op[result + 1]
end

local function name_breakpoint(attr)
  local kinds = (attr.bp_type & 1 ~= 0 and "r" or "") .. (attr.bp_type & 2 ~= 0 and "w" or "")
    .. (attr.bp_type & 4 ~= 0 and "x" or "")
  return ("mem:0x%x:%s"):format(attr.bp_addr, kinds)
end

-- The sides that are not excluded, and the precision: ":u", ":pp".
local function format_modifiers(attr)
  local out = ""
  if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv then
    if not attr.exclude_user then out = out .. "u" end
    if not attr.exclude_kernel then out = out .. "k" end
    if attr.exclude_user and attr.exclude_kernel and not attr.exclude_hv then out = out .. "h" end
  end
  out = out .. ("p"):rep(attr.precise_ip)
  return out ~= "" and ":" .. out or ""
end

--- @tparam perfev.attr attr
-- @tparam table pmus  the recorder's PMUs, type -> name
function M.of(attr, pmus)
  local base
  local config = attr.config
  if attr.type == 0 then base = hardware[config]
  elseif attr.type == 1 then base = software[config]
  elseif attr.type == 3 then base = name_cache(config)
  elseif attr.type == 4 then base = ("r%x"):format(config)
  elseif attr.type == 5 then base = name_breakpoint(attr)
  elseif pmus[attr.type] then base = ("%s/config=0x%x/"):format(pmus[attr.type], config)
  end
  return base and base .. format_modifiers(attr) or ("%d:0x%x"):format(attr.type, config)
end

return M
