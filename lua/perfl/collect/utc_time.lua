--- Reads a time: 2h (ago), 2026-11-28, 2026-11-28T07:00, 2026-11-28T07:00:05 (UTC).

local parse_units = require "perfev.base.parse_units"

local M = {}

local NS = 1000000000

-- Days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in March.
local function days_of(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
end

local function is_valid(date)
  return date.month >= 1 and date.month <= 12 and date.day >= 1 and date.day <= 31 and date.hour < 24
    and date.min < 60 and date.sec < 60 and date.year >= 1970
end

--- @tparam string text
-- @tparam integer now  ns since 1970
-- @treturn[1] integer  ns since 1970
-- @treturn[2] nil
-- @treturn[2] string   what is expected
function M.parse(text, now)
  local year, month, day, rest = text:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)(.*)$"
  if year then
    local hour, min, sec = (rest == "" and "T00:00" or rest):match "^[T ](%d%d):(%d%d):?(%d?%d?)Z?$"
    if sec == "" then sec = 0 end
    local date = hour and { year = tonumber(year), month = tonumber(month), day = tonumber(day), hour = tonumber(hour),
                            min = tonumber(min), sec = tonumber(sec) }
    if date and is_valid(date) then
      return ((days_of(date.year, date.month, date.day) * 24 + date.hour) * 60 + date.min) * 60 * NS + date.sec * NS
    end
  end
  local ago = not year and parse_units.duration(text)
  if ago then return now - ago end
  return nil, "a time expected\ntry: --from 2h, or --from 2026-11-28T07:00"
end

return M
