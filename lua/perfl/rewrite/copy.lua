--- Writes a new recording with the records of others, in the order of time.
-- C copies the records (src/lua/perfdata/lreader_copy.c); this file copies events and feature sections.

local core = require "perfev.core"
local reader = require "perfev.perfdata.reader"
local recorder = require "perfev.perfdata.writer"
local sections = require "perfev.perfdata.write_features"

local M = {}

local ALWAYS = -1 -- UINT64_MAX: a damaged recording may have any time
local is_before = math.ult

-- Types of tools' records that the writer makes itself, that refer to offsets, or that simpleperf alone reads; and
-- AUX data, which belong to offsets of a whole trace.
M.tools_left_out = {}
for _, number in ipairs { 64, 65, 66, 68, 69, 70, 71, 72, 78, 80, 81, 82, 83 } do M.tools_left_out[number] = true end
for number = 32769, 32778 do M.tools_left_out[number] = true end

-- Sections that the writer makes itself, or that refer to what is left out.
local sections_left_out = { tracing_data = true, event_types = true, auxtrace = true, sample_time = true,
                            dir_format = true, compressed = true }

--- True if the section is copied as it is.
function M.is_copied(key, id)
  return not sections_left_out[key] and id < 128 or id > 132 and id < 256
end

--- Types of records that describe tasks, maps, symbols and cgroups, as a set of bits.
M.SIDE_BAND = 0
for _, name in ipairs { "mmap", "mmap2", "comm", "fork", "exit", "namespaces", "ksymbol", "bpf_event", "cgroup",
                        "text_poke" } do
  M.SIDE_BAND = M.SIDE_BAND | 1 << reader.numbers[name]
end

--- Remedies for a copy that does not fit, by the name of the errno.
M.hints = { EFBIG = "ulimit -f unlimited" }
for _, name in ipairs { "ENOSPC", "EDQUOT" } do M.hints[name] = "-o NEW, a path in a file system with more room" end

--- Returns why the recording cannot be copied, or nil.
function M.refusal(rec)
  local is_native = rec.facts.big == (string.pack("=I2", 1) == "\0\1")
  if is_native then return nil end
  return ("%s has the other byte order\n  perfl writes recordings in the byte order of its machine\n"
    .. "  try: perfl on a machine of the recorder's architecture"):format(rec.path)
end

--- Writes the events and sections of a recording that were not written yet.
-- @tparam table written       of an earlier call, or {}
-- @tparam ?function edit      f(key, bytes) -> the section's new bytes, or nil: left out
function M.describe(rec, writer, written, edit)
  if not written.tracing and rec.sections.tracing_data then
    writer:tracing(rec:section "tracing_data")
    written.tracing = true
  end
  for i = (written.events or 0) + 1, #rec.events do
    local event = rec.events[i]
    writer:event(event.attr, event.ids, event.name)
    written.events = i
  end
  local new = {}
  for key, section in pairs(rec.sections) do
    if not written[section.id] and M.is_copied(key, section.id) then new[#new + 1] = { id = section.id, key = key } end
  end
  table.sort(new, function(a, b) return a.id < b.id end)
  for _, section in ipairs(new) do
    written[section.id] = true
    local bytes = rec:section(section.key)
    if edit then bytes = edit(section.key, bytes) end
    if bytes then writer:feature(section.id, bytes) end
  end
end

-- Describes the events of a recording that has no such section.
local function add_descriptions(writer, events, name_of)
  local list = {}
  for i, event in ipairs(events) do list[i] = { name = name_of(event), attr = event.attr:bytes(), ids = event.ids } end
  local section = sections.encode("event_desc", list)
  writer:feature(section.id, section.bytes)
end

-- Copies from the input with the oldest record up to the next input's oldest.
local function take_turn(inputs, writer)
  local first, limit
  for _, input in ipairs(inputs) do
    if input.time and (not first or is_before(input.time, first.time)) then first, limit = input, first and first.time
    elseif input.time and (not limit or is_before(input.time, limit)) then limit = input.time end
  end
  if not first then return false end
  if first.on_turn then first.on_turn(writer) end
  -- An input stops before its first time, so that on_turn knows it.
  if first.time == 0 then limit = 0 end
  first.time, first.records, first.samples, first.first, first.last = first.step(limit or ALWAYS)
  return true
end

-- Sums up what was copied of the inputs.
local function sum_up(inputs)
  local sum = { records = 0, samples = 0, read = 0 }
  for _, input in ipairs(inputs) do
    sum.records = sum.records + (input.records or 0) + (input.added or 0)
    sum.samples = sum.samples + (input.samples or 0)
    sum.read = sum.read + input.rec:totals().records
    if input.last then
      if not sum.first or is_before(input.first, sum.first) then sum.first = input.first end
      if not sum.last or is_before(sum.last, input.last) then sum.last = input.last end
    end
  end
  return sum
end

--- Writes a recording. After a failure there is no new file, and a previous file of that name stays.
-- @tparam {table,...} inputs  `rec`, `copier` (options of src/lua/perfdata/lreader_copy.h), `on_turn` (f(writer):
--   called before records are copied; `time` is then that of its next record, or 0; it may set `added`, the number of
--   records that it wrote)
-- @tparam table how           `path`, `fd` (of a stream; default: standard output), `level` (of compression, 0: none),
--   `describe` (f(writer): adds the events and sections that are known now), `keep_going` (f() -> false: end now),
--   `name_of` (f(event): its name, if not its own)
-- @treturn[1] table           `records`, `samples`, `read`, `bytes`
-- @treturn[2] nil
-- @treturn[2] string          why it failed, with a remedy
function M.write(inputs, how)
  local function with_hint(why, code) return recorder.with_hint({ path = how.path, hints = M.hints }, why, code) end
  local writer <close>, why, code = core.writer { path = how.path, fd = how.fd, level = how.level, whole = true }
  if not writer then return nil, with_hint(why, code) end
  how.describe(writer)
  writer:begin()
  for _, input in ipairs(inputs) do
    input.step, input.time = input.rec:_copier(writer, input.copier), 0
  end
  while not writer:failure() and how.keep_going() and take_turn(inputs, writer) do how.describe(writer) end
  local sum = sum_up(inputs)
  if sum.last then
    local section = sections.encode("sample_time", { first = sum.first, last = sum.last })
    writer:feature(section.id, section.bytes)
  end
  local events = inputs[1].rec.events
  if #inputs == 1 and not inputs[1].rec.sections.event_desc and #events > 0 then
    add_descriptions(writer, events, how.name_of or function(event) return event.name end)
  end
  why, code = writer:failure()
  if why then return nil, with_hint(("%s: %s"):format(why, core.strerror(code)), code) end
  local ok, failed, errno = writer:finish()
  if not ok then return nil, with_hint(failed, errno) end
  sum.bytes = writer:size()
  return sum
end

return M
