-- The runner of spec files, and the helper that starts programs: which ends pass, fail, or cause a second run.

local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- A shell program that gets the number of its earlier runs.
local function program(name, text)
  local path = ("%s/%s"):format(dir, name)
  run.write_file(path, ('#!/bin/sh\ntimes=$(cat %s.times 2>/dev/null || echo 0)\necho $((times + 1)) > %s.times\n%s\n')
    :format(path, path, text))
  assert(os.execute("chmod 755 " .. path))
  return path
end

local SPEC = [[
case ${1##*/} in
fails) passed="2 passed, 1 failed, 0 skipped" status=1 ;;
leaks) passed="3 passed, 0 failed, 0 skipped" status=23 ;;
early) exit 3 ;;
unsteady) [ $times = 0 ] && passed="2 passed, 1 failed, 0 skipped" status=1; echo "run $times" ;;
dies) echo "==1==LeakSanitizer has encountered a fatal error."; [ $times = 0 ] && exit 1 ;;
esac
echo "${passed:=3 passed, 0 failed, 0 skipped}" >> $TALLY
exit $status]]

local function suite(...)
  os.remove(dir .. "/spec.times")
  return run({ "spec/support/suite.sh", program("spec", SPEC), ... }, { env = { JOBS = 1, UNSTEADY = dir .. "/kept" } })
end

describe("the suite", function()
  it("sums the results of its files, and prints the times of each", function()
    local r = suite("a", "b")
    assert.same({ 0, "a: 3 passed, 0 failed, 0 skipped (TIMES)\nb: 3 passed, 0 failed, 0 skipped (TIMES)\n"
      .. "6 passed, 0 failed, 0 skipped\n" }, { r.code, (r.out:gsub("%(%d+ s, %d+ s of CPU%)", "(TIMES)")) })
    r = suite("a", "fails")
    assert.equal(1, r.code)
    assert.matches("\n5 passed, 1 failed, 0 skipped\n$", r.out)
  end)

  it("fails if a file ends without its summary line, or with an error after it", function()
    local r = suite "early"
    assert.equal(1, r.code)
    assert.matches("FAILED: early ended early, with status 3\n0 passed, 1 failed, 0 skipped\n$", r.out)
    r = suite "leaks"
    assert.equal(1, r.code)
    assert.matches("FAILED: leaks ended with status 23\n3 passed, 1 failed, 0 skipped\n$", r.out)
  end)

  it("repeats a file in which LeakSanitizer died, and reports it", function()
    local r = suite "dies"
    assert.equal(0, r.code)
    assert.matches("this is the second run\n3 passed, 0 failed, 0 skipped\n$", r.out)
    assert.equal("2", run.capture(("cat %s/spec.times"):format(dir)))
  end)

  it("repeats a failed live file, and lists it as unsteady if it then passes", function()
    local r = suite("spec/live/unsteady", "a")
    assert.equal(0, r.code)
    local kept = dir .. "/kept/spec_live_unsteady."
    assert.matches("\nagain, alone: spec/live/unsteady\nspec/live/unsteady: 3 passed, 0 failed, 0 skipped .*\n"
      .. "unsteady: spec/live/unsteady failed, and passed alone; its outputs: " .. kept:gsub("%p", "%%%0")
      .. "1 and .2\n6 passed, 0 failed, 0 skipped\n$", r.out)
    assert.equal("run 0\n", run.slurp(kept .. "1"))
    assert.equal("run 2\n", run.slurp(kept .. "2"))
  end)

  it("counts a live file that fails twice as failed, and repeats no other file", function()
    local r = suite("spec/live/fails", "fails")
    assert.equal(1, r.code)
    assert.equal(1, select(2, r.out:gsub("again, alone: ", "")))
    assert.matches("\n4 passed, 2 failed, 0 skipped\n$", r.out)
    assert.is_nil(r.out:find("unsteady", 1, true))
  end)
end)

describe("a program started by a spec", function()
  it("is repeated a few times if a foreign tool crashes", function()
    local dying = 'echo "assertion failed at util/build-id.c:1010" >&2; [ $times -ge %d ] && exec echo alive; exit 134'
    local said = run.quote(program("perf", dying:format(2)))
    -- Runs in a separate process; returns its standard error.
    local text = 'package.path = "./?.lua;" .. package.path local run = require "spec.support.run" '
      .. 'local r = run(%q) print(r.code, r.out)'
    local r = run { "lua5.4", "-e", text:format(said) }
    assert.equal("0\talive\n\n", r.out)
    local again = "perf died %(assertion failed at util/build%-id%.c:1010%), and is run again"
    assert.equal(2, select(2, r.err:gsub(again, "")))
    said = run.quote(program("dead", dying:format(9)))
    assert.equal("134\t\n", run({ "lua5.4", "-e", text:format(said) }).out)
  end)

  it("makes the spec pending if perf crashes each time, but not if perfl made the recording", function()
    local said = run.quote(program("perf", 'echo "assertion failed at util/build-id.c:1010" >&2; exit 134'))
    local function pending_in(command)
      local ok, why = pcall(run, command)
      return not ok and why.message or nil
    end
    finally(function() run.perf_may_die = true end)
    local died = "perf died (assertion failed at util/build-id.c:1010), 3 times"
    assert.equal(died, pending_in(said .. " script"))
    run.perf_may_die = false
    assert.is_nil(pending_in(said .. " script"))
    assert.equal(died, pending_in(": perf record; " .. said))
  end)
end)
