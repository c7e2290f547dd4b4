--- Frames: packed aggregators and profiles with a header, for files, pipes and messages.
-- src/aggregate/frame.h describes the bytes. A frame is complete in itself: frames may be concatenated, reordered and
-- repeated. What is too large for one frame is split by key into parts, each of which is an aggregator of its own.

local agg = require "perfev.aggregate.aggregator"
local check = require "perfev.base.check"
local core = require "perfev.core"
local native = require "perfev.base.native_module"
local option_tables = require "perfev.option_tables.records"
local pack = require("perfev.base.lazy_module") "perfev.aggregate.pack" -- its `profiles` is set by perfev

local M = {}

local PIECE = 256 << 10 -- bytes read at once

--- The keys of a header, in the order in which they are written; those of `integers` are read as integers.
M.keys = { "job", "host", "machine", "start", "seq", "part", "begin", "end", "name", "kind", "script", "script_sha256",
           "args", "args_sha256", "version", "lost", "refused", "late", "last" }
local integers = { seq = true, begin = true, ["end"] = true, lost = true, refused = true, late = true, last = true }
local required = { "host", "start", "seq", "part", "name", "kind" }
local known = {}
for _, key in ipairs(M.keys) do known[key] = true end

local function module()
  local loaded, why, remedy = native "perfev.frame"
  if not loaded then error("frames: " .. why .. (remedy and "\n  try: " .. remedy or ""), 0) end
  return loaded
end

--- Returns the SHA-256 of a text, as 64 hexadecimal digits.
function M.sha256(text) return module().sha256(text) end

-- ---- headers ----

local escapes = { ["\n"] = "\\n", ["\\"] = "\\\\", ["\0"] = "\\0" }
local unescapes = { ["\\n"] = "\n", ["\\\\"] = "\\", ["\\0"] = "\0" }

-- The part "i/n" -> i, n | nil
local function read_part(text)
  local i, n = tostring(text):match "^(%d+)/(%d+)$"
  i, n = math.tointeger(tonumber(i)), math.tointeger(tonumber(n))
  return i and n and i >= 1 and i <= n and i, n
end

-- A reason why the header is invalid | nil
local function invalid_header(header)
  for _, key in ipairs(required) do
    if header[key] == nil then return ("the header has no key '%s'"):format(key) end
  end
  if not header.start:find "^%x+$" or #header.start ~= 32 then
    return ("start is not 32 hexadecimal digits: '%s'"):format(header.start)
  end
  if not read_part(header.part) then return ("part is not a number of parts: '%s'"):format(header.part) end
end

