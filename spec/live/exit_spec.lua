-- os.exit() in a callback of a run on the real kernel: with the state closed every event is closed and every ring
-- unmapped, as strace sees it; without, the process's end does that; and in both the command is gone.

local run = require "spec.support.run"

local dir = run.tempdir()
teardown(function() run.remove(dir) end)

local script = dir .. "/script.lua"
run.write_file(script, [[
local perfev = require "perfev"
local where, close = ...
local function leave(r)
  if where ~= "signal" and r then io.write("pid ", r.pid, "\n") end
  io.write("left\n")
  if close == "true" then os.exit(true, true) end
  os.exit(7)
end
if where == "begin" then
  perfev.begin(leave)
  perfev.event { "dummy", comm = true }
elseif where == "done" then
  perfev.done(leave)
  perfev.event { "dummy", exit = function() perfev.stop() end }
elseif where == "every" then
  perfev.every("5ms", leave)
  perfev.event { "dummy", comm = true }
elseif where == "signal" then
  perfev.signal("USR1", leave)
  perfev.event { "dummy", comm = true }
else
  perfev.event { "page-faults", period = 1, exclude_kernel = true, [where] = leave }
end
]])

-- It does something of each kind, and would go on for long.
local function command_for(where)
  local signal = where == "signal" and "kill -USR1 $PPID; " or ""
  return { "sh", "-c", "echo pid $$; true & wait; " .. signal .. "exec sleep 600" }
end

local function perfl(where, close, trace)
  local words = { run.perfl, "-q", "-m", "64K", script, where, tostring(close), "--" }
  table.move(command_for(where), 1, 3, #words + 1, words)
  if trace then
    local strace = { "strace", "-o", trace, "-e", "trace=perf_event_open,mmap,munmap,close" }
    words = table.move(words, 1, #words, #strace + 1, strace)
  end
  return run(words)
end

-- The perf descriptors and mappings that the traced process did not close.
local function left_open(trace)
  local open, mapped = {}, {}
  for line in io.lines(trace) do
    local opened = line:match "^perf_event_open.* = (%d+)$"
    local ring, addr = line:match "^mmap%(NULL, %d+, %S+, MAP_SHARED, (%d+), 0%) += (0x%x+)"
    local closed = line:match "^close%((%d+)%)"
    local unmapped = line:match "^munmap%((0x%x+),"
    if opened then open[opened] = true end
    if ring and open[ring] then mapped[addr] = true end
    if closed then open[closed] = nil end
    if unmapped then mapped[unmapped] = nil end
  end
  return { next(open), next(mapped) }
end

local function has_ended(pid)
  return run(("while kill -0 %s 2>/dev/null; do sleep 0.01; done"):format(pid)).code == 0
end

describe("os.exit in a callback, live,", function()
  for _, where in ipairs { "sample", "comm", "fork", "exit", "mmap", "record", "begin", "done", "every", "signal" } do
    it(("of %s leaves nothing behind"):format(where), function()
      for close, status in pairs { [false] = 7, [true] = 0 } do
        local trace = close and run.have "strace" and not run.sanitized and dir .. "/trace" or nil
        local r = perfl(where, close, trace)
        if trace and r.err:find "ptrace" then pending("strace may not trace here") end
        assert.equal(status, r.code, r.err)
        assert.truthy(r.out:find "left\n")
        if where ~= "begin" and where ~= "every" then assert.truthy(r.out:find "pid %d+") end
        local pid = r.out:match "pid (%d+)"
        if pid then assert.is_true(has_ended(pid)) end
        if trace then assert.same({}, left_open(trace)) end
      end
    end)
  end

  local STUBBORN = { "sh", "-c", "trap '' TERM; exec sleep 600" }
  local LEAVE = [[
    local close = ...
    event { "dummy", comm = function(r)
      if r.comm ~= "sleep" then return end
      print("pid " .. r.pid)
      io.flush()
      os.exit(7, close == "true")
    end }]]

  local function assert_gone(r)
    assert.equal(7, r.code, r.err)
    assert.is_nil(run.slurp(("/proc/%d/status"):format(r.out:match "pid (%d+)")))
  end

  it("ends a command that ignores SIGTERM, and finishes the recording", function()
    for _, close in ipairs { "false", "true" } do
      local data = ("%s/%s.data"):format(dir, close)
      assert_gone(run { run.perfl, "-q", "--record", data, "-e", LEAVE, close, "--", table.unpack(STUBBORN) })
      assert.equal(0, run({ run.perfl, "report", data }).code)
      assert.equal("", run.capture(("find %s -name '*.new'"):format(dir)))
    end
  end)

  it("ends the command of a session in a program without perfl", function()
    local own = dir .. "/own.lua"
    run.write_file(own, ([[
      local s = require "perfev".session { command = { "%s", "%s", "%s" } }
      local function event(spec) s:event(spec) end
      (function(...) %s end)(...)
      s:run()]]):format(STUBBORN[1], STUBBORN[2], STUBBORN[3], LEAVE))
    for _, close in ipairs { "false", "true" } do
      assert_gone(run({ "lua5.4", own, close }, { env = {
        LUA_PATH = "lua/?.lua;lua/?/init.lua;;", LUA_CPATH = "build/?.so;;" } }))
    end
  end)
end)
