--- The jobs of `perfl agent`: scripts that run for ever, whose values go to the stream.

local core = require "perfev.core"
local deltas = require "perfl.fleet.deltas"
local frames = require "perfev.aggregate.frames"
local log = require "perfl.fleet.log"
local worker = require "perfl.fleet.worker"

local M = {}
local Job = {}
Job.__index = Job

local MONOTONIC, REALTIME = 1, 0
local S = 1000000000
local LINES_MAX = 20 -- of a worker's messages
local LONGEST_PAUSE_NS, STEADY_NS = 60 * S, 60 * S

-- ---- what a later agent needs to know ----

-- The file has the job's start, the end of its last acknowledged delta, and "ended" after an end in order.
local function state_path(self)
  return self.context.state and ("%s/%s.job"):format(self.context.state, self.config.name)
end

local function remember(self, has_ended)
  local path = state_path(self)
  if not path then return end
  local file, why = io.open(path .. ".new", "w")
  if file then
    local ok, failed = file:write(("%s %d %s\n"):format(self.outbox.start, self.outbox.acknowledged or self.began,
      has_ended and "ended" or "running"))
    file:close()
    if ok then ok, failed = os.rename(path .. ".new", path) end
    why = not ok and failed
  end
  if why then log.warning("state_not_written", { job = self.config.name, reason = why }) end
end

-- Reports what the agent before has not published -> "START:NS", or nil if it ended in order
local function read_state(self)
  local path = state_path(self)
  local file = path and io.open(path)
  if not file then return nil end
  local start, acknowledged, how = (file:read "l" or ""):match "^(%x+) (%d+) (%l+)$"
  file:close()
  if how ~= "running" then return nil end
  log.warning("counts_lost", { job = self.config.name, from = log.time(math.tointeger(acknowledged)),
    to = log.time(self.began), reason = "the agent before did not end in order" })
  return start .. ":" .. acknowledged
end

-- ---- the worker ----

