--- Formats a record's fields as text (name=value) and as JSON, by the field kinds of the layout tables.
--
-- Addresses are hexadecimal, in JSON as strings. Other integers are written with all digits, a u64 without a sign.
-- Bytes are hexadecimal; the text form has only the first of them.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local hex = require "perfev.base.hex"
local json = require "perfev.base.json"

local M = {}

local SAMPLE, MMAP2 = 9, 10 -- PERF_RECORD_SAMPLE, PERF_RECORD_MMAP2
local BYTES = 64 -- bytes of a field in the text form

local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true, from = true, to = true, raw = true,
                    cookie = true }

--- The text of a u64, which is a signed integer in Lua.
function M.unsigned(n)
  if n >= 0 then return ("%d"):format(n) end
  local tens = (n >> 1) // 5
  return ("%d%d"):format(tens, n - tens * 10)
end

local unsigned = M.unsigned

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- ---- text ----

--- A string in quotes, escaped together with the quotes in it.
local function quoted(text) return '"' .. escape(text):gsub('"', "\\x22") .. '"' end
M.quoted = quoted

local function address(n) return ("0x%x"):format(n) end

local function bytes_text(bytes) return hex.cut(bytes, BYTES) end

local any_text

-- A table as text; fields that are false are left out.
local function table_text(t)
  local parts = {}
  if t[1] ~= nil then
    for i, value in ipairs(t) do parts[i] = any_text(nil, value) end
    return "[" .. table.concat(parts, " ") .. "]"
  end
  for _, key in ipairs(sorted_keys(t)) do
    local value, name = t[key], escape(tostring(key))
    if value == true then
      parts[#parts + 1] = name
    elseif value ~= false then
      parts[#parts + 1] = name .. "=" .. any_text(key, value)
    end
  end
  return "{" .. table.concat(parts, " ") .. "}"
end

function any_text(name, value)
  if type(value) == "table" then return table_text(value) end
  if type(value) == "string" then return quoted(value) end
  if math.type(value) == "integer" then return addresses[name] and address(value) or ("%d"):format(value) end
  return tostring(value)
end
M.any_text = any_text

local markers = { [-32] = "hypervisor:", [-128] = "kernel:", [-512] = "user:", [-640] = "deferred:",
                  [-2048] = "guest:", [-2176] = "guest_kernel:", [-2560] = "guest_user:" }

local function chain_text(chain)
  local parts = {}
  for i, ip in ipairs(chain.raw) do parts[i] = markers[ip] or address(ip) end
  return "[" .. table.concat(parts, " ") .. "]"
end

-- 0x1->0x2(mispred,cycles=3)
local function branch_text(branch)
  local parts = {}
  for _, key in ipairs(sorted_keys(branch)) do
    local value = branch[key]
    if key == "from" or key == "to" or key == "raw" or value == false or value == 0 or value == "unknown"
      or value == "na" then -- luacheck: ignore 542
    else
      parts[#parts + 1] = value == true and key or key .. "=" .. any_text(key, value)
    end
  end
  return ("0x%x->0x%x%s"):format(branch.from, branch.to, #parts > 0 and "(" .. table.concat(parts, ",") .. ")" or "")
end

local function branches_text(branches)
  local parts = {}
  for i, branch in ipairs(branches) do parts[i] = branch_text(branch) end
  if branches.hw_idx then parts[#parts + 1] = ("hw_idx=%d"):format(branches.hw_idx) end
  return "[" .. table.concat(parts, " ") .. "]"
end

local function registers_text(regs)
  local parts = { ("abi=%d"):format(regs.abi) }
  for _, key in ipairs(sorted_keys(regs)) do
    if key ~= "abi" then parts[#parts + 1] = ("%s=0x%x"):format(key, regs[key]) end
  end
  return "{" .. table.concat(parts, " ") .. "}"
end

local function integer_text(n) return ("%d"):format(n) end

local function word(text) return text end

local texts = { word = word, u16 = integer_text, u32 = integer_text, s32 = integer_text, u64 = unsigned,
                address = address, string = quoted, bytes = bytes_text, stack = bytes_text, read = table_text,
                chain = chain_text, branch = branches_text, regs = registers_text, namespaces = table_text,
                bits = function(value) return any_text(nil, value) end }

-- ---- JSON ----

local function address_json(n) return ('"0x%x"'):format(n) end
local function bytes_json(bytes) return '"' .. hex.of(bytes) .. '"' end

local any_json

local function list_json(list, one)
  local parts = {}
  for i, value in ipairs(list) do parts[i] = one(nil, value) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function table_json(t)
  if t[1] ~= nil then return list_json(t, any_json) end
  local parts = {}
  for i, key in ipairs(sorted_keys(t)) do parts[i] = json.encode(tostring(key)) .. ":" .. any_json(key, t[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

function any_json(name, value)
  if type(value) == "table" then return table_json(value) end
  if addresses[name] and math.type(value) == "integer" then return address_json(value) end
  return json.encode(value)
end
M.any_json = any_json

-- { "kernel": ["0x1"], ... }; `raw` has all addresses with the context markers.
local function chain_json(chain)
  local parts = {}
  for i, key in ipairs(sorted_keys(chain)) do
    local value = chain[key]
    parts[i] = ('"%s":%s'):format(key, type(value) == "table"
      and list_json(value, function(_, ip) return address_json(ip) end) or address_json(value))
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function registers_json(regs)
  local parts = { ('"abi":%d'):format(regs.abi) }
  for _, key in ipairs(sorted_keys(regs)) do
    if key ~= "abi" then parts[#parts + 1] = ('"%s":"0x%x"'):format(key, regs[key]) end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function bits_json(value) return any_json(nil, value) end

local jsons = { word = json.encode, u16 = integer_text, u32 = integer_text, s32 = integer_text, u64 = unsigned,
                address = address_json, string = json.encode, bytes = bytes_json, stack = bytes_json,
                read = table_json, chain = chain_json,
                branch = function(list) return list_json(list, any_json) end, regs = registers_json,
                namespaces = table_json, bits = bits_json }

-- ---- by record type ----

local layouts = core.layouts()

local function add_kinds(of, rows)
  for _, row in ipairs(rows) do
    of[row.name] = of[row.name] or row.kind == "u64" and addresses[row.name] and "address" or row.kind
  end
  return of
end

-- The kinds of fields in no layout, and of fields of unknown record types.
local others = add_kinds({ comm = "string", cpumode = "word", misc = "u16", size = "u16", number = "u32", raw = "bytes",
                           type = "string", pmu_format = "u16" }, layouts.trailer)

local kinds = {} -- type's number -> field -> kind
for number, layout in ipairs(layouts.records) do
  kinds[number] = add_kinds(add_kinds({}, layout.rows), number == MMAP2 and layouts.build_id or {})
end

local function writers(of, any)
  return setmetatable({}, { __index = function(by_type, number)
    local fields = setmetatable({}, { __index = function(by_name, name)
      by_name[name] = of[(kinds[number] or others)[name] or others[name]] or function(value) return any(name, value) end
      return by_name[name]
    end })
    by_type[number] = fields
    return fields
  end })
end

--- texts[type's number][field](value), jsons likewise.
M.texts, M.jsons = writers(texts, any_text), writers(jsons, any_json)

-- ---- samples ----

local sample_flags = {}
for _, flag in ipairs(layouts.miscs) do
  if flag.types >> SAMPLE & 1 == 1 then sample_flags[#sample_flags + 1] = { name = flag.name, flag = true } end
end

local samples = setmetatable({}, { __mode = "k" })

--- The fields that samples of an event can have, comm and flags last. Reading them by name is faster than iterating
-- over the record.
-- @treturn {table,...}  { name =, text = f, json = f } or { name =, flag = true }
function M.sample_fields(event)
  local list = samples[event]
  if list then return list end
  list = {}
  for _, row in ipairs(layouts.records[SAMPLE].rows) do
    if row.bit & event.attr.sample_type ~= 0 then
      list[#list + 1] = { name = row.name, text = M.texts[SAMPLE][row.name], json = M.jsons[SAMPLE][row.name] }
    end
  end
  list[#list + 1] = { name = "comm", text = quoted, json = json.encode }
  samples[event] = table.move(sample_flags, 1, #sample_flags, #list + 1, list)
  return samples[event]
end

-- ---- payloads ----

-- Splits a declaration such as "unsigned long *args" or "char comm[16]" -> name, type
local function parse_field(declared)
  local type_name, name, array = declared:match("^(.-)%s*([%w_]+)(%[?[^%s]*)$")
  if not name then return nil end
  return name, type_name .. array
end

-- A function that formats a payload value; integer: the form of a single integer, any: of other values.
local function payload_value(integer, any, between)
  return function(value)
    if math.type(value) == "integer" then return integer(value) end
    if type(value) ~= "table" then return any(nil, value) end
    for i, one in ipairs(value) do value[i] = integer(one) end -- the table is a fresh copy
    return "[" .. table.concat(value, between) .. "]"
  end
end

local function describe(declared, forms)
  local name, type_name = parse_field(declared)
  if not name or name:find("^common_") then return nil end
  local form = forms[name] or {}
  local pointer = type_name:find("%*$") ~= nil
  local integer = form.signed and integer_text or unsigned
  local function hexadecimal(n) return address(form.bytes < 8 and n & (1 << 8 * form.bytes) - 1 or n) end
  return {
    name = name, type = (type_name:gsub("^__data_loc ", ""):gsub("^__rel_loc ", "")),
    text = payload_value(form.hex and hexadecimal or integer, any_text, " "),
    json = payload_value(pointer and address_json or integer, any_json, ","),
  }
end

--- The fields of a tracepoint's payload, in its order and also by name, without the common fields.
-- @tparam ?string format  the text of tracefs
-- @treturn {table,...}   { name =, type = "char[16]", text = f, json = f }
function M.payload(format)
  local list, forms = {}, core.payload_forms(format or "")
  for declared in (format or ""):gmatch("\n%s*field:([^;\n]*);") do
    local field = describe(declared, forms)
    if field then list[#list + 1], list[field.name] = field, field end
  end
  return list
end

local plain = { text = payload_value(integer_text, any_text, " "), json = payload_value(integer_text, any_json, ",") }
local payloads = setmetatable({}, { __mode = "k" }) -- event -> its payload's fields, by name

local function payload_of(event)
  local list = payloads[event]
  if not list then
    list = setmetatable(M.payload(event.format and event.format.format), { __index = function() return plain end })
    payloads[event] = list
  end
  return list
end

--- Appends a payload's fields as " name=value" after the first n parts -> the new number of parts
function M.args_text(event, args, parts, n)
  local known = payload_of(event)
  for name, value in pairs(args) do
    parts[n + 1], parts[n + 2], parts[n + 3], parts[n + 4] = " ", name, "=", known[name].text(value)
    n = n + 4
  end
  return n
end

--- Appends a payload's fields as a JSON object -> the new number of parts
function M.args_json(event, args, parts, n)
  local known, between = payload_of(event), ',"args":{"'
  for name, value in pairs(args) do
    parts[n + 1], parts[n + 2], parts[n + 3], parts[n + 4] = between, name, '":', known[name].json(value)
    n, between = n + 4, ',"'
  end
  parts[n + 1] = between == ',"' and "}" or ',"args":{}'
  return n + 1
end

return M
