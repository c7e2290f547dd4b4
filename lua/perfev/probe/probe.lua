--- Probes: kprobe:FUNC[+OFF], kretprobe:FUNC, uprobe:FILE:SYMBOL[+OFF], uretprobe:FILE:SYMBOL, usdt:FILE:PROVIDER:NAME.
-- FILE:0xOFFSET stands for a place without a symbol; what FILE may be is binary.lua's.
--
-- The PMU (perf_event_open with its type from sysfs) gives a probe nobody else sees, which goes away with the
-- descriptor. It cannot do everything, so an event is turned into one of tracefs (probe_events.lua) when it
--   - fetches memory: text, arguments on the stack;
--   - has a filter, which the kernel holds against the arguments;
--   - has several places (a static probe that the compiler has copied);
--   - is inherited. The kernel reads the path from the attr once more when the watched task forks, in the address
--     space of that task: its fork() fails with EFAULT (perf_uprobe_init() by inherit_event(); measured on 6.18).

local binary = require "perfev.symbol.binary"
local core = require "perfev.core"
local fetch = require "perfev.probe.probe_arguments"
local options = require "perfev.base.options"
local probe_events = require "perfev.probe.tracefs_probes"

local M = {}

local E = core.errno
local DEVICES = "/sys/bus/event_source/devices/"
local TRACEPOINT, SAMPLE_RAW = 2, 1 << 10

local function fail(text, why, code)
  return nil, ("event '%s': %s"):format(text, why), code or E.EINVAL
end

-- ---- the PMU ----

-- "config:32-63" -> 32
local function first_bit(pmu, field)
  local text = core.slurp(DEVICES .. pmu .. "/format/" .. field)
  return text and math.tointeger(tonumber((text:match("^config:(%d+)"))))
end

-- -> type, config of the PMU, or nil when this kernel has none
local function pmu_of(kind, returns, ref)
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

-- ---- what was written ----

local function integer(text)
  return text:find("^%d+$") and math.tointeger(tonumber(text))
    or text:find("^0x%x+$") and math.tointeger(tonumber(text)) or nil
end

-- "malloc+0x10" -> "malloc", 16
local function with_offset(text)
  local name, more = text:match("^(.-)%+(%w+)$")
  if not name then return text, 0 end
  local offset = integer(more)
  if not offset then return nil end
  return name, offset
end

-- Does the probe stand where code is? `what` it is, in the user's words.
local function check_code(text, file, offset, what)
  if file.elf and not file.elf:runs(offset) then
    return fail(text, ("%s is not in the code of %s\n  try: nm %s"):format(what, file.path, file.path))
  end
  return true
end

local not_functions = {
  object = "is a variable\n  try: mem:FILE:SYMBOL, which watches it",
  tls = "is a variable of each thread", other = "is no function",
  ifunc = "is chosen when the program starts among several functions of other names (STT_GNU_IFUNC), and a probe on "
    .. "it would see that choice alone\n  try: one of them, as nm shows them, or FILE:0xOFFSET",
}

-- A symbol's place in the file.
local function by_symbol(text, file, word, returns)
  local name, more = with_offset(word)
  if not name or name == "" then return fail(text, ("'%s' is no symbol and offset"):format(word)) end
  if returns and more > 0 then
    return fail(text, "a function returns as a whole: an offset has no meaning here\n"
      .. "  try: uprobe: for a place inside it")
  end
  local symbol, why, code = binary.symbol(file, name)
  if not symbol then return fail(text, why, code) end
  if not_functions[symbol.type] then return fail(text, ("'%s' %s"):format(name, not_functions[symbol.type])) end
  if symbol.size > 0 and more >= symbol.size then
    return fail(text, ("'%s' is %d bytes long, and the offset is %d"):format(name, symbol.size, more))
  end
  if not symbol.offset then return fail(text, ("'%s' is not in the file"):format(name)) end
  local ok, wrong, errno = check_code(text, file, symbol.offset + more, ("'%s'"):format(word))
  if not ok then return nil, wrong, errno end
  return symbol.offset + more, name
end

