--- kprobe_events and uprobe_events of a simulated kernel's tracefs.
-- A defined probe becomes a tracepoint with a field for each fetch argument.
-- Source: Documentation/trace/kprobetrace.rst and uprobetracer.rst; kernel/trace/trace_probe.c.

local core = require "perfev.core"

local E = core.errno

local M = {}

local types = {
  s8 = "s8", s16 = "s16", s32 = "s32", s64 = "s64", u8 = "u8", u16 = "u16", u32 = "u32", u64 = "u64",
  x8 = "u8", x16 = "u16", x32 = "u32", x64 = "u64", string = "__data_loc char[]", ustring = "__data_loc char[]",
}

local function field(word)
  local name, fetch, kind = word:match("^([%a_][%w_]*)=([^:]+):(%w+)$")
  if not name then
    name, fetch = word:match("^([%a_][%w_]*)=([^:]+)$")
    kind = "u64"
  end
  if not name or not types[kind] or not fetch:find("^[%%$@+%-\\]") then return nil end
  return types[kind] .. " " .. name
end

local function last_id(k)
  local last = 1500
  for id in pairs(k.tracepoints) do last = math.max(last, id) end
  return last
end

local function find(k, group, name)
  for id, tp in pairs(k.tracepoints) do
    if tp.system == group and tp.name == name then return id, tp end
  end
end

local function remove(k, path, group, name)
  local id, tp = find(k, group, name)
  if not id or not tp.line then return nil, E.ENOENT end
  for _, event in ipairs(k.events) do
    if event.attr.config == id and event.attr.type == 2 and not event.closed then return nil, E.EBUSY end
  end
  k.tracepoints[id] = nil
  local dir = "/sys/kernel/tracing/events/" .. group .. "/" .. name
  k.files[dir .. "/id"], k.files[dir .. "/format"] = nil, nil
  local at, last = k.files[path]:find(tp.line, 1, true)
  k.files[path] = k.files[path]:sub(1, at - 1) .. k.files[path]:sub(last + 1)
  return 0
end

local function define(k, path, line)
  local kind, group, name, where, rest = line:match("^([pr]%d*):([%w_]+)/([%w_]+) (%S+)(.*)$")
  if not kind or not where:find(path:find("uprobe", 1, true) and "^/.+:0x%x+" or "^[%w_.]+") then
    return nil, E.EINVAL
  end
  if find(k, group, name) then return nil, E.EEXIST end
  local fields = { kind == "p" and "u64 __probe_ip" or "u64 __probe_func; u64 __probe_ret_ip" }
  for word in rest:gmatch("%S+") do
    local text = field(word)
    if not text then return nil, E.EINVAL end
    fields[#fields + 1] = text
  end
  local tp = k:tracepoint(group .. ":" .. name, last_id(k) + 1, table.concat(fields, "; "))
  tp.line = line .. "\n"
  k.files[path] = k.files[path] .. tp.line
  return 0
end

--- One write of one line; the kernel accepts several lines, but perfev writes one.
function M.write(k, path, text)
  local group, name = text:match("^%-:([%w_]+)/([%w_]+)\n?$")
  if group then return remove(k, path, group, name) end
  local line = text:match("^([^\n]*)\n?$")
  if not line then return nil, E.EINVAL end
  return define(k, path, line)
end

return M
