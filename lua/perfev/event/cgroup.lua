--- Finds the directory of a cgroup by its path, and the path by the cgroup's id or a task, in the hierarchy that perf
-- events use.
-- That is cgroup v1's perf_event if it is mounted, else cgroup2, where perf_event is built in. The kernel enables
-- only one at a time (Documentation/admin-guide/cgroup-v2.rst, perf_event).

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

-- /proc/mounts writes blanks and backslashes of a mount point in octal.
local function unescape(text)
  return (text:gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end))
end

--- Lists the mounted cgroup hierarchies.
-- @treturn {table,...}  `path`, `version` (1 or 2), `perf` (perf events use it), `options`
-- @treturn ?table  the one that perf events use
function M.mounts()
  local list, v1, v2 = {}, nil, nil
  for path, kind, opts in (core.slurp("/proc/mounts") or ""):gmatch("%S+ (%S+) (%S+) (%S+)[^\n]*") do
    if kind == "cgroup" or kind == "cgroup2" then
      local mount = { path = unescape(path), version = kind == "cgroup" and 1 or 2, options = opts }
      list[#list + 1] = mount
      if kind == "cgroup" and (","..opts..","):find(",perf_event,", 1, true) then v1 = v1 or mount end
      if kind == "cgroup2" then v2 = v2 or mount end
    end
  end
  local used = v1 or v2
  if used then used.perf = true end
  return list, used
end

-- True for a path without "." and ".." parts and without control bytes.
local function is_path(path)
  if path == "" or path:find("[%c\127]") then return false end
  for part in path:gmatch("[^/]+") do
    if part == "." or part == ".." then return false end
  end
  return true
end

local function fail(path, why, remedy, code)
  return nil, ("cgroup '%s': %s\n  try: %s"):format(path, why, remedy), code
end

-- Returns the path with the first missing part replaced by the nearest existing name, or nil.
local function suggest(root, path)
  local dir = root
  for part in path:gmatch("[^/]+") do
    if not core.list(dir .. "/" .. part) then
      local names = {}
      for _, name in ipairs(core.list(dir) or {}) do
        if core.list(dir .. "/" .. name) then names[#names + 1] = name end
      end
      local near = core.nearest(part, names)
      return near and (dir .. "/" .. near):sub(#root + 2)
    end
    dir = dir .. "/" .. part
  end
end

--- Finds the directory of a cgroup.
-- @tparam string path  below the hierarchy's root ("system.slice/sshd.service"), with or without a first /, or the
--   absolute path of its directory
-- @treturn[1] string   the directory
-- @treturn[2] nil
-- @treturn[2] string   message with cause and remedy
-- @treturn[2] integer  errno
function M.find(path)
  local E = core.errno
  if not is_path(path) then
    return fail(path, "not a path below the cgroup root: it is empty or contains '.', '..' or a control byte",
      "system.slice/NAME.service", E.EINVAL)
  end
  local mounts, used = M.mounts()
  if not used then
    return fail(path, "no cgroup hierarchy for perf events is mounted (cgroup2, or cgroup with perf_event)",
      "sudo mount -t cgroup2 none /sys/fs/cgroup", E.ENOENT)
  end
  local root = used.path
  if (path .. "/"):sub(1, #root + 1) == root .. "/" then
    path = path:sub(#root + 2)
  else
    for _, mount in ipairs(mounts) do
      if (path .. "/"):sub(1, #mount.path + 1) == mount.path .. "/" then
        return fail(path, ("perf events use the hierarchy at %s, not this one (%s)"):format(root, mount.options),
          root .. path:sub(#mount.path + 1), E.EINVAL)
      end
    end
  end
  local below = path:gsub("^/+", ""):gsub("/+$", "")
  local dir = below == "" and root or root .. "/" .. below
  local ok, _, code = core.list(dir)
  if ok then return dir end
  local near = suggest(root, below)
  return fail(path, ("no such cgroup below %s%s"):format(root, check.meant(near)),
    near or "ls " .. root, code == E.EACCES and code or E.ENOENT)
end

-- Adds the paths of the cgroups below a directory, by id: the inode of the directory (cgroup_id(), include/linux/
-- cgroup.h, on a machine of 64 bits).
local function add_paths(paths, dir, below)
  local names, status = core.list(dir), core.stat(dir)
  if not names or not status then return end -- a file, or gone
  paths[status.ino] = below == "" and "/" or below
  for _, name in ipairs(names) do add_paths(paths, dir .. "/" .. name, below .. "/" .. name) end
end

--- Returns the paths of all cgroups that there are, by their ids, as samples have them.
function M.paths()
  local _, used = M.mounts()
  local paths = {}
  if used then add_paths(paths, used.path, "") end
  return paths
end

--- Returns the path of a task's cgroup, or nil.
function M.of_task(tid)
  local text = core.slurp(("/proc/%d/cgroup"):format(tid)) or ""
  local v1, v2
  for controllers, path in text:gmatch "%d+:([^:\n]*):([^\n]*)" do
    if controllers == "" then v2 = path end
    if (",%s,"):format(controllers):find(",perf_event,", 1, true) then v1 = path end
  end
  return v1 or v2
end

return M
