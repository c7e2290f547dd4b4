-- What is lost when servers, agents and collectors die: nothing that was acknowledged. Real nats-servers, processes of
-- agents with simulated values. FLEET=long takes the times of the table in doc/fleet-history.md.

local chaos = require "spec.support.chaos"
local nats_server = require "spec.support.nats_server"
local run = require "spec.support.run"

local IS_LONG = os.getenv "FLEET" == "long"
local PERIOD_MS = 200

-- Ports on which nothing listens now.
local function free_ports(nr)
  local text = run.capture(([[perl -MIO::Socket::INET -e 'my @s = map { IO::Socket::INET->new(LocalAddr => "127.0.0.1",
    Listen => 1) } 1 .. %d; print $_->sockport, "\n" for @s']]):format(nr))
  local ports = {}
  for port in text:gmatch "%d+" do ports[#ports + 1] = tonumber(port) end
  return ports
end

local function report(what, result, dropped)
  if IS_LONG then
    print(("%-34s %d intervals of %d agents fed; survivors exact: %d of %d; killed agents lost %d (of %d not "
      .. "acknowledged); intervals merged %d times; duplicates dropped %d"):format(what, result.fed, result.hosts,
      result.exact, result.survivors, result.lost, result.unacked, result.coalesced, result.duplicates + dropped))
  end
end

-- The number of duplicates that a second reading of the stream dropped.
local function dropped_by(again)
  assert.equal(0, again.code, again.err)
  return tonumber(((again.err:match "([%d,]+) duplicates dropped" or "0"):gsub(",", "")))
end

local it = require "spec.support.skip"(it, function()
  if not pcall(require, "perfev.nats") then pending "perfev.nats is not built" end
  if not run.have "nats-server" then pending "nats-server is not installed" end
end)

describe("fifty agents and a collector", function()
  local servers, world, out
  before_each(function() servers = {} end)
  after_each(function()
    if out then out:close() end
    if world then world:close() end
    for _, server in ipairs(servers) do server:stop() end
    world, out = nil, nil
  end)

  local function check(result, killed)
    assert.same({}, result.wrong)
    assert.equal(50, result.hosts)
    assert.equal(50 - killed, result.survivors)
    assert.equal(result.survivors, result.exact)
    assert.equal(0, result.left)
    assert.is_true(result.lost <= result.unacked)
  end

  it("keep every count when the server is killed and stopped, and the collector is killed", function()
    servers[1] = assert(nats_server.start())
    out = chaos.publisher(servers[1].url)
    world = chaos.new(servers[1].url)
    world:collector()
    for group = 1, 5 do world:agents(group, IS_LONG and 30 or 12, PERIOD_MS) end
    world:wait_for_rows(function() return world:nr_seen() == 100 end)
    servers[1]:kill "KILL"
    world:wait_for_fed(150) -- three of each: the second and the third are merged
    world:kill_agents(1) -- while it is down
    chaos.sleep(IS_LONG and 5 or 0.5)
    servers[1]:restart()
    chaos.sleep(2)
    world:kill_agents(2) -- while it is up
    world:end_collector "KILL"
    chaos.sleep(1)
    world:collector()
    chaos.sleep(1)
    servers[1]:kill "STOP"
    chaos.sleep(IS_LONG and 3 or 1)
    servers[1]:kill "CONT"
    world:join_agents(120)
    world:end_collector "TERM"
    local again = world:collect_again()
    local dropped = dropped_by(again)
    assert.is_true(dropped > 0)
    local result = world:compare()
    report("server killed, stopped; 20 killed", result, dropped)
    check(result, 20)
    assert.is_true(result.unacked > 0)
    assert.is_true(result.coalesced > 0) -- the outage costs resolution
    assert.not_matches("missing", again.err)
    assert.not_matches("damaged", again.err)
  end)

  it("have gaps that are what was purged behind the collector", function()
    servers[1] = assert(nats_server.start())
    out = chaos.publisher(servers[1].url)
    world = chaos.new(servers[1].url)
    world:collector()
    for group = 1, 5 do world:agents(group, IS_LONG and 12 or 7, PERIOD_MS) end
    -- Each agent must have been seen: nobody knows what was before the first frame.
    world:wait_for_rows(function() return world:nr_seen() == 100 end)
    world:end_collector "TERM"
    chaos.sleep(1)
    assert(out.connection:stream_purge("perfev-agg", "perfev.agg.>"))
    world:collector()
    world:join_agents(60)
    world:wait_for_rows()
    world:end_collector "TERM"
    local text = world:collector_text():match "([%d,]+) frames missing[^\n]*\n$"
    local missing = tonumber(((text or "0"):gsub(",", "")))
    local result = world:compare()
    assert.equal(50, result.survivors)
    assert.is_true(missing > 0)
    assert.equal(result.deltas - result.frames, missing)
    if IS_LONG then print(("purged behind the collector         gaps %d = purged %d"):format(missing,
      result.deltas - result.frames)) end
  end)

  it("keep every count when the leader of three servers is killed for ever", function()
    local ports = free_ports(6)
    local routes = {}
    for i = 1, 3 do routes[i] = ('"nats://127.0.0.1:%d"'):format(ports[i]) end
    local urls = {}
    for i = 1, 3 do urls[i] = ("nats://127.0.0.1:%d"):format(ports[3 + i]) end
    local config = "cluster { name: spec, listen: 127.0.0.1:%d, routes: [%s] }"
    for i = 1, 3 do
      servers[i] = assert(nats_server.start { name = "s" .. i, port = ports[3 + i],
        config = config:format(ports[i], table.concat(routes, ", ")) })
    end
    local url = table.concat(urls, ",")
    local made
    for _ = 1, 100 do -- the servers choose a leader
      local ok
      ok, made = pcall(chaos.publisher, url, { replicas = 3 })
      if ok then
        out = made
        break
      end
      chaos.sleep(0.2)
    end
    assert(out, made)
    world = chaos.new(url)
    world:collector()
    for group = 1, 5 do world:agents(group, IS_LONG and 20 or 6, PERIOD_MS) end
    chaos.sleep(2)
    local leader = assert(out.connection:stream_info "perfev-agg").leader
    for _, server in ipairs(servers) do
      if server.name == leader then server:kill "KILL" end
    end
    world:join_agents(120)
    world:end_collector "TERM"
    local dropped = dropped_by(world:collect_again())
    local result = world:compare()
    report("leader of R3 killed for ever", result, dropped)
    check(result, 0)
  end)
end)
