--- Decodes and encodes records without a session: decoder{...} and encode(spec, t).
-- The decoder is the session's (src/record/record.c); the encoder uses the same layout tables. A record's table has the
-- form of r:copy(): fields by the kernel's names.

local check = require "perfev.base.check"
local core = require "perfev.core"
local option_tables = require "perfev.option_tables.records"
local registers = require "perfev.record.registers"
local samples = require "perfev.record.callback_fields"
local shown = require "perfev.base.show_value"

local M = {}

local layouts = core.layouts()
local SAMPLE, MMAP2, AUX, CALLCHAIN_DEFERRED = 9, 10, 11, 22
local SIZE_MAX = 65528
local HW_INDEX, COUNTERS, WEIGHT_STRUCT = 1 << 17, 1 << 19, 1 << 24
local TIME_ENABLED, TIME_RUNNING, FORMAT_ID, FORMAT_GROUP, FORMAT_LOST = 1, 2, 4, 8, 16
local BUILD_ID_FORM = 0x4000
local NAMESPACES = { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" }
local CONTEXTS = { -- in the order that the kernel writes them
  { "hypervisor", -32 }, { "guest_kernel", -2176 }, { "guest", -2048 }, { "guest_user", -2560 },
  { "kernel", -128 }, { "user", -512 },
}
local CPUMODES = { unknown = 0, kernel = 1, user = 2, hypervisor = 3, guest_kernel = 4, guest_user = 5 }

local NATIVE = string.pack("=I2", 1) == string.pack("<I2", 1) and "little" or "big"
local host, host_narrow = registers.of(core.machine)

-- All keys that a record's table may have.
local known = { "type", "number", "size", "misc", "cpumode", "bytes", "sample_id", "event", "args", "body",
                "pmu_format" }
local number_of = {}
for number, layout in ipairs(layouts.records) do
  number_of[layout.name] = number
  for _, row in ipairs(layout.rows) do known[#known + 1] = row.name end
end
for _, row in ipairs(layouts.build_id) do known[#known + 1] = row.name end
for _, row in ipairs(layouts.trailer) do known[#known + 1] = row.name end
for _, flag in ipairs(layouts.miscs) do known[#known + 1] = flag.name end
for _, name in ipairs(known) do known[name] = true end

-- ---- specs ----

-- Decoder options; the other keys are fields of an attr.
local own = { ids = true, attr = true, endian = true, arch = true, bits = true, event = true }

local function checked_endian(endian, level)
  if endian == nil then return NATIVE end
  if endian ~= "little" and endian ~= "big" then
    error(("endian = %s: must be \"little\" or \"big\""):format(shown(endian)), level + 1)
  end
  return endian
end

-- Makes an attr of a spec, from its bytes or its fields.
local function attr_of(spec, endian, arch, level)
  local fields
  for name, value in pairs(spec) do
    if type(name) == "string" and not own[name] then
      fields = fields or {}
      fields[name] = value
    end
  end
  if spec.attr == nil then
    local ok, attr = pcall(registers.attr, fields or {}, arch)
    if not ok then error(attr, level + 1) end
    return attr
  end
  if fields then
    error(("a spec has its attr's bytes or its fields, not both: %s"):format(next(fields)), level + 1)
  end
  if type(spec.attr) == "userdata" then return spec.attr end -- a perfev.attr; checked where it is used
  if type(spec.attr) ~= "string" then
    error("attr: its bytes, or an event's attr, not a " .. type(spec.attr), level + 1)
  end
  return core.attr_parse(spec.attr, endian)
end

local function machine_of(spec, level)
  local names, narrow = host, host_narrow
  if spec.arch ~= nil then
    names, narrow = registers.of(shown(spec.arch))
    if not names then
      error(("arch = '%s': no register names for it (x86, arm64, arm, riscv, s390x, powerpc)"):format(
        shown(spec.arch)), level + 1)
    end
  end
  if spec.bits ~= nil then
    if spec.bits ~= 32 and spec.bits ~= 64 then
      error(("bits = %s: a recorder's kernel has 32 or 64"):format(shown(spec.bits)), level + 1)
    end
    narrow = spec.bits == 32
  end
  return names or {}, narrow or false
end

-- Checks a spec and returns the data for the encoder or the decoder.
local function read_spec(spec, level)
  if type(spec) ~= "table" then error("a spec is a table of attr fields", level + 1) end
  local list = spec[1] and spec or { spec }
  local endian = checked_endian(spec.endian or list[1].endian, level + 1)
  local names, narrow = machine_of(spec[1] and spec or list[1], level + 1)
  local out = { big = endian == "big", registers = names, narrow = narrow }
  for i, one in ipairs(list) do
    if type(one) ~= "table" then error(("attr %d: must be a table"):format(i), level + 1) end
    if checked_endian(one.endian or endian, level + 1) ~= endian then
      error("all attrs of a decoder must have one byte order", level + 1)
    end
    local attr, why = attr_of(one, endian, one.arch or list[1].arch, level + 1)
    if not attr then return nil, why end
    out[i] = { attr = attr, ids = one.ids or {}, event = one.event }
  end
  return out
end

--- Makes a decoder for the records of one event, or of several that are distinguished by their ids.
-- @tparam table spec  attr fields by the kernel's names, or `attr` = their bytes of any published
--   size; `endian` "little" | "big" (this machine's), `arch` (this machine's, names registers),
--   `bits` 32 | 64, `ids` = list, `event` = the value of r.event; or a list of such tables
-- @treturn[1] decoder  d:decode(bytes [, pos]) -> table, next position | nil, message;
--   d:records(bytes [, opts]) -> iterator over views, or over `fields`; d:id(bytes [, pos]) -> id
-- @treturn[2] nil
-- @treturn[2] string  why the bytes are not an attr, or why the attrs cannot be distinguished
function M.decoder(spec)
  local read, why = read_spec(spec, 2)
  if not read then return nil, why end
  local context = { big = read.big, narrow = read.narrow, registers = read.registers }
  for i, one in ipairs(read) do context[2 * i - 1] = one.event end
  return core.decoder(read, context)
end

local methods = core.decoder_methods
local native_records = methods.records

--- Iterates over the records in bytes, as views (each valid until the next one) with their positions.
-- @tparam string bytes
-- @tparam ?table opts  `fields`: only samples, as the values of these fields, as for a sample callback; the first is
--   false instead of nil; `bad`: f(message, position), called for each malformed record, which is skipped; without
--   `bad` it raises
function methods:records(bytes, opts)
  if type(bytes) ~= "string" then error("records: the bytes are a string, not a " .. type(bytes), 2) end
  if opts == nil then return native_records(self, bytes) end
  if type(opts) == "function" then return native_records(self, bytes, opts) end
  opts = check.take("records", opts, option_tables.decoder_records, 3)
  local read = opts.fields and samples.read(opts.fields, "records", 3) or nil
  if read and read.has_payload then
    error("records: fields: a decoder has no formats of payloads\n  try: a recording's records, or a session's", 2)
  end
  return native_records(self, bytes, opts.bad, read and read.names)
end

-- ---- values -> bytes ----

-- w is the state of encoding one record: its attr, its kind, and the byte order for string.pack.
local function raise(w, name, value, wanted)
  error(("%s: %s = %s: must be %s"):format(w.kind, name, tostring(value), wanted), 0)
end

local function integer(w, name, value)
  if value == nil then return 0 end
  local n = math.type(value) and math.tointeger(value)
  return n or raise(w, name, value, "an integer")
end

local function u64(w, name, value)
  return w.pack(w.u64, integer(w, name, value))
end

local function narrow_number(format, bytes, signed)
  local max = (1 << 8 * bytes) - 1
  local min = signed and -(1 << 8 * bytes - 1) or 0
  return function(w, name, value)
    local n = integer(w, name, value)
    if n < min or n > max then raise(w, name, value, ("within %d bits"):format(8 * bytes)) end
    return w.pack(w.order .. format, n & max)
  end
end

local u16, u32, s32 = narrow_number("I2", 2), narrow_number("I4", 4), narrow_number("I4", 4, true)

local function text(w, name, value)
  if value == nil then return "" end
  return type(value) == "string" and value or raise(w, name, value, "a string")
end

local function list_of(w, name, value)
  if value == nil then return {} end
  return type(value) == "table" and value or raise(w, name, value, "a table")
end

local function padded(bytes)
  return bytes .. ("\0"):rep(-#bytes % 8)
end

local function words(w, name, list)
  local out = { u64(w, name, #list) }
  for i, value in ipairs(list) do out[i + 1] = u64(w, name, value) end
  return table.concat(out)
end

local function by_value(field, value)
  for n, name in pairs(field.names) do
    if name == value then return n end
  end
end

local function set_of(w, field, value)
  if math.type(value) == "integer" then return value end
  local n = 0
  for name, on in pairs(list_of(w, field.name, value)) do
    local bit = by_value(field, name) or raise(w, field.name, name, "one of its names")
    if on then n = n | 1 << bit end
  end
  -- bits without a name are only in raw
  return n
end

local function field_value(w, field, value)
  if field.kind == "set" then return set_of(w, field, value) end
  if field.kind == "flag" then return (value == true or value == 1) and 1 or 0 end
  if type(value) == "string" then return by_value(field, value) or raise(w, field.name, value, "one of its names") end
  return integer(w, field.name, value)
end

-- Encodes a word of named bits: starts with raw, and sets the named fields.
local function bits_word(w, fields, value)
  if type(value) ~= "table" then return integer(w, fields.name, value) end
  local word = integer(w, "raw", value.raw)
  for _, field in ipairs(fields) do
    local v = value[field.name]
    if v ~= nil then
      local mask = (1 << field.width) - 1
      local n = field_value(w, field, v)
      if n & ~mask ~= 0 then raise(w, field.name, v, ("within %d bits"):format(field.width)) end
      local unnamed = 0
      if type(v) == "table" then -- keep the unnamed bits of a set
        for bit = 0, field.width - 1 do
          if not field.names[bit] then unnamed = unnamed | 1 << bit end
        end
      end
      word = word & ~((mask & ~unnamed) << field.shift) | n << field.shift
    end
  end
  return word
end

-- Mirrors a branch's flags: a big-endian compiler lays out each field from the other end.
local function mirrored(word)
  local out = word >> 33 -- the reserved bits, one field
  for _, field in ipairs(layouts.bits.branch_stack) do
    local v = word >> field.shift & ((1 << field.width) - 1)
    out = out | v << 64 - field.shift - field.width
  end
  return out
end

local function read_values(w, read)
  local format = w.attr.read_format
  local times = (format & TIME_ENABLED ~= 0 and u64(w, "time_enabled", read.time_enabled) or "")
    .. (format & TIME_RUNNING ~= 0 and u64(w, "time_running", read.time_running) or "")
  local function tail(v)
    return (format & FORMAT_ID ~= 0 and u64(w, "id", v.id) or "")
      .. (format & FORMAT_LOST ~= 0 and u64(w, "lost", v.lost) or "")
  end
  if format & FORMAT_GROUP == 0 then return u64(w, "value", read.value) .. times .. tail(read) end
  local values = list_of(w, "values", read.values)
  local out = { u64(w, "nr", #values), times }
  for _, v in ipairs(values) do out[#out + 1] = u64(w, "value", v.value) .. tail(v) end
  return table.concat(out)
end

-- `raw` unchanged; else the lists by their names, each after its marker; else a plain list.
local function chain_entries(w, chain)
  if chain.raw then return chain.raw end
  local out = {}
  for _, context in ipairs(CONTEXTS) do
    local list = chain[context[1]]
    -- a deferred chain has no marker
    if list and w.number ~= CALLCHAIN_DEFERRED then out[#out + 1] = context[2] end
    for _, ip in ipairs(list or {}) do out[#out + 1] = ip end
  end
  if chain.cookie then
    out[#out + 1] = -640
    out[#out + 1] = chain.cookie
  end
  return #out > 0 and out or chain
end

local function branch(w, entry)
  local flags = bits_word(w, layouts.bits.branch_stack, entry)
  return u64(w, "from", entry.from) .. u64(w, "to", entry.to) .. w.pack(w.u64, w.big and mirrored(flags) or flags)
end

-- nil: the hardware had no entries, and the record has no hw_idx.
local function branches(w, list)
  local asked = w.attr.branch_sample_type
  local out, counters = { u64(w, "nr", #list) }, {}
  if asked & HW_INDEX ~= 0 and (#list > 0 or list.hw_idx) then
    out[2] = u64(w, "hw_idx", list.hw_idx or -1)
  end
  for i, entry in ipairs(list) do
    out[#out + 1] = branch(w, entry)
    -- all have one, or none: not every PMU has them
    if asked & COUNTERS ~= 0 and list[1].counters then counters[i] = u64(w, "counters", entry.counters) end
  end
  return table.concat(out) .. table.concat(counters)
end

local function check_registers(w, name, mask, regs)
  local may = { abi = true }
  for bit = 0, 63 do
    if mask >> bit & 1 == 1 then
      may[bit] = true
      if w.registers[bit] then may[w.registers[bit]] = true end
    end
  end
  for key in pairs(regs) do
    if not may[key] then
      error(("%s: %s: register '%s' is not in the attr's mask 0x%x"):format(w.kind, name, tostring(key), mask), 0)
    end
  end
end

local function regs_values(w, name, regs)
  local mask = w.attr["sample_" .. name]
  check_registers(w, name, mask, regs)
  local out = { u64(w, "abi", regs.abi) }
  for bit = 0, 63 do
    if out[1] ~= w.zero and mask >> bit & 1 == 1 then
      local register = w.registers[bit]
      local value = register and regs[register]
      if value == nil then value = regs[bit] end
      out[#out + 1] = u64(w, register or bit, value)
    end
  end
  return table.concat(out)
end

local function stack(w, bytes, size)
  size = size or (#bytes + 7) // 8 * 8
  if size < #bytes then raise(w, "stack_size", size, ("at least the %d bytes of stack_user"):format(#bytes)) end
  if size == 0 then return w.zero end
  return u64(w, "stack_size", size) .. bytes .. ("\0"):rep(size - #bytes) .. u64(w, "dyn_size", #bytes)
end

local function namespaces(w, value)
  local list = {}
  for i, name in ipairs(NAMESPACES) do list[i] = value[name] or value[i] end
  for i = #NAMESPACES + 1, #value do list[i] = value[i] end
  local n = #NAMESPACES + 1
  while #list >= #NAMESPACES and value[n] do
    list[n] = value[n]
    n = n + 1
  end
  local out = { u64(w, "nr", #list) }
  for i, ns in ipairs(list) do out[i + 1] = u64(w, "dev", ns.dev) .. u64(w, "inode", ns.inode) end
  return table.concat(out)
end

-- By field, for fields whose kind does not determine their bytes; (w, t, row) -> bytes.
local fields = {
  cpu = function(w, t) return s32(w, "cpu", t.cpu) .. w.pack("I4", 0) end,
  raw = function(w, t)
    -- The kernel makes 4 + size a multiple of 8 by enlarging size; without data it writes four zeros.
    local bytes = t.raw == nil and "\0\0\0\0" or text(w, "raw", t.raw)
    bytes = bytes .. ("\0"):rep(-(#bytes + 4) % 8)
    return w.pack(w.order .. "I4", #bytes) .. bytes
  end,
  aux = function(w, t)
    local bytes = padded(text(w, "aux", t.aux))
    return u64(w, "aux", #bytes) .. bytes
  end,
  stack_size = function() return "" end, -- with stack_user
  stack_user = function(w, t)
    local size = t.stack_size ~= nil and integer(w, "stack_size", t.stack_size) or nil
    return stack(w, text(w, "stack_user", t.stack_user), size)
  end,
  weight = function(w, t)
    local struct = w.attr.sample_type & WEIGHT_STRUCT ~= 0 or type(t.weight) == "table"
    return w.pack(w.u64, struct and bits_word(w, layouts.bits.weight, t.weight) or integer(w, "weight", t.weight))
  end,
  build_id = function(w, t)
    local id = text(w, "build_id", t.build_id)
    if #id > 20 then raise(w, "build_id", ("%d bytes"):format(#id), "at most 20 bytes") end
    return string.char(#id, 0, 0, 0) .. id .. ("\0"):rep(20 - #id)
  end,
  tag = function(w, t)
    local tag = text(w, "tag", t.tag)
    return #tag <= 8 and tag .. ("\0"):rep(8 - #tag) or raise(w, "tag", tag, "8 bytes")
  end,
  old_len = function(w, t) return u16(w, "old_len", #text(w, "old_bytes", t.old_bytes)) end,
  new_len = function(w, t) return u16(w, "new_len", #text(w, "new_bytes", t.new_bytes)) end,
}

-- By kind.
local kinds = {
  u16 = function(w, t, row) return u16(w, row.name, t[row.name]) end,
  u32 = function(w, t, row) return u32(w, row.name, t[row.name]) end,
  u64 = function(w, t, row) return u64(w, row.name, t[row.name]) end,
  s32 = function(w, t, row) return s32(w, row.name, t[row.name]) end,
  string = function(w, t, row) return text(w, row.name, t[row.name]) .. "\0" end, -- padded with the body
  bytes = function(w, t, row) return text(w, row.name, t[row.name]) end,
  read = function(w, t) return read_values(w, list_of(w, "read", t.read)) end,
  chain = function(w, t) return words(w, "callchain", chain_entries(w, list_of(w, "callchain", t.callchain))) end,
  branch = function(w, t) return branches(w, list_of(w, "branch_stack", t.branch_stack)) end,
  regs = function(w, t, row) return regs_values(w, row.name, list_of(w, row.name, t[row.name])) end,
  namespaces = function(w, t) return namespaces(w, list_of(w, "namespaces", t.namespaces)) end,
  bits = function(w, t, row) return w.pack(w.u64, bits_word(w, layouts.bits[row.name], t[row.name])) end,
}

-- ---- a record ----

local function sample_body(w, t)
  local out, sample_type = {}, w.attr.sample_type
  for _, row in ipairs(layouts.records[SAMPLE].rows) do
    if sample_type & row.bit ~= 0 then out[#out + 1] = (fields[row.name] or kinds[row.kind])(w, t, row) end
  end
  return table.concat(out)
end

-- The trailer's values are in sample_id, or else in the record.
local function trailer(w, t)
  if not w.attr.sample_id_all then return "" end
  local out, sample_type = {}, w.attr.sample_type
  local sample_id = list_of(w, "sample_id", t.sample_id)
  local either = setmetatable({}, { __index = function(_, name)
    local value = sample_id[name]
    if value == nil then value = t[name] end
    return value
  end })
  for _, row in ipairs(layouts.trailer) do
    if sample_type & row.bit ~= 0 then out[#out + 1] = (fields[row.name] or kinds[row.kind])(w, either, row) end
  end
  return table.concat(out)
end

local function rows_of(w, t)
  if w.number ~= MMAP2 then return layouts.records[w.number].rows end
  if t.build_id ~= nil and not w.attr.build_id then
    error("mmap2: build_id is given, but the attr does not ask for build ids", 0)
  end
  local form = w.attr.build_id and w.misc & BUILD_ID_FORM ~= 0
  return form and layouts.build_id or layouts.records[MMAP2].rows
end

-- An AUX record's named flags and pmu_format override bits of its flags, as other flags override misc.
local function with_aux_flags(w, t)
  local flags = integer(w, "flags", t.flags)
  for _, flag in ipairs(layouts.miscs) do
    if flag.field == "flags" and t[flag.name] ~= nil then
      flags = t[flag.name] and flags | flag.mask or flags & ~flag.mask
    end
  end
  if t.pmu_format ~= nil then
    local format = integer(w, "pmu_format", t.pmu_format)
    if format < 0 or format > 255 then raise(w, "pmu_format", format, "0 to 255") end
    flags = flags & ~0xff00 | format << 8
  end
  return setmetatable({ flags = flags }, { __index = t })
end

local function other_body(w, t)
  local out = {}
  if w.number == AUX then t = with_aux_flags(w, t) end
  for _, row in ipairs(rows_of(w, t)) do
    out[#out + 1] = (fields[row.name] or kinds[row.kind])(w, t, row)
  end
  return padded(table.concat(out)) .. trailer(w, t)
end

-- An unknown type has raw, which includes its trailer, or body, which does not.
local function unknown_body(w, t)
  if t.body == nil then return text(w, "raw", t.raw) end
  return padded(text(w, "body", t.body)) .. trailer(w, t)
end

local function misc_of(w, t)
  local misc = integer(w, "misc", t.misc)
  if t.cpumode ~= nil then
    local mode = CPUMODES[t.cpumode] or raise(w, "cpumode", t.cpumode, "one of its names")
    -- modes 6 and 7 have no name
    if not (t.cpumode == "unknown" and misc & 7 > 5) then misc = misc & ~7 | mode end
  end
  for _, flag in ipairs(layouts.miscs) do
    local on = t[flag.name]
    if on ~= nil and not flag.field and w.number < 32 and flag.types >> w.number & 1 == 1 then
      if on then
        misc = misc | flag.mask
      elseif flag.name ~= "build_id_form" then -- other record types use its bit
        misc = misc & ~flag.mask
      end
    end
  end
  if w.number == MMAP2 and t.build_id ~= nil then misc = misc | BUILD_ID_FORM end
  return misc
end

local function check_keys(t)
  for name in pairs(t) do
    if not known[name] then
      error(("no record has a field '%s'%s"):format(shown(name), check.hint(name, known)), 0)
    end
  end
end

local function number_for(t)
  local number = number_of[t.type]
  if number then return number end
  number = math.type(t.number) == "integer" and t.number
  if t.type ~= nil and t.type ~= "unknown" then
    error(("unknown record type '%s'%s"):format(shown(t.type), check.hint(t.type, check.names(number_of))), 0)
  end
  return number or error("a record needs a type, or a number", 0)
end

local function write(read, t)
  check_keys(t)
  local number = number_for(t)
  local order = read.big and ">" or "<"
  local layout = layouts.records[number]
  local w = {
    attr = read[1].attr, number = number, kind = layout and layout.name or "unknown", order = order, big = read.big,
    u64 = order .. "i8", pack = string.pack, registers = read.registers, zero = ("\0"):rep(8),
  }
  w.misc = misc_of(w, t)
  local body = number == SAMPLE and sample_body(w, t) or layout and other_body(w, t) or unknown_body(w, t)
  if 8 + #body > SIZE_MAX then
    error(("%s: a record of %d bytes; the kernel writes at most %d"):format(w.kind, 8 + #body, SIZE_MAX), 0)
  end
  return string.pack(order .. "I4I2I2", number, w.misc, 8 + #body) .. body
end

local function only(read, one)
  return { one, big = read.big, narrow = read.narrow, registers = read.registers }
end

-- Selects the attr by the record's id; the first attr for a record without an id, as in decoding.
local function choose(read, t)
  if #read == 1 then return read end
  local number = number_for(t)
  local has_none = not layouts.records[number] or number ~= SAMPLE and not read[1].attr.sample_id_all
  if has_none then return only(read, read[1]) end
  local sample_id = t.sample_id or {}
  local id = sample_id.identifier or t.identifier or sample_id.id or t.id
  for _, one in ipairs(read) do
    for _, other in ipairs(one.ids) do
      if other == id then return only(read, one) end
    end
  end
  error(("id %s belongs to no attr"):format(tostring(id)), 0)
end

--- Reads a spec once and returns an encoder: encoder(spec)(t) -> bytes.
function M.encoder(spec)
  local read, why = read_spec(spec, 2)
  if not read then error(why, 2) end
  return function(t)
    local ok, bytes = pcall(function() return write(choose(read, t), t) end)
    if not ok then error(bytes, 2) end
    return bytes
  end
end

--- Encodes a record as the kernel would write it for this attr; the inverse of d:decode().
-- @tparam table spec  as for decoder
-- @tparam table t     type (or number) and fields by the kernel's names; a missing field is zero. misc is a number,
--   overridden by its named flags and cpumode; the trailer's values come from sample_id, or else from the record
-- @treturn string  raises if the record cannot be encoded
function M.encode(spec, t)
  if type(t) ~= "table" then error("a record is a table", 2) end
  local ok, encode = pcall(M.encoder, spec)
  if not ok then error(encode, 2) end
  local done, bytes = pcall(encode, t)
  if not done then error(bytes, 2) end
  return bytes
end

return M
