-- Probes and breakpoints on the real kernel: a program that calls a function a known number of times with known
-- arguments, and perfev sees each call, in a running process and in a command. Needs root and tracefs.

local core = require "perfev.core"
local perfev = require "perfev"
local probe_events = require "perfev.probe.tracefs_probes"
local run = require "spec.support.run"

local E = perfev.errno
local TIMES = 1000
local DEFINED = "/sys/kernel/tracing/uprobe_events"
local FOREIGN = ("pevspec_%d/foreign"):format(core.pid())

local cc = os.getenv "CC" or "gcc"
local why_not = not run.root and "not root"
  or not core.slurp "/sys/bus/event_source/devices/uprobe/type" and "no uprobe PMU in this kernel"
  or not core.slurp(DEFINED) and "no tracefs with uprobe_events"
  or not run.have(cc) and "no C compiler"

local dir, prog, static, sparse

local function build(name, ...)
  local path = dir .. "/" .. name
  local r = run { cc, "-O1", "-g", "-o", path, "spec/support/probed.c", ... }
  return r.code == 0 and path, r.err
end

setup(function()
  if why_not then return end
  dir = run.tempdir()
  prog = assert(build "probed")
  static = build("static", "-no-pie", "-fno-pie")
  sparse = build("sparse", "-Wl,-z,noseparate-code")
end)
teardown(function() if dir then run.remove(dir) end end)

local function on(what, test)
  it(what, function()
    if why_not then return pending(why_not) end
    return test()
  end)
end

