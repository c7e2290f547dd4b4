--- Counts data dropped for lack of memory, and recognises out-of-memory errors.
local M = {}

--- Stacks that did not fit in the max_bytes of profiles and were added to (other); for the summary line.
M.stacks = 0

--- True after an allocation failed: the result is incomplete.
M.any = false

--- True for Lua's out-of-memory error and the core's.
function M.is(object)
  return type(object) == "string"
    and (object:find("^not enough memory") or object:find("^[^\n]*no memory for ")) ~= nil
end

return M
