-- perfl merge: several recordings as one.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local perfl_section = require "perfev.perfdata.perfl_section"
local run = require "spec.support.run"

local MS, HOSTNAME, OSRELEASE, VERSION, EVENT_DESC = 1000000, 3, 4, 5, 12
local WITH_IDENTIFIER, WITHOUT = { "ip", "tid", "time", "cpu", "identifier" }, { "ip", "tid", "time" }
local WITH_ID = { "tid", "time", "id", "cpu" }

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local made = 0

-- A recording of one event: a name that was known before, samples at these times in ms, and a loss.
local function recording(t)
  local attr = { type = 1, config = t.config or 0, comm = true, sample_id_all = true, sample_type = t.bits,
                 use_clockid = t.clock and true, clockid = t.clock }
  local b = perfdata.new { events = { { attr = attr, ids = { t.id }, name = t.name } } }
  local function at(ms) return { pid = 7, tid = 7, time = ms * MS, cpu = 1, identifier = t.id, id = t.id } end
  b:add { type = "comm", pid = 7, tid = 7, comm = t.comm, sample_id = at(0) }
  for _, ms in ipairs(t.times) do
    local sample = at(ms)
    sample.type, sample.ip = "sample", 0x1000 + ms
    b:add(sample)
  end
  b:add { type = "lost", id = t.id, lost = 2, sample_id = at(t.times[#t.times]) }
  b:round()
  made = made + 1
  return run.write_file(("%s/%d.data"):format(dir, made), b:file {
    [HOSTNAME] = b:string("box"), [OSRELEASE] = b:string(t.release or "6.1"),
    [VERSION] = t.names and perfl_section.with_names(b:string "perfev 1", false, t.names) or nil,
    [EVENT_DESC] = b:event_desc() })
end

local function merge(...)
  local to = dir .. "/merged.data"
  os.remove(to)
  local result = run { run.perfl, "merge", "-o", to, ... }
  assert.equal(0, result.code, result.err)
  return to, result.err
end

-- "1 a cpu-clock" of each sample: its time in ms, the name of its task, its event.
local function samples(path)
  local list = {}
  for line in run({ run.perfl, "dump", "-j", "-t", "sample", path }).out:gmatch("[^\n]+") do
    local t = json.decode(line)
    list[#list + 1] = ("%d %s %s"):format(t.time // MS, t.comm, t.event)
  end
  return list
end

local function report(path) return json.decode(run({ run.perfl, "report", "-j", path }).out) end

describe("perfl merge", function()
  it("orders the records of all files by time, each with its event and the name of its time", function()
    local a = recording { id = 11, bits = WITH_IDENTIFIER, name = "cpu-clock", comm = "early", times = { 1, 3, 5 } }
    local b = recording { id = 12, bits = WITH_IDENTIFIER, config = 2, name = "page-faults", comm = "late",
                          times = { 4, 6 } }
    local to, said = merge(b, a)
    assert.same({ "1 early cpu-clock", "3 early cpu-clock", "4 early page-faults", "5 early cpu-clock",
      "6 early page-faults" }, samples(to))
    assert.same({ "1 early cpu-clock", "3 early cpu-clock", "4 late page-faults", "5 late cpu-clock",
      "6 late page-faults" }, samples((merge(a, b))))
    assert.matches("copied 9 of 11 records %(5 samples%)", said)
    local total = report(to)
    assert.same({ 4, 1 * MS, 6 * MS }, { total.lost, total.first, total.last })
    assert.equal("box", total.header.hostname)
  end)

  it("gives events with the same id different ones", function()
    local a = recording { id = 11, bits = WITH_IDENTIFIER, name = "cpu-clock", comm = "a", times = { 1, 3 } }
    local b = recording { id = 11, bits = WITH_ID, config = 2, name = "page-faults", comm = "b", times = { 2, 4 } }
    local to = merge(a, b)
    assert.same({ "1 a cpu-clock", "2 b page-faults", "3 b cpu-clock", "4 b page-faults" }, samples(to))
    local total = report(to)
    assert.same({ 0, 4 }, { total.unknown_id, total.lost })
    for line in run({ run.perfl, "dump", "-j", "-t", "lost", to }).out:gmatch("[^\n]+") do
      local t = json.decode(line)
      assert.equal(t.sample_id.identifier, t.id)
    end
  end)

  it("gives records without an id one", function()
    local list = {}
    for i, name in ipairs { "cpu-clock", "task-clock", "page-faults" } do
      list[i] = recording { id = 20 + i, bits = WITHOUT, config = i - 1, name = name, comm = name:sub(1, 3),
                            times = { i, i + 3 } }
    end
    assert.same({ "1 cpu cpu-clock", "2 tas task-clock", "3 pag page-faults", "4 pag cpu-clock", "5 pag task-clock",
      "6 pag page-faults" }, samples((merge(table.unpack(list)))))
  end)

  it("keeps the event of files of one session", function()
    local function part(times)
      return recording { id = 11, bits = WITH_IDENTIFIER, name = "cpu-clock", comm = "a", times = times }
    end
    local total = report((merge(part { 1, 2 }, part { 3, 4 }, part { 5 })))
    assert.equal(1, #total.events)
    assert.same({ 5, 1 }, { total.events[1].samples, total.events[1].ids })
  end)

  it("keeps the names of functions of all files", function()
    local one = { id = 1, bits = WITH_IDENTIFIER, name = "cpu-clock", comm = "a", times = { 1 },
                  names = ":file - /bin/a\n1000 10 main\n1040 8 helper\n:jit 7\nff 7000 8 made\n" }
    local other = { id = 2, bits = WITH_IDENTIFIER, name = "cpu-clock", comm = "a", times = { 2 },
                    names = ":file - /bin/a\n1000 10 main\n1020 8 more\n:kernel\nffff 1 schedule\n" }
    local function names_in(path)
      local rec <close> = assert(perfev.open(path))
      return (perfl_section.names(rec:section "version", rec.facts.big))
    end
    local all = ":file - /bin/a\n1000 10 main\n1040 8 helper\n1020 8 more\n:jit 7\nff 7000 8 made\n"
      .. ":kernel\nffff 1 schedule\n"
    assert.equal(all, names_in((merge(recording(one), recording(other)))))
    one.names = nil
    assert.equal(other.names, names_in((merge(recording(one), recording(other)))))
  end)

  it("refuses recordings that do not fit together, with the reason", function()
    local function one(t)
      t.id, t.name, t.comm, t.times = 11, "cpu-clock", "a", { 1 }
      t.bits = t.bits or WITH_IDENTIFIER
      return recording(t)
    end
    local plain = one {}
    for _, case in ipairs {
      { 1, { plain, one { release = "6.2" } }, "is of 6.1, .* of 6.2\n  addresses of different kernels" },
      { 1, { plain, one { clock = 1 } }, "times of different clocks %(perf's own, 1%)" },
      { 1, { plain, one { bits = { "tid", "identifier" } } }, "the records of cpu%-clock have no time" },
      { 1, { plain, dir .. "/none" }, "cannot open the recording .*/none" },
      { 2, { plain }, "files" },
    } do
      local result = run { run.perfl, "merge", "-o", dir .. "/x", table.unpack(case[2]) }
      assert.equal(case[1], result.code, result.err)
      assert.matches(case[3], result.err)
      assert.is_nil(run.slurp(dir .. "/x"))
    end
    assert.matches("no name for the new recording", run({ run.perfl, "merge", plain, plain }).err)
  end)
end)
