-- The seam: Lua functions in the place of system calls.

local perfev = require "perfev"
local core = require "perfev.core"
local sim = require "perfev.sim"
local run = require "spec.support.run"

local hooks = perfev.hooks
local E = perfev.errno

after_each(function() hooks.clear() end)

local function nothing() end

local function answer(text)
  return { slurp = function() return text end }
end

describe("a hook", function()
  it("replaces its call from set() to clear()", function()
    hooks.set(answer "mine")
    assert.equal("mine", core.slurp "/proc/version")
    hooks.clear()
    assert.matches("^Linux version", core.slurp "/proc/version")
  end)

  it("missing in the table falls through to Linux", function()
    hooks.set { list = function() return { "a" } end }
    assert.matches("^Linux version", core.slurp "/proc/version")
    assert.same({ "a" }, core.list "/")
  end)

  it("missing in a strict table raises, with its name", function()
    hooks.set { strict = true }
    assert.error_matches(function() core.slurp "/proc/version" end,
      "no hook 'slurp' in a strict table of hooks")
  end)

  it("can be added and removed while the table is in force", function()
    local t = { strict = true }
    hooks.set(t)
    t.slurp = function() return "later" end
    assert.equal("later", core.slurp "x")
    t.slurp = nil
    assert.error(function() core.slurp "x" end)
  end)

  it("fails its call by returning nil and an errno", function()
    hooks.set { slurp = function() return nil, E.EIO end }
    local text, what, code = core.slurp "/some/file"
    assert.is_nil(text)
    assert.equal("/some/file", what)
    assert.equal(E.EIO, code)
  end)

  it("that raises makes its caller raise, and only that one", function()
    local value = { "any value" }
    hooks.set { slurp = function() error(value) end }
    local ok, raised = pcall(core.slurp, "x")
    assert.is_false(ok)
    assert.equal(value, raised)
    hooks.clear()
    assert.matches("^Linux", core.slurp "/proc/version")
  end)

  it("that returns a value of the wrong type raises, with its name", function()
    for name, case in pairs {
      slurp = { function() return {} end, function() return core.slurp "x" end },
      list = { function() return "x" end, function() return core.list "x" end },
      clock = { function() return "x" end, function() return core.clock(1) end },
      getpid = { function() return {} end, function() return core.pid() end },
      raise_nofile = { function() end, function() return core.raise_nofile() end },
    } do
      hooks.set { [name] = case[1] }
      assert.error_matches(case[2], "hook '" .. name .. "' returned", 1, false)
      hooks.clear()
    end
  end)

  it("can return signal 64, the highest bit of a set, from sigblock", function()
    local k = sim.new()
    hooks.set(k.hooks)
    do
      local s <close> = perfev.session { buffer = "8K" }
      s:event { "dummy" }
      s:signal("RTMAX", nothing)
      assert(s:start())
      assert.equal(math.mininteger, k.blocked & math.mininteger)
    end
    assert.equal(0, k.blocked)
  end)

  it("with an unknown name is refused, with the nearest name", function()
    assert.error_matches(function() hooks.set { slurps = print } end,
      "no hook is called 'slurps' %(did you mean 'slurp'%?%)")
    assert.error_matches(function() hooks.with({ [1] = print }, print) end, "no hook is called")
    assert.error(function() hooks.set() end)
    assert.matches("^Linux", core.slurp "/proc/version")
  end)

  it("can call the library again, even with another set of hooks", function()
    hooks.set { slurp = function(path)
      return hooks.with(answer("inner " .. path), function() return core.slurp "y" end)
    end }
    assert.equal("inner x", core.slurp "x")
  end)

  it("can delegate to Linux", function()
    local seen
    hooks.set { slurp = function(path)
      seen = path
      return hooks.real.slurp(path)
    end, clock = hooks.real.clock }
    assert.matches("^Linux", core.slurp "/proc/version")
    assert.equal("/proc/version", seen)
    assert.is_true(core.clock(1) > 0)
    assert.same({ nil, E.ENOENT }, { hooks.real.slurp "/no/such/file" })
    assert.same({ nil, E.EBADF }, { hooks.real.close(12345) })
  end)
end)

