--- Reads the option `fields` of a sample callback or a loop: checks the names, and selects the bits of sample_type.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local core = require "perfev.core"
local filters = lazy "perfev.tracepoint.filter"

local M = {}

local MOST = 32 -- L_FIELDS_MAX

local fail = check.fail

--- Reads a declaration's or a loop's `fields`. Raises for a name that no sample has.
-- @tparam table list     the names
-- @tparam string whose   "event" or "records", for the message
-- @tparam integer level  of the caller, for `error`
-- @treturn table  `names` (a copy), `bits` (of sample_type), `payload` (the NAMEs of args.NAME), `has_payload`,
--   `has_stack`, `has_symbol`
function M.read(list, whose, level)
  local names, why = check.value("fields", { "list of string", "a list of names" }, list)
  if not names then fail(level, "%s: %s", whose, why) end
  if #names > MOST then fail(level, "%s: fields: %d names; at most %d", whose, #names, MOST) end
  local read = { names = {}, bits = 0, payload = {} }
  for i, name in ipairs(names) do
    local bits, payload = core.sample_field(name)
    if not bits then fail(level, "%s: fields: %s", whose, payload) end
    read.names[i], read.bits = name, read.bits | bits
    read.has_payload = read.has_payload or payload ~= nil
    read.has_stack = read.has_stack or name == "stack"
    read.has_symbol = read.has_symbol or name == "symbol"
    if payload and payload ~= "" then table.insert(read.payload, payload) end
  end
  return read
end

local WEIGHT, RAW, WEIGHT_STRUCT = 1 << 14, 1 << 10, 1 << 24

--- Adds the bits of the fields to an event's sample_type.
-- @tparam integer sample_type  without them
-- @tparam table read           from `read`
-- @tparam boolean raw          true if the payload is in raw
function M.sample_type(sample_type, read, raw)
  local bits = read.bits
  if sample_type & WEIGHT_STRUCT ~= 0 then bits = bits & ~WEIGHT end
  if read.has_payload and raw then bits = bits | RAW end
  return sample_type | bits
end

-- ---- payloads ----

local function listed(fields)
  local lines, line = {}, "fields:"
  for _, field in ipairs(fields) do
    if not field.common then
      if #line + #field.name > 76 then lines[#lines + 1], line = line, "  " end
      line = line .. " " .. field.name
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n  ")
end

local function find(fields, name)
  local there = {}
  for i, field in ipairs(fields) do
    if field.name == name then return field end
    there[i] = field.name
  end
  return nil, core.nearest(name, there)
end

--- Checks that the payload has all of the wanted fields.
-- @tparam string event    its name, for the message
-- @tparam string what     the option with the names, for the message: "fields"
-- @tparam {string,...} wanted
-- @tparam ?string format  the text of its tracepoint's format file
-- @tparam[opt] function fault  f(field) -> why an existing field is refused, or nil
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string      message with cause and remedy
-- @treturn[2] integer     EINVAL
function M.check_payload(event, what, wanted, format, fault)
  if #wanted == 0 then return true end
  local there = format and filters.fields(format) or {}
  for _, name in ipairs(wanted) do
    if #there == 0 then
      return nil, ("%s: %s: args.%s: the event has no payload\n  try: a tracepoint, or a field that every "
        .. "sample has: comm, pid, tid, cpu"):format(event, what, name), core.errno.EINVAL
    end
    local field, near = find(there, name)
    local why = field and fault and fault(field)
    if not field then why = "no such field" .. check.meant(near and "args." .. near) end
    if why then
      return nil, ("%s: %s: args.%s: %s\n  %s\n  try: perfl list -v %s"):format(event, what, name, why, listed(there),
        event), core.errno.EINVAL
    end
  end
  return true
end

--- Checks that each field of a loop is in the payload of at least one event.
-- @tparam table read    from `read`
-- @tparam {table,...} events  with `name` and, if they have a payload, `format`
-- @treturn ?string      the reason if not
function M.check_pulled(read, events)
  for _, name in ipairs(read.payload) do
    local is_there, why, of_format
    for _, event in ipairs(events) do
      local ok, wrong = M.check_payload(event.name, "fields", { name }, event.format)
      is_there = is_there or ok
      why, of_format = why or wrong, of_format or event.format and wrong
    end
    if not is_there then return of_format or why end
  end
end

return M
