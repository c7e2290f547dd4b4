--- Options of perfev.calls{} and of its reports.

local M = {}

M.calls = {
  func = "string", start = "string", stop = "string", key = "string",
  with = { "table", "a list of what to collect" }, freq = "integer > 0", callchain = "string",
  kept = "integer 100..2^24",
}
M.calls_report = {
  slowest = "number", over = "duration", title = "string",
}

return M
