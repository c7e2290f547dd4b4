-- process.lua - builds and loads process.c: fork(2), wait(2) and poll(2), which stock Lua lacks.
--
--   local process, why_not = require("spec.support.process").load()

local run = require "spec.support.run"

local M = {}

--- Builds it in a directory.
-- @treturn[1] string  the library's path, for package.loadlib(path, "luaopen_process")
-- @treturn[2] nil
-- @treturn[2] string  why it cannot be built here
function M.build(dir)
  local flags = run.capture "pkg-config --cflags lua5.4 2>/dev/null"
  if not flags then return nil, "no headers of Lua to build spec/support/process.c with" end
  local path, cc = dir .. "/process.so", os.getenv "CC" or "gcc"
  if not run.have(cc) then return nil, "no C compiler" end
  local built = run(("%s -shared -fPIC %s -o %s spec/support/process.c"):format(cc, flags, path))
  assert(built.code == 0, built.err)
  return path
end

--- Builds and loads it.
-- @treturn[1] table  the module
-- @treturn[2] nil
-- @treturn[2] string  why it cannot be built here
function M.load()
  local dir = run.tempdir()
  local path, why = M.build(dir)
  local open = path and assert(package.loadlib(path, "luaopen_process"))
  run.remove(dir)
  if not open then return nil, why end
  return open()
end

return M
