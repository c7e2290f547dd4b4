-- answering_agents.lua - agents that answer perfl gather from the spec's own process, one connection for all of them.
--
--   local agents = answering_agents.new(server.url, { "web1", "web2" })
--   agents.behave.web2 = agents.refuse "not allowed"
--   local r = agents:gather { "--wait", "2s", agents.script }   -- { out =, err =, code = }
--   agents.requests                                 -- every message that they got: { target =, fields =, body = }
--
-- Host i of the list has counted `calls` i times for its own comm and i times for "all". A behaviour is a table of
-- functions by operation: run(agents, host, fields), fetch(…), stop(…).

local frames = require "perfev.aggregate.frames"
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"
local run = require "spec.support.run"

local TEXT = [[
local perfev = require "perfev"
local calls = perfev.count { by = "comm", title = "calls" }
perfev.event { "context-switches", sample = calls }
perfev.done(function()
  local lines = {}
  for comm, n in calls:pairs() do lines[#lines + 1] = comm .. " " .. n end
  table.sort(lines)
  for _, line in ipairs(lines) do print(line) end
end)
]]
local TRIES = 6000

local M = {}
local Agents = {}
Agents.__index = Agents

M.text = TEXT

--- Answers a message.
function Agents:answer(host, id, fields, body)
  fields.id, fields.host = id, host
  assert(self.connection:publish(protocol.result_subject(host, id), protocol.encode(fields, body)))
end

--- The header of a frame of a host.
function Agents.header(_, host, more)
  local header = { host = host, start = frames.sha256(host):sub(1, 32), seq = 0, name = "calls", kind = "count",
                   script = "calls.lua", script_sha256 = frames.sha256(TEXT), args = "[]",
                   args_sha256 = frames.sha256 "[]", last = 1 }
  for key, value in pairs(more or {}) do header[key] = value end
  return header
end

--- The frames of a host: nr of them, which count together what one would.
function Agents:frames_of(host, nr)
  local list, times = {}, self.index[host]
  nr = nr or 1
  for seq = 0, nr - 1 do
    local a = perfev.count { by = "comm", title = "calls" }
    for _ = 1, seq == 0 and times or 0 do
      a:inc(host)
      a:inc "all"
    end
    local header = self:header(host, { seq = seq, last = seq == nr - 1 and 1 or 0 })
    for _, part in ipairs(assert(frames.encode(header, a))) do list[#list + 1] = part end
  end
  return list
end

-- ---- behaviours ----

M.silent = { run = function() end }

function M.refuse(reason)
  return { run = function(self, host, fields) self:answer(host, fields.id, { op = "refused", reason = reason }) end }
end

function M.fail(reason)
  return { run = function(self, host, fields) self:answer(host, fields.id, { op = "failed", reason = reason }) end }
end

--- Accepts, and is never heard of again.
M.dying = { run = function(self, host, fields) self:answer(host, fields.id, { op = "accepted", place = 0 }) end }

--- Sends these bodies in the place of frames; more: fields of the answer to a fetch.
function M.sending(bodies, more)
  return {
    run = function(self, host, fields)
      self:answer(host, fields.id, { op = "accepted", place = 0 })
      self:answer(host, fields.id, { op = "ready", frames = #bodies, final = true })
    end,
    fetch = function(self, host, fields)
      for i = fields.from, math.min(fields.from + fields.count - 1, #bodies) do
        local answer = { op = "frame", index = i, frames = #bodies }
        for key, value in pairs(more or {}) do answer[key] = value end
        self:answer(host, fields.id, answer, bodies[i])
      end
    end,
  }
end

-- ---- the agents ----

local function take(self, subscription, host)
  local message = subscription:next()
  if not message then return false end
  local fields, body = assert(protocol.decode(message.data))
  table.insert(self.requests, { target = message.subject, fields = fields, body = body })
  for _, name in ipairs(host and { host } or self.hosts) do
    if protocol.names_host(fields, name) then
      local behaviour = self.behave[name] or M.sending(self:frames_of(name))
      if behaviour[fields.op] then behaviour[fields.op](self, name, fields) end
    end
  end
  return true
end

--- Answers what waits.
function Agents:serve()
  for host, subscription in pairs(self.subscriptions) do
    while take(self, subscription, host ~= "all" and host or nil) do end
  end
end

--- The messages of an operation.
function Agents:got(op)
  local list = {}
  for _, one in ipairs(self.requests) do
    if one.fields.op == op then list[#list + 1] = one end
  end
  return list
end

--- Lets each host say hello, and waits until the stream has it.
function Agents:say_hello(hosts, more)
  for _, host in ipairs(hosts or self.hosts) do
    local fields = { op = "hello", id = protocol.new_id(), host = host, groups = {} }
    for key, value in pairs(more or {}) do fields[key] = value end
    assert(self.connection:publish(protocol.hello_subject(host), protocol.encode(fields)))
  end
  assert(self.connection:flush(10000))
end

--- Starts perfl gather; `serve` goes on until it has ended.
function Agents:start(words)
  local argv = { run.perfl, "gather", "-s", self.url }
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  for i, word in ipairs(argv) do argv[i] = run.quote(word) end
  os.remove(self.dir .. "/code")
  assert(os.execute(("{ cd %s; timeout -k 5 120 sh -c 'echo $$ >pid; exec \"$@\"' sh %s >out 2>err </dev/null; "
    .. "echo $? >code.new; mv code.new code; } &"):format(self.dir, table.concat(argv, " "))))
end

--- The same on a terminal, of script(1) -> what the terminal got
function Agents:gather_on_terminal(words)
  local argv = { run.perfl, "gather", "-s", self.url, table.unpack(words) }
  for i, word in ipairs(argv) do argv[i] = run.quote(word) end
  os.remove(self.dir .. "/code")
  assert(os.execute(("{ cd %s; timeout -k 5 120 script -qec %s typescript >/dev/null </dev/null; "
    .. "mv typescript code; } &"):format(self.dir, run.quote(table.concat(argv, " ")))))
  return self:serve_until("end of perfl gather", function() return run.slurp(self.dir .. "/code") end)
end

--- Serves until f() is true.
function Agents:serve_until(what, f)
  for _ = 1, TRIES do
    self:serve()
    local value = f()
    if value then return value end
    os.execute "sleep 0.01"
  end
  error("no " .. what .. "\n" .. (run.slurp(self.dir .. "/err") or ""))
end

--- The end of perfl gather -> { out =, err =, code = }
function Agents:finish()
  local code = self:serve_until("end of perfl gather", function() return run.slurp(self.dir .. "/code") end)
  return { out = run.slurp(self.dir .. "/out"), err = run.slurp(self.dir .. "/err"), code = tonumber(code) }
end

function Agents:gather(words)
  self:start(words)
  return self:finish()
end

--- What the script prints for these hosts.
function Agents:expected(hosts)
  local lines, all = {}, 0
  for _, host in ipairs(hosts) do
    lines[#lines + 1] = ("%s %d\n"):format(host, self.index[host])
    all = all + self.index[host]
  end
  lines[#lines + 1] = ("all %d\n"):format(all)
  table.sort(lines)
  return table.concat(lines)
end

function Agents:close()
  self.connection:close()
  run.remove(self.dir)
end

--- @tparam string url
-- @tparam {string,...} hosts
function M.new(url, hosts)
  local connection = assert(require("perfev.nats").connect { url = url, name = "simulated agents" })
  local self = setmetatable({ url = url, hosts = hosts, connection = connection, behave = {}, requests = {}, index = {},
                              dir = run.tempdir(), subscriptions = {} }, Agents)
  for i, host in ipairs(hosts) do
    self.index[host] = i
    self.subscriptions[host] = assert(connection:subscribe(protocol.run_subject(host)))
  end
  self.subscriptions.all = assert(connection:subscribe(protocol.run_subject "all"))
  assert(connection:stream_add(protocol.streams[2]))
  assert(connection:stream_purge(protocol.streams[2].name))
  assert(connection:flush(10000))
  self.script = run.write_file(self.dir .. "/calls.lua", TEXT)
  run.write_file(self.script .. ".sig", "-----BEGIN SSH SIGNATURE-----\nof the specs\n-----END SSH SIGNATURE-----\n")
  return self
end

return M
