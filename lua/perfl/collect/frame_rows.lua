--- The rows of a frame as lines of JSON: what it is of, its keys as columns, its values.
--
-- A name of a key that is also a name of ours gets the prefix "key_". Rows of profiles have `stack` (folded text, the
-- leaf last), `frames` and `modules` (lists in the same order). The value of keys beyond the limit has "other": true.

local is_aggregator = require("perfev.aggregate.as_callback").is_aggregator
local json = require "perfev.base.json"

local M = {}

local own = {}
for name in ("job host name kind unit begin_ns end_ns value values count sum avg min max p50 p90 p99 p999 error "
  .. "buckets stack frames modules other"):gmatch "%S+" do
  own[name] = true
end

local encode = json.encode
local stack_columns = { stack = true, ustack = true, kstack = true }

-- The name of a key's column.
local function column(name)
  local is_stack = stack_columns[name] or stack_columns[name:match "^%l+%.(.*)$" or ""]
  if is_stack and name == "stack" then return "stack" end
  return own[name] and "key_" .. name or name
end

local function member(name, value) return ("%s:%s"):format(encode(name), encode(value)) end

-- The parts of a value, in a fixed order.
local parts_of_table = { "count", "sum", "avg", "min", "max", "p50", "p90", "p99", "p999", "error", "buckets" }

local function value_members(value)
  if type(value) ~= "table" then return ',"value":' .. encode(value) end
  local parts = {}
  for _, name in ipairs(parts_of_table) do
    if value[name] ~= nil then parts[#parts + 1] = ',"' .. name .. '":' .. encode(value[name]) end
  end
  return table.concat(parts)
end

-- "a;b;c" -> { "a", "b", "c" }
local function frames_of_text(text)
  local frames = {}
  for name in text:gmatch "[^;]+" do frames[#frames + 1] = name end
  return frames
end

-- What all rows of a frame begin with.
local function head_of(header)
  local parts = {}
  for i, name in ipairs { "job", "host", "name", "kind" } do parts[i] = member(name, header[name] or "") end
  parts[#parts + 1] = ('"begin_ns":%d,"end_ns":%d'):format(header.begin or 0, header["end"] or 0)
  return "{" .. table.concat(parts, ",")
end

local function key_member(name, key)
  local text = "," .. member(column(name), key)
  if name == "stack" and type(key) == "string" then text = text .. ',"frames":' .. encode(frames_of_text(key)) end
  return text
end

local function aggregator_rows(lines, head, one)
  local spec = one:spec()
  local by, nr = spec.by, #spec.by
  if spec.unit then head = head .. ',"unit":' .. encode(spec.unit) end
  local function add(...)
    if select("#", ...) == 0 then return false end
    local parts = { head }
    for i = 1, nr do
      local key = select(i, ...)
      parts[#parts + 1] = key_member(by[i], type(key) == "userdata" and key:folded() or key)
    end
    local value = (select(nr + 1, ...))
    if spec.kind == "quantile" then value.buckets = one:buckets(table.unpack({ ... }, 1, nr)) end
    lines[#lines + 1] = table.concat(parts) .. value_members(value) .. "}\n"
    return true
  end
  local step = one:pairs()
  while add(step()) do end -- luacheck: ignore 542
  local other = one:other()
  if other ~= nil then lines[#lines + 1] = head .. ',"other":true' .. value_members(other) .. "}\n" end
end

-- A name in JSON, without the quotes; most names have nothing to escape.
local function inner(name)
  return name:find '[%c"\\\127-\255]' and encode(name):sub(2, -2) or name
end

-- ,"value":…[,"values":…]
local function profile_values(types, values)
  local text = ',"value":' .. encode(values[1])
  if #types == 1 then return text end
  local all = {}
  for i, kind in ipairs(types) do all[kind.name] = values[i] end
  return text .. ',"values":' .. encode(json.object(all))
end

-- The path to the visited frame is in two lists: names and modules, from the outermost frame on.
local function profile_rows(lines, head, profile)
  local types, names, modules = profile.values, {}, {}
  profile:walk(function(depth, frame, values)
    names[depth] = inner(frame.symbol):gsub(";", ":")
    modules[depth] = inner(frame.module or frame.kernel and "[kernel]" or "")
    if not values then return end
    lines[#lines + 1] = table.concat { head, ',"stack":"', table.concat(names, ";", 1, depth), '","frames":["',
      table.concat(names, '","', 1, depth), '"],"modules":["', table.concat(modules, '","', 1, depth), '"]',
      profile_values(types, values), "}\n" }
  end)
end

--- Returns the rows of a frame.
-- @tparam table header  of the frame
-- @param value          its aggregator or profile
-- @treturn string       lines of JSON
-- @treturn integer      how many
function M.lines(header, value)
  local lines = {}
  if is_aggregator(value) then
    aggregator_rows(lines, head_of(header), value)
  else
    profile_rows(lines, head_of(header), value)
  end
  return table.concat(lines), #lines
end

return M
