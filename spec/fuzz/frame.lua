--- Unpacks a content of frame.c; returns function(bytes) -> is it a pack, which raises if a check fails.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local core = require "perfev.core"
local perfev = require "perfev"

local MOST = 4 << 20 -- bytes of memory
local known = { [perfev.errno.EBADMSG] = true, [perfev.errno.EPROTO] = true, [perfev.errno.E2BIG] = true }

local function unpack(bytes)
  local one, why, code = perfev.unpack(bytes, { max_bytes = MOST })
  if not one and (type(why) ~= "string" or not known[code]) then
    error("refused without a reason: " .. tostring(why), 0)
  end
  return one
end

return function(bytes)
  local one = unpack(bytes)
  if not one and #bytes > 8 then -- with a checksum that is right
    one = unpack(bytes:sub(1, -9) .. string.pack("<i8", core.pack_sum(bytes, #bytes - 8)))
  end
  if not one then return false end
  local again = one:pack()
  local other = assert(perfev.unpack(again))
  if other:pack() ~= again then error("it packs to other bytes the second time", 0) end
  one:merge(other)
  one:pack()
  return true
end
