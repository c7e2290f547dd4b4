--- Resolves probes: kprobe:FUNC[+OFF], kretprobe:FUNC, uprobe:FILE:SYMBOL[+OFF], uretprobe:FILE:SYMBOL,
-- usdt:FILE:PROVIDER:NAME. FUNC and SYMBOL may be patterns, which resolve to an event for each function.
-- code_places.lua finds the other places of a uprobe; symbol/binary.lua finds FILE.
--
-- A probe of the PMU (perf_event_open with its type from sysfs) is private and ends with its descriptor. The event
-- uses a probe in tracefs (tracefs_probes.lua) instead if it
--   - fetches memory: text, or arguments on the stack;
--   - has a filter, which compares arguments;
--   - has several places (a static probe that the compiler has copied);
--   - is inherited. When the watched task forks, the kernel reads the path from the attr again, in the address space
--     of that task, and its fork() fails with EFAULT (perf_uprobe_init() by inherit_event(); measured on 6.18).

local binary = require "perfev.symbol.binary"
local check = require "perfev.base.check"
local code_places = require "perfev.probe.code_places"
local core = require "perfev.core"
local glob = require "perfev.base.glob"
local arguments = require "perfev.probe.probe_arguments"
local options = require "perfev.base.options"
local tracefs = require "perfev.tracepoint.tracefs"
local tracefs_probes = require "perfev.probe.tracefs_probes"
local variables = require "perfev.probe.variables"

local M = {}

local E = core.errno
local DEVICES = "/sys/bus/event_source/devices/"
local TRACEPOINT, SAMPLE_RAW = 2, 1 << 10
local REGS_USER, REGS_INTR = 1 << 12, 1 << 18 -- PERF_SAMPLE_*

local function fail(text, why, code)
  return nil, ("event '%s': %s"):format(text, why), code or E.EINVAL
end

-- ---- the PMU ----

-- "config:32-63" -> 32
local function first_bit(pmu, field)
  local text = core.slurp(DEVICES .. pmu .. "/format/" .. field)
  return text and math.tointeger(tonumber((text:match("^config:(%d+)"))))
end

-- -> type, config of the PMU; nil if this kernel does not have it
local function read_pmu(kind, returns, ref)
  local kind_type = math.tointeger(tonumber((core.slurp(DEVICES .. kind .. "/type"))))
  if not kind_type then return nil end
  local config = 0
  if returns then config = 1 << (first_bit(kind, "retprobe") or 0) end
  if ref then
    local bit = first_bit(kind, "ref_ctr_offset")
    if not bit then return nil end
    config = config | ref << bit
  end
  return kind_type, config
end

-- ---- the result ----

-- Returns the definition for tracefs_probes.define().
local function make_definition(place, args)
  return {
    kind = place.kind, name = place.name, returns = place.returns, path = place.path, symbol = place.symbol,
    places = place.places, ref = place.ref, words = arguments.words(args),
  }
end

-- Returns whether the event samples registers for its arguments alone, and no others, as to unwind.
local function has_own_registers(place, attr)
  local mask = attr[place.kind == "uprobe" and "sample_regs_user" or "sample_regs_intr"]
  return place.register_mask ~= nil and mask == place.register_mask
end

-- Returns the reason why the PMU cannot do this probe in this session, or nil.
local function find_tracefs_reason(place, session, spec, attr)
  if place.in_memory then return "memory" end
  if place.register_mask and not has_own_registers(place, attr) then return "registers" end
  if spec.filter then return "filter" end
  if #place.places > 1 then return "places" end
  if not place.pmu_type then return "pmu" end
  if not options.is_cpu_wide(session.opts) and spec.inherit ~= false then return "inherit" end
end

local function turn_into_tracepoint(built, probe)
  built.attr.type, built.attr.config = TRACEPOINT, probe.id
  built.attr.config1, built.attr.config2 = 0, 0
  if built.regs_bit then built.attr[built.regs_bit == REGS_USER and "sample_regs_user" or "sample_regs_intr"] = 0 end
  if built.attr.sample_type ~= 0 then -- a counter takes no samples
    built.attr.sample_type = built.attr.sample_type & ~(built.regs_bit or 0) | SAMPLE_RAW
  end
  built.system, built.format, built.found.args_from = probe.group, probe.format, nil
  built.is_tracepoint = true
  built.undo = function() return probe:remove() end
