--- Event declarations: turns the table of `perfev.event` into attr fields and callbacks.
-- The attr starts with the defaults of the event's kind; the needs of the callbacks are added, then the user's options.

local lazy = require "perfev.base.lazy_module"
local as_callback = require "perfev.aggregate.as_callback"
local check = require "perfev.base.check"
local core = require "perfev.core"
local filters = lazy "perfev.tracepoint.filter"
local samples = require "perfev.record.callback_fields"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local resolve = require "perfev.event.resolve"
local options = require "perfev.base.options"
local registers = require "perfev.record.registers"
local tracefs = require "perfev.tracepoint.tracefs"
local units = require "perfev.base.parse_units"
local where = lazy "perfev.aggregate.condition"

local M = {}

local TYPE = names.TYPE
M.DEFAULT_FREQ = 4000 -- perf record's
local DEFAULT_AUX = 4 << 20 -- perf record's, where it may
local FIXED_TYPES = 5 -- enum perf_type_id: higher types are assigned when a PMU registers

local SAMPLE_TID = 1 << 1 -- PERF_SAMPLE_TID
local EVERY = "*" -- the event string for the events of -e, or for all of a recording

local faults = { [2] = true, [5] = true, [6] = true, [7] = true } -- software events that have an address

-- The attr fields that a callback needs.
local callbacks = {
  sample = {}, record = {}, lost = {}, throttle = {}, read = { "inherit_stat" },
  comm = { "comm", "comm_exec" }, mmap = { "mmap", "mmap2" }, fork = { "task" }, exit = { "task" },
  switch = { "context_switch" }, ksymbol = { "ksymbol" }, bpf = { "bpf_event" },
  namespaces = { "namespaces" }, cgroup = { "cgroup" }, text_poke = { "text_poke" },
  aux = {}, itrace_start = {}, aux_output_hw_id = {}, callchain_deferred = { "defer_output" },
}

--- Callback -> the attr fields that make the kernel write its records.
M.asks = callbacks

local comforts = require("perfev.option_tables.event").event
local is_attr_field = core.is_attr_field

-- All options of a declaration and their types.
local types = check.with_attr_fields()
for name, t in pairs(comforts) do types[name] = t end
for name in pairs(callbacks) do
  types[name] = is_attr_field(name) and "boolean | callback" or "callback"
end

local fail = check.fail

--- Resolves an event string to a single event, the first one.
-- @treturn[1] table  from resolve.lua: `type`, `config`, `fields`, `exclude`, `name`, …
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function M.resolve(text, spec)
  local there, why, code = resolve.all(text, spec)
  if not there then return nil, why, code end
  return there[1][1][1]
end

--- Resolves an event string to all its events on this machine: units, lists of `found` (resolve.lua).
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.units(text, spec)
  local there, why, code = resolve.all(text, spec)
  if not there then return nil, why, code end
  return there[1]
end

-- Closing a tracepoint's descriptors waits for a grace period (tracepoint_synchronize_unregister()): about
-- 38 ms each, seen on 6.18.
local MANY, CLOSING = 32, 0.038

--- Checks that a declaration opens only a moderate number of tracepoints, or that the user allowed more.
-- @tparam string name    the declaration's name, for the message
-- @tparam table seen     the set of their numbers so far; founds are added
-- @tparam table founds   resolved events (resolve.lua)
-- @tparam boolean many   true if the user allowed many
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.check_many(name, seen, founds, many)
  local own, count = 0, 0
  for _, found in ipairs(founds) do
    if found.type == TYPE.tracepoint and not seen[found.config] then own, seen[found.config] = own + 1, true end
  end
  for _ in pairs(seen) do count = count + 1 end
  if count <= MANY or own == 0 or many then return true end
  return nil, ("event '%s': %d different tracepoints in all; closing them takes some %.0f s\n  more than %d require "
    .. "your consent\n  try: --many, or many = true, or fewer"):format(name, count, count * CLOSING, MANY),
    core.errno.EINVAL
end

--- A pattern and the number of its resolved events, for a message.
function M.told_of_pattern(pattern, founds)
  local n = #founds
  return ("%s: %d %s%s"):format(pattern, n, founds[1].probe and "function" or "tracepoint", n == 1 and "" or "s")
end

