-- perfev.open: recordings of other tools, of this spec, and damaged ones; more of these in damaged_files_spec.lua and
-- hostile_files_spec.lua.

local perfev = require "perfev"
local fixtures = require "spec.support.fixtures"
local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"
local sha256 = require "spec.support.sha256"

local function hex(n) return n == 0 and "0" or ("0x%x"):format(n) end

local TYPES = { -- names that the fixtures have by another word
  header_attr = "ATTR",
}

-- The facts of expected.json, as perfev reads them.
local function facts_of(rec)
  local lines, events, seen = {}, {}, { callchain = 0, branch = 0, periods = 0 }
  for i, event in ipairs(rec.events) do events[i] = { event.name, 0, 0 } end
  local index = {}
  for i, event in ipairs(rec.events) do index[event] = events[i] end
  for r in rec:records() do
    if r.number == 9 then
      local event = assert(r.event, "a sample of no event")
      local period = r.period or event.attr.sample_period
      local counts = index[event]
      counts[2], counts[3] = counts[2] + 1, counts[3] + period
      seen.periods = seen.periods + period
      seen.callchain = seen.callchain + (r.callchain and #r.callchain.raw or 0)
      -- of a call stack perf counts the address that it came from as well
      local call_stack = event.attr.branch_sample_type & 1 << 11 ~= 0
      seen.branch = seen.branch + (r.branch_stack and #r.branch_stack + (call_stack and 1 or 0) or 0)
      lines[#lines + 1] = ("%s %d %d %d %s\n"):format(hex(r.ip or 0), r.pid or -1, r.tid or -1, period,
        hex(r.addr or 0))
    end
  end
  table.sort(lines)
  local stats, types = rec:totals(), {}
  for name, n in pairs(stats.types) do types[TYPES[name] or name:upper()] = n end
  return {
    records = types, total = stats.records, events = events, samples = #lines, lost = stats.lost,
    period_sum = seen.periods, callchain_entries = seen.callchain, branch_entries = seen.branch,
    samples_sha256 = sha256(table.concat(lines)),
  }
end

-- perf names an event without a name by its type and config.
local function names_alike(rec, facts, wanted)
  for i, event in ipairs(wanted.events) do
    local attr = rec.events[i].attr
    if event[1] == ("%d:0x%x"):format(attr.type, attr.config) then facts.events[i][1] = event[1] end
  end
end

local function check_fixture(name)
  if fixtures.missing then pending(fixtures.missing) end
  local wanted = fixtures.named(name)
  local rec = assert(perfev.open(fixtures.path(name)))
  local facts = facts_of(rec)
  names_alike(rec, facts, wanted)
  for key, value in pairs(facts) do
    if wanted[key] ~= json.null then assert.same(wanted[key], value, name .. ": " .. key) end
  end
  assert.equal(wanted.kind == "pipe", rec.facts.pipe)
  if wanted.attr_size ~= json.null then assert.equal(wanted.attr_size, rec.facts.attr_size) end
  if wanted.arch ~= json.null then assert.equal(wanted.arch, rec.header.arch) end
  return rec
end

local ends_early = {
  ["quipper/perf.data.piped.corrupted.zero_size_sample-3.2"] =
    "the record at 0xbfd0 (type 9) has a size of 0 bytes, but a record has at least 8",
  ["linux-perf-data/sleep.compressed2.pipe.data"] = "file cut short at 0x7ccf, in the record at 0x7c40",
}

describe("recordings made by other tools", function()
  for _, fixture in ipairs(fixtures) do
    it("are decoded to the expected records: " .. fixture.file, function()
      local rec <close> = check_fixture(fixture.file)
      assert.same({}, rec.warnings)
      if ends_early[fixture.file] then
        assert.matches(ends_early[fixture.file], rec.error, 1, true)
      else
        assert.is_nil(rec.error)
      end
      -- every feature that is there can be decoded
      for _, name in ipairs(fixture.features or {}) do
        local key = name == "BUILD_ID" and "build_ids" or name:lower()
        assert.is_true(rec.sections[key].size == 0 or rec.header[key] ~= nil, name)
      end
    end)
  end

  local twins = {
    ["perf.data.group_desc-4.14"] = true, ["perf.data.lost_samples-4.4"] = true, ["perf.data.singleprocess-3.8"] = true,
  }
  for twin in pairs(twins) do
    it("are decoded in the other byte order to the same samples: " .. twin, function()
      if fixtures.missing then pending(fixtures.missing) end
      local wanted = fixtures.named("quipper/" .. twin)
      local rec <close> = assert(perfev.open(fixtures.path("big-endian/" .. twin .. ".be")))
      assert.is_true(rec.facts.big)
      local facts = facts_of(rec)
      for i, event in ipairs(facts.events) do
        assert.same({ table.unpack(wanted.events[i], 2) }, { table.unpack(event, 2) })
      end
      facts.events = wanted.events
      for key, value in pairs(facts) do assert.same(wanted[key], value, key) end
      assert.is_nil(rec.error)
    end)
  end

  it("that are hostile end with a cause, in bounded memory", function()
    if fixtures.missing then pending(fixtures.missing) end
    local n = 0
    local list = io.popen("ls " .. fixtures.path "finds/")
    for name in list:lines() do
      n = n + 1
      local bytes = assert(run.slurp(fixtures.path("finds/" .. name)))
      local rec, why = perfev.open(fixtures.path("finds/" .. name))
      if rec then
        local records = 0
        for _ in rec:records() do records = records + 1 end
        assert.is_true(records <= #bytes / 8, name)
        assert.is_true(rec:totals().memory <= 4 << 20, name)
        assert.is_true(rec.error ~= nil or #rec.warnings > 0 or records > 0, name)
        rec:close()
      else
        assert.matches("0x%x+", why, name)
      end
    end
    list:close()
    assert.equal(14, n)
  end)
end)

-- ---- made here ----

local attr = { sample_type = { "identifier", "ip", "tid", "time", "cpu", "period", "raw" }, sample_id_all = true,
               type = 0, config = 0, sample_period = 1000 }
local other = { sample_type = { "identifier", "ip", "tid", "time", "cpu", "period", "callchain" }, sample_id_all = true,
                type = 1, config = 2 }

local function sample(id, time, ip)
  return { type = "sample", identifier = id, ip = ip or time, pid = 7, tid = 8, time = time, cpu = 1, period = time,
           raw = "raw bytes of it", callchain = { -128, 1, 2 } }
end

-- Two events, two CPUs' rings in each of three rounds, and the records around them.
local function recording(endian)
  local built = perfdata.new { endian = endian, events = {
    { attr = attr, ids = { 11, 12 }, name = "cycles" }, { attr = other, ids = { 21 }, name = "faults" },
  } }
  built:add { type = "mmap2", pid = 7, tid = 7, addr = 4096, len = 4096, filename = "/bin/true",
              sample_id = { pid = 7 } }
  built:add { type = "comm", pid = 7, tid = 8, comm = "before", sample_id = { tid = 8 } }
  for round = 0, 2 do
    for _, at in ipairs { 100, 105 } do
      for i = 0, 4 do built:add(sample(i % 2 == 0 and 11 or 21, 1000 * round + at + 10 * i)) end
    end
    built:round()
  end
  built:add { type = "comm", pid = 7, tid = 8, comm = "after", sample_id = { tid = 8, time = 9000, identifier = 12 } }
  built:add { type = "lost", id = 21, lost = 5, sample_id = { time = 9001, identifier = 21 } }
  return built:add(sample(12, 9002)):round()
end

local function features_of(built)
  return { [3] = built:string("host"), [6] = built:string("x86_64"), [7] = built:pack("I4I4", 4, 3),
           [12] = built:event_desc(), [29] = built:pack("I4I4I8I8", 1, 4, 5, 6) }
end

local function both(f)
  for _, endian in ipairs { "little", "big" } do f(recording(endian), endian) end
end

describe("the count of lost records in a recording", function()
  -- { misc =, time =, lost = } of LOST_SAMPLES -> lost, lost_samples
  local function losses(list, fields)
    local out = {}
    for _, endian in ipairs { "little", "big" } do
      local built = perfdata.new { endian = endian, events = { { ids = { 11 }, name = "cycles", attr = fields } } }
      for i, lost in ipairs { 3, 4 } do
        built:add { type = "lost", id = 11, lost = lost, sample_id = { time = i, identifier = 11 } }
      end
      for _, one in ipairs(list) do
        built:add { type = "lost_samples", lost = one.lost, misc = one.misc,
                    sample_id = { time = one.time or 0, identifier = 11 } }
      end
      local rec <close> = assert(perfdata.open(built:file {}))
      for _ in rec:records() do end
      out[#out + 1] = rec:totals()
    end
    assert.equal(out[1].lost, out[2].lost)
    assert.equal(out[1].lost_samples, out[2].lost_samples)
    return out[1].lost, out[1].lost_samples
  end

  it("is that of LOST records if no count was read at the end", function()
    assert.same({ 7, 0 }, { losses({}, attr) })
  end)

  it("is the kernel's count for each event, which includes the LOST records", function()
    assert.same({ 12, 0 }, { losses({ { lost = 10 }, { lost = 2 } }, attr) })
  end)

  it("is that of the hardware if the kernel itself wrote LOST_SAMPLES", function()
    assert.same({ 7, 9 }, { losses({ { lost = 9, time = 5 } }, attr) })
    assert.same({ 10, 9 }, { losses({ { lost = 9, time = 5 }, { lost = 10 } }, attr) })
  end)

  it("does not include records that a BPF filter dropped", function()
    assert.same({ 7, 0 }, { losses({ { lost = 100, misc = 1 << 15 } }, attr) })
  end)

  it("is assigned by read_format if records have no time", function()
    local timeless = { sample_type = { "ip", "tid", "identifier" }, sample_id_all = true }
    assert.same({ 7, 9 }, { losses({ { lost = 9 } }, timeless) })
    timeless.read_format = { "id", "lost" }
    assert.same({ 9, 0 }, { losses({ { lost = 9 } }, timeless) })
  end)
end)

describe("a recording", function()
  it("is decoded to the same values in both byte orders", function()
    local first
    both(function(built, endian)
      local lines, why = perfdata.lines(built:file(features_of(built)))
      assert.is_nil(why, endian)
      first = first or lines
      assert.same(first, lines)
    end)
    assert.equal(39, #first)
    local cut
    for _, line in ipairs(first) do cut = cut or line:match("^cycles sample.*cpu=1") end
    assert.equal("cycles sample ip=0x64 pid=7 tid=8 time=100 cpu=1", cut)
  end)

  it("is read in the order of time, across the CPUs of a round", function()
    both(function(built)
      local rec <close> = perfdata.open(built:file(features_of(built)))
      local times, last = {}, 0
      for r in rec:records { user = false } do
        if r.time and r.time > 0 then
          assert.is_true(r.time >= last)
          times[#times + 1], last = r.time, r.time
        end
      end
      assert.equal(33, #times)
      assert.same({ 4, 0, 0 }, { rec:totals().rounds, rec:totals().late, rec:totals().forced })
    end)
  end)

  it("is read in the file's order with ordered = false", function()
    local built = recording()
    local rec <close> = perfdata.open(built:file(), nil, { ordered = false })
    local last, backwards = 0, 0
    for r in rec:records { user = false } do
      if r.time and r.time > 0 then
        backwards = backwards + (r.time < last and 1 or 0)
        last = r.time
      end
    end
    assert.equal(3, backwards)
  end)

  it("is the same through a pipe, in pieces of any size", function()
    both(function(built)
      local whole = perfdata.lines(built:file(features_of(built)))
      for _, chunk in ipairs { 1, 7, 4096 } do
        local lines, why = perfdata.lines(built:pipe(features_of(built)), chunk)
        assert.is_nil(why)
        assert.same({ "header_attr", "header_attr", "feature" }, { table.unpack(lines, 1, 3) })
        assert.same(whole, { table.unpack(lines, 2 + 5 + 1) })
      end
    end)
  end)

  it("returns the facts of its recorder", function()
    both(function(built)
      for _, chunk in ipairs { false, 100 } do
        local bytes = chunk and built:pipe(features_of(built)) or built:file(features_of(built))
        local rec <close> = perfdata.open(bytes, chunk or nil)
        local header = rec.header
        assert.same({ "host", "x86_64", 4, 3 },
          { header.hostname, header.arch, header.nrcpus.available, header.nrcpus.online })
        assert.same({ version = 1, clockid = 4, wall = 5, clock = 6 }, header.clock_data)
        assert.same({ "cycles", "faults" }, { rec.events[1].name, rec.events[2].name })
        assert.same({ 11, 12 }, rec.events[1].ids)
        assert.is_nil(header.cpuid)
        local keys = {}
        for key in pairs(header) do keys[#keys + 1] = key end
        assert.same({ "hostname", "arch", "nrcpus", "event_desc", "clock_data" }, keys)
      end
    end)
  end)

  it("has a comm for ended tasks, and marks synthesised records", function()
    local built = recording()
    local comms, marked = {}, {}
    local rec <close> = perfdata.open(built:file())
    for r, _, synthesised in rec:records { user = false } do
      if r.type == "sample" then comms[r.comm] = (comms[r.comm] or 0) + 1 end
      if synthesised then marked[#marked + 1] = r.type end
    end
    assert.same({ before = 30, after = 1 }, comms)
    assert.same({ "mmap2", "comm" }, marked)
  end)

  it("closes a view at the next record, and when it is closed itself", function()
    local rec = perfdata.open(recording():file())
    local next_record = rec:records { user = false }
    local kept = next_record()
    assert.equal("mmap2", kept.type)
    next_record()
    assert.error_matches(function() return kept.type end, "used after its callback")
    local last = next_record()
    rec:close()
    assert.error_matches(function() return last.type end, "used after its callback")
    assert.error_matches(function() rec:records() end, "the recording is closed")
    assert.equal("comm", rec:totals().types.comm and "comm")
    assert.is_true(rec:totals().records >= 3)
  end)

  it("is read once: a second loop continues, and a loop after the end is refused", function()
    local rec <close> = perfdata.open(recording():file())
    local first, rest, whole = 0, 0, 0
    for _ in perfdata.open(recording():file()):records { user = false } do whole = whole + 1 end
    for _ in rec:records { user = false } do
      first = first + 1
      if first == 2 then break end
    end
    for _ in rec:records { user = false } do rest = rest + 1 end
    assert.equal(whole, first + rest)
    assert.error_matches(function() rec:records() end, "the recording was read already\n  try: perfev.open")
  end)

  it("ends the loop that closes it", function()
    local rec, n = perfdata.open(recording():file()), 0
    for _ in rec:records() do
      n = n + 1
      rec:close()
    end
    assert.equal(1, n)
  end)

  it("closes its descriptor", function()
    local hooks, open = perfdata.hooks(recording():file())
    perfev.hooks.with(hooks, function()
      local rec <close> = assert(perfev.open("x"))
      assert.is_true(open[77])
      assert.equal("mmap2", rec:records()().type)
    end)
    assert.is_nil(next(open))
  end)

  it("accepts attrs of any size, old and new", function()
    for _, size in ipairs { 64, 72, 80, 96, 112, 128, 136, 144, 200 } do
      local built = perfdata.new { events = { { attr = attr, ids = { 1 }, size = size } } }
      built:add(sample(1, 5))
      local lines = assert(perfdata.lines(built:file()))
      assert.matches("^cycles sample ip=0x5", lines[1])
    end
  end)

  it("ends a record with its content if its size is too large", function()
    local narrow = { sample_type = { "time", "identifier" }, sample_id_all = true }
    local wide = { sample_type = { "tid", "time", "identifier" }, sample_id_all = true }
    local built = perfdata.new { events = { { attr = narrow, ids = { 5 } }, { attr = wide, ids = { 6 } } } }
    local bytes = perfev.encode(wide, {
      type = "ksymbol", addr = 1, len = 2, ksym_type = 1, flags = 0, name = "bpf_prog",
      sample_id = { pid = 1, tid = 2, time = 3000, identifier = 6 },
    })
    for _, stale in ipairs { string.pack("=I8I8", 9, 5), string.pack("=I8I8", 0, 77) } do
      built:add(bytes:sub(1, 6) .. string.pack("=I2", #bytes + #stale) .. bytes:sub(9) .. stale)
    end
    local rec <close> = perfdata.open(built:file())
    local seen = {}
    for r in rec:records { user = false } do seen[#seen + 1] = { r.event == rec.events[2], r.name, r.tid, r.time } end
    assert.same({ { true, "bpf_prog", 2, 3000 }, { true, "bpf_prog", 2, 3000 } }, seen)
    assert.same({ 0, 0 }, { rec:totals().unknown_id, rec:totals().malformed })
  end)

  it("counts records of an unknown id, and gives them no event", function()
    local built = recording()
    built:add(string.pack("=I4I2I2I8", 9, 0, 88, 99) .. ("\0"):rep(72))
    local rec <close> = perfdata.open(built:file())
    local none = 0
    for r in rec:records { user = false } do none = none + (r.type == "sample" and r.event == nil and 1 or 0) end
    assert.same({ 1, 1 }, { none, rec:totals().unknown_id })
  end)

  it("with indistinguishable samples reports that, and does not guess", function()
    local plain = { sample_type = { "ip", "time" } }
    local built = perfdata.new { events = { { attr = plain, ids = { 1 } } } }
    built:add { type = "sample", ip = 5, time = 6 }
    built.events[2] = { ids = { 2 }, bytes = perfdata.attr_bytes({ sample_type = { "ip" } }, built.endian) }
    local rec <close> = perfdata.open(built:file())
    local r = rec:records()()
    assert.same({ "sample", nil, nil }, { r.type, r.event, r.ip })
    assert.equal(1, rec:totals().ambiguous)
  end)

  it("returns unknown types by number and bytes", function()
    local built = recording()
    built:add(string.pack("=I4I2I2", 60, 0, 16) .. "12345678")
    built:user(87, "new tool")
    built:user(32799, "simpleperf's own")
    built:add(string.pack("=I4I2I2", 32769, 65535, 16) .. "12345678") -- as long as no file is
    local rec <close> = perfdata.open(built:file())
    local seen = {}
    for r in rec:records() do
      if r.type == "unknown" or r.number > 32768 then seen[#seen + 1] = r.number .. " " .. r.raw end
    end
    assert.same({ "60 12345678", "87 new tool", "32799 simpleperf's own", "32769 12345678" }, seen)
    assert.is_nil(rec.error)
  end)

  -- Records of four CPUs in each round, and records that the reader handles by itself among them.
  local function long_rounds(rounds)
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } }, { attr = attr, ids = { 2 } } } }
    local expected = {}
    for round = 1, rounds do
      for cpu = 0, 3 do
        for i = 1, 400 do
          local time = round * 100000 + i * 100 + cpu * 7 + i * (cpu + 1) % 5
          built:add(sample(1 + i % 2, time))
          expected[#expected + 1] = time
          if i % 150 == 0 then -- an unknown id, and a tool's record
            local bytes = built.encode(sample(1, time))
            built:add(bytes:sub(1, 8) .. built:pack("i8", 99) .. bytes:sub(17)):user(69, "12345678")
            expected[#expected + 1] = time
          end
        end
      end
      built:round()
    end
    table.sort(expected)
    return built, expected
  end

  it("with rounds longer than the window is ordered by rereading the file", function()
    for _, rounds in ipairs { 1, 2, 5 } do
      local built, expected = long_rounds(rounds)
      for _, window in ipairs { 65536, 100000 } do
        local rec <close> = perfdata.open(built:file(), nil, { window = window })
        local times = {}
        for r in rec:records { user = false } do times[#times + 1] = r.time or r.raw end
        assert.is_nil(rec.error)
        local totals = rec:totals()
        assert.same({ 0, 0, 8 * rounds, #expected + 9 * rounds },
          { totals.forced, totals.late, totals.unknown_id, totals.records })
        assert.same({}, rec.warnings)
        assert.same(expected, times)
      end
    end
  end)

  it("in a pipe without FINISHED_ROUND is ordered within a window, and reports it", function()
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
    local n = 3000
    for i = 1, n do built:add(sample(1, 1000 + (i % 2 == 0 and i or i + 50))) end
    local rec <close> = perfdata.open(built:pipe(), 65536, { window = 65536 })
    local count, last = 0, 0
    for r in rec:records { user = false } do
      count = count + 1
      assert.is_true(r.time >= last)
      last = r.time
    end
    assert.equal(n, count)
    assert.is_true(rec:totals().forced > 0)
    assert.matches("no FINISHED_ROUND marks", rec.warnings[1])
  end)

  it("delivers a record that is too late for its round, and counts it", function()
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
    for _, time in ipairs { 100, 200 } do built:add(sample(1, time)) end
    built:round():add(sample(1, 300)):round():add(sample(1, 50)):round():add(sample(1, 400))
    local times = {}
    local rec <close> = perfdata.open(built:file())
    for r in rec:records { user = false } do times[#times + 1] = r.time end
    assert.same({ 100, 200, 50, 300, 400 }, times)
    assert.equal(1, rec:totals().late)
  end)

  it("keeps the file's order of records with equal times", function()
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
    for ip = 1, 40 do built:add(sample(1, ip % 3 == 0 and 50 or 60 - ip % 2 * 10, ip)) end
    local last, n = {}, 0
    local rec <close> = perfdata.open(built:file())
    for r in rec:records() do
      assert.is_true(r.ip > (last[r.time] or 0))
      last[r.time], n = r.ip, n + 1
    end
    assert.equal(40, n)
  end)

  it("is ordered as by a stable sort, for random CPUs, bursts and events", function()
    math.randomseed(7)
    local built = perfdata.new { events = { { attr = attr, ids = { 1, 2 } }, { attr = attr, ids = { 3 } } } }
    local wanted, round = {}, 0
    for _ = 1, 12 do
      for _ = 1, math.random(1, 6) do -- the records of one CPU
        local time = round * 1000 + 1
        for _ = 1, math.random(1, 60) do
          time = math.min(time + math.random(0, 2) * math.random(0, 20), round * 1000 + 999)
          wanted[#wanted + 1] = { time, #wanted + 1, math.random(1, 3) }
          built:add(sample(wanted[#wanted][3], time, #wanted))
        end
      end
      built:round()
      round = round + 1
    end
    table.sort(wanted, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
    local rec <close> = perfdata.open(built:file())
    local n = 0
    for r in rec:records { user = false } do
      n = n + 1
      assert.same({ wanted[n][1], wanted[n][2], rec.events[wanted[n][3] // 3 + 1].ids }, { r.time, r.ip, r.event.ids })
      assert.equal(12 + n, rec:totals().records + (12 - rec:totals().rounds))
    end
    assert.equal(#wanted, n)
    assert.equal(0, rec:totals().late)
  end)

  it("skips AUX data by their size", function()
    for _, how in ipairs { { 5000 }, { 5000, 5 }, { 3 << 20 }, { 3 << 20, 4096 } } do
      local size, chunk = how[1], how[2]
      local built = recording()
      built:user(71, built:pack("I8I8I8I4i4i4I4", size, 0, 0, 3, 8, 1, 0))
      built:add(("A"):rep(size))
      built:add(sample(11, 9100))
      local lines, why, stats = perfdata.lines(chunk and built:pipe() or built:file(), chunk)
      assert.is_nil(why)
      assert.equal(size, stats.auxtrace)
      assert.matches("time=9100", lines[#lines])
    end
  end)

  it("decodes the records of tools, and returns their types by name", function()
    local built = recording()
    built:user(73, built:pack("I8I8c16", 1, 7, "sleep"))
    built:user(74, built:pack("I2I2I2I2", 0, 2, 0, 5))
    built:user(74, built:pack("I2I2I2I4I8", 1, 1, 8, 0, 5))
    built:user(79, built:pack("I8I8I8", 1, 2, 3))
    built:user(69, built:pack("I8", 1 << 60))
    built:user(74, built:pack("I2I2I2I2", 0, 1, 0xffff, 0)) -- of a task's counts
    local rec <close> = perfdata.open(built:file())
    local seen = {}
    for r in rec:records() do
      if type(r) == "table" and r.number > 68 then seen[#seen + 1] = r end
    end
    assert.same({ { pid = 7, comm = "sleep" } }, seen[1].threads)
    assert.same({ 0, 5 }, seen[2].cpus)
    assert.same({ 0, 2 }, seen[3].cpus)
    assert.same({ 1, 2, 3 }, { seen[4].time_shift, seen[4].time_mult, seen[4].time_zero })
    assert.matches("8 bytes are expected", seen[5].malformed)
    assert.same({ -1 }, seen[6].cpus)
  end)
end)

-- ---- compressed ----

-- A zstd frame of blocks that are stored as they are: RFC 8878, 3.1.1.
local FRAME = "\x28\xb5\x2f\xfd\x00\x58" -- a window of 2 MiB, no size

local function block(kind, size, body, last)
  return string.pack("<I3", size << 3 | kind << 1 | (last and 1 or 0)) .. body
end

-- A recording with COMPRESSED records; each has this many bytes of the stream.
local function compressed(cut, number)
  local plain = recording("little")
  local all = table.concat(plain.records)
  local half = #all // 2
  local stream = FRAME .. block(0, half, all:sub(1, half)) .. block(0, #all - half, all:sub(half + 1), true)
  local records = plain.records
  plain.records = {}
  for at = 1, #stream, cut do
    local part = stream:sub(at, at + cut - 1)
    if number == 83 then
      plain:user(83, plain:pack("I8", #part) .. part .. ("\0"):rep(-#part % 8))
    else
      plain:user(81, part)
    end
  end
  return plain, records
end

local function but_compressed(lines)
  local out = {}
  for _, line in ipairs(lines) do
    if not line:find("^compressed") then out[#out + 1] = line end
  end
  return out
end

describe("compressed records", function()
  it("can span chunks at any byte, and keep their content", function()
    local wanted = perfdata.lines(recording("little"):file(features_of(recording("little"))))
    for _, cut in ipairs { 1, 7, 100, 60000 } do
      for _, number in ipairs { 81, 83 } do
        local built = compressed(cut, number)
        local lines, why, stats = perfdata.lines(built:file(features_of(built)))
        assert.is_nil(why)
        assert.same(wanted, but_compressed(lines))
        assert.equal(#table.concat(recording("little").records), stats.inflated)
        local piped = perfdata.lines(built:pipe(features_of(built)), 13)
        assert.same(wanted, but_compressed({ table.unpack(piped, 8) }))
      end
    end
  end)

  it("that end inside of a record are reported", function()
    local built = compressed(100, 81)
    table.remove(built.records)
    table.remove(built.records)
    local _, why = perfdata.lines(built:file())
    assert.matches("the compressed data at 0x%x+ ends inside a record", why)
  end)

  it("that are not zstd end the reading there", function()
    local built = recording("little")
    built:user(81, "no zstd frame at all")
    built:add(sample(11, 9999))
    local lines, why = perfdata.lines(built:file())
    assert.equal(#built.records - 1, #lines)
    assert.matches("the compressed record at 0x%x+: zstd: ", why)
  end)

  it("must not contain compressed records or records with trailing bytes", function()
    for _, number in ipairs { 66, 71, 81, 83 } do
      local built = recording("little")
      local inner = built:pack("I4I2I2I8", number, 0, 16, 0)
      built:user(81, FRAME .. block(0, #inner, inner, true))
      local _, why = perfdata.lines(built:file())
      assert.matches(("a record of type %d inside the compressed one at 0x"):format(number), why, 1, true)
    end
  end)

  it("that exceed a recorder's buffer are refused, in bounded memory", function()
    -- 64 KiB that inflate to 2 GiB: records of 0x808 bytes of an unknown type
    local bomb = FRAME .. block(1, 128 << 10, "\8"):rep(16000)
    for _, feature in ipairs { false, string.pack("<I4I4I4I4I4", 1, 1, 1, 1, 1 << 20) } do
      local built = recording("little")
      built:user(81, bomb)
      local features = features_of(built)
      features[27] = feature or nil
      local rec <close> = perfdata.open(built:file(features))
      local n = 0
      for r in rec:records { user = false } do n = n + (r.type and 1 or 0) end
      assert.equal(#built.records - 5, n)
      assert.matches("inflates to more bytes than the recorder's buffer", rec.error)
      local stats = rec:totals()
      assert.is_true(stats.inflated <= (feature and 2 << 20 or 34 << 20))
      assert.is_true(stats.memory <= 4 << 20)
    end
  end)
end)

-- ---- damaged ----

describe("a damaged recording", function()
  it("loses no record before a cut", function()
    local built = recording()
    local empty = perfdata.new { events = { { attr = attr, ids = { 11, 12 } }, { attr = other, ids = { 21 } } } }
    local at, ends = #empty:file(), {}
    for i, record in ipairs(built.records) do
      at = at + #record
      ends[i] = at
    end
    local bytes = built:file()
    for i, stop in ipairs(ends) do
      for _, cut in ipairs { stop, stop + 3 } do
        if cut < #bytes then
          local lines, why = perfdata.lines(bytes:sub(1, cut))
          assert.equal(i, #lines)
          assert.matches("file cut short at 0x" .. ("%x"):format(cut), why, 1, true)
        end
      end
    end
  end)

  it("of a killed recorder is read to its end, and reported", function()
    both(function(built)
      local bytes = built:file()
      -- The size of its records comes last, as do the features that its first header promises.
      for _, promised in ipairs { "\0\0\0\0\0\0\0\0", "\xfc\x7f\x71\xd6\0\0\0\0", ("\xff"):rep(8) } do
        local killed = bytes:sub(1, 48) .. ("\0"):rep(8) .. bytes:sub(57, 72) .. promised .. bytes:sub(81)
        local lines, why = perfdata.lines(killed)
        assert.equal(#built.records, #lines)
        assert.matches("as when the recorder was killed", why)
      end
    end)
  end)

  it("without records but with features is not a killed recorder's", function()
    local built = perfdata.new { events = { { attr = { sample_type = { "ip" } } } } }
    local rec <close> = perfdata.open(built:file(features_of(built)))
    assert.equal("host", rec.header.hostname)
    assert.is_nil(rec.facts.damage)
    assert.is_nil(rec:records()())
  end)

  it("with any one byte changed ends, within bounds", function()
    math.randomseed(20261121)
    both(function(built)
      local bytes = built:file(features_of(built))
      for _ = 1, 500 do
        local at = math.random(#bytes)
        local changed = bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1)
        local rec, why = perfdata.open(changed)
        assert.is_true(rec ~= nil or type(why) == "string")
        if rec then
          local n = 0
          for r in rec:records() do
            n = n + 1
            assert.is_string(tostring(r))
          end
          for _, value in pairs(rec.header) do assert.is_not_nil(value) end
          local stats = rec:totals()
          assert.is_true(n <= #bytes / 8 and stats.memory <= 4 << 20)
          rec:close()
        end
      end
    end)
  end)

  it("skips a record that is too small for its type, and reports it", function()
    local fields = { sample_type = { "ip", "tid" } }
    for _, trailer in ipairs { 0, 8 } do
      fields.sample_id_all = trailer > 0
      for number, layout in ipairs(require("perfev.core").layouts().records) do
        local min = number == 9 and 24 or layout.min + trailer
        for size = 8, min - 1 do
          local built = perfdata.new { events = { { attr = fields, ids = { 1 } } } }
          local at = #built:file()
          built:add(built:pack("I4I2I2", number, 0, size) .. ("\0"):rep(size - 8))
          built:user(87, "8 bytes!")
          local rec <close> = perfdata.open(built:file())
          local seen = {}
          for r in rec:records() do seen[#seen + 1] = r.number end
          assert.same({ 87 }, seen, layout.name .. " of " .. size)
          assert.equal(1, rec:totals().malformed)
          local told = rec.warnings[#rec.warnings]
          if number == 9 then
            assert.equal(("at 0x%x: sample: %d bytes, its fixed fields need 24"):format(at, size), told)
          else
            assert.equal(("at 0x%x: %s (%d): %d bytes, needs %d"):format(at, layout.name, number, size, min), told)
          end
        end
      end
    end
  end)

  it("with a wrong header is refused with the cause", function()
    local bytes = recording():file()
    for text, wanted in pairs {
      [""] = "empty: file cut short at 0x0",
      ["PERF"] = "cut short at 0x4, in its head",
      [("x"):rep(200)] = "it does not begin with PERFILE2",
      ["\x1f\x8b" .. ("x"):rep(200)] = "decompress it first, as in gzip -dk FILE",
      ["\x28\xb5\x2f\xfd" .. ("x"):rep(200)] = "decompress it first, as in zstd -d FILE",
      [bytes:sub(1, 8) .. string.pack("=I8", 48) .. bytes:sub(17)] = "at 0x8: a head of 48 bytes",
      [bytes:sub(1, 16) .. string.pack("=I8", 79) .. bytes:sub(25)] = "at 0x10: an event of 79 bytes",
    } do
      local rec, why = perfdata.open(text)
      assert.is_nil(rec)
      assert.matches(wanted, why, 1, true)
    end
    local rec, why, code = perfev.open("/nowhere/at/all")
    assert.same({ nil, "/nowhere/at/all: No such file or directory", 2 }, { rec, why, code })
    assert.matches("/tmp: a directory, not a recording: it has no file 'data', as perf record --threads writes it",
      (select(2, perfev.open("/tmp"))), 1, true)
    assert.matches("through a pipe", (select(2, perfdata.open(bytes, 100))))
    assert.matches("does not begin", (select(2, perfev.open("/dev/zero"))))
  end)

  it("assigns an id that two events claim to the first", function()
    local built = perfdata.new { events = { { attr = attr, ids = { 1 }, name = "a" } } }
    built:add(sample(1, 5))
    built.events[2] = { ids = { 1 }, bytes = built.events[1].bytes, name = "b" }
    local rec <close> = perfdata.open(built:file { [12] = built:event_desc() })
    assert.equal("a", rec:records()().event.name)
    assert.equal(1, rec:totals().shared_ids)
  end)
end)

describe("perfev.open", function()
  it("refuses unknown options, with the nearest one", function()
    assert.error_matches(function() perfev.open("x", { windw = 1 }) end, "did you mean 'window'?", 1, true)
    assert.error_matches(function() perfev.open() end, "a path, or \"-\"", 1, true)
    local rec <close> = perfdata.open(recording():file())
    assert.error_matches(function() rec:records { usr = false } end, "did you mean 'user'?", 1, true)
    assert.error_matches(function() rec:records { types = { "mmpa" } } end, "did you mean 'mmap'?", 1, true)
    assert.error_matches(function() rec:records { types = "mmap" } end, "types must be a list of names", 1, true)
    assert.error_matches(function() rec:records { types = { 64 } } end, "unknown record type '64'", 1, true)
  end)

  it("skips types that are not requested, but uses them for the names of tasks", function()
    for _, endian in ipairs { "little", "big" } do
      local rec <close> = perfdata.open(recording(endian):file())
      local seen, users = {}, 0
      for r in rec:records { types = { "mmap2", "lost", 3 } } do
        if r.number >= 64 then users = users + 1 else seen[#seen + 1] = r.type end
      end
      assert.same({ "mmap2", "comm", "comm", "lost" }, seen)
      assert.equal(4, users)
      assert.equal(31, rec:totals().types.sample)
    end
    local rec <close> = perfdata.open(recording():file())
    local comms = {}
    for r in rec:records { user = false, types = { "sample" } } do comms[r.comm] = (comms[r.comm] or 0) + 1 end
    assert.same({ before = 30, after = 1 }, comms)
  end)
end)
