--- Pushes profiles to a store: some requests at once, with back-off while it does not answer, and a spool on disk.
--
-- A message is acknowledged when the store has accepted its frame or refused it for good, or when it is in the spool.
-- Without a spool, or with a full one, messages stay in the stream.

local core = require "perfev.core"
local is_aggregator = require("perfev.aggregate.as_callback").is_aggregator
local frames = require("perfev.base.lazy_module") "perfev.aggregate.frames"
local message = require "perfl.message"
local stores = require "perfl.collect.stores"

local M = {}
local Push = {}
Push.__index = Push

local AT_ONCE = 8   -- requests
local MOST = 64     -- messages that wait for the store
local FIRST_S, LONGEST_S = 0.5, 30 -- of back-off
local MONOTONIC = 1

local function now() return core.clock(MONOTONIC) / 1e9 end

--- @tparam table store    of stores.parse
-- @tparam table opts      `client` (of perfev.http_client), `headers` (more of them), `spool`, `clock`
function M.new(store, opts)
  return setmetatable({
    store = store, client = opts.client, headers = opts.headers or {}, spool = opts.spool, clock = opts.clock or now,
    waiting = {}, sending = {}, next_id = 1, nr_sending = 0, nr_failed = 0, quiet_until = 0, acks = {},
    accepted = 0, refused = 0, spooled = 0, again = 0, left_out = 0,
  }, Push)
end

--- How many messages it takes now.
function Push:room() return math.max(0, MOST - #self.waiting - self.nr_sending) end

--- Takes a frame.
-- @tparam table header
-- @tparam function value   () -> the aggregator or profile
-- @tparam string bytes     the frame, for the spool
-- @tparam any ack          what turn() returns when it is safe
function Push:take(header, value, bytes, ack)
  if header.kind ~= "profile" then
    self.left_out = self.left_out + 1
    self.acks[#self.acks + 1] = ack
    return true
  end
  self.waiting[#self.waiting + 1] = { header = header, value = value, bytes = bytes, ack = ack }
  return true
end

local function done(self, item)
  if item.spooled then self.spool:remove(item.spooled) else self.acks[#self.acks + 1] = item.ack end
end

local function send(self, item)
  local value, why = item.value()
  local url, headers, body
  if value and is_aggregator(value) then value, why = nil, "it is not a profile" end
  if value then url, headers, body = stores.request(self.store, item.header, value) end
  local id = self.next_id
  if value then
    for _, line in ipairs(self.headers) do headers[#headers + 1] = line end
    headers[#headers + 1] = "Expect:"
    value, why = self.client:post(id, url, headers, body)
  end
  if not value then
    self.refused = self.refused + 1
    message.say(("collect: a profile of %s cannot be sent: %s"):format(item.header.host, why))
    return done(self, item)
  end
  self.sending[id], self.next_id, self.nr_sending = item, id + 1, self.nr_sending + 1
end

-- The oldest frame of the spool as an item, or nil.
local function spooled_item(self)
  local bytes, one = self.spool:take()
  if not bytes then return nil end
  local frame = frames(bytes)()
  if frame then
    return { header = frame.header, value = function() return frame:value() end, bytes = bytes, spooled = one }
  end
  self.spool:remove(one) -- it was checked before it was written: the disk is damaged
  self.refused = self.refused + 1
  return spooled_item(self)
end

-- Waits longer after each failure, by up to a quarter more or less.
local function back_off(self, reason, after)
  self.nr_failed, self.again = self.nr_failed + 1, self.again + 1
  local wait = math.min(LONGEST_S, FIRST_S * 2 ^ math.min(self.nr_failed - 1, 16))
  wait = after and math.min(after, 10 * LONGEST_S) or wait * (0.75 + math.random() / 2)
  if self.nr_failed == 1 then
    message.say(("collect: the store does not take profiles: %s\nthey wait%s"):format(reason,
      self.spool and " in the spool" or " in the stream"))
  end
  self.quiet_until = math.max(self.quiet_until, self.clock() + wait)
end

local function take_result(self, result)
  local item = self.sending[result.id]
  self.sending[result.id], self.nr_sending = nil, self.nr_sending - 1
  local outcome, reason, after = stores.outcome(self.store, result)
  if outcome == "again" then
    back_off(self, reason, after)
    table.insert(self.waiting, 1, item)
    return
  end
  if self.nr_failed > 0 then message.say("collect: the store answers again") end
  self.nr_failed, self.quiet_until = 0, 0
  self[outcome] = self[outcome] + 1
  if outcome == "refused" then
    message.say(("collect: the store refused a profile of %s: %s"):format(item.header.host, reason))
  end
  done(self, item)
end

-- Moves what waits for the store to the spool, as far as there is room.
local function spool_waiting(self)
  local kept, acks = {}, {}
  local is_full, why = false, nil
  for _, item in ipairs(self.waiting) do
    local added = not item.spooled and not is_full or nil
    if added then added, why = self.spool:add(item.bytes) end
    if added then acks[#acks + 1] = item.ack else kept[#kept + 1] = item end
    is_full = is_full or added == false
    if why then break end
  end
  local ok
  if not why then ok, why = self.spool:commit() end
  if not ok then return nil, why end
  self.waiting, self.spooled = kept, self.spooled + #acks
  table.move(acks, 1, #acks, #self.acks + 1, self.acks)
  return true
end

--- Sends, waits at most `ms`, and returns what is safe.
-- @treturn[1] table  list of acks
-- @treturn[2] nil
-- @treturn[2] string  why the spool cannot be written
function Push:turn(ms)
  local is_quiet = self.clock() < self.quiet_until
  -- After a failure one request finds out whether the store answers.
  local at_once = is_quiet and 0 or self.nr_failed > 0 and 1 or AT_ONCE
  while self.nr_sending < at_once do
    local item = table.remove(self.waiting, 1) or self.spool and spooled_item(self)
    if not item then break end
    send(self, item)
  end
  if self.nr_failed > 0 and self.spool then
    local ok, why = spool_waiting(self)
    if not ok then return nil, why end
  end
  self.client:wait(self:is_idle() and 0 or ms)
  local result = self.client:done()
  while result do
    take_result(self, result)
    result = self.client:done()
  end
  local acks = self.acks
  self.acks = {}
  return acks
end

--- True if nothing is sent or waits, also not in the spool.
function Push:is_idle()
  return #self.waiting == 0 and self.nr_sending == 0 and not (self.spool and self.spool:waits())
end

--- True while the store does not answer.
function Push:is_failing() return self.nr_failed > 0 end

--- The numbers of a run, as text.
function Push:summary()
  local parts = { ("%s profiles accepted"):format(message.grouped(self.accepted)) }
  if self.refused > 0 then parts[#parts + 1] = message.grouped(self.refused) .. " refused" end
  if self.again > 0 then parts[#parts + 1] = message.grouped(self.again) .. " requests repeated" end
  if self.spooled > 0 then parts[#parts + 1] = message.grouped(self.spooled) .. " through the spool" end
  if self.left_out > 0 then parts[#parts + 1] = message.grouped(self.left_out) .. " frames without stacks left out" end
  return table.concat(parts, ", ")
end

function Push:close()
  self.client:close()
  if self.spool then self.spool:close() end
end

return M