local function header_text(header)
  local lines, others = {}, {}
  local function add(key)
    local value = header[key]
    if value == nil then return end
    if math.type(value) ~= "integer" and type(value) ~= "string" or integers[key] and type(value) == "string" then
      error(("frames.encode: header.%s must be %s, not %s"):format(key, integers[key] and "an integer" or
        "a string or an integer", type(value) == "string" and ("'%s'"):format(value) or type(value)), 0)
    end
    lines[#lines + 1] = ("%s=%s\n"):format(key, (tostring(value):gsub("[\n\\\0]", escapes)))
  end
  for key in pairs(header) do
    if type(key) ~= "string" or not key:find "^[a-z][a-z0-9_]*$" or key == "check" then
      error(("frames.encode: '%s' is not the name of a header's key"):format(tostring(key)), 0)
    end
    if not known[key] then others[#others + 1] = key end
  end
  table.sort(others)
  for _, key in ipairs(M.keys) do add(key) end
  for _, key in ipairs(others) do add(key) end
  return table.concat(lines)
end

-- text -> header | nil, reason
local function parse_header(text)
  local header, at = {}, 1
  while at <= #text do
    local key, value, after = text:match("^([a-z][a-z0-9_]*)=([^\n]*)\n()", at)
    if not key then return nil, "the header has an invalid line" end
    if header[key] ~= nil then return nil, ("the header has the key '%s' twice"):format(key) end
    value = value:gsub("\\.", unescapes)
    if integers[key] then
      local number = value:find "^-?%d+$" and math.tointeger(tonumber(value))
      if not number then return nil, ("%s is not an integer: '%s'"):format(key, value) end
      value = number
    end
    header[key], at = value, after
  end
  local why = invalid_header(header)
  if why then return nil, why end
  return header
end

-- ---- writing ----

-- Adds { body, raw length } for the keys from..to to parts. -> true | nil, message, errno
local function add_parts(frame, x, from, to, parts)
  local raw = to - from + 1 == #x and x:pack() or pack.pack_range(x, from, to)
  local pieces
  if #raw <= frame.max.raw then
    local body, why, code = frame.compress(raw)
    if not body then return nil, why, code end
    if #body <= frame.max.body then
      parts[#parts + 1] = { body, #raw }
      return true
    end
    pieces = #body / frame.max.body
  else
    pieces = #raw / frame.max.raw
  end
  if from >= to then
    return nil, ("a key takes more than %d bytes"):format(frame.max.body), core.errno.E2BIG
  end
  local keys = to - from + 1
  local each = math.max(1, math.min(keys // 2, math.floor(keys / (pieces * 1.1))))
  for first = from, to, each do
    local done, why, code = add_parts(frame, x, first, math.min(first + each - 1, to), parts)
    if not done then return nil, why, code end
  end
  return true
end

--- Encodes an aggregator or a profile.
-- @tparam table header  the keys of M.keys, and others; `part` and `version` are set here
-- @param x              aggregator or profile
-- @tparam[opt] table opts  `armor`: as text
-- @treturn[1] table    the parts: a list of frames
-- @treturn[2] nil
-- @treturn[2] string   the reason
-- @treturn[2] integer  E2BIG: the header, or one key, is too large
function M.encode(header, x, opts)
  opts = check.take("frames.encode", opts == nil and {} or opts, option_tables.frames_encode, 2)
  local frame, parts, copy = module(), {}, {}
  for key, value in pairs(header) do copy[key] = value end
  copy.version = copy.version or core.version
  copy.part = "1/1"
  local why = invalid_header(copy)
  if why then error("frames.encode: " .. why, 2) end
  local done, message, code = add_parts(frame, x, 1, #x, parts)
  if not done then return nil, "frames.encode: " .. message, code end
  local out = {}
  for i, part in ipairs(parts) do
    copy.part = ("%d/%d"):format(i, #parts)
    local bytes
    bytes, message, code = frame.join(header_text(copy), part[1], part[2])
    if not bytes then return nil, "frames.encode: " .. message, code end
    out[i] = opts.armor and frame.armor(bytes) or bytes
  end
  return out
end

-- ---- reading ----

local Frame = {}
Frame.__index = Frame
Frame.__name = "perfev.frame"

--- Unpacks the aggregator or the profile.
-- @tparam[opt] table opts  as of perfev.unpack
-- @return[1] aggregator or profile
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer
function Frame:value(opts)
  local raw, why, code = self._stream and self._stream.last == self and self._stream.c:raw()
  if not raw then raw, why, code = module().decode(self.bytes) end
  if not raw then return nil, "frame: " .. why, code end
  return pack.unpack(agg, pack.profiles, raw, opts, 1)
end

local Reader = {}
Reader.__index = Reader
Reader.__name = "perfev.frame_reader"

--- Adds bytes; nil: no bytes follow.
function Reader:feed(bytes)
  self.last = nil
  self.c:feed(bytes)
end

--- Returns the next frame; nothing if it needs more bytes; nil, a message and an errno for damage.
function Reader:next()
  self.last = nil
  local bytes, text, offset = self.c:next()
  if not bytes then
    if text then return nil, "frames: " .. text, offset end
    return nil
  end
  local header, why = parse_header(text)
  if not header then return nil, ("frames: byte %d: %s"):format(offset, why), core.errno.EBADMSG end
  self.last = setmetatable({ header = header, bytes = bytes, offset = offset, _stream = self }, Frame)
  return self.last
end

--- A reader for pipes: r:feed(bytes), then r:next() until it returns nothing.
function M.reader()
  return setmetatable({ c = module().stream() }, Reader)
end

-- source -> function that returns the next bytes | nil, message, errno
local function pieces_of(source)
  if type(source) == "function" then return source end
  if type(source) == "string" then
    local at = 1
    return function()
      local piece = source:sub(at, at + PIECE - 1)
      at = at + PIECE
      return piece ~= "" and piece or nil
    end
  end
  if io.type(source) == "file" then return function() return source:read(PIECE) end end
  error(("frames: a string, an open file or a function expected, not %s"):format(io.type(source) or type(source)), 3)
end

--- perfev.frames(source) iterates over frames.
-- @param source  bytes, an open file, or a function that returns the next bytes and nil at the end
-- @treturn function  returns a frame; false, a message and an errno for damage; nil at the end
local function frames(_, source)
  local read, reader, ended = pieces_of(source), M.reader(), false
  return function()
    while true do
      local frame, why, code = reader:next()
      if frame then return frame end
      if why then return false, why, code end
      if ended then return nil end
      local bytes
      bytes, why, code = read()
      ended = bytes == nil
      reader:feed(bytes)
      if ended and why then return false, why, code end
    end
  end
end

return setmetatable(M, { __call = frames })
