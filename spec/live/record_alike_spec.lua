-- Recordings by perfl, read by perf and by us: every field of every sample and side-band record alike.

local facts = require "perfev.perfdata.machine_facts"
local mapped = require "spec.support.mapped"
local perfev = require "perfev"
local perfscript = require "spec.support.perfscript"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

run.perf_may_die = false -- it reads perfl's recording

local WORK = "cat /etc/passwd > /dev/null; /bin/true"
-- Kinds of recordings with their options; each has samples.
local kinds = {
  { "several events", "-e cpu-clock,page-faults,context-switches -c 1000" },
  { "callchains by frame pointers", "-e page-faults -c 1 -g" },
  { "a group read through its leader", "-e '{cpu-clock,page-faults}:S' -c 100000",
    work = "exec ls -l /usr/bin" },
  { "payloads that print symbols", "-e kmem:kfree -e timer:hrtimer_start" },
  { "a filter", "-e sched:sched_switch --filter 'prev_pid != 0'" },
  { "records compressed at the best level", "-e page-faults -c 1 --compression-level 22" },
  { "the whole machine", "-e cpu-clock -F 4000 -a -g" },
  { "modifiers", "-e page-faults:uS -e cpu-clock:k -c 1000" },
  { "a small ring", "-e page-faults -c 1 -m 8K" },
  { "a pipe with formats", "-e sched:sched_switch -e raw_syscalls:sys_enter", pipe = true },
  { "the events of a script", [[-e 'event{"page-faults", period=1, callchain=true, sample=function() end,
    exit=function() end, comm=function() end, mmap=function() end}']], script = true },
}

local function need() requires("perf", "root", "tracefs", "program perf") end

local dir
before_each(function() dir = run.tempdir() end)
after_each(function() run.remove(dir) end)

local function record(kind, work)
  local path = dir .. "/perf.data"
  local options = kind.script and "--record " .. path .. " " .. kind[2]
    or ("record %s -o %s"):format(kind[2], kind.pipe and "-" or path)
  local command = run.quote(work or kind.work or WORK)
  local result = run(("%s %s -q -- sh -c %s%s"):format(run.quote(run.perfl), options, command,
    kind.pipe and " > " .. path or ""))
  assert.equal(0, result.code, result.err)
  return path
end

-- Counts samples, in total and per CPU.
local function sample_times(path)
  local rec <close> = assert(perfev.open(path))
  local all, cpus = { first = math.maxinteger, last = 0 }, {}
  for r in rec:records { user = false, types = { "sample" } } do
    cpus[r.cpu] = cpus[r.cpu] or { first = math.maxinteger, last = 0 }
    for _, times in ipairs { all, cpus[r.cpu] } do
      times.first, times.last = math.min(times.first, r.time), math.max(times.last, r.time)
    end
  end
  return all, cpus
end

-- The contents of a section of build ids, sorted: the order of mappings on two CPUs depends on the order in which
-- their rings are read.
local function entries(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    local size = ("=I2"):unpack(bytes, at + 6) -- perf_event_header.size
    list[#list + 1], at = bytes:sub(at, at + size - 1), at + size
  end
  table.sort(list)
  return list
end

describe("perfl's recording with", function()
  for _, kind in ipairs(kinds) do
    it(kind[1] .. " has the same content for perf and for perfl", function()
      need()
      local ours = perfscript.assert_alike(record(kind))
      assert.is_true(#ours.told.samples > 0)
      assert.equal(#ours.told.samples, ours.stats.types.sample)
      assert.is_true(#ours.told.lines >= #ours.told.samples)
    end)
  end
end)

describe("a recording split by --switch-output", function()
  it("consists of complete files in sequence, and the last has the given name", function()
    need()
    -- Runs until there are three parts, however many records a busy machine loses.
    local work = ("until [ $(ls %s | wc -l) -ge 3 ]; do ls /usr/bin > /dev/null; done"):format(dir)
    local result = run({ run.perfl, "record", "-q", "-e", "page-faults", "-c", "1", "--switch-output", "64K", "-m",
      "32K", "-o", dir .. "/perf.data", "--", "sh", "-c", work })
    assert.equal(0, result.code, result.err)
    local names = {}
    for name in run.capture("ls " .. dir):gmatch "perf.data%S+" do names[#names + 1] = name end
    names[#names + 1] = "perf.data"
    assert.is_true(#names >= 3)
    local before = {}
    for _, name in ipairs(names) do
      local ours = perfscript.assert_alike(dir .. "/" .. name)
      assert.is_true(#ours.told.samples > 0 or name == "perf.data") -- no further part need come once there are three
      -- A part ends with the records of each ring, read in turn: on another CPU the next part may begin earlier.
      local _, cpus = sample_times(dir .. "/" .. name)
      for cpu, times in pairs(cpus) do
        assert.is_true(times.first >= (before[cpu] or 0), ("%s, cpu %d"):format(name, cpu))
        before[cpu] = times.last
      end
    end
  end)
end)

describe("the header of perfl's recording", function()
  it("is shown by perf like the header of perf's own, except the recorder's words", function()
    need()
    local function lines(path)
      local shown, list = run { "perf", "report", "--header-only", "-I", "-i", path }, {}
      for line in shown.out:gmatch "[^\n]+" do
        local key = line:match "^# ([%a ]-)%s*:" or line
        if not (key:find "^captured" or key:find "^data " or key:find "^feat " or key == "perf version"
            or key == "cmdline" or key == "event" or key == "pmu mappings" or key:find "^time of"
            or key == "sample duration" or key:find "^clockid" or key == "reference time"
            or key == "missing features") then
          list[#list + 1] = line:gsub("free = %d+", "free"):gsub("(total[ %a]*[=:] )%d+ kB", "%1kB")
        end
      end
      return list, shown
    end
    local theirs = dir .. "/perfs"
    assert.equal(0, run { "perf", "record", "-q", "-o", theirs, "-e", "page-faults", "--", "true" }.code)
    local path = record { "", "-e page-faults -c 1" }
    local ours, shown = lines(path)
    assert.same(lines(theirs), ours)
    assert.is_true(#ours > 8)
    assert.matches("# perf version : perfev ", shown.out, 1, true)
    assert.matches("# cmdline : %S*perfl record ", shown.out)
    assert.matches("# event : name = page%-faults, , id = {", shown.out)
  end)

  it("describes the recorded command, its events, the times of its samples and its files", function()
    need()
    local rec <close> = assert(perfev.open(record { "", "-e page-faults -c 1" }))
    assert.same((sample_times(rec.path)), rec.header.sample_time)
    assert.equal("page-faults", rec.header.event_desc[1].name)
    assert.same(rec.events[1].ids, rec.header.event_desc[1].ids)
    local cmdline = table.concat(rec.header.cmdline, " ")
    assert.matches("record %-e page%-faults .* %-%- sh %-c " .. WORK:gsub("%p", "%%%0"), cmdline)
    local found = {}
    for _, section in ipairs(facts.features_at_end { maps = mapped(rec.path) }) do found[section.name] = section end
    assert.same(entries(found.build_ids.bytes), entries(rec:section "build_ids"))
  end)
end)

describe("perf report on perfl's recording", function()
  it("names functions of ended programs and of the kernel", function()
    need()
    local path = record({ "", "-e cpu-clock -c 50000 -g" }, "ls -lR /usr/lib > /dev/null")
    local report = run { "perf", "report", "--stdio", "-g", "none", "--sort", "comm,dso,symbol", "-i", path }
    assert.equal(0, report.code)
    assert.matches("ls +%[kernel%.kallsyms%] +%[k%] %l", report.out)
    assert.matches("ls +libc", report.out)
  end)
end)
