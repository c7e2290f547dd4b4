--- Follows a stream of frames into a sink: checks, duplicates, gaps, clocks, acknowledgements.
--
-- A source has fetch(n, ms) -> list of messages ({ subject =, data =, time = }), ack(message), flush() and is_at_end().
-- A sink is perfl.collect.hour_rows or perfl.collect.push.

local escape = require "perfev.base.escape"
local frames = require("perfev.base.lazy_module") "perfev.aggregate.frames"
local message = require "perfl.message"
local seen_frames = require "perfl.collect.seen_frames"

local M = {}
local Follow = {}
Follow.__index = Follow

local FETCH = 256
local IDLE_MS, BUSY_MS = 250, 20
local MOST_LINES = 100  -- about gaps, damage and clocks, of each kind
local SKEW_NS = 1000000000
local LATE_FRAMES = 8   -- in a row that arrive late before a clock is thought to be behind
local FORGET_S = 26 * 3600 -- without a frame; a stream keeps less
local MOST_SERIES = 256 -- starts and names of a host
local MOST_BYTES = 64 << 20 -- memory of a frame's values
local AGE_NS, AHEAD_NS = 48 * 3600 * 1000000000, 3600 * 1000000000 -- of a time of a frame that is believed

--- @tparam table source
-- @tparam table sink
-- @tparam[opt] table opts  `once` (end at the end of the stream), `stopped` (function: true ends it), `names_of`
--   (function: subject -> job, host)
function M.new(source, sink, opts)
  opts = opts or {}
  return setmetatable({
    source = source, sink = sink, once = opts.once, stopped = opts.stopped or function() return false end,
    names_of = opts.names_of, seen = {}, hosts = {}, lines = {}, pending = {},
    frames = 0, duplicates = 0, damaged = 0, nr_hosts = 0, gaps = 0, missing_before = 0,
  }, Follow)
end

local function say(self, kind, text)
  self.lines[kind] = (self.lines[kind] or 0) + 1
  if self.lines[kind] <= MOST_LINES then message.say("collect: " .. text) end
  if self.lines[kind] == MOST_LINES then message.say(("collect: more about %s is only counted"):format(kind)) end
end

-- ---- checks ----

local function shown_host(header) return ("%s (%s)"):format(escape(header.host), escape(header.name)) end

local function check_names(self, header, subject)
  if not self.names_of then return true end
  local job, host = self.names_of(subject)
  if job == (header.job or "") and host == header.host then return true end
  return nil, ("it is of job '%s' and host '%s'"):format(escape(tostring(header.job)), escape(header.host))
end

local function forget(self, key)
  if not self.seen[key] then return end
  self.missing_before = self.missing_before + self.seen[key]:missing()
  self.seen[key] = nil
end

-- Forgets starts of agents that have long ended.
local function sweep(self)
  local now = os.time()
  if now - (self.swept or now) < 3600 then
    self.swept = self.swept or now
    return
  end
  self.swept = now
  for key, seen in pairs(self.seen) do
    if now - seen.used > FORGET_S then forget(self, key) end
  end
end

local function host_of(self, name)
  local host = self.hosts[name]
  if not host then
    host = { late = 0, series = {} }
    self.hosts[name], self.nr_hosts = host, self.nr_hosts + 1
  end
  return host
end

