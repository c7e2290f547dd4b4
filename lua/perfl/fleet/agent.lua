--- perfl agent: a service that runs scripts for ever, publishes what they count, and answers perfl gather.
--
-- One thread does everything in the loop of a session without events: pipes of workers, the queues of perfev.nats,
-- signals, and a timer. libnats has threads of its own, so this process never reads rings: its workers do.

local args = require "perfev.tool.args"
local config_file = require "perfl.fleet.config"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local event_loop = require "perfev.live.event_loop"
local jobs = require "perfl.fleet.jobs"
local log = require "perfl.fleet.log"
local message = require "perfl.message"
local metrics = require "perfl.fleet.metrics"
local native_module = require "perfev.base.native_module"
local program = require "perfl.fleet.program"
local protocol = require "perfl.fleet.protocol"
local requests = require "perfl.fleet.requests"
local session = require "perfev.live.session"
local verbs = require "perfl.verb"

local M = {}
local Agent = {}
Agent.__index = Agent

local FAILED, USAGE = 1, 2
local MONOTONIC, REALTIME = 1, 0
local S = 1000000000
local DEFAULT_PATH = "/etc/perfev/agent.conf"
local TICK = "200ms"
local END_NS = 10 * S              -- for the last frames and their acknowledgements
local RECONNECT_NS, COMPLAIN_NS, CONNECT_MS = 2 * S, 60 * S, 1000
local MESSAGES_IN_A_TURN = 100

-- ---- systemd ----

local function notify(self, text)
  local ok, why = self.service.notify(text)
  if ok == nil then log.warning("systemd_not_told", { reason = why }) end
end

local function tell_watchdog(self, now)
  if not self.watchdog_ns or now < self.watchdog_due then return end
  self.watchdog_due = now + self.watchdog_ns // 2
  notify(self, "WATCHDOG=1")
end

-- ---- the server ----

local function for_each_job(self, f)
  for _, job in pairs(self.jobs) do f(job) end
  for _, job in ipairs(self.ending) do f(job) end
end

