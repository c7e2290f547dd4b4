--- Options of a session: perfev.session{}, s:configure{}.

local M = {}

M.session = {
  pid = "ids", tid = "ids", command = "command", cpus = "cpus", all_cpus = "boolean",
  cgroup = "path", uid = { "string | integer >= 0", "a user's name or number" },
  comm = { "path", "the name of a process" },
  duration = "duration", count = "integer > 0",
  buffer = "buffer", overwrite = "boolean", ordered = "boolean",
  clock = "one of boottime, monotonic, monotonic_raw, realtime, tai",
  exclude_self = "boolean", many = "boolean", max_bytes = "size",
  jobs = "integer 1..64", readers = "integer 1..64",
  input = { "path", "the path of a recording, or \"-\"" }, from = "moment", to = "moment",
  record = { "path", "the path of the new recording, or \"-\"" },
  compress = { "boolean | integer 1..22", "true or a level from 1 to 22" }, switch_output = "switch output",
  switch_max_files = "integer > 0", max_size = "size", names = "boolean", lines = "boolean",
  events = { "string | list of string", "event strings" },
  log = "function", on_error = "function", on_open = "function", strict = "boolean",
  watch = { "watch", "a descriptor and a function, { fd, f }" },
}

return M