local function by_number(text, file, word)
  local offset = integer(word)
  if not offset then return fail(text, ("'%s' is no offset"):format(word)) end
  local ok, why, code = check_code(text, file, offset, ("offset %s"):format(word))
  if not ok then return nil, why, code end
  return offset, ("at_%x"):format(offset)
end

-- ---- what comes of it ----

-- The definition that the event becomes in tracefs, with its arguments.
local function definition(place, args)
  return {
    kind = place.kind, name = place.name, returns = place.returns, path = place.path, symbol = place.symbol,
    places = place.places, ref = place.ref, words = fetch.words(args),
  }
end

-- Why it cannot be an event of the PMU in this session, or nil.
local function needs_tracefs(place, session, spec)
  if place.in_memory then return "memory" end
  if spec.filter then return "filter" end -- its fields are the arguments
  if #place.places > 1 then return "places" end
  if not place.pmu_type then return "pmu" end
  if not options.is_cpu_wide(session.opts) and spec.inherit ~= false then return "inherit" end
end

local function turn_into_tracepoint(built, probe)
  built.attr.type, built.attr.config = TRACEPOINT, probe.id
  built.attr.config1, built.attr.config2 = 0, 0
  built.attr.sample_regs_user, built.attr.sample_regs_intr = 0, 0
  if built.attr.sample_type ~= 0 then -- a counter takes no samples
    built.attr.sample_type = built.attr.sample_type & ~(built.regs_bit or 0) | SAMPLE_RAW
  end
  built.system, built.format, built.found.args_from = probe.group, probe.format, nil
  built.is_tracepoint = true
  built.undo = function() return probe:remove() end
end

local REGS_USER, REGS_INTR = 1 << 12, 1 << 18

-- A probe is in a file, and who runs what lay at its path before, as after an upgrade, does not come by it.
local function on_another_file(text, place, session)
  for _, pid in ipairs(place.path and (session.opts.pid or session.opts.tid) or {}) do
    if binary.is_replaced(place.path, pid) then
      local is_program = core.readlink(("/proc/%d/exe"):format(pid)) == place.path .. " (deleted)"
      return ("%s: process %d is not seen: it runs what %s was before it was replaced\n  try: %s"):format(text, pid,
        place.path, is_program and ("/proc/%d/exe as the file"):format(pid) or "to start that process anew")
    end
  end
end

-- Called when the event is opened in a session: decide, and define what has to be defined.
local function binder(text, place, args, spec)
  return function(session, built, owner)
    built.regs_bit = spec.sample_regs_user == nil and spec.sample_regs_intr == nil
      and (place.kind == "uprobe" and REGS_USER or REGS_INTR) or nil
    built.to_note = on_another_file(text, place, session)
    local reason = needs_tracefs(place, session, spec)
    if not reason then return true end
    local probe, why, code = probe_events.define(definition(place, args), owner)
    if probe then
      turn_into_tracepoint(built, probe)
      return true
    end
    if reason ~= "inherit" then return fail(text, why, code) end
    -- Better those that are there now than none, as long as it is said.
    built.no_inherit = true
    built.to_note = ("%s: tasks that are started from now on are not seen: %s"):format(text, why:match("^[^\n]*"))
    return true
  end
end

-- The arguments as the PMU's sample has them, where it has.
local function from_registers(found, place, args)
  if #args == 0 then return end
  local mask, format = fetch.registers(args, place.name)
  if not mask then
    place.in_memory = true
    return
  end
  local regs = place.kind == "uprobe" and "regs_user" or "regs_intr"
  found.fields["sample_" .. regs] = mask
  found.sample_type, found.args_from = { regs }, regs
  found.system, found.format = place.kind, format
end

-- For a plan: what an address in the attr stands for.
local function lines_of(place, args)
  local where = {}
  for i, offset in ipairs(place.places) do
    where[i] = place.path and ("%s:0x%x"):format(place.path, offset) or ("%s+%d"):format(place.symbol, offset)
  end
  local lines = { "probe  " .. table.concat(where, " ") }
  if #args > 0 then lines[2] = "args  " .. table.concat(fetch.words(args), " ") end
  return lines
