--- Merges the frames of many runs: drops duplicates, refuses what cannot be added up, remembers what is missing.
--
-- A run is a start of the script on a host; its frames have a number for each name of an aggregator (seq). So the order
-- in which frames arrive, and whether one arrives twice, does not change the result.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local message = require "perfl.message"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}
local Set = {}
Set.__index = Set

local EINVAL, EBADMSG = core.errno.EINVAL, core.errno.EBADMSG
local SECOND = 1000000000
local MOST_TURNS = 1 << 24 -- of an interval script: half a year of seconds

--- The group of the values of all hosts, unless the set keeps those of each host apart.
M.ALL = ""

--- Returns an empty set.
-- @tparam[opt] table opts  `by_host` (true: keeps the values of each host apart)
-- @treturn table  `entries`: list of { name, kind, values = { [turn] = { [host] = value } } }, also by name; `header`:
--   of the first frame; `last_turn`; `duplicates`: the number of dropped frames; `archs`: set of architectures
function M.new(opts)
  return setmetatable({ by_host = opts and opts.by_host or false, entries = {}, runs = {}, archs = {}, last_turn = 0,
                        duplicates = 0, nr = 0 }, Set)
end

-- ---- what must be alike ----

local function host_of(header) return escape(header.host) end

local function short_digest(digest) return digest and digest:sub(1, 12) or "none" end

-- Returns how the frame differs from the first one, if it does.
local function difference(self, header)
  local first = self.header
  local both = ("%s and %s"):format(host_of(header), host_of(first))
  if header.script ~= first.script then
    return ("%s have different scripts: '%s' and '%s'"):format(both, escape(header.script or "none"),
      escape(first.script or "none"))
  end
  if header.script_sha256 ~= first.script_sha256 then
    return ("%s have different versions of the script '%s': SHA-256 %s... and %s... (perfev %s and %s)"):format(both,
      escape(header.script or "none"), short_digest(header.script_sha256), short_digest(first.script_sha256),
      escape(header.version or "?"), escape(first.version or "?"))
  end
  if header.args_sha256 ~= first.args_sha256 then
    return ("%s have different arguments of the script: %s and %s"):format(both, escape(header.args or "unknown ones"),
      escape(first.args or "unknown ones"))
  end
end

-- ---- which frames are there ----

-- A name of a run: seen[seq] = { n = parts, [i] = true }, or true if it is complete; below `all` every frame is.
local function new_series() return { seen = {}, all = 0, highest = -1 } end

local function series_of(self, header)
  local key = ("%s\0%s"):format(header.host, header.start)
  local run = self.runs[key]
  if not run then
    run = { host = header.host, start = header.start, series = {}, losses = {} }
    self.runs[key] = run
  end
  local series = run.series[header.name]
  if not series then
    series = new_series()
    run.series[header.name] = series
  end
  return series, run
end

-- Returns true if the frame was seen before; nil and why it is invalid.
local function is_seen(series, seq, part, parts)
  if seq < series.all then return true end
  local seen = series.seen[seq]
  if seen == nil then return false end
  if seen == true or seen[part] then return true end
  if seen.n ~= parts then return nil, ("frame %d came in %d parts and in %d"):format(seq, seen.n, parts) end
  return false
end

local function mark_seen(series, seq, part, parts)
  local seen = series.seen[seq] or { n = parts, got = 0 }
  seen[part], seen.got = true, seen.got + 1
  series.seen[seq] = seen.got == parts or seen
  series.highest = math.max(series.highest, seq)
  while series.seen[series.all] == true do
    series.seen[series.all] = nil
    series.all = series.all + 1
  end
end

-- ---- adding a frame ----

local function entry_of(self, header)
  local entry = self.entries[header.name]
  if not entry then
    entry = { name = header.name, kind = header.kind, values = {} }
    self.entries[header.name] = entry
    table.insert(self.entries, entry)
  end
  return entry
end

