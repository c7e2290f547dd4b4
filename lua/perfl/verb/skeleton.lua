--- perfl skeleton: prints a script to start from, generated from a recording: a declaration for each event with the
-- fields of its payload by name, and a callback for each type of side-band record in the recording.
--
-- The script runs on the recording and live: a session opens the event names that it declares, and a replay matches
-- them by name. Names come from the file and are untrusted: each is written as an escaped Lua literal.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local record_text = require "perfl.record_text"
local grammar = require "perfev.event.grammar"
local open_recording = require "perfl.verb.open_recording"
local report = require "perfl.verb.report"

local M = {}

local SOFTWARE, TRACEPOINT, DUMMY = 1, 2, 9 -- PERF_TYPE_SOFTWARE, _TRACEPOINT, PERF_COUNT_SW_DUMMY
local CALLCHAIN = 32 -- PERF_SAMPLE_CALLCHAIN
local SHOWN = 40 -- fields printed for one record: a Lua call takes about 200 values
local WIDTH = 100

local layouts = core.layouts()

-- Field kinds that print as one value, and fields that every line begins with.
local kinds = { u16 = true, u32 = true, s32 = true, u64 = true, string = true }
local in_line = { time = true, pid = true, tid = true, cpu = true, comm = true, identifier = true, id = true,
                  stream_id = true }
-- Fields that a first script rarely needs.
local left_out = { maj = true, min = true, ino = true, ino_generation = true, mmap_data = true, fork_exec = true,
                   proc_map_parse_timeout = true, build_id_form = true, stack_size = true }
local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true }

-- Record types that belong to one event; the other side-band records describe tasks and their memory.
local own_only = { read = true, throttle = true, aux = true, itrace_start = true, aux_output_hw_id = true,
                   callchain_deferred = true }

local reserved = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch("%a+") do reserved[word] = true end

-- ---- Lua source ----

