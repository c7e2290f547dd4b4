--- The requests that `perfl agent` gets from perfev.run.*: which it refuses, which it runs, and what it answers.

local config_file = require "perfl.fleet.config"
local core = require "perfev.core"
local jobs = require "perfl.fleet.jobs"
local log = require "perfl.fleet.log"
local protocol = require "perfl.fleet.protocol"
local signature = require "perfl.fleet.signature"
local worker = require "perfl.fleet.worker"

local M = {}
local Requests = {}
Requests.__index = Requests

local MONOTONIC, REALTIME = 1, 0
local S = 1000000000
local RESULT_MAX = 64 << 20          -- bytes of the frames of one run
local RESULTS_MAX = 4                -- ended runs whose frames wait to be fetched
local UNFETCHED_NS = 120 * S         -- until the frames of a silent asker are dropped
local SLACK_NS = 10 * S              -- for a run to end by itself after its duration
local FETCH_MAX = 64
local TEXT_MAX = 4096                -- of standard error in an answer
local KNOWN_MAX = 4096               -- ids that are remembered

--- @tparam table context  `loop`, `host`, `counts`, `answer`(id, fields, body); `config`: of the agent
function M.new(context)
  return setmetatable({ context = context, queue = {}, runs = {}, known = {}, ids = {}, next_id = 0 }, Requests)
end

local function answer(self, id, fields, body)
  fields.id, fields.host = id, self.context.host
  return self.context.answer(id, fields, body)
end

local function refuse(self, fields, reason)
  self.context.counts.refused = self.context.counts.refused + 1
  log.warning("request_refused", { id = fields.id, asker = fields.asker, script = fields.script, reason = reason })
  answer(self, fields.id, { op = "refused", reason = reason })
end

-- Remembers an id, and forgets the oldest one -> true if it is new
local function is_new(self, id)
  if self.known[id] then return false end
  self.next_id = self.next_id % KNOWN_MAX + 1
  local oldest = self.ids[self.next_id]
  if oldest then self.known[oldest] = nil end
  self.ids[self.next_id], self.known[id] = id, true
  return true
end

-- ---- what is refused ----

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

-- A text with its signature -> the run's `directory`, `file` and `signer` | nil, why
local function accept_text(self, fields, text)
  local signed = self.context.config.signed
  if not signed then return nil, "this host runs installed scripts only: its configuration has no section [signed]" end
  local name = fields.script:gsub("%.lua$", "")
  if not name:find "^[%w_][%w_.-]*$" or #name > 64 then
    return nil, ("'%s' is not a name for a script"):format(fields.script)
  end
  if #text > protocol.TEXT_MAX then return nil, "the text is larger than 256 KiB" end
  if not fields.signature then return nil, ("the text of '%s' is not signed"):format(fields.script) end
  local directory, why = signature.directory()
  if not directory then return nil, "no directory for the text: " .. why end
  local file = name .. ".lua"
  local out
  out, why = io.open(directory .. "/" .. file, "wb")
  local written = out and out:write(text)
  if out then out:close() end
  local signer
  if written then signer, why = signature.verify(directory, file, fields.signature, signed.signers) end
  if not signer then
    signature.remove(directory, { file })
    return nil, ("the signature of '%s' is not valid: %s"):format(fields.script, why)
  end
  return { directory = directory, file = file, signer = signer, script = directory .. "/" .. file,
           options = signed.option }
end

local function accept_installed(self, fields)
  local allowed = self.context.config.allow[fields.script]
  if not allowed then
    local names = sorted(self.context.config.allow)
    return nil, ("script '%s' is not allowed on this host; allowed: %s"):format(fields.script,
      names ~= "" and names or "none")
  end
  return { script = fields.script, options = allowed.option }
end

local function skew_of(fields)
  return fields.time and core.clock(REALTIME) - fields.time or nil
end

-- Why the times of a request are refused, or nil.
local function wrong_time(self, fields)
  local limits, skew = self.context.config.requests, skew_of(fields)
  if not skew then return "the request has no time" end
  if math.abs(skew) > limits.skew then
    return ("the clocks of asker and host differ by %.1f s, more than %g s"):format(math.abs(skew) / S, limits.skew / S)
  end
  if fields.duration_ms and fields.duration_ms * 1000000 > limits.longest then
    return ("%g s is too long: at most %g s"):format(fields.duration_ms / 1000, limits.longest / S)
  end
  local interval = fields.interval_ms
  if interval and interval < 1000 then return ("an interval of %d ms is too short: at least 1 s"):format(interval) end
  return fields.duration_ms and fields.duration_ms <= 0 and "the duration is not positive" or nil
