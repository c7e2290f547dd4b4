-- A process that forks, and a second lua_State: which of them owns the events. Each case is a separate script, so that
-- the spec runner does not fork.

local process = require "spec.support.process"
local run = require "spec.support.run"

local dir, library, why_not

setup(function()
  dir = run.tempdir()
  library, why_not = process.build(dir)
end)
teardown(function() run.remove(dir) end)

-- Returns the output of the script, run by perfl, which has the core linked in.
local function says(program)
  if not library then pending(why_not) end
  local path = run.write_file(dir .. "/script.lua", ([[
    local perfev = require "perfev"
    local process = assert(package.loadlib(%q, "luaopen_process"))()
    local function must(v, why) if not v then print("cannot: " .. why) os.exit(0) end return v end
  ]]):format(library) .. program)
  local r = run({ run.perfl, path })
  local reason = r.out:match "^cannot: ([^\n]+)"
  if reason then pending(reason) end
  assert.equal("", r.err)
  assert.equal(0, r.code, r.signal)
  return r.out
end

local counting = [[
  local c = must(perfev.counter { "page-faults", tid = "self", inherit = false })
  local function touch()
    local real = perfev.hooks.real
    local fd, page = assert(real.open("/dev/zero", 2)), real.pagesize()
    local memory = assert(real.mmap(400 * page, 3, fd, 0))
    for i = 0, 399 do memory:u64(i * page, 1) end
    real.munmap(memory, 400 * page)
    real.close(fd)
  end
]]

local ends = {
  ["os.exit()"] = "os.exit(0)",
  ["os.exit() with the state closed"] = "os.exit(0, true)",
  ["a collection"] = "c, s = nil, nil collectgarbage() collectgarbage() os.exit(0)",
  ["close()"] = "(s or c):close() os.exit(0)",
}

for name, leave in pairs(ends) do
  describe("a forked process that ends by " .. name .. "", function()
    it("leaves the parent's counter counting", function()
      assert.equal("0\ntrue\n", says(counting .. [[
        local pid = process.fork()
        if pid == 0 then ]] .. leave .. [[ end
        print(process.wait(pid))
        local before = c:read()["page-faults"]
        local kept = touch()
        print(c:read()["page-faults"] - before >= 100)
        c:close()]]))
    end)

    -- sh renames itself once by exec, and each of its nine children once.
    it("in a callback leaves the parent every record, its command and their order", function()
      assert.equal("0\n10\n3\n0\t0\n", says([[
        local c
        local s = perfev.session { command = { "sh", "-c",
          "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exit 3" } }
        local n, pid = 0, nil
        must(s:event { comm = function(r)
          if not r.exec then return end
          n = n + 1
          if n > 1 then return end
          pid = process.fork()
          if pid == 0 then ]] .. leave .. [[ end
          print(process.wait(pid))
        end })
        must(s:run())
        print(n)
        print(s.command_status.exit)
        local stats = s:totals()
        print(stats.lost, stats.late)]]))
    end)
  end)
end

