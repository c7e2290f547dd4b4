--- Formats numbers and names in columns for the text writers.

local M = {}

M.WIDTH = 80

local scales = {
  ns = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } },
  bytes = { { 1 << 30, "GiB" }, { 1 << 20, "MiB" }, { 1 << 10, "KiB" }, { 1, "B" } },
}

--- Formats a value: counts as integers, measures with a unit.
function M.number(value, unit)
  for _, scale in ipairs(scales[unit] or {}) do
    if math.abs(value) >= scale[1] or scale[1] == 1 then
      return (scale[1] == 1 and "%.0f %s" or "%.2f %s"):format(value / scale[1], scale[2])
    end
  end
  if math.type(value) == "integer" or value == math.floor(value) then return ("%.0f"):format(value) end
  return ("%.2f"):format(value)
end

--- Formats a change of a value: "+1.50 ms".
function M.signed(change, unit) return (change > 0 and "+" or "") .. M.number(change, unit) end

--- Returns a share in percent.
function M.share(value, all) return all ~= 0 and 100 * value / all or 0 end

function M.percent(value, all) return ("%.1f%%"):format(M.share(value, all)) end

--- Formats the difference of two shares in points: "+1.5".
function M.points(value, all, other, other_all)
  local change = M.share(value, all) - M.share(other, other_all)
  return math.abs(change) < 0.05 and "0.0" or ("%+.1f"):format(change)
end

--- Cuts text to a width in characters, ending in ".." if it was cut.
function M.cut(text, width)
  if utf8.len(text) <= width then return text end
  if width < 3 then return (".."):sub(1, math.max(width, 0)) end
  return text:sub(1, utf8.offset(text, width - 1) - 1) .. ".."
end

--- Formats a frame with its module: "do_fork [kernel]". The name of an unknown frame is its module.
function M.label(func)
  local module = func.module and (func.module:match("^%[.*%]$") or "[" .. func.module:match("([^/]*)/*$") .. "]")
  local label = func.name
  if func.kind == "inlined" then label = label .. " (inlined)" end
  if module and module ~= func.name then label = label .. " " .. module end
  if not module and func.kind == "kernel" then label = label .. " [kernel]" end
  return label
end

return M
