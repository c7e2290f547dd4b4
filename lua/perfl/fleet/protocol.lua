--- The messages between `perfl agent` and `perfl gather`: subjects, and a line of JSON before a body of bytes.
--
-- The asker publishes to perfev.run.TARGET; TARGET is a host, a group, or "all". A host answers on
-- perfev.res.HOST.ID, where the server lets only this host publish: the subject proves who answers. The asker
-- subscribes to perfev.res.*.ID before it asks. Each message has `op` and `id`:
--
--   asker   run      script, args, time, duration_ms, interval_ms, hosts, sample, asker; for a text of the asker's
--                    own: signature, and the text as body
--   host    accepted clock, place (0: it starts at once; otherwise the place in the queue)
--   host    refused  reason
--   host    failed   reason
--   host    ready    frames (number so far), bytes, final (true: no more come), status, text (standard error), clock
--   asker   fetch    from, count: to perfev.run.HOST; count is the credit, so that no host sends unasked
--   host    frame    index, frames; body: one frame
--   asker   stop     to perfev.run.HOST or the same TARGET: ends the run and drops its frames
--
-- A host ignores a `run` whose hosts or sample leave it out, and an id that it has seen. `time` and `clock` are
-- CLOCK_REALTIME in ns: their difference shows the skew of the clocks. Durations are whole milliseconds.

local glob = require "perfev.base.glob"
local json = require "perfev.base.json"

local M = {}

--- Streams of JetStream: name -> settings for c:stream_add().
M.streams = {
  { name = "perfev-agg", subjects = { "perfev.agg.>" }, max_age_s = 24 * 3600, duplicate_window_s = 120 },
  { name = "perfev-hello", subjects = { "perfev.hello.>" }, max_per_subject = 1, max_age_s = 24 * 3600,
    duplicate_window_s = 1 },
}

--- The most bytes of the line, and of the text of a script.
M.LINE_MAX, M.TEXT_MAX = 64 << 10, 256 << 10

--- The namespace of signatures (ssh-keygen -Y sign -n).
M.NAMESPACE = "perfev-script"

--- Seconds between two hellos; a difference of clocks that is reported, in ns.
M.HELLO_S, M.SKEW_NS = 30, 1000000000

-- ---- subjects ----

--- True if a text can be one part of a subject: a host, a group, a job, an id.
function M.is_token(text) return #text <= 128 and text:find "^[%w_-]+$" ~= nil end

--- The host's part of a subject: dots are separators there.
function M.token(text) return (text:gsub("[^%w_-]", "-"):sub(1, 128)) end

function M.run_subject(target) return "perfev.run." .. target end
function M.result_subject(host, id) return ("perfev.res.%s.%s"):format(host, id) end
function M.hello_subject(host) return "perfev.hello." .. host end
function M.delta_subject(job, host, name) return ("perfev.agg.%s.%s.%s"):format(job, host, name) end

--- The host of perfev.res.HOST.ID or perfev.hello.HOST, or nil.
function M.host_of(subject)
  return subject:match "^perfev%.res%.([%w_-]+)%.[%w_-]+$" or subject:match "^perfev%.hello%.([%w_-]+)$"
end

-- ---- messages ----

-- field -> type; other fields are ignored, so that newer programs may add some
local types = {
  op = "string", id = "string", script = "string", args = "table", time = "integer", duration_ms = "integer",
  interval_ms = "integer", hosts = "string", sample = "number", asker = "string", signature = "string",
  clock = "integer", place = "integer", reason = "string", frames = "integer", bytes = "integer", final = "boolean",
  status = "integer", text = "string", from = "integer", count = "integer", index = "integer", host = "string",
}

local function is_of(value, kind)
  if kind == "integer" then return math.type(value) == "integer" end
  return type(value) == kind
end

local MOST_ARGS, MOST_HOSTS, MOST_STARS = 64, 64 << 10, 4

-- nil, or why it is not a list of patterns. Few stars: each one multiplies the time of a match.
local function fault_of_hosts(hosts)
  if #hosts > MOST_HOSTS then return "'hosts' is too long" end
  for pattern in hosts:gmatch "[^,]+" do
    local _, stars = pattern:gsub("%*", "")
    if stars > MOST_STARS then return "a pattern of 'hosts' has too many stars" end
    if not pcall(glob.matcher, pattern) then return "a pattern of 'hosts' has a bracket that is not closed" end
  end
end

-- nil, or why the fields are not a message
local function fault_of(fields)
  if type(fields) ~= "table" then return "not a JSON object" end
  for name, kind in pairs(types) do
    local value = fields[name]
    if value ~= nil and not is_of(value, kind) then return ("'%s' is not of type %s"):format(name, kind) end
  end
  if not fields.op then return "'op' is missing" end
  if #(fields.args or {}) > MOST_ARGS then return "'args' has too many words" end
  for i, word in ipairs(fields.args or {}) do
    if type(word) ~= "string" then return ("word %d of 'args' is not a text"):format(i) end
  end
  if not (fields.id and M.is_token(fields.id)) then return "'id' is not a word" end
  return fields.hosts and fault_of_hosts(fields.hosts)
end

--- @tparam table fields   a flat table; `args` is a list of strings
-- @tparam ?string body
-- @treturn string
function M.encode(fields, body) return json.encode(json.object(fields)) .. "\n" .. (body or "") end

--- @tparam string bytes  of an untrusted sender
-- @treturn[1] table     fields, of the types above
-- @treturn[1] string    body
-- @treturn[2] nil
-- @treturn[2] string    why it is not a message
function M.decode(bytes)
  local stop = bytes:find("\n", 1, true)
  if not stop or stop > M.LINE_MAX then return nil, "the line of JSON is missing or too long" end
  local fields, why = json.decode(bytes:sub(1, stop - 1))
  if fields == nil then return nil, why end
  why = fault_of(fields)
  if why then return nil, why end
  return fields, bytes:sub(stop + 1)
end

--- A new id: 32 hexadecimal digits at random.
function M.new_id()
  local file = assert(io.open("/dev/urandom", "rb"))
  local bytes = file:read(16)
  file:close()
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- ---- which hosts ----

-- FNV-1a of 64 bits, then mixed so that ids that differ in one letter choose other hosts.
local function hash(text)
  local h = 0xcbf29ce484222325
  for i = 1, #text do h = (h ~ text:byte(i)) * 0x100000001b3 end
  h = (h ~ (h >> 33)) * 0xff51afd7ed558ccd
  return h ~ (h >> 33)
end

--- True if the host belongs to a share of all hosts that the id chooses: each host decides alone, and the asker knows
-- which hosts it can expect.
function M.is_in_sample(id, host, share)
  return (hash(id .. " " .. host) >> 11) / (1 << 53) < share
end

--- True if a `run` names the host: its `hosts` (glob patterns, separated by commas) and its `sample`.
function M.names_host(fields, host)
  if fields.sample and not M.is_in_sample(fields.id, host, fields.sample) then return false end
  if not fields.hosts then return true end
  for pattern in fields.hosts:gmatch "[^,]+" do
    if glob.matcher(pattern)(host) then return true end
  end
  return false
end

return M
