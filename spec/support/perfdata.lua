-- perfdata.lua - builds recordings byte by byte as perf writes them, for a file or a pipe, in
-- either byte order; and prints the records of a recording, a line for each.

local codec = require "perfev.record.codec"
local perfev = require "perfev"

local M = {}

local NATIVE = string.pack("=I2", 1) == string.pack("<I2", 1) and "little" or "big"

-- A builder: `order` as in string.pack; `spec` describes each event as perfev.encoder takes it.
local function new(opts)
  local endian = opts.endian or NATIVE
  local self = { endian = endian, order = endian == "big" and ">" or "<", events = {}, records = {}, specs = {} }
  for i, event in ipairs(opts.events) do
    local spec = { endian = endian, ids = event.ids or { i }, attr = nil }
    for name, value in pairs(event.attr) do spec[name] = value end
    self.specs[i] = spec
    self.events[i] = { ids = spec.ids, bytes = M.attr_bytes(event.attr, endian, event.size), name = event.name }
  end
  local encode, first = codec.encoder(self.specs), codec.encoder { self.specs[1] }
  -- records that a recorder writes about existing tasks have no id
  self.encode = function(t)
    local id = t.identifier or t.sample_id and t.sample_id.identifier
    return (id and encode or first)(t)
  end
  return self
end

-- The words of an attr in memory order; sizes in bytes.
local WORDS = { 4, 4, 8, 8, 8, 8, "flags", 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8, 8, 8 }

-- Reverses the fields of a flag word; precise_ip has two bits, every other field one.
local function mirrored(flags)
  local out, bit = 0, 0
  while bit < 64 do
    local width = bit == 15 and 2 or 1
    out = out | (flags >> bit & (1 << width) - 1) << 64 - bit - width
    bit = bit + width
  end
  return out
end

