--- The options of a session, checked when they are given.

local check = require "perfev.base.check"
local core = require "perfev.core"
local raw = require("perfev.base.tables").plain_copy
local shown = require "perfev.base.show_value"
local types = require("perfev.option_tables.session").session
local units = require "perfev.base.parse_units"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

--- The default of `max_bytes`: half for stacks and keys, half for a profile's tree of names.
M.MAX_BYTES = 256 << 20
M.LEAST_BYTES = 1 << 20
--- How many bytes of records may wait for callbacks; nil: as many as the machine's memory allows.
M.WAITING_BYTES = nil

--- Sets the default of `max_bytes`, and half of it as the limit of waiting records.
function M.limit_memory(bytes) M.MAX_BYTES, M.WAITING_BYTES = bytes, bytes // 2 end

--- The text of a size, as options have it: "2M", "1205K".
function M.size_text(bytes)
  if bytes % (1 << 20) == 0 then return ("%dM"):format(bytes >> 20) end
  return ("%dK"):format(bytes >> 10)
end

--- The names of a session's options.
M.names = check.names(types)

local clocks = { monotonic = 1, monotonic_raw = 4, realtime = 0, boottime = 7, tai = 11 }

M.REALTIME = clocks.realtime

local function measure_wall_offset(offsets, clock)
  if clock < 0 then return nil end
  local time, wall = core.clock(clock), core.clock(M.REALTIME)
  local offset = time and wall and wall - time or nil
  rawset(offsets, clock, offset)
  return offset
end

--- Returns a table: clock -> ns from this clock to the time of day, measured when it is first read. The clock -1 is
-- the kernel's own, whose distance is unknown.
function M.wall_offsets()
  return setmetatable({ [M.REALTIME] = 0 }, { __index = measure_wall_offset })
end

