--- Work in pieces: a coroutine that stops when its time is used up, so that the loop reads the rings in between.

local core = require "perfev.core"

local M = {}

local MONOTONIC = 1
M.PIECE_NS = 400000 -- of a turn of the loop, which may take a millisecond

local stop_at = math.maxinteger

--- Called in the loops of the work: ends the piece if its time is used up.
function M.rest()
  if core.clock(MONOTONIC) >= stop_at and coroutine.isyieldable() then coroutine.yield "" end
end

--- Runs a piece of the work.
-- @tparam thread work
-- @treturn[1] string  what it yielded: "" if only its time was used up
-- @treturn[2] nil     it has ended
function M.run(work, ...)
  local outer = stop_at
  stop_at = core.clock(MONOTONIC) + M.PIECE_NS
  local ok, result = coroutine.resume(work, ...)
  stop_at = outer
  if not ok then error(result, 0) end
  return coroutine.status(work) ~= "dead" and result or nil
end

--- Makes a body in pieces of a function that yields texts.
-- @tparam function f
-- @treturn function  returns a text, or nil at the end
function M.body(f)
  local work = coroutine.create(f)
  return function()
    if coroutine.status(work) == "dead" then return nil end
    return M.run(work)
  end
end

--- Encodes the elements of a list as JSON, in pieces.
-- @tparam table list
-- @tparam function encode  of an element
-- @treturn string
function M.encode_list(list, encode)
  local parts = {}
  for i = 1, #list do
    parts[i] = encode(list[i])
    if i % 16 == 0 then M.rest() end
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

return M
