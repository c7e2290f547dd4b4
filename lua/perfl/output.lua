--- Where a script's text goes: standard output, or the file of -o.
--
-- print does not flush, so that a line per record is not a system call per record; perfl
-- flushes when it has nothing to read (`check`, once per wakeup) and at the end.

local escape = require "perfev.base.escape"
local native = require "perfl.core"
local source = require "perfl.load_source"

local M = {}

local EPIPE = 32

local shown_name -- of -o's file; nil: standard output

local function print_to_output(...)
  local out, n = io.output(), select("#", ...)
  for i = 1, n do
    out:write(i > 1 and "\t" or "", tostring((select(i, ...))))
  end
  out:write("\n")
end

--- Buffered print; nothing else changes until `redirect`.
function M.prepare()
  _G.print = print_to_output
end

local DEVICE, TYPE = 0x2000, 0xf000 -- S_IFCHR, S_IFMT
local ENXIO, ELOOP = 6, 40

-- Root's output goes into no file of another user: they could read it.
local function belongs_to_another(mode, uid)
  return native.euid == 0 and mode & TYPE ~= DEVICE and not source.is_ours(uid)
end

local function explain(why, code)
  local link = native.euid == 0 and code == ELOOP
  return ("cannot write the output: %s%s"):format(escape(why), link and
    "\nroot writes through no symbolic link\ntry: -o with the path that the link leads to"
    or code == ENXIO and "\nit is a FIFO that no process reads\ntry: start the reader first" or "")
end

--- Send print and io.write to a file; a new one has mode 0600.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.redirect(path)
  local file, mode, uid = native.open(path, "w")
  if not file then return nil, explain(mode, uid) end
  if belongs_to_another(mode, uid) then
    file:close()
    return nil, ("cannot write the output: '%s' belongs to user %d, who could read it\ntry: -o with a new file"):format(
      escape(path), uid)
  end
  local ok, why = native.truncate(file)
  if not ok then return nil, explain(why) end
  file:setvbuf("full", 1 << 16)
  shown_name = ("'%s'"):format(escape(path))
  io.output(file)
  io.stdout = file -- luacheck: ignore 122 (scripts write there by name, too)
  return true
end

--- Flush, and find out whether anybody still reads.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string   what is wrong; nil when the reader of a pipe has gone
-- @treturn[2] integer  exit status
function M.check()
  local out = io.output()
  if io.type(out) ~= "file" then return true end -- the script closed it, that is its affair
  local ok, why, errno = native.flush(out)
  if ok then return true end
  if errno == EPIPE then return nil, nil, 141 end
  return nil, ("cannot write %s: %s"):format(shown_name or "standard output", why), 1
end

return M
