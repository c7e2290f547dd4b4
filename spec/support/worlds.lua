-- worlds.lua - runs perfl on a spec's own simulated kernel, for specs of scripts.
--
--   local machine = require "spec.support.worlds"(OPENING) -- Lua text that makes the kernel `k`
--   machine.output(dir, MORE, "runqlat", ...)              -- what `perfl -q --sim ... -a runqlat ...` prints
--
-- MORE is Lua text that makes events happen on it. The file is written to dir.

local assert = require "luassert"
local run = require "spec.support.run"

--- The output of perfl when it has no records to print.
local function quiet(...)
  local r = run { run.perfl, "-q", ... }
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

return function(opening)
  local function path(dir, more)
    local name = dir .. "/world.lua"
    local file <close> = assert(io.open(name, "w"))
    file:write(opening, more, "\nreturn k\n")
    return name
  end
  local function output(dir, more, ...) return quiet("--sim", path(dir, more), "-a", ...) end
  return { quiet = quiet, path = path, output = output }
end
