--- An event's declaration: a table -> attr fields, callbacks and the like.
-- Defaults of the event's kind come first, then what the callbacks ask for, then the user's own
-- words; never the other way round.

local core = require "perfev.core"
local options = require "perfev.options"
local registers = require "perfev.registers"
local tracefs = require "perfev.tracefs"
local units = require "perfev.units"

local M = {}

local TYPE_SOFTWARE, TYPE_TRACEPOINT, TYPE_BREAKPOINT = 1, 2, 5
local DEFAULT_FREQ = 4000 -- perf record's
local DEFAULT_AUX = 4 << 20 -- perf record's, where it may
local FIXED_TYPES = 5 -- enum perf_type_id: what is above was given out when a PMU registered

-- enum perf_sw_ids, under the names and aliases that perf list prints.
local software = {
  ["cpu-clock"] = 0, ["task-clock"] = 1, ["page-faults"] = 2, ["faults"] = 2,
  ["context-switches"] = 3, ["cs"] = 3, ["cpu-migrations"] = 4, ["migrations"] = 4,
  ["minor-faults"] = 5, ["major-faults"] = 6, ["alignment-faults"] = 7,
  ["emulation-faults"] = 8, ["dummy"] = 9, ["bpf-output"] = 10, ["cgroup-switches"] = 11,
}
local faults = { [2] = true, [5] = true, [6] = true, [7] = true }
local DUMMY, BPF_OUTPUT = 9, 10

-- What a callback asks the kernel for: attr fields that are set when it is there.
local callbacks = {
  sample = {}, record = {}, lost = {}, throttle = {}, read = { "inherit_stat" },
  comm = { "comm", "comm_exec" }, mmap = { "mmap", "mmap2" }, fork = { "task" }, exit = { "task" },
  switch = { "context_switch" }, ksymbol = { "ksymbol" }, bpf = { "bpf_event" },
  namespaces = { "namespaces" }, cgroup = { "cgroup" }, text_poke = { "text_poke" },
  aux = {}, itrace_start = {}, aux_output_hw_id = {}, callchain_deferred = { "defer_output" },
}

local comforts = {
  freq = true, period = true, callchain = true, filter = true, name = true, optional = true, aux_buffer = true,
}