--- Returns an attr's bytes in a byte order, cut or zero-filled to `size`.
function M.attr_bytes(fields, endian, size)
  local bytes = require "perfev.core".attr_new(fields):bytes()
  bytes = bytes .. ("\0"):rep(144 - #bytes)
  size = size or 144
  local native, order = NATIVE == "big" and ">" or "<", endian == "big" and ">" or "<"
  local out, pos = {}, 1
  for i, word in ipairs(WORDS) do
    local width = word == "flags" and 8 or word
    local value = string.unpack(native .. "i" .. width, bytes, pos)
    if word == "flags" and endian ~= NATIVE then value = mirrored(value) end
    if i == 2 then value = size end
    out[i] = string.pack(order .. "i" .. width, value)
    pos = pos + width
  end
  bytes = table.concat(out)
  return (bytes .. ("\0"):rep(size)):sub(1, size)
end

function M.new(opts) return setmetatable(new(opts), { __index = M }) end

--- Adds a kernel record, from fields or from raw bytes.
function M:add(t)
  self.records[#self.records + 1] = type(t) == "string" and t or self.encode(t)
  return self
end

--- Adds a record that tools define.
function M:user(number, body)
  body = body or ""
  return self:add(string.pack(self.order .. "I4I2I2", number, 0, 8 + #body) .. body)
end

function M:round() return self:user(68) end

function M:pack(format, ...) return string.pack(self.order .. format, ...) end

--- Returns a string as perf writes it into a feature.
function M:string(text)
  local room = (#text + 1 + 63) // 64 * 64
  return self:pack("I4", room) .. text .. ("\0"):rep(room - #text)
end

function M:event_desc()
  local out = { self:pack("I4I4", #self.events, #self.events[1].bytes) }
  for _, event in ipairs(self.events) do
    out[#out + 1] = event.bytes .. self:pack("I4", #event.ids) .. self:string(event.name or "")
    for _, id in ipairs(event.ids) do out[#out + 1] = self:pack("i8", id) end
  end
  return table.concat(out)
end

--- Returns TRACING_DATA with one format, or a list of formats. opts: header_page, kallsyms, printk,
-- cmdlines (texts).
function M:tracing_data(system, formats, opts)
  opts = opts or {}
  formats = type(formats) == "table" and formats or { formats }
  local texts = {}
  for i, format in ipairs(formats) do texts[i] = self:pack("I8", #format) .. format end
  local kallsyms, printk = opts.kallsyms or "", opts.printk or ""
  local cmdlines, page = opts.cmdlines or "", opts.header_page or ""
  return "\x17\x08\x44tracing0.6\0" .. string.char(self.endian == "big" and 1 or 0, 8) .. self:pack("I4", 4096)
    .. "header_page\0" .. self:pack("I8", #page) .. page .. "header_event\0" .. self:pack("I8I4I4", 0, 0, 1)
    .. system .. "\0" .. self:pack("I4", #formats) .. table.concat(texts)
    .. self:pack("I4", #kallsyms) .. kallsyms .. self:pack("I4", #printk) .. printk
    .. self:pack("I8", #cmdlines) .. cmdlines
end

--- Returns the recording as a file. features: number -> bytes.
function M:file(features)
  features = features or {}
  local head, ids, attrs = 104, {}, {}
  local at = head
  for i, event in ipairs(self.events) do
    ids[i] = self:pack(("i8"):rep(#event.ids), table.unpack(event.ids))
    attrs[i] = event.bytes .. self:pack("I8I8", at, #ids[i])
    at = at + #ids[i]
  end
  local attrs_at, size = at, #attrs[1]
  at = at + #attrs * size
  local data = table.concat(self.records)
  local bitmap, numbers = { 0, 0, 0, 0 }, {}
  for number in pairs(features) do
    bitmap[number // 64 + 1] = bitmap[number // 64 + 1] | 1 << number % 64
    numbers[#numbers + 1] = number
  end
  table.sort(numbers)
  local table_at, sections, bodies = at + #data, {}, {}
  local body_at = table_at + 16 * #numbers
  for i, number in ipairs(numbers) do
    sections[i] = self:pack("I8I8", body_at, #features[number])
    bodies[i] = features[number]
    body_at = body_at + #bodies[i]
  end
  local magic = self.endian == "big" and "2ELIFREP" or "PERFILE2"
  return magic .. self:pack("I8I8I8I8I8I8I8I8i8i8i8i8", head, size, attrs_at, #attrs * size, at, #data, 0, 0,
    table.unpack(bitmap)) .. table.concat(ids) .. table.concat(attrs) .. data .. table.concat(sections)
    .. table.concat(bodies)
end

-- True if the last round is followed by kernel records.
local function in_round(self)
  local open = false
  for _, record in ipairs(self.records) do
    local number = #record >= 8 and string.unpack(self.order .. "I4", record)
    open = number ~= 68 and (open or number and number < 64)
  end
  return open
end

--- Returns the recording as written to a pipe. Recorders end it with a round, unless pipe_end = false.
function M:pipe(features)
  local out = { self.endian == "big" and "2ELIFREP" or "PERFILE2", self:pack("I8", 16) }
  local function user(number, body) out[#out + 1] = self:pack("I4I2I2", number, 0, 8 + #body) .. body end
  for _, event in ipairs(self.events) do
    user(64, event.bytes .. self:pack(("i8"):rep(#event.ids), table.unpack(event.ids)))
  end
  for number = 0, 255 do
    if features and features[number] then user(80, self:pack("I8", number) .. features[number]) end
  end
  local open = self.pipe_end ~= false and in_round(self)
  return table.concat(out) .. table.concat(self.records) .. (open and self:pack("I4I2I2", 68, 0, 8) or "")
end

--- Returns hooks that serve bytes as a file of any name, or as a pipe in pieces of a given size;
-- and the set of open descriptors.
function M.hooks(bytes, chunk)
  local pos, open = 1, {}
  return {
    open = function() open[77] = true return 77 end,
    close = function(fd)
      assert(open[fd] or fd == 0, "not open")
      open[fd] = nil
      return 0
    end,
    pread = function(_, len, offset)
      if chunk then return nil, perfev.errno.ESPIPE end
      if offset < 0 or offset >= #bytes then return "" end
      return bytes:sub(offset + 1, offset + len)
    end,
    read = function(_, len)
      local part = bytes:sub(pos, pos + math.min(len, chunk) - 1)
      pos = pos + #part
      return part
    end,
  }, open
end

--- Opens bytes as a recording -> the recording, or nil and a message. files: path -> text of other files.
function M.open(bytes, chunk, opts, files)
  local rec, why, code
  local hooks = M.hooks(bytes, chunk)
  if files then
    hooks.slurp = function(path)
      if files[path] then return files[path] end
      return nil, perfev.errno.ENOENT
    end
  end
  perfev.hooks.with(hooks, function() rec, why, code = perfev.open("t.data", opts) end)
  return rec, why, code
end

--- Returns every record as a line, and the result at the end. opts as in rec:records().
function M.lines(bytes, chunk, opts)
  local rec, why = M.open(bytes, chunk)
  if not rec then return nil, why end
  local lines = {}
  for r in rec:records(opts) do
    lines[#lines + 1] = type(r) == "table" and r.type or (r.event and r.event.name .. " " or "") .. tostring(r)
  end
  local stats = rec:totals()
  rec:close()
  return lines, rec.error, stats
end

return M
