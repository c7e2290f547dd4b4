-- Recordings of several files, as perf record --threads makes them: a directory of data and data.N.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local attr = { sample_type = { "identifier", "tid", "time", "cpu" }, sample_id_all = true }
local dir

local function spill(name, bytes)
  run.write_file(dir .. "/" .. name, bytes)
end

local function built_with(endian)
  return perfdata.new { endian = endian, events = { { attr = attr, ids = { 1, 2 }, name = "cycles" } } }
end

-- The content of a ring's file: no header, no round marks.
local function ring(endian, cpu, times)
  local built = built_with(endian)
  for _, time in ipairs(times) do
    built:add { type = "sample", identifier = 1, pid = 7, tid = 7, time = time, cpu = cpu }
  end
  return table.concat(built.records)
end

local function spill_head(endian)
  local built = built_with(endian)
  built:add { type = "comm", pid = 7, tid = 7, comm = "before", sample_id = {} }
  built:round()
  spill("data", built:file())
end

-- "COMM on CPU at TIME" of every sample, in the order of delivery; and the recording, closed.
local function read(opts)
  local rec = assert(perfev.open(dir, opts))
  local seen = {}
  for r in rec:records { user = false } do
    if r.type == "sample" then seen[#seen + 1] = ("%s on %d at %d"):format(r.comm, r.cpu, r.time) end
  end
  rec:close()
  return seen, rec
end

local function descriptors() return #core.list "/proc/self/fd" end

describe("a directory of recordings", function()
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  it("is read as one recording, in the order of time", function()
    for _, endian in ipairs { "little", "big" } do
      spill_head(endian)
      spill("data.0", ring(endian, 0, { 10, 40, 50, 90 }))
      spill("data.1", ring(endian, 1, { 20, 30, 60 }))
      spill("data.2", "")
      spill("data.10", ring(endian, 10, { 5, 41, 100 }))
      local seen, rec = read()
      assert.same({ "before on 10 at 5", "before on 0 at 10", "before on 1 at 20", "before on 1 at 30",
        "before on 0 at 40", "before on 10 at 41", "before on 0 at 50", "before on 1 at 60", "before on 0 at 90",
        "before on 10 at 100" }, seen)
      assert.is_nil(rec.error)
      assert.equal(5, rec.facts.files)
      local stats = rec:totals()
      assert.equal(rec.facts.size, rec.facts.data + stats.bytes - 16) -- by which the reader recognised it
      assert.equal(0, stats.late)
    end
  end)

  it("is read file by file, by their numbers, with ordered = false", function()
    spill_head()
    spill("data.10", ring(nil, 10, { 1, 2 }))
    spill("data.9", ring(nil, 9, { 8, 3 }))
    assert.same({ "before on 9 at 8", "before on 9 at 3", "before on 10 at 1", "before on 10 at 2" },
      (read { ordered = false }))
  end)

  it("is put in order even if its files are longer than the window", function()
    spill_head()
    local rings, n = 9, 4000
    for cpu = 0, rings - 1 do
      local times = {}
      for i = 1, n do times[i] = i * 100 + cpu end
      spill("data." .. cpu, ring(nil, cpu, times))
    end
    local rec <close> = assert(perfev.open(dir, { window = 65536 }))
    local count, last = 0, 0
    for r in rec:records { user = false } do
      if r.type == "sample" then
        assert.is_true(r.time > last)
        count, last = count + 1, r.time
      end
    end
    local stats = rec:totals()
    assert.equal(rings * n, count)
    assert.equal(0, stats.late)
    assert.is_true(stats.forced > 0)
    assert.is_true(stats.memory <= 4 << 20, tostring(stats.memory))
    assert.same({}, rec.warnings)
  end)

  it("with other files beside its data is read as that data", function()
    spill_head()
    assert(os.execute("mkdir " .. dir .. "/kcore_dir " .. dir .. "/data.old"))
    spill("data.1x", "no ring's")
    local seen, rec = read()
    assert.same({}, seen)
    assert.is_nil(rec.error)
    assert.equal(1, rec.facts.files)
  end)

  it("with a truncated file delivers all of the others, and reports file and byte", function()
    spill_head()
    spill("data.0", ring(nil, 0, { 10, 30 }))
    spill("data.1", ring(nil, 1, { 20, 40, 60 }):sub(1, -3))
    local seen, rec = read()
    assert.same({ "before on 0 at 10", "before on 1 at 20", "before on 0 at 30", "before on 1 at 40" }, seen)
    assert.matches(dir .. "/data.1: file cut short at 0x", rec.error, 1, true)
  end)

  it("that cannot be read is reported with the file, and leaks no descriptor", function()
    local before = descriptors()
    local function refused()
      local rec, why, code = perfev.open(dir)
      assert.is_nil(rec)
      return why, code
    end
    local why, code = refused()
    assert.equal(dir .. ": a directory, not a recording: it has no file 'data', as perf record --threads writes it",
      why)
    assert.equal(perfev.errno.EISDIR, code)
    spill("data", "")
    assert.equal(dir .. "/data: empty: file cut short at 0x0, before its head", (refused()))
    spill_head()
    spill("data.0", ring(nil, 0, { 10 }))
    assert(os.execute("ln -s nowhere " .. dir .. "/data.1"))
    why, code = refused()
    assert.equal(dir .. "/data.1: No such file or directory", why)
    assert.equal(perfev.errno.ENOENT, code)
    assert.equal(before, descriptors())
  end)

  it("can be read by a script with -i", function()
    spill_head()
    spill("data.0", ring(nil, 0, { 10, 30 }))
    spill("data.1", ring(nil, 1, { 20 }))
    local result = run { run.perfl, "-i", dir, "-e", 'event{"cycles", sample=function(r) print(r.comm, r.time) end}' }
    assert.equal("before\t10\nbefore\t20\nbefore\t30\n", result.out)
    assert.equal(0, result.code)
  end)
end)
