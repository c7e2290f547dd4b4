-- The file of a snapshot, on the simulated kernel: its records, the names of its tasks, and failures.

local perfev = require "perfev"
local sim = require "perfev.sim"

local E = perfev.errno
local PATH = "/out/stall.data"
local MS = 1000000

local k

local function new_kernel(opts)
  opts = opts or {}
  opts.tasks = { [11] = "eleven", [12] = "twelve" }
  local kernel = sim.new(opts)
  kernel.files["/proc/self/cmdline"] = "perfl\0flightrec\0"
  return kernel
end

before_each(function() k = new_kernel() end)
after_each(function() perfev.hooks.clear() end)

-- Calls f with a session that keeps the last records of cpu-clock; returns the results of f.
local function keep(f, opts, spec)
  return k:with(function()
    local s <close> = perfev.session(opts or { buffer = "4K" })
    spec = spec or { sample = function() end }
    spec[1], spec.freq, spec.write_backward = "cpu-clock", 99, true
    s:event(spec)
    assert(s:start())
    return f(s)
  end)
end

-- Writes a record into the rings of CPU 0, each at a time of its own.
local function push(type, fields)
  fields.type = type
  k:advance_to(k.now + 1000)
  return k:ring(0):push(fields)
end

-- Delivers what was pushed.
local function deliver(s)
  k:advance_to(k.now + 1000 * MS)
  assert(s:dispatch())
end