--- True if the string is a single group in braces.
function M.is_group(text)
  local tree = grammar.parse(text)
  return tree ~= nil and #tree == 1 and #tree[1] == 1 and tree[1][1].group == true
end

-- A callback: a function, an aggregator, a line, or a list of aggregators and lines.
check.define("callback", "a function", function(value, name)
  local mt, is_fed = getmetatable(value), false
  for i, one in ipairs(as_callback.list(value)) do
    local wrong = as_callback.refusal(name, one)
    if wrong then return nil, wrong end
    is_fed = as_callback.is_sink(one) and (is_fed or i == 1)
  end
  if as_callback.is_list(value) and value[1] ~= nil and not is_fed then
    return nil, "each of a list must be an aggregator or a line"
  end
  if type(value) == "function" or is_fed or (type(mt) == "table" and mt.__call) then return value end
  local field = type(value) == "boolean" and callbacks[name][1]
  return nil, nil, field and ("%s = true, for the records alone"):format(field)
end)

-- Returns the reason why these options exclude each other, or nil.
local function conflict_of(spec)
  if spec.aux_buffer and spec.write_backward then
    return "event: aux_buffer and write_backward at once\n  an AUX area is read in the order it was written"
  end
  if spec.early and (spec.aux_buffer or spec.write_backward) then
    return ("event: early and %s at once\n  early records are read before the order of time"):format(
      spec.aux_buffer and "aux_buffer" or "write_backward")
  end
  -- The kernel accepts both, and counts.
  if spec.freq == 0 then return "event: freq = 0 takes no samples\n  try: freq = 99" end
  if spec.period == 0 and spec.sample ~= nil then return "event: period = 0 takes no samples\n  try: period = 1" end
  if spec.sample ~= nil and spec[1] == nil and spec.type == nil and spec.config == nil then
    return "event: 'sample' needs an event name\n  try: its name first, as in { \"cpu-clock\", sample = f }"
  end
  if spec.period ~= nil and type(spec.freq) == "number" then
    return "event: period and freq at once\n  samples are taken by a number of events, or at a frequency"
      .. "\n  try: period or freq"
  end
  for i = 1, #spec > 1 and #spec or 0 do
    if spec[i]:find("|", 1, true) then
      return ("event '%s': alternatives must be one string, not in a list"):format(spec[i])
    end
  end
  if spec[1] and (spec.type ~= nil or spec.config ~= nil) then
    return ("event '%s': an event string and type= or config= at once"):format(spec[1])
  end
end

local CHAINS = "fp, dwarf, dwarf,BYTES, lbr or defer"

-- "dwarf,16384", or true for "fp" -> the attr fields, as the terms of an event string give them
local function chain_words(callchain)
  if callchain == true then return resolve.call_graph "fp" end
  if callchain == "fp,defer" then callchain = "defer" end -- as perf record has it
  local kind, bytes = callchain:match("^(%a+),?(%d*)$")
  if not kind or kind == "no" or (bytes == "" and callchain ~= kind) then
    return nil, ("unknown call chain '%s'"):format(callchain), CHAINS
  end
  local words, why = resolve.call_graph(kind, math.tointeger(tonumber(bytes)))
  return words, why, CHAINS
end

check.define("call chain", 'true or a string such as "dwarf"', function(value)
  if type(value) == "boolean" then return value end
  if type(value) ~= "string" then return nil end
  local words, why, remedy = chain_words(value)
  if words then return value end
  return nil, why, remedy
end)

--- Parses a script's --call-graph, in the form of `callchain`.
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string  the cause
-- @treturn[2] string  the valid forms
M.callchain = chain_words

-- Is this name a callback or a flag? `comm = f` is a callback, `comm = true` a flag.
local function is_callback(spec, name)
  return callbacks[name] and spec[name] ~= nil and type(spec[name]) ~= "boolean"
end

-- Reads `fields`, the arguments of the sample callback. Returns nil if it gets the record itself.
local function read_fields(spec, level)
  if spec.fields == nil then return nil end
  local read = samples.read(spec.fields, "event", level + 1)
  local fed = as_callback.list(spec.sample)[1]
  if as_callback.is_aggregator(fed) then
    fail(level, "event: fields and an aggregator at once; its columns are in its own by and value")
  end
  if as_callback.is_line(fed) then
    fail(level, "event: fields and a line at once; its columns are in its own format")
  end
  if spec.sample == nil then fail(level, "event: fields without sample, which would get them") end
  return read
