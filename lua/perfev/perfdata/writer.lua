--- Records a session: writes the data that each part of a recording has once, and begins and ends parts.
-- C moves the records from the rings to the file (src/perfdata/writer.c, src/live/session.c). This file writes events,
-- names, formats, facts about the machine, and running tasks. Each part is a complete recording.

local core = require "perfev.core"
local explain = require "perfev.base.lazy_module" "perfev.event.explain_refusal"
local facts = require "perfev.perfdata.machine_facts"
local names = require "perfev.event.perf_names"
local native = require "perfev.base.native_module"
local opened = require "perfev.event.open_event"
local options = require "perfev.base.options"
local private = require "perfev.perfdata.perfl_section"
local reader = require "perfev.perfdata.reader"
local synthesise = require "perfev.perfdata.synthetic_records"
local tracing = require "perfev.perfdata.tracing_data"

local E = core.errno
local M = {}
local Recorder = {}
Recorder.__index = Recorder

local SOFTWARE, TRACEPOINT, CPU_CLOCK, REALTIME = 1, 2, 0, 0
local SAMPLE_IP, SAMPLE_CALLCHAIN, SAMPLE_CGROUP = 1 << 0, 1 << 5, 1 << 21 -- PERF_SAMPLE_*
local BATCH = 1 << 16 -- bytes of synthesised records to a write
local CHUNK_MIN = 1 << 16

local hints = {
  ELOOP = "the path that the link leads to", EISDIR = "a path of a file, such as %s/perf.data",
  ENXIO = "to start the reader first", ENOENT = "a directory that is there",
  EACCES = "another path, where you may write", EROFS = "another path, where you may write",
  ENOSPC = "more room, or less to record: a lower frequency, a filter, compression, switch_output",
  EDQUOT = "more room, or less to record: a lower frequency, a filter, compression, switch_output",
  EFBIG = "ulimit -f, or switch_output", EPIPE = "a reader that continues reading",
}
local full = { [E.ENOSPC] = true, [E.EDQUOT] = true, [E.EFBIG] = true, [E.EIO] = true }

--- Adds a remedy to the text of an error.
-- @tparam table self    the file's `path`; `hints` (name of an errno -> remedy): used before those of a recording
-- @tparam string text
-- @tparam integer code  errno
-- @treturn string
function M.with_hint(self, text, code)
  local name = E[code] or ""
  local hint = self.hints and self.hints[name] or hints[name]
  return hint and ("%s\n  try: %s"):format(text, hint:format(self.path)) or text
end

-- ---- description ----

