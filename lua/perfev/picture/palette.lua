--- Colours of frames in SVG pictures. The script of the HTML page computes the same colours.

local M = {}

-- kind -> hue, its range, saturation, added lightness; dark text is readable on all colours
local hues = { user = { 18, 36, 86, 0 }, inlined = { 140, 34, 46, 0 }, kernel = { 200, 22, 70, 8 },
  unknown = { 40, 0, 4, 3 } }

function M.frame(func)
  local hue, span, saturation, lighter = table.unpack(hues[func.kind])
  return ("hsl(%d,%d%%,%d%%)"):format(hue + span * func.shade // 100, saturation, 64 + lighter + func.shade * 7 % 12)
end

--- Returns red for an increase, blue for a decrease, grey for no change.
-- @tparam number t  -1…1
function M.change(t)
  local size = math.sqrt(math.min(math.abs(t), 1))
  local saturation = size < 0.05 and 4 or 18 + 68 * size
  return ("hsl(%d,%.0f%%,%.0f%%)"):format(t > 0 and 6 or 214, saturation, 91 - 31 * size)
end

M.HEATS = 16

--- Returns the heat class of a count, 0 the lowest. The scale is logarithmic, so that single values are visible beside
-- thousands.
function M.heat(count, most)
  local t = math.log(1 + count) / math.log(1 + most)
  return math.min(M.HEATS - 1, math.floor(t * M.HEATS))
end

-- On light backgrounds pale yellow to dark red, on dark ones dark red to bright yellow.
function M.heat_on_light(i)
  local t = i / (M.HEATS - 1)
  return ("hsl(%.0f,%.0f%%,%.0f%%)"):format(48 - 48 * t, 95 - 20 * t, 86 - 58 * t)
end
function M.heat_on_dark(i)
  local t = i / (M.HEATS - 1)
  return ("hsl(%.0f,%.0f%%,%.0f%%)"):format(52 * t, 60 + 30 * t, 24 + 50 * t)
end

return M
