-- Command lines that users of perf, strace and time type: a command without --, no target, options before the verb.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

describe("perfl with a command as for perf, strace and time", function()
  local dir
  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)

  local function perfl(...)
    local r = run({ run.perfl, ... }, { cwd = dir })
    assert.equal(0, r.code, r.err)
    return r
  end

  it("counts ls, and leaves its options to it", function()
    local r = perfl("stat", "-e", "task-clock", "ls", "-d", "/")
    assert.matches("^/\n", r.out)
    assert.matches("Performance counter stats for 'ls %-d /'", r.out .. r.err)
  end)

  it("records ls, with options of perf record before it", function()
    local r = perfl("record", "-F", "99", "-g", "-e", "cpu-clock", "-o", "ls.data", "ls", "-d", "/")
    assert.matches("^/\n", r.out)
    assert.matches("cpu%-clock", perfl("report", "ls.data").out)
  end)

  it("takes options before the verb, -e as an event in either place", function()
    perfl("-q", "-e", "cpu-clock", "record", "-e", "page-faults", "-o", "both.data", "ls", "-d", "/")
    local report = perfl("report", "both.data").out
    assert.matches("cpu%-clock", report)
    assert.matches("page%-faults", report)
  end)

  it("profiles a program given by its path", function()
    run(("cp /bin/true %s/app"):format(dir))
    local r = perfl("profile", "./app")
    assert.matches("records", r.err)
  end)

  it("runs a script that declares nothing on a command", function()
    run(("echo 'require(\"perfev\").event { comm = function(r) print(r.comm) end }' > %s/names.lua"):format(dir))
    assert.matches("^true\n", perfl("-q", "./names.lua", "true").out)
  end)

  it("counts the system calls of ls", function()
    requires("root", "tracefs")
    local r = perfl("syscount", "ls", "-d", "/")
    assert.matches("^/\n", r.out)
    assert.matches("\nclose +%d+\n", r.out)
  end)

  it("selects by name among all tasks with -a --comm, including tasks that begin later", function()
    requires "root"
    run(("cp /bin/true %s/perfev_late"):format(dir))
    local r = perfl("-a", "--comm", "perfev_l*", "-e", [[
      event { "page-faults", period = 1, sample = count { by = "comm" } }
      event { "dummy", comm = function(r) print("named", r.comm) end, exit = function(r) print("ended", r.comm) end }]],
      "--", "sh", "-c", "./perfev_late; ls / > /dev/null; true")
    assert.matches("^named\tperfev_late\nended\tperfev_late\nCOMM +COUNT\nperfev_late +%d+\n$", r.out)
  end)

  it("runs a command beside the process of -p, and reports nothing when that ends first", function()
    local chunk = "event { exit = function(r) print(r.comm) end }"
    local r = run(("sleep 1000 & pid=$!; %s -q -p $pid -e %s -- sh -c \"kill $pid; exec tail --pid=$pid -f\""):format(
      run.quote(run.perfl), run.quote(chunk)))
    assert.same({ 0, "sleep\n", "" }, { r.code, r.out, r.err })
  end)

  it("watches the machine with stat and top when no target is named", function()
    requires "root"
    local r = perfl("-d", "100ms", "stat", "-e", "cpu-clock")
    assert.matches("Performance counter stats for 'system wide'", r.out .. r.err)
    r = perfl("-d", "100ms", "--dry-run", "top")
    assert.matches("target: all tasks on cpus", r.out)
  end)
end)