end

-- The sample_type bits of these fields and of the conditions beside them.
local function with(read, tested)
  if not (read and tested) then return read or tested end
  return setmetatable({ bits = read.bits | tested.bits, has_payload = read.has_payload or tested.has_payload },
    { __index = read })
end

-- Adds the options that stacks and names of functions need besides sample_type.
local function ask_for(spec, read)
  if read.has_stack then spec.callchain = spec.callchain or true end
  if read.has_symbol then spec.symbols = true end
end

local names_functions = { symbol = true, line = true } -- the session must then track memory maps
local names_cgroups = { cgroup = true }

-- Their records, too: a cgroup may be removed before its first sample is delivered.
local function ask_for_cgroups(spec)
  if spec.cgroup == nil then spec.cgroup = true end
  spec.asks_cgroup = spec.sample_type == nil
end

local sample_bits = { "ip", "tid", "time", "cpu", "period", "identifier" }
local droppable = { ip = 1 << 0, tid = 1 << 1, time = 1 << 2, addr = 1 << 3, cpu = 1 << 7, period = 1 << 8 }

-- Drops the default bits that the callbacks do not read.
local function drop_unread(sample_type, reads)
  for i = #sample_type, 1, -1 do
    local bit = droppable[sample_type[i]]
    if bit and reads.bits & bit == 0 or sample_type[i] == "raw" and not reads.has_payload then
      table.remove(sample_type, i)
    end
  end
end

-- The defaults of perf record for the kind; nothing to sample for an event that only writes side-band records.
local function kind_defaults(fields, found, read, reads)
  for name, value in pairs(found.exclude) do fields[name] = value end
  if found.carrier then
    -- An event that only writes side-band records counts nothing, so it needs no right to see the kernel.
    fields.exclude_kernel = true
    fields.exclude_hv = true
    return
  end
  fields.sample_type = { table.unpack(sample_bits) }
  if found.type == TYPE.tracepoint then
    table.insert(fields.sample_type, 1, "raw")
    fields.sample_period = 1
  elseif found.type == TYPE.breakpoint or found.default_period then
    fields.sample_period = found.default_period or 1
  elseif found.type == TYPE.software and found.config == names.BPF_OUTPUT then
    table.insert(fields.sample_type, "raw")
    fields.sample_period = 1
  elseif found.type == TYPE.software and found.config == names.DUMMY then
    fields.sample_type = nil
  else
    if found.type == TYPE.software and faults[found.config] then table.insert(fields.sample_type, "addr") end
    fields.freq = true
    fields.sample_freq = M.DEFAULT_FREQ
  end
  if reads and fields.sample_type then drop_unread(fields.sample_type, reads) end
  for _, bit in ipairs(found.sample_type or {}) do table.insert(fields.sample_type, bit) end
  -- With a list of fields only these are sampled; the registers that hold a payload belong to them.
  if read then fields.sample_type = read.has_payload and found.args_from and found.sample_type or nil end
end