end

-- Returns a warning if a watched process runs an older file of the same path, as after an upgrade.
local function warn_replaced(text, place, session)
  for _, pid in ipairs(place.path and (session.opts.pid or session.opts.tid) or {}) do
    if binary.is_replaced(place.path, pid) then
      local is_program = core.readlink(("/proc/%d/exe"):format(pid)) == place.path .. " (deleted)"
      return ("%s: process %d is not watched: it runs the file that %s replaced\n  try: %s"):format(text, pid,
        place.path, is_program and ("/proc/%d/exe as the file"):format(pid) or "restart the process")
    end
  end
end

-- Returns a function that is called when a session opens the event. It defines a probe in tracefs if one is needed.
local function make_binder(text, place, args, spec)
  return function(session, built, owner)
    built.regs_bit = spec.sample_regs_user == nil and spec.sample_regs_intr == nil
      and has_own_registers(place, built.attr) and (place.kind == "uprobe" and REGS_USER or REGS_INTR) or nil
    built.to_note = warn_replaced(text, place, session)
    local reason = find_tracefs_reason(place, session, spec, built.attr)
    if not reason then return true end
    local probe, why, code = tracefs_probes.define(make_definition(place, args), owner)
    if probe then
      turn_into_tracepoint(built, probe)
      return true
    end
    if reason ~= "inherit" then return fail(text, why, code) end
    -- Watches the existing tasks with the PMU's probe, and logs that.
    built.no_inherit = true
    built.to_note = ("%s: tasks started from now on are not watched: %s"):format(text, why:match("^[^\n]*"))
    return true
  end
end

-- Reads the arguments from the sample's registers, if all are in registers.
local function use_registers(found, place, args)
  if #args == 0 then return end
  local mask, format = arguments.registers(args, place.name)
  if not mask then
    place.in_memory = true
    return
  end
  place.register_mask = mask
  local regs = place.kind == "uprobe" and "regs_user" or "regs_intr"
  found.fields["sample_" .. regs] = mask
  found.sample_type, found.args_from = { regs }, regs
  found.system, found.format = place.kind, format
end

-- Describes the probe for the lines that -n prints below the attr.
local function describe_probe(place, args)
  local locations = {}
  for i, offset in ipairs(place.places) do
    locations[i] = place.path and ("%s:0x%x"):format(place.path, offset) or ("%s+%d"):format(place.symbol, offset)
  end
  local lines = { "probe  " .. table.concat(locations, " ") }
  if #args > 0 then lines[2] = "args  " .. table.concat(arguments.words(args), " ") end
  return lines
end

-- name: that of the event, if `text` is a pattern
local function make_found(text, place, args, spec, name)
  local kind_type, config = read_pmu(place.kind, place.returns, place.ref)
  place.pmu_type = kind_type
  local found = { type = kind_type or TRACEPOINT, config = config or 0, fields = {}, exclude = {},
                  name = name or text, default_period = 1, probe = place }
  if kind_type then
    found.fields[place.path and "uprobe_path" or "kprobe_func"] = place.path or place.symbol
    found.fields.probe_offset = place.places[1]
    use_registers(found, place, args)
  else
    local ok, why, code = tracefs_probes.available(place.kind)
    if not ok then return fail(text, why, code) end
  end
  found.bind = make_binder(text, place, args, spec)
  found.shown = describe_probe(place, args)
  return found
end

local function read_args(text, spec, returns)
  if spec.args == nil then return {} end
  local args, why = arguments.parse(spec.args)
  if not args then return fail(text, why) end
  for _, arg in ipairs(args) do
    if arg.retval and not returns then
      return fail(text, ("args: '%s': only a return probe has a return value\n  try: uretprobe: or kretprobe:")
        :format(arg.text))
    elseif (arg.position or arg.variable) and returns then
      return fail(text, ("args: '%s': a return probe has no arguments\n  try: $retval, or an entry probe")
        :format(arg.text))
    end
  end
  return args