end

local function result(text, place, args, spec)
  local kind_type, config = pmu_of(place.kind, place.returns, place.ref)
  place.pmu_type = kind_type
  local found = { type = kind_type or TRACEPOINT, config = config or 0, fields = {}, exclude = {},
                  name = text, default_period = 1, probe = place }
  if kind_type then
    found.fields[place.path and "uprobe_path" or "kprobe_func"] = place.path or place.symbol
    found.fields.probe_offset = place.places[1]
    from_registers(found, place, args)
  else
    local there, why, code = probe_events.available(place.kind)
    if not there then return fail(text, why, code) end
  end
  found.bind = binder(text, place, args, spec)
  found.shown = lines_of(place, args)
  return found
end

local function args_of(text, spec, returns)
  if spec.args == nil then return {} end
  local args, why = fetch.parse(spec.args)
  if not args then return fail(text, why) end
  for _, arg in ipairs(args) do
    if arg.retval and not returns then
      return fail(text, ("args: '%s': only a return probe has a return value\n  try: uretprobe: or kretprobe:")
        :format(arg.text))
    elseif arg.position and returns then
      return fail(text, ("args: '%s': when a function returns, its arguments are gone; $retval is there")
        :format(arg.text))
    end
  end
  return args
end

-- ---- the kinds ----

local function uprobe(text, rest, spec, returns)
  local name, word = rest:match("^(.+):([^:]+)$")
  if not name then
    return fail(text, "FILE:SYMBOL is expected\n"
      .. "  try: uprobe:/usr/bin/bash:main, uprobe:libc:malloc, uprobe:FILE:0x1234")
  end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  local offset, shown, errno = (word:find("^%d") and by_number or by_symbol)(text, file, word, returns)
  if not offset then return nil, shown, errno end
  local args
  args, why, code = args_of(text, spec, returns)
  if not args then return nil, why, code end
  local ok, wrong = fetch.by_abi(args, file.elf and file.elf:facts().bits == 32)
  if not ok then return fail(text, wrong) end
  return result(text, { kind = "uprobe", returns = returns, path = file.path, places = { offset }, name = shown },
    args, spec)
end

local function is_of_libc(name)
  local file = binary.open("libc")
  return file and file.elf and file.elf:symbol(name) ~= nil
end

-- What is the kernel's own name for it? nil where the list cannot be read.
local function check_function(text, name)
  local symbols = core.slurp("/proc/kallsyms")
  if not symbols or symbols == "" then return true end
  for _, kind in ipairs { "T", "t", "W", "w" } do
    local line = (" %s %s"):format(kind, name)
    if symbols:find(line .. "\n", 1, true) or symbols:find(line .. "\t", 1, true) then return true end
  end
  if is_of_libc(name) then
    return fail(text, ("the kernel has no function '%s', but the C library has\n  try: uprobe:libc:%s"):format(name,
      name), E.ENOENT)
  end
  local names = {}
  for known in symbols:gmatch(" [TtWw] (" .. name:sub(1, 2):gsub("%p", "%%%0") .. "[^%s]*)") do
    if #names < 65536 then names[#names + 1] = known end
  end
  local near = core.nearest(name, names)
  return fail(text, ("the kernel has no function '%s'%s\n  try: grep %s /proc/kallsyms"):format(name,
    near and (" (did you mean '%s'?)"):format(near) or "", name), E.ENOENT)
end

local function kprobe(text, rest, spec, returns)
  local name, offset = with_offset(rest)
  if not name or not name:find("^[%a_][%w_.]*$") then
    return fail(text, "FUNCTION or FUNCTION+OFFSET is expected\n  try: kprobe:do_sys_openat2")
  end
  if returns and offset > 0 then return fail(text, "a function returns as a whole: an offset has no meaning here") end
  local args, why, code = args_of(text, spec, returns)
  if not args then return nil, why, code end
  local ok, wrong = fetch.by_abi(args, false)
  if not ok then return fail(text, wrong) end
  ok, wrong, code = check_function(text, name)
  if not ok then return nil, wrong, code end
  return result(text, { kind = "kprobe", returns = returns, symbol = name, places = { offset }, name = name }, args,
    spec)
