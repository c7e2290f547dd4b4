--- Selects processes by user and by name.
-- A session selects once, when it starts: children that a selected process forks later are included, other new
-- processes are not. A session that watches the whole machine compares the name in each record instead (`patterns`).

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local core = require "perfev.core"
local rights = lazy "perfev.base.host_rights"

local M = {}

local COMM_MAX = 15 -- bytes: TASK_COMM_LEN without its NUL

--- Finds a user by name or number -> uid | nil, message, errno
function M.uid(user)
  local number = math.tointeger(tonumber(user))
  if number then return number end
  local names = {}
  for name, uid in ("\n" .. (core.slurp("/etc/passwd") or "")):gmatch("\n([^:\n]+):[^:\n]*:(%d+):") do
    if name == user then return math.tointeger(tonumber(uid)) end
    names[#names + 1] = name
  end
  local hint, near = check.hint(user, names)
  return nil, ("user '%s': no such user in /etc/passwd%s\n  try: %s"):format(user, hint,
    near or "the number that `id -u` gives"), core.errno.ENOENT
end

-- Returns a function that tests names. * and ? are wildcards; a plain name is cut as the kernel cuts names.
function M.matcher(pattern)
  if not pattern:find("[*?]") then pattern = pattern:sub(1, COMM_MAX) end
  local lua = pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
  return function(comm) return comm:find("^" .. lua .. "$") ~= nil end
end

--- Splits a list of names into patterns for fnmatch(3); a plain name is cut as the kernel cuts names.
-- @tparam string text  "nginx*,bash"
-- @treturn {string,...}
function M.patterns(text)
  local list = {}
  for name in text:gmatch("[^,]+") do
    list[#list + 1] = name:find("[*?%[]") and name or name:sub(1, COMM_MAX)
  end
  return list
end

-- -> comm, effective uid | nil: the process has ended, or cannot be read
local function read_status(pid)
  local status = core.slurp(("/proc/%d/status"):format(pid))
  local comm = core.slurp(("/proc/%d/comm"):format(pid))
  local uid = status and status:match("\nUid:%s*%d+%s+(%d+)")
  if not uid or not comm then return nil end
  return comm:gsub("\n$", ""), math.tointeger(tonumber(uid))
end

local function list_all()
  local names, what, code = core.list("/proc")
  if not names then return nil, ("cannot read %s: %s"):format(what, core.strerror(code)), code end
  local pids = {}
  for _, name in ipairs(names) do
    if name:find("^%d+$") then pids[#pids + 1] = math.tointeger(tonumber(name)) end
  end
  table.sort(pids)
  return pids
end

--- Describes a selection: "of the user www-data, named 'nginx*'"
function M.describe(opts)
  local words = {}
  if opts.uid then
    words[#words + 1] = ("of the user %s"):format(opts.uid)
  end
  if opts.comm then words[#words + 1] = ("named '%s'"):format(opts.comm) end
  return table.concat(words, ", ")
end

--- Selects processes among opts.pid, or among all but this one, by opts.uid and opts.comm.
-- @tparam table opts  `pid` (list), `uid` (number or name), `comm` (a name, or a pattern with * and ?)
-- @treturn[1] {integer,...}
-- @treturn[2] nil
-- @treturn[2] string   message with cause and remedy
-- @treturn[2] integer  errno
function M.select(opts)
  local uid, why, code
  if opts.uid then
    uid, why, code = M.uid(opts.uid)
    if not uid then return nil, why, code end
  end
  local pids = opts.pid
  if not pids then
    pids, why, code = list_all()
    if not pids then return nil, why, code end
  end
  local matches, own = opts.comm and M.matcher(opts.comm), core.pid()
  local found, comms = {}, {}
  for _, pid in ipairs(pids) do
    local comm, owner = read_status(pid == 0 and own or pid)
    if comm and (not uid or owner == uid) then
      if (not matches or matches(comm)) and (opts.pid or pid ~= own) then found[#found + 1] = pid end
      comms[#comms + 1] = comm
    end
  end
  if #found > 0 then return found end
  local hint, near = check.hint(opts.comm or "", comms)
  local unseen, remedy = rights.why_processes_are_hidden()
  return nil, ("no process %s%s%s%s\n  try: %s"):format(M.describe(opts), opts.pid and " among those of pid" or "",
    hint, unseen and ": " .. unseen or "",
    remedy or near or "ps -eo user,pid,comm"), core.errno.ESRCH
end

return M
