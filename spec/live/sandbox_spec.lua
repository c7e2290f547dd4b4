-- perfl --sandbox on the real kernel: what the kernel forbids by itself, what still works, and the shipped scripts.

local core = require "perfev.core"
local run = require "spec.support.run"

local why_not = not run.root and "not root"
  or not core.landlock_abi() and "this kernel has no Landlock"
  or not core.slurp "/sys/kernel/tracing/events/header_page" and "no tracefs"
  or run.sanitized and "sanitizers make system calls of their own"
local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

local EPERM, EACCES = core.errno.EPERM, core.errno.EACCES
local cc = os.getenv "CC" or "gcc"

describe("the kernel", function()
  local dir

  setup(function()
    if why_not then return end
    dir = run.tempdir()
    assert(os.execute(("%s -shared -fPIC -o %s/attacks.so spec/support/attacks.c $(pkg-config --cflags lua5.4)"):format(
      cc, dir)))
  end)

  teardown(function() if dir then run.remove(dir) end end)

  -- name -> arguments; the process that is attacked is PID
  local attacks = {
    { "write", "'victim'" }, { "create", "'stolen'" }, { "truncate", "'victim'" }, { "unlink", "'removed'" },
    { "rename", "'old', 'new'" }, { "chmod", "'victim'" }, { "mkdir", "'made'" }, { "read", "'/etc/shadow'" },
    { "read", "'/proc/' .. PID .. '/environ'" }, { "read", "'victim'" }, { "openat2", "'victim'" }, { "fork", "" },
    { "socket", "" }, { "socketpair", "" }, { "readv", "PID" }, { "kill", "PID" }, { "perf_event_open", "" },
    { "execute_memory", "" }, { "map_code", "" }, { "memfd", "" }, { "bpf", "" }, { "unshare", "" },
    { "chroot", "" }, { "steal_signal", "" }, { "ptrace", "PID" }, { "execve", "" },
  }

  -- Runs every attack with the rights of root and all of Lua, after these steps of confinement -> { errno, ... }
  local function errnos_of(steps)
    for _, name in ipairs { "victim", "removed", "old" } do run.write_file(dir .. "/" .. name, "content") end
    os.remove(dir .. "/made")
    local lines = { "local core, attacks, seccomp = require 'perfev.core', require 'attacks', require 'perfev.seccomp'",
                    steps }
    for _, attack in ipairs(attacks) do
      lines[#lines + 1] = ("print(attacks.%s(%s))"):format(attack[1], (attack[2]:gsub("PID", "arg[1]")))
    end
    local script = run.write_file(dir .. "/attacks.lua", table.concat(lines, "\n"))
    local build = run.perfl:match "^(.*)/"
    local r = run(("sleep 600 & lua5.4 %s $!; s=$?; kill $! 2>/dev/null; exit $s"):format(script),
      { cwd = dir, env = { LUA_CPATH = ("%s/?.so;%s/?.so"):format(build, dir), LUA_PATH = "none" } })
    assert.equal(0, r.code, r.err)
    local found = {}
    for number in r.out:gmatch "%d+" do found[#found + 1] = tonumber(number) end
    return found
  end

  local LANDLOCK = "assert(core.no_new_privs()) assert(core.landlock({ '/usr', '/proc' }, false))"
  local SECCOMP = "assert(core.no_new_privs()) assert(seccomp.confine())"

  it("lets root do all of this without the confinement", function()
    for i, errno in ipairs(errnos_of "") do
      assert.equal(0, errno, attacks[i][1] .. "(" .. attacks[i][2] .. ")")
    end
  end)

  it("refuses every attack by Landlock, seccomp and the lack of capabilities, without help from Lua", function()
    local found = errnos_of(LANDLOCK .. " assert(core.drop_rights()) " .. SECCOMP)
    assert.equal(#attacks, #found)
    for i, errno in ipairs(found) do
      assert.is_true(errno == EPERM or errno == EACCES, ("%s(%s): %d"):format(attacks[i][1], attacks[i][2], errno))
    end
  end)

  it("refuses by seccomp alone what changes or reaches anything outside", function()
    for i, errno in ipairs(errnos_of(SECCOMP)) do
      local reads = attacks[i][1] == "read"
      assert.equal(reads and 0 or EPERM, errno, ("%s(%s)"):format(attacks[i][1], attacks[i][2]))
    end
  end)

  it("refuses by Landlock alone what concerns files, and tracing", function()
    local refused = { write = true, create = true, truncate = true, unlink = true, rename = true, mkdir = true,
                      read = true, openat2 = true, readv = true, ptrace = true, kill = true, execve = true }
    for i, errno in ipairs(errnos_of(LANDLOCK)) do
      local name = attacks[i][1]
      local old = name == "kill" and core.landlock_abi() < 6 or name == "truncate" and core.landlock_abi() < 3
      -- mm_access() of newer kernels lets CAP_PERFMON read the memory of any process.
      if not (old or name == "execve" or attacks[i][2]:find "environ") then
        assert.equal(refused[name] == true, errno ~= 0, ("%s(%s): %d"):format(name, attacks[i][2], errno))
      end
    end
  end)

  -- The file of --sim runs before the sandbox: it smuggles real functions to the script, as a mistake in perfl would.
  local function smuggled(script)
    run.write_file(dir .. "/world.lua", [[
      local output, lines = io.output, io.lines
      arg.leaked = { lines = lines, write = function(path)
        local before = output()
        local ok, why = pcall(output, path)
        output(before)
        return ok or why
      end }
      return require "perfev.sim".new { cpus = "0" }]])
    run.write_file(dir .. "/smuggled.lua", script)
    os.remove(dir .. "/stolen")
    return run({ run.perfl, "--sandbox", "-q", "--sim", "world.lua", "-d", "1ms", "-a", "./smuggled.lua" },
      { cwd = dir })
  end

  it("stops a script that got a real io.output, from the moment that events are open", function()
    local r = smuggled [[
      local perfev = require "perfev"
      local leaked = arg.leaked
      perfev.event { "cpu-clock", period = 1000000, sample = function() end }
      print("body", leaked.write "before", pcall(leaked.lines, "/etc/shadow"))
      perfev.done(function()
        print("done", leaked.write "stolen", pcall(leaked.lines, "/etc/shadow"))
      end)]]
    assert.matches("^body\ttrue\ttrue\t[^\n]*\ndone\tcannot open file 'stolen' %(Operation not permitted%)\tfalse\t"
      .. "cannot open file '/etc/shadow' %(Permission denied%)\n$", r.out, r.err)
    assert.is_string(run.slurp(dir .. "/before"))
    assert.is_nil(run.slurp(dir .. "/stolen"))
  end)

  it("has confined perfl also if the script replaces methods and options of the session", function()
    local r = smuggled [[
      local perfev = require "perfev"
      local leaked, s = arg.leaked, perfev.default_session()
      local start, configure = s.start, s.configure
      s.start = function(self)
        self.opts.on_open, self._keep_going = nil, nil
        return start(self)
      end
      s.configure = function(self, given)
        given.on_open = nil
        return configure(self, given)
      end
      perfev.event { "cpu-clock", period = 1000000, sample = function() end }
      perfev.done(function()
        for line in leaked.lines "/proc/self/status" do
          if line:find "^Seccomp:" or line:find "^NoNewPrivs" or line:find "^Cap[EPI]" then print(line) end
        end
      end)]]
    local none = ("0"):rep(16)
    assert.equal(("CapInh:\t%s\nCapPrm:\t%s\nCapEff:\t%s\nNoNewPrivs:\t1\nSeccomp:\t2\n"):format(none, none, none),
      r.out, r.err)
  end)

  it("has confined perfl also if a coroutine of the script never ends the start of the session", function()
    local r = smuggled [[
      local perfev = require "perfev"
      local leaked, s = arg.leaked, perfev.default_session()
      perfev.event { "cpu-clock", period = 1000000, sample = function() end }
      setmetatable(s.handlers, { __newindex = function(t, k, v)
        rawset(t, k, v)
        if coroutine.isyieldable() then coroutine.yield() end
      end })
      print(coroutine.resume(coroutine.create(function() return s:start() end)))
      s:stop() -- nothing more would happen on the simulated kernel
      perfev.done(function()
        for line in leaked.lines "/proc/self/status" do
          if line:find "^Seccomp:" or line:find "^NoNewPrivs" then print(line) end
        end
      end)]]
    assert.equal("true\nNoNewPrivs:\t1\nSeccomp:\t2\n", r.out, r.err)
  end)

  it("sends no signal to another process by an event", function()
    local script = run.write_file(dir .. "/sigtrap.lua", [[
      local perfev = require "perfev"
      local s = perfev.session { pid = tonumber(...) }
      s:event { "page-faults", period = 1, sigtrap = true, remove_on_exec = true, sample = print }
      local ok, _, code = s:start()
      print(ok, code) ]])
    local words = ("sleep 600 & %s %%s -q %s $!; kill $!"):format(run.perfl, script)
    assert.equal("true\tnil\n", run(words:format "").out)
    assert.equal(("nil\t%d\n"):format(EACCES), run(words:format "--sandbox").out)
  end)

  it("leaves the command as it would be without the sandbox", function()
    local words = { "-q", "-e", "event { 'task-clock', sample = print, period = 1000000000 }", "--", "grep", "-E",
                    "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status" }
    local free, confined = run { run.perfl, table.unpack(words) },
      run { run.perfl, "--sandbox", table.unpack(words) }
    assert.equal(free.out, confined.out, confined.err)
    assert.matches("NoNewPrivs:\t0\n", confined.out)
  end)

  it("lacks Landlock: perfl ends before the first record, or says what is missing", function()
    run.write_file(dir .. "/world.lua", [[
      local kernel = require "perfev.sim".new { cpus = "0" }
      kernel.hooks.landlock_abi = function() return nil, 38 end
      return kernel]])
    local words = { "-q", "--sim", "world.lua", "-d", "1ms", "-a", "-e",
                    "event { 'cpu-clock', sample = print } done(function() print 'done' end)" }
    local lacks = "perfl: --sandbox: this machine lacks Landlock (Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and "
      .. "landlock in lsm=): Function not implemented\n  try: --sandbox=best-effort, which runs without\n"
    local r = run({ run.perfl, "--sandbox", table.unpack(words) }, { cwd = dir })
    assert.same({ 77, "", lacks }, { r.code, r.out, r.err })
    r = run({ run.perfl, "--sandbox=best-effort", table.unpack(words) }, { cwd = dir })
    assert.same({ 0, "done\n", lacks }, { r.code, r.out, r.err })
  end)
end)

describe("a sandboxed run", function()
  local dir

  setup(function()
    if why_not then return end
    dir = run.tempdir()
    run.write_file(dir .. "/spin.c", [[
      __attribute__((noinline)) int spin_here(int n) { volatile int x = 0; while (n--) x += n; return x; }
      int main(void) { return spin_here(60000000) == 1; }]])
    assert(os.execute(("cd %s && %s -O1 -o spin spin.c"):format(dir, cc)))
  end)

  teardown(function() if dir then run.remove(dir) end end)

  local function perfl(...) return run({ run.perfl, ... }, { cwd = dir }) end

  local SAMPLE = "event { 'cpu-clock:u', period = 100000, sample = count { by = 'symbol' } }"

  it("names the functions of the command, of libraries and of the kernel", function()
    local r = perfl("--sandbox", "-e", SAMPLE, "--", "./spin")
    assert.matches("\nspin_here +%d+\n", r.out, r.err)
    r = perfl("--sandbox", "-e", "event { 'raw_syscalls:sys_enter', callchain = true, sample = function(r) "
      .. "for _, f in ipairs(r.stack) do print(f.kernel and 'kernel' or 'user', f.symbol or '') end end }",
      "--", "/bin/echo", "text")
    assert.matches("kernel\tdo_sys", r.out, r.err)
    assert.matches("user\t[%w_]*write", r.out, r.err)
  end)

  it("records with the names of functions, and reads recordings", function()
    local r = perfl("--sandbox", "--record", "x.data", "-q", "-e",
      "event { 'cpu-clock:u', period = 100000, callchain = true, sample = function() end }", "--", "./spin")
    assert.same({ 0, "" }, { r.code, r.err })
    assert(os.execute("rm " .. dir .. "/spin && cp /bin/true " .. dir .. "/spin"))
    local free = perfl("-q", "-i", "x.data", "profile", "-f", "folded")
    local confined = perfl("-q", "-i", "x.data", "--sandbox", "--jobs", "3", "profile", "-f", "folded")
    assert.matches("spin_here", free.out, free.err)
    assert.equal(free.out, confined.out, confined.err)
    assert(os.execute(("cd %s && %s -O1 -o spin spin.c"):format(dir, cc)))
  end)

  it("removes the definitions of its probes", function()
    local r = perfl("--sandbox", "-e", "event { 'uprobe:libc:getenv', args = { 'name:string' }, "
      .. "sample = function(r, args) print(args.name) end }", "--", "/bin/ls", "/")
    assert.matches("LC_ALL", r.out, r.err)
    assert.is_nil((core.slurp "/sys/kernel/tracing/uprobe_events"):match("perfev_%d+_%d+/getenv"))
  end)

  it("is ended by a callback of records that does not return", function()
    local r = perfl("--sandbox=time=20ms", "-q", "-e",
      "event { 'task-clock:u', period = 100000, sample = function() while true do end end }", "--", "./spin")
    assert.equal(124, r.code)
    assert.matches("%-e:1: the script computed for more than 20 ms %(", r.err)
    assert.matches("the time limit of %-%-sandbox ended the run", r.err)
  end)

  it("ends its command also if the script does not stop", function()
    local r = perfl("--sandbox=time=20ms", "-q", "-e", "event { 'task-clock:u', period = 100000, "
      .. "sample = function() while true do pcall(function() while true do end end) end end }", "--", "./spin")
    assert.equal(124, r.code)
    assert.matches("20 ms %(%-%-sandbox%), and does not stop\n$", r.err)
  end)

  it("needs no rights", function()
    local r = run({ run.perfl, "--sandbox", "-q", "-e", SAMPLE, "--", "/bin/true" }, { user = "nobody", cwd = "/" })
    assert.same({ 0, "" }, { r.code, r.err })
  end)
end)

describe("every shipped script runs in the sandbox:", function()
  -- Words and a command for scripts that need them.
  local words = {
    annotate = { "main", "--", "true" }, flightrec = { "cpu-clock" }, funccount = { "syscalls:sys_enter_clo*" },
    funclatency = { "libc:getenv", "--", "true" }, growth = { "--", "true" }, memleak = { "--", "true" },
    latency = { "syscalls:sys_enter_close", "syscalls:sys_exit_close" }, sched = { "latency" },
    stat = { "--", "true" }, strace = { "true" }, tpoint = { "sched:sched_switch" },
    trace = { "syscalls:sys_enter_close" },
    slow = { "syscalls:sys_enter_close", "syscalls:sys_exit_close" },
    ulocks = { "--", "true" }, top = { "-I", "100ms" },
    watch = { "./writes:shared", "--", "./writes" },
    profile = { "-f", "folded" }, diff = { "before.folded", "after.folded" },
  }
  local dir

  setup(function()
    if why_not then return end
    dir = run.tempdir()
    run.write_file(dir .. "/writes.c", "int shared; int main(void) { *(volatile int *)&shared = 1; return 0; }\n")
    assert(os.execute(("cd %s && %s -g -o writes writes.c"):format(dir, cc)))
    run.write_file(dir .. "/before.folded", "a;b 1\n")
    run.write_file(dir .. "/after.folded", "a;b 2\na;c 1\n")
  end)
  teardown(function() if dir then run.remove(dir) end end)

  local function fits(name, sandboxed)
    local own = words[name] or {}
    local is_wide = not (table.concat(own, " "):find "%-%-" or name == "strace" or name == "diff")
    local list = { run.perfl, "-q" }
    if sandboxed then list[#list + 1] = "--sandbox" end
    if is_wide then table.move({ "-a", "-d", "60ms" }, 1, 3, #list + 1, list) end
    list[#list + 1] = name
    return run(table.move(own, 1, #own, #list + 1, list), { cwd = dir })
  end

  for path in run.capture("ls scripts/*.lua"):gmatch "[^\n]+" do
    local name = path:match "([^/]+)%.lua$"
    it(name, function()
      local r = fits(name, true)
      local free = r.code ~= 0 and fits(name)
      assert.equal(free and free.code or 0, r.code, r.err)
      assert.is_nil(r.err:match "[^\n]*%-%-sandbox[^\n]*", r.err)
      assert.is_nil(r.err:match "[^\n]*not available[^\n]*", r.err)
    end)
  end
end)
