--- A perfl in a process of its own, whose frames and messages come through pipes.
--
-- It keeps the libraries' threads of the agent away from the rings, and it can be limited, ended and restarted.

local core = require "perfev.core"
local frames = require "perfev.aggregate.frames"
local service = require("perfev.base.lazy_module") "perfev.service"
local real = require("perfev").hooks.real

local M = {}
local Worker = {}
Worker.__index = Worker

local SIGKILL, SIGTERM = 9, 15
local EAGAIN = core.errno.EAGAIN
local PIECE, PIECES, LINE_MAX = 65536, 64, 2048
local KILL_AFTER_NS = 10 * 1000000000

-- Calls read_line for each line of the worker's messages. A line without an end is cut.
local function feed_lines(self, bytes)
  self.rest = self.rest .. bytes
  for line in self.rest:gmatch "([^\n]*)\n" do self.on_line(line:sub(1, LINE_MAX)) end
  self.rest = self.rest:match "([^\n]*)$"
  if #self.rest > LINE_MAX then
    self.on_line(self.rest:sub(1, LINE_MAX))
    self.rest = ""
  end
end

local function feed_frames(self, bytes)
  self.reader:feed(bytes)
  while true do
    local frame, why = self.reader:next()
    if not frame then
      if why then self.damage = self.damage or why end
      return
    end
    self.on_frame(frame)
  end
end

-- True if the other end is closed.
local function read_pipe(fd, feed)
  for _ = 1, PIECES do
    local bytes, code = real.read(fd, PIECE)
    if not bytes then return code ~= EAGAIN end
    if bytes == "" then return true end
    feed(bytes)
  end
  return false
end

local function reap(self)
  local status = real.wait(self.pid, 1)
  local signal = status and status & 127
  self.is_over = true
  self.reader:feed(nil)
  feed_frames(self, "")
  if self.rest ~= "" then self.on_line(self.rest) end
  self.on_end({ exit = signal == 0 and status >> 8 or nil, signal = signal ~= 0 and signal or nil,
                damage = self.damage })
end

-- The worker is over when both of its pipes are: then it has ended, or is about to.
local function watch(self, loop, name, feed)
  local fd = self[name]
  self.open = self.open + 1
  loop:watch(fd, function()
    if not read_pipe(fd, feed) then return end
    loop:unwatch(fd)
    real.close(fd)
    self.open = self.open - 1
    if self.open == 0 then reap(self) end
  end)
end

--- Starts one.
-- @tparam table loop       the loop of the agent
-- @tparam table opts       `words` of perfl; `on_frame`(frame), `on_line`(text), `on_end`{ exit or signal, damage }
-- @treturn[1] table        `pid`, `is_over`
-- @treturn[2] nil
-- @treturn[2] string
function M.start(loop, opts)
  local argv = table.move(opts.words, 1, #opts.words, 2, { core.exe() })
  local started, why, code = service.start(argv)
  if not started then return nil, why, code end
  local self = setmetatable({ pid = started.pid, out = started.out, err = started.err, open = 0, rest = "",
                              reader = frames.reader(), on_frame = opts.on_frame, on_line = opts.on_line,
                              on_end = opts.on_end }, Worker)
  watch(self, loop, "out", function(bytes) feed_frames(self, bytes) end)
  watch(self, loop, "err", function(bytes) feed_lines(self, bytes) end)
  return self
end

--- Asks it to end: it writes its last frames first. After 10 s it is killed: call it again with the time.
-- @tparam integer now  CLOCK_MONOTONIC in ns
function Worker:stop(now)
  if self.is_over then return end
  if not self.stopped then
    self.stopped = now
    real.kill(self.pid, SIGTERM)
  elseif now - self.stopped > KILL_AFTER_NS and not self.killed then
    self.killed = true
    real.kill(self.pid, SIGKILL)
  end
end

return M
