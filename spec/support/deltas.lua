-- deltas.lua - frames of simulated hosts, and their way into the stream of a NATS server.
--
--   local deltas = require "spec.support.deltas"
--   local list = deltas.frames { host = "web1", seq = 3, at = 1764313200 }      -- of one count
--   local out = deltas.publisher(server.url); out:send(list, "perfev.agg.job.web1.calls"); out:settle()

local frames = require "perfev.aggregate.frames"
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"

local M = {}

M.NS = 1000000000
M.AT = 1764313200 -- 2025-11-28T07:00:00Z

--- The start of a simulated agent: 32 hexadecimal digits.
function M.start_of(host, nr)
  local sum = nr or 0
  for i = 1, #host do sum = sum * 31 + host:byte(i) & 0xffffffff end
  return ("%032x"):format(sum)
end

local function count_of(values)
  local a = perfev.count { by = "comm" }
  for _, row in ipairs(values) do a:add(row[2], row[1]) end
  return a
end

--- Returns the frames of one interval.
-- @tparam table opt  `host`, `seq`; `job` ("job"), `name` ("calls"), `at` (s, default M.AT), `length` (s, 10),
--   `value` (aggregator or profile) or `values` ({ { key, count }, ... }), `start` (number of the agent's start),
--   `more` (header)
function M.frames(opt)
  local at = (opt.at or M.AT) * M.NS
  local value = opt.value or count_of(opt.values or { { "a", opt.seq }, { "b", 1 } })
  local header = { job = opt.job or "job", host = opt.host, machine = opt.host, start = M.start_of(opt.host, opt.start),
    seq = opt.seq, begin = at, ["end"] = at + (opt.length or 10) * M.NS, name = opt.name or "calls",
    kind = value.spec and value:spec().kind or "profile", script_sha256 = ("0"):rep(64), lost = 0 }
  for key, one in pairs(opt.more or {}) do header[key] = one end
  return assert(frames.encode(header, value))
end

--- The subject of frames with these options.
function M.subject(opt)
  return protocol.delta_subject(opt.job or "job", protocol.token(opt.host), opt.name or "calls")
end

local Publisher = {}
Publisher.__index = Publisher

--- The parts of a text with commas.
function M.urls(text)
  local urls = {}
  for url in text:gmatch "[^,]+" do urls[#urls + 1] = url end
  return urls
end

--- Connects to a server and makes the stream of deltas.
-- @tparam string url  several: separated by commas
-- @tparam ?table more  settings of the stream
function M.publisher(url, more)
  local connection = assert(require("perfev.nats").connect { url = M.urls(url), name = "spec" })
  local settings = {}
  for key, value in pairs(protocol.streams[1]) do settings[key] = value end
  for key, value in pairs(more or {}) do settings[key] = value end
  assert(connection:stream_add(settings))
  return setmetatable({ connection = connection, open = 0, duplicates = 0, failed = 0 }, Publisher)
end

--- Sends the frames of M.frames(opt); `id`: another id than the frame's own.
function Publisher:send(opt, id)
  for i, bytes in ipairs(M.frames(opt)) do
    local own = ("%s %s %s %s %d %d"):format(opt.job or "job", opt.host, opt.start or 0, opt.name or "calls",
      opt.seq, i)
    assert(self.connection:js_publish(M.subject(opt), bytes, id and id .. i or own))
    self.open = self.open + 1
  end
end

--- Takes the acknowledgements that are there.
function Publisher:take_acks()
  for _, ack in ipairs(self.connection:acks()) do
    self.open = self.open - 1
    if ack.duplicate then self.duplicates = self.duplicates + 1 end
    if not ack.ok then self.failed = self.failed + 1 end
  end
end

--- Waits until everything is acknowledged, at most 20 s.
function Publisher:settle()
  for _ = 1, 2000 do
    self:take_acks()
    if self.open == 0 then return end
    os.execute "sleep 0.01"
  end
  error(("%d messages are not acknowledged"):format(self.open))
end

function Publisher:close() self.connection:close() end

return M
