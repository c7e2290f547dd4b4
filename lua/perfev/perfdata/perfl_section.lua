--- Reads and writes what only perfl reads in a recording: which records the session did not deliver, and the names of
-- functions at sampled addresses (perfev.symbol.saved_names).
-- They follow the version in the section of the recorder's version: lines of "key value", and at the end a line
-- "names zstd BYTES", or "names plain BYTES" without libzstd, and these bytes. perf does not skip an
-- unknown section: in a stream perf report ends there, and perf inject reads beyond its table of known writers
-- (tools/perf/util/header.c, perf_event__process_feature() and do_write_feat()).

local Bytes = require "perfev.perfdata.byte_reader"
local native = require "perfev.base.native_module"

local M = {}

--- The name of the section.
M.SECTION = "version"

local NAMES_MAX = 256 << 20 -- bytes of names
local LEVEL = 19 -- of zstd: names are few, and written once

-- Splits the section -> the version, the lines, the rest from "names" on
local function split(bytes, big)
  local reader = Bytes.new(bytes, big)
  if not pcall(reader.string, reader) then return bytes, "", "" end
  local own = bytes:sub(reader.pos)
  local names = ("\n" .. own):find("\nnames ", 1, true) or #own + 1
  return bytes:sub(1, reader.pos - 1), own:sub(1, names - 1), own:sub(names)
end

--- Parses the section. Unknown keys, of other versions, are ignored.
-- @tparam ?string bytes
-- @tparam boolean big    the recorder's byte order
-- @treturn table  `exclude_pid` (or nil), `lost_own` (default 0), `keep_own` and `hidden` (lists of event numbers,
--   from 1)
function M.read(bytes, big)
  local out = { lost_own = 0, keep_own = {}, hidden = {} }
  local _, lines = split(bytes or "", big)
  for key, value in lines:gmatch("([%w_]+) (%d+)\n") do
    value = math.tointeger(tonumber(value))
    if key == "exclude_pid" and value and value < 1 << 31 then
      out.exclude_pid = value
    elseif key == "lost_own" then
      out.lost_own = value or 0
    elseif out[key] and key ~= "exclude_pid" and value then
      table.insert(out[key], value + 1)
    end
  end
  return out
end

--- Returns the lines for a replay, without unknown ones.
-- @tparam string bytes
-- @tparam boolean big
-- @treturn string
function M.lines(bytes, big)
  local known = { exclude_pid = true, lost_own = true, keep_own = true, hidden = true }
  local _, lines = split(bytes, big)
  return (lines:gsub("([^\n]*)\n?", function(line)
    local key = line:match "^([%w_]+) %d+$"
    return (line == "recorder perfl" or known[key]) and line .. "\n" or ""
  end))
end

--- Returns the text of the names that the section keeps.
-- @treturn[1] string
-- @treturn[2] nil      it keeps none, or
-- @treturn[2] ?string  why they cannot be read
function M.names(bytes, big)
  local _, _, rest = split(bytes or "", big)
  local how, size, start = rest:match("^names (%l+) (%d+)\n()")
  if not how then return nil end
  local packed = rest:sub(start)
  if #packed ~= math.tointeger(tonumber(size)) then return nil, "the names in the recording are cut off" end
  if how == "plain" then return packed end
  local zstd, why, remedy = native "perfev.zstd"
  local text
  if zstd then text, why = zstd.decompress(packed, NAMES_MAX) end
  if text then return text end
  return nil, "the names in the recording cannot be read: " .. why .. (remedy and "\n  try: " .. remedy or "")
end

--- Returns the section with these names in the place of those that it has.
-- @tparam string bytes
-- @tparam boolean big
-- @tparam string text
-- @treturn string
-- @treturn integer  bytes of the names in it
function M.with_names(bytes, big, text)
  local version, lines = split(bytes, big)
  local zstd = native "perfev.zstd"
  local packed = zstd and zstd.compress(text, LEVEL) or text
  local names = ("names %s %d\n%s"):format(zstd and "zstd" or "plain", #packed, packed)
  return version .. lines .. names, #names
end

return M
