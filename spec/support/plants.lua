-- plants.lua - the program of planted calls (plants.c), and what the specs that count its calls need.

local core = require "perfev.core"
local run = require "spec.support.run"
local skip = require "spec.support.skip"

local M = {}

M.has_tracefs = core.slurp "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id" ~= nil

-- -> busted's `it`, pending on a machine that cannot count the calls
function M.it_with_calls(it)
  return skip(it, function()
    if not M.has_tracefs then pending "system calls need root and tracefs" end
    if core.machine ~= "x86_64" then pending "the names of the calls are those of x86_64" end
  end)
end

-- Builds the program and its library in a folder -> the program's path
function M.build(dir)
  local cc, program = os.getenv "CC" or "gcc", dir .. "/plants"
  local built = run(("%s -shared -fPIC -O1 -DLIBRARY -o %s/libplants.so spec/support/plants.c && "
    .. "%s -O1 -fno-optimize-sibling-calls -o %s spec/support/plants.c -pthread -L%s -lplants -Wl,-rpath,%s")
    :format(cc, dir, cc, program, dir, dir))
  assert(built.code == 0, built.err)
  return program
end

return M
