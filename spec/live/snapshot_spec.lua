-- Backward rings on the real kernel: the last records stay, whole and in order. Needs root and tracefs.

local perfev = require "perfev"
local core = require "perfev.core"
local run = require "spec.support.run"

local PRCTL = "syscalls:sys_enter_prctl"
local FIRST = 1000000 -- prctl options that no kernel knows: each call has its own number

local why_not = not run.root and "not root"
  or not core.slurp "/sys/kernel/tracing/events/syscalls/sys_enter_prctl/id"
    and "no tracefs with syscall tracepoints"
  or not run.have(os.getenv "CC" or "gcc") and "no C compiler"

local program = [[
#include <stdlib.h>
#include <sys/prctl.h>
int main(int argc, char **argv)
{
	for (long n = 0; n < atol(argv[1]); n++)
		prctl(1000000 + n, 0, 0, 0, 0);
	return 0;
}
]]

describe("a backward ring", function()
  if why_not then
    pending("keeps the last records: " .. why_not)
    return
  end

  local dir, path

  setup(function()
    dir = run.tempdir()
    path = dir .. "/calls"
    run.write_file(path .. ".c", program)
    run.capture(("%s -O1 -o %s %s.c"):format(os.getenv "CC" or "gcc", path, path))
  end)

  teardown(function() run.remove(dir) end)

  -- The numbers of the calls that a snapshot at the end gives.
  local function kept(n, buffer, twice)
    local numbers = {}
    local cpu = core.slurp("/proc/self/status"):match "Cpus_allowed_list:%s*(%d+)"
    local s = perfev.session { command = { "taskset", "-c", cpu, path, tostring(n) }, overwrite = true,
                               buffer = buffer }
    s:event { PRCTL, filter = "option >= " .. FIRST, sample = function(_, args)
      numbers[#numbers + 1] = args.option - FIRST
    end }
    s:done(function()
      assert.equal(0, #numbers)
      local first = assert(s:snapshot())
      assert.equal(first, #numbers)
      if twice then assert.equal(first, s:snapshot()) end
    end)
    assert(s:run())
    return numbers, s:totals()
  end

  it("of one page keeps the last calls of a thousand, in order and without a gap", function()
    local numbers, stats = kept(1000, "4K")
    -- Samples of one size: as many as fit a page.
    assert.is_true(#numbers >= 25 and #numbers <= 64, #numbers)
    for i, number in ipairs(numbers) do assert.equal(1000 - #numbers + i - 1, number) end
    assert.equal(0, stats.corrupt)
    assert.equal(0, stats.malformed)
    assert.equal(0, stats.lost)
  end)

  it("that was never full returns all of them, and the second snapshot returns them again", function()
    local numbers = kept(20, "64K", true)
    assert.equal(40, #numbers)
    for i = 1, 20 do
      assert.equal(i - 1, numbers[i])
      assert.equal(i - 1, numbers[20 + i])
    end
  end)

  it("returns nothing if there was no record", function()
    assert.same({}, (kept(0, "4K")))
  end)

  it("is read when the callback of another event calls snapshot()", function()
    local numbers, asked = {}, nil
    local s = perfev.session { command = { path, "10" }, buffer = "16K" }
    s:event { PRCTL, filter = "option >= " .. FIRST, write_backward = true, sample = function(_, args)
      numbers[#numbers + 1] = args.option - FIRST
    end }
    s:event { "syscalls:sys_enter_exit_group", sample = function() asked = s:snapshot() end }
    assert(s:run())
    assert.equal(0, asked)
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, numbers)
  end)

  it("requires a session that was started", function()
    local s <close> = perfev.session { command = { "true" } }
    s:event { "dummy" }
    assert.error_matches(function() s:snapshot() end, "session: it is not open; start%(%) it first")
    assert(s:start())
    assert.error_matches(function() s:snapshot() end, "needs an event with write_backward")
  end)

  it("is printed by flightrec when its trigger fires, newest record last", function()
    local got = run({ run.perfl, "-q", "-m", "4K", "flightrec", "--trigger", "syscalls:sys_enter_exit_group",
                      PRCTL, "--", path, "500" })
    assert.equal(0, got.code)
    local lines = {}
    for line in got.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.matches("^%-%- syscalls:sys_enter_exit_group: error_code: 0x0", lines[1])
    assert.matches(("option: 0x%08x"):format(FIRST + 499), lines[#lines])
    assert.is_true(#lines > 20)
  end)
end)
