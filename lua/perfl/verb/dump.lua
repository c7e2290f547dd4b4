--- perfl dump: prints every record of a recording with all its fields, one record a line, sorted by time.
--
-- The columns are the fields that nearly every record has. perfl.record_text chooses how each field is written once
-- per record type, so that printing a record costs one walk over its fields.

local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local record_text = require "perfl.record_text"
local grammar = require "perfev.event.grammar"
local hex = require "perfev.base.hex"
local json = require "perfev.base.json"
local output = require "perfl.output"
local open_recording = require "perfl.verb.open_recording"
local reader = require "perfev.perfdata.reader"
local message = require "perfl.message"
local user_records = require "perfev.perfdata.user_records"

local M = {}

local concat = table.concat
local SAMPLE, ROUND = 9, 68 -- PERF_RECORD_SAMPLE, PERF_RECORD_FINISHED_ROUND
local trailer_rows = core.layouts().trailer
local HEAD = "#   OFFSET             TIME(s)  CPU    PID/TID    TYPE EVENT FIELDS\n"
local NO_TASK = "      -      "

-- ---- columns ----

local function type_of(r) return r.type == "unknown" and "type_" .. r.number or r.type end

-- Names of records and events without spaces, so that awk can split a line.
local shown_words = setmetatable({}, { __index = function(cache, name)
  cache[name] = escape(name):gsub("[ \"]", "_")
  return cache[name]
end })

