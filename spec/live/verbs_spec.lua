-- perfl report, dump and skeleton on recordings by perf record, compared with perf's output.

local json = require "spec.support.json"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local WORK = "ls -l /usr/bin > /dev/null; for i in 1 2 3; do /bin/true; done"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function need() requires("perf", "root", "program perf", "tracefs") end

local recorded = {}

-- Returns a recording with these options, made once.
local function record(options)
  need()
  if not recorded[options] then
    local path = ("%s/%d.data"):format(dir, #options)
    local result = run(("perf record -q -o %s %s -- sh -c %s"):format(path, options, run.quote(WORK)))
    assert.equal(0, result.code, result.err)
    recorded[options] = path
  end
  return recorded[options]
end

local EVENTS = "-e sched:sched_switch -e page-faults -c 1 -g"
local CLOCK = "-e cpu-clock -F 4000 -k monotonic"

local function told(verb, ...)
  local result = run { run.perfl, verb, "-j", ... }
  assert.equal(0, result.code, result.err)
  return result.out
end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

describe("perfl report", function()
  for _, options in ipairs { EVENTS, CLOCK } do
    it("has the same counts as perf report --stats: perf record " .. options, function()
      local path = record(options)
      local total = json.decode(told("report", path))
      local stats = run { "perf", "report", "--stats", "-i", path }.out
      local all = stats:match("Aggregated stats:(.-)\n%S") or stats
      for name, n in all:gmatch("\n +([%u%d_]+) events: +(%d+)") do
        local of = name == "TOTAL" and total.total or total.records[name:lower()]
        assert.equal(tonumber(n), of, name)
      end
      -- the lines after the totals: "cpu-clock stats:" and the samples of that event
      for name, n in stats:gmatch("\n(%S+) stats:\n +SAMPLE events: +(%d+)") do
        for _, event in ipairs(total.events) do
          if event.name == name then assert.equal(tonumber(n), event.samples, name) end
        end
      end
    end)
  end

  it("shows the time of the recording if the recorder stored the offset of its clock", function()
    local before = os.time()
    local path = record(CLOCK)
    local total = json.decode(told("report", path))
    assert.equal("monotonic", total.clock)
    assert.is_true(total.began >= before - 3600 and total.began <= os.time(), total.began)
    assert.equal(run.capture("uname -r"), total.header.osrelease)
  end)
end)

describe("perfl dump", function()
  it("prints the records of perf script -D, with their offsets and times", function()
    local path = record(EVENTS)
    local theirs, ours = {}, {}
    for line in run({ "perf", "script", "-D", "-i", path }).out:gmatch("[^\n]+") do
      local time, offset, size, name = line:match("^[%d%s-]-(%d*) ?(0x%x+) %[(0x%x+)%]: PERF_RECORD_([%u%d_]+)")
      time = time ~= "" and time or 0
      if name then theirs[#theirs + 1] = ("%d %d %s %s"):format(offset, size, name:lower(), time) end
    end
    for _, line in ipairs(lines_of(told("dump", path))) do
      local object = json.decode(line)
      local time = (object.sample_id or object).time or 0 -- a fork has its own
      ours[#ours + 1] = ("%d %d %s %d"):format(object.offset, object.size, object.type, time)
    end
    table.sort(theirs)
    table.sort(ours)
    assert.is_true(#ours > 100)
    assert.same(theirs, ours)
  end)

  it("prints the payload's values and the stack of perf script", function()
    local path = record(EVENTS)
    local theirs, ours = {}, {}
    local script = run { "perf", "script", "--ns", "-F", "time,event,trace", "-G", "-i", path }
    for line in script.out:gmatch("[^\n]+") do
      local s, ns, text = line:match("^ *(%d+)%.(%d+): +sched:sched_switch: (.*)$")
      if s then
        theirs[#theirs + 1] = ("%s%s %s %s"):format(s, ns, text:match("prev_pid=(%d+)"), text:match("next_pid=(%d+)"))
      end
    end
    for _, line in ipairs(lines_of(told("dump", "-t", "sample", "-e", "sched:sched_switch", path))) do
      local object = json.decode(line)
      ours[#ours + 1] = ("%d %d %d"):format(object.time, object.args.prev_pid, object.args.next_pid)
      assert.is_true(#object.callchain.kernel > 0)
    end
    assert.is_true(#ours > 0)
    assert.same(theirs, ours)
  end)

  it("reads a stream that another process still writes", function()
    need()
    local result = run(("perf record -q -o - %s -- sh -c %s | %s dump -j -t sample -"):format(EVENTS, run.quote(WORK),
      run.quote(run.perfl)))
    assert.equal(0, result.code, result.err)
    assert.is_true(#lines_of(result.out) > 100)
  end)
end)

describe("perfl skeleton", function()
  it("writes a script that runs on the recording and live", function()
    local path = record(EVENTS)
    local script = dir .. "/made.lua"
    assert.equal(0, run(("%s skeleton %s > %s"):format(run.quote(run.perfl), path, script)).code)
    local total = json.decode(told("report", path))
    local replayed = run { run.perfl, script, "-i", path }
    assert.equal(0, replayed.code, replayed.err)
    local switches, all = 0, lines_of(replayed.out)
    for _, line in ipairs(all) do
      switches = switches + (line:find(" sched:sched_switch: prev_comm=", 1, true) and 1 or 0)
    end
    assert.equal(total.events[1].samples, switches)
    local tools = 0
    for _, name in ipairs { "finished_round", "finished_init", "id_index", "thread_map", "cpu_map", "time_conv" } do
      tools = tools + (total.records[name] or 0)
    end
    assert.equal(total.total - tools, #all)
    local live = run { run.perfl, script, "--", "sh", "-c", WORK }
    assert.equal(0, live.code, live.err)
    assert.is_nil(live.err:find("a callback failed", 1, true), live.err)
    for _, wanted in ipairs { " sched:sched_switch: prev_comm=", " page%-faults: ip=0x%x+ ", " comm: exec=true",
                              " mmap2: " } do
      assert.matches(wanted, live.out)
    end
  end)
end)