-- The probes that perfev defined; the list must be empty at the end.
local function ours()
  local list = {}
  for line in core.slurp(DEFINED):gmatch("[^\n]+") do
    if line:find("perfev_" .. core.pid() .. "_", 1, true) then list[#list + 1] = line end
  end
  return list
end

-- Returns the defined probes, without those of another running perfl and without other tools' names.
local function defined()
  local list = {}
  for line in core.slurp(DEFINED):gmatch("[^\n]+") do
    local pid = line:match "^%a:perfev_(%d+)_"
    local lives = pid and pid ~= tostring(core.pid()) and core.slurp("/proc/" .. pid .. "/stat")
    if pid and not lives or line:find(":" .. FOREIGN .. " ", 1, true) then list[#list + 1] = line end
  end
  return list
end

-- Starts a process that waits for "go" -> pid, function that starts it, function that returns its output
local function waiting(program, times)
  local fifo, out = os.tmpname(), os.tmpname()
  assert(os.execute(("rm -f %s && mkfifo %s"):format(fifo, fifo)))
  -- Opened for reading and writing, so that open() does not wait for the other end.
  local pid = assert(run.capture(("%s %d wait <>%s >%s & echo $!"):format(program, times or TIMES, fifo, out)))
  assert(run.capture(("until [ -s %s ]; do sleep 0.01; done; kill -0 %s && echo there"):format(out, pid)))
  return math.tointeger(tonumber(pid)), function()
    local file = assert(io.open(fifo, "r+"))
    file:write("go\n")
    file:close()
    os.remove(fifo)
  end, function()
    local file <close> = assert(io.open(out))
    os.remove(out)
    return file:read "a"
  end
end

-- Run with these events, once on a process that runs and once on a command -> f(how) each time
local function both(program, declare, check)
  local s = perfev.session { command = { program, tostring(TIMES) } }
  local seen = declare(s)
  assert(s:run())
  check(seen, "a command")
  local pid, go = waiting(program)
  s = perfev.session { pid = pid }
  seen = declare(s)
  assert(s:start())
  go()
  assert(s:run())
  check(seen, "a process")
  assert.same({}, ours())
end

describe("a uprobe", function()
  local function declare(args, has_text)
    return function(s)
      local seen = { n = 0, right = 0 }
      s:event { "uprobe:" .. prog .. ":work", args = args, sample = function(_, a)
        local i = seen.n
        seen.n = i + 1
        local is_right = a.n == i and (not has_text or a.text == "text-" .. i) and a.more == -3 * i
        seen.right = seen.right + (is_right and 1 or 0)
      end }
      return seen
    end
  end

  local function check(seen, how)
    assert.equal(TIMES, seen.n, how)
    assert.equal(TIMES, seen.right, how)
  end

  on("passes int, string and long arguments correctly in 1,000 of 1,000 calls", function()
    both(prog, declare({ "n:int", "text:string", "more:long" }, true), check)
  end)

  on("passes integers by position, in events of the whole machine without a name in tracefs", function()
    local seen
    local s = perfev.session { command = { prog, tostring(TIMES) }, all_cpus = true }
    seen = declare { "n:int", "more=$arg3:long" }(s)
    assert(s:start())
    assert.same({}, ours())
    assert(s:run())
    check(seen, "all CPUs")
  end)

  on("reports calls in a process's children, and does not disturb their forks", function()
    local s = perfev.session { command = { "sh", "-c", ("%s 10; %s 10"):format(prog, prog) } }
    local pids, n = {}, 0
    s:event { "uprobe:" .. prog .. ":work", sample = function(r) n, pids[r.pid] = n + 1, true end }
    assert(s:run())
    assert.same({ exit = 0 }, s.command_status)
    assert.equal(20, n)
    local count = 0
    for _ in pairs(pids) do count = count + 1 end
    assert.equal(2, count)
  end)

  on("without inherit needs no name in tracefs", function()
    local s = perfev.session { command = { prog, "50" } }
    local n = 0
    s:event { "uprobe:" .. prog .. ":work", args = { "i:int" }, inherit = false, sample = function(_, a)
      n = n + (a.i == n and 1 or 0)
    end }
    assert(s:start())
    assert.same({}, ours())
    assert(s:run())
    assert.equal(50, n)
  end)

  on("accepts an offset from a symbol or from the start of the file", function()
    local offset = require("perfev.elf").read(core.slurp(prog)):symbol("work").offset
    for _, where in ipairs { "work+0", ("0x%x"):format(offset) } do
      local s = perfev.session { command = { prog, "7" } }
      local n = 0
      s:event { "uprobe:" .. prog .. ":" .. where, sample = function() n = n + 1 end }
      assert(s:run())
      assert.equal(7, n, where)
    end
  end)

  on("passes its arguments beside registers that are sampled to unwind, of a command and of the machine", function()
    for _, is_cpu_wide in ipairs { false, true } do
      local n, right, deep = 0, 0, 0
      -- The stacks take 8 KB each: a ring holds all of them.
      local s = perfev.session { command = { prog, tostring(TIMES) }, all_cpus = is_cpu_wide or nil, buffer = "16M" }
      s:event { "uprobe:" .. prog .. ":work", args = { "n:int", "more=$arg3:long" }, callchain = "dwarf",
        sample = function(r, a)
          right, deep = right + (a.n == n and a.more == -3 * n and 1 or 0), deep + (#r.stack >= 2 and 1 or 0)
          n = n + 1
        end }
      assert(s:run())
      assert.same({ TIMES, TIMES, TIMES }, { n, right, deep })
      assert.same({}, ours())
    end
  end)

  on("has arguments although an optional probe before it is left out, whose number the kernel gives to it", function()
    local seen = {}
    local s = perfev.session { command = { prog, tostring(TIMES) } }
    -- The kernel refuses SAMPLE_REGS_USER without a register.
    local refused = s:event { "uprobe:" .. prog .. ":main", optional = true, sample_type = { "regs_user" },
      sample_regs_user = 0, sample = function() end }
    s:event { "uprobe:" .. prog .. ":work", args = { "n:int" }, fields = { "args.n" },
      sample = function(n) seen[#seen + 1] = n or -1 end }
    assert(s:run())
    assert.matches("sample_regs_user is 0", refused.error)
    assert.same({ TIMES, 0, TIMES - 1 }, { #seen, seen[1], seen[TIMES] })
  end)

  on("finds a shared library by its name", function()
    local s = perfev.session { command = { "sh", "-c", "exec " .. prog .. " 2 wait </dev/null >/dev/null" } }
    local n = 0
    s:event { "uprobe:libc:getpid", sample = function(r) n = n + (r.comm == "probed" and 1 or 0) end }
    assert(s:run())
    assert.equal(1, n) -- which it prints
    assert.same({}, ours())
  end)
end)

describe("a uretprobe", function()
  on("reports the return value in 1,000 of 1,000 calls", function()
    both(prog, function(s)
      local seen = { n = 0, right = 0 }
      s:event { "uretprobe:" .. prog .. ":work", args = { "$retval:s64" }, sample = function(_, a)
        if a.retval == 2 * seen.n - 3 then seen.right = seen.right + 1 end
        seen.n = seen.n + 1
      end }
      return seen
    end, function(seen, how)
      assert.same({ n = TIMES, right = TIMES }, seen, how)
    end)
  end)
end)

describe("a static probe", function()
  local function need_probe()
    if #require("perfev.elf").read(core.slurp(prog)):probes() == 0 then
      pending "the test program has no static probe on this machine"
    end
  end

  local function declare(more)
    return function(s)
      local seen = { n = 0, right = 0 }
      local spec = { "usdt:" .. prog .. ":perfev:step", sample = function(_, a)
        local is_right
        if more.args then
          is_right = a.i == seen.n and a.text == "text-" .. seen.n
        else
          is_right = a.arg1 == seen.n and a.arg2 ~= 0
        end
        seen.right = seen.right + (is_right and 1 or 0)
        seen.n = seen.n + 1
      end }
      for name, value in pairs(more) do spec[name] = value end
      s:event(spec)
      return seen
    end
  end

  local function check(seen, how) assert.same({ n = TIMES, right = TIMES }, seen, how) end

  on("reads its arguments by its ELF note and raises its semaphore, 1,000 of 1,000", function()
    need_probe()
    both(prog, declare { args = { "i:int", "text:string" } }, check)
  end)

  on("reports all arguments by number if args names none", function()
    need_probe()
    both(prog, declare {}, check)
  end)

  on("reads a variable of the program, wherever its segment of data is mapped", function()
    if core.machine ~= "x86_64" then pending "the test program has no such probe for this machine" end
    for _, program in ipairs { prog, static or nil, sparse or nil } do
      local s = perfev.session { command = { program, tostring(TIMES) } }
      local n, right = 0, 0
      s:event { "usdt:" .. program .. ":perfev:count", sample = function(_, a)
        right = right + (a.arg1 == math.max(n - 1, 0) and 1 or 0) -- of the call before
        n = n + 1
      end }
      assert(s:run())
      assert.same({ TIMES, TIMES }, { n, right }, program)
    end
  end)

  on("watches the whole machine without a name in tracefs", function()
    need_probe()
    local s = perfev.session { command = { prog, tostring(TIMES) }, all_cpus = true }
    local seen = declare {}(s)
    assert(s:start())
    assert.same({}, ours())
    assert(s:run())
    check(seen, "all CPUs")
  end)

  on("costs the program nothing after the last session closes", function()
    assert.matches("^%d+\n%-?%d+ 0\n$", run({ prog, "5", "wait" }).out)
  end)
end)

describe("a kprobe", function()
  on("reports the arguments of a system call, and a kretprobe the return value", function()
    if not core.slurp "/sys/bus/event_source/devices/kprobe/type" then
      pending "no kprobe PMU in this kernel (CONFIG_KPROBE_EVENTS)"
    end
    local s = perfev.session { command = { "sh", "-c", ": < " .. prog }, all_cpus = true }
    local names, returned = {}, 0
    s:event { "kprobe:do_sys_openat2", args = { "dfd:int", "name:ustring" }, sample = function(_, a)
      names[a.name] = true
    end }
    s:event { "kretprobe:do_sys_openat2", args = { "$retval:long" }, sample = function(_, a)
      returned = returned + (a.retval >= 0 and 1 or 0)
    end }
    assert(s:run())
    assert.is_true(names[prog])
    assert.is_true(returned > 0)
  end)
end)

describe("a breakpoint by symbol", function()
  local function declare(what, program)
    return function(s)
      local seen = { n = 0, addresses = {} }
      s:event { ("mem:%s:%s"):format(program, what), sample = function(r)
        seen.n = seen.n + 1
        seen.addresses[r.addr] = true
      end }
      return seen
    end
  end

  local function check(seen, how)
    assert.equal(TIMES, seen.n, how)
    local address = next(seen.addresses)
    assert.is_nil((next(seen.addresses, address)))
    assert.equal(0, address % 8)
  end

  on("counts 1,000 of 1,000 writes of a variable of a PIE", function()
    both(prog, declare("counter:w", prog), check)
  end)

  on("counts writes if the linker shares pages between code and data", function()
    if not sparse then pending "the linker has no -z noseparate-code" end
    both(sparse, declare("counter/8:w", sparse), check)
  end)

  on("counts writes in a program loaded at its link address", function()
    if not static then pending "no position-dependent programs here" end
    both(static, declare("counter:w", static), check)
  end)

  on("counts the calls of a function", function()
    both(prog, declare("work:x", prog), function(seen, how) assert.equal(TIMES, seen.n, how) end)
  end)

  on("has a separate address in each process", function()
    local pids, lets_go, addresses = {}, {}, {}
    for i = 1, 2 do pids[i], lets_go[i] = waiting(prog) end
    local s = perfev.session { pid = pids }
    local counts = {}
    s:event { "mem:" .. prog .. ":counter:w", sample = function(r)
      counts[r.pid] = (counts[r.pid] or 0) + 1
      addresses[r.pid] = r.addr
    end }
    assert(s:start())
    for i = 1, 2 do lets_go[i]() end
    assert(s:run())
    assert.same({ [pids[1]] = TIMES, [pids[2]] = TIMES }, counts)
    assert.is_true(addresses[pids[1]] ~= addresses[pids[2]] or not core.slurp("/proc/sys/kernel/randomize_va_space")
      :find "[12]")
  end)

  on("is refused with the cause if the command is another program", function()
    local s = perfev.session { command = { "true" } }
    s:event { "mem:" .. prog .. ":counter:w", sample = function() end }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.matches("has not mapped " .. prog:gsub("%p", "%%%0") .. " yet, when it is started\n  try: ", why)
  end)

  on("is refused for the whole machine, which has no address for it", function()
    local s = perfev.session { cpus = { 0 } }
    s:event { "mem:" .. prog .. ":counter:w", sample = function() end }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.EINVAL, code)
    assert.matches("is loaded at another address in each process\n  try: %-p PID", why)
  end)
end)

describe("an example that counts in C", function()
  local twins = {
    uprobe = [[
      local n, names = {}, {}
      event { "uprobe:libc:getenv", args = { "name:string" }, sample = function(_, args)
        n[args.name] = (n[args.name] or 0) + 1
      end }
      done(function()
        for name in pairs(n) do names[#names + 1] = name end
        table.sort(names)
        for _, name in ipairs(names) do print(n[name], name) end
      end)]],
    uretprobe = [[
      local calls, bytes = 0, 0
      event { "uretprobe:libc:read", args = { "$retval:ssize_t" }, sample = function(_, args)
        calls, bytes = calls + 1, bytes + math.max(args.retval, 0)
      end }
      done(function() print(("%d calls of read() gave %d bytes"):format(calls, bytes)) end)]],
  }

  for name, twin in pairs(twins) do
    on(("prints the same as its twin with callbacks (%s)"):format(name), function()
      local function output_of(...) return run { run.perfl, "-q", ... } end
      local script = ("scripts/examples/%s.lua"):format(name)
      local command = { "--", "head", "-c", "100", "/proc/self/comm" }
      local native = output_of(script, table.unpack(command))
      assert.same(output_of("-e", twin, table.unpack(command)), native)
      assert.matches("%d", native.out)
      assert.is_nil(native.out:find("0 calls", 1, true))
    end)
  end
end)

describe("a probe defined in tracefs", function()
  local script

  setup(function()
    if why_not then return end
    script = dir .. "/probe.lua"
    run.write_file(script, ([[
local perfev = require "perfev"
local n = 0
perfev.event { "uprobe:%s:work", args = { "s:string" }, sample = function()
  n = n + 1
  if perfev_leave then perfev_leave() end
end }
perfev.begin(function() io.stderr:write("armed\n") end)
perfev.done(function() print(n) end)
]]):format(prog))
  end)

  local function foreign(text)
    assert.equal(0, core.append(DEFINED, text .. "\n"))
  end

  local function is_defined(name) return core.slurp(DEFINED):find(name, 1, true) ~= nil end

  on("is removed after each way to end, but a foreign probe is kept", function()
    foreign("p:" .. FOREIGN .. " " .. prog .. ":0x" .. ("%x"):format(
      require("perfev.elf").read(core.slurp(prog)):symbol("work").offset))
    finally(function() core.append(DEFINED, "-:" .. FOREIGN .. "\n") end)
    local before = defined()
    for _, leave in ipairs { "os.exit(0)", "os.exit(0, true)", "error('no')", "perfev.stop()", "" } do
      local chunk = ("perfev_leave = function() %s end dofile(%q)"):format(leave, script)
      local r = run({ run.perfl, "-q", "-e", "local perfev = require 'perfev' " .. chunk, "--", prog, "3" })
      assert.same(before, defined(), leave .. r.err)
    end
    assert.is_true(is_defined(FOREIGN))
  end)

  on("is removed after os.exit in any callback, with the state closed or open", function()
    local before, ended = defined(), 0
    for _, exit in ipairs { "os.exit(5)", "os.exit(5, true)" } do
      for _, place in ipairs {
        "perfev.begin(function() EXIT end)", "perfev.done(function() EXIT end)",
        "perfev.every('1ms', function() EXIT end)", "perfev.event { 'dummy', comm = function() EXIT end }",
        "perfev.event { exit = function() EXIT end }", "perfev.event { fork = function() EXIT end }",
        "perfev.event { switch = function() EXIT end }", "perfev.event { mmap = function() EXIT end }",
        "perfev.event { record = function() EXIT end, comm = true }",
        "local s = perfev.session { command = { 'true' } } s:event { 'uprobe:" .. prog
          .. ":work', args = { 's:string' } } for r in s:records() do EXIT end EXIT",
      } do
        local chunk = "local perfev = require 'perfev' " .. place:gsub("EXIT", exit) .. (" dofile(%q)"):format(script)
        -- The command would run for long, except where the script waits for its end.
        local work = prog .. " 3; " .. prog .. " 3" .. (place:find "perfev%.done" and "" or "; exec sleep 600")
        local r = run({ run.perfl, "-q", "-e", chunk, "--", "sh", "-c", work })
        ended = ended + (r.code == 5 and 1 or 0)
        assert.same(before, defined(), place .. exit .. r.err)
      end
    end
    assert.equal(20, ended)
  end)

  on("is removed by the next run after kill -9, but a foreign probe is kept", function()
    foreign("p:" .. FOREIGN .. " " .. prog .. ":0x" .. ("%x"):format(
      require("perfev.elf").read(core.slurp(prog)):symbol("work").offset))
    finally(function() core.append(DEFINED, "-:" .. FOREIGN .. "\n") end)
    local before = defined()
    local said = os.tmpname()
    local pid = assert(run.capture(("%s -q %s -- sleep 60 2>%s >/dev/null & echo $!"):format(run.perfl, script, said)))
    assert(run.capture(("until [ -s %s ]; do sleep 0.01; done; echo"):format(said)))
    os.remove(said)
    assert.is_true(is_defined("perfev_" .. pid .. "_1/work"))
    -- While the process lives, no other process removes its probe.
    assert.equal(0, run({ run.perfl, "cleanup" }).code)
    assert.is_true(is_defined("perfev_" .. pid .. "_1/work"))
    local child = run.slurp(("/proc/%s/task/%s/children"):format(pid, pid))
    os.execute(("kill -9 %s %s; while kill -0 %s 2>/dev/null; do sleep 0.01; done"):format(pid, child, pid))
    assert.is_true(is_defined("perfev_" .. pid .. "_1/work"))
    local r = run({ run.perfl, "-q", "-e", "require'perfev'.event { 'dummy', comm = print }", "--", "true" })
    assert.equal(0, r.code, r.err)
    assert.same(before, defined())
  end)

  on("is removed by perfl cleanup, with a message", function()
    foreign("p:perfev_4194304_1/left " .. prog .. ":0x1000") -- above any pid_max
    local r = run({ run.perfl, "cleanup" })
    assert.equal(0, r.code, r.err)
    assert.matches("removed uprobe perfev_4194304_1/left\n", r.out)
    assert.is_false(is_defined "perfev_4194304_1/left")
    assert.same({}, probe_events.sweep().removed)
    -- The list is empty, or has probes that other running processes use.
    local rest = run({ run.perfl, "cleanup" }).out:gsub("kept %l+ perfev_%d+_%d+/%S+: it is in use\n", "")
    assert.is_true(rest == "nothing to remove\n" or rest == "", rest)
    assert.matches("^Usage: perfl cleanup\n", run({ run.perfl, "cleanup", "--help" }).out)
    r = run { run.perfl, "cleanup", "all" }
    assert.equal(2, r.code)
    assert.matches("cleanup: unexpected argument 'all'\n  try: perfl cleanup %-%-help", r.err)
  end)

  on("is written by appending: tracefs files are never truncated or created", function()
    if not run.have "strace" then pending "no strace(1)" end
    if run.sanitized then pending "strace and LeakSanitizer do not go together" end
    local log = dir .. "/strace"
    local r = run { "strace", "-e", "trace=open,openat,write", "-o", log, run.perfl, "-q", script, "--", prog, "3" }
    if r.err:find "ptrace" then pending("strace may not trace here: " .. r.err) end
    assert.equal("3\n", r.out)
    local opened = 0
    for line in io.lines(log) do
      if line:find("uprobe_events", 1, true) and line:find("O_WRONLY", 1, true) then
        opened = opened + 1
        assert.matches("O_WRONLY|O_APPEND|O_CLOEXEC%)", line)
      end
    end
    assert.equal(2, opened) -- the definition and its removal
  end)
end)