end

-- ---- static probes ----

local function no_static_probe(text, file, probes, wanted)
  local names = {}
  for i, probe in ipairs(probes) do names[i] = probe.provider .. ":" .. probe.name end
  if #names == 0 then
    return fail(text, ("%s has no static probes (no .note.stapsdt)\n  try: a build with them, or uprobe:FILE:SYMBOL")
      :format(file.path), E.ENOENT)
  end
  local near = core.nearest(wanted, names)
  return fail(text, ("%s has no static probe '%s'%s\n  try: readelf -n %s"):format(file.path, wanted,
    near and (" (did you mean '%s'?)"):format(near) or "", file.path), E.ENOENT)
end

-- All places of one probe; they must agree on the semaphore.
local function places_of(list)
  local places = {}
  for _, probe in ipairs(list) do
    if not probe.offset or (probe.semaphore and not probe.ref_ctr_offset) then return nil end
    places[#places + 1] = probe.offset
  end
  return places
end

-- One definition has one set of words: those of the first place, if the others keep them there too. Where nobody has
-- asked for them, there are none otherwise.
local function args_of_places(list, asked, file)
  local args, why = fetch.by_note(list[1].args, asked, file)
  if not args then return nil, why end
  local words = table.concat(fetch.words(args), " ")
  for i = 2, #list do
    local other = fetch.by_note(list[i].args, asked, file)
    if not other or table.concat(fetch.words(other), " ") ~= words then
      if not asked then return {} end
      return nil, "the compiler has copied this probe, and keeps its arguments in other places in each copy\n"
        .. "  try: no args, or uprobe:FILE:0xOFFSET of one copy (readelf -n)"
    end
  end
  return args
end

local function usdt(text, rest, spec)
  local name, provider, word = rest:match("^(.+):([^:]+):([^:]+)$")
  if not name then return fail(text, "FILE:PROVIDER:NAME is expected\n  try: readelf -n FILE, which lists them") end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  if not file.elf then return fail(text, file.no_elf, E.ENOSYS) end
  local all, list = file.elf:probes(), {}
  for _, probe in ipairs(all) do
    if probe.provider == provider and probe.name == word then list[#list + 1] = probe end
  end
  if #list == 0 then return no_static_probe(text, file, all, provider .. ":" .. word) end
  local places = places_of(list)
  if not places then return fail(text, ("the note of the probe in %s is damaged"):format(file.path), E.EBADMSG) end
  local asked
  if spec.args ~= nil then
    asked, why = fetch.parse(spec.args)
    if not asked then return fail(text, why) end
  end
  local args, wrong = args_of_places(list, asked, file)
  if not args then return fail(text, wrong) end
  return result(text, { kind = "uprobe", path = file.path, places = places, ref = list[1].ref_ctr_offset,
    name = provider .. "_" .. word }, args, spec)
end

local kinds = {
  uprobe = function(text, rest, spec) return uprobe(text, rest, spec, false) end,
  uretprobe = function(text, rest, spec) return uprobe(text, rest, spec, true) end,
  kprobe = function(text, rest, spec) return kprobe(text, rest, spec, false) end,
  kretprobe = function(text, rest, spec) return kprobe(text, rest, spec, true) end,
  usdt = usdt,
}

--- What a probe's string is on this machine. Defines and opens nothing.
-- @tparam string text
-- @tparam ?table spec  the declaration; `args` and `inherit` are looked at
-- @treturn[1] table  `type`, `config`, `fields`, `exclude`, `bind`; `system`, `format`, `args_from`, `sample_type`
--   where arguments are read from registers
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.resolve(text, spec)
  local kind, rest = text:match("^(%l+):(.+)$")
  if not kinds[kind] then return fail(text, "kprobe:, kretprobe:, uprobe:, uretprobe: or usdt: is expected") end
  return kinds[kind](text, rest, spec or {})
end

return M