-- The samples of a file in lines, the numbers of its records by type, and the names of its events.
local function read(path)
  return k:with(function()
    local lines, types, names = {}, {}, {}
    local s = perfev.session { input = path or PATH }
    s:event { "cpu-clock", sample = function(r) lines[#lines + 1] = ("%s %d"):format(r.comm, r.ip) end }
    assert(s:run())
    local f <close> = assert(perfev.open(path or PATH))
    for r in f:records() do types[r.type] = (types[r.type] or 0) + 1 end
    for i, event in ipairs(f.events) do names[i] = event.name end
    assert.is_nil(f.error)
    return lines, types, names
  end)
end

-- The names of the files in /out.
local function files()
  local list = {}
  for path in pairs(k.files) do list[#list + 1] = path:match "^/out/(.*)" end
  table.sort(list)
  return list
end

-- Tasks that rename themselves, execute a program, end, and have the number of one that has ended.
local function happen()
  push("sample", { pid = 11, ip = 1 })
  push("comm", { pid = 11, comm = "renamed" })
  push("sample", { pid = 11, ip = 2 })
  push("fork", { pid = 13, ppid = 11, tid = 13, ptid = 11 })
  push("sample", { pid = 13, ip = 3 })
  push("comm", { pid = 13, comm = "short", exec = true })
  push("sample", { pid = 13, ip = 4 })
  push("exit", { pid = 13, ppid = 11, tid = 13, ptid = 11 })
  push("fork", { pid = 13, ppid = 12, tid = 13, ptid = 12 })
  push("sample", { pid = 13, ip = 5 })
end

local HAPPENED = { "eleven 1", "renamed 2", "renamed 3", "short 4", "twelve 5" }

describe("a recorded snapshot", function()
  it("names tasks as they were at each sample, if no record was delivered before", function()
    keep(function(s)
      happen()
      assert.is_true(s:snapshot { record = PATH })
    end)
    assert.same(HAPPENED, (read()))
  end)

  it("names them if all records were delivered before, and again in a second file", function()
    keep(function(s)
      happen()
      deliver(s)
      assert.is_true(s:snapshot { record = PATH })
      assert.is_true(s:snapshot { record = "/out/second.data" })
    end)
    assert.same(HAPPENED, (read()))
    assert.same(HAPPENED, (read "/out/second.data"))
  end)

  it("names them after so many records that the history no longer has the first", function()
    keep(function(s)
      push("comm", { pid = 11, comm = "early" })
      push("fork", { pid = 13, ppid = 11, tid = 13, ptid = 11 })
      push("comm", { pid = 13, comm = "gone" })
      push("sample", { pid = 13, ip = 1 })
      push("exit", { pid = 13, ppid = 11, tid = 13, ptid = 11 })
      push("sample", { pid = 11, ip = 2 })
      for round = 1, 8 do
        for i = 1, 5000 do push("comm", { pid = 12, comm = ("c%d.%d"):format(round, i) }) end
        deliver(s)
      end
      assert.equal(0, s:totals().lost_own)
      push("sample", { pid = 12, ip = 3 })
      assert.is_true(s:snapshot { record = PATH })
    end, { buffer = "512K", cpus = { 0 } })
    local lines, types = read()
    assert.same({ "gone 1", "early 2", "c8.5000 3" }, lines)
    -- 1 MiB at most, and half of it at least.
    assert.is_true(types.comm > 8000 and types.comm < 20000, types.comm)
  end)

  it("has the overwritten events alone, with their last records", function()
    local ordinary = 0
    keep(function(s)
      assert(s:event { "page-faults", period = 1, sample = function() ordinary = ordinary + 1 end })
      for i = 1, 200 do push("sample", { pid = 11, ip = i, event = k.events[1] }) end
      push("sample", { pid = 11, ip = 7, event = { config = 2 } })
      assert.is_true(s:snapshot { record = PATH })
      deliver(s)
    end)
    local lines, types, names = read()
    assert.equal(1, ordinary)
    assert.same({ "cpu-clock", "dummy" }, names)
    assert.equal(#lines, types.sample)
    assert.is_true(#lines > 30 and #lines < 100, #lines)
    for i, line in ipairs(lines) do assert.equal("eleven " .. 200 - #lines + i, line) end
  end)

  it("is written at once when a callback asks for it", function()
    local result
    keep(function(s)
      assert(s:event { "page-faults", period = 1, sample = function() result = s:snapshot { record = PATH } end })
      push("sample", { pid = 11, ip = 1, event = k.events[1] })
      push("sample", { pid = 11, ip = 7, event = { config = 2 } })
      push("comm", { pid = 12, comm = "later" })
      push("sample", { pid = 12, ip = 2, event = k.events[1] })
      deliver(s)
    end)
    assert.is_true(result)
    assert.same({ "eleven 1", "later 2" }, (read()))
  end)

  it("is written when a callback of a snapshot asks for it, and that snapshot goes on", function()
    local seen, s = {}, nil
    local function sample(r)
      seen[#seen + 1] = r.ip
      if r.ip == 2 and #seen == 2 then assert.is_true(s:snapshot { record = PATH }) end
    end
    keep(function(session)
      s = session
      for i = 1, 3 do push("sample", { pid = 11, ip = i }) end
      assert.equal(3, s:snapshot())
      push("sample", { pid = 11, ip = 4 }) -- the output is not paused any more
      assert.equal(4, s:snapshot())
    end, nil, { sample = sample })
    assert.same({ 1, 2, 3, 1, 2, 3, 4 }, seen)
    assert.same({ "eleven 1", "eleven 2", "eleven 3" }, (read()))
    assert.same({}, k:leaks())
  end)

  it("is written within a loop over fields, where no callback runs", function()
    k:with(function()
      local s = perfev.session { cpus = { 0 } }
      s:event { "cpu-clock", freq = 99, write_backward = true }
      s:event { "page-faults", period = 1 }
      k:after(MS, function()
        push("sample", { pid = 11, ip = 1, event = k.events[1] })
        push("sample", { pid = 11, ip = 2, event = { config = 2 } })
      end)
      for _ in s:records { fields = { "ip" } } do
        assert.error_matches(function() s:snapshot() end, "snapshot%(%) within a loop")
        assert.is_true(s:snapshot { record = PATH })
        s:stop()
      end
    end)
    local _, types = read()
    assert.equal(1, types.sample)
  end)

  it("leaves the records for callbacks, and an earlier file under another name", function()
    k.files[PATH] = "another"
    local seen = {}
    keep(function(s)
      push("sample", { pid = 11, ip = 1 })
      assert.is_true(s:snapshot { record = PATH })
      assert.same({}, seen)
      assert.equal(1, s:snapshot())
    end, nil, { sample = function(r) seen[#seen + 1] = r.ip end })
    assert.same({ 1 }, seen)
    assert.same({ "eleven 1" }, (read()))
    assert.equal("another", k.files[PATH .. ".old"])
    assert.same({ "stall.data", "stall.data.old" }, files())
  end)

  it("has the fields of a sample that no callback reads", function()
    keep(function(s)
      push("sample", { pid = 11, ip = 1 })
      assert.is_true(s:snapshot { record = PATH })
    end, nil, { sample = perfev.count {} })
    assert.same({ "eleven 1" }, (read()))
  end)

  it("of a session without a record has none", function()
    keep(function(s) assert.is_true(s:snapshot { record = PATH }) end)
    assert.same({}, (read()))
  end)
end)

describe("a snapshot that cannot be recorded", function()
  -- The results of a snapshot whose nth call of that name fails, and of the next one.
  local function fails(call, errno, nth)
    k = new_kernel { files = { [PATH] = "another" } }
    local why, code
    keep(function(s)
      push("sample", { pid = 11, ip = 1 })
      k:fail(call, nth or 1, errno)
      local ok
      ok, why, code = s:snapshot { record = PATH }
      assert.is_nil(ok)
      assert.same({ "stall.data" }, files())
      assert.equal("another", k.files[PATH])
      assert.is_true(s:snapshot { record = PATH })
    end)
    assert.same({ "eleven 1" }, (read()))
    assert.same({}, k:leaks())
    return why, code
  end

  for _, case in ipairs {
    { "in a directory that does not exist", "open", E.ENOENT,
      "^cannot record to /out/stall.data: No such file or directory\n  try: a directory that is there$", 2 },
    { "on a full disk", "writev", E.ENOSPC,
      "^cannot write to /out/stall.data: No space left on device\n  try: more room" },
    { "on a disk that fills up later", "writev", E.ENOSPC, "^cannot write to /out/stall.data: No space left", 9 },
    { "on a disk with an error", "pwrite", E.EIO, "^cannot write the head of /out/stall.data: Input/output error" },
    { "under its name", "rename", E.EACCES,
      "^cannot rename /out/stall.data to /out/stall.data.old: Permission denied" },
    { "by a kernel that cannot pause the output", "ioctl PAUSE_OUTPUT", E.EINVAL,
      "^cannot pause the output of a backward ring: Invalid argument" },
  } do
    it(case[1] .. " leaves no file, and the next one can be", function()
      local why, code = fails(case[2], case[3], case[5])
      assert.matches(case[4], why)
      assert.equal(case[3], code)
    end)
  end

  it("leaves no temporary file, whichever of its calls fails", function()
    local first, made = {}, {}
    keep(function(s)
      push("sample", { pid = 11, ip = 1 })
      for name, nr in pairs(k.counts) do first[name] = nr end
      assert.is_true(s:snapshot { record = PATH })
      for name, nr in pairs(k.counts) do made[name] = nr - (first[name] or 0) end
    end)
    made.pagesize, made.getpid = nil, nil
    local failed = 0
    for name, times in pairs(made) do
      for nth = 1, times do
        k = new_kernel()
        local ok, why
        keep(function(s)
          push("sample", { pid = 11, ip = 1 })
          k:fail(name, nth, E.EIO)
          ok, why = s:snapshot { record = PATH }
        end)
        if not ok then failed = failed + 1 end
        assert.is_true(ok == true or type(why) == "string")
        for _, file in ipairs(files()) do assert.is_nil(file:find "%.new$") end
        assert.same(ok and { "stall.data" } or {}, files())
        assert.same({}, k:leaks())
      end
    end
    assert.is_true(failed > 10, failed)
  end)

  it("is refused without the options that it needs", function()
    keep(function(s)
      assert.error_matches(function() s:snapshot { record = "-" } end, 'record "%-": each snapshot is a file')
      assert.error_matches(function() s:snapshot { names = true } end, "snapshot: names without record")
      assert.error_matches(function() s:snapshot { record = 7 } end, "snapshot: record must be")
      assert.error_matches(function() s:snapshot { recrod = "x" } end, "did you mean 'record'")
    end)
  end)
end)
