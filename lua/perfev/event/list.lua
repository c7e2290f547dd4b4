--- Lists the names of this machine's events, for completion and `perfl list`.
-- Listing opens no event and reads no format file: 2,300 tracepoints are about a hundred directories. M.details reads
-- the fields of found event.

local core = require "perfev.core"
local filter = require "perfev.tracepoint.filter"
local glob = require "perfev.base.glob"
local names = require "perfev.event.perf_names"
local pmu = require "perfev.event.pmu"
local tracefs = require "perfev.tracepoint.tracefs"
local vendor = require "perfev.event.vendor"

local M = {}

-- ---- names ----

local function has_core_pmu()
  for _, name in ipairs(pmu.names()) do
    if name == "cpu" or name:find("^cpu_") or name:find("^armv%d") or name:find("^cpum_") then return true end
  end
  return false
end

local function add_rows(list, rows, kind)
  for config = 0, #rows do
    local row = rows[config]
    list[#list + 1] = { name = row[1], kind = kind, aliases = #row > 1 and table.move(row, 2, #row, 1, {}) or nil }
  end
end

local function add_hardware(list)
  if has_core_pmu() then add_rows(list, names.hardware, "hardware") end
end

local function add_software(list) add_rows(list, names.software, "software") end

local function add_tool(list)
  for _, name in ipairs(names.tools) do list[#list + 1] = { name = name, kind = "tool" } end
end

local function add_cache(list)
  if not has_core_pmu() then return end
  for _, name in ipairs(names.cache_names()) do list[#list + 1] = { name = name, kind = "cache" } end
end

local function add_pmus(list)
  for _, name in ipairs(pmu.names()) do
    local found = pmu.find(name)
    for _, event in ipairs(found and pmu.events(found) or {}) do
      list[#list + 1] = { name = ("%s/%s/"):format(name, event), kind = "pmu", pmu = name, event = event }
    end
  end
end

-- Files in a system's directory that are not tracepoints.
local not_tracepoints = { enable = true, filter = true }

local function add_tracepoints(list, matches)
  local events = tracefs.events()
  for _, system in ipairs(events and core.list(events) or {}) do
    for _, name in ipairs(core.list(events .. "/" .. system) or {}) do
      local full = system .. ":" .. name
      if not not_tracepoints[name] and matches(full) then list[#list + 1] = { name = full, kind = "tracepoint" } end
    end
  end
end

-- Probes can be at any address, so the list shows their syntax.
local function add_probes(list)
  for _, name in ipairs(pmu.names()) do
    if name == "kprobe" then
      list[#list + 1] = { name = "kprobe:FUNCTION[+OFFSET]", kind = "probe", pmu = name }
      list[#list + 1] = { name = "kretprobe:FUNCTION", kind = "probe", pmu = name }
    elseif name == "uprobe" then
      list[#list + 1] = { name = "uprobe:FILE:SYMBOL[+OFFSET]", kind = "probe", pmu = name }
      list[#list + 1] = { name = "uretprobe:FILE:SYMBOL", kind = "probe", pmu = name }
      list[#list + 1] = { name = "usdt:FILE:PROVIDER:NAME", kind = "probe", pmu = name }
    end
  end
end

local function add_breakpoints(list)
  for _, name in ipairs(pmu.names()) do
    if name == "breakpoint" then
      list[#list + 1] = { name = "mem:ADDR[/LEN][:rwx]", kind = name, pmu = name }
      list[#list + 1] = { name = "mem:FILE:SYMBOL[/LEN][:rwx]", kind = name, pmu = name }
    end
  end
end

local function add_raw(list)
  if has_core_pmu() then list[#list + 1] = { name = "rNNN", kind = "raw" } end
  for _, name in ipairs(pmu.names()) do
    local found = pmu.find(name)
    if found and #found.field_names > 0 and name ~= "kprobe" and name ~= "uprobe" then
      list[#list + 1] = { name = ("%s/%s=N,.../"):format(name, found.field_names[1]), kind = "raw", pmu = name }
    end
  end
end

local function add_vendor_tables(list)
  for _, found in ipairs(vendor.pmus() or {}) do
    list[#list + 1] = { name = found.name .. "::", kind = "pfm", about = found.about, events = found.events,
      here = found.here }
  end
end

local function add_vendor_events(list, table_name)
  for _, found in ipairs(vendor.pmus() or {}) do
    if found.name == table_name then
      for name, about in vendor.events(found) do
        list[#list + 1] = { name = found.name .. "::" .. name, kind = "pfm", about = about }
      end
    end
  end
end

-- The words for a kind, and the function that lists it. A vendor's thousands of events are listed only on request.
local listers = {
  { "hw", "hardware", add_hardware }, { "sw", "software", add_software }, { "tool", "tool", add_tool },
  { "cache", "hwcache", add_cache }, { "pmu", "pmu", add_pmus }, { "raw", "raw", add_raw },
  { "breakpoint", "breakpoints", add_breakpoints }, { "probe", "probes", add_probes },
  { "tracepoint", "tracepoints", add_tracepoints }, { "pfm", "libpfm4", add_vendor_tables },
}

--- Returns the words for kinds, for help and for "did you mean".
function M.kinds()
  local list = {}
  for i, row in ipairs(listers) do list[i] = row[1] end
  return list
end

local function everything() return true end

-- A pattern with wildcards matches a whole name, a plain word any part of a name.
local function make_matcher(pattern)
  if not pattern then return everything end
  if pattern:find("[*?%[]") then
    local ok, matches = pcall(glob.matcher, pattern)
    return ok and matches or function() return false end
  end
  return function(name) return name:find(pattern, 1, true) ~= nil end
end

local function list_kind(word)
  for _, row in ipairs(listers) do
    if word == row[1] or word == row[2] then
      local list = {}
      row[3](list, everything)
      return list
    end
  end
end

local function matches_any(matches, entry)
  if matches(entry.name) then return true end
  for _, alias in ipairs(entry.aliases or {}) do
    if matches(alias) then return true end
  end
  return false
end

-- The events of exactly this name or alias: a list of one or none.
local function list_named(name)
  local list = {}
  local system, event = name:match "^([^:]+):([^:]+)$"
  if system and tracefs.find(system, event) then return { { name = name, kind = "tracepoint" } } end
  local vendor_table = name:match "^([%w_]+)::"
  if vendor_table then add_vendor_events(list, vendor_table) end
  for _, row in ipairs(listers) do
    if row[3] ~= add_vendor_tables and row[3] ~= add_tracepoints then row[3](list) end
  end
  for _, entry in ipairs(list) do
    if matches_any(function(one) return one == name end, entry) then return { entry } end
  end
  return {}
end

--- Lists the machine's events without opening any.
-- @tparam[opt] string|table pattern  a kind (a word of M.kinds()), a glob ("sched:*", "skl::UOPS*"), or a part of a
--   name; `{ name = NAME }`: this event alone; nil: all events but vendors'
-- @treturn {table,...}  `name`, `kind` ("hardware", "software", "tool", "cache", "pmu", "raw", "probe", "breakpoint",
--   "tracepoint", "pfm"); some have `aliases` (names), `pmu`, `event`, `about`
function M.list(pattern)
  if type(pattern) == "table" and type(pattern.name) == "string" and next(pattern, next(pattern)) == nil then
    return list_named(pattern.name)
  end
  if pattern ~= nil and type(pattern) ~= "string" then
    error("list: a pattern is a string, not a " .. type(pattern), 2)
  end
  local listed = pattern and list_kind(pattern)
  if listed then return listed end
  local list, out, matches = {}, {}, make_matcher(pattern)
  local vendor_table = pattern and pattern:match("^([%w_]+)::")
  if vendor_table then
    add_vendor_events(list, vendor_table)
  else
    for _, row in ipairs(listers) do
      if row[3] ~= add_vendor_tables then row[3](list, matches) end
    end
  end
  for _, entry in ipairs(list) do
    if matches_any(matches, entry) then out[#out + 1] = entry end
  end
  return out
end

-- ---- the fields of one event ----

-- Evaluates a constant as the preprocessor leaves it: "(( gfp_t)((((1UL))) << (5)))" -> 0x20. Returns text with
-- anything but digits and operators unchanged.
local function evaluate_constant(text)
  text = text:gsub("%s+$", "")
  local bare = text:gsub("%(%s*%a[%w_%s]*%)", ""):gsub("(%d)U?L*", "%1")
  if not text:find("(", 1, true) or not bare:find("^[%d()<>|&~%s]+$") then return text end
  local value = load("return " .. bare, "=constant", "t", {})
  local ok, number = pcall(value or error)
  return ok and ("0x%x"):format(number) or text
end

-- "__print_symbolic(REC->vec, { 0, "HI" }, …)" -> { vec = { "0 HI", … } }
local function enums_of(format)
  local enums = {}
  for body in (format:match("\nprint fmt:(.*)$") or ""):gmatch("__print_%a+(%b())") do
    local field, values = body:match("REC%->([%w_]+)"), {}
    for value, name in body:gmatch('{%s*([^,{}]+),%s*"([^"]*)"%s*}') do
      values[#values + 1] = evaluate_constant(value) .. " " .. name
    end
    if field and #values > 0 then enums[field] = values end
  end
  return enums
end

local function tracepoint_details(entry)
  local tp = tracefs.find(entry.name:match("^([^:]+):(.+)$"))
  if not tp or not tp.format then return { fields = {} } end
  local enums, fields = enums_of(tp.format), {}
  for _, field in ipairs(filter.fields(tp.format)) do
    if not field.common then
      fields[#fields + 1] = { name = field.name, type = field.text, values = enums[field.name], kind = field.kind,
        offset = field.offset, size = field.size, signed = field.signed }
    end
  end
  return { id = tp.id, fields = fields, print = tp.format:match "\nprint fmt: *([^\n]*)" }
end

local function pmu_details(entry)
  local found = pmu.find(entry.pmu)
  if not found then return { fields = {} } end
  local alias = entry.event and pmu.alias(found, entry.event)
  local fields = {}
  for _, name in ipairs(found.field_names) do
    fields[#fields + 1] = { name = name, type = (core.slurp(found.path .. "/format/" .. name) or "?"):match("[^\n]*") }
  end
  return { terms = alias and alias.text, scale = alias and alias.scale, unit = alias and alias.unit, cpus = found.cpus,
    caps = next(pmu.caps(found)) and pmu.caps(found) or nil, fields = fields }
end

--- Describes one event of the list.
-- @tparam table entry  from M.list
-- @treturn table  `fields` (list: name, type, values; of a tracepoint also kind, offset, size, signed), and by kind
--   `id`, `print`, `terms`, `scale`, `unit`, `cpus`, `caps`
function M.details(entry)
  if type(entry) ~= "table" or type(entry.name) ~= "string" then
    error("event_details: an entry of perfev.list expected, not a " .. type(entry), 2)
  end
  if entry.kind == "tracepoint" then return tracepoint_details(entry) end
  if entry.pmu then return pmu_details(entry) end
  return { fields = {} }
end

return setmetatable(M, { __call = function(_, pattern) return M.list(pattern) end })
