--- Keys of a report of durations: perfev.tool.latency.

local M = {}

M.latency = {
  title = "string", by = { "table", "a list of fields" }, per = { "table", "a table of fields by key" },
  names = { "table", "a table of functions by column" }, labels = { "table", "a table of words by column" },
  column = "string", name = "function", where = "*",
  slot = "duration", footer = "function", has_remarks = "boolean",
}

return M
