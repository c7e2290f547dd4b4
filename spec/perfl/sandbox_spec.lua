-- perfl --sandbox: attacks of scripts on Lua's side, and the limits. spec/live/sandbox_spec.lua has those that the
-- kernel stops.

local core = require "perfev.core"
local run = require "spec.support.run"

local why_not = not core.landlock_abi() and "this kernel has no Landlock"
local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

describe("a script with --sandbox", function()
  local dir

  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)

  local function sandboxed(script, option, ...)
    local path = run.write_file(dir .. "/attack.lua", script)
    return run({ run.perfl, "--sandbox" .. (option or ""), "-q", path, ... }, { cwd = dir })
  end

  -- The value of an expression, or the error of the script, without its place.
  local function answer(script, ...)
    local r = sandboxed(script, nil, ...)
    local text = r.out ~= "" and r.out or r.err:match "attack%.lua:%d+: ([^\n]*)" or r.err
    return (text:gsub("\n$", "")), r
  end

  local function refused(what, script)
    local text, r = answer(script)
    assert.equal(what .. ": not available with --sandbox", text)
    assert.equal(1, r.code)
  end

  -- Each attack that would have succeeded leaves this file.
  local function untouched() return run.slurp(dir .. "/stolen") == nil end

  describe("cannot", function()
    it("write files", function()
      local text = answer [[print((select(2, io.open("stolen", "w"))))]]
      assert.equal("stolen: files are not written with --sandbox", text)
      assert.equal(text, (answer [[print((select(2, io.open("stolen", "r+"))))]]))
      refused("io.output", [[io.output("stolen")]])
      refused("io.tmpfile", [[io.tmpfile()]])
      assert.is_true(untouched())
    end)

    it("read files that the command line does not name", function()
      local no = ": the command line does not name this file (--sandbox)"
      assert.equal("/etc/passwd" .. no, (answer [[print((select(2, io.open "/etc/passwd")))]]))
      assert.equal("/proc/self/environ" .. no, (answer [[print((select(2, io.open("/proc/self/environ", "rb"))))]]))
      assert.equal("/sys/bus/event_source/devices/../../../../etc/passwd" .. no,
        (answer [[print((select(2, io.open "/sys/bus/event_source/devices/../../../../etc/passwd")))]]))
      assert.equal("io.lines: the command line does not name '/etc/passwd' (--sandbox)",
        (answer [[for line in io.lines "/etc/passwd" do print(line) end]]))
      assert.equal("/etc/passwd" .. no, (answer [[print((select(2, require "perfev".open "/etc/passwd")))]]))
      assert.equal("/etc/passwd" .. no,
        (answer [[print(select(2, require "perfev.tool".read_profile("x", "/etc/passwd")))]]))
      local r = sandboxed([[
        local perfev, tool = require "perfev", require "perfev.tool"
        tool.profile("attack", { baseline = "/etc/passwd", format = "folded" }, {})
        perfev.event { "cpu-clock:u", period = 1000000, sample = print }]], nil, "--", "true")
      assert.equal("attack: /etc/passwd" .. no .. "\n", r.err)
      refused("io.read", [[print(io.read "a")]])
      refused("io.stdin", [[print(io.stdin:read "a")]])
    end)

    it("start programs", function()
      refused("os.execute", [[os.execute "touch stolen"]])
      refused("io.popen", [[io.popen "touch stolen"]])
      local text = answer [[print(pcall(require "perfev".session, { command = { "touch", "stolen" } }))]]
      assert.matches("command: not available to a script with %-%-sandbox$", text)
      assert.is_true(untouched())
    end)

    it("remove, rename or name files, nor end perfl, nor read its environment", function()
      for _, name in ipairs { "remove", "rename", "tmpname", "exit", "getenv", "setlocale" } do
        refused("os." .. name, ("os.%s('a', 'b')"):format(name))
      end
    end)

    it("load native code", function()
      refused("package.loadlib", [[package.loadlib("./x.so", "*")]])
      refused("package.cpath", [[print(package.cpath)]])
      refused("package.searchers", [[print(package.searchers)]])
      refused("package.preload", [[print(package.preload)]])
    end)

    it("require perfl's and perfev's inner modules, Lua's source files, or what perfl has loaded", function()
      run.write_file(dir .. "/mine.lua", "return 1")
      for _, name in ipairs { "perfev.core", "perfl.core", "perfev.sim", "perfl.main", "perfev.live.session",
        "mine" } do
        assert.equal(("require: '%s' is not available with --sandbox"):format(name),
          (answer(("require %q"):format(name))))
      end
      refused("package.loaded", [[print(package.loaded["perfev.core"])]])
    end)

    it("have perfev load a file beside the script, which would have perfl's globals", function()
      assert(os.execute(("mkdir -p %s/perfev/tool/sched"):format(dir)))
      run.write_file(dir .. "/perfev/tool/sched/mine.lua", "io.write 'loaded ' return print")
      assert.matches("^false\t.*module 'perfev.tool.sched.mine' not found",
        (answer [[print(pcall(require "perfev".tool.print_scheduling, "mine"))]]))
    end)

    it("use debug", function()
      for _, name in ipairs { "getregistry", "getupvalue", "setmetatable", "sethook", "getlocal", "getinfo" } do
        refused("debug." .. name, ("debug.%s(print)"):format(name))
      end
    end)

    it("load or make bytecode", function()
      refused("string.dump", [[print(string.dump(function() end))]])
      refused("dofile", [[dofile "x"]])
      refused("loadfile", [[loadfile "x"]])
      assert.matches("attempt to load a binary chunk %(mode is 't'%)",
        (answer(("print(load(%q, 'x', 'b'))"):format("\27Lua"))))
      assert.equal("nil", (answer [[print(("").dump)]]))
    end)

    it("reach perfl's globals from code that it loads", function()
      assert.equal("true\ttrue", (answer [[
        local own = load "return _G, _ENV"
        local a, b = own()
        print(a == _G, b == _G)]]))
    end)

    it("run a finalizer", function()
      assert.equal("setmetatable: __gc is not available with --sandbox",
        (answer [[setmetatable({}, { __gc = function() end })]]))
      assert.equal("nil", (answer [[
        local meta = {}
        local object = setmetatable({}, meta)
        meta.__gc = function() print "run" end
        object = nil
        collectgarbage()
        print(object)]]))
    end)

    it("change strings, or the metatables of perfev's objects", function()
      assert.equal("nil\tnil\tnil\tnil", (answer [[
        local perfev = require "perfev"
        local of = getmetatable
        print(of "", of(io.stdout), of(perfev.session()), of(perfev.count {}))]]))
      assert.matches("^setmetatable: an object of perfev", (answer [[setmetatable(require "perfev".session(), {})]]))
    end)

    it("reach the classes of perfev's objects", function()
      assert.equal("nil\tnil\tnil\tnil\tnil", (answer [[
        local perfev = require "perfev"
        local s = perfev.session()
        local ev = s:event { "cpu-clock", sample = print }
        print(s.__index, ev.__index, perfev.count {}.__index, perfev.profile {}.__index, s.__close)]]))
    end)

    it("change perfev for perfl", function()
      local _, r = answer [[
        local perfev = require "perfev"
        perfev.escape, perfev.run, perfev.errno.EPERM = error, error, 0
        require "perfev.tool".refuse = error
        string.format, table.concat, print = error, error, error
        for name in pairs(math) do math[name] = nil end
        error "done"]]
      assert.matches("^perfl: [^\n]*attack.lua:6: done\n", r.err)
    end)

    it("replace system calls or choose where symbols come from", function()
      refused("perfev.hooks", [[print(require "perfev".hooks)]])
      refused("perfev.sim", [[print(require "perfev".sim)]])
      refused("perfev.symbol.symfs", [[require "perfev".symbol.symfs "/"]])
      refused("perfev.symbol.kallsyms", [[require "perfev".symbol.kallsyms "/etc/shadow"]])
      refused("perfev.symbol.debuginfod", [[require "perfev".symbol.debuginfod()]])
    end)

    it("write a recording, or read one that is not the user's", function()
      local no = ": not available to a script with %-%-sandbox$"
      assert.matches("record" .. no, (answer [[print(pcall(require "perfev".session, { record = "stolen" }))]]))
      assert.matches("record" .. no, (answer [[
        local s = require "perfev".session()
        print(pcall(s.configure, s, { record = "stolen" }))]]))
      assert.matches("input: the command line does not name this file", (answer [[
        print(pcall(require "perfev".session, { input = "/var/lib/secret.data" }))]]))
    end)

    it("catch the signals that end perfl", function()
      assert.matches("with %-%-sandbox a script receives USR1 and USR2 only", (answer [[
        print(pcall(require "perfev".signal, "TERM", print))]]))
    end)

    it("run the default of an option with perfl's globals", function()
      assert.matches("attempt to index a nil value %(global 'io'%)\n$", (sandboxed([[
        local opt = require "perfev".args { { "--when", type = "condition", default = load "return 1" } }
        io = nil
        print(pcall(opt.when))]], nil, "--when", "io.open('stolen', 'w')").out))
      assert.is_true(untouched())
    end)

    it("tune the collector", function()
      assert.equal("collectgarbage: 'stop' is not available with --sandbox", (answer [[collectgarbage "stop"]]))
      assert.equal("true", (answer [[print(collectgarbage "count" > 0)]]))
    end)
  end)

  describe("that changes perfev's objects", function()
    -- The guard is in front of Linux, not of the simulated kernel: the calls of a live session.
    local function live(script)
      run.write_file(dir .. "/attack.lua", script)
      return run({ run.perfl, "--sandbox", "-q", "-d", "1ms", "./attack.lua", "--", "true" }, { cwd = dir })
    end

    it("cannot make the session write a recording", function()
      local r = live([[
        local perfev = require "perfev"
        perfev.event { "cpu-clock:u", period = 1000000, sample = print }
        perfev.begin(function() perfev.default_session().opts.record = "stolen" end)]])
      assert.matches("cannot record to stolen: Operation not permitted", r.err)
      assert.equal(1, r.code)
      assert.is_true(untouched())
    end)

    it("cannot make the session start another command", function()
      local r = live([[
        local perfev = require "perfev"
        perfev.event { "cpu-clock:u", period = 1000000, sample = print }
        local s = perfev.default_session()
        local configure = s.configure
        s.configure = function(self, given)
          configure(self, given)
          self.opts.command = { "touch", "stolen" }
        end]])
      assert.matches("Operation not permitted", r.err)
      assert.is_true(untouched())
    end)
  end)

  describe("is ended by", function()
    local function ended(script, ...)
      local r = sandboxed(script, "=time=20ms,mem=16M", ...)
      assert.equal(124, r.code, r.err)
      return r.err
    end

    local text = "the script computed for more than 200 ms %(%-%-sandbox%)"

    it("its time limit, with an error that names the line", function()
      assert.matches("attack.lua:1: " .. text .. "\n", ended "while true do end")
    end)

    it("its time limit, also if it catches the error", function()
      local stopped = text .. ", and does not stop\n$"
      assert.matches(stopped, ended "while true do pcall(function() while true do end end) end")
      assert.matches(stopped, ended [[
        local function again() xpcall(function() while true do end end, function() while true do end end) end
        while true do pcall(again) end]])
    end)

    it("its time limit, also in coroutines", function()
      assert.matches(text, ended [[
        local co = coroutine.create(function() while true do end end)
        print(coroutine.resume(co))
        while true do end]])
      assert.matches(text, ended [[coroutine.wrap(function() while true do end end)()]])
      assert.matches(text, ended [[
        local co = coroutine.create(function()
          local _ <close> = setmetatable({}, { __close = function() while true do end end })
          coroutine.yield()
        end)
        coroutine.resume(co)
        coroutine.close(co)
        while true do end]])
    end)

    it("its time limit, also in a method or metamethod that it puts into perfev's objects", function()
      for _, script in ipairs {
        "begin(function() s._keep_going = function() while true do end end end)",
        "begin(function() setmetatable(s.opts, { __index = function() while true do end end }) end)",
        "begin(function() s._keep_going = load('while true do end', '@lua/perfl/main.lua') end)",
      } do
        assert.matches(":%d: " .. text .. "\n", ended([[
          local perfev = require "perfev"
          local s = perfev.default_session()
          local begin = perfev.begin
          perfev.event { "page-faults:u", period = 1, sample = perfev.count {} } ]] .. script, "--", "true"), nil,
          script)
      end
    end)

    it("its time limit, also in a function in C that does not return", function()
      for _, script in ipairs {
        [[(("a"):rep(60)):find(("a?"):rep(60) .. ("a"):rep(60))]],
        [[table.sort(setmetatable({}, { __len = function() return 1 << 30 end, __index = function() return 1 end,
          __newindex = function() end }))]],
        [[table.concat(setmetatable({}, { __len = function() return 1 << 60 end,
          __index = function() return "" end }))]],
        [[for _ = 1, 1e9 do pcall(("x"):rep(1 << 20).gsub, ("x"):rep(1 << 20), "(x*)*y", "") end]],
      } do assert.matches(text, ended(script), nil, script) end
    end)

    it("its memory limit", function()
      assert.matches("the script used more than 16M of Lua memory\n  try: %-%-sandbox=mem=SIZE\n$",
        ended "local s = ('x'):rep(1 << 30)")
      assert.matches("used more than 16M", ended "pcall(string.rep, 'x', 1 << 30)")
      assert.matches("used more than 16M", ended "local t = {} while true do t[#t + 1] = {} end")
    end)
  end)

  describe("still", function()
    it("has Lua's functions, the command line's files and its words", function()
      run.write_file(dir .. "/mine.txt", "text\n")
      local r = sandboxed([[
        local file = io.open(arg[1])
        print(file:read "l", (...), ("x"):rep(3), #table.pack(1, 2), utf8.char(228), math.type(1), os.time() > 0)
        io.write "written\n"
        io.stdout:write "too\n"
        print(load "return 1 + 1"(), coroutine.wrap(function() coroutine.yield(3) end)())
        local object = setmetatable({}, { __index = { a = 1 }, __close = function() end })
        local same = require "perfev" == require "perfev" and require "string" == string
        print(object.a, getmetatable(object).__index.a, same)
        print(pcall(coroutine.wrap(function() error "inside" end)))
        local a = require "perfev".count { by = "comm" }
        print(#a:rows())]], nil, "mine.txt")
      assert.equal("text\tmine.txt\txxx\t2\tä\tinteger\ttrue\nwritten\ntoo\n2\t3\n1\t1\ttrue\n"
        .. "false\t" .. dir:gsub("%p", "%%%0"):gsub("%%", "") .. "/attack.lua:9: inside\n0\n", r.out, r.err)
      assert.equal(0, r.code)
    end)

    it("ends with tool.refuse", function()
      local r = sandboxed [[require "perfev.tool".refuse("attack", "no", 9)]]
      assert.same({ 9, "attack: no\n" }, { r.code, r.err })
    end)
  end)
end)

describe("every shipped script", function()
  -- Words and a command for scripts that need them.
  local words = {
    annotate = { "main" }, flightrec = { "cpu-clock" }, funccount = { "page-faults" }, funclatency = { "f" },
    latency = { "cs", "page-faults" }, slow = { "cs", "page-faults" }, sched = { "latency" }, trace = { "page-faults" },
    tpoint = { "sched:sched_switch" }, watch = { "x" }, diff = { "a", "b" },
  }

  it("does the same on a simulated kernel as without the sandbox", function()
    for path in run.capture("ls scripts/*.lua"):gmatch "[^\n]+" do
      local name = path:match "([^/]+)%.lua$"
      local own = words[name] or {}
      local function result(...)
        local list = { run.perfl, "-q", "--sim", "vm", "-d", "1ms", "-a", ... }
        table.move(own, 1, #own, #list + 1, list)
        local r = run(list)
        assert.is_nil(r.err:match "[^\n]*not available[^\n]*", r.err) -- which event is missing first depends on chance
        return { name, r.code, r.out }
      end
      assert.same(result(name), result("--sandbox", name))
    end
  end)
end)

describe("perfl --sandbox", function()
  local function usage(...)
    local r = run { run.perfl, ... }
    assert.equal(2, r.code)
    return r.err
  end

  it("confines perfl also if a session starts before the command line is parsed", function()
    local dir = run.tempdir()
    local script = run.write_file(dir .. "/early.lua", [[
      local s = require "perfev".session { pid = "self" }
      s:event { "page-faults:u", sample = print }
      print(s:start(), arg[1]) -- no args are declared]])
    local r = run { run.perfl, "--sandbox", "-q", script, "word", "--", "true" }
    run.remove(dir)
    assert.same({ 0, "true\tword\n", "" }, { r.code, r.out, r.err })
  end)

  it("names the wrong word of its value", function()
    assert.equal("perfl: --sandbox: 'cpu=1': expected mem=SIZE, time=DURATION, read=DIR or best-effort\n"
      .. "  try: --sandbox=mem=256M,time=1s\n", usage("--sandbox=cpu=1", "-e", "x = 1"))
    assert.matches("mem=1M: 8M or more", usage("--sandbox=mem=1M", "-e", "x = 1"))
    assert.matches("time=1ms: 20ms or more", usage("--sandbox=time=1ms", "-e", "x = 1"))
    assert.matches("read=home: an absolute path", usage("--sandbox=read=home", "-e", "x = 1"))
  end)

  it("refuses the options that make files or need the network while the script runs", function()
    assert.matches("^perfl: %-%-switch%-output and %-%-sandbox at once", usage("--sandbox", "--record", "x",
      "--switch-output", "1M", "-a", "-e", "x = 1"))
    assert.matches("^perfl: %-%-debuginfod and %-%-sandbox at once", usage("--sandbox", "--debuginfod", "-e", "x = 1"))
    assert.matches("^perfl: %-i, %-%-record and %-%-sandbox at once", usage("--sandbox", "-i", "x", "--record", "y",
      "-e", "x = 1"))
  end)

  it("is written before the script, because the words after it may be a command's", function()
    assert.matches("^perfl: %-%-sandbox comes after the script, or in a command\n", usage("cswlog", "--sandbox"))
    local r = run { run.perfl, "-q", "-e", "event { 'task-clock', sample = print, period = 1 << 40 }", "--", "echo",
                    "--sandbox=mem=1" }
    assert.same({ 0, "--sandbox=mem=1\n" }, { r.code, r.out })
  end)

  it("also holds for perfl describe", function()
    local r = run({ run.perfl, "describe", "--sandbox", "-e", "os.execute 'touch stolen'" })
    assert.matches("os.execute: not available with %-%-sandbox", r.err)
  end)

  it("is for scripts", function()
    assert.matches("^perfl: %-%-sandbox: 'list' is a part of perfl, not a script\n", usage("--sandbox", "list"))
    assert.matches("^perfl: %-%-sandbox: 'record' is a part of perfl, not a script\n", usage("--sandbox", "record"))
  end)

  it("refuses to run if libseccomp's module is missing, unless it may do without", function()
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    assert(os.execute(("cp %s %s/perfl && cp -R %s %s/perfev && rm %s/perfev/seccomp.so"):format(run.quote(run.perfl),
      dir, run.quote((run.perfl:gsub("[^/]*$", "perfev"))), dir, dir)))
    local r = run({ dir .. "/perfl", "--sandbox", "-e", "print(1)" })
    assert.same({ 77, "" }, { r.code, r.out })
    assert.matches("^perfl: %-%-sandbox: this machine lacks perfev's module for libseccomp beside perfl\n"
      .. "  try: %-%-sandbox=best%-effort, which runs without\n$", r.err)
    r = run({ dir .. "/perfl", "--sandbox=best-effort", "-e", "print(1)" })
    assert.same({ 0, "1\n" }, { r.code, r.out })
    assert.matches("lacks perfev's module for libseccomp", r.err)
  end)
end)
