--- perfl dump: prints every record of a recording with all its fields, one record a line, sorted by time.
--
-- C writes the kernel's records (src/record/record_text.c); this file writes those of tools.

local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local record_text = require "perfl.record_text"
local hex = require "perfev.base.hex"
local json = require "perfev.base.json"
local open_recording = require "perfl.verb.open_recording"
local reader = require "perfev.perfdata.reader"
local message = require "perfl.message"
local user_records = require "perfev.perfdata.user_records"

local M = {}

local concat = table.concat
local HEAD = "#   OFFSET             TIME(s)  CPU    PID/TID    TYPE EVENT FIELDS\n"

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
local BYTES = 64 -- of a field in the text form
local TOOL_COLUMNS = "%#10x                   -    -       -       %s -"

local function tool_line(t, opts)
  local out = { TOOL_COLUMNS:format(t.offset, t.type == "unknown" and "type_" .. t.number or t.type) }
  for _, name in ipairs(own_keys(t, opts)) do
    local value = t[name]
    local text = not bytes_fields[name] and record_text.any_text(name, value) or opts.raw and hex.of(value)
      or hex.cut(value, BYTES)
    out[#out + 1] = (" %s=%s"):format(name, text)
  end
  return concat(out)
end

local function tool_object(t, opts)
  local out = { ('{"offset":%d,"type":"%s","number":%d,"size":%d,"misc":%d'):format(t.offset, t.type, t.number, t.size,
    t.misc) }
  for _, name in ipairs(own_keys(t, opts)) do
    local value = t[name]
    local text = bytes_fields[name] and '"' .. hex.of(value) .. '"' or record_text.any_json(name, value)
    out[#out + 1] = (',"%s":%s'):format(name, text)
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

-- The kernel's types among those of -t, as a set of bits.
local function kernel_types(types)
  local set = 0
  for number = 0, 63 do
    if types[number] or types[reader.kernel_types[number] or "unknown"] then set = set | 1 << number end
  end
  return set
end

-- -> { types = set of names and numbers, events = filter }, nil without -t and -e | nil, message
local function filters_of(opts)
  local filters, why = {}, nil
  if opts.type then filters.types, why = types_of(opts.type) end
  if not why and opts.event then filters.events, why = open_recording.event_filter(opts.event) end
  if why then return nil, why end
  return filters
end

-- ---- the verb ----

-- The name of an event as it is printed. On a line it has no spaces, so that awk can split the line.
local function shown_name(event, opts)
  if opts.json then return json.encode(event.name) end
  return (escape(event.name):gsub("[ \"]", "_"))
end

local function print_records(rec, opts, filters)
  local form, types, events, big = opts.json and tool_object or tool_line, filters.types, filters.events, rec.facts.big
  rec:_print {
    json = opts.json, with_bytes = opts.raw, count = opts.count, types = types and kernel_types(types),
    selects_events = events ~= nil, keep_going = open_recording.may_continue,
    flushes = rec.facts.size == 0, -- a pipe whose writer may still run: print what has arrived
    describe = function(n)
      local event = rec.events[n]
      return shown_name(event, opts), not events or events[event]
    end,
    tool = function(number, bytes, offset)
      if events then return nil end
      local t = user_records.decode(number, bytes, offset, big)
      return (not types or types[t.type] or types[number]) and form(t, opts) or nil
    end,
  }
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
  local filters, why = filters_of(opts)
  if not filters then
    message.say(why)
    return open_recording.USAGE
  end
  local rec <close> = open_recording.open("dump", opts.file)
  if not rec then return open_recording.FAILED end
  if not opts.json then io.write(HEAD) end
  print_records(rec, opts, filters)
  open_recording.say_end(rec)
  -- Checked at the end: a pipe may announce events late.
  local no_event = opts.event and open_recording.no_such_event(rec, opts.event, opts.file)
  if no_event then message.say(no_event) end
  return no_event and open_recording.FAILED or open_recording.status(rec)
end

return M
