-- Breakpoints by address and by symbol, on the simulated kernel.

local breakpoint = require "perfev.probe.breakpoint"
local core = require "perfev.core"
local perfev = require "perfev"
local sim = require "perfev.sim"

local E = perfev.errno
local R, W, X = 1, 2, 4
local COUNTER = 0x2010 -- of "shared"

local function seed(name)
  local file <close> = assert(io.open("spec/fuzz/seeds/elf/" .. name, "rb"))
  return file:read "a"
end

local k, machine

before_each(function()
  machine, core.machine = core.machine, "x86_64"
  k = sim.new()
  k.files["/bin/app"], k.files["/bin/old"], k.files["/bin/stripped"] = seed "shared", seed "exec", seed "stripped"
  k:install()
end)
after_each(function()
  core.machine = machine
  perfev.hooks.clear()
end)

local function found(text)
  local one, why = breakpoint.resolve(text)
  assert.is_not_nil(one, why)
  return { one.type, one.fields.bp_type, one.fields.bp_addr, one.fields.bp_len }
end

local function refused(text)
  local one, why, code = breakpoint.resolve(text)
  assert.is_nil(one)
  assert.equal(("event '%s': "):format(text), why:sub(1, #text + 10))
  return why, code
end

-- A process's maps of a file, as in /proc/PID/maps.
local function maps(pid, base, path)
  k.files["/proc/" .. pid .. "/maps"] = ("%x-%x r-xp 00000000 fe:00 7                          %s\n"):format(base,
    base + 0x1000, path) .. ("%x-%x rw-p 00001000 fe:00 7                          %s\n"):format(base + 0x1000,
    base + 0x2000, path) .. "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
end

local function session(opts, text)
  local s = perfev.session(opts)
  s:event { text, sample = function() end }
  return s
end

-- Those that were opened, as "pid@address".
local function opened()
  local seen, list = {}, {}
  for _, event in ipairs(k.events) do
    local one = ("%d@%x"):format(event.pid, event.attr.bp_addr)
    if event.attr.type == 5 and not seen[one] then
      seen[one] = true
      list[#list + 1] = one
    end
  end
  table.sort(list)
  return list
end

describe("a breakpoint on an address", function()
  it("has perf's defaults: four bytes, read and written", function()
    assert.same({ 5, R | W, 0x1000, 4 }, found "mem:0x1000")
    assert.same({ 5, R | W, 4096, 4 }, found "mem:4096")
  end)

  it("has the length and the access that the user gives", function()
    assert.same({ 5, W, 0x1008, 8 }, found "mem:0x1008/8:w")
    assert.same({ 5, W, 0x1000, 4 }, found "mem:0x1000:w")
    assert.same({ 5, R | W, 0x1001, 1 }, found "mem:0x1001/1:rw")
    assert.same({ 5, R | W, 0x1002, 2 }, found "mem:0x1002/2:wr")
  end)

  it("on execution has the length that the kernel requires", function()
    assert.same({ 5, X, 0x1003, string.packsize "l" }, found "mem:0x1003:x")
    assert.same({ 5, X, 0x1003, string.packsize "l" }, found(("mem:0x1003/%d:x"):format(string.packsize "l")))
  end)

  it("takes a sample at each access, with the address", function()
    local s = session({}, "mem:0x1000:w")
    assert(s:start())
    local attr = k.events[1].attr
    assert.same({ 1, false }, { attr.sample_period, attr.freq })
    assert.is_true(attr.sample_type & 8 ~= 0)
    s:close()
  end)
end)

describe("a breakpoint that the processor lacks is refused:", function()
  for text, wanted in pairs {
    ["mem:0x1000:r"] = "x86 has no breakpoint for reads only\n  try: :rw", ["mem:0x1000:rx"] = "x cannot be combined",
    ["mem:0x1000/3:w"] = "a breakpoint covers 1, 2, 4 or 8 bytes, not 3", ["mem:0x1000/16:w"] = "not 16",
    ["mem:0x1000/0:w"] = "not 0",
    ["mem:0x1002:w"] = "0x1002 is not a multiple of the length 4.*\n  try: a smaller length",
    ["mem:0x1000/4:x"] = "breakpoint is %d+ here, not 4\n  try: no length", ["mem:12zz"] = "'12zz' is not an address",
    ["mem:0x1000/8:w:name=x"] = "'/8:w:name=x' is not understood after an address\n  try: mem:0x1000/4:w",
    ["mem:0x1000:q"] = "'q' is not an access\n  try: r, w", ["mem:0x1000/4:wq"] = "'wq' is not an access",
    ["mem:counter"] = "an address or FILE:SYMBOL is expected\n  try: mem:0x",
    ["mem:/bin/app:countr:w"] = "has no symbol 'countr' %(did you mean 'counter'%?%)",
    ["mem:/bin/stripped:nothing"] = "is stripped", ["mem:/bin/none:x"] = "cannot read /bin/none: No such file",
    ["mem:/bin/app:work:w"] = "'work' has 12 bytes, and a breakpoint covers 1, 2, 4 or 8\n  try: mem:/bin/app:work/8",
  } do
    it(text, function() assert.matches(wanted, (refused(text))) end)
  end

  it("except on a processor that supports it", function()
    core.machine = "aarch64"
    assert.same({ 5, R, 0x1001, 3 }, found "mem:0x1001/3:r")
    assert.matches("or 3, 5, 6, 7", (refused "mem:0x1001/9:r"))
  end)
end)

describe("a breakpoint on a symbol", function()
  it("has the symbol's length if that is supported, or the user's", function()
    assert.same({ 5, W, COUNTER, 8 }, found "mem:/bin/app:counter:w")
    assert.same({ 5, R | W, COUNTER, 4 }, found "mem:/bin/app:counter/4")
    assert.same({ 5, W, COUNTER + 4, 4 }, found "mem:/bin/app:counter+4:w")
    assert.same({ 5, R | W, 0x2008, 2 }, found "mem:/bin/app:sem")
  end)

  it("can have a name that looks like an access", function()
    assert.matches("/bin/app has no symbol 'w'", (refused "mem:/bin/app:w"))
    assert.matches("/bin/app has no symbol 'w'", (refused "mem:/bin/app:w:rw"))
  end)

  it("has the symbol's address in each process", function()
    for i, pid in ipairs { 70, 71, 72 } do
      k:task(pid, "app")
      maps(pid, i == 3 and 0x550000000000 or 0x550000000000 + i * 0x10000, "/bin/app")
    end
    maps(72, 0x550000010000, "/bin/app") -- the same as the first's
    local s = session({ pid = { 70, 71, 72 } }, "mem:/bin/app:counter:w")
    assert(s:start())
    assert.same({ "70@550000012010", "71@550000022010", "72@550000012010" }, opened())
    s:close()
    assert.same({}, k:leaks())
  end)

  it("in a program with fixed addresses has the address of the file", function()
    k:task(70, "old")
    local s = session({ pid = 70 }, "mem:/bin/old:counter:w")
    assert(s:start())
    assert.same({ "70@401158" }, opened())
    s:close()
    s = session({}, "mem:/bin/old:counter:w") -- in every process that has it there
    assert(s:start())
    s:close()
    assert.same({ "-1@401158", "70@401158" }, opened())
  end)

  it("is refused for the whole machine if each process has another address", function()
    local ok, why, code = session({}, "mem:/bin/app:counter:w"):start()
    assert.is_nil(ok)
    assert.equal(E.EINVAL, code)
    assert.matches("/bin/app is loaded at another address in each process\n  try: %-p PID", why)
    assert.same({}, k:leaks())
  end)

  it("is refused for a process that has not mapped the file, or a replaced one", function()
    for path, wanted in pairs {
      ["/bin/other"] = "process 70 has not mapped /bin/app\n  try: grep",
      ["/bin/app (deleted)"] = "has not mapped /bin/app: its file was replaced",
    } do
      k:task(70, "app")
      maps(70, 0x550000000000, path)
      local ok, why, code = session({ pid = 70 }, "mem:/bin/app:counter:w"):start()
      assert.is_nil(ok)
      assert.equal(E.ENOENT, code)
      assert.matches(wanted, why)
    end
    k.files["/proc/70/maps"] = E.EACCES
    local ok, why = session({ pid = 70 }, "mem:/bin/app:counter:w"):start()
    assert.is_nil(ok)
    assert.matches("cannot read /proc/70/maps: Permission denied", why)
    assert.same({}, k:leaks())
  end)
end)

describe("a counter of a breakpoint on a symbol", function()
  it("has the symbol's address in the process", function()
    k:task(70, "app")
    maps(70, 0x550000000000, "/bin/app")
    local c = assert(perfev.counter { "mem:/bin/app:counter:w", pid = 70 })
    assert.same({ "70@550000002010" }, opened())
    c:close()
  end)

  it("is refused if the processes have several addresses, or the command none yet", function()
    for i, pid in ipairs { 70, 71 } do
      k:task(pid, "app")
      maps(pid, 0x550000000000 + i * 0x10000, "/bin/app")
    end
    for wanted, target in pairs {
      ["the processes have it at several\n  try: "] = { pid = { 70, 71 } },
      ["a command's is not known before it runs\n  try: "] = { command = { "app" } },
    } do
      target[1] = "mem:/bin/app:counter:w"
      local c, why, code = perfev.counter(target)
      assert.is_nil(c)
      assert.equal(E.EINVAL, code)
      assert.matches(wanted, why)
    end
    assert.same({}, k:leaks())
  end)
end)

describe("a breakpoint in a command", function()
  local function place_of(pattern)
    for i, line in ipairs(k.log) do
      if line:find(pattern) then return i end
    end
  end

  before_each(function()
    k.at_exec = function(child) maps(child.pid, 0x550000000000, "/bin/app") end
    k.command = function(child) k:after("10ms", function() k:end_child(child.pid, 0) end) end
  end)

  it("is opened after its exec and before its first instruction", function()
    local s = session({ command = { "app" } }, "mem:/bin/app:counter:w")
    local ok, why = s:run()
    assert.is_true(ok, why)
    assert.same({ "5001@550000002010" }, opened())
    local event
    for i, one in ipairs(k.events) do event = event or one.attr.type == 5 and i or nil end
    assert.is_true(place_of "^release%(%d+, 1%)" < place_of "^wait%(5001, 1%)")
    assert.is_true(place_of "^wait%(5001, 1%)" < place_of "^slurp%(/proc/5001/maps%)")
    assert.is_true(place_of "^slurp%(/proc/5001/maps%)" < place_of "^resume%(5001%)")
    assert.is_false(k.events[event].attr.enable_on_exec)
    assert.same({ exit = 0 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  it("with a number does not stop the command", function()
    local s = session({ command = { "app" } }, "mem:0x1000:w")
    assert(s:run())
    assert.is_nil(place_of "^resume")
    assert.is_not_nil(place_of "^release%(%d+, 0%)")
  end)

  it("ends the run and the command if its file is not mapped, with the cause", function()
    k.at_exec = function(child) maps(child.pid, 0x550000000000, "/bin/sh") end
    local s = session({ command = { "sh" } }, "mem:/bin/app:counter:w")
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.matches("process 5001 has not mapped /bin/app yet, when it is started\n  try: the program's own file", why)
    assert.same({}, k:leaks())
  end)

  it("that is optional is left out, and the command continues", function()
    k.at_exec = nil
    local s = perfev.session { command = { "sh" } }
    local ev = s:event { "mem:/bin/app:counter:w", optional = true, sample = function() end }
    assert(s:run())
    assert.matches("cannot read /proc/5001/maps", ev.error)
    assert.is_not_nil(place_of "^resume%(5001%)")
    assert.same({ exit = 0 }, s.command_status)
  end)

  it("reports a command that cannot be executed", function()
    k.exec = function() return E.ENOENT end
    local s = session({ command = { "app" } }, "mem:/bin/app:counter:w")
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.matches("^cannot run 'app'", why)
    assert.same({ exit = 127 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  it("reports a command that another tracer holds", function()
    k.exec = function() return E.EPERM end
    local ok, why = session({ command = { "app" } }, "mem:/bin/app:counter:w"):run()
    assert.is_nil(ok)
    assert.matches("^cannot run 'app': [^\n]+%(EPERM%).*stopped by ptrace.*\n  try: without strace", why)
    assert.same({}, k:leaks())
  end)

  for _, call in ipairs { "wait", "resume", "perf_event_open" } do
    it("leaks nothing if " .. call .. " fails", function()
      for nth = 1, 3 do
        k.events, k.counts = {}, {}
        k:fail(call, nth, E.EPERM)
        local s = session({ command = { "app" } }, "mem:/bin/app:counter:w")
        local ok, why = s:run()
        assert.is_true(ok or type(why) == "string")
        assert.same({}, k:leaks())
        k.failures = {}
      end
    end)
  end
end)
