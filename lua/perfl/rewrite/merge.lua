--- Plans how several recordings become one: its events, the ids of records, its sections.
-- In the result every record has an IDENTIFIER, because the layouts of the recordings may differ.

local core = require "perfev.core"
local copy = require "perfl.rewrite.copy"
local perfl_section = require "perfev.perfdata.perfl_section"
local reader = require "perfev.perfdata.reader"
local saved_names = require "perfev.symbol.saved_names"
local sections = require "perfev.perfdata.write_features"
local tracing = require "perfev.perfdata.tracing_data"

local M = {}

-- enum perf_event_sample_format, enum perf_event_read_format
local TID, TIME, READ, ID, CPU, STREAM_ID, IDENTIFIER = 1 << 1, 1 << 2, 1 << 4, 1 << 6, 1 << 7, 1 << 9, 1 << 16
local BEFORE_ID = { 1 << 0, TID, TIME, 1 << 3 } -- IP, TID, TIME, ADDR: the words of a sample before its ID
local FORMAT_ID = 1 << 2
local SAMPLE_TYPE = 24 -- offset of attr.sample_type
local HEAD = 8
local numbers = reader.numbers

-- ---- what fits together ----

local function clock_of(rec)
  local attr = rec.events[1].attr
  return attr.use_clockid and attr.clockid or "perf's own"
end

-- Returns why the recording cannot be merged with the first one, or nil.
local function refusal(first, rec)
  for _, event in ipairs(rec.events) do
    if not event.attr.sample_id_all or event.attr.sample_type & TIME == 0 then
      return ("%s: the records of %s have no time\n  try: recordings of perfl record, or perf record -T"):format(
        rec.path, event.name)
    end
  end
  if rec.sections.stat then
    return ("%s is a recording of perf stat\n  only recordings of samples can be merged\n  try: without it"):format(
      rec.path)
  end
  for _, key in ipairs { "arch", "osrelease" } do
    local one, other = first.header[key], rec.header[key]
    if one and other and one ~= other then
      return ("%s is of %s, %s of %s\n  addresses of different kernels would get wrong names\n"
        .. "  try: recordings of one machine"):format(first.path, one, rec.path, other)
    end
  end
  if clock_of(first) ~= clock_of(rec) then
    return ("%s and %s have times of different clocks (%s, %s)\n  try: recordings with one clock, as of -k monotonic")
      :format(first.path, rec.path, clock_of(first), clock_of(rec))
  end
end

-- ---- events and ids ----

local function with_identifier(attr)
  local bytes = attr:bytes()
  return bytes:sub(1, SAMPLE_TYPE) .. string.pack("=i8", attr.sample_type | IDENTIFIER) .. bytes:sub(SAMPLE_TYPE + 9)
end

local function largest_id(recs)
  local largest = 0
  for _, rec in ipairs(recs) do
    for _, event in ipairs(rec.events) do
      for _, id in ipairs(event.ids) do largest = math.max(largest, id) end
    end
  end
  return largest
end

