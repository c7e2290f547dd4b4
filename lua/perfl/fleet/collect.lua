--- perfl collect: follows the stream of the agents' deltas into files of rows, or into a store of profiles.

local args = require "perfev.tool.args"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local follow = require "perfl.collect.follow"
local hour_rows = require "perfl.collect.hour_rows"
local message = require "perfl.message"
local native = require "perfl.core"
local native_module = require "perfev.base.native_module"
local parse_units = require "perfev.base.parse_units"
local protocol = require "perfl.fleet.protocol"
local push = require "perfl.collect.push"
local spool = require "perfl.collect.spool"
local stores = require "perfl.collect.stores"
local utc_time = require "perfl.collect.utc_time"
local verbs = require "perfl.verb"

local M = {}

local FAILED = 1
local STREAM = protocol.streams[1].name
local REALTIME = 0
local UNACKNOWLEDGED = 4096 -- messages that the server hands out before the first of them is acknowledged
local ACK_WAIT_S = 20
local RECONNECT_S = 2
local FIRST_MS = 1000
local TRIES = 8 -- of fetch, before the consumer is opened again
local ETIMEDOUT = core.errno.ETIMEDOUT
local ELECTIONS = 5 -- with --once: how often servers without a leader of the stream are asked

local function new_parser()
  local parser = args.new_parser "perfl collect":add_help(true):description("Follow the stream of the agents' "
    .. "aggregators and profiles into files of rows (NDJSON, by job, hour and host), or into a store of profiles.")
  parser:option("--to"):argname("DIR|pprof:URL|otlp:URL"):description("where to: a directory; a store that takes "
    .. "pprof as Pyroscope's /ingest does; a store that takes OTLP profiles (alpha)")
  parser:option("--job"):argname("JOB"):description("only the frames of this job")
  parser:option("--from"):argname("TIME"):description("from when on, at the first start: 2h (ago), 2026-11-28T07:00 "
    .. "(UTC); default: all that the stream keeps. A later start continues")
  parser:flag("--once"):description("end at the end of the stream")
  parser:option("--spool"):argname("DIR"):description("keep frames there while the store does not answer; default: "
    .. "they stay in the stream")
  parser:option("--spool-size"):argname("SIZE"):description("how much (default 256M)"):target("spool_size")
  parser:option("--header-file"):argname("FILE"):description("lines 'Name: value' for each request, as for "
    .. "Authorization"):target("header_file")
  parser:option("--store-ca"):argname("FILE"):description("trust this authority (PEM) for the store, not the system's")
    :target("store_ca")
  parser:option("-s --server"):argname("URL"):description("the NATS server, as in nats://localhost:4222; several: "
    .. "separated by commas"):default("nats://127.0.0.1:4222")
  parser:option("--ca"):argname("FILE"):description("the authority of its certificate; requires TLS")
  parser:option("--cert"):argname("FILE"):description("the own certificate, for it")
  parser:option("--key"):argname("FILE"):description("its key")
  parser:option("--creds"):argname("FILE"):description("the user's credentials")
  parser:flag("-q --quiet"):description("print no summary line")
  return parser
end

-- ---- the command line ----