--- A list without duplicates, in the order of the first occurrences.
function M.each_once(list)
  local once, seen = {}, {}
  for _, one in ipairs(list) do
    if not seen[one] then once[#once + 1], seen[one] = one, true end
  end
  return once
end

-- ---- types of session options ----

-- pids and CPUs are ints to the kernel
check.define("id", "a number from 0 to 2^31 - 1", function(value)
  return (check.read("integer 0..2147483647", value))
end)

local function read_ids(value)
  local list, why
  if type(value) == "table" then
    list, why = check.read("list of id", value)
  elseif value ~= "self" then
    list = { (check.read("id", value)) }
  else
    return { 0 }
  end
  return list and list[1] and M.each_once(list), why
end

check.define("ids", "a number from 0 to 2^31 - 1, a list of them, or \"self\"", function(value)
  local list, why = read_ids(value)
  return list or nil, why
end)

check.define("cpus", "a list such as \"0-3,7\", numbers, or \"all\"", function(value)
  if value == "all" then return value end
  if type(value) == "table" then
    local list, why = read_ids(value)
    if next(value) == nil then why = "the list is empty; machines and cgroups are watched CPU by CPU" end
    return list or nil, why
  end
  if type(value) ~= "string" and math.type(value) ~= "integer" then return nil end
  return units.list(value, "list")
end)

check.define("command", "a list, the program first", function(value)
  if type(value) ~= "table" then return nil end
  local words, why = check.read("list of string", value)
  for _, word in ipairs(words or {}) do
    if word:find("\0", 1, true) then return nil, "a word with a NUL byte in it" end
  end
  return words, why
end)

check.define("watch", "a descriptor and a function", function(value)
  local watch = raw(value)
  local is_one = type(value) == "table" and math.type(watch[1]) == "integer" and type(watch[2]) == "function"
  return is_one and watch or nil
end)

local TIMES = "smhd" -- perf record's suffixes; an m is minutes, an M bytes

--- Parses the moment at which a recording begins a new file.
-- @tparam string|number v  "100M" or a number of bytes; "30s", "5m", "1h", "1d"; "signal": SIGUSR2
-- @treturn[1] table        `bytes`, `ns` or `by_signal`
-- @treturn[2] nil
-- @treturn[2] string
function M.switch_output(v)
  if v == "signal" then return { by_signal = true } end
  local number, unit = tostring(v):match("^(%d+)([" .. TIMES .. "])$")
  number = math.tointeger(tonumber(number))
  local ns = number and units.duration(unit == "d" and number * 24 .. "h" or number .. unit)
  local bytes = not unit and units.size(v)
  if (ns or bytes or 0) > 0 then return { ns = ns, bytes = bytes or nil } end
  return nil, ("'%s': expected a size (100M), a time (30s, 5m, 1h, 1d) or signal"):format(shown(v))
end

check.define("switch output", 'a size, a time or "signal"', function(value)
  if type(value) ~= "string" and type(value) ~= "number" then return nil end
  return M.switch_output(value)
end)

-- ---- options that exclude each other ----

--- True if the span between two times (units.moment) is certainly empty, before the recording is read.
function M.are_crossed(from, to)
  if from.percent and to.percent then return from.percent > to.percent end
  return from.ns and to.ns and from.first == to.first and from.ns > to.last_ns
end

--- True if the session watches the machine and selects records by their task's comm at that time.
function M.selects_comm(opts) return opts.all_cpus and opts.comm ~= nil and not opts.input end

-- { option, with = or without = another option, cause, remedy; is = condition other than being set }
local conflicts = {
  { "from", without = "input", "only a recording has times to select from", "duration, or input" },
  { "to", without = "input", "only a recording has times to select from", "duration, or input" },
  { "jobs", without = "input", "only a recording is read on threads", "input = FILE" },
  { "record", with = "input", "it is recorded already", "without record" },
  { "record", with = "overwrite", "a recording needs every record, and overwritten ones are read by snapshots alone",
    "record or overwrite" },
  { "compress", without = "record", "it requires a recording", "record = FILE" },
  { "switch_output", without = "record", "it requires a recording", "record = FILE" },
  { "switch_max_files", without = "switch_output", "a single file is not switched", "switch_output = \"100M\"" },
  { "names", without = "record", "it requires a recording", "record = FILE" },
  { "lines", without = "names", "they are kept beside the names", "names = true" },
  { "max_size", without = "record", "it requires a recording", "record = FILE" },
}
for _, name in ipairs { "uid", "cgroup", "command", "all_cpus", "buffer", "readers", "overwrite", "clock" } do
  conflicts[#conflicts + 1] = { "input", with = name, "a recording is as it was made, and the kernel is not asked",
                                "without " .. name }
end
for _, name in ipairs { "pid", "tid", "uid", "cgroup" } do
  conflicts[#conflicts + 1] = { "all_cpus", with = name, "all_cpus watches every process, the other some",
                                "all_cpus or " .. name }
end
for _, name in ipairs { "pid", "tid", "uid", "comm" } do
  conflicts[#conflicts + 1] = { "cgroup", with = name, "a cgroup is a target by itself", "cgroup or " .. name }
end

local function in_conflict(what, cause, remedy)
  return ("%s\n  %s\n  try: %s"):format(what, cause, remedy)
end

-- Why these options exclude each other, or nil.
local function conflict_of(opts)
  if opts.from and opts.to and M.are_crossed(opts.from, opts.to) then
    return in_conflict("from is later than to", "nothing lies between them", "the other way round")
  end
  for _, one in ipairs(conflicts) do
    if opts[one[1]] and one.with and opts[one.with] then
      return in_conflict(("%s and %s at once"):format(one[1], one.with), one[2], one[3])
    elseif opts[one[1]] and one.without and not opts[one.without] then
      return in_conflict(("%s without %s"):format(one[1], one.without), one[2], one[3])
    end
  end
  if opts.switch_output and opts.record == "-" then
    return in_conflict("switch_output and record \"-\" at once", "switch_output makes files, and \"-\" is a stream",
      "record = FILE")
  end
  if M.selects_comm(opts) and opts.record then
    return in_conflict("record, all_cpus and comm at once", "a recording of the machine has every process",
      "record without comm, and comm with input when it is read")
  end
end

-- ---- checking ----

--- Set by a runner: f(name, value) -> the reason to refuse the option or the signal, or nil.
M.refuse_option = nil

--- A copy of a declaration, so that later changes have no effect. Made without running its metamethods.
M.copy = raw

--- Checks opts and puts them, converted, into a table.
-- @tparam table opts  as `perfev.session` takes them
-- @tparam table into  gets lists of ids, bytes, nanoseconds, clock ids
-- @treturn[1] table   into
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.read(opts, into)
  local read, why = check.options(opts, types)
  if not read then return nil, why end
  for name in pairs(M.refuse_option and read or {}) do
    why = M.refuse_option(name, opts[name])
    if why then return nil, why end
  end
  if read.max_bytes and read.max_bytes < M.LEAST_BYTES then
    return nil, ("max_bytes must be 1M or more, not %s"):format(shown(opts.max_bytes))
  end
  if read.input and (opts.pid == "self" or opts.tid == "self") then
    return nil, in_conflict("input and pid \"self\"", "the recorded process is another", "the number of its process")
  end
  if type(read.events) == "string" then read.events = { read.events } end
  for _, text in ipairs(read.events and read.events[2] and read.events or {}) do
    if text:find("|", 1, true) then return nil, "events: alternatives must be one string, not in a list" end
  end
  read.clock = clocks[read.clock]
  if read.compress == true then read.compress = 1 end -- perf record's default
  for name, value in pairs(read) do into[name] = value end
  if read.cpus == "all" then into.cpus = nil end
  if read.compress == false then into.compress = nil end
  why = conflict_of(into)
  if why then return nil, why end
  return into
end

--- The same, but raises the message.
-- @tparam integer level  of the caller, for `error`
function M.take(opts, into, level)
  local read, why = M.read(opts, into)
  if not read then error("session: " .. why, level) end
  return read
end

--- A signal's number by its name, with or without SIG; real-time signals as RTMIN+n.
-- Raises an error for an invalid value.
-- @tparam string name
-- @tparam string what    the caller's name in the message
-- @tparam integer level  of the caller, for `error`
-- @treturn integer
function M.signal(name, what, level)
  local word = shown(name):gsub("^SIG", "")
  local real_time = tonumber(word:match("^RTMIN%+(%d%d?)$"))
  local number = core.signals[word] or real_time and core.signals.RTMIN + real_time
  local refused = number and M.refuse_option and M.refuse_option("signal", number)
  if refused then error(("%s: %s"):format(what, refused), level + 1) end
  if type(name) == "string" and number and number <= core.signals.RTMAX then return number end
  local known = sorted_keys(core.signals)
  error(("%s: unknown signal '%s'%s"):format(what, shown(name), check.hint(name, known)), level + 1)
end

--- True if the session watches whole CPUs (all tasks, or a cgroup's), not processes.
function M.is_cpu_wide(opts)
  return opts.all_cpus or opts.cgroup or not (opts.pid or opts.tid or opts.command or opts.uid or opts.comm)
end

return M
