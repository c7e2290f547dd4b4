--- Reads this machine's PMUs from sysfs, and turns the terms of `pmu/event=0x3c,umask=1/` into config words.
--
-- Each PMU is a directory. `type` is its number. `format/FIELD` lists the field's bits in config, config1, … .
-- `events/NAME` is a named list of terms, with a scale in NAME.scale and a unit in NAME.unit. `cpumask` or `cpus`
-- lists the CPUs on which the PMU counts. The files are read through the core's hooks.
-- Source: Documentation/ABI/testing/sysfs-bus-event_source-devices*, tools/perf/util/pmu.c.

local check = require "perfev.base.check"
local core = require "perfev.core"
local glob = require "perfev.base.glob"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local units = require "perfev.base.parse_units"

local M = {}

local E = core.errno
local DEVICES = "/sys/bus/event_source/devices"

local WORD_BITS = 64
local words = { config = true, config1 = true, config2 = true, config3 = true, config4 = true }

-- True if the name can become part of a path without leading to another directory.
local function is_name(s)
  return s:match("^[%w_.%-]+$") ~= nil and not s:match("^%.+$")
end

local function first_line(path)
  local text, _, code = core.slurp(path)
  if not text then return nil, code end
  return text:match("^%s*([^\n]-)%s*$") or text:match("^%s*([^\n]-)%s*\n")
end

-- ---- fields ----

