-- simulated_agents.lua - agents without a kernel: each feeds known values through the agent's own outbox to a server.
--
--   lua5.4 spec/support/simulated_agents.lua URL FIRST NR SECONDS PERIOD_MS LOG
--
-- Agents sim-FIRST .. sim-(FIRST+NR-1), each with a connection of its own. In its interval number n (from 1) an agent
-- counts n times "a" and once "b" (aggregator "calls"), and n samples of main;a (profile "stacks"). After SECONDS it
-- feeds no more, and ends when everything is acknowledged, at most LINGER seconds later. LOG has a line for each event:
-- "fed HOST N", "acked HOST NAME N" (intervals 1 .. N are acknowledged), "duplicate HOST", "coalesced HOST N",
-- "left HOST NAME" at the end.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = "build/?.so;" .. package.cpath

local core = require "perfev.core"
local frames = require "perfev.aggregate.frames"
local log = require "perfl.fleet.log"
local nats = require "perfev.nats"
local outboxes = require "perfl.fleet.deltas"
local perfev = require "perfev"

local real = perfev.hooks.real
local MONOTONIC, REALTIME = 1, 0
local MS, S = 1000000, 1000000000
local LINGER = 60

local url, first, nr, seconds, period_ms, log_path = table.unpack(arg)
local urls = require("spec.support.deltas").urls(url)
first, nr, seconds, period_ms = tonumber(first), tonumber(nr), tonumber(seconds), tonumber(period_ms)

local journal = assert(io.open(log_path, "a"))
journal:setvbuf "line"
local function note(...) journal:write(table.concat({ ... }, " "), "\n") end

log.warning, log.error = function() end, function(event, fields) note("error", event, fields.reason or "") end

local counts = setmetatable({}, { __index = function() return 0 end })

local function new_agent(number)
  local host = "sim-" .. number
  local agent = { host = host, n = 0, acked = {} }
  agent.outbox = outboxes.new { job = "sim", host = host, machine = host, counts = counts }
  agent.connection = assert(nats.connect { url = urls, name = host, retry = true, timeout_ms = 2000 })
  agent.outbox:connect(agent.connection)
  return agent
end

local function value_of(name, n)
  if name == "calls" then
    local a = perfev.count { by = "comm" }
    a:add(n, "a")
    a:add(1, "b")
    return a, "count"
  end
  local p = perfev.profile()
  p:add({ { symbol = "a", module = "/bin/sim" }, "main" }, n)
  return p, "profile"
end

local function feed(agent, period)
  agent.n = agent.n + 1
  local now = core.clock(REALTIME)
  note("fed", agent.host, agent.n)
  for _, name in ipairs { "calls", "stacks" } do
    local value, kind = value_of(name, agent.n)
    local parts = assert(frames.encode({ host = agent.host, start = agent.outbox.start, seq = agent.n, name = name,
      kind = kind, begin = now - period, ["end"] = now, lost = 0 }, value))
    for frame in frames(parts[1]) do assert(agent.outbox:add(frame)) end
  end
end

local function take_acks(agent)
  agent.connection:notes()
  for _, ack in ipairs(agent.connection:acks()) do
    local before = {}
    for name, slot in pairs(agent.outbox.slots) do before[name] = slot.outstanding end
    agent.outbox:acknowledge(ack)
    if ack.duplicate then note("duplicate", agent.host) end
    for name, slot in pairs(agent.outbox.slots) do
      local delta = before[name]
      if delta and slot.outstanding ~= delta then
        agent.acked[name] = (agent.acked[name] or 0) + delta.intervals
        if delta.intervals > 1 then note("coalesced", agent.host, delta.intervals) end
        note("acked", agent.host, name, agent.acked[name])
      end
    end
  end
end

local epoll = assert(real.epoll_create())
local agents = {}
for i = 1, nr do
  agents[i] = new_agent(first + i - 1)
  assert(real.epoll_ctl(epoll, 1, agents[i].connection:fd(), 1, i))
end

local begin = core.clock(MONOTONIC)
local stop, period, is_done = begin + seconds * S, period_ms * MS, false
for i, agent in ipairs(agents) do agent.due = begin + period * i // nr end
while not is_done do
  real.epoll_wait(epoll, 64, 10)
  local now = core.clock(MONOTONIC)
  is_done = now >= stop
  for _, agent in ipairs(agents) do
    take_acks(agent)
    while now < stop and now >= agent.due do
      feed(agent, period)
      agent.due = agent.due + period
    end
    agent.outbox:tick(now)
    is_done = is_done and agent.outbox:is_empty()
  end
  if now > stop + LINGER * S then break end
end
for _, agent in ipairs(agents) do
  for _, left in ipairs(agent.outbox:unacknowledged()) do note("left", agent.host, left.name) end
  agent.connection:close()
end
note("end", first)
