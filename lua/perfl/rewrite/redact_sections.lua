--- Redacts what a recording has once: names of events, formats of tracepoints, feature sections.
-- Sections are decoded and encoded again. Those that cannot be, and unknown ones, are left out.

local copy = require "perfl.rewrite.copy"
local perf_names = require "perfev.event.perf_names"
local perfl_section = require "perfev.perfdata.perfl_section"
local saved_names = require "perfev.symbol.saved_names"
local sections = require "perfev.perfdata.write_features"
local tracing = require "perfev.perfdata.tracing_data"

local M = {}

local TRACEPOINT = 2

-- ---- events ----

-- Systems of events whose names and fields a user chose. Probes can be in any system.
local of_users = { user_events = true, user_events_multi = true, synthetic = true, eprobes = true }

local function is_of_user(format)
  return of_users[format.system] or format.format:find("__probe_", 1, true) ~= nil
end

-- True for a name that is the same on all machines, without modifiers.
local function is_well_known(name)
  return perf_names.find(name) ~= nil or name:find "^r%x+$" ~= nil or name:find "^mem:0x%x+$" ~= nil
end

local function format_name(rules, format)
  local name = format.system .. ":" .. format.name
  if rules:has "event" or is_of_user(format) then return rules:name("event", name) end
  return name
end

--- Returns the new name of an event.
function M.event_name(rules, event)
  if rules:has "event" then return rules:name("event", event.name) end
  local format = event.attr.type == TRACEPOINT and event.format
  if format then return format_name(rules, format) end
  local name = event.name:match "^(.*):%a*$" or event.name
  return is_well_known(name) and event.name or rules:name("event", event.name)
end

-- ---- formats of tracepoints ----

local FIELD = "\n(\tfield:([^;\n]*);[ \t]*offset:%d+;[ \t]*size:%d+;[^\n]*)"

-- The print format of a user's event whose fields have these names.
local function new_print(fields, format)
  local text, values = "", ""
  local function add(form, value) text, values = text .. form, ("%s, %s"):format(values, value) end
  if format:find("__probe_ret_ip", 1, true) then
    add("(%lx", "REC->__probe_func")
    add(" <- %lx)", "REC->__probe_ret_ip")
  elseif format:find("__probe_ip", 1, true) then
    add("(%lx)", "REC->__probe_ip")
  end
  for _, field in ipairs(fields) do
    if field.is_text then add((' %s=\\"%%s\\"'):format(field.name), ("__get_str(%s)"):format(field.name))
    elseif field.is_number then add((" %s=0x%%Lx"):format(field.name), "REC->" .. field.name) end
  end
  return ('"%s"%s'):format(text, values)
end

