-- Early events on the real kernel.

local perfdata = require "perfev.perfdata.reader"
local run = require "spec.support.run"

local EVENT = "sched:sched_process_exec"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function on(what, test)
  it(what, function()
    if not run.root then return pending "tracepoints need root" end
    if not run.slurp "/sys/kernel/tracing/events/sched/sched_switch/id" then return pending "no tracefs is mounted" end
    return test()
  end)
end

describe("an early event", function()
  -- The early callback reads the command line of a program that waits for it, lets it end, and waits for that.
  on("keeps a fact that is gone when the record is delivered in the order of time", function()
    assert.equal(0, run({ "sh", "-c", ("cp $(command -v cat) %s/held && mkfifo %s/fifo"):format(dir, dir) }).code)
    local script = run.write_file(dir .. "/script.lua", ([[
      local perfev = require "perfev"
      local fact
      local function command_line(pid)
        local file <close> = io.open(("/proc/%%d/cmdline"):format(pid))
        local text = file and file:read "a"
        return text and text ~= "" and text or nil
      end
      perfev.event { "sched:sched_process_exec", early = true, sample = function(r, args)
        if not args.filename:find "/held$" then return end
        fact = command_line(r.pid)
        io.open("%s/fifo", "w"):close()
        repeat until not command_line(r.pid)
      end }
      perfev.event { "sched:sched_process_exec", sample = function(r, args)
        if args.filename:find "/held$" then print(fact:gsub("%%z", " "), command_line(r.pid) or "gone") end
      end }]]):format(dir))
    local r = run { run.perfl, "-q", script, "--", "sh", "-c", ("%s/held %s/fifo; :"):format(dir, dir) }
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(("%s/held %s/fifo \tgone\n"):format(dir, dir), r.out)
  end)

  on("is not recorded; in a replay it is left out, and its twin gets each record once", function()
    local path = dir .. "/recorded.data"
    local script = run.write_file(dir .. "/twins.lua", ([[
      local perfev = require "perfev"
      local n = { early = 0, ordered = 0 }
      local function count(what) return function() n[what] = n[what] + 1 end end
      local ev = perfev.event { "%s", early = true, sample = count "early" }
      perfev.event { "%s", sample = count "ordered" }
      perfev.done(function() print(n.early, n.ordered, ev.error) end)]]):format(EVENT, EVENT))
    local live = run { run.perfl, "-q", "--record", path, script, "--", "sh", "-c", "/bin/true; /bin/true; :" }
    assert.same({ 0, "3\t3\tnil\n" }, { live.code, live.out }, live.err)
    local replayed = run { run.perfl, "-q", "-i", path, script }
    assert.equal(("0\t3\tevent '%s': a recording has no early events\n"):format(EVENT), replayed.out)
    local rec = assert(perfdata.open(path))
    local nr = 0
    for _, recorded in ipairs(rec.events) do nr = nr + (recorded.name == EVENT and 1 or 0) end
    rec:close()
    assert.equal(1, nr)
  end)

  on("takes records without loss or lateness beside an ordered one", function()
    local r = run { run.perfl, "-e", [[
      local n = { early = 0, ordered = 0 }
      for _, what in ipairs { "early", "ordered" } do
        event { "raw_syscalls:sys_enter", early = what == "early", sample = function() n[what] = n[what] + 1 end }
      end
      done(function() print(n.early - n.ordered, n.early >= 30) end)]], "--", "ls", "/usr/bin" }
    assert.matches("\n0\ttrue\n$", "\n" .. r.out:sub(-8))
    assert.matches("^perfl: [%d,]+ records, 0 lost, 0 late", r.err)
  end)
end)
