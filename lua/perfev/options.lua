--- The options of a session, checked when they are given.

local core = require "perfev.core"
local raw = require "perfev.raw"
local shown = require "perfev.shown"
local units = require "perfev.units"

local M = {}

--- The default of `max_bytes`: half of it for stacks and keys, half for a profile's tree of names.
M.MAX_BYTES = 256 << 20
M.LEAST_BYTES = 1 << 20

--- The names of a session's options.
M.names = {
  "pid", "tid", "command", "cpus", "all_cpus", "buffer", "duration", "count", "ordered", "clock",
  "strict", "log", "on_error", "on_open", "keep_going", "watch", "exclude_self", "overwrite", "cgroup", "uid", "comm",
  "many", "input", "from", "to", "record", "compress", "switch_output", "record_fd",
  "max_bytes", "events",
}
local MAX_INT = (1 << 31) - 1 -- pids and CPUs are ints to the kernel
local is_option = {}
for _, name in ipairs(M.names) do is_option[name] = true end

local clocks = { monotonic = 1, monotonic_raw = 4, realtime = 0, boottime = 7, tai = 11 }

local function fail(level, ...)
  error(string.format(...), level + 1)
end

-- His list, as a table of our own, and how long it is: nil in the midst of it is no end.
local function copied(list)
  local copy, n = {}, rawlen(list)
  for key in next, list do
    if math.type(key) == "integer" and key > n then n = key end
  end
  for i = 1, n do copy[i] = rawget(list, i) end
  return copy, n
end

-- The integer that a number is.
local function whole(value)
  return type(value) == "number" and math.tointeger(value) or nil
end