-- The numbers that were seen of this host, start and name.
local function seen_of(self, header)
  local key = ("%s %s %s %s"):format(header.job, header.host, header.start, header.name)
  local seen = self.seen[key]
  if not seen then
    sweep(self)
    local earlier = self.sink.last_seen and self.sink:last_seen(header)
    seen = earlier and earlier:copy() or seen_frames.new()
    self.seen[key] = seen
    local series = host_of(self, header.host).series
    series[#series + 1] = key
    if #series > MOST_SERIES then forget(self, table.remove(series, 1)) end
  end
  seen.used = os.time()
  return seen, key
end

local function report_gap(self, header, first)
  local last = header.seq - 1
  self.gaps = self.gaps + 1
  say(self, "gaps", ("%s: %s missing"):format(shown_host(header), first == last and ("frame %d is"):format(first)
    or ("frames %d to %d are"):format(first, last)))
end

-- A frame cannot end later than the server stored it. One that was stored late may have waited for the server, but not
-- all can.
local function check_clock(self, header, time)
  local host = host_of(self, header.host)
  if not time or not header["end"] or host.is_skewed then return end
  local ahead = header["end"] - time
  host.late = ahead < -SKEW_NS and host.late + 1 or 0
  if ahead <= SKEW_NS and host.late < LATE_FRAMES then return end
  host.is_skewed = true
  say(self, "clocks", ("%s: its clock is %.1f s %s"):format(escape(header.host), math.abs(ahead) / 1e9,
    ahead > 0 and "ahead of the server's" or "behind the server's, or its frames arrive late"))
end

-- ---- messages ----

-- A message holds one frame or more; it is acknowledged when all of them are safe.
local function new_ack(msg, nr) return { msgs = { msg }, open = nr, keys = {} } end

local function ack_one(self, ack)
  ack.open = ack.open - 1
  if ack.open > 0 then return end
  for _, key in ipairs(ack.keys) do self.pending[key] = nil end
  for _, msg in ipairs(ack.msgs) do self.source:ack(msg) end
end

-- The time by which a frame is filed: its own, unless the host's clock is far from the server's.
local function filing_time(header, time)
  local begin = header.begin or time or 0
  if time and (begin < time - AGE_NS or begin > time + AHEAD_NS) then return time end
  return begin
end

local function damage(self, msg, why)
  self.damaged = self.damaged + 1
  say(self, "damage", ("a frame of %s is left out: %s"):format(escape(msg.subject), why))
end

-- A duplicate is acknowledged when its first copy is safe.
local function take_duplicate(self, key, msg, ack)
  self.duplicates = self.duplicates + 1
  local first = self.pending[key]
  if first and first ~= ack then
    local last = #first.msgs
    local is_same = msg.seq and first.msgs[last].seq == msg.seq -- delivered again, not sent again
    first.msgs[is_same and last or last + 1] = msg
    ack.msgs = {}
  end
  ack_one(self, ack)
end

-- -> true | nil, message: the sink failed
local function take_frame(self, frame, msg, ack)
  local header = frame.header
  local ok, why = check_names(self, header, msg.subject)
  if not ok then
    damage(self, msg, why)
    ack_one(self, ack)
    return true
  end
  local seen, key = seen_of(self, header)
  local part, nr = seen_frames.part(header)
  key = ("%s %d %d"):format(key, header.seq, part)
  check_clock(self, header, msg.time)
  if seen:has_part(header.seq, part) then
    take_duplicate(self, key, msg, ack)
    return true
  end
  local taken
  self.pending[key] = ack
  ack.keys[#ack.keys + 1] = key
  header.filed = filing_time(header, msg.time)
  taken, why = self.sink:take(header, function() return frame:value { max_bytes = MOST_BYTES } end, frame.bytes, ack)
  if taken == nil then return nil, why end
  local _, gap = seen:add(header.seq, part, nr)
  if gap then report_gap(self, header, gap) end
  if taken then self.frames = self.frames + 1 else self.duplicates = self.duplicates + 1 end
  return true
end

-- The frames of a message; damage is reported.
local function frames_of(self, msg)
  local list = {}
  for frame, why in frames(msg.data) do
    if not frame then
      damage(self, msg, escape(why))
      break
    end
    list[#list + 1] = frame
  end
  return list
end

local function take_message(self, msg)
  local list = frames_of(self, msg)
  local ack = new_ack(msg, math.max(1, #list))
  if #list == 0 then ack_one(self, ack) end
  for _, frame in ipairs(list) do
    local ok, why = take_frame(self, frame, msg, ack)
    if not ok then return nil, why end
  end
  return true
end

local function turn_sink(self, ms)
  local acks, why = self.sink:turn(ms)
  if not acks then return nil, why end
  for _, ack in ipairs(acks) do ack_one(self, ack) end
  return true
end

local function take_messages(self)
  local room = math.min(FETCH, self.sink:room())
  if room == 0 then return 0 end
  local list, why = self.source:fetch(room, self.sink:is_idle() and IDLE_MS or BUSY_MS)
  if not list then return nil, why end
  for _, msg in ipairs(list) do
    local ok, failure = take_message(self, msg)
    if not ok then return nil, failure end
    if self.stopped() then break end
  end
  return #list
end

--- Follows the stream until it is stopped, fails, or with `once` has reached the end.
-- @treturn[1] boolean  true
-- @treturn[2] nil
-- @treturn[2] string   why it ended early
function Follow:run()
  while not self.stopped() do
    local nr, why = take_messages(self)
    if not nr then return nil, why end
    local ok, failure = turn_sink(self, nr == 0 and IDLE_MS or 0)
    if not ok then return nil, failure end
    if nr == 0 and self.once and self.sink:is_idle() and self.source:is_at_end() then break end
  end
  local ok, why = turn_sink(self, 0)
  if ok then self.source:flush() end
  return ok, why
end

--- The number of frames that are missing between others.
function Follow:missing()
  local nr = self.missing_before
  for _, seen in pairs(self.seen) do nr = nr + seen:missing() end
  return nr
end

--- A line about the run.
function Follow:summary()
  local missing = self:missing()
  local parts = { ("%s frames of %s host%s"):format(message.grouped(self.frames), message.grouped(self.nr_hosts),
    self.nr_hosts == 1 and "" or "s"), self.sink:summary() }
  if self.duplicates > 0 then parts[#parts + 1] = message.grouped(self.duplicates) .. " duplicates dropped" end
  if missing > 0 then parts[#parts + 1] = message.grouped(missing) .. " frames missing" end
  if self.damaged > 0 then parts[#parts + 1] = message.grouped(self.damaged) .. " damaged" end
  return table.concat(parts, "; ")
end

return M
