--- Options of perfev.budget{}; every other name in its table is an event with its limit.

local M = {}

M.budget = {
  warm = "boolean", gc = "one of stop, run", children = "boolean", stacks = "boolean", lines = "boolean",
  buffer = "buffer", unstable = "boolean", strict = "boolean", baseline = "path", name = "string",
}

return M
