-- perfl cut and filter: a part of a recording as a new one.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"

local MS = 1000000
local HOSTNAME, VERSION, EVENT_DESC, COMPRESSED, OF_OTHERS = 3, 5, 12, 27, 200 -- feature sections
local OTHER_ORDER = string.pack("=I2", 1) == "\0\1" and "little" or "big"
local BITS = { "ip", "tid", "time", "cpu", "period", "identifier" }

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function spill(bytes, name) return run.write_file(dir .. "/" .. (name or "t.data"), bytes) end

local function attr(t)
  t.sample_type, t.sample_id_all = BITS, true
  return t
end

-- Two events; samples at 1, 2, ... 8 ms of each in turn, on CPUs 0 and 1 and of processes 7 and 8; records of tasks
-- before, between and behind them; a loss and a context switch.
local function build(endian)
  local b = perfdata.new { endian = endian, events = {
    { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock:u" },
    { ids = { 12, 13 }, attr = attr { type = 1, config = 2 }, name = "page-faults" },
  } }
  local function at(id, ms, pid) return { pid = pid or 7, tid = pid or 7, time = ms * MS, cpu = 0, identifier = id } end
  b:add { type = "comm", pid = 7, tid = 7, comm = "worker", sample_id = at(11, 0) }
  b:user(200, "of another tool!") -- its length is a multiple of 8
  b:add { type = "mmap2", pid = 7, tid = 7, addr = 0x1000, len = 0x1000, filename = "/bin/worker",
          sample_id = at(11, 1) }
  for i = 8, 1, -1 do -- within a round the file has no order
    b:add { type = "sample", pid = 7 + i // 5, tid = 7 + i // 5, time = i * MS, cpu = i % 2, ip = 0x1000 + i,
            period = i, identifier = i % 2 == 0 and 11 or i % 4 == 1 and 12 or 13 }
  end
  b:add { type = "fork", pid = 8, ppid = 7, tid = 8, ptid = 7, time = 4 * MS, sample_id = at(11, 4) }
  b:add { type = "comm", pid = 8, tid = 8, comm = "child", sample_id = at(11, 4, 8) }
  b:add { type = "switch", sample_id = at(11, 6) }
  b:add { type = "lost", id = 11, lost = 3, sample_id = at(11, 7) }
  b:add { type = "exit", pid = 8, ppid = 7, tid = 8, ptid = 7, time = 9 * MS, sample_id = at(11, 9, 8) }
  return b:round()
end

local function features_of(b)
  return { [HOSTNAME] = b:string("box"), [VERSION] = b:string("6.1.9") .. "exclude_pid 4711\n",
           [EVENT_DESC] = b:event_desc(), [OF_OTHERS] = "names of functions" }
end

local function whole(endian)
  local b = build(endian)
  return spill(b:file(features_of(b)))
end

local function cut(...)
  local to = dir .. "/new.data"
  os.remove(to)
  local result = run { run.perfl, "cut", "-o", to, ... }
  assert.equal(0, result.code, result.err)
  return to, result.err
end

-- The records of a recording as text, without their place in the file.
local function records(path, ...)
  local list = {}
  for line in run({ run.perfl, "dump", "--raw", path, ... }).out:gmatch("[^\n]+") do
    if not line:find("finished_round", 1, true) then list[#list + 1] = line:gsub("^ *%S+", "") end
  end
  return list
end

-- "sample 1, comm 4": the types and times in ms of the records.
local function brief(path)
  local list = {}
  for line in run({ run.perfl, "dump", "-j", path }).out:gmatch("[^\n]+") do
    local t = json.decode(line)
    local time = (t.sample_id or t).time
    if t.type ~= "finished_round" then
      list[#list + 1] = t.type .. (time and " " .. time // MS or "")
    end
  end
  return table.concat(list, ", ")
end

describe("perfl cut", function()
  it("copies every record, event and section if nothing is left out", function()
    local from = whole()
    local to, said = cut(from)
    assert.equal(16, #records(from) - 1)
    assert.same(records(from), records(to))
    assert.matches("^perfl: copied 16 of 17 records %(8 samples%) to .*new.data, [%d,]+ bytes\n$", said)
    local before, after = {}, {}
    for path, out in pairs { [from] = before, [to] = after } do
      local total = json.decode(run({ run.perfl, "report", "-j", path }).out)
      for _, key in ipairs { "header", "events", "lost", "comms", "first", "last" } do out[key] = total[key] end
    end
    assert.same(before, after)
    local bytes = run.slurp(to)
    assert.truthy(bytes:find("names of functions", 1, true), "the section of another tool")
    assert.truthy(bytes:find("exclude_pid 4711\n", 1, true), "the lines for a replay")
  end)

  it("keeps the records of tasks and maps before --from, and none after --to", function()
    assert.equal("comm 0, unknown, mmap2 1, fork 4, comm 4, sample 5, sample 6, switch 6, sample 7, lost 7",
      brief(cut("--from", "0.005", "--to", "0.007000", whole())))
    assert.equal("comm 0, unknown, mmap2 1, fork 4, comm 4, sample 7, lost 7, sample 8",
      brief(cut("--from", "+6ms", "--to", "+7ms", whole())))
  end)

  for name, options in pairs {
    ["a time"] = { "--from", "+2ms", "--to", "+5ms" }, ["a CPU"] = { "-C", "1" }, ["a process"] = { "-p", "8" },
    ["a thread"] = { "-t", "7" }, ["a name"] = { "--comm", "chi*" },
    ["a time, a CPU and a name"] = { "--from", "+1ms", "-C", "0", "--comm", "worker" },
  } do
    it("selects the samples that a replay selects by " .. name, function()
      local from = whole()
      local script = "for _, e in ipairs { 'cpu-clock:u', 'page-faults' } do event { e, "
        .. "sample = function(r) print(r.time, r.event.name, r.comm, r.ip) end } end"
      local function replay(path, ...) return run({ run.perfl, "-q", "-i", path, "-e", script, ... }).out end
      local wanted = replay(from, table.unpack(options))
      assert.matches("0x10%x%x", (wanted:gsub("\t(41%d%d)\n", function(n) return ("\t0x%x\n"):format(n) end)))
      local words = { table.unpack(options) }
      words[#words + 1] = from
      assert.equal(wanted, replay((cut(table.unpack(words)))))
    end)
  end

  it("keeps the samples of the events that -e selects, and all losses", function()
    assert.equal("comm 0, unknown, mmap2 1, sample 1, sample 3, fork 4, comm 4, sample 5, sample 7, lost 7, exit 9",
      brief(cut("-e", "page-*", whole())))
    assert.equal("comm 0, unknown, mmap2 1, sample 2, sample 4, fork 4, comm 4, sample 6, switch 6, lost 7, sample 8, "
      .. "exit 9", brief(cut("-e", "cpu-clock", whole())))
  end)

  it("asks the Lua of --where about every record but those of tasks and maps", function()
    assert.equal("comm 0, unknown, mmap2 1, sample 3, fork 4, comm 4, sample 7, exit 9",
      brief(cut("--where", "r.type == 'sample' and r.ip % 4 == 3 and r.event.name == 'page-faults'", whole())))
    assert.equal("comm 0, unknown, mmap2 1, fork 4, comm 4, switch 6, exit 9",
      brief(cut("--where", "if r.type == 'switch' then return true end", whole())))
  end)

  it("ends at an error of --where, and leaves an earlier file alone", function()
    local to = spill("earlier", "kept.data")
    local result = run { run.perfl, "cut", "-o", to, "--where", "r.perod > 5", whole() }
    assert.equal(1, result.code)
    assert.matches("did you mean 'period'", result.err)
    assert.equal("earlier", run.slurp(to))
    assert.equal("", run.capture("ls " .. dir .. " | grep kept.data. || true"))
  end)

  it("leaves an earlier file alone also at an error after many records, or without room for them", function()
    local b = perfdata.new { events = { { ids = { 1 }, attr = attr { type = 1, config = 0 }, name = "cpu-clock" } } }
    for i = 1, 20000 do
      b:add { type = "sample", pid = 7, tid = 7, time = i * MS, cpu = 0, ip = 1, period = i, identifier = 1 }
      if i % 1000 == 0 then b:round() end
    end
    local from, to = spill(b:file(features_of(b)), "long.data"), spill("earlier", "kept.data")
    local words = ("%s cut %s -o %s "):format(run.quote(run.perfl), from, to)
    for how, says in pairs {
      [words .. "--where 'assert(r.period < 20000)'"] = "assertion failed",
      ["ulimit -f 64; " .. words] = "cannot write to .*kept%.data: File too large\n  try: ulimit %-f unlimited\n",
    } do
      local result = run(how)
      assert.equal(1, result.code)
      assert.matches(says, result.err)
      assert.equal("earlier", run.slurp(to))
      assert.equal("", run.capture("ls " .. dir .. " | grep kept.data. || true"))
    end
  end)

  it("names the type of a record without the field that --where compares", function()
    local result = run { run.perfl, "cut", "-o", dir .. "/x", "--where", "r.period > 5", whole() }
    assert.equal(1, result.code)
    assert.matches("attempt to compare number with nil\n  the record is of type 'switch'\n"
      .. "  try: r%.type == \"sample\" and ", result.err)
    assert.is_nil(run.slurp(dir .. "/x"))
  end)

  it("copies records with any time, as a damaged recording has them", function()
    local b = perfdata.new { events = { { ids = { 1 }, attr = attr { type = 1, config = 0 }, name = "cpu-clock" } } }
    for _, time in ipairs { 1, math.maxinteger, math.mininteger, -1 } do
      b:add { type = "sample", pid = 7, tid = 7, time = time, cpu = 0, ip = 1, period = 1, identifier = 1 }
    end
    local from = spill(b:round():file(features_of(b)), "far.data")
    for _, words in ipairs { { "cut", from }, { "redact", from }, { "merge", from, whole() } } do
      local result = run { "timeout", "20", run.perfl, words[1], "-o", dir .. "/new.data", table.unpack(words, 2) }
      assert.equal(0, result.code, result.err)
      assert.matches(words[1] == "merge" and "%(12 samples%)" or "%(4 samples%)", result.err)
    end
  end)

  it("reads a pipe and writes a stream", function()
    local b = build()
    local result = run({ run.perfl, "cut", "-q", "-o", "-", "-" }, { stdin = b:pipe(features_of(b)) })
    assert.equal(0, result.code, result.err)
    assert.equal("", result.err)
    local types = "comm,mmap2,sample,fork,switch,lost,exit,200"
    assert.same(records(whole(), "-t", types), records(spill(result.out, "stream.data"), "-t", types))
  end)

  it("compresses with -z, and reads what is compressed", function()
    local from = whole()
    local packed = cut("-z", from)
    assert.equal(1, json.decode(run({ run.perfl, "report", "-j", packed }).out).records.compressed)
    local path = spill(run.slurp(packed), "packed.data")
    local plain = cut(path)
    assert.same(records(from), records(plain))
    local features = json.decode(run({ run.perfl, "report", "-j", plain }).out).features
    for _, name in ipairs(features) do assert.not_equal("compressed", name) end
    assert.equal(27, COMPRESSED)
  end)

  it("copies the readable part of a damaged recording, and fails", function()
    local b = build()
    local bytes = b:file(features_of(b))
    local path = spill(bytes:sub(1, #bytes - 700), "damaged.data")
    local to = dir .. "/new.data"
    local result = run { run.perfl, "cut", "-o", to, path }
    assert.equal(1, result.code)
    assert.matches("cut short", result.err)
    local whole_part = run { run.perfl, "report", "-j", to }
    assert.equal(0, whole_part.code, whole_part.err)
    assert.is_true(json.decode(whole_part.out).samples > 0)
  end)

  it("is called filter, too", function()
    local to = dir .. "/filtered.data"
    assert.equal(0, run({ run.perfl, "filter", "-q", "-e", "page-faults", "-o", to, whole() }).code)
    assert.equal(4, json.decode(run({ run.perfl, "report", "-j", to }).out).samples)
    assert.matches("^Usage: perfl filter ", run({ run.perfl, "filter", "--help" }).out)
  end)

  it("refuses what it cannot do, with the reason", function()
    local path, other = whole(), spill(build(OTHER_ORDER):file(), "other.data")
    for _, one in ipairs {
      { 2, { path }, "no name for the new recording\n  try: perfl cut .*t.data %-o NEW" },
      { 2, { "-o", "x", "--where", "r.cpu = = 1", path }, "%-%-where 'r.cpu = = 1': .*\n  try: %-%-where" },
      { 1, { "-o", "x", "-e", "cycles", path }, "no event is called 'cycles'\n.* has cpu%-clock:u, page%-faults" },
      { 1, { "-o", "x", other }, "other.data has the other byte order" },
      { 1, { "-o", dir .. "/no/x", path }, "cannot record to .*/no/x: No such file" },
      { 1, { "-o", "x", dir .. "/none" }, "cannot open the recording .*/none" },
    } do
      local result = run({ run.perfl, "cut", table.unpack(one[2]) }, { cwd = dir })
      assert.equal(one[1], result.code, result.err)
      assert.matches(one[3], result.err)
    end
    assert.is_nil(run.slurp(dir .. "/x"))
  end)

  it("asks the function of a file, too", function()
    local file = run.write_file(dir .. "/wanted.lua", [[
      local kept = 0
      return function(r)
        kept = kept + 1
        return r.type == "sample" and r.cpu == 1 and kept < 7
      end]])
    assert.equal("comm 0, unknown, mmap2 1, sample 1, sample 3, fork 4, comm 4, sample 5, exit 9",
      brief(cut("--where-file", file, whole())))
  end)

  it("refuses a file without a function, and ends at an error in it", function()
    local function said(text, ...)
      local path = run.write_file(dir .. "/wanted.lua", text)
      return run({ run.perfl, "filter", whole(), "-o", dir .. "/x", "--where-file", path, ... }).err
    end
    for text, wanted in pairs {
      ["return function("] = "wanted%.lua:1: .*near <eof>\n  try: return function%(r%)",
      ["return 7"] = "%-%-where%-file .*wanted%.lua: it returns 7, not a function\n  try: ",
      ["local t = {}"] = "it returns nothing, not a function",
      ["error('too bad', 0)"] = "wanted%.lua: too bad",
      ["return function(r) return r.perod end"] = "did you mean 'period'",
    } do assert.matches(wanted, said(text)) end
    assert.matches("%-%-where and %-%-where%-file at once", said("return 1", "--where", "true"))
    assert.matches("none.lua: No such file", run({ run.perfl, "cut", "-o", "x", "--where-file", "none.lua" }).err)
    assert.is_nil(run.slurp(dir .. "/x"))
  end)
end)

describe("perfl -i FILE --record NEW", function()
  local PRINT = "event { 'cpu-clock:u', sample = function(r) print(r.ip) end }"

  for name, options in pairs {
    ["a CPU"] = { "-C", "1" }, ["a process"] = { "-p", "8" }, ["a name"] = { "--comm", "chi*" },
    ["a thread"] = { "-t", "7" }, ["a time"] = { "--from", "+2ms", "--to", "+5ms" }, nothing = {},
  } do
    it("runs the script, and writes the records that perfl cut selects by " .. name, function()
      local to = dir .. "/also.data"
      os.remove(to)
      local from = whole()
      local function replay(option)
        return run { run.perfl, "-i", from, "-e", PRINT, option, table.unpack(options) }
      end
      local wanted, result = replay("-q").out, replay("--record=" .. to)
      assert.equal(0, result.code, result.err)
      assert.equal(wanted, result.out)
      assert.matches("perfl: copied %d+ of %d+ records %(%d+ samples%) to .*also%.data", result.err)
      local words = { whole() }
      table.move(options, 1, #options, 2, words)
      assert.same(records((cut(table.unpack(words)))), records(to))
    end)
  end

  it("writes the recording to standard output, compressed with -z, and the script's output elsewhere", function()
    local result = run { run.perfl, "-q", "-i", whole(), "-z", "--record", "-", "-e", PRINT }
    assert.equal(0, result.code, result.err)
    assert.same(records(whole(), "-t", "sample"), records(spill(result.out, "stream.data"), "-t", "sample"))
    assert.matches("^%d+\n", result.err)
  end)

  it("writes nothing if the script fails, or is only planned", function()
    local to = dir .. "/also.data"
    os.remove(to)
    local failed = run { run.perfl, "-i", whole(), "--record", to, "-e", "error 'no'" }
    assert.equal(1, failed.code)
    local planned = run { run.perfl, "-i", whole(), "--record", to, "--dry-run", "-e", PRINT }
    assert.equal(0, planned.code, planned.err)
    assert.is_nil(run.slurp(to))
  end)

  it("is refused where it cannot be done, with the reason", function()
    for words, wanted in pairs {
      [{ "-i", "-", "--record", "x" }] = "%-i %- and %-%-record at once\n  the input is read twice.*try: %-i FILE",
      [{ "-i", "y", "--record", "x", "--switch-output", "1M" }] = "%-i and %-%-switch%-output at once",
      [{ "-i", "y", "--record", "x", "--lines" }] = "%-i and %-%-lines at once",
      [{ "-i", "y", "--record", "x", "--no-names" }] = "%-i and %-%-no%-names at once",
    } do
      local result = run { run.perfl, "cswlog", table.unpack(words) }
      assert.equal(2, result.code)
      assert.matches(wanted, result.err)
    end
  end)
end)
