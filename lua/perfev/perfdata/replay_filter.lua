--- Turns a session's options into a filter for the records of a recording (src/task/record_filter.h).

local core = require "perfev.core"
local processes = require "perfev.event.processes"

local M = {}

local TID, TIME, CPU = 1 << 1, 1 << 2, 1 << 7 -- enum perf_event_sample_format

local function refuse(...)
  return nil, string.format(...), core.errno.EINVAL
end

-- Option, the bit of sample_type that it needs, its name in messages, and a recorder with that bit.
local required_bits = {
  { "cpus", CPU, "CPUs", "perf record --sample-cpu" },
  { "pid", TID, "processes", "a recorder that samples them" },
  { "tid", TID, "threads", "a recorder that samples them" },
  { "comm", TID, "processes", "a recorder that samples them" },
  { "from", TIME, "times", "perf record -T" },
  { "to", TIME, "times", "perf record -T" },
}

local function check_options(rec, opts, shown)
  for _, row in ipairs(required_bits) do
    local option, bit, things, recorder = table.unpack(row)
    local is_known = not opts[option]
    for _, recorded in ipairs(rec.events) do is_known = is_known or recorded.attr.sample_type & bit ~= 0 end
    if not is_known then
      return refuse("%s: the records of %s have no %s\n  its recorder did not sample them\n"
        .. "  try: without it, or %s", option, shown, things, recorder)
    end
  end
  return true
end

-- Converts a time -> ns, true if it counts from the first record | nil, message, errno
local function convert_time(rec, when, name, shown)
  if not when.percent then return name == "to" and when.last_ns or when.ns, when.first end
  local span = rec.header.sample_time
  if span and span.last > span.first then
    return span.first + math.floor((span.last - span.first) * (when.percent / 100))
  end
  return refuse("%s %s%%: %s does not have the times of its first and last sample\n"
    .. "  not all recorders write them to files, and a pipe never has them\n"
    .. "  try: seconds, as in +1.5s", name, when.percent, shown)
end

--- Makes a filter from a session's options.
-- @tparam recording rec
-- @tparam table opts     a session's checked options
-- @tparam string shown   the name of the recording, for messages
-- @treturn[1] table      `from to from_first to_first cpus pids tids comms`
-- @treturn[2] nil
-- @treturn[2] string     message with cause and remedy
-- @treturn[2] integer    errno
function M.of(rec, opts, shown)
  local ok, why, code = check_options(rec, opts, shown)
  if not ok then return nil, why, code end
  local wanted = { cpus = opts.cpus, pids = opts.pid, tids = opts.tid,
                   comms = opts.comm and processes.patterns(opts.comm) }
  for _, name in ipairs { "from", "to" } do
    if opts[name] then
      local ns, first, errno = convert_time(rec, opts[name], name, shown)
      if not ns then return nil, first, errno end
      wanted[name], wanted[name .. "_first"] = ns, first
    end
  end
  return wanted
end

--- Describes the filter in words, or "".
function M.describe(opts)
  local words = {}
  for _, row in ipairs { { "pid", "pid" }, { "tid", "tid" }, { "cpus", "cpus" } } do
    local list = opts[row[1]]
    if list then words[#words + 1] = row[2] .. " " .. table.concat(list, ",") end
  end
  if opts.comm then words[#words + 1] = "named " .. opts.comm end
  if opts.from then words[#words + 1] = "from " .. opts.from.text end
  if opts.to then words[#words + 1] = "to " .. opts.to.text end
  return table.concat(words, ", ")
end

return M
