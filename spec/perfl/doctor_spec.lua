-- perfl doctor: the rights of this user, found by trying, on one screen.

local perfev = require "perfev"
local explain = require "perfev.event.explain_refusal"
local sim = require "perfev.sim"

local E = perfev.errno

local function look(world, change)
  local k = sim.new(type(world) == "table" and world or { world = world })
  if change then change(k) end
  local found = k:with(perfev.doctor)
  assert.same({}, k:leaks())
  return found, k
end

local function right(found, name)
  for _, one in ipairs(found.rights) do
    if one.name:find(name, 1, true) then return one end
  end
end

local function check(found, name)
  for _, one in ipairs(found.checks) do
    if one.name == name then return one end
  end
end

describe("the doctor", function()
  it("finds by opening events the rights of an ordinary user, with the cause of each refusal", function()
    local found = look("unprivileged", function(k)
      k.files["/proc/1/status"] = "Name:\tinit\nUid:\t0\t0\t0\t0\n"
      k.files["/proc/mounts"] = "tracefs /sys/kernel/tracing tracefs rw 0 0\n"
    end)
    assert.equal(2, found.kernel.paranoid)
    assert.equal(1001, found.user.uid)
    assert.is_true(right(found, "user side").you)
    assert.same({ false, "paranoid 2, needs 1", explain.more_rights() },
      { right(found, "kernel side").you, right(found, "kernel side").why, right(found, "kernel side").fix })
    assert.same({ false, "theirs; needs CAP_PERFMON" },
      { right(found, "other users").you, right(found, "other users").why })
    assert.same({ false, "paranoid 2, needs 0" }, { right(found, "whole CPUs").you, right(found, "whole CPUs").why })
    assert.same({ false, "tracefs is for root alone" },
      { right(found, "tracepoints").you, right(found, "tracepoints").why })
    assert.is_true(found.default_job.ok)
  end)

  it("shows the rights of root and of CAP_PERFMON alone", function()
    local found = look "unprivileged"
    for _, one in ipairs(found.rights) do
      if one.name ~= "uprobes" then assert.is_true(one.root, one.name) end
    end
    assert.is_true(right(found, "whole CPUs").perfmon)
    for _, name in ipairs { "tracepoints", "uprobes", "kernel breakpoints" } do
      assert.is_false(right(found, name).perfmon, name)
    end
    found = look("vm", function(k)
      k.files["/proc/mounts"] = "tracefs /sys/kernel/tracing tracefs rw,mode=755 0 0\n"
    end)
    assert.is_true(right(found, "tracepoints").perfmon)
  end)

  it("reports that tracefs is closed if its directories are readable and its files are not", function()
    local id = "/sys/kernel/tracing/events/sched/sched_switch/id"
    local found = look("vm", function(k) k.files[id] = E.EACCES end)
    assert.same({ false, "sudo mount -o remount,gid=GID,mode=750 /sys/kernel/tracing" },
      { check(found, "tracefs").ok, check(found, "tracefs").fix })
    local k = sim.new { world = "vm" }
    k.files[id] = E.EACCES
    k:with(function()
      local s <close> = perfev.session { command = { "x" } }
      s:event { "sched:sched_switch", sample = print }
      assert.matches("events cannot be read by this user\n  try: as root; or mount -o remount,gid=GROUP,mode=0750 ",
        select(2, s:start()), nil, true)
    end)
  end)

  it("tries a breakpoint on the kernel's memory on a CPU if a task cannot have one", function()
    local k
    local found = look("vm", function(kernel)
      k = kernel
      k.refuse = function(attr, pid) return attr.type == 5 and pid ~= -1 and E.EINVAL or nil end -- arm64
    end)
    assert.is_true(right(found, "kernel breakpoints").you)
    k.refuse = function(attr) return attr.type == 5 and E.EINVAL or nil end
    assert.is_false(right(k:with(perfev.doctor), "kernel breakpoints").you)
  end)

  it("reports a default job that cannot run, the cause and the remedy", function()
    local found = look "locked_down"
    assert.is_false(found.default_job.ok)
    assert.equal(E.EACCES, found.default_job.errno)
    assert.matches("kernel.perf_event_paranoid is 4", found.default_job.why)
    assert.equal(explain.more_rights(), found.default_job.fix)
    assert.equal("paranoid 4 refuses all", right(found, "user side").why)
  end)

  it("distinguishes a seccomp filter from missing rights", function()
    local found = look("vm", function(k)
      k.files["/proc/self/status"] = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n"
      k.refuse = function() return E.EPERM end
    end)
    assert.is_true(found.user.seccomp)
    assert.equal("a seccomp filter", right(found, "user side").why)
    assert.equal("allow perf_event_open in the container's seccomp profile", right(found, "whole CPUs").fix)
    assert.is_false(found.default_job.ok)
  end)

  it("lists the abilities of the machine and a remedy for each missing one", function()
    local found = look "vm"
    assert.same({ false, "none: the VM's host gives it no PMU", "the event cpu-clock" },
      { check(found, "counters").ok, check(found, "counters").text, check(found, "counters").fix })
    assert.is_true(check(found, "tracefs").ok)
    assert.is_true(check(look "intel_hybrid", "counters").ok)
    found = look("vm", function(k)
      for path in pairs(k.files) do
        if path:find("/tracing/", 1, true) then k.files[path] = nil end
      end
    end)
    assert.same({ "not mounted", "sudo mount -t tracefs nodev /sys/kernel/tracing" },
      { check(found, "tracefs").text, check(found, "tracefs").fix })
    found = look "unprivileged"
    assert.matches("^sudo mount %-o remount", check(found, "tracefs").fix)
  end)

  it("compares the limits with the needs of an ordinary run", function()
    local function set(path, text)
      return function(k)
        k.files[path] = text
        k.files["/proc/self/status"] = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\nSeccomp:\t0\n"
      end
    end
    local limits = "/proc/self/limits"
    local found = look("vm", set(limits, "Max open files 50 70 files\nMax locked memory 65536 65536 bytes\n"))
    assert.same({ false, "70 (soft 50); 8 events need 80" }, { check(found, "open files").ok,
      check(found, "open files").text })
    assert.same({ false, "1096 KiB may be locked; 2M a CPU need 4104" },
      { check(found, "ring memory").ok, check(found, "ring memory").text })
    assert.equal("sudo sysctl kernel.perf_event_mlock_kb=2052", check(found, "ring memory").fix)
    found = look("vm", set("/proc/sys/kernel/perf_event_max_sample_rate", "1000\n"))
    assert.equal("sudo sysctl kernel.perf_event_max_sample_rate=100000", check(found, "sample rate").fix)
    found = look("vm", set("/proc/sys/kernel/perf_event_max_stack", "16\n"))
    assert.equal("sudo sysctl kernel.perf_event_max_stack=127", check(found, "stack depth").fix)
  end)

  it("checks whether the kernel shows its symbols", function()
    local function kallsyms(text, level, world)
      return check(look(world or "vm", function(k)
        k.files["/proc/kallsyms"] = text
        k.files["/proc/sys/kernel/kptr_restrict"] = level
      end), "kernel symbols")
    end
    assert.is_true(kallsyms("0000000000000000 A fixed\nffffffff81000000 T _text\n", "0\n").ok)
    assert.equal("sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
      kallsyms("0000000000000000 T _text\n", "1\n").fix)
    assert.equal("sudo sysctl kernel.perf_event_paranoid=1", kallsyms("0000000000000000 T _text\n", "0\n").fix)
    -- Root sees them unless that is 2; others only where perf_event_paranoid allows it, too.
    assert.equal("sudo sysctl kernel.kptr_restrict=1", kallsyms("0000000000000000 T _text\n", "2\n").fix)
    assert.equal("sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
      kallsyms("0000000000000000 T _text\n", "1\n", "unprivileged").fix)
  end)

  it("fits on a screen of 24 lines of 80 columns in every simulated world", function()
    for _, world in ipairs(sim.worlds) do
      local lines, write = {}, io.write
      local k = sim.new { world = world }
      local verb = require "perfl.verb.doctor"
      io.write = function(...) lines[#lines + 1] = table.concat { ... } end -- luacheck: ignore 122
      local ok, status = pcall(k.with, k, verb.main, {})
      io.write = write -- luacheck: ignore 122
      assert.is_true(ok, status)
      assert.equal(world == "locked_down" and 1 or 0, status)
      local text, count = table.concat(lines), 0
      for line in text:gmatch "[^\n]+" do
        count = count + 1
        assert.is_true(utf8.len(line) <= 80, line)
      end
      assert.is_true(count <= 23, world .. ": " .. count .. " lines") -- the prompt has one
      for mark in (text:gsub("\n  fix: ", " fix: ")):gmatch "\n✘ [^\n]*" do assert.matches("fix: ", mark) end
    end
  end)
end)

describe("JSON", function()
  local json = require "perfev.base.json"

  it("is written with sorted keys, on one line, and valid for every byte", function()
    assert.equal('{"a":[1,2.5,"x\\n"],"b":{"c":null},"d":[]}',
      (json.encode { a = { 1, 2.5, "x\n" }, b = setmetatable({ c = 0 / 0 }, nil), d = {} }))
    assert.equal('"\\u0001\\"\\\\\\u00ff"', json.encode '\1"\\\255')
    assert.equal('"é"', json.encode "é")
    assert.equal("[null,1]", json.encode { json.null, 1 })
    assert.error_matches(function() json.encode(print) end, "json: cannot encode a function")
  end)

  it("keeps the values of numeric keys, and prints an empty object as {}", function()
    assert.equal('{"2":3,"a":1}', json.encode { a = 1, [2] = 3 })
    assert.equal("[{},[]]", json.encode { json.object {}, {} })
  end)
end)
