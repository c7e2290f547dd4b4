--- Opens the files in which JIT compilers name their functions: perf-PID.map and jit-PID.dump.
-- Every user can create a file of such a name. It is used only if it belongs to root, to the user of the process or to
-- the caller; it must be a regular file of bounded size, and a symbolic link is not followed.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local files = require "perfev.symbol.files"

local M = {}

local E = core.errno

--- A process names its files by its pid in its own pid namespace, and files that it creates belong to its fsuid.
-- @treturn[1] string   that pid
-- @treturn[1] integer  fsuid
-- @treturn[2] nil      the process is gone
function M.status_of(pid)
  local status = core.slurp(("/proc/%d/status"):format(pid)) or ""
  return status:match "NSpid:[^\n]-(%d+)\n", tonumber(status:match "\nUid:%s*%d+%s+%d+%s+%d+%s+(%d+)")
end

local is_removable = { [E.EPERM] = true, [E.ELOOP] = true, [E.EINVAL] = true }

local function report(path, why, code, owner, note)
  if code == E.EPERM then
    why = ("%s, and %s"):format(why, owner and "the process to user " .. owner or "the process is gone")
  end
  path = escape(path)
  note(("%s is not used: %s%s"):format(path, why, is_removable[code] and "\n  try: rm " .. path or ""))
end

--- Opens such a file. A refusal is reported by note(text), a missing file is not.
-- @tparam string path
-- @tparam ?integer owner  the user of the process
-- @tparam table rule      for core.file: `max`, `ino`
-- @tparam function note
-- @treturn ?file
function M.open(path, owner, rule, note)
  local file, why, code = core.file(path, { nofollow = true, max = rule.max, ino = rule.ino,
    owners = files.owners(owner) })
  if not file and code ~= E.ENOENT and code ~= E.ENOTDIR then report(path, why, code, owner, note) end
  return file
end

return M
