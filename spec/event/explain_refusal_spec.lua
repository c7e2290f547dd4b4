-- The message of a refusal: operation, cause and remedy. The cause is found in /proc and /sys.

local perfev = require "perfev"
local core = require "perfev.core"
local explain = require "perfev.event.explain_refusal"
local sim = require "perfev.sim"

local E = perfev.errno

local files
before_each(function()
  files = {
    ["/proc/self/status"] = "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t0\n",
    ["/proc/self/limits"] = "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024    4096    files\n"
      .. "Max locked memory         65536   65536   bytes\n",
    ["/proc/sys/kernel/perf_event_paranoid"] = "2\n",
    ["/proc/sys/kernel/perf_event_max_sample_rate"] = "100000\n",
    ["/proc/sys/kernel/perf_event_max_stack"] = "127\n",
    ["/proc/sys/kernel/perf_event_mlock_kb"] = "516\n",
  }
  perfev.hooks.set { slurp = function(path)
    if files[path] then return files[path] end
    return nil, E.ENOENT
  end }
end)
after_each(function() perfev.hooks.clear() end)

local WHAT = "cannot open cpu-clock on cpu 0"

local function refusal(code, event)
  return explain.refusal(WHAT, E[code], nil, event)
end

describe("a refusal", function()
  it("has three parts for every errno of opening: operation, cause, remedy", function()
    for _, code in ipairs { "EACCES", "EPERM", "EMFILE", "ENFILE", "EINVAL", "ENOENT", "ENODEV", "ESRCH", "ENOSPC",
      "EOPNOTSUPP", "EOVERFLOW", "E2BIG", "ENOSYS", "EBUSY", "ENOMEM" } do
      local head, why, remedy = refusal(code, {}):match("^([^\n]+)\n  ([^\n]+)\n  try: (.+)$")
      assert.equal(("%s: %s (%s)"):format(WHAT, core.strerror(E[code]), code), head)
      assert.is_true(#why > 10 and #remedy > 3, code)
    end
  end)

  it("has only its first line if the cause is unknown", function()
    assert.equal(WHAT .. ": Input/output error (EIO)", refusal "EIO")
    assert.matches("%(%d+%)$", explain.refusal(WHAT, 4000))
  end)

  it("for lack of permission names the present and the needed level and the capability", function()
    local cases = {
      { { cpu_wide = true }, "is 2; watching a whole CPU needs 0 or CAP_PERFMON", "perf_event_paranoid=0" },
      { { is_tracepoint = true }, "is 2; a tracepoint's payload needs %-1 or CAP_PERFMON", "perf_event_paranoid=%-1" },
      { {}, "is 2; watching the kernel side needs 1 or CAP_PERFMON", "perf_event_paranoid=1" },
    }
    for _, case in ipairs(cases) do
      for _, code in ipairs { "EACCES", "EPERM" } do
        local text = refusal(code, case[1])
        assert.matches("kernel.perf_event_paranoid " .. case[2], text)
        assert.matches("try: sudo setcap cap_perfmon", text)
        assert.matches(case[3], text)
      end
    end
    assert.matches("or: watch a command of your own: %-%- COMMAND", refusal("EACCES", { cpu_wide = true }))
  end)

  it("reports that /proc hides the processes of other users", function()
    files["/proc/mounts"] = "proc /proc proc rw,relatime 0 0\nproc /proc proc rw,hidepid=invisible 0 0\n"
    local hides = "/proc hides the processes of other users (it is mounted with hidepid)\n  try: as root"
    assert.matches("\n  process or thread 70 does not exist, or is hidden: " .. hides, refusal("ESRCH", { pid = 70 }),
      nil, true)
    assert.equal("cannot watch pid 70: Operation not permitted (EPERM)\n  " .. hides,
      explain.refusal("cannot watch pid 70", E.EPERM))
    files["/proc/mounts"] = "proc /proc proc rw,hidepid=invisible 0 0\nproc /proc proc rw 0 0\n"
    assert.matches("\n  process or thread 70 does not exist %(any more%)\n", refusal("ESRCH", { pid = 70 }))
  end)

  it("to root of a user namespace is not blamed on a security module", function()
    files["/proc/self/status"] = "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
    local function wide() return refusal("EACCES", { cpu_wide = true }) end
    assert.matches("security module", wide())
    for _, whole in ipairs { true, false } do
      files["/proc/self/uid_map"] = "         0       1000 " .. (whole and "4294967295" or "1") .. "\n"
      assert.matches("\n  kernel.perf_event_paranoid is 2; .*\n  try: run it outside of this user namespace: ", wide())
    end
    files["/proc/self/uid_map"] = "         0          0 4294967295\n"
    assert.matches("security module", wide())
  end)

  it("for lack of memory reports the address-space limit", function()
    assert.matches("\n  the kernel is out of memory\n", refusal("ENOMEM", {}))
    files["/proc/self/limits"] = "Max address space         40000000             unlimited            bytes\n"
    assert.matches("\n  our address space may have 39062 KiB %(ulimit %-v%)\n  try: smaller", refusal("ENOMEM", {}))
  end)

  it("in a root without sysfs reports that, not an unknown event", function()
    assert.matches("\n  sysfs is not mounted;.*\n  try: mount %-t sysfs",
      explain.refusal("/sys/devices/system/cpu/online", E.ENOENT, { operation = "list cpus" }))
  end)

  it("for another user's process names that user", function()
    files["/proc/self/status"] = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"
    files["/proc/70/status"] = "Name:\ty\nUid:\t33\t33\t33\t33\n"
    assert.matches("belongs to the user with uid 33\n  try: run as that user", refusal("EACCES", { pid = 70 }))
    files["/proc/70/status"] = files["/proc/self/status"]
    assert.matches("perf_event_paranoid is 2", refusal("EACCES", { pid = 70 }))
  end)

  it("despite capabilities is blamed on seccomp or a security module", function()
    for _, caps in ipairs { "0000004000000000", "0000000000200000", "000001ffffffffff" } do
      files["/proc/self/status"] = ("Name:\tx\nCapEff:\t%s\nSeccomp:\t2\n"):format(caps)
      assert.matches("seccomp filter is in force", refusal("EPERM", {}))
      files["/proc/self/status"] = ("Name:\tx\nCapEff:\t%s\nSeccomp:\t0\n"):format(caps)
      assert.matches("security module or kernel lockdown", refusal("EPERM", {}))
    end
  end)

  it("for lack of descriptors reports how many are needed and allowed", function()
    local text = refusal("EMFILE", { events = 10, cpus = 400, threads = 20 })
    assert.matches("10 events x 400 CPUs x 20 tasks = 80000 descriptors are needed, .*; 1024 are allowed %(hard",
      text)
    assert.matches("nofile=88064\n", text) -- with that of our own, on each CPU and task
  end)

  it("of a mapping names the memory budget", function()
    local text = explain.refusal("cannot map a ring for x", E.EPERM, { operation = "map ring", bytes = 2 << 20 })
    assert.matches("a ring takes 2048 %+ 4 KiB; kernel.perf_event_mlock_kb is 516 per CPU, ulimit %-l is 64 KiB", text)
    assert.matches("try: a smaller ring %(%-m 512K%)", text)
  end)

  it("of an invalid attr names the wrong option", function()
    local attr = core.attr_new { type = 1, inherit_thread = true }
    assert.matches("inherit", refusal("EINVAL", { attr = attr, pid = 1, cpu = -1 }))
    attr = core.attr_new { type = 1, freq = true, sample_freq = 200000 }
    assert.matches("200000 Hz is above kernel.perf_event_max_sample_rate, 100000", refusal("EINVAL", { attr = attr }))
    assert.matches("no known cause applies;.*newer than this kernel", refusal("EINVAL", {}))
  end)

  it("that no longer happens is reported as such", function()
    assert.matches("the kernel accepts it now", refusal("EINVAL", { attr = core.attr_new { type = 1, config = 9,
      exclude_kernel = true } }))
  end)

  it("of an unsupported attr names the wrong option if it is known", function()
    local attr = core.attr_new { type = 1, sample_period = 1, sample_type = { "branch_stack" },
      branch_sample_type = { "any", "user" } }
    assert.matches("\n  sample_type has branch_stack", refusal("EOPNOTSUPP", { attr = attr }))
    assert.matches("\n  the PMU lacks a requested", refusal("EOPNOTSUPP", { attr = core.attr_new { type = 0 } }))
  end)

  it("of too deep a stack names the limit", function()
    assert.matches("perf_event_max_stack, 127", refusal "EOVERFLOW")
  end)

  it("has three parts even if no file can be read", function()
    files = {}
    for _, code in ipairs { "EACCES", "EPERM", "EMFILE", "EINVAL", "EOVERFLOW" } do
      assert.matches("^" .. WHAT:gsub("%-", "%%-") .. ": .*\n  .*\n  try: ", refusal(code, {}))
    end
  end)
end)

describe("a command", function()
  it("that cannot be run is reported with its errno, and a remedy if there is one", function()
    assert.equal("cannot run 'x': No such file or directory (ENOENT)\n  try: the command's name, or its full path",
      explain.command("cannot run 'x'", E.ENOENT, "x"))
    files["./old"] = "#! /opt/none/perl -w\n"
    assert.equal("cannot run './old': No such file or directory (ENOENT)\n"
      .. "  its first line asks for /opt/none/perl, which is not there\n  try: the interpreter that it needs",
      explain.command("cannot run './old'", E.ENOENT, "./old"))
    assert.equal("cannot run '/': Permission denied (EACCES)\n  it is a directory\n  try: a program in it",
      explain.command("cannot run '/'", E.EACCES, "/"))
    assert.equal("cannot run 'x': Too many levels of symbolic links (ELOOP)",
      explain.command("cannot run 'x'", E.ELOOP, "x"))
    assert.matches("try: ulimit %-u, or the pids.max", explain.command("cannot run 'x'", E.EAGAIN, "x"))
  end)
end)

describe("a session's failure", function()
  it("is returned by run() with operation, cause, remedy and errno", function()
    local k = sim.new()
    for path, text in pairs(files) do k.files[path] = text end
    k.refuse = function() return E.EACCES end
    perfev.hooks.clear()
    perfev.hooks.set(k.hooks)
    local s = perfev.session {}
    s:event { "cpu-clock" }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.EACCES, code)
    assert.matches("^cannot open cpu%-clock on cpu 0: Permission denied %(EACCES%)\n"
      .. "  kernel.perf_event_paranoid is 2; watching a whole CPU needs 0 or CAP_PERFMON\n  try: sudo setcap", why)
    assert.same({}, k:leaks())
  end)
end)

