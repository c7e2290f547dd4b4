--- Tracepoints of a simulated kernel: makes format files from C declarations, and payloads from values.

local M = {}

local sizes = {
  char = 1, bool = 1, u8 = 1, s8 = 1, short = 2, u16 = 2, s16 = 2, int = 4, pid_t = 4, u32 = 4, s32 = 4,
  long = 8, u64 = 8, s64 = 8, size_t = 8, ["void *"] = 8,
}

local unsigned = { char = true, bool = true, u8 = true, u16 = true, u32 = true, u64 = true, size_t = true,
                   ["void *"] = true }

local common = "unsigned short common_type; unsigned char common_flags; "
  .. "unsigned char common_preempt_count; int common_pid;"

-- "unsigned long args[6]" -> { type =, name =, size =, signed =, count =, dynamic = }
local function parse_field(text)
  local dynamic = text:match("^__data_loc char%[%] ([%w_]+)$")
  if dynamic then return { text = text, name = dynamic, each = 4, size = 4, signed = false, dynamic = true } end
  local kind, name, count = text:match("^(.-)%s*([%a_][%w_]*)%[(%d+)%]$")
  if not kind then kind, name = text:match("^(.-)%s*([%a_][%w_]*)$") end
  local base = kind and kind:gsub("^unsigned ", "")
  local each = sizes[base]
  if not each then error(("tracepoint: field '%s': unknown type"):format(text), 0) end
  count = math.tointeger(tonumber(count))
  return { text = text, name = name, each = each, count = count, size = each * (count or 1),
           signed = kind == base and not unsigned[base], is_text = base == "char" and count ~= nil }
end

local function lay_out(text, fields, offset)
  for part in text:gmatch("%s*([^;]+);?") do
    local field = parse_field((part:gsub("%s+$", "")))
    offset = (offset + field.each - 1) // field.each * field.each
    field.offset, offset = offset, offset + field.size
    fields[#fields + 1] = field
  end
  return offset
end

--- A tracepoint from its fields as C declarations: "char comm[16]; pid_t pid; __data_loc char[] filename".
-- @treturn table  `id`, `system`, `name`, `fields`, `size`, `format` (the text of its file in tracefs)
function M.tracepoint(system, name, id, text, print_format)
  local fields = {}
  local head = lay_out(common, fields, 0)
  local nr = #fields
  local size = lay_out(text, fields, head)
  local lines = { "name: " .. name, "ID: " .. id, "format:" }
  for i, f in ipairs(fields) do
    lines[#lines + 1] = ("\tfield:%s;\toffset:%d;\tsize:%d;\tsigned:%d;"):format(
      f.text, f.offset, f.size, f.signed and 1 or 0)
    if i == nr then lines[#lines + 1] = "" end
  end
  lines[#lines + 1] = "\nprint fmt: " .. (print_format or '""') .. "\n"
  return { id = id, system = system, name = name, fields = fields, size = size,
           format = table.concat(lines, "\n") }
end

--- A tracepoint from a format file's text, for a fixture taken from a real machine.
function M.parse(system, text)
  local id = math.tointeger(tonumber(text:match("ID:%s*(%d+)")))
  local tp = { system = system, name = text:match("name:%s*(%S+)"), id = id, fields = {}, size = 0, format = text }
  for words, offset, size, signed in text:gmatch("field:([^;]+);%s*offset:(%d+);%s*size:(%d+);%s*signed:(%d);") do
    local name, count = words:match("([%a_][%w_]*)%[(%d*)%]$")
    name = name or words:match("([%a_][%w_]*)$")
    local n = math.tointeger(tonumber(count))
    local dynamic = words:find("^__data_loc") ~= nil
    if dynamic then name = words:match("([%a_][%w_]*)$") end
    size = math.tointeger(tonumber(size))
    tp.fields[#tp.fields + 1] = {
      text = words, name = name, offset = math.tointeger(tonumber(offset)), size = size, signed = signed == "1",
      count = n, each = n and n > 0 and size // n or size, dynamic = dynamic,
      is_text = n ~= nil and words:find("^char") ~= nil,
    }
    tp.size = math.max(tp.size, tonumber(offset) + size)
  end
  return tp
end

local function integer(field, value)
  value = value or 0
  if value == true then value = 1 end
  return string.pack("=I8", value):sub(1, field.each) -- two's complement, cut to its width (little-endian)
end

local function value_of(field, value)
  if field.is_text then
    local text = tostring(value or "")
    return text:sub(1, field.size) .. ("\0"):rep(field.size - #text)
  end
  if not field.count then return integer(field, value) end
  local out = {}
  for i = 1, field.count do out[i] = integer(field, type(value) == "table" and value[i] or 0) end
  return table.concat(out)
end

--- The payload of a sample: values by field name; missing fields are 0 or empty.
function M.pack(tp, values)
  local known, out, tail = {}, {}, {}
  local at, dynamic = 0, tp.size
  for _, field in ipairs(tp.fields) do
    known[field.name] = true
    out[#out + 1] = ("\0"):rep(field.offset - at)
    local value = values[field.name]
    if field.name == "common_type" then value = value or tp.id end
    if field.dynamic then
      local text = tostring(value or "") .. "\0"
      out[#out + 1] = string.pack("=I4", #text << 16 | dynamic)
      tail[#tail + 1], dynamic = text, dynamic + #text
    else
      out[#out + 1] = value_of(field, value)
    end
    at = field.offset + field.size
  end
  for name in pairs(values) do
    if not known[name] then error(("tracepoint %s:%s has no field '%s'"):format(tp.system, tp.name, name), 0) end
  end
  out[#out + 1] = ("\0"):rep(tp.size - at)
  return table.concat(out) .. table.concat(tail)
end

return M
