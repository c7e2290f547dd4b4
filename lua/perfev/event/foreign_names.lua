--- Translates event names of bpftrace and bcc into perfev's. Used when no event has the name that the user wrote;
-- reads nothing from the system.
-- Source: bpftrace(8), "Probes"; bcc's tools/trace.py and funccount.py (p:, r:, t:).

local M = {}

local function keep_rest(rest) return rest end

local function prefixed(prefix)
  return function(rest) return prefix .. ":" .. rest end
end

-- kfunc:MODULE:FUNCTION names a module; a kprobe needs only the function.
local function last_word(prefix)
  return function(rest) return prefix .. ":" .. rest:match("[^:]*$") end
end

local names = { cpu = "cpu-clock", ["backend-stalls"] = "stalled-cycles-backend",
                ["frontend-stalls"] = "stalled-cycles-frontend" }

-- "faults:100" is an event and its period.
local function translate_counted(rest)
  local name, period = rest:match("^([%w-]+):?(%d*)$")
  if not name then return nil end
  name = names[name] or name
  return period == "" and name or ("%s/period=%s/"):format(name, period)
end

local ns_per = { s = 1000000000, ms = 1000000, us = 1000 }

-- "hz:99" and "99" are frequencies, "s:1" is a period.
local function translate_profile(rest)
  local unit, n = rest:match("^(%a*):?(%d+)$")
  if unit == "hz" or unit == "" then return ("cpu-clock/freq=%s/"):format(n) end
  return ns_per[unit] and #n < 9 and ("cpu-clock/period=%d/"):format(ns_per[unit] * math.tointeger(tonumber(n))) or nil
end

local function translate_interval(rest)
  local unit, n = rest:match("^(%a*):?(%d+)$")
  return ns_per[unit] and ("every(\"%s%s\", FUNCTION), besides the events"):format(n, unit) or nil
end

-- bcc's p::vfs_read and p:c:malloc are probes; bpftrace's p: is profile.
local function bcc_probe(prefix)
  return function(rest)
    local file, name = rest:match("^([^:]*):([^:]+)$")
    return file and file ~= "" and ("u%s:%s"):format(prefix, rest) or ("k%s:%s"):format(prefix, name or rest)
  end
end

local function translate_p(rest) return translate_profile(rest) or bcc_probe "probe"(rest) end

local function translate_watchpoint(rest)
  local address, len, access = rest:match("^([%w]+):(%d):(%a+)$")
  return address and ("mem:%s/%s:%s"):format(address, len, access) or nil
end

-- prefix -> function(rest of the name) -> perfev's name, or nil
local translators = {
  tracepoint = keep_rest, t = keep_rest, rawtracepoint = prefixed "*", rt = prefixed "*",
  k = prefixed "kprobe", kr = prefixed "kretprobe", u = prefixed "uprobe", ur = prefixed "uretprobe",
  U = prefixed "usdt", r = bcc_probe "retprobe", p = translate_p, profile = translate_profile,
  kfunc = last_word "kprobe", fentry = last_word "kprobe", f = last_word "kprobe",
  kretfunc = last_word "kretprobe", fexit = last_word "kretprobe", fr = last_word "kretprobe",
  hardware = translate_counted, h = translate_counted, software = translate_counted, s = translate_counted,
  interval = translate_interval, i = translate_interval,
  watchpoint = translate_watchpoint, w = translate_watchpoint,
  asyncwatchpoint = translate_watchpoint, aw = translate_watchpoint,
}

local blocks = { BEGIN = "the script's top level, which runs first", END = "done(FUNCTION)" }

--- Translates a name.
-- @tparam string text  "tracepoint:sched:sched_switch", "profile:hz:99", "BEGIN"
-- @treturn ?string     "sched:sched_switch"; nil: neither tool uses such a name
function M.translate(text)
  local prefix, rest = text:match("^(%a+):([%w_:*?./%[%]+-]+)$")
  local translate = prefix and translators[prefix]
  return blocks[text] or translate and translate(rest) or nil
end

return M
