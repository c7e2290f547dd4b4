--- perfl dump: every record of a recording with all its fields, one to a line, in the order of time.
--
-- A line's columns are what nearly every record has; the names of a record's fields and how each is
-- written are looked up once for its type (perfl.record_text), so that a record costs one walk over its fields.

local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local fields = require "perfl.record_text"
local grammar = require "perfev.event.grammar"
local hex = require "perfev.base.hex"
local json = require "perfev.base.json"
local output = require "perfl.output"
local recorded = require "perfl.verb.open_recording"
local recording = require "perfev.perfdata.reader"
local report = require "perfl.message"
local user = require "perfev.perfdata.user_records"

local M = {}

local concat = table.concat
local SAMPLE, ROUND = 9, 68 -- PERF_RECORD_SAMPLE, PERF_RECORD_FINISHED_ROUND
local trailer_rows = core.layouts().trailer
local HEAD = "#   OFFSET             TIME(s)  CPU    PID/TID    TYPE EVENT FIELDS\n"
local NOBODY = "      -      "

-- ---- columns ----

local function type_of(r) return r.type == "unknown" and "type_" .. r.number or r.type end

-- Names of records and events in words without spaces, so that a line splits.
local shown_words = setmetatable({}, { __index = function(cache, name)
  cache[name] = escape(name):gsub("[ \"]", "_")
  return cache[name]
end })

