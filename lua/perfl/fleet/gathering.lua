--- One request of `perfl gather`: the state of each host, the credit for frames, and the merged answer.
--
-- Messages and times come from the caller, so that a spec needs no server. Everything that a host sends is untrusted:
-- a host can only fail itself. The frames of a host are merged when all of them are there and can be read, so that a
-- host that dies half way adds nothing. What cannot be added up is kept in sets of its own; the answer is the set of
-- the most hosts.

local escape = require "perfev.base.escape"
local frame_set = require "perfl.frames.set"
local frames = require "perfev.aggregate.frames"
local protocol = require "perfl.fleet.protocol"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}
local Gathering = {}
Gathering.__index = Gathering

local S = 1000000000
local WINDOW = 64                    -- frames that are asked for and not here, of all hosts
local FETCHES = 3                    -- how often a frame is asked for, each time for `wait_ns`
local SLACK = 3                      -- times `wait_ns`, for a run to end after its duration
local RESULT_MAX = 64 << 20          -- bytes of frames of a host, as the agent limits them
local FRAMES_MAX, HOSTS_MAX = 1 << 16, 1 << 17
local REASON_MAX = 160

--- @tparam table opts  `request` (the fields of `run`), `expected` (set of hosts that should answer, or nil: unknown),
--   `fetch`(host, from, count), `digest` (SHA-256 of the script), `by_host`, `wait_ns`, `duration_ns`, `keep_bytes`
--   (true: the frames of merged hosts are kept for take_bytes())
-- @tparam integer now    CLOCK_MONOTONIC in ns
-- @tparam integer clock  CLOCK_REALTIME in ns
function M.new(opts, now, clock)
  local self = setmetatable({ opts = opts, slack_ns = SLACK * opts.wait_ns, began = now, began_at = clock, hosts = {},
                              nr_pending = 0, outstanding = 0, waiting = {}, sets = {}, nr_done = 0, remarks_ = {},
                              bytes = {} }, Gathering)
  for host in pairs(opts.expected or {}) do self:_host(host) end
  return self
end

-- ---- hosts ----

-- The record of a host; `state`: asked, accepted, done, refused, failed
function Gathering:_host(name)
  local host = self.hosts[name]
  if host then return host end
  host = { name = name, state = "asked", frames = 0, asked = 0, got = {}, nr_got = 0, nr_bytes = 0, tries = 0 }
  self.hosts[name] = host
  self.nr_pending = self.nr_pending + 1
  return host
end

-- A host's text: one line, cut and escaped.
local function shown(text)
  text = text:gsub("%s*\n%s*", "; "):gsub("[; ]+$", "")
  if #text > REASON_MAX then text = text:sub(1, REASON_MAX) .. "..." end
  return escape(text)
end

-- The host is done, refused or failed.
local function settle(self, host, state, reason)
  self.outstanding = self.outstanding - (host.asked - host.nr_got)
  self.nr_pending = self.nr_pending - 1
  host.state, host.reason, host.got = state, reason, nil
end

local function fail(self, host, reason) settle(self, host, "failed", shown(reason)) end

local function remark(self, host, text) table.insert(self.remarks_, ("%s: %s"):format(host.name, text)) end

local function is_settled(host) return host.got == nil end

-- ---- credit ----

-- Asks for frames of the hosts that have some, in the order in which they came; a started host first.
local function use_credit(self, now)
  while self.outstanding < WINDOW and self.waiting[1] do
    local host = self.waiting[1]
    local count = not is_settled(host) and math.min(host.frames - host.asked, WINDOW - self.outstanding) or 0
    if count > 0 then
      self.outstanding = self.outstanding + count
      host.fetch_due = now + self.opts.wait_ns
      self.opts.fetch(host.name, host.asked + 1, count)
      host.asked = host.asked + count
    end
    if is_settled(host) or host.asked == host.frames then
      host.is_waiting = false
      table.remove(self.waiting, 1)
    end
  end
end

local function want_frames(self, host)
  if host.is_waiting or host.asked == host.frames then return end
  host.is_waiting = true
  table.insert(self.waiting, host)
end

-- Asks once more for the frames that did not come.
local function fetch_again(self, host, now)
  host.tries = host.tries + 1
  if host.tries >= FETCHES then return fail(self, host, "it does not send its frames") end
  host.fetch_due = now + self.opts.wait_ns
  local from
  for i = 1, host.asked + 1 do
    local is_missing = i <= host.asked and not host.got[i]
    if is_missing then
      from = from or i
    elseif from then
      self.opts.fetch(host.name, from, i - from)
      from = nil
    end
  end