-- Merges the value into that of its turn and host.
local function merge(self, entry, header, value)
  local turn = math.tointeger(tonumber(header.turn)) or 0
  if turn < 0 or turn > MOST_TURNS then return nil, ("'%s': invalid turn %d"):format(escape(header.name), turn) end
  local values = entry.values[turn] or {}
  local group = self.by_host and header.host or M.ALL
  if values[group] then
    local ok, why = pcall(values[group].merge, values[group], value)
    if not ok then return nil, ("'%s': %s"):format(escape(header.name), message.shown(why):gsub("^.-: *", "")) end
  else
    values[group] = value
  end
  entry.values[turn] = values
  self.last_turn = math.max(self.last_turn, turn)
  return true
end

-- The counts of spans in a header, as output.lua writes them.
local function add_spans(entry, text)
  if type(text) ~= "string" then return end
  entry.spans = entry.spans or {}
  local i = 0
  for span in (text .. ";"):gmatch "([^;]*);" do
    i = i + 1
    entry.spans[i] = entry.spans[i] or {}
    for name, n in span:gmatch "(%l+):(%d+)" do
      entry.spans[i][name] = (entry.spans[i][name] or 0) + (math.tointeger(tonumber(n)) or 0)
    end
  end
end

-- Remembers the losses, the times and the end of the run.
local function note(self, entry, series, run, header, now)
  self.nr = self.nr + 1
  if header.arch then self.archs[header.arch] = true end
  if header.part:find "^1/" then
    for _, name in ipairs { "lost", "late", "refused" } do
      series[name] = (series[name] or 0) + (header[name] or 0)
    end
  end
  if header.last == 1 and header.part:find "^1/" then
    series.has_last = true
    add_spans(entry, header.spans)
  end
  local ahead = now and header["end"] and header["end"] - now or 0
  if ahead > SECOND then run.ahead = math.max(run.ahead or 0, ahead) end
end

--- Adds a frame.
-- @tparam table frame    of perfev.frames
-- @tparam[opt] integer now  CLOCK_REALTIME in ns when the frame came, to report clocks that are ahead
-- @treturn[1] boolean|string  true, or "duplicate": it was there and has been dropped
-- @treturn[2] nil
-- @treturn[2] string   EINVAL: the frame cannot be added to the others; EBADMSG: damaged
-- @treturn[2] integer  errno
function Set:add(frame, now)
  local header = frame.header
  self.header = self.header or header
  local why = difference(self, header)
  if why then return nil, why, EINVAL end
  local entry = self.entries[header.name]
  if entry and entry.kind ~= header.kind then
    return nil, ("%s: '%s' is a %s there, and a %s in other frames"):format(host_of(header), escape(header.name),
      escape(header.kind), escape(entry.kind)), EINVAL
  end
  local series, run = series_of(self, header)
  local part, parts = header.part:match "^(%d+)/(%d+)$"
  part, parts = tonumber(part), tonumber(parts)
  local seen, wrong = is_seen(series, header.seq, part, parts)
  if seen then
    self.duplicates = self.duplicates + 1
    return "duplicate"
  end
  if wrong then return nil, ("%s: '%s': %s"):format(host_of(header), escape(header.name), wrong), EBADMSG end
  local value, fault, code = frame:value()
  if not value then return nil, ("%s: '%s': %s"):format(host_of(header), escape(header.name), fault), code end
  local kind = type(value) == "userdata" and value:spec().kind or "profile"
  if kind ~= header.kind then
    return nil, ("%s: '%s': its header says %s, and it is a %s"):format(host_of(header), escape(header.name),
      escape(header.kind), kind), EBADMSG
  end
  entry = entry_of(self, header)
  local ok, differs = merge(self, entry, header, value)
  if not ok then return nil, ("%s: %s"):format(host_of(header), differs), EINVAL end
  mark_seen(series, header.seq, part, parts)
  note(self, entry, series, run, header, now)
  return true
end

-- ---- what was merged ----

