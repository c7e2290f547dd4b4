-- A signal each millisecond while a million records are drained: no system call's EINTR costs a record or ends the
-- run, and the kernel's count equals delivered plus lost records.

local perfev = require "perfev"
local run = require "spec.support.run"

local RECORDS = 1000000

local function load_storm()
  local dir = run.tempdir()
  local r = run(("%s -O2 -std=gnu11 -shared -fPIC -o %s/storm.so spec/support/storm.c %s"):format(
    os.getenv "CC" or "gcc", dir, run.capture "pkg-config --cflags lua5.4"))
  assert(r.code == 0, r.err)
  local open = assert(package.loadlib(dir .. "/storm.so", "luaopen_storm"))
  run.remove(dir)
  return open()
end

describe("in a storm of signals", function()
  it("a million records are each delivered or counted as lost", function()
    if not run.root then pending "tracepoints need root" end
    local storm = load_storm()
    -- dd makes two system calls a block, and its input and output count no others of that size.
    local s = perfev.session { command = { "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=" .. RECORDS,
                                           "status=none" }, buffer = "16M" }
    local samples = 0
    s:event { "syscalls:sys_enter_write", filter = "count == 1", sample = function() samples = samples + 1 end }
    storm.begin()
    local ok, why = s:run()
    local signals = storm.finish()
    assert.is_true(ok, why)
    local stats = s:totals()
    print(("%d signals, %d samples, %d lost"):format(signals, samples, stats.lost))
    assert.same({ exit = 0 }, s.command_status)
    assert.is_true(signals > 10) -- signals that are pending together arrive as one
    assert.equal(RECORDS, samples + stats.lost)
  end)
end)
