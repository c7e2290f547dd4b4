--- Redacts records, for the copier of src/lua/perfdata/lreader_copy.h.

local chains = require "perfl.rewrite.redact_chains"
local codec = require "perfev.record.codec"
local copy = require "perfl.rewrite.copy"
local hex = require "perfev.base.hex"
local payload = require "perfl.rewrite.redact_payload"
local reader = require "perfev.perfdata.reader"
local registers = require "perfev.record.registers"
local sections = require "perfev.perfdata.write_features"
local user = require "perfev.perfdata.user_records"

local M = {}

local HEAD, RECORD_MAX = 8, 65528
local COMM_MAX, PATH_MAX = 15, 4095 -- bytes: TASK_COMM_LEN, PATH_MAX without their NUL

-- enum perf_event_sample_format: the fields of one word each before and after those of varying length.
local IP, TID, TIME, ADDR, ID, CPU, PERIOD, STREAM_ID = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 6, 1 << 7, 1 << 8, 1 << 9
local WEIGHT, DATA_SRC, TRANSACTION, PHYS_ADDR, CGROUP = 1 << 14, 1 << 15, 1 << 17, 1 << 19, 1 << 21
local DATA_PAGE_SIZE, CODE_PAGE_SIZE, WEIGHT_STRUCT, IDENTIFIER = 1 << 22, 1 << 23, 1 << 24, 1 << 16
local CALLCHAIN, RAW = 1 << 5, 1 << 10
local BEFORE = IP | TID | TIME | ADDR | ID | CPU | PERIOD | STREAM_ID | IDENTIFIER
local AFTER = WEIGHT | DATA_SRC | TRANSACTION | PHYS_ADDR | CGROUP | DATA_PAGE_SIZE | CODE_PAGE_SIZE | WEIGHT_STRUCT

-- Type of a record -> the field with a text, its kind, its most bytes.
local texts = {
  mmap = { "filename", "file", PATH_MAX }, mmap2 = { "filename", "file", PATH_MAX },
  comm = { "comm", "comm", COMM_MAX },
  ksymbol = { "name", "symbol", PATH_MAX }, cgroup = { "path", "cgroup", PATH_MAX },
}

-- Records of tools that have numbers only.
local numbers_only = { [74] = true, [75] = true, [76] = true, [77] = true, [79] = true }

local function bytes_of(mask)
  local n = 0
  while mask ~= 0 do
    n = n + 8
    mask = mask & mask - 1
  end
  return n
end

