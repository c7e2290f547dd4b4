-- Refusals of this kernel have the same messages as those of the simulated kernel.

local perfev = require "perfev"
local core = require "perfev.core"
local filter = require "perfev.tracepoint.filter"
local run = require "spec.support.run"
local tracefs = require "perfev.tracepoint.tracefs"

local function perfl(...)
  return run { run.perfl, "-q", ... }
end

local function script(text, ...)
  return perfl("-e", text, ...)
end

-- Each part of the message has its line: the failure, the cause, the remedy.
local function refused(r, what, why, remedy)
  assert.equal(1, r.code, r.err)
  local first, rest = r.err:match "^([^\n]+)\n(.*)$"
  assert.is_not_nil(first and first:find(what, 1, true), r.err)
  assert.is_not_nil(rest:find(why, 1, true), r.err)
  assert.is_not_nil((rest:match "\n?  try: .*$" or ""):find(remedy, 1, true), r.err)
end

local pmus = table.concat(core.list "/sys/bus/event_source/devices" or {}, " ")
local release = require("perfev.event.kernel_versions").running()
local why_not = not run.root and "not root: the kernel refuses for want of rights first"

-- Types the remedy of the last message: runs perfl with it in place of the refused words.
local function advised(r, pattern)
  local found = r.err:match("\n  try: " .. pattern)
  assert.is_not_nil(found, r.err)
  return found
end

local function accepted(r) assert.equal(0, r.code, r.err) end

-- it, where we are root.
local function as_root(sentence, f)
  it(sentence, function()
    if why_not then pending(why_not) end
    f()
  end)
end

