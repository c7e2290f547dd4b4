--- The files of descriptors: from the calls that were seen, and from /proc.
--
-- /proc has the file of now, not of the call. An early event looks it up and notes each change of a descriptor. In the
-- order of time a record comes at least 10 ms later (PEV_GAP_NS of src/live/session.h), when all changes up to its
-- lookup are known. So a lookup counts if it was fast enough and the descriptor did not change before it.

local core = require "perfev.core"
local early_facts = require "perfev.live.early_facts"
local formats = require "perfev.tool.system_calls.call_formats"
local session = require "perfev.live.session"
local syscalls = require "perfev.tracepoint.syscalls"

local LATE = 5000000 -- ns from a call to its lookup
local MONOTONIC = 1
local AT_FDCWD, to_int = formats.AT_FDCWD, formats.to_int
local ALL = "all" -- in the place of a descriptor: each may have changed

local opens = { open = true, openat = true, openat2 = true, creat = true }
local copies = { dup = true, dup2 = true, dup3 = true }
local makes = { socket = true, accept = true, accept4 = true, epoll_create = true, epoll_create1 = true,
  eventfd = true, eventfd2 = true, memfd_create = true, inotify_init = true, inotify_init1 = true,
  timerfd_create = true, signalfd = true, signalfd4 = true, pidfd_open = true }
local changes_many = { close_range = true, pipe = true, pipe2 = true, socketpair = true, unshare = true,
  recvmsg = true, fcntl = true }

local function makes_descriptor(name) return opens[name] or copies[name] or makes[name] end

-- ---- when descriptors changed, as far as records were read ----

local function new_changes()
  local by_pid, M = {}, {}

  function M.add(pid, fd, time)
    local of_process = by_pid[pid] or {}
    local list = of_process[fd] or {}
    by_pid[pid], of_process[fd] = of_process, list
    list[#list + 1] = time
  end

  -- The questions are in the order of time, so earlier changes are not needed again.
  local function has_between(list, from, to)
    while list and list[1] and list[1] <= from do table.remove(list, 1) end
    return list and list[1] and list[1] <= to
  end

  --- Returns true if the descriptor changed after `from` and not after `to`.
  function M.has(pid, fd, from, to)
    local of_process = by_pid[pid] or {}
    return has_between(of_process[fd], from, to) or has_between(of_process[ALL], from, to) or false
  end

  function M.forget(pid) by_pid[pid] = nil end

  return M
end

local function read_file(tid, fd)
  local place = fd == AT_FDCWD and "cwd" or fd >= 0 and ("fd/%d"):format(fd)
  return place and core.readlink(("/proc/%d/%s"):format(tid, place)) or nil
end

-- ---- the two events that look up ----

local function start_lookups(changes)
  local clock = session.default().opts.clock or MONOTONIC

  local function look_up(r, descriptors)
    local fact = { pid = r.pid, time = r.time, files = {} }
    if core.clock(clock) - r.time > LATE then return fact end
    for _, fd in ipairs(descriptors) do fact.files[fd] = read_file(r.tid, fd) end
    fact.read = core.clock(clock)
    return fact.read - r.time <= LATE and fact or { pid = r.pid, time = r.time, files = {} }
  end

  local take_enter = early_facts({ "raw_syscalls:sys_enter" }, function(r, args)
    local name, values, descriptors = syscalls.name(args.id), args.args, {}
    if name == "close" then changes.add(r.pid, to_int(values[1]), r.time) end
    if name == "dup2" or name == "dup3" then changes.add(r.pid, to_int(values[2]), r.time) end
    if name == "chdir" or name == "fchdir" then changes.add(r.pid, AT_FDCWD, r.time) end
    if changes_many[name] then changes.add(r.pid, ALL, r.time) end
    for i, argument in ipairs(formats.arguments(name) or {}) do
      if formats.is_descriptor(name, argument) then descriptors[#descriptors + 1] = to_int(values[i]) end
    end
    return descriptors[1] and look_up(r, descriptors)
  end)

  local take_exit = early_facts({ "raw_syscalls:sys_exit" }, function(r, args)
    local name, fd = syscalls.name(args.id), args.ret
    if name == "execve" or name == "execveat" or changes_many[name] then changes.add(r.pid, ALL, r.time) end
    if fd < 0 or not makes_descriptor(name) then return nil end
    changes.add(r.pid, fd, r.time)
    return look_up(r, { fd })
  end)

  return take_enter, take_exit
end

-- ---- the files, in the order of time ----

--- Follows the descriptors of the session's tasks.
-- @tparam function find_path  f(tid, address) -> ?string
return function(find_path)
  local s, known, changes = session.default(), {}, new_changes() -- known by process and descriptor
  local take_enter, take_exit
  if not s.opts.input then take_enter, take_exit = start_lookups(changes) end
  local M = {}

  local function files_of(pid)
    known[pid] = known[pid] or {}
    return known[pid]
  end

  -- Takes the files of a lookup that were those of its call.
  local function learn(fact)
    for fd, file in pairs(fact and fact.files or {}) do
      if not changes.has(fact.pid, fd, fact.time, fact.read) then files_of(fact.pid)[fd] = file end
    end
  end

  --- A call begins.
  function M.enter(tid, time)
    if take_enter then learn(take_enter(tid, time)) end
  end

  --- A call returns, and is not printed yet.
  -- @treturn ?string  the file of its new descriptor; "?": unknown
  function M.leave(tid, time, call, result)
    local fact = take_exit and take_exit(tid, time)
    if result < 0 or not makes_descriptor(call.name) then return nil end
    local files, values = files_of(call.pid), call.values
    local address = opens[call.name] and values[call.name:find "^openat" and 2 or 1]
    files[result] = copies[call.name] and files[to_int(values[1] or -1)] or address and find_path(tid, address) or nil
    learn(fact)
    return M.find(call.pid, result)
  end

  --- A call was printed.
  function M.forget(call)
    local files, values = files_of(call.pid), call.values
    if call.name == "close" and values[1] then files[to_int(values[1])] = nil end
    if call.name == "chdir" or call.name == "fchdir" then files[AT_FDCWD] = nil end
    if changes_many[call.name] or call.name == "execve" then known[call.pid] = nil end
  end

  --- Returns the file of a process's descriptor, "?" if it is unknown.
  function M.find(pid, fd) return files_of(pid)[fd] or "?" end

  s:event {
    fork = function(r)
      if r.pid == r.ppid then return end
      known[r.pid] = {}
      for fd, file in pairs(known[r.ppid] or {}) do known[r.pid][fd] = file end
    end,
    exit = function(r)
      if r.pid == r.tid then
        known[r.pid] = nil
        changes.forget(r.pid)
      end
    end,
  }
  return M
end
