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

--- One colour of the scale of white, yellow, red, nearly black that heat is shown in, by t in 0…1.
function M.heat(t)
  return ("hsl(%.0f,%.0f%%,%.0f%%)"):format(48 - 48 * t, 95 - 20 * t, 88 - 62 * t)
end

return M
