-- Recordings cross machines: a recording from the host (build/here.data, here.counts) reads the same in this guest.
-- A recording from this guest is returned with its counts (/out), and spec/vm/host/recordings_spec.lua compares them
-- with the host's own reading and with perf's.

local core = require "perfev.core"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local function counts(path, ...)
  local r = run({ "lua5.4", "spec/vm/counts.lua", path, ... },
    { env = { LUA_PATH = "lua/?.lua;lua/?/init.lua", LUA_CPATH = "build/?.so" } })
  assert.equal(0, r.code, r.err)
  return r.out
end

describe("a recording", function()
  it("from another machine has the same content here, with the names that it keeps", function()
    requires("guest")
    local there = core.slurp "build/here.counts"
    if not there then pending "none was made where the guest was started" end
    assert.equal(there, counts("build/here.data", "stacks", "/nonexistent"))
  end)

  it("from here is returned with its content", function()
    requires("guest", "root", "tracefs")
    local r = run { run.perfl, "record", "-o", "/out/run.data", "-e", "raw_syscalls:sys_enter,page-faults", "-c", "1",
                    "-g", "--", "ls", "-R", "spec" }
    assert.equal(0, r.code, r.err)
    local text = counts "/out/run.data"
    assert.matches("\nsample raw_syscalls:sys_enter ls %d", text)
    local file <close> = assert(io.open("/out/run.counts", "w"))
    file:write(text)
  end)
end)
