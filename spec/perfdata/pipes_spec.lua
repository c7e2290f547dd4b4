-- Recordings that another process writes meanwhile: pipes that deliver byte by byte, FIFOs, files that shrink.

local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local dir

local function spill(name, bytes)
  return run.write_file(dir .. "/" .. name, bytes)
end

local function built_with(attr)
  return perfdata.new { events = { { name = "page-faults", ids = { 1 }, attr = attr } } }
end

-- Two hundred samples, as a recorder sends them.
local function samples()
  local built = built_with { type = 1, config = 2, sample_type = { "identifier", "tid", "time" }, sample_id_all = true }
  built:add { type = "comm", pid = 7, tid = 7, comm = "writer", sample_id = {} }
  for i = 1, 200 do
    built:add { type = "sample", identifier = 1, pid = 7, tid = 7, time = i }
    if i % 50 == 0 then built:round() end
  end
  return built
end

local SCRIPT = [[
local n, sum = 0, 0
event { "page-faults", sample = function(r) n, sum = n + 1, sum + r.time assert(r.comm == "writer") end }
perfev.done(function() print(n, sum) end)
]]
local SUM = "200\t20100\n"

describe("a recording through", function()
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  it("standard input is the same in pieces of any size", function()
    local path = spill("pipe.data", samples():pipe())
    for _, size in ipairs { 1, 7, 4096 } do
      local result = run(("dd if=%s bs=%d status=none | %s -q -i - -e '%s'"):format(path, size, run.perfl, SCRIPT))
      assert.same({ SUM, "", 0 }, { result.out, result.err, result.code })
    end
  end)

  it("a FIFO is read as it is written", function()
    local path = spill("pipe.data", samples():pipe())
    local result = run(("mkfifo %s/fifo && { dd if=%s of=%s/fifo bs=1 status=none & } && %s -q -i %s/fifo -e '%s'")
      :format(dir, path, dir, run.perfl, dir, SCRIPT))
    assert.same({ SUM, "", 0 }, { result.out, result.err, result.code })
  end)

  it("a pipe is refused for a perf.data file, with the advice to pass the file", function()
    local path = spill("perf.data", samples():file())
    local result = run(("cat %s | %s -i - -e '%s'"):format(path, run.perfl, SCRIPT))
    assert.equal(1, result.code)
    assert.matches("standard input: a perf.data file cannot be read through a pipe", result.err, 1, true)
    result = run(("%s -q -i - -e '%s' < %s"):format(run.perfl, SCRIPT, path))
    assert.same({ SUM, "", 0 }, { result.out, result.err, result.code })
  end)

  it("a pipe with a recorder's messages at its end delivers all samples, then fails", function()
    local bytes = samples():pipe()
    local path = spill("pipe.data", bytes .. "[ perf record: Woken up 1 times to write data ]\n")
    local result = run(("%s -q -i - -e '%s' < %s"):format(run.perfl, SCRIPT, path))
    assert.equal(SUM, result.out)
    assert.equal(1, result.code)
    assert.matches(("0x%x"):format(#bytes), result.err, 1, true)
  end)

  it("another kind of file is refused with its cause, with status 1", function()
    local empty = spill("empty.data", "")
    for input, wanted in pairs {
      [empty] = "empty: file cut short at 0x0, before its head",
      ["/dev/null"] = "empty: file cut short at 0x0, before its head",
      ["/dev/zero"] = "not a recording: it does not begin with PERFILE2",
      [dir] = "a directory, not a recording",
      [dir .. "/perf.data.old"] = "No such file or directory",
    } do
      local result = run { run.perfl, "-i", input, "-e", SCRIPT }
      assert.equal(1, result.code, input)
      assert.matches("cannot open the recording " .. input .. ": " .. wanted, result.err, 1, true)
    end
  end)
end)

describe("a file that another process cuts short while it is read", function()
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  it("ends the reading with that byte, in 1,000 of 1,000 runs, without a crash", function()
    local RECORDS, SIZE = 48, 65528
    local built = built_with { sample_type = { "raw" } }
    local raw = ("x"):rep(SIZE - 12)
    for _ = 1, RECORDS do built:add { type = "sample", raw = raw } end
    local bytes = built:file()
    local first = #bytes - RECORDS * SIZE
    local path = spill("perf.data", bytes)
    assert(os.execute("mkfifo " .. dir .. "/cut"))
    local cutter = assert(io.popen(("timeout 600 sh -c "
      .. "'exec 3> %s/cut; while read n; do truncate -s $n %s; echo >&3; done'"):format(dir, path), "w"))
    local done = assert(io.open(dir .. "/cut"))
    local file = assert(io.open(path, "r+b"))
    math.randomseed(20261121)
    for i = 1, 1000 do
      local rec = assert(perfev.open(path, { ordered = false }))
      local next_record = rec:records()
      assert.equal(SIZE, next_record().size) -- and the first MiB with it
      -- At a record's end, inside it, or in its header; and sometimes before the bytes already read.
      local n = math.random(RECORDS - 1)
      local cut = first + n * SIZE + ({ 0, math.random(8, SIZE - 1), math.random(1, 7) })[i % 3 + 1]
      cutter:write(cut, "\n")
      cutter:flush()
      assert.is_not_nil(done:read())
      local count = 1
      for _ in next_record do count = count + 1 end
      local at = math.max(cut, first + (1 << 20))
      assert.equal((at - first) // SIZE, count)
      assert.matches(("perf.data: file cut short at 0x%x"):format(at), rec.error, 1, true)
      rec:close()
      file:seek("set", cut)
      file:write(bytes:sub(cut + 1))
      file:flush()
    end
    file:close()
    done:close()
    cutter:close()
  end)
end)
