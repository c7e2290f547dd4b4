-- What perfl collect pushes to stores of profiles: read back by protoc and go, with stores that fail.

local core = require "perfev.core"
local http_client = require "perfev.http_client"
local perfev = require "perfev"
local protoc = require "spec.support.protoc"
local push = require "perfl.collect.push"
local run = require "spec.support.run"
local spool = require "perfl.collect.spool"
local store = require "spec.support.store"
local stores = require "perfl.collect.stores"

local START = ("0123456789abcdef"):rep(2)

local function profile()
  local p = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
  p:add({ { symbol = "inlined", module = "/bin/a", inlined = true, file = "/src/a.c", line = 3 },
          { symbol = "f<T>::g()", module = "/bin/a", file = "/src/a.c", line = 9 },
          { symbol = "do_syscall_64", kernel = true }, { symbol = "main", module = "/bin/a" } }, 3, 300)
  p:add("main;größe", 1 << 40)
  p:add("main", 0, 7)
  return p
end

local EXPECTED = {
  ["samples/count"] = { ["main;do_syscall_64;f<T>::g();inlined"] = 3, ["main;größe"] = 1 << 40 },
  ["time/nanoseconds"] = { ["main;do_syscall_64;f<T>::g();inlined"] = 300, ["main"] = 7 },
}

local function header(seq)
  return { job = "cpu", host = "web1", name = "profile", kind = "profile", start = START, seq = seq or 1, part = "1/1",
           begin = 1764313200500000000, ["end"] = 1764313210500000000 }
end

-- Without the stacks whose value is 0.
local function without_zeros(stacks)
  for _, list in pairs(stacks) do
    for name, value in pairs(list) do
      if value == 0 then list[name] = nil end
    end
  end
  return stacks
end

-- The parts of multipart/form-data by name.
local function parts_of(request)
  local boundary = request.head:match "boundary=([^\r\n]+)"
  local parts, at = {}, 1
  while true do
    local from, to = request.body:find("--" .. boundary, at, true)
    if parts.open then parts[parts.open] = request.body:sub(parts.from, from - 3) end
    if request.body:sub(to + 1, to + 2) == "--" then break end
    local name, first = request.body:match('name="([^"]+)"[^\r\n]*\r\n\r\n()', to)
    parts.open, parts.from, at = name, first, first
  end
  return parts
end

local it_with_protoc = require "spec.support.skip"(it, function()
  if not run.have "protoc" then pending "protoc is not installed" end
end)

