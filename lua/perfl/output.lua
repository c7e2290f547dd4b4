--- The output of a script: standard output, or the file of -o.
--
-- print does not flush, so that a line per record is not a system call per record. perfl flushes when it has nothing
-- to read (`check`, once per wakeup) and at the end.

local aggregator = require("perfev.base.lazy_module") "perfev.aggregate.aggregator"
local escape = require "perfev.base.escape"
local native = require "perfl.core"
local load_source = require "perfl.load_source"

local M = {}

local EPIPE = 32

local shown_name -- the file of -o, quoted; nil: standard output

local function print_to_output(...)
  local out, n = io.output(), select("#", ...)
  for i = 1, n do
    out:write(i > 1 and "\t" or "", tostring((select(i, ...))))
  end
  out:write("\n")
end

--- Replaces print by a buffered one.
function M.prepare()
  _G.print = print_to_output
end

local DEVICE, TYPE = 0x2000, 0xf000 -- S_IFCHR, S_IFMT
local ENXIO, ELOOP = 6, 40

-- Root does not write to a file of another user, who could read the output.
local function belongs_to_another(mode, uid)
  return native.euid == 0 and mode & TYPE ~= DEVICE and not load_source.is_ours(uid)
end

local function explain_failure(what, flag, why, code)
  local link = native.euid == 0 and code == ELOOP
  return ("cannot write the %s: %s%s"):format(what, escape(why), link and
    ("\nroot does not follow a symbolic link to write\ntry: %s with the path that the link leads to"):format(flag)
    or code == ENXIO and "\nno process reads this FIFO\ntry: start the reader first" or "")
end

--- Opens a file to write, and empties it; a new file has mode 0600.
-- @tparam string path
-- @tparam string what  its content, for messages
-- @tparam string flag  the option that names it
-- @treturn[1] file
-- @treturn[2] nil
-- @treturn[2] string
function M.open_file(path, what, flag)
  local file, mode, uid = native.open(path, "w")
  if not file then return nil, explain_failure(what, flag, mode, uid) end
  if belongs_to_another(mode, uid) then
    file:close()
    return nil, ("cannot write the %s: '%s' belongs to user %d, who could read it\ntry: %s with a new file")
      :format(what, escape(path), uid, flag)
  end
  local ok, why = native.truncate(file)
  if not ok then return nil, explain_failure(what, flag, why) end
  return file
end

--- Redirects print and io.write to a file.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.redirect(path)
  local file, why = M.open_file(path, "output", "-o")
  if not file then return nil, why end
  shown_name = ("'%s'"):format(escape(path))
  io.output(file)
  io.stdout = file -- luacheck: ignore 122 (scripts also use io.stdout directly)
  return true
end

--- Flushes the output, which shows whether a pipe still has a reader.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string   the message; nil when the reader of a pipe closed it
-- @treturn[2] integer  exit status
function M.check()
  local out = io.output()
  if io.type(out) ~= "file" then return true end -- the script closed it
  local ok, why, errno = native.flush(out)
  if ok then return true end
  if errno == EPIPE then return nil, nil, 141 end
  return nil, ("cannot write %s: %s"):format(shown_name or "standard output", why), 1
end

--- Prints the aggregators that the script has not read.
function M.print_unread()
  for i, one in ipairs(aggregator.unread()) do
    if i > 1 and aggregator.default_form ~= "json" then print() end
    one:print()
  end
end

return M
