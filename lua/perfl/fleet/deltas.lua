--- Publishes the values of a job to the stream, exactly once each.
--
-- For each aggregator of a job one delta is outstanding: its parts are sent again, under the same ids, until the stream
-- has acknowledged them. What the worker counts meanwhile is merged into one next delta. So an outage costs resolution
-- of time but no counts, and memory is bounded by the keys of an aggregator, not by the length of the outage.

local core = require "perfev.core"
local frames = require "perfev.aggregate.frames"
local log = require "perfl.fleet.log"
local protocol = require "perfl.fleet.protocol"

local M = {}
local Outbox = {}
Outbox.__index = Outbox

local MONOTONIC = 1
local ENOENT = core.errno.ENOENT
local S = 1000000000
local ACK_MS = 5000
local RETRY_NS = { S, 2 * S, 5 * S }  -- after the first, second and further failures
local SILENT_NS = 3 * ACK_MS * 1000000 -- no acknowledgement, not even a failed one

local sums = { "lost", "refused", "late" }

--- @tparam table opts  `job`, `host`, `machine`; `counts`: what the agent's metrics add up
-- @treturn table
function M.new(opts)
  return setmetatable({ job = opts.job, host = opts.host, machine = opts.machine, counts = opts.counts,
                        start = protocol.new_id(), slots = {}, ids = {}, after = opts.after }, Outbox)
end

-- ---- sending ----

local function header_of(self, pending, seq)
  local header = {}
  for key, value in pairs(pending.header) do header[key] = value end
  header.job, header.host, header.machine, header.start = self.job, self.host, self.machine, self.start
  header.seq, header.part = seq, nil
  header.intervals = pending.intervals > 1 and pending.intervals or nil
  if seq == 0 then header.after = self.after end
  return header
end

-- Makes the pending values the outstanding delta.
local function close_pending(self, slot)
  local pending = slot.pending
  local parts, why = frames.encode(header_of(self, pending, slot.seq), pending.value)
  slot.pending = nil
  if not parts then
    self.counts.failed = self.counts.failed + 1
    return log.error("delta_dropped", { job = self.job, name = slot.name, reason = why })
  end
  local delta = { seq = slot.seq, header = pending.header, intervals = pending.intervals, parts = {}, left = #parts,
                  tries = 0 }
  for i, bytes in ipairs(parts) do
    local id = ("%s.%s.%s.%d.%d"):format(self.host, self.start, slot.name, slot.seq, i)
    delta.parts[i] = { id = id, bytes = bytes }
    self.ids[id] = { slot = slot, delta = delta, part = delta.parts[i] }
  end
  slot.seq, slot.outstanding = slot.seq + 1, delta
end

local function is_connected(self) return self.connection ~= nil and self.connection:status() == "connected" end