describe("a failure of the core", function()
  -- Adds an event of task 42 on CPU 0, on a kernel changed by prepare, and returns the results
  local function added(prepare)
    local k = sim.new()
    prepare(k)
    perfev.hooks.clear()
    perfev.hooks.set(k.hooks)
    local s = assert(core.session { ring_bytes = 4096 })
    local attr = core.attr_new { type = 1, config = 9 }
    local result = table.pack(s:add { attr = attr, name = "dummy", pids = { 42 }, cpus = { 0 }, callbacks = {} })
    s:close()
    return result
  end

  it("has the operation, the task and the CPU as fields behind its errno", function()
    local result = added(function(k) k.refuse = function() return E.EACCES end end)
    assert.equal(E.EACCES, result[3])
    assert.same({ operation = "open event", errno = E.EACCES, pid = 42, cpu = 0, bytes = 0 }, result[4])
  end)

  it("has the bytes of the ring that could not be mapped", function()
    local result = added(function(k) k:fail("mmap", 1, E.ENOMEM) end)
    assert.equal(E.ENOMEM, result[3], result[2])
    assert.same({ operation = "map ring", errno = E.ENOMEM, pid = -1, cpu = 0, bytes = 4096 }, result[4])
  end)

  it("has no fields if no cause is looked for", function()
    local result = table.pack(core.slurp("/nowhere"))
    assert.equal(3, result.n)
  end)

  it("of an attr has the cause and the remedy as fields", function()
    local attr = core.attr_new { type = 1, sample_type = { "stack_user" }, sample_stack_user = 9 }
    local _, text, _, failed = attr:validate()
    assert.same({ cause = "sample_stack_user = 9: must be a multiple of 8", remedy = "take 16" }, failed)
    assert.equal(failed.cause .. "; " .. failed.remedy, text)
  end)

  it("is explained by its fields, not by its text", function()
    local misleading = "cannot map an AUX area for pid 70 on cpu 9"
    files["/proc/70/stat"] = "70 (x) Z 1"
    assert.equal(misleading .. ": No such process (ESRCH)\n  process or thread 5 does not exist (any more)\n"
      .. "  try: ps -eL",
      explain.refusal(misleading, E.ESRCH, { operation = "open event", pid = 5, cpu = -1, bytes = 0 }, { pid = 6 }))
    assert.matches("\n  it belongs to a file", explain.refusal(misleading, E.EPERM, { operation = "watch descriptor" }))
  end)
end)