-- "config:0-7,32-35" -> { word = "config", width = 12, { 0, 7 }, { 32, 35 } } | nil, reason
local function parse_format(text)
  local word, list = text:match("^(%w+):([%d,%-]+)$")
  if not word and words[text] then word, list = text, "0-63" end
  if not word or not words[word] then return nil, ("'%s' is not a list of bits of a config word"):format(text) end
  local field, taken = { word = word, width = 0 }, 0
  for item in (list .. ","):gmatch("([^,]*),") do
    local low, high = item:match("^(%d+)%-(%d+)$")
    low = tonumber(low or item:match("^%d+$"))
    high = tonumber(high) or low
    if not low or low > high or high >= WORD_BITS then return nil, ("the bits '%s' are outside a word"):format(item) end
    field[#field + 1] = { low, high }
    field.width = field.width + high - low + 1
    for bit = low, high do
      if taken >> bit & 1 == 1 then return nil, ("bit %d is repeated"):format(bit) end
      taken = taken | 1 << bit
    end
  end
  field.mask = taken
  return field
end

-- A field with an unreadable format is marked unusable; the PMU's other fields work.
local function read_field(pmu, name)
  local path = ("%s/format/%s"):format(pmu.path, name)
  local text, code = first_line(path)
  if not text then return { unusable = ("cannot read %s: %s"):format(path, core.strerror(code)) } end
  local field, why = parse_format(text)
  return field or { unusable = ("%s: %s"):format(path, why) }
end

--- Returns the field of that name, or nil.
function M.field(pmu, name)
  if pmu.fields[name] == nil then
    local found = false
    for _, other in ipairs(pmu.field_names) do found = found or other == name end
    pmu.fields[name] = found and read_field(pmu, name)
  end
  return pmu.fields[name] or nil
end

local function largest_value(field)
  return field.width < 63 and (1 << field.width) - 1 or field.width == 63 and math.maxinteger or -1
end

local function can_hold(field, value)
  return field.width == WORD_BITS or math.ult(value, 1 << field.width)
end

-- Writes a value into the field's bits, the lowest range first.
local function set_bits(config, field, value)
  local bits = config[field.word] & ~field.mask
  for _, range in ipairs(field) do
    local width = range[2] - range[1] + 1
    local mask = width == WORD_BITS and -1 or (1 << width) - 1
    bits = bits | (value & mask) << range[1]
    value = width == WORD_BITS and 0 or value >> width
  end
  config[field.word] = bits
end

-- ---- PMUs ----

local function read_cpu_list(path)
  local text, code = first_line(path)
  if not text then return nil, code end
  return units.list(text, path)
end

local function read_pmu(name)
  local path = DEVICES .. "/" .. name
  local text, code = first_line(path .. "/type")
  if not text then return nil, code end
  local pmu = { name = name, path = path, type = math.tointeger(tonumber(text)), fields = {}, aliases = {} }
  if not pmu.type then return nil, E.EINVAL end
  pmu.field_names = core.list(path .. "/format") or {}
  pmu.event_files = core.list(path .. "/events") or {}
  -- A core PMU that not all CPUs have (hybrid, big.LITTLE) has the file `cpus`.
  -- An uncore PMU has `cpumask`: its events are opened on these CPUs.
  pmu.cpus = read_cpu_list(path .. "/cpus")
  pmu.is_core = pmu.cpus ~= nil or name == "cpu"
  if not pmu.cpus then
    pmu.cpus = read_cpu_list(path .. "/cpumask")
    pmu.is_uncore = pmu.cpus ~= nil
  end
  return pmu
end

--- Lists the names of all PMUs, sorted; {} if sysfs has no PMU.
function M.names()
  return core.list(DEVICES) or {}
end

--- Finds a PMU by its exact name.
-- @treturn[1] table  `name`, `type`, `cpus` (the CPUs on which it counts; nil: all), `is_core`, `is_uncore`,
--   `field_names`, `event_files`; M.field, M.events and M.caps read the rest
-- @treturn[2] nil
-- @treturn[2] integer errno
function M.find(name)
  if not is_name(name) then return nil, E.EINVAL end
  return read_pmu(name)
end

--- Lists the PMUs that a name selects: the PMU itself, `NAME_0`, `NAME_1`, … (also without the kernel's `uncore_`),
-- or all that a pattern matches.
function M.matching(name)
  local exact = not name:find("[*?%[]") and M.find(name)
  if exact then return { exact } end
  local ok, matches = pcall(glob.matcher, name)
  if not ok then return {} end
  local list = {}
  for _, other in ipairs(M.names()) do
    local bare = other:gsub("^uncore_", "")
    local stem, bare_stem = other:gsub("_%d+$", ""), bare:gsub("_%d+$", "")
    if matches(other) or matches(bare) or matches(stem) or matches(bare_stem) then list[#list + 1] = M.find(other) end
  end
  return list
end

--- Lists the core PMUs by their first CPU if CPUs are of several kinds; {} if all are alike.
function M.cores()
  local list = {}
  for _, name in ipairs(M.names()) do
    if core.slurp(("%s/%s/cpus"):format(DEVICES, name)) then list[#list + 1] = M.find(name) end
  end
  table.sort(list, function(a, b) return (a.cpus and a.cpus[1] or 0) < (b.cpus and b.cpus[1] or 0) end)
  return #list > 1 and list or {}
end

--- Reads the PMU's capabilities: { max_precise = "3", branches = "32", … }.
function M.caps(pmu)
  local caps = {}
  for _, name in ipairs(core.list(pmu.path .. "/caps") or {}) do
    caps[name] = first_line(pmu.path .. "/caps/" .. name)
  end
  return caps
end

--- Lists the names of the PMU's events, sorted.
function M.events(pmu)
  local list = {}
  for _, file in ipairs(pmu.event_files) do
    if not (file:find("%.scale$") or file:find("%.unit$") or file:find("%.per%-pkg$") or file:find("%.snapshot$")) then
      list[#list + 1] = file
    end
  end
  return list
end

-- Returns the event's name as the PMU spells it; perf ignores case (pmu_find_alias()).
local function find_event_name(pmu, name)
  local other
  for _, file in ipairs(M.events(pmu)) do
    if file == name then return file end
    if file:lower() == name:lower() then other = other or file end
  end
  return other
end

-- Parses "5.0e-1"; some locales' recorders write a comma.
local function parse_scale(text)
  return text and tonumber((text:gsub(",", "."))) or nil
end

--- Reads an event of the PMU: { { name =, value = }, … , text =, scale =, unit = } | nil, reason
function M.alias(pmu, name)
  local own = is_name(name) and find_event_name(pmu, name)
  if not own then return nil end
  local path = ("%s/events/%s"):format(pmu.path, own)
  local text, code = first_line(path)
  if not text then return nil, ("cannot read %s: %s"):format(path, core.strerror(code)) end
  local alias = { text = text }
  for term in text:gmatch("[^,]+") do
    local field, value = term:match("^%s*([^=%s]+)%s*=%s*(%S+)%s*$")
    alias[#alias + 1] = { name = field or term:match("^%s*(.-)%s*$"), value = value }
  end
  local scale, unit = first_line(path .. ".scale"), first_line(path .. ".unit")
  alias.scale, alias.unit = parse_scale(scale), unit
  return alias
end

-- ---- terms -> config words ----

local function list_terms(pmu)
  local list = M.events(pmu)
  table.move(pmu.field_names, 1, #pmu.field_names, #list + 1, list)
  for name in pairs(grammar.terms) do list[#list + 1] = name end
  return list
end

-- fault(term, why, remedy) formats an error with the user's words.
local function set_field(pmu, config, name, text, fault, term)
  local field = M.field(pmu, name)
  if field.unusable then
    return nil, fault(term, ("the field '%s' of %s cannot be used: %s"):format(name, pmu.name, field.unusable),
      "config= and the other config words, with the bits themselves")
  end
  if text == nil and field.width > 1 then
    return nil, fault(term, ("'%s' needs a value: it has %d bits"):format(name, field.width), name .. "=VALUE")
  end
  local value = grammar.number(text or "1")
  if not value then
    return nil, fault(term, ("'%s' is a number, not '%s'"):format(name, text), name .. "=0x1")
  end
  if not can_hold(field, value) then
    return nil, fault(term, ("%s=%s is too large: it has %d bits"):format(name, text, field.width),
      ("at most 0x%x"):format(largest_value(field)))
  end
  set_bits(config, field, value)
  return true
end

-- Applies an event's terms to config. A term without a value ("param=?") takes it from the user's terms.
local function apply_event(pmu, config, alias, params, fault, term)
  for _, own in ipairs(alias) do
    local value = own.value
    if value == "?" then
      local given = params[own.name]
      if not given or not given.value then
        return nil, fault(term, ("'%s' needs a value for %s="):format(term.name, own.name),
          ("%s/%s,%s=VALUE/"):format(pmu.name, term.name, own.name))
      end
      value = given.value
    end
    if words[own.name] then
      config[own.name] = grammar.number(value or "1") or 0
    elseif M.field(pmu, own.name) then
      local ok, why = set_field(pmu, config, own.name, value, fault, term)
      if not ok then return nil, why end
    elseif not grammar.terms[own.name] then
      return nil, fault(term, ("'%s' of %s is '%s', but the PMU has no field %s"):format(term.name, pmu.name,
        alias.text, own.name))
    end
  end
  return true
end

local function refuse_term(pmu, term, fault)
  return nil, fault(term, ("%s has no field or event called '%s'%s"):format(pmu.name, term.name,
    (check.hint(term.name, list_terms(pmu)))),
    #pmu.field_names > 0 and "one of " .. table.concat(pmu.field_names, ", ") or "config=0xNUMBER")
end

-- Finds a generic event between a core PMU's slashes: type 0 or 3, with the PMU's number in config's high half.
local function find_generic(pmu, term)
  if not pmu.is_core or term.value then return nil end
  local found = names.find(term.name)
  if not found or found.type ~= names.TYPE.hardware and found.type ~= names.TYPE.cache then return nil end
  return M.extend(found, pmu)
end

--- Restricts a generic event to one kind of CPUs (PERF_TYPE_HARDWARE's extended type, 5.13).
function M.extend(found, pmu)
  local extended = { type = found.type, config = found.config, fields = {}, pmu = pmu.name, cpus = pmu.cpus }
  if pmu.name ~= "cpu" then extended.config = found.config | pmu.type << 32 end
  return extended
end

-- Applies the terms that are names of the PMU's events to config.
-- -> set of the terms used | nil, message
local function apply_events(pmu, terms, config, found, fault)
  local params, used = {}, {}
  for _, term in ipairs(terms) do params[term.name] = term end
  for _, term in ipairs(terms) do
    local alias, unreadable = nil, nil
    if not term.value and not words[term.name] then alias, unreadable = M.alias(pmu, term.name) end
    if unreadable then return nil, fault(term, unreadable) end
    if alias then
      local ok, why = apply_event(pmu, config, alias, params, fault, term)
      if not ok then return nil, why end
      used[term] = true
      for _, own in ipairs(alias) do
        if own.value == "?" then used[params[own.name]] = true end
      end
      found.scale, found.unit, found.event = alias.scale or found.scale, alias.unit or found.unit, term.name
    end
  end
  return used
end

-- Applies a term that is not an event's name to config -> true | nil, message
local function apply_term(pmu, term, config, found, fault)
  if words[term.name] then
    config[term.name] = grammar.number(term.value)
    return true
  elseif grammar.terms[term.name] then
    return true
  elseif M.field(pmu, term.name) then
    return set_field(pmu, config, term.name, term.value, fault, term)
  end
  local raw = not term.value and grammar.number("0x" .. (term.name:match("^r(%x+)$") or ""))
  if raw then
    config.config = raw
    return true
  end
  local legacy = find_generic(pmu, term)
  if not legacy then return refuse_term(pmu, term, fault) end
  found.type, config.config, found.event = legacy.type, legacy.config, term.name
  return true
end

--- Resolves terms on a PMU.
-- @tparam table pmu
-- @tparam {table,...} terms   from grammar.parse
-- @tparam function fault      (term, why, remedy) -> message
-- @treturn[1] table  `type`, `config`, `fields` (config1 …), `cpus`, `scale`, `unit`, `pmu`, `is_uncore`
-- @treturn[2] nil
-- @treturn[2] string
function M.resolve(pmu, terms, fault)
  local found = { type = pmu.type, fields = {}, pmu = pmu.name, cpus = pmu.cpus, is_uncore = pmu.is_uncore }
  local config = { config = 0, config1 = 0, config2 = 0, config3 = 0, config4 = 0 }
  local used, why = apply_events(pmu, terms, config, found, fault)
  if not used then return nil, why end
  -- The user's terms override those of a named event, so they are applied last.
  for _, term in ipairs(terms) do
    if not used[term] then
      local ok, wrong = apply_term(pmu, term, config, found, fault)
      if not ok then return nil, wrong end
    end
  end
  found.config = config.config
  for name in pairs(words) do
    if name ~= "config" and config[name] ~= 0 then found.fields[name] = config[name] end
  end
  return found
end

--- Lists the PMUs that have an event of that name: { pmu, … }.
function M.having(name)
  local list = {}
  if not is_name(name) then return list end
  for _, other in ipairs(M.names()) do
    local pmu = M.find(other)
    if pmu and find_event_name(pmu, name) then list[#list + 1] = pmu end
  end
  return list
end

return M
