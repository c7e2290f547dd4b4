--- Resolves event strings: finds the events of this machine that a parsed string (grammar.lua) names.
-- It searches perf's names, sysfs and tracefs, and calls the modules for probes, breakpoints and vendors' names. One
-- name can resolve to several events: a pattern, a generic name if CPUs are of several kinds, or an uncore PMU with
-- several instances.
--
-- A resolved event, `found`, is a table: `type`, `config`, `fields` (other attr fields), `exclude` (exclude_user
-- and the like; empty without u, k and h), `words` (its terms, as options of an event), `name`; some have `system`,
-- `tracepoint`, `format`, `cpus`, `pmu`, `is_uncore`, `scale`, `unit`, `precise_max`, `guest_default`, `tool`.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local core = require "perfev.core"
local glob = require "perfev.base.glob"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local pmu = lazy "perfev.event.pmu"
local foreign_names = lazy "perfev.event.foreign_names"
local tracefs = require "perfev.tracepoint.tracefs"
local vendor = lazy "perfev.event.vendor"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local E = core.errno
local TYPE = names.TYPE

local function fault_of(node)
  return function(term, why, remedy)
    return grammar.fault(node.source, term.at, why, remedy)
  end
end

local function refuse(node, why, remedy, code)
  return nil, grammar.fault(node.source, node.at, why, remedy), code or E.EINVAL
end

-- ---- terms that every event accepts ----