--- The words of perfl for a script in a sandbox.
-- @tparam table opts  `host`, `job`, `memory`, `script`, `args`; `interval`, `duration`: ns
function M.words(opts)
  local words = { "--pack", "-", "--label", "host=" .. opts.host, "--label", "job=" .. opts.job,
                  ("--sandbox=mem=%d"):format(opts.memory), "-q" }
  local function add(...) table.move({ ... }, 1, select("#", ...), #words + 1, words) end
  if opts.interval then add("--interval", opts.interval .. "ns") end
  if opts.duration then add("-d", opts.duration .. "ns") end
  add(opts.script)
  return table.move(opts.args or {}, 1, #(opts.args or {}), #words + 1, words)
end

local function take_frame(self, frame)
  self.last_frame, self.has_frames = frame.header["end"] or self.last_frame, true
  self.context.counts.frames = self.context.counts.frames + 1
  local ok, why = self.outbox:add(frame)
  if ok then return end
  self.context.counts.failed = self.context.counts.failed + 1
  log.error("frame_dropped", { job = self.config.name, name = frame.header.name, reason = why })
end

local function plan_restart(self, status, now)
  local has_failed = status.exit ~= 0
  if self.stopping or not has_failed and self.config.restart == "on-failure" then
    log.info("job_ended", { job = self.config.name, exit = status.exit, signal = status.signal })
    return
  end
  if now - self.started > STEADY_NS then self.failures = 0 end
  self.failures = self.failures + 1
  local pause = math.min(S << math.min(self.failures - 1, 10), LONGEST_PAUSE_NS)
  self.restart_at = now + pause
  self.context.counts.restarts = self.context.counts.restarts + 1
  log[has_failed and "error" or "info"]("job_restarts", { job = self.config.name, exit = status.exit,
    signal = status.signal, text = self.first_line, after_s = pause // S })
end

local function take_end(self, status)
  local name, now = self.config.name, core.clock(MONOTONIC)
  self.worker = nil
  if status.damage then log.error("frames_damaged", { job = name, reason = status.damage }) end
  local has_counted = self.has_frames or now - self.started > S
  if status.exit ~= 0 and not (self.stopping and status.signal == 15) and has_counted then
    log.error("counts_lost", { job = name, from = log.time(self.last_frame or self.began),
      to = log.time(core.clock(REALTIME)), reason = "the worker ended without its last frames" })
  end
  plan_restart(self, status, now)
end

local function start(self)
  local config, context = self.config, self.context
  self.restart_at, self.first_line, self.lines, self.has_frames = nil, nil, 0, false
  self.started, self.last_frame = core.clock(MONOTONIC), core.clock(REALTIME)
  local started, why = worker.start(context.loop, {
    words = M.words { host = context.host, job = config.name, memory = config.memory, interval = config.interval,
                      script = config.script, args = config.args },
    on_frame = function(frame) take_frame(self, frame) end,
    on_line = function(line)
      self.first_line, self.lines = self.first_line or line, self.lines + 1
      if self.lines <= LINES_MAX then log.notice("job_says", { job = config.name, text = line }) end
    end,
    on_end = function(status) take_end(self, status) end,
  })
  if not started then
    self.restart_at = self.started + LONGEST_PAUSE_NS
    return log.error("job_not_started", { job = config.name, reason = why })
  end
  self.worker = started
  log.info("job_started", { job = config.name, pid = started.pid, start = self.outbox.start })
end

-- ---- a job ----

-- The digest of a script's file; scripts inside perfl change with perfl only.
local function digest(script)
  local text = script:find("/", 1, true) and core.slurp(script)
  return text and frames.sha256(text) or ""
end

--- Starts a job.
-- @tparam table config   of the section [job NAME]
-- @tparam table context  `loop`, `host`, `machine`, `counts`, `state` (a directory or nil)
function M.start(config, context)
  local self = setmetatable({ config = config, context = context, failures = 0, began = core.clock(REALTIME),
                              digest = digest(config.script) }, Job)
  self.outbox = deltas.new { job = config.name, host = context.host, machine = context.machine,
                             counts = context.counts, after = read_state(self) }
  remember(self, false)
  start(self)
  return self
end

--- True if a running job is as its settings say.
function Job:is_as(b)
  local a = self.config
  if a.script ~= b.script or a.interval ~= b.interval or a.memory ~= b.memory or a.restart ~= b.restart then
    return false
  end
  if digest(a.script) ~= self.digest then return false end
  local x, y = a.args or {}, b.args or {}
  for i = 1, math.max(#x, #y) do
    if x[i] ~= y[i] then return false end
  end
  return true
end

--- Asks the worker to end; its last frames are published.
function Job:stop(now)
  self.stopping, self.restart_at = true, nil
  if self.worker then self.worker:stop(now) end
end

--- True when the worker has ended and all it counted is acknowledged.
function Job:is_over() return not self.worker and not self.restart_at and self.outbox:is_empty() end

--- Takes an acknowledgement -> true if it is one of this job.
function Job:acknowledge(ack)
  local before = self.outbox.acknowledged
  if not self.outbox:acknowledge(ack) then return false end
  if self.outbox.acknowledged ~= before then remember(self, false) end
  return true
end

--- Does what is due.
function Job:tick(now)
  if self.restart_at and now >= self.restart_at then start(self) end
  if self.stopping and self.worker then self.worker:stop(now) end
  self.outbox:tick(now)
end

--- The end of the agent, or of the job: names what is lost.
function Job:close()
  for _, lost in ipairs(self.outbox:unacknowledged()) do
    log.error("counts_lost", { job = self.config.name, name = lost.name, from = log.time(lost.from),
      to = log.time(lost.to), intervals = lost.intervals, reason = "the stream did not acknowledge them" })
  end
  remember(self, self.outbox:is_empty())
end

return M
