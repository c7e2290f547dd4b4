--- A place in bytes that somebody else wrote: every read is held against their end.
-- A read beyond it raises a string, which the caller of the whole decoder catches.

local Bytes = {}
Bytes.__index = Bytes

local M = {}

--- A place at the first of the bytes; big: of that byte order.
function M.new(bytes, big)
  return setmetatable({ bytes = bytes, pos = 1, order = big and ">" or "<" }, Bytes)
end

function Bytes:left() return #self.bytes - self.pos + 1 end

--- n bytes as they stand.
function Bytes:take(n)
  -- n may be anything that fits in 64 bits
  if n < 0 or n > self:left() then
    error(("byte %d: %u bytes should be there, %d are left"):format(self.pos, n, self:left()), 0)
  end
  local part = self.bytes:sub(self.pos, self.pos + n - 1)
  self.pos = self.pos + n
  return part
end

local function number(size, format)
  return function(self)
    return (string.unpack(self.order .. format, self:take(size)))
  end
end

Bytes.u8, Bytes.u16, Bytes.u32 = number(1, "I1"), number(2, "I2"), number(4, "I4")
Bytes.s32, Bytes.u64 = number(4, "i4"), number(8, "i8")

--- Up to a NUL, which is stepped over.
function Bytes:zero()
  local stop = self.bytes:find("\0", self.pos, true)
  if not stop then error(("byte %d: a string without an end"):format(self.pos), 0) end
  local text = self.bytes:sub(self.pos, stop - 1)
  self.pos = stop + 1
  return text
end

--- Bytes of a fixed room, up to their first NUL.
function Bytes:text(room)
  local text = self:take(room)
  return text:match("^[^\0]*")
end

--- As perf writes a string: how long, padding included, and the bytes.
function Bytes:string() return self:text(self:u32()) end

--- nr results of f, by reading on: what is not there raises, whatever nr says.
function Bytes:list(nr, f)
  local out = {}
  -- which fits in 64 bits, and in nothing
  if nr < 0 then error(("byte %d: a list of %u"):format(self.pos, nr), 0) end
  for i = 1, nr do out[i] = f(self, i) end
  return out
end

return M