local function padded(bytes, before) return bytes .. ("\0"):rep(-(#bytes + before) % 8) end

-- The facts about an event that its records need.
local function new_layout(event, arch)
  local type, attr = event.attr.sample_type, event.attr:copy()
  attr.build_id = true -- a record may have a build-id that the attr did not ask for, as of perf inject
  local fields = event.format and payload.plan(event.format.format)
  return {
    format = event.format, fields = fields, is_simple = type & ~(BEFORE | AFTER | CALLCHAIN | RAW) == 0,
    has_chain = type & CALLCHAIN ~= 0, has_raw = type & RAW ~= 0,
    start = HEAD + bytes_of(type & BEFORE), after = bytes_of(type & AFTER),
    encode = codec.encoder { attr = attr, arch = arch },
  }
end

local function new_payload(rules, layout, raw, is_limited)
  if not layout.fields then return rules:bytes("raw", raw) end
  return payload.redact(layout.fields, rules, raw, is_limited)
end

-- ---- samples ----

-- Replaces payload and call chain in the bytes of a sample without other fields of varying length.
local function edit_simple(rules, layout, bytes, code, is_limited)
  local at, raw = layout.start, ""
  if layout.has_chain then
    local first = at + 8
    at = first + 8 * string.unpack("=i8", bytes, at + 1)
    if code then bytes = bytes:sub(1, first) .. code:redact_bytes(bytes:sub(first + 1, at)) .. bytes:sub(at + 1) end
  end
  local behind = at
  if layout.has_raw then
    local size = string.unpack("=I4", bytes, at + 1)
    behind = at + 4 + size
    raw = padded(new_payload(rules, layout, bytes:sub(at + 5, behind), is_limited), 4)
    raw = string.pack("=I4", #raw) .. raw
  elseif #bytes == at + layout.after then
    return bytes
  end
  local size = at + #raw + layout.after
  if size > RECORD_MAX then return not is_limited and edit_simple(rules, layout, bytes, code, true) end
  return bytes:sub(1, 6) .. string.pack("=I2", size) .. bytes:sub(HEAD + 1, at) .. raw
    .. bytes:sub(behind + 1, behind + layout.after)
end

-- Returns the fields of a record as a table.
local function fields_of(record)
  local t = {}
  for name, value in pairs(record) do t[name] = value end
  t.sample_id = record.type ~= "sample" and record.sample_id or nil
  return t
end

local function edit_sample(rules, layout, record, code)
  local t = fields_of(record)
  if t.callchain and code then t.callchain = { raw = code:redact(t.callchain.raw, true) } end
  local raw = t.raw
  if raw then t.raw = new_payload(rules, layout, raw) end
  if not rules:keeps "registers" then t.regs_user, t.regs_intr = nil, nil end
  if rules:removes "stack" then t.stack_user, t.stack_size = nil, nil end
  if t.stack_user then t.stack_user = rules:bytes("stack", t.stack_user) end
  t.aux = nil
  local ok, bytes = pcall(layout.encode, t)
  if ok then return bytes end
  if raw then t.raw = new_payload(rules, layout, raw, true) end -- it may be too long for a record
  return layout.encode(t)
end

-- ---- other records ----

local function edit_other(rules, layout, record, code)
  if record.type == "unknown" then return false end
  local t = fields_of(record)
  local text = texts[record.type]
  if text then t[text[1]] = rules:text(text[2], t[text[1]] or ""):sub(1, text[3]) end
  if record.type == "mmap2" and t.build_id then t.build_id = hex.to(rules:build_id(hex.of(t.build_id))) end
  if record.type == "bpf_event" then t.tag = hex.to(rules:build_id(hex.of(t.tag))) end
  if t.callchain and code then t.callchain = { raw = code:redact(t.callchain.raw, true) } end -- a deferred one
  if record.type == "text_poke" then
    t.old_bytes, t.new_bytes = rules:bytes("raw", t.old_bytes or ""), rules:bytes("raw", t.new_bytes or "")
  end
  return layout.encode(t)
end

-- The names of tasks that a recorder named on its command line, each with 16 bytes.
local function edit_thread_map(rules, bytes)
  local map = user.decode(73, bytes, 0, false)
  local out = { string.pack("=i8", #(map.threads or {})) }
  for i, thread in ipairs(map.threads or {}) do
    out[i + 1] = string.pack("=i8c16", thread.pid, rules:text("comm", thread.comm):sub(1, COMM_MAX))
  end
  local body = table.concat(out)
  return string.pack("=I4I2I2", 73, map.misc, HEAD + #body) .. body
end

local function edit_build_id(rules, bytes)
  local id = user.decode(67, bytes, 0, false)
  if id.malformed then return nil end
  return sections.build_id({ pid = id.pid, misc = id.misc, build_id = rules:build_id(hex.of(id.build_id)),
                             filename = rules:text("file", id.filename) }, 67)
end

--- Returns the options of the copier.
function M.copier(rec, rules)
  local layouts = {}
  local function layout_of(n)
    local event = rec.events[n]
    local layout = layouts[event]
    if not layout or layout.format ~= event.format then -- a stream has formats behind the events
      local arch = rec.header.arch
      layout = new_layout(event, arch and registers.of(arch) and arch or nil)
      layouts[event] = layout
    end
    return layout
  end
  local code = not rules:keeps "stack" and chains.new() or nil
  local function edit(record, n, bytes)
    local type = string.unpack("=I4", bytes)
    if type ~= reader.numbers.sample then
      if code then code:learn(type, bytes) end
      return edit_other(rules, layout_of(n or 1), record, code)
    end
    if not n then return false end
    local layout = layout_of(n)
    if layout.is_simple then return edit_simple(rules, layout, bytes, code) end
    return edit_sample(rules, layout, record, code)
  end
  local tools = setmetatable({
    [67] = function(bytes) return edit_build_id(rules, bytes) end,
    [73] = function(bytes) return edit_thread_map(rules, bytes) end,
  }, { __index = function(_, type) return copy.tools_left_out[type] or not numbers_only[type] end })
  return { wanted = {}, tools_left_out = tools, edit = edit, edited = ~0, with_bytes = true }
end

return M
