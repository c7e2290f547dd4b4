--- Splits the bytes that a terminal sends into keys.

local M = {}

local by_end = { A = "up", B = "down", C = "right", D = "left", H = "home", F = "end" }
local by_number = { ["1"] = "home", ["4"] = "end", ["5"] = "pageup", ["6"] = "pagedown", ["7"] = "home", ["8"] = "end" }
local by_byte = { ["\r"] = "enter", ["\n"] = "enter", ["\127"] = "backspace", ["\8"] = "backspace" }

-- Returns the key of a control sequence and its length; nil if the text does not begin with one. The key is "" if the
-- end is missing.
local function sequence(text)
  local parameters, final = text:match "^\27[%[O]([%d;]*)([%a~]?)"
  if not parameters then return nil end
  if final == "" then return #text == 2 + #parameters and "" or nil end
  local name = final == "~" and by_number[parameters:match "^%d*"] or final ~= "~" and by_end[final]
  return name or "unknown", 3 + #parameters
end

--- Splits bytes into keys.
-- @tparam string bytes
-- @tparam[opt] boolean is_all  no more bytes belong to these: an Escape at the end is the key
-- @treturn {string,...}  names of at least two letters, as "enter" and "pageup", or a character
-- @treturn string  the bytes at the end that may begin a control sequence or a character
function M.split(bytes, is_all)
  local keys, at = {}, 1
  while at <= #bytes do
    local rest, length = bytes:sub(at), 1
    local name
    local byte = rest:sub(1, 1)
    if byte == "\27" then
      name, length = sequence(rest)
      local is_cut = name == "" or rest == "\27"
      if is_cut and not is_all then return keys, rest end
      if is_cut or not name then name, length = "esc", 1 end
    elseif byte < " " or byte == "\127" then
      name = by_byte[byte] or "unknown"
    else
      local character = rest:match("^" .. utf8.charpattern) or byte
      if byte >= "\xc0" and not utf8.len(character) and #rest < 4 and not is_all then return keys, rest end
      if utf8.len(character) then name, length = character, #character else name = "unknown" end
    end
    keys[#keys + 1] = name
    at = at + length
  end
  return keys, ""
end

return M
