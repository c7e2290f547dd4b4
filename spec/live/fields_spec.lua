-- Fields as arguments on the real kernel have the values of the record, live and recorded.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- The same records by both ways, each event's in their own order.
local both = [[
local a, b = {}, {}
event { "raw_syscalls:sys_enter", fields = { "time", "tid", "cpu", "comm", "args.id", "args.args" },
  sample = function(time, tid, cpu, comm, id, list)
    a[#a + 1] = table.concat({ tid, cpu, comm, id, list[1], list[6] }, " ")
    assert(time > 0)
  end }
event { "raw_syscalls:sys_enter", sample = function(r, args)
  b[#b + 1] = table.concat({ r.tid, r.cpu, r.comm, args.id, args.args[1], args.args[6] }, " ")
end }
done(function()
  assert(#a == #b, #a .. " and " .. #b)
  for i, line in ipairs(a) do assert(line == b[i], line) end
  print(#a)
end)]]

local function output(...)
  local r = run { run.perfl, "-q", ... }
  assert.equal(0, r.code, r.err)
  return r.out
end

describe("the fields on the real kernel", function()
  it("have the values of the record, for a command", function()
    requires("root", "tracefs")
    assert.is_true(tonumber(output("-e", both, "--", "true")) > 20)
  end)

  it("have the same values in a recording", function()
    requires("root", "tracefs")
    local dir = run.tempdir()
    local path = dir .. "/a.data"
    local r = run { run.perfl, "record", "-o", path, "-e", "raw_syscalls:sys_enter", "--", "true" }
    assert.equal(0, r.code, r.err)
    local n = tonumber(output("-i", path, "-e", both))
    run.remove(dir)
    assert.is_true(n > 20)
  end)

  it("that need no task request samples without one, and these arrive", function()
    requires("root", "tracefs")
    local out = output("-e", [[
      local n, ev = 0
      ev = event { "raw_syscalls:sys_enter", fields = { "cpu", "args.id" }, sample = function(cpu, id)
        if cpu >= 0 and id >= 0 then n = n + 1 end
      end }
      done(function() print(n > 20, ev.attr.sample_type) end)]], "--", "true")
    assert.equal(("true\t%d\n"):format(1 << 16 | 1 << 10 | 1 << 7 | 1 << 2), out)
  end)
end)
