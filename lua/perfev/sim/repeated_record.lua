--- A record that a world repeats many times, encoded once: each repetition changes only the bytes of its numbers.
--
-- In its step, "+100" is 100 and the number of the repetition. Where such a value lies in the bytes is found by
-- encoding it twice.

local M = {}

local Writer = {}
Writer.__index = Writer

local SOME_TIME = 1 << 40 -- its lowest byte is 0

local function base_of(value)
  local base = type(value) == "string" and value:match "^%+(%d+)$"
  return base and math.tointeger(tonumber(base))
end

-- A copy of the step with numbers; `other`: the index of a value to change, counted in `state`.
local function numbers_of(step, state, other)
  local copy, names = {}, {}
  for name in pairs(step) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local value, base = step[name], base_of(step[name])
    if base then
      state.nr = state.nr + 1
      state.bases[state.nr] = base
      value = state.nr == other and base ~ 1 or base -- another lowest byte, and no other one
    elseif type(value) == "table" then
      value = numbers_of(value, state, other)
    end
    copy[name] = value
  end
  return copy
end

local function plain(step, other)
  local state = { nr = 0, bases = {} }
  return numbers_of(step, state, other), state.bases
end

-- The places in which two texts of one length differ.
local function differences(a, b)
  local places = {}
  for i = 1, #a do
    if a:byte(i) ~= b:byte(i) then places[#places + 1] = i end
  end
  return places
end

-- The record of an event as pieces: texts, and { format, base } for numbers; base nil: the time.
local function pieces_of(self, event)
  local k = self.kernel
  local values, bases = plain(self.step)
  local function bytes(other, time) return k:_record_bytes(event, self.record_of(plain(self.step, other), time)) end
  local whole, patches = bytes(nil, SOME_TIME), {}
  for nr, base in ipairs(bases) do
    local format = base + self.times < 1 << 31 and "<I4" or "<i8"
    for _, at in ipairs(differences(whole, bytes(nr, SOME_TIME))) do
      patches[#patches + 1] = { at = at, format = format, base = base }
    end
  end
  for _, at in ipairs(differences(whole, bytes(nil, SOME_TIME + 1))) do
    patches[#patches + 1] = { at = at, format = "<i8" }
  end
  table.sort(patches, function(a, b) return a.at < b.at end)
  local pieces, from = { is_sample = values.type == "sample" }, 1
  for _, patch in ipairs(patches) do
    pieces[#pieces + 1], pieces[#pieces + 2] = whole:sub(from, patch.at - 1), patch
    from = patch.at + string.packsize(patch.format)
  end
  pieces[#pieces + 1] = whole:sub(from)
  return pieces
end

--- A writer of a step.
-- @tparam kernel k
-- @tparam table step
-- @tparam integer times         the number of repetitions
-- @tparam function record_of    (step, time) -> the record, or nil
function M.new(k, step, times, record_of)
  return setmetatable({ kernel = k, step = step, times = times, record_of = record_of, at = step.at or 0,
    pieces = {} }, Writer)
end

--- Looks for the events that request the record.
function Writer:listen()
  local record = self.record_of((plain(self.step)), SOME_TIME)
  self.events = record and self.kernel:_listeners(self.step.cpu or 0, record) or {}
  for _, event in ipairs(self.events) do self.pieces[event] = self.pieces[event] or pieces_of(self, event) end
end

--- Writes the repetition i of the record.
function Writer:push(i, time)
  for _, event in ipairs(self.events) do
    local pieces, parts = self.pieces[event], {}
    for nr, piece in ipairs(pieces) do
      parts[nr] = type(piece) == "string" and piece or string.pack(piece.format, piece.base and piece.base + i or time)
    end
    if pieces.is_sample then event.value = event.value + 1 end
    self.kernel:push(event, table.concat(parts))
  end
end

return M
