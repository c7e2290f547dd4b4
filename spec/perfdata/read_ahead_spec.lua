-- Recordings that a thread reads ahead of the callbacks: the same calls, messages and totals as without it.

local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local MS = 1000000
local SAMPLES = 6000 -- more than the runs that the thread keeps ahead
local BITS = { "ip", "tid", "time", "cpu", "identifier", "raw" }
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local nr_files = 0
local function spill(bytes, name)
  nr_files = nr_files + 1
  return run.write_file(name and ("%s/%s"):format(dir, name) or ("%s/%d.data"):format(dir, nr_files), bytes)
end

local function new_builder(endian)
  local function attr(t)
    t.sample_type, t.sample_id_all, t.sample_period = BITS, true, 1
    return t
  end
  return perfdata.new { endian = endian, events = {
    { ids = { 11, 12 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock" },
    { ids = { 13 }, attr = attr { type = 1, config = 3 }, name = "context-switches" },
  } }
end

-- A sample of two CPUs in turn, each ahead of the other for 100 records.
local function sample(i, len)
  local cpu = i // 100 % 2
  return { type = "sample", identifier = 11 + i * 7 % 3, pid = 7, tid = 7 + i % 5, cpu = cpu, ip = i,
           time = (i - cpu * 50) * MS + 100 * MS, raw = ("x"):rep(len), misc = 1 + i % 2 }
end

-- Records that the caller's thread applies, and all others that need care, are among the samples.
local function build(endian, nr, len)
  local b = new_builder(endian)
  local function own(i) return { pid = 7, tid = 7, time = i * MS + 100 * MS, cpu = 0, identifier = 11 } end
  for i = 1, nr or SAMPLES do
    b:add(sample(i, len or 20 + i % 17 * 8))
    if i % 300 == 0 then b:round() end
    if i % 700 == 0 then b:add { type = "comm", pid = 7, tid = 7, comm = "name" .. i, sample_id = own(i) } end
    if i % 900 == 0 then b:add { type = "lost", id = 11, lost = i, sample_id = own(i) } end
    if i % 1000 == 0 then b:user(78, b:pack("I8I8", 2, 11) .. "renamed" .. i .. ("\0"):rep(8)) end -- EVENT_UPDATE
    if i % 1100 == 0 then b:add(b:pack("I4I2I2i8i8", 9, 2, 24, 11, i)) end -- it ends before its fields
    if i % 1300 == 0 then
      local unknown = b.encode(sample(i, 0))
      b:add(unknown:sub(1, 8) .. b:pack("i8", 99) .. unknown:sub(17))
    end
    if i % 1500 == 0 then b:user(82, "") end
  end
  return b
end

-- Everything that a user of the session sees.
local function replay(path, jobs, opts)
  local seen, said, reads_ahead = {}, {}, false
  local options = { input = path, jobs = jobs, log = function(level, text)
    reads_ahead = reads_ahead or text:find(": a thread reads ahead", 1, true) ~= nil
    if level == 0 then said[#said + 1] = text end
  end }
  local stop_after = opts and opts.stop_after
  for name, value in pairs(opts or {}) do if name ~= "stop_after" then options[name] = value end end
  local s <close> = perfev.session(options)
  local function see(r)
    seen[#seen + 1] = ("%s %d %s %d %s"):format(r.type, r.time, r.comm or "", r.cpu, r.raw or r.lost or "")
    if #seen % 997 ~= 0 then return end
    local totals = s:totals()
    totals.wakeups = nil
    seen[#seen + 1] = totals
  end
  s:event { "cpu-clock", comm = see, lost = see, sample = function(r)
    see(r)
    if #seen == stop_after then s:stop() end
  end }
  s:event { "context-switches", fields = { "time", "ip", "tid" }, sample = function(...)
    seen[#seen + 1] = table.concat({ ... }, " ")
  end }
  local ok, why = s:run()
  local totals = s:totals()
  totals.wakeups = nil
  return { seen = seen, said = said, ok = ok, why = why, totals = totals }, reads_ahead
end

local function assert_same(path, opts)
  local expected, reads_ahead = replay(path, 1, opts)
  assert.is_false(reads_ahead)
  for _, jobs in ipairs { 2, 3 } do
    local got
    got, reads_ahead = replay(path, jobs, opts)
    assert.is_true(reads_ahead)
    assert.same(expected, got)
  end
  return expected
end

local function file_of(b) return b:file { [12] = b:event_desc() } end

describe("a recording that a thread reads ahead", function()
  it("has the same calls, messages and totals", function()
    for _, endian in ipairs { "little", "big" } do
      local r = assert_same(spill(file_of(build(endian))))
      assert.is_true(r.ok)
      assert.is_true(#r.seen > SAMPLES)
      assert.is_true(r.totals.lost > 0 and r.totals.malformed > 0 and r.totals.unknown_id > 0)
    end
  end)

  it("has large records, and rounds that are longer than memory should be", function()
    assert_same(spill(file_of(build("little", 900, 30000))))
    local b = new_builder()
    for i = 1, 800 do b:add(sample(i, 40000)) end
    assert_same(spill(file_of(b)))
  end)

  it("ends with the same error after the same calls if it is damaged", function()
    local whole = file_of(build())
    for _, damaged in ipairs {
      whole:sub(1, #whole - 200000), whole:sub(1, #whole // 2),
      whole:sub(1, #whole // 2) .. ("\0"):rep(64) .. whole:sub(#whole // 2 + 65),
      whole:sub(1, #whole // 2) .. ("\xff"):rep(64) .. whole:sub(#whole // 2 + 65),
    } do
      local r = assert_same(spill(damaged))
      assert.is_nil(r.ok)
      assert.matches("0x%x+", r.why)
      assert.is_true(#r.seen > 1000)
    end
  end)

  it("gives the same results if it is mutated", function()
    local bytes, state = file_of(build("little", 2500)), 7
    local function random(n)
      state = state * 6364136223846793005 + 1442695040888963407
      return (state >> 33) % n + 1
    end
    for _ = 1, 30 do
      local mutated = bytes
      for _ = 1, random(4) do
        local at = 2000 + random(#mutated - 4000)
        local new = ({ "", string.pack("<I4I2I2", random(90), random(8), random(300)), ("\1"):rep(8) })[random(3)]
        mutated = mutated:sub(1, at) .. new .. mutated:sub(at + 8 * random(3))
      end
      local path = spill(mutated)
      assert.same(replay(path, 1), (replay(path, 2)))
    end
  end)

  it("can be stopped in the middle, and limited", function()
    local path = spill(file_of(build()))
    for _, n in ipairs { 1, 2, 500, 3001 } do
      assert_same(path, { stop_after = n })
      assert_same(path, { count = n })
    end
    assert_same(path, { from = "1.0", to = "2.5" })
  end)

  -- Long stretches of samples of one event, whose fields the thread reads, too; between them other records.
  local function build_stretches(endian)
    local b = new_builder(endian)
    for i = 1, SAMPLES do
      local t = sample(i, 16)
      t.identifier, t.time = i // 500 % 2 == 0 and 11 or 13, i * MS
      b:add(t)
      if i % 300 == 0 then b:round() end
      if i % 700 == 0 then
        b:add { type = "comm", pid = 7, tid = 7, comm = "name" .. i, sample_id = { time = i * MS, identifier = 11 } }
      end
    end
    return b
  end
  -- What callbacks with fields get, while act(session, nr, events) changes what it wants.
  local function get_fields(path, jobs, fields, act, spec)
    local seen, said = {}, {}
    local s <close> = perfev.session { input = path, jobs = jobs, log = function(level, text)
      if level == 0 then said[#said + 1] = text end
    end, strict = false, on_error = function(text) said[#said + 1] = text:match "[^\n]*" end }
    local function see(...)
      seen[#seen + 1] = table.concat({ (s:task(7) or {}).comm or "none", ... }, " ")
      if #seen % 997 == 0 then seen[#seen + 1] = s:totals().delivered end
    end
    local events
    local function see_sample(...)
      see(...)
      return act and act(s, #seen, events)
    end
    spec = spec or {}
    spec[1], spec.fields, spec.sample, spec.comm = "cpu-clock", fields, see_sample, function(r) see(r.comm) end
    events = { s:event(spec),
      s:event { "context-switches", fields = { "cpu", "ip", "misc" }, sample = see_sample } }
    s:every(0.7, function() see "every" end)
    local ok, why = s:run()
    return { seen = seen, said = said, ok = ok, why = why }
  end
  local NUMBERS = { "time", "ip", "tid", "pid", "identifier" }

  it("has the same fields, in long stretches of samples", function()
    for _, endian in ipairs { "little", "big" } do
      local path = spill(file_of(build_stretches(endian)))
      local eight = { "time", "ip", "tid", "pid", "cpu", "identifier", "time", "ip" }
      local nine = { "time", "ip", "tid", "pid", "cpu", "identifier", "time", "ip", "tid" }
      for _, fields in ipairs { NUMBERS, { "ip" }, eight, nine, { "ip", "comm" } } do
        local expected = get_fields(path, 1, fields)
        assert.is_true(#expected.seen > SAMPLES)
        assert.same(expected, get_fields(path, 2, fields))
      end
      local condition = { where = { "cpu", "==", 1 } }
      assert.same(get_fields(path, 1, NUMBERS, nil, condition), get_fields(path, 2, NUMBERS, nil, condition))
    end
  end)

  it("has the same calls if a callback changes what it wants, fails or ends the session", function()
    local path = spill(file_of(build_stretches()))
    local function at(n, act) return function(s, nr, events) if nr == n then return act(s, events) end end end
    for name, act in pairs {
      fails = function(_, nr) if nr % 1009 == 0 then error("call " .. nr) end end,
      stops = at(4321, function(s) s:stop() end),
      closes = at(4321, function(s) s:close() end),
      switches = function(_, nr, events)
        if nr % 800 == 0 then events[1]:disable() elseif nr % 800 == 300 then events[1]:enable() end
      end,
      asks_in_a_coroutine = function(s, nr)
        if nr % 700 == 0 then coroutine.wrap(function() s:totals() end)() end
      end,
      returns_values = function(_, nr) return nr, nr end,
    } do
      local expected = get_fields(path, 1, NUMBERS, act)
      assert.is_true(#expected.seen > 2000, name)
      assert.same(expected, get_fields(path, 2, NUMBERS, act), name)
    end
  end)

  it("has the same fields in a loop that pulls them", function()
    local path = spill(file_of(build_stretches()))
    local function pull(jobs, last, action)
      local seen = {}
      local s <close> = perfev.session { input = path, jobs = jobs }
      local e = s:event { "cpu-clock" }
      s:event { "context-switches" }
      for time, ip, tid in s:records { fields = { "time", "ip", "tid" } } do
        seen[#seen + 1] = ("%d %d %d"):format(time, ip, tid)
        if #seen % 900 == 0 then seen[#seen + 1] = s:totals().delivered end
        if #seen == last and action(s, e) then break end
      end
      return seen
    end
    assert.same(pull(1), pull(2))
    assert.is_true(#pull(2) > SAMPLES)
    for _, action in ipairs { function() return true end, function(s) s:close() end,
                              function(_, e) e:disable() end } do
      assert.same(pull(1, 3210, action), pull(2, 3210, action))
    end
  end)

  it("can be the files of a directory", function()
    local b = new_builder()
    b:add { type = "comm", pid = 7, tid = 7, comm = "before", sample_id = {} }
    b:round()
    spill(file_of(b), "data")
    for cpu = 0, 2 do
      local ring = new_builder()
      for i = 1, 2000 do
        local t = sample(i * 3, 16)
        t.cpu, t.time = cpu, (i * 3 + cpu) * MS
        ring:add(t)
      end
      spill(table.concat(ring.records), "data." .. cpu)
    end
    local r = assert_same(dir)
    assert.is_true(r.ok)
    assert.is_true(#r.seen > 6000)
  end)

  it("can be compressed", function()
    local b = build("little", 3000)
    local all, stream = table.concat(b.records), { "\x28\xb5\x2f\xfd\x00\x58" } -- a zstd frame: RFC 8878, 3.1.1
    for at = 1, #all, 60000 do -- of blocks that are stored
      local body = all:sub(at, at + 59999)
      stream[#stream + 1] = string.pack("<I3", #body << 3 | (at + 60000 > #all and 1 or 0)) .. body
    end
    stream, b.records = table.concat(stream), {}
    for at = 1, #stream, 50000 do b:user(81, stream:sub(at, at + 49999)) end
    local r = assert_same(spill(file_of(b)))
    assert.is_true(r.ok)
    assert.is_true(#r.seen > 3000)
  end)

  it("can be pulled, and closed in the middle", function()
    local path = spill(file_of(build()))
    local function pull(jobs, last)
      local seen, reads_ahead = {}, false
      local s <close> = perfev.session { input = path, jobs = jobs, log = function(_, text)
        reads_ahead = reads_ahead or text:find(": a thread reads ahead", 1, true) ~= nil
      end }
      s:event { "cpu-clock" }
      for r in s:records() do
        seen[#seen + 1] = ("%s %d"):format(r.type, r.time)
        if #seen == last then break end
      end
      assert.equal(jobs > 1, reads_ahead)
      return seen
    end
    assert.same(pull(1), pull(2))
    assert.same(pull(1, 1234), pull(2, 1234))
  end)

  -- `make test-tsan` runs this file with a perfl that reports races on standard error.
  it("has the same output of perfl", function()
    local script = ("%s/all.lua"):format(dir)
    run.write_file(script, [[
      local p = require "perfev"
      p.event { "cpu-clock", comm = function(r) print(r.comm) end, lost = function(r) print(r.lost) end,
        sample = function(r) print(r.time, r.comm, r.cpu, #r.raw) end }
      p.event { "context-switches", fields = { "time", "tid" }, sample = print }
      p.every(0.5, function() print("every", p.totals().records, p.totals().unknown_id) end)
    ]])
    for _, b in ipairs { build(), build_stretches() } do
      local path = spill(file_of(b))
      local function output(jobs)
        return run.capture(("%s --jobs %d -i %s %s 2>&1; echo status $?"):format(run.perfl, jobs,
          path, script)):gsub(", [%d.]+ s of CPU", "")
      end
      local expected = output(1)
      assert.matches("every\t%d+\t%d", expected)
      for _ = 1, 3 do assert.equal(expected, output(2)) end
    end
  end)

  it("is read by the caller if it is a pipe, or small without jobs", function()
    local path = spill(file_of(build("little", 100)))
    local _, reads_ahead = replay(path)
    assert.is_false(reads_ahead)
    local pipe = spill(build("little", 100):pipe())
    _, reads_ahead = replay(pipe, 2)
    assert.is_false(reads_ahead)
    local r
    r, reads_ahead = replay(path, 2)
    assert.is_true(reads_ahead)
    assert.equal(100, r.totals.delivered)
  end)
end)
