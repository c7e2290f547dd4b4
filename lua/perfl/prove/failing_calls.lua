--- The errnos that each system call of perfl may return, from its man page and from the kernel's code of perf events.

local M = {}

local errnos = {
  perf_event_open = "E2BIG EACCES EBADF EBUSY EINVAL EINTR EMFILE ENFILE ENODEV ENOENT ENOMEM ENOSPC ENOSYS EOPNOTSUPP "
    .. "EOVERFLOW EPERM ESRCH",
  mmap = "EACCES EAGAIN EINVAL ENFILE ENODEV ENOMEM EPERM EBUSY", munmap = "EINVAL",
  ["ioctl ENABLE"] = "EINVAL EBADF ENOTTY", ["ioctl DISABLE"] = "EINVAL EBADF", ["ioctl ID"] = "EFAULT ENOTTY EINVAL",
  ["ioctl SET_FILTER"] = "EINVAL ENOMEM ENOENT EPERM", ["ioctl SET_OUTPUT"] = "EINVAL EBADF",
  ["ioctl RESET"] = "EINVAL", ["ioctl REFRESH"] = "EINVAL", ["ioctl PERIOD"] = "EINVAL",
  ["ioctl PAUSE_OUTPUT"] = "EINVAL", ["ioctl SET_BPF"] = "EINVAL EEXIST", ["ioctl QUERY_BPF"] = "EPERM EINVAL",
  epoll_create = "EINVAL EMFILE ENFILE ENOMEM", epoll_ctl = "EBADF EEXIST EINVAL ENOENT ENOMEM ENOSPC EPERM",
  epoll_wait = "EINTR EBADF EINVAL", read = "EINTR EIO EAGAIN EBADF EINVAL ENOSPC", close = "EINTR EIO",
  timerfd = "EINVAL EMFILE ENFILE ENODEV ENOMEM", signalfd = "EINVAL EMFILE ENFILE ENODEV ENOMEM",
  open = "EACCES EINTR EMFILE ENFILE ENOENT ENOMEM EPERM EIO", slurp = "EACCES EMFILE ENFILE ENOENT ENOMEM EPERM EIO",
  list = "EACCES EMFILE ENFILE ENOENT ENOMEM", readlink = "EACCES EINVAL EIO ENOENT ENOMEM",
  stat = "EACCES ENOENT ENOMEM", fstat = "EBADF ENOMEM", pread = "EINTR EIO EINVAL",
  writev = "EINTR EIO ENOSPC EDQUOT EFBIG",
  pwrite = "EINTR EIO ENOSPC EDQUOT EFBIG", ftruncate = "EINTR EIO EINVAL", rename = "EACCES ENOENT ENOSPC EROFS",
  unlink = "EACCES ENOENT EROFS", append = "EACCES EBUSY EEXIST EINVAL ENOENT ENOMEM EPERM",
  spawn = "EAGAIN ENOMEM EMFILE", release = "EBADF EPIPE", wait = "ECHILD EINTR", kill = "EPERM ESRCH",
  pidfd_open = "EINVAL EMFILE ENFILE ENODEV ENOMEM ESRCH ENOSYS", fcntl = "EBADF EINVAL EPERM",
  directory = "EACCES ENOENT EMFILE",
}

-- Failures after which the run must go on as if nothing had happened.
local harmless = { ["epoll_wait EINTR"] = true }

-- The first `from` ones, and as many of the others as there is room for, evenly spread.
local function spread(list, from, most)
  local count, short = #list - from, table.move(list, 1, from, 1, {})
  local room = math.min(count, math.max(0, most - from))
  for i = 1, room do short[from + i] = list[from + (i - 1) * count // room + 1] end
  return short
end

--- The failures to try: { call =, nth =, errno =, harmless = }, each once. That of the first call with its first errno
-- is among them for each call, also if there are more calls than `most`; the others are spread evenly.
-- @tparam table calls  name -> how often a run without failures made it
-- @tparam integer nth_max
-- @tparam integer most
function M.list(calls, nth_max, most)
  local names, list = {}, {}
  for name in pairs(calls) do
    if errnos[name] then names[#names + 1] = name end
  end
  table.sort(names)
  local function add(name, nth, errno)
    if nth > calls[name] then return end
    list[#list + 1] = { call = name, nth = nth, errno = errno, harmless = harmless[name .. " " .. errno] }
  end
  for _, name in ipairs(names) do add(name, 1, errnos[name]:match "%S+") end
  local nr_calls = #list
  for nth = 1, nth_max do
    for _, name in ipairs(names) do
      for errno in errnos[name]:gmatch "%S+" do
        if nth > 1 or errno ~= errnos[name]:match "%S+" then add(name, nth, errno) end
      end
    end
  end
  return spread(list, nr_calls, most)
end

return M