--- A list in which each is once, in the order of the first of each: what is named twice is watched once.
function M.each_once(list)
  local once, seen = {}, {}
  for _, one in ipairs(list) do
    if not seen[one] then once[#once + 1], seen[one] = one, true end
  end
  return once
end

local function check_ids(value, what, level)
  if value == "self" then return { 0 } end
  local list, n = { value }, 1
  if type(value) == "table" then list, n = copied(value) end
  if n == 0 then
    fail(level, "session: %s is an empty list%s", what, what == "cpus" and
      "; whole machines and cgroups are watched CPU by CPU" or "")
  end
  for i = 1, n do
    local id = whole(list[i])
    if not id or id < 0 or id > MAX_INT then
      fail(level, "session: %s is a number >= 0 and below 2^31, or a list of them, not %s", what, shown(list[i]))
    end
    list[i] = id
  end
  return M.each_once(list)
end

local function check_cpus(value, level)
  if value == "all" then return nil end
  if type(value) == "table" then return check_ids(value, "cpus", level) end
  if type(value) ~= "string" and math.type(value) ~= "integer" then
    fail(level, "session: cpus is text such as 0-3,7 or a list of numbers, not %s", shown(value))
  end
  local list, why = units.list(value, "cpus")
  if not list then fail(level, "session: %s", why) end
  return list
end

local function check_unit(parse, value, what, level)
  if type(value) ~= "string" and type(value) ~= "number" then
    fail(level, "session: %s is text or a number, not %s", what, shown(value))
  end
  local n, why = parse(value)
  if not n then fail(level, "session: %s: %s", what, why) end
  return n
end

local function check_command(value, level)
  local words, n = {}, 0
  if type(value) == "table" then words, n = copied(value) end
  if n == 0 then fail(level, "session: command is a list, the program first") end
  for i = 1, n do
    local word = words[i]
    if type(word) ~= "string" then fail(level, "session: command: a string expected, not a %s", type(word)) end
    if word:find("\0", 1, true) then fail(level, "session: command: a word with a NUL byte in it") end
  end
  return words
end

-- C would take it for the path before the NUL.
local function check_path(value, what, level)
  if value:find("\0", 1, true) then fail(level, "session: %s: a path with a NUL byte in it", what) end
  return value
end

local function check_type(what, wanted, words)
  return function(v, level)
    if type(v) ~= wanted then fail(level, "session: %s is %s, not %s", what, words, shown(v)) end
    return v
  end
end

local function check_function(what) return check_type(what, "function", "a function") end
local function check_boolean(what) return check_type(what, "boolean", "true or false") end

local checks = {
  pid = function(v, level) return check_ids(v, "pid", level) end,
  tid = function(v, level) return check_ids(v, "tid", level) end,
  cpus = check_cpus,
  command = check_command,
  buffer = function(v, level) return check_unit(units.buffer, v, "buffer", level) end,
  duration = function(v, level) return check_unit(units.duration, v, "duration", level) end,
  clock = function(v, level)
    if not clocks[v] then
      fail(level, "session: clock is one of boottime, monotonic, monotonic_raw, realtime, tai, not '%s'",
        shown(v))
    end
    return clocks[v]
  end,
  cgroup = function(v, level)
    if type(v) ~= "string" then fail(level, "session: cgroup is a path, not a %s", type(v)) end
    return v
  end,
  uid = function(v, level)
    if type(v) ~= "string" and not (math.type(v) == "integer" and v >= 0) then
      fail(level, "session: uid is a user's number or name, not %s", shown(v))
    end
    return v
  end,
  comm = function(v, level)
    if type(v) ~= "string" or v == "" then fail(level, "session: comm is a process's name, not '%s'", shown(v)) end
    return v
  end,
  count = function(v, level)
    local n = whole(v)
    if not n or n < 1 then fail(level, "session: count is a whole number above 0, not %s", shown(v)) end
    return n
  end,
  input = function(v, level)
    if type(v) ~= "string" or v == "" then
      fail(level, "session: input is the path of a recording, or \"-\", not '%s'", shown(v))
    end
    return check_path(v, "input", level)
  end,
  from = function(v, level) return check_unit(units.moment, v, "from", level) end,
  to = function(v, level) return check_unit(units.moment, v, "to", level) end,
  record = function(v, level)
    if type(v) ~= "string" or v == "" then
      fail(level, "session: record is the path of a recording to be, or \"-\", not '%s'", shown(v))
    end
    return check_path(v, "record", level)
  end,
  compress = function(v, level)
    if v == true then return 1 end -- perf record's own
    if v == false then return nil end
    if math.type(v) ~= "integer" or v < 1 or v > 22 then
      fail(level, "session: compress is true or a level of 1 to 22, not %s", shown(v))
    end
    return v
  end,
  switch_output = function(v, level) return check_unit(units.size, v, "switch_output", level) end,
  max_bytes = function(v, level)
    local bytes = check_unit(units.size, v, "max_bytes", level)
    if bytes < M.LEAST_BYTES then fail(level, "session: max_bytes is 1M or more, not %s", shown(v)) end
    return bytes
  end,
  watch = function(v, level)
    if type(v) ~= "table" or math.type(rawget(v, 1)) ~= "integer"
      or type(rawget(v, 2)) ~= "function" then
      fail(level, "session: watch is a descriptor's number and a function, { fd, f }, not %s",
        type(v) == "table" and "such a list" or shown(v))
    end
    return (copied(v))
  end,
  record_fd = function(v, level)
    if math.type(v) ~= "integer" or v < 0 or v > MAX_INT then
      fail(level, "session: record_fd is a descriptor's number, not %s", shown(v))
    end
    return v
  end,
  events = function(v, level)
    local list, n = copied(type(v) == "table" and v or { v })
    for i = 1, n do
      if type(list[i]) ~= "string" then fail(level, "session: events is event strings, not %s", shown(list[i])) end
      if n > 1 and list[i]:find("|", 1, true) then
        fail(level, "session: events: alternatives stand alone, not in a list")
      end
    end
    if n == 0 then fail(level, "session: events is an empty list") end
    return list
  end,
  log = check_function("log"),
  on_error = check_function("on_error"),
  on_open = check_function("on_open"),
  keep_going = check_function("keep_going"),
}

for _, name in ipairs { "all_cpus", "ordered", "strict", "exclude_self", "overwrite", "many" } do
  checks[name] = check_boolean(name)
end

--- A declaration as it is now: what its owner changes later changes nothing, and its metatable is not asked.
M.copy = raw

--- Check opts and put them, converted, into a table. Raises on what is no option or no value of one.
-- @tparam table opts      as `perfev.session` takes them
-- @tparam table into      gets lists of ids, bytes, nanoseconds, clock ids
-- @tparam integer level   of the caller, for `error`
-- @treturn table          into
function M.take(opts, into, level)
  if type(opts) ~= "table" then fail(level, "session: a table expected, not a %s", type(opts)) end
  for name, value in next, opts do
    if not is_option[name] then
      local near = core.nearest(shown(name), M.names)
      fail(level, "session: no option is called '%s'%s", shown(name),
        near and (" (did you mean '%s'?)"):format(near) or "")
    end
    into[name] = checks[name] and checks[name](value, level + 1) or value
  end
  if into.input and (opts.pid == "self" or opts.tid == "self") then
    fail(level, "session: input and pid \"self\"\n  who recorded is not who reads\n  try: the number of its process")
  end
  M.check_targets(into, level + 1)
  return into
end

--- A signal's number by its name, with or without SIG; those of real time as RTMIN+n.
-- Raises on what is none.
-- @tparam string name
-- @tparam string what    asks, for the message
-- @tparam integer level  of the caller, for `error`
-- @treturn integer
function M.signal(name, what, level)
  local word = shown(name):gsub("^SIG", "")
  local real_time = tonumber(word:match("^RTMIN%+(%d%d?)$"))
  local number = core.signals[word] or real_time and core.signals.RTMIN + real_time
  if type(name) == "string" and number and number <= core.signals.RTMAX then return number end
  local known = {}
  for each in pairs(core.signals) do known[#known + 1] = each end
  table.sort(known)
  local near = core.nearest(shown(name), known)
  fail(level + 1, "%s: no signal is called '%s'%s", what, shown(name),
    near and (" (did you mean '%s'?)"):format(near) or "")
end

-- What is asked of a kernel, and of a recording cannot be.
local live_only = { "uid", "cgroup", "command", "all_cpus", "buffer", "overwrite", "clock" }

--- Whether nothing can be between two times (units.moment), as far as that is known before the recording is read.
function M.are_crossed(from, to)
  if from.percent and to.percent then return from.percent > to.percent end
  return from.ns and to.ns and from.first == to.first and from.ns > to.last_ns
end

local function check_times(opts, level)
  for _, name in ipairs(opts.input and {} or { "from", "to" }) do
    if opts[name] then
      fail(level, "session: %s without input\n  times are selected of what was recorded; what comes is not known\n"
        .. "  try: duration, or input", name)
    end
  end
  if opts.from and opts.to and M.are_crossed(opts.from, opts.to) then
    fail(level, "session: from is later than to\n  nothing lies between them\n  try: the other way round")
  end
end

--- Whether the machine is watched, and records are selected by the comm that their task has when they are written.
function M.selects_comm(opts) return opts.all_cpus and opts.comm ~= nil and not opts.input end

--- Targets that exclude each other; raises.
function M.check_targets(opts, level)
  check_times(opts, level + 1)
  for _, name in ipairs(opts.input and live_only or {}) do
    if opts[name] then
      fail(level, "session: input and %s at once\n  a recording is as it was made, and nothing is asked of the kernel"
        .. "\n  try: without %s", name, name)
    end
  end
  if opts.record and (opts.input or opts.overwrite) then
    fail(level, opts.input and "session: record and input at once\n  it is recorded already\n  try: without record"
      or "session: record and overwrite at once\n  what is overwritten is read by snapshots alone, and a recording "
      .. "takes all as it comes\n  try: without one of them")
  end
  for _, name in ipairs { "compress", "switch_output" } do
    if opts[name] and not opts.record then
      fail(level, "session: %s without record\n  it is for a recording, and there is none\n  try: record = FILE", name)
    end
  end
  if opts.switch_output and opts.record == "-" then
    fail(level, "session: switch_output and record \"-\" at once\n  it makes files, and that is a stream\n"
      .. "  try: record = FILE")
  end
  local some = opts.pid and "pid" or opts.tid and "tid" or opts.uid and "uid"
  if opts.all_cpus and (some or opts.cgroup) then
    fail(level, "session: all_cpus and %s at once\n  the one watches every process, the other some\n"
      .. "  try: without one of them", some or "cgroup")
  end
  if M.selects_comm(opts) and opts.record then
    fail(level, "session: record, all_cpus and comm at once\n  a recording of the machine has every process\n"
      .. "  try: record without comm, and comm with input when it is read")
  end
  some = some or opts.comm and "comm"
  if opts.cgroup and some then
    fail(level, "session: cgroup and %s at once; a cgroup is its own target", some)
  end
end

--- Whether whole CPUs are watched (all of a CPU, or a cgroup on it), and not processes.
function M.is_cpu_wide(opts)
  return opts.all_cpus or opts.cgroup or not (opts.pid or opts.tid or opts.command or opts.uid or opts.comm)
end

return M
