--- perfl --pack: writes the aggregators and profiles of a run as frames, after each interval and at the end.
--
-- A frame has the values since the last frame of the same name, so the merge of all frames of a run has all values.
-- perfl merge runs the script again, with the arguments of the header, to print them.

local args = require "perfev.tool.args"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local exported = require "perfev.aggregate.exported"
local json = require "perfev.base.json"
local lazy = require "perfev.base.lazy_module"
local message = require "perfl.message"
local native = require "perfl.core"
local output = require "perfl.output"
local aggregator = lazy "perfev.aggregate.aggregator"
local frames = lazy "perfev.aggregate.frames"
local session = require "perfev.live.session"

local M = {}

local EPIPE = 32
local REALTIME = 0

-- The run: file, shown (its name), armor, labels; from begin() on: session, entries, common (the header's keys that
-- all frames have), turn (number of intervals that have ended).
local run

-- ---- the output ----

--- Opens the output of --pack; from then on what the script prints is discarded if the frames go to standard output.
-- @tparam table opts  perfl's options
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string   the message
-- @treturn[2] boolean  true: the command line is invalid
function M.open(opts)
  local can_write, missing = pcall(frames.sha256, "") -- loads the module, before a simulated kernel hides its file
  if not can_write then return nil, "--pack: " .. missing end
  local file, why
  if opts.pack == "-" then
    file, why = native.take_stdout(opts.armor and "text" or "frames")
    if not file then return nil, why, true end
    if not opts.output then
      io.stdout = assert(io.open("/dev/null", "w")) -- luacheck: ignore 122
      io.output(io.stdout)
    end
  else
    file, why = output.open_file(opts.pack, "frames", "--pack")
    if not file then return nil, why end
  end
  session.prints_lines = true
  run = { file = file, shown = opts.pack == "-" and "standard output" or ("'%s'"):format(escape(opts.pack)),
          armor = opts.armor, labels = opts.labels or {} }
  return true
end

-- Writes the text and flushes; the first failure ends the session.
local function write(text)
  if run.errno then return end
  run.file:write(text)
  local ok, why, errno = native.flush(run.file)
  if ok then return end
  run.errno, run.why = errno, why
  if run.session then run.session:stop() end
end

--- The failure of the output.
-- @treturn[1] nil      it has not failed
-- @treturn[2] integer  the exit status
-- @treturn[2] ?string  the message; nil: the reader has closed the pipe
function M.failure()
  if not (run and run.errno) then return nil end
  if run.errno == EPIPE then return 141 end
  return 1, ("cannot write the frames to %s: %s"):format(run.shown, run.why)
end

-- ---- headers ----

local function first_line(path)
  local line = (core.slurp(path) or ""):match "^[^\n]*"
  return line ~= "" and line or nil
end

