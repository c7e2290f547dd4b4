-- perfl agent on simulated machines with known totals, and a real nats-server on the loopback.
-- FLEET=long (make fleet) runs 50 machines instead of 4.

local agents = require "spec.support.agents"
local json = require "spec.support.json"
local nats_server = require "spec.support.nats_server"
local run = require "spec.support.run"

local has_modules, nats = pcall(require, "perfev.nats")
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"
local MACHINES = os.getenv "FLEET" == "long" and 50 or 4

local server, why_not, dir

local it = require "spec.support.skip"(it, function()
  if not has_modules then pending("perfev.nats is not built: " .. nats) end
  if not server then pending(why_not) end
end)

local running = {}

local function start(opt)
  opt.dir, opt.url = dir, opt.url or server.url
  local one = agents.start(opt)
  running[#running + 1] = one
  return one
end

-- A new stream, without messages.
local function new_stream()
  local c = assert(nats.connect { url = server.url })
  c:stream_delete "perfev-agg"
  for _, stream in ipairs(protocol.streams) do assert(c:stream_add(stream)) end
  return c
end

-- Writes all messages of the stream into a file -> path, list of messages
local function save_stream(c, name)
  local nr = assert(c:stream_info "perfev-agg").messages
  local consumer = assert(c:pull("perfev-agg", nil, { from = "all" }))
  local list = {}
  while #list < nr do
    for _, message in ipairs(assert(consumer:fetch(math.min(nr - #list, 100), 5000))) do
      assert(consumer:ack(message))
      list[#list + 1] = message
    end
  end
  local bytes = {}
  for i, message in ipairs(list) do bytes[i] = message.data end
  return run.write_file(dir .. "/" .. name, table.concat(bytes)), list
end

local q = run.quote

-- What one run over these machines prints.
local function fed(machines)
  local r = run(("MACHINE=%s %s -q --sim %s/world.lua -a %s/all.lua"):format(machines, q(run.perfl), dir, dir))
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

local function merged(path)
  local r = run { run.perfl, "merge", "--script", dir .. "/all.lua", path }
  assert.equal(0, r.code, r.err)
  return r.out, r.err
end

describe("perfl agent", function()
  setup(function()
    dir = run.tempdir()
    agents.write_files(dir)
    if has_modules then server, why_not = nats_server.start() end
  end)
  teardown(function()
    if server then server:stop() end
    run.remove(dir)
  end)
  after_each(function()
    for _, one in ipairs(running) do one:remove() end
    running = {}
  end)

  it("streams what the worlds are fed, row by row, for each kind of aggregator and profiles", function()
    local c <close> = new_stream()
    for i = 1, MACHINES do start { host = "m" .. i, machine = ("%d-%d"):format(i, i), job = agents.job(dir) } end
    for _, one in ipairs(running) do one:wait_for "event=job_ended" end
    for _, one in ipairs(running) do
      local status, log = one:stop()
      assert.equal(0, status, log)
      assert.not_matches("counts_lost", log)
    end
    local path = save_stream(c, "streamed")
    assert.equal(fed("1-" .. MACHINES), (merged(path)))
  end)

  it("is exact when the server is killed and comes back: later counts go into one delta", function()
    local c <close> = new_stream()
    for i = 1, MACHINES do
      start { host = "m" .. i, machine = ("%d-%d"):format(i, i), job = agents.job(dir), gate = true }
    end
    for _, one in ipairs(running) do one:wait_at(1) end
    server:kill "KILL"
    for _, one in ipairs(running) do one:open(3) end
    for _, one in ipairs(running) do one:wait_for "event=job_ended" end
    server:restart()
    for _, one in ipairs(running) do
      one:wait_for "event=resolution_lost"
      local status, log = one:stop()
      assert.equal(0, status, log)
      assert.not_matches("counts_lost", log)
    end
    agents.wait("connection", function() return c:status() == "connected" end)
    assert.equal(fed("1-" .. MACHINES), (merged(save_stream(c, "after_outage"))))
  end)

  it("names what is lost when it is killed: what the stream had not acknowledged", function()
    local c <close> = new_stream()
    local state = run.tempdir()
    local one = start { host = "m1", job = agents.job(dir), gate = true, state = state }
    one:wait_at(1)
    one:wait_for "event=job_started"
    agents.wait("first deltas", function() return c:stream_info("perfev-agg").messages == 13 end)
    agents.wait("the acknowledged state", function()
      local start_id, acknowledged = (run.slurp(state .. "/all.job") or ""):match "^(%x+) (%d+) running"
      return start_id and one:log():find(start_id, 1, true) and acknowledged
    end)
    server:kill "KILL"
    one:open(1)
    one:wait_at(2)
    one:kill "KILL"
    one:wait()
    server:restart()
    agents.wait("connection", function() return c:status() == "connected" end)
    local _, list = save_stream(c, "killed")
    assert.equal(13, #list) -- the first second alone
    local acknowledged = run.slurp(state .. "/all.job"):match "^%x+ (%d+) running"
    -- The next agent names the time from which on counts are lost, in its log and in its first delta.
    local other = start { host = "m1", job = agents.job(dir), state = state }
    local line = other:wait_for "event=counts_lost"
    assert.matches("from=" .. os.date("!%Y-%m-%dT%H:%M:%S", acknowledged // 1000000000), line, 1, true)
    assert.matches("the agent before did not end in order", line, 1, true)
    other:wait_for "event=job_ended"
    assert.equal(0, (other:stop()))
    local _, later = save_stream(c, "killed")
    local first = perfev.frames(later[14].data)()
    assert.matches("^%x+:" .. acknowledged .. "$", first.header.after)
    run.remove(state)
  end)

  it("names what is lost when it must end while no server is there", function()
    server:kill "KILL"
    local one = start { host = "m1", job = agents.job(dir) }
    one:wait_for "event=job_ended"
    one:kill "TERM"
    one:wait_for "event=stopping"
    one:kill "TERM" -- does not wait for the server
    local status, log = one:wait()
    server:restart()
    assert.equal(0, status)
    local _, names = log:gsub("event=counts_lost [^\n]*the stream did not acknowledge them", "")
    assert.equal(13, names)
  end)

  it("publishes the last frames at SIGTERM", function()
    local c <close> = new_stream()
    local one = start { host = "m1", job = agents.job(dir), gate = true }
    one:wait_at(1)
    one:kill "TERM"
    one:wait_for "event=stopping"
    one:open(3)
    local status, log = one:wait()
    assert.equal(0, status, log)
    assert.not_matches("counts_lost", log)
    local _, list = save_stream(c, "ended")
    local last = 0
    for _, message in ipairs(list) do
      last = last + (perfev.frames(message.data)().header.last or 0)
    end
    assert.equal(13, last)
  end)

  it("reloads at SIGHUP: unchanged jobs go on, changed ones end with their last frames", function()
    local c <close> = new_stream()
    local one = start { host = "m1", job = agents.job(dir), gate = true }
    one:wait_at(1)
    local before = run.slurp(one.path)
    run.write_file(one.path, before .. agents.job(dir):gsub("job all", "job more", 1))
    one:kill "HUP"
    one:wait_for "event=job_started job=more"
    assert.equal(1, select(2, one:log():gsub("event=job_started job=all", "")))
    run.write_file(one.path, before .. "nonsense\n")
    one:kill "HUP"
    assert.matches(":%d+: 'nonsense': not a setting", one:wait_for "event=configuration")
    one:wait_for "event=not_reloaded"
    run.write_file(one.path, (before:gsub("%[job.*", "")))
    one:kill "HUP"
    one:wait_for("event=reloaded", 2)
    one:open(10)
    one:wait_for("event=job_ended", 2)
    assert.equal(0, (one:stop()))
    local path = save_stream(c, "reloaded")
    local names = {}
    for frame in perfev.frames(assert(io.open(path, "rb"))) do
      local header = frame.header
      if header.last then names[header.job] = (names[header.job] or 0) + 1 end
    end
    assert.same({ all = 13, more = 13 }, names)
  end)

  it("publishes what is too large for a message in parts, with its losses counted once", function()
    local c <close> = new_stream()
    run.write_file(dir .. "/large.lua", [[
      local perfev = require "perfev"
      perfev.event { "cpu-clock", sample_type = { "period", "ip", "tid", "time" },
        sample = perfev.count { by = { "period", "ip" }, title = "large" } }]])
    run.write_file(dir .. "/large_world.lua", [[
      local k = require "perfev.sim".new { world = "vm", cpus = "0" }
      math.randomseed(7)
      for i = 1, 60 do
        k:after(i * 10 .. "ms", function()
          for _ = 1, 1500 do
            k:ring(0):push { type = "sample", event = { type = 1, config = 0 }, pid = 1, tid = 1,
              period = math.random(0) >> 1, ip = math.random(0) >> 1 }
          end
        end)
      end
      k:after("1500ms", function() end)
      return k]])
    local one = start { host = "m1", job = ("[job large]\nscript = %s/large.lua\ninterval = 1s\nrestart = on-failure\n"
      .. "args = --sim %s/large_world.lua -a --buffer 64K\n"):format(dir, dir) }
    one:wait_for "event=job_ended"
    local status, log = one:stop()
    assert.equal(0, status, log)
    local counted, lost, parts, most = 0, {}, 0, 0
    for _, message in ipairs(select(2, save_stream(c, "large"))) do
      local frame = perfev.frames(message.data)()
      local value = assert(frame:value())
      for _, _, n in value:pairs() do counted = counted + n end
      counted = counted + (value:other() or 0)
      lost[frame.header.seq] = frame.header.lost or 0
      parts, most = parts + 1, math.max(most, #message.data)
    end
    local sum = 0
    for _, n in pairs(lost) do sum = sum + n end
    assert.is_true(sum > 0 and parts > 2 and most < 1 << 20, ("%d lost, %d parts of %d bytes"):format(sum, parts, most))
    assert.equal(90000, counted + sum)
  end)

  it("starts a killed worker again, and names what is lost: what came after its last frame", function()
    local c <close> = new_stream()
    local one = start { host = "m1", job = agents.job(dir), gate = true }
    one:wait_at(1)
    local pid = one:wait_for("event=job_started"):match "pid=(%d+)"
    os.execute("kill -KILL " .. pid)
    assert.matches("from=%S+ job=all reason=\"the worker ended without its last frames\" to=",
      one:wait_for "event=counts_lost")
    assert.matches("signal=9", one:wait_for "event=job_restarts")
    one:open(20)
    one:wait_for "event=job_ended"
    assert.equal(0, (one:stop()))
    -- The first second twice, once of each worker: one start, no number twice.
    local _, list = save_stream(c, "worker")
    local starts, seen = {}, {}
    for _, message in ipairs(list) do
      local header = perfev.frames(message.data)().header
      local key = header.name .. header.seq
      assert.is_nil(seen[key])
      starts[header.start], seen[key] = true, true
    end
    assert.is_string(next(starts))
    assert.is_nil(next(starts, (next(starts))))
  end)

  it("says how to make the stream that is missing, and publishes when it is there", function()
    local c <close> = new_stream()
    assert(c:stream_delete "perfev-agg")
    local one = start { host = "m1", job = agents.job(dir) }
    assert.matches("try: perfl agent --make-streams", one:wait_for "event=not_acknowledged", 1, true)
    one:wait_for "event=job_ended"
    local r = run { run.perfl, "agent", "-c", one.path, "--make-streams" }
    assert.same({ 0, "stream perfev-agg\nstream perfev-hello\n", "" }, { r.code, r.out, r.err })
    local status, log = one:stop()
    assert.equal(0, status, log)
    assert.equal(fed "1-1", (merged(save_stream(c, "late_stream"))))
  end)

  it("restarts a job that fails, later and later, and says why", function()
    local one = start { host = "m1", job = "[job bad]\nscript = " .. dir .. "/bad.lua\nargs = -a\n" }
    assert.equal(2, one:wait()) -- there is no such script
    run.write_file(dir .. "/bad.lua", "error 'planned'")
    one = start { host = "m1", job = "[job bad]\nscript = " .. dir .. "/bad.lua\nargs = -a\n" }
    assert.matches("after_s=1 exit=1 job=bad text=.*planned", one:wait_for "event=job_restarts")
    assert.matches("after_s=2 ", one:wait_for("event=job_restarts", 2))
    assert.equal(0, (one:stop()))
  end)

  it("tells systemd that it is ready, alive, reloading and stopping", function()
    if not run.have "perl" then pending "no perl for a socket of datagrams" end
    local path = dir .. "/notify"
    assert(os.execute(([[timeout 120 perl -MIO::Socket::UNIX -MSocket -e '
      my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "PATH.socket") or die $!;
      open(my $out, ">", "PATH"); $out->autoflush(1);
      while (1) { $s->recv(my $text, 4096); print $out "$text\n"; last if $text =~ /STOPPING/ }' &]])
      :gsub("PATH", path)))
    agents.wait("the socket", function() return run.slurp(path) end)
    local one = start { host = "m1", env = { "NOTIFY_SOCKET=" .. path .. ".socket", "WATCHDOG_USEC=1000000" } }
    local function wait_told(pattern)
      return agents.wait(pattern, function() return run.slurp(path):find(pattern) end)
    end
    wait_told "^READY=1\nSTATUS=m1\n"
    wait_told "WATCHDOG=1\n.*WATCHDOG=1\n"
    one:kill "HUP"
    wait_told "RELOADING=1\nMONOTONIC_USEC=%d+\nREADY=1\n"
    assert.equal(0, (one:stop()))
    wait_told "STOPPING=1\n$"
  end)

  it("writes a line for each event: for people, for the journal, as JSON", function()
    local one = start { host = "m1" }
    assert.matches("^%d+%-%d+%-%d+T%d+:%d+:%d+Z info event=connected servers=nats:", one:wait_for "event=connected")
    one:stop()
    one = start { host = "m1", env = { "JOURNAL_STREAM=8:1" } }
    assert.matches("^<6>event=connected servers=nats:", one:wait_for "event=connected")
    one:stop()
    one = start { host = "m1", top = "log = json" }
    local line = json.decode(one:wait_for '"event":"connected"')
    assert.same({ "connected", "info", server.url }, { line.event, line.level, line.servers })
    one:stop()
  end)

  it("serves its own metrics", function()
    if not pcall(require, "perfev.http") then pending "perfev.http is not built" end
    local c <close> = new_stream()
    local path = dir .. "/metrics.socket"
    local metrics = ("[metrics]\nlisten = unix:%s\n"):format(path)
    local one = start { host = "m1", job = agents.job(dir), config = metrics }
    one:wait_for "event=job_ended"
    agents.wait("13 aggregators in the stream", function() return c:stream_info("perfev-agg").messages >= 13 end)
    local text = run { "curl", "-s", "--unix-socket", path, "http://localhost/metrics" }.out
    assert.matches("\nperfev_agent_frames_total %d+\n", text)
    assert.matches("\nperfev_agent_connected 1\n", text)
    for name, help in text:gmatch "# HELP (%S+) (%u[^\n]*%.)\n" do
      assert.matches("\n" .. name .. " %d", text)
      assert.is_string(help)
    end
    if run.have "promtool" then
      local r = run({ "promtool", "check", "metrics" }, { stdin = text })
      assert.same({ 0, "" }, { r.code, r.out .. r.err })
    end
    one:stop()
  end)
end)
