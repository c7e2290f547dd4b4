--- Options of a snapshot: s:snapshot{}, perfev.snapshot{}.

local M = {}

M.snapshot = { record = { "path", "the path of the new recording" }, names = "boolean" }

return M
