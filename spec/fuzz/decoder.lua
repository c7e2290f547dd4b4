--- Checks an input of decoder.c; returns function(bytes), which raises if a check fails.
--
-- An input is a header, 1 to 8 attrs with their ids, and a stream of records:
--   u8  bit 0: big-endian; bits 1-3: the recorder's machine; bit 4: the attrs are made alike,
--       with IDENTIFIER, as in most recordings of several events
--   u8  number of attrs - 1
--   an attr: u8 n; n < 251: its n bytes as in a file; 255: its fields as below;
--       u8 number of ids (at most 3), and a u8 for each
--   the rest is the stream

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local core = require "perfev.core"
local codec = require "perfev.record.codec"
require "perfev.record.tostring"

local MACHINES = { "x86_64", "aarch64", "armv7l", "riscv64", "s390x", "ppc64le", "i686" }
local IDENTIFIER, SAMPLE_TYPES, LARGEST_BYTES = 1 << 16, (1 << 25) - 1, 250

local names = {}
for _, layout in ipairs(core.layouts().records) do
  for _, row in ipairs(layout.rows) do names[row.name] = true end
end
for _, row in ipairs(core.layouts().trailer) do names[row.name] = true end
for _, flag in ipairs(core.layouts().miscs) do names[flag.name] = true end
for _, name in ipairs { "type", "number", "size", "misc", "cpumode", "bytes", "sample_id", "event", "args" } do
  names[name] = true
end

-- ---- reading the input ----

-- Takes values off the front; zeros at the end.
local function reader(bytes)
  local pos = 1
  return function(format)
    local size = string.packsize(format)
    local part = bytes:sub(pos, pos + size - 1)
    pos = pos + size
    return (string.unpack(format, part .. ("\0"):rep(size - #part)))
  end, function() return bytes:sub(pos) end
end

local function read_attr(take, alike)
  local n = take "B"
  local one = {}
  if n <= LARGEST_BYTES then
    one.attr = take("c" .. n)
  else
    one.sample_type, one.read_format = take "<I4" & SAMPLE_TYPES, take "B"
    one.branch_sample_type = take "<I4"
    one.sample_regs_user, one.sample_regs_intr = take "<i8", take "<i8"
    local flags = take "B"
    one.sample_id_all, one.build_id = alike or flags & 1 == 1, flags & 2 == 2
    if alike then one.sample_type = one.sample_type | IDENTIFIER end
  end
  one.ids = {}
  for i = 1, take "B" & 3 do one.ids[i] = take "B" end
  return one
end

local function read_input(bytes)
  local take, rest = reader(bytes)
  local flags, nr = take "B", take "B" & 7
  local spec = { endian = flags & 1 == 1 and "big" or "little", arch = MACHINES[flags >> 1 & 7] }
  for i = 1, nr + 1 do spec[i] = read_attr(take, flags & 16 ~= 0) end
  return spec, rest()
end

-- ---- checks ----

local function same(a, b, path)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b or math.type(a) == "float" or error(("%s: %s, then %s"):format(path, tostring(a), tostring(b)), 0)
  end
  for key, value in pairs(a) do same(value, b[key], path .. "." .. tostring(key)) end
  for key in pairs(b) do
    if a[key] == nil then error(("%s.%s: only the second time"):format(path, tostring(key)), 0) end
  end
end

-- An attr survives a round trip through bytes().
local function check_attr(one, endian)
  local attr = core.attr_parse(one.attr, endian)
  if not attr then return end
  local text = attr:dump()
  if text ~= tostring(attr) and #text == 0 then error("an attr that dumps to nothing", 0) end
  attr:validate()
  for name, value in pairs(attr) do same(value, attr[name], name) end
  local again = assert(core.attr_parse(attr:bytes(), nil))
  same(attr:copy():bytes(), again:bytes(), "attr")
end

-- Reads a view in every way: nothing raises, and decode() equals copy().
local function check_view(d, r, pos, stream)
  local copy = r:copy()
  for name in pairs(names) do
    local value = r[name]
    if copy[name] ~= nil then same(copy[name], value, name) end
  end
  for name, value in pairs(r) do same(value, copy[name], name) end
  tostring(r)
  if r.bytes ~= stream:sub(pos, pos + r.size - 1) then error("the view is not where it says", 0) end
  d:id(stream, pos)
  local t, after = d:decode(stream, pos)
  same(copy, t, r.type)
  same(pos + r.size, after, "position")
  return copy
end

-- The encoder ends on a multiple of 8, as the kernel does.
local function pad(text, like)
  return text and like and text .. ("\0"):rep(math.min(#like - #text, 7))
end

return function(bytes)
  local spec, stream = read_input(bytes)
  for _, one in ipairs(spec) do
    if one.attr then check_attr(one, spec.endian) end
  end
  local d, why = codec.decoder(spec)
  if not d then
    return type(why) == "string" or error("refused without a reason", 0)
  end
  local encode = codec.encoder(spec)
  local function bad(message, at)
    local t, again = d:decode(stream, at)
    if t or again ~= message then error("decode and records disagree: " .. message, 0) end
  end
  for r, pos in d:records(stream, bad) do
    local t = check_view(d, r, pos, stream)
    local ok, encoded = pcall(encode, t)
    if ok then
      local t2 = assert(d:decode(encoded))
      t.size = t2.size
      for _, name in ipairs { "raw", "aux" } do t[name] = pad(t[name], t2[name]) end
      same(t, t2, t.type)
      same(encoded, encode(t2), "bytes")
    elseif not encoded:find("the kernel writes at most", 1, true) then
      error(encoded, 0)
    end
  end
end
