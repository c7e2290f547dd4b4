-- Aggregators that need no order of time: fed in the order of the file, on several threads, with the same result.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local EVENT_DESC, MS = 12, 1000000
local BITS = { "ip", "tid", "time", "cpu", "period", "identifier", "raw" }
local SAMPLES = 10000 -- with 24 to 152 bytes of payload: more than a megabyte, so that threads share it
local JOBS = { 1, 2, 3, 8 }
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local nr_files = 0
local function spill(bytes)
  nr_files = nr_files + 1
  return run.write_file(("%s/%d.data"):format(dir, nr_files), bytes)
end

local function attr(t)
  t.sample_type, t.sample_id_all = BITS, true
  return t
end

local function new_builder(endian)
  return perfdata.new { endian = endian, events = {
    { ids = { 11, 14 }, attr = attr { type = 1, config = 0, sample_period = 1, comm = true, task = true },
      name = "cpu-clock" },
    { ids = { 12 }, attr = attr { type = 1, config = 3, sample_period = 1 }, name = "context-switches" },
    { ids = { 13 }, attr = attr { type = 1, config = 2, sample_period = 1 }, name = "page-faults" },
  } }
end

-- A sample of two CPUs in turn, each ahead of the other for 100 records.
local function sample(i, payload)
  local cpu = i // 100 % 2
  return { type = "sample", identifier = 11 + i * 7 % 4, pid = 7 + i % 3, tid = 7 + i % 5, cpu = cpu,
           time = (i - cpu * 50) * MS + 100 * MS, ip = 0x1000 + i % 11, period = i * i % 1009 - 7, raw = payload,
           misc = 1 + i % 2 }
end

