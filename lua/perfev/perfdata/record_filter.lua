--- What of a recording is wanted: a session's options, as the core takes them (src/task/record_filter.h).

local core = require "perfev.core"
local processes = require "perfev.event.processes"

local M = {}

local TID, TIME, CPU = 1 << 1, 1 << 2, 1 << 7 -- enum perf_event_sample_format

local function refused(...)
  return nil, string.format(...), core.errno.EINVAL
end

-- Option -> what of a sample says it, and how a recorder is asked for that.
local said_by = {
  { "cpus", CPU, "CPUs", "perf record --sample-cpu" },
  { "pid", TID, "processes", "a recorder that asks for them" },
  { "tid", TID, "threads", "a recorder that asks for them" },
  { "comm", TID, "processes", "a recorder that asks for them" },
  { "from", TIME, "times", "perf record -T" },
  { "to", TIME, "times", "perf record -T" },
}

local function check(rec, opts, shown)
  for _, row in ipairs(said_by) do
    local option, bit, what, try = table.unpack(row)
    local said = not opts[option]
    for _, recorded in ipairs(rec.events) do said = said or recorded.attr.sample_type & bit ~= 0 end
    if not said then
      return refused("%s: %s does not say which %s its records are of\n  they were not asked for when it was made\n"
        .. "  try: without it, or %s", option, shown, what, try)
    end
  end
  return true
end

-- A time -> ns, whether they count from where time begins | nil, message, errno
local function moment(rec, when, name, shown)
  if not when.percent then return name == "to" and when.last_ns or when.ns, when.first end
  local span = rec.header.sample_time
  if span and span.last > span.first then
    return span.first + math.floor((span.last - span.first) * (when.percent / 100))
  end
  return refused("%s %s%%: %s does not say when its samples begin and end\n"
    .. "  not all recorders of files write it, and none of a pipe can\n"
    .. "  try: seconds, as in +1.5s", name, when.percent, shown)
end

--- What a session's options select.
-- @tparam recording rec
-- @tparam table opts     a session's, checked
-- @tparam string shown   the recording's name, for messages
-- @treturn[1] table      `from to from_first to_first cpus pids tids comms`
-- @treturn[2] nil
-- @treturn[2] string     in three parts
-- @treturn[2] integer    errno
function M.of(rec, opts, shown)
  local ok, why, code = check(rec, opts, shown)
  if not ok then return nil, why, code end
  local wanted = { cpus = opts.cpus, pids = opts.pid, tids = opts.tid,
                   comms = opts.comm and processes.patterns(opts.comm) }
  for _, name in ipairs { "from", "to" } do
    if opts[name] then
      local ns, first, errno = moment(rec, opts[name], name, shown)
      if not ns then return nil, first, errno end
      wanted[name], wanted[name .. "_first"] = ns, first
    end
  end
  return wanted
end

--- The same in words, or "".
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