local function say_hello(self, now)
  local config, names = self.config, { jobs = {}, scripts = {} }
  for name, job in pairs(self.jobs) do
    names.jobs[#names.jobs + 1] = { name = name, script = job.config.script, interval = job.config.interval }
  end
  for name in pairs(config.allow) do names.scripts[#names.scripts + 1] = name end
  table.sort(names.scripts)
  table.sort(names.jobs, function(a, b) return a.name < b.name end)
  local text = protocol.encode { op = "hello", id = self.id, host = config.host, groups = config.groups,
    jobs = names.jobs, scripts = names.scripts, signed = config.signed ~= nil, version = core.version,
    clock = core.clock(REALTIME) }
  self.connection:publish(protocol.hello_subject(config.host), text)
  self.hello_due = now + protocol.HELLO_S * S
end

local FLUSH_MS = 2000

local function take_connected(self)
  self.connection:flush(FLUSH_MS) -- the server has the subscriptions before the log says so
  log.info("connected", { servers = log.words(self.config.server.url) })
  self.complaint = nil
  say_hello(self, core.clock(MONOTONIC))
  for_each_job(self, function(job) job.outbox:connect(self.connection) end)
end

local takers = {
  connected = take_connected,
  disconnected = function(self, text)
    log.warning("disconnected", { reason = text })
    self.complain_at = core.clock(MONOTONIC) + RECONNECT_NS
  end,
  error = function(_, text) log.error("server_refuses", { reason = text }) end,
  slow = function(self, text)
    self.counts.slow = self.counts.slow + 1
    log.error("slow_consumer", { subject = text })
  end,
}

local function acknowledge(self, ack)
  local is_taken = false
  for_each_job(self, function(job) is_taken = is_taken or job:acknowledge(ack) end)
end

-- Empties the queues of the connection; requests only so far that pipes and timers get their turn.
local function take_from_server(self)
  local connection = self.connection
  for _, note in ipairs(connection:notes()) do
    if takers[note.kind] then takers[note.kind](self, note.text) end
  end
  for _, ack in ipairs(connection:acks()) do acknowledge(self, ack) end
  for _, subscription in ipairs(self.subscriptions) do
    for _ = 1, MESSAGES_IN_A_TURN do
      local received = subscription:next()
      if not received then break end
      self.requests:take(received.data)
    end
  end
end

local function subscribe(self)
  local config, seen = self.config, {}
  self.subscriptions = {}
  local targets = { "all", config.host }
  for _, target in ipairs(table.move(config.groups, 1, #config.groups, 3, targets)) do
    if not seen[target] then
      seen[target] = true
      local subscription, why = self.connection:subscribe(protocol.run_subject(target), nil,
        { messages = 1000, bytes = 16 << 20 })
      if subscription then
        table.insert(self.subscriptions, subscription)
      else
        log.error("not_subscribed", { target = target, reason = why })
      end
    end
  end
end

-- -> connection | nil, why. With `retry` it goes on in the background until a server answers.
local function open_connection(self, retry)
  local config = self.config
  local server = config.server
  return self.nats.connect { url = server.url, tls_ca = server.ca, tls_cert = server.certificate,
    tls_key = server.key, user = server.user, password = server.password, creds = server.credentials,
    name = "perfl agent " .. config.host, inbox = "_INBOX." .. config.host, retry = retry, timeout_ms = CONNECT_MS }
end

-- Logs a reason when it changes. A server ends the connection without a reason if it does not trust a certificate.
local function complain(self, why, code)
  if why == self.complaint then return end
  self.complaint = why
  local is_cut = self.config.server.certificate and code == core.errno.EIO
  log.error("not_connected", { reason = why, hint = is_cut and "the server may not trust the certificate: read its log"
    or nil })
end

local function connect(self, now)
  local connection, why, code = open_connection(self, true)
  if not connection then
    self.connect_due = now + RECONNECT_NS
    return complain(self, why, code)
  end
  self.connection, self.connect_due, self.complain_at = connection, nil, now + RECONNECT_NS
  self.loop:watch(connection:fd(), function() take_from_server(self) end)
  subscribe(self)
  if connection:status() == "connected" then take_connected(self) end
end

local function disconnect(self)
  if not self.connection then return end
  for_each_job(self, function(job) job.outbox.connection = nil end)
  self.loop:unwatch(self.connection:fd())
  self.connection:close()
  self.connection, self.subscriptions = nil, {}
end

-- Asks for the reason with a connection of its own: libnats keeps none while it retries.
local function find_reason(self, now)
  local probe, why, code = open_connection(self, false)
  if probe then
    probe:close()
  else
    complain(self, why, code)
  end
  self.complain_at = now + COMPLAIN_NS
end

local function check_connection(self, now)
  local status = self.connection and self.connection:status()
  if status == "connected" then
    if now >= self.hello_due then say_hello(self, now) end
    return
  end
  if status == "closed" then -- libnats has given up
    find_reason(self, now)
    disconnect(self)
    self.connect_due = now + RECONNECT_NS
  elseif status and now >= self.complain_at then
    find_reason(self, now)
  end
  if self.connect_due and now >= self.connect_due then connect(self, now) end
end

-- ---- jobs ----

local function job_context(self)
  return { loop = self.loop, host = self.config.host, machine = self.machine, counts = self.counts,
           state = os.getenv "STATE_DIRECTORY" }
end

local function start_job(self, config)
  local job = jobs.start(config, job_context(self))
  self.jobs[config.name] = job
  if self.connection then job.outbox:connect(self.connection) end
end

local function end_job(self, name, now)
  local job = self.jobs[name]
  self.jobs[name] = nil
  self.ending[#self.ending + 1] = job
  job:stop(now)
end

-- True while a job of that name still runs, after it was asked to end.
local function is_ending(self, name)
  for _, job in ipairs(self.ending) do
    if job.config.name == name and job.worker then return true end
  end
  return false
end

-- Starts the jobs of the configuration that do not run; a changed one when the old one has ended.
local function start_missing(self)
  for name, config in pairs(self.config.job) do
    if not self.jobs[name] and not is_ending(self, name) then start_job(self, config) end
  end
end

local function reap_jobs(self)
  for i = #self.ending, 1, -1 do
    local job = self.ending[i]
    if job:is_over() then
      job:close()
      table.remove(self.ending, i)
    end
  end
end

-- ---- reload and end ----

local function report_faults(faults)
  for _, fault in ipairs(faults) do log.error("configuration", { fault = fault }) end
end

local function is_same_server(a, b)
  if a.host ~= b.host or table.concat(a.groups, " ") ~= table.concat(b.groups, " ") then return false end
  for _, name in ipairs { "ca", "certificate", "key", "user", "password", "credentials" } do
    if a.server[name] ~= b.server[name] then return false end
  end
  return table.concat(a.server.url, " ") == table.concat(b.server.url, " ")
end

local function reload(self)
  if self.stop_by then return end
  local now = core.clock(MONOTONIC)
  notify(self, ("RELOADING=1\nMONOTONIC_USEC=%d"):format(now // 1000))
  local old, new, faults = self.config, config_file.read(self.path)
  if new then
    log.open(new.log)
    local is_same_host = old.host == new.host
    self.config, self.requests.context.config, self.requests.context.host = new, new, new.host
    for name, job in pairs(self.jobs) do
      local config = new.job[name]
      if not (is_same_host and config and job:is_as(config)) then end_job(self, name, now) end
    end
    if not is_same_server(old, new) then
      disconnect(self)
      connect(self, now)
    end
    start_missing(self)
    log.info("reloaded", { path = self.path })
  else
    report_faults(faults)
    log.error("not_reloaded", { path = self.path, reason = "the configuration before stays" })
  end
  notify(self, "READY=1")
end

local function stop(self, signal)
  local now = core.clock(MONOTONIC)
  if self.stop_by then -- the second signal
    self.stop_by = now
    return
  end
  log.info("stopping", { signal = signal })
  notify(self, "STOPPING=1")
  self.stop_by = now + END_NS
  self.requests:close "the agent ends"
  for name in pairs(self.jobs) do end_job(self, name, now) end
end

local function tick(self)
  local now = core.clock(MONOTONIC)
  tell_watchdog(self, now)
  check_connection(self, now)
  for_each_job(self, function(job) job:tick(now) end)
  self.requests:tick(now)
  reap_jobs(self)
  if not self.stop_by then return start_missing(self) end
  local is_over = not self.ending[1] and not self.requests:is_busy()
  if is_over or now >= self.stop_by then self.session:stop() end
end

local function close(self)
  for_each_job(self, function(job) job:close() end)
  if self.connection then self.connection:flush(1000) end
  disconnect(self)
  log.info("stopped", {})
end

-- ---- the start ----

local function answer(self, id, fields, body)
  if not self.connection then return nil, "not connected" end
  return self.connection:publish(protocol.result_subject(self.config.host, id), protocol.encode(fields, body))
end

-- A defect in a handler must not end the jobs.
local function report_defect(object, where, trace)
  log.error("defect", { text = message.shown(object), place = where, trace = trace })
end

local function protect(f)
  return function()
    local ok, why = xpcall(f, message.traceback)
    if not ok then report_defect(why) end
  end
end

local function new_loop(s)
  return {
    watch = function(_, fd, f)
      local ok, why = event_loop.watch_descriptor(s, fd, protect(f))
      if not ok then error(why, 0) end
    end,
    unwatch = function(_, fd) s.handlers[fd] = nil end,
  }
end

local function machine_id()
  return (core.slurp "/etc/machine-id" or ""):match "^%x+"
end

local function new_agent(config, path, modules)
  local s = session.new { on_error = report_defect }
  local self = setmetatable({ config = config, path = path, nats = modules.nats, service = modules.service,
                              session = s, loop = new_loop(s), jobs = {}, ending = {}, subscriptions = {},
                              counts = metrics.new_counts(), id = protocol.new_id(), machine = machine_id(),
                              hello_due = 0, complain_at = 0 }, Agent)
  local usec = math.tointeger(tonumber(os.getenv "WATCHDOG_USEC"))
  if usec then self.watchdog_ns, self.watchdog_due = usec * 1000, 0 end
  self.requests = requests.new { loop = self.loop, host = config.host, config = config, counts = self.counts,
                                 answer = function(...) return answer(self, ...) end }
  return self
end

local function run(self)
  local s = self.session
  s:signal("HUP", function() reload(self) end)
  s:signal("TERM", function() stop(self, "TERM") end)
  s:signal("INT", function() stop(self, "INT") end)
  s:every(TICK, function() tick(self) end)
  s:begin(function()
    metrics.serve(self)
    start_missing(self)
    connect(self, core.clock(MONOTONIC)) -- may wait for a server that does not answer
    notify(self, "READY=1\nSTATUS=" .. self.config.host)
  end)
  local ok, why = s:run()
  close(self)
  if ok then return 0 end
  message.say("agent: " .. message.shown(why))
  return FAILED
end

-- ---- the command line ----

-- Checks the command line of a job as perfl would -> true | nil, its message
local function check_job(job)
  local words = { core.exe(), "--dry-run", job.script }
  local ok, plan, text = program.run(table.move(job.args or {}, 1, #(job.args or {}), #words + 1, words))
  if ok then return true end
  if text == "" then text = "an event is not available here\n" .. plan end
  return nil, (text:gsub("^perfl: ", ""):gsub("\n%s*", "\n"):gsub("\n$", ""))
end

local function sorted_jobs(config)
  local list = {}
  for _, job in pairs(config.job) do list[#list + 1] = job end
  table.sort(list, function(a, b) return a.line < b.line end)
  return list
end

local function count(t)
  local nr = 0
  for _ in pairs(t) do nr = nr + 1 end
  return nr
end

local function check(config, path)
  local status = 0
  for _, job in ipairs(sorted_jobs(config)) do
    local ok, why = check_job(job)
    if not ok then
      message.say(("%s:%d: job '%s': %s"):format(escape(path), job.line, job.name, why))
      status = USAGE
    end
  end
  if status == 0 then
    io.write(("%s: host %s, %d jobs, %d allowed scripts, %s\n"):format(escape(path), config.host, count(config.job),
      count(config.allow), config.signed and "signed texts" or "no texts"))
  end
  return status
end

-- Makes the streams that agents publish to; existing ones stay.
local function make_streams(config, modules, replicas)
  local connection, why = open_connection({ config = config, nats = modules.nats }, false)
  for _, stream in ipairs(connection and protocol.streams or {}) do
    local ok
    ok, why = connection:stream_add(setmetatable({ replicas = replicas }, { __index = stream }))
    if not ok then break end
    print("stream " .. stream.name)
  end
  if connection then connection:close() end
  if not why then return 0 end
  message.say("agent: " .. escape(why))
  return FAILED
end

local function load_modules()
  local modules = {}
  for _, name in ipairs { "nats", "service" } do
    local module, why, remedy = native_module("perfev." .. name)
    if not module then return nil, why .. "\ntry: " .. (remedy or "make deps, make") end
    modules[name] = module
  end
  return modules
end

--- The verb.
-- @tparam {string,...} words  of the command line after "agent"
-- @treturn integer  exit status: 0 after SIGTERM, 1 if it cannot run, 2 for an invalid configuration
function M.main(words)
  local parser = args.new_parser "perfl agent":description("Run scripts for ever, publish what they count to NATS, "
    .. "and answer perfl gather.")
  parser:option("-c --config"):argname("FILE"):default(DEFAULT_PATH):description("the configuration")
  parser:flag("--check"):description("check the configuration, and the command line of each job")
  parser:flag("--make-streams"):description("make the streams of the server that agents publish to, and end")
  parser:option("--replicas"):argname("N"):default("1"):convert(math.tointeger):description(
    "with --make-streams: servers that keep each message")
  parser:epilog("SIGHUP reads the configuration again; jobs that did not change go on.")
  local opts, status = verbs.parse(parser, "agent", words)
  if not opts then return status end
  local config, faults = config_file.read(opts.config)
  if not config then
    for _, fault in ipairs(faults) do message.say(fault) end
    return USAGE
  end
  local modules, why = load_modules()
  if not modules then
    message.say("agent: " .. why)
    return FAILED
  end
  if opts.check then return check(config, opts.config) end
  if opts.make_streams then return make_streams(config, modules, opts.replicas) end
  log.open(config.log)
  return run(new_agent(config, opts.config, modules))
end

return M