describe("a pushed profile", function()
  local server
  after_each(function()
    if server then server:stop() end
    server = nil
  end)

  -- Pushes and returns what the server got.
  local function pushed(kind, path)
    server = store.start { "200" }
    local address = assert(stores.parse(kind .. ":" .. server.url .. (path or "")))
    local to = push.new(address, { client = http_client.new {} })
    to:take(header(), profile, "", "ack")
    local acks
    for _ = 1, 300 do
      acks = to:turn(100)
      if #acks > 0 then break end
    end
    assert.same({ "ack" }, acks)
    to:close()
    return server:requests()[1]
  end

  it_with_protoc("is what protoc reads from pprof, with its types for the server", function()
    local request = pushed "pprof"
    assert.matches("^POST /ingest%?name=cpu%%7Bhost%%3Dweb1%%2Cname%%3Dprofile%%7D&from=1764313200&until=1764313211&",
      request.head)
    local parts = parts_of(request)
    local stacks, message = protoc.pprof_stacks(parts.profile)
    assert.same(EXPECTED, without_zeros(stacks))
    assert.same({ 1764313200500000000, 10000000000 }, { message.time_nanos[1], message.duration_nanos[1] })
    assert.same({
      samples = { units = "samples", ["display-name"] = "samples", aggregation = "sum" },
      time = { units = "nanoseconds", ["display-name"] = "time", aggregation = "sum" },
    }, require("perfev.base.json").decode(parts.sample_type_config))
  end)

  it_with_protoc("is what protoc reads from OTLP, a profile for each type", function()
    local request = pushed "otlp"
    assert.matches("^POST /v1development/profiles HTTP", request.head)
    assert.matches("\r\nContent%-Type: application/x%-protobuf\r\n", request.head)
    assert.matches("\r\nOTLP%-Profiles%-Development%-Version: 1\r\n", request.head)
    local stacks, message = protoc.otlp_stacks(request.body)
    assert.same(EXPECTED, stacks)
    local resource, scope = {}, message.resource_profiles[1].scope_profiles[1]
    for _, attribute in ipairs(message.resource_profiles[1].resource[1].attributes) do
      resource[attribute.key[1]] = attribute.value[1].string_value[1]
    end
    assert.same({ ["service.name"] = "cpu", ["host.name"] = "web1", ["perfev.name"] = "profile" }, resource)
    assert.equal("perfev", scope.scope[1].name[1])
    local one, other = scope.profiles[1], scope.profiles[2]
    assert.same({ 1764313200500000000, 10000000000, 16 },
      { one.time_unix_nano[1], one.duration_nano[1], #one.profile_id[1] })
    assert.not_equal(one.profile_id[1], other.profile_id[1])
  end)

  it("is what go tool pprof reads", function()
    if not run.have "go" then pending "go is not installed" end
    local dir = run.tempdir()
    run.write_file(dir .. "/p.pb.gz", parts_of(pushed "pprof").profile)
    local r = run({ "go", "tool", "pprof", "-raw", dir .. "/p.pb.gz" }, { env = { HOME = dir } })
    run.remove(dir)
    assert.equal(0, r.code, r.err)
    assert.matches("samples/count time/nanoseconds", r.out)
    assert.matches("1099511627776%s+0:", r.out)
  end)

  it("goes to the path of the address, if it has one", function()
    assert.matches("^POST /api/org/v1/profiles HTTP", pushed("otlp", "/api/org/v1/profiles").head)
  end)

  it("has the same id each time it is sent, and another one for another frame", function()
    local otlp = require "perfl.collect.otlp"
    assert.equal(otlp.request(header(1), profile()), otlp.request(header(1), profile()))
    assert.not_equal(otlp.request(header(1), profile()), otlp.request(header(2), profile()))
  end)
end)

describe("the answer of a store of OTLP", function()
  it("may be any bytes", function()
    local otlp = require "perfl.collect.otlp"
    math.randomseed(1)
    for _ = 1, 20000 do
      local bytes = {}
      for i = 1, math.random(0, 24) do bytes[i] = string.char(math.random(0, math.random(2) == 1 and 31 or 255)) end
      local nr, why = otlp.rejected(table.concat(bytes))
      assert.equal("integer", math.type(nr))
      assert(why == nil or type(why) == "string")
    end
  end)
end)

describe("the address of a store", function()
  it("is checked", function()
    assert.same({ kind = "pprof", url = "https://a:4040/ingest" }, stores.parse "pprof:https://a:4040/")
    assert.is_nil((stores.parse "directory"))
    assert.is_nil((stores.parse "c:directory"))
    for text, why in pairs { ["pprof:ftp://a"] = "a URL of http or https", ["otlp:http://a/?x=1"] = "a URL of http or",
                             ["otlp:http://u:p@a"] = "a password on the command line" } do
      local parsed, message = stores.parse(text)
      assert.is_nil(parsed)
      assert.matches(why, message)
    end
  end)
end)

describe("a store that fails", function()
  local server, lines, say, now, dir
  local message = require "perfl.message"
  before_each(function()
    lines, say, now = {}, message.say, 0
    message.say = function(text) lines[#lines + 1] = text end
    dir = run.tempdir()
  end)
  after_each(function()
    message.say = say
    if server then server:stop() end
    server = nil
    run.remove(dir)
  end)

  local function start(answers, opts)
    server = store.start(answers)
    opts = opts or {}
    opts.client = http_client.new { total_ms = opts.total_ms or 5000 }
    opts.clock = function() return now end
    return push.new(assert(stores.parse((opts.kind or "pprof") .. ":" .. server.url)), opts)
  end

  -- Turns until f() is true; between turns a second passes for the back-off.
  local function turn_until(to, f)
    local acks = {}
    for _ = 1, 500 do
      for _, ack in ipairs(assert(to:turn(50))) do acks[#acks + 1] = ack end
      if f(acks) then
        table.sort(acks)
        return acks
      end
      now = now + 1
    end
    error("not reached: " .. to:summary() .. "\n" .. table.concat(lines, "\n"))
  end

  it("gets the profile again until it takes it, and only then it is acknowledged", function()
    local to = start({ "503", "hang", "close", "half", "429+3", "200" }, { total_ms = 300 })
    to:take(header(), profile, "", "ack")
    assert.same({ "ack" }, turn_until(to, function(acks) return #acks == 1 end))
    assert.equal(5, to.again)
    assert.equal(1, to.accepted)
    assert.matches("the store does not take profiles: HTTP status 503: status 503\nthey wait in the stream", lines[1])
    assert.equal("collect: the store answers again", lines[2])
    assert.equal(2, #lines)
    assert.equal("1 profiles accepted, 5 requests repeated", to:summary())
    to:close()
  end)

  it("is left alone for longer and longer, and as long as it wants", function()
    local to = start { "503" }
    to:take(header(), profile, "", "ack")
    local waits = {}
    for nr = 1, 9 do
      turn_until(to, function() return to.nr_failed == nr end)
      waits[nr] = to.quiet_until - now
      now = to.quiet_until
    end
    assert.is_true(waits[1] <= 0.7)
    for i = 2, 6 do assert.is_true(waits[i] > waits[i - 1], table.concat(waits, " ")) end
    assert.is_true(waits[9] <= 38)
    to:close()
    server:stop()
    to = start { "429+120" }
    to:take(header(), profile, "", "ack")
    turn_until(to, function() return to.nr_failed == 1 end)
    assert.equal(120, math.floor(to.quiet_until - now + 0.5))
    to:close()
  end)

  it("refuses one profile for good without stopping the others", function()
    local to = start { "400", "200" }
    to:take(header(1), profile, "", 1)
    to:take(header(2), profile, "", 2)
    assert.same({ 1, 2 }, turn_until(to, function(acks) return #acks == 2 end))
    assert.same({ 1, 1, 0 }, { to.accepted, to.refused, to.again })
    assert.matches("the store refused a profile of web1: HTTP status 400: status 400", lines[1])
    to:close()
  end)

  it("says 200 and rejects: that is no success", function()
    -- ExportProfilesServiceResponse { partial_success { rejected_profiles: 2 error_message: "no room" } }
    run.write_file(dir .. "/partial", "\10\11\8\2\18\7no room")
    local to = start({ "body:" .. dir .. "/partial" }, { kind = "otlp" })
    to:take(header(), profile, "", "ack")
    turn_until(to, function(acks) return #acks == 1 end)
    assert.same({ 0, 1 }, { to.accepted, to.refused })
    assert.matches("the server rejected 2 profiles: no room", lines[1])
    to:close()
  end)

  it("takes 64 messages at most: the others stay in the stream", function()
    local to = start { "503" }
    for i = 1, 64 do to:take(header(i), profile, "", i) end
    assert.equal(0, to:room())
    assert.same({}, assert(to:turn(0)))
    to:close()
  end)

  it("acknowledges frames without stacks, which no store takes", function()
    local to = start { "200" }
    to:take({ kind = "count" }, error, "", "ack")
    assert.same({ "ack" }, assert(to:turn(0)))
    assert.matches("1 frames without stacks left out", to:summary())
    to:close()
  end)

  it("gets nothing of an aggregator whose header says profile", function()
    local to = start { "200" }
    to:take(header(), function() return perfev.count() end, "", "ack")
    assert.same({ "ack" }, assert(to:turn(0)))
    assert.matches("a profile of web1 cannot be sent: it is not a profile", lines[1])
    assert.equal(0, #server:requests())
    to:close()
  end)

  it("has its frames in the spool, within its size", function()
    local place = assert(spool.open(dir .. "/spool", 1000))
    local to = start({ "503" }, { spool = place })
    local frames = {}
    for i = 1, 12 do frames[i] = ("%d"):format(i):rep(100):sub(1, 100) end
    for i = 1, 12 do to:take(header(i), profile, frames[i], i) end
    local acks = turn_until(to, function(acks) return #acks >= 10 end)
    assert.equal(10, #acks) -- 1000 bytes; two wait in memory
    assert.equal(10, to.spooled)
    assert.equal("10", run.capture(("ls %s/spool/*.frame | wc -l"):format(dir)))
    local mode = ("%o"):format(tonumber("640", 8) & ~tonumber(run.capture "umask", 8))
    assert.equal(mode, run.capture(("stat -c %%a %s/spool/*.frame | uniq"):format(dir)))
    to:close()
  end)

  it("keeps the spool over a crash", function()
    local place = assert(spool.open(dir .. "/spool", 1000))
    for i = 1, 3 do assert.is_true(place:add("frame " .. i)) end
    assert(place:commit())
    assert.is_true(place:add "not committed")
    assert.is_nil((spool.open(dir .. "/spool", 1000))) -- in use
    place:close()
    place = assert(spool.open(dir .. "/spool", 1000))
    for i = 1, 3 do
      local bytes, one = place:take()
      assert.equal("frame " .. i, bytes)
      if i < 3 then assert(place:remove(one)) end
    end
    assert.is_nil((place:take()))
    place:close()
    place = assert(spool.open(dir .. "/spool", 1000))
    assert.equal("frame 3", (place:take()))
    assert.is_false(place:add(("x"):rep(994)))
    assert.is_true(place:add(("x"):rep(993)))
    assert(place:commit())
    assert.same({ "000000000003.frame", "000000000004.frame" }, (function()
      local names = core.list(dir .. "/spool")
      table.sort(names)
      return { names[#names - 1], names[#names] }
    end)())
    place:close()
  end)
end)

describe("perfl collect, from the stream to a store,", function()
  local server, why_not, out, dir, to
  local it = require "spec.support.skip"(it, function()
    if not server then pending(why_not) end
    if not run.have "protoc" then pending "protoc is not installed" end
  end)
  setup(function()
    if not pcall(require, "perfev.nats") then
      why_not = "perfev.nats is not built"
      return
    end
    server, why_not = require("spec.support.nats_server").start()
    if server then out = require("spec.support.deltas").publisher(server.url) end
  end)
  teardown(function()
    if out then out:close() end
    if server then server:stop() end
  end)
  before_each(function() dir = run.tempdir() end)
  after_each(function()
    if to then to:stop() end
    to = nil
    run.remove(dir)
  end)

  local function publish(job, nr)
    for seq = 1, nr do
      local p = perfev.profile()
      p:add("main;f", seq)
      out:send { host = "web1", job = job, name = "profile", seq = seq, value = p, at = os.time() - 9 }
    end
    out:settle()
  end

  local function collect(limit, ...)
    return run({ "timeout", "-s", "KILL", tostring(limit), run.perfl, "collect", "-s", server.url, ... })
  end

  -- The sum of what the store has accepted: of the requests from number `first` on.
  local function sum_of(first)
    local sum = 0
    for i, request in ipairs(to:requests()) do
      if i >= first then
        sum = sum + protoc.pprof_stacks(parts_of(request).profile)["samples/count"]["main;f"]
      end
    end
    return sum
  end

  it("pushes each profile once, with the headers of a file", function()
    publish("p1", 20)
    to = store.start { "200" }
    run.write_file(dir .. "/headers", "Authorization: Bearer secret\n\nX-Scope-OrgID: 7\n")
    local r = collect(60, "--job", "p1", "--once", "--to", "pprof:" .. to.url, "--header-file", dir .. "/headers")
    assert.equal(0, r.code, r.err)
    assert.matches("20 frames of 1 host; 20 profiles accepted\n$", r.err)
    assert.equal(20, #to:requests())
    assert.equal(210, sum_of(1))
    assert.matches("\r\nAuthorization: Bearer secret\r\n", to:requests()[20].head)
    assert.matches("\r\nX%-Scope%-OrgID: 7\r\n", to:requests()[1].head)
  end)

  it("keeps them in the stream while the store does not answer", function()
    publish("p2", 5)
    to = store.start { "503", "503", "503", "503", "503", "200" }
    local r = collect(60, "--job", "p2", "--once", "--to", "pprof:" .. to.url)
    assert.equal(0, r.code, r.err)
    assert.matches("the store does not take profiles: HTTP status 503", r.err)
    assert.matches("5 profiles accepted, 5 requests repeated", r.err)
    assert.equal(15, sum_of(6))
  end)

  it("has them in the spool when it is killed, and sends them from there", function()
    publish("p3", 5)
    to = store.start { "503" }
    local words = { "--job", "p3", "--to", "pprof:" .. to.url, "--spool", dir .. "/spool" }
    local r = collect(3, table.unpack(words))
    assert.equal("KILL", r.signal == 9 and "KILL" or r.code == 137 and "KILL", r.err)
    assert.equal("5", run.capture(("ls %s/spool | grep -c 'frame$'"):format(dir)))
    local url = to.url
    to:stop()
    to = store.start({ "200" }, url:match "%d+$")
    r = collect(60, "--once", table.unpack(words))
    assert.equal(0, r.code, r.err)
    assert.matches("0 frames of 0 hosts; 5 profiles accepted\n$", r.err)
    assert.equal(15, sum_of(1))
    assert.equal("0", (run.capture(("ls %s/spool | grep -c 'frame$' || true"):format(dir))))
  end)

  it("says that a certificate or a directory is missing", function()
    to = store.start { "200" }
    local r = collect(20, "--once", "--to", "pprof:" .. to.url, "--header-file", dir .. "/none")
    assert.equal(2, r.code)
    assert.matches("%-%-header%-file: .*none: No such file", r.err)
    r = collect(20, "--once", "--to", "pprof:" .. to.url, "--spool", dir .. "/none/spool")
    assert.equal(1, r.code)
    assert.matches("%-%-spool .*none/spool: No such file", r.err)
  end)
end)