local function time_text(time)
  if not time then return "-" end
  if time >= 0 then return ("%d.%09d"):format(time // 1000000000, time % 1000000000) end
  local text = record_text.unsigned(time)
  return text:sub(1, -10) .. "." .. text:sub(-9)
end

local function columns(offset, r, event)
  local time, pid, tid, cpu = r.time, r.pid, r.tid, r.cpu
  local type_name, name = shown_words[type_of(r)], event and shown_words[event.name] or "-"
  if time and time >= 0 and pid and tid and cpu then -- the common case: one format call
    return ("%#10x %9d.%09d %4d %6d/%-6d %s %s"):format(offset, time // 1000000000, time % 1000000000, cpu, pid, tid,
      type_name, name)
  end
  return ("%#10x %19s %4s %s %s %s"):format(offset, time_text(time), cpu or "-",
    pid and ("%6d/%-6s"):format(pid, tid or "-") or NO_TASK, type_name, name)
end

-- ---- a kernel record as text ----

local in_columns = { type = true, number = true, size = true, misc = true, cpumode = true, time = true, cpu = true,
                     pid = true, tid = true }

local leads = setmetatable({}, { __index = function(cache, name)
  cache[name] = " " .. name .. "="
  return cache[name]
end })

-- Appends the trailer fields (sample_id) that differ from the record's own fields.
local function trailer_text(r, parts, n)
  local trailer, texts = r.sample_id, record_text.texts[0]
  for _, row in ipairs(trailer_rows) do
    local name = row.name
    local value = trailer[name]
    if value and value ~= r[name] then
      n = n + 1
      parts[n] = (" sample_id.%s=%s"):format(name, texts[name](value))
    end
  end
  return n
end

local function sample_text(r, event, parts, n, args)
  for _, field in ipairs(record_text.sample_fields(event)) do
    local name = field.name
    local value = not in_columns[name] and r[name]
    if value and not (args and name == "raw") then
      if field.flag then
        n = n + 1
        parts[n] = leads[name]:sub(1, -2)
      else
        parts[n + 1], parts[n + 2] = leads[name], field.text(value)
        n = n + 2
      end
    end
  end
  return n
end

local function kernel_record_text(r, number, parts, n)
  local texts = record_text.texts[number]
  for name, value in pairs(r) do
    if in_columns[name] or not value then -- luacheck: ignore 542 (an unknown comm is nil)
    elseif value == true then
      n = n + 1
      parts[n] = leads[name]:sub(1, -2)
    else
      parts[n + 1], parts[n + 2] = leads[name], texts[name](value)
      n = n + 2
    end
  end
  return trailer_text(r, parts, n)
end

local parts = {} -- the parts of one line; reused for every line

local function line_of(r, offset, synthesised, opts)
  local number, event, mode, n = r.number, r.event, r.cpumode, 1
  parts[1] = columns(offset, r, event)
  if mode ~= "unknown" then
    n = 2
    parts[2] = " " .. mode
  end
  if number == SAMPLE and event then
    local args = r.args
    n = sample_text(r, event, parts, n, args)
    if args then n = record_text.args_text(event, args, parts, n) end
  else
    n = kernel_record_text(r, number, parts, n)
  end
  if synthesised then
    n = n + 1
    parts[n] = " synthesised"
  end
  if opts.raw then
    parts[n + 1], parts[n + 2] = " bytes=", hex.of(r.bytes)
    n = n + 2
  end
  return concat(parts, "", 1, n)
end

-- ---- a kernel record as JSON ----

local keys = setmetatable({}, { __index = function(cache, name)
  cache[name] = "," .. json.encode(name) .. ":"
  return cache[name]
end })

local event_names = setmetatable({}, { __index = function(cache, name)
  cache[name] = ',"event":' .. json.encode(name)
  return cache[name]
end })

local function trailer_json(r)
  local out, trailer, texts = {}, r.sample_id, record_text.jsons[r.number]
  for name, value in pairs(trailer) do out[#out + 1] = ('"%s":%s'):format(name, texts[name](value)) end
  table.sort(out)
  return concat(out, ",")
end

local function sample_json(r, event, n, args)
  parts[n + 1] = (',"type":"sample","number":%d,"size":%d,"misc":%d,"cpumode":"%s"'):format(SAMPLE, r.size, r.misc,
    r.cpumode)
  n = n + 1
  for _, field in ipairs(record_text.sample_fields(event)) do
    local name = field.name
    local value = r[name]
    if value ~= nil and not (args and name == "raw") then
      parts[n + 1], parts[n + 2] = keys[name], field.flag and tostring(value) or field.json(value)
      n = n + 2
    end
  end
  return args and record_text.args_json(event, args, parts, n) or n
end

local function record_json(r, number, n)
  local jsons = record_text.jsons[number]
  for name, value in pairs(r) do
    if value ~= nil then -- an unknown comm is nil
      parts[n + 1], parts[n + 2] = keys[name], type(value) == "boolean" and tostring(value) or jsons[name](value)
      n = n + 2
    end
  end
  local trailer = trailer_json(r)
  if trailer == "" then return n end
  parts[n + 1], parts[n + 2], parts[n + 3] = ',"sample_id":{', trailer, "}"
  return n + 3
end

local function object_of(r, offset, synthesised, opts)
  local number, event, n = r.number, r.event, 1
  parts[1] = ('{"offset":%d'):format(offset)
  if event then
    n = 2
    parts[2] = event_names[event.name]
  end
  if number == SAMPLE and event then
    n = sample_json(r, event, n, r.args)
  else
    n = record_json(r, number, n)
  end
  if synthesised then
    n = n + 1
    parts[n] = ',"synthesised":true'
  end
  if opts.raw then
    n = n + 1
    parts[n] = (',"bytes":"%s"'):format(hex.of(r.bytes))
  end
  parts[n + 1] = "}"
  return concat(parts, "", 1, n + 1)
end

-- ---- a record of tools (type 64 and above) ----

local head_keys = { type = true, number = true, misc = true, size = true, offset = true, raw = true }

-- The names of a tool record's own fields, sorted; also its bytes if no field is known or with --raw.
local function own_keys(t, opts)
  local list = {}
  for name in pairs(t) do
    if not head_keys[name] then list[#list + 1] = name end
  end
  if (#list == 0 and #t.raw > 0 or t.malformed) or opts.raw then list[#list + 1] = "raw" end
  table.sort(list)
  return list
end

local bytes_fields = { raw = true, build_id = true }

local function tool_line(t, opts)
  local out = { columns(t.offset, { type = type_of(t) }) }
  for _, name in ipairs(own_keys(t, opts)) do
    local value = t[name]
    local text = bytes_fields[name] and (opts.raw and hex.of or record_text.texts[9].raw)(value)
      or record_text.any_text(name, value)
    out[#out + 1] = (" %s=%s"):format(name, text)
  end
  return concat(out)
end

local function tool_object(t, opts)
  local out = { ('{"offset":%d,"type":"%s","number":%d,"size":%d,"misc":%d'):format(t.offset, t.type, t.number, t.size,
    t.misc) }
  for _, name in ipairs(own_keys(t, opts)) do
    local value = t[name]
    local text = bytes_fields[name] and record_text.jsons[9].raw(value) or record_text.any_json(name, value)
    out[#out + 1] = keys[name] .. text
  end
  return concat(out) .. "}"
end

-- ---- the filter: -t and -e ----

local function known_types()
  local names = { unknown = true }
  for _, layout in ipairs(core.layouts().records) do names[layout.name] = true end
  for _, name in pairs(user_records.names) do names[name] = true end
  return names
end

-- Words folded into lines for a terminal of 80 columns.
local function lines_of(words)
  local lines = { "" }
  for _, word in ipairs(words) do
    if #lines[#lines] + #word > 74 then lines[#lines + 1] = "" end
    lines[#lines] = lines[#lines] .. " " .. word
  end
  return concat(lines, "\n   ")
end

-- The value of -t -> { name or number = true } | nil, message
local function types_of(text)
  local known, wanted, names = known_types(), {}, {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  for word in text:gmatch("[^,]+") do
    if not known[word] and not word:find("^%d+$") then
      return nil, ("unknown record type '%s'%s\ntry: a type's number, or\n   %s"):format(escape(word),
        check.hint(word, names), lines_of(names))
    end
    wanted[math.tointeger(tonumber(word)) or word] = true
  end
  return wanted
end

-- True for the events that -e selects: by name, by name without modifiers, or by pattern.
local function event_filter(pattern)
  local ok, matches = pcall(grammar.matcher, pattern)
  if not ok then return nil, ("event '%s': %s"):format(escape(pattern), escape(matches)) end
  return setmetatable({}, { __mode = "k", __index = function(cache, event)
    local name = event.name
    cache[event] = name == pattern or matches(name) or matches(name:match("^(.+):%a*$") or name)
    return cache[event]
  end })
end

-- The message if -e matches no event of the recording; else nil.
local function no_such_event(rec, opts)
  if not opts.event then return nil end
  local wanted = event_filter(opts.event)
  for _, event in ipairs(rec.events) do
    if wanted[event] then return nil end
  end
  return ("no event is called '%s'\n%s has %s\ntry: one of these, or a pattern"):format(escape(opts.event),
    open_recording.shown(opts.file), reader.names_text(rec.events))
end

-- -> f(r), true if -t and -e select the record | nil, message
local function filter_of(opts)
  local types, events, why
  if opts.type then types, why = types_of(opts.type) end
  if not why and opts.event then events, why = event_filter(opts.event) end
  if why then return nil, why end
  return function(r)
    if types and not (types[r.type] or types[r.number]) then return false end
    if not events then return true end
    local event = type(r) ~= "table" and r.event
    return event and events[event] or false
  end
end

-- ---- the verb ----

local function print_records(rec, opts, wanted)
  local out, left = io.output(), opts.count or math.maxinteger
  local kernel_form, tool_form = opts.json and object_of or line_of, opts.json and tool_object or tool_line
  local keep_going, filtered = open_recording.watcher(), opts.type or opts.event
  local flushing = rec.facts.size == 0 -- a pipe whose writer may still run: print what has arrived
  for r, offset, synthesised in rec:records() do
    if not filtered or wanted(r) then
      out:write(type(r) == "table" and tool_form(r, opts) or kernel_form(r, offset, synthesised, opts), "\n")
      left = left - 1
    end
    if flushing and r.number == ROUND and not output.check() then return end
    if left <= 0 or not keep_going() then return end
  end
end

local function new_parser()
  local parser = open_recording.new_parser("dump", "Print every record of a recording with all its fields, one on a "
    .. "line, sorted by time. Records of tools (types from 64 on) keep their place in the file.")
  parser:option("-t --type"):argname("TYPE[,...]"):description("print only records of these types, as in sample,mmap2")
  parser:option("-e --event"):argname("NAME"):description("print only records of this event, as in cycles or 'sched:*'")
  parser:option("-n --count"):argname("COUNT"):convert(function(text)
    local n = math.tointeger(tonumber(text))
    if n and n > 0 then return n end
    return nil, ("count '%s': expected a whole number above 0, as in 100"):format(text)
  end):description("stop after COUNT records")
  parser:flag("-j --json"):description("print a JSON object for each record")
  parser:flag("--raw"):description("add the bytes of each record")
  return parser:epilog([[
Columns: offset in the file, time (s), CPU, process/thread, type, event; then
fields. sample_id.NAME is a field of the trailer that differs from the record's.
In JSON, addresses and bytes are hexadecimal strings, and all other integers are
numbers with all their digits (jq before 1.7 rounds those above 2^53).]])
end

--- The verb.
-- @tparam {string,...} words  of the command line after "dump"
-- @treturn integer  exit status: 0, 1 if the recording is damaged or cannot be read, 2 for an invalid command line
function M.main(words)
  local opts, status = open_recording.parse(new_parser(), "dump", words)
  if not opts then return status end
  local wanted, why = filter_of(opts)
  if not wanted then
    message.say(why)
    return open_recording.USAGE
  end
  local rec <close> = open_recording.open("dump", opts.file)
  if not rec then return open_recording.FAILED end
  collectgarbage("incremental", 400) -- every line leaves garbage: the default pause costs a fifth of the time
  if not opts.json then io.write(HEAD) end
  print_records(rec, opts, wanted)
  open_recording.say_end(rec)
  local no_event = no_such_event(rec, opts) -- checked at the end: a pipe may announce events late
  if no_event then message.say(no_event) end
  return no_event and open_recording.FAILED or open_recording.status(rec)
end

return M
