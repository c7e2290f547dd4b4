-- A command: held until all events are armed, released, and its exit status passed on.

local perfev = require "perfev"
local sim = require "perfev.sim"
local run = require "spec.support.run"

local E = perfev.errno
local MS = 1000000

local k
before_each(function()
  k = sim.new()
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

local function new(opts)
  opts.command = opts.command or { "prog", "a b", "" }
  local s = perfev.session(opts)
  s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = function() end }
  return s
end

-- End the one child with that status after so long.
local function ends(ms, status)
  k:after(ms * MS, function()
    for pid in pairs(k.children) do k:end_child(pid, status) end
  end)
end

local function place_of(pattern)
  for i, line in ipairs(k.log) do
    if line:find(pattern) then return i end
  end
end

describe("a command", function()
  it("is spawned with its arguments, and released only when all events are armed", function()
    local argv
    k.exec = function(words) argv = words end
    ends(50, 0)
    local s = new {}
    assert(s:run())
    assert.same({ "prog", "a b", "" }, argv)
    assert.is_true(place_of "^spawn" < place_of "^perf_event_open")
    assert.is_true(place_of "^timerfd" < place_of "^release")
    assert.same({ exit = 0 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  it("beside -p PID ends the run, and is not watched itself", function()
    ends(50, 3 << 8)
    local s = new { tid = 77 }
    local c = s:counter { "page-faults" }
    assert(s:run())
    assert.equal("page-faults", c.list[1].name)
    assert.is_true(#k.events > 1)
    for _, event in ipairs(k.events) do assert.equal(77, event.pid) end
    assert.same({ exit = 3 }, s.command_status)
  end)

  it("is watched from its exec on, with all its children", function()
    ends(50, 0)
    local s = new {}
    assert(s:run())
    for _, event in ipairs(k.events) do
      assert.equal(5001, event.pid)
      assert.is_true(event.attr.enable_on_exec and event.attr.inherit)
    end
    assert.is_nil(place_of "ENABLE")
  end)

  it("is only one of all tasks if the whole machine is watched", function()
    ends(50, 0)
    local s = new { all_cpus = true }
    assert(s:run())
    assert.equal(-1, k.events[1].pid)
    assert.is_false(k.events[1].attr.enable_on_exec)
    assert.is_true(place_of "ENABLE" < place_of "^release")
  end)

  for name, case in pairs {
    ["exits with 0"] = { 0, { exit = 0 } }, ["exits with 3"] = { 3 << 8, { exit = 3 } },
    ["is killed"] = { 9, { signal = 9 } }, ["dumps core"] = { 11 | 0x80, { signal = 11 } },
  } do
    it("that " .. name .. " ends the run, with its status in command_status", function()
      ends(123, case[1])
      local s = new {}
      local start = k.now
      assert(s:run())
      assert.same(case[2], s.command_status)
      assert.equal(123 * MS, k.now - start)
      assert.same({}, k:leaks())
    end)
  end

  it("with a status that another caller has reaped has an empty command_status", function()
    k.hooks.wait = function() return nil, E.ECHILD end
    ends(123, 3 << 8)
    local s = new {}
    assert(s:run())
    assert.same({}, s.command_status)
  end)

  it("that ends is noticed at the next tick on kernels without pidfd", function()
    k:fail("pidfd_open", 1, E.ENOSYS)
    ends(123, 0)
    local s = new { all_cpus = true }
    local start = k.now
    assert(s:run())
    assert.equal(200 * MS, k.now - start)
    assert.same({ exit = 0 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  for errno, case in pairs {
    ENOENT = { 127, "cannot run 'prog': No such file or directory %(ENOENT%)\n  try: " },
    EACCES = { 126, "cannot run 'prog': Permission denied %(EACCES%)\n  try: " },
    ENOEXEC = { 126, "cannot run 'prog': Exec format error %(ENOEXEC%)\n  try: " },
    ELOOP = { 126, "cannot run 'prog'" },
  } do
    it(("with %s at its exec has status %d, and nothing leaks"):format(errno, case[1]), function()
      k.exec = function() return E[errno] end
      local s = new {}
      local ok, why, code = s:run()
      assert.is_nil(ok)
      assert.equal(E[errno], code)
      assert.matches("^" .. case[2], why)
      assert.same({ exit = case[1] }, s.command_status)
      assert.same({}, k:leaks())
    end)
  end

  it("that dies before its exec is reported as such", function()
    local s = new {}
    s:begin(function() k:end_child(5001, 9) end)
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("'prog' ended before it could be started", why)
    assert.same({}, k:leaks())
  end)

  it("that cannot be spawned fails the start", function()
    k:fail("spawn", 1, E.EAGAIN)
    local ok, why, code = new({}):run()
    assert.is_nil(ok)
    assert.equal(E.EAGAIN, code)
    assert.matches("^cannot run 'prog': Resource temporarily unavailable", why)
    assert.same({}, k:leaks())
  end)

  it("that outlives the run gets SIGTERM, and SIGKILL if it ignores that", function()
    for _, stubborn in ipairs { false, true } do
      k = sim.new { stubborn = stubborn }
      perfev.hooks.clear()
      perfev.hooks.set(k.hooks)
      local s = new { duration = "100ms" }
      assert(s:run())
      assert.equal(stubborn and 9 or 15, s.command_status.signal)
      assert.is_not_nil(place_of "^kill%(5001, 15%)")
      assert.equal(stubborn, place_of "^kill%(5001, 9%)" ~= nil)
      assert.same({}, k:leaks())
    end
  end)

  it("gets time to end, even if timers and signals are ready meanwhile", function()
    k = sim.new { stubborn = true }
    perfev.hooks.set(k.hooks)
    local s = new { duration = "100ms" }
    s:every("1ms", function() end)
    s:signal("USR1", function() end)
    ends(400, 0)
    k:after(110 * MS, function() k:signal(10) end)
    assert(s:run())
    assert.same({ exit = 0 }, s.command_status)
    assert.is_nil(place_of "^kill%(5001, 9%)")
    assert.same({}, k:leaks())
  end)

  it("that was never released is killed at once, without SIGTERM", function()
    k:fail("perf_event_open", 1, E.EMFILE)
    local s = new {}
    assert.is_nil(s:run())
    assert.is_nil(place_of "^kill%(5001, 15%)")
    assert.is_not_nil(place_of "^kill%(5001, 9%)")
    assert.is_nil(place_of "^epoll_wait")
    assert.same({}, k:leaks())
  end)

  it("is released if its session is dropped", function()
    do
      local s = new {}
      k:fail("release", 1, E.EIO)
      s:start()
      s = new {}
      assert(s:start())
    end
    collectgarbage()
    collectgarbage()
    assert.same({}, k:leaks())
  end)

  it("has all its records delivered after it has ended", function()
    local n = 0
    local s = perfev.session { command = { "x" } }
    s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = function() n = n + 1 end }
    k:after(10 * MS, function()
      for _ = 1, 77 do k:emit(k.events[1], "sample") end
      k:end_child(5001, 0)
    end)
    assert(s:run())
    assert.equal(77, n)
  end)
end)

-- On Linux; the events are simulated, the child is real.
describe("a real command", function()
  local dir
  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)

  local function file(name, text, mode)
    local path = dir .. "/" .. name
    run.write_file(path, text)
    os.execute("chmod " .. mode .. " " .. run.quote(path))
    return path
  end

  local function real(argv)
    for _, name in ipairs { "spawn", "release", "wait", "kill" } do k.hooks[name] = nil end
    k.hooks.strict = false
    k.hooks.pidfd_open = function() return nil, E.ENOSYS end
    local wait = k.hooks.epoll_wait
    k.hooks.epoll_wait = function(...)
      os.execute("sleep 0.01")
      return wait(...)
    end
    local s = perfev.session { command = argv, duration = "100s" }
    s:event { type = 1, config = 0, comm = true, task = true }
    local ok, why, code = s:run()
    return s.command_status, ok, why, code
  end

  it("passes on its exit status", function()
    assert.same({ exit = 0 }, (real { "true" }))
    assert.same({ exit = 7 }, (real { "sh", "-c", "exit 7" }))
    assert.same({ signal = 15 }, (real { "sh", "-c", "kill $$" }))
  end)

  it("passes on its status to perfl, even if SIGCHLD is ignored", function()
    if not run.have "perl" then pending "perl is not installed" end
    local r = run { "perl", "-e", "$SIG{CHLD} = 'IGNORE'; exec @ARGV",
      run.perfl, "-q", "-e", "event { switch = print }", "--", "sh", "-c", "exit 7" }
    if r.err:find "EACCES" or r.err:find "ENOSYS" then pending("no perf events here: " .. r.err) end
    assert.equal("", r.err)
    assert.equal(7, r.code)
  end)

  it("that cannot be run gives the shell's exit code and the cause", function()
    local cases = {
      { "not found", "nosuchprogram", 127, "ENOENT" },
      { "not found at a path", dir .. "/nothing", 127, "ENOENT" },
      { "in a directory that is not there", "/nowhere/at/all", 127, "ENOENT" },
      { "not executable", file("plain", "x", 644), 126, "EACCES" },
      { "a directory", dir, 126, "EACCES" },
      { "below a file", dir .. "/plain/x", 126, "ENOTDIR" },
      { "an interpreter that is not there", file("bad", "#!/no/such/interpreter\n", 755), 127, "ENOENT" },
    }
    for _, case in ipairs(cases) do
      local status, ok, why, code = real { case[2] }
      assert.is_nil(ok, case[1])
      assert.equal(case[3], status.exit, case[1])
      assert.equal(E[case[4]], code, case[1])
      assert.is_not_nil(why:find("cannot run '" .. case[2] .. "': ", 1, true), case[1])
    end
  end)

  it("can be a script without #!, as in the shell", function()
    assert.same({ exit = 5 }, (real { file("script", "exit 5\n", 755) }))
  end)

  it("that is removed before its release is reported as not found", function()
    local path = file("vanishing", "#!/bin/sh\n", 755)
    for _, name in ipairs { "spawn", "release", "wait", "kill" } do k.hooks[name] = nil end
    k.hooks.strict = false
    k.hooks.pidfd_open = function() return nil, E.ENOSYS end
    local s = perfev.session { command = { path } }
    s:event { type = 1, config = 0, comm = true, task = true }
    s:begin(function() os.remove(path) end)
    local ok, _, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.same({ exit = 127 }, s.command_status)
  end)

  it("gets its arguments unchanged, and no descriptor of perfev", function()
    local out = dir .. "/out"
    -- As many as a program started otherwise has: the inherited ones.
    assert(os.execute(("ls /proc/self/fd | wc -l > %s"):format(run.quote(out))))
    local inherited = run.slurp(out)
    local script = 'printf "%s|" "$@" > "$0"; ls /proc/self/fd | wc -l >> "$0"'
    local status = real { "sh", "-c", script, out, "a b", "", "'\"\n" }
    assert.same({ exit = 0 }, status)
    local text = run.slurp(out)
    assert.equal("a b||'\"\n|", text:sub(1, 9))
    assert.equal(inherited, text:sub(10))
  end)

  it("is released alone if another one is held", function()
    -- The second child is a fork and has a copy of the first one's gate. Runs in a separate process, because it once
    -- failed by waiting for ever.
    local text = [[
      package.path, package.cpath = ...
      local core = require "perfev.core"
      local first, second = core.spawn { "true" }, core.spawn { "true" }
      first:close()
      second:close()
      print "both"
    ]]
    local got = run({ "lua5.4", "-e", text:gsub("%.%.%.", ("%q, %q"):format(package.path, package.cpath)) })
    assert.is_nil(got.timed_out or nil)
    assert.equal("both\n", got.out)
  end)
end)
