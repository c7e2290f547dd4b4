-- Probes by source line, by the names of variables and by pattern, on the real kernel: programs whose calls and values
-- are known, compiled with and without optimization. Needs root and tracefs.

local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"

local TIMES = 200
local SOURCE = "spec/support/requests.c"
local DEFINED = "/sys/kernel/tracing/uprobe_events"

local cc = os.getenv "CC" or "gcc"
local why_not = not run.root and "not root"
  or not core.slurp "/sys/bus/event_source/devices/uprobe/type" and "no uprobe PMU in this kernel"
  or not core.slurp(DEFINED) and "no tracefs with uprobe_events"
  or not run.have(cc) and "no C compiler"
  or core.machine ~= "x86_64" and core.machine ~= "aarch64" and "no names of registers for this machine"

local dir
local levels = { "-O0", "-O2" }
local programs = {}

local function build(name, ...)
  local path = dir .. "/" .. name
  local r = run { cc, "-g", "-o", path, SOURCE, ... }
  assert(r.code == 0, r.err)
  return path
end

setup(function()
  if why_not then return end
  dir = run.tempdir()
  for _, level in ipairs(levels) do programs[level] = build("requests" .. level, level) end
end)
teardown(function() if dir then run.remove(dir) end end)

-- A spec for the program of each level.
local function on(what, test)
  for _, level in ipairs(levels) do
    it(("%s (%s)"):format(what, level), function()
      if why_not then return pending(why_not) end
      return test(programs[level], level)
    end)
  end
end

-- The number of the line that has a mark.
local function line_of(mark)
  local number = 0
  for line in io.lines(SOURCE) do
    number = number + 1
    if line:find("/* line: " .. mark .. " */", 1, true) then return number end
  end
  error("no line is marked " .. mark)
end