-- Reads this process's command line.
local function read_arguments()
  local words = {}
  for word in (core.slurp("/proc/self/cmdline") or ""):gmatch("([^\0]*)\0") do words[#words + 1] = word end
  return words
end

-- Lists the "system:name" of each tracepoint, also if the session uses another name.
local function tracepoint_names(self)
  local list, seen = {}, {}
  for ev in opened.each(self.session.events) do
    local is_tracepoint = self.number[ev.slot] and ev.attr.type == TRACEPOINT
    local name = is_tracepoint and ev.format and ev.format:match("^name: (%S+)")
    local full_name = name and ev.built.system and ev.built.system .. ":" .. name
    if full_name and not seen[full_name] then list[#list + 1], seen[full_name] = full_name, true end
  end
  return list
end

-- Lists the event groups for the section group_desc, with event numbers in the order of the recording.
local function list_groups(self)
  local by_leader, list = {}, {}
  for ev in opened.each(self.session.events) do
    local group = ev.leader and by_leader[ev.leader]
    if ev.leader and not group and self.number[ev.leader] then
      group = { name = ev.of and ev.group_name or "{anon_group}", leader = self.number[ev.leader], members = 1 }
      by_leader[ev.leader], list[#list + 1] = group, group
    end
    if group then group.members = group.members + 1 end
  end
  return list
end

-- Makes the lines for a replay; see src/perfdata/writer.h and perfev.perfdata.perfl_section.
local function private_lines(self)
  local lines = { "recorder perfl" }
  if self.lost_own then lines[#lines + 1] = "lost_own " .. self.lost_own end
  if self.session.exclude_pid then lines[#lines + 1] = "exclude_pid " .. self.session.exclude_pid end
  for slot, number in pairs(self.number) do
    local one = self.slots[slot + 1]
    if one.keep_own and not one.hidden then lines[#lines + 1] = "keep_own " .. number end
    if one.hidden then lines[#lines + 1] = "hidden " .. number end
  end
  table.sort(lines, function(a, b) return a > b end)
  return table.concat(lines, "\n") .. "\n"
end

-- Writes the lines after the recorder's version, again if they have changed.
local function add_private(self)
  local lines = private_lines(self)
  if lines ~= self.told then self.rec:feature(self.version.id, self.version.bytes .. lines) end
  self.told = lines
end

-- Returns the name of the opened event: cpu-clock may replace cycles.
local function name_of(one)
  local is_clock = one.attr.type == SOFTWARE and one.attr.config == CPU_CLOCK
  local asked = is_clock and names.find(one.name:match("^[^:]+") or "")
  if not asked or asked.tool or asked.type ~= names.TYPE.hardware then return one.name end
  return "cpu-clock" .. one.name:match("^[^:]+(.*)$")
end

-- Writes the events that were opened since the last call, and their formats.
local function add_events(self)
  local slots, has_tracepoint = self.session.core:slots(), false
  for i = #self.slots + 1, #slots do
    local one = slots[i]
    if not (one.closed or one.early) and (not self.has_slot or self.has_slot(i - 1, one.attr)) then
      self.number[i - 1] = #self.events
      self.events[#self.events + 1] = one
      has_tracepoint = has_tracepoint or one.attr.type == TRACEPOINT
      one.name = name_of(one)
      self.rec:event(one.attr, one.ids, one.name)
    end
  end
  self.slots = slots
  if not has_tracepoint then return end
  local formats = tracing.write(tracepoint_names(self))
  if formats then self.rec:tracing(formats) end
end

local function add_features(self)
  for _, section in ipairs(facts.features {
    version = "perfev " .. core.version, argv = read_arguments(), events = self.events, groups = list_groups(self),
    clockid = self.session.opts.clock or 1,
  }) do
    if section.name == private.SECTION then
      self.version = section
    else
      self.rec:feature(section.id, section.bytes)
    end
  end
  add_private(self)
  self.described = #self.events
end

-- True if a sample's address or call chain may be in kernel code. A tracepoint's address is always its own.
local function samples_kernel(events)
  for _, one in ipairs(events) do
    local attr = one.attr
    local asked = attr.type == TRACEPOINT and SAMPLE_CALLCHAIN or SAMPLE_CALLCHAIN | SAMPLE_IP
    if attr.sample_type & asked ~= 0 and not attr.exclude_kernel and not one.hidden then return true end
  end
  return false
end

-- True if samples have their cgroup: the paths of those that exist are needed.
local function samples_cgroups(events)
  for _, one in ipairs(events) do
    if one.attr.cgroup or one.attr.sample_type & SAMPLE_CGROUP ~= 0 then return true end
  end
  return false
end

-- Writes the synthetic records of the kernel and of all tasks, or of these processes. They belong to the session's
-- tracking event, so callbacks do not receive them.
local function add_tasks(self, all, pids)
  local session, tracking = self.session, self.session.maps
  local batch, size = {}, 0
  local function flush()
    if size > 0 then self.rec:records(table.concat(batch)) end
    batch, size = {}, 0
  end
  local held = not session.running and session.child and session.child:pid() or nil
  for bytes in synthesise.tasks { all = all, pids = pids, attr = tracking.attr, id = tracking.ids[1], held = held,
                                  bpf = tracking.attr.ksymbol and samples_kernel(self.events),
                                  cgroups = samples_cgroups(self.events) } do
    batch[#batch + 1], size = bytes, size + #bytes
    if size >= BATCH then flush() end
  end
  flush()
end

-- ---- parts ----

local function failure_of(self, begun)
  local text, code = self.rec:failure()
  if not text then return nil end
  text = ("%s: %s"):format(text, core.strerror(code))
  if full[code] and begun and not self.rec:is_stream() then
    text = ("%s\n  the first %d bytes were written and can be read"):format(text, self.rec:size())
  end
  return M.with_hint(self, text, code), code
end

-- Writes what comes before the records.
local function describe(self, rec)
  self.rec, self.slots, self.number, self.events, self.told = rec, {}, {}, {}, nil
  add_events(self)
  add_features(self)
  rec:begin()
end

local function open_part(self)
  local rec, why, code = core.writer {
    path = self.path, fd = self.session._record_fd, level = self.level, chunk = self.chunk,
  }
  if not rec then return nil, M.with_hint(self, why, code), code end
  self.lost_own = nil
  describe(self, rec)
  local wide = options.is_cpu_wide(self.session.opts)
  add_tasks(self, wide, not wide and self.session.target.pids or nil)
  why, code = failure_of(self)
  if why then
    rec:close()
    return nil, why, code
  end
  self.session.core:record(rec)
  return true
end

-- Returns the mapped files, whose build-ids are recorded.
local function mapped_files(self)
  local maps, elf, why = self.rec:maps(), native "perfev.elf"
  if #maps > 0 and not elf and not self.noted_no_elf then
    self.noted_no_elf = true
    self.session:_log(0, ("%s: no build-ids of programs are recorded: %s"):format(self.path, why))
  end
  return maps
end

-- Adds the names of the functions at sampled addresses to a finished file.
local function save_names(self, path)
  local recording <close>, why = reader.open(path)
  local bytes
  if recording then bytes, why = recording:_save_names(nil, self.session.opts.lines) end
  if not bytes then self.session:_log(0, "no names of functions are kept in the recording: " .. why) end
  self.name_bytes = bytes
  self.bytes = self.bytes + (bytes or 0)
end

-- Writes the sections that need the whole content, if nothing failed; quick: without build-ids, which need other files.
-- Returns the number of samples; nil for a stream.
local function describe_content(self, quick)
  local rec = self.rec
  local is_file = not rec:is_stream()
  local samples, first, last
  if is_file then samples, first, last = rec:samples() end
  if rec:failure() then return samples end
  if #self.slots > 0 then add_private(self) end
  -- A breakpoint on a command's variable is opened after its exec, so it may not be described yet.
  local more = is_file and #self.events > self.described and self.events or nil
  local maps = is_file and not quick and mapped_files(self) or nil
  local known = { maps = maps, first_time = first, last_time = last, events = more }
  for _, section in ipairs(facts.features_at_end(known)) do
    rec:feature(section.id, section.bytes)
  end
  return samples
end

-- Writes the end of a part; quick: without build-ids and names, which need other files.
local function close_part(self, name, quick)
  local rec, session = self.rec, self.session
  local lost_own = session.core:record_losses()
  self.lost_own = lost_own > 0 and lost_own or nil
  session.core:record(nil)
  local is_file = not rec:is_stream()
  local samples = describe_content(self, quick)
  local failed, code = failure_of(self, true)
  local ok, why, errno = rec:finish(name)
  if not ok and not failed then failed, code = M.with_hint(self, why, errno), errno end
  self.bytes = self.bytes + rec:size()
  self.samples = samples and (self.samples or 0) + samples
  self.parts = self.parts + 1
  local path = rec:path()
  rec:close()
  self.rec = nil
  if is_file and not quick and not failed and self.session.opts.names then save_names(self, path) end
  return failed == nil, failed, code
end

-- Names a part as perf record does: perf.data.2026112117301502, the time of day in hundredths of a second.
local function part_name(self)
  local now = core.clock(REALTIME) or 0
  local stamp = tonumber(os.date("%Y%m%d%H%M%S", now // 1000000000)) * 100 + now // 10000000 % 100
  self.last_stamp = math.max(stamp, (self.last_stamp or 0) + 1)
  return ("%s.%d"):format(self.path, self.last_stamp)
end

-- Removes the oldest part if there are more than switch_max_files, with the current one.
local function remove_oldest(self)
  local most = self.session.opts.switch_max_files
  if not most or #self.names < most then return end
  local name = table.remove(self.names, 1)
  local ok, why, code = self.rec:remove(name)
  if ok then self.removed = (self.removed or 0) + 1 return end
  self.session:_log(0, ("%s: %s"):format(why, core.strerror(code)))
end

-- True if a new part must begin.
local function is_due(self)
  local limit = self.session.opts.switch_output
  if not limit or self.rec:is_stream() then return false end
  local due = self.is_due or limit.bytes and self.rec:size() >= limit.bytes
  self.is_due = nil
  return due
end

--- Begins a new part after the current round.
function Recorder:switch() self.is_due = true end

--- Checks for errors, and begins a new part if the option `switch_output` says so. Called after each round.
-- @tparam boolean last  no more rounds follow
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  what stopped the recording
-- @treturn[2] integer errno
function Recorder:check(last)
  if not self.rec then return true end
  local why, code = failure_of(self, true)
  if why then return nil, why, code end
  if last then return true end
  local total = self.bytes + self.rec:size()
  if self.max_size and total >= self.max_size and not self.session.stopping then
    self.session:_log(0, ("the recording has reached its limit of %d bytes: it ends"):format(self.max_size))
    self.session.stopping = true
  end
  if not is_due(self) then return true end
  local ok
  local name = part_name(self)
  ok, why, code = close_part(self, name, true)
  if not ok then return nil, why, code end
  self.names[#self.names + 1] = name
  ok, why, code = open_part(self)
  if ok then remove_oldest(self) end
  return ok, why, code
end

--- Adds events that were opened during the recording.
function Recorder:add_events()
  if self.rec then add_events(self) end
end

--- Gives the file its name now: later, a confined perfl cannot rename files.
function Recorder:give_name()
  if self.rec then self.rec:publish() end
end

--- Ends the recording.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Recorder:finish()
  if not self.rec then return true end
  local ok, why, code = close_part(self, nil, false)
  if not ok then return nil, why, code end
  return true
end

--- Discards the recording. An existing file of that name stays.
function Recorder:abandon()
  if not self.rec then return end
  self.session.core:record(nil)
  self.rec:close()
  self.rec = nil
end

--- Returns a summary.
-- @treturn table  `path`, `bytes`, `samples` (nil for a stream), `parts`, `removed` (nil for none), `name_bytes` (nil
--   without names)
function Recorder:summary()
  return {
    path = self.path, bytes = self.bytes, samples = self.samples, parts = self.parts, removed = self.removed,
    name_bytes = self.name_bytes,
  }
end

--- Starts recording.
-- @tparam session session  with open, disabled events
-- @treturn[1] recorder
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.start(session)
  local opts = session.opts
  local self = setmetatable({
    session = session, path = opts.record, level = opts.compress or 0, max_size = opts.max_size, names = {},
    chunk = math.max(session.core:totals().ring_bytes, CHUNK_MIN), bytes = 0, parts = 0,
  }, Recorder)
  local ok, why, code = open_part(self)
  if not ok then return nil, why, code end
  return self
end

--- Writes a snapshot: the records in backward rings, and what names their tasks. After a failure there is no file, and
-- a previous file of that name stays.
-- @tparam session session
-- @tparam string path
-- @tparam ?boolean with_names  true: add the names of the sampled functions
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.snapshot(session, path, with_names)
  local tracking = session.maps or {}
  local lost_own = session.core:totals().lost_own
  local self = { session = session, path = path, bytes = 0, lost_own = lost_own > 0 and lost_own or nil,
                 has_slot = function(slot, attr) return attr.write_backward or slot == tracking.slot end }
  local rec <close>, why, code = core.writer { path = path, whole = true }
  if not rec then return nil, M.with_hint(self, why, code), code end
  describe(self, rec)
  if tracking.slot then add_tasks(self, false, {}) end
  local ok, what, errno = session.core:record_snapshot(rec)
  if ok then describe_content(self) end
  why, code = failure_of(self)
  if why then return nil, why, code end
  if not ok then return nil, explain.refusal(what, errno), errno end
  ok, what, errno = rec:finish()
  if not ok then return nil, M.with_hint(self, what, errno), errno end
  if with_names and not rec:is_stream() then save_names(self, path) end
  return true
end

return M