-- Names the fields of a user's event arg1, arg2, ... -> line of a field, description of it (nil: unchanged)
local function rename_field(line, declaration, n)
  local tail = declaration:match "%[[^%[%]]*%]$" or ""
  local head, name = declaration:sub(1, #declaration - #tail):match "^(.-)([%w_]+)$"
  if not name or name:find "^__probe_" then return line end
  local new, is_dynamic = "arg" .. n, head:find "^__%a+_loc "
  return ("\tfield:%s%s%s%s"):format(head, new, tail, line:sub(#"\tfield:" + #declaration + 1)),
    { name = new, is_text = head:find "^__%a+_loc char%[%]" ~= nil, is_number = not is_dynamic and tail == "" }
end

-- A format without what tracefs does not write. A blank line separates the fields that all events have.
local function new_format(rules, id, format)
  local system, name = format_name(rules, format):match "^([^:]+):(.+)$"
  if not system then system, name = "redacted", format_name(rules, format) end
  name = name:gsub("[^%w_]", "_") -- libtraceevent reads one word
  local is_renamed = is_of_user(format) and not rules:keeps "event"
  local common, own, fields = {}, {}, {}
  for line, declaration in format.format:gmatch(FIELD) do
    if declaration:find " common_[%w_]+$" then
      common[#common + 1] = line
    else
      local field
      if is_renamed then line, field = rename_field(line, declaration, #fields + 1) end
      own[#own + 1], fields[#fields + 1] = line, field
    end
  end
  local print = is_renamed and new_print(fields, format.format) or format.format:match "\nprint fmt: ([^\n]*)" or '""'
  return { system = system, name = name, format = ("name: %s\nID: %d\nformat:\n%s\n\n%s\n\nprint fmt: %s\n"):format(
    name, id, table.concat(common, "\n"), table.concat(own, "\n"), print) }
end

-- Lines such as "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;"
local function redact_page_header(text)
  local lines = {}
  for line in text:gmatch "\tfield: [%w_ ]+;\toffset:%d+;\tsize:%d+;\tsigned:[01];\n" do lines[#lines + 1] = line end
  return table.concat(lines)
end

local function redact_printk(rules, text)
  local lines = {}
  for address, words in text:gmatch '(0x%x+) : "([^\n]*)"\n' do
    local new = rules:text("printk", words)
    if new ~= "" then lines[#lines + 1] = ('%s : "%s"\n'):format(address, (new:gsub("\n", " "))) end
  end
  return table.concat(lines)
end

local function redact_cmdlines(rules, text)
  return (text:gsub("([^\n]*)\n?", function(line)
    local pid, comm = line:match "^(%d+) (.+)$"
    return pid and ("%s %s\n"):format(pid, (rules:text("comm", comm):gsub("\n", " "))) or ""
  end))
end

local function redact_tracing(rules, data)
  local formats = {}
  for id, format in pairs(data.formats) do formats[id] = new_format(rules, id, format) end
  return tracing.encode {
    formats = formats, long_size = data.long_size or 8, page_size = data.page_size or 4096,
    header_page = redact_page_header(data.header_page or ""), printk = redact_printk(rules, data.printk or ""),
    cmdlines = redact_cmdlines(rules, data.cmdlines or ""),
  }
end

-- ---- sections ----

-- Lists of CPUs, numbers and sizes.
local function is_number_text(text) return text:find "^[%d,-]*[KMG]?B?$" ~= nil end

-- Returns a copy of a value with other texts.
local function with_texts(value, f)
  if type(value) == "string" then return is_number_text(value) and value or f(value) end
  if type(value) ~= "table" then return value end
  local out = {}
  for key, one in pairs(value) do out[key] = with_texts(one, f) end
  return out
end

-- Replaces also the keys of { name = value }.
local function with_keys(caps, f)
  local out = {}
  for key, value in pairs(caps) do out[f(key)] = with_texts(value, f) end
  return out
end

local function as_it_is(value) return value end
local function texts_of_header(value, f) return with_texts(value, f) end

-- Machines, as uname(2) names them. Readers need the name for registers.
local machines = {}
for name in ("x86_64 i386 i486 i586 i686 x86 aarch64 aarch64_be arm64 arm armv6l armv7l armv8l riscv32 riscv64 s390 "
  .. "s390x ppc ppc64 ppc64le powerpc mips mips64 loongarch64"):gmatch "%S+" do machines[name] = true end

-- Section -> f(value, header, rules) that returns its new value. Other sections are left out.
local editors = {
  nrcpus = as_it_is, total_mem = as_it_is, branch_stack = as_it_is, mem_topology = as_it_is, clockid = as_it_is,
  clock_data = as_it_is,
  osrelease = texts_of_header, cpudesc = texts_of_header, cpuid = texts_of_header, cpu_topology = texts_of_header,
  numa_topology = texts_of_header, pmu_mappings = texts_of_header, cache = texts_of_header,
  hybrid_topology = texts_of_header, cpu_pmu_caps = with_keys,
  arch = function(value, f) return machines[value] and value or f(value) end,
  hostname = function(value, _, rules) return rules:text("hostname", value) end,
  cmdline = function(words, _, rules)
    local out = {}
    for i, word in ipairs(words) do out[i] = rules:text("cmdline", word) end
    return out
  end,
  pmu_caps = function(list, f)
    local out = {}
    for i, one in ipairs(list) do out[i] = { caps = with_keys(one.caps, f), pmu = f(one.pmu) } end
    return out
  end,
  group_desc = function(list, _, rules)
    local out = {}
    for i, group in ipairs(list) do
      local name = group.name == "{anon_group}" and group.name or rules:name("event", group.name)
      out[i] = { name = name, leader = group.leader, members = group.members }
    end
    return out
  end,
  build_ids = function(list, _, rules)
    local out = {}
    for i, id in ipairs(list) do
      out[i] = { pid = id.pid, misc = id.misc & 0x7fff, build_id = rules:build_id(id.build_id),
                 filename = rules:text("file", id.filename) }
    end
    return out
  end,
}

-- Replaces the names of functions, files and lines that a recording keeps.
local function redact_names(rules, text)
  return saved_names.replace(text, function(kind, value)
    return kind == "build_id" and rules:build_id(value) or rules:text(kind, value)
  end)
end

local function redact_version(rec, rules, bytes)
  local version = sections.encode("version", rules:text("header", rec.header.version or "")).bytes
  local big = rec.facts.big
  local section = version .. perfl_section.lines(bytes, big)
  local names = perfl_section.names(bytes, big)
  return names and (perfl_section.with_names(section, big, redact_names(rules, names))) or section
end

local function describe_events(rec, rules)
  local list = {}
  for i, event in ipairs(rec.events) do
    list[i] = { name = M.event_name(rules, event), attr = event.attr:bytes(), ids = event.ids }
  end
  return sections.encode("event_desc", list).bytes
end

-- Returns the new bytes of a section, or nil.
local function redact_section(rec, rules, key, bytes)
  if key == perfl_section.SECTION then return redact_version(rec, rules, bytes) end
  if key == "event_desc" then return describe_events(rec, rules) end
  if key == "stat" then return "" end
  local value, edit = rec.header[key], editors[key]
  if value == nil or not edit then return nil end
  local function replace(text) return rules:text("header", text) end
  local new = edit(value, replace, rules)
  return sections.encode(key, new).bytes
end

--- Returns the function that describes the new recording to a writer.
function M.describer(rec, rules)
  local written, has_formats, nr_events = {}, false, 0
  local function edit(key, bytes) return redact_section(rec, rules, key, bytes) end
  return function(writer)
    local data = not has_formats and rec.sections.tracing_data and rec:tracing()
    if data then
      writer:tracing(redact_tracing(rules, data))
      has_formats = true
    end
    for i = nr_events + 1, #rec.events do
      local event = rec.events[i]
      writer:event(event.attr, event.ids, M.event_name(rules, event))
    end
    nr_events = #rec.events
    written.tracing, written.events = true, nr_events
    copy.describe(rec, writer, written, edit)
  end
end

return M