local function random_digits()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return (file:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- The time of the recording's first sample and of its last one in ns since 1970, or nil.
local function recorded_times(rec)
  local times, attr, clock = rec.header.sample_time, rec.events[1] and rec.events[1].attr, rec.header.clock_data
  if not (times and attr and attr.use_clockid) then return nil end
  local offset = attr.clockid == REALTIME and 0
    or type(clock) == "table" and clock.clockid == attr.clockid and clock.wall - clock.clock
  if offset then return times.first + offset, times.last + offset end
end

-- Completes the header's keys that all frames have; called when the session is open.
local function take_source(s)
  local common, replay = run.common, s.replay
  run.began = core.clock(REALTIME)
  if replay then
    common.host, common.arch = replay.rec.header.hostname, replay.rec.header.arch
    run.began, run.ends = recorded_times(replay.rec)
    if not run.began then
      run.began = core.clock(REALTIME)
      run.note = "the recording does not have the time of day: the frames have the time at which it was read"
    end
  else
    common.host, common.machine = first_line "/proc/sys/kernel/hostname", first_line "/etc/machine-id"
    common.arch = core.machine
  end
  common.host = common.host or "localhost"
  for _, label in ipairs(run.labels) do common[label[1]] = label[2] end
end

-- The time of day at which the current interval ends.
local function now()
  local is_recording = run.session.replay or run.session.opts.input
  if not is_recording then return core.clock(REALTIME) end
  return run.is_done and run.ends or run.began + (run.turn + 1) * (run.every or 0)
end

-- The counts of the spans that feed an aggregator, as text: "unstarted:2,waiting:1;waiting:3"
local function span_text(source)
  local texts = {}
  for i, counts in ipairs(aggregator.span_counts(source)) do
    local words = {}
    for name, n in pairs(counts) do
      if n > 0 then words[#words + 1] = ("%s:%d"):format(name, n) end
    end
    table.sort(words)
    texts[i] = table.concat(words, ",")
  end
  local text = table.concat(texts, ";")
  return text:find "%d" and text or nil
end

-- ---- frames ----

local function is_empty(value)
  if #value > 0 then return false end
  return type(value) ~= "userdata" or value:other() == nil and next(value:uncounted()) == nil and value:refused() == 0
end

local losses = { "lost", "late" } -- of the session

-- Writes the values of an entry since its last frame.
local function write_frame(entry, value, is_last)
  local header, totals, time = {}, run.session:totals(), now()
  for key, text in pairs(run.common) do header[key] = text end
  header.name, header.kind, header.seq, header.turn = entry.name, entry.kind, entry.seq, run.every and run.turn
  header.begin, header["end"] = entry.time or run.began, time
  for _, name in ipairs(losses) do
    local n = totals[name] - (entry[name] or 0)
    header[name], entry[name] = n > 0 and n or nil, totals[name]
  end
  if type(value) == "userdata" and value:refused() > 0 then header.refused = value:refused() end
  if is_last then
    header.last = 1
    header.spans = type(entry.source) == "userdata" and span_text(entry.source) or nil
  end
  entry.seq, entry.time = entry.seq + 1, time
  local parts, why = frames.encode(header, value, { armor = run.armor })
  if not parts then error(("cannot pack '%s': %s"):format(entry.name, why), 0) end
  for _, part in ipairs(parts) do write(part) end
end

local function end_interval()
  for _, entry in ipairs(run.entries) do
    local value = entry.follower:delta()
    if not is_empty(value) then write_frame(entry, value, false) end
  end
  run.turn = run.turn + 1
end

-- Takes the last values while their names can still be looked up; finish() writes them.
local function take_rest()
  run.is_done = true
  for _, entry in ipairs(run.entries) do entry.rest = entry.follower:delta() end
end

local MOST_ARGS = 2048 -- bytes; a header takes 4096 in all

-- Sets the words of the script's arguments as JSON, with their digest.
local function set_arguments(common, script)
  local text = json.encode(script.declared and args.words(script.declared, script.values) or script.rest)
  common.args, common.args_sha256 = #text <= MOST_ARGS and text or nil, frames.sha256(text)
end

-- The value of the script's own option --interval, in ns, or nil; true if it has such an option.
local function own_interval(script)
  for _, option in ipairs(script.declared or {}) do
    if option.name == "interval" and option.kind == "duration" then return script.values.interval, true end
  end
end

--- Starts to follow the aggregators of a script, when its session starts.
-- @tparam session s
-- @tparam table script  `name`, `text`; `declared`, `values` of its options; `rest`: its words if it declares none
-- @tparam ?integer interval  ns between two frames, of perfl's option
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.begin(s, script, interval)
  local entries, every, is_own = exported.list(), own_interval(script)
  if not is_own then every = interval end
  if #entries == 0 then
    return nil, ("--pack: %s has no aggregator or profile of its own\n  only values that are added up can be merged: "
      .. "lines that a script prints, and Lua tables, cannot\n  try: a script that counts (doc/merge.md lists them)")
      :format(escape(script.name))
  end
  for _, entry in ipairs(entries) do
    if type(entry.source) == "userdata" and entry.source:spec().addresses then
      return nil, ("--pack: %s needs the addresses of '%s', which are those of one machine's files\n"
        .. "  try: a recording of each machine (perfl record)"):format(escape(script.name), escape(entry.name))
    end
  end
  run.session, run.entries, run.turn, run.every = s, entries, 0, every
  run.common = { start = random_digits(), version = core.version, script = script.name,
                 script_sha256 = frames.sha256(script.text),
                 every = is_own and every or nil }
  set_arguments(run.common, script)
  for _, entry in ipairs(entries) do
    entry.follower, entry.seq = exported.follow(entry), 0
  end
  s:begin(function() take_source(s) end)
  if every and every > 0 then s:every(every .. "ns", end_interval) end
  s:done(take_rest)
  return true
end

--- Writes the last frames, after the script's own end.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  the message
function M.finish()
  if not run.entries then return nil, "--pack: the script did not run its session: no frame was written" end
  if not run.began then return nil end -- the session failed to open
  if run.note then message.say(run.note) end
  run.is_done = true
  for _, entry in ipairs(run.entries) do
    local late = entry.follower:delta() -- added after the session's end
    local rest = entry.rest
    if rest and not is_empty(late) then rest:merge(late) end
    write_frame(entry, rest or late, true)
  end
  return true
end

return M
