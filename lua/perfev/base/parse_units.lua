--- Parses durations, sizes, times and lists: "500ms", "2M", "+1.5s", "0-3,7".
--
-- Every function returns nil and a message for invalid text; the message quotes the text and shows a valid example.

local M = {}

local ns_per = { ns = 1, us = 10 ^ 3, ms = 10 ^ 6, s = 10 ^ 9, m = 60 * 10 ^ 9, h = 3600 * 10 ^ 9 }
local bytes_per = { B = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30 }

-- The longest range in a CPU or process list; "0-4000000000" is a typing error.
local LIST_MAX = 65536

-- digits × scale as an integer, or nil if it overflows. Whole numbers are never converted to a float, so that
-- "9007199254740993ns" keeps its last digit.
local function scaled(digits, scale)
  local whole = math.tointeger(tonumber(digits))
  if not whole then return math.tointeger(math.floor(tonumber(digits) * scale + 0.5)) end
  scale = math.tointeger(scale)
  if whole > math.maxinteger // scale then return nil end
  return whole * scale
end

-- text -> digits, unit; nil if the text is not a number followed by letters.
local function split_unit(v)
  local text = math.type(v) == "float" and ("%.9f"):format(v) or tostring(v)
  local digits, unit = text:match("^(%d*%.?%d*)(%a*)$")
  if digits and digits:find("%d") then return digits, unit end
end

local function refuse(what, v, example)
  return nil, ("%s '%s': expected %s"):format(what, tostring(v), example)
end

--- A duration in nanoseconds.
-- @tparam string|number v  "10s", "500ms", "1.5m", "1h", "100us", "5ns"; without a unit: seconds
-- @treturn[1] integer  ns, never negative
-- @treturn[2] nil
-- @treturn[2] string
function M.duration(v)
  local digits, unit = split_unit(v)
  local scale = digits and ns_per[unit == "" and "s" or unit]
  local ns = scale and scaled(digits, scale)
  if ns then return ns end
  return refuse("duration", v, "a number with ns, us, ms, s, m or h, as in 500ms")
end

--- A point in time of a recording.
-- @tparam string|integer v  "12345.678901" (seconds, as perf script prints them), "+1.5s" (after time begins),
--   "25%" (of the samples' span); an integer: ns, as in r.time
-- @treturn[1] table  `text`; `ns` or `percent`; `first`: true if ns counts from the first sample; `last_ns`: the last
--   nanosecond of a time that was printed in microseconds
-- @treturn[2] nil
-- @treturn[2] string
function M.moment(v)
  if math.type(v) == "integer" and v >= 0 then return { text = tostring(v), ns = v, last_ns = v } end
  local text = type(v) == "string" and v or ""
  local seconds, digits = text:match("^(%d+)%.?(%d*)$")
  if seconds and #seconds <= 9 and #digits <= 9 then
    local ns = math.tointeger(tonumber(seconds)) * 1000000000
    ns = ns + math.tointeger(tonumber(digits .. ("0"):rep(9 - #digits)))
    return { text = text, ns = ns, last_ns = #digits == 6 and ns + 999 or ns }
  end
  local after = text:match("^%+(.+)$")
  local ns = after and M.duration(after)
  if ns then return { text = text, ns = ns, last_ns = ns, first = true } end
  local percent = tonumber(text:match("^(%d+%.?%d*)%%$"))
  if percent and percent <= 100 then return { text = text, percent = percent } end
  return refuse("time", v, "seconds as perf script prints them (12345.678901), +1.5s or 25%")
end

--- A size in bytes.
-- @tparam string|number v  "2M", "64K", "1G", "512B" (powers of 1024); without a unit: bytes
-- @treturn[1] integer  bytes, never negative
-- @treturn[2] nil
-- @treturn[2] string
function M.size(v)
  local digits, unit = split_unit(v)
  local scale = digits and bytes_per[unit == "" and "B" or unit:upper()]
  local bytes = scale and scaled(digits, scale)
  if bytes then return bytes end
  return refuse("size", v, "a number with B, K, M or G, as in 2M")
end

local PAGE, MOST = 4096, 1 << 31

--- A buffer's size in bytes, rounded up to a power of two.
-- @tparam string|number v  as for `size`, 4K to 2G
-- @treturn[1] integer
-- @treturn[2] nil
-- @treturn[2] string
function M.buffer(v)
  local bytes, why = M.size(v)
  if not bytes then return nil, why end
  if bytes < PAGE or bytes > MOST then return nil, ("%s is not between 4K and 2G"):format(tostring(v)) end
  local size = PAGE
  while size < bytes do size = size * 2 end
  return size
end

local function add_range(list, seen, first, last)
  for i = first, last do
    if not seen[i] then
      seen[i] = true
      list[#list + 1] = i
    end
  end
end

--- The numbers of a list, without duplicates, in the order given.
-- @tparam string v  "0-3,7"
-- @tparam[opt="list"] string what  the list's name in the message ("CPU list")
-- @treturn[1] {integer,...}
-- @treturn[2] nil
-- @treturn[2] string
function M.list(v, what)
  what = what or "list"
  local list, seen = {}, {}
  for item in (tostring(v) .. ","):gmatch("([^,]*),") do
    local low, high = item:match("^(%d+)%-(%d+)$")
    if not low then low = item:match("^%d+$") end
    local first, last = math.tointeger(tonumber(low)), math.tointeger(tonumber(high or low))
    if not first or not last then return refuse(what, v, "numbers and ranges, as in 0-3,7") end
    if last < first then
      return nil, ("%s '%s': the range %s runs backwards"):format(what, v, item)
    end
    if last - first >= LIST_MAX then
      return nil, ("%s '%s': the range %s has more than %d numbers"):format(what, v, item, LIST_MAX)
    end
    add_range(list, seen, first, last)
  end
  return list
end

return M
