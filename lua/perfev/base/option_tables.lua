--- The options of each class and their types, as plain data: see perfev.base.check.
--
-- The classes check by these tables, docs_spec holds the tables of doc/api against them, and arguments_spec tries
-- every option with values that no caller means.

local M = {}

M.session = {
  pid = "ids", tid = "ids", command = "command", cpus = "cpus", all_cpus = "boolean",
  cgroup = "path", uid = { "string | integer >= 0", "a user's name or number" },
  comm = { "path", "the name of a process" },
  duration = "duration", count = "integer > 0",
  buffer = "buffer", overwrite = "boolean", ordered = "boolean",
  clock = "one of boottime, monotonic, monotonic_raw, realtime, tai",
  exclude_self = "boolean", many = "boolean", max_bytes = "size",
  input = { "path", "the path of a recording, or \"-\"" }, from = "moment", to = "moment",
  record = { "path", "the path of the new recording, or \"-\"" },
  compress = { "boolean | integer 1..22", "true or a level from 1 to 22" }, switch_output = "size",
  events = { "string | list of string", "event strings" },
  log = "function", on_error = "function", on_open = "function", strict = "boolean",
  watch = { "watch", "a descriptor and a function, { fd, f }" },
}

-- And every field of perf_event_attr, and a callback for each record type.
M.event = {
  [1] = { "string", "an event string" },
  name = "string", filter = "string", args = { "table", "a list of strings" }, optional = "boolean", many = "boolean",
  freq = { "number | boolean", "a number of samples a second" }, period = "*", callchain = "call chain",
  fields = { "table", "a list of names" }, where = "*", symbols = "boolean", aux_buffer = "boolean | buffer",
}

-- perfev.counter{}, group{}; also every field of perf_event_attr, for all of its events.
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

-- ---- aggregators: perfev.count{}, top{}, sum{}, ... ----

-- options, and more of them
local function with(options, more)
  for name, t in pairs(options) do more[name] = t end
  return more
end

M.count = {
  by = "columns", where = "*", unit = "string", title = "string", max_keys = "integer 1..2^28", slot = "duration",
}
M.top = with(M.count, { rows = "integer > 0" })
M.sum = with(M.count, { value = "string" })
M.avg, M.min, M.max, M.stats, M.quantile = M.sum, M.sum, M.sum, M.sum, M.sum
M.hist = with(M.sum, { low = "integer", high = "integer", step = "integer" })

-- s:span{}
M.span = {
  by = "columns", where = "*", into = { "aggregator", "an aggregator: perfev.hist{}, perfev.stats{}, ..." },
  least = "duration", max_waiting = "integer 1..2^28",
}
for _, name in ipairs { "start", "via", "stop", "cancel" } do
  M.span[name] = { "string | table | true", "an event string, or a table as event{} has" }
  M.span[name .. "_by"], M.span[name .. "_where"] = "columns", "*"
end

-- perfev.profile{}, its sampler{}, and its writers: top{}, tree{}, folded{}, html{}, svg{}, ...
M.profile = {
  values = { "table", "a list of names or of { name, unit = }" }, title = "*", max_bytes = "size",
  time = { "number", "a number of ns" }, duration = { "number", "a number of ns" },
}
M.profile_sampler = { under = "columns", by = "columns", value = "string", add = "function", where = "*" }
M.profile_writer = {
  value = { "string | integer > 0", "a value type's name or number" }, baseline = "table", annotate = "boolean",
  inverted = "boolean", width = "number >= 0", least = "number >= 0", limit = "number >= 0",
}

-- perfev.picture: heatmap{}, histogram{}, timeline{}; and svg{}, html{} of a perfev.hist
local drawing = { title = "*", notes = { "table", "a list of lines" }, series = { "table", "a list" }, unit = "*",
                  format = "one of svg, html" }
M.heatmap = with(drawing, { cells = "*", step = { "integer > 0", "a time in ns above 0" } })
M.histogram = with(drawing, { buckets = "*" })
M.timeline = { spans = "*", points = "*", counters = "*", title = "*" }
M.drawn_histogram = { title = "*", panels = "integer > 0", format = "one of svg, html" }

-- s:records{}, d:records(bytes, {}), rec:records{}
M.session_records = { fields = { "table", "a list of names" } }
M.decoder_records = { fields = { "table", "a list of names" }, bad = "function" }
M.recording_records = {
  fields = { "table", "a list of names" }, types = { "list of record type", "a list of names" }, user = "boolean",
}
M.open = { ordered = "boolean", window = "integer 0..2147483647", log = "function",
           fd = { "integer 0..2147483647", "a descriptor's number" } }
M.unpack = { max_bytes = "integer >= 0" }

return M
