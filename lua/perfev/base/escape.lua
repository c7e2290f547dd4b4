--- Escapes untrusted text for a terminal.
--
-- A process chooses its comm and its file names; printed raw they can move the cursor or forge a line. escape()
-- replaces C0 and C1 controls, DEL, bytes that are not UTF-8, and the code points that change the direction of text
-- or break a line. It keeps a backslash, so that text without such bytes is returned unchanged.

local named = { ["\n"] = "\\n", ["\t"] = "\\t" }

-- True for invisible code points that change the text around them.
local function is_unsafe(code)
  return code < 0x20 or code >= 0x7f and code <= 0x9f -- C0; DEL, C1
    or code == 0x061c or code == 0x200e or code == 0x200f -- direction marks
    or code >= 0x2028 and code <= 0x202e -- line separators, embeddings, overrides
    or code >= 0x2066 and code <= 0x2069 -- isolates
end

local function byte_escape(c)
  return named[c] or ("\\x%02x"):format(c:byte())
end

local function sequence_length(lead)
  return lead < 0x80 and 1 or lead < 0xe0 and 2 or lead < 0xf0 and 3 or 4
end

-- The character at i and its code point; for invalid UTF-8 the byte at i and false.
local function character_at(s, i)
  local c = s:sub(i, i + sequence_length(s:byte(i)) - 1)
  if utf8.len(c) == 1 then return c, utf8.codepoint(c) end
  return s:sub(i, i), false
end

--- @tparam string s  any bytes
-- @treturn string   the text with unsafe bytes as \xNN, newline as \n, tab as \t
local function escape(s)
  if type(s) ~= "string" then error("escape: a string expected, not a " .. type(s), 2) end
  if not s:find("[\0-\31\127-\255]") then return s end
  local out, i = {}, 1
  while i <= #s do
    local c, code = s:match("^[\32-\126]+", i), 0x20
    if not c then c, code = character_at(s, i) end
    i = i + #c
    if not code or is_unsafe(code) then c = c:gsub(".", byte_escape) end
    out[#out + 1] = c
  end
  return table.concat(out)
end

return escape