local function callback_bits(fields, spec, list)
  for name, asks in pairs(callbacks) do
    if is_callback(spec, name) then
      local value = spec[name]
      -- Copy the list, because the caller may change it.
      list[name] = as_callback.is_list(value) and table.move(value, 1, #value, 1, {}) or value
      for _, field in ipairs(asks) do fields[field] = true end
    end
  end
  if list.switch then fields.context_switch = true end
end

local function add_bit(fields, field, bit)
  local bits = fields[field]
  -- Do not change the user's list.
  fields[field] = type(bits) == "table" and { bit, table.unpack(bits) } or { bit }
end

local function user_words(fields, spec)
  for key, value in pairs(spec) do
    if is_attr_field(key) and not is_callback(spec, key) and not comforts[key] then
      -- The two names of one word exclude each other.
      if key == "sample_period" then fields.sample_freq = nil fields.freq = nil end
      if key == "sample_freq" then fields.sample_period = nil end
      fields[key] = value
    end
  end
  if spec.freq ~= nil then
    fields.freq = spec.freq ~= false
    if type(spec.freq) == "number" then
      fields.sample_freq = spec.freq
      fields.sample_period = nil
    end
  end
  if spec.period ~= nil then
    fields.sample_period = spec.period
    fields.sample_freq = nil
    fields.freq = nil
  end
end

local function drop_bit(fields, bit)
  for i, other in ipairs(fields.sample_type or {}) do
    if other == bit then return table.remove(fields.sample_type, i) end
  end
end

-- The four options that set the period.
local paces = { "period", "freq", "sample_period", "sample_freq" }
-- Terms that apply to a counted event; the others apply to samples and are ignored.
local counted = { inherit = true, aux_output = true }

--- The options of one event: those of the table, overridden by the terms of its own string, as in perf.
-- @tparam table spec   the user's table; not changed
-- @tparam table words  `words` of resolve.lua
-- @tparam[opt] boolean is_counted  true if the event takes no samples
-- @treturn table  spec, with `sample_bits` and `time` of words
function M.settle(spec, words, is_counted)
  local settled = options.copy(spec)
  if (words.period or words.freq) and not is_counted then
    for _, pace in ipairs(paces) do settled[pace] = nil end
  end
  for word, value in pairs(words) do
    if word ~= "name" and (not is_counted or counted[word]) then settled[word] = value end
  end
  return settled
end

-- Options of an event. Fields with the kernel's names set that field.
local function option_words(fields, spec)
  if spec.callchain then
    local words = chain_words(spec.callchain)
    for name, value in pairs(words) do
      if is_attr_field(name) then fields[name] = value end
    end
    user_words(fields, spec)
    add_bit(fields, "sample_type", "callchain")
    for _, bit in ipairs(words.sample_bits or {}) do add_bit(fields, "sample_type", bit) end
  else
    user_words(fields, spec)
  end
  for _, bit in ipairs(spec.sample_bits or {}) do add_bit(fields, "sample_type", bit) end
  for _, bit in ipairs(spec.extra_sample_type or {}) do add_bit(fields, "sample_type", bit) end
  if spec.asks_cgroup then add_bit(fields, "sample_type", "cgroup") end
end

-- The kernel lowers its limit under load; the default frequency must not fail because of it.
local function clamp_default_freq(fields, spec, found)
  if fields.sample_freq ~= M.DEFAULT_FREQ or spec.freq or spec.sample_freq then return end
  found.is_sampled = true
  local most = math.tointeger(tonumber((core.slurp("/proc/sys/kernel/perf_event_max_sample_rate"))))
  if most and most < M.DEFAULT_FREQ then fields.sample_freq, found.clamped = most, true end
end

-- A value that every kernel refuses is a mistake of the declaration.
local function check_values(spec, level)
  local fields = {}
  user_words(fields, spec)
  fields.sample_type = fields.sample_type or spec.extra_sample_type
  local ok, why = pcall(registers.attr, fields)
  if not ok then fail(level, "event: %s", why) end
end

--- Checks a declaration and returns it for opening later. Raises an error for mistakes.
-- @tparam table spec    the argument of `perfev.event`
-- @tparam integer level of the caller, for `error`
-- @treturn table        the declaration: `name`, `text` (its event strings as one), `spec`, `callbacks`,
--   `fields` (of callback_fields.lua, or nil)
function M.declare(spec, level)
  spec = check.take("event", spec, types, level + 1)
  local wrong = conflict_of(spec)
  if wrong then error(wrong, level) end
  check_values(spec, level + 1)
  for key, value in pairs(spec) do
    if math.type(value) == "float" then spec[key] = math.tointeger(value) or value end
  end
  local list, fields = {}, {}
  callback_bits(fields, spec, list)
  local read = read_fields(spec, level + 1)
  if read then ask_for(spec, read) end
  if as_callback.has_column(list.sample, names_functions) then spec.symbols = true end
  if as_callback.has_column(list.sample, names_cgroups) then ask_for_cgroups(spec) end
  local text = spec[1] and table.concat(spec, ",")
  local name = spec.name or text or (spec.type and ("{type=%s, config=%s}"):format(spec.type, spec.config or 0))
    or "dummy"
  local condition, program
  if spec.where ~= nil then condition, program = where.read(spec.where, "event: where", level + 1) end
  return { name = name, text = text, spec = spec, callbacks = list, asked = fields, fields = read,
           reads = not read and as_callback.reads(list) or nil,
           condition = condition, where = program, tested = condition and where.reads(condition),
           is_carrier = not text and spec.type == nil, is_every = text == EVERY }
end

--- Its samples are pulled, with these fields only.
-- @tparam table decl  from `declare`, not open yet
-- @tparam table read  from callback_fields.lua's `read`
function M.pull(decl, read)
  if decl.is_carrier then return end -- it has no samples
  decl.fields, decl.is_pulled = read, true
  ask_for(decl.spec, read)
end

--- The event string of a declaration; for "*" the session's events.
-- @tparam table decl
-- @tparam ?{string,...} events  of the session's options
-- @treturn ?string              nil for "*" without events, or a declaration without a string
function M.text_of(decl, events)
  if not decl.is_every then return decl.text end
  return events and table.concat(events, ",")
end

-- The declaration's events -> alternatives, in the form of resolve.all
local function find(decl, events)
  local spec = decl.spec
  local text = M.text_of(decl, events)
  if text then return resolve.all(text, spec) end
  if decl.is_every then
    return nil, "event '*': of a recording it is every event; live, those that the session is given\n"
      .. "  try: perfl -e EVENT SCRIPT, or events = { \"cpu-clock\" }, or -i FILE", core.errno.EINVAL
  end
  local found = { type = spec.type or TYPE.software, config = spec.config or 0, exclude = {}, fields = {}, words = {} }
  if spec.type == nil then
    found.config, found.carrier = names.DUMMY, true
  elseif spec.type == TYPE.tracepoint then
    local tp = tracefs.by_id(spec.config)
    found.system, found.tracepoint, found.format = tp.system, tp.name, tp.format
  end
  return { { { found } } }
end

-- Adds fields that the kernel needs besides the requested one, unless the user excluded them.
local function kernel_quirks(fields)
  -- is_sb_event() in kernel/events/core.c omits these two: a CPU-wide event with only one of
  -- them gets no records. comm_exec puts it on the list and adds no record.
  if (fields.namespaces or fields.cgroup) and fields.comm_exec == nil then fields.comm_exec = true end
  -- mmap2 is the form of mmap's records: without mmap there are none (seen on 6.18).
  if fields.mmap2 and fields.mmap == nil then fields.mmap = true end
  -- defer_output is separate: perf_unwind_deferred_callback() checks it for each event.
  if fields.defer_callchain and fields.defer_output == nil then fields.defer_output = true end
end

-- With the field "period" in its samples a tracepoint or software event writes a sample for each event and ignores its
-- period (perf_swevent_event() in kernel/events/core.c). Clocks are timers and are not affected.
local function drop_period(fields)
  local period, is_clock = fields.sample_period, fields.config == names.CPU_CLOCK or fields.config == names.TASK_CLOCK
  local is_counted = fields.type == TYPE.tracepoint or fields.type == TYPE.software and not is_clock
  if not is_counted or math.type(period) ~= "integer" or period < 2 then return end
  drop_bit(fields, "period")
end

-- These add nanoseconds to their count (__perf_count() in include/trace/events/sched.h): unless the field "period" is
-- in its samples, one such event writes a sample for each nanosecond.
local function ask_for_amount(fields, found)
  if found.system == "sched" and (found.tracepoint or ""):find "^sched_stat_" and fields.sample_period == 1 then
    add_bit(fields, "sample_type", "period")
  end
end

-- In a group whose leader's samples hold all counts (":S") the members take no samples.
local function join_sample_read(fields, is_leader)
  if is_leader then
    add_bit(fields, "sample_type", "read")
  else
    fields.freq, fields.sample_freq, fields.sample_period = nil, nil, nil
  end
  fields.read_format = { "group", "id" }
end

-- The same for a single event. READ values carry the id, which perf needs in a recording
-- (evlist__valid_read_format()).
local function read_alone(fields)
  add_bit(fields, "sample_type", "read")
  fields.read_format = { "id" }
end

-- The requested AUX area, by option or by an aux callback -> bytes, optional; or nil
local function aux_of(decl, found, spec)
  local asked = spec.aux_buffer
  if asked == true then return DEFAULT_AUX, false end
  if asked then return (units.buffer(asked)), false end
  local is_pmu = math.type(found.type) == "integer" and found.type > FIXED_TYPES
  if asked == nil and decl.callbacks.aux and is_pmu and not spec.write_backward then return DEFAULT_AUX, true end
end

local function fields_of(decl, found, spec, unit, at, has_aux, reads)
  local fields = {}
  kind_defaults(fields, found, with(decl.fields, decl.fields and decl.tested), with(reads, reads and decl.tested))
  -- As in perf record: the trace counts, and arm_spe refuses a frequency.
  if has_aux then fields.freq, fields.sample_freq, fields.sample_period = nil, nil, 1 end
  for name, value in pairs(found.fields) do fields[name] = value end
  for name, value in pairs(decl.asked) do fields[name] = value end
  option_words(fields, spec)
  if unit.grouped and unit.sample_read then join_sample_read(fields, at == 1) end
  if not unit.grouped and found.sample_read then read_alone(fields) end
  fields.type, fields.config = found.type, found.config
  if found.precise_max and spec.precise_ip == nil then fields.precise_ip = 3 end
  kernel_quirks(fields)
  if not spec.sample_type then
    drop_period(fields)
    ask_for_amount(fields, found)
  end
  if spec.time == false then drop_bit(fields, "time") end
  clamp_default_freq(fields, spec, found)
  return fields
end

-- arm64's watchpoints hit before the access, which is retried after the signal's handler has
-- returned and hits again (watchpoint_handler() steps over it only for events that also write samples).
local function for_ever(attr)
  return attr.sigtrap and attr.type == TYPE.breakpoint and attr.bp_type & 3 ~= 0
end

-- No PMU of arm64 reads precise_ip (armpmu_event_init()): the kernel opens the event without precision.
-- For software events this is so on every architecture.
local function passed_over(attr, precise_max)
  if attr.precise_ip == 0 or precise_max then return false end
  return attr.type ~= TYPE.software and attr.type ~= TYPE.tracepoint and attr.type ~= TYPE.breakpoint
end

-- Options that arm64's kernels accept without the intended effect -> the cause and the remedy, or nil
local function unfit_for_arm64(attr, precise_max)
  if core.machine ~= "aarch64" then return nil end
  if for_ever(attr) then
    return "a watchpoint of arm64 with sigtrap signals for ever: the access is not made before the\n"
      .. "  handler returns, and hits again",
      ("without sigtrap, or watch a function (mem:0x%x:x)"):format(attr.bp_addr)
  elseif passed_over(attr, precise_max) then
    local level = ":" .. ("p"):rep(attr.precise_ip)
    return ("precise_ip = %d (%s) is not supported by PMUs of arm64: the kernel\n"
      .. "  opens the event without it"):format(attr.precise_ip, level),
      ("without %s, or :P, which is as precise as the PMU can"):format(level)
  end
end

local function build_one(decl, found, unit, at, is_narrow)
  found.fields, found.words = found.fields or {}, found.words or {}
  local spec = M.settle(decl.spec, found.words)
  if spec.args and not found.probe then
    return nil, ("event '%s': only probes accept 'args'\n  try: without args; a tracepoint has its own")
      :format(decl.name), core.errno.EINVAL
  end
  local aux_bytes, aux_optional = aux_of(decl, found, spec)
  if aux_bytes and spec.write_backward then
    return nil, ("event '%s': aux_buffer and overwrite at once; an AUX area is read as it comes"):format(decl.name),
      core.errno.EINVAL
  end
  local reads = is_narrow and not spec.write_backward and decl.reads or nil
  local ok, attr = pcall(registers.attr, fields_of(decl, found, spec, unit, at, aux_bytes ~= nil, reads))
  if not ok then return nil, ("event '%s': %s"):format(decl.name, attr), core.errno.EINVAL end
  -- An option that the user did not set may be dropped if a PMU lacks it.
  local precise_max = found.precise_max and spec.precise_ip == nil
  local why, remedy = unfit_for_arm64(attr, precise_max)
  if why then return nil, ("event '%s': %s\n  try: %s"):format(decl.name, why, remedy), core.errno.EOPNOTSUPP end
  local sampled = with(decl.fields, not found.carrier and decl.tested)
  if sampled then attr.sample_type = samples.sample_type(attr.sample_type, sampled, not found.args_from) end
  return {
    attr = attr, spec = spec, name = found.name, system = found.system, format = found.format, found = found,
    bind = found.bind,
    is_tracepoint = found.type == TYPE.tracepoint, cpus = found.cpus, pmu = found.pmu,
    aux_bytes = aux_bytes, aux_optional = aux_optional,
    fixed_exclude = spec.exclude_kernel ~= nil or next(found.exclude) ~= nil,
    guest_default = found.guest_default and spec.exclude_guest == nil, precise_max = precise_max,
  }
end

local function build_units(decl, alternative, is_narrow)
  local out = {}
  for _, unit in ipairs(alternative) do
    local built = { grouped = unit.grouped, weak = unit.weak, pattern = unit.pattern, name = unit.name,
      group_name = unit.group_name }
    for i, found in ipairs(unit) do
      local one, why, code = build_one(decl, found, unit, i, is_narrow)
      if not one then return nil, why, code end
      built[i] = one
    end
    out[#out + 1] = built
  end
  return out
end

--- Checks that the event has the payload fields that its condition and callbacks read (callback_fields.check_payload).
-- @tparam string name     the event's name
-- @tparam table decl
-- @tparam ?string format
function M.check_payload(name, decl, format)
  if decl.condition then
    local function fault(field) return where.fault(decl.condition, field) end
    local ok, why, code = samples.check_payload(name, "where", decl.tested.payload, format, fault)
    if not ok then return nil, why, code end
  end
  if decl.is_pulled then return true end -- one of several events has it: see fields.lua's check_pulled
  if decl.fields then return samples.check_payload(name, "fields", decl.fields.payload, format) end
  return as_callback.check(name, decl.callbacks, format)
end

--- The part of the sample's conditions that the kernel can decide.
-- @tparam table decl
-- @tparam table built  one event from `builds`
-- @treturn ?string   a filter, or nil
-- @treturn boolean   true if the filter is the whole condition
function M.condition(decl, built)
  if not (built.is_tracepoint and built.format) then return nil, false end
  local condition = where.both(decl.condition, as_callback.condition(decl.callbacks))
  if not condition then return nil, false end
  return where.filter(condition, filters.fields(built.format))
end

--- True if the callbacks or the output of symbols may use the task of a sample.
function M.needs_task(decl)
  local reads = decl.reads
  if not (decl.fields or reads) or decl.spec.symbols or reads and reads.has_order then return true end
  for name in pairs(decl.callbacks) do
    if name ~= "sample" then return true end
  end
  return false
end

--- True if the callbacks may read names of tasks: a view reads any, and for a sample's pid or tid the script may ask
-- later (s:task()).
function M.needs_names(decl)
  if M.needs_task(decl) or decl.condition or (decl.fields or decl.reads).bits & SAMPLE_TID ~= 0 then return true end
  return decl.fields ~= nil and not as_callback.are_from_record(decl.fields.names)
end

--- True if the result of the callbacks may depend on the order of the samples.
function M.needs_order(decl)
  return not decl.reads or decl.reads.has_order or decl.tested ~= nil or M.needs_task(decl)
end

--- Resolves the declaration on this machine and makes the attrs.
-- @tparam table decl
-- @tparam ?{string,...} events  the events of "*"
-- @tparam[opt] boolean is_narrow  true if aggregators alone take the samples: no recording, no loop over records
-- @treturn[1] table  the available alternatives, best first: lists of units; a unit is a list of events, with several
--   only for groups (`grouped`, `weak`), patterns (`pattern`) and several kinds of CPU. An event: `attr`, `name`,
--   `system`, `format`, `is_tracepoint`, `cpus` (the only CPUs to open it on), `found` (of resolve.lua),
--   `spec` (of `settle`), `fixed_exclude` (the user chose exclude_*), `guest_default`, `precise_max` (may be
--   dropped), `aux_bytes` (of an AUX area to map), `aux_optional`
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.builds(decl, events, is_narrow)
  local there, why, code = find(decl, events)
  if not there then return nil, why, code end
  local out = {}
  for _, alternative in ipairs(there) do
    local built, wrong, failed = build_units(decl, alternative, is_narrow)
    if not built then return nil, wrong, failed end
    out[#out + 1] = built
  end
  return out
end

--- The same for a declaration of a single event; of several the first.
function M.build(decl)
  local there, why, code = M.builds(decl)
  if not there then return nil, why, code end
  return there[1][1][1]
end

return M
