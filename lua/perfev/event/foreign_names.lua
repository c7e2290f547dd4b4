--- How others spell events: bpftrace's probes and bcc's -> the words for it here. Asked when nothing has that name;
-- nothing here asks the system.
-- Source: bpftrace(8), "Probes"; bcc's tools/trace.py and funccount.py (p:, r:, t:).

local M = {}

local function whole(rest) return rest end

local function prefixed(prefix)
  return function(rest) return prefix .. ":" .. rest end
end

-- kfunc:MODULE:FUNCTION has a module that a kprobe does without.
local function function_of(prefix)
  return function(rest) return prefix .. ":" .. rest:match("[^:]*$") end
end

local names = { cpu = "cpu-clock", ["backend-stalls"] = "stalled-cycles-backend",
                ["frontend-stalls"] = "stalled-cycles-frontend" }

-- "faults:100": an event and its period
local function counted(rest)
  local name, period = rest:match("^([%w-]+):?(%d*)$")
  if not name then return nil end
  name = names[name] or name
  return period == "" and name or ("%s/period=%s/"):format(name, period)
end

local ns_per = { s = 1000000000, ms = 1000000, us = 1000 }

-- "hz:99", "99", "s:1"
local function timed(rest)
  local unit, n = rest:match("^(%a*):?(%d+)$")
  if unit == "hz" or unit == "" then return ("cpu-clock/freq=%s/"):format(n) end
  return ns_per[unit] and #n < 9 and ("cpu-clock/period=%d/"):format(ns_per[unit] * math.tointeger(tonumber(n))) or nil
end

local function repeated(rest)
  local unit, n = rest:match("^(%a*):?(%d+)$")
  return ns_per[unit] and ("every(\"%s%s\", FUNCTION), besides the events"):format(n, unit) or nil
end

-- bcc's p::vfs_read and p:c:malloc; bpftrace's p: is profile.
local function probed(prefix)
  return function(rest)
    local file, name = rest:match("^([^:]*):([^:]+)$")
    return file and file ~= "" and ("u%s:%s"):format(prefix, rest) or ("k%s:%s"):format(prefix, name or rest)
  end
end

local function profiled(rest) return timed(rest) or probed "probe"(rest) end

local function watched(rest)
  local address, len, access = rest:match("^([%w]+):(%d):(%a+)$")
  return address and ("mem:%s/%s:%s"):format(address, len, access) or nil
end

-- prefix -> function(what stands behind it) -> the words for it here, or nil
local prefixes = {
  tracepoint = whole, t = whole, rawtracepoint = prefixed "*", rt = prefixed "*",
  k = prefixed "kprobe", kr = prefixed "kretprobe", u = prefixed "uprobe", ur = prefixed "uretprobe",
  U = prefixed "usdt", r = probed "retprobe", p = profiled, profile = timed,
  kfunc = function_of "kprobe", fentry = function_of "kprobe", f = function_of "kprobe",
  kretfunc = function_of "kretprobe", fexit = function_of "kretprobe", fr = function_of "kretprobe",
  hardware = counted, h = counted, software = counted, s = counted, interval = repeated, i = repeated,
  watchpoint = watched, asyncwatchpoint = watched, w = watched, aw = watched,
}

local blocks = { BEGIN = "the script's own text: it is run before all else", END = "done(FUNCTION)" }

--- What a text of another tool's is here.
-- @tparam string text  "tracepoint:sched:sched_switch", "profile:hz:99", "BEGIN"
-- @treturn ?string     "sched:sched_switch"; nil: it is none of theirs
function M.of(text)
  local prefix, rest = text:match("^(%a+):([%w_:*?./%[%]+-]+)$")
  local read = prefix and prefixes[prefix]
  return blocks[text] or read and read(rest) or nil
end

return M
