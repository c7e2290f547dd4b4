--- Redacts call chains. A walk by frame pointers may read any word of a stack as an address, also one with text. An
-- address of user space is kept if code is mapped there in some process.

local reader = require "perfev.perfdata.reader"

local M = {}
local Code = {}
Code.__index = Code

local CHUNK_BITS = 21 -- ranges are found by the chunks of 2 MiB that they touch
local LARGE = 1 << 30 -- bytes; larger ranges are in a list
local DATA = 1 << 13 -- PERF_RECORD_MISC_MMAP_DATA
local MARKERS = -4095 -- PERF_CONTEXT_MAX
local USER = -512 -- PERF_CONTEXT_USER
local is_map = { [reader.numbers.mmap] = true, [reader.numbers.mmap2] = true }

local function has(ranges, address)
  for i = 1, #ranges, 2 do
    if address >= ranges[i] and address < ranges[i + 1] then return true end
  end
  return false
end

local function add(ranges, start, stop)
  for i = 1, #ranges, 2 do
    if ranges[i] <= start and stop <= ranges[i + 1] then return end
  end
  ranges[#ranges + 1], ranges[#ranges + 2] = start, stop
end

--- Returns the mapped code so far: none.
function M.new() return setmetatable({ chunks = {}, large = {} }, Code) end

--- Learns of the code that a record maps.
-- @tparam integer type  of the record
-- @tparam string bytes  a record of at least 40 bytes if it is of a map
function Code:learn(type, bytes)
  if not is_map[type] or string.unpack("=I2", bytes, 5) & DATA ~= 0 then return end
  local start, len = string.unpack("=i8i8", bytes, 17)
  local stop = start + len
  if start < 0 or stop <= start then return end
  if len > LARGE then return add(self.large, start, stop) end
  for chunk = start >> CHUNK_BITS, stop - 1 >> CHUNK_BITS do
    local ranges = self.chunks[chunk] or {}
    self.chunks[chunk] = ranges
    add(ranges, start, stop)
  end
end

--- True if code is mapped at an address.
function Code:has(address)
  local ranges = self.chunks[address >> CHUNK_BITS]
  return ranges ~= nil and has(ranges, address) or has(self.large, address)
end

--- Returns a call chain with 0 in the place of each address of user space without code.
-- @tparam {integer,...} chain  as in the record, with the markers of contexts
-- @tparam boolean is_user      it begins in user space, without a marker
-- @treturn {integer,...}  the same table if nothing changes
function Code:redact(chain, is_user)
  local new
  for i, address in ipairs(chain) do
    if address < 0 and address >= MARKERS then
      is_user = address == USER
    elseif is_user and not self:has(address) then
      new = new or table.move(chain, 1, #chain, 1, {})
      new[i] = 0
    end
  end
  return new or chain
end

--- Returns the bytes of a call chain's words, redacted.
function Code:redact_bytes(bytes)
  local chain, n, at = {}, #bytes // 8, 1
  for i = 1, n do chain[i], at = string.unpack("=i8", bytes, at) end
  local new = self:redact(chain, true)
  if new == chain then return bytes end
  for i, address in ipairs(new) do new[i] = string.pack("=i8", address) end
  return table.concat(new)
end

return M