-- A sample like the one before, except that its payload ends behind it.
local function longer_payload(b, i, payload)
  local bytes = b.encode(sample(i, payload))
  local raw = #bytes - (4 + #payload + 7) // 8 * 8
  return bytes:sub(1, raw) .. b:pack("I4", #payload + 64) .. bytes:sub(raw + 5)
end

-- Records of every kind that the reader handles by itself are among the samples.
local function build(endian, nr)
  local b = new_builder(endian)
  local function own(i) return { pid = 7, tid = 7, time = i * MS + 100 * MS, cpu = 0, identifier = 11 } end
  for i = 1, nr or SAMPLES do
    local payload = ("x"):rep(20 + i % 17 * 8)
    b:add(sample(i, payload))
    if i % 1600 == 0 then b:add(longer_payload(b, i, payload)) end
    if i % 500 == 0 then b:round() end
    if i % 700 == 0 then b:add { type = "comm", pid = 7, tid = 7, comm = "name" .. i, sample_id = own(i) } end
    if i % 900 == 0 then b:add { type = "lost", id = 11, lost = i, sample_id = own(i) } end
    if i % 1100 == 0 then b:add(b:pack("I4I2I2i8i8", 9, 2, 24, 11, i)) end -- it ends before its fields
    if i % 1300 == 0 then
      local unknown = b.encode(sample(i, ""))
      b:add(unknown:sub(1, 8) .. b:pack("i8", 99) .. unknown:sub(17))
    end
  end
  return b
end

-- Makes a directory as perf record --threads does: the records but for the first `head` (1) are in the files of two
-- rings.
local function directory_of(b, cut, head)
  nr_files = nr_files + 1
  local path = ("%s/%d.dir"):format(dir, nr_files)
  assert(os.execute("mkdir " .. path))
  local records, middle = b.records, #b.records // 3
  head = head or 1
  b.records = { table.unpack(records, 1, head) }
  local files = { [""] = b:file { [EVENT_DESC] = b:event_desc() }, [".2"] = "" }
  files[".0"] = table.concat(records, "", head + 1, middle):sub(1, cut)
  files[".1"] = table.concat(records, "", middle + 1)
  for name, bytes in pairs(files) do
    run.write_file(path .. "/data" .. name, bytes)
  end
  return path
end

local function file_of(b) return b:file { [EVENT_DESC] = b:event_desc() } end

local whole -- bytes that most cases read
setup(function() whole = file_of(build()) end)

-- The aggregators of a session, by name.
local function declare(s)
  local aggs = {
    count = perfev.count { by = { "tid", "event" } },
    all = perfev.count {},
    one = perfev.count { by = "tid" },
    sum = perfev.sum { by = { "cpumode", "cpu" }, value = "period" },
    avg = perfev.avg { by = "ip", value = "period" },
    min = perfev.min { by = "ip", value = "period" },
    max = perfev.max { by = "ip", value = "period" },
    stats = perfev.stats { by = { "pid", "raw" }, value = "period", where = { "tid", ">=", 8 } },
    hist = perfev.hist { by = "tid", value = "period" },
    linear = perfev.hist { by = "tid", value = "period", low = 0, high = 1000, step = 100 },
    quantile = perfev.quantile { by = "tid", value = "time" },
  }
  local list = {}
  for name, agg in pairs(aggs) do if name ~= "one" and name ~= "all" then list[#list + 1] = agg end end
  s:event { "cpu-clock", sample = list }
  s:event { "context-switches", sample = aggs.one, where = { "tid", "!=", 9 } }
  s:event { "page-faults", sample = aggs.all }
  return aggs
end

local function with(opts, more)
  local all = {}
  for name, value in pairs(opts or {}) do all[name] = value end
  for name, value in pairs(more) do all[name] = value end
  return all
end

-- Runs a session -> its results that a user sees
local function result(path, opts, declare_more)
  local said, way = {}, nil
  opts = with(opts, { input = path })
  local is_in_order = opts.in_order
  opts.in_order = nil
  opts.log = function(level, text)
    if text:find(": read ", 1, true) then way = text elseif level == 0 then said[#said + 1] = text end
  end
  local s <close> = perfev.session(opts)
  local aggs = (declare_more or declare)(s)
  if is_in_order then s:signal("USR1", print) end
  local ok, why = s:run()
  local totals, rows = s:totals(), {}
  totals.late, totals.wakeups = nil, nil -- of the order, and of the loop
  for name, agg in pairs(aggs) do
    rows[name] = { agg:rows(), agg:uncounted(), agg:other() }
  end
  return { ok = ok, why = why, said = said, totals = totals, rows = rows }, way
end

local function in_order(path, opts, declare_more)
  local r, way = result(path, with(opts, { in_order = true }), declare_more)
  assert.matches("read in the order of time: a signal has a handler$", way)
  return r
end

-- Compares the result of each number of threads with that of the order of time.
local function assert_same(path, opts, declare_more)
  local expected = in_order(path, opts, declare_more)
  for _, jobs in ipairs(JOBS) do
    local got, way = result(path, with(opts, { jobs = jobs }), declare_more)
    assert.matches(("read without order of time, on %d thread"):format(jobs), way)
    assert.same(expected, got)
  end
  return expected
end

describe("aggregators that need no order of time", function()
  it("have the same values with any number of threads", function()
    local r = assert_same(spill(whole))
    assert.is_true(r.ok)
    assert.equal(9500, r.totals.delivered) -- without those that a condition drops
    assert.equal(SAMPLES + 20 + 14 + 11 + 9 + 7 + 6, r.totals.records) -- with rounds, COMM, LOST and invalid samples
    assert.is_true(r.totals.lost > 0 and r.totals.malformed > 0 and r.totals.unknown_id > 0)
    assert.is_true(#r.rows.count[1] == 5 and #r.rows.quantile[1] == 5)
  end)

  it("pass their values on to followers", function()
    local unfollowed = in_order(spill(whole))
    local r = assert_same(spill(whole), nil, function(s)
      local list = {}
      for name, agg in pairs(declare(s)) do
        local follower, delta = core.aggregator_follow(agg), nil
        list[name] = agg
        list["delta of " .. name] = setmetatable({}, { __index = function(_, method)
          delta = delta or follower:delta()
          return function() return delta[method](delta) end
        end })
      end
      return list
    end)
    for name, rows in pairs(unfollowed.rows) do
      assert.same(rows, r.rows[name], name)
      assert.same(rows, r.rows["delta of " .. name], name)
    end
  end)

  it("count each of many numbers by itself", function()
    local expected = {}
    for i = 1, SAMPLES do
      local s = sample(i, "")
      if s.identifier == 12 then expected[s.period] = (expected[s.period] or 0) + 1 end
    end
    local r = assert_same(spill(whole), nil, function(s)
      local numbers = perfev.count { by = "period" }
      s:event { "context-switches", sample = numbers }
      return { numbers = numbers }
    end)
    local got = {}
    for _, row in ipairs(r.rows.numbers[1]) do got[row.period] = row.value end
    assert.same(expected, got)
  end)

  it("have the same values in the other byte order", function()
    assert_same(spill(file_of(build("big", 3000))))
    assert_same(spill(file_of(build("little", 3000))))
  end)

  it("receive the samples between two times", function()
    local r = assert_same(spill(whole), { from = "3.0", to = "7.5" })
    assert.is_true(r.totals.delivered > 1000 and r.totals.delivered < SAMPLES * 3 // 4)
  end)

  it("end with the same error and the same values if a recording is damaged", function()
    local b = build()
    local half = #table.concat(b.records, "", 1, #b.records // 2)
    local head = #whole - #b:event_desc() - #table.concat(b.records) - 16
    local before, after = whole:sub(1, head + half), whole:sub(head + half + 9)
    for _, damaged in ipairs {
      whole:sub(1, #whole - 200000), whole:sub(1, head + half + 11),
      before .. b:pack("I4I2I2", 9, 2, 4) .. after, -- a size below that of a header
      before .. b:pack("I4I2I2", 77, 2, 0) .. after,
      before .. b:pack("I4I2I2", 3, 2, 65535) .. after,
      before .. b:pack("I4I2I2i8", 71, 0, 16, 1 << 40) .. after, -- AUX data beyond the end
    } do
      local r = assert_same(spill(damaged))
      assert.is_nil(r.ok)
      assert.matches("0x%x+", r.why)
      assert.is_true(#r.rows.count[1] == 5)
    end
  end)

  it("end with the same error at a first sample of no size, if samples have no ids", function()
    local b = perfdata.new { events = { { attr = { type = 1, config = 0, sample_type = { "time", "tid" } },
                                          name = "cpu-clock" } } }
    b:add(b:pack("I4I2I2", 9, 2, 0))
    local r = assert_same(spill(file_of(b)), nil, function(s)
      local tids = perfev.count { by = "tid" }
      s:event { "cpu-clock", sample = tids }
      return { tids = tids }
    end)
    assert.is_nil(r.ok)
    assert.matches("0x%x+", r.why)
  end)

  it("have the same values if the recording is a directory", function()
    local r = assert_same(directory_of(build()))
    assert.is_true(r.ok)
    assert.equal(9500, r.totals.delivered)
    assert.is_true(assert_same(directory_of(build("big", 3000))).ok)
  end)

  it("end with the same error and the same values if a file of a directory is damaged", function()
    local r = assert_same(directory_of(build(), 100003))
    assert.is_nil(r.ok)
    assert.matches("%.dir/data%.0: file cut short at 0x", r.why)
    assert.is_true(r.totals.delivered > 6500)
  end)

  -- Bytes of a recording replaced, removed, repeated, at places that a fixed seed chooses.
  local function mutated(bytes, seed)
    local function random(n)
      seed = seed * 6364136223846793005 + 1442695040888963407
      return (seed >> 33) % n + 1
    end
    local parts, at = {}, 1
    for _ = 1, random(5) do
      local cut = at + random(#bytes - at)
      parts[#parts + 1] = bytes:sub(at, cut - 1)
      local record = string.pack("=I4I2I2", random(90), random(8), random(300))
      local kinds = { { string.char(random(256) - 1), 1 }, { record, 8 }, { "", random(64) },
                      { bytes:sub(random(#bytes)):sub(1, random(200)), 0 }, { "", 8 * random(30) } }
      local kind = kinds[random(#kinds)]
      parts[#parts + 1], at = kind[1], cut + kind[2]
      if at >= #bytes then break end
    end
    return table.concat(parts) .. bytes:sub(at)
  end

  it("give the same results for mutated recordings", function()
    local bytes, failed = file_of(build(nil, 3500)), 0
    for seed = 1, 60 do
      local path = spill(mutated(bytes, seed))
      local expected = result(path, { in_order = true })
      table.sort(expected.said) -- a record is noted when it is read, or when it is delivered
      for _, jobs in ipairs { 2, 3 } do
        local got = result(path, { jobs = jobs })
        table.sort(got.said)
        assert.same(expected, got)
      end
      failed = failed + (expected.ok and 0 or 1)
    end
    assert.is_true(failed > 20)
  end)

  it("are not misled by payloads that look like records", function()
    local b = new_builder()
    local fake = b.encode(sample(4, ("y"):rep(20)))
    for i = 1, 400 do b:add(sample(i, "1234" .. fake:rep(40))) end
    for i = 1, 400 do b:add(sample(i, fake:rep(60) .. "1234")) end
    local r = assert_same(spill(file_of(b)))
    assert.equal(800, r.totals.records)
  end)

  it("fall back to the order of time if keys do not fit, and count the same keys", function()
    local path = spill(whole)
    local function few(s)
      local agg = perfev.count { by = "time", max_keys = 100 }
      s:event { "cpu-clock", sample = agg }
      return { agg = agg }
    end
    local expected = in_order(path, nil, few)
    for _, jobs in ipairs(JOBS) do
      local got, way = result(path, { jobs = jobs }, few)
      assert.matches("read again in the order of time: not all keys have room$", way)
      assert.same(expected, got)
    end
    assert.equal(100, #expected.rows.agg[1])
    local small = result(path, { max_bytes = 1 << 20, jobs = 2 }, function(s)
      local agg = perfev.count { by = { "time", "raw" } }
      s:event { "cpu-clock", sample = agg }
      return { agg = agg }
    end)
    assert.is_true(small.totals.beyond_memory > 0)
  end)

  it("leave the same names of tasks as in the order of time", function()
    local s <close> = perfev.session { input = spill(whole), jobs = 2 }
    s:event { "cpu-clock", sample = perfev.count {} }
    local name
    s:done(function() name = s:task(7).comm end)
    assert.is_true(s:run())
    assert.equal("name9800", name)
  end)

  local function way_of(declare_one, opts)
    local b = build(nil, 10)
    local _, way = result(spill(file_of(b)), opts, function(s) return declare_one(s) or {} end)
    return way
  end

  it("are read in the order of time if something else needs it", function()
    local function event(spec)
      return function(s)
        spec[1] = "cpu-clock"
        s:event(spec)
      end
    end
    local count = perfev.count
    for why, one in pairs {
      ["a callback is a function"] = event { sample = function() end },
      ["a callback gets records that are no samples"] = event { sample = count {}, comm = count {} },
      ["names of tasks change in time"] = event { sample = count { by = "comm" } },
      ["stacks depend on the maps of tasks, which change in time"] = event { sample = count { by = "symbol" } },
      ["a condition asks for the name of a task"] = event { sample = count {}, where = { "comm", "==", "x" } },
      ["top{} keeps the keys that came last"] = event { sample = perfev.top { by = "ip" } },
      ["lines are printed"] = event { sample = perfev.line "{tid}", where = { "tid", "<", 0 } },
      ["spans join records"] = function(s)
        s:span { start = "cpu-clock", stop = "context-switches", by = "tid", into = perfev.hist {} }
      end,
      ["a timer runs"] = function(s)
        s:every("1s", function() end)
        event { sample = count {} }(s)
      end,
      ["an aggregator has values"] = function(s)
        local agg = count { by = "tid" }
        agg:inc(3)
        event { sample = agg }(s)
      end,
    } do
      assert.matches("read in the order of time: " .. why:gsub("%p", "%%%0") .. "$", way_of(one))
    end
    assert.matches("the number of records is limited$", way_of(event { sample = count {} }, { count = 3 }))
    assert.matches("relative to the first sample$", way_of(event { sample = count {} }, { from = "+1ms" }))
    assert.matches("records are selected by task or CPU$", way_of(event { sample = count {} }, { cpus = { 0 } }))
  end)

  it("are read in the order of time if the recording is a pipe or compressed", function()
    local function count(s) s:event { "cpu-clock", sample = perfev.count {} } return {} end
    local b = build(nil, 10)
    local compressed = b:file { [EVENT_DESC] = b:event_desc(), [27] = b:pack("I4I4I4I4I4", 1, 1, 1, 1, 1 << 16) }
    local _, way = result(spill(compressed), nil, count)
    assert.matches("read in the order of time: the records are compressed$", way)
    _, way = result(spill(b:pipe { [EVENT_DESC] = b:event_desc() }), nil, count)
    assert.matches("read in the order of time: a pipe cannot be read again if keys have no room$", way)
  end)

  it("have the same output in every shipped script that qualifies", function()
    local qualified = {}
    for _, kind in ipairs { "syscalls", "stacks" } do
      local path = ("%s/%s.data"):format(dir, kind)
      assert(os.execute(("LUA_PATH=%q LUA_CPATH=%q lua5.4 bench/record.lua %s 4000 %s"):format(
        package.path, package.cpath, path, kind)))
      for script in run.capture("ls scripts/*.lua"):gmatch("scripts/([%w_]+)%.lua") do
        local function output(words)
          return run.capture(("%s %s -i %s %s 2>&1; true"):format(run.perfl, words, path, script))
        end
        if output("-v"):find("read without order of time", 1, true) then
          qualified[script] = true
          local expected = output("-q -d 100000s")
          assert.equal(expected, output("-q --jobs 1"))
          assert.equal(expected, output("-q --jobs 3"))
        end
      end
    end
    assert.is_true(qualified.syscount)
  end)

  -- ---- stacks of the kernel as keys ----

  local KERNEL, USER, TEXT = -128, -512, 0x7fff0000
  local function mmap(pid, start, len, name, time)
    return { type = "mmap2", pid = pid, tid = pid < 0 and 0 or pid, addr = start, len = len, pgoff = 0, prot = 5,
             filename = name, maj = 8, min = 1, ino = pid < 0 and 0 or start >> 12, ino_generation = 1,
             sample_id = { pid = pid, tid = pid, time = time or 0, cpu = 0, identifier = time and 11 } }
  end

  -- A recording with call chains, of which so many are different. `before` are records before its samples; later[i]
  -- comes before the i-th.
  local function chains(endian, before, later, nr, different)
    local with_chains = { "ip", "tid", "time", "cpu", "identifier", "callchain" }
    local b = perfdata.new { endian = endian, events = {
      { ids = { 11 }, name = "cpu-clock", attr = { type = 1, config = 0, sample_period = 1, sample_id_all = true,
                                                   sample_type = with_chains, comm = true, task = true, mmap = true } },
      { ids = { 12 }, name = "page-faults", attr = { type = 1, config = 2, sample_period = 1, sample_id_all = true,
                                                     sample_type = with_chains } },
    } }
    for _, record in ipairs(before) do b:add(record) end
    for i = 1, nr or 6000 do
      if later and later[i] then b:add(later[i]) end
      local cpu, chain = i // 100 % 2, {}
      if i % 3 > 0 then
        chain[1] = KERNEL
        for depth = 1, i % 10 do chain[#chain + 1] = TEXT + i * 7 % (different or 13) * 0x1000 + depth * 16 end
      end
      if i % 5 > 0 then
        chain[#chain + 1] = USER
        for depth = 1, i % 20 do chain[#chain + 1] = 0x10000 + i % 50 * 0x100 + depth end
      end
      b:add { type = "sample", identifier = 11 + i % 7 // 6, pid = 7 + i % 3, tid = 7 + i % 3, cpu = cpu,
              time = (i - cpu * 50) * MS + 100 * MS, ip = chain[2] or 0, misc = i % 3 > 0 and 1 or 2,
              callchain = chain }
      if i % 500 == 0 then b:round() end
      if i % 700 == 0 then b:add(mmap(7, 0x10000, 0x10000, "/bin/a" .. i, (i - 60) * MS + 100 * MS)) end
      if i % 1100 == 0 then b:add(b:pack("I4I2I2i8i8", 9, 2, 24, 11, i)) end -- it ends before its fields
    end
    return b
  end

  local MAPS = { mmap(-1, TEXT, 0x4000, "[kernel.kallsyms]_text"), mmap(-1, TEXT + 0x6000, 0x3000, "[module]"),
                 mmap(7, 0x10000, 0x10000, "/bin/a") }

  -- A stack as text: each frame's address and file.
  local function shown(stack)
    local frames = {}
    for i, frame in ipairs((core.stack_frames(stack))) do frames[i] = ("%x %s"):format(frame.ip, frame.path or "?") end
    return table.concat(frames, ", ")
  end

  local function shown_rows(r)
    for _, rows in pairs(r.rows) do
      for _, row in ipairs(rows[1]) do row.kstack = shown(row.kstack) end
    end
    return r
  end

  local function count_kstacks(s)
    local aggs = { alone = perfev.count { by = "kstack" },
                   both = perfev.sum { by = { "tid", "kstack" }, value = "cpu" },
                   some = perfev.count { by = { "kstack", "cpumode" }, where = { "tid", ">", 7 } } }
    s:event { "cpu-clock", callchain = true, sample = { aggs.alone, aggs.both } }
    s:event { "page-faults", callchain = true, sample = aggs.some }
    return aggs
  end

  -- Compares the rows and their order for each number of threads. `way` is a pattern of the message.
  local function assert_same_kstacks(path, way, opts)
    local expected = shown_rows(in_order(path, opts, count_kstacks))
    for _, jobs in ipairs(JOBS) do
      local got, taken = result(path, with(opts, { jobs = jobs }), count_kstacks)
      assert.matches(way, taken)
      assert.same(expected, shown_rows(got))
    end
    return expected
  end

  it("count the kernel's stacks, with the files of their frames", function()
    for _, endian in ipairs { "little", "big" } do
      local r = assert_same_kstacks(spill(file_of(chains(endian, MAPS))), "read without order of time, on %d thread")
      assert.is_true(r.ok)
      assert.is_true(r.totals.malformed > 0)
      assert.is_true(#r.rows.alone[1] > 50)
      assert.is_true(#r.rows.both[1] > #r.rows.alone[1])
      local text = {}
      for i, row in ipairs(r.rows.alone[1]) do text[i] = row.kstack end
      text = table.concat(text, "\n")
      assert.matches("%[kernel.kallsyms%]_text", text)
      assert.matches("%[module%]", text)
      assert.matches("%x %?", text)
      assert.is_nil(text:find("/bin", 1, true))
    end
    assert_same_kstacks(directory_of(chains("little", MAPS), nil, #MAPS), "read without order of time")
  end)

  it("are read again in the order of time if the kernel's maps can change between its stacks", function()
    local again = "read again in the order of time: the kernel's maps can change between samples$"
    local bpf = { type = "ksymbol", addr = TEXT + 0xa000, len = 0x2000, ksym_type = 1, flags = 0, name = "bpf_prog",
                  sample_id = { pid = 0, tid = 0, time = 3000 * MS, cpu = 0, identifier = 11 } }
    local module = mmap(-1, TEXT + 0xa000, 0x2000, "[late]", 3000 * MS)
    for _, late in ipairs { bpf, module, mmap(-1, TEXT + 0xa000, 0x2000, "[late]") } do
      for _, i in ipairs { 2, 2900, 6000 } do
        assert_same_kstacks(spill(file_of(chains("little", MAPS, { [i] = late }))), again)
      end
      assert_same_kstacks(directory_of(chains("little", MAPS, { [2900] = late }), nil, #MAPS), again)
    end
    assert_same_kstacks(spill(file_of(chains("little", { MAPS[1], module }))), again)
    -- maps of processes change nothing
    assert_same_kstacks(spill(file_of(chains("little", MAPS, { [9] = mmap(8, TEXT, 0x9000, "/bin/b", 3000 * MS) }))),
      "read without order of time")
  end)

  it("count the kernel's stacks of damaged and mutated recordings", function()
    local bytes = file_of(chains("little", MAPS, nil, 2500))
    local r = assert_same_kstacks(spill(bytes:sub(1, #bytes - 100003)), "in the order of time: the kernel's maps can")
    assert.is_nil(r.ok)
    for seed = 1, 30 do
      local path = spill(mutated(bytes, seed))
      local expected = shown_rows(result(path, { in_order = true }, count_kstacks))
      table.sort(expected.said)
      for _, jobs in ipairs { 1, 3 } do
        local got = shown_rows(result(path, { jobs = jobs }, count_kstacks))
        table.sort(got.said)
        assert.same(expected, got)
      end
    end
  end)

  it("fall back to the order of time if stacks do not fit", function()
    local path = spill(file_of(chains("little", MAPS, nil, 6000, 10007)))
    for _, jobs in ipairs(JOBS) do
      local _, way = result(path, { jobs = jobs, max_bytes = 1 << 20 }, count_kstacks)
      assert.matches("read again in the order of time: not all keys have room$", way)
    end
  end)

  -- `make test-tsan` runs this file with a perfl that reports races on standard error.
  it("are printed alike by perfl with any number of threads", function()
    local path = spill(whole)
    local script = ("%s/all.lua"):format(dir)
    run.write_file(script, [[
      local p = require "perfev"
      p.event { "cpu-clock", where = { "ip", ">", 0x1001 }, sample = {
        p.count { by = { "tid", "event", "cpumode" } }, p.sum { by = "cpu", value = "period" },
        p.stats { by = { "pid", "raw" }, value = "period", where = { "tid", ">=", 8 } },
        p.hist { by = "tid", value = "period" }, p.quantile { by = "tid", value = "time" } } }
      p.event { "context-switches", sample = p.count { by = "tid" } }
      p.event { "page-faults", sample = p.count {} }
    ]])
    local function output(words)
      return run.capture(("%s %s -i %s %s 2>&1; echo status $?"):format(run.perfl, words, path, script))
    end
    local expected = output("-d 100000s"):gsub("%d+ late, [^\n]*", "")
    assert.matches("P99", expected)
    for _, jobs in ipairs(JOBS) do
      local got = output("--jobs " .. jobs):gsub("%d+ late, [^\n]*", "")
      assert.equal(expected, got)
    end
  end)

  it("print the kernel's stacks alike by perfl with any number of threads", function()
    local path = spill(file_of(chains("little", MAPS)))
    local function output(words)
      return run.capture(("%s %s -i %s -e '%s' 2>/dev/null; echo status $?"):format(run.perfl, words, path,
        [[local p = require "perfev"
          p.event { "cpu-clock", callchain = true, sample = p.count { by = { "kstack", "tid" } } }]]))
    end
    local expected = output("-d 100000s")
    assert.matches("0x7fff", expected)
    for _, jobs in ipairs(JOBS) do assert.equal(expected, output("--jobs " .. jobs)) end
  end)

  it("take the number of threads from --jobs", function()
    local path = spill(whole)
    local said = run.capture(("%s -v --jobs 3 -i %s -e '%s' 2>&1; true"):format(run.perfl, path,
      'local p = require "perfev" p.event { "cpu-clock", sample = p.count {} }'))
    assert.matches("read without order of time, on 3 threads", said)
    for _, bad in ipairs { "0", "65", "two" } do
      assert.matches("jobs '" .. bad .. "': expected a number of threads from 1 to 64",
        run.capture(("%s --jobs %s -i %s -e 'x()' 2>&1; true"):format(run.perfl, bad, path)))
    end
  end)
end)