-- Each request's argument in Lua, and the possible answers of a hook.
describe("an ioctl hook", function()
  local k, seen
  before_each(function()
    k, seen = sim.new(), {}
    local ioctl = k.hooks.ioctl
    k.hooks.ioctl = function(fd, request, arg)
      seen[request] = { fd = fd, arg = arg }
      return ioctl(fd, request, arg)
    end
    hooks.set(k.hooks)
  end)

  -- Returns a counter with one member, and the member.
  local function open(spec)
    local c = assert(perfev.counter(spec))
    return c, c:member(c:names()[1])
  end

  it("receives a number where the kernel does: -1 is -1", function()
    local _ <close>, m = open { "cpu-clock", sample_period = 1000, inherit = false, tid = 1 }
    assert.is_true(m:refresh(3))
    assert.equal(3, seen.REFRESH.arg)
    assert.is_true(m:output())
    assert.equal(-1, seen.SET_OUTPUT.arg)
    m:pause_output(true)
    assert.equal(1, seen.PAUSE_OUTPUT.arg)
    m:bpf(30)
    assert.equal(30, seen.SET_BPF.arg)
  end)

  it("receives the value where the kernel receives a pointer to it", function()
    local _ <close>, m = open { "cpu-clock", sample_period = 1000, tid = 1 }
    assert.is_true(m:period(0x123456789abcdef0))
    assert.equal(0x123456789abcdef0, seen.PERIOD.arg)
    m:filter("a == 'b'")
    assert.equal("a == 'b'", seen.SET_FILTER.arg)
    assert.is_nil(seen.ID.arg)
  end)

  it("returns QUERY_BPF's ids as a list, and their number if there are more", function()
    local _ <close>, m = open { { type = 2, config = 5 }, tid = 1 }
    local answer_of = {}
    k.hooks.ioctl = function(_, request, room)
      assert.equal("QUERY_BPF", request)
      answer_of.room = room
      return answer_of.ids, answer_of.nr
    end
    answer_of.ids = { 7, 8, 9 }
    assert.same({ { 7, 8, 9 }, 3 }, { m:query_bpf(64) })
    assert.equal(64, answer_of.room)
    answer_of.ids = "many"
    assert.error_matches(function() m:query_bpf(64) end,
      "hook 'ioctl' returned string; expected a list of program ids, or nil and an errno")
  end)

  it("receives MODIFY_ATTRIBUTES' attr as an attr", function()
    local _ <close>, m = open { { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 8 }, tid = 1 }
    assert.is_true(m:modify { bp_addr = 0x2000 })
    assert.equal(0x2000, seen.MODIFY_ATTRIBUTES.arg.bp_addr)
    assert.equal(2, seen.MODIFY_ATTRIBUTES.arg.bp_type)
  end)
end)

