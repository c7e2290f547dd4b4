--- Which frames of a host, start and name have been seen: finds duplicates and gaps.
--
-- Numbers are kept as ranges, so that a sequence without gaps takes the same memory for any length. A frame in parts is
-- seen when all its parts are.

local M = {}
local Seen = {}
Seen.__index = Seen

local MOST_PARTIAL = 64  -- frames of which parts are missing
local MOST_RANGES = 4096 -- beyond, the oldest gaps are forgotten: their frames count as seen

--- Makes a set without frames.
function M.new() return setmetatable({ ranges = {}, parts = {}, partial = {} }, Seen) end

-- The index of the last range that begins at or below seq; 0 if there is none.
local function find(ranges, seq)
  for i = #ranges, 1, -1 do -- new numbers are at the end
    if ranges[i][1] <= seq then return i end
  end
  return 0
end

--- True if all parts of the frame are in the set.
function Seen:has(seq)
  local i = find(self.ranges, seq)
  return i > 0 and seq <= self.ranges[i][2]
end

-- Adds a number that is not in the set -> the first number of the gap before it, if it begins one
local function add_number(self, seq)
  local ranges = self.ranges
  local i = find(ranges, seq)
  local before, after = ranges[i], ranges[i + 1]
  if before and before[2] + 1 == seq then
    before[2] = seq
    if after and after[1] == seq + 1 then
      before[2] = after[2]
      table.remove(ranges, i + 1)
    end
    return nil
  end
  if after and after[1] == seq + 1 then
    after[1] = seq
    return nil
  end
  table.insert(ranges, i + 1, { seq, seq })
  if #ranges > MOST_RANGES then
    ranges[2][1] = ranges[1][1]
    table.remove(ranges, 1)
  end
  return before and not after and before[2] + 1 or nil
end

--- Adds a part of a frame.
-- @tparam integer seq
-- @tparam[opt] integer part  1 ..
-- @tparam[opt] integer nr    how many parts the frame has
-- @treturn boolean       false: a duplicate
-- @treturn integer|nil   the first number of a gap that ends before seq
function Seen:add(seq, part, nr)
  if self:has(seq) then return false end
  if not nr or nr <= 1 then return true, add_number(self, seq) end
  local have = self.parts[seq]
  if not have then
    have = { nr = 0 }
    self.parts[seq] = have
    self.partial[#self.partial + 1] = seq
    if #self.partial > MOST_PARTIAL then self.parts[table.remove(self.partial, 1)] = nil end
  end
  if have[part] then return false end
  have[part], have.nr = true, have.nr + 1
  if have.nr < nr then return true end
  self.parts[seq] = nil
  for i = #self.partial, 1, -1 do
    if self.partial[i] == seq then table.remove(self.partial, i) end
  end
  return true, add_number(self, seq)
end

--- True if the part is in the set, or the whole frame is.
function Seen:has_part(seq, part)
  return self:has(seq) or (self.parts[seq] and self.parts[seq][part]) == true
end

--- Returns another set with the same frames.
function Seen:copy()
  local other = M.new()
  for i, range in ipairs(self.ranges) do other.ranges[i] = { range[1], range[2] } end
  table.move(self.partial, 1, #self.partial, 1, other.partial)
  for seq, have in pairs(self.parts) do
    other.parts[seq] = {}
    for key, value in pairs(have) do other.parts[seq][key] = value end
  end
  return other
end

--- The number of frames that are missing between the first and the last.
function Seen:missing()
  local nr = 0
  for i = 2, #self.ranges do nr = nr + self.ranges[i][1] - self.ranges[i - 1][2] - 1 end
  return nr
end

--- Reads "i/n" of a header; nil for a frame in one part.
function M.part(header)
  local part, nr = tostring(header.part or ""):match "^(%d+)/(%d+)$"
  if not part then return nil end
  return math.tointeger(tonumber(part)), math.tointeger(tonumber(nr))
end

return M