-- Publishes the parts that are not acknowledged.
local function publish(self, slot, now)
  local connection, delta = self.connection, slot.outstanding
  delta.tries, delta.sent, delta.due = delta.tries + 1, now, nil
  local subject = protocol.delta_subject(self.job, self.host, slot.name)
  for _, part in ipairs(delta.parts) do
    if not part.is_acknowledged then
      local ok, why = connection:js_publish(subject, part.bytes, part.id, ACK_MS)
      if ok then
        self.counts.sent = self.counts.sent + 1
      else
        delta.due = now + RETRY_NS[math.min(delta.tries, #RETRY_NS)]
        delta.why = why
      end
    end
  end
end

-- Sends what can be sent. Without a server everything stays pending, so that it becomes one delta.
local function advance(self, slot, now)
  if not is_connected(self) then return end
  if not slot.outstanding and slot.pending then close_pending(self, slot) end
  local delta = slot.outstanding
  if not delta then return end
  local is_new = delta.tries == 0
  local is_due = delta.due and now >= delta.due or not delta.due and delta.sent and now - delta.sent > SILENT_NS
  if is_new or is_due then publish(self, slot, now) end
end

-- ---- the worker's frames ----

-- What the header says of the whole interval is in each of its parts: it counts once.
local function without_sums(header)
  for _, name in ipairs(sums) do header[name] = nil end
end

local function merge_into(pending, header, value)
  local is_alike, merged, why = pcall(pending.value.merge, pending.value, value)
  if not is_alike then return nil, tostring(merged) end -- the file of the script was changed
  if not merged then return nil, why end
  local into = pending.header
  into["end"] = math.max(into["end"] or 0, header["end"] or 0)
  for _, name in ipairs(sums) do
    local sum = (into[name] or 0) + (header[name] or 0)
    into[name] = sum > 0 and sum or nil
  end
  into.last, into.spans = header.last, header.spans
  return true
end

--- Takes a frame of the worker.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  why its values are lost
function Outbox:add(frame)
  local header = frame.header
  local value, why = frame:value()
  if value == nil then return nil, why end
  if not protocol.is_token(header.name) then return nil, ("'%s' is not a name for a subject"):format(header.name) end
  local slot = self.slots[header.name]
  if not slot then
    slot = { name = header.name, seq = 0 }
    self.slots[header.name] = slot
  end
  local interval = ("%s %d"):format(header.start, header.seq)
  local is_another_part = slot.interval == interval
  slot.interval = interval
  if is_another_part then without_sums(header) end
  local pending = slot.pending
  if not pending then
    slot.pending = { value = value, header = header, intervals = 1 }
  else
    local ok, reason = merge_into(pending, header, value)
    if not ok then return nil, reason end
    if not is_another_part then
      pending.intervals = pending.intervals + 1
      self.counts.coalesced = self.counts.coalesced + 1
    end
  end
  local part, parts = header.part:match "^(%d+)/(%d+)$"
  if part == parts then advance(self, slot, core.clock(MONOTONIC)) end
  return true
end

-- ---- acknowledgements ----

local function report_delay(self, slot, delta)
  if delta.intervals <= 1 then return end
  log.warning("resolution_lost", { job = self.job, name = slot.name, intervals = delta.intervals,
    from = log.time(delta.header.begin), to = log.time(delta.header["end"]),
    reason = "the stream did not acknowledge: these intervals are one" })
end

--- Takes an acknowledgement, positive or negative.
-- @treturn boolean  true if it is one of this outbox
function Outbox:acknowledge(ack)
  local entry = self.ids[ack.id]
  if not entry then return false end
  local slot, delta, part = entry.slot, entry.delta, entry.part
  local now = core.clock(MONOTONIC)
  if not ack.ok then
    self.counts.unacknowledged = self.counts.unacknowledged + 1
    if delta.why ~= ack.error then
      log.warning("not_acknowledged", { job = self.job, name = slot.name, seq = delta.seq, reason = ack.error,
        hint = ack.code == ENOENT and "no stream takes it, try: perfl agent --make-streams" or nil })
    end
    delta.why = ack.error
    delta.due = delta.due or now + RETRY_NS[math.min(delta.tries, #RETRY_NS)]
    return true
  end
  self.ids[ack.id] = nil
  part.is_acknowledged = true
  delta.left = delta.left - 1
  if delta.left > 0 then return true end
  slot.outstanding = nil
  self.counts.acknowledged = self.counts.acknowledged + 1
  self.acknowledged = math.max(self.acknowledged or 0, delta.header["end"] or 0)
  report_delay(self, slot, delta)
  advance(self, slot, now)
  return true
end

-- ---- time and the connection ----

--- Sends what is due; called a few times a second.
function Outbox:tick(now)
  for _, slot in pairs(self.slots) do advance(self, slot, now) end
end

--- A new connection, or one that is connected again: what was sent on the old one is sent again.
function Outbox:connect(connection)
  self.connection = connection
  local now = core.clock(MONOTONIC)
  for _, slot in pairs(self.slots) do
    if slot.outstanding then slot.outstanding.due = now end
    advance(self, slot, now)
  end
end

--- True if everything is acknowledged.
function Outbox:is_empty()
  for _, slot in pairs(self.slots) do
    if slot.outstanding or slot.pending then return false end
  end
  return true
end

--- Names what is lost if the agent ends now: a list of { name =, from =, to =, intervals = }.
function Outbox:unacknowledged()
  local list = {}
  for name, slot in pairs(self.slots) do
    local first, last = slot.outstanding or slot.pending, slot.pending or slot.outstanding
    if first then
      local intervals = (slot.outstanding and slot.outstanding.intervals or 0)
        + (slot.pending and slot.pending.intervals or 0)
      list[#list + 1] = { name = name, from = first.header.begin, to = last.header["end"], intervals = intervals }
    end
  end
  return list
end

--- The parts that wait for their acknowledgement.
function Outbox:outstanding()
  local nr = 0
  for _ in pairs(self.ids) do nr = nr + 1 end
  return nr
end

return M