local attr_fields = {}
local known = {} -- every word that a declaration may have, for the nearest one
for _, field in ipairs(core.attr_fields()) do
  attr_fields[field.name] = field
  known[#known + 1] = field.name
end
for name in pairs(callbacks) do if not attr_fields[name] then known[#known + 1] = name end end
for name in pairs(comforts) do if not attr_fields[name] then known[#known + 1] = name end end

local function fail(level, ...)
  error(string.format(...), level + 1)
end

-- "u", "k", "h" after the last colon: only there is it counted, as perf has it.
local function exclude_for(modifiers)
  if modifiers == "" then return {} end
  return {
    exclude_user = not modifiers:find("u", 1, true),
    exclude_kernel = not modifiers:find("k", 1, true),
    exclude_hv = not modifiers:find("h", 1, true),
  }
end

-- Names that a string may be meant as, for "did you mean".
local function software_names()
  local names = {}
  for name in pairs(software) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function parse_software(text)
  local name, modifiers = text:match("^([%w%-]+):?([ukh]*)$")
  local config = name and software[name]
  if not config then return nil end
  return { type = TYPE_SOFTWARE, config = config, exclude = exclude_for(modifiers) }
end

-- "sched:sched_switch", "sched/sched_switch", with modifiers, or a number.
local function parse_tracepoint(text)
  if text:match("^%d+$") then
    return tracefs.by_id(math.tointeger(tonumber(text)))
  end
  local system, name, modifiers = text:match("^([^:/]+)[:/]([^:/]+):?([ukh]*)$")
  if not system then return nil end
  local found, why, code = tracefs.find(system, name)
  if not found then return nil, why, code end
  found.exclude = exclude_for(modifiers)
  return found
end

--- Resolve an event string.
-- @treturn[1] table  `type`, `config`, `exclude` (attr fields), for tracepoints `system`, `format`
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function M.resolve(text)
  local found = parse_software(text)
  if found then return found end
  local tp, why, code = parse_tracepoint(text)
  if tp then
    return { type = TYPE_TRACEPOINT, config = tp.id, exclude = tp.exclude or {},
             system = tp.system, tracepoint = tp.name, format = tp.format }
  end
  if why then return nil, why, code end
  local near = core.nearest(text:match("^[^:]*"), software_names())
  return nil, ("event '%s': no such event%s\n  software events, tracepoints as 'system:name' or by number, "
    .. "and {type =, config =} are understood"):format(
    text, near and (" (did you mean '%s'?)"):format(near) or ""), core.errno.ENOENT
end

local function check_words(spec, level)
  for key, value in pairs(spec) do
    if type(key) == "number" then
      if key ~= 1 then fail(level, "event: element %s is not understood; one event string, then names", key) end
      if type(value) ~= "string" then fail(level, "event: the event is a string, not a %s", type(value)) end
    elseif type(key) ~= "string" then
      fail(level, "event: a %s is no option", type(key))
    elseif callbacks[key] and type(value) ~= "boolean" then
      local mt = getmetatable(value)
      local callable = type(value) == "function" or (type(mt) == "table" and mt.__call)
      if not callable then fail(level, "event: %s is a function, not a %s", key, type(value)) end
    elseif not attr_fields[key] and not comforts[key] then
      if callbacks[key] then fail(level, "event: %s is a function, not a %s", key, type(value)) end
      local near = core.nearest(key, known)
      fail(level, "event: no option is called '%s'%s", key, near and (" (did you mean '%s'?)"):format(near) or "")
    end
  end
end

local function check_comforts(spec, level)
  if spec.filter ~= nil and type(spec.filter) ~= "string" then
    fail(level, "event: filter is a string, not a %s", type(spec.filter))
  end
  if spec.name ~= nil and type(spec.name) ~= "string" then
    fail(level, "event: name is a string, not a %s", type(spec.name))
  end
  if spec.aux_buffer and spec.write_backward then
    fail(level, "event: aux_buffer and write_backward at once; an AUX area is read as it comes")
  end
  if spec.aux_buffer and spec.aux_buffer ~= true then
    local bytes, why = units.buffer(spec.aux_buffer)
    if not bytes then fail(level, "event: aux_buffer: %s", why) end
  end
  if spec.period ~= nil and type(spec.freq) == "number" then
    fail(level, "event: period and freq at once; a sample is taken either every so many events or so often a second")
  end
  if spec[1] and (spec.type ~= nil or spec.config ~= nil) then
    fail(level, "event '%s': an event string and type= or config= at once", spec[1])
  end
end

-- A callback or a plain flag of the same name? `comm = f` is one, `comm = true` the other.
local function is_callback(spec, name)
  return callbacks[name] and spec[name] ~= nil and type(spec[name]) ~= "boolean"
end

local sample_bits = { "ip", "tid", "time", "cpu", "period", "identifier" }

-- What perf record sets for the kind; nothing to sample for one that counts nothing.
local function kind_defaults(fields, found)
  for name, value in pairs(found.exclude) do fields[name] = value end
  if found.type == TYPE_TRACEPOINT then
    fields.sample_type = { "raw", table.unpack(sample_bits) }
    fields.sample_period = 1
  elseif found.type == TYPE_SOFTWARE and found.config == DUMMY then
    -- A carrier of side-band records: it counts nothing, so it needs no right to see the kernel.
    fields.exclude_kernel = true
    fields.exclude_hv = true
  else
    fields.sample_type = { table.unpack(sample_bits) }
    if found.type == TYPE_SOFTWARE and faults[found.config] then table.insert(fields.sample_type, "addr") end
    if found.type == TYPE_SOFTWARE and found.config == BPF_OUTPUT then
      table.insert(fields.sample_type, "raw")
      fields.sample_period = 1
    elseif found.type == TYPE_BREAKPOINT then
      fields.sample_period = 1
    else
      fields.freq = true
      fields.sample_freq = DEFAULT_FREQ
    end
  end
end

local function callback_bits(fields, spec, list)
  for name, asks in pairs(callbacks) do
    if is_callback(spec, name) then
      list[name] = spec[name]
      for _, field in ipairs(asks) do fields[field] = true end
    end
  end
  if list.switch then fields.context_switch = true end
end

local function add_bit(fields, field, bit)
  local bits = fields[field]
  if type(bits) == "table" then
    table.insert(bits, bit)
  else
    fields[field] = { bit }
  end
end

local function user_words(fields, spec)
  for key, value in pairs(spec) do
    if attr_fields[key] and not is_callback(spec, key) and not comforts[key] then
      -- The two names of one word do not stand side by side.
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
  if spec.callchain then add_bit(fields, "sample_type", "callchain") end
end

-- The kernel lowers its limit under load; a default must not fail for that.
local function clamp_default_freq(fields, spec)
  if fields.sample_freq ~= DEFAULT_FREQ or spec.freq or spec.sample_freq then return end
  local most = math.tointeger(tonumber((core.slurp("/proc/sys/kernel/perf_event_max_sample_rate"))))
  if most and most < DEFAULT_FREQ then fields.sample_freq = most end
end

-- A value that no kernel could take is a mistake of the declaration, whatever the event.
local function check_values(spec, level)
  local fields = {}
  user_words(fields, spec)
  local ok, why = pcall(registers.attr, fields)
  if not ok then fail(level, "event: %s", why) end
end

--- Check a declaration and hold it until it is opened. Raises on what can only be a mistake.
-- @tparam table spec    as `perfev.event` takes it
-- @tparam integer level of the caller, for `error`
-- @treturn table        the declaration: `name`, `spec`, `callbacks`
function M.declare(spec, level)
  if type(spec) ~= "table" then fail(level, "event: a table expected, not a %s", type(spec)) end
  spec = options.copy(spec)
  check_words(spec, level + 1)
  check_comforts(spec, level + 1)
  check_values(spec, level + 1)
  local list, fields = {}, {}
  callback_bits(fields, spec, list)
  local name = spec.name or spec[1] or (spec.type and ("{type=%s, config=%s}"):format(spec.type, spec.config or 0))
    or "dummy"
  return { name = name, spec = spec, callbacks = list, asked = fields }
end

-- What the declaration names -> as M.resolve
local function find(spec)
  if spec[1] then return M.resolve(spec[1]) end
  if spec.type == nil then return { type = TYPE_SOFTWARE, config = DUMMY, exclude = {} } end
  local found = { type = spec.type, config = spec.config or 0, exclude = {} }
  if spec.type == TYPE_TRACEPOINT then
    local tp = tracefs.by_id(spec.config)
    found.system, found.tracepoint, found.format = tp.system, tp.name, tp.format
  end
  return found
end

-- Two things the kernel needs to be asked for by another name, unless the user said no.
local function kernel_quirks(fields)
  -- is_sb_event() in kernel/events/core.c forgets these two: an event of a whole CPU that asks
  -- for them alone hears nothing. comm_exec puts it on the list and asks for no record.
  if (fields.namespaces or fields.cgroup) and fields.comm_exec == nil then fields.comm_exec = true end
  -- mmap2 is the form of mmap's records: alone it gives none (seen on 6.18).
  if fields.mmap2 and fields.mmap == nil then fields.mmap = true end
end

-- The AUX area that is asked for, in words or by a callback for its records -> bytes, optional; or nil
local function aux_of(decl, found)
  local asked = decl.spec.aux_buffer
  if asked == true then return DEFAULT_AUX, false end
  if asked then return (units.buffer(asked)), false end
  local is_pmu = math.type(found.type) == "integer" and found.type > FIXED_TYPES
  if asked == nil and decl.callbacks.aux and is_pmu and not decl.spec.write_backward then return DEFAULT_AUX, true end
end

--- What the declaration is on this machine: asks tracefs and makes the attr.
-- @treturn[1] table  `attr`, `system`, `format`, `is_tracepoint`, `fixed_exclude` (the user chose what is excluded),
--   `aux_bytes` (of an AUX area to map), `aux_optional`
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.build(decl)
  local spec = decl.spec
  local found, why, code = find(spec)
  if not found then return nil, why, code end
  local fields = {}
  kind_defaults(fields, found)
  local aux_bytes, aux_optional = aux_of(decl, found)
  -- As perf record does: what counts is the trace, and arm_spe refuses a frequency.
  if aux_bytes then fields.freq, fields.sample_freq, fields.sample_period = nil, nil, 1 end
  for name, value in pairs(decl.asked) do fields[name] = value end
  user_words(fields, spec)
  fields.type, fields.config = found.type, found.config
  kernel_quirks(fields)
  clamp_default_freq(fields, spec)
  local ok, attr = pcall(registers.attr, fields)
  if not ok then return nil, ("event '%s': %s"):format(decl.name, attr), core.errno.EINVAL end
  return {
    attr = attr, system = found.system, format = found.format, aux_bytes = aux_bytes, aux_optional = aux_optional,
    is_tracepoint = found.type == TYPE_TRACEPOINT,
    fixed_exclude = spec.exclude_kernel ~= nil or next(found.exclude) ~= nil,
  }
end

return M
