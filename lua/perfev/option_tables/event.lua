--- Options of an event: perfev.event{}, s:event{}.

local M = {}

-- And every field of perf_event_attr, and a callback for each record type.
M.event = {
  [1] = { "string", "an event string" },
  name = "string", filter = "string", args = { "table", "a list of strings" }, optional = "boolean", many = "boolean",
  early = "boolean", freq = { "number | boolean", "a number of samples a second" }, period = "*",
  callchain = "call chain",
  extra_sample_type = { "list of string", "a list of sample_type bits" },
  fields = { "table", "a list of names" }, where = "*", symbols = "boolean", aux_buffer = "boolean | buffer",
}

return M
