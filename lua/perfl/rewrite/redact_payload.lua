--- Redacts payloads of tracepoints: numbers stay, texts are replaced, other bytes are removed.
-- A new payload has only what the format describes; all other bytes are zero.

local M = {}

local sizes = { [1] = true, [2] = true, [4] = true, [8] = true }

-- The kind of text in a field: names of tasks are replaced as elsewhere.
local function kind_of(name) return name:find "comm$" and "comm" or "payload" end

-- Reads a declaration: "char comm[16]", "__data_loc char[] name", "int pid" -> a field's `form`: "number", "text",
-- "bytes", "rest" (to the end), "dynamic"; `relative`; `kind`. An array of numbers is bytes: the arguments of
-- raw_syscalls:sys_enter are registers, which may hold anything.
local function parse_field(declaration, size)
  local loc, type, name = declaration:match "^__(%a+)_loc (.-)%s*([%w_]+)$"
  if loc == "data" or loc == "rel" then
    local is_text = type:find "^char ?%[%]$" or type:find "^const char ?%[%]$" or type:find "char ?%*$"
    local kind = is_text and kind_of(name) or "raw"
    return { form = size == 4 and "dynamic" or "bytes", relative = loc == "rel", kind = kind }
  end
  local element, of = declaration:match "^(.-)%s*([%w_]+)%s*%[[^%]]*%]$"
  if not element then return { form = sizes[size] and "number" or "bytes", kind = "raw" } end
  local is_text = element == "char" or element == "const char"
  local kind = is_text and kind_of(of) or "raw"
  if size == 0 then return { form = "rest", kind = kind } end
  return { form = is_text and "text" or "bytes", kind = kind }
end

--- Reads a format.
-- @tparam string format  of tracefs
-- @treturn {table,...}  the fields in the order of their offsets
function M.plan(format)
  local fields = {}
  for declaration, offset, size in format:gmatch "\n\tfield:([^;\n]*);[ \t]*offset:(%d+);[ \t]*size:(%d+);" do
    local field = parse_field(declaration, tonumber(size))
    field.offset, field.size, field.order = tonumber(offset), tonumber(size), #fields
    fields[#fields + 1] = field
  end
  table.sort(fields, function(a, b)
    if a.offset ~= b.offset then return a.offset < b.offset end
    return a.order < b.order
  end)
  return fields
end

-- Fits a text in so many bytes with a NUL.
local function fitted(text, size) return text:sub(1, size - 1) .. ("\0"):rep(size - math.min(#text, size - 1)) end

local function without_nuls(bytes) return bytes:match "^(.-)\0*$" end

-- The bytes of a dynamic field. is_limited: not longer than before.
local function new_dynamic(rules, field, old, is_limited)
  if field.kind == "raw" then return rules:bytes("raw", old) end
  local text = rules:text(field.kind, without_nuls(old))
  if is_limited then text = text:sub(1, math.max(#old - 1, 0)) end
  return text .. "\0"
end

-- The bytes of a field in the fixed part.
local function new_fixed(rules, field, old)
  if field.form == "number" then return old end
  if field.form == "text" then return fitted(rules:text(field.kind, old:match "^[^\0]*"), #old) end
  return rules:bytes("raw", old)
end

local function read_loc(raw, field)
  local word = string.unpack("=I4", raw, field.offset + 1)
  local start = (word & 0xffff) + (field.relative and field.offset + 4 or 0)
  return raw:sub(start + 1, start + (word >> 16))
end

--- Returns the new payload.
-- @tparam {table,...} fields    of M.plan
-- @tparam table rules
-- @tparam string raw
-- @tparam boolean is_limited    texts do not become longer than they were
function M.redact(fields, rules, raw, is_limited)
  local parts, at, dynamic, rest = {}, 0, {}, nil
  local function put(offset, bytes)
    parts[#parts + 1] = ("\0"):rep(offset - at) .. bytes
    at = offset + #bytes
  end
  for _, field in ipairs(fields) do
    local stop = field.offset + field.size
    if field.offset < at or stop > #raw then goto next_field end -- overlaps, or is cut off
    if field.form == "dynamic" then
      put(field.offset, "")
      parts[#parts + 1] = ""
      dynamic[#dynamic + 1] = { field = field, part = #parts, old = read_loc(raw, field) }
      at = at + 4
    elseif field.form == "rest" then
      rest = rest or field
    else
      put(field.offset, new_fixed(rules, field, raw:sub(field.offset + 1, stop)))
    end
    ::next_field::
  end
  for _, one in ipairs(dynamic) do
    local field = one.field
    local bytes = new_dynamic(rules, field, one.old, is_limited):sub(1, 0xffff - math.min(at, 0xffff))
    parts[one.part] = string.pack("=I4", (at - (field.relative and field.offset + 4 or 0)) & 0xffff | #bytes << 16)
    parts[#parts + 1] = bytes
    at = at + #bytes
  end
  if rest and #dynamic == 0 and rest.offset >= at then
    put(rest.offset, new_dynamic(rules, rest, raw:sub(rest.offset + 1), is_limited))
  end
  return table.concat(parts)
end

return M