end

-- ---- patterns ----

local MANY = 128

-- Refuses a pattern that matches many functions, unless the user allowed it.
local function check_many(text, n, spec)
  if n <= MANY or spec.many then return true end
  return fail(text, code_places.explain_many(n, MANY))
end

-- ---- uprobes ----

-- Only at the entry of a function are its arguments where the calling convention has them.
local function check_positions(text, args, places)
  for _, arg in ipairs(args) do
    if arg.position and places[1].is_line then
      return fail(text, ("args: '%s': at a line the arguments are no longer where they were passed\n"
        .. "  try: %s, by its name in the source"):format(arg.text, arg.name))
    end
  end
  return true
end

-- Sorts the places of a line by the locations of their arguments: one definition has one set of them.
local function group_places(text, places, args, file)
  local groups, by_words = {}, {}
  for _, place in ipairs(places) do
    local located, at, code = variables.find(args, file, place)
    if not located then return fail(text, at, code) end
    local ok, why = arguments.by_abi(located, file.elf and file.elf:facts().bits == 32)
    if not ok then return fail(text, why) end
    local words = table.concat(arguments.words(located), " ")
    local group = by_words[words]
    if not group then
      group = { args = located, places = {}, name = at.name }
      by_words[words], groups[#groups + 1] = group, group
    end
    table.insert(group.places, at.offset)
  end
  return groups
end

local function make_uprobes(text, file, returns, groups, spec)
  local founds = {}
  for i, group in ipairs(groups) do
    local found, why, code = make_found(text, { kind = "uprobe", returns = returns, path = file.path,
      places = group.places, name = group.name }, group.args, spec, group.event_name)
    if not found then return nil, why, code end
    founds[i] = found
  end
  return founds
end

local function resolve_uprobe(text, rest, spec, returns)
  local name, what, line = code_places.split(rest)
  if not name then
    return fail(text, "FILE:SYMBOL is expected\n"
      .. "  try: uprobe:/usr/bin/bash:main, uprobe:libc:malloc, uprobe:FILE:prog.c:12, uprobe:FILE:0x1234")
  end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  local places, is_pattern, errno = code_places.find(file, what, line, returns)
  if not places then return fail(text, is_pattern, errno) end
  local ok
  ok, why, code = check_many(text, #places, spec)
  if not ok then return nil, why, code end
  local args
  args, why, code = read_args(text, spec, returns)
  if not args then return nil, why, code end
  ok, why, code = check_positions(text, args, places)
  if not ok then return nil, why, code end
  if not is_pattern then
    local groups
    groups, why, code = group_places(text, places, args, file)
    if not groups then return nil, why, code end
    local founds
    founds, why, code = make_uprobes(text, file, returns, groups, spec)
    return founds and (#founds == 1 and founds[1] or founds), why, code
  end
  local all = {}
  for _, place in ipairs(places) do
    local own = ("%s:%s:%s"):format(returns and "uretprobe" or "uprobe", name, place.name)
    local groups
    groups, why, code = group_places(own, { place }, args, file) -- a message names the function
    if not groups then return nil, why, code end
    groups[1].event_name, all[#all + 1] = own, groups[1]
  end
  local founds
  founds, why, code = make_uprobes(text, file, returns, all, spec)
  if not founds then return nil, why, code end
  founds.pattern = text
  return founds
end

-- ---- kprobes ----

local function has_libc_function(name)
  local file = binary.open("libc")
  return file and file.elf and file.elf:symbol(name) ~= nil
end

-- Refuses a function that the kernel does not have. If /proc/kallsyms cannot be read, every name passes.
local function check_function(text, name)
  local symbols = core.slurp("/proc/kallsyms")
  if not symbols or symbols == "" then return true end
  for _, kind in ipairs { "T", "t", "W", "w" } do
    local line = (" %s %s"):format(kind, name)
    if symbols:find(line .. "\n", 1, true) or symbols:find(line .. "\t", 1, true) then return true end
  end
  if has_libc_function(name) then
    return fail(text, ("the kernel has no function '%s', but the C library has\n  try: uprobe:libc:%s"):format(name,
      name), E.ENOENT)
  end
  local names = {}
  for known in symbols:gmatch(" [TtWw] (" .. name:sub(1, 2):gsub("%p", "%%%0") .. "[^%s]*)") do
    if #names < 65536 then names[#names + 1] = known end
  end
  return fail(text, ("the kernel has no function '%s'%s\n  try: grep %s /proc/kallsyms"):format(name,
    check.hint(name, names), name), E.ENOENT)
end

-- Lists the kernel's functions that a probe accepts by their names: of several that share a name it accepts none.
local function list_functions()
  local events = tracefs.events()
  local traced = events and core.slurp((events:gsub("/events$", "")) .. "/available_filter_functions")
  local count, names = {}, {}
  local function add(name)
    count[name] = (count[name] or 0) + 1
    if count[name] == 1 then names[#names + 1] = name end
  end
  if traced and traced ~= "" then
    for name in traced:gmatch("([^%s]+)[^\n]*") do add(name) end
  else
    for name in (core.slurp("/proc/kallsyms") or ""):gmatch(" [TtWw] ([^%s]+)") do add(name) end
  end
  local unique = {}
  for _, name in ipairs(names) do
    if count[name] == 1 and name:find("^[%a_][%w_.]*$") then unique[#unique + 1] = name end
  end
  return unique
end

local function match_kprobes(text, pattern, args, spec, returns)
  local ok, matches = pcall(glob.matcher, pattern)
  if not ok then return fail(text, ("the pattern '%s' is not closed\n  try: a ] after the ["):format(pattern)) end
  local names, found = list_functions(), {}
  for _, name in ipairs(names) do
    if matches(name) then found[#found + 1] = name end
  end
  if #found == 0 then
    local hint = code_places.hint_at_pattern(pattern, function(use)
      for _, name in ipairs(names) do use(name) end
    end)
    return fail(text, ("no function of the kernel matches '%s'%s\n  try: less /proc/kallsyms"):format(pattern, hint),
      E.ENOENT)
  end
  local few, many, code = check_many(text, #found, spec)
  if not few then return nil, many, code end
  table.sort(found)
  for i, name in ipairs(found) do
    local one, why, errno = make_found(text, { kind = "kprobe", returns = returns, symbol = name, places = { 0 },
      name = name }, args, spec, ("%s:%s"):format(returns and "kretprobe" or "kprobe", name))
    if not one then return nil, why, errno end
    found[i] = one
  end
  found.pattern = text
  return found
end

local function check_types(text, args)
  for _, arg in ipairs(args) do
    if arg.variable or not arg.type then
      return fail(text, ("args: '%s': a type is expected; only uprobes read the names of the source\n"
        .. "  try: NAME:TYPE, as in \"n:int\""):format(arg.text))
    end
  end
  return true
end

local function resolve_kprobe(text, rest, spec, returns)
  local name, offset = code_places.split_offset(rest)
  local is_pattern = glob.is_pattern(rest)
  if not is_pattern and not (name and name:find("^[%a_][%w_.]*$")) then
    return fail(text, "FUNCTION or FUNCTION+OFFSET is expected\n  try: kprobe:do_sys_openat2")
  end
  if returns and offset > 0 then return fail(text, "a return probe has no offset\n  try: kprobe:" .. rest) end
  local args, why, code = read_args(text, spec, returns)
  if not args then return nil, why, code end
  local ok, wrong
  ok, wrong, code = check_types(text, args)
  if not ok then return nil, wrong, code end
  ok, wrong = arguments.by_abi(args, false)
  if not ok then return fail(text, wrong) end
  if is_pattern then return match_kprobes(text, rest, args, spec, returns) end
  ok, wrong, code = check_function(text, name)
  if not ok then return nil, wrong, code end
  return make_found(text, { kind = "kprobe", returns = returns, symbol = name, places = { offset }, name = name }, args,
    spec)
end

-- ---- static probes ----

local function refuse_static_probe(text, file, probes, wanted)
  local names = {}
  for i, probe in ipairs(probes) do names[i] = probe.provider .. ":" .. probe.name end
  if #names == 0 then
    return fail(text, ("%s has no static probes (no .note.stapsdt)\n  try: a build with them, or uprobe:FILE:SYMBOL")
      :format(file.path), E.ENOENT)
  end
  return fail(text, ("%s has no static probe '%s'%s\n  try: readelf -n %s"):format(file.path, wanted,
    check.hint(wanted, names), file.path), E.ENOENT)
end

-- Collects the places of one probe -> offsets, offset of the semaphore or nil | nil: a note is damaged
local function collect_places(list)
  local places, ref = {}, nil
  for _, probe in ipairs(list) do
    if not probe.offset or (probe.semaphore and not probe.ref_ctr_offset) then return nil end
    places[#places + 1] = probe.offset
    ref = ref or probe.ref_ctr_offset -- a unit can be compiled without it
  end
  return places, ref
end

-- One definition has one set of arguments, so all places must keep them in the same locations. If they do not, it is an
-- error if the user wants arguments; otherwise the event has none.
local function read_place_args(list, asked, file)
  local args, why = arguments.by_note(list[1], asked, file)
  if not args then return nil, why end
  local words = table.concat(arguments.words(args), " ")
  for i = 2, #list do
    local other = arguments.by_note(list[i], asked, file)
    if not other or table.concat(arguments.words(other), " ") ~= words then
      if not asked then return {} end
      return nil, "the compiler has copied this probe, and each copy keeps its arguments in other locations\n"
        .. "  try: no args, or uprobe:FILE:0xOFFSET of one copy (readelf -n)"
    end
  end
  return args
end

local function resolve_usdt(text, rest, spec)
  local name, provider, word = rest:match("^(.+):([^:]+):([^:]+)$")
  if not name then return fail(text, "FILE:PROVIDER:NAME is expected\n  try: readelf -n FILE, which lists probes") end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  if not file.elf then return fail(text, file.no_elf, E.ENOSYS) end
  local all, list = file.elf:probes(), {}
  for _, probe in ipairs(all) do
    if probe.provider == provider and probe.name == word then list[#list + 1] = probe end
  end
  if #list == 0 then return refuse_static_probe(text, file, all, provider .. ":" .. word) end
  local places, ref = collect_places(list)
  if not places then return fail(text, ("the note of the probe in %s is damaged"):format(file.path), E.EBADMSG) end
  local asked
  if spec.args ~= nil then
    asked, why = arguments.parse(spec.args)
    if not asked then return fail(text, why) end
    local ok, wrong, errno = check_types(text, asked)
    if not ok then return nil, wrong, errno end
  end
  local args, wrong = read_place_args(list, asked, file)
  if not args then return fail(text, wrong) end
  return make_found(text, { kind = "uprobe", path = file.path, places = places, ref = ref,
    name = provider .. "_" .. word }, args, spec)
end

local kinds = {
  uprobe = function(text, rest, spec) return resolve_uprobe(text, rest, spec, false) end,
  uretprobe = function(text, rest, spec) return resolve_uprobe(text, rest, spec, true) end,
  kprobe = function(text, rest, spec) return resolve_kprobe(text, rest, spec, false) end,
  kretprobe = function(text, rest, spec) return resolve_kprobe(text, rest, spec, true) end,
  usdt = resolve_usdt,
}

--- Resolves a probe's string on this machine. Defines and opens nothing.
-- @tparam string text
-- @tparam ?table spec  the declaration; `args`, `filter` and `inherit` are read
-- @treturn[1] table  `type`, `config`, `fields`, `exclude`, `bind`; `system`, `format`, `args_from`, `sample_type`
--   if arguments are read from registers
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.resolve(text, spec)
  local kind, rest = text:match("^(%l+):(.+)$")
  if not kinds[kind] then return fail(text, "kprobe:, kretprobe:, uprobe:, uretprobe: or usdt: is expected") end
  return kinds[kind](text, rest, spec or {})
end

return M