describe("in a forked process", function()
  it("a counter is refused, but can be closed", function()
    local out = says(counting .. [[
      local pid = process.fork()
      if pid == 0 then
        for _, f in ipairs { "read", "delta", "disable", "enable", "reset" } do
          print(select(2, pcall(c[f], c)))
        end
        c:close()
        c:close()
        os.exit(0)
      end
      print(process.wait(pid))
      c:close()]])
    local _, refusals = out:gsub("the counter is the parent's: this process was forked since\n", "")
    assert.equal(5, refusals, out)
    assert.matches("\n0\n$", out)
  end)

  it("a session is refused, its record too, and returning from the callback has no effect", function()
    local out = says [[
      local s = perfev.session { command = { "sh", "-c", "/bin/true; /bin/true" } }
      local pid, n = nil, 0
      must(s:event { comm = function(r)
        n = n + 1
        if n > 1 then return end
        pid = process.fork()
        if pid ~= 0 then return end
        print((select(2, pcall(function() return r.comm end))))
        print((select(2, pcall(s.totals, s))))
      end })
      local ok, why = s:run()
      if pid == 0 then
        print(n, ok, why)
        print(s:close())
        os.exit(0, true)
      end
      print(ok, why)
      print(process.wait(pid))]]
    assert.equal([[
record used in a process forked since; fork with r:copy()
the session is the parent's: this process was forked since
1	nil	session: it was started before fork(), and is the parent process's

true	nil
0
]], (out:gsub("[%w/._]+:%d+: ", "")))
  end)

  it("a session with a running command ends in the child, and continues in the parent", function()
    assert.equal("nil\tsession: it was started before fork(), and is the parent process's\ntrue\tnil\n0\n", says [[
      local s = perfev.session { command = { "sleep", "1000" } }
      local pid
      must(s:event { comm = function()
        pid = process.fork()
        return pid == 0
      end })
      local ok, why = s:run()
      print(ok, why)
      if pid == 0 then os.exit(0, true) end
      print(process.wait(pid))]])
  end)

  it("a session can be opened anew", function()
    assert.equal("true\n0\ntrue\n", says [[
      local function one()
        local s = perfev.session { command = { "true" } }
        local n = 0
        must(s:event { comm = function() n = n + 1 end })
        assert(s:run())
        return n > 0
      end
      local s = perfev.session { tid = "self" }
      must(s:event { "dummy", comm = function() end })
      must(s:start())
      local pid = process.fork()
      if pid == 0 then
        print(one())
        os.exit(0, true)
      end
      print(process.wait(pid))
      s:close()
      print(one())]])
  end)

  it("a held command cannot be started or killed by the child", function()
    assert.equal("0\n5\n", says [[
      local c = must(perfev.counter { "page-faults", command = { "sh", "-c", "exit 5" } })
      local pid = process.fork()
      if pid == 0 then
        local ok, why = pcall(c.start, c)
        os.exit(not ok and why:find("the parent's", 1, true) and 0 or 1, true)
      end
      print(process.wait(pid))
      print(c:run().exit)]])
  end)
end)

describe("a program that starts while events are open", function()
  it("does not inherit their descriptors", function()
    local out = says [[
      local s = perfev.session { all_cpus = true }
      must(s:event { "dummy", comm = function() end })
      s:every("1s", function() end)
      s:signal("USR1", function() end)
      must(s:start())
      local c = must(perfev.counter { "page-faults", tid = "self" })
      local pipe = io.popen "ls -l /proc/self/fd"
      print(pipe:read "a")
      pipe:close()
      os.execute "ls -l /proc/self/fd"
      s:close()
      c:close()]]
    assert.matches("%d %->", out)
    assert.not_matches("anon_inode", out)
  end)
end)

describe("a session's descriptor", function()
  it("works in any event loop: it becomes readable when dispatching is worthwhile", function()
    assert.equal("false\ntrue\ntrue\n", says [[
      local s = perfev.session { command = { "true" } }
      local n = 0
      must(s:event { comm = function() n = n + 1 end })
      s:begin(function() print(process.poll(s:fd(), 0)) end)
      must(s:start())
      print(process.poll(s:fd(), 10000))
      repeat
        process.poll(s:fd(), 10000)
        local _, on = s:dispatch()
      until not on
      print(n > 0)]])
  end)

  it("is only a number in another lua_State, which has sessions of its own", function()
    assert.equal("true\ntrue\n", says [[
      local s = perfev.session { command = { "true" } }
      local n = 0
      must(s:event { comm = function() n = n + 1 end })
      must(s:start())
      print(process.state("local fd = ... return process.poll(fd, 10000)", s:fd()))
      while select(2, s:dispatch()) do process.poll(s:fd(), 10000) end
      print(n > 0)]])
  end)
end)
