--- Keeps a bounded number of calls: a uniform sample of all of them, and the slowest.
--
-- The sample is a reservoir (Vitter's algorithm R) with a fixed seed, so the same calls in the same order give the same
-- sample. The slowest are a heap.

local M = {}

local Kept = {}
Kept.__index = Kept

local PIECES_PER_CALL, PIECES_MOST = 256, 300000 -- of timelines, each three numbers

-- True if a is to be replaced before b.
local function is_faster(a, b)
  if a.took ~= b.took then return a.took < b.took end
  if a.start ~= b.start then return a.start < b.start end
  return a.number < b.number
end

M.is_faster = is_faster

local function sift_up(heap, i)
  while i > 1 and is_faster(heap[i], heap[i // 2]) do
    heap[i], heap[i // 2], i = heap[i // 2], heap[i], i // 2
  end
end

local function sift_down(heap)
  local i = 1
  while true do
    local least = i
    for child = 2 * i, 2 * i + 1 do
      if heap[child] and is_faster(heap[child], heap[least]) then least = child end
    end
    if least == i then return end
    heap[i], heap[least], i = heap[least], heap[i], least
  end
end

-- 0 to n - 1, from the high bits of a linear congruential generator (Knuth's MMIX).
function M.new_random()
  local state = 88172645463325252
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n
  end
end

-- A call without pieces has no timeline; its sums are complete.
local function hold(self, call)
  call.holders = (call.holders or 0) + 1
  if call.holders > 1 then return end
  local nr = #call.pieces // 3
  if nr > PIECES_PER_CALL or self.pieces + nr > PIECES_MOST then
    call.pieces = nil
  else
    self.pieces = self.pieces + nr
  end
end

local function release(self, call)
  call.holders = call.holders - 1
  if call.holders == 0 and call.pieces then self.pieces = self.pieces - #call.pieces // 3 end
end

local function offer_to_slowest(self, call)
  local heap = self.slowest
  if #heap < self.most_slow then
    heap[#heap + 1] = call
    hold(self, call)
    return sift_up(heap, #heap)
  end
  if is_faster(call, heap[1]) then return end
  release(self, heap[1])
  heap[1] = call
  hold(self, call)
  sift_down(heap)
end

local function offer_to_sample(self, call)
  local sample = self.sample
  if #sample < self.most then
    sample[#sample + 1] = call
    return hold(self, call)
  end
  local place = self.random(self.count) + 1
  if place > self.most then return end
  release(self, sample[place])
  sample[place] = call
  hold(self, call)
end

--- Adds a call: { took, start, pieces, … }.
function Kept:add(call)
  self.count = self.count + 1
  call.number = self.count
  offer_to_sample(self, call)
  offer_to_slowest(self, call)
end

local function by_duration(a, b) return is_faster(b, a) end

-- Returns the `nr` slowest calls of a sorted list, and the others.
local function cut(list, nr)
  local slow = table.move(list, 1, nr, 1, {})
  return slow, table.move(list, nr + 1, #list, 1, {})
end

local function count_over(list, least)
  local nr = 0
  while list[nr + 1] and list[nr + 1].took >= least do nr = nr + 1 end
  return nr
end

--- Divides the calls into slow ones and the rest, each the slowest first.
-- @tparam table how  `slowest`: the share of slow calls; or `over`: their shortest duration in ns
-- @treturn {call,...}  slow
-- @treturn {call,...}  rest
-- @treturn integer     the number of slow calls among all calls, an estimate if the slowest were too many to keep
function Kept:divide(how)
  local sample = table.move(self.sample, 1, #self.sample, 1, {})
  local slowest = table.move(self.slowest, 1, #self.slowest, 1, {})
  table.sort(sample, by_duration)
  table.sort(slowest, by_duration)
  local function number_in(list, all) -- of slow calls
    if how.over then return count_over(list, how.over) end
    return math.min(math.max(math.ceil(how.slowest * all - 1e-9), all > 0 and 1 or 0), #list)
  end
  if self.count <= self.most then
    local nr = number_in(sample, self.count)
    local slow, rest = cut(sample, nr)
    return slow, rest, nr
  end
  local nr = number_in(slowest, self.count)
  if nr == #slowest then -- perhaps not all of them
    nr = number_in(sample, #sample)
    local slow, rest = cut(sample, nr)
    return slow, rest, self.count * nr // #sample
  end
  local slow, rest, is_slow = cut(slowest, nr), {}, {}
  for _, call in ipairs(slow) do is_slow[call] = true end
  for _, call in ipairs(sample) do
    if not is_slow[call] then rest[#rest + 1] = call end
  end
  return slow, rest, nr
end

--- @tparam integer most  size of the sample; a quarter of it is the number of slowest calls
function M.new(most)
  return setmetatable({ count = 0, sample = {}, slowest = {}, most = most, most_slow = most // 4, pieces = 0,
    random = M.new_random() }, Kept)
end

return M
