-- Out of memory at any allocation of a script that uses the whole interface: no descriptor stays open, no block leaks,
-- and everything works once memory is back. spec/support/host.c refuses the memory, in one child for each allocation.
--
-- This spec runs a sample. To run all: host --starve once 1 1 spec/support/whole_api.lua. With "after" no memory comes
-- back, and a hook without room on the stack cannot be called, not even to close: then one descriptor of the simulated
-- kernel may stay open.

local run = require "spec.support.run"

local dir = setmetatable({ path = run.tempdir() }, { __gc = function(self) run.remove(self.path) end })
local where = run.perfl:match "^(.*)/"

-- The sanitizers' build has its host; elsewhere it is linked from the built objects.
local function build_host()
  if run.sanitized then return where .. "/host" end
  local path = dir.path .. "/host"
  local flags = run.capture "pkg-config --cflags --libs lua5.4"
  local line = ("%s -O2 -std=gnu11 -o %s spec/support/host.c %s %s"):format(os.getenv "CC" or "gcc", path,
    run.quote(where .. "/perfev/core.so"), flags)
  local r = run(line)
  assert(r.code == 0, r.err)
  return path
end

local host

local function starve(mode, first, step, script)
  host = host or build_host()
  local r = run({ host, "--starve", mode, tostring(first), tostring(step), script or "spec/support/whole_api.lua" },
    { env = { ASAN_OPTIONS = "detect_leaks=1" } })
  print((r.out:match "[^\n]*\n$" or r.err):sub(1, -2))
  return r.code == 0 and "" or r.out .. r.err, tonumber(r.out:match "(%d+) refused")
end

describe("a script that uses everything", function()
  local step = run.sanitized and 331 or 149

  it("loses nothing if the n-th allocation and its retry by Lua fail", function()
    local wrong, refused = starve("once", 7, step)
    assert.equal("", wrong)
    assert.is_true(refused >= 4000 // step)
  end)

  it("loses nothing if all garbage is also collected before each allocation", function()
    assert.equal("", (starve("collect", 1, 1)))
  end)
end)

describe("a merge, a delta, a clear() and a pack", function()
  it("change nothing if memory runs out, and have all values afterwards", function()
    local wrong, refused = starve("once", 1, run.sanitized and 23 or 11, "spec/support/starved_merges.lua")
    assert.equal("", wrong)
    assert.is_true(refused >= 20)
  end)
end)
