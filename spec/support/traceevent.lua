-- traceevent.lua - builds and loads traceevent.c: libtraceevent, to compare printed payloads.
--
--   local traceevent, why_not = require("spec.support.traceevent").load()
--   traceevent.print(format, bytes, symbols)

local run = require "spec.support.run"

local M = {}

-- libtraceevent ends a string at a tab.
local function escape_tabs(text)
  return (text:gsub("print fmt: .*", function(print_format) return (print_format:gsub("\t", "\\t")) end))
end

-- Names that libtraceevent treats specially: ftrace's own events.
local function rename(text) return (text:gsub("^name: [^\n]*", "name: event")) end

--- Builds and loads it.
-- @treturn[1] table  `print(format, bytes, symbols)`: a text, or nil for a format that libtraceevent refuses
-- @treturn[2] nil
-- @treturn[2] string  why it cannot be built here
function M.load()
  if run.sanitized then return nil, "libtraceevent 1.7.1 itself reads freed memory, where the sanitizers end it" end
  local flags = run.capture "pkg-config --cflags --libs lua5.4 libtraceevent 2>/dev/null"
  if not flags then return nil, "libtraceevent-dev is not installed" end
  local dir, cc = run.tempdir(), os.getenv "CC" or "gcc"
  if not run.have(cc) then return nil, "no C compiler" end
  local path = dir .. "/traceevent.so"
  local built = run(("%s -shared -fPIC -o %s spec/support/traceevent.c %s"):format(cc, path, flags))
  assert(built.code == 0, built.err)
  local module = assert(package.loadlib(path, "luaopen_traceevent"))()
  run.remove(dir)
  return { print = function(format, ...) return module.print(rename(escape_tabs(format)), ...) end }
end

return M
