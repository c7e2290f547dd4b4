-- perfl with file capabilities, run by an unprivileged user: the user's script must not get the capabilities.

local run = require "spec.support.run"

local CAPABILITIES = "cap_perfmon,cap_sys_ptrace,cap_syslog"

local why_not = not run.root and "not root: only root sets file capabilities"
  or run.sanitized and "AddressSanitizer does not run with file capabilities"
  or not run.have "setcap" and "no setcap(8)"
  or not run.capture "id -u nobody" and "no user nobody"

local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

-- A directory that root alone may write, up to /: perfl loads its own modules from no other.
local function new_directory()
  return assert(run.capture "d=$(mktemp -d /usr/local/lib/perfev-spec.XXXXXX) && chmod 755 \"$d\" && echo \"$d\"")
end

-- perfl and its modules -> true | nil: this file system has no file capabilities, or is mounted nosuid
local function install(dir)
  local build = run.perfl:match "^(.*)/"
  assert(os.execute(("cp %s %s/perfl && cp -R %s/perfev %s/perfev"):format(
    run.quote(run.perfl), dir, run.quote(build), dir)))
  if not os.execute(("setcap %s=ep %s/perfl 2>/dev/null"):format(CAPABILITIES, dir)) then return nil end
  local permitted = "print(io.open('/proc/self/status'):read('a'):match 'CapPrm:%s*(%x+)')"
  local r = run({ dir .. "/perfl", "-q", "-e", permitted }, { user = "nobody", cwd = "/" })
  return tonumber(r.out, 16) ~= 0 or nil
end

