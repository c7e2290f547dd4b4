--- Reads a recording: perf.data of perf record or perfl, from any machine.
-- C reads the records (src/perfdata/reader.c). This file reads the data that a recording has once: its features, the
-- names of its events, the formats of its tracepoints.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local colon = require "perfev.base.method_guard"
local core = require "perfev.core"
local features = require "perfev.perfdata.read_features"
local kernel = require "perfev.perfdata.same_kernel"
local names = require "perfev.perfdata.attr_name"
local option_tables = require "perfev.option_tables.records"
local perfl_section = require "perfev.perfdata.perfl_section"
local registers = require "perfev.record.registers"
local samples = require "perfev.record.callback_fields"
local saved_names = lazy "perfev.symbol.saved_names"
local shown = require "perfev.base.show_value"
local symbol = lazy "perfev.symbol"
local tracing = require "perfev.perfdata.tracing_data"
local user = require "perfev.perfdata.user_records"
require "perfev.symbol.stack" -- defines r.stack and r.symbol

local M = {}
local Recording = {}
Recording.__index = Recording

local WARNINGS_MAX = 100
local TRACING_DATA, TRACEPOINT = 1, 2
local CALLCHAIN = 1 << 5 -- PERF_SAMPLE_CALLCHAIN

local function warn(self, text)
  self.dropped_warnings = self.dropped_warnings + (#self.warnings >= WARNINGS_MAX and 1 or 0)
  if #self.warnings < WARNINGS_MAX then self.warnings[#self.warnings + 1] = text end
  if self.log then self.log(0, text) end
end

-- ---- the header: sections by name, decoded on first use ----

local function section_key(id) return features.names[id] or id end

local function index_sections(self)
  local sections = {}
  for i, section in ipairs(self.file:sections()) do
    section.index = i
    sections[section_key(section.id)] = section
  end
  return sections
end

local function read_section(self, key)
  local section = self.sections[key]
  if not section or self.closed then return nil end
  if section.id == TRACING_DATA then return self:tracing() end
  local bytes = self.file:section(section.index)
  if not bytes then return nil end
  local value, why = features.decode(section.id, bytes, self.facts.big, self.header)
  if why then warn(self, ("feature at 0x%x: %s"):format(section.offset, why)) end
  return value
end

local function new_header(self)
  local values = {}
  return setmetatable({}, {
    __index = function(_, key)
      if values[key] == nil then
        local value = read_section(self, key)
        values[key] = value == nil and values or value -- values itself marks a missing section
      end
      if values[key] ~= values then return values[key] end
    end,
    __newindex = function() error("a recording's header cannot be changed", 2) end,
    __pairs = function(header)
      local keys = {}
      for key in pairs(self.sections) do keys[#keys + 1] = key end
      table.sort(keys, function(a, b) return self.sections[a].id < self.sections[b].id end)
      local i = 0
      return function()
        i = i + 1
        while keys[i] ~= nil and header[keys[i]] == nil do i = i + 1 end
        if keys[i] ~= nil then return keys[i], header[keys[i]] end
      end
    end,
  })
end

--- Returns the formats of the recording's tracepoints (perfev.perfdata.tracing_data), or nil.
function Recording:tracing()
  if self.formats then return self.formats end
  local section = self.sections.tracing_data
  local bytes = section and self.file:section(section.index)
  if not bytes then return nil end
  local data, why = tracing.read(bytes)
  if why then warn(self, ("feature at 0x%x: %s"):format(section.offset, why)) end
  self.formats = data
  return data
end

-- ---- events ----

-- Reads the section EVENT_DESC -> names by id, list of names
local function read_descriptions(self)
  local by_id, list = {}, {}
  for i, desc in ipairs(self.header.event_desc or {}) do
    list[i] = desc.name
    for _, id in ipairs(desc.ids) do by_id[id] = by_id[id] or desc.name end
  end
  return by_id, list
end

local function name_of(self, event, i, by_id, list, updated)
  local name = event.ids[1] and by_id[event.ids[1]]
  -- recorders before 2.6.3x wrote descriptions without ids
  name = name or #event.ids == 0 and list[i] or updated
  name = name or (self.header.event_types or {})[event.attr.config]
  if name and name ~= "" then return name end
  local format = event.attr.type == TRACEPOINT and self.formats and self.formats.formats[event.attr.config]
  if format then return ("%s:%s"):format(format.system, format.name) end
  return names.of(event.attr, self.header.pmu_mappings or {})
end

local function new_payload(self, event, format, data)
  local ok, args, why = pcall(core.payload, format.system, format.format, "", {
    big_endian = data.big, long_size = data.long_size, strings = data.printk, symbols = self.file,
  })
  if ok and args then return args end
  warn(self, ("event %s: its format cannot be read: %s"):format(event.name, ok and why or args))
  return false
end

-- Events of one tracepoint share its payload reader: there may be thousands.
local function give_payload(self, event, i)
  local data = event.attr.type == TRACEPOINT and self:tracing()
  local format = data and data.formats[event.attr.config]
  event.format = format
  if not format then return self.file:context(i, event) end
  local args = self.of_format[format]
  if args == nil then
    args = new_payload(self, event, format, data)
    self.of_format[format] = args
  end
  self.payloads[i] = args or nil
  self.file:context(i, event, args or nil)
end

local function learn_machine(self)
  local arch = self.header.arch
  local regs, narrow = registers.of(arch or core.machine)
  self.registers = regs or {}
  self.file:machine(self.registers, narrow or false)
end

-- Payloads print addresses by name: from the recording's symbols, or from this machine's if the recorded kernel runs
-- here at the same address.
local function learn_kernel(self)
  if not self.formats or self.kernel_known then return end
  self.kernel_known = true
  local text = self.formats.kallsyms or ""
  if text ~= "" and self.file:kernel(text) then return end
  self.file:kernel(kernel.is_running(self.header))
end

--- Reads the events and sections that the C reader has found so far. Known events keep their tables, because records
-- refer to them.
function Recording:_read_events()
  self.sections = index_sections(self)
  self.header = new_header(self)
  if self.sections.tracing_data then self:tracing() end
  learn_kernel(self)
  learn_machine(self)
  local by_id, list = read_descriptions(self)
  local i = 1
  local attr, ids, updated = self.file:event(i)
  while attr do
    local event = self.events[i] or {}
    self.events[i] = event
    event.attr, event.ids = attr, ids
    local had = event.format
    event.name = name_of(self, event, i, by_id, list, updated)
    if not had then give_payload(self, event, i) end
    i = i + 1
    attr, ids, updated = self.file:event(i)
  end
end

-- ---- records ----

check.define("record type", "the name of a record type", function(value)
  local number = M.numbers[value] or check.read("integer 1..63", value)
  if number then return number end
  return nil, ("unknown record type '%s'%s"):format(shown(value), check.hint(value, check.names(M.numbers)))
end)

-- Makes a bit set of the kernel's types.
local function set_of(types)
  local set = 0
  for _, number in ipairs(types) do set = set | 1 << number end
  return set
end

-- Checks the option `fields` -> names
local function names_of(self, opts, level)
  local read = samples.read(opts.fields, "records", level + 1)
  if opts.types then error("records: fields and types at once\n  fields are of samples only", level) end
  local events = {}
  for i, event in ipairs(self.events) do
    events[i] = { name = event.name, format = event.format and event.format.format }
  end
  local why = samples.check_pulled(read, events)
  if why then error("records: " .. why, level) end
  return read.names
end

--- Iterates over the records in time order, as views (valid until the next iteration; see perfev.live.session), each
-- with its offset in the file and whether the recorder synthesised it. Records of tools are tables
-- (perfev.perfdata.user_records) with their offset, in the file's order.
-- If reading fails before the end, the loop ends and `error` has the cause.
-- @tparam ?table opts  `user = false`: no records of tools; `types` ({ "mmap2", ... }): only these of the kernel's
--   types, by name or number; `fields`: only samples, as the values of these fields; the first is false instead of nil
function Recording:records(opts)
  if self.closed then error("the recording is closed", 2) end
  if self.ended then
    error("records: the recording was read already\n  try: perfev.open() again", 2)
  end
  if opts == nil then opts = {} end
  opts = check.take("records", opts, option_tables.recording_records, 3)
  local big = self.facts.big
  local on_user = opts.user ~= false and opts.fields == nil and function(number, bytes, offset)
    return user.decode(number, bytes, offset, big)
  end
  local types = opts.types and set_of(opts.types)
  local pulled = opts.fields ~= nil and names_of(self, opts, 3)
  if pulled then types = 1 << M.numbers.sample end
  local next_record = self.file:records(on_user, types, pulled)
  local function give(first, ...)
    if first ~= nil then return first, ... end
    self.error, self.errno = self.file:failure()
    self.ended = true
    return nil
  end
  return function() return give(next_record()) end
end

-- Reads the recording to its end in C, by a method of the C reader (src/lua/perfdata/lreader_state.h).
local function pass(self, method, ...)
  local result = self.file[method](self.file, ...)
  self.error, self.errno = self.file:failure()
  self.ended = true
  return result
end

-- Counts all records. perfl report and skeleton call it.
function Recording:_count(keep_going) return pass(self, "count", keep_going) end

-- Writes records to io.output(), one on a line. perfl dump calls it.
function Recording:_print(opts) return pass(self, "print", opts) end

-- Returns a function that copies records to a writer (src/lua/perfdata/lreader_copy.h). perfl cut calls it.
function Recording:_copier(writer, opts)
  local step = self.file:copier(writer, opts)
  return function(limit)
    local progress = table.pack(step(limit))
    if not progress[1] then
      self.error, self.errno = self.file:failure()
      self.ended = true
    end
    return table.unpack(progress, 1, progress.n)
  end
end

--- Returns the totals so far (src/perfdata/reader.h, struct pev_reader_totals), with `types` by name.
function Recording:totals()
  if self.closed then return self.last_totals end
  local totals = self.file:totals()
  local types = {}
  for number, n in pairs(totals.types) do
    local layout = M.kernel_types[number]
    types[layout or user.names[number] or number] = n
  end
  totals.types = types
  return totals
end

--- Returns the facts about a task from the records read so far; see perfev.live.session.
function Recording:task(tid)
  if math.type(tid) ~= "integer" then error("task: the number of a thread", 2) end
  if self.closed then return nil end
  return self.file:task(tid)
end

--- Returns the bytes of a feature section, by name or number, or nil.
function Recording:section(key)
  local section = self.sections[section_key(key)] or self.sections[key]
  if self.closed or not section then return nil end
  return self.file:section(section.index)
end

local function read_saved_names(self)
  local text, why = perfl_section.names(self:section(perfl_section.SECTION), self.facts.big)
  if why then warn(self, why) end
  return text
end

--- Adds the names of the functions at the sampled addresses to the file. Reads the recording to its end.
-- @tparam ?string path     a copy of the file, which is changed instead of it
-- @tparam ?boolean lines   also the source lines of these addresses
-- @treturn[1] integer  bytes of the names in the file; 0 if no frame has a name
-- @treturn[2] nil
-- @treturn[2] string   the cause
-- @treturn[2] integer  errno
function Recording:_save_names(path, lines)
  local version, id = self:section(perfl_section.SECTION), features.number(perfl_section.SECTION)
  if not version or self.facts.pipe then
    return nil, ("%s is %s\n  try: perf inject -i FILE -o OUT, which writes a file"):format(self.path,
      self.facts.pipe and "a stream, and only a file keeps names" or "without the version of its recorder"),
      core.errno.EINVAL
  end
  local text = saved_names.collect(self, lines or saved_names.has_lines(read_saved_names(self) or ""))
  if self.error then return nil, self.error, self.errno end
  if text == "" then return 0 end
  local bytes, size = perfl_section.with_names(version, self.facts.big, text)
  if bytes == version then return size end -- it has them
  local ok, why, code = core.replace_section(path or self.path, id, bytes)
  if not ok then return nil, why, code end
  return size
end

-- With call chains, names may be looked up after the recording is closed.
local function has_callchains(self)
  for _, event in ipairs(self.events) do
    if event.attr.sample_type & CALLCHAIN ~= 0 then return true end
  end
  return false
end

function Recording:close()
  if self.closed then return end
  self.last_totals = self:totals()
  if has_callchains(self) then self.world:settle() end
  self.closed = true
  self.file:close()
end

Recording.__close, Recording.__gc = Recording.close, Recording.close

M.kernel_types, M.numbers = {}, {}
for number, layout in ipairs(core.layouts().records) do
  M.kernel_types[number], M.numbers[layout.name] = layout.name, number
end

--- Returns the remedy if a recording could not be opened.
-- @tparam string path
-- @tparam integer errno  the cause
-- @treturn string
function M.remedy(path, errno)
  if path == "-" then return "perf record -o - -- COMMAND | perfl SCRIPT -i -" end
  if errno == core.errno.ENOENT then return "the name of a file that perf record wrote; without -o it is perf.data" end
  if errno == core.errno.EACCES then return "as the user who recorded it, or as root" end
  return "a file that perf record wrote"
end

local NAMES_MAX = 10

--- Lists the names of a recording's events for a message: the first ones, and the number of the others.
-- @tparam table events
-- @treturn string
function M.names_text(events)
  local first, seen, more = {}, {}, 0
  for _, event in ipairs(events) do
    if #first < NAMES_MAX and not seen[event.name] then first[#first + 1] = event.name
    elseif not seen[event.name] then more = more + 1 end
    seen[event.name] = true
  end
  if #first == 0 then return "no events" end
  return table.concat(first, ", ") .. (more > 0 and (" and %d more, which perfl report names"):format(more) or "")
end

--- Opens a recording.
-- @tparam string path  "-" is standard input
-- @tparam ?table opts  `ordered = false`: records in the file's order; `window`: bytes of records to sort at most
--   (32 MiB); `log`: f(level, text), for messages to the user; `fd`: read this descriptor, and close it
-- @treturn[1] recording  `.header .events .facts .warnings .error`, `:records{} :totals() :section(name) :close()`
-- @treturn[2] nil
-- @treturn[2] string  the cause, with the byte offset
-- @treturn[2] integer errno
function M.open(path, opts)
  if type(path) ~= "string" then error("open: a path, or \"-\" for standard input", 2) end
  if path:find("\0", 1, true) then error("open: a path with a NUL byte in it", 2) end
  if opts == nil then opts = {} end
  opts = check.take("open", opts, option_tables.open, 3)
  local self = setmetatable({
    events = {}, payloads = {}, of_format = {}, warnings = {}, dropped_warnings = 0, log = opts.log,
  }, Recording)
  local started = false
  local file, why, code = core.reader(path, {
    fd = opts.fd, window = opts.window, unordered = opts.ordered == false,
    note = function(text) warn(self, text) end,
    news = function() if started then self:_read_events() end end,
  })
  if not file then
    self.closed = true
    return nil, why, code
  end
  self.file, self.facts, self.path = file, file:facts(), path
  self.world = symbol._recorded {
    recording = file, path = path, header = function() return self.header end,
    saved_text = function() return read_saved_names(self) end,
    log = function(level, text)
      if level == 0 then
        warn(self, text)
      elseif self.log then
        self.log(level, text)
      end
    end,
  }
  file:world(self.world)
  started = true
  self:_read_events()
  return self
end

colon(Recording, Recording, "recording", "rec", "records totals task section tracing close")

return M
