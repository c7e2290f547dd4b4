--- The events that this machine has, by name: what completion and `perfl list` show.
-- Names cost next to nothing, so nothing is opened and no format read: 2,300 tracepoints are some hundred
-- directories. What an event is made of is asked for one by one (M.details).

local core = require "perfev.core"
local filter = require "perfev.tracepoint.filter"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local pmu = require "perfev.event.pmu"
local tracefs = require "perfev.tracepoint.tracefs"
local vendor = require "perfev.event.vendor"

local M = {}

-- ---- what there is ----

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

local function hardware(list)
  if has_core_pmu() then add_rows(list, names.hardware, "hardware") end
end

local function software(list) add_rows(list, names.software, "software") end

local function tool(list)
  for _, name in ipairs(names.tools) do list[#list + 1] = { name = name, kind = "tool" } end
end

local function cache(list)
  if not has_core_pmu() then return end
  for _, name in ipairs(names.cache_names()) do list[#list + 1] = { name = name, kind = "cache" } end
end

local function pmus(list)
  for _, name in ipairs(pmu.names()) do
    local one = pmu.find(name)
    for _, event in ipairs(one and pmu.events(one) or {}) do
      list[#list + 1] = { name = ("%s/%s/"):format(name, event), kind = "pmu", pmu = name, event = event }
    end
  end
end

-- Names of files that stand between a system's tracepoints.
local no_tracepoint = { enable = true, filter = true }

local function tracepoints(list, matches)
  local events = tracefs.events()
  for _, system in ipairs(events and core.list(events) or {}) do
    for _, name in ipairs(core.list(events .. "/" .. system) or {}) do
      local full = system .. ":" .. name
      if not no_tracepoint[name] and matches(full) then list[#list + 1] = { name = full, kind = "tracepoint" } end
    end
  end
end

-- What can be put where one likes: shown as it is written.
local function probes(list)
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

local function breakpoints(list)
  for _, name in ipairs(pmu.names()) do
    if name == "breakpoint" then
      list[#list + 1] = { name = "mem:ADDR[/LEN][:rwx]", kind = name, pmu = name }
      list[#list + 1] = { name = "mem:FILE:SYMBOL[/LEN][:rwx]", kind = name, pmu = name }
    end
  end
end

local function raw(list)
  if has_core_pmu() then list[#list + 1] = { name = "rNNN", kind = "raw" } end
  for _, name in ipairs(pmu.names()) do
    local one = pmu.find(name)
    if one and #one.field_names > 0 and name ~= "kprobe" and name ~= "uprobe" then
      list[#list + 1] = { name = ("%s/%s=N,.../"):format(name, one.field_names[1]), kind = "raw", pmu = name }
    end
  end
end

local function vendor_tables(list)
  for _, one in ipairs(vendor.pmus() or {}) do
    list[#list + 1] = { name = one.name .. "::", kind = "pfm", about = one.about, events = one.events, here = one.here }
  end
end

local function vendor_events(list, table_name)
  for _, one in ipairs(vendor.pmus() or {}) do
    if one.name == table_name then
      for name, about in vendor.events(one) do
        list[#list + 1] = { name = one.name .. "::" .. name, kind = "pfm", about = about }
      end
    end
  end
end

-- The word for a kind -> who lists it. Vendors' tables are thousands of events: shown when asked for.
local listers = {
  { "hw", "hardware", hardware }, { "sw", "software", software }, { "tool", "tool", tool },
  { "cache", "hwcache", cache }, { "pmu", "pmu", pmus }, { "raw", "raw", raw },
  { "breakpoint", "breakpoints", breakpoints }, { "probe", "probes", probes },
  { "tracepoint", "tracepoints", tracepoints }, { "pfm", "libpfm4", vendor_tables },
}

--- The words for kinds, for help and for "did you mean".
function M.kinds()
  local list = {}
  for i, row in ipairs(listers) do list[i] = row[1] end
  return list
end

local function everything() return true end

-- A pattern matches the whole of a name; a plain word some part of it.
local function matcher(pattern)
  if not pattern then return everything end
  if pattern:find("[*?%[]") then
    local ok, matches = pcall(grammar.matcher, pattern)
    return ok and matches or function() return false end
  end
  return function(name) return name:find(pattern, 1, true) ~= nil end
end

local function of_kind(word)
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

--- The machine's events. Nothing is opened.
-- @tparam[opt] string pattern  a kind (a word of M.kinds()), a glob ("sched:*", "skl::UOPS*"), or a part of a name;
--   without one all but vendors' events
-- @treturn {table,...}  `name`, `kind` ("hardware", "software", "tool", "cache", "pmu", "raw", "probe", "breakpoint",
--   "tracepoint", "pfm"); `aliases` (names), `pmu`, `event`, `about` where there are such
function M.list(pattern)
  if pattern ~= nil and type(pattern) ~= "string" then
    error("list: a pattern is a string, not a " .. type(pattern), 2)
  end
  local of_word = pattern and of_kind(pattern)
  if of_word then return of_word end
  local list, out, matches = {}, {}, matcher(pattern)
  local of_table = pattern and pattern:match("^([%w_]+)::")
  if of_table then
    vendor_events(list, of_table)
  else
    for _, row in ipairs(listers) do
      if row[3] ~= vendor_tables then row[3](list, matches) end
    end
  end
  for _, entry in ipairs(list) do
    if matches_any(matches, entry) then out[#out + 1] = entry end
  end
  return out
end

-- ---- what one is made of ----

-- "(( gfp_t)((((1UL))) << (5)))" -> 0x20: what the preprocessor has left of a constant. What is more
-- than digits and operators stays as it is.
local function constant(text)
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
      values[#values + 1] = constant(value) .. " " .. name
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
      fields[#fields + 1] = { name = field.name, type = field.text, values = enums[field.name] }
    end
  end
  return { id = tp.id, fields = fields }
end

local function pmu_details(entry)
  local one = pmu.find(entry.pmu)
  if not one then return { fields = {} } end
  local alias = entry.event and pmu.alias(one, entry.event)
  local fields = {}
  for _, name in ipairs(one.field_names) do
    fields[#fields + 1] = { name = name, type = (core.slurp(one.path .. "/format/" .. name) or "?"):match("[^\n]*") }
  end
  return { terms = alias and alias.text, scale = alias and alias.scale, unit = alias and alias.unit, cpus = one.cpus,
    caps = next(pmu.caps(one)) and pmu.caps(one) or nil, fields = fields }
end

--- Returns the parts of an event.
-- @tparam table entry  of M.list
-- @treturn table  `fields` (list: name, type, values), and by kind `id`, `terms`, `scale`, `unit`, `cpus`, `caps`
function M.details(entry)
  if type(entry) ~= "table" or type(entry.name) ~= "string" then
    error("event_details: an entry of perfev.list expected, not a " .. type(entry), 2)
  end
  if entry.kind == "tracepoint" then return tracepoint_details(entry) end
  if entry.pmu then return pmu_details(entry) end
  return { fields = {} }
end

return setmetatable(M, { __call = function(_, pattern) return M.list(pattern) end })
