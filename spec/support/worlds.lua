-- worlds.lua - runs perfl on a simulated kernel that the spec defines, for specs of scripts.
--
--   local machine = require "spec.support.worlds"(OPENING) -- Lua text; it makes the kernel `k`
--   machine.output(dir, MORE, "runqlat", ...)              -- what `perfl -q --sim ... -a runqlat ...` prints
--
-- MORE is what happens on it. The file lies in dir.

local assert = require "luassert"
local run = require "spec.support.run"

--- What perfl prints that has nothing to say besides.
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