-- A string as an ASCII Lua literal.
local function literal(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', function(c) return ("\\%03d"):format(c:byte()) end) .. '"'
end

local function index_expression(object, name)
  if name:find("^[%a_][%w_]*$") and not reserved[name] then return object .. "." .. name end
  return ("%s[%s]"):format(object, literal(name))
end

-- ---- a callback: show(r, "what", "name", value, ...) ----

-- { { name, value, comment }, ... } -> the source of a call of show, with the comments in one column.
local function call_lines(what, values, indent)
  local flat, commented, widest = {}, false, 0
  for i, value in ipairs(values) do
    flat[i] = ("%s, %s"):format(literal(value[1]), value[2])
    commented = commented or value[3]
    widest = math.max(widest, #flat[i])
  end
  local head = ("%sshow(r, %s"):format(indent, what)
  local whole = #flat == 0 and head .. ")" or head .. ", " .. table.concat(flat, ", ") .. ")"
  if not commented and #whole <= WIDTH then return whole .. "\n" end
  local lines = { head .. "," }
  for i, text in ipairs(flat) do
    local line = ("%s  %s%s"):format(indent, text, i < #flat and "," or ")")
    local comment = values[i][3]
    lines[#lines + 1] = comment and line .. (" "):rep(widest + 1 - #text) .. "-- " .. comment or line
  end
  return table.concat(lines, "\n") .. "\n"
end

local function payload_values(event)
  local list, values = record_text.payload(event.format.format), {}
  for i, field in ipairs(list) do
    if i > SHOWN then break end
    values[i] = { field.name, index_expression("args", field.name), escape(field.type):sub(1, 60) }
  end
  return values, #list - #values
end

local function field_value(name)
  return { name, addresses[name] and ("hex(r.%s)"):format(name) or "r." .. name }
end

-- The values printed for a record type: those of its layout rows, with `bits` only those of this sample_type.
local function row_values(rows, bits)
  local values = {}
  for _, row in ipairs(rows) do
    if kinds[row.kind] and not in_line[row.name] and not left_out[row.name] and (not bits or row.bit & bits ~= 0) then
      values[#values + 1] = field_value(row.name)
    end
  end
  return values
end

local function flag_values(values, number)
  for _, flag in ipairs(layouts.miscs) do
    if flag.types >> number & 1 == 1 and not left_out[flag.name] then
      values[#values + 1] = { flag.name, "r." .. flag.name }
    end
  end
  return values
end

local function sample_values(attr)
  local values = row_values(layouts.records[9].rows, attr.sample_type)
  if attr.sample_type & CALLCHAIN ~= 0 then
    values[#values + 1] = { "frames", "r.callchain and #r.callchain.raw" }
  end
  return values
end

-- ---- a declaration ----

-- The event's name if a session can parse it, else its type and config.
local function event_fields(event)
  local name = event.name
  if grammar.parse(name) then return literal(name) end
  return ("name = %s, type = %d, config = 0x%x"):format(literal(name), event.attr.type, event.attr.config)
end

local function options_of(event)
  local attr, out = event.attr, ""
  if attr.freq then
    out = (", freq = %d"):format(attr.sample_freq)
  elseif attr.sample_period > 1 or attr.sample_period == 1 and attr.type ~= TRACEPOINT then
    out = (", period = %d"):format(attr.sample_period)
  end
  if attr.sample_type & CALLCHAIN ~= 0 then out = out .. ", callchain = true" end
  return out
end

local function sample_lines(event, out)
  if not event.format then
    out[#out + 1] = "  sample = function(r)\n"
    out[#out + 1] = call_lines("r.event.name", sample_values(event.attr), "    ")
  else
    local values, more = payload_values(event)
    out[#out + 1] = #values > 0 and "  sample = function(r, args)\n" or "  sample = function(r)\n"
    if more > 0 then out[#out + 1] = ("    -- and %d more fields: pairs(args) returns all\n"):format(more) end
    out[#out + 1] = call_lines("r.event.name", values, "    ")
  end
  out[#out + 1] = "  end,\n"
end

-- The callbacks for these record types -> callback name -> layout number, and the names, sorted.
local function callbacks_of(types, wanted)
  local by_name, names = {}, {}
  for number, layout in ipairs(layouts.records) do
    local name = layout.callback
    if types[number] and name ~= "sample" and wanted(name) then
      if not by_name[name] then names[#names + 1] = name end
      by_name[name] = number -- mmap and mmap2 share a callback: mmap2 comes later and has more fields
    end
  end
  table.sort(names)
  return by_name, names
end

local function side_band_lines(types, wanted, out)
  local by_name, names = callbacks_of(types, wanted)
  for _, name in ipairs(names) do
    local number = by_name[name]
    out[#out + 1] = ("  %s = function(r)\n"):format(name)
    out[#out + 1] = call_lines("r.type", flag_values(row_values(layouts.records[number].rows), number), "    ")
    out[#out + 1] = "  end,\n"
  end
  return #names
end

local function declaration(event, seen)
  local counts, out = seen.events[event], {}
  local n = counts and counts.samples or 0
  out[1] = ("\n-- %d sample%s\n"):format(n, n == 1 and "" or "s")
  out[2] = ("perfev.event { %s%s,\n"):format(event_fields(event), options_of(event))
  sample_lines(event, out)
  side_band_lines(counts and counts.types or {}, function(name) return own_only[name] end, out)
  out[#out + 1] = "}\n"
  return table.concat(out)
end

local function has_samples(event, seen)
  local counts = seen.events[event]
  return counts and counts.samples > 0
end

-- perf opens a dummy event to record side-band records; side_band() declares those.
local function is_carrier(event, seen)
  return event.attr.type == SOFTWARE and event.attr.config == DUMMY and not has_samples(event, seen)
end

local function declarations(rec, seen)
  local out, declared = {}, {}
  for _, event in ipairs(rec.events) do
    if not declared[event.name] and not is_carrier(event, seen) then
      declared[event.name] = true
      out[#out + 1] = declaration(event, seen)
    end
  end
  return out
end

local function side_band(types)
  local numbers, out = {}, { "\n-- side-band records: tasks and their memory\nperfev.event {\n" }
  for number, layout in ipairs(layouts.records) do numbers[number] = types[layout.name] end
  if side_band_lines(numbers, function(name) return not own_only[name] end, out) == 0 then return "" end
  return table.concat(out) .. "}\n"
end

-- ---- the script ----

local prologue = [[

local perfev = require "perfev"
local escape = perfev.escape
]]

local hex = [[

local function hex(n) return n and ("0x%x"):format(n) end
]]

local show = [[

local function text(value)
  return type(value) == "table" and table.concat(value, " ") or escape(tostring(value))
end

-- Prints a line: time, CPU and task; the event; its values by name.
local function show(r, what, ...)
  local time, values = r.time or 0, {}
  for i = 1, select("#", ...), 2 do
    local name, value = select(i, ...)
    values[#values + 1] = name .. "=" .. text(value)
  end
  print(("%d.%09d [%03d] %-16s %7d  %s: %s"):format(time // 1000000000, time % 1000000000, r.cpu or 0,
    escape(r.comm or "?"), r.tid or 0, escape(what), table.concat(values, " ")))
end
]]

-- The recording's name in comments and on a command line: FILE if its name needs quotes.
local function names_of(path)
  local name = path == "-" and "standard input" or path:match("([^/]+)/*$") or path
  local plain = name:find("^%w[%w_.-]*$") and #name <= 60
  return plain and name or path == "-" and name or "a recording", plain and name or "FILE"
end

--- The script's text.
function M.script(rec, path)
  local seen = report.gather(rec)
  local body = table.concat(declarations(rec, seen)) .. side_band(rec:totals().types)
  local shown, file = names_of(path)
  return table.concat {
    ("-- skeleton: prints each record of %s; change it to your needs\n"):format(shown),
    ("-- perfl SCRIPT.lua -i %s, or live: perfl SCRIPT.lua -- COMMAND\n"):format(file),
    prologue, body:find("hex(r.", 1, true) and hex or "", body:find("show(r", 1, true) and show or "", body,
  }
end

--- The verb.
-- @tparam {string,...} words  of the command line after "skeleton"
-- @treturn integer  exit status: 0, 1 if the recording is damaged or cannot be read, 2 for an invalid command line
function M.main(words)
  local parser = open_recording.new_parser("skeleton", "Print a script to start from. It declares each event of a "
    .. "recording, with the payload's fields by name, and has a callback for each record type.")
  parser:epilog("Example: perfl skeleton perf.data > my.lua; perfl my.lua -i perf.data")
  local opts, status = open_recording.parse(parser, "skeleton", words)
  if not opts then return status end
  local rec <close> = open_recording.open("skeleton", opts.file)
  if not rec then return open_recording.FAILED end
  io.write(M.script(rec, opts.file))
  open_recording.say_end(rec)
  return open_recording.status(rec)
end

return M
