--- Colours of frames in pictures that no program colours; the page of :html has the same in its own words.

local M = {}

-- kind -> hue, how far it goes, saturation, how much lighter: dark text is read on all of them
local hues = { user = { 18, 36, 86, 0 }, inlined = { 140, 34, 46, 0 }, kernel = { 200, 22, 70, 8 },
  unknown = { 40, 0, 4, 3 } }

function M.frame(func)
  local hue, span, saturation, lighter = table.unpack(hues[func.kind])
  return ("hsl(%d,%d%%,%d%%)"):format(hue + span * func.shade // 100, saturation, 64 + lighter + func.shade * 7 % 12)
end

--- Red for more, blue for less, grey for the same.
-- @tparam number t  -1…1
function M.change(t)
  local size = math.sqrt(math.min(math.abs(t), 1))
  local saturation = size < 0.05 and 4 or 18 + 68 * size
  return ("hsl(%d,%.0f%%,%.0f%%)"):format(t > 0 and 6 or 214, saturation, 91 - 31 * size)
end

M.HEATS = 16

--- Which of the HEATS a count is, 0 the least: by its logarithm, so that single ones are seen beside thousands.
function M.heat(count, most)
  local t = math.log(1 + count) / math.log(1 + most)
  return math.min(M.HEATS - 1, math.floor(t * M.HEATS))
end

-- From pale yellow to a dark red, and from a dark red to bright yellow.
function M.heat_on_light(i)
  local t = i / (M.HEATS - 1)
  return ("hsl(%.0f,%.0f%%,%.0f%%)"):format(48 - 48 * t, 95 - 20 * t, 86 - 58 * t)
end
function M.heat_on_dark(i)
  local t = i / (M.HEATS - 1)
  return ("hsl(%.0f,%.0f%%,%.0f%%)"):format(52 * t, 60 + 30 * t, 24 + 50 * t)
end

return M