describe("a perf_event_open hook", function()
  it("receives an attr, and its changes are visible to the caller", function()
    local k = sim.new { cpus = "0" }
    local open, period = k.hooks.perf_event_open, nil
    k.hooks.perf_event_open = function(attr, ...)
      period = period or attr.sample_period
      attr.sample_period = 77
      return open(attr, ...)
    end
    hooks.set(k.hooks)
    local s <close> = perfev.session { buffer = "8K" }
    local ev = s:event { "cpu-clock", period = 55 }
    assert(s:start())
    assert.equal(55, period)
    assert.equal(77, ev.attr.sample_period)
  end)

  it("can write the size that the kernel knows, as E2BIG does", function()
    local lines = {}
    hooks.set { perf_event_open = function(attr)
      if #lines > 0 then return nil, E.E2BIG end -- asked again, to find out why
      attr.size = 112
      lines[#lines + 1] = #attr:bytes() -- its fields are untouched
      lines[#lines + 1] = attr.size
      return nil, E.E2BIG
    end }
    local s = perfev.session { tid = { 1 }, cpus = { 0 } }
    s:event { "dummy" }
    local ok, _, errno = s:start()
    assert.is_nil(ok)
    assert.equal(E.E2BIG, errno)
    assert.same({ 96, 112 }, lines)
  end)

  it("can be called by an outer hook, which sees its changes to fields and size", function()
    local seen = {}
    local function under(attr)
      attr.sample_period = 9
      seen[#seen + 1] = attr.size -- of its present content
      attr.size = 80
      return nil, E.E2BIG
    end
    hooks.set { perf_event_open = function(attr, ...)
      if #seen > 0 then return nil, E.E2BIG end -- asked again, to find out why
      seen[#seen + 1] = attr.size
      local fd, errno = under(attr, ...)
      seen[#seen + 1], seen[#seen + 2] = attr.size, attr.sample_period
      return fd, errno
    end }
    local s = perfev.session { tid = { 1 }, cpus = { 0 } }
    s:event { "dummy" }
    s:start()
    assert.same({ 96, 96, 80, 9 }, seen)
  end)
end)

describe("hooks.real", function()
  local real = hooks.real

  it("has the Linux call for every hook", function()
    local k = sim.new()
    for name in pairs(k.hooks) do
      if name ~= "strict" then assert.is_function(real[name], name) end
    end
    for name in pairs(real) do assert.is_function(k.hooks[name], name) end
  end)

  it("has the parameters and results of a hook: files, clocks, descriptors", function()
    assert.matches("^Linux", real.slurp "/proc/version")
    assert.same({ nil, E.ENOENT }, { real.slurp "/no/such/file" })
    assert.same({ nil, E.ENOENT }, { real.list "/no/such/file" })
    local found = false
    for _, name in ipairs(real.list "/proc/self/task") do found = found or tonumber(name) == real.getpid() end
    assert.is_true(found)
    assert.matches("^/", real.readlink "/proc/self/exe")
    assert.equal(0x4000, real.stat("/proc/self/task").mode & 0xf000)
    assert.same(real.stat "/proc/self/exe", real.stat(real.readlink "/proc/self/exe"))
    assert.same({ nil, E.ENOENT }, { real.stat "/no/such/file" })
    assert.is_true(real.pagesize() >= 4096)
    assert.is_true(real.raise_nofile() > 0)
    assert.is_true(real.clock(1) > 0)
    assert.same({ nil, E.EBADF }, { real.close(12345) })
    assert.same({ nil, E.EBADF }, { real.read(12345, 8) })
    assert.same({ nil, E.EBADF }, { real.mmap(8192, 3, 12345, 0) })
    assert.same({ nil, E.EBADF }, { real.ioctl(12345, "ENABLE", 0) })
    assert.same({ nil, E.EBADF }, { real.ioctl(12345, "QUERY_BPF", 4) })
    assert.error_matches(function() real.ioctl(1, "ENABEL") end, "no such request")
    assert.error(function() real.munmap(hooks.memory(4096), 4096) end)
  end)

  it("writes files, whole and in parts, readable by their owner alone, and renames them", function()
    local path = os.tmpname()
    assert.equal(0, real.unlink(path))
    local fd = real.open(path, 0x02 | 0x40 | 0x80) -- O_RDWR | O_CREAT | O_EXCL
    assert.equal(6, real.writev(fd, "abcdef"))
    assert.equal(2, real.pwrite(fd, "XY", 1))
    assert.equal(0, real.ftruncate(fd, 5))
    assert.equal("aXYde", real.pread(fd, 9, 0))
    assert.equal(5, real.fstat(fd).size)
    assert.same(real.stat(path), real.fstat(fd))
    assert.equal(tonumber("0100600", 8), real.stat(path).mode)
    assert.equal(0, real.close(fd))
    assert.equal(0, real.rename(path, path .. ".new"))
    assert.same({ nil, E.ENOENT }, { real.unlink(path) })
    assert.equal(0, real.unlink(path .. ".new"))
    local epfd = real.epoll_create()
    assert.equal(0, real.fstat(epfd).mode & 0x8000) -- S_IFREG
    assert.equal(0, real.close(epfd))
    for _, name in ipairs { "writev", "pwrite", "ftruncate" } do
      assert.same({ nil, E.EBADF }, { real[name](12345, name == "ftruncate" and 1 or "x", 0) })
    end
    assert.same({ nil, E.EBADF }, { real.fstat(12345) })
  end)

  it("reads no counter without a mapped page, and refuses numbers beyond 32 bits", function()
    for _, counter in ipairs { 0, 1, 99, 1 << 30, -1 } do
      assert.same({ nil, E.EACCES }, { real.rdpmc(counter) })
    end
    assert.error_matches(function() real.close((1 << 32) + 1) end, "not in 32 bits")
    assert.error_matches(function() real.kill(1 << 40, 0) end, "not in 32 bits")
  end)

  it("waits for timers and children", function()
    local epfd, timer = real.epoll_create(), real.timerfd(1000, 0)
    assert.equal(0, real.epoll_ctl(epfd, 1, timer, 1, 42))
    assert.same({ { 1, 42 } }, real.epoll_wait(epfd, 8, 1000))
    assert.equal(string.pack("=I8", 1), real.read(timer, 8))
    assert.same({ nil, E.EAGAIN }, { real.read(timer, 8) })
    assert.same({}, real.epoll_wait(epfd, 8, 0))
    local pid, gate = real.spawn({ "sh", "-c", "exit 3" }, 0)
    local pidfd = real.pidfd_open(pid)
    assert.is_false(real.wait(pid, 0))
    assert.equal(0, real.release(gate))
    assert.equal(3 << 8, real.wait(pid, 1))
    assert.same({ nil, E.ESRCH }, { real.kill(pid, 15) })
    local set = 1 << 9 -- SIGUSR1
    local changed = real.sigblock(set, 1)
    local fd = real.signalfd(set)
    real.kill(real.getpid(), 10)
    assert.equal(10, (string.unpack("=I4", real.read(fd, 128))))
    assert.equal(changed, real.sigblock(changed, 0))
    for _, one in ipairs { epfd, timer, pidfd, fd } do assert.equal(0, real.close(one)) end
  end)

  it("changes nothing if its calls are set as hooks", function()
    local all = { strict = true }
    for name, f in pairs(real) do all[name] = f end
    local function refusal()
      local s <close> = perfev.session { tid = { 0x3fffff }, buffer = "8K" } -- above any pid_max
      s:event { "dummy" }
      return { s:start() }
    end
    assert.same(refusal(), hooks.with(all, refusal))
  end)
end)

describe("the list of system calls", function()
  local list = core.system_calls()

  local function read(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
  end

  local function names_of(t)
    local names = {}
    for name in pairs(t) do
      if name ~= "strict" then names[#names + 1] = name end
    end
    table.sort(names)
    return names
  end

  local listed = {}
  for _, call in ipairs(list) do listed[call.name] = true end

  it("has the hooks, the calls of hooks.real and those of a simulated kernel", function()
    assert.same(names_of(listed), names_of(hooks.real))
    assert.same(names_of(listed), names_of(perfev.sim.new().hooks))
    local all = { strict = true }
    for name in pairs(listed) do all[name] = nothing end
    hooks.set(all) -- refuses unknown names
    for name in pairs(listed) do
      assert.error_matches(function() hooks.set { [name .. "s"] = nothing } end,
        ("no hook is called '%ss' (did you mean '%s'?)"):format(name, name), 1, true)
    end
  end)

  it("is the only place in C that names a call, beside the Linux function and a converter", function()
    local named = {}
    for path in run.capture("find src -name '*.[ch]'"):gmatch "[^\n]+" do
      local file = path:match "[^/]+$"
      if file:find "^lsyscall" or file:find "^lhooks" or file:find "^lreal" then
        for word in read(path):gmatch '"([%w_]+)"' do named[#named + 1] = listed[word] and path .. ": " .. word end
      elseif file == "sys.c" then
        for word in read(path):gmatch "%.(%l[%w_]+) = linux_%l" do named[#named + 1] = path .. ": " .. word end
      end
    end
    assert.same({}, named)
  end)

  it("describes each call in one line", function()
    for _, call in ipairs(list) do
      assert.matches("^[%l`][^\n|]+[^.\n|]$", call.text, 1, false, call.name)
      assert.not_matches("[\n|]", call.returns, 1, false, call.name)
    end
  end)
end)

describe("hooks.with", function()
  it("is in force while the function runs, and returns its results", function()
    assert.same({ "mine", 2, nil, 4 }, { hooks.with(answer "mine", function(a, b)
      return core.slurp "x", a, b, 4
    end, 2, nil) })
    assert.matches("^Linux", core.slurp "/proc/version")
  end)

  it("is undone when the function raises, with the same error", function()
    local value = {}
    local ok, raised = pcall(hooks.with, answer "mine", function() error(value) end)
    assert.is_false(ok)
    assert.equal(value, raised)
    assert.matches("^Linux", core.slurp "/proc/version")
  end)

  it("can be nested, and restores the hooks in force before", function()
    hooks.set(answer "outer")
    hooks.with(answer "inner", function()
      assert.equal("inner", core.slurp "x")
      pcall(hooks.with, answer "third", error)
      assert.equal("inner", core.slurp "x")
    end)
    assert.equal("outer", core.slurp "x")
  end)

  it("removes hooks that the function set and left", function()
    hooks.with(answer "mine", function() hooks.set(answer "left") end)
    assert.matches("^Linux", core.slurp "/proc/version")
  end)
end)

describe("hooks.log", function()
  it("leaves core.hooked() as it is without the log", function()
    assert.is_nil(core.hooked())
    hooks.log(nothing)
    hooks.log(nothing)
    assert.is_nil(core.hooked())
    hooks.clear()
    hooks.set(answer "mine")
    local mine = core.hooked()
    assert.is_truthy(mine)
    hooks.log(nothing)
    assert.equal(mine, core.hooked())
  end)

  it("logs every call and its result until it is removed", function()
    local lines = {}
    hooks.log(function(text) lines[#lines + 1] = text end)
    core.slurp "/no/such/file"
    core.raise_nofile()
    hooks.log(nil)
    core.slurp "/no/such/file"
    assert.equal(2, #lines)
    assert.equal('slurp("/no/such/file") = -1 ENOENT', lines[1])
    assert.matches("^raise_nofile%(%) = %d+$", lines[2])
  end)

  it("logs the calls to a kernel that was set before", function()
    local lines = {}
    hooks.set(answer "mine")
    hooks.log(function(text) lines[#lines + 1] = text end)
    assert.equal("mine", core.slurp "x")
    assert.same({ 'slurp("x") = 0' }, lines)
    hooks.log(nil)
    assert.equal("mine", core.slurp "x")
  end)

  it("writes each parameter by its kind, and its name if a call has many", function()
    local k, first = perfev.sim.new { cpus = "0" }, {}
    hooks.set(k.hooks)
    hooks.log(function(text)
      local name = text:match "^[%w_]+" .. (text:match "ioctl%(%d+(, %u+)" or "")
      first[name] = first[name] or text
    end)
    do
      local s <close> = perfev.session { buffer = "8K", command = { "app", "word" } }
      s:event { "cpu-clock", period = 1000, sample = nothing }
      s:every("250ms", nothing)
      assert(s:start())
    end
    assert.matches("^perf_event_open%({type=1, size=%d+, config=0x0, sample_period=1000, .*}, pid=%d+, cpu=0, "
      .. "group_fd=%-1, flags=0x8%) = %d+$", first.perf_event_open)
    assert.matches("^mmap%(12288, prot=3, fd=%d+, offset=0%) = 0$", first.mmap)
    assert.matches("^epoll_ctl%(%d+, op=ADD, fd=%d+, events=0x1%) = 0$", first.epoll_ctl)
    assert.matches("^ioctl%(%d+, ID, %[[1-9]%d*%]%) = 0$", first["ioctl, ID"]) -- as the call left it
    assert.matches("^timerfd%((%d+) ns, %1 ns%) = %d+$", first.timerfd)
    assert.equal('spawn("app", 0x0) = 0', first.spawn)
    assert.is_nil(first.clock or first.pagesize) -- not system calls
  end)

  it("shortens long calls, and shows the result", function()
    local path, lines = "/" .. ("x"):rep(4000), {}
    hooks.set(answer "mine")
    hooks.log(function(text) lines[#lines + 1] = text end)
    assert.equal("mine", core.slurp(path))
    assert.matches('^slurp%("/xxx.*xxx%) = 0$', lines[1])
    assert.is_true(#lines[1] < 1536)
  end)

  it("raises the error of the log function", function()
    hooks.log(function() error("log's") end)
    assert.error_matches(function() core.slurp "/proc/version" end, "log's")
    hooks.log(nil)
    assert.matches("^Linux", core.slurp "/proc/version") -- and not once more
  end)
end)

describe("hooks.expect", function()
  -- Three calls of the library, one after the other.
  local function three()
    return core.slurp "/a", core.slurp "/b", core.clock(1)
  end

  it("accepts calls in the order of the list, and answers them", function()
    local e <close> = hooks.expect {
      { "slurp", "/a", returns = "first" },
      { "slurp", returns = function(path) return "of " .. path end },
      { "clock", function(id) return id == 1 end, returns = 77 },
    }
    assert.same({ "first", "of /b", 77 }, { hooks.with(e, three) })
    e:done()
  end)

  it("raises at the first call out of order, and names both calls", function()
    local e = hooks.expect { { "slurp", "/a", returns = "x" }, { "clock", 1 }, { "slurp", "/b" } }
    local ok, why = pcall(hooks.with, e, three)
    assert.is_false(ok)
    assert.equal('call 2 of 3: expected clock(1), got slurp("/b")', why)
    assert.error_matches(function() e:done() end, why, 1, true) -- even if it was swallowed
  end)

  it("raises if the arguments differ", function()
    for _, case in ipairs {
      { { "slurp", "/b" }, 'call 1 of 1: expected slurp("/b"), got slurp("/a")' },
      { { "slurp", function(path) return #path > 2 end }, 'call 1 of 1: expected slurp(...), got slurp("/a")' },
    } do
      local ok, why = pcall(hooks.with, hooks.expect { case[1] }, three)
      assert.is_false(ok)
      assert.equal(case[2], why)
    end
  end)

  it("raises at a call after the last", function()
    local ok, why = pcall(hooks.with, hooks.expect { { "slurp", returns = "x" } }, three)
    assert.is_false(ok)
    assert.equal('call 2 of 1: expected no more calls, got slurp("/b")', why)
  end)

  it("reports missing calls at done(), or at the end of its block", function()
    local e = hooks.expect { { "slurp", "/a", returns = "x" }, { "kill", 5, 15 }, { "close" } }
    hooks.with(e, core.slurp, "/a")
    local why = "call 2 of 3: missing: kill(5, 15), close()"
    assert.error_matches(function() e:done() end, why, 1, true)
    assert.error_matches(function() local _ <close> = hooks.expect { { "kill", 5, 15 }, { "close" } } end,
      "call 1 of 2: missing: kill(5, 15), close()", 1, true)
    -- an error that is on its way is not covered
    assert.error_matches(function()
      local _ <close> = hooks.expect { { "close" } }
      error("the spec's own")
    end, "the spec's own")
  end)

  it("fails a call with an errno, by number or name", function()
    local e <close> = hooks.expect { { "slurp", fails = "EIO" }, { "slurp", fails = E.EPERM } }
    hooks.with(e, function()
      assert.equal(E.EIO, (select(3, core.slurp "/a")))
      assert.equal(E.EPERM, (select(3, core.slurp "/b")))
    end)
  end)

  it("watches the named calls to a simulated kernel, and the named fields of an attr", function()
    local k = perfev.sim.new { cpus = "0" }
    local e <close> = hooks.expect({
      { "perf_event_open", { type = 1, config = 0, sample_period = 1000 }, -1, 0 },
      { "perf_event_open", { type = 1, config = 9, comm = true } },
      { "munmap" },
    }, k.hooks)
    hooks.with(e, function()
      local s <close> = perfev.session { buffer = "8K" }
      s:event { "cpu-clock", period = 1000, sample = function() end }
      assert(s:start())
    end)
    assert.same({}, k:leaks())
  end)

  it("shows the expected fields of an attr that differs", function()
    local k = perfev.sim.new { cpus = "0" }
    local e = hooks.expect({ { "perf_event_open", { type = 1, sample_period = 7 } } }, k.hooks)
    local ok, why = pcall(hooks.with, e, function()
      local s <close> = perfev.session { buffer = "8K" }
      s:event { "cpu-clock", period = 1000, sample = function() end }
      assert(s:start())
    end)
    assert.is_false(ok)
    assert.matches("call 1 of 1: expected perf_event_open({ sample_period = 7, type = 1 }), "
      .. "got perf_event_open({ sample_period = 1000, type = 1 }, -1, 0, -1, ", why, 1, true)
    assert.same({}, k:leaks()) -- its cleanup after that succeeded
  end)

  it("refuses an invalid list, with the nearest name", function()
    local function refused(calls, why, rest)
      assert.error_matches(function() hooks.expect(calls, rest) end, why, 1, true)
    end
    refused({ { "slurps" } }, "call 1: no hook is called 'slurps' (did you mean 'slurp'?)")
    refused({ { "slurp" }, {} }, "call 2: must be { name, arguments... }")
    refused({ { "slurp", fails = "ENONE" } }, "call 1: fails must be an errno or its name, not 'ENONE'")
    refused({ { "slurp", return_ = 5 } }, "call 1: unknown option 'return_' (did you mean 'returns'?)")
    refused("slurp", "expect: calls must be a list")
    refused({}, "expect: rest must be a table of hooks", 5)
  end)
end)

describe("a session", function()
  local k
  before_each(function()
    k = sim.new()
    hooks.set(k.hooks)
  end)

  local function new()
    local s = perfev.session { duration = "1s", command = { "x" } }
    s:event { type = 1, config = 0, comm = true, task = true, sample = function() end }
    s:every("100ms", function() end)
    return s
  end

  it("keeps the hooks that it was opened with", function()
    local s = new()
    assert(s:start())
    hooks.clear()
    s:close()
    assert.same({}, k:leaks())
  end)

  it("is opened on the hooks in force, not on earlier ones", function()
    local other = sim.new()
    hooks.set(other.hooks)
    local s = new()
    assert(s:start())
    assert.is_true(#other.log > 0)
    assert.equal(0, #k.log)
    s:close()
  end)

  for _, name in ipairs { "perf_event_open", "ioctl", "mmap", "epoll_create", "epoll_ctl", "epoll_wait", "clock",
    "timerfd", "slurp", "spawn", "release", "raise_nofile", "read", "munmap", "close", "wait", "kill", "pidfd_open" } do
    it("raises what its " .. name .. " hook raises, once, and releases everything", function()
      local call, raised = k.hooks[name], 0
      k.hooks[name] = function(...)
        raised = raised + 1
        if raised == 1 then error("from " .. name) end
        return call(...)
      end
      local ok, why
      do
        local s = new()
        ok, why = pcall(s.run, s)
      end
      assert.is_true(raised > 0)
      assert.is_false(ok)
      assert.matches("from " .. name, tostring(why))
      collectgarbage()
      collectgarbage()
      -- An object whose close raised is not closed.
      local kept = { munmap = true, close = true, wait = true, release = true }
      if not kept[name] then assert.same({}, k:leaks()) end
      hooks.clear()
      assert.matches("^Linux", core.slurp "/proc/version")
    end)
  end
end)

describe("hooks.memory", function()
  it("is zeroed, and is read and written within its bounds only", function()
    local m = hooks.memory(16)
    assert.equal(("\0"):rep(16), m:read(0, 16))
    m:write(8, "12345678")
    assert.equal("\0" .. "1234", m:read(7, 5))
    m:u64(0, -2)
    assert.equal(-2, m:u64(0))
    for _, f in ipairs {
      function() m:read(0, 17) end, function() m:read(16, 1) end, function() m:read(-1, 1) end,
      function() m:write(9, "12345678") end, function() m:u64(16) end, function() m:u64(4) end,
      function() m:read(math.maxinteger, 1) end, function() m:read(1, math.maxinteger) end,
      function() m:read(0, -1) end, function() hooks.memory(0) end, function() hooks.memory(-1) end,
    } do assert.error(f) end
    assert.equal("", m:read(16, 0))
  end)

  it("counts as memory of Lua, and needs no finalizer", function()
    local function with_it()
      local m = hooks.memory(1 << 24)
      return collectgarbage "count", m:read((1 << 24) - 1, 1)
    end
    local kib, last = with_it()
    assert.equal("\0", last)
    collectgarbage()
    assert.is_true(kib - collectgarbage "count" >= 1 << 14)
    assert.is_nil(debug.getmetatable(hooks.memory(1)).__gc)
  end)

  it("stays valid until the session that reads it is closed, even if Lua ends first", function()
    local r = run { run.perfl, "-q", "-e", [[
      local perfev = require "perfev"
      local k = perfev.sim.new { world = "vm", cpus = "0-1" }
      local munmap = k.hooks.munmap
      function k.hooks.munmap(memory, len)
        print("munmap", len, #memory:read(0, len))
        return munmap(memory, len)
      end
      perfev.hooks.set(k.hooks)
      local s = perfev.session { buffer = "4K" }
      s:event { "dummy" }
      assert(s:start())
      os.exit(3, true)
    ]] }
    assert.equal("munmap\t8192\t8192\nmunmap\t8192\t8192\n", r.out)
    assert.equal(3, r.code, r.err)
  end)

  it("that is too short for a mapping is refused", function()
    local k = sim.new()
    k.hooks.mmap = function() return hooks.memory(4096) end
    hooks.set(k.hooks)
    local s = perfev.session {}
    s:event { "dummy" }
    assert.error_matches(function() s:start() end, "hook 'mmap' returned")
  end)
end)
