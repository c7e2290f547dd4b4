-- The state of a gathered request, without a server: times and messages are given.

local frames = require "perfev.aggregate.frames"
local gathering = require "perfl.fleet.gathering"
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"

local S = 1000000000
local ID, DIGEST = ("0a"):rep(16), ("1"):rep(64)

local function frame_of(host, seq, more)
  local a = perfev.count { by = "k", title = "calls" }
  a:inc(host)
  local header = { host = host, start = frames.sha256(host):sub(1, 32), seq = seq or 0, name = "calls", kind = "count",
                   script_sha256 = DIGEST, args_sha256 = DIGEST, last = 1 }
  for key, value in pairs(more or {}) do header[key] = value end
  return frames.encode(header, a)[1]
end

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

-- A gathering that began at time 0, with the fetches that it asked for.
local function new(hosts, more)
  local fetches = {}
  local opts = { request = { op = "run", id = ID }, expected = hosts and set_of(hosts), digest = DIGEST,
                 wait_ns = 5 * S, duration_ns = 10 * S, fetch = function(...) fetches[#fetches + 1] = { ... } end }
  for key, value in pairs(more or {}) do opts[key] = value end
  local g = gathering.new(opts, 0, 1000 * S)
  local function send(host, now, fields, body)
    fields.id = fields.id or ID
    g:take(protocol.result_subject(host, ID), protocol.encode(fields, body), now, 1000 * S + now)
  end
  return g, send, fetches
end

local function accepted(place) return { op = "accepted", place = place or 0 } end
local function ready(nr) return { op = "ready", frames = nr, final = true } end
local function frame(i) return { op = "frame", index = i } end

describe("a gathering", function()
  it("is over when all expected hosts have answered", function()
    local g, send, fetches = new { "a", "b" }
    for _, host in ipairs { "a", "b" } do
      assert.is_false(g:is_over(S))
      send(host, S, accepted())
      send(host, S, ready(1))
      send(host, S, frame(1), frame_of(host))
    end
    assert.is_true(g:is_over(S))
    assert.same({ { "a", 1, 1 }, { "b", 1, 1 } }, fetches)
    assert.same({ asked = 2, done = 2, refused = {}, failed = {}, silent = {}, running = {} }, g:outcome())
    assert.equal(2, g:set().nr)
  end)

  it("waits for the first sign of a host as long as it is told, and names silent hosts", function()
    local g, send = new { "a", "b" }
    send("a", S, { op = "refused", reason = "no" })
    assert.is_false(g:is_over(5 * S - 1))
    assert.is_true(g:is_over(5 * S))
    assert.same({ asked = 2, done = 0, refused = { { "a", "no" } },
                  failed = {}, silent = { "b" }, running = {} }, g:outcome())
    assert.is_nil(g:set())
  end)

  it("takes hosts that nobody expected, if the request names them, and waits for them without a roster", function()
    local g, send = new(nil, { request = { op = "run", id = ID, hosts = "web*" } })
    assert.is_false(g:is_over(S))
    send("web1", S, ready(1))
    send("web1", S, frame(1), frame_of "web1")
    send("db1", S, ready(1))
    assert.is_false(g:is_over(S))
    assert.is_true(g:is_over(5 * S))
    assert.same({ asked = 1, done = 1, refused = {}, failed = {}, silent = {}, running = {} }, g:outcome())
  end)

  it("waits for a run's duration and a little more, longer for a host in whose queue it stands", function()
    local g, send = new { "a", "b" }
    send("a", S, accepted())
    send("b", S, accepted(2))
    g:tick(26 * S - 1)
    assert.is_false(g:is_over(26 * S - 1))
    g:tick(26 * S) -- 1 + 10 + 3 * 5
    assert.same({ { "a", "it accepted the request and fell silent" } }, { g:outcome().failed[1] })
    g:tick(46 * S - 1) -- 1 + 3 * 10 + 3 * 5
    assert.is_false(g:is_over(46 * S - 1))
    g:tick(46 * S)
    assert.is_true(g:is_over(46 * S))
    assert.equal(2, #g:outcome().failed)
  end)

  it("has at most 64 frames outstanding, those of a started host first", function()
    local g, send, fetches = new { "a", "b", "c" }
    for _, host in ipairs { "a", "b", "c" } do send(host, S, ready(40)) end
    assert.same({ { "a", 1, 40 }, { "b", 1, 24 } }, fetches)
    for i = 1, 20 do send("a", S, frame(i), frame_of("a", i - 1)) end
    local more = 0
    for i = 3, #fetches do more = more + fetches[i][3] end
    assert.equal(20, more)
    for i = 25, 40 do send("b", S, frame(i), frame_of("b", i - 1)) end
    assert.equal("c", fetches[#fetches][1])
    -- A host that fails gives its credit back.
    local before = #fetches
    send("b", S, { op = "failed", reason = "x" })
    assert.is_true(#fetches > before)
    g:tick(6 * S)
    assert.same({ { { "b", "x" } }, { "a", "c" } }, { g:outcome().failed, g:outcome().running })
  end)

  it("does not take a host for silent that waits for credit", function()
    local g, send, fetches = new { "a", "b" }
    send("a", S, ready(200))
    send("b", S, ready(1))
    for i = 1, 10 do
      send("a", 4 * i * S, frame(i), frame_of("a", i - 1))
      g:tick(4 * i * S)
    end
    assert.same({}, g:outcome().failed)
    for _, one in ipairs(fetches) do assert.equal("a", one[1]) end
  end)

  it("asks again for frames that do not come, and gives up after three times", function()
    local g, send, fetches = new { "a" }
    send("a", S, ready(6))
    for _, i in ipairs { 1, 3, 6 } do send("a", S, frame(i), frame_of("a", i - 1)) end
    g:tick(6 * S - 1)
    assert.equal(1, #fetches)
    g:tick(6 * S)
    assert.same({ { "a", 1, 6 }, { "a", 2, 1 }, { "a", 4, 2 } }, fetches)
    for _, i in ipairs { 2, 3, 5 } do send("a", 7 * S, frame(i), frame_of("a", i - 1)) end -- 3 came twice
    g:tick(12 * S)
    assert.same({ "a", 4, 1 }, fetches[4])
    g:tick(17 * S)
    assert.same({ "a", 4, 1 }, fetches[5])
    assert.same({}, g:outcome().failed)
    g:tick(22 * S)
    assert.same({ { "a", "it does not send its frames" } }, g:outcome().failed)
    assert.is_true(g:is_over(30 * S))
    assert.is_nil(g:set())
  end)

  it("keeps what cannot be added up apart, and takes the answer of the most hosts", function()
    local g, send = new { "a", "b", "c" }
    for _, host in ipairs { "a", "b", "c" } do
      send(host, S, ready(1))
      send(host, S, frame(1), frame_of(host, 0, host == "a" and { args_sha256 = ("2"):rep(64) } or nil))
    end
    assert.equal(2, g:set().nr)
    local outcome = g:outcome()
    assert.same({ 2, { { "a", "its values are not of the same kind as those of most hosts" } } },
      { outcome.done, outcome.failed })
  end)

  it("ignores other requests, unknown operations, settled hosts and foreign subjects", function()
    local g, send = new { "a" }
    send("a", S, { op = "failed", reason = "other", id = ("0b"):rep(16) })
    send("a", S, { op = "dance" })
    g:take("perfev.run.all", "?", S, 1000 * S)
    assert.same({ "a" }, g:outcome().silent)
    send("a", S, ready(1))
    send("a", S, frame(1), frame_of "a")
    send("a", S, { op = "failed", reason = "too late" })
    g:take(protocol.result_subject("a", ID), "?", S, 1000 * S)
    assert.equal(1, g:outcome().done)
  end)

  it("reports clocks that are off by more than a second", function()
    local g, send = new { "a", "b", "c", "d" }
    send("a", 2 * S, { op = "accepted", clock = 1001 * S })  -- between the request and now
    send("b", 2 * S, { op = "accepted", clock = 1010 * S })
    send("c", 2 * S, { op = "accepted", clock = 997 * S })
    send("d", 2 * S, { op = "accepted", clock = 1002 * S + S // 2 })
    assert.same({ "b: the clock is 8.0 s ahead", "c: the clock is 3.0 s behind" }, g:remarks())
  end)
end)
