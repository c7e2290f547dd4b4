--- Options of counters: perfev.counter{}, perfev.group{}.

local M = {}

-- Also every field of perf_event_attr, for all of its events.
M.counter = {
  [1] = { "string | table", "an event: a string or a table" },
  pid = "ids", tid = "ids", command = "command", cpus = "cpus", all_cpus = "boolean",
  cgroup = { "path | integer 0..2147483647", "a path, or a descriptor of its directory" },
  lost = "boolean", leader = "string", page = "boolean", log = "function", many = "boolean",
}
-- One of its events; also every field of perf_event_attr.
M.counter_event = {
  [1] = { "string", "an event string" }, name = "string", filter = "string", period = "*",
  optional = { "boolean | one of unsupported", "true, false or \"unsupported\"" },
}
-- perfev.hist_counter{}: these, and those of a counter for each of its buckets.
M.hist_counter = {
  value = "string", low = "integer", high = "integer", step = "integer", where = "*", title = "string", unit = "string",
}

return M
