--- A limit of a budget: a number, "<= 12", "< 12", ">= 3", "> 3", "3..12", "1e6 ± 2%" or "any".

local shown = require "perfev.base.show_value"

local M = {}

local FORMS = 'a limit is a number, "<= 12", "< 12", ">= 3", "> 3", "3..12", "1e6 ± 2%" or "any"'

-- The grammar: pattern -> the low and the high bound, both included.
local function number(text)
  local n = text and text:find "^%d" and not text:find "^0[xX]" and tonumber((text:gsub("(%d)_(%d)", "%1%2")))
  return n and n < math.huge and n or nil
end

local function whole(n) return math.tointeger(n) or n end

local function below(n) return math.ceil(n) - 1 end
local function above(n) return math.floor(n) + 1 end

local comparisons = {
  ["<="] = function(n) return 0, n end, ["<"] = function(n) return 0, below(n) end,
  [">="] = function(n) return n, math.huge end, [">"] = function(n) return above(n), math.huge end,
}

local function parse_text(text)
  if text == "any" then return { kind = "any", low = 0, high = math.huge } end
  local op, bound = text:match "^([<>]=?)%s*(%S+)$"
  local n = number(bound)
  if n then
    local low, high = comparisons[op](n)
    return high >= low and { kind = op, low = low, high = high } or nil
  end
  local from, to = text:match "^(%S-)%s*%.%.%s*(%S+)$"
  local low, high = number(from), number(to)
  if low and high then return low <= high and { kind = "..", low = low, high = high } or nil end
  local middle, percent = text:gsub("±", "+-"):match "^(%S+)%s*%+%-%s*(%S-)%s*%%$"
  local centre, share = number(middle), number(percent)
  if centre and share then
    return { kind = "±", share = share, low = centre * (1 - share / 100), high = centre * (1 + share / 100) }
  end
  n = number(text)
  return n and { kind = "=", low = n, high = n } or nil
end

-- The nearest form of a text with a number in it.
local function remedy(value)
  local text = shown(value)
  local n = text:match "%d[%d_.]*"
  n = number(n) and n or "12"
  return text:find "[±%%+]" and ('"%s ± 2%%"'):format(n) or ('"<= %s"'):format(n)
end

--- Parses a limit.
-- @tparam number|string value
-- @treturn[1] table  `text`, `kind`, `low`, `high`, `share` (percent)
-- @treturn[2] nil
-- @treturn[2] string  the reason and the remedy
function M.parse(value)
  local text = value
  if type(value) == "number" then text = tostring(whole(value)) end
  local found = type(text) == "string" and parse_text(text:match "^%s*(.-)%s*$")
  if found then
    found.text = text:match "^%s*(.-)%s*$"
    return found
  end
  return nil, ("limit '%s'\n  %s\n  try: %s"):format(shown(value), FORMS, remedy(value))
end

--- True if the count is within the limit.
function M.accepts(limit, count) return count >= limit.low and count <= limit.high end

--- The limit that accepts a count, in the same form. A bound that holds is kept.
-- @treturn string
function M.adapted(limit, count)
  local n = ("%d"):format(count)
  if limit.kind == "=" then return n end
  if limit.kind == "±" then
    local centre = (limit.low + limit.high) / 2
    return centre == count and limit.text or ("%s ± %g%%"):format(n, limit.share)
  end
  if M.accepts(limit, count) then return limit.text end
  if limit.kind == ".." then
    return ("%d..%d"):format(math.min(count, limit.low), math.max(count, limit.high))
  end
  return (limit.kind:find "<" and "<= " or ">= ") .. n
end

return M