-- -> list of lines | nil, message
local function read_headers(path)
  local file, why = io.open(path, "r")
  if not file then return nil, ("--header-file: %s"):format(escape(why)) end
  local list = {}
  for line in file:lines() do
    if line:find "%S" then
      if not line:find "^[%w-]+:%s*[^%c]*$" then
        file:close()
        return nil, ("--header-file %s: line %d is not 'Name: value'"):format(escape(path), #list + 1)
      end
      list[#list + 1] = line
    end
  end
  file:close()
  return list
end

local function check_job(opts)
  if opts.job and not protocol.is_token(opts.job) then
    return ("--job '%s': a job's name has letters, digits, '-' and '_'"):format(escape(opts.job))
  end
end

-- Values of the options that need more than a text -> nil | message
local function read_values(opts)
  local why
  if not opts.to then return "--to is missing\ntry: perfl collect --to DIR" end
  if not opts.server:find "[^,%s]" then return "-s: no server\ntry: -s nats://127.0.0.1:4222" end
  opts.store, why = stores.parse(opts.to)
  if why then return why end
  if opts.from then
    opts.from_ns, why = utc_time.parse(opts.from, core.clock(REALTIME))
    if not opts.from_ns then return ("--from '%s': %s"):format(escape(opts.from), why) end
  end
  if opts.spool_size then
    opts.spool_bytes, why = parse_units.size(opts.spool_size)
    if not opts.spool_bytes then return "--spool-size: " .. (why or "a size expected, as in 1G") end
  end
  for _, name in ipairs { "spool", "header_file", "store_ca" } do
    if opts[name] and not opts.store then
      return ("--%s is for a store\ntry: --to pprof:URL"):format((name:gsub("_", "-")))
    end
  end
  if opts.header_file then
    opts.headers, why = read_headers(opts.header_file)
    if not opts.headers then return why end
  end
  return check_job(opts)
end

-- ---- the sink ----

-- -> module | nil, message
local function load_module(name)
  local module, why, remedy = native_module(name)
  if module then return module end
  if native.static then why = ("this perfl is one static file: it does not load the module %s"):format(name) end
  return nil, why .. "\ntry: " .. (remedy or "make deps && make")
end

local function open_push(opts)
  local http_client, why = load_module "perfev.http_client"
  if not http_client then return nil, why end
  local place, failure
  if opts.spool then
    place, failure = spool.open(opts.spool, opts.spool_bytes or 256 << 20)
    if not place then return nil, ("--spool %s: %s"):format(escape(opts.spool), failure) end
  end
  local client = http_client.new { ca = opts.store_ca }
  return push.new(opts.store, { client = client, headers = opts.headers, spool = place })
end

local function open_sink(opts)
  if opts.store then return open_push(opts) end
  local ok, why = load_module "perfev.durable_file"
  if not ok then return nil, why end
  local sink, failure = hour_rows.open(opts.to)
  if not sink then return nil, ("--to %s: %s"):format(escape(opts.to), failure) end
  return sink
end

-- ---- the source ----

-- The name of the durable consumer: its place in the stream is that of this destination and job.
local function durable_name(opts)
  local text = ("%s %s %s"):format(opts.to, opts.job or "", opts.from or "")
  return ("collect-%s-%08x"):format(opts.job or "all", core.crc32(text))
end

local Source = {}
Source.__index = Source

-- What the server has complained about since the last call: it refuses a subject without an answer. Or nil.
local function complaint(self)
  local text
  for _, note in ipairs(self.connection:notes()) do
    if note.kind == "error" then text = note.text end
  end
  return text
end

-- Opens the durable consumer; the stream and the server may be away.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer  errno
local function open_consumer(self)
  local consumer, why, code = self.connection:pull(STREAM, self.name, {
    filter = protocol.delta_subject(self.job or "*", "*", "*"), from = self.from_ns == nil and "all" or nil,
    time = self.from_ns, ack_wait_s = ACK_WAIT_S, unacknowledged = UNACKNOWLEDGED,
  })
  self.consumer = consumer
  if consumer then return true end
  local more = complaint(self)
  if more then return nil, ("%s: %s"):format(why, more), code end
  return nil, why .. "\ntry: perfl agent --make-streams, if there is no stream", code
end

--- Messages; an error of the server is reported once, and tried again.
function Source:fetch(nr, ms)
  if not self.consumer and os.time() >= self.next_try then
    self.next_try = os.time() + RECONNECT_S
    local ok, why, code = open_consumer(self)
    self.timeouts = code == ETIMEDOUT and (self.timeouts or 0) + 1 or nil
    if not ok and self.once and (self.timeouts or ELECTIONS) >= ELECTIONS then return nil, why end
    if not ok then self:report(why) end
  end
  if not self.consumer then
    native.wait_signal(ms)
    return {}
  end
  -- The first messages can take some time; then each says how many are behind it.
  local list, why = self.consumer:fetch(nr, self.once and not self.pending and FIRST_MS or ms)
  if not list then
    self:report(why)
    self.failures = self.failures + 1
    if self.failures >= TRIES then -- the server may have lost the consumer
      self.consumer:close()
      self.consumer, self.failures = nil, 0
    end
    native.wait_signal(ms)
    return {}
  end
  if self.reported then message.say "collect: the server answers again" end
  self.reported, self.failures = nil, 0
  for _, msg in ipairs(list) do self.pending = msg.pending end
  self.empty = #list == 0 and self.empty + 1 or 0
  return list
end

function Source:report(why)
  if not self.reported then message.say(("collect: %s\nit tries again"):format(why)) end
  self.reported = true
end

function Source:ack(msg) if self.consumer then self.consumer:ack(msg) end end
function Source:flush() self.connection:flush(2000) end

function Source:is_at_end()
  if not self.consumer then return false end
  if self.pending then return self.pending == 0 end
  return self.empty >= 2
end

local function open_source(opts)
  local nats, why = load_module "perfev.nats"
  if not nats then return nil, why end
  local urls = {}
  for url in opts.server:gmatch "[^,%s]+" do urls[#urls + 1] = url end
  local connection, failure = nats.connect { url = urls, tls_ca = opts.ca, tls_cert = opts.cert,
    tls_key = opts.key, creds = opts.creds, name = "perfl collect" }
  if not connection then return nil, escape(failure) end
  return setmetatable({ connection = connection, name = durable_name(opts), job = opts.job, from_ns = opts.from_ns,
                        once = opts.once, next_try = 0, failures = 0, empty = 0 }, Source)
end

-- perfev.agg.JOB.HOST.NAME -> job, host
local function names_of(subject) return subject:match "^perfev%.agg%.([^.]+)%.([^.]+)%." end

-- ---- the verb ----

local function stopped()
  if not native.signal() then return false end
  native.heed()
  return true
end

local function run(opts)
  local sink, why = open_sink(opts)
  if not sink then
    message.say("collect: " .. why)
    return FAILED
  end
  local source, failure = open_source(opts)
  if not source then
    message.say("collect: " .. failure)
    return FAILED
  end
  local following = follow.new(source, sink, { once = opts.once, stopped = stopped, names_of = names_of })
  local ok, reason = following:run()
  if not ok then message.say("collect: " .. reason) end
  if not opts.quiet then message.say("collect: " .. following:summary()) end
  sink:close()
  source.connection:close()
  return ok and 0 or FAILED
end

--- The verb.
-- @tparam {string,...} words  of the command line after "collect"
-- @treturn integer  exit status
function M.main(words)
  local opts, status = verbs.parse(new_parser(), "collect", words)
  if not opts then return status end
  local why = read_values(opts)
  if why then
    local _, usage = verbs.refuse("collect", why)
    return usage
  end
  return run(opts)
end

return M