-- Makes the events of all recordings -> events, for each recording { number -> number }, for each { id -> new id }.
-- Events with the same attr and id, as of two files of one session, become one.
local function join_events(recs)
  local events, used, last_id = {}, {}, largest_id(recs)
  local places, maps = {}, {}
  local function new_id()
    last_id = last_id + 1
    return last_id
  end
  for i, rec in ipairs(recs) do
    local before = setmetatable({}, { __index = used }) -- ids of this recording hide those of earlier ones
    local taken = {}
    places[i], maps[i] = {}, {}
    for n, event in ipairs(rec.events) do
      local bytes = with_identifier(event.attr)
      local same = event.ids[1] and before[event.ids[1]]
      if not (same and events[same].bytes == bytes) then
        same = nil
        events[#events + 1] = { name = event.name, ids = {}, bytes = bytes, attr = core.attr_parse(bytes) }
      end
      places[i][n] = same or #events
      local joined = events[places[i][n]]
      for _, id in ipairs(event.ids) do
        if not used[id] then
          joined.ids[#joined.ids + 1], taken[id] = id, places[i][n]
        elseif used[id] ~= places[i][n] then
          maps[i][id] = new_id()
          joined.ids[#joined.ids + 1] = maps[i][id]
        end
      end
      if not joined.ids[1] then joined.ids[1] = new_id() end
    end
    for id, n in pairs(taken) do used[id] = n end
  end
  return events, places, maps
end

-- ---- records ----

-- What an editor has to know of an event's records.
local function layout_of(event, joined)
  local type = event.attr.sample_type
  local layout = { has_identifier = type & IDENTIFIER ~= 0, id = joined.ids[1], trailer = 0 }
  for _, bit in ipairs { TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER } do
    if bit == TIME and type & bit ~= 0 then layout.time = layout.trailer end
    if bit == ID and type & bit ~= 0 then layout.trailer_id = layout.trailer end
    if type & bit ~= 0 then layout.trailer = layout.trailer + 8 end
  end
  local at = layout.has_identifier and HEAD + 8 or HEAD
  for _, bit in ipairs(BEFORE_ID) do at = at + (type & bit ~= 0 and 8 or 0) end
  layout.sample_id = type & ID ~= 0 and at or nil
  return layout
end

local function with_size(bytes)
  return bytes:sub(1, 6) .. string.pack("=I2", #bytes) .. bytes:sub(9)
end

-- Replaces the 8 bytes at an offset from 0 by f(their number).
local function with_word(bytes, offset, f)
  local word = string.unpack("=i8", bytes, offset + 1)
  return bytes:sub(1, offset) .. string.pack("=i8", f(word)) .. bytes:sub(offset + 9)
end

-- Offsets of ids in the bodies of records.
local id_offsets = { [numbers.lost] = 8, [numbers.throttle] = 16, [numbers.unthrottle] = 16 }

-- Returns the copier's function that gives the records of a recording their new ids. Records without a time go to
-- `held`: they describe the state before the recording began.
local function new_editor(rec, events, places, map, held)
  local layouts = {}
  for n, event in ipairs(rec.events) do layouts[n] = layout_of(event, events[places[n]]) end
  local function edit_sample(layout, bytes)
    local function renamed(id) return map[id] or id end
    if layout.sample_id then bytes = with_word(bytes, layout.sample_id, renamed) end
    if layout.has_identifier then return with_word(bytes, HEAD, renamed) end
    return with_size(bytes:sub(1, HEAD) .. string.pack("=i8", layout.id) .. bytes:sub(HEAD + 1))
  end
  local function edit_other(layout, type, bytes)
    local function renamed(id) return id == 0 and layout.id or map[id] or id end
    local at = #bytes - layout.trailer
    if id_offsets[type] then bytes = with_word(bytes, id_offsets[type], renamed) end
    if layout.trailer_id then bytes = with_word(bytes, at + layout.trailer_id, renamed) end
    if layout.has_identifier then bytes = with_word(bytes, #bytes - 8, renamed)
    else bytes = with_size(bytes .. string.pack("=i8", layout.id)) end
    if held and string.unpack("=i8", bytes, at + layout.time + 1) == 0 and type ~= numbers.lost_samples then
      held[#held + 1] = { bytes = bytes, time = at + layout.time }
      return false
    end
    return bytes
  end
  return function(_, n, bytes)
    local type = string.unpack("=I4", bytes)
    local layout = layouts[n or 1]
    if type == numbers.sample then return n and edit_sample(layout, bytes) end
    if #bytes < HEAD + layout.trailer then return false end
    return edit_other(layout, type, bytes)
  end
end

-- True if the samples of the recording keep their ids and have an IDENTIFIER.
local function keeps_samples(rec, map)
  for _, event in ipairs(rec.events) do
    if event.attr.sample_type & IDENTIFIER == 0 then return false end
  end
  return next(map) == nil
end

-- The lists of a recorder's targets: perf reads one of each.
local later_left_out = setmetatable({ [73] = true, [74] = true }, { __index = copy.tools_left_out })

-- Makes the input of copy.write for a recording.
local function new_input(rec, i, events, places, map)
  local keeps = keeps_samples(rec, map)
  local input = { rec = rec, copier = { with_bytes = true } }
  input.copier.tools_left_out = i == 1 and copy.tools_left_out or later_left_out
  if i == 1 and keeps then return input end
  local held = i > 1 and {} or nil
  input.copier.edit = new_editor(rec, events, places, map, held)
  input.copier.edited = keeps and ~(1 << numbers.sample) or ~0
  function input.on_turn(writer)
    if not held or input.time == 0 then return end
    for _, record in ipairs(held) do
      writer:append(with_word(record.bytes, record.time, function() return input.time end))
    end
    input.added, held = #held, nil
  end
  return input
end

-- ---- sections ----

local function join_build_ids(recs)
  local list, seen = {}, {}
  for _, rec in ipairs(recs) do
    for _, id in ipairs(rec.header.build_ids or {}) do
      local key = id.build_id .. id.filename
      if not seen[key] then list[#list + 1], seen[key] = id, true end
    end
  end
  return #list > 0 and list or nil
end

local function join_groups(recs, places)
  local list, seen = {}, {}
  for i, rec in ipairs(recs) do
    for _, group in ipairs(rec.header.group_desc or {}) do
      local leader = (places[i][group.leader + 1] or 0) - 1
      if leader >= 0 and not seen[leader] then
        list[#list + 1], seen[leader] = { name = group.name, leader = leader, members = group.members }, true
      end
    end
  end
  return #list > 0 and list or nil
end

-- Returns the formats of all recordings as a section, or nil.
local function join_formats(recs)
  local joined
  for _, rec in ipairs(recs) do
    local data = rec:tracing()
    joined = joined or data
    for id, format in pairs(data and data.formats or {}) do joined.formats[id] = format end
  end
  return joined and tracing.encode(joined)
end

-- Returns the section of the version with the names of functions that all recordings keep.
local function join_names(recs, version)
  local texts = {}
  for _, rec in ipairs(recs) do
    local bytes = rec:section(perfl_section.SECTION)
    texts[#texts + 1] = bytes and perfl_section.names(bytes, rec.facts.big)
  end
  if #texts == 0 then return version end
  return (perfl_section.with_names(version, recs[1].facts.big, saved_names.join(texts)))
end

-- Returns a function that describes the merged recording to the writer, once.
local function new_describer(recs, events, places)
  local is_done = false
  local descriptions = {}
  for i, event in ipairs(events) do descriptions[i] = { name = event.name, attr = event.bytes, ids = event.ids } end
  local joined = { event_desc = descriptions, group_desc = join_groups(recs, places), build_ids = join_build_ids(recs) }
  for _, rec in ipairs(recs) do joined.version = joined.version or rec.header.version end
  local function edit(key, bytes) return joined[key] == nil and key ~= "group_desc" and bytes or nil end
  return function(writer)
    if is_done then return end
    is_done = true
    local formats = join_formats(recs)
    if formats then writer:tracing(formats) end
    for _, event in ipairs(events) do writer:event(event.attr, event.ids, event.name) end
    copy.describe(recs[1], writer, { tracing = true, events = #recs[1].events }, edit)
    for _, key in ipairs { "version", "event_desc", "group_desc", "build_ids" } do
      if joined[key] then
        local section = sections.encode(key, joined[key])
        writer:feature(section.id, key == "version" and join_names(recs, section.bytes) or section.bytes)
      end
    end
  end
end

--- Plans the merge.
-- @tparam {recording,...} recs
-- @treturn[1] {table,...}  inputs of copy.write
-- @treturn[1] function     its `describe`
-- @treturn[2] nil
-- @treturn[2] string       why these recordings cannot be merged, with a remedy
function M.plan(recs)
  for _, rec in ipairs(recs) do
    local why = copy.refusal(rec) or refusal(recs[1], rec)
    if why then return nil, why end
  end
  local events, places, maps = join_events(recs)
  local inputs = {}
  for i, rec in ipairs(recs) do
    for _, event in ipairs(rec.events) do
      local attr = event.attr
      if next(maps[i]) and attr.sample_type & READ ~= 0 and attr.read_format & FORMAT_ID ~= 0 then
        return nil, ("%s: the samples of %s have ids that another recording has, too\n"
          .. "  try: recordings of one boot"):format(rec.path, event.name)
      end
    end
    inputs[i] = new_input(rec, i, events, places[i], maps[i])
  end
  return inputs, new_describer(recs, events, places)
end

return M
