-- nats_server.lua - starts nats-server(1) on a free port of the loopback, with JetStream in a new directory.
--
--   local nats_server = require "spec.support.nats_server"
--   local server, why_not = nats_server.start()            -- nil and the reason if it is not installed
--   server.url, server.pid, server.dir
--   server:kill("KILL") server:restart()                    -- the same port and the same streams
--   server:stop()                                           -- in teardown: kills it and removes its directory
--
-- Options of start(): `config` is text that the configuration file gets, with @DIR@ for the directory; `name`; `port`;
-- `jetstream = false`. A server that is left over ends after LONGEST seconds.

local json = require "perfev.base.json"
local run = require "spec.support.run"

local LONGEST, TRIES = 900, 400

-- It is not in the PATH of users without rights.
local PROGRAM = run.have "nats-server" and "nats-server" or run.have "/usr/sbin/nats-server" and "/usr/sbin/nats-server"

local M = { is_installed = PROGRAM ~= nil and PROGRAM ~= false }

local Server = {}
Server.__index = Server

local function pause() os.execute "sleep 0.05" end

local function configuration(self)
  local lines = { ("listen: 127.0.0.1:%s"):format(self.port or -1), ('pid_file: "%s/pid"'):format(self.dir),
                  ('ports_file_dir: "%s"'):format(self.dir), ('log_file: "%s/log"'):format(self.dir) }
  if self.name then lines[#lines + 1] = ('server_name: "%s"'):format(self.name) end
  if self.jetstream then lines[#lines + 1] = ('jetstream { store_dir: "%s/store" }'):format(self.dir) end
  lines[#lines + 1] = (self.config:gsub("@DIR@", self.dir))
  return table.concat(lines, "\n") .. "\n"
end

-- The client's URL in the file that the server writes when it is ready.
local function read_url(self)
  self.pid = tonumber((run.slurp(self.dir .. "/pid")))
  local text = self.pid and run.slurp(("%s/nats-server_%d.ports"):format(self.dir, self.pid))
  local ports = text and json.decode(text)
  return ports and ports.nats and ports.nats[1]
end

local function launch(self)
  run.write_file(self.dir .. "/nats.conf", configuration(self))
  os.remove(self.dir .. "/pid")
  assert(os.execute(("timeout -k 1 %d %s -c %s/nats.conf >%s/out 2>&1 </dev/null &"):format(LONGEST, PROGRAM,
    self.dir, self.dir)))
  for _ = 1, TRIES do
    local url = read_url(self)
    if url then
      self.port = tonumber(url:match ":(%d+)$")
      self.url = ("nats://127.0.0.1:%d"):format(self.port)
      return self
    end
    pause()
  end
  local text = (run.slurp(self.dir .. "/out") or "") .. (run.slurp(self.dir .. "/log") or "")
  self:stop()
  error("nats-server does not start:\n" .. text)
end

--- True while the process exists.
function Server:is_running()
  return self.pid ~= nil and os.execute(("kill -0 %d 2>/dev/null"):format(self.pid)) ~= nil
end

--- Sends a signal; after KILL and TERM it returns when the process has ended.
function Server:kill(signal)
  os.execute(("kill -%s %d 2>/dev/null"):format(signal, self.pid))
  for _ = 1, (signal == "KILL" or signal == "TERM") and TRIES or 0 do
    if not self:is_running() then return end
    pause()
  end
end

--- Starts it again after kill().
function Server:restart() return launch(self) end

--- What it has logged.
function Server:log() return run.slurp(self.dir .. "/log") or "" end

function Server:stop()
  if self.pid then self:kill "KILL" end
  self.pid = nil
  if self.dir then run.remove(self.dir) end
  self.dir = nil
end

Server.__gc = Server.stop

--- @tparam ?table opt  see above
-- @treturn[1] table   the server, ready
-- @treturn[2] nil
-- @treturn[2] string  why there is none
function M.start(opt)
  opt = opt or {}
  if not PROGRAM then return nil, "nats-server is not installed" end
  local self = setmetatable({ dir = run.tempdir(), config = opt.config or "", name = opt.name, port = opt.port,
                              jetstream = opt.jetstream ~= false }, Server)
  return launch(self)
end

return M
