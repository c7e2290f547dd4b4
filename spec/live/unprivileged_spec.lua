-- Actions that an unprivileged user may take, and the messages for the others: as the user "nobody" if run by root.

local core = require "perfev.core"
local run = require "spec.support.run"

local level = math.tointeger(tonumber((core.slurp "/proc/sys/kernel/perf_event_paranoid")))
local why_not = run.root and not run.capture "id -u nobody" and "no user nobody"
  or not level and "no perf events in this kernel"
  or level ~= 2 and "kernel.perf_event_paranoid is " .. level .. ", not 2"

local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

local function perfl(...)
  return run({ run.perfl, ... }, { user = run.root and "nobody" or nil, cwd = "/" })
end

-- Asserts the message's three parts and first line, and a status above 0.
local function refused(r, head, why, remedy)
  assert.equal(1, r.code, r.err)
  assert.equal("", r.out)
  local first, second, rest = r.err:match "^([^\n]+)\n  ([^\n]+)\n  (try: .+)$"
  assert.is_not_nil(first, r.err)
  assert.is_not_nil(first:find(head, 1, true), r.err)
  assert.matches(why, second)
  assert.matches(remedy, rest)
  assert.is_nil(r.err:find "traceback")
end

describe("an ordinary user", function()
  it("may watch the context switches of a command of their own", function()
    local r = perfl("-q", "-e", [[
      local n = 0
      event { switch = function(r) n = n + 1 end }
      done(function() print(n > 0) end)]], "--", "sleep", "0.05")
    assert.equal("true\n", r.out, r.err)
    assert.equal(0, r.code)
  end)

  it("may follow their command's comm, fork, exec and exit", function()
    local r = perfl("-q", "-e", [[
      local seen = {}
      local function see(r) seen[r.type] = true end
      event { comm = see, fork = see, exit = see, mmap = see }
      done(function() print(seen.comm, seen.fork, seen.exit, seen.mmap or seen.mmap2) end)]],
      "--", "sh", "-c", "true; /bin/true; true")
    assert.equal("true\ttrue\ttrue\ttrue\n", r.out, r.err)
  end)

  it("may sample their own process, only the user side, with a message", function()
    local r = perfl("-e", [[
      local n = 0
      event { "task-clock", freq = 1000, sample = function(r)
        n = n + (r.cpumode == "user" and 1 or 0)
        return n == 0
      end }
      done(function() print(n > 0) end)]], "--", "sh", "-c", "while :; do :; done")
    assert.equal("true\n", r.out, r.err)
    assert.is_true(r.code == 143 or r.code == 137, r.code) -- SIGTERM ended it, or SIGKILL a second later
    assert.matches("task%-clock: user side only %(:u%), because kernel.perf_event_paranoid is 2", r.err)
  end)

  it("gets no message if the event already names the user side", function()
    local r = perfl("-q", "-e", [[event { "task-clock:u", freq = 1000, sample = function() end }]],
      "--", "sh", "-c", "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done")
    assert.equal("", r.err)
    assert.equal(0, r.code)
  end)

  it("gets a ring as large as may be locked, with a message", function()
    local r = perfl("-v", "-m", "64M", "-e", "event { switch = function() end }", "--", "true")
    assert.equal(0, r.code, r.err)
    assert.matches("ring on cpu 0: %d+ KiB instead of 65536 KiB", r.err)
  end)

  it("may not watch the whole machine, and gets the cause and a remedy", function()
    refused(perfl("-q", "-a", "-d", "1s", "-e", "event { 'cpu-clock', sample = function() end }"),
      "cannot open cpu-clock on cpu 0: Permission denied (EACCES)",
      "^kernel.perf_event_paranoid is 2; watching a whole CPU needs 0 or CAP_PERFMON$",
      "^try: sudo setcap cap_perfmon.*\n.*perf_event_paranoid=0.*%-%- COMMAND")
  end)

  it("may not see the kernel's side, and gets the cause and a remedy", function()
    refused(perfl("-q", "-e", "event { 'task-clock:k', sample = function() end }", "--", "true"),
      "cannot open task-clock:k for pid",
      "perf_event_paranoid is 2; watching the kernel side needs 1 or CAP_PERFMON", "^try: sudo setcap")
  end)

  it("may not watch another user's process, and gets the cause and a remedy", function()
    refused(perfl("-q", "-p", "1", "-d", "1s", "-e", "event { 'task-clock:u', sample = function() end }"),
      "cannot open task-clock:u for pid 1 on cpu 0: Permission denied (EACCES)", "the user with uid 0",
      "^try: run as that user or as root")
  end)

  it("may not read tracefs, and gets a remedy", function()
    local mode = run.capture "stat -c %a /sys/kernel/tracing 2>/dev/null"
    if not mode or mode:sub(-1) ~= "0" then pending("tracefs is open to all, or not there") end
    local r = perfl("-q", "-e", "event { 'sched:sched_switch', sample = function() end }", "--", "true")
    assert.equal(1, r.code)
    assert.matches("tracepoint 'sched:sched_switch': .*cannot be read by this user\n  try: .*as root", r.err)
  end)

  it("may not open a tracepoint by number without rights, and gets the cause", function()
    local id = core.slurp "/sys/kernel/tracing/events/sched/sched_switch/id"
    if not id then pending "no tracefs" end
    refused(perfl("-q", "-e", ("event { '%d', sample = function() end }"):format(id), "--", "true"),
      "Permission denied (EACCES)", "a tracepoint's payload needs %-1 or CAP_PERFMON", "^try: sudo setcap")
  end)

  -- Kernels differ in the parts of the event that must be omitted for this.
  it("may profile their own command, with stacks", function()
    local r = perfl("profile", "--event", "page-faults:u", "-F", "0", "-f", "folded", "--", "true")
    assert.equal(0, r.code, r.err)
    assert.matches("%f[%w]true;[^\n]+ %d+\n", r.out)
  end)

  it("may count their own command's events on the user side", function()
    local r = perfl("-q", "-e", [[
      local c = counter { "page-faults:u", "task-clock:u" }
      done(function() local v = c:read() print(v["page-faults:u"] > 0, v["task-clock:u"] > 0) end)]], "--", "true")
    assert.equal("true\ttrue\n", r.out, r.err)
  end)

  it("sees in the doctor their rights, the missing ones, and that the default job runs", function()
    local r = perfl("doctor")
    assert.equal(0, r.code, r.out .. r.err)
    assert.matches("own processes, user side%s+✔%s+✔%s+✔\n", r.out)
    assert.matches("own processes, kernel side%s+✔%s+✔%s+✘  paranoid 2, needs 1\n", r.out)
    assert.matches("whole CPUs %(%-a%)%s+✔%s+✔%s+✘  paranoid 2, needs 0\n", r.out)
    assert.matches("\n  fix: sudo setcap cap_perfmon", r.out)
    assert.matches("✔ default job", r.out)
    for line in r.out:gmatch "[^\n]+" do assert.is_true(utf8.len(line) <= 80, line) end
  end)

  it("continues without a forbidden optional event, and can query the cause", function()
    local r = perfl("-q", "-e", [[
      local e = event { "task-clock:k", optional = true, sample = function() end }
      event { switch = function() end }
      done(function() print(e.error:match("^[^\n]*\n  ([^\n;]*)")) end)]], "--", "true")
    assert.equal("kernel.perf_event_paranoid is 2\n", r.out, r.err)
    assert.equal(0, r.code)
  end)

  -- The same holds for set-uid programs: the kernel removes the events at the exec, while the program runs on.
  it("may not watch a program that they may not read, and the program runs to its end", function()
    local dir <close> = setmetatable({ path = run.tempdir() }, { __close = function(self) run.remove(self.path) end })
    assert(os.execute(("cp $(command -v sleep) %s/nap && chmod 711 %s && chmod 111 %s/nap"):format(dir.path, dir.path,
      dir.path)))
    local r = perfl("-q", "-e", "event { switch = function() end }", "--", dir.path .. "/nap", "0.2")
    assert.equal(0, r.code, r.err)
  end)

  it("as root of a user namespace runs scripts of the machine's root, but not vice versa", function()
    local dir <close> = setmetatable({ path = run.tempdir() }, { __close = function(self) run.remove(self.path) end })
    local path = dir.path .. "/any.lua"
    if not run.root then pending "not root" end
    assert(os.execute(("chmod 711 %s; echo 'print(1)' > %s && chmod 644 %s"):format(dir.path, path, path)))
    local function ran(user)
      local r = run({ "unshare", "--user", "--map-root-user", run.perfl, path }, { user = user, cwd = "/" })
      return r.code, r.out, r.err
    end
    local code, out, err = ran "nobody"
    if err:find "unshare" then pending "no user namespaces" end
    assert.same({ 0, "1\n" }, { code, out }, err)
    assert(os.execute("chown nobody " .. path))
    assert.matches("will not run .* it belongs to user", select(3, ran()))
  end)

  it("receives their command's status nevertheless", function()
    for status, line in pairs { [0] = "exit 0", [7] = "exit 7", [143] = "kill $$" } do
      local r = perfl("-q", "-e", "event { switch = function() end }", "--", "sh", "-c", line)
      assert.equal(status, r.code, r.err)
    end
  end)
end)
