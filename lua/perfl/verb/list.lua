--- perfl list: prints the events of this machine by name.

local args = require "perfev.tool.args"
local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local perf_names = require "perfev.event.perf_names"
local grammar = require "perfev.event.grammar"
local json = require "perfev.base.json"
local list = require "perfev.event.list"
local message = require "perfl.message"
local foreign_names = require "perfev.event.foreign_names"
local tracefs = require "perfev.tracepoint.tracefs"
local vendor = require "perfev.event.vendor"
local verb = require "perfl.verb"

local M = {}

local FAILED = 1

local titles = {
  hardware = "hardware events", software = "software events", tool = "values that perfl stat measures",
  cache = "hardware cache events", pmu = "events of PMUs", raw = "raw events", probe = "probes",
  breakpoint = "breakpoints", tracepoint = "tracepoints", pfm = "vendor event names (libpfm4)",
}

local short = { hw = "hardware", sw = "software" }

local function new_parser()
  local parser = args.new_parser("perfl list"):add_help(true)
  parser:description("List the events of this machine, by the names that event{} and -e accept.")
  parser:argument("pattern"):args("*")
    :description("a kind (" .. table.concat(list.kinds(), " ") .. "), a glob as in 'sched:*', or a part of a name")
  parser:flag("-v --verbose"):description("add the fields with types and values, terms and CPUs of each event")
  parser:flag("-j --json"):description("print a JSON object for each event")
  return parser
end

local function names_text(entry)
  local text = entry.name
  for _, alias in ipairs(entry.aliases or {}) do text = text .. " OR " .. alias end
  return text
end

local function description_text(entry)
  local here = entry.here and " (this machine)" or ""
  if entry.events then return ("%s, %d events%s"):format(entry.about, entry.events, here) end
  return entry.about or ""
end

-- Prints words folded to 78 columns; further lines begin below the first word.
local function print_folded(lead, words)
  local line = lead
  for _, word in ipairs(words) do
    if #line + 1 + #word > 78 and line ~= lead then
      io.write(line, "\n")
      line = (" "):rep(#lead)
    end
    line = line .. " " .. word
  end
  io.write(line, "\n")
end

local function print_details(entry)
  local found = list.details(entry)
  if found.terms then io.write("      ", escape(found.terms), "\n") end
  if found.unit or found.scale then io.write(("      x %s %s\n"):format(found.scale or 1, escape(found.unit or ""))) end
  if found.cpus then io.write("      on CPUs ", table.concat(found.cpus, ","), "\n") end
  for _, field in ipairs(found.fields) do
    io.write("      ", escape(entry.pmu and ("%s %s"):format(field.name, field.type) or field.type), "\n")
    if field.values then
      local words = {}
      for i, value in ipairs(field.values) do words[i] = escape(value) .. (i < #field.values and "," or "") end
      print_folded("         ", words)
    end
  end
  for name, value in pairs(found.caps or {}) do io.write("      ", escape(name), ": ", escape(value), "\n") end
end

local function print_text(entries, verbose)
  local kind
  for _, entry in ipairs(entries) do
    if entry.kind ~= kind then
      io.write(kind and "\n" or "", titles[entry.kind], ":\n")
      kind = entry.kind
    end
    local line = ("  %-46s %s"):format(escape(names_text(entry)), escape(description_text(entry)))
    io.write((line:gsub("%s+$", "")), "\n")
    if verbose then print_details(entry) end
  end
end

local function print_json(entries, verbose)
  for _, entry in ipairs(entries) do
    local object = {}
    for key, value in pairs(entry) do object[key] = value end
    if verbose then
      for key, value in pairs(list.details(entry)) do object[key] = value end
    end
    io.write(json.encode(object), "\n")
  end
end

local function find_events(patterns)
  if #patterns == 0 then return list() end
  local all = {}
  for _, pattern in ipairs(patterns) do
    local some = list(pattern)
    table.move(some, 1, #some, #all + 1, all)
  end
  return all
end

-- The PMU of a probe: kprobe for "kprobe:f" and "kretprobe:f".
local function probe_pmu(pattern)
  local which = pattern:match("^([ku])probe%f[^%w]") or pattern:match("^([ku])retprobe%f[^%w]")
  return which and which .. "probe"
end

-- The event of this machine whose name is nearest; a tracepoint also matches without its system.
local function nearest_event(pattern)
  local names, whole = {}, {}
  for _, entry in ipairs(list()) do
    local all = { entry.name, table.unpack(entry.aliases or {}) }
    if entry.kind == "tracepoint" then all[#all + 1] = entry.name:match(":(.+)$") end
    for _, name in ipairs(all) do
      names[#names + 1], whole[name] = name, whole[name] or entry.name
    end
  end
  return whole[core.nearest(pattern, names) or ""]
end

-- The message for a name, exact or nearly so, that perf knows but this machine lacks; else nil.
local function missing_event(pattern)
  local all, near = perf_names.all(), nil
  for _, name in ipairs(all) do near = name == pattern and name or near end
  near = near or core.nearest(pattern, all)
  return near and ("%s: this machine has no such event%s\ntry: perfl doctor"):format(
    escape(pattern), near == pattern and "" or (" (did you mean '%s'? this machine lacks it, too)"):format(near))
end

-- Why no event matches. If tracefs cannot be read, tracepoints may exist all the same: it reports that instead.
local function why_no_match(patterns)
  local text = ("no event matches %s"):format(escape(table.concat(patterns, " ")))
  local perf_name = #patterns == 1 and foreign_names.translate(patterns[1])
  if perf_name and perf_name:find("^[^/(]+$") and not perf_name:find("probe:", 1, true) then
    return ("%s\n%s\ntry: perfl list '%s'"):format(text, grammar.OTHERS, perf_name)
  end
  local kind = #patterns == 1 and titles[short[patterns[1]] or patterns[1]]
  if kind then text = ("this machine has no %s"):format(kind) end
  local tables, unreadable = vendor.pmus()
  if patterns[1] == "pfm" and not tables then return ("%s\n%s"):format(text, unreadable) end
  local pmu = #patterns == 1 and probe_pmu(patterns[1])
  if pmu then
    return ("%s\nthis kernel has no %s PMU (CONFIG_%s_EVENTS)"):format(text, pmu, pmu:upper())
  end
  local near = #patterns == 1 and not kind and nearest_event(patterns[1])
  if near then return ("%s%s\ntry: perfl list '%s'"):format(text, check.meant(near), near) end
  local missing = #patterns == 1 and not kind and missing_event(patterns[1])
  if missing then return missing end
  if not kind or kind == titles.tracepoint then
    local path, why = tracefs.events()
    if not path then return ("%s\n%s"):format(text, why) end
  end
  return ("%s\ntry: one of the kinds: %s"):format(text, table.concat(list.kinds(), " "))
end

--- The verb.
-- @tparam {string,...} words  of the command line after "list"
-- @treturn integer  exit status: 0, 1 if no event matches, 2 for an invalid command line
function M.main(words)
  local opts, status = verb.parse(new_parser(), "list", words)
  if not opts then return status end
  local entries = find_events(opts.pattern)
  if #entries == 0 then
    message.say(why_no_match(opts.pattern))
    return FAILED
  end
  if opts.json then print_json(entries, opts.verbose) else print_text(entries, opts.verbose) end
  return 0
end

return M