describe("this kernel", function()
  as_root("has no PMU of an unknown type", function()
    refused(script("event { type = 4242, sample = print }", "--", "true"), "type=4242",
      "no PMU of this machine has the type 4242", "/sys/bus/event_source")
  end)

  as_root("has no hardware counters in a virtual machine without a PMU", function()
    if pmus:find "cpu" then pending "there is a PMU" end
    refused(script("event { type = 0, config = 0, sample = print }", "--", "true"), "type=0",
      "this machine has no hardware counters", "cpu-clock")
  end)

  as_root("refuses an option of a newer kernel", function()
    local versions = require "perfev.event.kernel_versions"
    if versions.number(release) >= 6019 then pending("this kernel, " .. release .. ", knows it") end
    refused(script("event { 'cpu-clock', defer_callchain = true, sample = print }", "--", "true"), "cpu-clock",
      "defer_callchain came with Linux 6.19, and this kernel is " .. release, "leave it out")
    refused(script("event { 'cpu-clock', config4 = 1, sample = print }", "--", "true"), "cpu-clock",
      "config4 came with Linux 6.19", "leave it out")
  end)

  as_root("has no such CPU", function()
    local r = perfl("-C", "4000", "-d", "1s", "-e", "event { 'cpu-clock', sample = print }")
    refused(r, "cpu 4000", "this machine has no CPU 4000", "-C 0")
    accepted(perfl("-C", advised(r, "%-C (%S+)"), "-d", "1ms", "-e", "event { 'cpu-clock', sample = print }"))
  end)

  as_root("has no such process", function()
    local r = perfl("-p", "4194303", "-d", "1s", "-e", "event { 'cpu-clock', sample = print }")
    refused(r, "pid 4194303", "process or thread 4194303 does not exist", "ps -eL")
    if not run.have "ps" then pending "ps is not installed" end
    accepted(run(advised(r, "([^\n]+)")))
    r = perfl("--uid", "nobody", "--comm", "no such process", "-e", "event { 'cpu-clock', sample = print }")
    accepted(run(advised(r, "([^\n]+)")))
  end)

  as_root("has no tracepoint of that number", function()
    refused(script("event { type = 2, config = 64000, sample = print }", "--", "true"), "config=64000",
      "no tracepoint of this kernel has the number 64000", "its name")
  end)

  as_root("has four breakpoints, and a fifth is refused with this cause", function()
    local text = {}
    for i = 1, 5 do
      text[i] = ("event { type = 5, bp_type = 2, bp_len = 4, bp_addr = 0x%x, name = 'mem:%d', sample = print }")
        :format(0x10000 * i, i)
    end
    local r = script(table.concat(text, "\n"), "--", "true")
    if r.code == 0 then pending "this processor has more" end
    refused(r, "mem:5", "all hardware breakpoints are in use", "fewer breakpoints")
  end)

  as_root("limits the stack's depth and the rate of samples", function()
    local deep, often = "event { 'cpu-clock', callchain = true, %s, sample = print }", "event { 'cpu-clock', %s }"
    local r = script(deep:format "sample_max_stack = 4000", "--", "true")
    refused(r, "cpu-clock", "sample_max_stack = 4000 is above kernel.perf_event_max_stack", "sample_max_stack = ")
    accepted(script(deep:format(advised(r, "([^\n]+)")), "--", "true"))
    r = script(often:format "freq = 2000000", "--", "true")
    refused(r, "cpu-clock", "2000000 Hz is above kernel.perf_event_max_sample_rate", "freq = ")
    accepted(script(often:format(advised(r, "(freq = %d+)")), "--", "true"))
  end)

  as_root("limits descriptors, and the refusal shows the number that is needed", function()
    local r = run({ "sh", "-c", "ulimit -n 20 && exec " .. run.quote(run.perfl) .. " -q -a -d 1s -e "
      .. run.quote "for i = 1, 30 do event { 'cpu-clock', name = 'clock ' .. i, sample = print } end" })
    refused(r, "cannot open clock", "30 events x ", "prlimit")
    assert.matches("descriptors are needed, and some more for ourselves; 20 are allowed %(hard limit 20%)", r.err)
    local raised = run { "sh", "-c", ("ulimit -n 20 && %s && exec %s -q -a -d 1ms -e %s"):format(
      advised(r, "sudo (prlimit [^\n]+)"), run.quote(run.perfl), -- root needs no sudo
      run.quote "for i = 1, 30 do event { 'cpu-clock', name = 'clock ' .. i, sample = print } end") }
    local may_not = raised.err:find("prlimit: .*Operation not permitted") -- a root without CAP_SYS_RESOURCE
    if not may_not then accepted(raised) end
    -- A pattern is as many as it matches; and where the last descriptor is taken, /proc cannot be read.
    for most = 12, 13 do
      r = run({ "sh", "-c", ("ulimit -n %d && exec %s -q -e 'event { \"sched:sched_*\", sample = print }' -- true")
        :format(most, run.quote(run.perfl)) })
      local n = r.err:match "sched_%*: (%d+) tracepoints"
      if not n then pending "no tracefs" end
      assert.matches(("\n  %s events x .*; %d are allowed %%(hard limit %d%%)"):format(n, most, most), r.err)
    end
  end)

  as_root("counts a tracepoint that it cannot sample, and the refusal suggests to count", function()
    if not tracefs.find("irq_vectors", "irq_work_exit") then pending "no irq_vectors:irq_work_exit" end
    local r = script("event { 'irq_vectors:irq_work_exit', sample = print }", "--", "true")
    if r.code == 0 then pending "this kernel samples it" end
    refused(r, "irq_vectors:irq_work_exit", "each sample would cause another",
      "perfl stat -e irq_vectors:irq_work_exit")
    r = run(run.quote(run.perfl) .. r.err:match "try: perfl([^\n]+)" .. " -- true")
    assert.equal(0, r.code, r.err)
    assert.matches("%d+%s+irq_vectors:irq_work_exit", r.err .. r.out)
  end)

  as_root("shows /proc, and a missing /proc is reported", function()
    local covered = { "unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"', run.perfl }
    local function without_proc(...)
      local words = table.move({ ... }, 1, select("#", ...), #covered + 1, { table.unpack(covered) })
      return run(words)
    end
    if without_proc("list", "cpu-clock").code ~= 0 then pending "a file system cannot be mounted here" end
    local r = without_proc("funclatency", "uprobe:libc:malloc", "--", "true")
    assert.equal(1, r.code, r.err)
    assert.matches("uprobe:libc:malloc': symbols cannot be read: /proc is not mounted.*\n  try: mount %-t proc proc "
      .. "/proc\n", r.err)
    r = without_proc("-p", "1", "-d", "1s", "-e", "event { 'cpu-clock', sample = print }")
    refused(r, "pid 1", "/proc is not mounted here", "mount -t proc proc /proc")
    r = without_proc("profile", "--", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done")
    assert.equal(0, r.code, r.err)
    assert.is_nil((r.err .. r.out):find("traceback", 1, true))
  end)

  as_root("refuses options that the PMU software does not support", function()
    refused(script("event { 'cpu-clock', sample_type = { 'branch_stack' }, branch_sample_type = { 'any' } }", "--",
      "true"), "cpu-clock", "sample_type has branch_stack, which needs a hardware event", "a hardware event")
    refused(script("event { 'cpu-clock', aux_sample_size = 4096 }", "--", "true"), "cpu-clock",
      "aux_sample_size requires a group leader that traces", "leave it out")
  end)

  as_root("agrees with the doctor, which leaves nothing open", function()
    collectgarbage()
    local fds = #core.list "/proc/self/fd"
    local found = perfev.doctor()
    assert.equal(fds, #core.list "/proc/self/fd")
    assert.is_true(found.default_job.ok, found.default_job.why)
    for _, right in ipairs(found.rights) do
      assert.equal(not right.you, right.why ~= nil, right.name)
      assert.equal(not right.you, right.fix ~= nil, right.name)
    end
    local r = run { run.perfl, "doctor" }
    assert.equal(0, r.code, r.err)
    assert.matches("^Linux " .. release:gsub("%p", "%%%0"), r.out)
    r = run { run.perfl, "doctor", "-j" }
    assert.matches('^{"checks":%[.*"default_job":{"ok":true,', r.out)
    r = run({ run.perfl, "doctor" }, { user = "nobody", cwd = "/" })
    assert.matches("own processes, user side%s+✔%s+✔%s+✔", r.out)
    assert.equal(0, r.code, r.out)
    assert.equal(2, run { run.perfl, "doctor", "--nosuch" }.code)
  end)
end)

describe("the doctor's table", function()
  -- name -> { root, CAP_PERFMON, you }
  local function table_of(text)
    local rows, mark = {}, "(\226\156[\148\152])"
    for name, root, perfmon, you in text:gmatch("\n(%l[^\n]-)%s+" .. mark .. "%s+" .. mark .. "%s+" .. mark) do
      rows[name] = { root = root, perfmon = perfmon, you = you }
    end
    assert.is_not_nil(rows["uprobes"], text)
    return rows
  end

  as_root("agrees with the results of root and of an ordinary user with CAP_PERFMON", function()
    if not run.have "setpriv" then pending "no setpriv" end
    local dir = run.tempdir() -- the user "nobody" may not reach perfl's directory
    assert(os.execute(("cp %s %s/perfl"):format(run.quote(run.perfl), dir)))
    for name, row in pairs(table_of(run({ run.perfl, "doctor" }).out)) do
      assert.equal(row.you, row.root, name)
    end
    local r = run({ "setpriv", "--reuid=nobody", "--regid=" .. run.capture "id -g nobody", "--clear-groups",
                    "--inh-caps=-all,+perfmon", "--ambient-caps=-all,+perfmon", "--bounding-set=-all,+perfmon",
                    dir .. "/perfl", "doctor" }, { cwd = "/" })
    run.remove(dir)
    if r.err:find "cap" then pending("setpriv knows no CAP_PERFMON: " .. r.err) end
    for name, row in pairs(table_of(r.out)) do assert.equal(row.you, row.perfmon, name .. "\n" .. r.out) end
  end)
end)

describe("a filter", function()
  as_root("is refused by this kernel if perfev refuses it, and accepted if perfev accepts it", function()
    local tp = tracefs.find("sched", "sched_switch")
    if not tp then pending "no tracefs" end
    local counter = assert(core.counter { pids = { 0 }, cpus = { -1 } })
    local texts = {
      "prev_pid == 1", "prv_pid == 1", "prev_comm == 'a'", "prev_comm == a", "prev_comm ~ \"a*\"", "prev_comm > 'a'",
      "prev_pid ~ 'a'", "prev_pid == 'a'", "prev_pid = 1", "prev_pid", "prev_pid ==", "(prev_pid == 1",
      "prev_pid == 1)",
      "!(prev_pid == 1)", "prev_pid == 1 && prev_prio < 4", "prev_pid == 1 and prev_prio < 4", "prev_pid & 1", "()", "",
      "comm == 'a'", "CPU == 0", "prev_pid == 09", "prev_pid == 0x1f", "prev_pid == 1e3", "prev_pid == -1",
      "prev_comm == 'a", "prev_pid == 1 | prev_pid == 2", "common_pid != 0", "prev_pid == 1;", "prev_pid == 1.5",
    }
    for _, text in ipairs(texts) do
      local attr = core.attr_new { type = 2, config = tp.id, sample_type = { "identifier" }, disabled = true }
      local number = assert(counter:add(attr, "x"))
      local kernel = counter:ioctl(number, "SET_FILTER", text) and true or false
      assert.equal(kernel, (filter.check("sched:sched_switch", text, tp.format)) == true, text)
      counter:remove(number)
    end
    counter:close()
  end)

  as_root("is shown with a caret by perfl before the kernel receives it", function()
    local r = script("event { 'sched:sched_switch', filter = 'prv_pid == 1', sample = print }", "-vv", "--", "true")
    assert.equal(1, r.code)
    assert.is_not_nil(r.err:find("\n  | prv_pid == 1\n  | ^^^^^^^\n  fields: char prev_comm[16], ", 1, true), r.err)
    assert.is_nil(r.err:find("SET_FILTER", 1, true))
    accepted(script(("event { 'sched:sched_switch', filter = %q, sample = print }"):format(advised(r, "([^\n]+)")),
      "--", "true"))
  end)
end)

describe("the target of perfl", function()
  as_root("is a user's processes or those of a name, with a message on their number", function()
    local r = run({ "sh", "-c", "sleep 30 & until grep -qx sleep /proc/$!/comm; do :; done; " .. run.quote(run.perfl)
      .. " -d 50ms --uid root --comm sleep -q -e 'event { \"cpu-clock\", sample = print }'; kill $!" })
    assert.matches("^perfl: %d+ process[es]* of the user root, named 'sleep'\n$", r.err)
    r = perfl("--comm", "no such process", "-e", "event { 'cpu-clock' }")
    assert.equal(1, r.code)
    assert.matches("no process named 'no such process'", r.err)
  end)

  as_root("is a cgroup without any task outside of it", function()
    local _, used = require("perfev.event.cgroup").mounts()
    if not used then pending "no cgroup hierarchy that perf events know" end
    local dir = ("%s/perfev-spec-%d"):format(used.path, core.pid())
    if not os.execute("mkdir " .. run.quote(dir) .. " 2>/dev/null") then pending "cannot make a cgroup" end
    -- Watched once it is inside, as long as it takes for some samples.
    local r = run({ "sh", "-c", ([[
      (echo 0 > %s/cgroup.procs && exec sh -c 'while :; do :; done') & inside=$!
      (while :; do :; done) & outside=$!
      until grep -qx $inside %s/cgroup.procs; do :; done
      %s -q --cgroup %s -d 300s -e '
        local n, tids = 0, {}
        event { "cpu-clock", freq = 200, sample = function(r)
          n = n + 1
          tids[r.tid] = true
          return n < 20
        end }
        done(function() local list = {} for tid in pairs(tids) do list[#list + 1] = tid end
          print(n, #list, list[1]) end)'
      kill $inside $outside; echo $inside; wait]]):format(dir, dir, run.quote(run.perfl), dir) })
    os.execute("rmdir " .. run.quote(dir))
    local n, tasks, tid, inside = r.out:match "^(%d+)\t(%d+)\t(%d+)\n(%d+)\n"
    assert.equal("20", n, r.err .. r.out)
    assert.equal("1", tasks)
    assert.equal(inside, tid)
  end)
end)
