-- A guest's recordings, read on the host: perfev reads the same as in the guest, perf the same number of samples. VM:
-- the guest's name, VM_FILES: its output files (vm.sh).

local core = require "perfev.core"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local files, name = os.getenv "VM_FILES", os.getenv "VM"

describe(("a recording made by %s"):format(name or "a guest"), function()
  local there = files and core.slurp(files .. "/run.counts")

  it("has the same counts here", function()
    if not there then pending "none was given back" end
    local r = run({ "lua5.4", "spec/vm/counts.lua", files .. "/run.data" },
      { env = { LUA_PATH = "lua/?.lua;lua/?/init.lua", LUA_CPATH = "build/?.so" } })
    assert.equal(0, r.code, r.err)
    assert.equal(there, r.out)
  end)

  it("has as many samples to perf", function()
    if not there then pending "none was given back" end
    requires("program perf")
    local r = run { "perf", "report", "--stats", "-i", files .. "/run.data" }
    assert.equal(0, r.code, r.err)
    local function of(type) return tonumber(r.out:match("\n%s+" .. type .. " events:%s+(%d+)")) end
    for theirs, ours in pairs { SAMPLE = "sample", MMAP2 = "mmap2", COMM = "comm", EXIT = "exit" } do
      assert.equal(tonumber(there:match("record " .. ours .. " (%d+)")), of(theirs), theirs)
    end
  end)
end)