--- Returns the hosts, sorted.
function Set:hosts()
  local hosts = {}
  for _, run in pairs(self.runs) do hosts[run.host] = true end
  return sorted_keys(hosts)
end

-- ---- what is missing ----

-- { 3, 7, 8, 9 } -> "3, 7-9"
local function ranges_text(numbers)
  local out, i = {}, 1
  while i <= #numbers do
    local first = i
    while numbers[i + 1] == numbers[i] + 1 do i = i + 1 end
    out[#out + 1] = first == i and ("%d"):format(numbers[i]) or ("%d-%d"):format(numbers[first], numbers[i])
    i = i + 1
  end
  if #out > 8 then out = { table.concat(out, ", ", 1, 8), "..." } end
  return table.concat(out, ", ")
end

local MOST_GAPS = 1 << 16 -- a hostile frame may have the number 2^62

-- The numbers of frames that are missing, or of which a part is.
local function gaps_of(series)
  local gaps = {}
  for seq = series.all, math.min(series.highest, series.all + MOST_GAPS) do
    if series.seen[seq] ~= true then gaps[#gaps + 1] = seq end
  end
  return gaps
end

local function add_gap_lines(lines, run)
  local has_last = true
  for _, name in ipairs(sorted_keys(run.series)) do
    local series = run.series[name]
    local gaps = gaps_of(series)
    if #gaps > 0 then
      lines[#lines + 1] = ("%s: '%s': %d frame%s missing (%s): the values are not in the result"):format(
        escape(run.host), escape(name), #gaps, #gaps == 1 and " is" or "s are", ranges_text(gaps))
    end
    has_last = has_last and series.has_last
  end
  if not has_last then
    lines[#lines + 1] = ("%s: the last frame is missing: the run was cut off, or still goes on"):format(
      escape(run.host))
  end
end

local loss_words = { lost = "lost", late = "late", refused = "not counted for want of memory" }

-- Each name of a run has the losses of the whole session: the greatest sum counts.
local function loss_of(run, name)
  local most = 0
  for _, series in pairs(run.series) do most = math.max(most, series[name] or 0) end
  return most
end

local function add_loss_line(lines, run)
  local parts = {}
  for _, name in ipairs { "lost", "late", "refused" } do
    local n = loss_of(run, name)
    if n > 0 then parts[#parts + 1] = ("%s %s"):format(message.grouped(n), loss_words[name]) end
  end
  if #parts > 0 then lines[#lines + 1] = ("%s: records: %s"):format(escape(run.host), table.concat(parts, ", ")) end
end

--- Returns the losses of all runs.
-- @tparam string name  "lost", "late" or "refused"
function Set:loss(name)
  local sum = 0
  for _, run in pairs(self.runs) do sum = sum + loss_of(run, name) end
  return sum
end

--- Returns whether frames are missing: gaps, or the end of a run.
function Set:is_incomplete()
  for _, run in pairs(self.runs) do
    for _, series in pairs(run.series) do
      if not series.has_last or series.all <= series.highest then return true end
    end
  end
  return false
end

--- Returns lines about gaps, losses, clocks and duplicates.
-- @treturn {string,...}
function Set:remarks()
  local lines = {}
  for _, key in ipairs(sorted_keys(self.runs)) do
    local run = self.runs[key]
    add_gap_lines(lines, run)
    add_loss_line(lines, run)
    if run.ahead then
      lines[#lines + 1] = ("%s: the clock is %.1f s ahead"):format(escape(run.host), run.ahead / SECOND)
    end
  end
  local archs = sorted_keys(self.archs)
  if #archs > 1 then
    lines[#lines + 1] = ("the machines are of %s: a number of a system call means different calls"):format(
      escape(table.concat(archs, " and ")))
  end
  if self.duplicates > 0 then
    lines[#lines + 1] = ("%d frame%s came more than once and counted once"):format(self.duplicates,
      self.duplicates == 1 and "" or "s")
  end
  return lines
end

return M