local function time_text(time)
  if not time then return "-" end
  if time >= 0 then return ("%d.%09d"):format(time // 1000000000, time % 1000000000) end
  local text = fields.unsigned(time)
  return text:sub(1, -10) .. "." .. text:sub(-9)
end

local function columns(offset, r, event)
  local time, pid, tid, cpu = r.time, r.pid, r.tid, r.cpu
  local type_name, name = shown_words[type_of(r)], event and shown_words[event.name] or "-"
  if time and time >= 0 and pid and tid and cpu then -- nearly all, in one go
    return ("%#10x %9d.%09d %4d %6d/%-6d %s %s"):format(offset, time // 1000000000, time % 1000000000, cpu, pid, tid,
      type_name, name)
  end
  return ("%#10x %19s %4s %s %s %s"):format(offset, time_text(time), cpu or "-",
    pid and ("%6d/%-6s"):format(pid, tid or "-") or NOBODY, type_name, name)
end

-- ---- a record of the kernel's, for people ----

local in_columns = { type = true, number = true, size = true, misc = true, cpumode = true, time = true, cpu = true,
                     pid = true, tid = true }

local leads = setmetatable({}, { __index = function(cache, name)
  cache[name] = " " .. name .. "="
  return cache[name]
end })

-- What a record's trailer says that its own fields do not.
local function trailer_text(r, parts, n)
  local trailer, texts = r.sample_id, fields.texts[0]
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
  for _, field in ipairs(fields.sample_fields(event)) do
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

local function record_text(r, number, parts, n)
  local texts = fields.texts[number]
  for name, value in pairs(r) do
    if in_columns[name] or not value then -- luacheck: ignore 542 (a comm that nobody told is nil)
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

local parts = {} -- of one line, used again for each

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
    if args then n = fields.args_text(event, args, parts, n) end
  else
    n = record_text(r, number, parts, n)
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

-- ---- the same as JSON ----

local keys = setmetatable({}, { __index = function(cache, name)
  cache[name] = "," .. json.encode(name) .. ":"
  return cache[name]
end })

local event_names = setmetatable({}, { __index = function(cache, name)
  cache[name] = ',"event":' .. json.encode(name)
  return cache[name]
end })

local function trailer_json(r)
  local out, trailer, texts = {}, r.sample_id, fields.jsons[r.number]
  for name, value in pairs(trailer) do out[#out + 1] = ('"%s":%s'):format(name, texts[name](value)) end
  table.sort(out)
  return concat(out, ",")
end

local function sample_json(r, event, n, args)
  parts[n + 1] = (',"type":"sample","number":%d,"size":%d,"misc":%d,"cpumode":"%s"'):format(SAMPLE, r.size, r.misc,
    r.cpumode)
  n = n + 1
  for _, field in ipairs(fields.sample_fields(event)) do
    local name = field.name
    local value = r[name]
    if value ~= nil and not (args and name == "raw") then
      parts[n + 1], parts[n + 2] = keys[name], field.flag and tostring(value) or field.json(value)
      n = n + 2
    end
  end
  return args and fields.args_json(event, args, parts, n) or n
end

local function record_json(r, number, n)
  local jsons = fields.jsons[number]
  for name, value in pairs(r) do
    if value ~= nil then -- a comm that nobody told is
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

-- ---- a record of tools ----

local head_keys = { type = true, number = true, misc = true, size = true, offset = true, raw = true }

-- Its own fields by name; the bytes where it has none that we know, or with --raw.
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
    local text = bytes_fields[name] and (opts.raw and hex.of or fields.texts[9].raw)(value)
      or fields.any_text(name, value)
    out[#out + 1] = (" %s=%s"):format(name, text)
  end
  return concat(out)
end

local function tool_object(t, opts)
  local out = { ('{"offset":%d,"type":"%s","number":%d,"size":%d,"misc":%d'):format(t.offset, t.type, t.number, t.size,
    t.misc) }
  for _, name in ipairs(own_keys(t, opts)) do
    local value = t[name]
    out[#out + 1] = keys[name] .. (bytes_fields[name] and fields.jsons[9].raw(value) or fields.any_json(name, value))
  end
  return concat(out) .. "}"
end

-- ---- which records ----

local function known_types()
  local names = { unknown = true }
  for _, layout in ipairs(core.layouts().records) do names[layout.name] = true end
  for _, name in pairs(user.names) do names[name] = true end
  return names
end

-- Words, one after another, in lines that a terminal of 80 columns has room for.
local function lines_of(words)
  local lines = { "" }
  for _, word in ipairs(words) do
    if #lines[#lines] + #word > 74 then lines[#lines + 1] = "" end
    lines[#lines] = lines[#lines] .. " " .. word
  end
  return concat(lines, "\n   ")
end

-- The list of -t -> { name or number = true } | nil, message
local function types_of(text)
  local known, wanted, names = known_types(), {}, {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  for word in text:gmatch("[^,]+") do
    if not known[word] and not word:find("^%d+$") then
      return nil, ("no record is of type '%s'%s\ntry: a type's number, or\n   %s"):format(escape(word),
        check.hint(word, names), lines_of(names))
    end
    wanted[math.tointeger(tonumber(word)) or word] = true
  end
  return wanted
end

-- Whether an event is meant: by its name, by that without modifiers, by a pattern.
local function event_filter(pattern)
  local ok, matches = pcall(grammar.matcher, pattern)
  if not ok then return nil, ("event '%s': %s"):format(escape(pattern), escape(matches)) end
  return setmetatable({}, { __mode = "k", __index = function(cache, event)
    local name = event.name
    cache[event] = name == pattern or matches(name) or matches(name:match("^(.+):%a*$") or name)
    return cache[event]
  end })
end

-- That no event of the recording is meant, when -e names one.
local function no_such_event(rec, opts)
  if not opts.event then return nil end
  local wanted = event_filter(opts.event)
  for _, event in ipairs(rec.events) do
    if wanted[event] then return nil end
  end
  return ("no event is called '%s'\n%s has %s\ntry: one of these, or a pattern"):format(escape(opts.event),
    recorded.shown(opts.file), recording.names_text(rec.events))
end

-- -> f(r) that says whether a record is wanted | nil, message
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
  local keep_going, filtered = recorded.watcher(), opts.type or opts.event
  local flushing = rec.facts.size == 0 -- who still writes is read as he does
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
  local parser = recorded.new_parser("dump", "Print every record of a recording with all its fields, one on a line, "
    .. "sorted by time. Records of tools (types from 64 on) keep their place in the file.")
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
-- @treturn integer  exit status: 0, 1 when it is damaged or cannot be read, 2 for a wrong command line
function M.main(words)
  local opts, status = recorded.parse(new_parser(), "dump", words)
  if not opts then return status end
  local wanted, why = filter_of(opts)
  if not wanted then
    report.say(why)
    return recorded.USAGE
  end
  local rec <close> = recorded.open("dump", opts.file)
  if not rec then return recorded.FAILED end
  collectgarbage("incremental", 400) -- a line's strings are garbage at once: a fifth of the time else
  if not opts.json then io.write(HEAD) end
  print_records(rec, opts, wanted)
  recorded.say_end(rec)
  local nothing = no_such_event(rec, opts) -- a pipe's events may come on the way
  if nothing then report.say(nothing) end
  return nothing and recorded.FAILED or recorded.status(rec)
end

return M