end

-- ---- frames ----

-- The one frame of a message -> frame | nil, why
local function read_frame(bytes)
  local reader = frames.reader()
  reader:feed(bytes)
  reader:feed(nil)
  local frame, why = reader:next()
  if not frame then return nil, why or "it is empty" end
  local second
  second, why = reader:next()
  if second or why then return nil, "more than one frame" end
  return frame
end

-- A table as text, to compare what values are of.
local function text_of(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for _, key in ipairs(sorted_keys(value)) do
    if type(value[key]) ~= "function" then parts[#parts + 1] = tostring(key) .. "=" .. text_of(value[key]) end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function description(value)
  if type(value) == "table" then return text_of(value.values) end
  value:pairs() -- read: perfl prints what was not
  return text_of(value:spec())
end

-- A frame whose value is unpacked once.
local function with_value(frame, value)
  return setmetatable({ value = function() return value end }, { __index = frame })
end

-- Unpacks the frames of a host -> frames with values, what they are of | nil, why
local function unpack_all(list)
  local out, kinds = {}, {}
  for i, frame in ipairs(list) do
    local value, why = frame:value()
    if not value then return nil, ("frame %d: %s"):format(i, why) end
    local header = frame.header
    local kind = header.kind .. " " .. description(value)
    if kinds[header.name] and kinds[header.name] ~= kind then
      return nil, ("frame %d: '%s' differs from the frames before"):format(i, header.name)
    end
    kinds[header.name], out[i] = kind, with_value(frame, value)
  end
  local header = list[1].header
  return out, text_of { script = header.script_sha256, args = header.args_sha256, kinds = kinds }
end

-- Merges a complete host into the set of its like.
local function merge_host(self, host, now_at)
  local list, alike = unpack_all(host.got)
  if not list then return fail(self, host, alike) end
  local found = self.sets[alike]
  if not found then
    found = { set = frame_set.new { by_host = self.opts.by_host }, hosts = {} }
    self.sets[alike] = found
    table.insert(self.sets, found)
  end
  for i, frame in ipairs(list) do
    local ok, why = found.set:add(frame, now_at)
    if not ok then return fail(self, host, ("frame %d: %s"):format(i, why)) end
  end
  if self.opts.keep_bytes then
    for _, frame in ipairs(list) do table.insert(self.bytes, frame.bytes) end
  end
  self.nr_done = self.nr_done + 1
  table.insert(found.hosts, host)
  settle(self, host, "done")
end

local function finish_if_complete(self, host, now_at)
  if not (host.is_final and host.nr_got == host.frames) then return end
  if host.frames == 0 then return fail(self, host, "it sent no frames") end
  merge_host(self, host, now_at)
end

-- ---- messages ----

local takers = {}

function takers.accepted(self, host, fields, _, now, now_at)
  if host.state ~= "asked" then return end
  host.state = "accepted"
  local place = math.min(math.max(fields.place or 0, 0), 64)
  host.due = now + (place + 1) * self.opts.duration_ns + self.slack_ns
  if not fields.clock then return end
  -- The host read its clock between the request and now.
  local off = fields.clock > now_at and fields.clock - now_at or fields.clock - self.began_at
  if (fields.clock > now_at or fields.clock < self.began_at) and math.abs(off) > protocol.SKEW_NS then
    remark(self, host, ("the clock is %.1f s %s"):format(math.abs(off) / S, off > 0 and "ahead" or "behind"))
  end
end

function takers.refused(self, host, fields) settle(self, host, "refused", shown(fields.reason or "no reason")) end
function takers.failed(self, host, fields) fail(self, host, fields.reason or "no reason is given") end

function takers.ready(self, host, fields, _, now, now_at)
  local nr = fields.frames or 0
  if nr < host.frames or nr > FRAMES_MAX or (host.is_final and nr ~= host.frames) then
    return fail(self, host, ("it announces %d frames after %d"):format(nr, host.frames))
  end
  if host.state == "asked" then host.state = "accepted" end
  host.frames, host.is_final = nr, host.is_final or fields.final == true
  host.due = math.max(host.due or 0, now + self.slack_ns)
  if host.is_final and (fields.status or 0) ~= 0 then
    remark(self, host, ("the script ended with status %d%s"):format(fields.status,
      fields.text and ": " .. shown(fields.text) or ""))
  end
  want_frames(self, host)
  finish_if_complete(self, host, now_at)
end

function takers.frame(self, host, fields, body, now, now_at)
  local i = fields.index or 0
  if i < 1 or i > host.asked then return fail(self, host, "it sends frames that nobody asked for") end
  if host.got[i] then return end -- of a fetch that was repeated
  local frame, why = read_frame(body)
  if not frame then return fail(self, host, ("frame %d: %s"):format(i, why)) end
  local header = frame.header
  if protocol.token(header.host) ~= host.name then
    return fail(self, host, ("frame %d is of another host: '%s'"):format(i, header.host))
  end
  if header.script_sha256 ~= self.opts.digest then
    return fail(self, host, ("it has another version of the script (perfev %s)"):format(header.version or "unknown"))
  end
  host.nr_bytes = host.nr_bytes + #frame.bytes
  if host.nr_bytes > RESULT_MAX then return fail(self, host, "its result is larger than 64 MiB") end
  host.got[i], host.nr_got = frame, host.nr_got + 1
  self.outstanding = self.outstanding - 1
  host.fetch_due, host.due = now + self.opts.wait_ns, math.max(host.due, now + self.slack_ns)
  host.tries = 0
  finish_if_complete(self, host, now_at)
end

-- The host that a message is of, if it was asked | nil
local function sender(self, subject)
  local name = protocol.host_of(subject)
  if not name then return nil end
  if self.hosts[name] then return self.hosts[name] end
  if self.nr_pending >= HOSTS_MAX or not protocol.names_host(self.opts.request, name) then return nil end
  return self:_host(name)
end

--- Takes a message of perfev.res.*.ID.
function Gathering:take(subject, bytes, now, now_at)
  local host = sender(self, subject)
  if not host or is_settled(host) then return end
  local fields, body = protocol.decode(bytes)
  if not fields then
    fail(self, host, "it sends what is not a message: " .. body)
  elseif fields.id == self.opts.request.id and takers[fields.op] then
    takers[fields.op](self, host, fields, body, now, now_at)
  end
  use_credit(self, now)
end

--- Does what is due: repeats fetches, gives up hosts that fell silent.
function Gathering:tick(now)
  for _, host in pairs(self.hosts) do
    if host.state == "accepted" then
      local is_fetching, needs_credit = host.asked > host.nr_got, host.asked < host.frames
      if is_fetching and now >= host.fetch_due then
        fetch_again(self, host, now)
      elseif not is_fetching and not needs_credit and now >= host.due then
        fail(self, host, "it accepted the request and fell silent")
      end
    end
  end
  use_credit(self, now)
end

--- True when no further answer is expected.
function Gathering:is_over(now)
  if self.nr_pending == 0 and (self.opts.expected or now >= self.began + self.opts.wait_ns) then return true end
  if now < self.began + self.opts.wait_ns then return false end
  for _, host in pairs(self.hosts) do
    if host.state == "accepted" then return false end
  end
  return true
end

-- ---- the answer ----

local function set_of_most(self)
  local most
  for _, one in ipairs(self.sets) do
    if not most or #one.hosts > #most.hosts then most = one end
  end
  return most
end

--- The answer of the most hosts that can be added up.
-- @treturn[1] table  the set, of perfl.frames.set
-- @treturn[2] nil    no host answered
function Gathering:set()
  local most = set_of_most(self)
  for _, one in ipairs(self.sets) do
    for _, host in ipairs(one ~= most and one.hosts or {}) do
      if host.state == "done" then
        host.state, host.reason = "failed", "its values are not of the same kind as those of most hosts"
        self.nr_done = self.nr_done - 1
      end
    end
  end
  return most and #most.hosts > 0 and most.set or nil
end

--- The frames of the hosts that are merged so far, for a first look; they are kept no longer.
function Gathering:take_bytes()
  local bytes = table.concat(self.bytes)
  self.bytes, self.opts.keep_bytes = {}, false
  return bytes
end

--- Hosts by what became of them.
-- @treturn table  `asked`, `done`: numbers; `refused`, `failed`: lists of { host, reason }; `silent`, `running`: lists
--   of hosts; each sorted by host
function Gathering:outcome()
  local out = { asked = 0, done = 0, refused = {}, failed = {}, silent = {}, running = {} }
  for _, name in ipairs(sorted_keys(self.hosts)) do
    local host = self.hosts[name]
    out.asked = out.asked + 1
    if host.state == "done" then
      out.done = out.done + 1
    elseif host.state == "asked" then
      table.insert(out.silent, name)
    elseif host.state == "accepted" then
      table.insert(out.running, name)
    else
      table.insert(out[host.state], { name, host.reason })
    end
  end
  return out
end

--- Lines about clocks and scripts that ended badly.
function Gathering:remarks()
  table.sort(self.remarks_)
  return self.remarks_
end

return M
