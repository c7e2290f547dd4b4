--- Shortage of memory: what names found no room, and errors that say so.
local M = {}

--- How many stacks did not fit in the max_bytes of profiles and were added to (other): for the summary line.
M.stacks = 0

--- Whether there was no memory for something, so that the result is not all that it should be.
M.any = false

--- Does an error say that there is no memory? Lua's own, or one of the core's.
function M.is(object)
  return type(object) == "string"
    and (object:find("^not enough memory") or object:find("^[^\n]*no memory for ")) ~= nil
end

return M
