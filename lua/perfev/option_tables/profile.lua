--- Options of perfev.profile{}, of its sampler{}, and of its writers: top{}, tree{}, folded{}, html{}, svg{}, ...

local M = {}

M.profile = {
  values = { "table", "a list of names or of { name, unit = }" }, title = "*", max_bytes = "size",
  time = { "number", "a number of ns" }, duration = { "number", "a number of ns" },
}
M.profile_sampler = { under = "columns", by = "columns", value = "string", add = "function", where = "*" }
M.profile_writer = {
  value = { "string | integer > 0", "a value type's name or number" }, baseline = "table", absolute = "boolean",
  annotate = "boolean", inverted = "boolean", width = "number >= 0", least = "number >= 0", limit = "number >= 0",
  above = "string", style = "string",
}

return M