end

-- -> { script =, options =, directory = ... } | nil, why
local function accept(self, fields, text)
  if self.closed then return nil, self.closed end
  if not fields.script then return nil, "the request names no script" end
  local why = wrong_time(self, fields)
  if why then return nil, why end
  if self.current and #self.queue >= self.context.config.requests.queue then
    return nil, ("busy: %d requests wait"):format(#self.queue)
  end
  local accepted
  if text ~= "" then
    accepted, why = accept_text(self, fields, text)
  else
    accepted, why = accept_installed(self, fields)
  end
  if not accepted then return nil, why end
  local ok, word = config_file.check_words(accepted.options, fields.args or {})
  if ok then return accepted end
  if accepted.directory then signature.remove(accepted.directory, { accepted.file }) end
  return nil, ("option '%s' is not permitted for script '%s' on this host"):format(word, fields.script)
end

-- ---- a run ----

local function drop(self, run)
  self.runs[run.id] = nil
  run.frames, run.is_dropped = {}, true
  if run.directory then signature.remove(run.directory, { run.file }) end
  run.directory = nil
end

local function say_ready(self, run, is_final)
  answer(self, run.id, { op = "ready", frames = #run.frames, bytes = run.bytes, final = is_final, status = run.status,
    text = run.text ~= "" and run.text or nil, clock = core.clock(REALTIME) })
end

local function say_failed(self, run, reason)
  self.context.counts.failed_requests = self.context.counts.failed_requests + 1
  log.error("request_failed", { id = run.id, script = run.fields.script, reason = reason })
  answer(self, run.id, { op = "failed", reason = reason, text = run.text ~= "" and run.text or nil })
  drop(self, run)
end

-- The oldest ended runs make room.
local function limit_results(self)
  local ended = {}
  for _, run in pairs(self.runs) do
    if run.ended then ended[#ended + 1] = run end
  end
  table.sort(ended, function(a, b) return a.ended < b.ended end)
  for i = 1, #ended - RESULTS_MAX do drop(self, ended[i]) end
end

local start_next

local function take_end(self, run, status)
  self.current, run.worker, run.ended = nil, nil, core.clock(MONOTONIC)
  run.status = run.is_cut and 0 or status.exit or 128 + (status.signal or 0)
  if not run.is_dropped then
    if status.damage then
      say_failed(self, run, "damaged frames: " .. status.damage)
    elseif run.too_large then
      say_failed(self, run, "the result is larger than 64 MiB")
    elseif #run.frames == 0 then
      local line = run.text:match "([^\n]+)\n*$" or "no reason is given"
      say_failed(self, run, ("the script ended with status %d: %s"):format(run.status, line))
    else
      log.info("request_done", { id = run.id, frames = #run.frames, bytes = run.bytes, status = run.status })
      say_ready(self, run, true)
      limit_results(self)
    end
  end
  if run.directory then signature.remove(run.directory, { run.file }) end
  run.directory = nil
  start_next(self)
end

local function take_frame(run, frame)
  if run.is_dropped or run.too_large then return end
  if run.bytes + #frame.bytes > RESULT_MAX then
    run.too_large = true
    return run.worker:stop(core.clock(MONOTONIC))
  end
  run.frames[#run.frames + 1], run.bytes = frame.bytes, run.bytes + #frame.bytes
  if run.fields.interval_ms then run.is_fresh = true end
end

local function start(self, run)
  local config, fields = self.context.config.requests, run.fields
  local duration = fields.duration_ms and fields.duration_ms * 1000000
  run.started = core.clock(MONOTONIC)
  run.touched = run.started
  run.deadline = run.started + (duration and duration + SLACK_NS or config.longest)
  self.current = run
  local started, why = worker.start(self.context.loop, {
    words = jobs.words { host = self.context.host, job = "request", memory = config.memory, script = run.script,
                         args = fields.args, duration = duration,
                         interval = fields.interval_ms and fields.interval_ms * 1000000 },
    on_frame = function(frame) take_frame(run, frame) end,
    on_line = function(line)
      if #run.text < TEXT_MAX then run.text = run.text .. line .. "\n" end
    end,
    on_end = function(status) take_end(self, run, status) end,
  })
  if not started then
    self.current = nil
    return say_failed(self, run, why)
  end
  run.worker = started
  log.info("request_started", { id = run.id, asker = fields.asker, script = fields.script, signer = run.signer,
    args = log.words(fields.args or {}), pid = started.pid })
end

function start_next(self)
  while not self.current and self.queue[1] do start(self, table.remove(self.queue, 1)) end
end

-- ---- operations ----

local operations = {}

function operations.run(self, fields, text)
  if not protocol.names_host(fields, self.context.host) or not is_new(self, fields.id) then return end
  self.context.counts.requests = self.context.counts.requests + 1
  local run, why = accept(self, fields, text)
  if not run then return refuse(self, fields, why) end
  run.id, run.fields, run.frames, run.bytes, run.text = fields.id, fields, {}, 0, ""
  local skew = skew_of(fields)
  if math.abs(skew) > protocol.SKEW_NS then
    log.warning("clocks_differ", { id = fields.id, asker = fields.asker, seconds = skew / S })
  end
  self.runs[run.id] = run
  self.queue[#self.queue + 1] = run
  answer(self, run.id, { op = "accepted", clock = core.clock(REALTIME),
    place = self.current and #self.queue or 0 })
  start_next(self)
end

function operations.fetch(self, fields)
  local run = self.runs[fields.id]
  if not run then return end
  run.touched = core.clock(MONOTONIC)
  local from = math.max(1, fields.from or 1)
  local last = math.min(#run.frames, from + math.min(math.max(fields.count or 1, 1), FETCH_MAX) - 1)
  for i = from, last do
    local ok, why = answer(self, run.id, { op = "frame", index = i, frames = #run.frames }, run.frames[i])
    if not ok then return log.warning("frame_not_sent", { id = run.id, index = i, reason = why }) end
    self.context.counts.frames_sent = self.context.counts.frames_sent + 1
  end
end

function operations.stop(self, fields)
  local run = self.runs[fields.id]
  if not run then return end
  log.info("request_stopped", { id = run.id, asker = fields.asker })
  for i, waiting in ipairs(self.queue) do
    if waiting == run then table.remove(self.queue, i) break end
  end
  if run.worker then run.worker:stop(core.clock(MONOTONIC)) end
  drop(self, run)
end

--- Takes a message from perfev.run.*.
-- @tparam string bytes
function Requests:take(bytes)
  local fields, text = protocol.decode(bytes)
  if not fields then
    self.context.counts.refused = self.context.counts.refused + 1
    return log.warning("request_refused", { reason = "not a request: " .. text })
  end
  local operation = operations[fields.op]
  if operation then operation(self, fields, text) end
end

--- Does what is due: ends runs that are too long, tells of new frames, drops what nobody fetches.
function Requests:tick(now)
  local run = self.current
  if run and run.worker and (run.worker.stopped or now > run.deadline) then
    run.is_cut = run.is_cut or not run.worker.stopped
    run.worker:stop(now)
  end
  for _, one in pairs(self.runs) do
    if one.is_fresh and one.worker then
      one.is_fresh = false
      say_ready(self, one, false)
    end
    local is_silent = one.touched and now - math.max(one.touched, one.ended or 0) > UNFETCHED_NS
    if is_silent and (one.ended or one.fields.interval_ms) then
      log.warning("result_dropped", { id = one.id, reason = "the asker does not fetch it" })
      operations.stop(self, { id = one.id })
    end
  end
end

--- Ends all runs; askers are told. Refuses further ones.
function Requests:close(reason)
  self.closed = reason
  for _, run in ipairs(self.queue) do say_failed(self, run, reason) end
  self.queue = {}
  local run = self.current
  if not run then return end
  if not run.is_dropped then say_failed(self, run, reason) end
  if run.worker then run.worker:stop(core.clock(MONOTONIC)) end
end

--- True while a worker runs.
function Requests:is_busy() return self.current ~= nil end

return M
