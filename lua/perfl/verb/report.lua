--- perfl report: summarises a recording on one screen: its command and machine, events, records by type, samples by
-- command name, losses and damage.

local escape = require "perfev.base.escape"
local record_text = require "perfl.record_text"
local json = require "perfev.base.json"
local native = require "perfl.core"
local open_recording = require "perfl.verb.open_recording"
local message = require "perfl.message"
local reader = require "perfev.perfdata.reader"

local M = {}

local SOFTWARE, DUMMY = 1, 9 -- PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
local WIDTH, TOP, NOTES = 80, 10, 10
local grouped = message.grouped

-- linux/time.h
local clocks = { [0] = "realtime", [1] = "monotonic", [4] = "monotonic_raw", [7] = "boottime", [11] = "tai" }

-- ---- counting ----

--- Counts the records of a recording.
-- @treturn table  `samples`, `events` (event -> { samples =, periods =, types = (type's number -> records) }), `comms`
--   (comm -> samples), `synthesised` (type -> records), `first` and `last` (ns; nil without times)
function M.gather(rec)
  local seen = rec:_count(open_recording.may_continue)
  local events, synthesised = {}, {}
  for i, event in ipairs(rec.events) do events[event] = seen.events[i] end
  for number, n in pairs(seen.synthesised) do
    local name = reader.kernel_types[number] or "unknown"
    synthesised[name] = (synthesised[name] or 0) + n
  end
  seen.events, seen.synthesised = events, synthesised
  return seen
end

-- ---- the summary as data, for -j ----

local function sorted_by_count(counts)
  local list = {}
  for name, n in pairs(counts) do list[#list + 1] = { name, n } end
  table.sort(list, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return tostring(a[1]) < tostring(b[1])
  end)
  return list
end

--- How an event was sampled, in words.
function M.sampled(attr)
  if attr.type == SOFTWARE and attr.config == DUMMY then return "not" end
  if attr.freq then return ("%d Hz"):format(attr.sample_freq) end
  if attr.sample_period == 0 then return "not" end
  return attr.sample_period == 1 and "each" or "every " .. record_text.unsigned(attr.sample_period)
end

-- A u64 as a non-negative number: a float from 2^63 on.
local function exact(n) return n >= 0 and n or n + 2.0 ^ 64 end

local function events_of(rec, seen)
  local list = {}
  for i, event in ipairs(rec.events) do
    local attr, counts = event.attr, seen.events[event] or { samples = 0, periods = 0 }
    list[i] = {
      name = event.name, type = attr.type, config = attr.config,
      samples = counts.samples, periods = exact(counts.periods),
      freq = attr.freq and attr.sample_freq or nil, period = not attr.freq and attr.sample_period or nil,
      ids = #event.ids, sampled = M.sampled(attr),
    }
  end
  return list
end

local function comms_of(seen)
  local list = {}
  for i, entry in ipairs(sorted_by_count(seen.comms)) do
    list[i] = { comm = entry[1], samples = entry[2], share = entry[2] / seen.samples }
  end
  return list
end

local function clock_of(rec)
  local first = rec.events[1]
  if not first or not first.attr.use_clockid then return "perf" end
  return clocks[first.attr.clockid] or tostring(first.attr.clockid)
end

-- The wall time of the first sample in seconds since 1970; nil without the CLOCK_DATA section.
local function began(rec, seen)
  local data = rec.header.clock_data
  if type(data) ~= "table" or not seen.first then return nil end
  return (data.wall + (seen.first - data.clock)) // 1000000000
end

-- The file's modification time; nil for a pipe. A file of size 0 is a FIFO: opening it would block.
local function written(path, facts)
  if path == "-" or facts.size == 0 then return nil end
  local file <close>, _, _, time = native.open(path, "r")
  return file and time or nil
end

local function features_of(rec)
  local list, header = {}, {}
  for name, section in pairs(rec.sections) do list[#list + 1] = { tostring(name), section.id } end
  table.sort(list, function(a, b) return a[2] < b[2] end)
  for i, entry in ipairs(list) do list[i] = entry[1] end
  for _, name in ipairs { "hostname", "osrelease", "version", "arch", "nrcpus", "cpudesc", "cpuid", "total_mem" } do
    header[name] = rec.header[name]
  end
  return list, header
end

--- The summary.
-- @treturn table  the object of -j; see doc/recordings.md
function M.look(rec, path)
  local seen = M.gather(rec)
  local totals, facts = rec:totals(), rec.facts
  local features, header = features_of(rec)
  local total = {
    file = path, kind = facts.pipe and "pipe" or "file", endian = facts.big and "big" or "little",
    file_version = facts.version, size = facts.size > 0 and facts.size or totals.bytes,
    attr_size = facts.attr_size > 0 and facts.attr_size or nil, features = features, arch = header.arch,
    header = json.object(header), command = rec.header.cmdline, clock = clock_of(rec),
    written = written(path, facts), began = began(rec, seen), first = seen.first, last = seen.last,
    duration = seen.first and seen.last - seen.first, events = events_of(rec, seen),
    records = json.object(totals.types),
    total = totals.records, synthesised = json.object(seen.synthesised), samples = seen.samples, period_sum = 0,
    lost = totals.lost, lost_samples = totals.lost_samples, throttled = totals.types.throttle or 0, late = totals.late,
    malformed = totals.malformed, unknown_id = totals.unknown_id, ambiguous = totals.ambiguous,
    compressed = totals.compressed, inflated = totals.inflated, auxtrace = totals.auxtrace, rounds = totals.rounds,
    comms = comms_of(seen), notes = rec.warnings, more_notes = rec.dropped_warnings, error = rec.error,
  }
  for _, event in ipairs(total.events) do total.period_sum = total.period_sum + event.periods end
  return total
end

-- ---- the summary as text ----

-- Prints text folded to WIDTH columns; further lines begin below the first word.
local function print_folded(lead, text)
  lead = lead == "" and "" or lead .. " "
  local line, empty = lead, true
  for word in escape(text):gmatch("%S+") do
    while #line + (empty and 0 or 1) + #word > WIDTH do
      if empty then -- a word longer than the line, usually a path
        local room = WIDTH - #line
        io.write(line, word:sub(1, room), "\n")
        word = word:sub(room + 1)
      else
        io.write(line, "\n")
      end
      line, empty = (" "):rep(#lead), true
    end
    line, empty = line .. (empty and "" or " ") .. word, false
  end
  io.write(line, "\n")
end

-- Pads or cuts a name to `width` columns; a cut name ends in "...". -j prints the whole name.
local function cut(text, width)
  text = escape(text)
  local length = utf8.len(text)
  if length <= width then return text .. (" "):rep(width - length) end
  return text:sub(1, utf8.offset(text, width - 2) - 1) .. "..."
end

local function said(name, text)
  if text and text ~= "" then print_folded(("%-8s"):format(name), text) end
end

-- The arguments that are neither nil nor empty, separated by commas.
local function joined(...)
  local words = {}
  for i = 1, select("#", ...) do
    local word = select(i, ...)
    if word and word ~= "" then words[#words + 1] = word end
  end
  return table.concat(words, ", ")
end

local function cpus_of(header)
  local nr = header.nrcpus
  if not nr then return nil end
  return ("%d CPU%s%s"):format(nr.online, nr.online == 1 and "" or "s",
    nr.available ~= nr.online and (" of %d"):format(nr.available) or "")
end

local function when(total)
  local time = total.began or total.written
  if not time then return nil end
  return os.date("%Y-%m-%d %H:%M:%S %z", time) .. (total.began and "" or ", when the file was written")
end

local function print_head(total)
  local header = total.header
  said("file", joined(("%s, %s"):format(open_recording.shown(total.file), message.size_text(total.size)),
    total.kind == "pipe" and "in the form for a pipe", total.endian .. "-endian",
    total.compressed > 0 and ("%s compressed from %s"):format(message.size_text(total.compressed),
      message.size_text(total.inflated))))
  said("host", joined(header.hostname, header.osrelease and "Linux " .. header.osrelease, header.arch, cpus_of(header),
    header.cpudesc))
  local version = header.version
  said("by", joined(version and (version:find("^perf") and "" or "perf ") .. version))
  said("command", total.command and table.concat(total.command, " "))
  said("when", when(total))
  if total.duration then
    said("span", ("%.6f s, %s clock at %.6f to %.6f"):format(total.duration / 1e9, total.clock, total.first / 1e9,
      total.last / 1e9))
  end
end

-- A sum of u64, which is a float if it does not fit an integer.
local function sum_text(n)
  local text = math.type(n) == "integer" and grouped(n)
  return text and #text <= 17 and text or ("%.6e"):format(n)
end

local function print_events(events)
  io.write(("\n%-34s %-14s %12s %17s\n"):format("EVENT", "SAMPLED", "SAMPLES", "SUM OF PERIODS"))
  for _, event in ipairs(events) do
    io.write(("%s %-14s %12s %17s\n"):format(cut(event.name, 34), event.sampled, grouped(event.samples),
      sum_text(event.periods)))
  end
end

local function print_records(total)
  io.write(("\n%-34s %12s %14s\n"):format("RECORDS BY TYPE", "RECORDS", "SYNTHESISED"))
  for _, entry in ipairs(sorted_by_count(total.records)) do
    local made = total.synthesised[entry[1]]
    local name = math.type(entry[1]) and ("type %d"):format(entry[1]) or entry[1]
    io.write((("%s %12s %14s"):format(cut(name, 34), grouped(entry[2]), made and grouped(made) or "")
      :gsub("%s+$", "")), "\n")
  end
  io.write(("%-34s %12s\n"):format("total", grouped(total.total)))
end

local function print_comms(total)
  if #total.comms == 0 then return end
  io.write(("\n%-34s %12s %8s\n"):format("COMM", "SAMPLES", "SHARE"))
  local shown = #total.comms > TOP + 1 and TOP or #total.comms
  local rest = total.samples
  for i = 1, shown do
    local entry = total.comms[i]
    rest = rest - entry.samples
    io.write(("%s %12s %7.1f%%\n"):format(cut(entry.comm, 34), grouped(entry.samples), 100 * entry.share))
  end
  if rest > 0 then
    io.write(("%-34s %12s %7.1f%%\n"):format(("(%d others)"):format(#total.comms - shown), grouped(rest),
      100 * rest / total.samples))
  end
end

-- Prints the counters that should be zero; lost and throttled also when they are zero.
local function print_losses(total)
  local n = total.throttled
  local words = { ("%s record%s lost"):format(grouped(total.lost), total.lost == 1 and "" or "s"),
                  n == 0 and "never throttled" or n == 1 and "throttled once"
                    or ("throttled %s times"):format(grouped(n)) }
  for _, entry in ipairs { { "lost_samples", "samples lost by the hardware" }, { "late", "out of order" },
                           { "malformed", "malformed" }, { "unknown_id", "of unknown events" },
                           { "ambiguous", "of several events at once" } } do
    n = total[entry[1]]
    if n > 0 then words[#words + 1] = ("%s %s"):format(grouped(n), entry[2]) end
  end
  io.write("\n")
  print_folded("", table.concat(words, ", "))
end

local function print_notes(total)
  for i, note in ipairs(total.notes) do
    if i > NOTES then break end
    print_folded("note:   ", note)
  end
  local more = #total.notes - NOTES + total.more_notes
  if more > 0 then io.write(("note:    %d more of these; -j has the first %d\n"):format(more, #total.notes)) end
  if total.error then print_folded("damage: ", total.error) end
end

local function print_screen(total)
  print_head(total)
  print_events(total.events)
  print_records(total)
  print_comms(total)
  print_losses(total)
  print_notes(total)
end

--- The verb.
-- @tparam {string,...} words  of the command line after "report"
-- @treturn integer  exit status: 0, 1 if the recording is damaged or cannot be read, 2 for an invalid command line
function M.main(words)
  local parser = open_recording.new_parser("report", "Summarise a recording: its command, events, records by type, "
    .. "samples by command name, losses and damage.")
  parser:flag("-j --json"):description("print a JSON object")
  parser:epilog("Exit status: 1 if the recording is damaged; the readable part is still reported.")
  local opts, status = open_recording.parse(parser, "report", words)
  if not opts then return status end
  local rec <close> = open_recording.open("report", opts.file)
  if not rec then return open_recording.FAILED end
  local total = M.look(rec, opts.file)
  if opts.json then io.write(json.encode(total), "\n") else print_screen(total) end
  open_recording.say_interrupted()
  return open_recording.status(rec)
end

return M
