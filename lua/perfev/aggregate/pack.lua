--- Aggregators as bytes: a:pack() and perfev.unpack.
-- Lua writes a head with the options of the aggregator. C appends the cells (src/aggregate/pack.h) and their checksum.
-- The reader checks every byte.

local check = require "perfev.base.check"
local core = require "perfev.core"
local option_tables = require "perfev.option_tables.records"

local M = {}

local MAGIC, VERSION = "perfevAG", 1
local MOST_BYTES = 256 << 20

local strings = { "value", "unit", "title", "slot" }
local numbers = { "max_keys", "low", "high", "step", "rows" }
local kinds = { count = true, top = true, sum = true, avg = true, min = true, max = true, stats = true, hist = true,
                quantile = true }

-- A byte, 0 or 1, then the value if it is set.
local function pack_optional(format, value)
  return value == nil and "\0" or "\1" .. string.pack(format, value)
end

--- Packs an aggregator. Stacks in its keys become their folded text.
-- @tparam table agg  the module perfev.aggregate.aggregator, which loads this one
function M.pack(agg, one, spec)
  local head = { MAGIC, string.pack("<I4s4B", VERSION, spec.word, #spec.by) }
  for _, name in ipairs(spec.by) do head[#head + 1] = string.pack("<s4", name) end
  for _, name in ipairs(strings) do head[#head + 1] = pack_optional("<s4", spec[name] and tostring(spec[name])) end
  for _, name in ipairs(numbers) do head[#head + 1] = pack_optional("<i8", spec[name]) end
  return agg.pack(one, table.concat(head), function(stack) return stack:folded() end)
end

-- -> options for aggregator.new, kind, the offset of the cells. Raises on truncated input.
local function read_head(bytes)
  local spec = { by = {} }
  local _, kind, nr, at = string.unpack("<I4s4B", bytes, #MAGIC + 1)
  for i = 1, nr do spec.by[i], at = string.unpack("<s4", bytes, at) end
  for i, list in ipairs { strings, numbers } do
    for _, name in ipairs(list) do
      local there
      there, at = string.unpack("B", bytes, at)
      if there > 1 then error "an option is there or not" end
      if there == 1 then spec[name], at = string.unpack(i == 1 and "<s4" or "<i8", bytes, at) end
    end
  end
  if not kinds[kind] then error(("no kind is called '%s'"):format(kind)) end
  return spec, kind, at
end

local function refuse(why, remedy, code)
  return nil, ("unpack: %s%s"):format(why, remedy and "\n  try: " .. remedy or ""), code or core.errno.EBADMSG
end

--- Reads the bytes of pack(), of this version.
-- @tparam table agg   the module perfev.aggregate.aggregator
-- @tparam string bytes
-- @tparam[opt] table opts  `max_bytes`: memory that it may take (default 256 MiB)
-- @treturn[1] aggregator
-- @treturn[2] nil
-- @treturn[2] string   the reason
-- @treturn[2] integer  EBADMSG, EPROTO (unknown version), E2BIG (needs more than max_bytes)
function M.unpack(agg, bytes, opts, level)
  if type(bytes) ~= "string" then error("unpack: a string expected, not a " .. type(bytes), level + 1) end
  opts = check.take("unpack", opts == nil and {} or opts, option_tables.unpack, level + 2)
  local most = opts.max_bytes or MOST_BYTES
  if bytes:sub(1, #MAGIC) ~= MAGIC then return refuse("they are not from a:pack()") end
  if #bytes < #MAGIC + 12 then return refuse "it is cut off" end
  local version = string.unpack("<I4", bytes, #MAGIC + 1)
  if version ~= VERSION then
    return refuse(("its form is number %d, and %d is known"):format(version, VERSION), "the perfev that wrote it",
      core.errno.EPROTO)
  end
  if string.unpack("<i8", bytes, #bytes - 7) ~= core.pack_sum(bytes, #bytes - 8) then
    return refuse("it is cut off or changed: its sum is another", "the file again, read and written as binary")
  end
  local ok, spec, kind, at = pcall(read_head, bytes)
  if not ok or at > #bytes - 7 then return refuse "its content is invalid" end
  local one, invalid = agg.make(kind, spec)
  if not one then return refuse(("%s: %s"):format(kind, invalid)) end
  local done, why, code = agg.unpack(one, bytes, at, most)
  if done then return one end
  return refuse(why, code == core.errno.E2BIG and "max_bytes" or nil, code)
end

return M
