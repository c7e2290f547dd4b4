--- Options of aggregators: perfev.count{}, top{}, sum{}, ...

local M = {}

-- Returns the options of both tables.
local function with(options, more)
  for name, t in pairs(options) do more[name] = t end
  return more
end

M.count = {
  by = "columns", where = "*", unit = "string", title = "string", max_keys = "integer 1..2^28", slot = "duration",
  addresses = "boolean", skip = "patterns", names = { "table", "a table of functions by column" },
}
M.top = with(M.count, { rows = "integer > 0" })
M.sum = with(M.count, { value = "string" })
M.avg, M.min, M.max, M.stats, M.quantile = M.sum, M.sum, M.sum, M.sum, M.sum
M.hist = with(M.sum, { low = "integer", high = "integer", step = "integer" })

return M
