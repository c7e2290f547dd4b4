--- Aggregators and profiles as bytes: a:pack(), p:pack() and perfev.unpack.
-- Lua writes a head with the kind and the options. C appends the values (src/aggregate/pack.h,
-- src/profile/stack_tree_pack.h) and a checksum. The reader checks every byte.

local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local option_tables = require "perfev.option_tables.records"

local M = {}

local MAGIC, VERSION = "perfevAG", 2
local MOST_BYTES = 256 << 20
local MEMORY_OF_BYTE = 6 -- measured
local MOST_OPTIONS, MOST_DEPTH = 20000, 110 -- values in a head; a condition has up to 1000 comparisons, 100 deep

local kinds = { count = true, top = true, sum = true, avg = true, min = true, max = true, stats = true, hist = true,
                quantile = true }

-- The options of an aggregator that a pack has; `names` has functions.
local packed_options = { "by", "value", "unit", "title", "slot", "where", "skip", "addresses", "max_keys", "low",
  "high", "step", "rows" }
local is_packed = {}
for _, name in ipairs(packed_options) do is_packed[name] = true end

-- ---- heads ----

local put = {}

local function put_value(out, value)
  put[math.type(value) or type(value)](out, value)
end

function put.integer(out, value) out[#out + 1] = string.pack("<c1i8", "i", value) end
function put.float(out, value) out[#out + 1] = string.pack("<c1d", "d", value) end
function put.string(out, value) out[#out + 1] = string.pack("<c1s4", "s", value) end
function put.boolean(out, value) out[#out + 1] = value and "t" or "f" end
function put.table(out, list)
  out[#out + 1] = string.pack("<c1I4", "(", #list)
  for i = 1, #list do put_value(out, list[i]) end
end

--- The bytes before the values.
-- @tparam string kind
-- @tparam {string,...} names  of the options, in their order
-- @tparam table options  integers, finite floats, strings, truth values, and lists of such values
-- @treturn string
function M.head(kind, names, options)
  local out, nr = {}, 0
  for _, name in ipairs(names) do
    if options[name] ~= nil then
      nr = nr + 1
      put.string(out, name)
      put_value(out, options[name])
    end
  end
  return string.pack("<c8I4s4I4", MAGIC, VERSION, kind, nr) .. table.concat(out)
end

local take = { i = "<i8", d = "<d", s = "<s4" }

-- -> the value at this position, the position after it. Raises if it is invalid.
local function take_value(state, bytes, at, depth)
  state.nr = state.nr + 1
  if state.nr > MOST_OPTIONS or depth > MOST_DEPTH then error "too many options" end
  local mark = bytes:sub(at, at)
  if take[mark] then
    local value, after = string.unpack(take[mark], bytes, at + 1)
    if mark == "d" and (value ~= value or value == math.huge or value == -math.huge) then error "not a number" end
    return value, after
  end
  if mark == "t" or mark == "f" then return mark == "t", at + 1 end
  if mark ~= "(" then error "unknown type" end
  local nr, after = string.unpack("<I4", bytes, at + 1)
  local list = {}
  for i = 1, nr do list[i], after = take_value(state, bytes, after, depth + 1) end
  return list, after
end

-- -> kind, options, the position of the values. Raises on invalid input.
local function read_head(bytes)
  local kind, nr, at = string.unpack("<s4I4", bytes, #MAGIC + 5)
  local options, state = {}, { nr = 0 }
  for _ = 1, nr do
    local name, after = take_value(state, bytes, at, 1)
    if type(name) ~= "string" or options[name] ~= nil then error "an option twice" end
    options[name], at = take_value(state, bytes, after, 1)
  end
  return kind, options, at
end

local strings_1 = { "value", "unit", "title", "slot" }
local numbers_1 = { "max_keys", "low", "high", "step", "rows" }

-- The same for version 1, which has no other options than these.
local function read_head_1(bytes)
  local spec = { by = {} }
  local kind, nr, at = string.unpack("<s4B", bytes, #MAGIC + 5)
  for i = 1, nr do spec.by[i], at = string.unpack("<s4", bytes, at) end
  for i, list in ipairs { strings_1, numbers_1 } do
    for _, name in ipairs(list) do
      local there
      there, at = string.unpack("B", bytes, at)
      if there > 1 then error "an option is there or not" end
      if there == 1 then spec[name], at = string.unpack(i == 1 and "<s4" or "<i8", bytes, at) end
    end
  end
  if not kinds[kind] then error "unknown kind" end
  return kind, spec, at
end

-- ---- packing ----

--- Packs an aggregator, or the keys `first` to `last`. Stacks in its keys become their folded text.
-- @tparam function pack  the native function
-- @tparam table spec     its options; `where` is the condition's source
function M.pack(pack, one, spec, first, last)
  return pack(one, M.head(spec.word, packed_options, spec), function(stack) return stack:folded() end, first, last)
end

--- Packs the keys `from` to `to` of an aggregator, or the stacks of a profile, in the order in which they came. Each
-- part is a pack; the merge of all parts has the values of x. If a `top` has dropped keys, the counts of the merge, and
-- their errors, can be higher by a:floor().
-- @tparam aggregator|profile x
-- @tparam integer from  1 to #x
-- @tparam integer to    from - 1 (no key) to #x
-- @treturn string
function M.pack_range(x, from, to)
  if math.type(from) ~= "integer" or math.type(to) ~= "integer" or from < 1 or to < from - 1 or to > #x then
    error(("pack_range: %s to %s is not a range of 1 to %d"):format(tostring(from), tostring(to), #x), 2)
  end
  return x:_pack(from, to)
end

-- ---- unpacking ----

-- The reason can quote the bytes.
local function refuse(why, remedy, code)
  why = why:gsub("[^\n]+", escape)
  return nil, ("unpack: %s%s"):format(why, remedy and "\n  try: " .. remedy or ""), code or core.errno.EBADMSG
end

M.refuse = refuse

local function unpack_aggregator(agg, bytes, head, most)
  for name in pairs(head.options) do
    if not is_packed[name] then return refuse "its content is invalid" end
  end
  local one, invalid = agg.make(head.kind, head.options, true)
  if not one then return refuse(("%s: %s"):format(head.kind, invalid)) end
  local done, why, code = agg.unpack(one, bytes, head.at, most, head.version)
  if done then return one end
  return refuse(why, code == core.errno.E2BIG and "max_bytes" or nil, code)
end

--- Reads the bytes of pack(), of this version or an older one.
-- @tparam table agg   the module perfev.aggregate.aggregator
-- @tparam table profiles  the module perfev.profile
-- @tparam string bytes
-- @tparam[opt] table opts  `max_bytes`: memory that it may take (default 256 MiB)
-- @treturn[1] aggregator|profile
-- @treturn[2] nil
-- @treturn[2] string   the reason
-- @treturn[2] integer  EBADMSG, EPROTO (unknown version), E2BIG (needs more than max_bytes)
function M.unpack(agg, profiles, bytes, opts, level)
  if type(bytes) ~= "string" then error("unpack: a string expected, not a " .. type(bytes), level + 1) end
  opts = check.take("unpack", opts == nil and {} or opts, option_tables.unpack, level + 2)
  local most = opts.max_bytes or MOST_BYTES
  if bytes:sub(1, #MAGIC) ~= MAGIC then return refuse("they are not from a:pack()") end
  if #bytes < #MAGIC + 12 then return refuse "it is cut off" end
  local version = string.unpack("<I4", bytes, #MAGIC + 1)
  if version == 0 or version > VERSION then
    return refuse(("its form is number %d, and 1 to %d are known"):format(version, VERSION), "the perfev that wrote it",
      core.errno.EPROTO)
  end
  if string.unpack("<i8", bytes, #bytes - 7) ~= core.pack_sum(bytes, #bytes - 8) then
    return refuse("it is cut off or changed: its sum is another", "the file again, read and written as binary")
  end
  local ok, kind, options, at = pcall(version == 1 and read_head_1 or read_head, bytes)
  if not ok or at > #bytes - 7 or not (kinds[kind] or kind == "profile" and version > 1) then
    return refuse "its content is invalid"
  end
  local head = { kind = kind, options = options, at = at, version = version }
  -- The collector does not see C's memory, which is about so many times that of the bytes: a loop that merges many
  -- packs would keep them all.
  collectgarbage("step", MEMORY_OF_BYTE * #bytes // 1024)
  if kind == "profile" then return profiles._unpack(bytes, head, most) end
  return unpack_aggregator(agg, bytes, head, most)
end

return M