-- Runs the program with an event -> list of samples' arguments, names of their events
local function trace(program, event, args, opts)
  opts = opts or {}
  opts.command = { program, tostring(TIMES) }
  local s = perfev.session(opts)
  local seen, names = {}, {}
  local ev = s:event { event, args = args, sample = function(r, a)
    local copy = {}
    for name, value in pairs(a or {}) do copy[name] = value end
    seen[#seen + 1], names[#names + 1] = copy, r.event.name
  end }
  assert(s:run())
  assert.same({ exit = 0 }, s.command_status)
  for line in core.slurp(DEFINED):gmatch "[^\n]+" do
    assert.is_nil(line:find("perfev_" .. core.pid() .. "_", 1, true))
  end
  return seen, names, ev
end

local function count_right(seen, is_right)
  local n = 0
  for i, args in ipairs(seen) do n = n + (is_right(args, i - 1) and 1 or 0) end
  return n
end

describe("a probe with variables by name", function()
  on("reads parameters, members and globals correctly in 200 of 200 calls", function(program)
    local seen = trace(program, ("uprobe:%s:handle"):format(program), { "n", "req", "req.id", "req->len", "req->mode",
      "req->last", "req->level", "req->sizes[1]", "req->grid[1][2]", "req.inner", "owner=req->owner" })
    assert.equal(TIMES, #seen)
    assert.equal(TIMES, count_right(seen, function(a, i)
      return a.n == i and a.id == -i and a.len == 4000000000 + i and a.mode == (i % 2 == 0 and 7 or 1)
        and a.last == (i == TIMES - 1 and 1 or 0) and a.level == -5 and a.sizes_1 == 10 * i and a.grid_1_2 == -i
        and a.inner == 77 and a.owner == a.req and a.req ~= 0
    end))
  end)

  on("reads text in arrays and behind pointers, and members of members", function(program)
    local seen = trace(program, ("uprobe:%s:handle"):format(program), { "req.name", "req->path", "req->peer->port",
      "host=req.peer.host", "letter=req->path[1]", "text=req->name:string", "total" })
    assert.equal(TIMES, count_right(seen, function(a, i)
      return a.name == "req-" .. i and a.path == "/index" and a.port == 8080 and a.host == "example"
        and a.letter == ("i"):byte() and a.text == a.name and (i > 0 or a.total == 0)
    end))
  end)

  on("has the type of the return value", function(program)
    local seen = trace(program, ("uretprobe:%s:handle"):format(program), { "$retval" })
    assert.equal(TIMES, count_right(seen, function(a, i) return a.retval == 12 * i end))
    seen = trace(program, ("uretprobe:%s:ftp_name"):format(program), { "$retval" })
    assert.equal(TIMES, count_right(seen, function(a, i) return a.retval == (i == 0 and "zero" or "one") end))
  end)

  on("has the values of constants", function(program)
    local seen = trace(program, ("uprobe:%s:requests.c:%d"):format(program, line_of "scaled"),
      { "most", "least", "port" })
    assert.equal(TIMES, count_right(seen, function(a) return a.most == 200 and a.least == -3 and a.port == 40000 end))
  end)

  on("applies a filter to them in the kernel", function(program)
    local s = perfev.session { command = { program, tostring(TIMES) } }
    local n = 0
    s:event { ("uprobe:%s:handle"):format(program), args = { "req->sizes[1]" }, filter = "sizes_1 >= 1000",
      sample = function() n = n + 1 end }
    assert(s:run())
    assert.equal(TIMES - 100, n)
  end)

  on("reads those of a stripped program by its debug file", function(program)
    if not run.have "objcopy" then pending "no objcopy(1)" end
    local copy, debug = program .. ".stripped", program .. ".stripped.debug"
    finally(function() os.remove(debug) end)
    assert.equal(0, run({ "objcopy", "--only-keep-debug", program, debug }).code)
    assert.equal(0, run({ "objcopy", "--strip-all", "--add-gnu-debuglink=" .. debug, program, copy }).code)
    local seen = trace(copy, ("uprobe:%s:handle"):format(copy), { "n", "req->peer->host" })
    assert.equal(TIMES, count_right(seen, function(a, i) return a.n == i and a.host == "example" end))
    seen = trace(copy, ("uprobe:%s:http_*"):format(copy))
    assert.equal(2 * TIMES, #seen)
  end)

  it("takes a value in a register from the sample, without a name in tracefs, for whole CPUs", function()
    if why_not then return pending(why_not) end
    local program = programs["-O2"]
    local s = perfev.session { command = { program, tostring(TIMES) }, all_cpus = true }
    local right = 0
    s:event { ("uprobe:%s:handle"):format(program), args = { "n" }, sample = function(_, a)
      if a.n == right then right = right + 1 end
    end }
    assert(s:start())
    assert.is_nil(core.slurp(DEFINED):find("perfev_" .. core.pid() .. "_", 1, true))
    assert(s:run())
    assert.equal(TIMES, right)
  end)
end)

describe("a probe at a source line", function()
  on("hits each time the line runs", function(program)
    local seen = trace(program, ("uprobe:%s:requests.c:%d"):format(program, line_of "loop"), { "req->id" })
    assert.equal(2 * TIMES, #seen)
    assert.equal(2 * TIMES, count_right(seen, function(a, i) return a.id == -(i // 2) end))
  end)

  on("can be counted from the line of its function", function(program)
    local first = 0
    for line in io.lines(SOURCE) do
      first = first + 1
      if line:find "^SEPARATE long handle" then break end
    end
    local seen = trace(program, ("uprobe:%s:handle:%d"):format(program, line_of "loop" - first))
    assert.equal(2 * TIMES, #seen)
  end)

  on("is in each copy of an inlined function", function(program)
    local seen = trace(program, ("uprobe:%s:support/requests.c:%d"):format(program, line_of "inlined"), { "v" })
    assert.equal(2 * TIMES, #seen)
    assert.equal(2 * TIMES, count_right(seen, function(a, i) return a.v == i // 2 + i % 2 end))
  end)

  it("reads local variables of its block", function()
    if why_not then return pending(why_not) end
    local program = programs["-O0"]
    local seen = trace(program, ("uprobe:%s:requests.c:%d"):format(program, line_of "loop"), { "i", "sum", "n" })
    assert.equal(2 * TIMES, count_right(seen, function(a, k)
      local call, i = k // 2, k % 2
      return a.n == call and a.i == i and a.sum == call + 10 * call * i
    end))
  end)
end)

describe("a probe at a source line, without optimization", function()
  it("reads an array through its address in the frame", function()
    if why_not then return pending(why_not) end
    local program = programs["-O0"]
    local seen = trace(program, ("uprobe:%s:requests.c:%d"):format(program, line_of "repeated"), { "text", "n" })
    assert.equal(TIMES, count_right(seen, function(a, i) return a.text == ("x"):rep(i % 8) and a.n == i % 8 end))
  end)
end)

describe("a probe by pattern", function()
  on("is an event for each function, with its name", function(program)
    local seen, names, ev = trace(program, ("uprobe:%s:http_*"):format(program), { "a" })
    assert.equal(2 * TIMES, #seen)
    local counts = {}
    for i, name in ipairs(names) do
      counts[name] = (counts[name] or 0) + 1
      assert.equal((i - 1) // 2, seen[i].a)
    end
    assert.same({ [("uprobe:%s:http_get"):format(program)] = TIMES,
      [("uprobe:%s:http_post"):format(program)] = TIMES }, counts)
    assert.equal(2, #ev.members)
  end)

  on("returns from each function, and takes ? and [a-z]", function(program)
    local seen, names = trace(program, ("uretprobe:%s:[a-h]ttp_??t"):format(program))
    assert.equal(TIMES, #seen)
    assert.equal(("uretprobe:%s:http_get"):format(program), names[1])
  end)

  it("is counted by an aggregator, without a sample", function()
    if why_not then return pending(why_not) end
    local program = programs["-O2"]
    local r = run { run.perfl, "-e", ("event { 'uprobe:%s:http_*', sample = count { by = 'event' } }"):format(program),
      "--", program, "7" }
    assert.equal(0, r.code, r.err)
    assert.matches("http_get%s+7\n", r.out .. "\n")
    assert.matches("http_post%s+7\n", r.out .. "\n")
    assert.matches(("uprobe:%s:http_*: 2 functions\n"):format(program):gsub("[%-*]", "%%%0"), r.err)
  end)

  it("is counted by a counter", function()
    if why_not then return pending(why_not) end
    local program = programs["-O2"]
    local c = assert(perfev.counter { ("uprobe:%s:http_*"):format(program), command = { program, "7" } })
    assert(c:run())
    local counts = assert(c:read())
    for _, name in ipairs { "http_get", "http_post" } do
      assert.equal(7, counts[("uprobe:%s:%s"):format(program, name)])
    end
    c:close()
  end)

  it("is shown by an example", function()
    if why_not then return pending(why_not) end
    local r = run { run.perfl, "scripts/examples/uprobe_pattern.lua", "--", "id", "-u" }
    assert.equal(0, r.code, r.err)
    assert.matches("uprobe:libc:geteuid%s+%d+\n", r.out .. "\n")
  end)
end)