describe("perfl with file capabilities, run by an ordinary user,", function()
  local dir, perfl, library

  setup(function()
    if why_not then return end
    dir = new_directory()
    perfl = dir .. "/perfl"
    if not install(dir) then why_not = "/usr/local/lib gives programs no file capabilities" end
    library = run.tempdir()
    run.write_file(library .. "/own.c", "int luaopen_own(void *L) { (void)L; return 0; }\n")
    assert(os.execute(("cc -shared -fPIC -o %s/own.so %s/own.c"):format(library, library)))
  end)

  teardown(function()
    if dir then os.execute("rm -rf -- " .. run.quote(dir)) end
    if library then run.remove(library) end
  end)

  local function as_nobody(...)
    return run({ perfl, ... }, { user = "nobody", cwd = "/" })
  end

  -- Returns the output of a script, one line a statement.
  local function printed(script)
    local r = as_nobody("-q", "-e", script)
    assert.equal(0, r.code, r.err)
    return r.out
  end

  it("watches every process of the machine", function()
    local r = as_nobody("-a", "-e", [[
      local sleep = false
      event { comm = function(r) if r.comm == "sleep" then sleep = true end end }
      done(function() print(sleep) end)]], "--", "sleep", "0")
    assert.equal("true\n", r.out, r.err)
    assert.equal(0, r.code, r.err)
  end)

  it("loads no native code except perfev's own", function()
    assert.equal("nil\n", printed "print(package.loadlib)")
    assert.equal("false\n", printed(("package.cpath = '%s/?.so' print((pcall(require, 'own')))"):format(library)))
    assert.equal("false\n", printed(("package.path = '%s/?.so' print((pcall(require, 'own')))"):format(library)))
    local r = run({ perfl, "-q", "-e", "print((pcall(require, 'own')))" },
      { user = "nobody", cwd = "/", env = { LUA_CPATH = library .. "/?.so", LUA_CPATH_5_4 = library .. "/?.so" } })
    assert.equal("false\n", r.out, r.err)
    assert.equal("table\n", printed "print(type(require 'perfev.elf'))")
  end)

  it("loads perfev's own modules only from a place that root alone may write", function()
    local copy = run.tempdir()
    finally(function() run.remove(copy) end)
    assert(os.execute(("cp -a %s/. %s && setcap %s=ep %s/perfl"):format(dir, copy, CAPABILITIES, copy)))
    local r = run({ copy .. "/perfl", "-q", "-e", "print(select(2, pcall(require, 'perfev.elf')))" },
      { user = "nobody", cwd = "/" })
    assert.matches("not trusted", r.out, r.err)
  end)

  it("keeps a script from the registry, from upvalues and locals of perfl's functions, and from metatables", function()
    assert.equal("getinfo traceback\n", printed [[
      local names = {}
      for name in pairs(debug) do names[#names + 1] = name end
      table.sort(names)
      print(table.concat(names, " "))]])
    assert.equal("nil\t1\n", printed [[
      local found = debug.getinfo(1, "lf")
      print(found.func, found.currentline)]])
    assert.equal("true\n", printed "print(package.loaded.debug == debug)")
  end)

  it("has no capability in effect while a script runs", function()
    local status = printed [[
      for line in io.lines "/proc/self/status" do
        if line:find "^CapEff" or line:find "^CapInh" or line:find "^CapAmb" then print(line) end
      end]]
    assert.equal(("CapInh:\tN\nCapEff:\tN\nCapAmb:\tN\n"):gsub("N", ("0"):rep(16)), status)
  end)

  it("opens for a script only files that the user may open, and no files of other processes", function()
    local secret = run.tempdir() .. "/secret"
    finally(function() run.remove(secret:match "^(.*)/") end)
    assert(os.execute(("echo secret > %s && chmod 600 %s"):format(secret, secret)))
    local held <close> = setmetatable({ pipe = assert(io.popen("exec sleep 600 & echo $!; exec 1>&-; wait", "r")) },
      { __close = function(self)
        os.execute(("kill %s 2>/dev/null"):format(self.pid))
        self.pipe:close()
      end })
    held.pid = held.pipe:read "n"
    for _, path in ipairs { secret, "/etc/shadow", ("/proc/%d/mem"):format(held.pid),
      ("/proc/%d/environ"):format(held.pid), ("/proc/%d/maps"):format(held.pid), "/proc/self/mem" } do
      local found = printed(("print(io.open(%q, 'r'), io.open(%q, 'r+'))"):format(path, path))
      assert.matches("^nil\tnil\t", found, path)
    end
    for _, name in ipairs { "mem", "environ", "auxv", "task/../mem", "root/etc/shadow", "fd/0",
      ("root/proc/%d/environ"):format(held.pid), "root/proc/1/environ" } do
      local path = ("/proc/%d/%s"):format(held.pid, name)
      assert.equal("nil\n", printed(("print((require 'perfev.core'.slurp %q))"):format(path)), path)
    end
    -- perfl uses the capabilities to read the sources of names.
    assert.equal("true\n",
      printed(("print(#require 'perfev.core'.slurp('/proc/%d/maps') > 0)"):format(held.pid)))
  end)

  it("reads below another process's root only the user's readable files and links inside", function()
    local below = new_directory()
    local held <close> = setmetatable({ pipe = assert(io.popen((
      "cd %s && mkdir tmp secret && echo inside > tmp/file && ln -s /tmp/file link && echo secret > secret/file && "
      .. "chmod 700 secret && echo 'int pause(void); int main(void) { return pause(); }' | "
      .. "cc -static -x c - -o hold && { chroot . /hold & echo $!; exec 1>&-; wait; }"):format(below))) },
      { __close = function(self)
        os.execute(("kill %s 2>/dev/null"):format(self.pid))
        self.pipe:close()
        os.execute("rm -rf -- " .. below)
      end })
    held.pid = held.pipe:read "n"
    assert(os.execute(("until [ $(readlink /proc/%d/root) = %s ]; do :; done"):format(held.pid, below)))
    for path, text in pairs { link = "inside\n", ["tmp/file"] = "inside\n", ["secret/file"] = "nil" } do
      path = ("/proc/%d/root/%s"):format(held.pid, path)
      assert.equal(text .. "\n", printed(("print((require 'perfev.core'.slurp %q))"):format(path)), path)
    end
  end)

  it("passes no capability to a command", function()
    local r = as_nobody("-q", "-e", "done(function() end)", "-a", "--", "sh", "-c", "grep CapPrm /proc/self/status")
    assert.equal("CapPrm:\t" .. ("0"):rep(16) .. "\n", r.out, r.err)
  end)

  it("keeps only the capabilities for names of addresses after the events are open", function()
    local script = [[
      local function permitted()
        return io.open("/proc/self/status"):read("a"):match "CapPrm:%s*(%x+)"
      end
      event { "cpu-clock", freq = 1000, callchain = arg[1] == "names", sample = function()
        print(permitted())
        local c, why = perfev.counter { "cpu-clock", cpus = { 0 } }
        print(c, (why:match "\n  ([^\n]*)"))
        return false
      end }]]
    local refused = "nil\tperfl dropped its file capabilities when the session had opened its events\n"
    local r = as_nobody("-q", "-a", "-e", script)
    assert.equal(("0"):rep(16) .. "\n" .. refused, r.out, r.err)
    r = as_nobody("-q", "-a", "-e", (script:gsub('arg%[1%] == "names"', "true")))
    assert.equal("0000000400080000\n" .. refused, r.out, r.err)
  end)

  it("refuses hooks that could replace kernel calls, except on the simulated kernel", function()
    for _, verb in ipairs { "set({})", "with({}, print)" } do
      assert.matches("^false\t[^\n]*hooks%.%l+: not available while perfl has file capabilities\n",
        printed("print(pcall(function() perfev.hooks." .. verb .. " end))"))
    end
    local r = as_nobody("--sim", "vm", "-e", "event { 'cpu-clock', freq = 99, sample = print }", "-a", "-d", "1s")
    assert.equal(0, r.code, r.err)
  end)

  it("runs no script that another user could have written", function()
    local path = library .. "/other.lua"
    assert(os.execute(("echo 'print(1)' > %s && chown 1 %s && chmod 644 %s"):format(path, path, path)))
    local r = as_nobody("-q", path)
    assert.equal("", r.out)
    assert.equal(("perfl: will not run '%s' with perfl's capabilities: it belongs to user 1\n"
      .. "  try: perfl --i-trust-this '%s'\n"):format(path, path), r.err)
    -- SUDO_UID is the user's to set.
    r = run({ perfl, "-q", path }, { user = "nobody", cwd = "/", env = { SUDO_UID = "1" } })
    assert.equal("", r.out)
    r = as_nobody("-q", "--i-trust-this", path)
    assert.equal("1\n", r.out, r.err)
  end)
end)
