-- The script cgtop on the real kernel: its CPU time by container against the samples of a workload in our own cgroups.

local core = require "perfev.core"
local perfev = require "perfev"
local json = require "spec.support.json"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"
local with_cgroups = require "spec.support.cgroups"(requires, function(why) pending(why) end,
  function(f) finally(f) end)

local ID = ("0123456789abcdef"):rep(4)
local CONTAINER, SERVICE = "docker-" .. ID .. ".scope", "spec.service"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- A command that works in a container, then in a service, and leaves both.
local function begin()
  local root, own = with_cgroups { CONTAINER, SERVICE }
  if not root then return nil end
  run.write_file(dir .. "/work.sh", ([[
work() { i=0; while [ $i -lt $1 ]; do i=$((i + 1)); done; }
echo 0 > %s/cgroup.procs; work 100000
echo 0 > %s/cgroup.procs; work 100000
echo 0 > %s/cgroup.procs
]]):format(root .. own .. "/" .. CONTAINER, root .. own .. "/" .. SERVICE, root))
  return own, root .. own
end

local function perfl(...) return run({ run.perfl, "-q", ... }, { cwd = dir }) end

-- The sums by kind and name of JSON lines.
local function sums_of(text)
  local sums = {}
  for line in text:gmatch "[^\n]+" do
    local row = json.decode(line)
    local key = row.kind .. " " .. row.name
    sums[key] = (sums[key] or 0) + row.value
    assert.equal("cpu-clock", row.event)
  end
  return sums
end

-- The periods of the recorded samples in a cgroup: its id is the inode number of its directory.
local function recorded_in(path, directory)
  local rec <close>, id, sum = assert(perfev.open(dir .. "/" .. path)), core.stat(directory).ino, 0
  for r in rec:records { user = false } do
    if r.type == "sample" and r.cgroup == id then sum = sum + r.period end
  end
  return sum
end

describe("cgtop", function()
  it("shows the CPU time of each container, live and of a recording", function()
    local own, place = begin()
    if not own then return end
    local r = perfl("-j", "--record", "c.data", "cgtop", "-I", "100ms", "--", "sh", "work.sh")
    assert.same({ 0, "" }, { r.code, r.err })
    local container, service = recorded_in("c.data", place .. "/" .. CONTAINER),
      recorded_in("c.data", place .. "/" .. SERVICE)
    assert.is_true(container > 0 and service > 0)
    local sums = sums_of(r.out)
    assert.same({ container, service }, { sums["docker 0123456789ab"], sums["service spec"] })
    r = perfl("-j", "-i", "c.data", "cgtop")
    assert.equal(0, r.code, r.err)
    assert.same(sums, sums_of(r.out))
  end)

  it("prints a table for each interval, with names or with paths", function()
    local own = begin()
    if not own then return end
    local r = perfl("cgtop", "-I", "50ms", "--", "sh", "work.sh")
    assert.equal(0, r.code, r.err)
    assert.matches("^     %%CPU  KIND        NAME %(OWNER%)\n", r.out)
    assert.matches("\n +%d+%.%d  docker      0123456789ab\n", r.out)
    assert.matches("\n +%d+%.%d  service     spec\n", r.out)
    r = perfl("cgtop", "--path", "-T", "1", "-I", "10m", "-e", "page-faults", "-F", "0", "--", "sh", "work.sh")
    assert.equal(0, r.code, r.err)
    assert.matches("^  PER SEC  KIND        NAME %(OWNER%)\n +[%d.]+  cgroup      /", r.out)
    assert.equal(2, select(2, r.out:gsub("\n", "\n")))
  end)

  it("divides by the time of the interval, and prints no rate if the time is unknown", function()
    local one = { "cgtop", "-e", "sched:sched_process_exec", "-F", "0", "--", "true" }
    local r = perfl(table.unpack(one))
    assert.equal(0, r.code, r.err)
    assert.matches("^  PER SEC  KIND        NAME %(OWNER%)\n        %-  %l+ ", r.out)
    local row = json.decode((perfl("-j", table.unpack(one)).out))
    assert.same({ 1 }, { row.value, row.rate })
    r = perfl("-j", "cgtop", "-e", "sched:sched_process_exec", "-F", "0", "-I", "50ms", "--", "sh", "-c",
      "sleep 1; exec true")
    row = json.decode(r.out:match "[^\n]+") -- of the first interval: the exec of sh
    assert.is_true(row.rate % 20 == 0 and row.rate == 20 * row.value, r.out)
  end)

  it("reports samples without a cgroup", function()
    requires("perf")
    assert.equal(0, perfl("record", "-e", "cpu-clock", "-o", "plain.data", "--", "sh", "-c",
      "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done").code)
    local r = perfl("-i", "plain.data", "cgtop")
    assert.equal(0, r.code, r.err)
    assert.matches("\n%d+ records without cgroup: not counted\n", r.out)
  end)

  it("refuses intervals and frequencies that make no sense", function()
    for _, case in ipairs {
      { "--interval=0", "cgtop: -I: more than 0\n" }, { "--frequency=-1", "cgtop: -F: 0 or more\n" },
      { "--top=-1", "cgtop: -T: 0 or more\n" },
    } do
      local r = perfl("cgtop", case[1], "--", "true")
      assert.same({ 2, case[2] }, { r.code, r.err })
    end
  end)
end)