describe("a default that perfev changes", function()
  -- Open a clock on that kernel -> the log's messages, and the attr
  local function opened(opts, change)
    local k, said, attr = sim.new { world = "vm", cpus = "0" }, {}, nil
    if change then change(k) end
    perfev.hooks.clear()
    k:with(function()
      opts.tid, opts.log = 42, function(level, text)
        if level < 2 then said[#said + 1] = { level, text } end
      end
      local s = perfev.session(opts)
      local e = s:event { "cpu-clock", sample = function() end }
      assert.is_true(s:start())
      attr = e.attr
      s:close()
    end)
    return said, attr
  end

  it("is the frequency, if the kernel has lowered its limit, reported at -v", function()
    local said, attr = opened({}, function(k)
      k.files["/proc/sys/kernel/perf_event_max_sample_rate"] = "1500\n"
    end)
    assert.equal(1500, attr.sample_freq)
    assert.same({ { 1, "cpu-clock: 1500 Hz instead of perfev's default, which exceeds "
      .. "kernel.perf_event_max_sample_rate" } }, said)
    assert.same({}, (opened {}))
  end)

  it("is the ring's size, if memory may not be locked; at -v unless it was requested", function()
    local function scarce(k) k.mlock = 256 * 1024 end
    local said = opened({ buffer = "8M" }, scarce)
    assert.equal(0, said[1][1])
    assert.equal("ring on cpu 0: 256 KiB instead of 8192 KiB, as much as kernel.perf_event_mlock_kb allows (516), "
      .. "ulimit -l (8192 KiB) and no CAP_IPC_LOCK; try: sudo sysctl kernel.perf_event_mlock_kb=8196", said[1][2])
    said = opened({}, scarce)
    assert.equal(1, said[1][1])
    assert.matches("^ring on cpu 0: 256 KiB instead of 2048 KiB", said[1][2])
  end)
end)
