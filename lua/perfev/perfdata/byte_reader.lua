--- A bounded reader for bytes of unknown origin. A read beyond their end raises a string, which the decoder's caller
-- catches.

local Bytes = {}
Bytes.__index = Bytes

local M = {}

--- Creates a reader at the first byte. big: the bytes are big-endian.
function M.new(bytes, big)
  return setmetatable({ bytes = bytes, pos = 1, order = big and ">" or "<" }, Bytes)
end

function Bytes:left() return #self.bytes - self.pos + 1 end

--- Reads n bytes.
function Bytes:take(n)
  -- n comes from the bytes: any 64-bit number
  if n < 0 or n > self:left() then
    error(("byte %d: %u bytes are expected, %d are left"):format(self.pos, n, self:left()), 0)
  end
  local part = self.bytes:sub(self.pos, self.pos + n - 1)
  self.pos = self.pos + n
  return part
end

local function make_number_reader(size, format)
  return function(self)
    return (string.unpack(self.order .. format, self:take(size)))
  end
end

Bytes.u8, Bytes.u16 = make_number_reader(1, "I1"), make_number_reader(2, "I2")
Bytes.u32, Bytes.s32 = make_number_reader(4, "I4"), make_number_reader(4, "i4")
Bytes.u64 = make_number_reader(8, "i8")

--- Reads a string and its NUL.
function Bytes:zero()
  local stop = self.bytes:find("\0", self.pos, true)
  if not stop then error(("byte %d: a string without an end"):format(self.pos), 0) end
  local text = self.bytes:sub(self.pos, stop - 1)
  self.pos = stop + 1
  return text
end

--- Reads a field of fixed size -> its bytes up to the first NUL.
function Bytes:text(size)
  local text = self:take(size)
  return text:match("^[^\0]*")
end

--- Reads a string as perf writes it: its length including padding, and the bytes.
function Bytes:string() return self:text(self:u32()) end

--- Calls f nr times -> list of results. Missing bytes raise, so a wrong nr ends the loop.
function Bytes:list(nr, f)
  local out = {}
  -- an unsigned number above 2^63
  if nr < 0 then error(("byte %d: a list of %u"):format(self.pos, nr), 0) end
  for i = 1, nr do out[i] = f(self, i) end
  return out
end

return M