-- The registers that perf samples for call-graph=dwarf (tools/perf/arch/*/include/perf_regs.h).
local unwind_registers = { x86_64 = 0xff0fff, aarch64 = 0x1ffffffff, riscv64 = 0xffffffff }
local STACK_BYTES = 8192

--- The mask of this machine's registers that perf samples, or nil if unknown.
function M.registers() return unwind_registers[core.machine] end

local call_graphs = {
  no = function() return {} end,
  fp = function() return { callchain = true } end,
  lbr = function()
    return { callchain = true, sample_bits = { "branch_stack" },
      branch_sample_type = { "user", "call_stack", "no_flags", "no_cycles" } }
  end,
  defer = function() return { callchain = true, defer_callchain = true } end,
  dwarf = function(bytes)
    local mask = M.registers()
    if not mask then return nil, "dwarf is not supported on this machine: its unwind registers are not known" end
    return { callchain = true, sample_bits = { "regs_user", "stack_user" }, sample_regs_user = mask,
      sample_stack_user = bytes or STACK_BYTES, exclude_callchain_user = true }
  end,
}

local STACK_MAX = 65528 -- a record's size is 16 bits: perf_copy_attr() in kernel/events/core.c

--- Returns the options of an event for call chains of a kind.
-- @tparam string kind     "fp", "dwarf", "lbr", "defer" or "no"
-- @tparam[opt] integer bytes  size of the copied stack, for dwarf
-- @treturn[1] table  options of an event, and `sample_bits`, added to its sample_type
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.call_graph(kind, bytes)
  local make = call_graphs[kind]
  if not make then return nil, ("call-graph is fp, dwarf, lbr, defer or no, not '%s'"):format(kind) end
  if bytes and (kind ~= "dwarf" or bytes < 8 or bytes > STACK_MAX) then
    return nil, kind == "dwarf" and ("the stack size is 8 to %d bytes, not %d"):format(STACK_MAX, bytes)
      or ("%s has no stack size"):format(kind)
  end
  -- The kernel requires a multiple of 8.
  return make(bytes and (bytes + 7) // 8 * 8)
end

-- perf's words that differ from the kernel's names of branch_sample_type bits (tools/perf/util/parse-branch-options.c).
local branch_words = {
  u = "user", k = "kernel", any_ret = "any_return", ind_jmp = "ind_jump", stack = "call_stack",
  save_type = "type_save", priv = "priv_save",
}
local branch_sides = { user = true, kernel = true, hv = true }

--- perf's words of branches as bits of branch_sample_type: "any_call,u" -> { "any_call", "user" }. Without a kind of
-- branch, "any" is added. Does not check the words.
function M.branches(text)
  local bits, has_kind = {}, false
  for word in text:gmatch("[^,%s]+") do
    local bit = branch_words[word] or word
    bits[#bits + 1], has_kind = bit, has_kind or not branch_sides[bit]
  end
  if not has_kind then bits[#bits + 1] = "any" end
  return bits
end

local function is_on(term) return not term.value or grammar.number(term.value) ~= 0 end

-- term -> function that sets the options of an event. The last of period and freq applies, as in perf.
local term_readers = {
  name = function(words, term) words.name = term.value end,
  period = function(words, term) words.period, words.freq = grammar.number(term.value), nil end,
  freq = function(words, term) words.freq, words.period = grammar.number(term.value), nil end,
  ["max-stack"] = function(words, term) words.sample_max_stack = grammar.number(term.value) end,
  branch_type = function(words, term)
    if term.value == "no" then return end
    words.branch_sample_type = M.branches(term.value)
    table.insert(words.sample_bits, "branch_stack")
  end,
  inherit = function(words, term) words.inherit = is_on(term) end,
  ["no-inherit"] = function(words, term) words.inherit = not is_on(term) end,
  overwrite = function(words, term) words.write_backward = is_on(term) end,
  ["no-overwrite"] = function(words, term) words.write_backward = not is_on(term) end,
  ["aux-output"] = function(words, term) words.aux_output = is_on(term) end,
  ["aux-sample-size"] = function(words, term)
    words.aux_sample_size = grammar.number(term.value)
    table.insert(words.sample_bits, "aux")
  end,
  time = function(words, term) words.time = is_on(term) end,
  percore = function(words, term) words.percore = is_on(term) end,
}

local function term_named(terms, name)
  for _, term in ipairs(terms) do
    if term.name == name then return term end
  end
end

-- Returns the option callchain that the terms set, or nil. As in perf, max-stack alone selects fp, and stack-size
-- alone selects no chain.
local function read_callchain(node, words)
  local kind, size = term_named(node.terms, "call-graph"), term_named(node.terms, "stack-size")
  local name = kind and kind.value or words.sample_max_stack and "fp" or size and "no"
  if not name then return nil end
  local bytes = size and name == "dwarf" and grammar.number(size.value) or nil
  local settings, why = M.call_graph(name, bytes)
  if not settings then
    return nil, grammar.fault(node.source, (bytes and size or kind).at, why, "call-graph=fp")
  end
  return name ~= "no" and (bytes and "dwarf," .. bytes or name)
end

--- Turns the terms of a parsed event into options of `perfev.event`.
-- @treturn[1] table  the options; `sample_bits`: added to sample_type; `time`: false for samples without time
-- @treturn[2] nil
-- @treturn[2] string
function M.words(node)
  local words = { sample_bits = {} }
  for _, term in ipairs(node.terms) do
    if term_readers[term.name] then term_readers[term.name](words, term) end
  end
  local why
  words.callchain, why = read_callchain(node, words)
  if why then return nil, why end
  if words.callchain == "lbr" then words.branch_sample_type = nil end -- lbr needs its own setting
  return words
end

-- Applies the terms of an event without a PMU: config, config1 and so on. M.words has read the others.
local function apply_terms(node, found)
  for _, term in ipairs(node.terms) do
    if term.name == "config" then
      found.config = grammar.number(term.value)
    elseif term.name:find("^config%d$") then
      found.fields[term.name] = grammar.number(term.value)
    elseif not grammar.terms[term.name] then
      local list = sorted_keys(grammar.terms)
      return nil, grammar.fault(node.source, term.at, ("unknown term '%s'%s"):format(term.name,
        check.hint(term.name, list)), "one of " .. table.concat(list, ", ")), E.EINVAL
    end
  end
  return found
end

-- ---- kinds ----

local function make_found(kind, config, more)
  local found = { type = kind, config = config, fields = {} }
  for name, value in pairs(more or {}) do found[name] = value end
  return found
end

-- If CPUs are of several kinds, a generic event becomes one event for each kind.
local function split_by_core_pmu(found, node)
  local list = {}
  for _, core_pmu in ipairs(pmu.cores()) do
    local extended = found.type == TYPE.raw
      and make_found(core_pmu.type, found.config, { pmu = core_pmu.name, cpus = core_pmu.cpus })
      or pmu.extend(found, core_pmu)
    extended.name = ("%s/%s/%s"):format(core_pmu.name, node.name, node.modifiers)
    list[#list + 1] = extended
  end
  return #list > 0 and list or { found }
end

local function is_core_event(kind)
  return kind == TYPE.hardware or kind == TYPE.cache or kind == TYPE.raw
end

local function expand_cores(found, node)
  found.fields = found.fields or {}
  if is_core_event(found.type) then return split_by_core_pmu(found, node) end
  return { found }
end

local function resolve_on_pmus(node, list, terms)
  local founds = {}
  for _, one in ipairs(list) do
    local found, why = pmu.resolve(one, terms, fault_of(node))
    if not found then return nil, why, E.EINVAL end
    if #list > 1 then found.name = ("%s/%s"):format(one.name, node.text:match("/(.*)$") or node.name) end
    founds[#founds + 1] = found
  end
  return founds
end

-- Finds a name among the PMUs' events and in vendors' tables. nil without a message: not found.
local function find_on_system(node, name, modifiers)
  local having = pmu.having(name)
  if #having > 0 then
    local terms = { { name = name, at = node.at } }
    table.move(node.terms, 1, #node.terms, 2, terms)
    node.modifiers = modifiers
    return resolve_on_pmus(node, having, terms)
  end
  local found, why, code = vendor.resolve(node.text)
  if found then
    node.modifiers = ""
    return { found }
  end
  return nil, why, code
end

-- -> message, errno for a name of another tool; or nil
local function explain_foreign(node)
  local here = foreign_names.translate(node.text)
  if here then return grammar.fault(node.source, node.at, grammar.OTHERS, here), E.ENOENT end
end

local function refuse_unknown(node, name)
  local text, code = explain_foreign(node)
  if text then return nil, text, code end
  local system = tracefs.system_of(name)
  local near = system and system .. ":" .. name or core.nearest(name, names.all())
  return nil, grammar.fault(node.source, node.at, "no such event" .. check.meant(near),
    system and near or "perfl list"), E.ENOENT
end

local kinds = {}

function kinds.name(node)
  local found, why = names.find(node.name)
  if why then return refuse(node, why) end
  if found then return expand_cores(found, node) end
  local founds, wrong, code = find_on_system(node, node.name, node.modifiers)
  if founds or wrong then return founds, wrong, code end
  return refuse_unknown(node, node.name)
end

function kinds.raw(node)
  local config = grammar.number("0x" .. node.name:sub(2))
  if not config then return refuse(node, "a raw event has at most 16 hexadecimal digits") end
  return expand_cores(make_found(TYPE.raw, config), node)
end

function kinds.number(node) return { make_found(node.type, node.config) } end

function kinds.id(node)
  local tp = tracefs.by_id(node.id)
  return { make_found(TYPE.tracepoint, tp.id, { system = tp.system, tracepoint = tp.name, format = tp.format }) }
end

local function found_tracepoint(tp, name)
  return make_found(TYPE.tracepoint, tp.id,
    { system = tp.system, tracepoint = tp.name, format = tp.format, name = name })
end

local function add_tracepoints(node, events, system, matches, founds)
  for _, name in ipairs(core.list(events .. "/" .. system) or {}) do
    local tp = matches(name) and tracefs.find(system, name)
    if tp then
      local suffix = node.modifiers ~= "" and ":" .. node.modifiers or ""
      founds[#founds + 1] = found_tracepoint(tp, ("%s:%s%s"):format(system, name, suffix))
    end
  end
end

-- Finds all tracepoints that the two patterns match.
local function match_tracepoints(node)
  local events, why, code = tracefs.events()
  if not events then return nil, ("tracepoints '%s': %s"):format(node.text, why), code end
  local is_system, matches, founds = glob.matcher(node.system), glob.matcher(node.name), {}
  for _, system in ipairs(core.list(events) or {}) do
    if is_system(system) then add_tracepoints(node, events, system, matches, founds) end
  end
  if #founds > 0 then
    founds.pattern = node.text
    return founds
  end
  return refuse(node, "no tracepoint matches", "perfl list '" .. node.system .. ":*'", E.ENOENT)
end

-- "cpu/event" parses as a tracepoint. If cpu is a PMU, its closing slash is missing.
local function explain_unclosed(node)
  if node.text:find("^[%w_.%-]+/") and pmu.find(node.system) then
    return grammar.fault(node.source, node.at + #node.system, "the slash is not closed", "a slash after the last term")
  end
end

local function is_modifiers(word)
  return grammar.modifiers(word) ~= nil
end

function kinds.tracepoint(node)
  if node.glob then return match_tracepoints(node) end
  local tp, why, code = tracefs.find(node.system, node.name)
  if tp then return { found_tracepoint(tp) } end
  local text = explain_unclosed(node)
  if text then return nil, text, E.EINVAL end
  -- libpfm4 knows tracepoints too, if debugfs is mounted; tracefs has the better message.
  if tracefs.has(node.system) then return nil, why, code end
  -- It can still be a PMU's event with modifiers (tsc:u), or a vendor's name and its mask.
  local has_modifiers = is_modifiers(node.name)
  local founds, wrong, failed = find_on_system(node, node.system, has_modifiers and node.name or "")
  if founds or wrong then return founds, wrong, failed end
  local other, errno = explain_foreign(node)
  if other then return nil, other, errno end
  if has_modifiers then return refuse_unknown(node, node.system) end
  return nil, why, code
end

function kinds.pmu(node)
  local list = pmu.matching(node.name)
  if #list > 0 then return resolve_on_pmus(node, list, node.terms) end
  local there = pmu.names()
  local hint = check.hint(node.name, there, node.name == "cpu" and ", as it is in most virtual machines")
  return refuse(node, ("this machine has no PMU '%s'%s"):format(node.name, hint),
    #there > 0 and "one of " .. table.concat(there, ", ") or nil, E.ENOENT)
end

local prefix_modules = {
  mem = "perfev.probe.breakpoint",
  kprobe = "perfev.probe.probe", kretprobe = "perfev.probe.probe",
  uprobe = "perfev.probe.probe", uretprobe = "perfev.probe.probe", usdt = "perfev.probe.probe",
}

function kinds.whole(node, spec)
  local module_name = prefix_modules[node.prefix]
  if module_name then
    local found, why, code = require(module_name).resolve(node.body, spec)
    if not found then return nil, why, code end
    if node.modifiers ~= "" then found.name = node.text end
    if found[1] then return found end
    return { found }
  end
  local found, why, code = vendor.resolve(node.text)
  if found then return { found } end
  local other, errno = explain_foreign(node) -- bcc's p::vfs_read looks like a name of libpfm4
  if other then return nil, other, errno end
  if not why then return refuse_unknown(node, node.text) end
  return nil, why, code
end

-- ---- one event, one list ----

-- Adds the fields of the modifiers m, without overwriting the event's own fields.
local function add_modifiers(found, m)
  found.fields, found.exclude = found.fields or {}, found.exclude or {}
  if next(found.exclude) == nil then found.exclude = m.exclude end
  for field, value in pairs(m.fields) do
    if found.fields[field] == nil then found.fields[field] = value end
  end
  found.precise_max, found.weak, found.sample_read = m.precise_max, m.weak, m.sample_read
  found.guest_default = found.fields.exclude_guest and not m.chose_guest or nil
  found.can_be_clock = found.type == TYPE.hardware and found.config == names.CPU_CYCLES or nil
end

local accepts_config_terms = { name = true, raw = true, number = true, id = true, tracepoint = true }

-- Names an event as perf does: with the modifiers of its group.
local function full_name(node, group)
  local sides = group and group:gsub("[^ukhGHp]", "") or ""
  if sides == "" then return node.text end
  return node.text .. (node.modifiers == "" and node.kind ~= "pmu" and ":" or "") .. sides
end

-- Resolves one event of the tree -> list of found | nil, message, errno
local function resolve_node(node, spec, group, is_leader)
  local words, why = M.words(node)
  if not words then return nil, why, E.EINVAL end
  local founds, wrong, code = kinds[node.kind](node, spec)
  if not founds then return nil, wrong, code end
  local m = grammar.modifiers(node.modifiers, group, is_leader)
  for _, found in ipairs(founds) do
    add_modifiers(found, m)
    if accepts_config_terms[node.kind] and not found.event then
      local ok, unknown, failed = apply_terms(node, found)
      if not ok then return nil, unknown, failed end
    end
    found.words, found.name = words, words.name or found.name or full_name(node, group)
  end
  return founds
end

local function resolve_group(group, spec)
  local unit = { grouped = true, name = group.text, group_name = group.name }
  for i, node in ipairs(group) do
    local founds, why, code = resolve_node(node, spec, group.modifiers, i == 1)
    if not founds then return nil, why, code end
    if #founds > 1 and founds[1].pmu then
      return refuse(node, "this is one event for each kind of CPU; a group needs one PMU",
        ("%s/%s/"):format(founds[1].pmu, node.name))
    end
    for _, found in ipairs(founds) do
      unit[#unit + 1] = found
      unit.weak, unit.sample_read = unit.weak or found.weak, unit.sample_read or found.sample_read
    end
    unit.pattern = unit.pattern or founds.pattern
  end
  return unit
end

-- Resolves one alternative -> { unit, … } | nil, message, errno
local function resolve_list(list, spec)
  local out = {}
  for _, unit in ipairs(list) do
    local founds, why, code
    if unit.group then
      founds, why, code = resolve_group(unit, spec)
    else
      founds, why, code = resolve_node(unit, spec)
    end
    if not founds then return nil, why, code end
    out[#out + 1] = founds
  end
  return out
end

--- Resolves an event string.
-- @tparam string text
-- @tparam[opt] table spec  the declaration, for probes
-- @treturn[1] table  the alternatives that this machine has. Each is a list of units, and each unit is a list of found;
--   a group also has `grouped`, `weak`, `sample_read`, a glob has `pattern`
-- @treturn[2] nil
-- @treturn[2] string   why the first alternative failed
-- @treturn[2] integer  errno
function M.all(text, spec)
  local tree, wrong = grammar.parse(text)
  if not tree then return nil, wrong, E.EINVAL end
  local resolved, first, code = {}, nil, nil
  for _, list in ipairs(tree) do
    local units, why, failed = resolve_list(list, spec or {})
    resolved[#resolved + 1] = units
    if not first then first, code = why, failed end
  end
  if #resolved > 0 then return resolved end
  if #tree > 1 then first = first .. "\n  the other alternatives do not exist either" end
  return nil, first, code
end

return M
